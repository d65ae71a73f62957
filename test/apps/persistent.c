/* test_doc: persistent sends and receives (Send_init, Ssend_init, Recv_init), started singly and by Startall, active
 * over computation, completed by Waitall, Waitany and Test, alive over the whole run while inactive. */
#include "app.h"

enum { PAIRS = 4, N = 3000 };

struct pairs {
	MPI_Request rq[2 * PAIRS];       /* receives first */
	uint64_t in[PAIRS][N], out[PAIRS][N];
};

static void open_pairs(const struct app *a, struct pairs *p)
{
	int right = (a->rank + 1) % a->size, left = (a->rank + a->size - 1) % a->size;

	for (int k = 0; k < PAIRS; k++) {
		MPI_Recv_init(p->in[k], N, MPI_UINT64_T, k % 2 ? left : MPI_ANY_SOURCE, k, MPI_COMM_WORLD, &p->rq[k]);
		if (k == 1)
			MPI_Ssend_init(p->out[k], N, MPI_UINT64_T, right, k, MPI_COMM_WORLD, &p->rq[PAIRS + k]);
		else
			MPI_Send_init(p->out[k], k == 2 ? 10 : N, MPI_UINT64_T, right, k, MPI_COMM_WORLD, &p->rq[PAIRS + k]);
	}
}

static void start(struct pairs *p, long iter)
{
	if (iter % 2)
		MPI_Startall(2 * PAIRS, p->rq);
	else
		for (int i = 2 * PAIRS - 1; i >= 0; i--)
			MPI_Start(&p->rq[i]);
}

static void complete(struct app *a, struct pairs *p, long iter)
{
	int flag, index;

	switch (iter % 3) {
	case 0:
		MPI_Waitall(2 * PAIRS, p->rq, MPI_STATUSES_IGNORE);
		break;
	case 1:
		for (int i = 0; i < 2 * PAIRS; i++)
			for (flag = 0; !flag; )
				MPI_Test(&p->rq[i], &flag, MPI_STATUS_IGNORE);
		break;
	default:
		for (index = 0; index != MPI_UNDEFINED; )
			MPI_Waitany(2 * PAIRS, p->rq, &index, MPI_STATUS_IGNORE);
		break;
	}
	for (int i = 0; i < 2 * PAIRS; i++)
		CHECK(a, p->rq[i] != MPI_REQUEST_NULL, "persistent request %d is gone", i);
}

int main(int argc, char **argv)
{
	static struct pairs p;
	struct app a;

	app_begin(&a, argc, argv);
	open_pairs(&a, &p);
	for (long iter = 0; iter < a.iters; iter++) {
		int left = (a.rank + a.size - 1) % a.size;
		uint64_t sum = 0;
		app_progress(&a, iter);
		for (int k = 0; k < PAIRS; k++)
			fill(p.out[k], sizeof p.out[k], mix4(a.seed, (uint64_t)iter, (uint64_t)a.rank, (uint64_t)k));
		start(&p, iter);
		app_compute(&a, a.pace);
		complete(&a, &p, iter);
		for (int k = 0; k < PAIRS; k++) {
			uint64_t key = mix4(a.seed, (uint64_t)iter, (uint64_t)left, (uint64_t)k);
			CHECK(&a, wrong(p.in[k], k == 2 ? 80 : sizeof p.in[k], key) < 0, "pair %d: data", k);
			sum = mix2(sum, key);
		}
		app_result(&a, iter, "persistent", sum);
		MPI_Barrier(MPI_COMM_WORLD);
	}
	for (int i = 0; i < 2 * PAIRS; i++)
		MPI_Request_free(&p.rq[i]);
	return app_end(&a);
}
