/* p2p.c: blocking point-to-point, and the starting of non-blocking point-to-point (MPI-4.1 chapter 3).
 *
 * A blocking call starts the real non-blocking one and tests it, so that a checkpoint never has to wait for a
 * message that has not been sent: when a stop is in effect the real request is kept as a virtual one and the
 * call yields to the upper half (BY_AGAIN); NX_SLOT_RESUME completes it afterwards, in this process or in the
 * next. Messages taken off the network by a checkpoint (drained) come before whatever the real MPI still
 * holds. Context: as traffic.h. Hot: no locks, allocations or system calls on the way of a call that need not
 * wait. */
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "traffic.h"

nx_t request_keep(uint8_t kind, nx_t comm, rh_t real, void *buf, int count, nx_t type, int peer, int tag)
{
	struct vrequest *r = request_new(kind, comm);
	if (!r) r = request_begin(nx_alloc_reserved(NX_K_REQUEST), kind, comm);
	if (!r) core_die("more than %u requests are active", NX_MAXINDEX - NX_DYNAMIC);
	request_args(r, buf, count, type, peer, tag);
	r->order = next_order();
	RREQ(r->handle) = real;
	return r->handle;
}

/* -- sends ----------------------------------------------------------------------------------------------- */

typedef int isend_fn(const void *, int, rh_t, int, int, rh_t, rh_t *);

static inline long check(nx_t comm, nx_t type, const char *function, struct vcomm **c)
{
	*c = comm_of(comm);
	if (unlikely(!*c)) return nx_error(NX_COMM_WORLD, NX_ERR_COMM, function);
	if (unlikely(!type_ok(type))) return nx_error(comm, NX_ERR_TYPE, function);
	return 0;
}

/* Hands a message to the real MPI and counts it. */
static inline int start_real(isend_fn *start, const void *buf, int count, nx_t type, int dest, int tag,
			     struct vcomm *c, rh_t *q)
{
	send_begin();
	int e = start(buf, count, RTYPE(type), dest, tag, RCOMM(c->handle), q);
	if (likely(!e)) count_sent(c, dest, tag);
	send_end();
	return e;
}

static inline long send_blocking(const char *function, const void *buf, int count, nx_t type, int dest,
				 int tag, nx_t comm, nx_cont *cont)
{
	struct vcomm *c;
	long err = check(comm, type, function, &c);
	if (unlikely(err)) return err;
	rh_t q;
	int e = start_real(drv->isend, buf, count, type, dest, tag, c, &q), flag = 0;
	if (unlikely(e)) return nx_error(comm, e, function);
	for (unsigned spins = 0;;) {
		e = drv->test(&q, &flag, NULL);
		if (likely(flag) || e) return nx_result(comm, e, function);
		if (wait_step(&spins)) break;
	}
	cont_begin(cont, request_keep(NX_RQ_SEND, comm, q, (void *)buf, count, type, dest, tag),
		   NX_REQUEST_NULL);
	return BY_AGAIN;
}

long mid_send(const void *buf, int count, nx_t datatype, int dest, int tag, nx_t comm, nx_cont *cont)
{
	return send_blocking("send", buf, count, datatype, dest, tag, comm, cont);
}

/* A ready send may find its receive not posted yet after a restart or a drain: it goes as a standard send. */
long mid_rsend(const void *buf, int count, nx_t datatype, int dest, int tag, nx_t comm, nx_cont *cont)
{
	return send_blocking("rsend", buf, count, datatype, dest, tag, comm, cont);
}

/* Starts the send of a request, which has its arguments. */
static int begin_send(isend_fn *start, struct vrequest *r, struct vcomm *c, const void *buf, int count)
{
	bool sync = start == drv->issend;
	send_begin();
	int e = sync ? sync_prepare(c, r->peer, r->tag) : 0;
	if (likely(!e))
		e = start(buf, count, RTYPE(r->type), r->peer, r->tag, RCOMM(c->handle), &RREQ(r->handle));
	if (likely(!e)) {
		count_sent(c, r->peer, r->tag);
		if (sync) sync_posted(r, c);
	}
	send_end();
	return e;
}

static long start_send(isend_fn *start, const char *function, const void *buf, int count, nx_t type, int dest,
		       int tag, nx_t comm, nx_t *request)
{
	struct vcomm *c;
	long err = check(comm, type, function, &c);
	if (unlikely(err)) return err;
	struct vrequest *r = request_new(NX_RQ_SEND, comm);
	if (unlikely(!r)) return nx_error(comm, NX_ERR_NO_MEM, function);
	request_args(r, (void *)buf, count, type, dest, tag);
	int e = begin_send(start, r, c, buf, count);
	if (unlikely(e)) {
		request_release(r);
		return nx_error(comm, e, function);
	}
	*request = r->handle;
	return 0;
}

long mid_isend(const void *buf, int count, nx_t datatype, int dest, int tag, nx_t comm, nx_t *request)
{
	return start_send(drv->isend, "isend", buf, count, datatype, dest, tag, comm, request);
}

long mid_issend(const void *buf, int count, nx_t datatype, int dest, int tag, nx_t comm, nx_t *request)
{
	return start_send(drv->issend, "issend", buf, count, datatype, dest, tag, comm, request);
}

long mid_irsend(const void *buf, int count, nx_t datatype, int dest, int tag, nx_t comm, nx_t *request)
{
	return start_send(drv->isend, "irsend", buf, count, datatype, dest, tag, comm, request);
}

/* While it waits no other thread sends: its place in its stream is known when a stop comes. */
static long ssend_alone(const void *buf, int count, nx_t type, int dest, int tag, nx_t comm, struct vcomm *c,
			nx_cont *cont)
{
	rh_t q;
	int e = start_real(drv->issend, buf, count, type, dest, tag, c, &q), flag = 0;
	if (unlikely(e)) return nx_error(comm, e, "ssend");
	for (unsigned spins = 0;;) {
		e = drv->test(&q, &flag, NULL);
		if (likely(flag) || e) return nx_result(comm, e, "ssend");
		if (wait_step(&spins) && !sync_prepare(c, dest, tag)) break;
	}
	nx_t h = request_keep(NX_RQ_SEND, comm, q, (void *)buf, count, type, dest, tag);
	sync_posted(NX_REQUEST(h), c);
	cont_begin(cont, h, NX_REQUEST_NULL);
	return BY_AGAIN;
}

long mid_ssend(const void *buf, int count, nx_t datatype, int dest, int tag, nx_t comm, nx_cont *cont)
{
	nx_t h;
	struct vcomm *c;
	long err = check(comm, datatype, "ssend", &c);
	if (unlikely(err)) return err;
	if (likely(!NX_STATE->multiple)) return ssend_alone(buf, count, datatype, dest, tag, comm, c, cont);
	err = start_send(drv->issend, "ssend", buf, count, datatype, dest, tag, comm, &h);
	if (unlikely(err)) return err;
	cont_begin(cont, h, NX_REQUEST_NULL);
	return mid_resume(cont, NULL);
}

/* -- receives -------------------------------------------------------------------------------------------- */

/* A receive that the real MPI need not see: from MPI_PROC_NULL, or of a message that a checkpoint drained. */
static inline bool satisfied(struct vcomm *c, int source, int tag, void *buf, int count, nx_t type,
			     nx_status *st, int *err)
{
	if (unlikely(source == NX_PROC_NULL)) {
		if (st) *st = proc_null_status;
		return true;
	}
	struct vdrained *d;
	if (likely(c->drained == NULL) || !drained_match(c, source, tag, true, &d)) return false;
	if (drained_deliver(d, buf, count, type, st, err)) {
		drained_remove(c, d);
		nx_free(d);
	} else {
		drained_back(d);
	}
	return true;
}

/* As request_keep, for a receive. */
static nx_t recv_keep(nx_t comm, rh_t real, void *buf, int count, nx_t type, int source, int tag, bool late)
{
	nx_t h = request_keep(NX_RQ_RECV, comm, real, buf, count, type, source, tag);
	if (late) NX_REQUEST(h)->flags |= NX_RF_LATE;
	return h;
}

long mid_recv(void *buf, int count, nx_t datatype, int source, int tag, nx_t comm, nx_status *status,
	      nx_cont *cont)
{
	struct vcomm *c;
	long err = check(comm, datatype, "recv", &c);
	if (unlikely(err)) return err;
	bool late = c->matched;
	nx_status own, *st = status ? status : source == NX_ANY_SOURCE || late ? &own : NULL;
	int e = 0;
	if (unlikely(satisfied(c, source, tag, buf, count, datatype, status, &e)))
		return nx_result(comm, e, "recv");
	rh_t q;
	int flag = 0;
	e = drv->irecv(buf, count, RTYPE(datatype), source, tag, RCOMM(comm), &q);
	if (unlikely(e)) return nx_error(comm, e, "recv");
	for (unsigned spins = 0;;) {
		e = drv->test(&q, &flag, st);
		if (likely(flag) || unlikely(e)) {
			count_taken(c, source == NX_ANY_SOURCE ? st->source : source);
			if (unlikely(late)) sync_overtaken(c, st->source, st->tag, UINT64_MAX);
			return nx_result(comm, e, "recv");
		}
		if (wait_step(&spins)) break;
	}
	cont_begin(cont, recv_keep(comm, q, buf, count, datatype, source, tag, late), NX_REQUEST_NULL);
	return BY_AGAIN;
}

/* Starts a receive with the arguments that are in r: from what a checkpoint drained, else from the real MPI.
 */
static int begin_recv(struct vrequest *r, struct vcomm *c)
{
	int e = 0;
	if (unlikely(satisfied(c, r->peer, r->tag, r->buf, r->count, r->type, &r->st, &e))) {
		r->st.error = e;
		r->flags |= NX_RF_DONE;
		RREQ(r->handle) = 0;
		return 0;
	}
	r->order = next_order();
	if (unlikely(c->matched)) r->flags |= NX_RF_LATE;
	return drv->irecv(r->buf, r->count, RTYPE(r->type), r->peer, r->tag, RCOMM(r->comm),
			  &RREQ(r->handle));
}

long mid_irecv(void *buf, int count, nx_t datatype, int source, int tag, nx_t comm, nx_t *request)
{
	struct vcomm *c;
	long err = check(comm, datatype, "irecv", &c);
	if (unlikely(err)) return err;
	struct vrequest *r = request_new(NX_RQ_RECV, comm);
	if (unlikely(!r)) FAIL(comm, NX_ERR_NO_MEM);
	request_args(r, buf, count, datatype, source, tag);
	int e = begin_recv(r, c);
	if (unlikely(e)) {
		request_release(r);
		FAIL(comm, e);
	}
	*request = r->handle;
	return 0;
}

/* -- send and receive at once ---------------------------------------------------------------------------- */

/* Waits for the send half and the receive half; what is not complete when a stop comes is kept in cont. */
struct both { rh_t sq, rq; bool sdone, rdone; int serr, rerr; };

static bool wait_both(struct both *b, nx_status *st)
{
	unsigned spins = 0;
	int flag;
	for (;;) {
		if (!b->rdone) {
			b->rerr = drv->test(&b->rq, &flag, st);
			b->rdone = flag || b->rerr;
		}
		if (b->rdone && !b->sdone) {
			b->serr = drv->test(&b->sq, &flag, NULL);
			b->sdone = flag || b->serr;
		}
		if (b->rdone && b->sdone) return true;
		if (wait_step(&spins)) return false;
	}
}

long mid_sendrecv(const void *sendbuf, int sendcount, nx_t sendtype, int dest, int sendtag, void *recvbuf,
		  int recvcount, nx_t recvtype, int source, int recvtag, nx_t comm, nx_status *status,
		  nx_cont *cont)
{
	struct vcomm *c;
	long err = check(comm, sendtype, "sendrecv", &c);
	if (unlikely(err)) return err;
	if (unlikely(!type_ok(recvtype))) FAIL(comm, NX_ERR_TYPE);
	nx_status own, *st = status ? status : &own;
	struct both b = { 0 };
	bool late = c->matched;
	b.rdone = satisfied(c, source, recvtag, recvbuf, recvcount, recvtype, st, &b.rerr);
	bool counted = b.rdone;                 /* a drained message was counted when it was drained */
	bool send_first = sendcount * NX_TYPE(sendtype)->size <= SEND_FIRST;
	int e = send_first ? start_real(drv->isend, sendbuf, sendcount, sendtype, dest, sendtag, c, &b.sq)
			   : 0;
	if (unlikely(e)) FAIL(comm, e);
	if (!b.rdone)
		e = drv->irecv(recvbuf, recvcount, RTYPE(recvtype), source, recvtag, RCOMM(comm), &b.rq);
	if (unlikely(e)) {
		if (send_first) drv->request_free(&b.sq);
		FAIL(comm, e);
	}
	if (!send_first) e = start_real(drv->isend, sendbuf, sendcount, sendtype, dest, sendtag, c, &b.sq);
	if (unlikely(e)) {
		if (!b.rdone) {
			drv->cancel(b.rq);
			drv->request_free(&b.rq);
		}
		FAIL(comm, e);
	}
	bool done = wait_both(&b, st);
	if (b.rdone && !counted) {
		count_taken(c, source == NX_ANY_SOURCE ? st->source : source);
		if (unlikely(late)) sync_overtaken(c, st->source, st->tag, UINT64_MAX);
	}
	if (likely(done)) RESULT(comm, b.rerr ? b.rerr : b.serr);
	cont_begin(cont,
		   b.rdone ? NX_REQUEST_NULL
			   : recv_keep(comm, b.rq, recvbuf, recvcount, recvtype, source, recvtag, late),
		   b.sdone ? NX_REQUEST_NULL
			   : request_keep(NX_RQ_SEND, comm, b.sq, (void *)sendbuf, sendcount, sendtype, dest,
					  sendtag));
	if (b.rdone) cont->st = *st;
	cont->received = b.rdone;
	cont->error = b.rerr ? b.rerr : b.serr;
	return BY_AGAIN;
}

/* A copy of a message as packed bytes in saved memory. */
static void *pack_copy(const void *buf, int count, nx_t type, nx_t comm, int *bytes, int *err)
{
	int size, at = 0;
	*err = drv->pack_size(count, RTYPE(type), RCOMM(comm), &size);
	if (*err) return NULL;
	void *p = nx_malloc(size ? (size_t)size : 1);
	if (!p) {
		*err = NX_ERR_NO_MEM;
		return NULL;
	}
	*err = drv->pack(buf, count, RTYPE(type), p, size, &at, RCOMM(comm));
	*bytes = at;
	if (!*err) return p;
	nx_free(p);
	return NULL;
}

long mid_sendrecv_replace(void *buf, int count, nx_t datatype, int dest, int sendtag, int source, int recvtag,
			  nx_t comm, nx_status *status, nx_cont *cont)
{
	struct vcomm *c;
	long err = check(comm, datatype, "sendrecv_replace", &c);
	if (unlikely(err)) return err;
	int bytes, e;
	void *copy = pack_copy(buf, count, datatype, comm, &bytes, &e);
	if (!copy) FAIL(comm, e);
	err = mid_sendrecv(copy, bytes, NX_TYPE_PACKED, dest, sendtag, buf, count, datatype, source, recvtag,
			   comm, status, cont);
	if (err == BY_AGAIN && cont->req[1]) NX_REQUEST(cont->req[1])->own = copy;
	else nx_free(copy);
	return err;
}

/* -- after a yield --------------------------------------------------------------------------------------- */

/* Completes what a blocking call left in cont: the receive's status is the call's. */
long mid_resume(nx_cont *cont, nx_status *status)
{
	nx_t comm = NX_COMM_WORLD;
	for (int i = 0; i < 2; i++) {
		nx_t h = cont->req[i];
		if (!h) continue;
		struct vrequest *r = NX_REQUEST(h);
		nx_status st;
		int flag = 0, e;
		for (unsigned spins = 0;;) {
			e = request_poll(r, &flag, &st);
			if (flag) break;
			if (wait_step(&spins)) return BY_AGAIN;
		}
		comm = r->comm;
		if (pending_of(r)->receives) cont->st = st, cont->received = 1;
		if (!cont->error) cont->error = e;
		request_retire(r, &cont->req[i]);
	}
	if (status && cont->received) *status = cont->st;
	return nx_result(comm, cont->error, "resume");
}

/* -- buffered sends -------------------------------------------------------------------------------------- */

long mid_buffer_attach(void *buffer, int size)
{
	struct nx_state *s = NX_STATE;
	if (s->bsend_buf || size < 0) FAIL(NX_COMM_WORLD, NX_ERR_BUFFER);
	s->bsend_buf = (uint64_t)(uintptr_t)buffer;
	s->bsend_size = size;
	return 0;
}

/* Freed by the application, and from then on the sweep's alone. Under the lock an entry is whole. */
static bool is_freed(const struct vrequest *r, uint32_t i)
{
	nx_lock();
	bool freed = NX_INDEX(r->handle) == i && (r->flags & NX_RF_FREED);
	nx_unlock();
	return freed;
}

static uint32_t sweeping;

/* One thread at a time; false also when another one is at it. */
bool requests_sweep_freed(void)
{
	bool left = false;
	if (__atomic_exchange_n(&sweeping, 1, __ATOMIC_ACQUIRE)) return false;
	for (uint32_t i = NX_DYNAMIC; i < nx_high(NX_K_REQUEST); i++) {
		struct vrequest *r = NX_REQUEST(i);
		if (!is_freed(r, i)) continue;
		nx_status st;
		int flag;
		request_poll(r, &flag, &st);
		if (!flag) {
			left = true;
			continue;
		}
		if (r->mode == NX_SEND_BUFFERED)
			__atomic_fetch_sub(&NX_STATE->bsend_used, r->count, __ATOMIC_RELAXED);
		r->flags = NX_RF_ACTIVE;
		nx_t h;
		request_retire(r, &h);
	}
	__atomic_store_n(&sweeping, 0, __ATOMIC_RELEASE);
	return !left;
}

long mid_buffer_detach(void **buffer_addr, int *size)
{
	struct nx_state *s = NX_STATE;
	if (!s->bsend_buf) FAIL(NX_COMM_WORLD, NX_ERR_BUFFER);
	for (unsigned spins = 0; s->bsend_used && !requests_sweep_freed();)
		if (wait_step(&spins)) return BY_AGAIN;
	*buffer_addr = (void *)(uintptr_t)s->bsend_buf;
	*size = (int)s->bsend_size;
	s->bsend_buf = 0;
	return 0;
}

void p2p_finish_buffered(void)
{
	for (unsigned spins = 0; NX_STATE->bsend_used && !requests_sweep_freed();) wait_step(&spins);
}

/* Room for so many bytes in the attached buffer. That a message has been received the library may learn after
 * some looks only, and another thread may be looking, or about to give back what it has not got. */
static bool buffer_reserve(struct nx_state *s, int bytes)
{
	enum { LOOKS = 1000 };
	if (!s->bsend_buf || bytes > s->bsend_size) return false;
	for (int k = 0; k < LOOKS; k++) {
		if (__atomic_add_fetch(&s->bsend_used, bytes, __ATOMIC_RELAXED) <= s->bsend_size) return true;
		__atomic_fetch_sub(&s->bsend_used, bytes, __ATOMIC_RELAXED);
		if (!requests_sweep_freed()) sched_yield();
		while (__atomic_load_n(&sweeping, __ATOMIC_ACQUIRE)) sched_yield();
	}
	return false;
}

/* The message is packed into saved memory of our own and accounted against the attached buffer; its request
 * is freed at once. Not the buffer itself: the application may detach and reuse it while we still look at the
 * bytes. */
static int bsend(const void *buf, int count, nx_t type, int dest, int tag, nx_t comm, struct vcomm *c)
{
	struct nx_state *s = NX_STATE;
	int bytes, e;
	void *copy = pack_copy(buf, count, type, comm, &bytes, &e);
	if (!copy) return e;
	e = buffer_reserve(s, bytes) ? 0 : NX_ERR_BUFFER;
	rh_t q;
	if (!e && (e = start_real(drv->isend, copy, bytes, NX_TYPE_PACKED, dest, tag, c, &q)))
		__atomic_fetch_sub(&s->bsend_used, bytes, __ATOMIC_RELAXED);
	if (e) {
		nx_free(copy);
		return e;
	}
	struct vrequest *r =
		NX_REQUEST(request_keep(NX_RQ_SEND, comm, q, copy, bytes, NX_TYPE_PACKED, dest, tag));
	r->own = copy;
	r->mode = NX_SEND_BUFFERED;
	__atomic_fetch_or(&r->flags, NX_RF_FREED, __ATOMIC_RELEASE);
	return 0;
}

long mid_bsend(const void *buf, int count, nx_t datatype, int dest, int tag, nx_t comm, nx_cont *cont)
{
	struct vcomm *c;
	long err = check(comm, datatype, "bsend", &c);
	(void)cont;
	if (unlikely(err)) return err;
	RESULT(comm, bsend(buf, count, datatype, dest, tag, comm, c));
}

/* A request that is complete from the start. */
static nx_t done_request(uint8_t kind, nx_t comm)
{
	struct vrequest *r = request_new(kind, comm);
	if (!r) return 0;
	r->type = 0;
	r->flags |= NX_RF_DONE;
	r->st = empty_status;
	return r->handle;
}

long mid_ibsend(const void *buf, int count, nx_t datatype, int dest, int tag, nx_t comm, nx_t *request)
{
	struct vcomm *c;
	long err = check(comm, datatype, "ibsend", &c);
	if (unlikely(err)) return err;
	int e = bsend(buf, count, datatype, dest, tag, comm, c);
	if (!e && !(*request = done_request(NX_RQ_SEND, comm))) e = NX_ERR_NO_MEM;
	RESULT(comm, e);
}

/* -- persistent requests: a record; each start is a fresh real request ----------------------------------- */

static long persistent(uint8_t kind, uint8_t mode, const char *function, const void *buf, int count,
		       nx_t type, int peer, int tag, nx_t comm, nx_t *request)
{
	struct vcomm *c;
	long err = check(comm, type, function, &c);
	if (unlikely(err)) return err;
	struct vrequest *r = request_new(kind, comm);
	if (!r) return nx_error(comm, NX_ERR_NO_MEM, function);
	request_args(r, (void *)buf, count, type, peer, tag);
	r->mode = mode;
	r->flags = NX_RF_PERSISTENT;
	RREQ(r->handle) = 0;
	*request = r->handle;
	return 0;
}

long mid_send_init(const void *buf, int count, nx_t datatype, int dest, int tag, nx_t comm, nx_t *request)
{
	return persistent(NX_RQ_SEND, NX_SEND_STANDARD, "send_init", buf, count, datatype, dest, tag, comm,
			  request);
}

long mid_ssend_init(const void *buf, int count, nx_t datatype, int dest, int tag, nx_t comm, nx_t *request)
{
	return persistent(NX_RQ_SEND, NX_SEND_SYNCHRONOUS, "ssend_init", buf, count, datatype, dest, tag,
			  comm, request);
}

long mid_rsend_init(const void *buf, int count, nx_t datatype, int dest, int tag, nx_t comm, nx_t *request)
{
	return persistent(NX_RQ_SEND, NX_SEND_STANDARD, "rsend_init", buf, count, datatype, dest, tag, comm,
			  request);
}

long mid_bsend_init(const void *buf, int count, nx_t datatype, int dest, int tag, nx_t comm, nx_t *request)
{
	return persistent(NX_RQ_SEND, NX_SEND_PERSISTENT_BUFFERED, "bsend_init", buf, count, datatype, dest,
			  tag, comm, request);
}

long mid_recv_init(void *buf, int count, nx_t datatype, int source, int tag, nx_t comm, nx_t *request)
{
	return persistent(NX_RQ_RECV, 0, "recv_init", buf, count, datatype, source, tag, comm, request);
}

/* Which call it stands for, MPI_Recv_init or one of the sends', is in its kind: that is what MPI_Start asks,
 * and no matter of the table. */
static int start_one(struct vrequest *r)
{
	struct vcomm *c = NX_COMM(r->comm);
	r->flags = NX_RF_PERSISTENT | NX_RF_ACTIVE;
	if (r->kind == NX_RQ_RECV) return begin_recv(r, c);
	int e;
	if (r->mode == NX_SEND_PERSISTENT_BUFFERED) {
		e = bsend(r->buf, r->count, r->type, r->peer, r->tag, r->comm, c);
		r->flags |= NX_RF_DONE;
		r->st = empty_status;
		return e;
	}
	return begin_send(r->mode == NX_SEND_SYNCHRONOUS ? drv->issend : drv->isend, r, c, r->buf, r->count);
}

long mid_start(nx_t request)
{
	struct vrequest *r = NX_REQUEST(request);
	if (!nx_live(request, r) || !(r->flags & NX_RF_PERSISTENT) || (r->flags & NX_RF_ACTIVE))
		FAIL(NX_COMM_WORLD, NX_ERR_REQUEST);
	int e = start_one(r);
	if (e) r->flags = NX_RF_PERSISTENT;
	RESULT(r->comm, e);
}

long mid_startall(int count, const nx_t *array_of_requests)
{
	for (int i = 0; i < count; i++) {
		long e = mid_start(array_of_requests[i]);
		if (e) return e;
	}
	return 0;
}

/* -- probes ---------------------------------------------------------------------------------------------- */

static int probe_once(struct vcomm *c, int source, int tag, nx_t comm, int *flag, nx_status *st)
{
	struct vdrained *d;
	if (unlikely(c->drained != NULL) && drained_match(c, source, tag, false, &d)) {
		*flag = 1;
		if (st) *st = (nx_status){ d->source, d->tag, 0, 0, d->bytes };
		return 0;
	}
	return drv->iprobe(source, tag, RCOMM(comm), flag, st);
}

long mid_iprobe(int source, int tag, nx_t comm, int *flag, nx_status *status)
{
	struct vcomm *c = comm_of(comm);
	if (!c) FAIL(NX_COMM_WORLD, NX_ERR_COMM);
	int e = probe_once(c, source, tag, comm, flag, status);
	if (!e && !*flag) return test_failed();
	RESULT(comm, e);
}

long mid_probe(int source, int tag, nx_t comm, nx_status *status)
{
	struct vcomm *c = comm_of(comm);
	if (!c) FAIL(NX_COMM_WORLD, NX_ERR_COMM);
	for (unsigned spins = 0;;) {
		int flag = 0, e = probe_once(c, source, tag, comm, &flag, status);
		if (flag || e) RESULT(comm, e);
		if (wait_step(&spins)) return BY_AGAIN;
	}
}

/* A matched message is a virtual object: drained, or real. */
static int mprobe_once(struct vcomm *c, int source, int tag, nx_t comm, int *flag, nx_t *message,
		       nx_status *status)
{
	nx_status st;
	rh_t real = 0;
	struct vdrained *d = NULL;
	*flag = 0;
	*message = NX_MESSAGE_NULL;             /* as the libraries do, though it need not be */
	nx_t h = nx_alloc(NX_K_MESSAGE);        /* first: what has been matched must have an entry */
	if (!h) return NX_ERR_NO_MEM;
	int e = 0;
	if (unlikely(c->drained != NULL) && drained_match(c, source, tag, true, &d)) {
		*flag = 1;
		drained_remove(c, d);
		st = (nx_status){ d->source, d->tag, 0, 0, d->bytes };
	} else {
		e = drv->improbe(source, tag, RCOMM(comm), flag, &real, &st);
	}
	bool none = e || !*flag, no_proc = !none && st.source == NX_PROC_NULL;
	if (!none && status) *status = st;
	if (no_proc) *message = NX_MESSAGE_NO_PROC;
	if (none || no_proc) {
		nx_release(NX_K_MESSAGE, h);
		return e;
	}
	struct vmessage *m = NX_MESSAGE(h);
	m->comm = comm;
	m->source = st.source;
	m->tag = st.tag;
	m->bytes = st.bytes;
	m->held = d;
	RMSG(h) = real;
	if (!d) sync_matched(m, c);
	*message = h;
	return 0;
}

long mid_improbe(int source, int tag, nx_t comm, int *flag, nx_t *message, nx_status *status)
{
	struct vcomm *c = comm_of(comm);
	if (!c) FAIL(NX_COMM_WORLD, NX_ERR_COMM);
	int e = mprobe_once(c, source, tag, comm, flag, message, status);
	if (!e && !*flag) return test_failed();
	RESULT(comm, e);
}

long mid_mprobe(int source, int tag, nx_t comm, nx_t *message, nx_status *status)
{
	struct vcomm *c = comm_of(comm);
	if (!c) FAIL(NX_COMM_WORLD, NX_ERR_COMM);
	for (unsigned spins = 0;;) {
		int flag = 0, e = mprobe_once(c, source, tag, comm, &flag, message, status);
		if (flag || e) RESULT(comm, e);
		if (wait_step(&spins)) return BY_AGAIN;
	}
}

/* Begins the receive of a matched message as a request; *err on failure. */
static struct vrequest *begin_mrecv(void *buf, int count, nx_t type, nx_t *message, int *err)
{
	struct vmessage *m = NX_MESSAGE(*message);
	struct vrequest *r = request_new(NX_RQ_MRECV, m->comm);
	*err = NX_ERR_NO_MEM;
	if (!r) return NULL;
	request_args(r, buf, count, type, m->source, m->tag);
	*err = 0;
	if (m->held) {
		r->st = empty_status;
		int result;
		if (drained_deliver(m->held, buf, count, type, &r->st, &result)) {
			r->st.error = result;
			r->flags |= NX_RF_DONE;
			nx_free(m->held);
		} else {
			*err = result;
		}
	} else {
		rh_t real = RMSG(*message);
		*err = drv->imrecv(buf, count, RTYPE(type), &real, &RREQ(r->handle));
		if (!*err) sync_received(m, NX_COMM(m->comm));
	}
	if (*err) {
		request_release(r);
		return NULL;
	}
	nx_release(NX_K_MESSAGE, *message);
	*message = NX_MESSAGE_NULL;
	return r;
}

long mid_imrecv(void *buf, int count, nx_t datatype, nx_t *message, nx_t *request)
{
	if (!type_ok(datatype)) FAIL(NX_COMM_WORLD, NX_ERR_TYPE);
	if (*message == NX_MESSAGE_NO_PROC) {
		*request = done_request(NX_RQ_MRECV, NX_COMM_WORLD);
		if (!*request) FAIL(NX_COMM_WORLD, NX_ERR_NO_MEM);
		NX_REQUEST(*request)->st = proc_null_status;
		*message = NX_MESSAGE_NULL;
		return 0;
	}
	if (!nx_live(*message, NX_MESSAGE(*message))) FAIL(NX_COMM_WORLD, NX_ERR_REQUEST);
	nx_t comm = NX_MESSAGE(*message)->comm;
	int e;
	struct vrequest *r = begin_mrecv(buf, count, datatype, message, &e);
	if (!r) FAIL(comm, e);
	*request = r->handle;
	return 0;
}

long mid_mrecv(void *buf, int count, nx_t datatype, nx_t *message, nx_status *status, nx_cont *cont)
{
	nx_t q;
	long e = mid_imrecv(buf, count, datatype, message, &q);
	if (e) return e;
	cont_begin(cont, q, NX_REQUEST_NULL);
	return mid_resume(cont, status);
}
