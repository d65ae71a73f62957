/* test_doc: an OpenMP program keeps its team of threads, its reductions and its nested locks. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	enum { N = 4096 };
	int rounds = argc > 1 ? atoi(argv[1]) : 300;
	static double a[N], b[N];
	double sum = 0;
	omp_nest_lock_t lock;
	long locked = 0;
	omp_init_nest_lock(&lock);
	omp_set_dynamic(0);
	omp_set_num_threads(4);
	for (int i = 0; i < N; i++) a[i] = i % 97;
	for (int r = 0; r < rounds; r++) {
		long part = 0;
#pragma omp parallel for schedule(static)
		for (int i = 0; i < N; i++) {
			double x = a[i];
			for (int k = 0; k < 200; k++) x = x * 0.75 + b[(i + k) % N] * 0.125 + 1;
			a[i] = x;
		}
#pragma omp parallel for reduction(+ : part)
		for (int i = 0; i < N; i++) {
			b[i] = a[i] * 0.5;
			part += (long)a[i];
		}
#pragma omp parallel
		{
			omp_set_nest_lock(&lock);
			omp_set_nest_lock(&lock);
			locked++;
			omp_unset_nest_lock(&lock);
			omp_unset_nest_lock(&lock);
		}
		sum += (double)part;
	}
	printf("%.17g %.17g %ld\n", sum, a[17], locked);
	return 0;
}
