! test_doc: point-to-point in Fortran: all modes of sending, blocking, nonblocking and persistent; probes, statuses, completions,
! cancelled and freed requests. Messages, a matched one too, requests and an attached buffer last over the end of an iteration.
#include "forms.inc"

! MPI reads and writes all of it while other statements run.
module seen
  integer, parameter :: n = 12
  integer :: a(n,8), b(n,8), over(n,6), late(n,6), keptin(n,4), keptout(n,4), column(n,n)
  integer :: got, few(4), one(2)
  character(len=20000) :: buffer
end module

subroutine fortran_part(iters) bind(C)
  USEMPI
  use help
  use seen
  implicit none
  INCMPI
  integer(c_int), intent(in) :: iters
  COMM :: comm, other
  DTYPE :: row, two
  REQ :: rq(8), fixed(8), lasting(6), x
  MESS :: message, held
  STATUS :: st
  STATUSES(8) :: sts
#ifdef F08
  type(c_ptr) :: detached
#endif
  integer :: fst(MPI_STATUS_SIZE), back(MPI_STATUS_SIZE)
  integer :: ierr, rank, size, right, left, iter, i, k, index, indices(8), number, room, class, code, total
  logical :: flag

  call MPI_Init(ierr)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  call MPI_Comm_dup(comm, other, ierr)
  call MPI_Comm_rank(comm, rank, ierr)
  call MPI_Comm_size(comm, size, ierr)
  call app_set(rank, size)
  right = mod(rank + 1, size)
  left = mod(rank + size - 1, size)
  call MPI_Comm_set_errhandler(other, MPI_ERRORS_RETURN, ierr)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierr)     ! which MPICH 4.0 asks of requests
  call MPI_Type_vector(n, 1, n, MPI_INTEGER, row, ierr)
  call MPI_Type_commit(row, ierr)
  call MPI_Type_contiguous(2, MPI_INTEGER, two, ierr)
  call MPI_Type_commit(two, ierr)
  call MPI_Buffer_attach(buffer, 20000, ierr)

  ! persistent ones: the receives first, so that ready sends find them when all are started in this order
  call MPI_Recv_init(keptin(1,1), n, MPI_INTEGER, left, 31, comm, fixed(1), ierr)
  call MPI_Recv_init(keptin(1,2), n, MPI_INTEGER, MPI_ANY_SOURCE, 32, comm, fixed(2), ierr)
  call MPI_Recv_init(keptin(1,3), n, MPI_INTEGER, left, 33, comm, fixed(3), ierr)
  call MPI_Recv_init(keptin(1,4), n, MPI_INTEGER, left, 34, comm, fixed(4), ierr)
  call MPI_Send_init(column(2,1), 1, row, right, 31, comm, fixed(5), ierr)
  call MPI_Bsend_init(keptout(1,2), n, MPI_INTEGER, right, 32, comm, fixed(6), ierr)
  call MPI_Ssend_init(keptout(1,3), n, MPI_INTEGER, right, 33, comm, fixed(7), ierr)
  call MPI_Rsend_init(keptout(1,4), n, MPI_INTEGER, right, 34, comm, fixed(8), ierr)

  call begun(0)
  do iter = 0, iters - 1
    call app_step(iter)
    call ended(iter)
    call blocking()
    call nonblocking()
    call persistent()
    call probes()
    call nothing()
    call completions()
    call statuses()
    call errors()
    call begun(iter + 1)
  end do
  call ended(iters)

  do i = 1, 8
    call MPI_Request_free(fixed(i), ierr)
    call check(fixed(i) == MPI_REQUEST_NULL, 'a freed request')
  end do
#ifdef F08
  call MPI_Buffer_detach(detached, room, ierr)
#else
  call MPI_Buffer_detach(buffer, room, ierr)
#endif
  call check(room == 20000, 'size of the attached buffer')
  call MPI_Type_free(row, ierr)
  call MPI_Type_free(two, ierr)
  call MPI_Comm_free(comm, ierr)
  call MPI_Comm_free(other, ierr)
  call app_over()
  call MPI_Finalize(ierr)
contains

integer function val(r, i, it)
  integer, intent(in) :: r, i, it
  val = 1000*r + 7*i + 17*mod(it, 50)
end function

! What n integers of a rank are, by a number.
function vals(r, i, it)
  integer, intent(in) :: r, i, it
  integer :: vals(n), j
  vals = (/ (val(r, i + j, it), j = 1, n) /)
end function

! Messages of all kinds that are under way while an iteration ends: of one the receive is not there yet, one is matched.
subroutine begun(it)
  integer, intent(in) :: it
  do i = 1, 6
    over(:,i) = vals(rank, 100*i, it)
  end do
  late = -1
  call MPI_Irecv(late(1,1), n, MPI_INTEGER, left, 41, other, lasting(1), ierr)
  call MPI_Irecv(late(1,2), n, MPI_INTEGER, MPI_ANY_SOURCE, 42, other, lasting(2), ierr)
  call MPI_Isend(over(1,1), n, MPI_INTEGER, right, 41, other, lasting(3), ierr)
  call MPI_Issend(over(1,2), n, MPI_INTEGER, right, 42, other, lasting(4), ierr)
  call MPI_Ibsend(over(1,3), n, MPI_INTEGER, right, 43, other, lasting(5), ierr)
  call MPI_Isend(over(1,4), n, MPI_INTEGER, right, 44, other, lasting(6), ierr)
  call MPI_Isend(over(1,5), n, MPI_INTEGER, right, 45, other, x, ierr)
  call MPI_Request_free(x, ierr)
  call check(x == MPI_REQUEST_NULL, 'a freed send')
  call MPI_Bsend(over(1,6), n - 1, MPI_INTEGER, right, 46, other, ierr)
  call MPI_Mprobe(left, 44, other, held, st, ierr)
  call check(SRC(st) == left .and. TAGOF(st) == 44 .and. held /= MPI_MESSAGE_NULL, 'mprobe over an iteration')
end subroutine

subroutine ended(it)
  integer, intent(in) :: it
  call MPI_Mrecv(late(1,4), n, MPI_INTEGER, held, st, ierr)
  call MPI_Get_count(st, MPI_INTEGER, got, ierr)
  call check(SRC(st) == left .and. TAGOF(st) == 44 .and. got == n .and. held == MPI_MESSAGE_NULL, 'mrecv of a message of before')
  call MPI_Recv(late(1,3), n, MPI_INTEGER, left, 43, other, MPI_STATUS_IGNORE, ierr)
  call MPI_Recv(late(1,6), n, MPI_INTEGER, MPI_ANY_SOURCE, 46, other, st, ierr)
  call MPI_Get_count(st, MPI_INTEGER, got, ierr)
  call check(SRC(st) == left .and. TAGOF(st) == 46 .and. got == n - 1 .and. late(n,6) == -1, 'a buffered message of before')
  call MPI_Recv(late(1,5), n, MPI_INTEGER, left, 45, other, st, ierr)
  call MPI_Waitall(6, lasting, sts, ierr)
  call check(SRCI(sts,1) == left .and. TAGI(sts,1) == 41 .and. SRCI(sts,2) == left .and. TAGI(sts,2) == 42, 'statuses of before')
  call MPI_Get_count(ST(sts,2), MPI_INTEGER, got, ierr)
  call check(got == n, 'count of before')
  late(n,6) = val(left, 600 + n, it)
  do i = 1, 6
    call check(lasting(i) == MPI_REQUEST_NULL, 'a request of before')
    call check(all(late(:,i) == vals(left, 100*i, it)), 'what was under way '//achar(iachar('0') + i))
  end do
  if (it < iters) call told(it, 'before', dble(sum(late)))
end subroutine

subroutine blocking()
  do i = 1, 4
    a(:,i) = vals(rank, i, iter)
    b(:,i) = -1
    call MPI_Irecv(b(1,i), n, MPI_INTEGER, left, i, comm, rq(i), ierr)
  end do
  call MPI_Barrier(comm, ierr)          ! all receives are there
  call MPI_Send(a(1,1), n, MPI_INTEGER, right, 1, comm, ierr)
  call MPI_Bsend(a(1,2), n, MPI_INTEGER, right, 2, comm, ierr)
  call MPI_Ssend(a(1,3), n, MPI_INTEGER, right, 3, comm, ierr)
  call MPI_Rsend(a(1,4), n, MPI_INTEGER, right, 4, comm, ierr)
  do i = 4, 1, -1
    call MPI_Wait(rq(i), st, ierr)
    call MPI_Get_count(st, MPI_INTEGER, got, ierr)
    call check(SRC(st) == left .and. TAGOF(st) == i .and. got == n .and. rq(i) == MPI_REQUEST_NULL, 'status of wait')
    call check(all(b(:,i) == vals(left, i, iter)), 'blocking')
  end do
  call MPI_Sendrecv(a(1,1), 3, MPI_INTEGER, left, 5, b(1,1), 2, two, right, MPI_ANY_TAG, comm, st, ierr)
  call MPI_Get_count(st, two, got, ierr)
  call MPI_Get_elements(st, two, k, ierr)
  call check(got == MPI_UNDEFINED .and. k == 3 .and. TAGOF(st) == 5 .and. SRC(st) == right, 'sendrecv of three halves')
  call check(all(b(1:3,1) == (/ (val(right, 1 + i, iter), i = 1, 3) /)), 'sendrecv')
  call MPI_Sendrecv_replace(a(1,2), n, MPI_INTEGER, right, 6, MPI_ANY_SOURCE, 6, comm, st, ierr)
  call check(all(a(:,2) == vals(left, 2, iter)) .and. SRC(st) == left, 'sendrecv_replace')
  ! all to one, from any
  total = 0
  if (rank == mod(iter, size)) then
    do i = 2, size
      call MPI_Recv(few, 4, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, st, ierr)
      call check(few(1) == SRC(st) .and. few(2) == TAGOF(st) .and. TAGOF(st) == 500 + SRC(st), 'any source, any tag')
      total = total + few(1)
    end do
    call check(total == size*(size - 1)/2 - rank, 'from all')
  else
    few = (/ rank, 500 + rank, 0, 0 /)
    call MPI_Send(few, 4, MPI_INTEGER, mod(iter, size), 500 + rank, comm, ierr)
  end if
  call MPI_Barrier(comm, ierr)
  call told(iter, 'blocking', dble(sum(b(:,2:4)) + sum(a(:,2)) + total))
end subroutine

subroutine nonblocking()
  do i = 1, 4
    a(:,i) = vals(rank, 50 + i, iter)
    b(:,i) = -1
    call MPI_Irecv(b(1,i), n, MPI_INTEGER, MPI_ANY_SOURCE, 10 + i, comm, rq(i), ierr)
  end do
  call MPI_Barrier(comm, ierr)
  call MPI_Isend(a(1,1), n, MPI_INTEGER, right, 11, comm, rq(5), ierr)
  call MPI_Ibsend(a(1,2), n, MPI_INTEGER, right, 12, comm, rq(6), ierr)
  call MPI_Issend(a(1,3), n - 3, MPI_INTEGER, right, 13, comm, rq(7), ierr)
  call MPI_Irsend(a(1,4), n, MPI_INTEGER, right, 14, comm, rq(8), ierr)
  call MPI_Waitall(8, rq, sts, ierr)
  do i = 1, 4
    call MPI_Get_count(ST(sts,i), MPI_INTEGER, got, ierr)
    call check(SRCI(sts,i) == left .and. TAGI(sts,i) == 10 + i .and. got == merge(n - 3, n, i == 3), 'statuses of waitall')
    call MPI_Test_cancelled(ST(sts,4+i), flag, ierr)
    call check(.not. flag, 'a send is cancelled')
    call check(all(b(1:got,i) == vals_of(got, left, 50 + i)) .and. all(b(got+1:,i) == -1), 'nonblocking')
  end do
  call told(iter, 'nonblocking', dble(sum(b(:,1:4))))
end subroutine

function vals_of(number, r, i)
  integer, intent(in) :: number, r, i
  integer :: vals_of(number), all_of(n)
  all_of = vals(r, i, iter)
  vals_of = all_of(1:number)
end function

subroutine persistent()
  integer :: done
  do i = 2, 4
    keptout(:,i) = vals(rank, 60 + i, iter)
  end do
  column = -2
  column(2,:) = vals(rank, 61, iter)
  keptin = -1
  call MPI_Startall(4, fixed, ierr)
  call MPI_Barrier(comm, ierr)
  do i = 5, 8
    call MPI_Start(fixed(i), ierr)
  end do
  done = 0
  select case (mod(iter, 5))
  case (0)
    call MPI_Waitall(8, fixed, MPI_STATUSES_IGNORE, ierr)
  case (1)
    flag = .false.
    do while (.not. flag)
      call MPI_Testall(8, fixed, flag, sts, ierr)
    end do
    call check(SRCI(sts,2) == left .and. TAGI(sts,2) == 32, 'statuses of testall')
  case (2)
    do while (done < 8)
      call MPI_Testany(8, fixed, index, flag, st, ierr)
      if (flag) then
        done = done + 1
        index = from1(index)
        call check(index >= 1 .and. index <= 8, 'index of testany')
        if (index < 5) call check(SRC(st) == left .and. TAGOF(st) == 30 + index, 'status of testany')
        if (index < 5) call check(all(keptin(:,index) == vals(left, 60 + index, iter)), 'testany')
      end if
    end do
    call MPI_Testany(8, fixed, index, flag, MPI_STATUS_IGNORE, ierr)
    call check(flag, 'testany of none')
  case (3)
    do while (done < 8)
      call MPI_Testsome(8, fixed, number, indices, sts, ierr)
      call some_of('testsome')
      done = done + number
    end do
    call MPI_Testsome(8, fixed, number, indices, MPI_STATUSES_IGNORE, ierr)
    call check(number == MPI_UNDEFINED, 'testsome of none')
  case (4)
    do while (done < 8)
      call MPI_Waitsome(8, fixed, number, indices, sts, ierr)
      call some_of('waitsome')
      done = done + number
    end do
    call MPI_Waitsome(8, fixed, number, indices, MPI_STATUSES_IGNORE, ierr)
    call check(number == MPI_UNDEFINED, 'waitsome of none')
  end select
  do i = 1, 4
    call check(all(keptin(:,i) == vals(left, 60 + i, iter)) .and. fixed(i) /= MPI_REQUEST_NULL, 'persistent')
  end do
  call told(iter, 'persistent', dble(sum(keptin)))
end subroutine

subroutine some_of(what)
  character(*), intent(in) :: what
  do i = 1, number
    index = from1(indices(i))
    call check(index >= 1 .and. index <= 8, what//': an index')
    if (index < 5) call check(SRCI(sts,i) == left .and. TAGI(sts,i) == 30 + index, what//': a status')
    if (index < 5) call check(all(keptin(:,index) == vals(left, 60 + index, iter)), what)
  end do
end subroutine

! An index from 1: those of MPICH 4.0's mpi_f08 are from 0.
integer function from1(i)
  integer, intent(in) :: i
#if defined(F08) && defined(MPICH)
  from1 = i + 1
#else
  from1 = i
#endif
end function

subroutine probes()
  b(:,5:8) = -1
  a(:,5) = vals(rank, 80, iter)
  call MPI_Iprobe(left, 21, comm, flag, st, ierr)
  call check(.not. flag, 'iprobe before')
  call MPI_Barrier(comm, ierr)
  call MPI_Isend(a(1,5), 5, MPI_INTEGER, right, 21, comm, rq(1), ierr)
  call MPI_Isend(a(1,5), 6, MPI_INTEGER, right, 22, comm, rq(2), ierr)
  call MPI_Isend(a(1,5), 7, MPI_INTEGER, right, 23, comm, rq(3), ierr)
  call MPI_Isend(a(1,5), 8, MPI_INTEGER, right, 24, comm, rq(4), ierr)
  call MPI_Probe(MPI_ANY_SOURCE, 22, comm, st, ierr)
  call MPI_Get_count(st, MPI_INTEGER, got, ierr)
  call check(SRC(st) == left .and. TAGOF(st) == 22 .and. got == 6, 'probe')
  call MPI_Recv(b(1,6), got, MPI_INTEGER, SRC(st), TAGOF(st), comm, MPI_STATUS_IGNORE, ierr)
  flag = .false.
  do while (.not. flag)
    call MPI_Iprobe(left, MPI_ANY_TAG, comm, flag, st, ierr)
  end do
  call MPI_Get_elements(st, MPI_INTEGER, got, ierr)
  call check(SRC(st) == left .and. TAGOF(st) == 21 .and. got == 5, 'iprobe')
  call MPI_Recv(b(1,5), 5, MPI_INTEGER, left, 21, comm, st, ierr)
  call MPI_Mprobe(MPI_ANY_SOURCE, 23, comm, message, st, ierr)
  call MPI_Iprobe(left, 23, comm, flag, MPI_STATUS_IGNORE, ierr)
  call check(.not. flag, 'a matched message is still there')
  call MPI_Imrecv(b(1,7), 7, MPI_INTEGER, message, x, ierr)
  call check(message == MPI_MESSAGE_NULL, 'imrecv')
  call MPI_Wait(x, st, ierr)
  call check(SRC(st) == left .and. TAGOF(st) == 23, 'status of imrecv')
  flag = .false.
  do while (.not. flag)
    call MPI_Improbe(left, 24, comm, flag, message, st, ierr)
  end do
  call check(SRC(st) == left .and. TAGOF(st) == 24, 'improbe')
  call MPI_Mrecv(b(1,8), 8, MPI_INTEGER, message, MPI_STATUS_IGNORE, ierr)
  do i = 5, 8
    call check(all(b(1:i,i) == vals_of(i, left, 80)) .and. all(b(i+1:,i) == -1), 'probed')
  end do
  call MPI_Waitall(4, rq, MPI_STATUSES_IGNORE, ierr)
  call MPI_Improbe(left, 24, comm, flag, message, MPI_STATUS_IGNORE, ierr)
  call check(.not. flag, 'improbe of none')
end subroutine

! Messages from and to nobody, and requests that are none.
subroutine nothing()
  few = 5
  call MPI_Send(few, 4, MPI_INTEGER, MPI_PROC_NULL, 1, comm, ierr)
  call MPI_Recv(few, 4, MPI_INTEGER, MPI_PROC_NULL, 1, comm, st, ierr)
  call MPI_Get_count(st, MPI_INTEGER, got, ierr)
  call check(SRC(st) == MPI_PROC_NULL .and. TAGOF(st) == MPI_ANY_TAG .and. got == 0 .and. all(few == 5), 'from nobody')
  call MPI_Irecv(few, 4, MPI_INTEGER, MPI_PROC_NULL, MPI_ANY_TAG, comm, x, ierr)
  call MPI_Wait(x, st, ierr)
  flag = SRC(st) == MPI_PROC_NULL .and. TAGOF(st) == MPI_ANY_TAG
#ifdef MPICH
  if (c_held() == 0) flag = .true.      ! MPICH 4.0 itself leaves zeros
#endif
  call check(flag, 'irecv from nobody')
  call MPI_Sendrecv(few, 4, MPI_INTEGER, MPI_PROC_NULL, 1, few, 4, MPI_INTEGER, MPI_PROC_NULL, 1, comm, st, ierr)
  call check(SRC(st) == MPI_PROC_NULL, 'sendrecv with nobody')
  call MPI_Mprobe(MPI_PROC_NULL, 1, comm, message, st, ierr)
  call check(message == MPI_MESSAGE_NO_PROC .and. SRC(st) == MPI_PROC_NULL, 'mprobe of nobody')
  call MPI_Mrecv(few, 4, MPI_INTEGER, message, st, ierr)
  call check(message == MPI_MESSAGE_NULL .and. SRC(st) == MPI_PROC_NULL .and. all(few == 5), 'mrecv of nobody')
  call MPI_Probe(MPI_PROC_NULL, 1, comm, st, ierr)
  call check(SRC(st) == MPI_PROC_NULL .and. TAGOF(st) == MPI_ANY_TAG, 'probe of nobody')
  x = MPI_REQUEST_NULL
  call MPI_Wait(x, st, ierr)
  call MPI_Get_count(st, MPI_INTEGER, got, ierr)
  call check(SRC(st) == MPI_ANY_SOURCE .and. TAGOF(st) == MPI_ANY_TAG .and. got == 0, 'status of a null request')
  call MPI_Test(x, flag, st, ierr)
  call check(flag .and. SRC(st) == MPI_ANY_SOURCE, 'test of a null request')
  call MPI_Wait(fixed(1), st, ierr)
  call check(SRC(st) == MPI_ANY_SOURCE .and. TAGOF(st) == MPI_ANY_TAG, 'status of an inactive request')
  call MPI_Test_cancelled(st, flag, ierr)
  call check(.not. flag, 'an inactive request is cancelled')
end subroutine

subroutine completions()
  one = -1
  call MPI_Irecv(one, 2, MPI_INTEGER, left, 71, comm, rq(1), ierr)
  call MPI_Request_get_status(rq(1), flag, st, ierr)
  call check(.not. flag .and. rq(1) /= MPI_REQUEST_NULL, 'request_get_status before')
  call MPI_Barrier(comm, ierr)
  few = (/ rank, iter, 0, 0 /)
  call MPI_Send(few, 2, MPI_INTEGER, right, 71, comm, ierr)
  flag = .false.
  do while (.not. flag)
    call MPI_Request_get_status(rq(1), flag, st, ierr)
  end do
  call check(SRC(st) == left .and. TAGOF(st) == 71 .and. rq(1) /= MPI_REQUEST_NULL, 'request_get_status')
  call MPI_Test(rq(1), flag, st, ierr)
  call check(flag .and. rq(1) == MPI_REQUEST_NULL .and. all(one == (/ left, iter /)) .and. SRC(st) == left, 'test')
  ! a receive that nobody sends for
  call MPI_Irecv(one, 2, MPI_INTEGER, left, 72, comm, rq(1), ierr)
  call MPI_Test(rq(1), flag, MPI_STATUS_IGNORE, ierr)
  call check(.not. flag, 'test before')
  call MPI_Cancel(rq(1), ierr)
  call MPI_Wait(rq(1), st, ierr)
  call MPI_Test_cancelled(st, flag, ierr)
  call check(flag .and. rq(1) == MPI_REQUEST_NULL, 'cancelled')
  ! a persistent one, which is there again afterwards
  call MPI_Start(fixed(3), ierr)
  call MPI_Cancel(fixed(3), ierr)
  call MPI_Wait(fixed(3), st, ierr)
  call MPI_Test_cancelled(st, flag, ierr)
  call check(flag .and. fixed(3) /= MPI_REQUEST_NULL, 'cancelled persistent')
  do i = 1, 3
    call MPI_Irecv(b(1,i), n, MPI_INTEGER, left, 72 + i, comm, rq(i), ierr)
  end do
  call MPI_Testall(3, rq, flag, MPI_STATUSES_IGNORE, ierr)
  call check(.not. flag, 'testall before')
  call MPI_Barrier(comm, ierr)
  call MPI_Send(a(1,5), n, MPI_INTEGER, right, 74, comm, ierr)
  call MPI_Waitany(3, rq, index, st, ierr)
  call check(from1(index) == 2 .and. SRC(st) == left .and. TAGOF(st) == 74 .and. rq(2) == MPI_REQUEST_NULL, 'waitany')
  call MPI_Barrier(comm, ierr)
  call MPI_Send(a(1,5), n - 1, MPI_INTEGER, right, 75, comm, ierr)
  call MPI_Waitsome(3, rq, number, indices, sts, ierr)
  call MPI_Get_count(ST(sts,1), MPI_INTEGER, got, ierr)
  call check(number == 1 .and. from1(indices(1)) == 3 .and. got == n - 1, 'waitsome of one')
  call MPI_Barrier(comm, ierr)
  call MPI_Send(a(1,5), n, MPI_INTEGER, right, 73, comm, ierr)
  call MPI_Waitall(3, rq, sts, ierr)
  call check(TAGI(sts,1) == 73 .and. SRCI(sts,2) == MPI_ANY_SOURCE, 'waitall with null requests')
  call MPI_Waitany(3, rq, index, st, ierr)
  call check(index < 1 .and. SRC(st) == MPI_ANY_SOURCE, 'waitany of none')
  call told(iter, 'completed', dble(sum(b(:,1:3)) + sum(one)))
end subroutine

! Statuses as the two languages have them, and statuses that the program makes.
subroutine statuses()
  a(1,6) = iter
  call MPI_Sendrecv(a(1,6), 6, MPI_INTEGER, right, 81, b(1,6), n, MPI_INTEGER, left, 81, comm, st, ierr)
#ifdef F08
#ifdef MPICH
  call MPI_Status_f082f(st, fst, ierr)
#else
  fst = transfer(st, fst)     ! Open MPI 4 has not the function
#endif
  call check(fst(MPI_SOURCE) == st%MPI_SOURCE .and. fst(MPI_TAG) == 81, 'a status of mpi_f08 as an array')
#else
  fst = st
#endif
  got = c_sees(fst, back, VAL(two))
  call check(got == 1000*left + 3, 'a status in C')
#if defined(F08) && defined(MPICH)
  call MPI_Status_f2f08(back, st, ierr)
#elif defined(F08)
  st = transfer(back, st)
#else
  st = back
#endif
  call MPI_Get_count(st, MPI_INTEGER, got, ierr)
  call check(SRC(st) == left + 100 .and. TAGOF(st) == 82 .and. ERROF(st) == 7 .and. got == 6, 'a status from C')
  call MPI_Status_set_elements(st, MPI_INTEGER, 5, ierr)
  call MPI_Get_elements(st, MPI_INTEGER, got, ierr)
  call check(got == 5, 'status_set_elements')
  call MPI_Get_count(st, two, got, ierr)
  call check(got == MPI_UNDEFINED, 'count of two and a half')
  call MPI_Status_set_cancelled(st, .true., ierr)
  call MPI_Test_cancelled(st, flag, ierr)
  call check(flag, 'status_set_cancelled')
  call MPI_Status_set_cancelled(st, .false., ierr)
  call MPI_Test_cancelled(st, flag, ierr)
  call check(.not. flag, 'status_set_cancelled back')
end subroutine

! Messages that are longer than what is there for them.
subroutine errors()
  call MPI_Irecv(one, 1, MPI_INTEGER, left, 91, other, rq(1), ierr)
  call MPI_Irecv(few, 4, MPI_INTEGER, left, 92, other, rq(2), ierr)
  call MPI_Barrier(other, ierr)
  call MPI_Send(a(1,5), 4, MPI_INTEGER, right, 92, other, ierr)
  call MPI_Send(a(1,5), 2, MPI_INTEGER, right, 91, other, ierr)
  call MPI_Waitall(2, rq, sts, ierr)
  call MPI_Error_class(ierr, class, k)
  call check(class == MPI_ERR_IN_STATUS, 'class of waitall')
#ifdef F08
  code = sts(1)%MPI_ERROR
  k = sts(2)%MPI_ERROR
#else
  code = sts(MPI_ERROR,1)
  k = sts(MPI_ERROR,2)
#endif
  call MPI_Error_class(code, class, ierr)
  flag = class == MPI_ERR_TRUNCATE .and. (k == MPI_SUCCESS .or. k == MPI_ERR_PENDING)
#ifdef OPENMPI
  if (c_held() == 0) flag = .true.      ! Open MPI 4 itself sets no statuses in Fortran when there are errors
#endif
  call check(flag, 'errors in statuses')
#ifdef MPICH
  call MPI_Wait(rq(2), MPI_STATUS_IGNORE, ierr)     ! of which it may have said that it is pending
#endif
  call check(all(few == vals_of(4, left, 80)), 'the other message')
  call MPI_Send(a(1,5), 1, MPI_INTEGER, size, 1, other, ierr)
  call MPI_Error_class(ierr, class, k)
  call check(class == MPI_ERR_RANK, 'class of send')
  call MPI_Irecv(few, -1, MPI_INTEGER, left, 1, other, rq(1), ierr)
  call MPI_Error_class(ierr, class, k)
  call check(class == MPI_ERR_COUNT, 'class of irecv')
end subroutine
end subroutine
