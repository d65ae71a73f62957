/* hot.inc.c: the calls of inner loops in their common case, from the crossing to the real MPI through one function.
 *
 * Included by each generated driver, so that the real library's functions are called directly. The common case: a live
 * communicator with nothing drained, a predefined datatype, a real peer, no MPI_THREAD_MULTIPLE, requests that only the
 * real MPI can complete. Everything else goes to the middle (p2p.c, complete.c) before anything has been done; what these
 * functions do is what those do. A send that the real MPI has completed at once, as both families do with short
 * messages, gets the one request NX_REQUEST_SENT, like the real libraries' own. Context: as middle.h; no locks,
 * allocations or system calls on the way of a call that need not wait. */
#include "request.h"

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
	return likely(comm && c->handle == comm && type < NX_DYNAMIC && real_type[type] && !NX_STATE->multiple);
}

static inline bool is_rank(const struct vcomm *c, int peer) { return likely((uint32_t)peer < (uint32_t)c->size); }

/* A receive that goes straight to the real MPI. */
static inline bool common_recv(const struct vcomm *c, nx_t comm, nx_t type, int source)
{
	return common(c, comm, type) && likely(!c->drained) && (is_rank(c, source) || source == NX_ANY_SOURCE);
}

/* A released request waits to be used again; else the middle makes one. */
static inline bool request_waits(void) { return likely(NX_STATE->free[NX_K_REQUEST] != 0); }

/* -- blocking ------------------------------------------------------------------------------------------------------- */

static inline long hot_send(const void *buf, int count, nx_t datatype, int dest, int tag, nx_t comm, nx_cont *cont)
{
	struct vcomm *c = NX_COMM(comm);
	if (!common(c, comm, datatype) || !is_rank(c, dest)) return mid_send(buf, count, datatype, dest, tag, comm, cont);
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

static inline long hot_recv(void *buf, int count, nx_t datatype, int source, int tag, nx_t comm, nx_status *status, nx_cont *cont)
{
	struct vcomm *c = NX_COMM(comm);
	if (!common_recv(c, comm, datatype, source)) return mid_recv(buf, count, datatype, source, tag, comm, status, cont);
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
	count_taken(c, source == NX_ANY_SOURCE ? rank_in(st.MPI_SOURCE) : source);
	if (status && STATUS_SET(e)) status_in(status, &st);
	return nx_result(comm, e, "recv");
}

/* A short send leaves first (p2p.c); then both are waited for. */
static inline long hot_sendrecv(const void *sendbuf, int sendcount, nx_t sendtype, int dest, int sendtag, void *recvbuf,
				int recvcount, nx_t recvtype, int source, int recvtag, nx_t comm, nx_status *status, nx_cont *cont)
{
	struct vcomm *c = NX_COMM(comm);
	if (!common(c, comm, sendtype) || !common_recv(c, comm, recvtype, source) || !is_rank(c, dest) ||
	    sendcount * NX_TYPE(sendtype)->size > SEND_FIRST)
		return mid_sendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source, recvtag, comm, status, cont);
	MPI_Request sq, rq;
	MPI_Status st;
	int e = real.isend(sendbuf, sendcount, HOT_TYPE(sendtype), dest, sendtag, HOT_COMM(comm), &sq), serr = 0, rerr = 0, flag = 0;
	if (unlikely(e)) return nx_error(comm, neutral(e), "sendrecv");
	c->peer[dest].sent++;
	bool sent = complete_at_once(sq), got = false;
	e = real.irecv(recvbuf, recvcount, HOT_TYPE(recvtype), rank_out(source), recvtag, HOT_COMM(comm), &rq);
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
		count_taken(c, source == NX_ANY_SOURCE ? rank_in(st.MPI_SOURCE) : source);
		if (status && STATUS_SET(rerr)) status_in(status, &st);
	}
	if (likely(got && sent)) return nx_result(comm, rerr ? rerr : serr, "sendrecv");
	cont->req[0] = got ? NX_REQUEST_NULL : request_keep(NX_RQ_RECV, comm, RH(rq), recvbuf, recvcount, recvtype, source, recvtag);
	cont->req[1] = sent ? NX_REQUEST_NULL : request_keep(NX_RQ_SEND, comm, RH(sq), (void *)sendbuf, sendcount, sendtype, dest, sendtag);
	if (got) status_in(&cont->st, &st);
	cont->stage = got;
	return BY_AGAIN;
}

/* -- starting --------------------------------------------------------------------------------------------------------- */

static inline long hot_isend(const void *buf, int count, nx_t datatype, int dest, int tag, nx_t comm, nx_t *request)
{
	struct vcomm *c = NX_COMM(comm);
	if (!common(c, comm, datatype) || !is_rank(c, dest) || !request_waits())
		return mid_isend(buf, count, datatype, dest, tag, comm, request);
	MPI_Request q;
	int e = real.isend(buf, count, HOT_TYPE(datatype), dest, tag, HOT_COMM(comm), &q);
	if (unlikely(e)) return nx_error(comm, neutral(e), "isend");
	c->peer[dest].sent++;
	*request = NX_REQUEST_SENT;
	if (likely(complete_at_once(q))) return 0;
	struct vrequest *r = request_take(NX_RQ_SEND, comm);
	r->type = datatype;
	r->peer = dest;
	RREQ(r->handle) = RH(q);
	*request = r->handle;
	return 0;
}

static inline long hot_irecv(void *buf, int count, nx_t datatype, int source, int tag, nx_t comm, nx_t *request)
{
	struct vcomm *c = NX_COMM(comm);
	if (!common_recv(c, comm, datatype, source) || !request_waits())
		return mid_irecv(buf, count, datatype, source, tag, comm, request);
	MPI_Request q;
	int e = real.irecv(buf, count, HOT_TYPE(datatype), rank_out(source), tag, HOT_COMM(comm), &q);
	if (unlikely(e)) return nx_error(comm, neutral(e), "irecv");
	struct vrequest *r = request_take(NX_RQ_RECV, comm);
	request_args(r, buf, count, datatype, source, tag);
	r->order = NX_STATE->order++;
	RREQ(r->handle) = RH(q);
	*request = r->handle;
	return 0;
}

/* -- completing one ----------------------------------------------------------------------------------------------------- */

/* A request that only the real MPI can complete. */
static inline bool in_real(nx_t h, const struct vrequest *r)
{
	return likely(h && r->handle == h && r->flags == NX_RF_ACTIVE && RREQ(h) && !NX_STATE->multiple);
}

/* The real MPI has completed r with error e (the real library's). */
static inline int completed(struct vrequest *r, int e, const MPI_Status *st, nx_status *status)
{
	nx_status own, *s = status ? status : &own;
	e = neutral(e);
	if (st != ABI_STATUS_IGNORE) status_in(s, st);
	request_completed(r, st != ABI_STATUS_IGNORE ? s : NULL);
	return e;
}

static inline long wait_or_poll(nx_t *request, int *flag, nx_status *status, bool wait, const char *function)
{
	struct vrequest *r = NX_REQUEST(*request);
	MPI_Request q = REAL(MPI_Request, RREQ(*request));
	MPI_Status st, *want = status || (r->kind == NX_RQ_RECV && r->peer == NX_ANY_SOURCE) ? &st : ABI_STATUS_IGNORE;
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
	e = completed(r, e, want, status);
	request_release(r);
	*request = NX_REQUEST_NULL;
	return nx_result(comm, e, function);
}

static inline long hot_wait(nx_t *request, nx_status *status)
{
	int flag;
	if (!in_real(*request, NX_REQUEST(*request))) return mid_wait(request, status);
	return wait_or_poll(request, &flag, status, true, "wait");
}

static inline long hot_test(nx_t *request, int *flag, nx_status *status)
{
	if (!in_real(*request, NX_REQUEST(*request))) return mid_test(request, flag, status);
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

static inline bool gather(struct many *m, int count, const nx_t *requests)
{
	int n = 0, last = -1;
	bool any_source = false;
	for (int i = 0; i < count; i++) {
		nx_t h = requests[i];
		if (h == NX_REQUEST_SENT) continue;
		const struct vrequest *r = NX_REQUEST(h);
		if (!in_real(h, r)) return false;
		if (r->kind == NX_RQ_RECV) {
			last = n;
			any_source |= r->peer == NX_ANY_SOURCE;
		}
		m->q[n] = REAL(MPI_Request, RREQ(h));
		m->at[n++] = (uint32_t)i;
	}
	m->n = n;
	m->last = last;
	m->any_source = any_source;
	return true;
}

/* An error came up: what the real MPI has completed is marked so, with its error; the middle waits for the rest. */
__attribute__((noinline, cold)) static void many_failed(struct many *m, const nx_t *requests, const MPI_Status *want, int e)
{
	for (int k = 0; k < m->n; k++) {
		struct vrequest *r = NX_REQUEST(requests[m->at[k]]);
		RREQ(r->handle) = RH(m->q[k]);
		if (RREQ(r->handle) != driver.request_null) continue;
		r->st = empty_status;
		completed(r, 0, want != ABI_STATUS_IGNORE ? &m->st[k] : ABI_STATUS_IGNORE, &r->st);
		r->flags |= NX_RF_DONE;
		r->st.error = e;
		if (e == NX_ERR_IN_STATUS && want != ABI_STATUS_IGNORE) r->st.error = neutral(m->st[k].MPI_ERROR);
	}
}

/* All or none: nothing is consumed until all are complete, so that a stop may come at any time. One look at the last
 * receive, which is often the last to complete, is cheaper than one at all of them. */
static inline long hot_waitall(int count, nx_t *requests, nx_status *statuses)
{
	struct many m;
	if (unlikely(count > MANY) || !gather(&m, count, requests)) return mid_waitall(count, requests, statuses);
	MPI_Status *want = statuses || m.any_source ? m.st : ABI_STATUS_IGNORE;
	for (unsigned spins = 0; m.n;) {
		int flag = 1, e = 0;
		if (m.last >= 0 && real.request_get_status(m.q[m.last], &flag, ABI_STATUS_IGNORE)) flag = 1;
		if (flag) e = real.testall(m.n, m.q, &flag, want);
		if (unlikely(e)) {
			many_failed(&m, requests, want, neutral(e));
			return mid_waitall(count, requests, statuses);
		}
		if (flag) break;
		if (wait_step(&spins)) return BY_AGAIN;
	}
	for (int i = 0; statuses && i < count; i++) statuses[i] = empty_status;
	for (int k = 0; k < m.n; k++) {
		struct vrequest *r = NX_REQUEST(requests[m.at[k]]);
		completed(r, 0, want != ABI_STATUS_IGNORE ? &m.st[k] : ABI_STATUS_IGNORE, statuses ? &statuses[m.at[k]] : NULL);
		request_release(r);
	}
	for (int i = 0; i < count; i++) requests[i] = NX_REQUEST_NULL;
	return 0;
}
