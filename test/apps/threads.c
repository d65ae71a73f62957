/* test_doc: pthreads and OpenMP threads compute, allocate, map memory, take locks, use thread-local storage and
 * condition variables while the main thread uses MPI; with MPI_THREAD_MULTIPLE (when given) two threads exchange
 * messages on communicators of their own.
 *
 * Rules: a worker's result for iteration i follows from (seed, rank, worker, i) alone; workers and main meet at a
 * barrier made of a mutex and a condition variable once per iteration. */
#include "app.h"
#include <pthread.h>
#include <sys/mman.h>

enum { WORKERS = 3 };

struct worker {
	pthread_t thread;
	struct shared *shared;
	int index;
	uint64_t result;
};

struct shared {
	struct app *a;
	pthread_mutex_t mutex;
	pthread_cond_t go, done;
	long iter;                  /* iteration the workers may do; -1 before the first */
	int working, end, multiple;
	MPI_Comm comm[2];
	struct worker workers[WORKERS];
};

static __thread uint64_t tls_sum;
static __thread char tls_block[3000];

/* Memory that comes and goes, thread-local state, and arithmetic that depends on both. */
static uint64_t work(struct app *a, int index, long iter)
{
	uint64_t key = mix4(a->seed, (uint64_t)a->rank, (uint64_t)index, (uint64_t)iter), h = key;
	size_t n = (size_t)(mix(key) % 200000) + 1;
	uint8_t *heap = (uint8_t *)app_alloc(a, n), *map;

	map = (uint8_t *)mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(a, map != MAP_FAILED, "mmap of %zu bytes", n);
	fill(heap, n, key);
	memcpy(map, heap, n);
	for (int i = 0; i < 20; i++)
		for (int j = 0; j < 1000; j++)
			h = mix(h);
	CHECK(a, wrong(map, n, key) < 0 && wrong(heap, n, key) < 0, "worker %d: memory changed", index);
	munmap(map, n);
	free(heap);
	for (size_t i = 0; i < sizeof tls_block; i++)
		CHECK(a, tls_block[i] == (char)(index + iter), "worker %d: thread-local block changed", index);
	memset(tls_block, (int)(index + iter + 1), sizeof tls_block);
	tls_sum = mix2(tls_sum, h);
	return tls_sum;
}

/* Ping-pong of one thread with the same thread of the partner. */
static void ping(struct app *a, MPI_Comm comm, int index, long iter)
{
	int partner = a->rank ^ 1;
	uint64_t mine = mix4(a->seed, (uint64_t)iter, (uint64_t)index, (uint64_t)a->rank), theirs = 0;

	if (partner >= a->size)
		return;
	for (int k = 0; k < 5; k++) {
		MPI_Sendrecv(&mine, 1, MPI_UINT64_T, partner, k, &theirs, 1, MPI_UINT64_T, partner, k, comm, MPI_STATUS_IGNORE);
		CHECK(a, theirs == mix4(a->seed, (uint64_t)iter, (uint64_t)index, (uint64_t)partner), "thread %d: ping", index);
	}
}

static void *worker_main(void *arg)
{
	struct worker *w = (struct worker *)arg;
	struct shared *s = w->shared;
	long done = -1;

	memset(tls_block, w->index, sizeof tls_block);
	for (;;) {
		pthread_mutex_lock(&s->mutex);
		while (s->iter == done && !s->end)
			pthread_cond_wait(&s->go, &s->mutex);
		if (s->end) {
			pthread_mutex_unlock(&s->mutex);
			return NULL;
		}
		done = s->iter;
		pthread_mutex_unlock(&s->mutex);
		uint64_t r = work(s->a, w->index, done);
		if (s->multiple && w->index == 0)
			ping(s->a, s->comm[1], 1, done);
		pthread_mutex_lock(&s->mutex);
		w->result = r;
		if (--s->working == 0)
			pthread_cond_signal(&s->done);
		pthread_mutex_unlock(&s->mutex);
	}
}

static uint64_t openmp(struct app *a, long iter)
{
	uint64_t sum = 0;

#pragma omp parallel for reduction(+ : sum) num_threads(2) schedule(dynamic, 16)
	for (long i = 0; i < 512; i++)
		sum += mix4(a->seed, (uint64_t)iter, (uint64_t)i, (uint64_t)a->rank) >> 16;
	return sum;
}

static void release(struct shared *s, long iter)
{
	pthread_mutex_lock(&s->mutex);
	s->iter = iter;
	s->working = WORKERS;
	pthread_cond_broadcast(&s->go);
	pthread_mutex_unlock(&s->mutex);
}

static uint64_t collect(struct shared *s)
{
	uint64_t sum = 0;

	pthread_mutex_lock(&s->mutex);
	while (s->working > 0)
		pthread_cond_wait(&s->done, &s->mutex);
	for (int i = 0; i < WORKERS; i++)
		sum = mix2(sum, s->workers[i].result);
	pthread_mutex_unlock(&s->mutex);
	return sum;
}

static void open_workers(struct shared *s)
{
	s->iter = -1;
	pthread_mutex_init(&s->mutex, NULL);
	pthread_cond_init(&s->go, NULL);
	pthread_cond_init(&s->done, NULL);
	MPI_Comm_dup(MPI_COMM_WORLD, &s->comm[0]);
	MPI_Comm_dup(MPI_COMM_WORLD, &s->comm[1]);
	for (int i = 0; i < WORKERS; i++) {
		s->workers[i].shared = s;
		s->workers[i].index = i;
		int rc = pthread_create(&s->workers[i].thread, NULL, worker_main, &s->workers[i]);
		CHECK(s->a, rc == 0, "pthread_create: %s", strerror(rc));
	}
}

static void close_workers(struct shared *s)
{
	pthread_mutex_lock(&s->mutex);
	s->end = 1;
	pthread_cond_broadcast(&s->go);
	pthread_mutex_unlock(&s->mutex);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(s->workers[i].thread, NULL);
	MPI_Comm_free(&s->comm[0]);
	MPI_Comm_free(&s->comm[1]);
}

int main(int argc, char **argv)
{
	static struct shared s;
	struct app a;
	int provided;

	app_begin_threads(&a, argc, argv, MPI_THREAD_MULTIPLE, &provided);
	CHECK(&a, provided >= MPI_THREAD_FUNNELED, "provided thread level is %d", provided);
	s.a = &a;
	s.multiple = provided == MPI_THREAD_MULTIPLE;
	open_workers(&s);
	for (long iter = 0; iter < a.iters; iter++) {
		uint64_t sum = 0, one;
		app_progress(&a, iter);
		release(&s, iter);
		ping(&a, s.comm[0], 0, iter);
		one = openmp(&a, iter);
		MPI_Allreduce(&one, &sum, 1, MPI_UINT64_T, MPI_SUM, s.comm[0]);
		app_result(&a, iter, "threads", mix2(collect(&s), sum));
		app_compute(&a, a.pace);
	}
	close_workers(&s);
	return app_end(&a);
}
