/* test_doc: much memory (MiB as argument) of several kinds of content, checked again and again. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t word(uint64_t i) { return (i * 0x9e3779b97f4a7c15UL) ^ (i >> 7); }

int main(int argc, char **argv)
{
	size_t n = (argc > 1 ? strtoul(argv[1], NULL, 10) : 256) << 17;         /* words */
	double seconds = argc > 2 ? atof(argv[2]) : 2;
	uint64_t *p = aligned_alloc(4096, n * sizeof *p), bad = 0, rounds = 0;
	struct timespec a, b;
	if (!p) return 1;
	for (size_t i = 0; i < n; i++) p[i] = i >> 9 & 7 ? word(i) : 0;         /* every eighth page is zero */
	fprintf(stderr, "filled\n");
	clock_gettime(CLOCK_MONOTONIC, &a);
	do {
		for (size_t i = 0; i < n; i += 64) bad += p[i] != (i >> 9 & 7 ? word(i) : 0);
		rounds++;
		clock_gettime(CLOCK_MONOTONIC, &b);
	} while ((double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9 < seconds);
	printf("bad %lu\n", bad);
	return bad != 0 || !rounds;
}
