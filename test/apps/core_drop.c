/* test_doc: memory that is dropped reads as zeros, and memory that is added too, in the middle of what was there before a
 * checkpoint; what is beside it stays (argument: rounds). */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { PAGE = 4096, PAGES = 96 };
static long wrong;

static void expect(const unsigned char *p, size_t n, int byte)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != byte) wrong++;
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
		if (madvise(p + 20 * PAGE, 8 * PAGE, MADV_DONTNEED)) wrong++;
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
