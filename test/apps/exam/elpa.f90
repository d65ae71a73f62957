! test_doc: ELPA: all eigenvalues and vectors of dense matrices, distributed in blocks over a grid of ranks; communicators of the grid's
! rows and columns, by turns with the solvers of one stage and of two.
!
! Arguments: order, rounds. Rank 0 prints.
program eigen
  use elpa
  implicit none
  include 'mpif.h'
  integer, parameter :: block = 16
  integer :: n = 200, rounds = 4, round, rank, ranks, rows, columns, row, column, context, error
  integer :: mine(2)
  integer, external :: numroc
  character(len=16) :: word
  class(elpa_t), pointer :: e

  call mpi_init(error)
  call mpi_comm_rank(MPI_COMM_WORLD, rank, error)
  call mpi_comm_size(MPI_COMM_WORLD, ranks, error)
  if (command_argument_count() >= 2) then
    call get_command_argument(1, word); read (word, *) n
    call get_command_argument(2, word); read (word, *) rounds
  end if
  rows = int(sqrt(dble(ranks)))
  do while (mod(ranks, rows) /= 0)
    rows = rows - 1
  end do
  columns = ranks / rows
  context = MPI_COMM_WORLD
  call blacs_gridinit(context, 'C', rows, columns)
  call blacs_gridinfo(context, rows, columns, row, column)
  mine = (/ numroc(n, block, row, 0, rows), numroc(n, block, column, 0, columns) /)
  if (elpa_init(20211125) /= ELPA_OK) call mpi_abort(MPI_COMM_WORLD, 1, error)
  e => elpa_allocate(error)
  call set('na', n)
  call set('nev', n)
  call set('local_nrows', mine(1))
  call set('local_ncols', mine(2))
  call set('nblk', block)
  call set('mpi_comm_parent', MPI_COMM_WORLD)
  call set('process_row', row)
  call set('process_col', column)
  error = e%setup()
  do round = 1, rounds
    call solve(round)
  end do
  call elpa_deallocate(e, error)
  call mpi_finalize(error)

contains

  subroutine set(name, value)
    character(len=*), intent(in) :: name
    integer, intent(in) :: value
    call e%set(name, value, error)
    if (error /= ELPA_OK) call mpi_abort(MPI_COMM_WORLD, 1, error)
  end subroutine

  subroutine solve(round)
    integer, intent(in) :: round
    double precision :: a(mine(1), mine(2)), q(mine(1), mine(2)), ev(n)
    integer :: i, j, gi, gj
    call set('solver', merge(ELPA_SOLVER_1STAGE, ELPA_SOLVER_2STAGE, mod(round, 2) == 1))
    do j = 1, mine(2)
      gj = (((j - 1) / block) * columns + column) * block + mod(j - 1, block) + 1
      do i = 1, mine(1)
        gi = (((i - 1) / block) * rows + row) * block + mod(i - 1, block) + 1
        a(i, j) = sin(0.01d0 * round * gi * gj) + merge(dble(mod(gi, 37)), 0d0, gi == gj)
      end do
    end do
    call e%eigenvectors(a, ev, q, error)
    if (error /= ELPA_OK) call mpi_abort(MPI_COMM_WORLD, 1, error)
    if (rank == 0) then
      print '(a, i0, 4es16.8)', 'result ', round, ev(1), ev(n / 2), ev(n), sqrt(sum(ev**2))
      flush (6)
    end if
  end subroutine
end program
