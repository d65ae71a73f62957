/* steps.c: a program that computes step by step, makes snapshots of its memory by byssus.h, and goes on from them. What
 * it prints at its end depends on every step of every rank, and on nothing else.
 *
 *   steps STEPS [every=N] [size=BYTES] [ms=MILLISECONDS] [until=FILE] [die=RANK@STEP@MOMENT] [keep=0]
 *         [few=PARTS] [capture=HOW] [look=1]
 *
 * every: steps between snapshots, more than STEPS: there is no group; size: of a rank's first region, which differs from rank to rank; ms: that a step takes
 * at least; until: it does its last step when there is such a file; die: SIGKILL of itself, unless it has been restored,
 * MOMENT 0 before bys_start, 1 after it, 2 while bys_commit waits; keep: whether snapshots stay when it has ended; few: a
 * step changes one of so many parts of the cells; capture: of the first region, a bys_capture; look: ranks with even
 * numbers do not know how many cells they have, if there is a snapshot, but look, and leave a third region as it is. */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "byssus.h"

static int rank, ranks, restored;
static long steps = 10, every = 1, size = 1000, ms, die_rank = -1, die_step, die_moment, keep = 1, few = 1, capture, look;
static char until[200];
static struct { uint64_t step, sum; } state;
static uint64_t *cells;

static void fail(const char *call, int result, bys_desc d)
{
	fprintf(stderr, "steps: rank %d: step %lu: %s: %d: %s\n", rank, (unsigned long)state.step, call, result, bys_error(d));
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
		      sscanf(argv[i], "few=%ld", &few) || sscanf(argv[i], "capture=%ld", &capture) || sscanf(argv[i], "look=%ld", &look) ||
		      sscanf(argv[i], "die=%ld@%ld@%ld", &die_rank, &die_step, &die_moment) == 3))
			exit(64);
}

/* So that whatever a test lets happen happens before the end; the steps do not depend on it. */
static void wait_for_the_end(void)
{
	int there = (long)state.step < steps || !until[0];
	if (!there && rank == 0) fprintf(stderr, "steps: waits\n");
	for (int all = 0; !all; usleep(10000)) {
		if (!there) there = !access(until, F_OK);
		MPI_Allreduce(&there, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
		if (all) return;
	}
}

static void die_at(long moment)
{
	if (rank == die_rank && (long)state.step == die_step && moment == die_moment && !restored) raise(SIGKILL);
}

static void snapshot(bys_desc d)
{
	die_at(0);
	int result = bys_start(d, state.step);
	if (result != BYS_OK) fprintf(stderr, "steps: rank %d: start: %d: %s\n", rank, result, bys_error(d));
	die_at(1);
	result = bys_commit(d, BYS_TEST);
	die_at(2);
	while (result == BYS_TIMEOUT) result = bys_commit(d, 50);
	if (result == BYS_EFAILED && rank == 0) fprintf(stderr, "steps: step %lu: %s\n", (unsigned long)state.step, bys_error(d));
	else if (result != BYS_OK && result != BYS_EFAILED) fail("commit", result, d);
}

/* How many cells this rank has in the newest snapshot, if there is one. */
static void look_for(bys_desc *d, const bys_group *group, size_t *n)
{
	bys_region found[3] = {{0}};
	size_t k = 3;
	uint64_t tag = 0;
	int result = bys_look(d, group, found, &k, &tag, BYS_TEST);
	while (result == BYS_TIMEOUT) result = bys_look(d, group, found, &k, &tag, 50);
	if (result < 0) fail("look", result, *d);
	if (result == BYS_NOTHING && k) fail("look: nothing, with regions", (int)k, *d);
	if (result == BYS_NOTHING) return;
	if (k != 3 || found[0].id != 7 || found[1].id != 1 || found[1].bytes != sizeof state || found[2].id != 4 || !tag) fail("look: other regions", (int)k, *d);
	*n = found[0].bytes / 8;
	size_t few = 1; /* has room for fewer */
	uint64_t again;
	if (bys_look(d, group, found, &few, &again, BYS_BLOCK) != BYS_OK || few != 3 || again != tag) fail("look again", (int)few, *d);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	options(argc, argv);
	size_t n = (size_t)(size + rank * 8) / 8 + 1;
	bys_group group = {.member = (uint32_t)rank, .members = (uint32_t)ranks};
	bys_desc d = NULL;
	if (look && every <= steps && rank % 2 == 0) look_for(&d, &group, &n);
	cells = malloc(n * 8);
	memset(cells, 0xee, n * 8);
	uint64_t mine = 5;
	state.step = state.sum = 77; /* which must not be what is computed with */
	bys_region regions[] = {{.id = 7, .capture = (uint32_t)capture, .at = cells, .bytes = n * 8}, {.id = 1, .at = &state, .bytes = sizeof state},
		{.id = 4, .capture = BYS_LEAVE, .at = &mine, .bytes = sizeof mine}};
	uint64_t tag = 0;
	int result = every > steps ? BYS_NOTHING : bys_restore(&d, regions, look ? 3 : 2, &group, &tag, BYS_BLOCK);
	if (result < 0) fail("restore", result, d);
	if (result == BYS_NOTHING) {
		state.step = state.sum = 0;
		for (size_t i = 0; i < n; i++) cells[i] = mix((uint64_t)rank * 1000003 + i);
	} else {
		restored = 1;
		if (state.step != tag) fail("tag", 0, d);
		if (mine != 5) fail("leave", (int)mine, d);
		if (rank == 0) fprintf(stderr, "steps: restored at step %lu\n", (unsigned long)tag);
	}
	mine = 6; /* in snapshots */
	while ((long)state.step < steps) {
		uint64_t sum = 0, all;
		state.step++;
		size_t from = state.step * 7 % (size_t)few * n / (size_t)few, to = from + n / (size_t)few;
		for (size_t i = from; i < to; i++) sum += cells[i] = mix(cells[i] + state.step);
		MPI_Allreduce(&sum, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
		state.sum = mix(state.sum + all), cells[0] += all;
		if (ms) usleep((useconds_t)ms * 1000);
		wait_for_the_end();
		if ((long)state.step % every == 0) snapshot(d);
	}
	uint64_t sum = 0, all;
	for (size_t i = 0; i < n; i++) sum ^= mix(cells[i]);
	MPI_Allreduce(&sum, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
	if (rank == 0) printf("step %ld of %ld: %016lx %016lx\n", (long)state.step, steps, (unsigned long)all, (unsigned long)state.sum);
	result = every > steps ? BYS_OK : bys_finish(&d, (int)keep, BYS_BLOCK);
	if (result != BYS_OK) fail("finish", result, d);
	return MPI_Finalize();
}
