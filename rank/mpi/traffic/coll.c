/* coll.c: collectives (MPI-4.1 chapter 6). They run in the real MPI as they are; in front of each the communicator's
 * clock is counted, and with a checkpoint pending the rank may have to park (agree.c).
 *
 * A non-blocking collective counts when it is started; a checkpoint completes it before the image.
 * Context: as traffic.h. */
#include <stdlib.h>
#include <string.h>
#include "traffic.h"

#define COLL(comm, call) \
	do { \
		struct vcomm *c_ = comm_of(comm); \
		if (unlikely(!c_)) FAIL(NX_COMM_WORLD, NX_ERR_COMM); \
		int err_ = GATED(c_, call); \
		RESULT(comm, err_); \
	} while (0)

/* A user function of the real MPI is told a real datatype; which virtual one that is, is known here. */
#define REDUCTION(op, type) do { if (unlikely((op) >= NX_DYNAMIC)) op_current_type(type); } while (0)

long mid_barrier(nx_t comm) { COLL(comm, drv->barrier(RCOMM(comm))); }

long mid_bcast(void *buffer, int count, nx_t datatype, int root, nx_t comm)
{
	COLL(comm, drv->bcast(buffer, count, RTYPE(datatype), root, RCOMM(comm)));
}

long mid_gather(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, int recvcount, nx_t recvtype, int root, nx_t comm)
{
	COLL(comm, drv->gather(sendbuf, sendcount, RTYPE(sendtype), recvbuf, recvcount, RTYPE(recvtype), root, RCOMM(comm)));
}

long mid_gatherv(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, const int *recvcounts, const int *displs,
		 nx_t recvtype, int root, nx_t comm)
{
	COLL(comm, drv->gatherv(sendbuf, sendcount, RTYPE(sendtype), recvbuf, recvcounts, displs, RTYPE(recvtype), root, RCOMM(comm)));
}

long mid_scatter(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, int recvcount, nx_t recvtype, int root, nx_t comm)
{
	COLL(comm, drv->scatter(sendbuf, sendcount, RTYPE(sendtype), recvbuf, recvcount, RTYPE(recvtype), root, RCOMM(comm)));
}

long mid_scatterv(const void *sendbuf, const int *sendcounts, const int *displs, nx_t sendtype, void *recvbuf, int recvcount,
		  nx_t recvtype, int root, nx_t comm)
{
	COLL(comm, drv->scatterv(sendbuf, sendcounts, displs, RTYPE(sendtype), recvbuf, recvcount, RTYPE(recvtype), root, RCOMM(comm)));
}

long mid_allgather(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, int recvcount, nx_t recvtype, nx_t comm)
{
	COLL(comm, drv->allgather(sendbuf, sendcount, RTYPE(sendtype), recvbuf, recvcount, RTYPE(recvtype), RCOMM(comm)));
}

long mid_allgatherv(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, const int *recvcounts, const int *displs,
		    nx_t recvtype, nx_t comm)
{
	COLL(comm, drv->allgatherv(sendbuf, sendcount, RTYPE(sendtype), recvbuf, recvcounts, displs, RTYPE(recvtype), RCOMM(comm)));
}

long mid_alltoall(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, int recvcount, nx_t recvtype, nx_t comm)
{
	COLL(comm, drv->alltoall(sendbuf, sendcount, RTYPE(sendtype), recvbuf, recvcount, RTYPE(recvtype), RCOMM(comm)));
}

long mid_alltoallv(const void *sendbuf, const int *sendcounts, const int *sdispls, nx_t sendtype, void *recvbuf,
		   const int *recvcounts, const int *rdispls, nx_t recvtype, nx_t comm)
{
	COLL(comm, drv->alltoallv(sendbuf, sendcounts, sdispls, RTYPE(sendtype), recvbuf, recvcounts, rdispls, RTYPE(recvtype), RCOMM(comm)));
}

/* Real handles of the types of an Alltoallw: both arrays in one block, or NULL; sendtypes may be absent (IN_PLACE). */
static rh_t *real_types(const nx_t *sendtypes, const nx_t *recvtypes, int n)
{
	rh_t *t = malloc(2 * (size_t)n * sizeof *t);
	for (int i = 0; t && i < n; i++) {
		t[i] = sendtypes ? RTYPE(sendtypes[i]) : RTYPE(recvtypes[i]);
		t[n + i] = RTYPE(recvtypes[i]);
	}
	return t;
}

long mid_alltoallw(const void *sendbuf, const int *sendcounts, const int *sdispls, const nx_t *sendtypes, void *recvbuf,
		   const int *recvcounts, const int *rdispls, const nx_t *recvtypes, nx_t comm)
{
	struct vcomm *c = comm_of(comm);
	if (!c) FAIL(NX_COMM_WORLD, NX_ERR_COMM);
	long g = gate_enter(c);
	if (g) return g;
	rh_t *t = real_types(sendtypes, recvtypes, c->size);
	int e = t ? drv->alltoallw(sendbuf, sendcounts, sdispls, t, recvbuf, recvcounts, rdispls, t + c->size, RCOMM(comm)) : NX_ERR_NO_MEM;
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
	COLL(comm, drv->allreduce(sendbuf, recvbuf, count, RTYPE(datatype), ROP(op), RCOMM(comm)));
}

long mid_reduce_scatter_block(const void *sendbuf, void *recvbuf, int recvcount, nx_t datatype, nx_t op, nx_t comm)
{
	REDUCTION(op, datatype);
	COLL(comm, drv->reduce_scatter_block(sendbuf, recvbuf, recvcount, RTYPE(datatype), ROP(op), RCOMM(comm)));
}

long mid_reduce_scatter(const void *sendbuf, void *recvbuf, const int *recvcounts, nx_t datatype, nx_t op, nx_t comm)
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

/* -- non-blocking ----------------------------------------------------------------------------------------------------- */

/* call starts the real one and writes its request to *q. */
#define ICOLL(comm, request, call) \
	do { \
		struct vcomm *c_ = comm_of(comm); \
		if (unlikely(!c_)) FAIL(NX_COMM_WORLD, NX_ERR_COMM); \
		if (unlikely(nx_full(NX_K_REQUEST))) FAIL(comm, NX_ERR_NO_MEM); \
		rh_t real_, *q = &real_; \
		int err_ = GATED(c_, call); \
		if (err_) FAIL(comm, err_); \
		*(request) = request_keep(NX_RQ_COLL, comm, real_, NULL, 0, 0, NX_PROC_NULL, 0); \
		return 0; \
	} while (0)

long mid_ibarrier(nx_t comm, nx_t *request) { ICOLL(comm, request, drv->ibarrier(RCOMM(comm), q)); }

long mid_ibcast(void *buffer, int count, nx_t datatype, int root, nx_t comm, nx_t *request)
{
	ICOLL(comm, request, drv->ibcast(buffer, count, RTYPE(datatype), root, RCOMM(comm), q));
}

long mid_igather(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, int recvcount, nx_t recvtype, int root, nx_t comm, nx_t *request)
{
	ICOLL(comm, request, drv->igather(sendbuf, sendcount, RTYPE(sendtype), recvbuf, recvcount, RTYPE(recvtype), root, RCOMM(comm), q));
}

long mid_igatherv(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, const int *recvcounts, const int *displs,
		  nx_t recvtype, int root, nx_t comm, nx_t *request)
{
	ICOLL(comm, request, drv->igatherv(sendbuf, sendcount, RTYPE(sendtype), recvbuf, recvcounts, displs, RTYPE(recvtype), root, RCOMM(comm), q));
}

long mid_iscatter(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, int recvcount, nx_t recvtype, int root, nx_t comm, nx_t *request)
{
	ICOLL(comm, request, drv->iscatter(sendbuf, sendcount, RTYPE(sendtype), recvbuf, recvcount, RTYPE(recvtype), root, RCOMM(comm), q));
}

long mid_iscatterv(const void *sendbuf, const int *sendcounts, const int *displs, nx_t sendtype, void *recvbuf, int recvcount,
		   nx_t recvtype, int root, nx_t comm, nx_t *request)
{
	ICOLL(comm, request, drv->iscatterv(sendbuf, sendcounts, displs, RTYPE(sendtype), recvbuf, recvcount, RTYPE(recvtype), root, RCOMM(comm), q));
}

long mid_iallgather(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, int recvcount, nx_t recvtype, nx_t comm, nx_t *request)
{
	ICOLL(comm, request, drv->iallgather(sendbuf, sendcount, RTYPE(sendtype), recvbuf, recvcount, RTYPE(recvtype), RCOMM(comm), q));
}

long mid_iallgatherv(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, const int *recvcounts, const int *displs,
		     nx_t recvtype, nx_t comm, nx_t *request)
{
	ICOLL(comm, request, drv->iallgatherv(sendbuf, sendcount, RTYPE(sendtype), recvbuf, recvcounts, displs, RTYPE(recvtype), RCOMM(comm), q));
}

long mid_ialltoall(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, int recvcount, nx_t recvtype, nx_t comm, nx_t *request)
{
	ICOLL(comm, request, drv->ialltoall(sendbuf, sendcount, RTYPE(sendtype), recvbuf, recvcount, RTYPE(recvtype), RCOMM(comm), q));
}

long mid_ialltoallv(const void *sendbuf, const int *sendcounts, const int *sdispls, nx_t sendtype, void *recvbuf,
		    const int *recvcounts, const int *rdispls, nx_t recvtype, nx_t comm, nx_t *request)
{
	ICOLL(comm, request, drv->ialltoallv(sendbuf, sendcounts, sdispls, RTYPE(sendtype), recvbuf, recvcounts, rdispls, RTYPE(recvtype), RCOMM(comm), q));
}

/* The arrays of types must live until the collective completes: they travel with the request, in saved memory. */
long mid_ialltoallw(const void *sendbuf, const int *sendcounts, const int *sdispls, const nx_t *sendtypes, void *recvbuf,
		    const int *recvcounts, const int *rdispls, const nx_t *recvtypes, nx_t comm, nx_t *request)
{
	struct vcomm *c = comm_of(comm);
	if (!c) FAIL(NX_COMM_WORLD, NX_ERR_COMM);
	if (unlikely(nx_full(NX_K_REQUEST))) FAIL(comm, NX_ERR_NO_MEM);
	long g = gate_enter(c);
	if (g) return g;
	rh_t real, *t = real_types(sendtypes, recvtypes, c->size);
	void *kept = t ? nx_memdup(t, 2 * (size_t)c->size * sizeof *t) : NULL;
	free(t);
	t = kept;
	int e = t ? drv->ialltoallw(sendbuf, sendcounts, sdispls, t, recvbuf, recvcounts, rdispls, t + c->size, RCOMM(comm), &real) : NX_ERR_NO_MEM;
	gate_leave();
	if (e) {
		nx_free(kept);
		FAIL(comm, e);
	}
	*request = request_keep(NX_RQ_COLL, comm, real, NULL, 0, 0, NX_PROC_NULL, 0);
	NX_REQUEST(*request)->own = kept;
	return 0;
}

long mid_ireduce(const void *sendbuf, void *recvbuf, int count, nx_t datatype, nx_t op, int root, nx_t comm, nx_t *request)
{
	REDUCTION(op, datatype);
	ICOLL(comm, request, drv->ireduce(sendbuf, recvbuf, count, RTYPE(datatype), ROP(op), root, RCOMM(comm), q));
}

long mid_iallreduce(const void *sendbuf, void *recvbuf, int count, nx_t datatype, nx_t op, nx_t comm, nx_t *request)
{
	REDUCTION(op, datatype);
	ICOLL(comm, request, drv->iallreduce(sendbuf, recvbuf, count, RTYPE(datatype), ROP(op), RCOMM(comm), q));
}

long mid_ireduce_scatter_block(const void *sendbuf, void *recvbuf, int recvcount, nx_t datatype, nx_t op, nx_t comm, nx_t *request)
{
	REDUCTION(op, datatype);
	ICOLL(comm, request, drv->ireduce_scatter_block(sendbuf, recvbuf, recvcount, RTYPE(datatype), ROP(op), RCOMM(comm), q));
}

long mid_ireduce_scatter(const void *sendbuf, void *recvbuf, const int *recvcounts, nx_t datatype, nx_t op, nx_t comm, nx_t *request)
{
	REDUCTION(op, datatype);
	ICOLL(comm, request, drv->ireduce_scatter(sendbuf, recvbuf, recvcounts, RTYPE(datatype), ROP(op), RCOMM(comm), q));
}

long mid_iscan(const void *sendbuf, void *recvbuf, int count, nx_t datatype, nx_t op, nx_t comm, nx_t *request)
{
	REDUCTION(op, datatype);
	ICOLL(comm, request, drv->iscan(sendbuf, recvbuf, count, RTYPE(datatype), ROP(op), RCOMM(comm), q));
}

long mid_iexscan(const void *sendbuf, void *recvbuf, int count, nx_t datatype, nx_t op, nx_t comm, nx_t *request)
{
	REDUCTION(op, datatype);
	ICOLL(comm, request, drv->iexscan(sendbuf, recvbuf, count, RTYPE(datatype), ROP(op), RCOMM(comm), q));
}
