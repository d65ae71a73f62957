/* coll.c: collectives (MPI-4.1 chapter 6). They run in the real MPI as they are; in front of each the
 * communicator's clock is counted, and with a checkpoint pending the rank may have to park (agree.c).
 *
 * In front of those that synchronise by their nature, whatever the data, and of those in which all wait for
 * a root, there may be an arrival wait (arrival.c). The non-blocking ones are posted.c's. Context: as
 * traffic.h. */
#include <stdlib.h>
#include <string.h>
#include "arrival.h"
#include "traffic.h"

#define COLL(comm, call) \
	do { \
		struct vcomm *c_ = comm_of(comm); \
		if (unlikely(!c_)) FAIL(NX_COMM_WORLD, NX_ERR_COMM); \
		int err_ = GATED(c_, call); \
		RESULT(comm, err_); \
	} while (0)

/* The same with a wait in front, which may return another value than 0, if `waits`; `over`: it is entered. */
#define WAITED(comm, waits, wait, over, call) \
	do { \
		struct vcomm *c_ = comm_of(comm); \
		if (unlikely(!c_)) FAIL(NX_COMM_WORLD, NX_ERR_COMM); \
		bool waits_ = c_->size > 1 && (waits); \
		long w_ = likely(waits_) ? (wait) : 0; \
		if (unlikely(w_)) return w_; \
		w_ = gate_enter(c_); \
		if (unlikely(w_)) return w_; \
		if (likely(waits_)) over; \
		int err_ = (call); \
		gate_leave(); \
		RESULT(comm, err_); \
	} while (0)

/* One that no member leaves before all have come: of more than one member, and with something to tell. */
#define SYNCHRONISING(comm, something, call) \
	WAITED(comm, something, arrival(c_, __func__), arrival_over(c_), call)

/* One in which all others wait for a root. */
#define LED(comm, something, call) \
	WAITED(comm, root >= 0 && root < c_->size && (something), arrival_led(c_, root, __func__), \
	       arrival_led_over(c_), call)

static inline bool something(int count, nx_t type)
{
	const struct vtype *t = NX_TYPE(type);
	return count > 0 && nx_live(type, t) && t->size > 0;
}

/* A user function of the real MPI is told a real datatype; which virtual one that is, is known here. */
#define REDUCTION(op, type) do { if (unlikely((op) >= NX_DYNAMIC)) op_current_type(type); } while (0)

long mid_barrier(nx_t comm) { SYNCHRONISING(comm, true, drv->barrier(RCOMM(comm))); }

long mid_bcast(void *buffer, int count, nx_t datatype, int root, nx_t comm)
{
	LED(comm, something(count, datatype), drv->bcast(buffer, count, RTYPE(datatype), root, RCOMM(comm)));
}

long mid_gather(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, int recvcount,
		nx_t recvtype, int root, nx_t comm)
{
	COLL(comm, drv->gather(sendbuf, sendcount, RTYPE(sendtype), recvbuf, recvcount, RTYPE(recvtype), root,
			       RCOMM(comm)));
}

long mid_gatherv(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, const int *recvcounts,
		 const int *displs, nx_t recvtype, int root, nx_t comm)
{
	COLL(comm, drv->gatherv(sendbuf, sendcount, RTYPE(sendtype), recvbuf, recvcounts, displs,
				RTYPE(recvtype), root, RCOMM(comm)));
}

long mid_scatter(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, int recvcount,
		 nx_t recvtype, int root, nx_t comm)
{
	LED(comm, c_->rank == root ? something(sendcount, sendtype) : something(recvcount, recvtype),
	    drv->scatter(sendbuf, sendcount, RTYPE(sendtype), recvbuf, recvcount, RTYPE(recvtype), root,
			 RCOMM(comm)));
}

long mid_scatterv(const void *sendbuf, const int *sendcounts, const int *displs, nx_t sendtype, void *recvbuf,
		  int recvcount, nx_t recvtype, int root, nx_t comm)
{
	COLL(comm, drv->scatterv(sendbuf, sendcounts, displs, RTYPE(sendtype), recvbuf, recvcount,
				 RTYPE(recvtype), root, RCOMM(comm)));
}

long mid_allgather(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, int recvcount,
		   nx_t recvtype, nx_t comm)
{
	SYNCHRONISING(comm, something(recvcount, recvtype),
		      drv->allgather(sendbuf, sendcount, RTYPE(sendtype), recvbuf, recvcount, RTYPE(recvtype),
				     RCOMM(comm)));
}

long mid_allgatherv(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, const int *recvcounts,
		    const int *displs, nx_t recvtype, nx_t comm)
{
	COLL(comm, drv->allgatherv(sendbuf, sendcount, RTYPE(sendtype), recvbuf, recvcounts, displs,
				   RTYPE(recvtype), RCOMM(comm)));
}

long mid_alltoall(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, int recvcount,
		  nx_t recvtype, nx_t comm)
{
	SYNCHRONISING(comm, something(recvcount, recvtype),
		      drv->alltoall(sendbuf, sendcount, RTYPE(sendtype), recvbuf, recvcount, RTYPE(recvtype),
				    RCOMM(comm)));
}

long mid_alltoallv(const void *sendbuf, const int *sendcounts, const int *sdispls, nx_t sendtype,
		   void *recvbuf, const int *recvcounts, const int *rdispls, nx_t recvtype, nx_t comm)
{
	COLL(comm, drv->alltoallv(sendbuf, sendcounts, sdispls, RTYPE(sendtype), recvbuf, recvcounts, rdispls,
				  RTYPE(recvtype), RCOMM(comm)));
}

/* Real handles of the types of an Alltoallw: both arrays in one block, or NULL; sendtypes may be absent
 * (IN_PLACE). */
static rh_t *real_types(const nx_t *sendtypes, const nx_t *recvtypes, int n)
{
	rh_t *t = malloc(2 * (size_t)n * sizeof *t);
	for (int i = 0; t && i < n; i++) {
		t[i] = sendtypes ? RTYPE(sendtypes[i]) : RTYPE(recvtypes[i]);
		t[n + i] = RTYPE(recvtypes[i]);
	}
	return t;
}

long mid_alltoallw(const void *sendbuf, const int *sendcounts, const int *sdispls, const nx_t *sendtypes,
		   void *recvbuf, const int *recvcounts, const int *rdispls, const nx_t *recvtypes, nx_t comm)
{
	struct vcomm *c = comm_of(comm);
	if (!c) FAIL(NX_COMM_WORLD, NX_ERR_COMM);
	long g = gate_enter(c);
	if (g) return g;
	rh_t *t = real_types(sendtypes, recvtypes, c->size);
	int e = t ? drv->alltoallw(sendbuf, sendcounts, sdispls, t, recvbuf, recvcounts, rdispls, t + c->size,
				   RCOMM(comm))
		  : NX_ERR_NO_MEM;
	gate_leave();
	free(t);
	RESULT(comm, e);
}

long mid_reduce(const void *sendbuf, void *recvbuf, int count, nx_t datatype, nx_t op, int root, nx_t comm)
{
	REDUCTION(op, datatype);
	COLL(comm, drv->reduce(sendbuf, recvbuf, count, RTYPE(datatype), ROP(op), root, RCOMM(comm)));
}

long mid_allreduce(const void *sendbuf, void *recvbuf, int count, nx_t datatype, nx_t op, nx_t comm)
{
	REDUCTION(op, datatype);
	SYNCHRONISING(comm, something(count, datatype),
		      drv->allreduce(sendbuf, recvbuf, count, RTYPE(datatype), ROP(op), RCOMM(comm)));
}

long mid_reduce_scatter_block(const void *sendbuf, void *recvbuf, int recvcount, nx_t datatype, nx_t op,
			      nx_t comm)
{
	REDUCTION(op, datatype);
	SYNCHRONISING(comm, something(recvcount, datatype),
		      drv->reduce_scatter_block(sendbuf, recvbuf, recvcount, RTYPE(datatype), ROP(op),
						RCOMM(comm)));
}

long mid_reduce_scatter(const void *sendbuf, void *recvbuf, const int *recvcounts, nx_t datatype, nx_t op,
			nx_t comm)
{
	REDUCTION(op, datatype);
	COLL(comm, drv->reduce_scatter(sendbuf, recvbuf, recvcounts, RTYPE(datatype), ROP(op), RCOMM(comm)));
}

long mid_scan(const void *sendbuf, void *recvbuf, int count, nx_t datatype, nx_t op, nx_t comm)
{
	REDUCTION(op, datatype);
	COLL(comm, drv->scan(sendbuf, recvbuf, count, RTYPE(datatype), ROP(op), RCOMM(comm)));
}

long mid_exscan(const void *sendbuf, void *recvbuf, int count, nx_t datatype, nx_t op, nx_t comm)
{
	REDUCTION(op, datatype);
	COLL(comm, drv->exscan(sendbuf, recvbuf, count, RTYPE(datatype), ROP(op), RCOMM(comm)));
}

long mid_reduce_local(const void *inbuf, void *inoutbuf, int count, nx_t datatype, nx_t op)
{
	REDUCTION(op, datatype);
	RESULT(NX_COMM_WORLD, drv->reduce_local(inbuf, inoutbuf, count, RTYPE(datatype), ROP(op)));
}

/* -- non-blocking ---------------------------------------------------------------------------------------- */

#define POST(comm, request, ...) return posted_start((struct posted){ __VA_ARGS__ }, comm, request, MID_NAME)
/* Arguments that mean something at the root only. */
#define AT_ROOT(comm, x) (comm_of(comm) && comm_of(comm)->rank == root ? (x) : NULL)
#define UNLESS_IN_PLACE(x) (sendbuf == NX_IN_PLACE ? NULL : (x))

long mid_ibarrier(nx_t comm, nx_t *request) { POST(comm, request, .call = POSTED_BARRIER); }

long mid_ibcast(void *buffer, int count, nx_t datatype, int root, nx_t comm, nx_t *request)
{
	POST(comm, request, .call = POSTED_BCAST, .root = root, .recvbuf = buffer, .recvcount = count,
	     .recvtype = datatype);
}

long mid_igather(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, int recvcount,
		 nx_t recvtype, int root, nx_t comm, nx_t *request)
{
	POST(comm, request, .call = POSTED_GATHER, .root = root, .sendbuf = sendbuf, .sendcount = sendcount,
	     .sendtype = sendtype, .recvbuf = recvbuf, .recvcount = recvcount, .recvtype = recvtype);
}

long mid_igatherv(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, const int *recvcounts,
		  const int *displs, nx_t recvtype, int root, nx_t comm, nx_t *request)
{
	POST(comm, request, .call = POSTED_GATHERV, .root = root, .sendbuf = sendbuf, .sendcount = sendcount,
	     .sendtype = sendtype, .recvbuf = recvbuf, .recvcounts = AT_ROOT(comm, recvcounts),
	     .rdispls = AT_ROOT(comm, displs), .recvtype = recvtype);
}

long mid_iscatter(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, int recvcount,
		  nx_t recvtype, int root, nx_t comm, nx_t *request)
{
	POST(comm, request, .call = POSTED_SCATTER, .root = root, .sendbuf = sendbuf, .sendcount = sendcount,
	     .sendtype = sendtype, .recvbuf = recvbuf, .recvcount = recvcount, .recvtype = recvtype);
}

long mid_iscatterv(const void *sendbuf, const int *sendcounts, const int *displs, nx_t sendtype,
		   void *recvbuf, int recvcount, nx_t recvtype, int root, nx_t comm, nx_t *request)
{
	POST(comm, request, .call = POSTED_SCATTERV, .root = root, .sendbuf = sendbuf,
	     .sendcounts = AT_ROOT(comm, sendcounts), .sdispls = AT_ROOT(comm, displs), .sendtype = sendtype,
	     .recvbuf = recvbuf, .recvcount = recvcount, .recvtype = recvtype);
}

long mid_iallgather(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, int recvcount,
		    nx_t recvtype, nx_t comm, nx_t *request)
{
	POST(comm, request, .call = POSTED_ALLGATHER, .sendbuf = sendbuf, .sendcount = sendcount,
	     .sendtype = sendtype, .recvbuf = recvbuf, .recvcount = recvcount, .recvtype = recvtype);
}

long mid_iallgatherv(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, const int *recvcounts,
		     const int *displs, nx_t recvtype, nx_t comm, nx_t *request)
{
	POST(comm, request, .call = POSTED_ALLGATHERV, .sendbuf = sendbuf, .sendcount = sendcount,
	     .sendtype = sendtype, .recvbuf = recvbuf, .recvcounts = recvcounts, .rdispls = displs,
	     .recvtype = recvtype);
}

long mid_ialltoall(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, int recvcount,
		   nx_t recvtype, nx_t comm, nx_t *request)
{
	POST(comm, request, .call = POSTED_ALLTOALL, .sendbuf = sendbuf, .sendcount = sendcount,
	     .sendtype = sendtype, .recvbuf = recvbuf, .recvcount = recvcount, .recvtype = recvtype);
}

long mid_ialltoallv(const void *sendbuf, const int *sendcounts, const int *sdispls, nx_t sendtype,
		    void *recvbuf, const int *recvcounts, const int *rdispls, nx_t recvtype, nx_t comm,
		    nx_t *request)
{
	POST(comm, request, .call = POSTED_ALLTOALLV, .sendbuf = sendbuf,
	     .sendcounts = UNLESS_IN_PLACE(sendcounts), .sdispls = UNLESS_IN_PLACE(sdispls),
	     .sendtype = sendtype, .recvbuf = recvbuf, .recvcounts = recvcounts, .rdispls = rdispls,
	     .recvtype = recvtype);
}

long mid_ialltoallw(const void *sendbuf, const int *sendcounts, const int *sdispls, const nx_t *sendtypes,
		    void *recvbuf, const int *recvcounts, const int *rdispls, const nx_t *recvtypes,
		    nx_t comm, nx_t *request)
{
	POST(comm, request, .call = POSTED_ALLTOALLW, .sendbuf = sendbuf,
	     .sendcounts = UNLESS_IN_PLACE(sendcounts), .sdispls = UNLESS_IN_PLACE(sdispls),
	     .sendtypes = UNLESS_IN_PLACE(sendtypes), .recvbuf = recvbuf, .recvcounts = recvcounts,
	     .rdispls = rdispls, .recvtypes = recvtypes);
}

#define POST_REDUCTION(which, n) \
	do { \
		REDUCTION(op, datatype); \
		POST(comm, request, .call = which, .sendbuf = sendbuf, .recvbuf = recvbuf, .recvcount = (n), \
		     .recvtype = datatype, .op = op); \
	} while (0)

long mid_ireduce(const void *sendbuf, void *recvbuf, int count, nx_t datatype, nx_t op, int root, nx_t comm,
		 nx_t *request)
{
	REDUCTION(op, datatype);
	POST(comm, request, .call = POSTED_REDUCE, .root = root, .sendbuf = sendbuf, .recvbuf = recvbuf,
	     .recvcount = count, .recvtype = datatype, .op = op);
}

long mid_iallreduce(const void *sendbuf, void *recvbuf, int count, nx_t datatype, nx_t op, nx_t comm,
		    nx_t *request)
{
	POST_REDUCTION(POSTED_ALLREDUCE, count);
}

long mid_ireduce_scatter_block(const void *sendbuf, void *recvbuf, int recvcount, nx_t datatype, nx_t op,
			       nx_t comm, nx_t *request)
{
	POST_REDUCTION(POSTED_REDUCE_SCATTER_BLOCK, recvcount);
}

long mid_ireduce_scatter(const void *sendbuf, void *recvbuf, const int *recvcounts, nx_t datatype, nx_t op,
			 nx_t comm, nx_t *request)
{
	REDUCTION(op, datatype);
	POST(comm, request, .call = POSTED_REDUCE_SCATTER, .sendbuf = sendbuf, .recvbuf = recvbuf,
	     .recvcounts = recvcounts, .recvtype = datatype, .op = op);
}

long mid_iscan(const void *sendbuf, void *recvbuf, int count, nx_t datatype, nx_t op, nx_t comm,
	       nx_t *request)
{
	POST_REDUCTION(POSTED_SCAN, count);
}

long mid_iexscan(const void *sendbuf, void *recvbuf, int count, nx_t datatype, nx_t op, nx_t comm,
		 nx_t *request)
{
	POST_REDUCTION(POSTED_EXSCAN, count);
}
