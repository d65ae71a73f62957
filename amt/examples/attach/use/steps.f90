! steps.f90: a program of Fortran that enters a library of Go a thousand times, and calls MPI itself between.
program steps
   use mpi
   use iso_c_binding
   implicit none
   interface
      integer(c_int) function attach_begin(comm) bind(c)
         import c_int
         integer(c_int), value :: comm
      end function
      integer(c_int) function attach_step(n) bind(c)
         import c_int, c_long
         integer(c_long) :: n
      end function
      integer(c_int) function attach_end() bind(c)
         import c_int
      end function
   end interface
   integer :: provided, rank, ranks, ierr, step
   integer(c_long) :: n, sum
   integer(8) :: mine, all, want = 0

   call MPI_Init_thread(MPI_THREAD_FUNNELED, provided, ierr)
   call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
   call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
   if (attach_begin(MPI_COMM_WORLD) /= 0) call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
   do step = 1, 1000
      mine = step * (rank + 1)
      n = mine
      if (attach_step(n) /= 0) call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
      call MPI_Allreduce(mine, all, 1, MPI_INTEGER8, MPI_SUM, MPI_COMM_WORLD, ierr)
      want = want + all * ranks
      sum = n
      if (sum /= want) then
         print *, 'rank', rank, 'step', step, ':', sum, 'want', want
         call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
      end if
   end do
   if (attach_end() /= 0) call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
   if (rank == 0) print '(A)', '1000 steps'
   call MPI_Finalize(ierr)
end program
