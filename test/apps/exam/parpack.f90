! test_doc: PARPACK: the largest eigenvalues of a chain of springs, whose points the ranks have between them. The library asks for
! products with the matrix (reverse communication) and keeps where it stands in saved variables.
!
! Arguments: points, rounds. Rank 0 prints.
program parpack
  implicit none
  include 'mpif.h'
  integer, parameter :: nev = 4, ncv = 20
  integer :: n = 2000, rounds = 10, round, rank, ranks, mine, error
  character(len=16) :: word

  call mpi_init(error)
  call mpi_comm_rank(MPI_COMM_WORLD, rank, error)
  call mpi_comm_size(MPI_COMM_WORLD, ranks, error)
  if (command_argument_count() >= 2) then
    call get_command_argument(1, word); read (word, *) n
    call get_command_argument(2, word); read (word, *) rounds
  end if
  mine = n / ranks
  do round = 1, rounds
    call solve(round)
  end do
  call mpi_finalize(error)

contains

  subroutine solve(round)
    integer, intent(in) :: round
    double precision :: resid(mine), v(mine, ncv), workd(3 * mine), workl(ncv * (ncv + 8)), d(nev), tol
    integer :: iparam(11), ipntr(11), ido, info, i
    logical :: chosen(ncv)
    ido = 0
    info = 1
    tol = 1d-5
    iparam(1) = 1
    iparam(3) = 300
    iparam(7) = 1
    resid = (/ (1d0 + sin(dble(i + rank * mine)), i = 1, mine) /)
    do
      call pdsaupd(MPI_COMM_WORLD, ido, 'I', mine, 'LA', nev, tol, resid, ncv, v, mine, iparam, ipntr, workd, workl, size(workl), info)
      if (ido /= -1 .and. ido /= 1) exit
      call product(round, workd(ipntr(1):ipntr(1) + mine - 1), workd(ipntr(2):ipntr(2) + mine - 1))
    end do
    if (info < 0) call mpi_abort(MPI_COMM_WORLD, 1, error)
    call pdseupd(MPI_COMM_WORLD, .false., 'A', chosen, d, v, mine, 0d0, 'I', mine, 'LA', nev, tol, resid, ncv, v, mine, &
                 iparam, ipntr, workd, workl, size(workl), info)
    if (rank == 0) then
      print '(a, i0, 2i6, 4es20.12)', 'result ', round, iparam(3), iparam(5), d(:iparam(5))
      flush (6)
    end if
  end subroutine

  ! product is y = A x; the neighbours' ends come by messages.
  subroutine product(round, x, y)
    integer, intent(in) :: round
    double precision, intent(in) :: x(mine)
    double precision, intent(out) :: y(mine)
    double precision :: left, right
    integer :: before, after, i
    before = merge(rank - 1, MPI_PROC_NULL, rank > 0)
    after = merge(rank + 1, MPI_PROC_NULL, rank < ranks - 1)
    left = 0
    right = 0
    call mpi_sendrecv(x(mine), 1, MPI_DOUBLE_PRECISION, after, 1, left, 1, MPI_DOUBLE_PRECISION, before, 1, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
    call mpi_sendrecv(x(1), 1, MPI_DOUBLE_PRECISION, before, 2, right, 1, MPI_DOUBLE_PRECISION, after, 2, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
    do i = 1, mine
      y(i) = (2 + 0.1d0 * round * sin(0.001d0 * (i + rank * mine))) * x(i)
      if (i > 1) y(i) = y(i) - x(i - 1)
      if (i < mine) y(i) = y(i) - x(i + 1)
    end do
    y(1) = y(1) - left
    y(mine) = y(mine) - right
  end subroutine
end program
