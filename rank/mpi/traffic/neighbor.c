/* neighbor.c: neighbourhood collectives (MPI-4.1 section 8.6). They run in the real MPI as they are, over the
 * topology that the real communicator has (topo.c): its neighbours are in the same order after a restart.
 *
 * Although only neighbours exchange data, every process of the communicator makes the call: its clock counts
 * them like all collectives, so that at a checkpoint all have entered the same ones. Context: as traffic.h.
 */
#include <stdlib.h>
#include "traffic.h"

/* c: the communicator, which has a topology. MPI_IN_PLACE has no meaning here. */
#define WITH_NEIGHBOURS(comm, sendbuf, recvbuf) \
	struct vcomm *c = comm_of(comm); \
	if (unlikely(!c)) FAIL(NX_COMM_WORLD, NX_ERR_COMM); \
	if (unlikely(!c->topo)) FAIL(comm, NX_ERR_TOPOLOGY); \
	if (unlikely((sendbuf) == NX_IN_PLACE || (recvbuf) == NX_IN_PLACE)) FAIL(comm, NX_ERR_BUFFER)

long mid_neighbor_allgather(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, int recvcount,
			    nx_t recvtype, nx_t comm)
{
	WITH_NEIGHBOURS(comm, sendbuf, recvbuf);
	RESULT(comm, GATED(c, drv->neighbor_allgather(sendbuf, sendcount, RTYPE(sendtype), recvbuf, recvcount,
						      RTYPE(recvtype), RCOMM(comm))));
}

long mid_neighbor_allgatherv(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf,
			     const int *recvcounts, const int *displs, nx_t recvtype, nx_t comm)
{
	WITH_NEIGHBOURS(comm, sendbuf, recvbuf);
	RESULT(comm, GATED(c, drv->neighbor_allgatherv(sendbuf, sendcount, RTYPE(sendtype), recvbuf,
						       recvcounts, displs, RTYPE(recvtype), RCOMM(comm))));
}

long mid_neighbor_alltoall(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, int recvcount,
			   nx_t recvtype, nx_t comm)
{
	WITH_NEIGHBOURS(comm, sendbuf, recvbuf);
	RESULT(comm, GATED(c, drv->neighbor_alltoall(sendbuf, sendcount, RTYPE(sendtype), recvbuf, recvcount,
						     RTYPE(recvtype), RCOMM(comm))));
}

long mid_neighbor_alltoallv(const void *sendbuf, const int *sendcounts, const int *sdispls, nx_t sendtype,
			    void *recvbuf, const int *recvcounts, const int *rdispls, nx_t recvtype,
			    nx_t comm)
{
	WITH_NEIGHBOURS(comm, sendbuf, recvbuf);
	RESULT(comm, GATED(c, drv->neighbor_alltoallv(sendbuf, sendcounts, sdispls, RTYPE(sendtype), recvbuf,
						      recvcounts, rdispls, RTYPE(recvtype), RCOMM(comm))));
}

/* Real handles of the types of an Alltoallw, those for receiving behind those for sending. */
static rh_t *real_types(const struct vcomm *c, const nx_t *sendtypes, const nx_t *recvtypes)
{
	int out = nx_neighbours(c->topo, c->rank, 1), in = nx_neighbours(c->topo, c->rank, 0);
	rh_t *t = malloc(((size_t)out + (size_t)in + 1) * sizeof *t);
	for (int i = 0; t && i < out; i++) t[i] = RTYPE(sendtypes[i]);
	for (int i = 0; t && i < in; i++) t[out + i] = RTYPE(recvtypes[i]);
	return t;
}

long mid_neighbor_alltoallw(const void *sendbuf, const int *sendcounts, const nx_aint *sdispls,
			    const nx_t *sendtypes, void *recvbuf, const int *recvcounts,
			    const nx_aint *rdispls, const nx_t *recvtypes, nx_t comm)
{
	WITH_NEIGHBOURS(comm, sendbuf, recvbuf);
	long g = gate_enter(c);
	if (g) return g;
	rh_t *t = real_types(c, sendtypes, recvtypes);
	int out = nx_neighbours(c->topo, c->rank, 1), e = NX_ERR_NO_MEM;
	if (t)
		e = drv->neighbor_alltoallw(sendbuf, sendcounts, sdispls, t, recvbuf, recvcounts, rdispls,
					    t + out, RCOMM(comm));
	gate_leave();
	free(t);
	RESULT(comm, e);
}

/* -- non-blocking ---------------------------------------------------------------------------------------- */

#define POST(comm, request, ...) \
	do { \
		WITH_NEIGHBOURS(comm, sendbuf, recvbuf); \
		return posted_start((struct posted){ .sendbuf = sendbuf, .recvbuf = recvbuf, __VA_ARGS__ }, \
				    comm, request, MID_NAME); \
	} while (0)

long mid_ineighbor_allgather(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, int recvcount,
			     nx_t recvtype, nx_t comm, nx_t *request)
{
	POST(comm, request, .call = POSTED_NEIGHBOR_ALLGATHER, .sendcount = sendcount, .sendtype = sendtype,
	     .recvcount = recvcount, .recvtype = recvtype);
}

long mid_ineighbor_allgatherv(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf,
			      const int *recvcounts, const int *displs, nx_t recvtype, nx_t comm,
			      nx_t *request)
{
	POST(comm, request, .call = POSTED_NEIGHBOR_ALLGATHERV, .sendcount = sendcount, .sendtype = sendtype,
	     .recvcounts = recvcounts, .rdispls = displs, .recvtype = recvtype);
}

long mid_ineighbor_alltoall(const void *sendbuf, int sendcount, nx_t sendtype, void *recvbuf, int recvcount,
			    nx_t recvtype, nx_t comm, nx_t *request)
{
	POST(comm, request, .call = POSTED_NEIGHBOR_ALLTOALL, .sendcount = sendcount, .sendtype = sendtype,
	     .recvcount = recvcount, .recvtype = recvtype);
}

long mid_ineighbor_alltoallv(const void *sendbuf, const int *sendcounts, const int *sdispls, nx_t sendtype,
			     void *recvbuf, const int *recvcounts, const int *rdispls, nx_t recvtype,
			     nx_t comm, nx_t *request)
{
	POST(comm, request, .call = POSTED_NEIGHBOR_ALLTOALLV, .sendcounts = sendcounts, .sdispls = sdispls,
	     .sendtype = sendtype, .recvcounts = recvcounts, .rdispls = rdispls, .recvtype = recvtype);
}

long mid_ineighbor_alltoallw(const void *sendbuf, const int *sendcounts, const nx_aint *sdispls,
			     const nx_t *sendtypes, void *recvbuf, const int *recvcounts,
			     const nx_aint *rdispls, const nx_t *recvtypes, nx_t comm, nx_t *request)
{
	POST(comm, request, .call = POSTED_NEIGHBOR_ALLTOALLW, .displ_size = sizeof(nx_aint),
	     .sendcounts = sendcounts, .sdispls = sdispls, .sendtypes = sendtypes, .recvcounts = recvcounts,
	     .rdispls = rdispls, .recvtypes = recvtypes);
}
