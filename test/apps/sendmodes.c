/* test_doc: buffered, synchronous and ready sends, blocking and not, with an attached buffer that is detached and
 * attached again, mixed with sends to and receives from MPI_PROC_NULL and to the rank itself. */
#include "app.h"

enum { N = 1500, BUFFER = 1 << 20, TAG_B = 1, TAG_S, TAG_R, TAG_IB, TAG_IS, TAG_IR, TAG_SELF, TAGS };

struct modes { char *attached; uint64_t in[TAGS][N], out[TAGS][N]; };

static uint64_t key(const struct app *a, long iter, int rank, int tag)
{
	return mix4(a->seed, (uint64_t)iter, (uint64_t)rank, (uint64_t)tag);
}

static void null_process(struct app *a)
{
	MPI_Request rq[2];
	MPI_Status st;
	int x = 17, n, flag;

	MPI_Send(&x, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD);
	MPI_Recv(&x, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &st);
	MPI_Get_count(&st, MPI_INT, &n);
	CHECK(a, st.MPI_SOURCE == MPI_PROC_NULL && st.MPI_TAG == MPI_ANY_TAG && n == 0 && x == 17,
	      "receive from PROC_NULL: source %d tag %d count %d", st.MPI_SOURCE, st.MPI_TAG, n);
	MPI_Irecv(&x, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &rq[0]);
	MPI_Isend(&x, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &rq[1]);
	MPI_Waitall(2, rq, MPI_STATUSES_IGNORE);
	MPI_Iprobe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &flag, &st);
	CHECK(a, flag && st.MPI_SOURCE == MPI_PROC_NULL, "probe of PROC_NULL");
	MPI_Sendrecv(&x, 1, MPI_INT, MPI_PROC_NULL, 1, &x, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &st);
	CHECK(a, x == 17, "Sendrecv with PROC_NULL changed the buffer");
}

/* Receives are posted and announced before the ready sends start. */
static void exchange(struct app *a, struct modes *m, long iter)
{
	int right = (a->rank + 1) % a->size, left = (a->rank + a->size - 1) % a->size;
	MPI_Request in[TAGS], out[4];

	for (int t = TAG_B; t < TAGS; t++) {
		fill(m->out[t], sizeof m->out[t], key(a, iter, a->rank, t));
		MPI_Irecv(m->in[t], N, MPI_UINT64_T, t == TAG_SELF ? a->rank : left, t, MPI_COMM_WORLD, &in[t]);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Bsend(m->out[TAG_B], N, MPI_UINT64_T, right, TAG_B, MPI_COMM_WORLD);
	MPI_Ibsend(m->out[TAG_IB], N, MPI_UINT64_T, right, TAG_IB, MPI_COMM_WORLD, &out[0]);
	MPI_Issend(m->out[TAG_IS], N, MPI_UINT64_T, right, TAG_IS, MPI_COMM_WORLD, &out[1]);
	MPI_Irsend(m->out[TAG_IR], N, MPI_UINT64_T, right, TAG_IR, MPI_COMM_WORLD, &out[2]);
	MPI_Isend(m->out[TAG_SELF], N, MPI_UINT64_T, a->rank, TAG_SELF, MPI_COMM_WORLD, &out[3]);
	null_process(a);
	app_compute(a, a->pace);
	MPI_Rsend(m->out[TAG_R], N, MPI_UINT64_T, right, TAG_R, MPI_COMM_WORLD);
	MPI_Ssend(m->out[TAG_S], N, MPI_UINT64_T, right, TAG_S, MPI_COMM_WORLD);
	MPI_Waitall(4, out, MPI_STATUSES_IGNORE);
	MPI_Waitall(TAGS - TAG_B, in + TAG_B, MPI_STATUSES_IGNORE);
	for (int t = TAG_B; t < TAGS; t++)
		CHECK(a, wrong(m->in[t], sizeof m->in[t], key(a, iter, t == TAG_SELF ? a->rank : left, t)) < 0, "data of tag %d", t);
}

int main(int argc, char **argv)
{
	static struct modes m;
	struct app a;
	void *got;
	int size;

	app_begin(&a, argc, argv);
	m.attached = (char *)app_alloc(&a, BUFFER);
	MPI_Buffer_attach(m.attached, BUFFER);
	for (long iter = 0; iter < a.iters; iter++) {
		app_progress(&a, iter);
		exchange(&a, &m, iter);
		app_result(&a, iter, "modes", key(&a, iter, a.rank, TAG_IS));
		if (iter % 5 == 4) {
			MPI_Buffer_detach(&got, &size);
			CHECK(&a, got == m.attached && size == BUFFER, "detached %d bytes, want %d", size, BUFFER);
			MPI_Buffer_attach(m.attached, BUFFER);
		}
	}
	MPI_Buffer_detach(&got, &size);
	free(m.attached);
	return app_end(&a);
}
