/* test_doc: with MPI_THREAD_MULTIPLE every thread is inside another blocking call when the checkpoint comes; each returns when
 * its own message comes, with its own data, a synchronous send only when it is received. Then all threads receive drained
 * messages at once, into types that are not contiguous. */
#include <pthread.h>
#include "app.h"

enum what { SSEND, SSEND_LARGE, SEND_LARGE, WAIT_ISSEND, RECV, RECV_ANY, PROBE, MPROBE, SENDRECV, SENDRECV_REPLACE, WAIT, WAITALL, WAITANY,
	    WAITSOME, RECV_INIT, SSEND_INIT, THREADS };
enum { N = 50000, TAG_BACK = 500, TAG_FLOOD = 1000, FLOOD = 1000 };

struct worker { struct app *a; int i, other, returned; int *buf; pthread_t t; };

static MPI_Comm comm;
static pthread_barrier_t all_here;

static void expect(const struct worker *w, const int *buf, int n, int tag)
{
	for (int k = 0; k < n; k++)
		CHECK(w->a, buf[k] == tag * 7 + k, "thread %d: element %d is %d, want %d", w->i, k, buf[k], tag * 7 + k);
}

static void fill_ints(int *buf, int n, int tag)
{
	for (int k = 0; k < n; k++)
		buf[k] = tag * 7 + k;
}

static void blocking(struct worker *w)
{
	int tag = w->i, other = w->other, *buf = w->buf, index, n = 16;
	MPI_Request rq[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL };
	MPI_Status st[2];
	MPI_Message msg;
	fill_ints(buf, N, tag);
	switch (w->i) {
	case SSEND: MPI_Ssend(buf, n, MPI_INT, other, tag, comm); return;
	case SSEND_LARGE: MPI_Ssend(buf, N, MPI_INT, other, tag, comm); return;
	case SEND_LARGE: MPI_Send(buf, N, MPI_INT, other, tag, comm); return;
	case WAIT_ISSEND:
		MPI_Issend(buf, n, MPI_INT, other, tag, comm, &rq[0]);
		MPI_Wait(&rq[0], MPI_STATUS_IGNORE);
		return;
	case SSEND_INIT:
		MPI_Ssend_init(buf, n, MPI_INT, other, tag, comm, &rq[0]);
		MPI_Start(&rq[0]);
		MPI_Waitall(1, rq, MPI_STATUSES_IGNORE);
		MPI_Request_free(&rq[0]);
		return;
	case RECV: MPI_Recv(buf, n, MPI_INT, other, tag, comm, &st[0]); break;
	case RECV_ANY: MPI_Recv(buf, n, MPI_INT, MPI_ANY_SOURCE, tag, comm, &st[0]); break;
	case PROBE:
		MPI_Probe(MPI_ANY_SOURCE, tag, comm, &st[0]);
		MPI_Recv(buf, n, MPI_INT, st[0].MPI_SOURCE, tag, comm, &st[0]);
		break;
	case MPROBE:
		MPI_Mprobe(other, tag, comm, &msg, &st[0]);
		MPI_Mrecv(buf, n, MPI_INT, &msg, &st[0]);
		break;
	case SENDRECV: MPI_Sendrecv(buf, n, MPI_INT, other, tag + TAG_BACK, buf + n, n, MPI_INT, other, tag, comm, &st[0]), buf += n; break;
	case SENDRECV_REPLACE: MPI_Sendrecv_replace(buf, n, MPI_INT, other, tag + TAG_BACK, other, tag, comm, &st[0]); break;
	case WAIT:
		MPI_Irecv(buf, n, MPI_INT, other, tag, comm, &rq[0]);
		MPI_Wait(&rq[0], &st[0]);
		break;
	case WAITALL:
		MPI_Irecv(buf, n, MPI_INT, other, tag, comm, &rq[0]);
		MPI_Irecv(buf + n, n, MPI_INT, other, tag, comm, &rq[1]);
		MPI_Waitall(2, rq, st);
		expect(w, buf + n, n, tag);
		break;
	case WAITANY:
		MPI_Irecv(buf, n, MPI_INT, other, tag, comm, &rq[1]);
		MPI_Waitany(2, rq, &index, &st[0]);
		CHECK(w->a, index == 1, "thread %d: index %d", w->i, index);
		break;
	case WAITSOME:
		MPI_Irecv(buf, n, MPI_INT, other, tag, comm, &rq[1]);
		MPI_Waitsome(2, rq, &n, &index, st);
		CHECK(w->a, n == 1 && index == 1, "thread %d: %d, index %d", w->i, n, index);
		n = 16;
		break;
	default:
		MPI_Recv_init(buf, n, MPI_INT, other, tag, comm, &rq[0]);
		MPI_Start(&rq[0]);
		MPI_Wait(&rq[0], &st[0]);
		MPI_Request_free(&rq[0]);
		break;
	}
	CHECK(w->a, st[0].MPI_SOURCE == other && st[0].MPI_TAG == tag, "thread %d: source %d, tag %d", w->i, st[0].MPI_SOURCE, st[0].MPI_TAG);
	expect(w, buf, n, tag);
}

/* Every thread takes its own messages of those that were drained, into every other int. */
static void flood(struct worker *w)
{
	MPI_Datatype every_other;
	int in[64], tag = TAG_FLOOD + w->i;
	MPI_Status st;

	MPI_Type_vector(20, 1, 2, MPI_INT, &every_other);
	MPI_Type_commit(&every_other);
	for (int k = 0; k < FLOOD; k++) {
		int n, want = 1 + (k + w->i) % 20;
		memset(in, 0, sizeof in);
		MPI_Recv(in, 1, every_other, w->other, tag, comm, &st);
		MPI_Get_count(&st, MPI_INT, &n);
		CHECK(w->a, n == want, "thread %d: message %d has %d ints, want %d", w->i, k, n, want);
		for (int e = 0; e < n; e++)
			CHECK(w->a, in[2 * e] == tag * 1000 + k, "thread %d: message %d of another: %d", w->i, k, in[2 * e]);
	}
	MPI_Type_free(&every_other);
}

static void *work(void *arg)
{
	struct worker *w = (struct worker *)arg;
	blocking(w);
	__atomic_store_n(&w->returned, 1, __ATOMIC_SEQ_CST);
	pthread_barrier_wait(&all_here);
	flood(w);
	return NULL;
}

static int is_sync(int i) { return i == SSEND || i == SSEND_LARGE || i == WAIT_ISSEND || i == SSEND_INIT; }

static void blocked_side(struct app *a, int other)
{
	static struct worker w[THREADS];
	int token = 0;

	pthread_barrier_init(&all_here, NULL, THREADS);
	for (int i = 0; i < THREADS; i++) {
		w[i] = (struct worker){ .a = a, .i = i, .other = other, .buf = (int *)app_alloc(a, N * sizeof(int)) };
		CHECK(a, pthread_create(&w[i].t, NULL, work, &w[i]) == 0, "pthread_create");
	}
	app_compute(a, 200000);                 /* most threads are inside their calls; any other place is right, too */
	app_moment(a);
	for (int i = 0; i < THREADS; i++)
		CHECK(a, !(is_sync(i) && w[i].returned), "thread %d: a synchronous send has returned before its receive has started", i);
	MPI_Send(&token, 1, MPI_INT, other, TAG_BACK, comm);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(w[i].t, NULL);
		free(w[i].buf);
	}
}

static void serve(struct app *a, int i, int other, int *buf)
{
	struct worker w = { .a = a, .i = i };
	int large = i == SSEND_LARGE || i == SEND_LARGE, n = large ? N : 16;

	fill_ints(buf, n, i);
	if (is_sync(i) || i == SEND_LARGE) {
		memset(buf, 0, (size_t)n * sizeof *buf);
		MPI_Recv(buf, n, MPI_INT, other, i, comm, MPI_STATUS_IGNORE);
		expect(&w, buf, n, i);
		return;
	}
	MPI_Send(buf, n, MPI_INT, other, i, comm);
	if (i == WAITALL)
		MPI_Send(buf, n, MPI_INT, other, i, comm);
	if (i == SENDRECV || i == SENDRECV_REPLACE)
		MPI_Recv(buf, n, MPI_INT, other, i + TAG_BACK, comm, MPI_STATUS_IGNORE);
}

static void serving_side(struct app *a, int other)
{
	int token, out[32], *buf = (int *)app_alloc(a, N * sizeof(int));

	for (int k = 0; k < FLOOD; k++)
		for (int i = 0; i < THREADS; i++) {
			for (int e = 0; e < 32; e++)
				out[e] = (TAG_FLOOD + i) * 1000 + k;
			MPI_Send(out, 1 + (k + i) % 20, MPI_INT, other, TAG_FLOOD + i, comm);
		}
	app_moment(a);
	MPI_Recv(&token, 1, MPI_INT, other, TAG_BACK, comm, MPI_STATUS_IGNORE);
	for (int i = 0; i < THREADS; i++)
		serve(a, i, other, buf);
	free(buf);
}

int main(int argc, char **argv)
{
	struct app a;
	int provided;

	app_begin_threads(&a, argc, argv, MPI_THREAD_MULTIPLE, &provided);
	if (provided < MPI_THREAD_MULTIPLE) {
		fprintf(stderr, "FAIL MPI_THREAD_MULTIPLE is not provided\n");
		return 1;
	}
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	if (a.rank == 0)
		blocked_side(&a, a.size - 1);
	else if (a.rank == a.size - 1)
		serving_side(&a, 0);
	else
		app_moment(&a);
	MPI_Barrier(comm);
	MPI_Comm_free(&comm);
	app_result(&a, 0, "threads", THREADS);
	return app_end(&a);
}
