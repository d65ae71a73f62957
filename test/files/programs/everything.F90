! everything.F90: every call of SCR from Fortran, with the module or with scrf.h. It prints one line a rank and call.
program everything
#ifdef MODULE
  use scr
#endif
  use mpi
  implicit none
#ifndef MODULE
  include 'scrf.h'
#endif
  integer :: me, ierr, flag, unit
  character(len=SCR_MAX_FILENAME) :: name, path, text
  character(len=8) :: short

  call mpi_init(ierr)
  call mpi_comm_rank(mpi_comm_world, me, ierr)
  call scr_config('SCR_DEBUG=0', text, ierr)
  call say('set', ierr, text)
  call scr_config('SCR_DEBUG', text, ierr)
  call say('get', ierr, text)
  call scr_config('SCR_NOTHING', text, ierr)
  call say('nothing', ierr, '')
  call scr_init(ierr)
  call say('init', ierr, '')
  call scr_should_exit(flag, ierr)
  call say('should_exit', ierr + flag, '')
  call scr_have_restart(flag, name, ierr)
  if (flag == 1) then
    call say('have_restart', ierr, name)
    call scr_start_restart(name, ierr)
    call say('start_restart', ierr, name)
    write (text, '(a,i0)') 'state.', me
    call scr_route_file(text, path, ierr)
    open (newunit=unit, file=path, status='old')
    read (unit, '(a)') text
    close (unit)
    call say('read', ierr, text)
    call scr_complete_restart(1, ierr)
    call say('complete_restart', ierr, '')
  else
    call say('have_restart', ierr, 'none')
  end if
  call scr_need_checkpoint(flag, ierr)
  call say('need_checkpoint', ierr + flag, '')
  call scr_start_output('first', ior(SCR_FLAG_CHECKPOINT, SCR_FLAG_OUTPUT), ierr)
  call say('start_output', ierr, '')
  write (text, '(a,i0)') 'steps/state.', me
  call scr_route_file(text, short, ierr)
  call say('route_file short', ierr, '')
  call scr_route_file(text, path, ierr)
  open (newunit=unit, file=path)
  write (unit, '(a,i0)') 'what was rank ', me
  close (unit)
  call scr_complete_output(1, ierr)
  call say('complete_output', ierr, '')
  call scr_start_checkpoint(ierr)
  call say('start_checkpoint', ierr, '')
  call scr_complete_checkpoint(0, ierr)
  call say('complete_checkpoint', ierr, '')
  call scr_current('first', ierr)
  call say('current', ierr, '')
  call scr_drop('none', ierr)
  call say('drop', ierr, '')
  call scr_delete('none', ierr)
  call say('delete', ierr, '')
  call scr_finalize(ierr)
  call say('finalize', ierr, '')
  call mpi_finalize(ierr)

contains
  subroutine say(call, code, with)
    character(len=*), intent(in) :: call, with
    integer, intent(in) :: code
    character(len=256) :: line
    write (line, '(i0,1x,a,1x,i0,1x,a)') me, call, code, trim(with)
    print '(a)', trim(line)
  end subroutine
end program
