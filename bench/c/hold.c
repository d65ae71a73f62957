/* hold.c: holds memory, runs on, and notices when it was stopped.
 *
 * hold MEBIBYTES FILE: each rank fills that much memory with bytes that do not compress or repeat, says "ready",
 * and then reads the clock in a loop until FILE exists. A gap between two readings of more than 2 ms is printed as
 * "gap RANK NANOSECONDS BEGIN" when the program ends: what a checkpoint costs the application, seen from inside.
 * At the end the memory is compared with what was put there.
 * Context: an ordinary MPI program; it knows nothing of Byssus. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define GAP_NS 2000000
#define GAPS 256

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t next(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

int main(int argc, char **argv)
{
	static struct { uint64_t ns, at; } gap[GAPS];
	int rank, gaps = 0;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (argc != 3) {
		fprintf(stderr, "usage: hold MEBIBYTES FILE\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	size_t words = strtoull(argv[1], NULL, 10) * (1 << 20) / sizeof(uint64_t);
	uint64_t *p = malloc(words * sizeof *p), seed = 88172645463325252u + (uint64_t)rank;
	if (!p)
		MPI_Abort(MPI_COMM_WORLD, 3);
	for (size_t i = 0; i < words; i++)
		p[i] = next(&seed);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0) {
		printf("ready\n");
		fflush(stdout);
	}
	for (uint64_t last = now(), looked = last; ; ) {
		uint64_t t = now();
		if (t - last > GAP_NS && gaps < GAPS) {
			gap[gaps].ns = t - last;
			gap[gaps++].at = last;
		}
		last = t;
		if (t - looked > 20000000) {
			looked = t;
			if (access(argv[2], F_OK) == 0)
				break;
			last = now();
		}
	}
	for (int i = 0; i < gaps; i++)
		printf("gap %d %lu %lu\n", rank, (unsigned long)gap[i].ns, (unsigned long)gap[i].at);
	seed = 88172645463325252u + (uint64_t)rank;
	for (size_t i = 0; i < words; i++)
		if (p[i] != next(&seed)) {
			printf("rank %d: word %zu changed\n", rank, i);
			MPI_Abort(MPI_COMM_WORLD, 4);
		}
	MPI_Finalize();
	return 0;
}
