/* protect_wrong.c: uses protect.h as it is not to be used, and prints what each member is told: one line for each
 * thing, with the result and the sentence.
 *
 *   protect_wrong alone     where there is no agent, and MPI is not initialised at first
 *   protect_wrong           in a job with caches */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "protect.h"

static int rank, ranks;
static uint64_t cells[1000], more[10];

static void say(const char *what, int result)
{
	printf("%d: %s: %d %s\n", rank, what, result, bys_protect_error());
	fflush(stdout);
}

static void alone(void)
{
	uint64_t version;
	say("no region", bys_restart("a", &version, BYS_BLOCK));
	say("address", bys_protect(1, NULL, 5, 8));
	say("elements", bys_protect(1, cells, 0, 8));
	say("size", bys_protect(1, cells, (size_t)-1, 16));
	say("unknown", bys_unprotect(1));
	say("protect", bys_protect(1, more, 10, sizeof *more));
	say("in its place", bys_protect(1, cells, 1000, sizeof *cells));
	say("end of nothing", bys_protect_end(0, BYS_BLOCK));
	say("name", bys_checkpoint("a/b", 1, BYS_BLOCK));
	say("no name", bys_restart(NULL, &version, BYS_BLOCK));
	say("nobody", bys_restart("a", &version, BYS_BLOCK));
	say("member", bys_protect_group(3, 3));
	say("group", bys_protect_group(0, 1));
	say("no agent", bys_restart("a", NULL, BYS_BLOCK));
	say("other name", bys_checkpoint("b", 1, BYS_BLOCK));
}

/* Rank 0 comes late: until then the others look. */
static void late(void)
{
	if (rank == 0) {
		MPI_Barrier(MPI_COMM_WORLD);
		say("late", bys_checkpoint("a", 1, BYS_BLOCK));
		return;
	}
	say("look", bys_checkpoint("a", 1, BYS_TEST));
	more[0] = 1; /* which is not in it any more */
	say("other version", bys_checkpoint("a", 2, BYS_BLOCK));
	say("end in between", bys_protect_end(0, BYS_BLOCK));
	MPI_Barrier(MPI_COMM_WORLD);
	say("late", bys_checkpoint("a", 1, BYS_BLOCK));
}

static void child(void)
{
	int status = 0;
	if (!fork()) _exit(bys_checkpoint("a", 2, BYS_BLOCK) == BYS_EUSE && bys_unprotect(1) == BYS_EUSE && strstr(bys_protect_error(), "child") ? 0 : 1);
	wait(&status);
	say("child", status);
}

int main(int argc, char **argv)
{
	uint64_t version = 0;
	if (argc > 1) return alone(), 0;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	bys_protect(1, cells, 1000, sizeof *cells), bys_protect(2, more, 10, sizeof *more);
	more[0] = 7;
	bys_region found[3];
	size_t n = 3;
	uint32_t ids[] = {2, 5};
	say("nowhere", bys_restart_look("a", &version, NULL, &n, BYS_BLOCK));
	say("looked", bys_restart_look("a", &version, found, &n, BYS_BLOCK));
	say("checkpoint of what was looked at", bys_checkpoint("a", 1, BYS_BLOCK));
	say("end of what was looked at", bys_protect_end(0, BYS_BLOCK));
	say("other name of what was looked at", bys_restart("b", &version, BYS_BLOCK));
	say("none of these", bys_restart_some("a", &version, ids, 2, BYS_BLOCK));
	say("restart", bys_restart("a", &version, BYS_BLOCK));
	say("looked late", bys_restart_look("a", &version, found, &n, BYS_BLOCK));
	say("the same", bys_protect(2, more, 10, sizeof *more));
	say("shorter", bys_protect(2, more, 9, sizeof *more));
	say("another", bys_protect(3, more, 10, sizeof *more));
	say("one less", bys_unprotect(2));
	say("group", bys_protect_group(0, 1));
	say("restart again", bys_restart("a", &version, BYS_BLOCK));
	say("name", bys_checkpoint("b", 1, BYS_BLOCK));
	late();
	child();
	say("versions", bys_checkpoint("a", (uint64_t)(2 + rank / 2), BYS_BLOCK));
	more[0] = 8;
	say("agree", bys_checkpoint("a", 4, BYS_BLOCK));
	say("end", bys_protect_end(1, BYS_BLOCK));
	MPI_Barrier(MPI_COMM_WORLD);
	more[0] = cells[0] = 9;
	say("one more", bys_protect(3, &version, 1, sizeof version));
	say("without it", bys_unprotect(3));
	n = 3;
	say("looked again", bys_restart_look("a", &version, found, &n, BYS_BLOCK));
	printf("%d: found: %zu: %lu\n", rank, n, (unsigned long)found[1].bytes);
	say("anew", bys_restart_some("a", &version, ids, 1, BYS_BLOCK));
	printf("%d: has: %lu %lu %lu\n", rank, (unsigned long)version, (unsigned long)more[0], (unsigned long)cells[0]);
	fflush(stdout);
	say("ends", bys_protect_end(1, BYS_BLOCK));
	MPI_Barrier(MPI_COMM_WORLD);
	say("first", bys_checkpoint("a", 9, BYS_TEST)); /* waits for all to begin, and not for the snapshot */
	MPI_Barrier(MPI_COMM_WORLD);
	say("then", bys_checkpoint("a", 9, BYS_BLOCK));
	say("last", bys_protect_end(1, BYS_BLOCK));
	MPI_Barrier(MPI_COMM_WORLD);
	bys_protect(3, &version, 1, sizeof version);
	say("other regions", bys_restart("a", &version, BYS_BLOCK));
	MPI_Barrier(MPI_COMM_WORLD);
	return MPI_Finalize();
}
