/* synchronous.c: synchronous sends across a checkpoint.
 *
 * Such a send completes when a matching receive has started (MPI-4.1 section 3.4). A checkpoint takes its message off the
 * network, which completes it for the real MPI, but not for the application: its request is HELD, in saved memory, until
 * the receiver hands the message out and acknowledges it by a message of our own, in this process or in a later one.
 *
 * Which of the messages that a receiver has drained is the one of a given send? Messages from one rank to another on one
 * communicator with one tag (a stream) are received in the order of sending, so what is drained is always the last part of
 * its stream. The sender says how many messages of the stream have followed; the receiver counts from the end. So while
 * a synchronous send is open, the sends of its stream are counted, and its communicator has no routes (route.h).
 *
 * Invariants: c->syncs is the number of requests on c that are SYNC and not HELD; a stream has a counter at least while
 * there is one of these in it; a HELD request is ACTIVE and has no real one. Between two checkpoints a rank
 * sends as many acknowledgements as it takes with the messages that it hands out.
 * Context: as middle.h; the functions sync_at_checkpoint_... as p2p_drain. Counters lie in lower memory: an image is only
 * made when no synchronous send is open that is not HELD, and no acknowledgement is under way. */
#include <stdlib.h>
#include <string.h>
#include "request.h"
#include "synchronous.h"

/* -- streams -------------------------------------------------------------------------------------------------------- */

struct stream { uint32_t comm; int32_t dest, tag; uint32_t used; uint64_t count; };
static struct { struct stream *at; uint32_t cap, n, open; } streams;    /* hashed, cap a power of two; open: requests */
static uint32_t send_lock;

/* Counting and sending are one step when several threads may send: a stream's order is that of its counter. */
void sync_lock(void)
{
	while (__atomic_exchange_n(&send_lock, 1, __ATOMIC_ACQUIRE)) wait_step_slow(4096);
}

void sync_unlock(void) { __atomic_store_n(&send_lock, 0, __ATOMIC_RELEASE); }

static struct stream *place(struct stream *at, uint32_t cap, uint32_t comm, int dest, int tag)
{
	uint64_t h = (comm * 0x9e3779b97f4a7c15u ^ (uint32_t)dest) * 0xff51afd7ed558ccdu ^ (uint32_t)tag;
	h *= 0xc4ceb9fe1a85ec53u;
	for (uint32_t i = (uint32_t)(h >> 32);; i++) {
		struct stream *s = &at[i & (cap - 1)];
		if (!s->used || (s->comm == comm && s->dest == dest && s->tag == tag)) return s;
	}
}

static bool grow(void)
{
	uint32_t cap = streams.cap ? 2 * streams.cap : 16;
	struct stream *at = calloc(cap, sizeof *at);
	if (!at) return false;
	for (uint32_t i = 0; i < streams.cap; i++) {
		struct stream *s = &streams.at[i];
		if (s->used) *place(at, cap, s->comm, s->dest, s->tag) = *s;
	}
	free(streams.at);
	streams.at = at;
	streams.cap = cap;
	return true;
}

int sync_prepare(const struct vcomm *c, int dest, int tag)
{
	if (2 * streams.n >= streams.cap && !grow()) return NX_ERR_NO_MEM;
	struct stream *s = place(streams.at, streams.cap, NX_INDEX(c->handle), dest, tag);
	if (s->used) return 0;
	*s = (struct stream){ NX_INDEX(c->handle), dest, tag, 1, 0 };
	streams.n++;
	return 0;
}

void sync_posted(struct vrequest *r, struct vcomm *c)
{
	if ((uint32_t)r->peer >= (uint32_t)c->size) return;     /* MPI_PROC_NULL: complete at once */
	r->flags |= NX_RF_SYNC;
	r->order = place(streams.at, streams.cap, NX_INDEX(c->handle), r->peer, r->tag)->count;
	streams.open++;
	if (c->syncs++ == 0) route_forget(c->handle);
}

void sync_followed(const struct vcomm *c, int dest, int tag)
{
	struct stream *s = place(streams.at, streams.cap, NX_INDEX(c->handle), dest, tag);
	if (s->used) s->count++;
}

/* No send is open any more: nothing need be counted. */
static void forget_streams(void)
{
	enum { SMALL = 64 };
	if (streams.cap > SMALL) {
		free(streams.at);
		streams.at = NULL;
		streams.cap = 0;
	} else if (streams.cap) {
		memset(streams.at, 0, streams.cap * sizeof *streams.at);
	}
	streams.n = 0;
}

void sync_closed(struct vrequest *r)
{
	struct vcomm *c = NX_COMM(r->comm);
	if (NX_STATE->multiple) sync_lock();
	r->flags &= (uint8_t)~NX_RF_SYNC;
	c->syncs--;
	if (--streams.open == 0) forget_streams();
	if (NX_STATE->multiple) sync_unlock();
}

/* -- acknowledgements -------------------------------------------------------------------------------------------------- */

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
	while (__atomic_exchange_n(&ack_lock, 1, __ATOMIC_ACQUIRE)) wait_step_slow(4096);
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
	int e = drv->isend(&a->handle, 1, drv->type[NX_TYPE_UINT32_T], (int)d->world, OWN_TAG_ACK, own_world, &a->real);
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

/* -- at a checkpoint: what the sender says --------------------------------------------------------------------------------- */

/* An open synchronous send, as its receiver is told of it. */
struct note { uint64_t comm; int32_t tag; uint32_t followed; uint32_t handle, pad; };
/* What the receiver answers: HELD, or how many messages of the stream the application has matched and not received. */
enum { HELD = -1 };

/* The talk with one other rank. */
struct talk {
	uint32_t n, of;                         /* notes to it, notes from it */
	uint32_t doubtful;                      /* of ours, by its answer; of its, by ours */
	uint32_t its_doubtful;
	struct note *notes, *its;
	int32_t *answer, *ours;                 /* to our notes; to its */
	uint8_t *open, *still;                  /* of our doubtful notes: is the send still open? of its */
	rh_t q[6];                              /* send and receive of notes, answers, doubts */
	bool answered;
};
static struct talk *talks;                      /* by rank in MPI_COMM_WORLD; NULL between checkpoints */

static bool is_open(const struct vrequest *r, uint32_t i)
{
	return NX_INDEX(r->handle) == i && (r->flags & (NX_RF_SYNC | NX_RF_HELD | NX_RF_DONE)) == NX_RF_SYNC;
}

static struct note note_of(const struct vrequest *r)
{
	const struct vcomm *c = NX_COMM(r->comm);
	const struct stream *s = place(streams.at, streams.cap, NX_INDEX(c->handle), r->peer, r->tag);
	return (struct note){ .comm = c->id, .tag = r->tag, .followed = (uint32_t)(s->count - r->order), .handle = r->handle };
}

static int make_talk(int world, uint32_t n, uint32_t of)
{
	struct talk *t = &talks[world];
	t->n = n;
	t->of = of;
	char *p = calloc(1, (n + of) * (sizeof *t->notes + sizeof *t->answer + 1) + 1);
	if (!p) return NX_ERR_NO_MEM;
	t->notes = (struct note *)p;
	t->its = t->notes + n;
	t->answer = (int32_t *)(t->its + of);
	t->ours = t->answer + n;
	t->open = (uint8_t *)(t->ours + of);
	t->still = t->open + n;
	return 0;
}

/* How many notes this rank has for each; counts[i * step] belongs to rank i. */
void sync_count_notes(uint64_t *counts, int step)
{
	for (uint32_t i = NX_DYNAMIC; streams.open && i < nx_high(NX_K_REQUEST); i++) {
		const struct vrequest *r = NX_REQUEST(i);
		if (is_open(r, i)) counts[(int)NX_COMM(r->comm)->peer[r->peer].world * step]++;
	}
}

static int exchange(rh_t *q, void *out, size_t n, void *in, size_t m, int world, int tag)
{
	rh_t byte = drv->type[NX_TYPE_BYTE];
	int e = n ? drv->isend(out, (int)n, byte, world, tag, own_world, &q[0]) : 0;
	if (!e && m) e = drv->irecv(in, (int)m, byte, world, tag, own_world, &q[1]);
	return e;
}

int sync_begin(const uint64_t *mine, const uint64_t *theirs, int step)
{
	int size = NX_STATE->size, e = 0;
	uint32_t any = 0;
	for (int w = 0; w < size; w++) any |= (uint32_t)mine[w * step] | (uint32_t)theirs[w * step];
	if (!any) return 0;
	talks = calloc((size_t)size, sizeof *talks);
	if (!talks) return NX_ERR_NO_MEM;
	for (int w = 0; !e && w < size; w++) e = make_talk(w, (uint32_t)mine[w * step], (uint32_t)theirs[w * step]);
	uint32_t *k = e ? NULL : calloc((size_t)size, sizeof *k);
	if (!k) return NX_ERR_NO_MEM;
	for (uint32_t i = NX_DYNAMIC; i < nx_high(NX_K_REQUEST); i++) {
		const struct vrequest *r = NX_REQUEST(i);
		uint32_t w;
		if (!is_open(r, i)) continue;
		w = NX_COMM(r->comm)->peer[r->peer].world;
		talks[w].notes[k[w]++] = note_of(r);
	}
	free(k);
	for (int w = 0; !e && w < size; w++) {
		struct talk *t = &talks[w];
		e = exchange(&t->q[0], t->notes, t->n * sizeof *t->notes, t->its, t->of * sizeof *t->its, w, OWN_TAG_NOTES);
		if (!e && t->n) e = drv->irecv(t->answer, (int)(t->n * sizeof *t->answer), drv->type[NX_TYPE_BYTE], w, OWN_TAG_ANSWERS, own_world, &t->q[3]);
	}
	return e;
}

/* -- at a checkpoint: what the receiver has --------------------------------------------------------------------------------- */

/* A drained message, or one that the application has matched and not received. */
struct found { uint64_t comm; int32_t tag; uint32_t matched; uint64_t order; nx_t *sync; };

static int by_stream(const void *x, const void *y)
{
	const struct found *a = x, *b = y;
	if (a->comm != b->comm) return a->comm < b->comm ? -1 : 1;
	if (a->tag != b->tag) return a->tag < b->tag ? -1 : 1;
	if (a->matched != b->matched) return a->matched ? 1 : -1;
	return a->order < b->order ? -1 : a->order > b->order;
}

struct finds { struct found *at; size_t n, cap; };

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

/* What there is of one sender, by streams; in each, drained messages in order, then matched ones in order. */
static int find_all(uint32_t world, struct finds *f)
{
	int e = 0;
	for (uint32_t i = NX_COMM_WORLD; !e && i < nx_high(NX_K_COMM); i++) {
		struct vcomm *c = NX_COMM(i);
		if (NX_INDEX(c->handle) != i || !c->handle || !c->peer) continue;
		for (struct vdrained *d = c->drained; !e && d; d = d->next)
			if (d->world == world) e = found(f, (struct found){ c->id, d->tag, 0, f->n, &d->sync });
	}
	for (uint32_t i = NX_DYNAMIC; !e && i < nx_high(NX_K_MESSAGE); i++) {
		struct vmessage *m = NX_MESSAGE(i);
		if (NX_INDEX(m->handle) != i || m->held) continue;
		const struct vcomm *c = NX_COMM(m->comm);
		if (c->peer[m->source].world == world) e = found(f, (struct found){ c->id, m->tag, 1, m->order, &m->sync });
	}
	if (f->n) qsort(f->at, f->n, sizeof *f->at, by_stream);
	return e;
}

/* The first entry that is not before the key. */
static size_t lower_bound(const struct finds *f, struct found key)
{
	size_t lo = 0, hi = f->n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (by_stream(&f->at[mid], &key) < 0) lo = mid + 1;
		else hi = mid;
	}
	return lo;
}

/* One stream in finds: drained messages in [drained, matched), matched ones in [matched, end). */
struct part { size_t drained, matched, end; };

static struct part part_of(const struct finds *f, const struct note *n)
{
	struct found key = { .comm = n->comm, .tag = n->tag };
	struct part p = { .drained = lower_bound(f, key) };
	key.matched = 1;
	p.matched = lower_bound(f, key);
	key.order = UINT64_MAX;
	p.end = lower_bound(f, key);
	return p;
}

static int answer_one(struct talk *t, uint32_t world)
{
	struct finds f = { 0 };
	int e = find_all(world, &f);
	for (uint32_t i = 0; !e && i < t->of; i++) {
		const struct note *n = &t->its[i];
		struct part p = part_of(&f, n);
		if (n->followed < p.matched - p.drained) {
			*f.at[p.matched - 1 - n->followed].sync = n->handle;
			t->ours[i] = HELD;
		} else {
			t->ours[i] = (int32_t)(p.end - p.matched);
			t->its_doubtful += t->ours[i] > 0;
		}
	}
	free(f.at);
	rh_t byte = drv->type[NX_TYPE_BYTE];
	if (!e) e = drv->isend(t->ours, (int)(t->of * sizeof *t->ours), byte, (int)world, OWN_TAG_ANSWERS, own_world, &t->q[2]);
	if (!e && t->its_doubtful) e = drv->irecv(t->still, (int)t->of, byte, (int)world, OWN_TAG_DOUBTS, own_world, &t->q[5]);
	t->answered = true;
	return e;
}

static bool over(rh_t *q)
{
	int flag = 1;
	if (*q && !drv->test(q, &flag, NULL) && flag) *q = 0;
	return flag;
}

int sync_answer(bool *all)
{
	*all = true;
	for (int w = 0; talks && w < NX_STATE->size; w++) {
		struct talk *t = &talks[w];
		if (t->answered || !t->of) continue;
		if (!over(&t->q[1])) {
			*all = false;
			continue;
		}
		int e = answer_one(t, (uint32_t)w);
		if (e) return e;
	}
	return 0;
}

/* The i-th of the sends that are open belongs to the matched message that is as many from the end as open ones follow:
 * not before its own receive has started is it complete then. */
static int settle_doubts(struct talk *t, uint32_t world)
{
	struct finds f = { 0 };
	int e = find_all(world, &f);
	for (uint32_t i = t->of; !e && i-- > 0; ) {
		if (t->ours[i] <= 0 || !t->still[i]) continue;
		struct part p = part_of(&f, &t->its[i]);
		size_t k = p.end;
		while (k > p.matched && *f.at[k - 1].sync) k--;
		if (k > p.matched) *f.at[k - 1].sync = t->its[i].handle;
	}
	free(f.at);
	return e;
}

/* -- at a checkpoint: what becomes of the sends ------------------------------------------------------------------------------- */

static void hold(struct vrequest *r)
{
	sync_closed(r);
	r->flags |= NX_RF_SYNC | NX_RF_HELD;
	RREQ(r->handle) = 0;
	NX_STATE->held++;
}

bool sync_poll(struct vrequest *r)
{
	int flag = 0, e;
	if (!talks || RREQ(r->handle) == drv->request_null) return true;
	e = drv->test(&RREQ(r->handle), &flag, NULL);
	if (e || flag) RREQ(r->handle) = drv->request_null;     /* whether by a receive or by the drain comes out later */
	return e || flag;
}

bool sync_in_talks(void) { return talks != NULL; }

/* Sends to w of which it is not certain whether the receiver's application has matched them. */
static int say_doubts(struct talk *t, int w)
{
	enum { ROUNDS = 1000 };                         /* what has been received is acknowledged before the answer: it is here by now */
	for (int k = 0; k < ROUNDS; k++)
		for (uint32_t i = 0; i < t->n; i++)
			if (t->answer[i] > 0) sync_poll(NX_REQUEST(t->notes[i].handle));
	for (uint32_t i = 0; i < t->n; i++) t->open[i] = t->answer[i] > 0 && RREQ(t->notes[i].handle) != drv->request_null;
	return drv->isend(t->open, (int)t->n, drv->type[NX_TYPE_BYTE], w, OWN_TAG_DOUBTS, own_world, &t->q[4]);
}

/* The answers of w are here. */
static int heard(struct talk *t, int w)
{
	for (uint32_t i = 0; i < t->n; i++) t->doubtful += t->answer[i] > 0;
	return t->doubtful ? say_doubts(t, w) : 0;
}

int sync_converse(bool *all)
{
	*all = true;
	for (int w = 0; talks && w < NX_STATE->size; w++) {
		struct talk *t = &talks[w];
		if (t->n && t->q[3]) {
			if (!over(&t->q[3])) *all = false;
			else {
				int e = heard(t, w);
				if (e) return e;
			}
		}
		if (t->its_doubtful && t->q[5]) {
			if (!over(&t->q[5])) *all = false;
			else if (settle_doubts(t, (uint32_t)w)) return NX_ERR_NO_MEM;
		}
		for (int k = 0; k < 6; k++) *all &= over(&t->q[k]);
	}
	return 0;
}

/* A send that is not complete for the real MPI stays open: that is so only when the checkpoint has failed. */
static void conclude_one(const struct talk *t, uint32_t i)
{
	struct vrequest *r = NX_REQUEST(t->notes[i].handle);
	if (RREQ(r->handle) != drv->request_null) return;
	if (t->answer[i] == HELD || (t->answer[i] > 0 && t->open[i])) {
		hold(r);
		return;
	}
	sync_closed(r);
	r->st = empty_status;
	r->flags |= NX_RF_DONE;
}

void sync_conclude(void)
{
	for (int w = 0; talks && w < NX_STATE->size; w++) {
		for (uint32_t i = 0; i < talks[w].n; i++) conclude_one(&talks[w], i);
		free(talks[w].notes);
	}
	free(talks);
	talks = NULL;
}
