! byssus.F90: snapshots of a program's memory as a module: byssus.h has the meaning of its calls and results, docs/memory.md an example.
! It is compiled together with the program, since modules of different compilers differ; the calls themselves are in libbyssus.so.
!
! A region is made by bys_region(id, a), where `a` is any array or scalar of an intrinsic type that has the attribute target (or is a
! pointer), or by bys_region(id, c_loc(a), bytes) of what has another type. Dummies are pointers here, since compilers hand copies to
! all others where elements do not lie one behind the other: those are refused, by BYS_EUSE of the call that is given the region.
module byssus
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64
  implicit none
  private
  public :: bys_region, bys_track, bys_handover, bys_leave, bys_group, bys_desc, bys_init, bys_look, bys_restore, bys_start, &
    bys_commit, bys_finish, bys_error, bys_epoch, bys_state, bys_state_fd, int64, c_ptr, c_loc, c_null_ptr

  integer, parameter, public :: BYS_BLOCK = -1, BYS_TEST = 0
  integer, parameter, public :: BYS_OK = 0, BYS_TIMEOUT = 1, BYS_NOTHING = 2, BYS_EUSE = -1, BYS_EFAILED = -2, BYS_EROOM = -3, &
    BYS_EDIFFER = -4, BYS_EAGENT = -5, BYS_ESYS = -6, BYS_EPEER = -7, BYS_ELOST = -8
  integer, parameter, public :: BYS_HEALTHY = 0, BYS_CORRUPT = 1

  integer, parameter :: LEAVE = 256 ! BYS_LEAVE of byssus.h
  ! wrong: why it is none. The numbers are those of fortran.c.
  integer, parameter :: NO_MEMORY = 1, EMPTY = 2, SCATTERED = 3

  type :: bys_region
    private
    integer :: id = 0
    type(c_ptr) :: at = c_null_ptr
    integer(c_int64_t) :: bytes = 0
    integer(c_int) :: wrong = NO_MEMORY
    integer(c_int32_t) :: capture = 0
  end type

  ! Who makes snapshots together: member of members, counted from 0. name: blank is "memory". policy: of redundancy
  ! ("partner", "xor", ...); blank is what byssus run says.
  type :: bys_group
    integer :: member, members
    character(63) :: name = ''
    character(63) :: policy = ''
  end type

  type :: bys_desc
    private
    type(c_ptr) :: at = c_null_ptr
    integer :: id = 0, wrong = 0 ! a region that was refused here
  end type

  type, bind(c) :: c_region
    integer(c_int32_t) :: id, capture
    type(c_ptr) :: at
    integer(c_int64_t) :: bytes
  end type

  type, bind(c) :: c_group
    integer(c_int32_t) :: member, members
    type(c_ptr) :: name, policy
  end type

  interface bys_region
    procedure :: of_memory, of_int8, of_int16, of_int32, of_int64, of_real32, of_real64, of_complex32, of_complex64, &
      of_logical, of_bool, of_text
  end interface

  interface
    function c_array(a, rank, count, at, bytes) bind(c, name='bys_fortran_array') result(wrong)
      import
      type(*), dimension(..), intent(in) :: a
      integer(c_int), value :: rank
      integer(c_int64_t), value :: count
      type(c_ptr), intent(out) :: at
      integer(c_int64_t), intent(out) :: bytes
      integer(c_int) :: wrong
    end function
    function c_init(d, regions, n, group, timeout) bind(c, name='bys_init') result(r)
      import
      type(c_ptr), intent(inout) :: d
      type(c_region), intent(in) :: regions(*)
      integer(c_size_t), value :: n
      type(c_group), intent(in) :: group
      integer(c_long), value :: timeout
      integer(c_int) :: r
    end function
    function c_look(d, group, regions, n, tag, timeout) bind(c, name='bys_look') result(r)
      import
      type(c_ptr), intent(inout) :: d
      type(c_group), intent(in) :: group
      type(c_region), intent(inout) :: regions(*)
      integer(c_size_t), intent(inout) :: n
      integer(c_int64_t), intent(inout) :: tag
      integer(c_long), value :: timeout
      integer(c_int) :: r
    end function
    function c_restore(d, regions, n, group, tag, timeout) bind(c, name='bys_restore') result(r)
      import
      type(c_ptr), intent(inout) :: d
      type(c_region), intent(in) :: regions(*)
      integer(c_size_t), value :: n
      type(c_group), intent(in) :: group
      integer(c_int64_t), intent(inout) :: tag
      integer(c_long), value :: timeout
      integer(c_int) :: r
    end function
    function c_start(d, tag) bind(c, name='bys_start') result(r)
      import
      type(c_ptr), value :: d
      integer(c_int64_t), value :: tag
      integer(c_int) :: r
    end function
    function c_commit(d, timeout) bind(c, name='bys_commit') result(r)
      import
      type(c_ptr), value :: d
      integer(c_long), value :: timeout
      integer(c_int) :: r
    end function
    function c_finish(d, keep, timeout) bind(c, name='bys_finish') result(r)
      import
      type(c_ptr), intent(inout) :: d
      integer(c_int), value :: keep
      integer(c_long), value :: timeout
      integer(c_int) :: r
    end function
    function c_error(d) bind(c, name='bys_error') result(at)
      import
      type(c_ptr), value :: d
      type(c_ptr) :: at
    end function
    function c_epoch(d) bind(c, name='bys_epoch') result(epoch)
      import
      type(c_ptr), value :: d
      integer(c_int64_t) :: epoch
    end function
    function c_state(d, states, n, timeout) bind(c, name='bys_state') result(r)
      import
      type(c_ptr), value :: d
      integer(c_int8_t), intent(inout) :: states(*)
      integer(c_size_t), value :: n
      integer(c_long), value :: timeout
      integer(c_int) :: r
    end function
    function c_state_fd(d) bind(c, name='bys_state_fd') result(fd)
      import
      type(c_ptr), value :: d
      integer(c_int) :: fd
    end function
    function c_strlen(at) bind(c, name='strlen') result(n)
      import
      type(c_ptr), value :: at
      integer(c_size_t) :: n
    end function
  end interface

contains

  subroutine bys_init(d, regions, group, ierror, timeout)
    type(bys_desc), intent(inout) :: d
    type(bys_region), intent(in) :: regions(:)
    type(bys_group), intent(in) :: group
    integer, intent(out) :: ierror
    integer, intent(in), optional :: timeout
    integer(int64) :: tag
    ierror = begin(d, regions, group, .false., tag, timeout)
  end subroutine

  ! The program's variables have other values then: after BYS_OK.
  subroutine bys_restore(d, regions, group, tag, ierror, timeout)
    type(bys_desc), intent(inout) :: d
    type(bys_region), intent(in) :: regions(:)
    type(bys_group), intent(in) :: group
    integer(int64), intent(inout) :: tag
    integer, intent(out) :: ierror
    integer, intent(in), optional :: timeout
    ierror = begin(d, regions, group, .true., tag, timeout)
  end subroutine

  ! Before bys_restore, where the program knows only then how much memory it needs: ids and lengths in bytes of the regions that there
  ! are in the newest snapshot, of the first ones, as many as both arrays have room for; n: how many there are.
  subroutine bys_look(d, group, ids, bytes, n, tag, ierror, timeout)
    type(bys_desc), intent(inout) :: d
    type(bys_group), intent(in) :: group
    integer, intent(inout) :: ids(:)
    integer(int64), intent(inout) :: bytes(:)
    integer, intent(out) :: n
    integer(int64), intent(inout) :: tag
    integer, intent(out) :: ierror
    integer, intent(in), optional :: timeout
    type(c_region) :: c(min(size(ids), size(bytes)))
    character(kind=c_char), target :: name(64), policy(64)
    integer(c_size_t) :: found
    integer :: i
    d%wrong = 0
    found = size(c, kind=c_size_t)
    n = 0
    ierror = c_look(d%at, of_group(group, name, policy), c, found, tag, waits(timeout))
    if (ierror /= BYS_OK) return
    n = int(found)
    do i = 1, min(n, size(c))
      ids(i) = c(i)%id
      bytes(i) = c(i)%bytes
    end do
  end subroutine

  subroutine bys_start(d, tag, ierror)
    type(bys_desc), intent(inout) :: d
    integer(int64), intent(in) :: tag
    integer, intent(out) :: ierror
    d%wrong = 0
    ierror = c_start(d%at, tag)
  end subroutine

  subroutine bys_commit(d, ierror, timeout)
    type(bys_desc), intent(inout) :: d
    integer, intent(out) :: ierror
    integer, intent(in), optional :: timeout
    d%wrong = 0
    ierror = c_commit(d%at, waits(timeout))
  end subroutine

  subroutine bys_finish(d, keep, ierror, timeout)
    type(bys_desc), intent(inout) :: d
    logical, intent(in) :: keep
    integer, intent(out) :: ierror
    integer, intent(in), optional :: timeout
    d%wrong = 0
    ierror = c_finish(d%at, merge(1_c_int, 0_c_int, keep), waits(timeout))
  end subroutine

  function bys_epoch(d) result(epoch)
    type(bys_desc), intent(in) :: d
    integer(int64) :: epoch
    epoch = c_epoch(d%at)
  end function

  ! Of the first members, as many as there are elements.
  subroutine bys_state(d, states, ierror, timeout)
    type(bys_desc), intent(in) :: d
    integer, intent(out) :: states(:)
    integer, intent(out) :: ierror
    integer, intent(in), optional :: timeout
    integer(c_int8_t) :: c(size(states))
    c = int(BYS_HEALTHY, c_int8_t)
    ierror = c_state(d%at, c, size(states, kind=c_size_t), waits(timeout))
    states = c
  end subroutine

  function bys_state_fd(d) result(fd)
    type(bys_desc), intent(in) :: d
    integer :: fd
    fd = c_state_fd(d%at)
  end function

  function bys_error(d) result(text)
    type(bys_desc), intent(in) :: d
    character(:), allocatable :: text
    character(kind=c_char), pointer :: c(:)
    character(12) :: id
    type(c_ptr) :: at
    integer :: i
    write (id, '(i0)') d%id
    select case (d%wrong)
    case (0)
      at = c_error(d%at)
      call c_f_pointer(at, c, [c_strlen(at)])
      allocate (character(size(c)) :: text)
      do i = 1, size(c)
        text(i:i) = c(i)
      end do
    case (NO_MEMORY)
      text = 'region ' // trim(id) // ': found nothing that is allocated or associated, wanted memory'
    case (EMPTY)
      text = 'region ' // trim(id) // ': found an array without elements, wanted at least 1 byte'
    case (SCATTERED)
      text = 'region ' // trim(id) // ': found a section whose elements do not lie one behind the other, wanted a contiguous one'
    case default
      text = 'region ' // trim(id) // ': found an array whose descriptor is not laid out as gfortran has it, wanted c_loc and bytes'
    end select
  end function

  ! -- what the calls are made of --------------------------------------------------------------------------------------------------

  function begin(d, regions, group, restore, tag, timeout) result(ierror)
    type(bys_desc), intent(inout) :: d
    type(bys_region), intent(in) :: regions(:)
    type(bys_group), intent(in) :: group
    logical, intent(in) :: restore
    integer(int64), intent(inout) :: tag
    integer, intent(in), optional :: timeout
    integer :: ierror, i
    type(c_region) :: c(size(regions))
    character(kind=c_char), target :: name(64), policy(64)
    d%wrong = 0
    do i = 1, size(regions)
      if (regions(i)%wrong /= 0) then
        d%id = regions(i)%id
        d%wrong = regions(i)%wrong
        ierror = BYS_EUSE
        return
      end if
      c(i) = c_region(regions(i)%id, regions(i)%capture, regions(i)%at, regions(i)%bytes)
    end do
    if (restore) then
      ierror = c_restore(d%at, c, size(regions, kind=c_size_t), of_group(group, name, policy), tag, waits(timeout))
    else
      ierror = c_init(d%at, c, size(regions, kind=c_size_t), of_group(group, name, policy), waits(timeout))
    end if
  end function

  ! A group as C has it, with its texts where they are given room.
  function of_group(group, name, policy) result(g)
    type(bys_group), intent(in) :: group
    character(kind=c_char), target, intent(out) :: name(64), policy(64)
    type(c_group) :: g
    integer :: i
    name = c_null_char
    policy = c_null_char
    do i = 1, len_trim(group%name)
      name(i) = group%name(i:i)
    end do
    do i = 1, len_trim(group%policy)
      policy(i) = group%policy(i:i)
    end do
    g = c_group(group%member, group%members, c_null_ptr, c_loc(policy))
    if (group%name /= '') g%name = c_loc(name)
  end function

  pure function waits(timeout) result(ms)
    integer, intent(in), optional :: timeout
    integer(c_long) :: ms
    ms = BYS_BLOCK
    if (present(timeout)) ms = timeout
  end function

  ! A region of which what was written to since is copied, and one that is handed over: BYS_TRACK and BYS_HANDOVER of byssus.h.
  elemental function bys_track(region) result(r)
    type(bys_region), intent(in) :: region
    type(bys_region) :: r
    r = region
    r%capture = ior(iand(r%capture, LEAVE), 1)
  end function

  elemental function bys_handover(region) result(r)
    type(bys_region), intent(in) :: region
    type(bys_region) :: r
    r = region
    r%capture = ior(iand(r%capture, LEAVE), 2)
  end function

  ! A region that bys_restore leaves as it is: BYS_LEAVE of byssus.h.
  elemental function bys_leave(region) result(r)
    type(bys_region), intent(in) :: region
    type(bys_region) :: r
    r = region
    r%capture = ior(r%capture, LEAVE)
  end function

  function of_memory(id, at, bytes) result(r)
    integer, intent(in) :: id
    type(c_ptr), intent(in) :: at
    integer(int64), intent(in) :: bytes
    type(bys_region) :: r
    r = bys_region(id, at, bytes, merge(0, NO_MEMORY, c_associated(at)))
    if (c_associated(at) .and. bytes < 1) r%wrong = EMPTY
  end function

  function of_int8(id, a) result(r)
    integer, intent(in) :: id
    integer(int8), dimension(..), pointer, intent(in) :: a
    type(bys_region) :: r
    r%id = id
    if (associated(a)) r%wrong = c_array(a, rank(a), size(a, kind=c_int64_t), r%at, r%bytes)
  end function

  function of_int16(id, a) result(r)
    integer, intent(in) :: id
    integer(int16), dimension(..), pointer, intent(in) :: a
    type(bys_region) :: r
    r%id = id
    if (associated(a)) r%wrong = c_array(a, rank(a), size(a, kind=c_int64_t), r%at, r%bytes)
  end function

  function of_int32(id, a) result(r)
    integer, intent(in) :: id
    integer(int32), dimension(..), pointer, intent(in) :: a
    type(bys_region) :: r
    r%id = id
    if (associated(a)) r%wrong = c_array(a, rank(a), size(a, kind=c_int64_t), r%at, r%bytes)
  end function

  function of_int64(id, a) result(r)
    integer, intent(in) :: id
    integer(int64), dimension(..), pointer, intent(in) :: a
    type(bys_region) :: r
    r%id = id
    if (associated(a)) r%wrong = c_array(a, rank(a), size(a, kind=c_int64_t), r%at, r%bytes)
  end function

  function of_real32(id, a) result(r)
    integer, intent(in) :: id
    real(real32), dimension(..), pointer, intent(in) :: a
    type(bys_region) :: r
    r%id = id
    if (associated(a)) r%wrong = c_array(a, rank(a), size(a, kind=c_int64_t), r%at, r%bytes)
  end function

  function of_real64(id, a) result(r)
    integer, intent(in) :: id
    real(real64), dimension(..), pointer, intent(in) :: a
    type(bys_region) :: r
    r%id = id
    if (associated(a)) r%wrong = c_array(a, rank(a), size(a, kind=c_int64_t), r%at, r%bytes)
  end function

  function of_complex32(id, a) result(r)
    integer, intent(in) :: id
    complex(real32), dimension(..), pointer, intent(in) :: a
    type(bys_region) :: r
    r%id = id
    if (associated(a)) r%wrong = c_array(a, rank(a), size(a, kind=c_int64_t), r%at, r%bytes)
  end function

  function of_complex64(id, a) result(r)
    integer, intent(in) :: id
    complex(real64), dimension(..), pointer, intent(in) :: a
    type(bys_region) :: r
    r%id = id
    if (associated(a)) r%wrong = c_array(a, rank(a), size(a, kind=c_int64_t), r%at, r%bytes)
  end function

  function of_logical(id, a) result(r)
    integer, intent(in) :: id
    logical, dimension(..), pointer, intent(in) :: a
    type(bys_region) :: r
    r%id = id
    if (associated(a)) r%wrong = c_array(a, rank(a), size(a, kind=c_int64_t), r%at, r%bytes)
  end function

  function of_bool(id, a) result(r)
    integer, intent(in) :: id
    logical(c_bool), dimension(..), pointer, intent(in) :: a
    type(bys_region) :: r
    r%id = id
    if (associated(a)) r%wrong = c_array(a, rank(a), size(a, kind=c_int64_t), r%at, r%bytes)
  end function

  function of_text(id, a) result(r)
    integer, intent(in) :: id
    character(*), dimension(..), pointer, intent(in) :: a
    type(bys_region) :: r
    r%id = id
    if (associated(a)) r%wrong = c_array(a, rank(a), size(a, kind=c_int64_t), r%at, r%bytes)
  end function
end module byssus
