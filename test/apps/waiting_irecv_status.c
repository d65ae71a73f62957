/* test_doc: a receive posted with wildcards before the checkpoint, whose message was sent before it too or comes after
 * it, is completed after the restart with the right source, tag and count. */
#include "app.h"

int main(int argc, char **argv)
{
	struct app a;
	MPI_Request rq[2], out;
	MPI_Status st;
	uint64_t in[2][40], early[10], late[20];
	int n;

	app_begin(&a, argc, argv);
	int right = (a.rank + 1) % a.size, left = (a.rank + a.size - 1) % a.size;
	MPI_Irecv(in[0], 40, MPI_UINT64_T, MPI_ANY_SOURCE, 11, MPI_COMM_WORLD, &rq[0]);
	MPI_Irecv(in[1], 40, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &rq[1]);
	fill(early, sizeof early, mix2(a.seed, (uint64_t)a.rank));
	fill(late, sizeof late, mix2(a.seed + 1, (uint64_t)a.rank));
	MPI_Isend(early, 10, MPI_UINT64_T, right, 11, MPI_COMM_WORLD, &out);
	app_moment(&a);
	MPI_Send(late, 20, MPI_UINT64_T, right, 12, MPI_COMM_WORLD);
	for (int k = 0; k < 2; k++) {
		MPI_Wait(&rq[k], &st);
		MPI_Get_count(&st, MPI_UINT64_T, &n);
		CHECK(&a, st.MPI_SOURCE == left && st.MPI_TAG == 11 + k && n == 10 * (k + 1), "receive %d: source %d, tag %d, count %d",
		      k, st.MPI_SOURCE, st.MPI_TAG, n);
		CHECK(&a, wrong(in[k], (size_t)n * 8, mix2(a.seed + (uint64_t)k, (uint64_t)left)) < 0, "receive %d: data", k);
		app_result(&a, k, "status", mix3((uint64_t)st.MPI_SOURCE, (uint64_t)st.MPI_TAG, (uint64_t)n));
	}
	MPI_Wait(&out, MPI_STATUS_IGNORE);
	return app_end(&a);
}
