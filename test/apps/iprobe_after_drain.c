/* test_doc: a message that was in flight at the checkpoint is seen after it by Iprobe, Probe, Improbe and Mprobe, with
 * and without wildcards, and then received. */
#include "app.h"

enum { MESSAGES = 5, N = 30 };

/* Finds message i in its own way and returns its status; msg is set when it was a matched probe. */
static MPI_Status find(int i, int left, MPI_Message *msg)
{
	MPI_Status st;
	int flag = 0;

	*msg = MPI_MESSAGE_NULL;
	switch (i) {
	case 0:
		while (!flag)
			MPI_Iprobe(left, i, MPI_COMM_WORLD, &flag, &st);
		break;
	case 1:
		while (!flag)
			MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &st);
		break;
	case 2:
		MPI_Probe(MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &st);
		break;
	case 3:
		while (!flag)
			MPI_Improbe(left, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, msg, &st);
		break;
	default:
		MPI_Mprobe(left, i, MPI_COMM_WORLD, msg, &st);
		break;
	}
	return st;
}

int main(int argc, char **argv)
{
	struct app a;
	uint64_t out[MESSAGES][N], in[N];
	MPI_Request rq[MESSAGES];

	app_begin(&a, argc, argv);
	int right = (a.rank + 1) % a.size, left = (a.rank + a.size - 1) % a.size;
	for (int i = 0; i < MESSAGES; i++) {
		fill(out[i], sizeof out[i], mix3(a.seed, (uint64_t)a.rank, (uint64_t)i));
		MPI_Isend(out[i], N - i, MPI_UINT64_T, right, i, MPI_COMM_WORLD, &rq[i]);
	}
	app_moment(&a);
	for (int i = 0; i < MESSAGES; i++) {
		MPI_Message msg;
		MPI_Status st = find(i, left, &msg), rs;
		int n;
		MPI_Get_count(&st, MPI_UINT64_T, &n);
		CHECK(&a, st.MPI_SOURCE == left && st.MPI_TAG == i && n == N - i, "probe %d: source %d, tag %d, count %d", i,
		      st.MPI_SOURCE, st.MPI_TAG, n);
		if (msg == MPI_MESSAGE_NULL)
			MPI_Recv(in, n, MPI_UINT64_T, st.MPI_SOURCE, st.MPI_TAG, MPI_COMM_WORLD, &rs);
		else
			MPI_Mrecv(in, n, MPI_UINT64_T, &msg, &rs);
		CHECK(&a, rs.MPI_SOURCE == left && rs.MPI_TAG == i, "receive %d: source %d, tag %d", i, rs.MPI_SOURCE, rs.MPI_TAG);
		CHECK(&a, wrong(in, (size_t)n * 8, mix3(a.seed, (uint64_t)left, (uint64_t)i)) < 0, "message %d", i);
		app_result(&a, i, "probe", mix3((uint64_t)left, (uint64_t)i, (uint64_t)n));
	}
	MPI_Waitall(MESSAGES, rq, MPI_STATUSES_IGNORE);
	return app_end(&a);
}
