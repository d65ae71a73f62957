/* drain.c: messages between the ranks at a checkpoint, and receives posted again after a restart.
 *
 * When all ranks are stopped the number of messages each has sent to each is exchanged; every rank takes
 * messages off the network until its own counts match, into saved memory in the order of arrival, which for
 * each sender is the order of sending. What matches a posted receive goes there: the real MPI sees to that.
 * Afterwards no message is under way, all sends are complete, and what is left in the real MPI are receives
 * that nothing matches, and posted collectives that nobody has seen complete (posted.c). What a synchronous
 * send may tell the application is settled between sender and receiver (synchronous.c).
 *
 * The exchange and the agreement on the outcome are collective and cannot be broken off: every rank that is
 * told to drain comes to both, with a failure of its own if need be, and says at once that it has failed, so
 * that the others are told to give up waiting for it. Nobody takes a message before the exchange, that is
 * before all are stopped. Context: p2p_drain, p2p_drained and p2p_repost_all run on the MPI thread with all
 * application threads stopped; the rest as traffic.h. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "traffic.h"

/* -- messages that were drained -------------------------------------------------------------------------- */

static void append(struct vcomm *c, struct vdrained *d)
{
	d->next = NULL;
	if (c->drained) c->drained_tail->next = d;
	else c->drained = d;
	c->drained_tail = d;
}

/* The source of one that is about to be handed out is this negative number: nobody else finds it. */
static int in_hand(int source) { return ~source; }

bool drained_match(struct vcomm *c, int source, int tag, bool take, struct vdrained **out)
{
	struct vdrained *d;
	nx_lock();
	for (d = c->drained; d; d = d->next) {
		if (d->source < 0 || (source != NX_ANY_SOURCE && d->source != source)) continue;
		if (tag == NX_ANY_TAG || d->tag == tag) break;
	}
	if (d && take) d->source = in_hand(d->source);
	nx_unlock();
	if (d) *out = d;
	return d;
}

void drained_back(struct vdrained *d) { __atomic_store_n(&d->source, in_hand(d->source), __ATOMIC_RELEASE); }

void drained_remove(struct vcomm *c, struct vdrained *d)
{
	struct vdrained **p = &c->drained, *last = NULL;
	nx_lock();
	for (; *p != d; p = &(*p)->next) last = *p;
	*p = d->next;
	if (c->drained_tail == d) c->drained_tail = last;
	nx_unlock();
	drained_back(d);
}

/* Returns in *t a type of `bytes` bytes, for messages longer than a count can express. */
static int long_type(int64_t bytes, rh_t *t)
{
	enum { BLOCK = 1 << 20 };
	rh_t block, parts[2];
	int n[2] = { 1, (int)(bytes % BLOCK) };
	nx_aint at[2] = { 0, bytes - bytes % BLOCK };
	int e = drv->type_contiguous(BLOCK, drv->type[NX_TYPE_BYTE], &block);
	if (e) return e;
	e = drv->type_contiguous((int)(bytes / BLOCK), block, &parts[0]);
	drv->type_free(&block);
	if (e) return e;
	parts[1] = drv->type[NX_TYPE_BYTE];
	e = drv->type_create_struct(2, n, at, parts, t);
	drv->type_free(&parts[0]);
	if (e) return e;
	e = drv->type_commit(*t);
	if (e) drv->type_free(t);
	return e;
}

/* Hands the first bytes of a drained message to the application by way of the real MPI: sent to ourselves as
 * packed bytes, received with the application's type. So partial elements and strided types are the library's
 * own affair. */
static int send_to_self(struct vdrained *d, int n, rh_t t, void *buf, int count, nx_t type, nx_status *st)
{
	static uint32_t deliveries;
	enum { TAGS = 32768 };  /* as many as every MPI has; each thread's delivery has one of its own */
	int tag = (int)(__atomic_fetch_add(&deliveries, 1, __ATOMIC_RELAXED) % TAGS), flag = 0;
	rh_t sq, rq;
	int e = drv->irecv(buf, count, RTYPE(type), 0, tag, own_self, &rq);
	if (e) return e;
	e = drv->isend(d->data, n, t, 0, tag, own_self, &sq);
	if (e) {                        /* the buffer is the application's, and must not be filled later */
		drv->cancel(rq);
		while (!drv->test(&rq, &flag, NULL) && !flag) ;
		return e;
	}
	while (!e && !flag) e = drv->test(&rq, &flag, st);
	flag = 0;
	for (int failed = 0; !failed && !flag; e = e ? e : failed) failed = drv->test(&sq, &flag, NULL);
	return e;
}

static int deliver_by_self(struct vdrained *d, int64_t bytes, void *buf, int count, nx_t type, nx_status *st)
{
	rh_t t;
	if (bytes <= INT_MAX)
		return send_to_self(d, (int)bytes, drv->type[NX_TYPE_PACKED], buf, count, type, st);
	int e = long_type(bytes, &t);
	if (e) return e;
	e = send_to_self(d, 1, t, buf, count, type, st);
	drv->type_free(&t);
	return e;
}

/* A message that is longer than its receive fills it, and is an error there (MPI-4.1 section 3.2.4). */
bool drained_deliver(struct vdrained *d, void *buf, int count, nx_t type, nx_status *st, int *err)
{
	const struct vtype *t = NX_TYPE(type);
	int64_t room = (int64_t)count * t->size, bytes = d->bytes < room ? d->bytes : room;
	int source = d->source < 0 ? in_hand(d->source) : d->source;
	nx_status own = { source, d->tag, 0, 0, bytes };
	if (t->contiguous) {
		memcpy((char *)buf + t->true_lb, d->data, (size_t)bytes);
	} else if (bytes) {
		*err = deliver_by_self(d, bytes, buf, count, type, &own);
		if (*err) return false;
		own.source = source;
		own.tag = d->tag;
	}
	if (st) *st = own;
	*err = sync_acknowledge(d);
	if (d->bytes > room) *err = NX_ERR_TRUNCATE;
	return true;
}

/* -- taking messages off the network --------------------------------------------------------------------- */

/* An error that is returned has left the message in the real MPI. After one of the receive itself nobody
 * knows where the message is, and this rank cannot go on as if it had not been sent. */
static int held_recv(struct vdrained *d, int source, int tag, rh_t comm, rh_t *message)
{
	rh_t t = drv->type[NX_TYPE_BYTE];
	bool is_long = d->bytes > INT_MAX;
	int n = is_long ? 1 : (int)d->bytes, e = is_long ? long_type(d->bytes, &t) : 0;
	nx_status st;
	if (e) return e;
	e = message ? drv->mrecv(d->data, n, t, message, &st)
		    : drv->recv(d->data, n, t, source, tag, comm, &st);
	if (e)
		core_die("draining messages: one of %ld bytes from rank %u is lost, since the MPI could not "
			 "receive it: error class %d",
			 d->bytes, d->world, e);
	if (is_long) drv->type_free(&t);
	return 0;
}

static struct vdrained *held_new(const struct vcomm *c, int source, int tag, int64_t bytes)
{
	struct vdrained *d =
		core_fault_fails(ABI_FAULT_RANK_DRAIN) ? NULL : nx_malloc(sizeof *d + (size_t)bytes);
	if (!d) return NULL;
	d->world = c->peer[source].world;
	d->sync = 0;
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
		struct vdrained *d = held_new(c, st.source, st.tag, st.bytes);
		if (!d) return NX_ERR_NO_MEM;
		e = held_recv(d, st.source, st.tag, real, NULL);
		if (e) {
			nx_free(d);
			return e;
		}
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
		struct vdrained *d = held_new(NX_COMM(m->comm), m->source, m->tag, m->bytes);
		if (!d) return NX_ERR_NO_MEM;
		int e = held_recv(d, m->source, m->tag, 0, &RMSG(m->handle));
		if (e) {
			nx_free(d);
			return e;
		}
		count_taken(NX_COMM(m->comm), m->source);
		sync_received(m, NX_COMM(m->comm));
		d->sync = m->sync;
		m->held = d;
	}
	return 0;
}

static bool is_waiting(const struct vrequest *r, uint32_t i)
{
	return NX_INDEX(r->handle) == i && (r->flags & (NX_RF_ACTIVE | NX_RF_DONE)) == NX_RF_ACTIVE;
}

/* Tests r; true: complete, or (a synchronous send, in a drain) so for the real MPI. */
static bool poll_one(struct vrequest *r)
{
	bool over;
	if (pending_of(r)->settles && pending_of(r)->settles(r, &over)) return over;
	nx_status st = empty_status;
	int flag, e = request_poll(r, &flag, &st);
	if (!flag) return false;
	r->st = st;
	r->st.error = e;
	r->flags |= NX_RF_DONE;
	return true;
}

uint32_t requests_progress(nx_t comm)
{
	uint32_t left = 0;
	for (uint32_t i = NX_DYNAMIC; i < nx_high(NX_K_REQUEST); i++) {
		struct vrequest *r = NX_REQUEST(i);
		if (is_waiting(r, i) && NX_INDEX(r->comm) == NX_INDEX(comm)) left += !poll_one(r);
	}
	return left;
}

/* The requests that were waiting when the drain began, in a ring. Of thousands only a few can be complete at
 * a time, and a test of one that is not is slow: a turn tests some, and the next one continues behind them.
 */
/* open: those that must complete before an image */
static struct { uint32_t *at, n, first, cap; uint32_t open; } ring;

static bool stays_open(const struct vrequest *r)
{
	return pending_of(r)->stays_open && pending_of(r)->stays_open(r);
}

static int ring_fill(void)
{
	uint32_t high = nx_high(NX_K_REQUEST);
	free(ring.at);
	ring = (__typeof__(ring)){ .at = malloc(high * sizeof *ring.at), .cap = high };
	if (!ring.at) return NX_ERR_NO_MEM;
	for (uint32_t i = NX_DYNAMIC; i < high; i++) {
		const struct vrequest *r = NX_REQUEST(i);
		if (!is_waiting(r, i) || (r->flags & NX_RF_HELD) || stays_open(r)) continue;
		ring.at[ring.n++] = i;
		ring.open += pending_of(r)->must_complete;
	}
	return 0;
}

static void ring_turn(void)
{
	enum { LOOKS = 16 };
	for (uint32_t looks = ring.n < LOOKS ? ring.n : LOOKS; looks > 0 && ring.n > 0; ) {
		uint32_t i = ring.at[ring.first];
		struct vrequest *r = NX_REQUEST(i);
		bool open = pending_of(r)->must_complete;
		ring.first = (ring.first + 1) % ring.cap;
		ring.n--;
		if (poll_one(r)) {
			ring.open -= open;
			continue;
		}
		ring.at[(ring.first + ring.n++) % ring.cap] = i;
		looks--;
	}
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

/* What the ranks tell each other: one line of the exchange for each pair. */
enum { MESSAGES, ACKS, NOTES, LINE };
static struct {
	uint64_t *mine, *theirs;  /* [size][LINE]; what this rank has sent, what the others have sent to it */
	uint64_t *sent, *taken;                 /* [size] messages */
} counts;

int drain_start(void)
{
	size_t size = (size_t)NX_STATE->size;
	counts.mine = calloc((2 * LINE + 2) * size, sizeof *counts.mine);
	if (!counts.mine) return NX_ERR_NO_MEM;
	counts.theirs = counts.mine + LINE * size;
	counts.sent = counts.theirs + LINE * size;
	counts.taken = counts.sent + size;
	return 0;
}

/* Collective, and the only thing that must not fail before it: its memory is there from the beginning. */
static int tell_counts(void)
{
	int size = NX_STATE->size;
	memset(counts.mine, 0, LINE * (size_t)size * sizeof *counts.mine);
	memset(counts.sent, 0, (size_t)size * sizeof *counts.sent);
	memset(counts.taken, 0, (size_t)size * sizeof *counts.taken);
	sum_counts(counts.sent, counts.taken);
	for (int w = 0; w < size; w++) {
		counts.mine[w * LINE + MESSAGES] = counts.sent[w];
		counts.mine[w * LINE + ACKS] = sync_acks_sent(w);
	}
	sync_count_notes(counts.mine + NOTES, LINE);
	rh_t u64 = drv->type[NX_TYPE_UINT64_T];
	return drv->alltoall(counts.mine, LINE, u64, counts.theirs, LINE, u64, own_world);
}

/* True when all that was sent to this rank has been taken, but for what the application has matched and not
 * received. */
static bool settled(void)
{
	memset(counts.taken, 0, (size_t)NX_STATE->size * sizeof *counts.taken);
	sum_counts(NULL, counts.taken);
	for (uint32_t i = NX_DYNAMIC; i < nx_high(NX_K_MESSAGE); i++) {
		const struct vmessage *m = NX_MESSAGE(i);
		if (NX_INDEX(m->handle) == i && !m->held)
			counts.taken[NX_COMM(m->comm)->peer[m->source].world]++;
	}
	for (int w = 0; w < NX_STATE->size; w++)
		if (counts.taken[w] != counts.theirs[w * LINE + MESSAGES] ||
		    sync_acks_taken(w) != counts.theirs[w * LINE + ACKS])
			return false;
	return true;
}

static void rest(unsigned *spins)
{
	enum { SOMETIMES = 64 };
	if (++*spins % SOMETIMES == 0) wait_step_slow(*spins);
}

/* One round of a loop in which something is waited for; false: nothing is left that must complete. */
static bool turn(unsigned *spins)
{
	rest(spins);
	ring_turn();
	return !sync_acks_gone() || ring.open;
}

static int take_all(void)
{
	int e;
	for (unsigned spins = 0; !(e = drain_all_comms()) && !(e = sync_take_acks()) && !settled();)
		turn(&spins);
	return e;
}

static int settle_synchronous(void)
{
	bool all = !sync_in_talks();
	int e = 0;
	for (unsigned spins = 0; !e && !all; turn(&spins)) e = sync_converse(&all);
	return e;
}

/* When the checkpoint is given up a send may stay open: its receiver has failed, and will not take it now. */
static int finish_requests(void)
{
	int e = drain_matched();
	for (unsigned spins = 0; !e && turn(&spins);)
		if (core_cancelled()) return NX_ERR_PENDING;
	return e;
}

static int drain(void)
{
	int e = sync_begin(counts.mine + NOTES, counts.theirs + NOTES, LINE);
	bool promised = e || sync_in_talks();   /* others wait for what this rank says */
	if (!e) e = ring_fill();
	if (!e) e = take_all();
	if (!e) e = settle_synchronous();
	if (e && promised)
		core_die("draining messages: error class %d; which synchronous sends are complete cannot be "
			 "said any more",
			 e);
	if (!e) e = finish_requests();
	sync_conclude();
	return e;
}

/* Whether all have come to the end, when all have. Who has drained takes no message from here on: another
 * rank may be past this, have written its image, gone on and sent one, which it will send again if it comes
 * back from that image. Who has failed still takes what others wait for; then nobody writes. */
int p2p_drained(int mine)
{
	int worst = NX_ERR_OTHER, flag = 0;
	rh_t q;
	if (drv->iallreduce(&mine, &worst, 1, drv->type[NX_TYPE_INT], drv->op[NX_OP_MAX], own_world, &q))
		return -1;
	for (unsigned spins = 0; !drv->test(&q, &flag, NULL);) {
		bool late = flag && core_fault_fails(ABI_FAULT_RANK_OUTCOME);
		if (flag && !late) return worst ? -1 : 0;
		if (late) core_stop_here();
		if (mine) turn(&spins);
		else rest(&spins);
	}
	return -1;
}

int p2p_drain(char *why, size_t n)
{
	agree_settle_all();
	int e = tell_counts();
	if (!e) e = drain();
	if (core_cancelled()) snprintf(why, n, "given up while messages were drained");
	else if (e)
		snprintf(why, n, "draining messages: %s",
			 e == NX_ERR_NO_MEM ? "no memory for them" : "the MPI reports an error");
	else snprintf(why, n, "another rank could not drain its messages");
	if (e && !core_cancelled()) core_checkpoint_failed(why);
	return e;
}

/* -- after a restart ------------------------------------------------------------------------------------- */

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
		bool open = NX_INDEX(r->handle) == i &&
			    (r->flags & (NX_RF_ACTIVE | NX_RF_DONE | NX_RF_HELD)) == NX_RF_ACTIVE;
		if (!open || pending_of(r)->repost != p2p_repost_all) continue;
		list[k++] = r;
	}
	if (list) qsort(list, k, sizeof *list, by_order);
	for (uint32_t i = 0; list && i < k && !e; i++) {
		struct vrequest *r = list[i];
		if (!RCOMM(r->comm)) continue;
		e = drv->irecv(r->buf, r->count, RTYPE(r->type), r->peer, r->tag, RCOMM(r->comm),
			       &RREQ(r->handle));
		if (!e && (r->flags & NX_RF_CANCEL)) e = drv->cancel(RREQ(r->handle));
	}
	if (e || !list) snprintf(why, n, "posting %u receives again: error class %d", k, e);
	free(list);
	return e || !list ? -1 : 0;
}
