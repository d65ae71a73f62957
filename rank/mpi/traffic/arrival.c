/* arrival.c: a wait in front of collectives that synchronise whatever the data: Barrier, and Allreduce,
 * Allgather, Alltoall and Reduce_scatter_block of more than nothing; and in front of those in which all
 * others wait for a root: Bcast and Scatter of more than nothing.
 *
 * A member that is inside a blocking collective cannot be stopped before all have come: its process is in the
 * real MPI, which the drain needs. So a rank waits for the others in front of it, by an Ibarrier that it
 * tests and that a checkpoint leaves as it is, like any posted collective (posted.c): nothing of the
 * collective itself has begun. Only where no member can leave before all have come is nothing added to what
 * the program asks for; other collectives have no such wait.
 *
 * The wait costs what an Ibarrier costs. All members must choose alike, so a communicator's calls are taken
 * in windows of 64. With the first call of a window the members agree on the shortest mean interval of the
 * last window's calls, and on the shortest of its arrival waits: that of a rank which came last, from which
 * the price is learnt (price.h). The window has waits if the price is below 0.5 % of the interval. A
 * communicator's first window always has.
 *
 * In front of Bcast and Scatter, in which all others wait for a root, they wait for a word that the root
 * sends by an Ibcast. It goes on at once: it waits for nobody, as in the collective itself. The root decides
 * on the windows, by what it has seen itself: the word in front of a window's first call, which is always
 * there, says whether the others have one, and how long the window is: in the tightest loops one word in 64
 * calls can be felt. Roots may change from call to call. Context: as traffic.h. */
#include <sched.h>
#include <time.h>
#include "arrival.h"
#include "price.h"
#include "traffic.h"

/* What the members agree on, by MPI_MIN. */
struct measured { uint64_t interval_ns, cost_ns; };

/* A clock that does not see the time between a checkpoint and a restart. */
static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)(t.tv_sec * 1000000000LL + t.tv_nsec + BY_CTLP->wtime_shift_ns);
}

static struct measured measure(struct vcomm *c)
{
	uint64_t now = now_ns();
	struct measured m = { (now - c->window_ns) / ARRIVAL_WINDOW, c->least_ns };
	c->window_ns = now;
	c->least_ns = PRICE_UNSEEN;
	return m;
}

static void agree(struct vcomm *c, const struct measured *m)
{
	c->cost_ns = price_learn(c->cost_ns, m->cost_ns);
	c->straight = price_too_high(c->cost_ns, m->interval_ns);
}

/* Straight calls have no wait: the agreement is a blocking collective like them, before the first of the
 * window. */
static long agree_at_once(struct vcomm *c, const char *function)
{
	rh_t u64 = drv->type[NX_TYPE_UINT64_T];
	long g = gate_pass(c, 1, function);
	if (g) return g;
	struct measured mine = measure(c), all;
	int e = drv->allreduce(&mine, &all, 2, u64, drv->op[NX_OP_MIN], RCOMM(c->handle));
	gate_leave();
	if (e) return nx_error(c->handle, e, function + 4);
	agree(c, &all);
	c->arrival = NX_ARRIVED;
	return 0;
}

/* Posts the Ibarrier, or the agreement in its place. */
static int begin(struct vcomm *c)
{
	if (c->calls % ARRIVAL_WINDOW || !c->calls) {
		if (!c->calls) measure(c);
		return posted_own(&(struct posted){ .call = POSTED_BARRIER }, c, &c->arrival);
	}
	struct measured *m = nx_malloc(2 * sizeof *m);
	if (!m) return NX_ERR_NO_MEM;
	m[0] = measure(c);
	struct posted a = { .call = POSTED_ALLREDUCE,
			    .sendbuf = m,
			    .recvbuf = m + 1,
			    .recvcount = 2,
			    .recvtype = NX_TYPE_UINT64_T,
			    .op = NX_OP_MIN };
	int e = posted_own(&a, c, &c->arrival);
	if (e) nx_free(m);
	else NX_REQUEST(c->arrival)->buf = m;
	return e;
}

static void end(struct vcomm *c)
{
	struct vrequest *r = NX_REQUEST(c->arrival);
	struct measured *m = r->buf;
	if (m) agree(c, m + 1);
	nx_free(m);
	request_release(r);
	c->arrival = NX_ARRIVED;
}

static uint64_t *word_of(nx_t request) { return NX_REQUEST(request)->buf; }

static int post_word(struct vcomm *c, int root, uint64_t word, nx_t *request)
{
	uint64_t *w = nx_malloc(sizeof *w);
	if (!w) return NX_ERR_NO_MEM;
	*w = word;
	struct posted a = { .call = POSTED_BCAST,
			    .root = root,
			    .recvbuf = w,
			    .recvcount = 1,
			    .recvtype = NX_TYPE_UINT64_T };
	int e = posted_own(&a, c, request);
	if (e) nx_free(w);
	else NX_REQUEST(*request)->buf = w;
	return e;
}

static void forget_word(nx_t *request)
{
	nx_free(word_of(*request));
	request_release(NX_REQUEST(*request));
	*request = 0;
}

bool arrival_lead_over(struct vcomm *c)
{
	nx_status st;
	int flag = 0;
	if (!c->lead) return true;
	if (request_poll(NX_REQUEST(c->lead), &flag, &st) || flag) forget_word(&c->lead);
	return !c->lead;
}

/* What a root's word says: each call of the window has one; none has; none has, in a long window. */
enum led { LED_ALL, LED_FIRST, LED_LONG };
enum { LED_UNSEEN = UINT32_MAX, LED_TIGHT_NS = 20000 };

static uint16_t led_length(unsigned led) { return led == LED_LONG ? 16 * ARRIVAL_WINDOW : ARRIVAL_WINDOW; }

/* A window of calls with a root is over. Returns the mean interval of its calls. */
static uint64_t led_window(struct vcomm *c)
{
	uint64_t now = now_ns(), interval = (now - c->led_window_ns) / led_length(c->led_straight);
	c->led_window_ns = now;
	return interval;
}

static void led_begin(struct vcomm *c, uint64_t word)
{
	c->led_straight = (uint8_t)word;
	c->led = led_length(c->led_straight);
	c->led_least_ns = LED_UNSEEN;
}

/* What the root does costs the others as much again, on their way down the tree. */
static void led_decide(struct vcomm *c)
{
	enum { OTHERS = 4 };
	bool first = !c->led_window_ns;
	uint64_t interval = led_window(c);
	uint64_t seen = c->led_least_ns == LED_UNSEEN ? PRICE_UNSEEN : c->led_least_ns;
	if (!first) c->led_cost_ns = (uint32_t)price_learn(c->led_cost_ns, seen);
	bool straight = !first && price_too_high((uint64_t)c->led_cost_ns * OTHERS, interval);
	led_begin(c, !straight ? LED_ALL : interval > LED_TIGHT_NS ? LED_FIRST : LED_LONG);
}

static int lead(struct vcomm *c)
{
	if (!c->led) led_decide(c);
	uint64_t begun = now_ns();
	int e = post_word(c, c->rank, c->led_straight, &c->lead);
	begun = now_ns() - begun;
	if (begun < c->led_least_ns) c->led_least_ns = (uint32_t)begun;
	return e;
}

/* For tests: between the end of the wait and the collective, until this rank's clocks have been asked for. */
static void stay_between(void)
{
	core_stop_here();
	while (!agree_reported()) sched_yield();
}

long arrival_wait(struct vcomm *c, const char *function)
{
	nx_status st;
	int flag = 0, e = 0;
	if (c->arrival == NX_ARRIVED) return 0;
	if (c->straight) return agree_at_once(c, function);
	uint64_t begun = c->arrival ? 0 : now_ns();
	if (begun) e = begin(c);
	if (e) return nx_error(c->handle, e, function + 4);
	bool test = begun && core_fault_fails(ABI_FAULT_RANK_ARRIVED), blind = test && c->rank < c->size - 1;
	for (unsigned spins = 0;;) {
		if (likely(!blind)) e = request_poll(NX_REQUEST(c->arrival), &flag, &st);
		if (flag) break;
		if (wait_step(&spins)) return BY_AGAIN;
	}
	if (unlikely(test)) stay_between();
	if (begun && now_ns() - begun < c->least_ns) c->least_ns = now_ns() - begun;
	end(c);
	return e ? nx_error(c->handle, e, function + 4) : 0;
}

/* Of calls in which this rank is the root the one before may have left something. */
static long lead_wait(struct vcomm *c, const char *function)
{
	for (unsigned spins = 0; !arrival_lead_over(c); )
		if (wait_step(&spins)) return BY_AGAIN;
	int e = lead(c);
	if (!e) c->arrival = NX_ARRIVED;
	return e ? nx_error(c->handle, e, function + 4) : 0;
}

long arrival_led_wait(struct vcomm *c, int root, const char *function)
{
	nx_status st;
	int flag = 0, e = 0;
	if (c->arrival == NX_ARRIVED) return 0;
	if (c->rank == root) return lead_wait(c, function);
	if (!c->arrival) {
		if (!c->led) led_window(c);
		e = post_word(c, root, 0, &c->arrival);
		if (e) return nx_error(c->handle, e, function + 4);
	}
	for (unsigned spins = 0; !flag; ) {
		e = request_poll(NX_REQUEST(c->arrival), &flag, &st);
		if (!flag && wait_step(&spins)) return BY_AGAIN;
	}
	if (!c->led) led_begin(c, *word_of(c->arrival));
	forget_word(&c->arrival);
	c->arrival = NX_ARRIVED;
	return e ? nx_error(c->handle, e, function + 4) : 0;
}
