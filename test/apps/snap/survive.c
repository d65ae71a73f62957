/* survive.c: members that speak by MPI and go on when one has died (byssus run --survivors keep, Open MPI): processes beyond the members
 * wait outside of MPI for the place of one. What members print is what those of test/apps/online print.
 *
 *   survive STEPS members=N [size=BYTES] [ms=MILLISECONDS] [die=MEMBER@STEP@MOMENT] [until=FILE]
 *
 * Nothing waits in MPI: what is under way with a dead process may never end. Nor is MPI_Finalize called, which would wait for the dead. */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "byssus.h"

enum { AGAIN = 1, MOST = 64 };

static bys_group group;
static long members, steps = 10, size = 1000, ms, die_member = -1, die_step, die_moment;
static char until[200];
static uint32_t processes[MOST];
static uint64_t *cells, state[2];
static size_t n;
static bool first;
static bys_desc d;

static void fail(const char *call, int result)
{
	fprintf(stderr, "survive: member %u: step %lu: %s: %d: %s\n", group.member, (unsigned long)state[0], call, result, bys_error(d));
	_exit(7);
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 31) * 0x7fb5d329728ea185;
	x = (x ^ x >> 27) * 0x81dadef4bc2dd44d;
	return x ^ x >> 33;
}

static void die_at(long moment)
{
	if (group.member == die_member && (long)state[0] == die_step && moment == die_moment && first) raise(SIGKILL);
}

static bool broken(void)
{
	uint8_t states[MOST];
	int result = bys_state(d, states, (size_t)members, BYS_TEST);
	if (result < 0) fail("state", result);
	bool any = false;
	for (int i = 0; i < members; i++)
		if (states[i] == BYS_CORRUPT) any = true, fprintf(stderr, "survive: member %u hears that %d died\n", group.member, i);
	return any;
}

static int exchange(uint64_t mine, uint64_t *theirs)
{
	int done = 0, tag = (int)(bys_epoch(d) % 30000), m = (int)group.member;
	int right = (int)processes[(m + 1) % members], left = (int)processes[(m + members - 1) % members];
	static uint64_t sent, got; /* what was begun with a dead process may go on */
	MPI_Request r[2];
	sent = mine;
	if (MPI_Irecv(&got, 1, MPI_UINT64_T, left, tag, MPI_COMM_WORLD, &r[0])) return AGAIN;
	if (MPI_Isend(&sent, 1, MPI_UINT64_T, right, tag, MPI_COMM_WORLD, &r[1])) return AGAIN;
	for (long i = 1; !done; i++) {
		if (MPI_Testall(2, r, &done, MPI_STATUSES_IGNORE)) return AGAIN;
		if (!done && i % 100 == 0 && broken()) return AGAIN;
	}
	*theirs = got;
	return 0;
}

static int step(void)
{
	uint64_t sum = 0, theirs = 0;
	state[0]++;
	for (size_t i = 0; i < n; i++) sum += cells[i] = mix(cells[i] + state[0]);
	if (exchange(sum, &theirs)) return AGAIN;
	cells[0] += theirs, state[1] = mix(state[1] + theirs);
	usleep((useconds_t)ms * 1000);
	for (; (long)state[0] == steps && until[0] && access(until, F_OK); usleep(1000))
		if (broken()) return AGAIN;
	die_at(0);
	int result = bys_start(d, state[0]);
	if (result == BYS_EPEER) return AGAIN;
	die_at(1);
	result = bys_commit(d, BYS_TEST);
	die_at(2);
	while (result == BYS_TIMEOUT) result = bys_commit(d, 50);
	if (result == BYS_EPEER) return AGAIN;
	if (result == BYS_EFAILED) fprintf(stderr, "survive: step %lu: %s\n", (unsigned long)state[0], bys_error(d));
	else if (result != BYS_OK) fail("commit", result);
	return 0;
}

static int live(void)
{
	while ((long)state[0] < steps)
		if (step()) return AGAIN;
	uint64_t sum = 0;
	for (size_t i = 0; i < n; i++) sum ^= mix(cells[i]);
	int result = bys_finish(&d, 0, BYS_BLOCK);
	if (result == BYS_EPEER) return AGAIN;
	if (result != BYS_OK) fail("finish", result);
	printf("step %lu member %u: %016lx %016lx\n", (unsigned long)state[0], group.member, (unsigned long)sum, (unsigned long)state[1]);
	return 0;
}

static void restore(void)
{
	bys_region regions[] = {{.id = 7, .capture = BYS_TRACK, .at = cells, .bytes = n * 8}, {.id = 1, .at = state, .bytes = sizeof state}};
	uint64_t tag = 0;
	int result = bys_restore(&d, regions, 2, &group, &tag, BYS_BLOCK);
	if (result < 0) fail("restore", result);
	if (result == BYS_OK && tag != state[0]) fail("tag", 0);
	first = result == BYS_NOTHING;
	for (size_t i = 0; first && i < n; i++) cells[i] = mix((uint64_t)group.member * 1000003 + i);
	if (first) state[0] = state[1] = 0;
	else fprintf(stderr, "survive: member %u restored at step %lu in epoch %lu\n", group.member, (unsigned long)tag, (unsigned long)bys_epoch(d));
	if ((result = bys_processes(d, processes, (size_t)members)) != BYS_OK) fail("processes", result);
}

int main(int argc, char **argv)
{
	int rank, ranks;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	members = ranks;
	if (argc > 1) steps = atol(argv[1]);
	for (int i = 2; i < argc; i++)
		if (!(sscanf(argv[i], "size=%ld", &size) || sscanf(argv[i], "ms=%ld", &ms) || sscanf(argv[i], "until=%199s", until) ||
		      sscanf(argv[i], "members=%ld", &members) || sscanf(argv[i], "die=%ld@%ld@%ld", &die_member, &die_step, &die_moment) == 3))
			return 64;
	if (members > MOST || members > ranks) return 64;
	group = (bys_group){.member = (uint32_t)rank, .members = (uint32_t)members};
	if (rank >= members) {
		int result = bys_spare(&group, BYS_BLOCK);
		if (result < 0) fail("spare", result);
		if (result == BYS_NOTHING) _exit(0);
		fprintf(stderr, "survive: process %d is member %u\n", rank, group.member);
	}
	n = (size_t)size / 8 + 1, cells = malloc(n * 8);
	for (int result = AGAIN; result == AGAIN;) {
		memset(cells, 0xee, n * 8), state[0] = state[1] = 77; /* survivors overwrite everything */
		restore();
		result = live();
	}
	fflush(stdout);
	_exit(0);
}
