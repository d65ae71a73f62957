/* test_doc: Ibarriers that all ranks have started and none has completed are pending at the checkpoint. */
#include "app.h"

int main(int argc, char **argv)
{
	struct app a;
	MPI_Comm dup;
	MPI_Request one, two;
	int flag = 0;

	app_begin(&a, argc, argv);
	MPI_Comm_dup(MPI_COMM_WORLD, &dup);
	MPI_Ibarrier(MPI_COMM_WORLD, &one);
	MPI_Ibarrier(dup, &two);
	app_moment(&a);
	MPI_Wait(&one, MPI_STATUS_IGNORE);
	while (!flag)
		MPI_Test(&two, &flag, MPI_STATUS_IGNORE);
	CHECK(&a, one == MPI_REQUEST_NULL && two == MPI_REQUEST_NULL, "requests live after completion");
	MPI_Comm_free(&dup);
	app_result(&a, 0, "ibarrier", 1);
	return app_end(&a);
}
