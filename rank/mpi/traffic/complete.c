/* complete.c: completion of requests: Wait and Test in all their forms, Request_free, Cancel (MPI-4.1
 * section 3.7).
 *
 * A request is complete in one of two ways: the real MPI says so, or it is marked NX_RF_DONE because a
 * checkpoint completed it or a drained message satisfied it; then its status lies in the entry. The waits
 * never block in the real MPI: they test, and yield when a stop is in effect; nothing has been consumed then,
 * so the call is made again. Context: as traffic.h. */
#include <stdlib.h>
#include <string.h>
#include "traffic.h"

enum { SMALL = 64 };                            /* requests handled without allocation */

/* A synchronous send whose receiver will acknowledge it, or a receive on a communicator that is gone: never
 * complete. */
static int poll_without(struct vrequest *r, int *flag, nx_status *st)
{
	int e = r->flags & NX_RF_HELD ? sync_take_acks() : 0;
	*flag = e || (r->flags & NX_RF_DONE);
	*st = empty_status;
	return e;
}

/* One of a kind that looks by itself: the real MPI is tested when the completion may be seen, and says so. */
static int poll_observed(struct vrequest *r, int *flag, nx_status *st)
{
	int e;
	if (!pending_of(r)->look(r, &e) || !pending_of(r)->observe(r)) return 0;
	e = drv->test(&RREQ(r->handle), flag, st);
	*flag = 1;
	request_completed(r, st);
	return e;
}

int request_poll(struct vrequest *r, int *flag, nx_status *st)
{
	if (r->flags & NX_RF_DONE) {
		*flag = 1;
		*st = r->st;
		return r->st.error;
	}
	*flag = 0;
	if (!RREQ(r->handle)) return poll_without(r, flag, st);
	if (unlikely(pending_of(r)->look != NULL)) return poll_observed(r, flag, st);
	int e = drv->test(&RREQ(r->handle), flag, st);
	if (*flag || e) {
		*flag = 1;
		request_completed(r, st);
	} else {
		test_failed();
	}
	return e;
}

void request_retire(struct vrequest *r, nx_t *h)
{
	if (r->flags & NX_RF_PERSISTENT) {
		r->flags = NX_RF_PERSISTENT;
		RREQ(r->handle) = 0;
		return;
	}
	if (!(r->flags & NX_RF_SHARED)) request_release(r);
	*h = NX_REQUEST_NULL;
}

/* The request named by h if it is active; NULL when null or inactive; *err when it is none of ours. */
static inline struct vrequest *active(nx_t h, int *err)
{
	*err = 0;
	if (h == NX_REQUEST_NULL) return NULL;
	struct vrequest *r = NX_REQUEST(h);
	if (unlikely(r->handle != h)) {
		*err = NX_ERR_REQUEST;
		return NULL;
	}
	return likely(r->flags & NX_RF_ACTIVE) ? r : NULL;
}

static inline void finish(struct vrequest *r, nx_t *h, const nx_status *st, nx_status *out)
{
	if (out) *out = *st;
	request_retire(r, h);
}

static long wait_or_test(nx_t *request, int *flag, nx_status *status, bool wait, const char *function)
{
	int err;
	struct vrequest *r = active(*request, &err);
	if (unlikely(!r)) {
		if (err) return nx_error(NX_COMM_WORLD, err, function);
		if (status) *status = empty_status;
		*flag = 1;
		return 0;
	}
	nx_status st;
	nx_t comm = r->comm;
	for (unsigned spins = 0;;) {
		err = request_poll(r, flag, &st);
		if (*flag) break;
		if (!wait) return test_over();
		if (wait_step(&spins)) return BY_AGAIN;
	}
	finish(r, request, &st, status);
	return nx_result(comm, err, function);
}

long mid_wait(nx_t *request, nx_status *status)
{
	int flag;
	return wait_or_test(request, &flag, status, true, "wait");
}

long mid_test(nx_t *request, int *flag, nx_status *status)
{
	return wait_or_test(request, flag, status, false, "test");
}

/* -- all ------------------------------------------------------------------------------------------------- */

/* The requests of one call that only the real MPI can complete. */
struct batch {
	int n;                                  /* real requests */
	bool need;                              /* statuses must be read */
	bool observed, tested;                  /* some look by themselves; some do not */
	rh_t *real;
	int *at;                                /* index in the caller's array */
	nx_status *st;
	rh_t real_small[SMALL];
	int at_small[SMALL];
	nx_status st_small[SMALL];
};

static int batch_open(struct batch *b, int count)
{
	b->n = 0;
	b->need = b->observed = b->tested = false;
	b->real = b->real_small;
	b->at = b->at_small;
	b->st = b->st_small;
	if (likely(count <= SMALL)) return 0;
	b->real = malloc((size_t)count * (sizeof *b->real + sizeof *b->at + sizeof *b->st));
	if (!b->real) return NX_ERR_NO_MEM;
	b->st = (nx_status *)(b->real + count);
	b->at = (int *)(b->st + count);
	return 0;
}

static void batch_close(struct batch *b)
{
	if (unlikely(b->real != b->real_small)) free(b->real);
}

/* Gathers the active requests that are not done. Returns an error for a handle that is no request. */
static inline int batch_fill(struct batch *b, int count, const nx_t *requests, int *live)
{
	int err, alive = 0;
	for (int i = 0; i < count; i++) {
		struct vrequest *r = active(requests[i], &err);
		if (unlikely(err)) return err;
		if (!r) continue;
		alive++;
		if (unlikely(r->flags & NX_RF_DONE)) continue;
		b->need |= request_needs_status(r);
		b->observed |= pending_of(r)->look != NULL;
		b->tested |= pending_of(r)->look == NULL;
		b->at[b->n] = i;
		b->real[b->n++] = RREQ(r->handle);
	}
	*live = alive;
	return 0;
}

static inline bool never_completes(const struct batch *b)
{
	for (int k = 0; k < b->n; k++)
		if (unlikely(!b->real[k])) return true;
	return false;
}

/* Whether all those among them that look by themselves are complete, and may be seen to be: nobody asks for
 * the second before the first is so for all. */
static bool all_observed(const struct batch *b, const nx_t *requests)
{
	int e;
	for (int k = 0; k < b->n; k++) {
		const struct vrequest *r = NX_REQUEST(requests[b->at[k]]);
		if (pending_of(r)->look && !pending_of(r)->look(r, &e)) return false;
	}
	for (int k = 0; k < b->n; k++) {
		const struct vrequest *r = NX_REQUEST(requests[b->at[k]]);
		if (pending_of(r)->look && !pending_of(r)->observe(r)) return false;
	}
	return true;
}

/* All requests are complete: hand out statuses, move counters, release. */
static int finish_all(struct batch *b, int count, nx_t *requests, nx_status *out, bool failed)
{
	int k = 0, err, result = 0;
	bool have = b->need || out || failed;
	for (int i = 0; i < count; i++) {
		struct vrequest *r = active(requests[i], &err);
		if (!r) {
			if (out) out[i] = empty_status;
			continue;
		}
		const nx_status *st = NULL;
		if (unlikely(r->flags & NX_RF_DONE)) st = &r->st;
		else {
			if (have) st = &b->st[k];
			request_completed(r, st);
			k++;
		}
		if (st && st->error) result = NX_ERR_IN_STATUS;
		if (out) out[i] = *st;
		request_retire(r, &requests[i]);
	}
	return result;
}

long mid_testall(int count, nx_t *requests, int *flag, nx_status *statuses)
{
	struct batch b;
	int live, err = batch_open(&b, count);
	if (unlikely(NX_STATE->held) && !err) err = sync_take_acks();
	if (!err) err = batch_fill(&b, count, requests, &live);
	if (err) {
		batch_close(&b);
		FAIL(NX_COMM_WORLD, err);
	}
	nx_status *st = b.need || statuses ? b.st : NULL;
	*flag = !b.n;
	bool may = !never_completes(&b) && (likely(!b.observed) || all_observed(&b, requests));
	if (b.n && may) err = drv->testall(b.n, b.real, flag, st);
	if (err == NX_ERR_IN_STATUS) *flag = 1;
	if (*flag) err = finish_all(&b, count, requests, statuses, st && err) ? NX_ERR_IN_STATUS : err;
	batch_close(&b);
	if (!*flag && !err) return b.tested ? test_failed() : test_over();
	RESULT(NX_COMM_WORLD, err);
}

/* Waits for one request; true when a stop came first. A status is read only where somebody needs it. */
static inline bool wait_one(struct vrequest *r, nx_status *st, int *err)
{
	if (unlikely((r->flags & NX_RF_DONE) || pending_of(r)->look || !RREQ(r->handle))) {
		nx_status own = empty_status;
		int flag = 0;
		for (unsigned spins = 0;;) {
			*err = request_poll(r, &flag, st ? st : &own);
			if (flag) return false;
			if (wait_step(&spins)) return true;
		}
	}
	nx_status own, *need = st ? st : request_needs_status(r) ? &own : NULL;
	for (unsigned spins = 0;;) {
		int flag = 0, e = drv->test(&RREQ(r->handle), &flag, need);
		if (likely(flag) || unlikely(e)) {
			request_completed(r, need);
			*err = e;
			return false;
		}
		if (wait_step(&spins)) return true;
	}
}

/* What was complete when a stop came waits in its entry for the call to be made again. */
static void keep_done(int n, nx_t *requests, const nx_status *statuses)
{
	int err;
	for (int i = 0; i < n; i++) {
		struct vrequest *r = active(requests[i], &err);
		if (!r || (r->flags & NX_RF_DONE)) continue;
		r->flags |= NX_RF_DONE;
		r->st = statuses ? statuses[i] : empty_status;
	}
}

/* Without a status to keep it in, an error waits in the entry for the call to be made again. */
static void keep_error(struct vrequest *r, int err)
{
	r->flags |= NX_RF_DONE;
	r->st = empty_status;
	r->st.error = err;
}

/* One request after the other: for statuses, for requests that a checkpoint completed, for many. */
static long waitall_each(int count, nx_t *requests, nx_status *statuses)
{
	int err, result = 0;
	for (int i = 0; i < count; i++) {
		nx_status *st = statuses ? &statuses[i] : NULL;
		struct vrequest *r = active(requests[i], &err);
		if (unlikely(err)) return nx_error(NX_COMM_WORLD, err, "waitall");
		if (unlikely(!r)) {
			if (st) *st = empty_status;
			continue;
		}
		if (wait_one(r, st, &err)) {
			keep_done(i, requests, statuses);
			return BY_AGAIN;
		}
		if (st) st->error = err;
		if (unlikely(err)) {
			result = NX_ERR_IN_STATUS;
			if (!st) keep_error(r, err);
		}
	}
	for (int i = 0; i < count; i++) {
		struct vrequest *r = active(requests[i], &err);
		if (r) request_retire(r, &requests[i]);
	}
	return nx_result(NX_COMM_WORLD, result, "waitall");
}

/* The common case: every request active in the real MPI, none asking for a status; one that looks by itself
 * has a flag (NX_RF_POSTED). Fills real[]; false: not so. */
static inline bool waitall_plain(int count, const nx_t *requests, rh_t *real)
{
	for (int i = 0; i < count; i++) {
		const struct vrequest *r = NX_REQUEST(requests[i]);
		real[i] = RREQ(requests[i]);
		bool plain = requests[i] && r->handle == requests[i] && r->flags == NX_RF_ACTIVE && real[i];
		if (unlikely(!plain || request_needs_status(r))) return false;
	}
	return count > 0;
}

static inline void waitall_release(int count, nx_t *requests)
{
	for (int i = 0; i < count; i++) {
		struct vrequest *r = NX_REQUEST(requests[i]);
		request_completed(r, NULL);
		request_release(r);
		requests[i] = NX_REQUEST_NULL;
	}
}

/* An error came up: it is the result of the requests that the real MPI has completed, the others are waited
 * for one by one. */
static void waitall_failed(int count, nx_t *requests, const rh_t *real, int err)
{
	for (int i = 0; i < count; i++) {
		struct vrequest *r = NX_REQUEST(requests[i]);
		RREQ(r->handle) = real[i];
		if (real[i] != drv->request_null) continue;
		request_completed(r, NULL);
		r->flags |= NX_RF_DONE;
		r->st = empty_status;
		r->st.error = err;
	}
}

/* All or none: nothing is consumed until all are complete, so that a stop may come at any time. */
static long waitall_batch(int count, nx_t *requests, rh_t *real)
{
	unsigned spins = 0;
	for (int flag = 0;;) {
		int err = drv->testall(count, real, &flag, NULL);
		if (unlikely(err)) {
			waitall_failed(count, requests, real, err);
			return waitall_each(count, requests, NULL);
		}
		if (flag) break;
		if (wait_step(&spins)) return BY_AGAIN;
	}
	waitall_release(count, requests);
	return 0;
}

long mid_waitall(int count, nx_t *array_of_requests, nx_status *array_of_statuses)
{
	rh_t real[SMALL];
	if (!array_of_statuses && count <= SMALL && waitall_plain(count, array_of_requests, real))
		return waitall_batch(count, array_of_requests, real);
	return waitall_each(count, array_of_requests, array_of_statuses);
}

/* -- any and some ---------------------------------------------------------------------------------------- */

/* Looks once for a complete request. *index: which, or NX_UNDEFINED; *live: active requests seen. */
static int poll_any(int count, nx_t *requests, int *index, int *live, nx_status *status)
{
	*index = NX_UNDEFINED;
	*live = 0;
	for (int i = 0; i < count; i++) {
		int err, flag;
		struct vrequest *r = active(requests[i], &err);
		if (err) return err;
		if (!r) continue;
		++*live;
		nx_status st;
		err = request_poll(r, &flag, &st);
		if (!flag) continue;
		*index = i;
		finish(r, &requests[i], &st, status);
		return err;
	}
	return 0;
}

static long any(int count, nx_t *requests, int *index, int *flag, nx_status *status, bool wait,
		const char *function)
{
	for (unsigned spins = 0;;) {
		int live, err = poll_any(count, requests, index, &live, status);
		*flag = *index != NX_UNDEFINED || !live;
		if (!live && status) *status = empty_status;
		if (err) return nx_error(NX_COMM_WORLD, err, function);
		if (*flag) return 0;
		if (!wait) return test_over();
		if (wait_step(&spins)) return BY_AGAIN;
	}
}

long mid_waitany(int count, nx_t *array_of_requests, int *index, nx_status *status)
{
	int flag;
	return any(count, array_of_requests, index, &flag, status, true, "waitany");
}

long mid_testany(int count, nx_t *array_of_requests, int *index, int *flag, nx_status *status)
{
	return any(count, array_of_requests, index, flag, status, false, "testany");
}

static int poll_some(int count, nx_t *requests, int *outcount, int *indices, nx_status *statuses, int *live)
{
	int found = 0, result = 0;
	*live = 0;
	for (int i = 0; i < count; i++) {
		int err, flag;
		struct vrequest *r = active(requests[i], &err);
		if (err) return err;
		if (!r) continue;
		++*live;
		nx_status st;
		err = request_poll(r, &flag, &st);
		if (!flag) continue;
		if (err) result = NX_ERR_IN_STATUS;
		st.error = err;
		indices[found] = i;
		finish(r, &requests[i], &st, statuses ? &statuses[found] : NULL);
		found++;
	}
	*outcount = *live ? found : NX_UNDEFINED;
	return result;
}

static long some(int count, nx_t *requests, int *outcount, int *indices, nx_status *statuses, bool wait,
		 const char *function)
{
	for (unsigned spins = 0;;) {
		int live, err = poll_some(count, requests, outcount, indices, statuses, &live);
		if (err) return nx_error(NX_COMM_WORLD, err, function);
		if (*outcount) return 0;                /* some, or MPI_UNDEFINED */
		if (!wait) return test_over();
		if (wait_step(&spins)) return BY_AGAIN;
	}
}

long mid_waitsome(int incount, nx_t *array_of_requests, int *outcount, int *array_of_indices,
		  nx_status *array_of_statuses)
{
	return some(incount, array_of_requests, outcount, array_of_indices, array_of_statuses, true,
		    "waitsome");
}

long mid_testsome(int incount, nx_t *array_of_requests, int *outcount, int *array_of_indices,
		  nx_status *array_of_statuses)
{
	return some(incount, array_of_requests, outcount, array_of_indices, array_of_statuses, false,
		    "testsome");
}

/* -- the rest -------------------------------------------------------------------------------------------- */

/* The status without consuming the request: the real completion is kept in the entry. */
long mid_request_get_status(nx_t request, int *flag, nx_status *status)
{
	int err;
	struct vrequest *r = active(request, &err);
	if (err) FAIL(NX_COMM_WORLD, err);
	*flag = 1;
	if (!r) {
		if (status) *status = empty_status;
		return 0;
	}
	if (!(r->flags & NX_RF_DONE)) {
		nx_status st;
		err = request_poll(r, flag, &st);
		if (!*flag) return test_over();
		r->st = st;
		r->st.error = err;
		r->flags |= NX_RF_DONE;
	}
	if (status) *status = r->st;
	return 0;
}

/* The entry of an active request is kept until it completes: its counter must move. */
long mid_request_free(nx_t *request)
{
	enum { SOMETIMES = 256 };
	static unsigned calls;
	if (__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) % SOMETIMES == 0) requests_sweep_freed();
	struct vrequest *r = NX_REQUEST(*request);
	if (!nx_live(*request, r)) FAIL(NX_COMM_WORLD, NX_ERR_REQUEST);
	if (!(r->flags & NX_RF_ACTIVE) || (r->flags & NX_RF_DONE)) {
		if (!(r->flags & NX_RF_SHARED)) request_release(r);
	} else {
		__atomic_fetch_and(&r->flags, (uint8_t)~NX_RF_PERSISTENT, __ATOMIC_RELAXED);
		int flag;
		nx_status st;
		nx_t h;
		request_poll(r, &flag, &st);
		if (flag) request_retire(r, &h);
		else
			__atomic_fetch_or(&r->flags, NX_RF_FREED,
					  __ATOMIC_RELEASE); /* from here on the sweep's */
	}
	*request = NX_REQUEST_NULL;
	return 0;
}

long mid_cancel(nx_t request)
{
	int err;
	struct vrequest *r = active(request, &err);
	if (!r) FAIL(NX_COMM_WORLD, NX_ERR_REQUEST);
	/* What MPI_Cancel means is said by kind in MPI-4.1 3.8.4, and stands here, not in the table: a send
	 * may simply complete, and of what is left none but a posted receive can be cancelled. That it was is
	 * a flag, by which its kind posts it again. */
	if ((r->flags & NX_RF_DONE) || r->kind == NX_RQ_SEND) return 0;
	if (!RREQ(r->handle)) {                         /* posted on a communicator that is gone */
		r->flags |= NX_RF_DONE;
		r->st = empty_status;
		r->st.cancelled = 1;
		return 0;
	}
	if (r->kind != NX_RQ_RECV) return 0;
	r->flags |= NX_RF_CANCEL;
	RESULT(r->comm, drv->cancel(RREQ(r->handle)));
}
