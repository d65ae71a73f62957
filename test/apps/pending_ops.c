/* test_doc: the table of pending operations: every mode of sending x how far the message is at the checkpoint x every
 * completion call of the sender x ways to receive, all at one moment; afterwards a synchronous send is complete exactly
 * when its receive has started, and statuses, data and errors are those of an undisturbed run (docs/pending.md). */
#include "app.h"

/* Rows for the sender, from rank 0 to the last rank. */
enum mode { ISEND, ISSEND, IRSEND, IBSEND, SEND_INIT, SSEND_INIT, RSEND_INIT, BSEND_INIT, MODES };
enum state { UNMATCHED, POSTED, MPROBED, STATES };
enum call { WAIT, TEST, WAITALL, TESTALL, WAITANY, TESTANY, WAITSOME, TESTSOME, GET_STATUS, FREE, CALLS };
enum way { RECV, IRECV, SENDRECV, RECV_INIT, RECV_ANY, PROBE, IPROBE, MRECV, IMRECV, WAYS };
enum { SMALL = 24, LARGE = 40000, SIZES = 2, TAG_GO = 30000, MAX_ROWS = MODES * STATES * CALLS * SIZES };

struct row {
	enum mode mode;
	enum state state;
	enum call call;
	enum way way;
	int n, room, strided, tag;      /* ints sent; ints there is room for; received into every other int */
	int *buf;
	MPI_Request rq;                 /* the sender's, or the receiver's when it is POSTED */
	MPI_Message msg;
	MPI_Datatype type;
};

static int is_sync(const struct row *r) { return r->mode == ISSEND || r->mode == SSEND_INIT; }
static int is_persistent(const struct row *r) { return r->mode >= SEND_INIT; }

static int make_rows(struct row *rows)
{
	int n = 0;
	for (int m = 0; m < MODES; m++)
		for (int s = 0; s < STATES; s++)
			for (int c = 0; c < CALLS; c++)
				for (int k = 0; k < SIZES; k++) {
					struct row *r = &rows[n];
					if ((m == IRSEND || m == RSEND_INIT) && s != POSTED)
						continue;       /* a ready send needs its receive */
					*r = (struct row){ .mode = (enum mode)m, .state = (enum state)s, .call = (enum call)c, .tag = n, .n = k ? LARGE : SMALL };
					r->way = s == MPROBED ? (n % 2 ? MRECV : IMRECV) : (enum way)(n % MRECV);
					r->strided = n % 3 == 1;
					r->room = n % 5 == 2 && r->way != PROBE && r->way != IPROBE ? r->n / 2 : r->n;
					n++;
				}
	return n;
}

static MPI_Comm comm;

/* -- the sender ---------------------------------------------------------------------------------------------------- */

static void start(const struct app *a, struct row *r, int to)
{
	r->buf = (int *)app_alloc(a, (size_t)r->n * 4);
	fill(r->buf, (size_t)r->n * 4, mix2(a->seed, (uint64_t)r->tag));
	switch (r->mode) {
	case ISEND: MPI_Isend(r->buf, r->n, MPI_INT, to, r->tag, comm, &r->rq); break;
	case ISSEND: MPI_Issend(r->buf, r->n, MPI_INT, to, r->tag, comm, &r->rq); break;
	case IRSEND: MPI_Irsend(r->buf, r->n, MPI_INT, to, r->tag, comm, &r->rq); break;
	case IBSEND: MPI_Ibsend(r->buf, r->n, MPI_INT, to, r->tag, comm, &r->rq); break;
	case SEND_INIT: MPI_Send_init(r->buf, r->n, MPI_INT, to, r->tag, comm, &r->rq); break;
	case SSEND_INIT: MPI_Ssend_init(r->buf, r->n, MPI_INT, to, r->tag, comm, &r->rq); break;
	case RSEND_INIT: MPI_Rsend_init(r->buf, r->n, MPI_INT, to, r->tag, comm, &r->rq); break;
	default: MPI_Bsend_init(r->buf, r->n, MPI_INT, to, r->tag, comm, &r->rq); break;
	}
	if (is_persistent(r))
		MPI_Start(&r->rq);
}

/* Looks once by the row's own call; a call that waits is replaced by one that does not consume. */
static int complete_now(struct row *r)
{
	int flag = 0, index, indices[1];
	switch (r->call) {
	case TEST: MPI_Test(&r->rq, &flag, MPI_STATUS_IGNORE); break;
	case TESTALL: MPI_Testall(1, &r->rq, &flag, MPI_STATUSES_IGNORE); break;
	case TESTANY: MPI_Testany(1, &r->rq, &index, &flag, MPI_STATUS_IGNORE); break;
	case TESTSOME: MPI_Testsome(1, &r->rq, &flag, indices, MPI_STATUSES_IGNORE); break;
	default: MPI_Request_get_status(r->rq, &flag, MPI_STATUS_IGNORE); break;
	}
	return flag;
}

static void complete(const struct app *a, struct row *r)
{
	int index = 0, indices[1], n = 1, flag = 0;
	switch (r->call) {
	case WAIT: MPI_Wait(&r->rq, MPI_STATUS_IGNORE); break;
	case WAITALL: MPI_Waitall(1, &r->rq, MPI_STATUSES_IGNORE); break;
	case WAITANY: MPI_Waitany(1, &r->rq, &index, MPI_STATUS_IGNORE); break;
	case WAITSOME: MPI_Waitsome(1, &r->rq, &n, indices, MPI_STATUSES_IGNORE); break;
	case GET_STATUS:
		while (!flag)
			MPI_Request_get_status(r->rq, &flag, MPI_STATUS_IGNORE);
		MPI_Wait(&r->rq, MPI_STATUS_IGNORE);
		break;
	case FREE:
		MPI_Request_free(&r->rq);
		return;
	default:
		while (!complete_now(r))
			;
	}
	CHECK(a, index == 0 && n == 1, "row %d: index %d of %d", r->tag, index, n);
	if (is_persistent(r))
		MPI_Request_free(&r->rq);
	CHECK(a, r->rq == MPI_REQUEST_NULL, "row %d: the request is not null", r->tag);
	free(r->buf);
}

static int open_at_the_moment(const struct row *r) { return is_sync(r) && r->state != POSTED && r->call != FREE; }

static void sender(struct app *a, struct row *rows, int n)
{
	int to = a->size - 1;
	void *attached = app_alloc(a, 64 << 20);

	MPI_Buffer_attach(attached, 64 << 20);
	for (int i = 0; i < n; i++)
		start(a, &rows[i], to);
	for (int i = 0; i < n; i++)
		if (rows[i].call == FREE && rows[i].tag % 4 < 2)
			complete(a, &rows[i]);          /* freed before the moment */
	MPI_Barrier(comm);
	app_moment(a);
	for (int k = 0; k < 20; k++)
		for (int i = 0; i < n; i++)
			if (open_at_the_moment(&rows[i]))
				CHECK(a, !complete_now(&rows[i]), "row %d (mode %d, state %d, call %d): complete before its receive has started",
				      i, rows[i].mode, rows[i].state, rows[i].call);
	for (int i = 0; i < n; i++) {
		struct row *r = &rows[i];
		if (open_at_the_moment(r))
			CHECK(a, !complete_now(r), "row %d (mode %d, state %d, call %d): complete before its own receive", i, r->mode, r->state, r->call);
		MPI_Send(&i, 1, MPI_INT, to, TAG_GO, comm);
		if (r->rq != MPI_REQUEST_NULL)
			complete(a, r);
	}
	int size;
	MPI_Buffer_detach(&attached, &size);
	free(attached);
}

/* -- the receiver ---------------------------------------------------------------------------------------------------- */

static void make_room(const struct app *a, struct row *r)
{
	r->buf = (int *)app_alloc(a, (size_t)r->n * 8);
	memset(r->buf, 0x55, (size_t)r->n * 8);
	if (r->strided) {
		MPI_Type_vector(r->room, 1, 2, MPI_INT, &r->type);
		MPI_Type_commit(&r->type);
	}
}

static int count_of(const struct row *r) { return r->strided ? 1 : r->room; }
static MPI_Datatype type_of(const struct row *r) { return r->strided ? r->type : MPI_INT; }

/* Completes a receive by one of the calls, and returns its error class. */
static int finish(struct row *r, MPI_Request *rq, MPI_Status *st)
{
	int e, index, n, flag = 0, class;
	switch (r->tag % 7) {
	case 0: e = MPI_Wait(rq, st); break;
	case 1: e = MPI_Waitall(1, rq, st); break;
	case 2: e = MPI_Waitany(1, rq, &index, st); break;
	case 3: e = MPI_Waitsome(1, rq, &n, &index, st); break;
	case 4:
		do e = MPI_Test(rq, &flag, st);
		while (e == 0 && !flag);
		break;
	case 5:
		do e = MPI_Testall(1, rq, &flag, st);
		while (e == 0 && !flag);
		break;
	default:
		do e = MPI_Testsome(1, rq, &flag, &index, st);
		while (e == 0 && !flag);
		break;
	}
	MPI_Error_class(e, &class);
	if (class == MPI_ERR_IN_STATUS)
		MPI_Error_class(st->MPI_ERROR, &class);
	return class;
}

static int receive(struct row *r, int from, MPI_Status *st)
{
	MPI_Request rq = r->rq;
	int e, class, flag = 0;
	if (r->state == POSTED)
		return finish(r, &r->rq, st);
	switch (r->way) {
	case IRECV:
		MPI_Irecv(r->buf, count_of(r), type_of(r), from, r->tag, comm, &rq);
		return finish(r, &rq, st);
	case RECV_INIT:
		MPI_Recv_init(r->buf, count_of(r), type_of(r), from, r->tag, comm, &rq);
		MPI_Start(&rq);
		e = finish(r, &rq, st);
		if (rq != MPI_REQUEST_NULL)             /* Open MPI drops one whose message was truncated */
			MPI_Request_free(&rq);
		return e;
	case SENDRECV:
		e = MPI_Sendrecv(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, r->buf, count_of(r), type_of(r), from, r->tag, comm, st);
		break;
	case RECV_ANY:
		e = MPI_Recv(r->buf, count_of(r), type_of(r), MPI_ANY_SOURCE, r->tag, comm, st);
		break;
	case PROBE:
		MPI_Probe(MPI_ANY_SOURCE, r->tag, comm, st);
		e = MPI_Recv(r->buf, count_of(r), type_of(r), st->MPI_SOURCE, st->MPI_TAG, comm, st);
		break;
	case IPROBE:
		while (!flag)
			MPI_Iprobe(from, r->tag, comm, &flag, st);
		e = MPI_Recv(r->buf, count_of(r), type_of(r), from, r->tag, comm, st);
		break;
	case MRECV:
		e = MPI_Mrecv(r->buf, count_of(r), type_of(r), &r->msg, st);
		break;
	case IMRECV:
		MPI_Imrecv(r->buf, count_of(r), type_of(r), &r->msg, &rq);
		return finish(r, &rq, st);
	default:
		e = MPI_Recv(r->buf, count_of(r), type_of(r), from, r->tag, comm, st);
		break;
	}
	MPI_Error_class(e, &class);
	return class;
}

static void check(const struct app *a, const struct row *r, int from, int class, const MPI_Status *st)
{
	int n, want = r->room < r->n ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
	CHECK(a, class == want, "row %d (mode %d, state %d, way %d, %d ints into %d): error class %d, want %d", r->tag, r->mode, r->state, r->way, r->n,
	      r->room, class, want);
	CHECK(a, st->MPI_SOURCE == from && st->MPI_TAG == r->tag, "row %d: source %d, tag %d", r->tag, st->MPI_SOURCE, st->MPI_TAG);
	if (want != MPI_SUCCESS)
		return;
	MPI_Get_count(st, MPI_INT, &n);
	CHECK(a, n == r->n, "row %d: %d ints, want %d", r->tag, n, r->n);
	if (r->strided)
		for (int i = 0; i < n; i++) {
			CHECK(a, i + 1 == n || r->buf[2 * i + 1] == 0x55555555, "row %d: wrote between the elements", r->tag);
			r->buf[i] = r->buf[2 * i];
		}
	CHECK(a, wrong(r->buf, (size_t)n * 4, mix2(a->seed, (uint64_t)r->tag)) < 0, "row %d: data", r->tag);
}

static void receiver(struct app *a, struct row *rows, int n)
{
	for (int i = 0; i < n; i++) {
		struct row *r = &rows[i];
		if (r->state == MPROBED)
			MPI_Mprobe(0, r->tag, comm, &r->msg, MPI_STATUS_IGNORE);
	}
	MPI_Barrier(comm);
	app_moment(a);
	for (int i = 0; i < n; i++) {
		MPI_Status st;
		int go;
		MPI_Recv(&go, 1, MPI_INT, 0, TAG_GO, comm, MPI_STATUS_IGNORE);
		CHECK(a, go == i, "told to go on with row %d, want %d", go, i);
		check(a, &rows[i], 0, receive(&rows[i], 0, &st), &st);
		if (rows[i].strided)
			MPI_Type_free(&rows[i].type);
		free(rows[i].buf);
	}
}

int main(int argc, char **argv)
{
	static struct row rows[MAX_ROWS];
	struct app a;

	app_begin(&a, argc, argv);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);     /* where libraries raise the errors of several requests */
	int n = make_rows(rows);
	for (int i = 0; a.rank == a.size - 1 && i < n; i++) {
		struct row *r = &rows[i];
		make_room(&a, r);
		if (r->state == POSTED)
			MPI_Irecv(r->buf, count_of(r), type_of(r), i % 2 ? 0 : MPI_ANY_SOURCE, r->tag, comm, &r->rq);
	}
	MPI_Barrier(comm);
	if (a.rank == 0)
		sender(&a, rows, n);
	else if (a.rank == a.size - 1)
		receiver(&a, rows, n);
	else {
		MPI_Barrier(comm);
		app_moment(&a);
	}
	app_result(&a, 0, "rows", (uint64_t)n);
	if (a.rank == 0)
		printf("%d pending operations\n", n);
	MPI_Comm_free(&comm);
	return app_end(&a);
}
