/* table.h: lower half: what all rooms of the middle stand on: the tables of virtual objects, the saved heap,
 * real handles beside them, the real MPI as its driver offers it (real.h), and the middle's functions by name
 * (mid.h), each of which is defined in the room of its chapter.
 *
 * Context, of this room and of those above it: lower half, on the stack of the application's thread that has
 * made the call, with a lower thread's TLS, unless a function says "helper thread". May use libc, and
 * allocate with it what need not survive. Memory that must survive a restart comes from nx_malloc only, and
 * nothing in it may point into the lower half. Several threads at once only with MPI_THREAD_MULTIPLE. */
#ifndef BYSSUS_TABLE_H
#define BYSSUS_TABLE_H
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include "../../core/core.h"
#include "../neutral/neutral.h"
#include "real.h"
#include "mid.h"

/* -- tables (state.c) -- */
void nx_state_start(void);                     /* maps the saved regions; fills the predefined objects */
nx_t nx_alloc(enum nx_kind k);                 /* 0: the table is full */
bool nx_full(enum nx_kind k);                  /* nx_alloc would not find an entry */
nx_t nx_alloc_reserved(enum nx_kind k);        /* for what has begun and cannot be refused any more */
void nx_release(enum nx_kind k, nx_t h);
uint32_t nx_high(enum nx_kind k);              /* one past the highest index ever used: for walks */
uint32_t *nx_entry(enum nx_kind k, uint32_t index);
static inline bool nx_live(nx_t h, const void *entry) { return h && *(const nx_t *)entry == h; }
/* NULL: not a live communicator. */
static inline struct vcomm *comm_of(nx_t h)
{
	struct vcomm *c = NX_COMM(h);
	return likely(h && c->handle == h) ? c : NULL;
}

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

#endif
