/* switch.c: what it takes to enter an attached task runtime and to leave it, on the caller's thread.
 *
 * Rank 0 prints the best time of many short batches, in nanoseconds, as tasks.c does.
 * Context: an ordinary MPI program, 2 ranks, linked with the library that bench/switch is built into. */
#include <mpi.h>
#include <stdio.h>

enum { BATCHES = 100, TIMES = 1000 };

/* What go build writes into the library's header. */
int switch_begin(int comm);
int switch_enter(void);
int switch_end(void);

int main(int argc, char **argv)
{
	int provided, rank, bad;
	double best = 1e9;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	bad = switch_begin(MPI_Comm_c2f(MPI_COMM_WORLD));
	for (int batch = 0; batch < BATCHES && !bad; batch++) {
		double begin = MPI_Wtime();
		for (int i = 0; i < TIMES && !bad; i++) bad = switch_enter();
		double took = (MPI_Wtime() - begin) / TIMES;
		if (took < best) best = took;
	}
	if (bad || switch_end()) MPI_Abort(MPI_COMM_WORLD, 1);
	if (rank == 0) printf("tasks Switch %.2f\n", best * 1e9);
	MPI_Finalize();
	return 0;
}
