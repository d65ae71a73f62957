/* test_doc: a checkpoint is taken while all ranks but the last, which computes, have started an Ibarrier; it is complete when
 * the last one has started it too, and not before. */
#include "app.h"

int main(int argc, char **argv)
{
	struct app a;
	MPI_Request rq;
	int last;

	app_begin(&a, argc, argv);
	last = a.rank == a.size - 1;
	if (!last)
		MPI_Ibarrier(MPI_COMM_WORLD, &rq);
	app_moment(&a);
	if (last)
		MPI_Ibarrier(MPI_COMM_WORLD, &rq);
	MPI_Wait(&rq, MPI_STATUS_IGNORE);
	CHECK(&a, rq == MPI_REQUEST_NULL, "request lives after completion");
	app_result(&a, 0, "ibarrier", 1);
	return app_end(&a);
}
