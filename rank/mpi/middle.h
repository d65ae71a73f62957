/* middle.h: shared by the files of the MPI middle: tables, saved heap, real handles, errors.
 *
 * Context: lower half, on the application's stack with a lower thread's TLS, unless a function says "helper
 * thread". May use libc. Memory that must survive a restart comes from nx_malloc only, and nothing in it may point
 * into the lower half. */
#ifndef BYSSUS_MIDDLE_H
#define BYSSUS_MIDDLE_H
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include "../core/core.h"
#include "objects.h"
#include "gen/driver.h"
#include "gen/mid.h"
#include "gen/slots.h"

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* -- tables (state.c) -- */
void nx_state_start(void);                     /* maps the saved regions; fills the predefined objects */
nx_t nx_alloc(enum nx_kind k);                 /* 0: the table is full */
bool nx_full(enum nx_kind k);                  /* nx_alloc would not find an entry */
nx_t nx_alloc_reserved(enum nx_kind k);        /* for what has begun and cannot be refused any more */
void nx_release(enum nx_kind k, nx_t h);
uint32_t nx_high(enum nx_kind k);              /* one past the highest index ever used: for walks */
uint32_t *nx_entry(enum nx_kind k, uint32_t index);
static inline bool nx_live(nx_t h, const void *entry) { return h && *(const nx_t *)entry == h; }

/* -- saved heap (heap.c) -- */
void *nx_malloc(size_t n);                     /* zeroed; NULL when saved memory is exhausted */
void nx_free(void *p);
char *nx_strdup(const char *s);
void *nx_memdup(const void *p, size_t n);

/* -- real handles, in lower memory, by index (state.c) -- */
extern rh_t *real_comm, *real_type, *real_op, *real_request, *real_message, *real_farewell;
#define RCOMM(h) real_comm[NX_INDEX(h)]
#define RTYPE(h) real_type[NX_INDEX(h)]
#define ROP(h)   real_op[NX_INDEX(h)]
#define RREQ(h)  real_request[NX_INDEX(h)]
#define RMSG(h)  real_message[NX_INDEX(h)]
extern rh_t own_world, own_self;               /* communicators of our own, never seen by the application */

/* -- threads: with MPI_THREAD_MULTIPLE tables and counters are shared (state.c) -- */
void nx_lock(void);
void nx_unlock(void);

/* -- errors (errh.c): every middle function ends through one of these -- */
long nx_error(nx_t comm, int err, const char *function);      /* err 0: returns 0 at once; else the handler of comm decides */
static inline long nx_result(nx_t comm, int err, const char *function) { return likely(err == 0) ? 0 : nx_error(comm, err, function); }
bool refused_before(char *why, size_t n);      /* a refused call was answered with an error: no checkpoint; any thread */
#define FAIL(comm, err) return nx_error((comm), (err), __func__ + 4)
#define RESULT(comm, err) return nx_result((comm), (err), __func__ + 4)

/* -- objects -- */
void comm_describe_world(void);                                /* comm.c: fills WORLD and SELF at MPI_Init */
/* NULL: not a live communicator. */
static inline struct vcomm *comm_of(nx_t h)
{
	struct vcomm *c = NX_COMM(h);
	return likely(h && c->handle == h) ? c : NULL;
}
int  comm_restore_all(char *why, size_t n);
int  comm_adopt(rh_t real, nx_t errh, struct vtopo *topo, nx_t *out);   /* takes topo; collective over the members */
void comm_sweep(void);                                         /* lets go of what all members have freed */
void comm_end(void);                                           /* at MPI_Finalize */
int  type_restore_all(char *why, size_t n);
void type_start(void);
void type_ref(nx_t t);
void type_unref(nx_t t);
int  op_restore_all(char *why, size_t n);
void op_current_type(nx_t t);                                  /* hint for user functions: the type of the call under way */
int  attr_copy_all(nx_t from, nx_t to, struct vattr *list, struct vattr **out, int *err);
int  attr_delete_all(nx_t object, struct vattr **list);
void attr_predefined(void);
nx_t info_new(void);
nx_t info_dup(nx_t info);
void info_release(nx_t info);
void errh_ref(nx_t e);
void errh_unref(nx_t e);
nx_t group_new(int size, int rank);
struct vgroup *group_of(nx_t h);
int  peers_compare(const struct vcomm *a, const struct vcomm *b);
void op_start(void);
void op_ref(nx_t op);
void op_unref(nx_t op);
void put_string(const char *s, char *out, int max, int *len);      /* as MPI gives strings back */

/* -- routes (route.c) -- */
void route_restore_all(void);
void route_forget(nx_t comm);                                  /* NX_COMM_NULL: all */

/* -- environment (env.c) -- */
const char *env_load(void);                                    /* NULL or why the real MPI cannot be loaded */
int  env_own_comms(void);

/* -- point-to-point (p2p.c, drain.c) -- */
bool drained_match(struct vcomm *c, int source, int tag, bool take, struct vdrained **out);
int  drained_deliver(struct vdrained *d, void *buf, int count, nx_t type, nx_status *st);
int  p2p_repost_all(char *why, size_t n);
int  p2p_drain(char *why, size_t n);
int  drain_start(void);                                        /* after MPI_Init, and at a restart */
uint64_t p2p_requests_on(nx_t comm);
uint32_t requests_progress(nx_t comm);                         /* polls its requests; how many are not complete */
int  drain_comm(struct vcomm *c);
void p2p_finish_buffered(void);                                /* at MPI_Finalize: waits for buffered sends */

/* -- non-blocking collectives (posted.c) -- */
int  posted_repost_all(char *why, size_t n);
long arrival_wait(struct vcomm *c, const char *function);       /* arrival.c: 0, or as the call's result */
bool posted_open(const struct vcomm *c);       /* some on it may not be complete, and nobody needs to have entered them */

/* -- agreement (agree.c) -- */
long gate_slow(struct vcomm *c, uint64_t was, unsigned more);
bool agree_observe(struct vcomm *c, uint64_t number, uint64_t was);
void agree_awaits(struct vcomm *c, uint64_t number);
void agree_posted(struct vcomm *c);
bool agree_settles(const struct vcomm *c, uint64_t number);
long agree_finalize(void);                      /* 0, or BY_AGAIN; then no checkpoint finds this rank any more */
void gate_left(void);
extern volatile uint32_t in_collective;
extern const char *volatile in_call;            /* the function of the collective that was entered last */
void agree_start(void);
void agree_message(const struct abi_header *h, const void *body);      /* helper thread */
void agree_tick(void);                                                 /* helper thread */
void agree_new_comm(struct vcomm *c);
struct vcomm *agree_group_clock(uint64_t comm, const struct vgroup *g, int tag);
void agree_forget_group_clocks(void);          /* at a checkpoint, when all clocks agree */

/* Collective clocks: count, then look whether a checkpoint is pending. The helper sets `pending` and then forces a
 * memory barrier on every thread, so no fence is needed here. */
static inline void count_inside(int n)
{
	if (unlikely(NX_STATE->multiple)) __atomic_fetch_add(&in_collective, n, __ATOMIC_SEQ_CST);
	else __atomic_store_n(&in_collective, in_collective + n, __ATOMIC_RELAXED);
}
/* more: 1 for a collective; 0 when those that were posted become such that all members must have entered them. */
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
#define GATED(c, call) ({ long g_ = gate_enter(c); if (unlikely(g_)) return g_; int e_ = (call); gate_leave(); e_; })

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
		if (__atomic_compare_exchange_n(&c->observed, &was, number, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			return likely(!BY_CTLP->pending) || agree_observe(c, number, was);
	return true;
}

/* -- waiting: one step of a polling loop; true when a stop is in effect and the call must yield -- */
void wait_step_slow(unsigned spins);
static inline bool wait_step(unsigned *spins)
{
	if (unlikely(BY_CTLP->stop)) return true;
	if (unlikely((++*spins & 63) == 0)) wait_step_slow(*spins);
	return false;
}
#endif
