/* client.c: a client of the core for tests of crossings, without any MPI. Slots: 0 sum, 1 wait, 2 callback,
 * 3 words, 4 loaded, 5 words by a short trampoline, 6 stuck.
 *
 * Context: as rank/core/core.h says; slots run on application threads with lower TLS. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "../../../rank/core/core.h"

static BY_THREAD_LOCAL long calls;

static long sum(long a, long b, long c, long d, long e, long f)
{
	char *p = malloc(100);                  /* uses lower TLS */
	errno = 0;
	if (close(-1) == 0 || errno != EBADF || !p) return -1;
	free(p);
	calls++;
	return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f;
}

/* A blocking call of an MPI: waits about that many microseconds, or until a stop is in effect. */
static long wait_here(long us)
{
	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	do {
		if (BY_CTLP->stop) return BY_AGAIN;
		if (us & 1) usleep(50);
		clock_gettime(CLOCK_MONOTONIC, &b);
	} while ((b.tv_sec - a.tv_sec) * 1000000 + (b.tv_nsec - a.tv_nsec) / 1000 < us);
	return us;
}

static long callback(long fn, long x) { return 1000 + core_upcall((void *)fn, x, 2, 3, 4, 5, 6); }

/* The words of the main thread's control block that are the lower half's: as they were when the process began. */
static struct words { uint64_t dtv, self, guard; } first;

static struct words words_here(void)
{
	struct words w;
	__asm__ volatile("mov %%fs:8, %0\n\tmov %%fs:0x10, %1\n\tmov %%fs:0x30, %2" : "=r"(w.dtv), "=r"(w.self), "=r"(w.guard));
	return w;
}

/* 0: all is right, and the thread has kept its FS; 1 and more: which words are wrong; 8: FS was changed. */
static long words(void)
{
	struct words w = words_here();
	uint64_t fs;
	__asm__ volatile("mov %%fs:0, %0" : "=r"(fs));
	return (w.dtv != first.dtv) + 2 * (w.self != first.self) + 4 * (w.guard != first.guard) + 8 * (fs == first.self);
}

static long loaded(void)
{
	core_libraries_loaded();
	return 0;
}

/* An MPI that computes and looks at nothing but its caller's word. */
static long stuck(long word)
{
	while (!*(volatile int *)word) ;
	return 0;
}

/* With CLIENT_BUSY=yes: an MPI whose thread makes descriptors all the time, as those do that accept connections. They stay
 * its own. */
static void *busy(void *arg)
{
	struct stat st;
	(void)arg;
	for (int fd; ; close(fd)) {
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		if (fd >= 0 && (fstat(fd, &st) || !S_ISSOCK(st.st_mode))) {
			fprintf(stderr, "descriptor %d of the client has become another's\n", fd);
			abort();
		}
	}
	return NULL;
}

static const char *start(void)
{
	const char *wish = getenv("CLIENT_BUSY");
	pthread_t t;
	if (wish && strcmp(wish, "yes") == 0 && pthread_create(&t, NULL, busy, NULL)) return "no thread";
	first = words_here();
	core_set_call(3, words);
	core_set_call(4, loaded);
	core_set_short_call(BY_NSHORT - 1, 5, words);
	core_set_call(0, sum);
	core_set_call(1, wait_here);
	core_set_call(2, callback);
	core_set_call(6, stuck);
	uint64_t *kept = core_region(3, 8192);
	if (core_job.restarted && kept[0] != 4711) return "region 3 did not come back";
	kept[0] = 4711;
	return NULL;
}

static void message(const struct abi_header *h, const void *body)
{
	if (h->type == ABI_REQUEST) {
		uint64_t none = 0;
		core_send(ABI_CLOCKS, h->epoch, &none, sizeof none);
	} else if (h->type == ABI_TARGETS) {
		struct abi_met m = { .version = *(const uint64_t *)body };
		core_send(ABI_MET, h->epoch, &m, sizeof m);
	}
}

static void nothing(void) { }
static int ready(char *why, size_t n) { (void)why; (void)n; return 0; }
static int restore(char *why, size_t n) { (void)why; (void)n; return (int)loaded(); }
static void describe(char *buf, size_t n) { snprintf(buf, n, "test client"); }

static const struct core_client client = { start, message, nothing, ready, nothing, ready, restore, describe, NULL, false };
const struct core_client *const core_client = &client;
