/* play.c: has the library play what its argument says; rank 0 prints how many ranks it went well on.
 *
 * Context: an MPI program, one thread (MPI_THREAD_FUNNELED). */
#include <mpi.h>
#include <stdio.h>

int attached_play(int comm, char *name);

int main(int argc, char **argv)
{
	int provided, rank, well, all = 0;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	well = argc > 1 && attached_play(MPI_Comm_c2f(MPI_COMM_WORLD), argv[1]) == 0;
	MPI_Reduce(&well, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0) printf("well on %d\n", all);
	return MPI_Finalize();
}
