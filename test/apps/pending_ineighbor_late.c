/* test_doc: a checkpoint is taken while all ranks but the last, which computes, have started an Ineighbor_alltoallw on a
 * path; the last is no neighbour of most; the derived types are freed before it completes. */
#include "app.h"

enum { N = 5000 };

static void start(const struct app *a, MPI_Comm path, MPI_Datatype type, uint64_t out[2][2 * N], uint64_t in[2][2 * N], MPI_Request *rq)
{
	static int counts[2] = { N, N };
	static MPI_Aint displs[2] = { 0, sizeof in[0] };
	static MPI_Datatype types[2];

	types[0] = types[1] = type;
	for (int k = 0; k < 2; k++) fill(out[k], sizeof out[k], mix3(a->seed, (uint64_t)a->rank, (uint64_t)k));
	MPI_Ineighbor_alltoallw(out, counts, displs, types, in, counts, displs, types, path, rq);
}

int main(int argc, char **argv)
{
	static uint64_t out[2][2 * N], in[2][2 * N];
	struct app a;
	MPI_Datatype pair;
	MPI_Comm path;
	MPI_Request rq;
	int open = 0;

	app_begin(&a, argc, argv);
	MPI_Type_contiguous(2, MPI_UINT64_T, &pair);
	MPI_Type_commit(&pair);
	MPI_Cart_create(MPI_COMM_WORLD, 1, &a.size, &open, 0, &path);
	if (a.rank < a.size - 1) start(&a, path, pair, out, in, &rq);
	app_moment(&a);
	if (a.rank == a.size - 1) start(&a, path, pair, out, in, &rq);
	MPI_Type_free(&pair);
	MPI_Wait(&rq, MPI_STATUS_IGNORE);
	if (a.rank > 0) CHECK(&a, wrong(in[0], sizeof in[0], mix3(a.seed, (uint64_t)a.rank - 1, 1)) < 0, "data from the left");
	if (a.rank < a.size - 1) CHECK(&a, wrong(in[1], sizeof in[1], mix3(a.seed, (uint64_t)a.rank + 1, 0)) < 0, "data from the right");
	MPI_Comm_free(&path);
	app_result(&a, 0, "ineighbor", hash_bytes(in, sizeof in));
	return app_end(&a);
}
