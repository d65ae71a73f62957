/* test_doc: a million pairs of mmap and munmap, and many live mappings, leave no growth and run out of nothing. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static long resident(void)
{
	long size = 0, rss = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (fscanf(f, "%ld %ld", &size, &rss) != 2) rss = 0;
	fclose(f);
	return rss * 4;
}

int main(int argc, char **argv)
{
	long pairs = argc > 1 ? atol(argv[1]) : 1000000, fresh = 0;
	size_t big = 16UL << 30;
	void *live[1000];
	struct timespec a, b;
	for (int i = 0; i < 1000; i++) {
		live[i] = mmap(NULL, 4096UL * (1 + (unsigned)i % 7), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		memset(live[i], i, 4096);
	}
	long before = resident();
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (long i = 0; i < pairs; i++) {
		size_t n = i % 1000 ? 4096UL * (1 + (unsigned long)i % 300) : big;      /* 16 GiB now and then: the arena goes round */
		char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (p == MAP_FAILED) {
			printf("mmap failed at %ld\n", i);
			return 1;
		}
		if (i % 16 == 0) {
			fresh += p[0] == 0;
			p[0] = 1;
		}
		munmap(p, n);
		if (i % 1000 == 7) {
			int k = (int)(i / 1000 % 1000);
			munmap(live[k], 4096UL * (1 + (unsigned)k % 7));
			live[k] = mmap(NULL, 4096UL * (1 + (unsigned)k % 7), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			memset(live[k], k, 4096);
		}
	}
	clock_gettime(CLOCK_MONOTONIC, &b);
	long grown = resident() - before, wrong = 0;
	for (int i = 0; i < 1000; i++) wrong += ((unsigned char *)live[i])[9] != (i & 255);
	fprintf(stderr, "%.0f ns a pair\n", ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / (double)pairs);
	printf("fresh %ld wrong %ld %s\n", fresh, wrong, grown < 2048 ? "no growth" : "growth");
	return 0;
}
