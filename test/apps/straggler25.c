/* test_doc: the last rank computes (25 s with --seconds 25, or until the file of --until exists) without MPI, while all
 * others wait in a barrier; a checkpoint is taken meanwhile. */
#include "app.h"

int main(int argc, char **argv)
{
	struct app a;
	uint64_t h;

	app_begin(&a, argc, argv);
	h = mix2(a.seed, (uint64_t)a.rank);
	MPI_Barrier(MPI_COMM_WORLD);
	if (a.rank == a.size - 1 && a.until != NULL)
		app_moment(&a);
	else if (a.rank == a.size - 1)
		for (long ms = 0; ms < 1000 * a.seconds; ms++)
			app_compute(&a, 1000);
	else if (a.until != NULL)
		app_ready(&a);
	MPI_Barrier(MPI_COMM_WORLD);
	app_result(&a, 0, "straggler", h);
	return app_end(&a);
}
