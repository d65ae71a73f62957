/* test_doc: Ibcasts that all ranks have started and none has completed are pending at the checkpoint. */
#include "app.h"

enum { N = 20000 };

int main(int argc, char **argv)
{
	static uint64_t one[N], two[N];
	struct app a;
	MPI_Comm dup;
	MPI_Request rq[2];
	uint64_t k1, k2;

	app_begin(&a, argc, argv);
	k1 = mix2(a.seed, 1), k2 = mix2(a.seed, 2);
	MPI_Comm_dup(MPI_COMM_WORLD, &dup);
	if (a.rank == 0)
		fill(one, sizeof one, k1), fill(two, sizeof two, k2);
	MPI_Ibcast(one, N, MPI_UINT64_T, 0, MPI_COMM_WORLD, &rq[0]);
	MPI_Ibcast(two, N, MPI_UINT64_T, 0, dup, &rq[1]);
	app_moment(&a);
	MPI_Waitall(2, rq, MPI_STATUSES_IGNORE);
	CHECK(&a, wrong(one, sizeof one, k1) < 0 && wrong(two, sizeof two, k2) < 0, "data of a pending Ibcast");
	MPI_Comm_free(&dup);
	app_result(&a, 0, "ibcast", hash_bytes(one, sizeof one) ^ hash_bytes(two, sizeof two));
	return app_end(&a);
}
