! test_doc: sections of arrays that are not contiguous, with mpi_f08 where MPI_SUBARRAYS_SUPPORTED says so: blocking, and nonblocking
! over the end of an iteration; elsewhere the same data in copies, by blocking calls.
#include "forms.inc"

module seen
  integer, parameter :: n = 12
  integer, asynchronous :: a(n,n), b(n,n), c(n,n), r(n,n)
  integer, allocatable, asynchronous :: d(:,:)
end module

subroutine fortran_part(iters) bind(C)
  USEMPI
  use help
  use seen
  implicit none
  INCMPI
  integer(c_int), intent(in) :: iters
  COMM :: comm
  REQ :: rq(6)
  STATUS :: st
  integer :: ierr, rank, size, right, left, iter, i, j, got

  call MPI_Init(ierr)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  call MPI_Comm_rank(comm, rank, ierr)
  call MPI_Comm_size(comm, size, ierr)
  call app_set(rank, size)
  right = mod(rank + 1, size)
  left = mod(rank + size - 1, size)
  allocate(d(0:n-1,3))
  rq = MPI_REQUEST_NULL
#if defined(F08) && defined(MPICH)
  call check(MPI_SUBARRAYS_SUPPORTED, 'MPI_SUBARRAYS_SUPPORTED')
#endif
  call begun(0)
  do iter = 0, iters - 1
    call app_step(iter)
    call ended(iter)
    call blocking()
    call begun(iter + 1)
  end do
  call ended(iters)
  deallocate(d)
  call app_over()
  call MPI_Finalize(ierr)
contains

subroutine filled(it)
  integer, intent(in) :: it
  do j = 1, n
    a(:,j) = (/ (1000*rank + 20*j + i + 11*mod(it, 50), i = 1, n) /)
  end do
  b = -1
  r = -1
  d = -1
end subroutine

! Rows, every second element, a part of an allocatable array, and nothing.
subroutine begun(it)
  integer, intent(in) :: it
  call filled(it)
  c = a
#if defined(F08) && defined(MPICH)
  call MPI_Irecv(b(3,:), n, MPI_INTEGER, left, 1, comm, rq(1), ierr)
  call MPI_Irecv(b(5:9:2,2:8:3), 9, MPI_INTEGER, left, 2, comm, rq(2), ierr)
  call MPI_Irecv(d(1:9:4,2), 3, MPI_INTEGER, left, 3, comm, rq(3), ierr)
  call MPI_Isend(c(3,:), n, MPI_INTEGER, right, 1, comm, rq(4), ierr)
  call MPI_Isend(c(5:9:2,2:8:3), 9, MPI_INTEGER, right, 2, comm, rq(5), ierr)
  call MPI_Isend(c(2:12:4,1), 3, MPI_INTEGER, right, 3, comm, rq(6), ierr)
#endif
end subroutine

subroutine ended(it)
  integer, intent(in) :: it
  integer :: x(n), y(9), z(3)
#if defined(F08) && defined(MPICH)
  call MPI_Waitall(6, rq, MPI_STATUSES_IGNORE, ierr)
#else
  call MPI_Sendrecv(a(3,:), n, MPI_INTEGER, right, 1, x, n, MPI_INTEGER, left, 1, comm, MPI_STATUS_IGNORE, ierr)
  b(3,:) = x
  call MPI_Sendrecv(reshape(a(5:9:2,2:8:3), (/ 9 /)), 9, MPI_INTEGER, right, 2, y, 9, MPI_INTEGER, left, 2, comm, &
      MPI_STATUS_IGNORE, ierr)
  b(5:9:2,2:8:3) = reshape(y, (/ 3, 3 /))
  call MPI_Sendrecv(a(2:12:4,1), 3, MPI_INTEGER, right, 3, z, 3, MPI_INTEGER, left, 3, comm, &
      MPI_STATUS_IGNORE, ierr)
  d(1:9:4,2) = z
#endif
  call check(all(b(3,:) == a(3,:) + 1000*(left - rank)), 'a row')
  call check(all(b(5:9:2,2:8:3) == a(5:9:2,2:8:3) + 1000*(left - rank)), 'every second')
  call check(all(d(1:9:4,2) == a(2:12:4,1) + 1000*(left - rank)), 'an allocatable array')
  call check(count(b /= -1) == n + 9 .and. count(d /= -1) == 3, 'beside')
  if (it < iters) call told(it, 'before', dble(sum(b)) + sum(d))
end subroutine

subroutine blocking()
  integer, allocatable :: nothing(:)
  integer :: x(n)
  call filled(iter)
  c = a
#if defined(F08) && defined(MPICH)
  call MPI_Sendrecv(a(1:n:3,4), 4, MPI_INTEGER, right, 5, b(4,1:n:3), 4, MPI_INTEGER, left, 5, comm, st, ierr)
  call MPI_Get_count(st, MPI_INTEGER, got, ierr)
  call check(got == 4, 'count of a section')
  ! MPICH 4.0 makes a type of a section, for which reductions are not defined
  call MPI_Sendrecv_replace(c(2,1:n:2), 6, MPI_INTEGER, right, 7, left, 7, comm, MPI_STATUS_IGNORE, ierr)
  r(3,1:n:2) = c(2,1:n:2)
  if (rank == 0) b(7,:) = a(7,:)
  call MPI_Bcast(b(7,:), n, MPI_INTEGER, 0, comm, ierr)
#else
  call MPI_Sendrecv(a(1:n:3,4), 4, MPI_INTEGER, right, 5, x, 4, MPI_INTEGER, left, 5, comm, st, ierr)
  b(4,1:n:3) = x(1:4)
  x(1:6) = a(2,1:n:2)
  call MPI_Sendrecv_replace(x, 6, MPI_INTEGER, right, 7, left, 7, comm, MPI_STATUS_IGNORE, ierr)
  r(3,1:n:2) = x(1:6)
  x = a(7,:)
  call MPI_Bcast(x, n, MPI_INTEGER, 0, comm, ierr)
  b(7,:) = x
#endif
  allocate(nothing(0))
  call MPI_Sendrecv(nothing, 0, MPI_INTEGER, right, 6, nothing, 0, MPI_INTEGER, left, 6, comm, st, ierr)
  call MPI_Get_count(st, MPI_INTEGER, got, ierr)
  call check(got == 0, 'an array of size zero')
  call check(all(b(4,1:n:3) == a(1:n:3,4) + 1000*(left - rank)), 'a column into a row')
  call check(all(r(3,1:n:2) == a(2,1:n:2) + 1000*(left - rank)) .and. count(r /= -1) == 6, 'sendrecv_replace of a section')
  call check(all(b(7,:) == a(7,:) - 1000*rank), 'bcast of a row')
  call told(iter, 'blocking', dble(sum(b)) + sum(r))
end subroutine
end subroutine
