/* groups.c: a program whose processes are members of three groups at once, each with regions, a policy, an interval and
 * members of its own: "field", of all; "control", of all, small and often; and "io", of the lower half. Each group computes for
 * itself, and goes on from its own newest snapshot. What is printed at the end depends on every step of each, and on
 * nothing else.
 *
 *   groups STEPS [every=N] [size=BYTES] [ms=MILLISECONDS] [until=FILE] [die=RANK@STEP@MOMENT]... [ends=1]
 *
 * every: more than STEPS: there are no groups; size: of the field's first region; ms: that a step takes at least; until:
 * the last step is done when there is such a file; die: SIGKILL of itself, once for each (a file "died.N" says that it has
 * been), MOMENT 0 before control is started, 1 when control is being committed and field is not, 2 when all are, 3 when
 * control counts and field is waited for, 4 between bys_restore of field and of control, 5 between that and io, 6 between
 * bys_finish of control and of field. STEP in 4 and 5: 0 of a program that begins, 1 of one that is restored. ends:
 * control is finished after half of the steps, and field and io go on. Afterwards field stays, control and io do not. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "byssus.h"

enum { GROUPS = 3, DEATHS = 4 };

static int rank, ranks, deaths;
static long steps = 10, every, size = 1000, ms, ends;
static char until[200];
static struct { long rank, step, moment; } die[DEATHS];

static struct part {
	bys_group group;
	long every;
	MPI_Comm world;
	bys_desc d;
	int member, waits; /* for a commit */
	uint64_t *cells;
	size_t n;
	struct { uint64_t step, sum; } state;
} parts[GROUPS] = {
	{.group = {.name = "field", .policy = "xor"}, .every = 5},
	{.group = {.name = "control", .policy = "partner"}, .every = 2},
	{.group = {.name = "io"}, .every = 3},
};

static void fail(const char *call, int result, struct part *p)
{
	fprintf(stderr, "groups: rank %d: step %lu of %s: %s: %d: %s\n", rank, (unsigned long)p->state.step, p->group.name, call, result,
		bys_error(p->d));
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
		if (deaths < DEATHS && sscanf(argv[i], "die=%ld@%ld@%ld", &die[deaths].rank, &die[deaths].step, &die[deaths].moment) == 3)
			deaths++;
		else if (!(sscanf(argv[i], "every=%ld", &every) || sscanf(argv[i], "size=%ld", &size) || sscanf(argv[i], "ms=%ld", &ms) ||
			   sscanf(argv[i], "until=%199s", until) || sscanf(argv[i], "ends=%ld", &ends)))
			exit(64);
}

static void die_at(long step, long moment)
{
	char name[20];
	for (int i = 0; i < deaths && every <= steps; i++) {
		if (rank != die[i].rank || step != die[i].step || moment != die[i].moment) continue;
		snprintf(name, sizeof name, "died.%d", i);
		if (open(name, O_CREAT | O_EXCL, 0600) >= 0) raise(SIGKILL);
	}
}

static void make(struct part *p, int i)
{
	p->member = i < 2 || rank < (ranks + 1) / 2;
	MPI_Comm_split(MPI_COMM_WORLD, p->member, rank, &p->world);
	p->group.member = (uint32_t)rank, p->group.members = (uint32_t)(i < 2 ? ranks : (ranks + 1) / 2);
	p->n = i ? 100 : (size_t)(size + rank * 8) / 8 + 1;
	p->cells = malloc(p->n * 8);
	memset(p->cells, 0xee, p->n * 8);
	p->state.step = p->state.sum = 77;
}

static void begin(struct part *p, int i)
{
	bys_region regions[] = {{.id = 7, .capture = BYS_TRACK, .at = p->cells, .bytes = p->n * 8}, {.id = 1, .at = &p->state, .bytes = sizeof p->state}};
	uint64_t tag = 0;
	int result = every > steps ? BYS_NOTHING : bys_restore(&p->d, regions, 2, &p->group, &tag, BYS_BLOCK);
	if (result < 0) fail("restore", result, p);
	if (result == BYS_NOTHING) {
		p->state.step = p->state.sum = 0;
		for (size_t k = 0; k < p->n; k++) p->cells[k] = mix((uint64_t)(rank + i * 100) * 1000003 + k);
	} else {
		if (p->state.step != tag) fail("tag", 0, p);
		if (rank == 0) fprintf(stderr, "groups: %s restored at step %lu\n", p->group.name, (unsigned long)tag);
	}
	die_at(result == BYS_OK, i == 0 ? 4 : i == 1 ? 5 : -1);
}

static void compute(struct part *p)
{
	uint64_t sum = 0, all;
	p->state.step++;
	for (size_t i = 0; i < p->n; i++) sum += p->cells[i] = mix(p->cells[i] + p->state.step);
	MPI_Allreduce(&sum, &all, 1, MPI_UINT64_T, MPI_BXOR, p->world);
	p->state.sum = mix(p->state.sum + all), p->cells[0] += all;
}

static void start(struct part *p)
{
	int result = bys_start(p->d, p->state.step);
	if (result != BYS_OK) fprintf(stderr, "groups: rank %d: start of %s: %d: %s\n", rank, p->group.name, result, bys_error(p->d));
}

static void commit(struct part *p, long timeout)
{
	int result = bys_commit(p->d, timeout);
	p->waits = result == BYS_TIMEOUT;
	if (result == BYS_EFAILED && rank == 0) fprintf(stderr, "groups: step %lu: %s\n", (unsigned long)p->state.step, bys_error(p->d));
	else if (result != BYS_OK && result != BYS_EFAILED && !p->waits) fail("commit", result, p);
}

/* Commits what is due in all groups at the same time; half of the ranks wait in one order, half in the other. */
static void snapshots(long step, int *due)
{
	static const int order[] = {1, 0, 2};
	die_at(step, 0);
	for (int k = 0; k < GROUPS; k++) {
		struct part *p = &parts[order[k]];
		if (!due[order[k]]) continue;
		start(p);
		commit(p, BYS_TEST);
		if (order[k] == 1) die_at(step, 1);
	}
	die_at(step, 2);
	while (parts[1].waits && parts[0].waits && rank % 2 == 0) commit(&parts[1], 20);
	if (!parts[1].waits) die_at(step, 3);
	for (int k = 0; k < GROUPS; k++) {
		struct part *p = &parts[rank % 2 ? k : GROUPS - 1 - k];
		while (p->waits) commit(p, BYS_BLOCK);
	}
}

static void finish(struct part *p, int keep)
{
	int result = every > steps || !p->member || !p->d ? BYS_OK : bys_finish(&p->d, keep, BYS_BLOCK);
	if (result != BYS_OK) fail("finish", result, p);
}

/* So that whatever a test lets happen happens before the end; the steps do not depend on it. */
static void wait_for_the_end(long step)
{
	int there = step < steps || !until[0];
	if (!there && rank == 0) fprintf(stderr, "groups: waits\n");
	for (int all = 0; !all; usleep(10000)) {
		if (!there) there = !access(until, F_OK);
		MPI_Allreduce(&there, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
		if (all) return;
	}
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	options(argc, argv);
	long from = steps;
	for (int i = 0; i < GROUPS; i++) {
		make(&parts[i], i);
		if (parts[i].member) begin(&parts[i], i);
		if (parts[i].member && (long)parts[i].state.step < from) from = (long)parts[i].state.step;
	}
	MPI_Allreduce(MPI_IN_PLACE, &from, 1, MPI_LONG, MPI_MIN, MPI_COMM_WORLD);
	for (long step = from + 1; step <= steps; step++) {
		int due[GROUPS];
		for (int i = 0; i < GROUPS; i++) {
			struct part *p = &parts[i];
			due[i] = p->member && (long)p->state.step < step;
			if (due[i]) compute(p);
			due[i] &= p->d && step % p->every == 0;
		}
		if (ms) usleep((useconds_t)ms * 1000);
		wait_for_the_end(step);
		snapshots(step, due);
		if (ends && step == steps / 2) finish(&parts[1], 0);
	}
	uint64_t sum = 0, all;
	for (int i = 0; i < GROUPS; i++) {
		if (parts[i].member) sum ^= mix(parts[i].state.sum + (uint64_t)i);
		for (size_t k = 0; parts[i].member && k < parts[i].n; k++) sum ^= mix(parts[i].cells[k]);
	}
	MPI_Allreduce(&sum, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
	finish(&parts[1], 0);
	die_at(steps, 6);
	finish(&parts[0], 1);
	finish(&parts[2], 0);
	if (rank == 0) printf("step %ld of %ld: %016lx\n", steps, steps, (unsigned long)all);
	return MPI_Finalize();
}
