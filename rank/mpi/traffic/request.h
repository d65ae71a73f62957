/* request.h: virtual requests, shared by the point-to-point files and the non-blocking collectives. Part of
 * traffic.h.
 *
 * Two facts hold for every live request: its communicator's entry is kept until it completes (a freed
 * communicator waits for its requests), and a derived datatype it uses is referenced. Counters are moved
 * exactly once: `sent` when a send is handed to the real MPI, `taken` when a receive completes. Context: as
 * traffic.h. */
#ifndef BYSSUS_REQUEST_H
#define BYSSUS_REQUEST_H
#include <string.h>
#include "../agree/agree.h"
#include "../objects/objects.h"
#include "../pending/pending.h"
#include "synchronous.h"
#include "posted.h"

/* On the way of non-blocking calls: no lock unless MPI_THREAD_MULTIPLE, no clearing; own of a free request is
 * NULL. NULL: the table is full. */
static inline struct vrequest *request_begin(nx_t h, uint8_t kind, nx_t comm)
{
	if (unlikely(!h)) return NULL;
	struct vrequest *r = NX_REQUEST(h);
	r->kind = kind;
	r->flags = NX_RF_ACTIVE;
	r->mode = NX_SEND_STANDARD;
	r->routed = 0;
	r->comm = comm;
	return r;
}

static inline struct vrequest *request_new(uint8_t kind, nx_t comm)
{
	return request_begin(nx_alloc(NX_K_REQUEST), kind, comm);
}

/* Releases what r owns. */
static inline void request_drop(struct vrequest *r)
{
	if (unlikely(r->type >= NX_DYNAMIC)) type_unref(r->type);
	if (unlikely(r->own != NULL)) {
		if (pending_of(r)->forget) pending_of(r)->forget(r->own);
		nx_free(r->own);
		r->own = NULL;
	}
}

/* Without MPI_THREAD_MULTIPLE: puts r before the free requests that begin with index next; returns its own.
 */
static inline uint32_t request_end(struct vrequest *r, uint32_t next)
{
	request_drop(r);
	uint32_t i = NX_INDEX(r->handle);
	r->handle = (r->handle + (1u << NX_INDEX_BITS)) & NX_GEN_MASK << NX_INDEX_BITS;
	memcpy((char *)r + sizeof r->handle, &next, sizeof next);
	return i;
}

static inline void request_release(struct vrequest *r)
{
	uint32_t *head = &NX_STATE->free[NX_K_REQUEST];
	if (likely(!NX_STATE->multiple)) {
		*head = request_end(r, *head);
		return;
	}
	request_drop(r);
	nx_release(NX_K_REQUEST, r->handle);
}

/* What the request will need again: after a restart a receive is posted from these. */
static inline void request_args(struct vrequest *r, void *buf, int count, nx_t type, int peer, int tag)
{
	r->buf = buf;
	r->count = count;
	r->type = type;
	r->peer = peer;
	r->tag = tag;
	if (unlikely(type >= NX_DYNAMIC)) type_ref(type);
}

/* Around the start of a send and its count_sent: with MPI_THREAD_MULTIPLE messages are counted in the order
 * of sending. */
static inline void send_begin(void) { if (unlikely(NX_STATE->multiple)) sync_lock(); }
static inline void send_end(void) { if (unlikely(NX_STATE->multiple)) sync_unlock(); }

static inline void count_sent(struct vcomm *c, int dest, int tag)
{
	if (unlikely((uint32_t)dest >= (uint32_t)c->size)) return;        /* MPI_PROC_NULL */
	if (unlikely(c->syncs != 0)) sync_followed(c, dest, tag);
	c->peer[dest].sent++;
}

/* The number of the next receive that is posted. */
static inline uint64_t next_order(void)
{
	if (unlikely(NX_STATE->multiple)) return __atomic_fetch_add(&NX_STATE->order, 1, __ATOMIC_RELAXED);
	return NX_STATE->order++;
}

static inline void count_taken(struct vcomm *c, int source)
{
	if (unlikely((uint32_t)source >= (uint32_t)c->size)) return;
	if (unlikely(NX_STATE->multiple)) __atomic_fetch_add(&c->peer[source].taken, 1, __ATOMIC_RELAXED);
	else c->peer[source].taken++;
}

/* A message of so many bytes leaves before its receive is posted: the other side gets it earlier, and the
 * copy that an unexpected message costs is smaller than that. */
enum { SEND_FIRST = 256 };

/* True when completion must read the real status: source or tag are not known beforehand, or it may be
 * cancelled. The kind comes first: NX_RF_LATE is another flag elsewhere. */
static inline bool request_needs_status(const struct vrequest *r)
{
	return (pending_of(r)->receives && (r->peer == NX_ANY_SOURCE || (r->flags & NX_RF_LATE))) ||
	       (r->flags & NX_RF_CANCEL);
}

/* The real request has completed with st (NULL where it was not needed): move the counter. */
static inline void request_completed(struct vrequest *r, const nx_status *st)
{
	if (pending_of(r)->completed) pending_of(r)->completed(r, st);
}

/* Tests r once; *flag when complete, with st (not NULL) filled and the counter moved. Returns the request's
 * error. */
int request_poll(struct vrequest *r, int *flag, nx_status *st);
/* After completion: makes a persistent request inactive, releases any other and sets *h to NX_REQUEST_NULL.
 */
void request_retire(struct vrequest *r, nx_t *h);
/* What a blocking call that must stop leaves for mid_resume: up to two requests; nothing is complete yet. */
static inline void cont_begin(nx_cont *k, nx_t first, nx_t second)
{
	k->req[0] = first;
	k->req[1] = second;
	k->received = 0;
	k->error = 0;
}

/* The request of a call that has begun and has no other: there is room for a few thousand when the table is
 * full. */
nx_t request_keep(uint8_t kind, nx_t comm, rh_t real, void *buf, int count, nx_t type, int peer, int tag);

/* Releases the requests that the application has freed and that are complete; true when none is left. */
bool requests_sweep_freed(void);

/* -- messages that a checkpoint has drained (drain.c) -- */
/* take: nobody else finds it, until it is removed or given back. */
bool drained_match(struct vcomm *c, int source, int tag, bool take, struct vdrained **out);
void drained_remove(struct vcomm *c, struct vdrained *d);       /* one that was taken: it is the caller's */
void drained_back(struct vdrained *d);          /* one that was taken is where it was */
/* False: the receive has failed (*err), and nothing was handed out. True: *err is what it returns. */
bool drained_deliver(struct vdrained *d, void *buf, int count, nx_t type, nx_status *st, int *err);

static const nx_status empty_status = { NX_ANY_SOURCE, NX_ANY_TAG, 0, 0, 0 };
static const nx_status proc_null_status = { NX_PROC_NULL, NX_ANY_TAG, 0, 0, 0 };
#endif
