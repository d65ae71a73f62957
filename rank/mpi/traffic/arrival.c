/* arrival.c: a wait in front of collectives that synchronise whatever the data: Barrier, and Allreduce,
 * Allgather, Alltoall and Reduce_scatter_block of more than nothing.
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
 * communicator's first window always has. Context: as traffic.h. */
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
