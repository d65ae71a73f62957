/* wrong.c: uses byssus.h as it is not to be used, one way a run, and prints what each member is told.
 *
 *   wrong HOW      see main
 *
 * It needs no MPI but for who is who. A line for each thing that is wrong: the result, and the sentence. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "byssus.h"

static int rank, ranks;
static uint64_t cells[1000], more[10];
static bys_region regions[] = {{.id = 1, .at = cells, .bytes = sizeof cells}, {.id = 2, .at = more, .bytes = sizeof more}};
static bys_group group;
static bys_desc d;

static void say(const char *what, int result)
{
	printf("%d: %s: %d %s\n", rank, what, result, result < 0 || result == BYS_EFAILED ? bys_error(d) : "");
	fflush(stdout);
}

static void begin(void)
{
	uint64_t tag;
	int result = bys_restore(&d, regions, 2, &group, &tag, BYS_BLOCK);
	if (result < 0) {
		say("begin", result);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Finalize();
		exit(0);
	}
}

static void *wait_in_thread(void *result)
{
	int r;
	do r = bys_commit(d, BYS_BLOCK); while (r == BYS_EUSE); /* while the other looks */
	*(int *)result = r;
	return NULL;
}

static void order(void)
{
	begin();
	say("commit first", bys_commit(d, BYS_BLOCK));
	say("start", bys_start(d, 1));
	say("start twice", bys_start(d, 2));
	say("finish in between", bys_finish(&d, 0, BYS_BLOCK));
	say("commit", bys_commit(d, BYS_BLOCK));
	say("init again", bys_init(&d, regions, 2, &group, BYS_BLOCK));
	printf("%d: no description: %d\n", rank, bys_start(NULL, 2));
}

static void arguments(void)
{
	bys_group far = {.member = 4, .members = 4}, named = group;
	bys_region twice[] = {regions[0], regions[0]}, none[] = {{.id = 1, .at = NULL, .bytes = 8}};
	bys_region captured[] = {{.id = 1, .capture = 3, .at = cells, .bytes = 8}};
	named.name = "a/b";
	say("member", bys_init(&d, regions, 2, &far, BYS_BLOCK));
	say("regions", bys_init(&d, regions, 0, &group, BYS_BLOCK));
	say("ids", bys_init(&d, twice, 2, &group, BYS_BLOCK));
	say("capture", bys_init(&d, captured, 1, &group, BYS_BLOCK));
	say("address", bys_init(&d, none, 1, &group, BYS_BLOCK));
	say("name", bys_init(&d, regions, 2, &named, BYS_BLOCK));
	say("place", bys_init(NULL, regions, 2, &group, BYS_BLOCK));
}

/* What does not follow a look. */
static void look(void)
{
	bys_region found[2];
	bys_group other = group;
	size_t n = 2, none = 0;
	uint64_t tag;
	bys_desc d2 = NULL;
	other.name = "b";
	say("nowhere", bys_look(NULL, &group, found, &n, &tag, BYS_BLOCK));
	say("no number", bys_look(&d, &group, found, NULL, &tag, BYS_BLOCK));
	say("no regions", bys_look(&d, &group, NULL, &n, &tag, BYS_BLOCK));
	say("no group", bys_look(&d, NULL, found, &n, &tag, BYS_BLOCK));
	say("look", bys_look(&d, &group, NULL, &none, NULL, BYS_BLOCK));
	say("start", bys_start(d, 1)), say("commit", bys_commit(d, BYS_BLOCK)), say("finish", bys_finish(&d, 0, BYS_BLOCK));
	say("init", bys_init(&d, regions, 2, &group, BYS_BLOCK));
	say("another", bys_restore(&d, regions, 2, &other, &tag, BYS_BLOCK));
	int twice = bys_look(&d2, &group, found, &n, &tag, BYS_BLOCK);
	printf("%d: twice: %d %s\n", rank, twice, bys_error(NULL));
	say("again", bys_look(&d, &group, found, &n, &tag, BYS_BLOCK));
	say("restore", bys_restore(&d, regions, 2, &group, &tag, BYS_BLOCK));
	say("afterwards", bys_look(&d, &group, found, &n, &tag, BYS_BLOCK));
	bys_start(d, 1), say("count", bys_commit(d, BYS_BLOCK));
}

/* Of a snapshot with other regions than are given then: by rank 2. */
static void looks_and_differs(void)
{
	bys_region found[2] = {{0}};
	size_t n = 2;
	uint64_t tag = 0;
	begin();
	bys_start(d, 3), bys_commit(d, BYS_BLOCK), bys_finish(&d, 1, BYS_BLOCK);
	MPI_Barrier(MPI_COMM_WORLD);
	int result = bys_look(&d, &group, found, &n, &tag, BYS_BLOCK);
	printf("%d: has: %d %zu %lu %lu\n", rank, result, n, (unsigned long)found[1].bytes, (unsigned long)tag);
	regions[0].capture = BYS_LEAVE;
	if (rank == 2) regions[1].bytes = 8;
	begin();
}

static void child(void)
{
	int status = 0;
	begin();
	if (!fork()) _exit(bys_start(d, 1) == BYS_EUSE && bys_commit(d, 0) == BYS_EUSE && bys_finish(&d, 0, 0) == BYS_EUSE ? 0 : 1);
	wait(&status);
	say("child", status);
	say("parent", bys_start(d, 1));
	say("commit", bys_commit(d, BYS_BLOCK));
}

/* Rank 0 commits late: until then the others wait, by looks and in a thread. */
static void threads(void)
{
	begin();
	bys_start(d, 1);
	if (rank == 0) {
		MPI_Barrier(MPI_COMM_WORLD);
		say("commit", bys_commit(d, BYS_BLOCK));
		return;
	}
	say("look", bys_commit(d, BYS_TEST));
	say("wait", bys_commit(d, 100));
	pthread_t t;
	int result = 9, second = BYS_TIMEOUT;
	pthread_create(&t, NULL, wait_in_thread, &result);
	while (second == BYS_TIMEOUT) second = bys_commit(d, BYS_TEST); /* until the thread is in its call */
	say("at the same time", second);
	MPI_Barrier(MPI_COMM_WORLD);
	pthread_join(t, NULL);
	say("commit", result);
}

/* A second group beside the first, and what it may not be. */
static void second(const char *what)
{
	bys_group other = group;
	bys_region region = {.id = 1, .at = more, .bytes = sizeof more};
	bys_desc d2 = NULL;
	uint64_t tag;
	begin();
	if (!strcmp(what, "same")) {
		int result = bys_restore(&d2, &region, 1, &group, &tag, BYS_BLOCK);
		printf("%d: same: %d %s\n", rank, result, bys_error(NULL));
		bys_start(d, 1), say("commit", bys_commit(d, BYS_BLOCK));
		return;
	}
	if (!strcmp(what, "renamed")) {
		other.name = "b";
		say("renamed", bys_restore(&d, regions, 2, &other, &tag, BYS_BLOCK));
		return;
	}
	other.name = "b";
	if (!strcmp(what, "large")) region.bytes = 4 << 20, region.at = calloc(1, 4 << 20);
	int result = bys_init(&d2, &region, 1, &other, BYS_BLOCK);
	printf("%d: second: %d %s\n", rank, result, result < 0 ? bys_error(NULL) : "");
	if (result == BYS_OK) { /* tags differ in one group, and not in the other */
		bys_start(d, 5), bys_start(d2, (uint64_t)rank);
		int first = bys_commit(d, BYS_TEST);
		result = bys_commit(d2, BYS_BLOCK);
		printf("%d: tags: %d %s\n", rank, result, bys_error(d2));
		if (first == BYS_TIMEOUT) first = bys_commit(d, BYS_BLOCK);
		say("commit", first);
		say("second finish", bys_finish(&d2, 0, BYS_BLOCK));
		bys_start(d, 6), say("again", bys_commit(d, BYS_BLOCK));
		say("anew", bys_init(&d2, &region, 1, &other, BYS_BLOCK)); /* the name is free again */
		say("third finish", bys_finish(&d2, 0, BYS_BLOCK));
	} else {
		bys_start(d, 1), say("commit", bys_commit(d, BYS_BLOCK));
	}
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	int level;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	group = (bys_group){.member = (uint32_t)rank, .members = (uint32_t)ranks};
	if (!strcmp(how, "order")) order();
	else if (!strcmp(how, "arguments")) arguments();
	else if (!strcmp(how, "child")) child();
	else if (!strcmp(how, "look")) look();
	else if (!strcmp(how, "looks")) looks_and_differs();
	else if (!strcmp(how, "threads")) threads();
	else if (!strcmp(how, "names")) group.name = rank ? "a" : "b", begin();
	else if (!strcmp(how, "policies")) group.policy = rank ? "partner" : "xor", begin();
	else if (!strncmp(how, "second=", 7)) {
		if (!strcmp(how + 7, "large")) regions[1].bytes = 2 << 20, regions[1].at = calloc(1, 2 << 20);
		second(how + 7);
	} else if (!strncmp(how, "policy=", 7)) group.policy = how + 7, begin(), bys_start(d, 1), say("commit", bys_commit(d, BYS_BLOCK));
	else if (!strcmp(how, "large")) regions[1].bytes = 9 << 20, regions[1].at = malloc(9 << 20), begin();
	else if (!strcmp(how, "tags")) begin(), bys_start(d, (uint64_t)rank / 2), say("commit", bys_commit(d, BYS_BLOCK)),
		bys_start(d, 9), say("again", bys_commit(d, BYS_BLOCK));
	else if (!strcmp(how, "room")) {
		begin();
		bys_start(d, 1), say("commit", bys_commit(d, BYS_BLOCK));
		FILE *f = rank == 1 ? fopen(getenv("FILL"), "w") : NULL; /* on a node whose cache is full then */
		while (f && fwrite(cells, sizeof cells, 1, f) == 1 && !fflush(f)) ;
		if (f) fclose(f);
		say("start", bys_start(d, 2)), say("full", bys_commit(d, BYS_BLOCK));
		if (rank == 1) unlink(getenv("FILL"));
		MPI_Barrier(MPI_COMM_WORLD);
		bys_start(d, 3), say("again", bys_commit(d, BYS_BLOCK));
	} else if (!strcmp(how, "regions")) {
		begin();
		bys_start(d, 1), say("commit", bys_commit(d, BYS_BLOCK)), bys_finish(&d, 1, BYS_BLOCK);
		MPI_Barrier(MPI_COMM_WORLD);
		if (rank == 2) regions[1].bytes = 8;
		begin();
	} else begin();
	if (d) say("finish", bys_finish(&d, !strcmp(how, "keep"), BYS_BLOCK));
	MPI_Barrier(MPI_COMM_WORLD);
	return MPI_Finalize();
}
