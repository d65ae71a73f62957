/* test_doc: a rank is in Sendrecv when the checkpoint comes: the message it got was longer than its buffer, the one it sends
 * nobody has received. After the restart the call returns MPI_ERR_TRUNCATE, with the message's status. */
#include "app.h"

enum { BYTES = 4 << 20 };

int main(int argc, char **argv)
{
	struct app a;
	MPI_Status st;
	int sent[2] = { 5, 7 }, got = 0, class;

	app_begin(&a, argc, argv);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	int other = a.size - 1 - a.rank;
	char *buf = (char *)app_alloc(&a, BYTES);
	if (a.rank == 0) {
		fill(buf, BYTES, a.seed);
		MPI_Barrier(MPI_COMM_WORLD);
		if (a.until != NULL)
			app_ready(&a);
		int e = MPI_Sendrecv(buf, BYTES, MPI_BYTE, other, 2, &got, 1, MPI_INT, other, 1, MPI_COMM_WORLD, &st);
		MPI_Error_class(e, &class);
		CHECK(&a, e != MPI_SUCCESS && class == MPI_ERR_TRUNCATE, "error %d of class %d, want one of class %d", e, class, MPI_ERR_TRUNCATE);
		CHECK(&a, st.MPI_SOURCE == other && st.MPI_TAG == 1, "status: source %d, tag %d", st.MPI_SOURCE, st.MPI_TAG);
	} else if (a.rank == a.size - 1) {
		MPI_Send(sent, 2, MPI_INT, other, 1, MPI_COMM_WORLD);
		MPI_Barrier(MPI_COMM_WORLD);
		app_moment(&a);
		MPI_Recv(buf, BYTES, MPI_BYTE, other, 2, MPI_COMM_WORLD, &st);
		CHECK(&a, wrong(buf, BYTES, a.seed) < 0, "data");
	} else {
		MPI_Barrier(MPI_COMM_WORLD);
	}
	app_result(&a, 0, "truncated", hash_bytes(buf, BYTES));
	free(buf);
	return app_end(&a);
}
