/* hot.inc.c: the calls of inner loops in their common case, from the crossing to the real MPI through one
 * function.
 *
 * Included by each generated driver, so that the real library's functions are called directly. The common
 * case: a route (route.h) to a communicator with nothing drained, a real peer, requests that only the real
 * MPI can complete. Everything else goes to the middle (p2p.c, complete.c) before anything has been done;
 * what these functions do is what those do. With MPI_THREAD_MULTIPLE none of these functions is called. A
 * send that the real MPI has completed at once, as both families do with short messages, gets the one request
 * NX_REQUEST_SENT, like the real libraries' own. Context: as driver.h; no locks, allocations or system calls
 * on the way of a call that need not wait. */
#include "../traffic/traffic.h"
#include "hot_slots.inc.c"

enum { MANY = NX_ROUTED_MANY };                 /* requests of one Waitall */

#ifdef DRIVER_OPENMPI
static MPI_Request request_empty;  /* what ompi's own sends return when they are complete; NULL: unknown */
static inline bool complete_at_once(MPI_Request q) { return q == request_empty; }
static void find_complete(void *libmpi) { request_empty = dlsym(libmpi, "ompi_request_empty"); }
#else
/* The two highest bits of MPICH's handles tell how the object was made; built-in requests are complete. */
enum { HOW_MADE = 30, BUILT_IN = 1 };
static inline bool complete_at_once(MPI_Request q) { return (uint32_t)q >> HOW_MADE == BUILT_IN; }
static void find_complete(void *libmpi) { (void)libmpi; }
#endif

static void hot_load(void *libmpi)
{
	driver.hot = hot_slots;
	find_complete(libmpi);
}

#define HOT_TYPE(r) REAL(MPI_Datatype, (r)->real_type)
#define HOT_COMM(r) REAL(MPI_Comm, (r)->real_comm)

static inline bool is_rank(const struct vcomm *c, int peer)
{
	return likely((uint32_t)peer < (uint32_t)c->size);
}

/* A message from that rank has been taken. */
static inline void taken(struct vcomm *c, int source)
{
	if (is_rank(c, source)) c->peer[source].taken++;
}

/* Takes the free request that was released last, whose index is i, for a receive from one rank. */
static inline struct vrequest *recv_begin(uint32_t i)
{
	static const struct {
		uint8_t kind, flags, mode, routed;
	} begun = { NX_RQ_RECV, NX_RF_ACTIVE, NX_SEND_STANDARD, 1 };
	struct vrequest *v = NX_REQUEST(i);
	_Static_assert(offsetof(struct vrequest, routed) - offsetof(struct vrequest, kind) == 3,
		       "as in begun");
	memcpy(&NX_STATE->free[NX_K_REQUEST], &v->kind, sizeof(uint32_t));
	memcpy(&v->kind, &begun, sizeof begun);
	v->handle |= i;
	return v;
}

/* -- blocking -------------------------------------------------------------------------------------------- */

/* The arguments lie in saved memory while the real MPI works: kept in registers they would have to be saved
 * one by one. */
static inline void args_keep(nx_cont *k, const struct nx_route *r, const void *buf, int count, int peer,
			     int tag)
{
	k->route = r;
	k->buf = (void *)buf;
	k->count = count;
	k->peer = peer;
	k->tag = tag;
}

/* A stop has come first: what is not complete becomes a request, for mid_resume. */
COLD static long yield(nx_cont *k, uint8_t kind, MPI_Request q)
{
	cont_begin(k,
		   request_keep(kind, k->route->comm, RH(q), k->buf, k->count, k->route->type, k->peer,
				k->tag),
		   NX_REQUEST_NULL);
	return BY_AGAIN;
}

static __attribute__((noinline)) long send_wait(nx_cont *k, MPI_Request q)
{
	for (unsigned spins = 0;;) {
		int flag = 0, e = real.test(&q, &flag, ABI_STATUS_IGNORE);
		if (flag || e) return nx_result(k->route->comm, neutral(e), "send");
		if (wait_step(&spins)) return yield(k, NX_RQ_SEND, q);
	}
}

static long routed_send(const void *buf, int count, const struct nx_route *r, int dest, int tag, nx_cont *k)
{
	MPI_Request q;
	args_keep(k, r, buf, count, dest, tag);
	r->peer[dest].sent++;
	int e = real.isend(buf, count, HOT_TYPE(r), dest, tag, HOT_COMM(r), &q);
	if (likely(!e && complete_at_once(q))) return 0;
	if (likely(!e)) return send_wait(k, q);
	k->route->peer[k->peer].sent--;
	return nx_error(k->route->comm, neutral(e), "send");
}

static inline long recv_by(void *buf, int count, const struct nx_route *r, int source, int tag, nx_cont *k,
			   bool status)
{
	if (unlikely(r->c->drained))
		return mid_recv(buf, count, r->type, source, tag, r->comm, status ? &k->st : NULL, k);
	args_keep(k, r, buf, count, source, tag);
	MPI_Request q;
	MPI_Status st, *want = status || source == NX_ANY_SOURCE ? &st : ABI_STATUS_IGNORE;
	int e = real.irecv(buf, count, HOT_TYPE(r), rank_out(source), tag, HOT_COMM(r), &q);
	if (unlikely(e)) return nx_error(k->route->comm, neutral(e), "recv");
	int flag = 0;
	for (unsigned spins = 0; !(e = real.test(&q, &flag, want)) && !flag;)
		if (wait_step(&spins)) return yield(k, NX_RQ_RECV, q);
	r = k->route;
	source = k->peer;
	if (likely(source != NX_ANY_SOURCE)) r->peer[source].taken++;
	else taken((struct vcomm *)r->c, rank_in(st.MPI_SOURCE));
	e = neutral(e);
	if (status && STATUS_SET(e)) status_in(&k->st, &st);
	return nx_result(r->comm, e, "recv");
}

static long routed_recv(void *buf, int count, const struct nx_route *r, int source, int tag, nx_cont *k)
{
	return recv_by(buf, count, r, source, tag, k, false);
}
static long routed_recv_status(void *buf, int count, const struct nx_route *r, int source, int tag,
			       nx_cont *k)
{
	return recv_by(buf, count, r, source, tag, k, true);
}

/* A stop has come first: what is not complete is kept for mid_resume. */
COLD static void sendrecv_keep(struct nx_routed_sendrecv *b, const struct nx_route *s,
			       const struct nx_route *r, const MPI_Request *rq, const MPI_Request *sq,
			       int error)
{
	cont_begin(&b->cont,
		   rq ? request_keep(NX_RQ_RECV, r->comm, RH(*rq), b->recvbuf, b->recvcount, r->type,
				     b->source, b->recvtag)
		      : NX_REQUEST_NULL,
		   sq ? request_keep(NX_RQ_SEND, s->comm, RH(*sq), (void *)b->sendbuf, b->sendcount, s->type,
				     b->dest, b->sendtag)
		      : NX_REQUEST_NULL);
	b->cont.received = !rq;
	b->cont.error = error;
}

COLD static long sendrecv_middle(struct nx_routed_sendrecv *b, const struct nx_route *s,
				 const struct nx_route *r)
{
	return mid_sendrecv(b->sendbuf, b->sendcount, s->type, b->dest, b->sendtag, b->recvbuf, b->recvcount,
			    r->type, b->source, b->recvtag, r->comm, &b->cont.st, &b->cont);
}

/* A short send leaves first (p2p.c); then both are waited for. */
static long routed_sendrecv(struct nx_routed_sendrecv *b, const struct nx_route *s, const struct nx_route *r)
{
	if (unlikely(r->c->drained || (int64_t)b->sendcount * s->bytes > SEND_FIRST))
		return sendrecv_middle(b, s, r);
	MPI_Request sq, rq;
	MPI_Status st;
	int e = real.isend(b->sendbuf, b->sendcount, HOT_TYPE(s), b->dest, b->sendtag, HOT_COMM(s), &sq),
	    serr = 0, rerr = 0, flag = 0;
	if (unlikely(e)) return nx_error(s->comm, neutral(e), "sendrecv");
	s->peer[b->dest].sent++;
	bool sent = complete_at_once(sq), got = false;
	e = real.irecv(b->recvbuf, b->recvcount, HOT_TYPE(r), rank_out(b->source), b->recvtag, HOT_COMM(r),
		       &rq);
	if (unlikely(e)) {
		if (!sent) real.request_free(&sq);
		return nx_error(r->comm, neutral(e), "sendrecv");
	}
	for (unsigned spins = 0; !got || !sent;) {
		if (!got && ((rerr = neutral(real.test(&rq, &flag, &st))) || flag)) got = true;
		if (got && !sent && ((serr = neutral(real.test(&sq, &flag, ABI_STATUS_IGNORE))) || flag))
			sent = true;
		if ((!got || !sent) && wait_step(&spins)) break;
	}
	if (got) {
		taken((struct vcomm *)r->c, b->source == NX_ANY_SOURCE ? rank_in(st.MPI_SOURCE) : b->source);
		if (STATUS_SET(rerr)) status_in(&b->cont.st, &st);
	}
	int error = rerr ? rerr : serr;
	if (likely(got && sent)) return nx_result(r->comm, error, "sendrecv");
	sendrecv_keep(b, s, r, got ? NULL : &rq, sent ? NULL : &sq, error);
	return BY_AGAIN;
}

/* -- starting -------------------------------------------------------------------------------------------- */

/* The send is not complete: it becomes a request. */
static __attribute__((noinline)) long isend_begun(const struct nx_route *r, int dest, MPI_Request q)
{
	bool full = nx_full(NX_K_REQUEST);
	nx_t h = request_keep(NX_RQ_SEND, r->comm, RH(q), NULL, 0, r->type, dest, 0);
	if (likely(!full)) return h;
	NX_REQUEST(h)->flags |= NX_RF_FREED;    /* it is on its way; the application learns that it was one
						 * too many */
	return -nx_error(r->comm, NX_ERR_NO_MEM, "isend");
}

static long routed_isend(const void *buf, int count, const struct nx_route *r, int dest, int tag)
{
	MPI_Request q;
	int e = real.isend(buf, count, HOT_TYPE(r), dest, tag, HOT_COMM(r), &q);
	if (unlikely(e)) return -nx_error(r->comm, neutral(e), "isend");
	r->peer[dest].sent++;
	return likely(complete_at_once(q)) ? NX_REQUEST_SENT : isend_begun(r, dest, q);
}

COLD static long irecv_middle(void *buf, int count, const struct nx_route *r, int source, int tag)
{
	nx_t q;
	long e = mid_irecv(buf, count, r->type, source, tag, r->comm, &q);
	return e ? -e : (long)q;
}

COLD static long irecv_failed(struct vrequest *v, int e)
{
	nx_t comm = v->comm;
	request_release(v);
	return -nx_error(comm, neutral(e), "irecv");
}

static long routed_irecv(void *buf, int count, const struct nx_route *r, int source, int tag)
{
	uint32_t i = NX_STATE->free[NX_K_REQUEST];
	if (unlikely(!i || r->c->drained)) return irecv_middle(buf, count, r, source, tag);
	struct vrequest *v = recv_begin(i);
	if (unlikely(source == NX_ANY_SOURCE)) v->routed = 0;
	v->comm = r->comm;
	v->type = r->type;
	v->buf = buf;
	v->count = count;
	v->peer = source;
	v->tag = tag;
	v->order = NX_STATE->order++;
	v->from = r->peer + source;
	nx_t h = v->handle;
	MPI_Request q;
	int e = real.irecv(buf, count, HOT_TYPE(r), rank_out(source), tag, HOT_COMM(r), &q);
	if (unlikely(e)) return irecv_failed(NX_REQUEST(h), e);
	RREQ(h) = RH(q);
	return h;
}

/* -- completing one -------------------------------------------------------------------------------------- */

/* Here and in gather the call asks for what it was given, on the shortest way: a receive that was posted
 * (a matched message has its source), not what the kind does at a checkpoint. */
static inline bool from_any(const struct vrequest *r)
{
	return r->kind == NX_RQ_RECV && r->peer == NX_ANY_SOURCE;
}

/* A request that only the real MPI can complete. */
static inline bool in_real(nx_t h, const struct vrequest *r)
{
	return likely(h && r->handle == h && r->flags == NX_RF_ACTIVE && RREQ(h));
}

/* The real MPI has completed r: its status, where it was read, and its counter. */
static inline void completed(const struct vrequest *r, const MPI_Status *st, nx_status *status)
{
	if (status) status_in(status, st);
	if (likely(r->routed)) {
		r->from->taken++;
		return;
	}
	if (!pending_of(r)->receives) return;
	taken(NX_COMM(r->comm), r->peer == NX_ANY_SOURCE ? rank_in(st->MPI_SOURCE) : r->peer);
}

static inline long wait_or_poll(nx_t *request, int *flag, nx_status *status, bool wait, const char *function)
{
	struct vrequest *r = NX_REQUEST(*request);
	MPI_Request q = REAL(MPI_Request, RREQ(*request));
	MPI_Status st, *want = status || from_any(r) ? &st : ABI_STATUS_IGNORE;
	nx_t comm = r->comm;
	int e;
	*flag = 0;
	for (unsigned spins = 0;;) {
		e = real.test(&q, flag, want);
		if (*flag || unlikely(e)) break;
		if (!wait) return test_failed();
		if (wait_step(&spins)) return BY_AGAIN;
	}
	*flag = 1;
	completed(r, want, status);
	NX_STATE->free[NX_K_REQUEST] = request_end(r, NX_STATE->free[NX_K_REQUEST]);
	*request = NX_REQUEST_NULL;
	return nx_result(comm, neutral(e), function);
}

static inline long wait_sent(nx_t *request, nx_status *status)
{
	*request = NX_REQUEST_NULL;
	if (status) *status = empty_status;
	return 0;
}

static long hot_wait(nx_t *request, nx_status *status)
{
	int flag;
	if (*request == NX_REQUEST_SENT) return wait_sent(request, status);
	if (!in_real(*request, NX_REQUEST(*request))) return cold_wait(request, status);
	return wait_or_poll(request, &flag, status, true, "wait");
}

static long hot_test(nx_t *request, int *flag, nx_status *status)
{
	if (*request == NX_REQUEST_SENT) {
		*flag = 1;
		return wait_sent(request, status);
	}
	if (!in_real(*request, NX_REQUEST(*request))) return cold_test(request, flag, status);
	return wait_or_poll(request, flag, status, false, "test");
}

/* -- completing all -------------------------------------------------------------------------------------- */

struct many {
	int n, last;                            /* real requests; the last receive among them, or -1 */
	bool any_source;
	MPI_Request q[MANY];
	struct vrequest *r[MANY];
	nx_t *at[MANY];                         /* in the caller's array */
	MPI_Status st[MANY];
};

/* Sends that were complete at once are done with here. False: not the common case. */
static inline bool gather(struct many *m, int count, nx_t *requests)
{
	int n = 0, last = -1;
	bool any_source = false;
	for (int i = 0; i < count; i++) {
		nx_t h = requests[i];
		if (h == NX_REQUEST_SENT || h == NX_REQUEST_NULL) {
			requests[i] = NX_REQUEST_NULL;
			continue;
		}
		struct vrequest *r = NX_REQUEST(h);
		if (!in_real(h, r)) return false;
		if (r->kind == NX_RQ_RECV) last = n;
		any_source |= from_any(r);
		m->q[n] = REAL(MPI_Request, RREQ(h));
		m->r[n] = r;
		m->at[n++] = &requests[i];
	}
	m->n = n;
	m->last = last;
	m->any_source = any_source;
	return true;
}

/* An error came up: what the real MPI has completed is marked so, with its error; the middle waits for the
 * rest. */
COLD static void many_failed(struct many *m, const MPI_Status *want, int e)
{
	for (int k = 0; k < m->n; k++) {
		struct vrequest *r = m->r[k];
		RREQ(r->handle) = RH(m->q[k]);
		if (RREQ(r->handle) != driver.request_null) continue;
		bool read = want != ABI_STATUS_IGNORE;
		r->st = empty_status;
		completed(r, &m->st[k], read ? &r->st : NULL);
		r->flags |= NX_RF_DONE;
		r->st.error = read && e == NX_ERR_IN_STATUS ? neutral(m->st[k].MPI_ERROR) : e;
	}
}

/* Until all are complete, or there is an error: *e. False: a stop has come. One look at the last receive,
 * which is often the last to complete, is cheaper than one at all of them. */
static inline bool many_wait(struct many *m, MPI_Status *want, int *e)
{
	MPI_Request last = m->q[m->last >= 0 ? m->last : 0];
	unsigned spins = 0;
	int flag = m->last < 0;
	for (;;) {
		while (!flag && !real.request_get_status(last, &flag, ABI_STATUS_IGNORE) && !flag)
			if (wait_step(&spins)) return false;
		*e = real.testall(m->n, m->q, &flag, want);
		if (likely(flag) || unlikely(*e)) return true;
		if (wait_step(&spins)) return false;
	}
}

/* All or none: nothing is consumed until all are complete, so that a stop may come at any time. */
static long hot_waitall(int count, nx_t *requests, nx_status *statuses)
{
	struct many m;
	if (unlikely(count > MANY) || !gather(&m, count, requests))
		return cold_waitall(count, requests, statuses);
	MPI_Status *want = statuses || m.any_source ? m.st : ABI_STATUS_IGNORE;
	int e = 0;
	if (m.n && !many_wait(&m, want, &e)) return BY_AGAIN;
	if (unlikely(e)) {
		many_failed(&m, want, neutral(e));
		return cold_waitall(count, requests, statuses);
	}
	for (int i = 0; statuses && i < count; i++) statuses[i] = empty_status;
	uint32_t free = NX_STATE->free[NX_K_REQUEST];
	for (int k = 0; k < m.n; k++) {
		completed(m.r[k], &m.st[k], statuses ? &statuses[m.at[k] - requests] : NULL);
		free = request_end(m.r[k], free);
		*m.at[k] = NX_REQUEST_NULL;
	}
	NX_STATE->free[NX_K_REQUEST] = free;
	return 0;
}

/* Receives by a route from one rank each; others: as hot_waitall. */
static long routed_waitall(int n, nx_t *requests)
{
	struct many m;
	for (int k = 0; k < n; k++) {
		struct vrequest *r = NX_REQUEST(requests[k]);
		if (!in_real(requests[k], r) || unlikely(!r->routed)) return hot_waitall(n, requests, NULL);
		m.q[k] = REAL(MPI_Request, RREQ(requests[k]));
		m.r[k] = r;
	}
	m.n = n;
	m.last = n - 1;
	int e;
	if (!many_wait(&m, ABI_STATUS_IGNORE, &e)) return BY_AGAIN;
	if (unlikely(e)) {
		many_failed(&m, ABI_STATUS_IGNORE, neutral(e));
		return cold_waitall(n, requests, NULL);
	}
	uint32_t free = NX_STATE->free[NX_K_REQUEST];
	for (int k = 0; k < n; k++) {
		m.r[k]->from->taken++;
		free = request_end(m.r[k], free);
	}
	NX_STATE->free[NX_K_REQUEST] = free;
	return NX_ROUTED_GONE;
}
