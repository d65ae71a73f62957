/* test_doc: random lanes of synchronous and standard sends with equal tags, of which the receiver has taken some, out of
 * order, and matched others, when the checkpoint comes; afterwards more follow. Each synchronous send becomes complete
 * with the receive of its own message and not with that of any other, though all messages of a lane look alike. */
#include "app.h"

enum { COMMS = 24, PER_COMM = 40, TAGS = 3, TAG_DONE = 100 };
enum { SENT, MATCHED, TAKEN };

struct message { int tag, sync, late, fate; MPI_Request rq; MPI_Message msg; int value, in; };
struct channel { MPI_Comm comm; struct message m[PER_COMM]; };

/* The same on both sides. late: sent after the moment. */
static void plan(const struct app *a, struct channel *c, int k)
{
	for (int i = 0; i < PER_COMM; i++) {
		uint64_t x = mix3(a->seed, (uint64_t)k, (uint64_t)i);
		c->m[i].tag = (int)(x % TAGS);
		c->m[i].sync = (x >> 8) % 3 != 0;
		c->m[i].late = i >= PER_COMM * 3 / 4;
		c->m[i].rq = MPI_REQUEST_NULL;
		c->m[i].value = k % 2 ? 7 : k * PER_COMM + i;   /* in every other channel all messages are equal */
		c->m[i].fate = SENT;
	}
	/* Of each tag the receiver takes or matches some before the moment, always the oldest. */
	for (int tag = 0; tag < TAGS; tag++) {
		uint64_t x = mix4(a->seed, (uint64_t)k, (uint64_t)tag, 99);
		int n = (int)(x % 7);
		for (int i = 0; n > 0 && i < PER_COMM * 3 / 4; i++)
			if (c->m[i].tag == tag)
				c->m[i].fate = (x >> (8 + --n)) % 3 == 0 ? MATCHED : TAKEN;
	}
}

static void post(struct channel *c, int i, int to)
{
	struct message *m = &c->m[i];
	if (m->sync)
		MPI_Issend(&m->value, 1, MPI_INT, to, m->tag, c->comm, &m->rq);
	else
		MPI_Isend(&m->value, 1, MPI_INT, to, m->tag, c->comm, &m->rq);
}

static void check_open(const struct app *a, struct channel *c, int k)
{
	for (int i = 0; i < PER_COMM; i++) {
		int flag;
		if (!c->m[i].sync || c->m[i].fate == TAKEN || c->m[i].rq == MPI_REQUEST_NULL)
			continue;
		MPI_Request_get_status(c->m[i].rq, &flag, MPI_STATUS_IGNORE);
		CHECK(a, !flag, "channel %d, message %d: complete before its receive has started", k, i);
	}
}

static void sender(struct app *a, struct channel *c)
{
	int to = a->size - 1, what[2];

	for (int i = 0; i < PER_COMM; i++)              /* channels by turns */
		for (int k = 0; k < COMMS; k++)
			if (!c[k].m[i].late)
				post(&c[k], i, to);
	MPI_Barrier(MPI_COMM_WORLD);
	app_moment(a);
	for (int k = 0; k < COMMS; k++)
		check_open(a, &c[k], k);
	for (int i = 0; i < PER_COMM; i++)
		for (int k = 0; k < COMMS; k++)
			if (c[k].m[i].late)
				post(&c[k], i, to);
	for (int left = COMMS * PER_COMM; left > 0; left--) {
		MPI_Recv(what, 2, MPI_INT, to, TAG_DONE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		struct message *m = &c[what[0]].m[what[1]];
		MPI_Wait(&m->rq, MPI_STATUS_IGNORE);
		m->fate = TAKEN;
		check_open(a, &c[what[0]], what[0]);
		MPI_Send(what, 2, MPI_INT, to, TAG_DONE, MPI_COMM_WORLD);
	}
}

/* Tells the sender that a message has been received, and waits until it has looked at its requests. */
static void report(int k, int i)
{
	int what[2] = { k, i };
	MPI_Sendrecv_replace(what, 2, MPI_INT, 0, TAG_DONE, 0, TAG_DONE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void take(const struct app *a, struct channel *c, int k, int i, int tell)
{
	struct message *m = &c[k].m[i];
	if (m->fate == MATCHED)
		MPI_Mrecv(&m->in, 1, MPI_INT, &m->msg, MPI_STATUS_IGNORE);
	else
		MPI_Recv(&m->in, 1, MPI_INT, 0, m->tag, c[k].comm, MPI_STATUS_IGNORE);
	CHECK(a, m->in == m->value, "channel %d, message %d: %d, want %d", k, i, m->in, m->value);
	m->fate = TAKEN;
	if (tell)
		report(k, i);
}

static void receiver(struct app *a, struct channel *c)
{
	static int early[COMMS][PER_COMM];

	for (int k = 0; k < COMMS; k++)
		for (int i = 0; i < PER_COMM; i++) {
			struct message *m = &c[k].m[i];
			if (m->fate == MATCHED)
				MPI_Mprobe(0, m->tag, c[k].comm, &m->msg, MPI_STATUS_IGNORE);
			else if ((early[k][i] = m->fate == TAKEN))
				take(a, c, k, i, 0);
		}
	MPI_Barrier(MPI_COMM_WORLD);
	app_moment(a);
	for (int k = 0; k < COMMS; k++)
		for (int i = 0; i < PER_COMM; i++)
			if (early[k][i])
				report(k, i);
	for (int k = 0; k < COMMS; k++)
		for (int t = 0; t < TAGS; t++) {        /* tags in an order of their own, each from its oldest */
			int tag = (t + k) % TAGS;
			for (int i = 0; i < PER_COMM; i++)
				if (c[k].m[i].tag == tag && c[k].m[i].fate != TAKEN)
					take(a, c, k, i, 1);
		}
}

int main(int argc, char **argv)
{
	static struct channel c[COMMS];
	struct app a;

	app_begin(&a, argc, argv);
	for (int k = 0; k < COMMS; k++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &c[k].comm);
		plan(&a, &c[k], k);
	}
	if (a.rank == 0)
		sender(&a, c);
	else if (a.rank == a.size - 1)
		receiver(&a, c);
	else {
		MPI_Barrier(MPI_COMM_WORLD);
		app_moment(&a);
	}
	for (int k = 0; k < COMMS; k++)
		MPI_Comm_free(&c[k].comm);
	app_result(&a, 0, "messages", COMMS * PER_COMM);
	return app_end(&a);
}
