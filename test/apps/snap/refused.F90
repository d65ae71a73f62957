! refused.F90: what can be a region in Fortran, and what cannot. It is run where there is no agent: what is -5 got as far as that.
program refused
  use byssus
  implicit none
  type :: particle
    real(8) :: x
    real(4) :: y(3)
  end type
  integer, target :: scalar
  real(8), target :: a(10), b(4, 6)
  real(8), allocatable, target :: c(:, :), never(:)
  real(8), pointer :: p(:), q(:), nowhere(:)
  complex(8), target :: z(4)
  logical, target :: flags(3)
  character(7), target :: text(3)
  type(particle), target :: some(5)
  allocate (c(3, 4))

  call say('scalar', bys_region(1, scalar))
  call say('array', bys_region(1, a))
  call say('element', bys_region(1, a(3)))
  call say('section', bys_region(1, a(2:5)))
  call say('columns', bys_region(1, b(:, 2:3)))
  call say('column', bys_region(1, b(:, 2)))
  call say('allocated', bys_region(1, c))
  call say('complex', bys_region(1, z))
  call say('logical', bys_region(1, flags))
  call say('text', bys_region(1, text))
  p => a(2:5)
  call say('pointer', bys_region(1, p))
  call say('component', bys_region(1, some(2)%y))
  call say('derived', bys_region(1, c_loc(some), storage_size(some) / 8 * size(some, kind=int64)))
  call shape_known(b)
  call size_known(a, 10)

  call say('stride', bys_region(2, a(1:10:2)))
  call say('backward', bys_region(2, a(10:1:-1)))
  call say('row', bys_region(2, b(2, :)))
  call say('rows', bys_region(2, b(2:3, :)))
  call say('components', bys_region(2, some%x))
  call say('parts of components', bys_region(2, some%y(2)))
  call say('one of them', bys_region(2, some(3:3)%y(2)))
  call say('real parts', bys_region(2, z%re))
  call say('letters', bys_region(2, text(:)(2:3)))
  q => some%x
  call say('pointer to components', bys_region(2, q))
  call rows_known(b(1:3, :))
  call say('none', bys_region(3, a(1:0)))
  call say('not allocated', bys_region(3, never))
  nullify (nowhere)
  call say('not associated', bys_region(3, nowhere))
  call say('no bytes', bys_region(3, c_loc(some), 0_int64))
  call say('no address', bys_region(3, c_null_ptr, 8_int64))
#ifdef EXPRESSION
  call say('expression', bys_region(4, a + 1))
#endif
#ifdef NO_TARGET
  block
    real(8) :: other(10)
    call say('no target', bys_region(4, other))
  end block
#endif

contains

  subroutine say(what, region)
    character(*), intent(in) :: what
    type(bys_region), intent(in) :: region
    type(bys_desc) :: d
    integer :: result
    call bys_init(d, [region], bys_group(0, 1), result)
    print '(2a,i0,2a)', what, ': ', result, ' ', bys_error(d)
  end subroutine

  subroutine shape_known(x)
    real(8), target, intent(inout) :: x(:, :)
    call say('assumed shape', bys_region(1, x))
  end subroutine

  subroutine rows_known(x)
    real(8), target, intent(inout) :: x(:, :)
    call say('assumed shape of rows', bys_region(2, x))
  end subroutine

  subroutine size_known(x, n)
    real(8), target, intent(inout) :: x(*)
    integer, intent(in) :: n
    call say('assumed size', bys_region(1, x(1:n)))
  end subroutine
end program
