/* test_doc: a send of 4 MiB (rendezvous) is in flight at the checkpoint, nobody has posted its receive; another waits
 * in an Issend. The rank's buffers are not complete until the receiver comes. */
#include "app.h"

enum { BYTES = 4 << 20, SMALL = 1000 };

int main(int argc, char **argv)
{
	struct app a;
	MPI_Request rq[2];
	MPI_Status st;
	char *out, *in;
	int n;

	app_begin(&a, argc, argv);
	int right = (a.rank + 1) % a.size, left = (a.rank + a.size - 1) % a.size;
	out = (char *)app_alloc(&a, BYTES), in = (char *)app_alloc(&a, BYTES);
	fill(out, BYTES, mix2(a.seed, (uint64_t)a.rank));
	MPI_Isend(out, BYTES, MPI_BYTE, right, 1, MPI_COMM_WORLD, &rq[0]);
	MPI_Issend(out, SMALL, MPI_BYTE, right, 2, MPI_COMM_WORLD, &rq[1]);
	app_moment(&a);
	MPI_Recv(in, SMALL, MPI_BYTE, left, 2, MPI_COMM_WORLD, &st);
	CHECK(&a, wrong(in, SMALL, mix2(a.seed, (uint64_t)left)) < 0, "synchronous message");
	MPI_Recv(in, BYTES, MPI_BYTE, left, 1, MPI_COMM_WORLD, &st);
	MPI_Get_count(&st, MPI_BYTE, &n);
	CHECK(&a, n == BYTES && st.MPI_SOURCE == left && st.MPI_TAG == 1, "%d bytes from %d", n, st.MPI_SOURCE);
	CHECK(&a, wrong(in, BYTES, mix2(a.seed, (uint64_t)left)) < 0, "large message");
	MPI_Waitall(2, rq, MPI_STATUSES_IGNORE);
	app_result(&a, 0, "large", hash_bytes(in, BYTES));
	free(out), free(in);
	return app_end(&a);
}
