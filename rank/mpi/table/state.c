/* state.c: tables of virtual objects: saved regions, allocation of handles, real handles beside them.
 *
 * Invariants: index < next[k] for every handle ever returned; an index is either live (first word = its
 * handle) or on the free list of its kind exactly once; generations of an index go round, so that a stale
 * handle is noticed. Context: lower half; allocation takes the middle's lock only with MPI_THREAD_MULTIPLE.
 */
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include "table.h"

static const uint32_t stride[NX_K_N] = {
	NX_STRIDE_COMM, NX_STRIDE_GROUP,  NX_STRIDE_TYPE, NX_STRIDE_OP,	     NX_STRIDE_REQUEST,
	NX_STRIDE_ERRH, NX_STRIDE_KEYVAL, NX_STRIDE_INFO, NX_STRIDE_MESSAGE,
};
rh_t *real_comm, *real_type, *real_op, *real_request, *real_message, *real_farewell;
rh_t own_world, own_self;
const struct nx_driver *drv;
static uint32_t table_lock;

void nx_lock(void)
{
	if (!NX_STATE->multiple) return;
	while (__atomic_exchange_n(&table_lock, 1, __ATOMIC_ACQUIRE)) sched_yield();
}

void nx_unlock(void)
{
	if (NX_STATE->multiple) __atomic_store_n(&table_lock, 0, __ATOMIC_RELEASE);
}

uint32_t *nx_entry(enum nx_kind k, uint32_t index)
{
	return (uint32_t *)(NX_TABLE(k) + (uint64_t)index * stride[k]);
}

uint32_t nx_high(enum nx_kind k) { return NX_STATE->next[k]; }

/* The last entries of a table are for calls that have begun and must yield to a checkpoint: see request_keep.
 */
enum { RESERVED = 4096 };

bool nx_full(enum nx_kind k) { return !NX_STATE->free[k] && NX_STATE->next[k] >= NX_MAXINDEX - RESERVED; }

static nx_t alloc_below(enum nx_kind k, uint32_t limit)
{
	struct nx_state *s = NX_STATE;
	nx_lock();
	uint32_t i = s->free[k], *e, generation = 0;
	if (i) {
		e = nx_entry(k, i);
		generation = e[0] >> NX_INDEX_BITS;
		s->free[k] = e[1];
	} else if (s->next[k] < limit) {
		i = s->next[k]++;
		e = nx_entry(k, i);
	} else {
		nx_unlock();
		return 0;
	}
	if (k != NX_K_REQUEST) memset(e, 0, stride[k]);         /* requests are filled by their maker; */
	else if (s->multiple) e[1] = 0;                         /* others may look at its flags before that */
	e[0] = i | generation << NX_INDEX_BITS;
	nx_unlock();
	return e[0];
}

nx_t nx_alloc(enum nx_kind k) { return alloc_below(k, NX_MAXINDEX - RESERVED); }
nx_t nx_alloc_reserved(enum nx_kind k) { return alloc_below(k, NX_MAXINDEX); }

void nx_release(enum nx_kind k, nx_t h)
{
	struct nx_state *s = NX_STATE;
	uint32_t *e = nx_entry(k, NX_INDEX(h)), generation = ((h >> NX_INDEX_BITS) + 1) & NX_GEN_MASK;
	nx_lock();
	e[0] = generation << NX_INDEX_BITS;
	e[1] = s->free[k];
	s->free[k] = NX_INDEX(h);
	nx_unlock();
}

static rh_t *lower_table(void)
{
	void *p = mmap(NULL, NX_MAXINDEX * sizeof(rh_t), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) core_die("cannot reserve memory for the tables of MPI objects");
	return p;
}

/* Predefined objects whose only content is their handle. */
static void mark_predefined(enum nx_kind k, uint32_t first, uint32_t n)
{
	for (uint32_t i = first; i < first + n; i++) nx_entry(k, i)[0] = i;
}

static void fresh_state(void)
{
	struct nx_state *s = NX_STATE;
	s->layout = NX_LAYOUT;
	s->interface = NX_INTERFACE;
	s->rank = core_job.rank;
	s->size = core_job.nranks;
	for (int k = 0; k < NX_K_N; k++) s->next[k] = NX_DYNAMIC;
	mark_predefined(NX_K_OP, 1, NX_OP_N - 1);
	mark_predefined(NX_K_ERRH, 1, NX_ERRH_N - 1);
	mark_predefined(NX_K_KEYVAL, 1, NX_KEYVAL_N - 1);
	mark_predefined(NX_K_INFO, NX_INFO_ENV, 1);
	mark_predefined(NX_K_MESSAGE, NX_MESSAGE_NO_PROC, 1);
	for (uint32_t i = 1; i < NX_OP_N; i++) NX_OP(i)->commute = 1;
	struct vrequest *sent = NX_REQUEST(nx_alloc(NX_K_REQUEST));
	sent->kind = NX_RQ_SEND;
	sent->flags = NX_RF_ACTIVE | NX_RF_DONE | NX_RF_SHARED;
	sent->st = (nx_status){ .source = NX_ANY_SOURCE, .tag = NX_ANY_TAG };
	struct vcomm *w = NX_COMM(NX_COMM_WORLD);       /* its clock exists before MPI_Init: the call is its
							 * first collective */
	w->id = 1;
	w->rank = s->rank;
	w->size = s->size;
}

void nx_state_start(void)
{
	enum { PAGE = 4096 };
	for (int k = 0; k < NX_K_N; k++) core_region(k, (size_t)NX_MAXINDEX * stride[k]);
	core_region(NX_REGION_STATE, (sizeof(struct nx_state) + PAGE - 1) & ~(size_t)(PAGE - 1));
	core_region(NX_REGION_HEAP, PAGE);
	real_comm = lower_table();
	real_type = lower_table();
	real_op = lower_table();
	real_request = lower_table();
	real_message = lower_table();
	real_farewell = lower_table();
	if (!core_job.restarted) fresh_state();
}
