/* test_doc: messages in flight at the checkpoint are received after it with MPI_STATUS_IGNORE. */
#include "app.h"

enum { N = 100, MESSAGES = 5 };

int main(int argc, char **argv)
{
	struct app a;
	uint64_t buf[MESSAGES][N];

	app_begin(&a, argc, argv);
	int right = (a.rank + 1) % a.size, left = (a.rank + a.size - 1) % a.size;
	MPI_Request rq[MESSAGES];
	for (int i = 0; i < MESSAGES; i++) {
		fill(buf[i], sizeof buf[i], mix3(a.seed, (uint64_t)a.rank, (uint64_t)i));
		MPI_Isend(buf[i], N, MPI_UINT64_T, right, i, MPI_COMM_WORLD, &rq[i]);
	}
	app_moment(&a);
	for (int i = MESSAGES - 1; i >= 0; i--) {
		uint64_t in[N], key = mix3(a.seed, (uint64_t)left, (uint64_t)i);
		MPI_Recv(in, N, MPI_UINT64_T, left, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		CHECK(&a, wrong(in, sizeof in, key) < 0, "message %d", i);
		app_result(&a, i, "message", key);
	}
	MPI_Waitall(MESSAGES, rq, MPI_STATUSES_IGNORE);
	return app_end(&a);
}
