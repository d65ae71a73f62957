/* test_doc: particles that move between ranks: each iteration every rank sends every other a message of unknown size,
 * the receiver probes for its length; no particle is lost or doubled, and the sums over all are constant. */
#include "app.h"

enum { PER_RANK = 400, TAG = 7 };

struct particle { uint64_t id, state; };
struct bag { struct particle *p; int n, room; };

static void add(struct app *a, struct bag *b, struct particle p)
{
	if (b->n == b->room) {
		b->room = b->room ? 2 * b->room : 64;
		b->p = (struct particle *)realloc(b->p, (size_t)b->room * sizeof *b->p);
		CHECK(a, b->p != NULL, "out of memory for %d particles", b->room);
	}
	b->p[b->n++] = p;
}

static void move(struct app *a, struct bag *mine, struct bag *to)
{
	for (int i = 0; i < mine->n; i++) {
		struct particle p = mine->p[i];
		p.state = mix(p.state);
		add(a, &to[p.state % (uint64_t)a->size], p);
	}
	mine->n = 0;
}

static void exchange(struct app *a, struct bag *mine, struct bag *to, long iter)
{
	MPI_Request *rq = (MPI_Request *)app_alloc(a, sizeof *rq * (size_t)a->size);
	struct bag in = { 0 };
	MPI_Status st;
	int bytes, tag = TAG + (int)(iter % 2);

	for (int r = 0; r < a->size; r++)
		MPI_Isend(to[r].p, to[r].n * (int)sizeof(struct particle), MPI_BYTE, r, tag, MPI_COMM_WORLD, &rq[r]);
	app_compute(a, a->pace);
	for (int k = 0; k < a->size; k++) {
		MPI_Probe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &st);
		MPI_Get_count(&st, MPI_BYTE, &bytes);
		in.p = (struct particle *)realloc(in.p, (size_t)bytes + 1);
		in.n = bytes / (int)sizeof *in.p;
		MPI_Recv(in.p, bytes, MPI_BYTE, st.MPI_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int i = 0; i < in.n; i++)
			add(a, mine, in.p[i]);
	}
	MPI_Waitall(a->size, rq, MPI_STATUSES_IGNORE);
	for (int r = 0; r < a->size; r++)
		to[r].n = 0;
	free(in.p), free(rq);
}

int main(int argc, char **argv)
{
	struct bag mine = { 0 }, *to;
	struct app a;

	app_begin(&a, argc, argv);
	to = (struct bag *)calloc((size_t)a.size, sizeof *to);
	for (int i = 0; i < PER_RANK; i++) {
		uint64_t id = (uint64_t)(a.rank * PER_RANK + i);
		add(&a, &mine, (struct particle){ id, mix2(a.seed, id) });
	}
	for (long iter = 0; iter < a.iters; iter++) {
		uint64_t part[3] = { 0, 0, 0 }, all[3], n = (uint64_t)(PER_RANK * a.size);
		app_progress(&a, iter);
		move(&a, &mine, to);
		exchange(&a, &mine, to, iter);
		for (int i = 0; i < mine.n; i++)
			part[0]++, part[1] += mine.p[i].id, part[2] += mine.p[i].state;
		MPI_Allreduce(part, all, 3, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
		CHECK(&a, all[0] == n && all[1] == n * (n - 1) / 2, "%" PRIu64 " particles, want %" PRIu64, all[0], n);
		app_result(&a, iter, "particles", mix3(part[0], part[2], all[2]));
	}
	for (int r = 0; r < a.size; r++)
		free(to[r].p);
	free(to), free(mine.p);
	return app_end(&a);
}
