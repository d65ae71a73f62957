/* begin.c: the program of this process, and that it is the rank once it begins the MPI.
 *
 * A program is known again at a restart, when the wrappers of its place are run again, by its file and its
 * arguments, and by how many of these its place has started before. Context: start and restart; core_begin
 * and core_world also [upper stack]. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/base/agent/agent.h"

void core_begin(void)
{
	if (core_is_rank() != 1)
		core_refuse("MPI_Init in a process that was made by fork and has executed no program: found "
			    "the memory of another process, wanted a program of its own");
	if (place_is_mine()) return;
	if (!place_take())
		core_refuse("MPI_Init in %s (pid %d): this place has its rank already (pid %lu): one program "
			    "may begin the MPI in each place, and once",
			    core_self.exe, core_self.pid, place_pid());
	if (!core_config.below) return;
	page_share();
	core_send(ABI_PLACE, 0, NULL, 0);
}

void core_world(int rank, int size)
{
	if (rank == core_job.rank && size == core_job.nranks) return;
	core_refuse("MPI_Init in %s (pid %d): the MPI makes it rank %d of %d, wanted rank %d of %d: what the "
		    "launcher has told its place does not reach it (environment, descriptors)",
		    core_self.exe, core_self.pid, rank, size, core_job.rank, core_job.nranks);
}

/* -- programs -------------------------------------------------------------------------------------------- */

static uint64_t add(uint64_t hash, const char *s)
{
	do hash = (hash ^ (uint8_t)*s) * 0x100000001b3UL; while (*s++);
	return hash;
}

/* How many of these have been started here before. */
static uint32_t number_of(uint64_t hash)
{
	char path[4096];
	uint64_t known[512];
	uint32_t nth = 0;
	if (!core_config.rundir) return 0;
	snprintf(path, sizeof path, "%s/started.%d", core_config.rundir, core_job.rank);
	int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, &hash, sizeof hash) != sizeof hash)
		core_die("%s: cannot be written: %s", path, strerror(errno));
	off_t own = lseek(fd, 0, SEEK_CUR) - (off_t)sizeof hash;
	for (off_t at = 0; at < own; ) {
		size_t want = own - at < (off_t)sizeof known ? (size_t)(own - at) : sizeof known;
		ssize_t n = pread(fd, known, want, at);
		if (n < (ssize_t)sizeof hash) core_die("%s: cannot be read: %s", path, strerror(errno));
		for (size_t i = 0; i < (size_t)n / sizeof hash; i++) nth += known[i] == hash;
		at += n / (ssize_t)sizeof hash * (ssize_t)sizeof hash;
	}
	close(fd);
	return nth;
}

static char told[sizeof "BYSSUS_BEGAN=" + 40] = "BYSSUS_BEGAN=";

char *place_describe(void) { return told; }

void place_program(char **argv)
{
	struct core_began *b = &core_self.began;
	const char *before = getenv("BYSSUS_BEGAN");
	struct stat st;
	/* the rank is that which it began as, whatever it executes later */
	if (place_is_mine() && before &&
	    sscanf(before, "%lx:%x:%x", &b->hash, &b->nth, &b->input) == 3) {
		snprintf(told, sizeof told, "BYSSUS_BEGAN=%s", before);
		return;
	}
	b->hash = add(0xcbf29ce484222325UL, core_self.exe);
	for (char **a = argv; *a; a++) b->hash = add(b->hash, *a);
	b->hash += !b->hash;
	b->nth = number_of(b->hash);
	const char *input = getenv("BYSSUS_INPUT");
	b->input = input && fstat(0, &st) == 0 && strtoull(input, NULL, 16) == inode_key(&st);
	snprintf(told, sizeof told, "BYSSUS_BEGAN=%lx:%x:%x", b->hash, b->nth, b->input);
}

/* BYSSUS_RESTORE: what is to go on from the image instead of being started. */
const char *place_restores(void)
{
	const char *s = getenv("BYSSUS_RESTORE");
	uint64_t hash;
	uint32_t nth;
	int n = 0;
	if (!s || sscanf(s, "%lx:%x:%n", &hash, &nth, &n) != 2 || !n) return NULL;
	return hash == core_self.began.hash && nth == core_self.began.nth && place_is_free() ? s + n : NULL;
}
