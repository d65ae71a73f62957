/* drain.c: messages between the ranks at a checkpoint, and receives posted again after a restart.
 *
 * When all ranks are stopped the number of messages each has sent to each is exchanged; every rank takes messages off
 * the network until its own counts match, into saved memory in the order of arrival, which for each sender is the
 * order of sending. What matches a posted receive goes there: the real MPI sees to that. Afterwards the network is
 * empty, all sends and collectives are complete, and what is left in the real MPI are receives that nothing matches.
 * Context: p2p_drain and p2p_repost_all run on the MPI thread with all application threads stopped; the rest as
 * middle.h. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "request.h"

/* -- messages that were drained -------------------------------------------------------------------------------------- */

static void append(struct vcomm *c, struct vdrained *d)
{
	d->next = NULL;
	if (c->drained) c->drained_tail->next = d;
	else c->drained = d;
	c->drained_tail = d;
}

bool drained_match(struct vcomm *c, int source, int tag, bool take, struct vdrained **out)
{
	bool found = false;
	nx_lock();
	for (struct vdrained **p = &c->drained, *last = NULL; *p; last = *p, p = &(*p)->next) {
		struct vdrained *d = *p;
		if (source != NX_ANY_SOURCE && d->source != source) continue;
		if (tag != NX_ANY_TAG && d->tag != tag) continue;
		if (take) {
			*p = d->next;
			if (c->drained_tail == d) c->drained_tail = last;
		}
		*out = d;
		found = true;
		break;
	}
	nx_unlock();
	return found;
}

/* A type of `bytes` bytes for messages longer than a count can say. */
static int long_type(int64_t bytes, rh_t *t)
{
	enum { BLOCK = 1 << 20 };
	rh_t block, parts[2];
	int n[2] = { 1, (int)(bytes % BLOCK) }, e;
	nx_aint at[2] = { 0, bytes - bytes % BLOCK };
	e = drv->type_contiguous(BLOCK, drv->type[NX_TYPE_BYTE], &block);
	if (!e) e = drv->type_contiguous((int)(bytes / BLOCK), block, &parts[0]);
	parts[1] = drv->type[NX_TYPE_BYTE];
	if (!e) e = drv->type_create_struct(2, n, at, parts, t);
	if (!e) e = drv->type_commit(*t);
	if (!e) e = drv->type_free(&parts[0]);
	if (!e) e = drv->type_free(&block);
	return e;
}

/* Hands a drained message to the application by way of the real MPI: sent to ourselves as packed bytes, received with
 * the application's type. So truncation, partial elements and strided types are the library's own affair. */
static int deliver_by_self(struct vdrained *d, void *buf, int count, nx_t type, nx_status *st)
{
	rh_t sq, rq, t = drv->type[NX_TYPE_PACKED];
	int n = (int)d->bytes, flag = 0, e;
	if (d->bytes > INT_MAX) {
		n = 1;
		e = long_type(d->bytes, &t);
		if (e) return e;
	}
	e = drv->irecv(buf, count, RTYPE(type), 0, 0, own_self, &rq);
	if (e) return e;
	int result = drv->isend(d->data, n, t, 0, 0, own_self, &sq);
	while (!result && !flag) result = drv->test(&rq, &flag, st);
	for (flag = 0; !flag;)
		if ((e = drv->test(&sq, &flag, NULL))) return result ? result : e;
	if (d->bytes > INT_MAX) drv->type_free(&t);
	return result;
}

int drained_deliver(struct vdrained *d, void *buf, int count, nx_t type, nx_status *st)
{
	const struct vtype *t = NX_TYPE(type);
	nx_status own = { d->source, d->tag, 0, 0, d->bytes };
	int e = 0;
	if (t->contiguous && d->bytes <= (int64_t)count * t->size) {
		memcpy((char *)buf + t->true_lb, d->data, (size_t)d->bytes);
	} else {
		e = deliver_by_self(d, buf, count, type, &own);
		own.source = d->source;
		own.tag = d->tag;
	}
	if (st) *st = own;
	nx_free(d);
	return e;
}

/* -- taking messages off the network ----------------------------------------------------------------------------------- */

static int held_recv(struct vdrained *d, int source, int tag, rh_t comm, rh_t *message)
{
	rh_t t = drv->type[NX_TYPE_BYTE];
	int n = (int)d->bytes, e = 0;
	if (d->bytes > INT_MAX) {
		n = 1;
		e = long_type(d->bytes, &t);
	}
	nx_status st;
	if (!e) e = message ? drv->mrecv(d->data, n, t, message, &st) : drv->recv(d->data, n, t, source, tag, comm, &st);
	if (d->bytes > INT_MAX) drv->type_free(&t);
	return e;
}

static struct vdrained *held_new(int source, int tag, int64_t bytes)
{
	struct vdrained *d = nx_malloc(sizeof *d + (size_t)bytes);
	if (!d) return NULL;
	d->source = source;
	d->tag = tag;
	d->bytes = bytes;
	return d;
}

/* Everything that has arrived on one communicator and no posted receive matches. */
int drain_comm(struct vcomm *c)
{
	rh_t real = RCOMM(c->handle);
	for (;;) {
		int flag = 0, e;
		nx_status st;
		e = drv->iprobe(NX_ANY_SOURCE, NX_ANY_TAG, real, &flag, &st);
		if (e || !flag) return e;
		struct vdrained *d = held_new(st.source, st.tag, st.bytes);
		if (!d) return NX_ERR_NO_MEM;
		e = held_recv(d, st.source, st.tag, real, NULL);
		if (e) return e;
		count_taken(c, st.source);
		append(c, d);
	}
}

/* Messages that the application has matched (Mprobe) and not received. */
static int drain_matched(void)
{
	for (uint32_t i = NX_DYNAMIC; i < nx_high(NX_K_MESSAGE); i++) {
		struct vmessage *m = NX_MESSAGE(i);
		if (NX_INDEX(m->handle) != i || m->held) continue;
		struct vdrained *d = held_new(m->source, m->tag, m->bytes);
		if (!d) return NX_ERR_NO_MEM;
		int e = held_recv(d, m->source, m->tag, 0, &RMSG(m->handle));
		if (e) return e;
		count_taken(NX_COMM(m->comm), m->source);
		m->held = d;
	}
	return 0;
}

/* Tests every active request (of one communicator, or of all with comm 0). *open: what must complete before an image;
 * *receives: what need not. */
static void poll_requests(nx_t comm, uint32_t *open, uint32_t *receives)
{
	*open = *receives = 0;
	for (uint32_t i = NX_DYNAMIC; i < nx_high(NX_K_REQUEST); i++) {
		struct vrequest *r = NX_REQUEST(i);
		if (NX_INDEX(r->handle) != i || (r->flags & (NX_RF_ACTIVE | NX_RF_DONE)) != NX_RF_ACTIVE) continue;
		if (comm && NX_INDEX(r->comm) != NX_INDEX(comm)) continue;
		nx_status st = empty_status;
		int flag, e = request_poll(r, &flag, &st);
		if (flag) {
			r->st = st;
			r->st.error = e;
			r->flags |= NX_RF_DONE;
		} else {
			++*(r->kind == NX_RQ_RECV ? receives : open);
		}
	}
}

uint32_t requests_progress(nx_t comm)
{
	uint32_t open, receives;
	poll_requests(comm, &open, &receives);
	return open + receives;
}

static void sum_counts(uint64_t *sent, uint64_t *taken)
{
	for (uint32_t i = NX_COMM_WORLD; i < nx_high(NX_K_COMM); i++) {
		struct vcomm *c = NX_COMM(i);
		if (NX_INDEX(c->handle) != i || !c->handle || !c->peer) continue;
		for (int k = 0; k < c->size; k++) {
			if (sent) sent[c->peer[k].world] += c->peer[k].sent;
			taken[c->peer[k].world] += c->peer[k].taken;
		}
	}
	const struct vpeer *gone = NX_STATE->gone;
	for (int k = 0; k < NX_STATE->size; k++) {
		if (sent) sent[k] += gone[k].sent;
		taken[k] += gone[k].taken;
	}
}

static int drain_all_comms(void)
{
	for (uint32_t i = NX_COMM_WORLD; i < nx_high(NX_K_COMM); i++) {
		struct vcomm *c = NX_COMM(i);
		if (NX_INDEX(c->handle) != i || !c->handle || !c->peer || !RCOMM(c->handle)) continue;
		int e = drain_comm(c);
		if (e) return e;
	}
	return 0;
}

/* True when everything that was sent to this rank has been taken. */
static bool settled(const uint64_t *expected, uint64_t *taken)
{
	memset(taken, 0, (size_t)NX_STATE->size * sizeof *taken);
	sum_counts(NULL, taken);
	return !memcmp(taken, expected, (size_t)NX_STATE->size * sizeof *taken);
}

static int drain_until_settled(const uint64_t *expected, uint64_t *taken)
{
	uint32_t open, receives;
	for (unsigned spins = 1;; spins++) {
		if (core_cancelled()) return NX_ERR_OTHER;
		poll_requests(0, &open, &receives);
		int e = drain_matched();
		if (e || (settled(expected, taken) && !open)) return e;
		e = drain_all_comms();
		if (e) return e;
		if (!(spins & 63)) wait_step_slow(spins);
	}
}

int p2p_drain(char *why, size_t n)
{
	size_t size = (size_t)NX_STATE->size;
	uint64_t *a = calloc(3 * size, sizeof *a), *expected = a + size, *taken = a + 2 * size;
	if (!a) {
		snprintf(why, n, "no memory for the message counts of %zu ranks", size);
		return -1;
	}
	sum_counts(a, taken);
	rh_t u64 = drv->type[NX_TYPE_UINT64_T];
	int e = drv->alltoall(a, 1, u64, expected, 1, u64, own_world);
	if (!e) e = drain_until_settled(expected, taken);
	if (!e) e = drv->barrier(own_world);
	free(a);
	if (!e) return 0;
	if (core_cancelled()) snprintf(why, n, "given up while messages were drained");
	else snprintf(why, n, "draining messages: the MPI answers error class %d", e);
	return -1;
}

/* -- after a restart --------------------------------------------------------------------------------------------------- */

static int by_order(const void *x, const void *y)
{
	const struct vrequest *a = *(struct vrequest *const *)x, *b = *(struct vrequest *const *)y;
	return a->order < b->order ? -1 : a->order > b->order;
}

/* Posts the receives that were waiting again, in their order. */
int p2p_repost_all(char *why, size_t n)
{
	uint32_t high = nx_high(NX_K_REQUEST), k = 0;
	struct vrequest **list = malloc(high * sizeof *list);
	int e = 0;
	for (uint32_t i = NX_DYNAMIC; list && i < high; i++) {
		struct vrequest *r = NX_REQUEST(i);
		RREQ(i) = 0;
		if (NX_INDEX(r->handle) == i && (r->flags & (NX_RF_ACTIVE | NX_RF_DONE)) == NX_RF_ACTIVE) list[k++] = r;
	}
	if (list) qsort(list, k, sizeof *list, by_order);
	for (uint32_t i = 0; list && i < k && !e; i++) {
		struct vrequest *r = list[i];
		if (!RCOMM(r->comm)) continue;
		e = drv->irecv(r->buf, r->count, RTYPE(r->type), r->peer, r->tag, RCOMM(r->comm), &RREQ(r->handle));
		if (!e && (r->flags & NX_RF_CANCEL)) e = drv->cancel(RREQ(r->handle));
	}
	if (e || !list) snprintf(why, n, "posting %u receives again: error class %d", k, e);
	free(list);
	return e || !list ? -1 : 0;
}
