/* test_doc: MPI_Comm_free need not wait for anybody: ranks free communicators in different orders, some many iterations
 * after the others, with collectives on the world and messages on what others have freed in between.
 *
 * Garbage-collected languages do this. In each iteration every rank makes the same communicators; each rank frees each of
 * them at a moment of its own. Before that it sends a message on it to its right neighbour, and receives the left one's: the
 * sender may have freed the communicator long ago, or frees it with the send under way. */
#include "app.h"

enum { KEEP = 24 };

struct kept {
	MPI_Comm comm;
	long born, until;
	uint64_t sent;
	MPI_Request request;
};

static uint64_t token(const struct app *a, long born, int from) { return mix3(a->seed, (uint64_t)born, (uint64_t)from); }

/* make is collective; what follows is each rank's own affair. */
static void make(struct app *a, struct kept *k, long iter)
{
	MPI_Comm_split(MPI_COMM_WORLD, 0, a->rank, &k->comm);
	k->born = iter;
	k->until = iter + (long)(mix3(a->seed, (uint64_t)iter, 77 + (uint64_t)a->rank) % (KEEP - 1));
	k->sent = token(a, iter, a->rank);
	MPI_Isend(&k->sent, 1, MPI_UINT64_T, (a->rank + 1) % a->size, 5, k->comm, &k->request);
	if (mix3(a->seed, (uint64_t)iter, 78) % 3 == 0)
		MPI_Allreduce(MPI_IN_PLACE, &(int){ 1 }, 1, MPI_INT, MPI_SUM, k->comm);
}

/* drop takes the left neighbour's message, frees, and only then waits for the send: the neighbour may come much later. */
static uint64_t drop(struct app *a, struct kept *k, MPI_Request *open)
{
	uint64_t got = 0;
	int left = (a->rank + a->size - 1) % a->size;

	MPI_Recv(&got, 1, MPI_UINT64_T, left, 5, k->comm, MPI_STATUS_IGNORE);
	CHECK(a, got == token(a, k->born, left), "message of iteration %ld from rank %d", k->born, left);
	MPI_Comm_free(&k->comm);
	CHECK(a, k->comm == MPI_COMM_NULL, "MPI_Comm_free leaves a handle");
	*open = k->request;
	return got;
}

int main(int argc, char **argv)
{
	struct app a;
	struct kept kept[KEEP];
	MPI_Request open[KEEP];
	MPI_Comm never;                        /* odd ranks never free it */

	app_begin(&a, argc, argv);
	for (int i = 0; i < KEEP; i++)
		kept[i].comm = MPI_COMM_NULL, open[i] = MPI_REQUEST_NULL;
	MPI_Comm_dup(MPI_COMM_WORLD, &never);
	if (a.rank % 2 == 0)
		MPI_Comm_free(&never);
	for (long iter = 0; iter < a.iters; iter++) {
		uint64_t sum = 0, all;

		app_progress(&a, iter);
		MPI_Wait(&open[iter % KEEP], MPI_STATUS_IGNORE);
		make(&a, &kept[iter % KEEP], iter);
		app_compute(&a, a.pace);
		for (int i = 0; i < KEEP; i++) {
			struct kept *k = &kept[(i * 7 + a.rank * 5) % KEEP];     /* each rank in an order of its own */

			if (k->comm != MPI_COMM_NULL && k->until <= iter)
				sum += drop(&a, k, &open[k - kept]);
		}
		MPI_Allreduce(&sum, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
		app_result(&a, iter, "all", all);
		app_result(&a, iter, "sum", sum);
	}
	for (int i = 0; i < KEEP; i++)
		if (kept[i].comm != MPI_COMM_NULL)
			drop(&a, &kept[i], &open[i]);
	MPI_Waitall(KEEP, open, MPI_STATUSES_IGNORE);
	return app_end(&a);
}
