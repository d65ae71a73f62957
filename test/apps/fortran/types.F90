! test_doc: datatypes in Fortran: each constructor, what is asked of a type, parametrised kinds, packing, and the predefined types of
! Fortran. All types are made before the first iteration, and sent in each.
#include "forms.inc"

module seen
  integer, parameter :: top = 100
  integer :: from(top), to(top), back(top)
  double precision :: d(4), e(4)
  complex :: z(2), y(2)
  logical :: l(3), m(3)
  character(len=9) :: c, b
  character(len=2000) :: packed
  real(kind=selected_real_kind(15, 300)) :: r15(2), s15(2)
  integer(kind=selected_int_kind(12)) :: i12(2), j12(2)
  complex(kind=selected_real_kind(6, 30)) :: z6(2), y6(2)
  integer(kind=1) :: i1(2), j1(2)
  integer(kind=2) :: i2(2), j2(2)
  integer(kind=8) :: i8(2), j8(2)
  real(kind=4) :: r4(2), s4(2)
  type mixed
    sequence
    double precision :: x
    integer :: i
    character(len=4) :: s
  end type
  type(mixed) :: p(3), q(3)
end module

subroutine fortran_part(iters) bind(C)
  USEMPI
  use help
  use seen
  implicit none
  INCMPI
  integer(c_int), intent(in) :: iters
  integer, parameter :: kinds = 12
  COMM :: comm
  DTYPE :: t(kinds), records, f15, f12, f6, x, parts(3)
  integer :: places(20,kinds), number(kinds)
  integer :: ierr, rank, size, right, left, iter, i, k, got, position, bytes, ni, na, nd, combiner
  integer :: integers(10), sizes(2), subsizes(2), starts(2), blocks(3)
  ADDR :: lower, extent, addresses(3), origin, outer
  logical :: flag
  character(len=MPI_MAX_OBJECT_NAME) :: name

  call MPI_Init(ierr)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  call MPI_Comm_rank(comm, rank, ierr)
  call MPI_Comm_size(comm, size, ierr)
  call app_set(rank, size)
  right = mod(rank + 1, size)
  left = mod(rank + size - 1, size)
  call lasting()
  do iter = 0, iters - 1
    call app_step(iter)
    call sent()
    call asked()
    call of_fortran()
    call packing()
#ifdef F77
    call of_mpi_1()
#endif
  end do
  do i = 1, kinds
    call MPI_Type_free(t(i), ierr)
  end do
  call app_over()
  call MPI_Finalize(ierr)
contains

subroutine made(i, list)
  integer, intent(in) :: i, list(:)
  call MPI_Type_commit(t(i), ierr)
  number(i) = ubound(list, 1)
  places(1:number(i),i) = list
end subroutine

! The types, with the places in an array of integers of which each consists.
subroutine lasting()
  addresses = (/ 40, 0, 20 /)
  call MPI_Type_contiguous(5, MPI_INTEGER, t(1), ierr)
  call made(1, (/ 1, 2, 3, 4, 5 /))
  call MPI_Type_vector(2, 2, 7, MPI_INTEGER, t(2), ierr)
  call made(2, (/ 1, 2, 8, 9 /))
  call MPI_Type_create_hvector(3, 1, 12_MPI_ADDRESS_KIND, MPI_INTEGER, t(3), ierr)
  call made(3, (/ 1, 4, 7 /))
  call MPI_Type_indexed(3, (/ 2, 0, 1 /), (/ 5, 1, 0 /), MPI_INTEGER, t(4), ierr)
  call made(4, (/ 6, 7, 1 /))
  call MPI_Type_create_hindexed(3, (/ 1, 2, 1 /), addresses, MPI_INTEGER, t(5), ierr)
  call made(5, (/ 11, 1, 2, 6 /))
  call MPI_Type_create_indexed_block(3, 2, (/ 8, 4, 0 /), MPI_INTEGER, t(6), ierr)
  call made(6, (/ 9, 10, 5, 6, 1, 2 /))
  call MPI_Type_create_hindexed_block(3, 1, addresses, MPI_INTEGER, t(7), ierr)
  call made(7, (/ 11, 1, 6 /))
  addresses = (/ 48, 0, 28 /)
  parts(1) = MPI_INTEGER
  parts(2) = t(3)
  parts(3) = t(1)
  call MPI_Type_create_struct(3, (/ 1, 1, 1 /), addresses, parts, t(8), ierr)
  call made(8, (/ 13, 1, 4, 7, 8, 9, 10, 11, 12 /))
  call MPI_Type_create_subarray(2, (/ 4, 5 /), (/ 2, 2 /), (/ 1, 3 /), MPI_ORDER_FORTRAN, MPI_INTEGER, t(9), ierr)
  call made(9, (/ 14, 15, 18, 19 /))
  call MPI_Type_create_subarray(2, (/ 4, 5 /), (/ 2, 2 /), (/ 1, 3 /), MPI_ORDER_C, MPI_INTEGER, t(10), ierr)
  call made(10, (/ 9, 10, 14, 15 /))
  call MPI_Type_create_darray(4, 1, 2, (/ 4, 4 /), (/ MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC /), &
      (/ MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG /), (/ 2, 2 /), MPI_ORDER_FORTRAN, MPI_INTEGER, t(11), ierr)
  call made(11, (/ 5, 6, 13, 14 /))
  call MPI_Type_create_resized(t(2), -8_MPI_ADDRESS_KIND, 80_MPI_ADDRESS_KIND, t(12), ierr)
  call made(12, (/ 1, 2, 8, 9 /))
  call MPI_Type_set_name(t(8), ' of three parts ', ierr)

  call MPI_Get_address(p(1), origin, ierr)
  call MPI_Get_address(p(1)%i, addresses(2), ierr)
  call MPI_Get_address(p(1)%s, addresses(3), ierr)
  addresses(1) = 0
  addresses(2:3) = addresses(2:3) - origin
  parts(1) = MPI_DOUBLE_PRECISION
  parts(2) = MPI_INTEGER
  parts(3) = MPI_CHARACTER
  blocks = (/ 1, 1, 4 /)
  call MPI_Type_create_struct(3, blocks, addresses, parts, x, ierr)
  call MPI_Type_create_resized(x, 0_MPI_ADDRESS_KIND, 16_MPI_ADDRESS_KIND, records, ierr)
  call MPI_Type_commit(records, ierr)
  call MPI_Type_free(x, ierr)
  call check(x == MPI_DATATYPE_NULL, 'a freed type')
  call MPI_Type_create_f90_real(15, 300, f15, ierr)
  call MPI_Type_create_f90_integer(12, f12, ierr)
  call MPI_Type_create_f90_complex(6, 30, f6, ierr)
end subroutine

subroutine sent()
  from = (/ (1000*rank + i + 13*mod(iter, 50), i = 1, top) /)
  do k = 1, kinds
    to = -1
    back = -1
    call MPI_Sendrecv(from, 1, t(k), right, k, to, top, MPI_INTEGER, left, k, comm, MPI_STATUS_IGNORE, ierr)
    call check(all(to(1:number(k)) == from(places(1:number(k),k)) + 1000*(left - rank)), 'sent '//achar(iachar('a') + k))
    call check(to(number(k)+1) == -1, 'sent more '//achar(iachar('a') + k))
    call MPI_Sendrecv(to, number(k), MPI_INTEGER, left, k, back, 1, t(k), right, k, comm, MPI_STATUS_IGNORE, ierr)
    call check(all(back(places(1:number(k),k)) == from(places(1:number(k),k))), 'back '//achar(iachar('a') + k))
    call check(count(back /= -1) == number(k), 'back beside '//achar(iachar('a') + k))
    call told(iter, 'type'//achar(iachar('a') + k), dble(sum(to)))
  end do
  do i = 1, 3
    p(i)%x = rank + 0.5d0*i
    p(i)%i = iter
    p(i)%s = 'abc'//achar(iachar('a') + mod(iter, 26))
  end do
  call MPI_Sendrecv(p, 3, records, right, 50, q, 3, records, left, 50, comm, MPI_STATUS_IGNORE, ierr)
  do i = 1, 3
    call check(q(i)%x == left + 0.5d0*i .and. q(i)%i == iter .and. q(i)%s == p(i)%s, 'records')
  end do
end subroutine

subroutine asked()
  call MPI_Type_size(t(8), bytes, ierr)
  call check(bytes == 36, 'size')
  call MPI_Type_get_extent(t(12), lower, extent, ierr)
  call check(lower == -8 .and. extent == 80, 'extent of a resized one')
  call MPI_Type_get_true_extent(t(12), lower, extent, ierr)
  call check(lower == 0 .and. extent == 36, 'true extent')
  call MPI_Type_get_true_extent(t(9), lower, extent, ierr)
  call check(lower == 52 .and. extent == 24, 'true extent of a part')
  call MPI_Type_get_extent(t(9), lower, extent, ierr)
  call check(lower == 0 .and. extent == 80, 'extent of a part')
  name = repeat('#', len(name))
  call MPI_Type_get_name(t(8), name, got, ierr)
  call check(index(name, '#') == 0 .and. adjustl(name) == 'of three parts', 'name')
  call MPI_Type_get_name(MPI_DOUBLE_PRECISION, name, got, ierr)
  call check(name == 'MPI_DOUBLE_PRECISION' .and. got == 20, 'name of a predefined type')
  call MPI_Type_get_envelope(t(8), ni, na, nd, combiner, ierr)
  call check(ni == 4 .and. na == 3 .and. nd == 3 .and. combiner == MPI_COMBINER_STRUCT, 'envelope')
  addresses = -1
  call MPI_Type_get_contents(t(8), 4, 3, 3, integers, addresses, parts, ierr)
  call check(all(integers(1:4) == (/ 3, 1, 1, 1 /)) .and. all(addresses == (/ 48, 0, 28 /)), 'contents')
  call check(parts(1) == MPI_INTEGER, 'a predefined type of contents')
  call MPI_Type_size(parts(2), bytes, ierr)
  call check(bytes == 12, 'a type of contents')
  call MPI_Type_free(parts(2), ierr)
  call MPI_Type_free(parts(3), ierr)
  call MPI_Type_get_envelope(t(10), ni, na, nd, combiner, ierr)
  call MPI_Type_get_contents(t(10), ni, na, nd, integers, addresses, parts, ierr)
  call check(combiner == MPI_COMBINER_SUBARRAY .and. ni == 8 .and. integers(8) == MPI_ORDER_C .and. integers(3) == 5, 'a part')
  call MPI_Type_get_envelope(f15, ni, na, nd, combiner, ierr)
  call check(combiner == MPI_COMBINER_F90_REAL .and. ni == 2 .and. na == 0 .and. nd == 0, 'envelope of a parametrised type')
  call MPI_Type_get_contents(f15, 2, 0, 0, integers, addresses, parts, ierr)
  call check(all(integers(1:2) == (/ 15, 300 /)), 'contents of a parametrised type')
  call MPI_Type_get_envelope(f12, ni, na, nd, combiner, ierr)
  call check(combiner == MPI_COMBINER_F90_INTEGER .and. ni == 1, 'envelope of a parametrised integer')
  call MPI_Type_get_envelope(MPI_REAL, ni, na, nd, combiner, ierr)
  call check(combiner == MPI_COMBINER_NAMED, 'envelope of a predefined type')
  call MPI_Type_create_f90_real(15, 300, x, ierr)
  call check(x == f15, 'the same parametrised type')
  call MPI_Type_dup(t(8), x, ierr)
  call MPI_Type_get_envelope(x, ni, na, nd, combiner, ierr)
  call check(combiner == MPI_COMBINER_DUP, 'dup')
  call MPI_Type_free(x, ierr)
end subroutine

#define SWAP(a, b, n, type) call MPI_Sendrecv(a, n, type, right, 60, b, n, type, left, 60, comm, MPI_STATUS_IGNORE, ierr)
subroutine of_fortran()
  r15 = (/ 1.5d0*iter, dble(left) /); i12 = (/ 10_8**11 + iter, -10_8**11 /); z6 = (/ cmplx(iter, 1), cmplx(2, 3) /)
  i1 = (/ mod(iter, 100), -100 /); i2 = (/ mod(iter, 1000), -1000 /); i8 = (/ 10_8**15 + iter, -10_8**15 /); r4 = (/ 0.25*iter, -1.0 /)
  z = z6; l = (/ .true., .false., mod(iter, 2) == 0 /); c = 'blanks  '//achar(iachar('a') + mod(iter, 26)); d = (/ (i + 0.5d0, i = 1, 4) /)
  s15 = -7; j12 = -7; y6 = -7; j1 = -7; j2 = -7; j8 = -7; s4 = -7; y = -7; m = .false.; b = ' '; e = 0
  SWAP(r15, s15, 2, f15)
  SWAP(i12, j12, 2, f12)
  SWAP(z6, y6, 2, f6)
  SWAP(i1, j1, 2, MPI_INTEGER1)
  SWAP(i2, j2, 2, MPI_INTEGER2)
  SWAP(i8, j8, 2, MPI_INTEGER8)
  SWAP(r4, s4, 2, MPI_REAL4)
  SWAP(z, y, 2, MPI_COMPLEX)
  SWAP(l, m, 3, MPI_LOGICAL)
  SWAP(c, b, 9, MPI_CHARACTER)
  SWAP(d, e, 4, MPI_REAL8)
  call check(s15(1) == r15(1) .and. all(j12 == i12) .and. all(y6 == z6), 'parametrised types')
  call check(all(j1 == i1) .and. all(j2 == i2) .and. all(j8 == i8) .and. all(s4 == r4), 'types of a size')
  call check(all(y == z) .and. all(m .eqv. l) .and. b == c .and. all(e == d), 'types of Fortran')
  call MPI_Allreduce(i8, j8, 2, MPI_INTEGER8, MPI_SUM, comm, ierr)
  call check(all(j8 == size*i8), 'sum of MPI_INTEGER8')
  call MPI_Allreduce(r15, s15, 1, f15, MPI_MAX, comm, ierr)
  call check(s15(1) == r15(1), 'maximum of a parametrised type')
  call MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, x, ierr)
  call MPI_Type_size(x, bytes, ierr)
  call check(bytes == 8, 'match_size of a real')
  call MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 2, x, ierr)
  call MPI_Type_size(x, bytes, ierr)
  call check(bytes == 2, 'match_size of an integer')
  call MPI_Type_match_size(MPI_TYPECLASS_COMPLEX, 16, x, ierr)
  call MPI_Type_size(x, bytes, ierr)
  call check(bytes == 16, 'match_size of a complex')
#ifndef F77
  call MPI_Sizeof(z6, bytes, ierr)
  call check(bytes == 8, 'sizeof a complex')
  call MPI_Sizeof(r15(1), bytes, ierr)
  call check(bytes == 8, 'sizeof a double')
  call MPI_Sizeof(i2, bytes, ierr)
  call check(bytes == 2, 'sizeof an integer')
#endif
end subroutine

subroutine packing()
  position = 0
  call MPI_Pack_size(2, t(8), comm, bytes, ierr)
  call check(bytes >= 72, 'pack_size')
  call MPI_Pack(from, 2, t(8), packed, 2000, position, comm, ierr)
  call MPI_Pack(c, 9, MPI_CHARACTER, packed, 2000, position, comm, ierr)
  call check(position >= 81 .and. position <= bytes + 200, 'pack')
  k = position
  position = 0
  to = -1
  call MPI_Unpack(packed, k, position, to, 18, MPI_INTEGER, comm, ierr)
  call MPI_Unpack(packed, k, position, b, 9, MPI_CHARACTER, comm, ierr)
  call check(all(to(1:9) == from(places(1:9,8))) .and. b == c .and. position == k, 'unpack')
  outer = 0
  call MPI_Pack_external_size('external32', 3, MPI_INTEGER, extent, ierr)
  call check(extent == 12, 'pack_external_size')
  call MPI_Pack_external('external32', from, 3, MPI_INTEGER, packed, 2000_MPI_ADDRESS_KIND, outer, ierr)
  call MPI_Pack_external('external32 ', d, 2, MPI_DOUBLE_PRECISION, packed, 2000_MPI_ADDRESS_KIND, outer, ierr)
  call check(outer == 28, 'pack_external')
  call check(iachar(packed(4:4)) + 256*iachar(packed(3:3)) == from(1), 'external32 begins with the highest byte')
  outer = 0
  to = -1; e = 0
  call MPI_Unpack_external('external32', packed, 28_MPI_ADDRESS_KIND, outer, to, 3, MPI_INTEGER, ierr)
  call MPI_Unpack_external('external32', packed, 28_MPI_ADDRESS_KIND, outer, e, 2, MPI_DOUBLE_PRECISION, ierr)
  call check(all(to(1:3) == from(1:3)) .and. all(e(1:2) == d(1:2)) .and. outer == 28, 'unpack_external')
end subroutine

#ifdef F77
subroutine of_mpi_1()
  integer :: where, there
  call MPI_Type_extent(t(9), k, ierr)
  call check(k == 80, 'type_extent')
  call MPI_Type_lb(t(12), k, ierr)
  call check(k == -8, 'type_lb')
  call MPI_Type_ub(t(12), k, ierr)
  call check(k == 72, 'type_ub')
  call MPI_Type_hvector(2, 1, 12, MPI_INTEGER, x, ierr)
  call MPI_Type_commit(x, ierr)
  call told(iter, 'hvector', taken(x, 2))
  call MPI_Type_free(x, ierr)
  call MPI_Type_hindexed(2, (/ 1, 2 /), (/ 20, 0 /), MPI_INTEGER, x, ierr)
  call MPI_Type_commit(x, ierr)
  call told(iter, 'hindexed', taken(x, 3))
  call MPI_Type_free(x, ierr)
  call MPI_Type_struct(2, (/ 1, 2 /), (/ 20, 0 /), (/ MPI_INTEGER, MPI_INTEGER /), x, ierr)
  call MPI_Type_commit(x, ierr)
  call told(iter, 'struct', taken(x, 3))
  call MPI_Type_free(x, ierr)
end subroutine
#endif

! The sum of what a type takes out of an array.
double precision function taken(x, n)
  DTYPE, intent(in) :: x
  integer, intent(in) :: n
  to = -1
  call MPI_Sendrecv(from, 1, x, rank, 1, to, n, MPI_INTEGER, rank, 1, comm, MPI_STATUS_IGNORE, ierr)
  taken = sum((/ (i*dble(to(i)), i = 1, n) /))
end function
end subroutine
