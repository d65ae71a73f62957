/* agree.h: lower half: the agreement of the ranks on when it is safe to stop: the clocks that collectives
 * count, the gate in front of them, and waiting in such a way that a stop is noticed.
 *
 * Context: as table.h; agree_message and agree_tick on the core's helper thread. The gate is on the way of
 * every collective: no lock, allocation or system call unless a checkpoint is asked for. */
#ifndef BYSSUS_AGREE_H
#define BYSSUS_AGREE_H
#include "../table/table.h"

long gate_slow(struct vcomm *c, uint64_t was, unsigned more);
bool agree_observe(struct vcomm *c, uint64_t number, uint64_t was);
void agree_awaits(struct vcomm *c, uint64_t number);
void agree_posted(struct vcomm *c);
void agree_settle_all(void);
bool agree_settles(const struct vcomm *c, uint64_t number);
long agree_finalize(void);              /* 0, or BY_AGAIN; then no checkpoint finds this rank any more */
void gate_left(void);
extern volatile uint32_t in_collective;
extern const char *volatile in_call;            /* the function of the collective that was entered last */
void agree_start(void);
bool agree_reported(void);              /* the clocks of an attempt under way */
void agree_message(const struct abi_header *h, const void *body);      /* helper thread */
void agree_tick(void);                                                 /* helper thread */
void agree_new_comm(struct vcomm *c);
struct vcomm *agree_group_clock(uint64_t comm, const struct vgroup *g, int tag);
void agree_forget_group_clocks(void);          /* at a checkpoint, when all clocks agree */

/* Collective clocks: count, then look whether a checkpoint is pending. The helper sets `pending` and then
 * forces a memory barrier on every thread, so no fence is needed here. */
static inline void count_inside(int n)
{
	if (unlikely(NX_STATE->multiple)) __atomic_fetch_add(&in_collective, n, __ATOMIC_SEQ_CST);
	else __atomic_store_n(&in_collective, in_collective + n, __ATOMIC_RELAXED);
}
/* more: 1 for a collective; 0 when those that were posted become such that all members must have entered
 * them. */
static inline long gate_pass(struct vcomm *c, unsigned more, const char *function)
{
	count_inside(1);
	uint64_t was = c->entered, number = c->seq + more;
	in_call = function;
	__atomic_store_n(&c->seq, number, __ATOMIC_RELAXED);
	__atomic_store_n(&c->entered, number, __ATOMIC_RELAXED);
	__asm__ volatile("" ::: "memory");
	return likely(!BY_CTLP->pending) ? 0 : gate_slow(c, was, more);
}
#define gate_enter(c) gate_pass((c), 1, __func__)
static inline void gate_leave(void)
{
	count_inside(-1);
	__asm__ volatile("" ::: "memory");
	if (unlikely(BY_CTLP->pending)) gate_left();
}
/* Body of a collective: GATED(c, real call). Yields to the caller's caller when the rank must park. */
#define GATED(c, call) \
	({ \
		long g_ = gate_enter(c); \
		if (unlikely(g_)) return g_; \
		int e_ = (call); \
		gate_leave(); \
		e_; \
	})

/* A posted collective has its number before the real MPI hears of it; nobody waits in front of it. */
static inline uint64_t gate_post(struct vcomm *c)
{
	uint64_t number = c->seq + 1;
	__atomic_store_n(&c->seq, number, __ATOMIC_RELAXED);
	__asm__ volatile("" ::: "memory");
	if (unlikely(BY_CTLP->pending)) agree_posted(c);
	return number;
}
/* May the completion of a posted collective, which is there, be taken? */
static inline bool gate_observe(struct vcomm *c, uint64_t number)
{
	uint64_t was = __atomic_load_n(&c->observed, __ATOMIC_RELAXED);
	while (was < number)
		if (__atomic_compare_exchange_n(&c->observed, &was, number, false, __ATOMIC_SEQ_CST,
						__ATOMIC_RELAXED))
			return likely(!BY_CTLP->pending) || agree_observe(c, number, was);
	return true;
}

/* What a test without success returns: 0, or BY_AGAIN. The second: it was a test for a message, which a rank
 * that holds may have to send; a rank that has not met says so when it tests again and again. */
static inline long test_over(void) { return unlikely(BY_CTLP->stop) ? BY_AGAIN : 0; }
long test_slow(void);
static inline long test_failed(void) { return unlikely(BY_CTLP->pending) ? test_slow() : 0; }

/* -- waiting: one step of a polling loop; true when a stop is in effect and the call must yield -- */
void wait_step_slow(unsigned spins);
static inline bool wait_step(unsigned *spins)
{
	if (unlikely(BY_CTLP->stop)) return true;
	if (unlikely((++*spins & 63) == 0)) wait_step_slow(*spins);
	return false;
}
#endif
