/* test_doc: a barrier that all have come to, and whose last rank alone knows it when a checkpoint stops them in front of it. */
#include "app.h"

int main(int argc, char **argv)
{
	struct app a;
	uint64_t mine, sum = 0;

	app_begin(&a, argc, argv);
	if (a.rank < a.size - 1) {
		if (a.until) app_ready(&a);
	} else {
		app_moment(&a);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	mine = mix2(a.seed, (uint64_t)a.rank);
	/* No collective with a wait in front of it: the restarted job has its crash point again. */
	MPI_Reduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Bcast(&sum, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
	app_result(&a, 0, "arrived", sum);
	app_stay(&a);
	return app_end(&a);
}
