/* test_doc: memory that is dropped reads as zeros, and memory that is added too, in the middle of what was there before a
 * checkpoint; what is beside it stays (argument: rounds). */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 96 };
static long wrong;

static void expect(const unsigned char *p, size_t n, int byte)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != byte) wrong++;
}

/* Kernels before 6.13 let nobody drop memory by the descriptor of its process. */
static int drop(void *p, size_t n, long by_process)
{
	struct iovec v = { p, n };
	int self = by_process ? (int)syscall(SYS_pidfd_open, getpid(), 0) : -1;
	long r = by_process ? syscall(SYS_process_madvise, self, &v, 1, MADV_DONTNEED, 0) : -1;
	if (by_process) close(self);
	return r != (long)n && madvise(p, n, MADV_DONTNEED);
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 20;
	struct timespec pause = { 0, 50000000 };
	for (long r = 0; r < rounds; r++) {
		int byte = (int)(1 + r % 250);
		unsigned char *p = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED) return 2;
		memset(p, byte, (PAGES - 16) * PAGE);
		nanosleep(&pause, NULL);                        /* here is a checkpoint, as a rule */
		if (drop(p + 20 * PAGE, 8 * PAGE, r % 2)) wrong++;
		expect(p, 20 * PAGE, byte);
		expect(p + 20 * PAGE, 8 * PAGE, 0);
		expect(p + 28 * PAGE, (PAGES - 16 - 28) * PAGE, byte);
		unsigned char *q = mremap(p, PAGES * PAGE, 2 * PAGES * PAGE, MREMAP_MAYMOVE);
		if (q == MAP_FAILED) return 3;
		expect(q, 20 * PAGE, byte);
		expect(q + 28 * PAGE, (PAGES - 16 - 28) * PAGE, byte);
		expect(q + (PAGES - 16) * PAGE, (PAGES + 16) * PAGE, 0);
		munmap(q, 2 * PAGES * PAGE);
	}
	printf("wrong %ld\n", wrong);
	return wrong != 0;
}
