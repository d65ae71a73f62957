/* steps.c: a program of MPI that enters a library of Go two thousand times and calls MPI itself between. It is attached,
 * and detached, twice: by a communicator in which the ranks are the other way round, and by MPI_COMM_WORLD.
 *
 * Context: an MPI program, one thread (MPI_THREAD_FUNNELED). */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

/* What go build writes into libattach.h. */
typedef struct { long value; } attach_number;
int attach_begin(int comm);
int attach_step(attach_number *n);
int attach_put(long value);
long attach_had(void);
int attach_end(void);

/* A thousand steps, or steps until a file exists. */
static int play(MPI_Comm comm, long *all, const char *until)
{
	int over = 0;
	long want = 0, put = 0, had = attach_had(), sums[2];
	int rank, ranks;
	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &ranks);
	if (attach_begin(MPI_Comm_c2f(comm))) return 1;
	for (long step = 0; !over; step++) {
		long sum, mine = step + rank;
		attach_number n = { mine };
		if (attach_put(step * rank) || attach_step(&n)) return 1;
		put += step * rank;
		MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, comm);
		want += sum * ranks;
		if (n.value != *all + want) {
			fprintf(stderr, "rank %d, step %ld: %ld, want %ld\n", rank, step, n.value, *all + want);
			return 1;
		}
		over = until ? access(until, F_OK) == 0 : step == 999;
		MPI_Allreduce(MPI_IN_PLACE, &over, 1, MPI_INT, MPI_MAX, comm);
	}
	if (attach_end()) return 1;
	sums[0] = put;
	sums[1] = attach_had() - had;
	MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_LONG, MPI_SUM, comm);
	if (sums[0] != sums[1]) {
		fprintf(stderr, "rank %d: %ld was put, and %ld had\n", rank, sums[0], sums[1]);
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	int provided, rank, bad;
	long all = 0;
	MPI_Comm turned;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned);
	bad = play(turned, &all, NULL) || play(MPI_COMM_WORLD, &all, argc > 1 ? argv[1] : NULL);
	if (bad) MPI_Abort(MPI_COMM_WORLD, 1);
	if (rank == 0) printf("all steps are right\n");
	MPI_Comm_free(&turned);
	MPI_Finalize();
	return 0;
}
