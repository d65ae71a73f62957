/* test_doc: receives that are pending at the checkpoint: kinds of receive x completion calls x what becomes of them: a
 * message sent after it, one that is too long, one that is there already, none (cancelled, before or after the checkpoint),
 * or an error that was there before and nobody has looked at. */
#include "app.h"

enum kind { IRECV, IRECV_ANY, RECV_INIT, IRECV_TYPE, KINDS };
enum call { WAIT, TEST, WAITALL, TESTALL, WAITANY, TESTANY, WAITSOME, TESTSOME, GET_STATUS, FREE, CALLS };
enum fate { SENT_LATER, TOO_LONG_LATER, SENT_BEFORE, TOO_LONG_BEFORE, CANCELLED_BEFORE, CANCELLED_AFTER, FATES };
enum { N = 100, ROWS = KINDS * CALLS * FATES };

struct row { enum kind kind; enum call call; enum fate fate; int tag, buf[2 * N]; MPI_Request rq; };
static MPI_Datatype every_other;

static int is_sent(const struct row *r) { return r->fate <= TOO_LONG_BEFORE; }
/* Not for persistent receives, whose errors Open MPI does not report by all calls. */
static int is_long(const struct row *r) { return (r->fate == TOO_LONG_LATER || r->fate == TOO_LONG_BEFORE) && r->kind != RECV_INIT; }
static int is_before(const struct row *r) { return r->fate == SENT_BEFORE || r->fate == TOO_LONG_BEFORE; }

static void make_rows(struct row *rows)
{
	for (int i = 0; i < ROWS; i++) {
		rows[i].tag = i;
		rows[i].kind = (enum kind)(i % KINDS);
		rows[i].call = (enum call)(i / KINDS % CALLS);
		rows[i].fate = (enum fate)(i / KINDS / CALLS);
	}
}

static void post(struct row *r, int from)
{
	memset(r->buf, 0x55, sizeof r->buf);
	switch (r->kind) {
	case IRECV: MPI_Irecv(r->buf, N, MPI_INT, from, r->tag, MPI_COMM_WORLD, &r->rq); break;
	case IRECV_ANY: MPI_Irecv(r->buf, N, MPI_INT, MPI_ANY_SOURCE, r->tag, MPI_COMM_WORLD, &r->rq); break;
	case RECV_INIT:
		MPI_Recv_init(r->buf, N, MPI_INT, from, r->tag, MPI_COMM_WORLD, &r->rq);
		MPI_Start(&r->rq);
		break;
	default: MPI_Irecv(r->buf, 1, every_other, from, r->tag, MPI_COMM_WORLD, &r->rq); break;
	}
	if (r->fate == CANCELLED_BEFORE)
		MPI_Cancel(&r->rq);
}

/* Completes it by the row's call, and returns the error class. */
static int complete(struct row *r, MPI_Status *st)
{
	int e = 0, index = 0, n = 1, flag = 0, class;
	do {
		switch (r->call) {
		case WAIT: e = MPI_Wait(&r->rq, st), flag = 1; break;
		case WAITALL: e = MPI_Waitall(1, &r->rq, st), flag = 1; break;
		case WAITANY: e = MPI_Waitany(1, &r->rq, &index, st), flag = 1; break;
		case WAITSOME: e = MPI_Waitsome(1, &r->rq, &n, &index, st), flag = 1; break;
		case TEST: e = MPI_Test(&r->rq, &flag, st); break;
		case TESTALL: e = MPI_Testall(1, &r->rq, &flag, st); break;
		case TESTANY: e = MPI_Testany(1, &r->rq, &index, &flag, st); break;
		case TESTSOME: e = MPI_Testsome(1, &r->rq, &flag, &index, st); break;
		default:
			MPI_Request_get_status(r->rq, &flag, st);
			if (flag)
				e = MPI_Wait(&r->rq, st);
			break;
		}
	} while (e == 0 && !flag);
	MPI_Error_class(e, &class);
	if (class == MPI_ERR_IN_STATUS)
		MPI_Error_class(st->MPI_ERROR, &class);
	return class;
}

static void check(const struct app *a, const struct row *r, int from, int class, const MPI_Status *st)
{
	int n, cancelled, step = r->kind == IRECV_TYPE ? 2 : 1;

	MPI_Test_cancelled(st, &cancelled);
	CHECK(a, cancelled == !is_sent(r), "row %d: cancelled %d", r->tag, cancelled);
	CHECK(a, class == (is_long(r) ? MPI_ERR_TRUNCATE : MPI_SUCCESS), "row %d (kind %d, call %d, fate %d): error class %d", r->tag, r->kind, r->call,
	      r->fate, class);
	if (!is_sent(r))
		return;
	CHECK(a, st->MPI_SOURCE == from && st->MPI_TAG == r->tag, "row %d: source %d, tag %d", r->tag, st->MPI_SOURCE, st->MPI_TAG);
	if (is_long(r))
		return;
	MPI_Get_count(st, MPI_INT, &n);
	CHECK(a, n == N - 1 - r->tag % 3, "row %d: %d ints", r->tag, n);
	for (int i = 0; i < n; i++)
		CHECK(a, r->buf[i * step] == r->tag + i, "row %d: element %d is %d", r->tag, i, r->buf[i * step]);
	CHECK(a, r->buf[2 * N - 1] == 0x55555555, "row %d: wrote beyond the end", r->tag);
}

static void send_rows(const struct row *rows, int before, int to)
{
	int out[2 * N];
	for (int i = 0; i < ROWS; i++) {
		const struct row *r = &rows[i];
		if (!is_sent(r) || is_before(r) != before)
			continue;
		for (int k = 0; k < 2 * N; k++)
			out[k] = i + k;
		MPI_Send(out, is_long(r) ? N + 5 : N - 1 - r->tag % 3, MPI_INT, to, i, MPI_COMM_WORLD);
	}
}

static void receiver(struct app *a, struct row *rows)
{
	for (int i = 0; i < ROWS; i++)
		post(&rows[i], 0);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Barrier(MPI_COMM_WORLD);
	app_moment(a);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < ROWS; i++) {
		struct row *r = &rows[i];
		MPI_Status st;
		if (r->fate == CANCELLED_AFTER)
			MPI_Cancel(&r->rq);
		if (r->call == FREE) {          /* nobody can look at it any more; what is sent arrives all the same */
			MPI_Request_free(&r->rq);
			continue;
		}
		check(a, r, 0, complete(r, &st), &st);
		if (r->rq != MPI_REQUEST_NULL)
			MPI_Request_free(&r->rq);
	}
	MPI_Barrier(MPI_COMM_WORLD);            /* all that is sent has arrived before this message */
	for (int i = 0; i < ROWS; i++)
		if (rows[i].call == FREE && is_sent(&rows[i]) && !is_long(&rows[i]))
			CHECK(a, rows[i].buf[0] == i, "row %d, freed: %d", i, rows[i].buf[0]);
}

int main(int argc, char **argv)
{
	static struct row rows[ROWS];
	struct app a;

	app_begin(&a, argc, argv);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Type_vector(N, 1, 2, MPI_INT, &every_other);
	MPI_Type_commit(&every_other);
	make_rows(rows);
	if (a.rank == a.size - 1) {
		receiver(&a, rows);
	} else {
		MPI_Barrier(MPI_COMM_WORLD);
		if (a.rank == 0)
			send_rows(rows, 1, a.size - 1);
		MPI_Barrier(MPI_COMM_WORLD);
		app_moment(&a);
		MPI_Barrier(MPI_COMM_WORLD);
		if (a.rank == 0)
			send_rows(rows, 0, a.size - 1);
		MPI_Barrier(MPI_COMM_WORLD);
	}
	MPI_Type_free(&every_other);
	app_result(&a, 0, "rows", ROWS);
	if (a.rank == 0)
		printf("%d pending receives\n", ROWS);
	return app_end(&a);
}
