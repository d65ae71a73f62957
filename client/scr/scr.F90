! scr.F90: the calls of SCR as a module, with which a compiler checks their arguments. It is compiled together with the program, since
! modules of different compilers differ; the calls themselves are in libscrf.so. flag and valid are integers: 0 is no, 1 is yes.
module scr
  implicit none
  public
  include 'scrf.h'

  interface
    subroutine scr_init(ierror)
      integer, intent(out) :: ierror
    end subroutine
    subroutine scr_finalize(ierror)
      integer, intent(out) :: ierror
    end subroutine
    subroutine scr_should_exit(flag, ierror)
      integer, intent(out) :: flag, ierror
    end subroutine
    subroutine scr_config(setting, value, ierror)
      character(len=*), intent(in) :: setting
      character(len=*), intent(inout) :: value
      integer, intent(out) :: ierror
    end subroutine
    subroutine scr_have_restart(flag, name, ierror)
      integer, intent(out) :: flag, ierror
      character(len=*), intent(inout) :: name
    end subroutine
    subroutine scr_start_restart(name, ierror)
      character(len=*), intent(out) :: name
      integer, intent(out) :: ierror
    end subroutine
    subroutine scr_complete_restart(valid, ierror)
      integer, intent(in) :: valid
      integer, intent(out) :: ierror
    end subroutine
    subroutine scr_need_checkpoint(flag, ierror)
      integer, intent(out) :: flag, ierror
    end subroutine
    subroutine scr_start_checkpoint(ierror)
      integer, intent(out) :: ierror
    end subroutine
    subroutine scr_complete_checkpoint(valid, ierror)
      integer, intent(in) :: valid
      integer, intent(out) :: ierror
    end subroutine
    subroutine scr_start_output(name, flags, ierror)
      character(len=*), intent(in) :: name
      integer, intent(in) :: flags
      integer, intent(out) :: ierror
    end subroutine
    subroutine scr_complete_output(valid, ierror)
      integer, intent(in) :: valid
      integer, intent(out) :: ierror
    end subroutine
    subroutine scr_route_file(name, file, ierror)
      character(len=*), intent(in) :: name
      character(len=*), intent(out) :: file
      integer, intent(out) :: ierror
    end subroutine
    subroutine scr_current(name, ierror)
      character(len=*), intent(in) :: name
      integer, intent(out) :: ierror
    end subroutine
    subroutine scr_drop(name, ierror)
      character(len=*), intent(in) :: name
      integer, intent(out) :: ierror
    end subroutine
    subroutine scr_delete(name, ierror)
      character(len=*), intent(in) :: name
      integer, intent(out) :: ierror
    end subroutine
  end interface
end module scr
