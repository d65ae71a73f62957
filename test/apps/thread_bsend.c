/* test_doc: buffered sends of several threads at once, into a buffer that has room for two rounds of them and not for more: what has been
 * received makes room again, whoever looks for it.
 *
 * Two, since MPICH may not know yet, when the next round begins, that the last one has been received. */
#include "app.h"
#include <pthread.h>

enum { THREADS = 4, EACH = 8, N = 2048 };

struct job {
	struct app *a;
	long iter;
	int id;
};

static uint64_t key(const struct job *j, int rank, int nth)
{
	return mix4(j->a->seed, (uint64_t)j->iter, (uint64_t)(rank * THREADS + j->id), (uint64_t)nth);
}

static void *sender(void *arg)
{
	struct job *j = arg;
	struct app *a = j->a;
	uint64_t out[N];

	for (int i = 0; i < EACH; i++) {
		fill(out, sizeof out, key(j, a->rank, i));
		MPI_Bsend(out, N, MPI_UINT64_T, (a->rank + 1) % a->size, j->id, MPI_COMM_WORLD);
	}
	return NULL;
}

static void receive(struct job *j)
{
	struct app *a = j->a;
	int left = (a->rank + a->size - 1) % a->size;
	uint64_t in[N];

	for (int i = 0; i < EACH; i++) {
		MPI_Recv(in, N, MPI_UINT64_T, left, j->id, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		CHECK(a, wrong(in, sizeof in, key(j, left, i)) < 0, "message %d of thread %d", i, j->id);
	}
}

int main(int argc, char **argv)
{
	const int room = 2 * THREADS * EACH * (N * (int)sizeof(uint64_t) + MPI_BSEND_OVERHEAD);
	struct job jobs[THREADS];
	pthread_t threads[THREADS];
	struct app a;
	int provided;

	app_begin_threads(&a, argc, argv, MPI_THREAD_MULTIPLE, &provided);
	CHECK(&a, provided == MPI_THREAD_MULTIPLE, "level %d", provided);
	void *buffer = malloc((size_t)room);
	CHECK(&a, buffer && MPI_Buffer_attach(buffer, room) == MPI_SUCCESS, "attach");
	for (long iter = 0; iter < a.iters; iter++) {
		app_progress(&a, iter);
		for (int t = 0; t < THREADS; t++) {
			jobs[t] = (struct job){ &a, iter, t };
			CHECK(&a, pthread_create(&threads[t], NULL, sender, &jobs[t]) == 0, "thread");
		}
		app_compute(&a, a.pace);
		for (int t = 0; t < THREADS; t++)
			pthread_join(threads[t], NULL);
		for (int t = 0; t < THREADS; t++)
			receive(&jobs[t]);
		MPI_Barrier(MPI_COMM_WORLD);
		app_result(&a, iter, "bsend", key(&jobs[0], a.rank, 0));
	}
	int size;
	MPI_Buffer_detach(&buffer, &size);
	CHECK(&a, size == room, "detached %d bytes", size);
	return app_end(&a);
}
