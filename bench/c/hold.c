/* hold.c: holds memory, runs on, and notices when it was stopped.
 *
 * hold MEBIBYTES FILE [MICROSECONDS]: each rank fills that much memory with bytes that do not compress or
 * repeat, says "ready", and then reads the time of day in a loop until FILE exists (other clocks do not count
 * while a job is not there). When two readings lie more than 2 ms apart it prints "gap RANK NANOSECONDS TIME"
 * (TIME: nanoseconds since 1970 at its end): what a checkpoint costs the application, seen from inside; looking
 * for FILE belongs to it, since a rank may be stopped just then. With MICROSECONDS it rests so long between
 * readings. At the end the memory is compared with what was put there, and "intact RANK" printed.
 * Context: an ordinary MPI program; it knows nothing of Byssus. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define GAP_NS 2000000
#define LOOK_NS 20000000

static uint64_t now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t next(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

static uint64_t seed_of(int rank)
{
	return 88172645463325252u + (uint64_t)rank;
}

static void watch_the_clock(int rank, const char *until, useconds_t rest)
{
	uint64_t last = now(CLOCK_REALTIME), looked = last;
	for (;;) {
		if (rest > 0)
			usleep(rest);
		uint64_t t = now(CLOCK_REALTIME);
		if (t - last > GAP_NS) {
			printf("gap %d %lu %lu\n", rank, (unsigned long)(t - last), (unsigned long)t);
			fflush(stdout);
		}
		last = t;
		if (t - looked > LOOK_NS) {
			if (access(until, F_OK) == 0)
				return;
			looked = t;
		}
	}
}

int main(int argc, char **argv)
{
	int rank;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (argc != 3 && argc != 4) {
		fprintf(stderr, "usage: hold MEBIBYTES FILE [MICROSECONDS]\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	size_t words = strtoull(argv[1], NULL, 10) * (1 << 20) / sizeof(uint64_t);
	uint64_t *p = malloc(words * sizeof *p), state = seed_of(rank);
	if (!p)
		MPI_Abort(MPI_COMM_WORLD, 3);
	for (size_t i = 0; i < words; i++)
		p[i] = next(&state);
	MPI_Barrier(MPI_COMM_WORLD);
	printf("ready %d\n", rank);
	fflush(stdout);
	watch_the_clock(rank, argv[2], argc == 4 ? (useconds_t)atoi(argv[3]) : 0);
	state = seed_of(rank);
	for (size_t i = 0; i < words; i++)
		if (p[i] != next(&state)) {
			fprintf(stderr, "hold: rank %d: word %zu changed\n", rank, i);
			MPI_Abort(MPI_COMM_WORLD, 4);
		}
	printf("intact %d\n", rank);
	MPI_Finalize();
	return 0;
}
