/* posted.c: non-blocking collectives (MPI-4.1 sections 6.12 and 8.7).
 *
 * A collective that has been posted, and whose completion this rank has not seen, has had no effect that the
 * program could know of: its inputs are still there, since they must not be changed, and its outputs must not
 * be read. So a checkpoint need not wait for the members that have not posted it yet: the request keeps the
 * arguments, and after a restart the collective is posted again. Inputs that it overwrites (MPI_IN_PLACE) are
 * kept too, if they are short and lie in one piece; else it counts as entered when it is posted, and all
 * members must come to it before an image is written.
 *
 * Whether a completion may be taken is asked of the agreement (agree.c) when it is there: request_get_status
 * looks, test takes. Context: as traffic.h; posted_repost_all at a restart, before any thread of the
 * application runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "traffic.h"

enum { KEEP_MOST = 16384 };                     /* bytes of input that is overwritten */

/* What a request keeps, in saved memory; arrays and input lie behind it. */
struct kept {
	struct posted a;
	void *input;                            /* to be put back before it is posted again */
	size_t ninput;
	bool entered;                           /* input is overwritten that is not kept */
	uint32_t nout, nin;                     /* entries of the arrays */
	rh_t *real;             /* of sendtypes, then of recvtypes: Open MPI looks at them until the end */
};

static bool is_neighbourhood(const struct posted *a) { return a->call >= POSTED_NEIGHBOR_ALLGATHER; }

static size_t displ_size(const struct posted *a) { return a->displ_size ? a->displ_size : sizeof(int); }

/* Bytes at recvbuf that are input and are overwritten; -1: they cannot be kept. */
static int64_t overwritten(const struct posted *a, const struct vcomm *c)
{
	const struct vtype *t = NX_TYPE(a->recvtype);
	int64_t n = a->recvcount;
	if (a->sendbuf != NX_IN_PLACE) return 0;
	switch (a->call) {
	case POSTED_ALLREDUCE: case POSTED_REDUCE: case POSTED_SCAN: case POSTED_EXSCAN: break;
	case POSTED_REDUCE_SCATTER_BLOCK: case POSTED_ALLTOALL: n *= c->size; break;
	case POSTED_REDUCE_SCATTER:
		n = 0;
		for (int i = 0; i < c->size; i++) n += a->recvcounts[i];
		break;
	case POSTED_ALLTOALLV: case POSTED_ALLTOALLW: return -1;
	default: return 0;                      /* this rank's own piece stays as it is */
	}
	bool short_piece = n <= 0 || (nx_live(a->recvtype, t) && t->contiguous && n * t->size <= KEEP_MOST);
	if (!short_piece) return -1;
	return n > 0 ? n * t->size : 0;
}

static char *input_at(const struct posted *a) { return (char *)a->recvbuf + NX_TYPE(a->recvtype)->true_lb; }

/* -- keeping --------------------------------------------------------------------------------------------- */

/* Types and operations must live as long as the request: the application may free them at once. */
static nx_t keep_type(nx_t t)
{
	if (!nx_live(t, NX_TYPE(t))) return NX_TYPE_NULL;
	type_ref(t);
	return t;
}

static nx_t keep_op(nx_t op)
{
	if (op >= NX_DYNAMIC) op_ref(op);
	return op;
}

/* Copies an array to *room, which moves on; 8 bytes are a multiple of all entries. */
static const void *keep_array(const void *from, size_t n, size_t one, char **room)
{
	if (!from) return NULL;
	void *to = *room;
	memcpy(to, from, n * one);
	*room += (n * one + 7) & ~(size_t)7;
	return to;
}

static void keep_types(const nx_t *list, uint32_t n)
{
	for (uint32_t i = 0; list && i < n; i++) ((nx_t *)list)[i] = keep_type(list[i]);
}

static void count_entries(struct kept *k, const struct vcomm *c)
{
	bool near = is_neighbourhood(&k->a);
	k->nout = (uint32_t)(near ? nx_neighbours(c->topo, c->rank, 1) : c->size);
	k->nin = (uint32_t)(near ? nx_neighbours(c->topo, c->rank, 0) : c->size);
}

/* In saved memory; NULL: there is none. */
static struct kept *keep(const struct posted *a, const struct vcomm *c)
{
	struct kept head = { .a = *a }, *k;
	int64_t input = overwritten(a, c);
	head.entered = input < 0;
	head.ninput = input > 0 ? (size_t)input : 0;
	size_t room = sizeof head + head.ninput;
	bool arrays = a->sendcounts || a->recvcounts;
	if (arrays) {
		count_entries(&head, c);
		enum { ARRAYS = 6, ROUNDED = 8 };
		room += ((size_t)head.nout + head.nin) *
				(sizeof(rh_t) + sizeof(int) + displ_size(a) + sizeof(nx_t)) +
			ARRAYS * ROUNDED;
	}
	k = nx_malloc(room);
	if (!k) return NULL;
	*k = head;
	k->real = (rh_t *)(k + 1);
	char *at = (char *)(k->real + (arrays ? k->nout + k->nin : 0));
	struct posted *b = &k->a;
	b->sendcounts = keep_array(a->sendcounts, k->nout, sizeof(int), &at);
	b->recvcounts = keep_array(a->recvcounts, k->nin, sizeof(int), &at);
	b->sdispls = keep_array(a->sdispls, k->nout, displ_size(a), &at);
	b->rdispls = keep_array(a->rdispls, k->nin, displ_size(a), &at);
	b->sendtypes = keep_array(a->sendtypes, k->nout, sizeof(nx_t), &at);
	b->recvtypes = keep_array(a->recvtypes, k->nin, sizeof(nx_t), &at);
	if (k->ninput) k->input = memcpy(at, input_at(a), k->ninput);
	b->sendtype = keep_type(a->sendtype);
	b->recvtype = keep_type(a->recvtype);
	keep_types(b->sendtypes, k->nout);
	keep_types(b->recvtypes, k->nin);
	b->op = keep_op(a->op);
	return k;
}

static void forget_types(const nx_t *list, uint32_t n)
{
	for (uint32_t i = 0; list && i < n; i++) type_unref(list[i]);
}

void posted_forget(void *kept)
{
	struct kept *k = kept;
	type_unref(k->a.sendtype);
	type_unref(k->a.recvtype);
	forget_types(k->a.sendtypes, k->nout);
	forget_types(k->a.recvtypes, k->nin);
	if (k->a.op >= NX_DYNAMIC) op_unref(k->a.op);
}

/* -- starting -------------------------------------------------------------------------------------------- */

/* Those with a type for each process. */
static int start_w(const struct kept *k, rh_t comm, rh_t *q)
{
	const struct posted *a = &k->a;
	rh_t *out = k->real, *in = k->real + k->nout;
	for (uint32_t i = 0; a->sendtypes && i < k->nout; i++) out[i] = RTYPE(a->sendtypes[i]);
	for (uint32_t i = 0; i < k->nin; i++) in[i] = RTYPE(a->recvtypes[i]);
	if (a->call == POSTED_ALLTOALLW)
		return drv->ialltoallw(a->sendbuf, a->sendcounts, a->sdispls, out, a->recvbuf, a->recvcounts,
				       a->rdispls, in, comm, q);
	return drv->ineighbor_alltoallw(a->sendbuf, a->sendcounts, a->sdispls, out, a->recvbuf, a->recvcounts,
					a->rdispls, in, comm, q);
}

static int start_near(const struct kept *k, rh_t comm, rh_t *q)
{
	const struct posted *a = &k->a;
	const void *in = a->sendbuf;
	void *out = a->recvbuf;
	rh_t st = RTYPE(a->sendtype), rt = RTYPE(a->recvtype);
	switch (a->call) {
	case POSTED_NEIGHBOR_ALLGATHER:
		return drv->ineighbor_allgather(in, a->sendcount, st, out, a->recvcount, rt, comm, q);
	case POSTED_NEIGHBOR_ALLGATHERV:
		return drv->ineighbor_allgatherv(in, a->sendcount, st, out, a->recvcounts, a->rdispls, rt,
						 comm, q);
	case POSTED_NEIGHBOR_ALLTOALL:
		return drv->ineighbor_alltoall(in, a->sendcount, st, out, a->recvcount, rt, comm, q);
	case POSTED_NEIGHBOR_ALLTOALLV:
		return drv->ineighbor_alltoallv(in, a->sendcounts, a->sdispls, st, out, a->recvcounts,
						a->rdispls, rt, comm, q);
	default: return start_w(k, comm, q);
	}
}

static int start(const struct kept *k, rh_t comm, rh_t *q)
{
	const struct posted *a = &k->a;
	const void *in = a->sendbuf;
	void *out = a->recvbuf;
	int n = a->recvcount;
	rh_t st = RTYPE(a->sendtype), rt = RTYPE(a->recvtype), op = ROP(a->op);
	switch (a->call) {
	case POSTED_BARRIER: return drv->ibarrier(comm, q);
	case POSTED_BCAST: return drv->ibcast(out, n, rt, a->root, comm, q);
	case POSTED_GATHER: return drv->igather(in, a->sendcount, st, out, n, rt, a->root, comm, q);
	case POSTED_GATHERV:
		return drv->igatherv(in, a->sendcount, st, out, a->recvcounts, a->rdispls, rt, a->root, comm,
				     q);
	case POSTED_SCATTER: return drv->iscatter(in, a->sendcount, st, out, n, rt, a->root, comm, q);
	case POSTED_SCATTERV:
		return drv->iscatterv(in, a->sendcounts, a->sdispls, st, out, n, rt, a->root, comm, q);
	case POSTED_ALLGATHER: return drv->iallgather(in, a->sendcount, st, out, n, rt, comm, q);
	case POSTED_ALLGATHERV:
		return drv->iallgatherv(in, a->sendcount, st, out, a->recvcounts, a->rdispls, rt, comm, q);
	case POSTED_ALLTOALL: return drv->ialltoall(in, a->sendcount, st, out, n, rt, comm, q);
	case POSTED_ALLTOALLV:
		return drv->ialltoallv(in, a->sendcounts, a->sdispls, st, out, a->recvcounts, a->rdispls, rt,
				       comm, q);
	case POSTED_REDUCE: return drv->ireduce(in, out, n, rt, op, a->root, comm, q);
	case POSTED_ALLREDUCE: return drv->iallreduce(in, out, n, rt, op, comm, q);
	case POSTED_REDUCE_SCATTER_BLOCK: return drv->ireduce_scatter_block(in, out, n, rt, op, comm, q);
	case POSTED_REDUCE_SCATTER: return drv->ireduce_scatter(in, out, a->recvcounts, rt, op, comm, q);
	case POSTED_SCAN: return drv->iscan(in, out, n, rt, op, comm, q);
	case POSTED_EXSCAN: return drv->iexscan(in, out, n, rt, op, comm, q);
	case POSTED_ALLTOALLW: return start_w(k, comm, q);
	default: return start_near(k, comm, q);
	}
}

/* A new request with its arguments; it is not started. The request has room for a type of its own, which is
 * unused here. */
static struct vrequest *request_of(struct kept *k, nx_t h, nx_t comm)
{
	struct vrequest *r = request_begin(h, NX_RQ_COLL, comm);
	if (!r) return NULL;
	request_args(r, NULL, 0, 0, NX_PROC_NULL, 0);
	r->flags |= NX_RF_POSTED;
	r->own = k;
	return r;
}

static int begin(struct vrequest *r, struct vcomm *c)
{
	rh_t q;
	int e = start(r->own, RCOMM(c->handle), &q);
	if (!e) RREQ(r->handle) = q;
	return e;
}

/* Such that others must have entered it too, before a checkpoint. */
static long begin_entered(struct vrequest *r, struct vcomm *c, const char *function, int *err)
{
	long g = gate_pass(c, 1, function);
	if (g) return g;
	r->order = c->seq;
	*err = begin(r, c);
	gate_leave();
	return 0;
}

long posted_start(struct posted a, nx_t comm, nx_t *request, const char *function)
{
	struct vcomm *c = comm_of(comm);
	if (unlikely(!c)) return nx_error(NX_COMM_WORLD, NX_ERR_COMM, function);
	struct kept *k = nx_full(NX_K_REQUEST) ? NULL : keep(&a, c);
	struct vrequest *r = k ? request_of(k, nx_alloc(NX_K_REQUEST), comm) : NULL;
	if (unlikely(!r)) {
		if (k) posted_forget(k);
		nx_free(k);
		return nx_error(comm, NX_ERR_NO_MEM, function);
	}
	int e;
	long again = 0;
	if (unlikely(k->entered)) {
		again = begin_entered(r, c, function, &e);
	} else {
		r->order = gate_post(c);
		e = begin(r, c);
	}
	if (likely(!again && !e)) *request = r->handle;
	else request_release(r);
	return again ? again : nx_result(comm, e, function);
}

int posted_own(const struct posted *a, struct vcomm *c, nx_t *request)
{
	struct kept *k = keep(a, c);
	if (!k) return NX_ERR_NO_MEM;
	nx_t h = nx_alloc(NX_K_REQUEST);
	struct vrequest *r = request_of(k, h ? h : nx_alloc_reserved(NX_K_REQUEST), c->handle);
	if (!r) core_die("more than %u requests are active", NX_MAXINDEX - NX_DYNAMIC);
	r->order = gate_post(c);
	int e = begin(r, c);
	if (e) request_release(r);
	else *request = r->handle;
	return e;
}

/* -- completing ------------------------------------------------------------------------------------------ */

bool posted_look(const struct vrequest *r, int *err)
{
	int flag = 0;
	nx_status st;
	*err = drv->request_get_status(RREQ(r->handle), &flag, &st);
	if (flag || *err) return true;
	if (unlikely(BY_CTLP->pending)) agree_awaits(NX_COMM(r->comm), r->order);
	return false;
}

bool posted_observe(const struct vrequest *r) { return gate_observe(NX_COMM(r->comm), r->order); }

bool posted_open(const struct vcomm *c) { return c->seq > c->entered && c->seq > c->observed; }

/* -- after a restart ------------------------------------------------------------------------------------- */

static int by_number(const void *x, const void *y)
{
	const struct vrequest *a = *(struct vrequest *const *)x, *b = *(struct vrequest *const *)y;
	if (a->comm != b->comm) return a->comm < b->comm ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

static int again(struct vrequest *r)
{
	struct kept *k = r->own;
	if (k->ninput) memcpy(input_at(&k->a), k->input, k->ninput);
	return begin(r, NX_COMM(r->comm));
}

/* On each communicator in the order of posting, which is the same on all members. */
int posted_repost_all(char *why, size_t n)
{
	uint32_t high = nx_high(NX_K_REQUEST), m = 0;
	struct vrequest **list = malloc(high * sizeof *list);
	int e = list ? 0 : NX_ERR_NO_MEM;
	for (uint32_t i = NX_DYNAMIC; list && i < high; i++) {
		struct vrequest *r = NX_REQUEST(i);
		bool open = NX_INDEX(r->handle) == i && pending_of(r)->repost == posted_repost_all &&
			    (r->flags & (NX_RF_ACTIVE | NX_RF_DONE)) == NX_RF_ACTIVE;
		if (open) list[m++] = r;
	}
	if (list) qsort(list, m, sizeof *list, by_number);
	for (uint32_t i = 0; i < m && !e; i++) e = again(list[i]);
	free(list);
	if (e) snprintf(why, n, "posting %u non-blocking collectives again: error class %d", m, e);
	return e ? -1 : 0;
}
