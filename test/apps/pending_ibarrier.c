/* test_doc: an Ibarrier is pending at the checkpoint: all ranks but the last have started it; and one that all have. */
#include "app.h"

int main(int argc, char **argv)
{
	struct app a;
	MPI_Comm dup;
	MPI_Request some, all;
	int last, flag = 0;

	app_begin(&a, argc, argv);
	last = a.rank == a.size - 1;
	MPI_Comm_dup(MPI_COMM_WORLD, &dup);
	if (!last)
		MPI_Ibarrier(MPI_COMM_WORLD, &some);
	MPI_Ibarrier(dup, &all);
	app_moment(&a);
	if (last)
		MPI_Ibarrier(MPI_COMM_WORLD, &some);
	MPI_Wait(&some, MPI_STATUS_IGNORE);
	while (!flag)
		MPI_Test(&all, &flag, MPI_STATUS_IGNORE);
	CHECK(&a, some == MPI_REQUEST_NULL && all == MPI_REQUEST_NULL, "requests live after completion");
	MPI_Comm_free(&dup);
	app_result(&a, 0, "ibarrier", 1);
	return app_end(&a);
}
