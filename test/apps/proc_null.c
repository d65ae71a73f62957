/* test_doc: sends to and receives from MPI_PROC_NULL before a checkpoint do not keep it from completing. */
#include "app.h"

int main(int argc, char **argv)
{
	struct app a;
	MPI_Request rq[2];
	MPI_Status st;
	int x = 5, n;

	app_begin(&a, argc, argv);
	for (int i = 0; i < 7; i++) {
		MPI_Send(&x, 1, MPI_INT, MPI_PROC_NULL, i, MPI_COMM_WORLD);
		MPI_Recv(&x, 1, MPI_INT, MPI_PROC_NULL, i, MPI_COMM_WORLD, &st);
	}
	MPI_Isend(&x, 1, MPI_INT, MPI_PROC_NULL, 8, MPI_COMM_WORLD, &rq[0]);
	MPI_Irecv(&x, 1, MPI_INT, MPI_PROC_NULL, 8, MPI_COMM_WORLD, &rq[1]);
	app_moment(&a);
	MPI_Wait(&rq[0], MPI_STATUS_IGNORE);
	MPI_Wait(&rq[1], &st);
	MPI_Get_count(&st, MPI_INT, &n);
	CHECK(&a, n == 0 && x == 5, "count %d", n);   /* MPICH 4.0 names source 0 in the status of such an Irecv */
	MPI_Recv(&x, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &st);
	CHECK(&a, st.MPI_SOURCE == MPI_PROC_NULL && st.MPI_TAG == MPI_ANY_TAG, "source %d, tag %d", st.MPI_SOURCE, st.MPI_TAG);
	MPI_Barrier(MPI_COMM_WORLD);
	app_result(&a, 0, "proc_null", (uint64_t)x);
	return app_end(&a);
}
