/* test_doc: sparse exchange by synchronous sends, probes and a non-blocking barrier (Hoefler, Siebert and Lumsdaine, 2010):
 * nobody knows how many messages will come, and the barrier says that all have, because a synchronous send is complete
 * only when its message has been received. No message is lost or doubled. */
#include "app.h"

enum { MAX_WORDS = 3000 };

/* Does rank `from` send to rank `to` in this iteration, and how much? */
static int words(const struct app *a, long iter, int from, int to)
{
	uint64_t x = mix4(a->seed, (uint64_t)iter, (uint64_t)from, (uint64_t)to);
	if (x % 3 == 0)
		return 0;
	return x % 17 == 1 ? MAX_WORDS : 1 + (int)((x >> 32) % 20);
}

static uint64_t key(const struct app *a, long iter, int from, int to)
{
	return mix4(a->seed + 1, (uint64_t)iter, (uint64_t)from, (uint64_t)to);
}

/* Starts the sends of this rank; every other iteration by persistent requests. */
static int start(struct app *a, long iter, uint64_t *out, MPI_Request *rq)
{
	int n = 0;
	for (int to = 0; to < a->size; to++) {
		int w = words(a, iter, a->rank, to), tag = (int)(iter % 2);
		uint64_t *buf = out + (size_t)to * MAX_WORDS;
		if (w == 0)
			continue;
		fill(buf, (size_t)w * 8, key(a, iter, a->rank, to));
		if (iter % 4 < 2) {
			MPI_Issend(buf, w, MPI_UINT64_T, to, tag, MPI_COMM_WORLD, &rq[n]);
		} else {
			MPI_Ssend_init(buf, w, MPI_UINT64_T, to, tag, MPI_COMM_WORLD, &rq[n]);
			MPI_Start(&rq[n]);
		}
		n++;
	}
	return n;
}

/* Takes one message if there is one. */
static void take(struct app *a, long iter, uint64_t *in, int *seen)
{
	MPI_Status st;
	int flag, n;

	MPI_Iprobe(MPI_ANY_SOURCE, (int)(iter % 2), MPI_COMM_WORLD, &flag, &st);
	if (!flag)
		return;
	MPI_Get_count(&st, MPI_UINT64_T, &n);
	int from = st.MPI_SOURCE;
	MPI_Recv(in, n, MPI_UINT64_T, from, st.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	CHECK(a, n == words(a, iter, from, a->rank), "iteration %ld: %d words from %d, want %d", iter, n, from, words(a, iter, from, a->rank));
	CHECK(a, wrong(in, (size_t)n * 8, key(a, iter, from, a->rank)) < 0, "iteration %ld: data from %d", iter, from);
	CHECK(a, ++seen[from] == 1, "iteration %ld: message %d from %d", iter, seen[from], from);
}

static uint64_t exchange(struct app *a, long iter, uint64_t *out, uint64_t *in, MPI_Request *rq, int *seen)
{
	MPI_Request barrier = MPI_REQUEST_NULL;
	int n = start(a, iter, out, rq), sent = 0, over = 0;
	uint64_t sum = 0;

	memset(seen, 0, (size_t)a->size * sizeof *seen);
	app_compute(a, a->pace / 2);
	while (!over) {
		take(a, iter, in, seen);
		if (!sent) {
			MPI_Testall(n, rq, &sent, MPI_STATUSES_IGNORE);
			if (sent)
				MPI_Ibarrier(MPI_COMM_WORLD, &barrier);
		} else {
			MPI_Test(&barrier, &over, MPI_STATUS_IGNORE);
		}
		app_compute(a, a->pace / 50);
	}
	for (int i = 0; i < n && iter % 4 >= 2; i++)
		MPI_Request_free(&rq[i]);
	for (int from = 0; from < a->size; from++) {
		int want = words(a, iter, from, a->rank) > 0;
		CHECK(a, seen[from] == want, "iteration %ld: %d messages from %d, want %d", iter, seen[from], from, want);
		sum += want ? key(a, iter, from, a->rank) : 0;
	}
	return sum;
}

int main(int argc, char **argv)
{
	struct app a;

	app_begin(&a, argc, argv);
	uint64_t *out = (uint64_t *)app_alloc(&a, (size_t)a.size * MAX_WORDS * 8), *in = (uint64_t *)app_alloc(&a, MAX_WORDS * 8);
	MPI_Request *rq = (MPI_Request *)app_alloc(&a, (size_t)a.size * sizeof *rq);
	int *seen = (int *)app_alloc(&a, (size_t)a.size * sizeof *seen);
	for (long iter = 0; iter < a.iters; iter++) {
		app_progress(&a, iter);
		app_result(&a, iter, "sparse", exchange(&a, iter, out, in, rq, seen));
	}
	free(out), free(in), free(rq), free(seen);
	return app_end(&a);
}
