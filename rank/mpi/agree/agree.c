/* agree.c: when is it safe to stop? Collective clocks (Xu and Cooperman, "Enabling Practical Transparent
 * Checkpointing for MPI: A Topological Sort Approach", 2024), without barriers.
 *
 * Collectives are numbered on each communicator, alike on all members, who call them in one order. A rank's
 * clock is the number of the last one that all members must have started before the rank may be stopped: the
 * last blocking one that it has entered, or posted one whose completion it has seen. What is posted and not
 * seen complete counts for nothing: it is posted again after a restart (posted.c).
 *
 * At a request the ranks report their clocks; the maximum over the members is the communicator's target. A
 * rank that has started all that the targets name has "met": it computes on, but parks in front of what would
 * move a clock beyond its target: the next blocking collective, or the completion of a posted one. A rank
 * that has not met and must pass a target on its way raises it, and says so before. When all ranks have met
 * the same version of the targets nobody is inside a collective that another has not started, or has seen the
 * end of one, and nobody can: all may be stopped.
 *
 * Invariants (under `lock`): unmet = number of communicators with seq < target; a rank that has sent MET(v)
 * moves no clock beyond its target until it has seen targets newer than v or the attempt has ended. Context:
 * agree_message and agree_tick on the helper thread, the rest on application threads in the lower half. */
#include <ctype.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include "agree.h"

volatile uint32_t in_collective;
const char *volatile in_call = "";
static volatile uint64_t vain_tests;    /* tests for messages without success while a request is pending */
static volatile uint32_t waiting_spins;         /* how long the point-to-point wait under way has lasted */

struct index_entry { uint64_t id; uint32_t index; };
struct target { uint64_t id, seq; };
static struct {
	uint32_t lock;
	bool snapped;                           /* clocks of this attempt have been reported */
	uint64_t epoch, version, met_sent;
	uint32_t unmet;
	struct index_entry *index;      /* communicators at the snapshot, by id: room for all there can be */
	size_t nindex;
	struct target *later;   /* targets of communicators that this rank has not made yet, if ever */
	size_t nlater;
	bool lost;                      /* more of them than there is room for: this attempt is not met */
	uint32_t last_spins, told_where;
	uint64_t moves, last_moves;             /* collectives entered or left since the request */
	int64_t vain_since;             /* ns: posted collectives have been polled in vain since then, or 0 */
	uint64_t polls, last_polls;             /* such polls */
	unsigned needs;                         /* targets that were raised for what is polled in vain */
	uint64_t last_tests;
	bool tested;                            /* there were many in the last tick */
} attempt;

static void lock(void) { while (__atomic_exchange_n(&attempt.lock, 1, __ATOMIC_ACQUIRE)) sched_yield(); }
static void unlock(void) { __atomic_store_n(&attempt.lock, 0, __ATOMIC_RELEASE); }

/* One that is freed here still counts: others may have to reach this rank's clock. */
static bool counts(uint32_t i)
{
	struct vcomm *c = NX_COMM(i);
	/* WORLD has a clock before MPI_Init */
	bool live = i == NX_COMM_WORLD || (c->handle && NX_INDEX(c->handle) == i);
	return live && c->size > 1 && __atomic_load_n(&c->id, __ATOMIC_ACQUIRE);
}

static int by_id(const void *x, const void *y)
{
	const struct index_entry *p = x, *q = y;
	return p->id < q->id ? -1 : p->id > q->id;
}

/* A checkpoint must not need memory to agree: address space for as many communicators as there can be. */
static void *room_for_all(size_t one)
{
	void *p = mmap(NULL, NX_MAXINDEX * one, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) core_die("cannot reserve memory for the clocks of communicators");
	return p;
}

void agree_start(void)
{
	attempt.index = room_for_all(sizeof *attempt.index);
	attempt.later = room_for_all(sizeof *attempt.later);
}

/* The live communicators with more than one member, indexed by id. */
static void take_index(void)
{
	uint32_t high = nx_high(NX_K_COMM);
	attempt.nindex = 0;
	if (counts(NX_COMM_WORLD))
		attempt.index[attempt.nindex++] =
			(struct index_entry){ NX_COMM(NX_COMM_WORLD)->id, NX_COMM_WORLD };
	for (uint32_t i = NX_DYNAMIC; i < high; i++)
		if (counts(i)) attempt.index[attempt.nindex++] = (struct index_entry){ NX_COMM(i)->id, i };
	qsort(attempt.index, attempt.nindex, sizeof *attempt.index, by_id);
}

static void send_clocks(void)
{
	enum { CHUNK = 8192 };
	static struct { uint64_t n; struct abi_clock c[CHUNK]; } message, *m = &message;
	size_t done = 0;
	do {
		size_t n = attempt.nindex - done < CHUNK ? attempt.nindex - done : CHUNK;
		m->n = attempt.nindex;
		for (size_t i = 0; i < n; i++) {
			struct vcomm *c = NX_COMM(attempt.index[done + i].index);
			m->c[i] = (struct abi_clock){ .comm = c->id,
						      .seq = c->reported,
						      .nmembers = (uint32_t)c->size };
		}
		core_send(ABI_CLOCKS, attempt.epoch, m, sizeof m->n + n * sizeof m->c[0]);
		done += n;
	} while (done < attempt.nindex);
}

/* The number that all members must reach before this rank can be stopped where it is. */
static uint64_t clock_of(const struct vcomm *c)
{
	uint64_t entered = __atomic_load_n(&c->entered, __ATOMIC_ACQUIRE),
		 observed = __atomic_load_n(&c->observed, __ATOMIC_ACQUIRE);
	return entered > observed ? entered : observed;
}

static void begin(uint64_t epoch)
{
	attempt.epoch = epoch;
	attempt.version = attempt.met_sent = 0;
	attempt.unmet = 0;
	attempt.nlater = 0;
	attempt.lost = false;
	attempt.told_where = ABI_WHERE_RUN;
	attempt.vain_since = 0;
	attempt.needs = 0;
	take_index();
	for (size_t i = 0; i < attempt.nindex; i++) {
		struct vcomm *c = NX_COMM(attempt.index[i].index);
		c->epoch = epoch;
		c->unmet = 0;
		c->reported = c->target = clock_of(c);
	}
	attempt.snapped = true;
	send_clocks();
}

/* A communicator that was made since the clocks were reported enters the attempt; clock: what it was before.
 */
static void take_in(struct vcomm *c, uint64_t clock)
{
	if (c->epoch == attempt.epoch) return;
	c->epoch = attempt.epoch;
	c->reported = c->target = clock;
	c->unmet = 0;
}

static void set_target(struct vcomm *c, uint64_t seq)
{
	take_in(c, clock_of(c));
	if (seq <= c->target) return;
	c->target = seq;
	if (!c->unmet && c->seq < seq) {
		c->unmet = 1;
		attempt.unmet++;
	}
}

static struct vcomm *find(uint64_t id)
{
	struct index_entry key = { id, 0 }, *e = attempt.nindex ? bsearch(&key, attempt.index, attempt.nindex,
									  sizeof key, by_id)
								: NULL;
	if (e && counts(e->index) && NX_COMM(e->index)->id == id) return NX_COMM(e->index);
	for (uint32_t i = NX_DYNAMIC; i < nx_high(NX_K_COMM); i++)
		if (counts(i) && NX_COMM(i)->id == id) return NX_COMM(i);
	return NULL;
}

static void keep_for_later(uint64_t id, uint64_t seq)
{
	if (attempt.nlater < NX_MAXINDEX) attempt.later[attempt.nlater++] = (struct target){ id, seq };
	else attempt.lost = true;
}

/* Says MET if that is so and has not been said for this version. Under the lock. */
static void say_met(void)
{
	if (!attempt.snapped || attempt.lost || !attempt.version || attempt.met_sent == attempt.version ||
	    attempt.unmet || in_collective)
		return;
	attempt.met_sent = attempt.version;
	struct abi_met m = { .version = attempt.version, .where = ABI_WHERE_RUN };
	core_send(ABI_MET, attempt.epoch, &m, sizeof m);
}

static void new_targets(const struct abi_header *h, const void *body)
{
	const struct { uint64_t version, n; struct abi_clock c[]; } *t = body;
	size_t n = (h->length - sizeof *t) / sizeof t->c[0];
	if (!attempt.snapped || h->epoch != attempt.epoch) return;
	for (size_t i = 0; i < n; i++) {
		struct vcomm *c = find(t->c[i].comm);
		if (c) set_target(c, t->c[i].seq);
		else keep_for_later(t->c[i].comm, t->c[i].seq);
	}
	if (h->flags & ABI_FLAG_MORE) return;
	attempt.version = t->version;
	attempt.told_where = ABI_WHERE_RUN;
	say_met();
}

bool agree_reported(void)
{
	lock();
	bool reported = attempt.snapped;
	unlock();
	return reported;
}

void agree_message(const struct abi_header *h, const void *body)
{
	lock();
	switch (h->type) {
	case ABI_REQUEST: begin(h->epoch); break;
	case ABI_TARGETS: new_targets(h, body); break;
	case ABI_CANCEL: case ABI_RESUME: attempt.snapped = false; break;
	}
	unlock();
}

/* A rank that tests again and again in vain waits, too: so many tests in each of two ticks are no computation
 * with a look now and then. */
static bool tests_in_vain(void)
{
	enum { MANY = 32 };
	uint64_t tests = vain_tests, more = tests - attempt.last_tests;
	bool two = more >= MANY && attempt.tested;
	attempt.last_tests = tests;
	attempt.tested = more >= MANY;
	return two;
}

/* Where a rank that has not met stands still from one tick to the next. */
static uint32_t stands_still(void)
{
	enum { LONG = 4096 };
	uint32_t spins = waiting_spins, where = ABI_WHERE_RUN;
	bool polls = attempt.polls != attempt.last_polls, tests = tests_in_vain();
	attempt.last_polls = attempt.polls;
	uint32_t inside = attempt.moves == attempt.last_moves ? ABI_WHERE_COLLECTIVE : ABI_WHERE_RUN;
	if (in_collective) where = inside;
	else if (tests) where = ABI_WHERE_P2P;
	else if (polls) where = inside;
	else if (spins > LONG && spins != attempt.last_spins) where = ABI_WHERE_P2P;
	attempt.last_spins = spins;
	attempt.last_moves = attempt.moves;
	return where;
}

/* The MPI function whose collective this rank is inside of. */
static void name_call(char *out, size_t n)
{
	const char *f = in_call;
	if (in_collective && !strncmp(f, "mid_", 4)) snprintf(out, n, "MPI_%c%s", toupper(f[4]), f + 5);
}

/* A wait that goes on from tick to tick is told to the coordinator: what this rank waits for may be held back
 * by a rank that has parked. */
void agree_tick(void)
{
	lock();
	say_met();
	uint32_t where = stands_still();
	if (attempt.snapped && attempt.version && attempt.met_sent != attempt.version &&
	    where != attempt.told_where) {
		attempt.told_where = where;
		struct abi_waiting m = { .version = attempt.version, .where = where };
		name_call(m.call, sizeof m.call);
		core_send(ABI_WAITING, attempt.epoch, &m, sizeof m);
	}
	unlock();
}

/* A communicator made while a request is pending: others may be ahead on it already. */
void agree_new_comm(struct vcomm *c)
{
	if (!BY_CTLP->pending) return;
	lock();
	if (attempt.snapped)
		for (size_t i = 0; i < attempt.nlater; i++)
			if (attempt.later[i].id == c->id) set_target(c, attempt.later[i].seq);
	unlock();
}

/* -- MPI_Comm_create_group is collective over a group that has no communicator yet: its clock is an entry
 * without a real communicator, with an id made of who takes part. Ids of real communicators have the top bit
 * clear (comm.c). -- */

static uint64_t mix(uint64_t h, uint64_t v)
{
	h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
	h *= 0xff51afd7ed558ccdu;
	return h ^ h >> 32;
}

static bool is_group_clock(uint32_t i)
{
	return NX_INDEX(NX_COMM(i)->handle) == i && NX_COMM(i)->handle && NX_COMM(i)->group_clock;
}

struct vcomm *agree_group_clock(uint64_t comm, const struct vgroup *g, int tag)
{
	uint64_t id = mix(comm, (uint64_t)tag);
	for (int i = 0; i < g->size; i++) id = mix(id, g->world[i]);
	id |= 1ull << 63;
	for (uint32_t i = NX_DYNAMIC; i < nx_high(NX_K_COMM); i++)
		if (is_group_clock(i) && NX_COMM(i)->id == id) return NX_COMM(i);
	nx_t h = nx_alloc(NX_K_COMM);
	if (!h) return NULL;
	struct vcomm *c = NX_COMM(h);
	c->group_clock = 1;
	c->size = g->size;
	__atomic_store_n(&c->id, id, __ATOMIC_RELEASE);
	agree_new_comm(c);
	return c;
}

void agree_forget_group_clocks(void)
{
	for (uint32_t i = NX_DYNAMIC; i < nx_high(NX_K_COMM); i++)
		if (is_group_clock(i)) {
			NX_COMM(i)->id = 0;
			nx_release(NX_K_COMM, NX_COMM(i)->handle);
		}
}

static void raise_target(struct vcomm *c, uint64_t number)
{
	c->target = number;
	struct abi_clock m = { .comm = c->id, .seq = number, .nmembers = (uint32_t)c->size };
	core_send(ABI_RAISE, attempt.epoch, &m, sizeof m);
}

/* What has been started may have been the last that was missing. */
static void look_met(struct vcomm *c)
{
	if (c->epoch != attempt.epoch || !c->unmet || c->seq < c->target) return;
	c->unmet = 0;
	attempt.unmet--;
}

/* Under the lock: may the clock, which was at `was`, move to number, which has been started? */
static bool may_reach(struct vcomm *c, uint64_t number, uint64_t was)
{
	if (!BY_CTLP->pending || !attempt.snapped || c->size <= 1) return true;
	take_in(c, was);
	look_met(c);
	if (number <= c->target) return true;
	if (!attempt.version || !attempt.unmet) return false;
	raise_target(c, number);
	return true;
}

/* A posted collective has been started. */
void agree_posted(struct vcomm *c)
{
	lock();
	attempt.moves++;
	look_met(c);
	say_met();
	unlock();
}

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Keeps the MPI's progress going for others while this rank holds, in front of a collective or of a
 * completion: a look at a request that is complete makes none. */
static void progress(void)
{
	int flag;
	nx_status st;
	if (own_world) drv->iprobe(NX_ANY_SOURCE, NX_ANY_TAG, own_world, &flag, &st);
	nanosleep(&(struct timespec){ 0, 20000 }, NULL);
}

bool agree_observe(struct vcomm *c, uint64_t number, uint64_t was)
{
	lock();
	uint64_t before = c->entered > was ? c->entered : was;
	bool may = may_reach(c, number, before);
	if (may) attempt.vain_since = 0;
	attempt.moves += may;
	unlock();
	if (may) return true;
	__atomic_compare_exchange_n(&c->observed, &number, was, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
	progress();
	return false;
}

/* A thread polls a posted collective that is not complete. A rank that has not met may need it on its way,
 * and others may hold before they post theirs: after a while it says that it does. The while doubles each
 * time: who tests may not need it, and two such ranks could drive each other on for ever. */
void agree_awaits(struct vcomm *c, uint64_t number)
{
	enum { WHILE_NS = 10000000, DOUBLINGS = 7 };
	lock();
	if (attempt.snapped && attempt.version && attempt.unmet && c->size > 1) {
		attempt.polls++;
		take_in(c, clock_of(c));
		if (!attempt.vain_since) attempt.vain_since = now_ns();
		else if (number > c->target && now_ns() - attempt.vain_since > (int64_t)WHILE_NS
										       << attempt.needs) {
			raise_target(c, number);
			attempt.needs += attempt.needs < DOUBLINGS;
		}
	}
	unlock();
}

static void settle(struct vcomm *c)
{
	if (c->epoch == attempt.epoch && c->observed < c->target) c->observed = c->target;
}

long test_slow(void)
{
	vain_tests++;
	return test_over();
}

/* Before a drain completes anything: what it completes has been observed. Targets may be above all clocks,
 * and a rank whose drain fails has not completed what the others have: the next attempt must know. */
void agree_settle_all(void)
{
	settle(NX_COMM(NX_COMM_WORLD));
	for (uint32_t i = NX_DYNAMIC; i < nx_high(NX_K_COMM); i++)
		if (counts(i)) settle(NX_COMM(i));
}

/* At a checkpoint, when all have met: have all members started this one? Then it is completed before the
 * image. */
bool agree_settles(const struct vcomm *c, uint64_t number)
{
	return c->size <= 1 || (c->epoch == attempt.epoch && number <= c->target);
}

long gate_slow(struct vcomm *c, uint64_t was, unsigned more)
{
	for (;;) {
		lock();
		attempt.moves++;
		if (may_reach(c, c->entered, c->observed > was ? c->observed : was)) {
			unlock();
			core_page()->where = ABI_WHERE_RUN;
			return 0;
		}
		c->seq -= more;
		c->entered = was;
		count_inside(-1);
		say_met();
		unlock();
		core_page()->where = ABI_WHERE_PARKED;
		if (BY_CTLP->stop) return BY_AGAIN;
		progress();
		lock();
		c->seq += more;
		c->entered = c->seq;
		count_inside(1);
		unlock();
	}
}

/* From MPI_Finalize there is no way back. A rank waits in front of it as long as a checkpoint is asked for,
 * and says that it goes in under the lock: the MET that might follow belongs to an attempt of which the
 * coordinator knows then that it must be given up. */
long agree_finalize(void)
{
	for (;;) {
		lock();
		bool hold = BY_CTLP->pending && attempt.snapped;
		if (hold) say_met();
		else core_send(ABI_FINALIZING, 0, NULL, 0);
		unlock();
		core_page()->where = hold ? ABI_WHERE_PARKED : ABI_WHERE_RUN;
		if (!hold) return 0;
		if (BY_CTLP->stop) return BY_AGAIN;
		progress();
	}
}

void gate_left(void)
{
	lock();
	attempt.moves++;
	say_met();
	unlock();
}

void wait_step_slow(unsigned spins)
{
	waiting_spins = spins;
	if (spins > 2048) sched_yield();
}
