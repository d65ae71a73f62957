/* tasks.c: what raw MPI takes for what the task runtime does: a round trip, many messages one way, four reductions, a
 * thousand reductions, also while receives are posted, and how fine the tasks of a stencil may be (bench/tasks/metg.go).
 *
 * Rank 0 prints a line per measurement: its name and the best time of many short batches, in nanoseconds.
 * Context: an ordinary MPI program, 2 ranks. It asks for the level of threads that the runtime needs; with the argument
 * "single" for none, by MPI_Init: that makes calls of Open MPI some 20 % faster. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { BATCHES = 60 };

static int rank;

static void round_trip(int n)
{
	long m = 0;
	for (int i = 0; i < n; i++) {
		if (rank == 0) MPI_Send(&m, 8, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
		MPI_Recv(&m, 8, MPI_BYTE, !rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank == 1) MPI_Send(&m, 8, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
	}
}

static void one_way(int n)
{
	long m = 0;
	for (int i = 0; i < n; i++)
		if (rank == 0)
			MPI_Send(&m, 8, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
		else
			MPI_Recv(&m, 8, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (rank == 1)
		MPI_Send(&m, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
	else
		MPI_Recv(&m, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void reductions(int n)
{
	long m = 1, sum;
	for (int i = 0; i < n; i++) MPI_Allreduce(&m, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
}

static void four(int n) { reductions(4 * n); }

static void measure(const char *name, void (*f)(int), int n)
{
	double best = 1e9;
	f(n);
	for (int batch = 0; batch < BATCHES; batch++) {
		MPI_Barrier(MPI_COMM_WORLD);
		double begin = MPI_Wtime();
		f(n);
		double took = (MPI_Wtime() - begin) / n;
		if (took < best) best = took;
	}
	if (rank == 0) printf("tasks %s %.2f\n", name, best * 1e9);
}

/* Reductions while receives of another communicator are posted, as many as the runtime has. */
static void beside_receives(void)
{
	enum { RECEIVES = 16, BYTES = 16 << 10 };
	static char memory[RECEIVES][BYTES];
	MPI_Comm comm;
	MPI_Request receive[RECEIVES];
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	for (int i = 0; i < RECEIVES; i++)
		MPI_Irecv(memory[i], BYTES, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &receive[i]);
	measure("AllreducesBesideReceives", reductions, 1000);
	for (int i = 0; i < RECEIVES; i++) {
		MPI_Cancel(&receive[i]);
		MPI_Wait(&receive[i], MPI_STATUS_IGNORE);
	}
	MPI_Comm_free(&comm);
}

enum { COLUMNS = 16, STEPS = 100, GRAINS = 15, ROUNDS = 20 };

static int ranks;

static unsigned long compute(unsigned long v, int turns)
{
	for (int i = 0; i < turns; i++) v = v * 6364136223846793005UL + 1442695040888963407UL;
	return v;
}

/* The steps of a stencil: each rank has a block of columns, and exchanges those at its ends in every step. */
static unsigned long stencil(int columns, int turns)
{
	static unsigned long old[COLUMNS + 2], value[COLUMNS + 2];
	int n = columns / ranks, below = rank ? rank - 1 : MPI_PROC_NULL, above = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
	for (int step = 0; step < STEPS; step++) {
		if (step > 0) {
			MPI_Request request[4];
			MPI_Irecv(&value[0], 8, MPI_BYTE, below, 0, MPI_COMM_WORLD, &request[0]);
			MPI_Irecv(&value[n + 1], 8, MPI_BYTE, above, 0, MPI_COMM_WORLD, &request[1]);
			MPI_Isend(&value[1], 8, MPI_BYTE, below, 0, MPI_COMM_WORLD, &request[2]);
			MPI_Isend(&value[n], 8, MPI_BYTE, above, 0, MPI_COMM_WORLD, &request[3]);
			MPI_Waitall(4, request, MPI_STATUSES_IGNORE);
		}
		memcpy(old, value, sizeof old);
		for (int x = 1; x <= n; x++) value[x] = compute(old[x - 1] + old[x] + old[x + 1], turns);
	}
	return value[1];
}

/* Prints the granularity of tasks, in the time of all ranks, at which half of the time is theirs. */
static void granularity(int columns)
{
	double took[GRAINS], turn, part = 0;
	unsigned long sum = 0;
	for (int g = 0; g < GRAINS; g++) {
		took[g] = 1e9;
		for (int round = 0; round < ROUNDS; round++) {
			MPI_Barrier(MPI_COMM_WORLD);
			double begin = MPI_Wtime();
			sum += stencil(columns, 1 << g);
			MPI_Barrier(MPI_COMM_WORLD);
			double task = (MPI_Wtime() - begin) * ranks / (columns * STEPS);
			if (task < took[g]) took[g] = task;
		}
	}
	turn = took[GRAINS - 1] / (1 << (GRAINS - 1));
	for (int g = 0; g < GRAINS; g++) {
		double last = part;
		part = turn * (1 << g) / took[g];
		if (part < 0.5) continue;
		double metg = g == 0 ? took[0] : took[g - 1] + (took[g] - took[g - 1]) * (0.5 - last) / (part - last);
		if (rank == 0 && sum) printf("tasks METG%d %.1f\n", columns / ranks, metg * 1e9);
		return;
	}
}

int main(int argc, char **argv)
{
	int provided;
	if (argc > 1 && !strcmp(argv[1], "single"))
		MPI_Init(&argc, &argv);
	else
		MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	measure("RoundTrip8B", round_trip, 500);
	measure("OneWay8B", one_way, 5000);
	measure("EmptyCollective", four, 200);
	measure("Allreduces1000", reductions, 1000);
	measure("AllreduceSingle", reductions, 200);
	beside_receives();
	if (argc == 1) {
		granularity(ranks);
		granularity(COLUMNS);
	}
	MPI_Finalize();
	return 0;
}
