! test_doc: the everyday calls of a Fortran program, in the way that F77 (mpif.h), MOD (use mpi) or F08 (use mpi_f08) asks for: what is
! made before the first iteration is used in each (requests, types, operations, attributes, communicators, a buffer).
#include "forms.inc"
! What MPI reads and writes while other statements run is in a module: any call may change that (MPI-4.1 section 19.1.17).
module seen
  integer, parameter :: n = 24
  integer :: handled = 0, copied = 0, deleted = 0, whole
  double precision :: a(n), b(n), c(n), m(n,n)
  character(len=8000) :: buffer
end module

subroutine fortran_part(iters) bind(C)
  USEMPI
  use help
  use seen
  implicit none
  INCMPI
  integer(c_int), intent(in) :: iters
  COMM :: world, dup, cart, row, half, graph
  DTYPE :: column, matrix, pair, kept
  REQ :: rq(4), fixed(2)
  OPER :: product
  GRP :: everyone, some
  ERRH :: handler
  INFO :: notes
#ifdef F08
  STATUS :: st, sts(4)
  type(c_ptr) :: detached
  procedure(MPI_User_function) :: multiply
  procedure(MPI_Comm_copy_attr_function) :: copies
  procedure(MPI_Comm_delete_attr_function) :: deletes
  procedure(MPI_Comm_errhandler_function) :: handles
#else
  integer :: st(MPI_STATUS_SIZE), sts(MPI_STATUS_SIZE, 4)
  external multiply, copies, deletes, handles
#endif
  integer :: ierr, rank, size, right, left, iter, i, k, got, key, typekey, dims(2), coords(2), back(2), position, length, class
  integer :: sources(1), destinations(1), index, indices(4), number, blocks(2), color, ranks(2), room
  integer, allocatable :: counts(:), places(:)
  integer(kind=MPI_ADDRESS_KIND) :: value, where(2), lower, extent
  logical :: periods(2), remain(2), flag
  double precision :: q(2,2), p(2,2), loc(2), best(2), total
  double precision, allocatable :: every(:)
  character(len=MPI_MAX_OBJECT_NAME) :: name
  character(len=40) :: text
  character(len=200) :: packed

  call MPI_Init(ierr)
  world = MPI_COMM_WORLD
  call MPI_Comm_rank(world, rank, ierr)
  call MPI_Comm_size(world, size, ierr)
  call app_set(rank, size)
  right = mod(rank + 1, size)
  left = mod(rank + size - 1, size)
  allocate(counts(size), places(size), every(size*(size+1)/2 + size))

  ! what lasts over all iterations
  call MPI_Type_vector(n, 1, n, MPI_DOUBLE_PRECISION, column, ierr)
  call MPI_Type_commit(column, ierr)
  call MPI_Type_contiguous(4, MPI_DOUBLE_PRECISION, matrix, ierr)
  call MPI_Type_commit(matrix, ierr)
  call MPI_Get_address(whole, where(1), ierr)
  call MPI_Get_address(c, where(2), ierr)
  blocks = (/ 1, n /)
  call MPI_Type_create_struct(2, blocks, where, (/ MPI_INTEGER, MPI_DOUBLE_PRECISION /), pair, ierr)
  call MPI_Type_commit(pair, ierr)
  call MPI_Op_create(multiply, .false., product, ierr)
  call MPI_Comm_create_keyval(copies, deletes, key, 7_MPI_ADDRESS_KIND, ierr)
  value = 1000 + rank
  call MPI_Comm_set_attr(world, key, value, ierr)
  call MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, typekey, 0_MPI_ADDRESS_KIND, ierr)
  call MPI_Type_set_attr(column, typekey, value, ierr)
  call MPI_Type_dup(column, kept, ierr)
  dims = (/ size, 1 /)
  periods = (/ .true., .false. /)
  call MPI_Cart_create(world, 2, dims, periods, .false., cart, ierr)
  call MPI_Comm_set_name(cart, 'a row of processes', ierr)
  call MPI_Comm_create_errhandler(handles, handler, ierr)
  sources = left
  destinations = right
  call MPI_Dist_graph_create_adjacent(world, 1, sources, MPI_UNWEIGHTED, 1, destinations, MPI_UNWEIGHTED, MPI_INFO_NULL, .false., &
      graph, ierr)
  call MPI_Info_create(notes, ierr)
  call MPI_Info_set(notes, 'where', '  on a node  ', ierr)
  call MPI_Recv_init(b, n, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, 11, cart, fixed(1), ierr)
  call MPI_Send_init(m(3,1), 1, column, right, 11, cart, fixed(2), ierr)
  call MPI_Buffer_attach(buffer, 8000, ierr)
  call MPI_Comm_group(world, everyone, ierr)
  call MPI_Type_size(kept, room, ierr)

  do iter = 0, iters - 1
    call app_step(iter)

    ! point to point
    a = (/ (dble(i*iter + rank), i = 1, n) /)
    call MPI_Irecv(b, n, MPI_DOUBLE_PRECISION, left, 1, world, rq(1), ierr)
    call MPI_Irecv(c, n, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, 2, world, rq(2), ierr)
    call MPI_Isend(a, n, MPI_DOUBLE_PRECISION, right, 1, world, rq(3), ierr)
    call MPI_Issend(a, n - 1, MPI_DOUBLE_PRECISION, right, 2, world, rq(4), ierr)
    call MPI_Waitall(4, rq, sts, ierr)
#ifdef F08
    call check(SRC(sts(2)) == left .and. TAGOF(sts(1)) == 1, 'statuses')
    call MPI_Get_count(sts(2), MPI_DOUBLE_PRECISION, got, ierr)
#else
    call check(sts(MPI_SOURCE,2) == left .and. sts(MPI_TAG,1) == 1, 'statuses')
    call MPI_Get_count(sts(:,2), MPI_DOUBLE_PRECISION, got, ierr)
#endif
    call check(got == n - 1 .and. b(2) == 2*iter + left .and. all_null(rq), 'ring')
    call MPI_Sendrecv(a, n, MPI_DOUBLE_PRECISION, left, 3, b, n, MPI_DOUBLE_PRECISION, right, MPI_ANY_TAG, world, MPI_STATUS_IGNORE, ierr)
    call MPI_Sendrecv_replace(b, n, MPI_DOUBLE_PRECISION, right, 4, left, 4, world, st, ierr)
    call told(iter, 'ring', sum(b) + sum(c(1:n-1)))
    call MPI_Bsend(rank, 1, MPI_INTEGER, right, 5, world, ierr)
    call MPI_Probe(left, 5, world, st, ierr)
    call MPI_Recv(got, 1, MPI_INTEGER, left, 5, world, MPI_STATUS_IGNORE, ierr)
    call check(got == left, 'buffered')
    call MPI_Iprobe(MPI_ANY_SOURCE, 77, world, flag, MPI_STATUS_IGNORE, ierr)
    call check(.not. flag, 'iprobe')

    ! persistent, indices from 1
    m = rank + iter
    call MPI_Startall(2, fixed, ierr)
    do k = 1, 2
      call MPI_Waitany(2, fixed, index, st, ierr)
      call check(index >= 0 .and. index <= 2, 'waitany')      ! MPICH 4.0's mpi_f08 counts from 0
    end do
    ! none is active: MPI_UNDEFINED, to which MPICH 4.0 adds one
    call MPI_Waitany(2, fixed, index, MPI_STATUS_IGNORE, ierr)
    call check(index < 1 .and. all(b == left + iter), 'persistent')
    do i = 1, 4
      call MPI_Irecv(b(i), 1, MPI_DOUBLE_PRECISION, left, 20 + i, world, rq(i), ierr)
    end do
    do i = 4, 1, -1
      call MPI_Send(a(i), 1, MPI_DOUBLE_PRECISION, right, 20 + i, world, ierr)
    end do
    got = 0
    do while (got < 4)
      call MPI_Waitsome(4, rq, number, indices, MPI_STATUSES_IGNORE, ierr)
      do i = 1, number
#if defined(F08) && defined(MPICH)
        indices(i) = indices(i) + 1     ! those of its mpi_f08 are from 0 here, too
#endif
        call check(b(indices(i)) == dble(indices(i)*iter + left), 'waitsome')
      end do
      got = got + number
    end do

    ! collectives
    whole = -1
    c = 0
    if (rank == mod(iter, size)) then
      whole = iter
      c = a
    end if
    call MPI_Bcast(MPI_BOTTOM, 1, pair, mod(iter, size), world, ierr)
    call check(whole == iter, 'bcast at MPI_BOTTOM')
    a(1) = rank + 1
    call MPI_Allreduce(MPI_IN_PLACE, a, n, MPI_DOUBLE_PRECISION, MPI_SUM, world, ierr)
    call check(a(1) == size*(size+1)/2, 'in place')
    q = reshape((/ 1d0, dble(rank + 1), 0d0, 1d0 + mod(iter, 3) /), (/ 2, 2 /))
    call MPI_Allreduce(q, p, 1, matrix, product, world, ierr)
    loc = (/ dble(mod(rank*7 + iter, 5)), dble(rank) /)
    call MPI_Allreduce(loc, best, 1, MPI_2DOUBLE_PRECISION, MPI_MAXLOC, world, ierr)
    call told(iter, 'reduced', sum(a) + sum(c) + p(1,1) + 3*p(2,1) + 5*p(1,2) + 7*p(2,2) + best(1)*10 + best(2))
    counts = (/ (i, i = 1, size) /)
    places = (/ (i*(i-1)/2, i = 1, size) /)
    every = 0
    b = rank + iter
    call MPI_Allgatherv(b, rank + 1, MPI_DOUBLE_PRECISION, every, counts, places, MPI_DOUBLE_PRECISION, world, ierr)
    total = sum(every)
    call MPI_Scan(total, best, 1, MPI_DOUBLE_PRECISION, MPI_SUM, world, ierr)
    call MPI_Neighbor_allgather(rank, 1, MPI_INTEGER, got, 1, MPI_INTEGER, graph, ierr)
    call check(got == left, 'neighbours')
    call told(iter, 'gathered', total + best(1))

    ! communicators, groups, names, logicals
    color = mod(rank, 2)
    if (mod(iter, 2) == 1) color = MPI_UNDEFINED
    call MPI_Comm_split(world, color, -rank, half, ierr)
    call check((half == MPI_COMM_NULL) .eqv. (color == MPI_UNDEFINED), 'split')
    if (half /= MPI_COMM_NULL) call MPI_Comm_free(half, ierr)
    k = copied
    call MPI_Comm_dup(world, dup, ierr)
    call MPI_Comm_get_attr(dup, key, value, flag, ierr)
    call check(flag .and. value == 1001 + rank .and. copied == k + 1, 'copied attribute')
    call MPI_Comm_free(dup, ierr)
    call check(deleted == copied, 'deleted attributes')
    call MPI_Comm_get_attr(world, MPI_TAG_UB, value, flag, ierr)
    call check(flag .and. value >= 32767, 'MPI_TAG_UB')
    call MPI_Type_get_attr(kept, typekey, value, flag, ierr)
    call check(flag .and. value == 1000 + rank, 'attribute of a type')
    call check(c_looks(VAL(world), key, VAL(column)) == 1000 + rank + size + 8*n, 'what C sees')
    call MPI_Cart_get(cart, 2, back, periods, coords, ierr)
    call check(all(back == dims) .and. periods(1) .and. .not. periods(2) .and. coords(1) == rank, 'cart')
    remain = (/ .false., .true. /)
    call MPI_Cart_sub(cart, remain, row, ierr)
    call MPI_Comm_size(row, got, ierr)
    call check(got == 1, 'cart_sub')
    call MPI_Comm_free(row, ierr)
    name = '?'
    call MPI_Comm_get_name(cart, name, length, ierr)
    call check(name == 'a row of processes' .and. length == 18, 'name')
    ranks = (/ 0, size - 1 /)
    call MPI_Group_incl(everyone, min(size, 2), ranks, some, ierr)
    call MPI_Group_size(some, got, ierr)
    call MPI_Group_free(some, ierr)
    call check(got == min(size, 2), 'group')
    text = '?'
    call MPI_Info_get(notes, ' where ', 40, text, flag, ierr)
    call check(flag .and. adjustl(text) == 'on a node', 'info')
    call MPI_Info_get(notes, 'nowhere', 40, text, flag, ierr)
    call check(.not. flag, 'no info')

    ! packing, extents, errors
    position = 0
    call MPI_Pack(a, 3, MPI_DOUBLE_PRECISION, packed, 200, position, world, ierr)
    call MPI_Pack(rank, 1, MPI_INTEGER, packed, 200, position, world, ierr)
    position = 0
    call MPI_Unpack(packed, 200, position, b, 3, MPI_DOUBLE_PRECISION, world, ierr)
    call MPI_Unpack(packed, 200, position, got, 1, MPI_INTEGER, world, ierr)
    call check(got == rank .and. all(b(1:3) == a(1:3)), 'packed')
    call MPI_Type_get_extent(column, lower, extent, ierr)
    call check(lower == 0 .and. extent == 8*((n - 1)*n + 1), 'extent')
    call MPI_Comm_set_errhandler(cart, handler, ierr)
    k = handled
    call MPI_Send(a, 1, MPI_DOUBLE_PRECISION, size + 3, 1, cart, ierr)
    call check(handled == k + 1 .and. ierr /= MPI_SUCCESS, 'error handler')
    call MPI_Error_class(ierr, class, i)
    call check(class == MPI_ERR_RANK, 'error class')
  end do

  call MPI_Request_free(fixed(1), ierr)
  call MPI_Request_free(fixed(2), ierr)
#ifdef F08
  call MPI_Buffer_detach(detached, room, ierr)
#else
  call MPI_Buffer_detach(buffer, room, ierr)
#endif
  call MPI_Op_free(product, ierr)
  call MPI_Type_free(column, ierr)
  call MPI_Type_free(kept, ierr)
  call MPI_Type_free(matrix, ierr)
  call MPI_Type_free(pair, ierr)
  call MPI_Info_free(notes, ierr)
  call MPI_Comm_free(cart, ierr)
  call app_over()
  call MPI_Finalize(ierr)
contains
  logical function all_null(list)
    REQ, intent(in) :: list(:)
    integer :: j
    all_null = .true.
    do j = 1, ubound(list, 1)
      if (list(j) /= MPI_REQUEST_NULL) all_null = .false.
    end do
  end function
end subroutine

! The product of 2 x 2 matrices, which does not commute.
#ifdef F08
subroutine multiply(in, inout, count, dtype)
  use mpi_f08
  use iso_c_binding
  implicit none
  type(c_ptr), value :: in, inout
  integer :: count
  type(MPI_Datatype) :: dtype
  double precision, pointer :: x(:,:,:), y(:,:,:)
  integer :: i
  call c_f_pointer(in, x, (/ 2, 2, count /))
  call c_f_pointer(inout, y, (/ 2, 2, count /))
#else
subroutine multiply(x, y, count, dtype)
  implicit none
  integer :: count, dtype, i
  double precision :: x(2,2,count), y(2,2,count)
#endif
  do i = 1, count
    y(:,:,i) = matmul(x(:,:,i), y(:,:,i))
  end do
end subroutine

subroutine copies(comm, keyval, extra, from, to, flag, ierr)
  USEMPI
  use seen
  implicit none
  INCMPI
  COMM :: comm
  integer :: keyval, ierr
  integer(kind=MPI_ADDRESS_KIND) :: extra, from, to
  logical :: flag
  if (comm == MPI_COMM_NULL .or. keyval == MPI_KEYVAL_INVALID) return
  copied = copied + 1
  to = from + extra - 6
  flag = .true.
  ierr = MPI_SUCCESS
end subroutine

subroutine deletes(comm, keyval, value, extra, ierr)
  USEMPI
  use seen
  implicit none
  INCMPI
  COMM :: comm
  integer :: keyval, ierr
  integer(kind=MPI_ADDRESS_KIND) :: value, extra
  if (comm == MPI_COMM_NULL .or. keyval == MPI_KEYVAL_INVALID .or. value < 1000) return
  deleted = deleted + int(extra) - 6
  ierr = MPI_SUCCESS
end subroutine

subroutine handles(comm, code)
  USEMPI
  use seen
  implicit none
  INCMPI
  COMM :: comm
  integer :: code
  if (comm /= MPI_COMM_NULL .and. code /= MPI_SUCCESS) handled = handled + 1
end subroutine
