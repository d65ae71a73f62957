/* synchronous.c: synchronous sends across a checkpoint.
 *
 * Such a send completes when a matching receive has started (MPI-4.1 section 3.4). A checkpoint takes its
 * message off the network, which completes it for the real MPI, but not for the application: its request is
 * HELD, in saved memory, until the receiver hands the message out and acknowledges it by a message of our
 * own, in this process or in a later one.
 *
 * Which of the messages that a receiver has drained is the one of a given send? Messages from one rank to
 * another on one communicator with one tag (a lane) are received in the order of sending, so what is drained
 * is always the last part of its lane. The sender says how many messages of the lane have followed; the
 * receiver counts from the end. So while a synchronous send is open, the sends of its lane are counted. A
 * message that the application has matched (MPI_Mprobe) and not received need not be in that last part: while
 * there is one, receives that are posted after it are counted in it. Meanwhile the communicator has no routes
 * (route.h).
 *
 *   sender: Send a, Ssend b, Send c               at the checkpoint tells: one message has followed b
 *   receiver: Recv a                              has drained b and c; one has followed b: b is meant
 *   both are restarted under another MPI          b's request is HELD; MPI_Test: not complete
 *   receiver: Recv b, out of the drained ones     acknowledges; sender: MPI_Test: complete
 *
 * Invariants: c->syncs is the number of requests on c that are SYNC and not HELD; a lane has a counter at
 * least while there is one of these in it; a HELD request is ACTIVE and has no real one. c->matched is the
 * number of messages on c that are matched and only in the real MPI. A drained message is acknowledged once,
 * if a synchronous send is its own. Context: as traffic.h; those at a checkpoint as p2p_drain. Counters lie
 * in lower memory: an image is only made when no synchronous send is open that is not HELD, and no
 * acknowledgement is under way. */
#include <stdlib.h>
#include <string.h>
#include "traffic.h"

/* -- lanes ----------------------------------------------------------------------------------------------- */

struct lane { uint32_t comm; int32_t dest, tag; uint32_t used; uint64_t count; };
/* hashed, cap a power of two; open: requests */
static struct { struct lane *at; uint32_t cap, n, open; } lanes;
static uint32_t send_lock;
enum { LONG = 4096 };   /* as wait_step_slow counts: whoever waits for a lock lets others run at once */

/* Counting and sending are one step when several threads may send: a lane's order is that of its counter. */
void sync_lock(void)
{
	while (__atomic_exchange_n(&send_lock, 1, __ATOMIC_ACQUIRE)) wait_step_slow(LONG);
}

void sync_unlock(void) { __atomic_store_n(&send_lock, 0, __ATOMIC_RELEASE); }

static struct lane *place(struct lane *at, uint32_t cap, uint32_t comm, int dest, int tag)
{
	uint64_t h = (comm * 0x9e3779b97f4a7c15u ^ (uint32_t)dest) * 0xff51afd7ed558ccdu ^ (uint32_t)tag;
	h *= 0xc4ceb9fe1a85ec53u;
	for (uint32_t i = (uint32_t)(h >> 32);; i++) {
		struct lane *s = &at[i & (cap - 1)];
		if (!s->used || (s->comm == comm && s->dest == dest && s->tag == tag)) return s;
	}
}

static bool grow(void)
{
	uint32_t cap = lanes.cap ? 2 * lanes.cap : 16;
	struct lane *at = calloc(cap, sizeof *at);
	if (!at) return false;
	for (uint32_t i = 0; i < lanes.cap; i++) {
		struct lane *s = &lanes.at[i];
		if (s->used) *place(at, cap, s->comm, s->dest, s->tag) = *s;
	}
	free(lanes.at);
	lanes.at = at;
	lanes.cap = cap;
	return true;
}

int sync_prepare(const struct vcomm *c, int dest, int tag)
{
	if (2 * lanes.n >= lanes.cap && !grow()) return NX_ERR_NO_MEM;
	struct lane *s = place(lanes.at, lanes.cap, NX_INDEX(c->handle), dest, tag);
	if (s->used) return 0;
	*s = (struct lane){ NX_INDEX(c->handle), dest, tag, 1, 0 };
	lanes.n++;
	return 0;
}

void sync_posted(struct vrequest *r, struct vcomm *c)
{
	if ((uint32_t)r->peer >= (uint32_t)c->size) return;     /* MPI_PROC_NULL: complete at once */
	r->flags |= NX_RF_SYNC;
	r->order = place(lanes.at, lanes.cap, NX_INDEX(c->handle), r->peer, r->tag)->count;
	lanes.open++;
	if (c->syncs++ == 0) route_forget(c->handle);
}

void sync_followed(const struct vcomm *c, int dest, int tag)
{
	struct lane *s = place(lanes.at, lanes.cap, NX_INDEX(c->handle), dest, tag);
	if (s->used) s->count++;
}

/* No send is open any more: nothing need be counted. */
static void forget_lanes(void)
{
	enum { SMALL = 64 };
	if (lanes.cap > SMALL) {
		free(lanes.at);
		lanes.at = NULL;
		lanes.cap = 0;
	} else if (lanes.cap) {
		memset(lanes.at, 0, lanes.cap * sizeof *lanes.at);
	}
	lanes.n = 0;
}

void sync_closed(struct vrequest *r)
{
	struct vcomm *c = NX_COMM(r->comm);
	if (NX_STATE->multiple) sync_lock();
	r->flags &= (uint8_t)~NX_RF_SYNC;
	c->syncs--;
	if (--lanes.open == 0) forget_lanes();
	if (NX_STATE->multiple) sync_unlock();
}

/* -- matched messages ------------------------------------------------------------------------------------ */

void sync_matched(struct vmessage *m, struct vcomm *c)
{
	m->order = next_order();
	m->overtaken = 0;
	if (__atomic_fetch_add(&c->matched, 1, __ATOMIC_RELAXED) == 0) route_forget(c->handle);
}

void sync_overtaken(struct vcomm *c, int source, int tag, uint64_t order)
{
	nx_lock();
	for (uint32_t i = NX_DYNAMIC; i < nx_high(NX_K_MESSAGE); i++) {
		struct vmessage *m = NX_MESSAGE(i);
		if (NX_INDEX(m->handle) != i || m->held || NX_COMM(m->comm) != c) continue;
		if (m->source == source && m->tag == tag && m->order < order) m->overtaken++;
	}
	nx_unlock();
}

void sync_received(const struct vmessage *m, struct vcomm *c)
{
	if (__atomic_sub_fetch(&c->matched, 1, __ATOMIC_RELAXED))
		sync_overtaken(c, m->source, m->tag, m->order);
}

/* -- acknowledgements ------------------------------------------------------------------------------------ */

struct ack { struct ack *next; rh_t real; uint32_t handle; };
static struct ack *acks;                        /* that the real MPI has not completed */
static uint32_t ack_lock;
static uint64_t *acks_sent, *acks_taken;        /* by rank in MPI_COMM_WORLD; of this process */

int sync_start(void)
{
	size_t n = (size_t)NX_STATE->size;
	acks_sent = calloc(2 * n, sizeof *acks_sent);
	acks_taken = acks_sent + n;
	return acks_sent ? 0 : NX_ERR_NO_MEM;
}

static void lock_acks(void)
{
	while (__atomic_exchange_n(&ack_lock, 1, __ATOMIC_ACQUIRE)) wait_step_slow(LONG);
}

static void unlock_acks(void) { __atomic_store_n(&ack_lock, 0, __ATOMIC_RELEASE); }

bool sync_acks_gone(void)
{
	if (!acks) return true;
	lock_acks();
	for (struct ack **p = &acks, *a; (a = *p); ) {
		int flag = 0;
		if (drv->test(&a->real, &flag, NULL) || flag) {
			*p = a->next;
			free(a);
		} else {
			p = &a->next;
		}
	}
	bool gone = !acks;
	unlock_acks();
	return gone;
}

int sync_acknowledge(const struct vdrained *d)
{
	if (!d->sync) return 0;
	struct ack *a = malloc(sizeof *a);
	if (!a) return NX_ERR_NO_MEM;
	a->handle = d->sync;
	lock_acks();
	int e = drv->isend(&a->handle, 1, drv->type[NX_TYPE_UINT32_T], (int)d->world, OWN_TAG_ACK, own_world,
			   &a->real);
	if (e) {
		free(a);
	} else {
		acks_sent[d->world]++;
		a->next = acks;
		acks = a;
	}
	unlock_acks();
	sync_acks_gone();
	return e;
}

/* The receive that h sent to has started. */
static void acknowledged(nx_t h)
{
	struct vrequest *r = NX_REQUEST(h);
	if (r->handle != h || !(r->flags & NX_RF_HELD)) return;
	r->st = empty_status;
	__atomic_fetch_sub(&NX_STATE->held, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_and(&r->flags, (uint8_t)~(NX_RF_HELD | NX_RF_SYNC), __ATOMIC_SEQ_CST);
	__atomic_fetch_or(&r->flags, NX_RF_DONE, __ATOMIC_SEQ_CST);
}

int sync_take_acks(void)
{
	for (;;) {
		int flag = 0, e;
		rh_t m;
		nx_status st;
		nx_t h;
		e = drv->improbe(NX_ANY_SOURCE, OWN_TAG_ACK, own_world, &flag, &m, &st);
		if (e || !flag) return e;
		e = drv->mrecv(&h, 1, drv->type[NX_TYPE_UINT32_T], &m, &st);
		if (e) return e;
		__atomic_fetch_add(&acks_taken[st.source], 1, __ATOMIC_RELAXED);
		acknowledged(h);
	}
}

uint64_t sync_acks_sent(int world) { return acks_sent[world]; }
uint64_t sync_acks_taken(int world) { return acks_taken[world]; }

/* -- at a checkpoint: what the sender tells -------------------------------------------------------------- */

/* An open synchronous send, as its receiver is told of it. */
struct note { uint64_t comm; int32_t tag; uint32_t followed; uint32_t handle, pad; };
/* What the receiver answers to a note. */
enum { RECEIVED, HELD };

/* The talk with one other rank, and the messages of it. */
enum { NOTES_OUT, NOTES_IN, ANSWERS_OUT, ANSWERS_IN, TALK_MESSAGES };
struct talk {
	uint32_t n, of;                         /* notes to it, notes from it */
	struct note *notes, *its;
	uint8_t *answer, *ours;                 /* to our notes; to its */
	rh_t q[TALK_MESSAGES];                  /* 0: over */
	bool answered;
};
static struct talk *talks;                      /* by rank in MPI_COMM_WORLD; NULL between checkpoints */

/* Its kind is asked for here because a walk over all requests meets others, whose same bit means something
 * else. */
static bool is_open(const struct vrequest *r, uint32_t i)
{
	return NX_INDEX(r->handle) == i && r->kind == NX_RQ_SEND &&
	       (r->flags & (NX_RF_SYNC | NX_RF_HELD | NX_RF_DONE)) == NX_RF_SYNC;
}

static struct note note_of(const struct vrequest *r)
{
	const struct vcomm *c = NX_COMM(r->comm);
	const struct lane *s = place(lanes.at, lanes.cap, NX_INDEX(c->handle), r->peer, r->tag);
	return (struct note){
		.comm = c->id, .tag = r->tag, .followed = (uint32_t)(s->count - r->order), .handle = r->handle
	};
}

void sync_count_notes(uint64_t *counts, int step)
{
	for (uint32_t i = NX_DYNAMIC; lanes.open && i < nx_high(NX_K_REQUEST); i++) {
		const struct vrequest *r = NX_REQUEST(i);
		if (is_open(r, i)) counts[(int)NX_COMM(r->comm)->peer[r->peer].world * step]++;
	}
}

static int make_talk(struct talk *t, uint32_t n, uint32_t of)
{
	t->n = n;
	t->of = of;
	t->notes = calloc(n + of + 1, sizeof *t->notes + sizeof *t->answer);
	if (!t->notes) return NX_ERR_NO_MEM;
	t->its = t->notes + n;
	t->answer = (uint8_t *)(t->its + of);
	t->ours = t->answer + n;
	return 0;
}

static int write_notes(int size)
{
	uint32_t *k = calloc((size_t)size, sizeof *k);
	if (!k) return NX_ERR_NO_MEM;
	for (uint32_t i = NX_DYNAMIC; i < nx_high(NX_K_REQUEST); i++) {
		const struct vrequest *r = NX_REQUEST(i);
		if (!is_open(r, i)) continue;
		uint32_t w = NX_COMM(r->comm)->peer[r->peer].world;
		talks[w].notes[k[w]++] = note_of(r);
	}
	free(k);
	return 0;
}

static int send_notes(struct talk *t, int world)
{
	rh_t byte = drv->type[NX_TYPE_BYTE];
	int n = (int)(t->n * sizeof *t->notes), of = (int)(t->of * sizeof *t->its), e = 0;
	if (n) e = drv->isend(t->notes, n, byte, world, OWN_TAG_NOTES, own_world, &t->q[NOTES_OUT]);
	if (!e && of) e = drv->irecv(t->its, of, byte, world, OWN_TAG_NOTES, own_world, &t->q[NOTES_IN]);
	if (!e && n)
		e = drv->irecv(t->answer, (int)t->n, byte, world, OWN_TAG_ANSWERS, own_world,
			       &t->q[ANSWERS_IN]);
	return e;
}

int sync_begin(const uint64_t *mine, const uint64_t *theirs, int step)
{
	int size = NX_STATE->size, e = 0;
	bool any = false;
	for (int w = 0; w < size; w++) any |= mine[w * step] || theirs[w * step];
	if (!any) return 0;
	talks = calloc((size_t)size, sizeof *talks);
	if (!talks) return NX_ERR_NO_MEM;
	for (int w = 0; !e && w < size; w++)
		e = make_talk(&talks[w], (uint32_t)mine[w * step], (uint32_t)theirs[w * step]);
	if (!e) e = write_notes(size);
	for (int w = 0; !e && w < size; w++) e = send_notes(&talks[w], w);
	return e;
}

bool sync_in_talks(void) { return talks != NULL; }

/* -- at a checkpoint: what the receiver has -------------------------------------------------------------- */

/* A message that was drained, or matched and not received. */
struct found {
	uint64_t comm;
	int32_t tag;
	uint32_t matched;
	uint64_t order;                         /* of those that were drained, of those that were matched */
	uint64_t followed;      /* messages of the lane that were received, matched or drained after it */
	nx_t *sync;
};
struct finds { struct found *at; size_t n, cap; };

static int by_lane(const void *x, const void *y)
{
	const struct found *a = x, *b = y;
	if (a->comm != b->comm) return a->comm < b->comm ? -1 : 1;
	if (a->tag != b->tag) return a->tag < b->tag ? -1 : 1;
	if (a->matched != b->matched) return a->matched ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

static int found(struct finds *f, struct found one)
{
	if (f->n == f->cap) {
		size_t cap = f->cap ? 2 * f->cap : 64;
		struct found *at = realloc(f->at, cap * sizeof *at);
		if (!at) return NX_ERR_NO_MEM;
		f->at = at;
		f->cap = cap;
	}
	f->at[f->n++] = one;
	return 0;
}

/* What there is of one sender, in no order. */
static int find_all(uint32_t world, struct finds *f)
{
	int e = 0;
	for (uint32_t i = NX_COMM_WORLD; !e && i < nx_high(NX_K_COMM); i++) {
		struct vcomm *c = NX_COMM(i);
		if (NX_INDEX(c->handle) != i || !c->handle || !c->peer) continue;
		for (struct vdrained *d = c->drained; !e && d; d = d->next)
			if (d->world == world)
				e = found(f, (struct found){ c->id, d->tag, 0, f->n, 0, &d->sync });
	}
	for (uint32_t i = NX_DYNAMIC; !e && i < nx_high(NX_K_MESSAGE); i++) {
		struct vmessage *m = NX_MESSAGE(i);
		if (NX_INDEX(m->handle) != i || m->held) continue;
		const struct vcomm *c = NX_COMM(m->comm);
		if (c->peer[m->source].world == world)
			e = found(f, (struct found){ c->id, m->tag, 1, m->order, m->overtaken, &m->sync });
	}
	return e;
}

static bool same_lane(const struct found *a, const struct found *b)
{
	return a->comm == b->comm && a->tag == b->tag;
}

/* In each lane matched messages in order, then drained ones in order: each is followed by all that come after
 * it here. */
static void order_all(struct finds *f)
{
	if (f->n) qsort(f->at, f->n, sizeof *f->at, by_lane);
	for (size_t i = f->n, after = 0; i-- > 0; after++) {
		if (i + 1 == f->n || !same_lane(&f->at[i], &f->at[i + 1])) after = 0;
		f->at[i].followed += after;
	}
}

/* The entry that a note means, or NULL: its message has been received. In a lane `followed` goes down. */
static struct found *meant(const struct finds *f, const struct note *n)
{
	size_t lo = 0, hi = f->n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		const struct found *x = &f->at[mid];
		bool before = x->comm != n->comm ? x->comm < n->comm
			      : x->tag != n->tag ? x->tag < n->tag
						 : x->followed > n->followed;
		if (before) lo = mid + 1;
		else hi = mid;
	}
	struct found *x = lo < f->n ? &f->at[lo] : NULL;
	return x && x->comm == n->comm && x->tag == n->tag && x->followed == n->followed ? x : NULL;
}

static int answer_one(struct talk *t, uint32_t world)
{
	struct finds f = { 0 };
	int e = find_all(world, &f);
	if (!e) order_all(&f);
	for (uint32_t i = 0; !e && i < t->of; i++) {
		struct found *x = meant(&f, &t->its[i]);
		t->ours[i] = x ? HELD : RECEIVED;
		if (x) *x->sync = t->its[i].handle;
	}
	free(f.at);
	t->answered = true;
	if (e) return e;
	return drv->isend(t->ours, (int)t->of, drv->type[NX_TYPE_BYTE], (int)world, OWN_TAG_ANSWERS,
			  own_world, &t->q[ANSWERS_OUT]);
}

static bool over(rh_t *q)
{
	int flag = 0;
	if (*q && (drv->test(q, &flag, NULL) || flag)) *q = 0;
	return !*q;
}

int sync_converse(bool *all)
{
	*all = true;
	for (int w = 0; talks && w < NX_STATE->size; w++) {
		struct talk *t = &talks[w];
		if (t->of && !t->answered && over(&t->q[NOTES_IN])) {
			int e = answer_one(t, (uint32_t)w);
			if (e) return e;
		}
		for (int k = 0; k < TALK_MESSAGES; k++) *all &= over(&t->q[k]);
		*all &= t->answered || !t->of;
	}
	return 0;
}

/* -- at a checkpoint: what becomes of the sends ---------------------------------------------------------- */

/* True: complete for the real MPI; whether by a receive or by the drain comes out later. */
static bool complete_for_real(struct vrequest *r)
{
	int flag = 0, e;
	if (RREQ(r->handle) == drv->request_null) return true;
	e = drv->test(&RREQ(r->handle), &flag, NULL);
	if (e || flag) RREQ(r->handle) = drv->request_null;
	return e || flag;
}

bool sync_settles(struct vrequest *r, bool *over)
{
	if ((r->flags & (NX_RF_SYNC | NX_RF_HELD)) != NX_RF_SYNC || !sync_in_talks()) return false;
	*over = complete_for_real(r);
	return true;
}

/* A send that is not complete for the real MPI stays open: that is so only when the checkpoint has failed. */
static void conclude_one(nx_t h, uint8_t answer)
{
	struct vrequest *r = NX_REQUEST(h);
	if (RREQ(h) != drv->request_null) return;
	sync_closed(r);
	RREQ(h) = 0;
	r->st = empty_status;
	if (answer == HELD) {
		r->flags |= NX_RF_SYNC | NX_RF_HELD;
		NX_STATE->held++;
	} else {
		r->flags |= NX_RF_DONE;
	}
}

void sync_conclude(void)
{
	for (int w = 0; talks && w < NX_STATE->size; w++) {
		for (uint32_t i = 0; i < talks[w].n; i++)
			conclude_one(talks[w].notes[i].handle, talks[w].answer[i]);
		free(talks[w].notes);
	}
	free(talks);
	talks = NULL;
}
