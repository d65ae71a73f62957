! steps.F90: steps.c in Fortran: the same steps, the same options, the same last line.
program steps
  use mpi
  use byssus
  use, intrinsic :: iso_fortran_env, only: error_unit
  use, intrinsic :: iso_c_binding, only: c_int
  implicit none
  interface
    function c_raise(signal) bind(c, name='raise') result(r)
      import :: c_int
      integer(c_int), value :: signal
      integer(c_int) :: r
    end function
    function c_usleep(us) bind(c, name='usleep') result(r)
      import :: c_int
      integer(c_int), value :: us
      integer(c_int) :: r
    end function
  end interface

  type :: state_type
    integer(int64) :: step = 77, sum = 77
  end type
  type(state_type), target :: state
  integer(int64), allocatable, target :: cells(:, :) ! of two columns, which are two regions
  integer(int64) :: last = 10, every = 1, bytes = 1000, ms = 0, keep = 1, die(3) = [-1, 0, 0], tag = 0, mine, all
  character(200) :: until = ''
  logical :: restored = .false.
  integer :: rank, ranks, error, result, n, i, ids(3), found
  integer(int64) :: lengths(4)
  integer, target :: other = 5
  type(bys_desc) :: d
  type(bys_region) :: regions(4)

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call options()
  n = int(bytes + rank * 8) / 8 + 1
  found = 0
  if (every <= last .and. mod(rank, 2) == 1) call look()
  allocate (cells((n + 1) / 2, 2))
  cells = -1
  regions = [bys_track(bys_region(7, cells(:, 1))), bys_handover(bys_region(8, cells(:, 2:2))), &
             bys_region(1, c_loc(state), storage_size(state) / 8_int64), bys_leave(bys_region(4, other))]
  result = BYS_NOTHING
  if (every <= last) call bys_restore(d, regions, bys_group(rank, ranks), tag, result)
  if (result < 0) call fail('restore')
  if (result == BYS_NOTHING) then
    state = state_type(0, 0)
    do i = 1, n
      call put(i, mix(rank * 1000003_int64 + i - 1))
    end do
  else
    restored = .true.
    if (state%step /= tag) call fail('tag')
    if (other /= 5) call fail('leave')
    if (rank == 0) write (error_unit, '(a,i0)') 'steps: restored at step ', tag
  end if
  other = 6
  do while (state%step < last)
    state%step = state%step + 1
    mine = 0
    do i = 1, n
      call put(i, mix(get(i) + state%step))
      mine = mine + get(i)
    end do
    call MPI_Allreduce(mine, all, 1, MPI_INTEGER8, MPI_BXOR, MPI_COMM_WORLD, error)
    state%sum = mix(state%sum + all)
    call put(1, get(1) + all)
    if (ms > 0) error = c_usleep(int(ms, c_int) * 1000_c_int)
    call wait_for_the_end()
    if (mod(state%step, every) == 0) call snapshot()
  end do
  mine = 0
  do i = 1, n
    mine = ieor(mine, mix(get(i)))
  end do
  call MPI_Allreduce(mine, all, 1, MPI_INTEGER8, MPI_BXOR, MPI_COMM_WORLD, error)
  if (rank == 0) write (*, '(a,i0,a,i0,a,a,a,a)') 'step ', state%step, ' of ', last, ': ', hex(all), ' ', hex(state%sum)
  result = BYS_OK
  if (every <= last) call bys_finish(d, keep /= 0, result)
  if (result /= BYS_OK) call fail('finish')
  call MPI_Finalize(error)

contains

  ! What there is in the newest snapshot: as many cells as this rank has, in two regions.
  subroutine look()
    call bys_look(d, bys_group(rank, ranks), ids, lengths, found, tag, result, 50)
    do while (result == BYS_TIMEOUT)
      call bys_look(d, bys_group(rank, ranks), ids, lengths, found, tag, result, 50)
    end do
    if (result < 0) call fail('look')
    if (result == BYS_NOTHING .and. found /= 0) call fail('look: nothing')
    if (result == BYS_OK .and. (found /= 4 .or. any(ids /= [7, 8, 1]) .or. &
                                any(lengths(:3) /= [(n + 1) / 2 * 8, (n + 1) / 2 * 8, 16]))) call fail('look: other regions')
  end subroutine

  integer(int64) function get(i)
    integer, intent(in) :: i
    get = cells((i + 1) / 2, 2 - mod(i, 2))
  end function

  subroutine put(i, value)
    integer, intent(in) :: i
    integer(int64), intent(in) :: value
    cells((i + 1) / 2, 2 - mod(i, 2)) = value
  end subroutine

  integer(int64) function mix(value)
    integer(int64), intent(in) :: value
    integer(int64) :: x
    x = ieor(value, shiftr(value, 31)) * int(z'7fb5d329728ea185', int64)
    x = ieor(x, shiftr(x, 27)) * ior(shiftl(int(z'81dadef4', int64), 32), int(z'bc2dd44d', int64))
    mix = ieor(x, shiftr(x, 33))
  end function

  character(16) function hex(value)
    integer(int64), intent(in) :: value
    integer :: k
    write (hex, '(z16.16)') value
    do k = 1, 16
      if (hex(k:k) >= 'A') hex(k:k) = achar(iachar(hex(k:k)) + 32)
    end do
  end function

  subroutine fail(call)
    character(*), intent(in) :: call
    integer :: failed
    write (error_unit, '(a,i0,a,i0,3a,i0,2a)') 'steps: rank ', rank, ': step ', state%step, ': ', call, ': ', result, ': ', bys_error(d)
    call MPI_Abort(MPI_COMM_WORLD, 7, failed)
  end subroutine

  subroutine options()
    character(300) :: a
    integer :: k, at, wrong
    do k = 1, command_argument_count()
      call get_command_argument(k, a)
      at = index(a, '=')
      wrong = 0
      select case (a(:at))
      case ('')
        read (a, *, iostat=wrong) last
      case ('every=')
        read (a(at + 1:), *, iostat=wrong) every
      case ('size=')
        read (a(at + 1:), *, iostat=wrong) bytes
      case ('ms=')
        read (a(at + 1:), *, iostat=wrong) ms
      case ('keep=')
        read (a(at + 1:), *, iostat=wrong) keep
      case ('until=')
        until = a(at + 1:)
      case ('die=')
        do while (index(a, '@') > 0)
          a(index(a, '@'):index(a, '@')) = ' '
        end do
        read (a(at + 1:), *, iostat=wrong) die
      case default
        wrong = 1
      end select
      if (wrong /= 0) error stop 64
    end do
  end subroutine

  subroutine wait_for_the_end()
    logical :: there
    there = state%step < last .or. until == ''
    do
      if (.not. there) inquire (file=until, exist=there)
      mine = merge(1, 0, there)
      call MPI_Allreduce(mine, all, 1, MPI_INTEGER8, MPI_MIN, MPI_COMM_WORLD, error)
      if (all == 1) exit
      error = c_usleep(10000_c_int)
    end do
  end subroutine

  subroutine die_at(moment)
    integer, intent(in) :: moment
    if (rank == die(1) .and. state%step == die(2) .and. moment == die(3) .and. .not. restored) error = c_raise(9_c_int)
  end subroutine

  subroutine snapshot()
    call die_at(0)
    call bys_start(d, state%step, result)
    if (result /= BYS_OK) write (error_unit, '(a,i0,2a)') 'steps: start: ', result, ' ', bys_error(d)
    call die_at(1)
    call bys_commit(d, result, BYS_TEST)
    call die_at(2)
    do while (result == BYS_TIMEOUT)
      call bys_commit(d, result, 50)
    end do
    if (result == BYS_EFAILED .and. rank == 0) write (error_unit, '(2a)') 'steps: ', bys_error(d)
    if (result /= BYS_OK .and. result /= BYS_EFAILED) call fail('commit')
  end subroutine
end program
