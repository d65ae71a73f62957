! micro_fortran.f90: how long single MPI operations take between two ranks, in Fortran: as micro.c, with the same batches.
! mpif.h, since with use mpi and mpi_f08 the same entry points are called.
program micro_fortran
  implicit none
  include 'mpif.h'
  integer, parameter :: batches = 60, small = 8, wave = 8
  integer(1) :: out(small*wave), in(small*wave)
  integer :: rank, peer, ierr
  double precision :: a, b

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  peer = 1 - rank
  out = int(rank + 1, 1)
  a = 1
  call measure('FortranPingPong8B', 1, 10000, 2)
  call measure('FortranSendrecv8B', 2, 10000, 1)
  call measure('FortranAllreduce8B', 3, 10000, 1)
  call measure('FortranWave8x8B', 4, 2000, 1)
  call MPI_Finalize(ierr)

contains

  subroutine operations(which, n)
    integer, intent(in) :: which, n
    integer :: i, k, requests(2*wave)
    do i = 1, n
      select case (which)
      case (1)
        if (rank == 0) then
          call MPI_Send(out, small, MPI_BYTE, peer, 1, MPI_COMM_WORLD, ierr)
          call MPI_Recv(in, small, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
        else
          call MPI_Recv(in, small, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
          call MPI_Send(out, small, MPI_BYTE, peer, 1, MPI_COMM_WORLD, ierr)
        end if
      case (2)
        call MPI_Sendrecv(out, small, MPI_BYTE, peer, 2, in, small, MPI_BYTE, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
      case (3)
        call MPI_Allreduce(a, b, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
      case (4)
        do k = 1, wave
          call MPI_Irecv(in(small*(k - 1) + 1), small, MPI_BYTE, peer, k, MPI_COMM_WORLD, requests(k), ierr)
        end do
        do k = 1, wave
          call MPI_Isend(out(small*(k - 1) + 1), small, MPI_BYTE, peer, k, MPI_COMM_WORLD, requests(wave + k), ierr)
        end do
        call MPI_Waitall(2*wave, requests, MPI_STATUSES_IGNORE, ierr)
      end select
    end do
  end subroutine

  ! Times an operation in batches of n, and prints the best and the median of nanoseconds.
  subroutine measure(name, which, n, divisor)
    character(*), intent(in) :: name
    integer, intent(in) :: which, n, divisor
    double precision :: ns(batches), t
    integer :: i, k
    call operations(which, n)
    do i = 1, batches
      call MPI_Barrier(MPI_COMM_WORLD, ierr)
      t = MPI_Wtime()
      call operations(which, n)
      t = (MPI_Wtime() - t)*1d9/n/divisor
      do k = i - 1, 1, -1
        if (ns(k) <= t) exit
        ns(k + 1) = ns(k)
      end do
      ns(k + 1) = t
    end do
    if (rank == 0) print '(3a,2f12.3)', 'micro ', name, ' ', ns(1), ns(batches/2 + 1)
  end subroutine
end program
