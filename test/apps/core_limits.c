/* test_doc: limits on memory, as a batch system or the program itself sets them, do not keep it from being saved and brought back.
 *
 * Arguments: rounds; then "own" to set limits on address space, data, locked memory, stack and threads, with a little
 * room beyond what is in use. It takes what the limits leave, and must be refused what they do not. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static int wrong;
static void expect(int ok, const char *what)
{
	if (ok) return;
	wrong++;
	printf("wrong: %s: %s\n", what, strerror(errno));
}

static size_t in_use(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (!f || fscanf(f, "%lu", &pages) != 1) pages = 1 << 20;
	if (f) fclose(f);
	return pages * 4096;
}

static void set(int which, rlim_t soft)
{
	struct rlimit rl;
	expect(getrlimit((__rlimit_resource_t)which, &rl) == 0, "getrlimit");
	rl.rlim_cur = soft;
	expect(setrlimit((__rlimit_resource_t)which, &rl) == 0, "setrlimit");
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 40, own = argc > 2;
	size_t held = 64 << 20, room = 192 << 20;       /* malloc of a thread of ours would reserve 64 MiB of it */
	char *p = mmap(NULL, held, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(p, 3, held);
	if (own) {
		set(RLIMIT_AS, in_use() + room);
		set(RLIMIT_DATA, in_use() + room);
		set(RLIMIT_MEMLOCK, 65536);
		set(RLIMIT_STACK, 1 << 20);
		expect(mlock(p, 65536) == 0, "lock what may be locked");
	}
	for (int i = 0; i < rounds; i++) {
		struct timespec t = { 0, 30000000 };
		nanosleep(&t, NULL);
		char *q = mmap(NULL, room / 4 * 3, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		expect(q != MAP_FAILED, "most of the room");
		if (q != MAP_FAILED) munmap(q, room / 4 * 3);
		for (size_t k = 0; k < held; k += 4096) if (p[k] != 3) expect(0, "content");
		if (!own) continue;
		q = mmap(NULL, 64ul << 40, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		expect(q == MAP_FAILED, "more than the limit");
	}
	printf("wrong %d\n", wrong);
	return wrong != 0;
}
