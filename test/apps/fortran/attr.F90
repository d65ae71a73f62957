! test_doc: attributes, error handlers, own errors, info objects, attached buffers and memory in Fortran, and what C sees of them: all
! that is made before the first iteration is used in each.
#include "forms.inc"

module seen
  integer :: copied = 0, deleted = 0, tcopied = 0, tdeleted = 0, old_copied = 0, old_deleted = 0, handled = 0, last_code = 0
  logical :: refuses = .false.
  character(len=4000), target :: buffer
  character(len=3000), target :: spare
  integer, target :: pair(2), number
  double precision :: values(16)
end module

subroutine fortran_part(iters) bind(C)
  USEMPI
  use help
  use seen
  implicit none
  INCMPI
  integer(c_int), intent(in) :: iters
  COMM :: comm, dup, half
  DTYPE :: dtype, other
  ERRH :: handler, was
  INFO :: notes, same
  STATUS :: st
#ifdef F08
  procedure(MPI_Comm_copy_attr_function) :: copies
  procedure(MPI_Comm_delete_attr_function) :: deletes
  procedure(MPI_Type_copy_attr_function) :: tcopies
  procedure(MPI_Type_delete_attr_function) :: tdeletes
  procedure(MPI_Comm_errhandler_function) :: handles
  type(c_ptr) :: detached
#else
  external copies, deletes, tcopies, tdeletes, handles, old_copies, old_deletes
#endif
#if defined(F77) && defined(MPICH)
  ADDR, external :: MPI_Aint_diff, MPI_Aint_add
#endif
#ifdef F77
  double precision :: memory(16)
  pointer (at, memory)
#else
  type(c_ptr) :: at
  double precision, pointer :: memory(:)
#endif
  integer :: ierr, rank, size, iter, i, k, length, class, code, code2, major, minor, big
  integer :: key, plain, never, tkey, old, old_dup, ckey
  ADDR :: value, where, here
  logical :: flag
  double precision :: time
  character(len=MPI_MAX_ERROR_STRING) :: text
  character(len=MPI_MAX_ERROR_STRING + 20) :: long
  character(len=10) :: short
  character(len=MPI_MAX_PROCESSOR_NAME) :: name
  character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: version
  character(len=40) :: word

  call MPI_Init_thread(MPI_THREAD_FUNNELED, i, ierr)
  call check(i >= MPI_THREAD_SINGLE .and. i <= MPI_THREAD_MULTIPLE, 'level of threads')
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  call MPI_Comm_rank(comm, rank, ierr)
  call MPI_Comm_size(comm, size, ierr)
  call app_set(rank, size)
  call lasting()
  do iter = 0, iters - 1
    call app_step(iter)
    call attributes()
    call of_types()
#ifndef F08
    call of_mpi_1()
#endif
    call with_c()
    call predefined()
    call handlers()
    call own_errors()
    call infos()
    call buffers()
    call the_memory()
    call rest()
  end do

  i = deleted
  call MPI_Comm_free_keyval(key, ierr)
  call check(key == MPI_KEYVAL_INVALID, 'a freed keyval')
  call MPI_Comm_free(comm, ierr)
  call check(deleted == i + 1, 'deleted at the end')
  call MPI_Type_free(dtype, ierr)
  call MPI_Type_free_keyval(tkey, ierr)
  call MPI_Errhandler_free(handler, ierr)
  call check(handler == MPI_ERRHANDLER_NULL, 'a freed error handler')
  call MPI_Info_free(notes, ierr)
  call check(notes == MPI_INFO_NULL, 'a freed info')
  call MPI_Free_mem(memory, ierr)
  call app_over()
  call MPI_Finalize(ierr)
contains

subroutine lasting()
  call MPI_Comm_create_keyval(copies, deletes, key, 5000000000_MPI_ADDRESS_KIND, ierr)
  call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, plain, 0_MPI_ADDRESS_KIND, ierr)
  call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, never, 0_MPI_ADDRESS_KIND, ierr)
  value = 6000000000_MPI_ADDRESS_KIND + rank
  call MPI_Comm_set_attr(comm, key, value, ierr)
  value = -3
  call MPI_Comm_set_attr(comm, plain, value, ierr)
  call MPI_Comm_set_attr(comm, never, value, ierr)
  call MPI_Type_contiguous(3, MPI_INTEGER, dtype, ierr)
  call MPI_Type_commit(dtype, ierr)
  call MPI_Type_create_keyval(tcopies, tdeletes, tkey, -1_MPI_ADDRESS_KIND, ierr)
  value = -7000000000_MPI_ADDRESS_KIND
  call MPI_Type_set_attr(dtype, tkey, value, ierr)
#ifndef F08
  call MPI_Keyval_create(old_copies, old_deletes, old, 44, ierr)
  call MPI_Attr_put(comm, old, -5 - rank, ierr)
  call MPI_Keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, old_dup, 0, ierr)
  call MPI_Attr_put(comm, old_dup, 123456789, ierr)
#endif
  call MPI_Comm_create_errhandler(handles, handler, ierr)
  call MPI_Comm_set_errhandler(comm, handler, ierr)
  call MPI_Add_error_class(class, ierr)
  call MPI_Add_error_code(class, code, ierr)
  call MPI_Add_error_code(MPI_ERR_ARG, code2, ierr)
  call MPI_Add_error_string(class, 'a class of our own', ierr)
  call MPI_Add_error_string(code, 'a code of our own   ', ierr)
  call MPI_Info_create(notes, ierr)
  call MPI_Info_set(notes, '  key  ', '  a value with blanks  ', ierr)
  call MPI_Info_set(notes, 'second', 'two', ierr)
  call MPI_Info_set(notes, 'third', 'three', ierr)
  call MPI_Info_delete(notes, 'second', ierr)
  call MPI_Info_set(notes, 'key', ' another  one ', ierr)
  call c_sets(VAL(comm), ckey)
  call MPI_Alloc_mem(128_MPI_ADDRESS_KIND, MPI_INFO_NULL, at, ierr)
#ifndef F77
  call c_f_pointer(at, memory, (/ 16 /))
#endif
  memory(1:16) = 0
end subroutine

subroutine attributes()
  integer :: c, d
  c = copied
  d = deleted
  call MPI_Comm_get_attr(comm, key, value, flag, ierr)
  call check(flag .and. value == 6000000000_MPI_ADDRESS_KIND + rank, 'a large attribute')
  call MPI_Comm_dup(comm, dup, ierr)
  call check(copied == c + 1, 'copied')
  call MPI_Comm_get_attr(dup, key, value, flag, ierr)
  call check(flag .and. value == 6000000001_MPI_ADDRESS_KIND + rank, 'copied value')
  call MPI_Comm_get_attr(dup, plain, value, flag, ierr)
  call check(flag .and. value == -3, 'MPI_COMM_DUP_FN')
  call MPI_Comm_get_attr(dup, never, value, flag, ierr)
  call check(.not. flag, 'MPI_COMM_NULL_COPY_FN')
  value = iter
  call MPI_Comm_set_attr(dup, key, value, ierr)
  call check(deleted == d + 1, 'deleted when set anew')
  call MPI_Comm_delete_attr(dup, plain, ierr)
  call MPI_Comm_get_attr(dup, plain, value, flag, ierr)
  call check(.not. flag, 'delete_attr')
  refuses = .true.
  call MPI_Comm_set_errhandler(dup, MPI_ERRORS_RETURN, ierr)
  call MPI_Comm_delete_attr(dup, key, ierr)
  call check(ierr /= MPI_SUCCESS, 'a delete function that refuses')
  refuses = .false.
  call MPI_Comm_get_attr(dup, key, value, flag, ierr)
  call check(flag .and. value == iter, 'an attribute that was not deleted')
  call MPI_Comm_split(dup, 0, rank, half, ierr)
  call MPI_Comm_get_attr(half, key, value, flag, ierr)
  call check(.not. flag .and. copied == c + 1, 'no attributes of a part')
  call MPI_Comm_free(half, ierr)
  d = deleted
  call MPI_Comm_free(dup, ierr)
  call check(deleted == d + 1 .and. dup == MPI_COMM_NULL, 'deleted with the communicator')
  call told(iter, 'attributes', dble(copied - c) + deleted - d)
end subroutine

subroutine of_types()
  integer :: d
  call MPI_Type_get_attr(dtype, tkey, value, flag, ierr)
  call check(flag .and. value == -7000000000_MPI_ADDRESS_KIND, 'attribute of a type')
  call MPI_Type_dup(dtype, other, ierr)
  call MPI_Type_get_attr(other, tkey, value, flag, ierr)
  call check(flag .and. value == -7000000001_MPI_ADDRESS_KIND, 'copied attribute of a type')
  d = tdeleted
  call MPI_Type_delete_attr(other, tkey, ierr)
  call check(tdeleted == d + 1, 'deleted attribute of a type')
  value = 4
  call MPI_Type_set_attr(other, tkey, value, ierr)
  call MPI_Type_free(other, ierr)
  call check(tdeleted == d + 2, 'deleted with the type')
  call MPI_Type_get_attr(MPI_INTEGER, tkey, value, flag, ierr)
  call check(.not. flag, 'no attribute of MPI_INTEGER')
end subroutine

#ifndef F08
subroutine of_mpi_1()
  integer :: small, c, d
  small = 77
  call MPI_Attr_get(comm, old, small, flag, ierr)
  call check(flag .and. small == -5 - rank, 'attr_get')
  call MPI_Comm_get_attr(comm, old, value, flag, ierr)
  call check(flag .and. value == -5 - rank, 'an integer as an address')
  call MPI_Attr_get(comm, plain, small, flag, ierr)
  call check(flag .and. small == -3, 'an address as an integer')
  c = old_copied
  d = old_deleted
  call MPI_Comm_dup(comm, dup, ierr)
  call MPI_Attr_get(dup, old, small, flag, ierr)
  call check(flag .and. small == 39 - rank .and. old_copied == c + 1, 'copied by MPI-1')
  call MPI_Attr_get(dup, old_dup, small, flag, ierr)
  call check(flag .and. small == 123456789, 'MPI_DUP_FN')
  call MPI_Attr_delete(dup, old, ierr)
  call check(old_deleted == d + 1, 'deleted by MPI-1')
  call MPI_Attr_get(dup, old, small, flag, ierr)
  call check(.not. flag, 'attr_delete')
  call MPI_Comm_free(dup, ierr)
  call MPI_Keyval_create(MPI_NULL_COPY_FN, MPI_NULL_DELETE_FN, i, 0, ierr)
  call MPI_Attr_put(comm, i, 1, ierr)
  call MPI_Comm_dup(comm, dup, ierr)
  call MPI_Attr_get(dup, i, small, flag, ierr)
  call check(.not. flag, 'MPI_NULL_COPY_FN')
  call MPI_Comm_free(dup, ierr)
  call MPI_Attr_delete(comm, i, ierr)
  call MPI_Keyval_free(i, ierr)
  call check(i == MPI_KEYVAL_INVALID, 'keyval_free')
  call MPI_Attr_get(comm, MPI_TAG_UB, small, flag, ierr)
#ifdef OPENMPI
  if (c_held() == 0) small = 32767      ! Open MPI 4's own is a part of an address
#endif
  call check(flag .and. small >= 32767, 'MPI_TAG_UB of MPI-1')
end subroutine
#endif

! Attributes between the languages: C gets the address of what Fortran has set, Fortran the pointer that C has set.
subroutine with_c()
  call check(c_address_of(VAL(comm), key) == 6000000000_MPI_ADDRESS_KIND + rank, 'C sees what Fortran has set')
  call check(c_address_of(VAL(comm), plain) == -3, 'C sees a negative attribute')
  call MPI_Comm_get_attr(comm, ckey, value, flag, ierr)
  call check(flag .and. value == 7000000000_MPI_ADDRESS_KIND, 'Fortran sees what C has set')
  call MPI_Comm_dup(comm, dup, ierr)
  call MPI_Comm_get_attr(dup, ckey, value, flag, ierr)
  call check(flag .and. value == 7000000008_MPI_ADDRESS_KIND, 'what C has copied')
  call check(c_address_of(VAL(dup), key) == 6000000001_MPI_ADDRESS_KIND + rank, 'C sees what Fortran has copied')
  call MPI_Comm_free(dup, ierr)
end subroutine

subroutine predefined()
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, ierr)
  call check(flag .and. value >= 32767 .and. c_int_of(VAL(MPI_COMM_WORLD), 1) == value, 'MPI_TAG_UB')
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, value, flag, ierr)
  call check(flag .and. (value == 0 .or. value == 1) .and. c_int_of(VAL(MPI_COMM_WORLD), 2) == value, 'MPI_WTIME_IS_GLOBAL')
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, value, flag, ierr)
  if (flag) call check(value >= 1 .and. c_int_of(VAL(MPI_COMM_WORLD), 3) == value, 'MPI_UNIVERSE_SIZE')
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, value, flag, ierr)
  if (flag) call check(value == 0 .and. c_int_of(VAL(MPI_COMM_WORLD), 4) == value, 'MPI_APPNUM')
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, value, flag, ierr)
  call check(flag .and. value >= code2 .and. c_int_of(VAL(MPI_COMM_WORLD), 5) == value, 'MPI_LASTUSEDCODE')
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_HOST, value, flag, ierr)
  if (flag) call check(value == MPI_PROC_NULL .or. value >= 0, 'MPI_HOST')
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_IO, value, flag, ierr)
  if (flag) call check(value == MPI_ANY_SOURCE .or. value >= 0 .or. value == MPI_PROC_NULL, 'MPI_IO')
end subroutine

subroutine handlers()
  integer :: h
  h = handled
  call MPI_Comm_get_errhandler(comm, was, ierr)
  call check(was == handler, 'get_errhandler')
  call MPI_Errhandler_free(was, ierr)
  call MPI_Send(pair, 1, MPI_INTEGER, size, 1, comm, ierr)
  call check(handled == h + 1, 'an error handler')
  call MPI_Error_class(ierr, k, i)
  call check(k == MPI_ERR_RANK, 'class after a handler')
  call MPI_Comm_call_errhandler(comm, MPI_ERR_TAG, ierr)
  call check(handled == h + 2, 'call_errhandler')
  call MPI_Comm_call_errhandler(comm, code, ierr)
  call check(handled == h + 3 .and. last_code == code, 'call_errhandler with an own code')
  call MPI_Comm_dup(comm, dup, ierr)
  call MPI_Send(pair, 1, MPI_INTEGER, 0, -5, dup, ierr)
  call check(handled == h + 4, 'a handler that was copied')
  call MPI_Comm_set_errhandler(dup, MPI_ERRORS_RETURN, ierr)
  call MPI_Comm_get_errhandler(dup, was, ierr)
  call check(was == MPI_ERRORS_RETURN, 'MPI_ERRORS_RETURN')
  call MPI_Bcast(pair, 1, MPI_DATATYPE_NULL, 0, dup, ierr)
  call MPI_Error_class(ierr, k, i)
  call check(k == MPI_ERR_TYPE .and. handled == h + 4, 'class that is returned')
  call MPI_Comm_free(dup, ierr)
  call MPI_Comm_get_errhandler(MPI_COMM_SELF, was, ierr)
  call check(was == MPI_ERRORS_ARE_FATAL, 'MPI_ERRORS_ARE_FATAL')
#ifdef F77
  call MPI_Errhandler_create(handles, was, ierr)
  call MPI_Errhandler_set(MPI_COMM_SELF, was, ierr)
  call MPI_Errhandler_free(was, ierr)
  call MPI_Send(pair, 1, MPI_INTEGER, 7, 1, MPI_COMM_SELF, ierr)
  call check(handled == h + 5, 'a handler of MPI-1')
  call MPI_Errhandler_get(MPI_COMM_SELF, was, ierr)
  call MPI_Errhandler_free(was, ierr)
  call MPI_Errhandler_set(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL, ierr)
#endif
end subroutine

subroutine own_errors()
  call MPI_Error_class(code, k, ierr)
  call check(k == class, 'class of an own code')
  call MPI_Error_class(code2, k, ierr)
  call check(k == MPI_ERR_ARG, 'class of an own code of a class that is there')
  text = repeat('#', len(text))
  call MPI_Error_string(class, text, length, ierr)
  call check(text == 'a class of our own' .and. length == 18, 'an own string')
  long = repeat('#', len(long))
  call MPI_Error_string(code, long, length, ierr)
  call check(length == 17 .and. long(1:len(text)) == 'a code of our own', 'an own string, padded')
  text = repeat('#', len(text))
  call MPI_Error_string(MPI_ERR_TRUNCATE, text, length, ierr)
  call check(length > 5 .and. text(length+1:) == ' ' .and. text(length:length) /= ' ', 'a string of the library')
  call MPI_Error_string(MPI_SUCCESS, text, length, ierr)
  call check(length > 0 .and. index(text, '#') == 0, 'no error')
end subroutine

subroutine infos()
  call MPI_Info_get_nkeys(notes, k, ierr)
  call check(k == 2, 'nkeys')
  call MPI_Info_get_nthkey(notes, 1, word, ierr)
  call check(word == 'third' .or. word == 'key', 'nthkey')
  word = repeat('#', 40)
  call MPI_Info_get(notes, 'third ', 40, word, flag, ierr)
  call check(flag .and. word == 'three', 'info')
  call MPI_Info_get_valuelen(notes, '  third', length, flag, ierr)
  call check(flag .and. length == 5, 'valuelen')
  word = repeat('#', 40)
  call MPI_Info_get(notes, 'key', 40, word, flag, ierr)
  call check(flag .and. adjustl(word) == 'another  one', 'a value with blanks')
#ifdef OPENMPI
  short = '##########'
  call MPI_Info_get(notes, 'third', 3, short, flag, ierr)   ! MPICH 4.0 has an error for it
  call check(flag .and. short == 'thr', 'a part of a value')
#endif
  word = 'as it was'
  call MPI_Info_get(notes, 'second', 40, word, flag, ierr)
  call check(.not. flag .and. word == 'as it was', 'a deleted key')
  call MPI_Info_dup(notes, same, ierr)
  write (word, '(i0)') iter
  call MPI_Info_set(same, 'iter', word, ierr)
  call MPI_Info_get_nkeys(same, k, ierr)
  word = ''
  call MPI_Info_get(same, 'iter', 40, word, flag, ierr)
  read (word, *) i
  call check(flag .and. i == iter .and. k == 3, 'a number in an info')
  call MPI_Comm_dup_with_info(comm, same, dup, ierr)
  call MPI_Info_free(same, ierr)
  call MPI_Comm_get_info(dup, same, ierr)
  call check(same /= MPI_INFO_NULL, 'get_info')
  call MPI_Info_free(same, ierr)
  call MPI_Comm_set_info(dup, notes, ierr)
  call MPI_Comm_free(dup, ierr)
end subroutine

! A buffer that is attached at the end of one iteration and detached in the next one.
subroutine buffers()
  if (iter > 0) then
    call detach(3000, 1)
    call MPI_Recv(k, 1, MPI_INTEGER, mod(rank + size - 1, size), 61, comm, st, ierr)
    call check(k == iter - 1 .and. SRC(st) == mod(rank + size - 1, size), 'sent from a buffer of before')
  end if
  call MPI_Buffer_attach(buffer, 4000, ierr)
  number = 100*iter + rank
  call MPI_Bsend(number, 1, MPI_INTEGER, mod(rank + 1, size), 60, comm, ierr)
  number = -1
  call detach(4000, 0)
  call MPI_Recv(k, 1, MPI_INTEGER, MPI_ANY_SOURCE, 60, comm, MPI_STATUS_IGNORE, ierr)
  call check(k == 100*iter + mod(rank + size - 1, size), 'sent from a buffer')
  call MPI_Buffer_attach(spare, 3000, ierr)
  if (iter < iters - 1) call MPI_Bsend(iter, 1, MPI_INTEGER, mod(rank + 1, size), 61, comm, ierr)
  if (iter == iters - 1) call detach(3000, 1)
end subroutine

subroutine detach(bytes, which)
  integer, intent(in) :: bytes, which
#ifdef F08
  call MPI_Buffer_detach(detached, k, ierr)
  flag = c_associated(detached, c_loc(buffer))
  if (which == 1) flag = c_associated(detached, c_loc(spare))
  call check(flag, 'address of a detached buffer')
#else
  call MPI_Buffer_detach(buffer, k, ierr)
#endif
  call check(k == bytes, 'size of a detached buffer')
end subroutine

subroutine the_memory()
  memory(1 + mod(iter, 16)) = iter + 1
  values = memory(1:16)
  call MPI_Allreduce(MPI_IN_PLACE, memory, 16, MPI_DOUBLE_PRECISION, MPI_MAX, comm, ierr)
  call check(all(memory(1:16) == values), 'allocated memory')
  call told(iter, 'memory', sum(memory(1:16)))
end subroutine

subroutine rest()
  name = repeat('#', len(name))
  call MPI_Get_processor_name(name, length, ierr)
  call check(length > 0 .and. name(length+1:) == ' ' .and. index(name, '#') == 0, 'processor name')
  version = repeat('#', len(version))
  call MPI_Get_library_version(version, length, ierr)
  call check(length > 4 .and. version(length+1:) == ' ', 'library version')
  call MPI_Get_version(major, minor, ierr)
  call check(major >= 3 .and. minor >= 0, 'version')
  time = MPI_Wtime()
  call check(MPI_Wtime() >= time .and. MPI_Wtick() > 0 .and. MPI_Wtick() < 1, 'time')
  call MPI_Get_address(pair(1), where, ierr)
  call MPI_Get_address(pair(2), here, ierr)
  call check(here - where == 4 .and. MPI_Aint_diff(here, where) == 4 .and. MPI_Aint_add(where, 4_MPI_ADDRESS_KIND) == here, 'addresses')
  pair(1) = iter
#if defined(F08) || defined(OPENMPI)
  call MPI_F_sync_reg(pair)             ! MPICH 4.0's others write to an error code that is not there
#endif
  call MPI_Initialized(flag, ierr)
  call check(flag, 'initialized')
  call MPI_Finalized(flag, ierr)
  call check(.not. flag, 'finalized')
  call MPI_Is_thread_main(flag, ierr)
  call check(flag, 'is_thread_main')
  call MPI_Query_thread(i, ierr)
  call check(i >= MPI_THREAD_SINGLE .and. i <= MPI_THREAD_MULTIPLE, 'query_thread')
  call MPI_Comm_test_inter(comm, flag, ierr)
  call check(.not. flag, 'test_inter')
end subroutine
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
  copied = copied + 1
  to = from + extra - 4999999999_MPI_ADDRESS_KIND
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
  ierr = MPI_SUCCESS
  if (refuses) ierr = MPI_ERR_OTHER
  if (.not. refuses .and. extra == 5000000000_MPI_ADDRESS_KIND) deleted = deleted + 1
end subroutine

subroutine tcopies(dtype, keyval, extra, from, to, flag, ierr)
  USEMPI
  use seen
  implicit none
  INCMPI
  DTYPE :: dtype
  integer :: keyval, ierr
  integer(kind=MPI_ADDRESS_KIND) :: extra, from, to
  logical :: flag
  tcopied = tcopied + 1
  to = from + extra
  flag = .true.
  ierr = MPI_SUCCESS
end subroutine

subroutine tdeletes(dtype, keyval, value, extra, ierr)
  USEMPI
  use seen
  implicit none
  INCMPI
  DTYPE :: dtype
  integer :: keyval, ierr
  integer(kind=MPI_ADDRESS_KIND) :: value, extra
  if (extra == -1) tdeleted = tdeleted + 1
  ierr = MPI_SUCCESS
end subroutine

! Those of MPI-1 have default integers.
subroutine old_copies(comm, keyval, extra, from, to, flag, ierr)
  use seen
  implicit none
  integer :: comm, keyval, ierr, extra, from, to
  logical :: flag
  old_copied = old_copied + 1
  to = from + extra
  flag = .true.
  ierr = 0
end subroutine

subroutine old_deletes(comm, keyval, value, extra, ierr)
  use seen
  implicit none
  integer :: comm, keyval, ierr, value, extra
  if (extra == 44) old_deleted = old_deleted + 1
  ierr = 0
end subroutine

subroutine handles(comm, code)
  USEMPI
  use seen
  implicit none
  INCMPI
  COMM :: comm
  integer :: code
  if (comm /= MPI_COMM_NULL .and. code /= MPI_SUCCESS) handled = handled + 1
  last_code = code
end subroutine
