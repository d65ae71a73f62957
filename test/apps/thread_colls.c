/* test_doc: with MPI_THREAD_MULTIPLE three threads of each rank call random sequences of blocking and non-blocking
 * collectives, each on a communicator of its own, with computation of random length between them; every result is checked.
 *
 * Rules: what thread t does as its k-th call of an iteration follows from (seed, t, iteration, k) alone, so that all ranks
 * do the same; how long it computes before that follows from the rank, too. */
#include <pthread.h>
#include "app.h"

enum { THREADS = 3, CALLS = 12, OPEN = 4 };

struct task {
	struct app *a;
	MPI_Comm comm;
	int thread;
	long iter;
	uint64_t sum;
};

/* A posted Iallreduce, Ibcast or Ibarrier and what it has to find. */
struct open {
	MPI_Request rq;
	uint64_t in, out, want;
};

static uint64_t part(const struct task *t, int rank, int k) { return mix4(t->a->seed, (uint64_t)(t->thread * 1000 + k), (uint64_t)t->iter, (uint64_t)rank) >> 8; }

static uint64_t total(const struct task *t, int k)
{
	uint64_t sum = 0;
	for (int r = 0; r < t->a->size; r++) sum += part(t, r, k);
	return sum;
}

static void post(struct task *t, struct open *o, int k, int kind)
{
	int root = k % t->a->size;

	o->in = part(t, t->a->rank, k);
	o->out = 0;
	if (kind == 0) {
		o->want = total(t, k);
		MPI_Iallreduce(&o->in, &o->out, 1, MPI_UINT64_T, MPI_SUM, t->comm, &o->rq);
	} else if (kind == 1) {
		o->want = part(t, root, k);
		if (t->a->rank == root) o->out = o->in;
		MPI_Ibcast(&o->out, 1, MPI_UINT64_T, root, t->comm, &o->rq);
	} else if (kind == 2) {
		o->want = total(t, k);
		o->out = o->in;
		MPI_Iallreduce(MPI_IN_PLACE, &o->out, 1, MPI_UINT64_T, MPI_SUM, t->comm, &o->rq);
	} else {
		o->want = 0;
		MPI_Ibarrier(t->comm, &o->rq);
	}
}

static void complete(struct task *t, struct open *o, int how)
{
	int done = 0;

	if (how)
		MPI_Wait(&o->rq, MPI_STATUS_IGNORE);
	else
		while (!done) MPI_Test(&o->rq, &done, MPI_STATUS_IGNORE);
	CHECK(t->a, o->out == o->want, "thread %d, iteration %ld: posted collective", t->thread, t->iter);
	t->sum = mix2(t->sum, o->out);
}

static void blocking(struct task *t, int k, int kind)
{
	uint64_t in[64], out[64], mine = part(t, t->a->rank, k), got = 0;
	int root = k % t->a->size;

	if (kind == 0) {
		MPI_Barrier(t->comm);
	} else if (kind == 1) {
		MPI_Allreduce(&mine, &got, 1, MPI_UINT64_T, MPI_SUM, t->comm);
		CHECK(t->a, got == total(t, k), "thread %d, iteration %ld: Allreduce", t->thread, t->iter);
	} else if (kind == 2) {
		for (int r = 0; r < t->a->size; r++) in[r] = mine + (uint64_t)r;
		MPI_Alltoall(in, 1, MPI_UINT64_T, out, 1, MPI_UINT64_T, t->comm);
		for (int r = 0; r < t->a->size; r++)
			CHECK(t->a, out[r] == part(t, r, k) + (uint64_t)t->a->rank, "thread %d, iteration %ld: Alltoall", t->thread, t->iter);
		got = out[0];
	} else {
		got = mine;
		MPI_Bcast(&got, 1, MPI_UINT64_T, root, t->comm);
		CHECK(t->a, got == part(t, root, k), "thread %d, iteration %ld: Bcast", t->thread, t->iter);
	}
	t->sum = mix2(t->sum, got);
}

static void *run(void *arg)
{
	struct task *t = arg;
	struct open open[OPEN];
	int n = 0;

	for (int k = 0; k < CALLS; k++) {
		uint64_t choice = mix4(t->a->seed, (uint64_t)t->thread, (uint64_t)t->iter, (uint64_t)k);
		if (mix2(choice, (uint64_t)t->a->rank) % 3 == 0) app_compute(t->a, t->a->pace / 4);
		if (choice % 2 == 0 && n < OPEN) post(t, &open[n++], k, (int)(choice >> 8) % 4);
		else blocking(t, k, (int)(choice >> 8) % 4);
		if (n == OPEN || (n > 0 && (choice >> 16) % 3 == 0)) complete(t, &open[--n], (choice >> 20) % 2 == 0);
	}
	for (; n > 0; n--) complete(t, &open[n - 1], n % 2);
	return NULL;
}

int main(int argc, char **argv)
{
	struct app a;
	struct task tasks[THREADS];
	pthread_t threads[THREADS];
	int provided;

	app_begin_threads(&a, argc, argv, MPI_THREAD_MULTIPLE, &provided);
	CHECK(&a, provided == MPI_THREAD_MULTIPLE, "thread level %d", provided);
	CHECK(&a, a.size <= 64, "%d ranks, at most 64", a.size);
	for (int i = 0; i < THREADS; i++) {
		tasks[i] = (struct task){ .a = &a, .thread = i };
		MPI_Comm_dup(MPI_COMM_WORLD, &tasks[i].comm);
	}
	for (long iter = 0; iter < a.iters; iter++) {
		uint64_t h = 0;
		for (int i = 0; i < THREADS; i++) {
			tasks[i].iter = iter;
			CHECK(&a, pthread_create(&threads[i], NULL, run, &tasks[i]) == 0, "pthread_create");
		}
		for (int i = 0; i < THREADS; i++) {
			pthread_join(threads[i], NULL);
			h = mix2(h, tasks[i].sum);
		}
		app_result(&a, iter, "collectives", h);
		app_progress(&a, iter);
	}
	for (int i = 0; i < THREADS; i++) MPI_Comm_free(&tasks[i].comm);
	return app_end(&a);
}
