/* test_doc: one rank computes for --pace without any MPI call while all others wait in a barrier; the straggler changes
 * from iteration to iteration. */
#include "app.h"

int main(int argc, char **argv)
{
	struct app a;

	app_begin(&a, argc, argv);
	for (long iter = 0; iter < a.iters; iter++) {
		int late = (int)(iter % a.size), sum = 0, one = a.rank + (int)iter;
		uint64_t h = mix3(a.seed, (uint64_t)iter, (uint64_t)a.rank);
		app_progress(&a, iter);
		if (a.rank == late)
			app_compute(&a, a.pace);
		for (int i = 0; i < 100000; i++)
			h = mix(h);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		CHECK(&a, sum == a.size * (a.size - 1) / 2 + a.size * (int)iter, "sum %d", sum);
		app_result(&a, iter, "straggler", h);
	}
	return app_end(&a);
}
