/* test_doc: a single thread that computes, sleeps and prints keeps its registers, stack and heap. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 20;
	unsigned long sum = 1;
	double x = 1;
	char *heap = NULL;
	for (int i = 0; i < rounds; i++) {
		heap = realloc(heap, 1000 * (size_t)(i + 1));
		memset(heap + 1000 * (size_t)i, i, 1000);
		for (long k = 0; k < 20000000; k++) {
			sum = sum * 6364136223846793005UL + 1442695040888963407UL;
			x = x * 0.999999 + (double)(sum >> 60);
		}
		unsigned long h = 0;
		for (int k = 0; k < 1000 * (i + 1); k++) h = h * 31 + (unsigned char)heap[k];
		printf("%d %lx %.17g %lx\n", i, sum, x, h);
		fflush(stdout);
		usleep(20000);
	}
	return 7;
}
