/* test_doc: a message in flight at the checkpoint is received after it by a strided datatype: each element lands at its
 * place and the gaps stay as they were. */
#include "app.h"

enum { BLOCKS = 50, STRIDE = 3 };

int main(int argc, char **argv)
{
	struct app a;
	MPI_Datatype strided;
	MPI_Request rq;
	MPI_Status st;
	uint64_t out[BLOCKS], in[BLOCKS * STRIDE], sum = 0;
	int n;

	app_begin(&a, argc, argv);
	int right = (a.rank + 1) % a.size, left = (a.rank + a.size - 1) % a.size;
	MPI_Type_vector(BLOCKS, 1, STRIDE, MPI_UINT64_T, &strided);
	MPI_Type_commit(&strided);
	fill(out, sizeof out, mix2(a.seed, (uint64_t)a.rank));
	memset(in, 0x11, sizeof in);
	MPI_Isend(out, BLOCKS, MPI_UINT64_T, right, 4, MPI_COMM_WORLD, &rq);
	app_moment(&a);
	MPI_Recv(in, 1, strided, left, 4, MPI_COMM_WORLD, &st);
	MPI_Get_count(&st, strided, &n);
	CHECK(&a, n == 1, "received %d elements, want 1", n);
	for (int i = 0; i < BLOCKS * STRIDE; i++) {
		uint64_t want = i % STRIDE ? 0x1111111111111111u : mix(mix2(a.seed, (uint64_t)left) + (uint64_t)(i / STRIDE * 8));
		CHECK(&a, in[i] == want || i >= (BLOCKS - 1) * STRIDE + 1, "word %d: %" PRIx64 ", want %" PRIx64, i, in[i], want);
		sum = mix2(sum, in[i]);
	}
	MPI_Wait(&rq, MPI_STATUS_IGNORE);
	MPI_Type_free(&strided);
	app_result(&a, 0, "strided", sum);
	return app_end(&a);
}
