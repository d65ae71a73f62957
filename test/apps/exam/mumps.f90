! test_doc: MUMPS: a sparse direct solver in Fortran. The Laplacian of a cube, with another diagonal in each round, is analysed,
! factorised and solved anew; ranks send each other what they have eliminated, in whatever order they come to it.
!
! Last digits depend on that order, and differ from run to run, also natively: nine are printed.
! Arguments: points of an edge, rounds. Rank 0 prints.
program mumps
  implicit none
  include 'mpif.h'
  include 'dmumps_struc.h'
  type(dmumps_struc) :: id
  integer :: n = 20, rounds = 10, round, error
  character(len=16) :: word

  call mpi_init(error)
  if (command_argument_count() >= 2) then
    call get_command_argument(1, word); read (word, *) n
    call get_command_argument(2, word); read (word, *) rounds
  end if
  id%comm = MPI_COMM_WORLD
  id%sym = 1
  id%par = 1
  do round = 1, rounds
    id%job = -1
    call dmumps(id)
    id%icntl(1:4) = (/ 6, 0, 0, 1 /)
    if (id%myid == 0) call matrix(n, round)
    id%job = 6
    call dmumps(id)
    if (id%infog(1) < 0) call mpi_abort(MPI_COMM_WORLD, 1, error)
    if (id%myid == 0) then
      print '(a, i0, 3es16.8)', 'result ', round, sqrt(sum(id%rhs**2)), minval(id%rhs), id%rhs(id%n / 3)
      flush (6)
      deallocate (id%irn, id%jcn, id%a, id%rhs)
    end if
    id%job = -2
    call dmumps(id)
  end do
  call mpi_finalize(error)

contains

  ! matrix is the lower half of the operator on n x n x n points, and a right side.
  subroutine matrix(n, round)
    integer, intent(in) :: n, round
    integer :: i, j, k, at, point
    id%n = n**3
    id%nnz = 4_8 * n**3 - 3_8 * n**2
    allocate (id%irn(id%nnz), id%jcn(id%nnz), id%a(id%nnz), id%rhs(id%n))
    at = 0
    do k = 0, n - 1
      do j = 0, n - 1
        do i = 0, n - 1
          point = 1 + i + n * (j + n * k)
          id%rhs(point) = sin(0.1d0 * point) + round
          call entry(at, point, point, 6d0 + 0.01d0 * round)
          if (i > 0) call entry(at, point, point - 1, -1d0)
          if (j > 0) call entry(at, point, point - n, -1d0)
          if (k > 0) call entry(at, point, point - n * n, -1d0)
        end do
      end do
    end do
  end subroutine

  subroutine entry(at, row, column, value)
    integer, intent(inout) :: at
    integer, intent(in) :: row, column
    double precision, intent(in) :: value
    at = at + 1
    id%irn(at) = row
    id%jcn(at) = column
    id%a(at) = value
  end subroutine
end program
