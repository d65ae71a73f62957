! test_doc: collectives in Fortran: each blocking, and nonblocking over an iteration's end, with MPI_IN_PLACE, MPI_BOTTOM, types and
! operations that last from before the first iteration.
#include "forms.inc"

! MPI reads and writes all of it, while other statements run. The last dimension is the mode: 1 blocking, 2 nonblocking.
module seen
  integer, parameter :: k = 3, top = 16, ramps = top*(top + 1)/2
  integer :: root(2), mine, rank, size, nr
  integer, dimension(0:top-1) :: ramp, rampat, cols, colsat, all3, all3at, ones, wat
  integer :: two(2), twoat(2), two1(2), nvcounts(2), nvat(2)
  integer :: bc(k,2), boti(2), gas(k,2), gar(k,0:top-1,2), gai(k,0:top-1,2), gvs(top,2), gvr(ramps,2), scs(k,0:top-1,2), scr(k,2)
  integer :: svs(ramps,2), svr(top,2), ags(k,2), agr(k,0:top-1,2), agi(k,0:top-1,2), avr(ramps,2), aas(k,0:top-1,2), aar(k,0:top-1,2)
  integer :: aai(k,0:top-1,2), avs(k*top,2), avv(k*top,2), aws(4,0:top-1,2), awr(4,0:top-1,2), res(k,2), rer(k,2), rei(4,2)
  integer :: arm(4,2), arr(4,2), bxr(k,2), rss(ramps,2), rsr(top,2), rsb(k*top,2), smr(4,2), sci(k,2), exr(4,2)
  integer :: nar(k,2,2), nvr(2*top,2), nas(k,2,2), nab(k,2,2), nac(k,2,2), naw(k,2,2), lis(2,2,2), lir(2,2,2)
  double precision :: botd(4,2), ard(k,2), lds(2,2,2), ldr(2,2,2)
  real :: lrs(2,2), lrr(2,2)
  complex :: cs(2), cr(2)
  complex(kind=kind(1d0)) :: zs(2), zr(2)
  logical :: los(3,2), lor(3,2), lan(3,2), lox(3,2)
  type mix
    sequence
    double precision :: high
    integer :: total, pad
  end type
  type(mix) :: mixs(2,2), mixr(2,2)
end module

subroutine fortran_part(iters) bind(C)
  USEMPI
  use help
  use seen
  implicit none
  INCMPI
  integer(c_int), intent(in) :: iters
  COMM :: comm, ring, cart
  DTYPE :: matrix, three, mixed, striped, half, bottom(2), wtypes(0:top-1), nwtypes(2), pieces(2)
  REQ :: rq(60)
  OPER :: product, mixing
  integer :: ierr, iter, i, j, m, blocks(2)
  logical :: flag, periods(1), held
  ADDR :: places(2), wide(2), place
#ifdef F08
  procedure(MPI_User_function) :: multiply, mixes
#else
  external multiply, mixes
#endif

  call MPI_Init(ierr)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  call MPI_Comm_rank(comm, rank, ierr)
  call MPI_Comm_size(comm, size, ierr)
  call app_set(rank, size)
  call check(size <= top, 'too many ranks')
  held = c_held() /= 0
  call lasting()
  call filled(2, 0)
  call begun()
  do iter = 0, iters - 1
    ! across the end of an iteration: all nonblocking ones
    call app_step(iter)
    call MPI_Waitall(nr, rq, MPI_STATUSES_IGNORE, ierr)
    call checked(2, iter)
    call filled(1, iter)
    call blocking()
    call checked(1, iter)
    call filled(2, iter + 1)
    call begun()
    call alone(iter)
  end do
  call MPI_Waitall(nr, rq, MPI_STATUSES_IGNORE, ierr)
  call checked(2, iters)
  call MPI_Op_free(product, ierr)
  call MPI_Op_free(mixing, ierr)
  call MPI_Comm_free(ring, ierr)
  call MPI_Comm_free(cart, ierr)
  call app_over()
  call MPI_Finalize(ierr)
contains

! What lasts over all iterations.
subroutine lasting()
  mine = rank + 1
  do i = 0, size - 1
    ramp(i) = i + 1
    rampat(i) = (size*(size + 1) - (i + 1)*(i + 2))/2       ! those of higher ranks come first
    cols(i) = mod(rank + i, k + 1)                          ! as much as the other one says of us
    all3(i) = cols(i)
    colsat(i) = k*i
    all3at(i) = k*(size - 1 - i)
    ones(i) = 1
    wat(i) = 16*i
  end do
  call MPI_Type_contiguous(4, MPI_INTEGER, matrix, ierr)
  call MPI_Type_commit(matrix, ierr)
  call MPI_Type_contiguous(k, MPI_INTEGER, three, ierr)
  call MPI_Type_commit(three, ierr)
  call MPI_Type_vector(2, 1, 2, MPI_INTEGER, striped, ierr)
  call MPI_Type_commit(striped, ierr)
  call MPI_Type_contiguous(2, MPI_INTEGER, half, ierr)
  call MPI_Type_commit(half, ierr)
  do i = 0, size - 1
    wtypes(i) = half
    if (mod(rank + i, 2) == 1) wtypes(i) = striped
  end do
  blocks = (/ 1, 1 /)
  places = (/ 0, 8 /)
  pieces(1) = MPI_DOUBLE_PRECISION
  pieces(2) = MPI_INTEGER
  call MPI_Type_create_struct(2, blocks, places, pieces, half, ierr)
  place = 0
  call MPI_Type_create_resized(half, place, 16_MPI_ADDRESS_KIND, mixed, ierr)
  call MPI_Type_commit(mixed, ierr)
  call MPI_Type_free(half, ierr)
  do m = 1, 2
    call MPI_Get_address(boti(m), places(1), ierr)
    call MPI_Get_address(botd(1,m), places(2), ierr)
    pieces(1) = MPI_INTEGER
    pieces(2) = MPI_DOUBLE_PRECISION
    blocks(2) = 4
    call MPI_Type_create_struct(2, blocks, places, pieces, bottom(m), ierr)
    call MPI_Type_commit(bottom(m), ierr)
  end do
  call MPI_Op_create(multiply, .false., product, ierr)
  call MPI_Op_create(mixes, .true., mixing, ierr)
  call MPI_Op_commutative(product, flag, ierr)
  call check(.not. flag, 'product commutes')
  call MPI_Op_commutative(mixing, flag, ierr)
  call check(flag, 'mixing does not commute')
  blocks(1) = mod(rank + size - 1, size)
  blocks(2) = mod(rank + 2, size)
  two(1) = mod(rank + 1, size)
  two(2) = mod(rank + 2*size - 2, size)
  call MPI_Dist_graph_create_adjacent(comm, 2, blocks, MPI_UNWEIGHTED, 2, two, MPI_UNWEIGHTED, MPI_INFO_NULL, .false., ring, ierr)
  nvcounts = blocks + 1
  nvat = (/ top, 0 /)
  periods = .true.
  two(1) = size
  call MPI_Cart_create(comm, 1, two, periods, .false., cart, ierr)
  two = (/ 2, 2 /)
  twoat = (/ 3, 1 /)
  two1 = (/ 1, 1 /)
  wide = (/ 4, 8 /)
  nwtypes(2) = striped
  call MPI_Type_dup(striped, nwtypes(1), ierr)
  root = 0
end subroutine

subroutine blocking()
#define M 1
#define DO(name) call PASTE(MPI_)name
#define END ierr)
#include "coll_calls.inc"
#undef M
#undef DO
#undef END
end subroutine

subroutine begun()
#define M 2
! Open MPI 4.1's Fortran frees the array of types before it is over.
#ifdef OPENMPI
#define TYPES_ARE_LOST
#endif
#define DO(name) nr = nr + 1; call PASTE(MPI_I)name
#define END rq(nr), ierr)
#include "coll_calls.inc"
#undef TYPES_ARE_LOST
#undef M
#undef DO
#undef END
end subroutine

integer function val(r, i, it)
  integer, intent(in) :: r, i, it
  val = 1000*r + i + 17*mod(it, 50)
end function

! The 2 x 2 matrix of a rank.
function matrix_of(r, it)
  integer, intent(in) :: r, it
  integer :: matrix_of(4)
  matrix_of = (/ 1, mod(r + it, 3), mod(r, 2), 1 + mod(it, 2) /)
end function

function product_of(first, last, it)
  integer, intent(in) :: first, last, it
  integer :: product_of(4), r
  product_of = matrix_of(first, it)
  do r = first + 1, last
    product_of = reshape(matmul(reshape(product_of, (/ 2, 2 /)), reshape(matrix_of(r, it), (/ 2, 2 /))), (/ 4 /))
  end do
end function

! What goes out in an iteration, and nothing where something will come in.
subroutine filled(m, it)
  integer, intent(in) :: m, it
  integer :: i, j
  if (m == 1) root(1) = mod(it, size)
  if (m == 2) root(2) = mod(it + 1, size)
  bc(:,m) = -1; boti(m) = -1; botd(:,m) = -1
  if (rank == root(m)) then
    bc(:,m) = (/ (val(rank, i, it), i = 1, k) /)
    boti(m) = it
    botd(:,m) = (/ (it + 0.5d0*i, i = 1, 4) /)
  end if
  gas(:,m) = (/ (val(rank, i, it), i = 1, k) /)
  ags(:,m) = gas(:,m)
  res(:,m) = gas(:,m)
  sci(:,m) = gas(:,m)
  ard(:,m) = gas(:,m) + 0.25d0
  gar(:,:,m) = -1; gai(:,:,m) = -1; gai(:,rank,m) = gas(:,m); agr(:,:,m) = -1; agi(:,:,m) = -1; agi(:,rank,m) = gas(:,m)
  gvs(:,m) = val(rank, 7, it); gvr(:,m) = -1; avr(:,m) = -1; nvr(:,m) = -1
  scr(:,m) = -1; svr(:,m) = -1; svs(:,m) = -1; scs(:,:,m) = -1
  if (rank == root(m)) then
    do i = 0, size - 1
      scs(:,i,m) = (/ (val(i, j, it), j = 1, k) /)
      svs(rampat(i)+1:rampat(i)+ramp(i),m) = (/ (val(i, j, it), j = 1, ramp(i)) /)
    end do
  end if
  avv(:,m) = -1; aar(:,:,m) = -1; awr(:,:,m) = -1
  do i = 0, size - 1
    aas(:,i,m) = (/ (val(rank, 10*i + j, it), j = 1, k) /)
    avs(k*i+1:k*i+k,m) = (/ (val(rank, 10*i + j, it), j = 1, k) /)
    aws(:,i,m) = (/ (val(rank, 10*i + j, it), j = 1, 4) /)
  end do
  aai(:,:,m) = aas(:,:,m)
  rer(:,m) = -1; rei(:,m) = matrix_of(rank, it); arm(:,m) = rei(:,m); arr(:,m) = -1; smr(:,m) = -1; exr(:,m) = -1; bxr(:,m) = -1
  mixs(:,m)%high = (/ mod(rank*7 + it, 5) + 0.5d0, dble(rank) /)
  mixs(:,m)%total = (/ rank, it /)
  mixs(:,m)%pad = 0
  mixr(:,m)%total = -1
  los(:,m) = (/ rank == mod(it, size), mod(it + rank, 2) == 0, it < 0 /)
  lor(:,m) = .false.; lan(:,m) = .true.; lox(:,m) = .true.
  lis(:,:,m) = reshape((/ mod(rank*7 + it, 5), rank, -rank, 100 + rank /), (/ 2, 2 /))
  lds(:,:,m) = lis(:,:,m)
  lrs(:,m) = real(lis(:,1,m))
  lir(:,:,m) = -1; ldr(:,:,m) = -1; lrr(:,m) = -1
  zs(m) = (1d0, 1d0); cs(m) = cmplx(rank, it)
  rss(:,m) = (/ (val(rank, i, it), i = 1, ramps) /)
  rsr(:,m) = -1
  rsb(:,m) = (/ (val(mod(rank + i, size), i, it), i = 1, k*top) /)
  do i = 1, 2
    nas(:,i,m) = (/ (val(rank, 10*i + j, it), j = 1, k) /)
  end do
  nar(:,:,m) = -1; nab(:,:,m) = -1; nac(:,:,m) = -1; naw(:,:,m) = -1
end subroutine

! What has come in, against what the others have sent, computed here.
subroutine checked(m, it)
  integer, intent(in) :: m, it
  integer :: i, j, r, low, high, left, right, off, x
  double precision :: s
  character(len=1) :: md
  logical :: lists
  md = achar(iachar('0') + m)
  lists = .true.              ! are those with arrays of types called in this mode (coll_calls.inc)?
#ifdef OPENMPI
  if (m == 2) lists = held
#endif
  call check(all(bc(:,m) == (/ (val(root(m), i, it), i = 1, k) /)), 'bcast'//md)
  call check(boti(m) == it .and. all(botd(:,m) == (/ (it + 0.5d0*i, i = 1, 4) /)), 'bcast at MPI_BOTTOM'//md)
  s = 0
  low = 0
  high = 0
  do i = 0, size - 1
    if (mod(i*7 + it, 5) < mod(low*7 + it, 5)) low = i
    if (mod(i*7 + it, 5) > mod(high*7 + it, 5)) high = i
    if (rank == root(m)) then
      call check(all(gar(:,i,m) == (/ (val(i, j, it), j = 1, k) /)), 'gather'//md)
      call check(all(gai(:,i,m) == (/ (val(i, j, it), j = 1, k) /)), 'gather in place'//md)
      call check(all(gvr(rampat(i)+1:rampat(i)+ramp(i),m) == val(i, 7, it)), 'gatherv'//md)
    end if
    call check(all(agr(:,i,m) == (/ (val(i, j, it), j = 1, k) /)), 'allgather'//md)
    call check(all(agi(:,i,m) == (/ (val(i, j, it), j = 1, k) /)), 'allgather in place'//md)
    call check(all(avr(rampat(i)+1:rampat(i)+ramp(i),m) == val(i, 7, it)), 'allgatherv'//md)
    call check(all(aar(:,i,m) == (/ (val(i, 10*rank + j, it), j = 1, k) /)), 'alltoall'//md)
    call check(all(aai(:,i,m) == (/ (val(i, 10*rank + j, it), j = 1, k) /)), 'alltoall in place'//md)
    call check(all(avv(all3at(i)+1:all3at(i)+all3(i),m) == (/ (val(i, 10*rank + j, it), j = 1, all3(i)) /)), 'alltoallv'//md)
    call check(all(avv(all3at(i)+all3(i)+1:all3at(i)+k,m) == -1), 'alltoallv beyond'//md)
    off = 1 + mod(rank + i, 2)
    if (lists) then
      call check(awr(1,i,m) == val(i, 10*rank + 1, it) .and. awr(1+off,i,m) == val(i, 10*rank + 1 + off, it), 'alltoallw'//md)
      call check(awr(4,i,m) == -1 .and. awr(4-off,i,m) == -1, 'alltoallw beside'//md)
    end if
  end do
  if (rank /= root(m)) call check(all(gar(:,:,m) == -1) .and. all(svr(1:mine,m) == (/ (val(rank, j, it), j = 1, mine) /)), 'scatterv'//md)
  call check(all(scr(:,m) == (/ (val(rank, j, it), j = 1, k) /)), 'scatter'//md)
  do j = 1, k
    x = 0
    do r = 0, size - 1
      x = ieor(x, val(r, j, it))
    end do
    call check(bxr(j,m) == x, 'exclusive or'//md)
    x = 1000*(size*(size - 1)/2) + size*val(0, j, it)
    if (rank == root(m)) call check(rer(j,m) == x, 'reduce'//md)
    call check(ard(j,m) == x + 0.25d0*size, 'allreduce in place'//md)
    call check(sci(j,m) == 1000*(rank*(rank + 1)/2) + (rank + 1)*val(0, j, it), 'scan in place'//md)
  end do
  if (rank == root(m)) call check(all(rei(:,m) == product_of(0, size - 1, it)), 'reduce in place'//md)
  call check(all(arr(:,m) == product_of(0, size - 1, it)), 'allreduce by an own operation'//md)
  call check(all(smr(:,m) == product_of(0, rank, it)), 'scan by an own operation'//md)
  if (rank > 0) call check(all(exr(:,m) == product_of(0, rank - 1, it)), 'exscan by an own operation'//md)
  call check(mixr(1,m)%high == mod(high*7 + it, 5) + 0.5d0 .and. mixr(2,m)%high == size - 1, 'mixed high'//md)
  call check(mixr(1,m)%total == size*(size - 1)/2 .and. mixr(2,m)%total == it*size, 'mixed total'//md)
  call check(lor(1,m) .and. (lor(2,m) .eqv. size > 1 .or. mod(it, 2) == 0) .and. .not. lor(3,m), 'logical or'//md)
  call check((lan(1,m) .eqv. size == 1) .and. (lan(2,m) .eqv. size == 1 .and. mod(it, 2) == 0) .and. .not. lan(3,m), 'logical and'//md)
  call check(lox(1,m) .and. (lox(2,m) .eqv. mod((size + mod(it + 1, 2))/2, 2) == 1) .and. .not. lox(3,m), 'logical xor'//md)
  call check(all(lir(:,1,m) == (/ mod(low*7 + it, 5), low /)) .and. all(lir(:,2,m) == (/ 1 - size, 99 + size /)), 'minloc'//md)
  call check(all(ldr(:,1,m) == (/ mod(high*7 + it, 5), high /)) .and. all(ldr(:,2,m) == (/ 0, 100 /)), 'maxloc'//md)
  call check(all(lrr(:,m) == (/ mod(high*7 + it, 5), high /)), 'maxloc of reals'//md)
  call check(zr(m) == (1d0, 1d0)**size .and. cr(m) == cmplx(size*(size - 1)/2, size*it), 'complex'//md)
  do j = 1, mine
    x = 1000*(size*(size - 1)/2) + size*val(0, rank*(rank + 1)/2 + j, it)
    call check(rsr(j,m) == x, 'reduce_scatter'//md)
  end do
  call check(all(rsb(1:k,m) == (/ (val(size - 1, rank*k + j, it), j = 1, k) /)), 'reduce_scatter_block'//md)
  left = mod(rank + size - 1, size)
  right = mod(rank + 1, size)
  call check(all(nar(:,1,m) == (/ (val(left, j, it), j = 1, k) /)), 'neighbor_allgather'//md)
  call check(all(nar(:,2,m) == (/ (val(mod(rank + 2, size), j, it), j = 1, k) /)), 'neighbor_allgather 2'//md)
  call check(all(nvr(top+1:top+nvcounts(1),m) == val(left, 7, it)), 'neighbor_allgatherv'//md)
  if (size > 2) then          ! with two ranks both neighbours are one, whose messages MPICH and Open MPI match in other ways
    call check(all(nab(:,1,m) == (/ (val(left, 20 + j, it), j = 1, k) /)), 'neighbor_alltoall'//md)
    call check(all(nab(:,2,m) == (/ (val(right, 10 + j, it), j = 1, k) /)), 'neighbor_alltoall 2'//md)
    ! elements 4, 5 of nas go to the left, 2, 3 to the right, and come from the other side at the same places
    call check(all((/ nac(1,2,m), nac(2,2,m) /) == (/ val(left, 12, it), val(left, 13, it) /)), 'neighbor_alltoallv'//md)
    call check(all((/ nac(2,1,m), nac(3,1,m) /) == (/ val(right, 21, it), val(right, 22, it) /)), 'neighbor_alltoallv 2'//md)
  end if
  s = sum(dble(avr(1:size*(size+1)/2,m))) + sum(avv(1:k*size,m))
  if (m == 1) s = s + sum(gar(:,0:size-1,m)) + sum(awr(:,0:size-1,m))
  s = s + sum(nar(:,:,m)) + sum(nvr(:,m)) + sum(arr(:,m)) + sum(smr(:,m))
  if (size > 2) s = s + 3*sum(nab(:,:,m)) + 5*sum(nac(:,:,m))
  if (size > 3 .and. lists) then
    call check(naw(2,1,m) == val(left, 12, it) .and. naw(1,2,m) == val(left, 21, it), 'neighbor_alltoallw'//md)
    call check(naw(3,1,m) == val(mod(rank + 2, size), 13, it), 'neighbor_alltoallw 2'//md)
  end if
  if (it < iters) call told(it, 'collectives'//md, s)
end subroutine

! What has one form alone.
subroutine alone(it)
  integer, intent(in) :: it
  integer :: x(4), y(4), got, request
  type(mix) :: p(2), q(2)
  double precision :: r(2)
  x = matrix_of(1, it)
  y = matrix_of(2, it)
  call MPI_Reduce_local(x, y, 1, matrix, product, ierr)
  call check(all(y == product_of(1, 2, it)), 'reduce_local by an own operation')
  p(:)%high = 1; q(:)%high = 2; p(:)%total = it; q(:)%total = 5
  call MPI_Reduce_local(p, q, 2, mixed, mixing, ierr)
  call check(all(q(:)%high == 2) .and. all(q(:)%total == it + 5), 'reduce_local of a struct')
  r = (/ 1.5d0, dble(it) /)
  call MPI_Reduce_local((/ 2.5d0, -1d0 /), r, 2, MPI_DOUBLE_PRECISION, MPI_MIN, ierr)
  call check(r(1) == 1.5d0 .and. r(2) == -1, 'reduce_local')
end subroutine
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
  integer, pointer :: x(:,:,:), y(:,:,:)
  integer :: i
  call c_f_pointer(in, x, (/ 2, 2, count /))
  call c_f_pointer(inout, y, (/ 2, 2, count /))
#else
subroutine multiply(x, y, count, dtype)
  implicit none
  integer :: count, dtype, i
  integer :: x(2,2,count), y(2,2,count)
#endif
  do i = 1, count
    y(:,:,i) = matmul(x(:,:,i), y(:,:,i))
  end do
end subroutine

! The higher of one, the sum of the other. It looks at the type.
#ifdef F08
subroutine mixes(in, inout, count, dtype)
  use mpi_f08
  use iso_c_binding
  use help
  use seen
  implicit none
  type(c_ptr), value :: in, inout
  integer :: count
  type(MPI_Datatype) :: dtype
  type(mix), pointer :: x(:), y(:)
#else
subroutine mixes(x, y, count, dtype)
  USEMPI
  use help
  use seen
  implicit none
  INCMPI
  integer :: count, dtype
  type(mix) :: x(count), y(count)
#endif
  integer :: bytes, ierr, i
  ADDR :: low, extent
#ifdef F08
  call c_f_pointer(in, x, (/ count /))
  call c_f_pointer(inout, y, (/ count /))
#endif
  call MPI_Type_size(dtype, bytes, ierr)
  call MPI_Type_get_extent(dtype, low, extent, ierr)
  call check(bytes == 12 .and. extent == 16, 'what an operation is called with')
  do i = 1, count
    y(i)%high = max(x(i)%high, y(i)%high)
    y(i)%total = x(i)%total + y(i)%total
  end do
end subroutine
