/* test_doc: a checkpoint is taken while all ranks but the root, which computes, have started an Ibcast. */
#include "app.h"

enum { N = 20000 };

int main(int argc, char **argv)
{
	static uint64_t data[N];
	struct app a;
	MPI_Request rq;

	app_begin(&a, argc, argv);
	if (a.rank == 0)
		fill(data, sizeof data, mix(a.seed));
	else
		MPI_Ibcast(data, N, MPI_UINT64_T, 0, MPI_COMM_WORLD, &rq);
	app_moment(&a);
	if (a.rank == 0)
		MPI_Ibcast(data, N, MPI_UINT64_T, 0, MPI_COMM_WORLD, &rq);
	MPI_Wait(&rq, MPI_STATUS_IGNORE);
	CHECK(&a, wrong(data, sizeof data, mix(a.seed)) < 0, "data of a pending Ibcast");
	app_result(&a, 0, "ibcast", hash_bytes(data, sizeof data));
	return app_end(&a);
}
