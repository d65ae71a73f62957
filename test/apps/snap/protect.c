/* protect.c: steps.c by the calls of protect.h: the same steps, the same options, the same last line.
 *
 *   protect STEPS [every=N] [size=BYTES] [ms=MILLISECONDS] [until=FILE] [die=RANK@STEP@MOMENT] [keep=0]
 *
 * It says nothing of who it is: MPI knows. */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "protect.h"

static int rank, restored;
static long steps = 10, every = 1, size = 1000, ms, die_rank = -1, die_step, die_moment, keep = 1;
static char until[200];
static uint64_t step = 77, sum = 77;

static void fail(const char *call, int result)
{
	fprintf(stderr, "steps: rank %d: step %lu: %s: %d: %s\n", rank, (unsigned long)step, call, result, bys_protect_error());
	MPI_Abort(MPI_COMM_WORLD, 7);
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 31) * 0x7fb5d329728ea185;
	x = (x ^ x >> 27) * 0x81dadef4bc2dd44d;
	return x ^ x >> 33;
}

static void options(int argc, char **argv)
{
	if (argc > 1) steps = atol(argv[1]);
	for (int i = 2; i < argc; i++)
		if (!(sscanf(argv[i], "every=%ld", &every) || sscanf(argv[i], "size=%ld", &size) ||
		      sscanf(argv[i], "ms=%ld", &ms) || sscanf(argv[i], "until=%199s", until) || sscanf(argv[i], "keep=%ld", &keep) ||
		      sscanf(argv[i], "die=%ld@%ld@%ld", &die_rank, &die_step, &die_moment) == 3))
			exit(64);
}

static void wait_for_the_end(void)
{
	int there = (long)step < steps || !until[0];
	for (int all = 0; !all; usleep(10000)) {
		if (!there) there = !access(until, F_OK);
		MPI_Allreduce(&there, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
		if (all) return;
	}
}

static void die_at(long moment)
{
	if (rank == die_rank && (long)step == die_step && moment == die_moment && !restored) raise(SIGKILL);
}

static void snapshot(void)
{
	die_at(0);
	int result = bys_checkpoint("steps", step, BYS_TEST);
	die_at(2);
	while (result == BYS_TIMEOUT) result = bys_checkpoint("steps", step, 50);
	if (result == BYS_EFAILED && rank == 0) fprintf(stderr, "steps: step %lu: %s\n", (unsigned long)step, bys_protect_error());
	else if (result != BYS_OK && result != BYS_EFAILED) fail("checkpoint", result);
}

/* How many cells this rank has: as in the newest snapshot, if there is one. */
static size_t look(size_t n)
{
	bys_region found[4];
	size_t k = 4;
	uint64_t version = 0;
	if (bys_protect(9, &version, 1, sizeof version)) fail("protect", 0);
	int result = bys_restart_look("steps", &version, found, &k, BYS_TEST);
	while (result == BYS_TIMEOUT) result = bys_restart_look("steps", &version, found, &k, 50);
	if (result < 0) fail("look", result);
	if (bys_unprotect(9)) fail("unprotect", 0);
	if (result == BYS_NOTHING) return n;
	if (k != 4 || found[0].id != 7 || found[0].bytes != 8 * n || found[3].id != 4 || !version) fail("look: other regions", (int)k);
	return found[0].bytes / 8;
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	options(argc, argv);
	size_t n = (size_t)(size + rank * 8) / 8 + 1, found = every <= steps && rank % 2 ? look(n) : n;
	uint64_t version = 0, *cells = malloc(found * 8), part, all, mine = 5;
	uint32_t some[] = {1, 2, 7};
	memset(cells, 0xee, found * 8);
	if (bys_protect(7, cells, found, 8) || bys_protect(1, &step, 1, sizeof step) || bys_protect(2, &sum, 1, sizeof sum) || bys_protect(4, &mine, 1, sizeof mine)) fail("protect", 0);
	int result = every > steps ? BYS_NOTHING : bys_restart_some("steps", &version, some, 3, BYS_BLOCK);
	if (result < 0) fail("restart", result);
	if (mine != 5) fail("left as it is", (int)mine);
	mine = 6; /* in snapshots */
	if (result == BYS_NOTHING) {
		step = sum = 0;
		for (size_t i = 0; i < n; i++) cells[i] = mix((uint64_t)rank * 1000003 + i);
	} else {
		restored = 1;
		if (step != version) fail("version", 0);
		if (rank == 0) fprintf(stderr, "steps: restored at step %lu\n", (unsigned long)version);
	}
	while ((long)step < steps) {
		step++, part = 0;
		for (size_t i = 0; i < n; i++) part += cells[i] = mix(cells[i] + step);
		MPI_Allreduce(&part, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
		sum = mix(sum + all), cells[0] += all;
		if (ms) usleep((useconds_t)ms * 1000);
		wait_for_the_end();
		if ((long)step % every == 0) snapshot();
	}
	part = 0;
	for (size_t i = 0; i < n; i++) part ^= mix(cells[i]);
	MPI_Allreduce(&part, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
	if (rank == 0) printf("step %ld of %ld: %016lx %016lx\n", (long)step, steps, (unsigned long)all, (unsigned long)sum);
	result = bys_protect_end((int)keep, BYS_BLOCK);
	if (result != BYS_OK) fail("end", result);
	return MPI_Finalize();
}
