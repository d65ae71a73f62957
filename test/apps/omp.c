/* test_doc: OpenMP: parallel loops of several schedules, reductions, tasks, critical sections, locks, threadprivate
 * data that lives from region to region, between MPI calls of the main thread. */
#include "app.h"
#include <omp.h>

enum { THREADS = 4, N = 20000 };

static uint64_t per_thread;
#pragma omp threadprivate(per_thread)

static uint64_t loops(const struct app *a, uint64_t *v, long iter)
{
	uint64_t sum = 0, largest = 0;

#pragma omp parallel for schedule(static)
	for (long i = 0; i < N; i++)
		v[i] = mix4(a->seed, (uint64_t)iter, (uint64_t)a->rank, (uint64_t)i);
#pragma omp parallel for schedule(dynamic, 64) reduction(+ : sum)
	for (long i = 0; i < N; i++)
		sum += v[i] ^ v[N - 1 - i];
#pragma omp parallel for schedule(guided) reduction(max : largest)
	for (long i = 0; i < N; i++)
		largest = v[i] > largest ? v[i] : largest;
	return mix2(sum, largest);
}

static uint64_t tree(const uint64_t *v, long n)
{
	uint64_t left, right;

	if (n <= 512) {
		uint64_t s = 0;
		for (long i = 0; i < n; i++)
			s += v[i];
		return s;
	}
#pragma omp task shared(left)
	left = tree(v, n / 2);
	right = tree(v + n / 2, n - n / 2);
#pragma omp taskwait
	return left + right;
}

static uint64_t tasks(const uint64_t *v)
{
	uint64_t sum = 0;

#pragma omp parallel
#pragma omp single
	sum = tree(v, N);
	return sum;
}

static uint64_t locked(struct app *a, long iter)
{
	omp_lock_t lock;
	uint64_t sum = 0, crit = 0;

	omp_init_lock(&lock);
#pragma omp parallel
	{
		CHECK(a, per_thread == (uint64_t)iter * 3, "thread-private value of thread %d", omp_get_thread_num());
		per_thread += 3;
		for (int i = 0; i < 50; i++) {
			omp_set_lock(&lock);
			sum += mix2((uint64_t)omp_get_thread_num(), (uint64_t)i) >> 8;
			omp_unset_lock(&lock);
		}
#pragma omp barrier
#pragma omp critical
		crit += per_thread;
	}
	omp_destroy_lock(&lock);
	return mix2(sum, crit);
}

int main(int argc, char **argv)
{
	static uint64_t v[N];
	struct app a;
	int provided;

	app_begin_threads(&a, argc, argv, MPI_THREAD_FUNNELED, &provided);
	omp_set_dynamic(0);
	omp_set_num_threads(THREADS);
	for (long iter = 0; iter < a.iters; iter++) {
		uint64_t mine, all;
		app_progress(&a, iter);
		mine = mix3(loops(&a, v, iter), tasks(v), locked(&a, iter));
		app_compute(&a, a.pace);
		MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
		app_result(&a, iter, "omp", mix2(mine, all));
	}
	return app_end(&a);
}
