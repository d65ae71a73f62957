/* hot.inc.c: the calls of inner loops in their common case, from the crossing to the real MPI through one function.
 *
 * Included by each generated driver, so that the real library's functions are called directly. The common case: a live
 * communicator with nothing drained, a predefined datatype, a real peer, requests that only the real MPI can complete.
 * Everything else goes to the middle (p2p.c, complete.c) before anything has been done; what these functions do is what
 * those do. With MPI_THREAD_MULTIPLE none of these functions is called. A send that the real MPI has completed at once, as
 * both families do with short messages, gets the one request NX_REQUEST_SENT, like the real libraries' own.
 * Context: as middle.h; no locks, allocations or system calls on the way of a call that need not wait. */
#include "request.h"

#define COUNT(both)  ((int)(both))              /* two narrow arguments come in one register */
#define SECOND(both) ((int)((both) >> 32))

enum { MANY = 64 };                             /* requests of one Waitall */

#ifdef DRIVER_OPENMPI
static MPI_Request request_empty;               /* what ompi's own sends return when they are complete; NULL: unknown */
static inline bool complete_at_once(MPI_Request q) { return q == request_empty; }
static void hot_load(void *libmpi) { request_empty = dlsym(libmpi, "ompi_request_empty"); }
#else
/* A handle of MPICH says in its two highest bits how the object was made; built-in requests are complete. */
static inline bool complete_at_once(MPI_Request q) { return (uint32_t)q >> 30 == 1; }
static void hot_load(void *libmpi) { (void)libmpi; }
#endif

#define HOT_TYPE(t) REAL(MPI_Datatype, real_type[t])
#define HOT_COMM(c) REAL(MPI_Comm, RCOMM(c))

static inline bool common(const struct vcomm *c, nx_t comm, nx_t type)
{
	return likely(comm && c->handle == comm && type < NX_DYNAMIC && real_type[type]);
}

static inline bool is_rank(const struct vcomm *c, int peer) { return likely((uint32_t)peer < (uint32_t)c->size); }

/* A receive that goes straight to the real MPI. */
static inline bool common_recv(const struct vcomm *c, nx_t comm, nx_t type, int source)
{
	return common(c, comm, type) && likely(!c->drained) && (is_rank(c, source) || source == NX_ANY_SOURCE);
}

/* A message from that rank has been taken. */
static inline void taken(struct vcomm *c, int source)
{
	if (is_rank(c, source)) c->peer[source].taken++;
}

/* The index of the free request that was released last; 0: the middle makes one. */
static inline uint32_t request_peek(void) { return NX_STATE->free[NX_K_REQUEST]; }

/* Takes r, the one that request_peek has named, which has its arguments already. */
static inline nx_t request_begin(struct vrequest *r, uint8_t kind, MPI_Request q)
{
	struct nx_state *s = NX_STATE;
	uint32_t i = request_peek(), next;
	memcpy(&next, (char *)r + sizeof r->handle, sizeof next);
	s->free[NX_K_REQUEST] = next;
	r->handle |= i;
	r->kind = kind;
	r->flags = NX_RF_ACTIVE;
	r->mode = NX_SEND_STANDARD;
	r->pad = 0;
	real_request[i] = RH(q);
	return r->handle;
}

/* -- blocking ------------------------------------------------------------------------------------------------------- */

static long hot_send(const void *buf, uint64_t count_datatype, int dest, int tag, nx_t comm, nx_cont *cont)
{
	int count = COUNT(count_datatype);
	nx_t datatype = (nx_t)SECOND(count_datatype);
	struct vcomm *c = NX_COMM(comm);
	if (!common(c, comm, datatype) || !is_rank(c, dest)) return cold_send(buf, count_datatype, dest, tag, comm, cont);
	MPI_Request q;
	int e = real.isend(buf, count, HOT_TYPE(datatype), dest, tag, HOT_COMM(comm), &q), flag = 0;
	if (unlikely(e)) return nx_error(comm, neutral(e), "send");
	c->peer[dest].sent++;
	if (likely(complete_at_once(q))) return 0;
	for (unsigned spins = 0;;) {
		e = real.test(&q, &flag, ABI_STATUS_IGNORE);
		if (flag || e) return nx_result(comm, neutral(e), "send");
		if (wait_step(&spins)) break;
	}
	cont->req[0] = request_keep(NX_RQ_SEND, comm, RH(q), (void *)buf, count, datatype, dest, tag);
	cont->req[1] = NX_REQUEST_NULL;
	return BY_AGAIN;
}

static long hot_recv(void *buf, uint64_t count_datatype, uint64_t source_tag, nx_t comm, nx_status *status, nx_cont *cont)
{
	int count = COUNT(count_datatype), source = COUNT(source_tag), tag = SECOND(source_tag);
	nx_t datatype = (nx_t)SECOND(count_datatype);
	struct vcomm *c = NX_COMM(comm);
	if (!common_recv(c, comm, datatype, source)) return cold_recv(buf, count_datatype, source_tag, comm, status, cont);
	MPI_Request q;
	MPI_Status st, *want = status || source == NX_ANY_SOURCE ? &st : ABI_STATUS_IGNORE;
	int e = real.irecv(buf, count, HOT_TYPE(datatype), rank_out(source), tag, HOT_COMM(comm), &q), flag = 0;
	if (unlikely(e)) return nx_error(comm, neutral(e), "recv");
	for (unsigned spins = 0;;) {
		e = real.test(&q, &flag, want);
		if (likely(flag) || unlikely(e)) break;
		if (wait_step(&spins)) {
			cont->req[0] = request_keep(NX_RQ_RECV, comm, RH(q), buf, count, datatype, source, tag);
			cont->req[1] = NX_REQUEST_NULL;
			return BY_AGAIN;
		}
	}
	e = neutral(e);
	taken(c, source == NX_ANY_SOURCE ? rank_in(st.MPI_SOURCE) : source);
	if (status && STATUS_SET(e)) status_in(status, &st);
	return nx_result(comm, e, "recv");
}

/* A stop has come first: what is not complete is kept for mid_resume. */
COLD static void sendrecv_keep(const struct nx_box_sendrecv *b, const MPI_Request *rq, const MPI_Request *sq)
{
	nx_cont *k = b->cont;
	k->req[0] = rq ? request_keep(NX_RQ_RECV, b->comm, RH(*rq), b->recvbuf, b->recvcount, b->recvtype, b->source, b->recvtag) : NX_REQUEST_NULL;
	k->req[1] = sq ? request_keep(NX_RQ_SEND, b->comm, RH(*sq), (void *)b->sendbuf, b->sendcount, b->sendtype, b->dest, b->sendtag) : NX_REQUEST_NULL;
	k->stage = !rq;
}

/* A short send leaves first (p2p.c); then both are waited for. */
static long hot_sendrecv(const struct nx_box_sendrecv *b)
{
	nx_t comm = b->comm;
	struct vcomm *c = NX_COMM(comm);
	if (!common(c, comm, b->sendtype) || !common_recv(c, comm, b->recvtype, b->source) || !is_rank(c, b->dest) ||
	    b->sendcount * NX_TYPE(b->sendtype)->size > SEND_FIRST)
		return cold_sendrecv(b);
	MPI_Request sq, rq;
	MPI_Status st;
	int e = real.isend(b->sendbuf, b->sendcount, HOT_TYPE(b->sendtype), b->dest, b->sendtag, HOT_COMM(comm), &sq), serr = 0, rerr = 0, flag = 0;
	if (unlikely(e)) return nx_error(comm, neutral(e), "sendrecv");
	c->peer[b->dest].sent++;
	bool sent = complete_at_once(sq), got = false;
	e = real.irecv(b->recvbuf, b->recvcount, HOT_TYPE(b->recvtype), rank_out(b->source), b->recvtag, HOT_COMM(comm), &rq);
	if (unlikely(e)) {
		if (!sent) real.request_free(&sq);
		return nx_error(comm, neutral(e), "sendrecv");
	}
	for (unsigned spins = 0; !got || !sent;) {
		if (!got && ((rerr = neutral(real.test(&rq, &flag, &st))) || flag)) got = true;
		if (got && !sent && ((serr = neutral(real.test(&sq, &flag, ABI_STATUS_IGNORE))) || flag)) sent = true;
		if ((!got || !sent) && wait_step(&spins)) break;
	}
	if (got) {
		taken(c, b->source == NX_ANY_SOURCE ? rank_in(st.MPI_SOURCE) : b->source);
		if (b->status && STATUS_SET(rerr)) status_in(b->status, &st);
	}
	if (likely(got && sent)) return nx_result(comm, rerr ? rerr : serr, "sendrecv");
	sendrecv_keep(b, got ? NULL : &rq, sent ? NULL : &sq);
	if (got) status_in(&b->cont->st, &st);
	return BY_AGAIN;
}

/* -- starting --------------------------------------------------------------------------------------------------------- */

static long hot_isend(const void *buf, uint64_t count_datatype, int dest, int tag, nx_t comm, nx_t *request)
{
	nx_t datatype = (nx_t)SECOND(count_datatype);
	struct vcomm *c = NX_COMM(comm);
	if (!common(c, comm, datatype) || !is_rank(c, dest) || unlikely(!request_peek()))
		return cold_isend(buf, count_datatype, dest, tag, comm, request);
	uint64_t *sent = &c->peer[dest].sent;
	struct vrequest *r = NX_REQUEST(request_peek());
	r->comm = comm;
	r->type = datatype;
	r->peer = dest;
	MPI_Request q;
	int e = real.isend(buf, COUNT(count_datatype), HOT_TYPE(datatype), dest, tag, HOT_COMM(comm), &q);
	r = NX_REQUEST(request_peek());                 /* again: cheaper than to keep it */
	if (unlikely(e)) return nx_error(r->comm, neutral(e), "isend");
	++*sent;
	*request = likely(complete_at_once(q)) ? NX_REQUEST_SENT : request_begin(r, NX_RQ_SEND, q);
	return 0;
}

static long hot_irecv(void *buf, uint64_t count_datatype, int source, int tag, nx_t comm, nx_t *request)
{
	int count = COUNT(count_datatype);
	nx_t datatype = (nx_t)SECOND(count_datatype);
	struct vcomm *c = NX_COMM(comm);
	struct vrequest *r = NX_REQUEST(request_peek());
	if (!common_recv(c, comm, datatype, source) || unlikely(!request_peek()))
		return cold_irecv(buf, count_datatype, source, tag, comm, request);
	MPI_Request q;
	r->comm = comm;
	request_args(r, buf, count, datatype, source, tag);
	r->order = NX_STATE->order++;
	int e = real.irecv(buf, count, HOT_TYPE(datatype), rank_out(source), tag, HOT_COMM(comm), &q);
	if (unlikely(e)) return nx_error(r->comm, neutral(e), "irecv");
	*request = request_begin(r, NX_RQ_RECV, q);
	return 0;
}

/* -- completing one ----------------------------------------------------------------------------------------------------- */

static inline bool from_any(const struct vrequest *r) { return r->kind == NX_RQ_RECV && r->peer == NX_ANY_SOURCE; }

/* A request that only the real MPI can complete. */
static inline bool in_real(nx_t h, const struct vrequest *r)
{
	return likely(h && r->handle == h && r->flags == NX_RF_ACTIVE && RREQ(h));
}

/* The real MPI has completed r: its status, where it was read, and its counter. */
static inline void completed(const struct vrequest *r, const MPI_Status *st, nx_status *status)
{
	if (status) status_in(status, st);
	if (r->kind == NX_RQ_SEND || r->kind == NX_RQ_COLL) return;
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
		if (!wait) return unlikely(BY_CTLP->stop) ? BY_AGAIN : 0;
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

/* -- completing all ------------------------------------------------------------------------------------------------------- */

struct many {
	int n, last;                            /* real requests; the last receive among them, or -1 */
	bool any_source;
	MPI_Request q[MANY];
	uint32_t at[MANY];                      /* index in the caller's array */
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
		const struct vrequest *r = NX_REQUEST(h);
		if (!in_real(h, r)) return false;
		if (r->kind == NX_RQ_RECV) last = n;
		any_source |= from_any(r);
		m->q[n] = REAL(MPI_Request, RREQ(h));
		m->at[n++] = (uint32_t)i;
	}
	m->n = n;
	m->last = last;
	m->any_source = any_source;
	return true;
}

/* An error came up: what the real MPI has completed is marked so, with its error; the middle waits for the rest. */
COLD static void many_failed(struct many *m, const nx_t *requests, const MPI_Status *want, int e)
{
	for (int k = 0; k < m->n; k++) {
		struct vrequest *r = NX_REQUEST(requests[m->at[k]]);
		RREQ(r->handle) = RH(m->q[k]);
		if (RREQ(r->handle) != driver.request_null) continue;
		bool read = want != ABI_STATUS_IGNORE;
		r->st = empty_status;
		completed(r, &m->st[k], read ? &r->st : NULL);
		r->flags |= NX_RF_DONE;
		r->st.error = read && e == NX_ERR_IN_STATUS ? neutral(m->st[k].MPI_ERROR) : e;
	}
}

/* All or none: nothing is consumed until all are complete, so that a stop may come at any time. One look at the last
 * receive, which is often the last to complete, is cheaper than one at all of them. */
static long hot_waitall(int count, nx_t *requests, nx_status *statuses)
{
	struct many m;
	if (unlikely(count > MANY) || !gather(&m, count, requests)) return cold_waitall(count, requests, statuses);
	MPI_Status *want = statuses || m.any_source ? m.st : ABI_STATUS_IGNORE;
	for (unsigned spins = 0; m.n;) {
		int flag = 1, e = 0;
		if (m.last >= 0 && real.request_get_status(m.q[m.last], &flag, ABI_STATUS_IGNORE)) flag = 1;
		if (flag) e = real.testall(m.n, m.q, &flag, want);
		if (unlikely(e)) {
			many_failed(&m, requests, want, neutral(e));
			return cold_waitall(count, requests, statuses);
		}
		if (flag) break;
		if (wait_step(&spins)) return BY_AGAIN;
	}
	for (int i = 0; statuses && i < count; i++) statuses[i] = empty_status;
	uint32_t free = NX_STATE->free[NX_K_REQUEST];
	for (int k = 0; k < m.n; k++) {
		uint32_t i = m.at[k];
		struct vrequest *r = NX_REQUEST(requests[i]);
		completed(r, &m.st[k], statuses ? &statuses[i] : NULL);
		free = request_end(r, free);
		requests[i] = NX_REQUEST_NULL;
	}
	NX_STATE->free[NX_K_REQUEST] = free;
	return 0;
}
