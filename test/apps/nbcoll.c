/* test_doc: Ibarrier, Ibcast and Iallreduce that stay pending over computation, several at once on several
 * communicators, completed together with point-to-point requests by Wait, Waitall, Test, Testall and Waitany.
 *
 * Rules: each rank starts the operations of one communicator in the same order; buffers are checked when the
 * request completes and not before. */
#include "app.h"

enum { COMMS = 3, PENDING = 3 * COMMS + 2, N = 1000 };

struct pending {
	MPI_Request rq[PENDING];
	uint64_t bcast[COMMS][N], in[COMMS][N], out[COMMS][N], token_in, token_out;
};

static uint64_t element(const struct app *a, long iter, int comm, int rank, int i)
{
	return mix4(a->seed + (uint64_t)comm, (uint64_t)iter, (uint64_t)rank, (uint64_t)i) >> 8;
}

static int root_of(const struct app *a, long iter, int comm)
{
	return (int)(mix3(a->seed, (uint64_t)iter, (uint64_t)comm) % (uint64_t)a->size);
}

static int rank_in(MPI_Comm c)
{
	int r;

	MPI_Comm_rank(c, &r);
	return r;
}

static void start(struct app *a, const MPI_Comm *comms, struct pending *p, long iter)
{
	int right = (a->rank + 1) % a->size, left = (a->rank + a->size - 1) % a->size;

	for (int k = 0; k < COMMS; k++) {
		int root = root_of(a, iter, k), me = rank_in(comms[k]);
		for (int i = 0; i < N; i++) {
			p->bcast[k][i] = me == root ? element(a, iter, k, root, i) : 0;
			p->in[k][i] = element(a, iter, k + 10, me, i);
			p->out[k][i] = 0;
		}
		MPI_Ibcast(p->bcast[k], N, MPI_UINT64_T, root, comms[k], &p->rq[3 * k]);
		MPI_Iallreduce(p->in[k], p->out[k], N, MPI_UINT64_T, MPI_SUM, comms[k], &p->rq[3 * k + 1]);
		MPI_Ibarrier(comms[k], &p->rq[3 * k + 2]);
	}
	p->token_out = element(a, iter, 50, a->rank, 0);
	MPI_Irecv(&p->token_in, 1, MPI_UINT64_T, left, 5, MPI_COMM_WORLD, &p->rq[3 * COMMS]);
	MPI_Isend(&p->token_out, 1, MPI_UINT64_T, right, 5, MPI_COMM_WORLD, &p->rq[3 * COMMS + 1]);
}

static void complete(struct pending *p, unsigned how)
{
	int flag, index;

	switch (how % 5) {
	case 0:
		MPI_Waitall(PENDING, p->rq, MPI_STATUSES_IGNORE);
		break;
	case 1:
		for (int i = PENDING - 1; i >= 0; i--)
			MPI_Wait(&p->rq[i], MPI_STATUS_IGNORE);
		break;
	case 2:
		for (flag = 0; !flag; )
			MPI_Testall(PENDING, p->rq, &flag, MPI_STATUSES_IGNORE);
		break;
	case 3:
		for (index = 0; index != MPI_UNDEFINED; )
			MPI_Waitany(PENDING, p->rq, &index, MPI_STATUS_IGNORE);
		break;
	default:
		for (int i = 0; i < PENDING; i++)
			for (flag = 0; !flag; )
				MPI_Test(&p->rq[i], &flag, MPI_STATUS_IGNORE);
		break;
	}
}

static uint64_t verify(struct app *a, struct pending *p, long iter)
{
	uint64_t sum = 0;

	for (int i = 0; i < PENDING; i++)
		CHECK(a, p->rq[i] == MPI_REQUEST_NULL, "request %d lives after completion", i);
	CHECK(a, p->token_in == element(a, iter, 50, (a->rank + a->size - 1) % a->size, 0), "token");
	for (int k = 0; k < COMMS; k++) {
		int root = root_of(a, iter, k);
		for (int i = 0; i < N; i++) {
			uint64_t want = 0;
			for (int r = 0; r < a->size; r++)
				want += element(a, iter, k + 10, r, i);
			CHECK(a, p->bcast[k][i] == element(a, iter, k, root, i), "Ibcast on %d: element %d", k, i);
			CHECK(a, p->out[k][i] == want, "Iallreduce on %d: element %d", k, i);
			sum = mix3(sum, p->bcast[k][i], p->out[k][i]);
		}
	}
	return sum;
}

int main(int argc, char **argv)
{
	static struct pending p;
	MPI_Comm comms[COMMS];
	struct app a;

	app_begin(&a, argc, argv);
	comms[0] = MPI_COMM_WORLD;
	MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
	MPI_Comm_split(MPI_COMM_WORLD, 0, -a.rank, &comms[2]);
	for (long iter = 0; iter < a.iters; iter++) {
		app_progress(&a, iter);
		start(&a, comms, &p, iter);
		app_compute(&a, (long)(mix3(a.seed, (uint64_t)iter, (uint64_t)a.rank) % (uint64_t)(2 * a.pace + 1)));
		complete(&p, (unsigned)mix3(a.seed, (uint64_t)iter, 9 + (uint64_t)a.rank));
		app_result(&a, iter, "nbcoll", verify(&a, &p, iter));
	}
	MPI_Comm_free(&comms[1]);
	MPI_Comm_free(&comms[2]);
	return app_end(&a);
}
