/* posted.h: non-blocking collectives, which are kept with their arguments until they are complete, so that
 * they can be posted again. Context: as traffic.h. */
#ifndef BYSSUS_POSTED_H
#define BYSSUS_POSTED_H
#include "../table/table.h"

enum posted_call {
	POSTED_BARRIER,
	POSTED_BCAST,
	POSTED_GATHER,
	POSTED_GATHERV,
	POSTED_SCATTER,
	POSTED_SCATTERV,
	POSTED_ALLGATHER,
	POSTED_ALLGATHERV,
	POSTED_ALLTOALL,
	POSTED_ALLTOALLV,
	POSTED_ALLTOALLW,
	POSTED_REDUCE,
	POSTED_ALLREDUCE,
	POSTED_REDUCE_SCATTER_BLOCK,
	POSTED_REDUCE_SCATTER,
	POSTED_SCAN,
	POSTED_EXSCAN,
	POSTED_NEIGHBOR_ALLGATHER,
	POSTED_NEIGHBOR_ALLGATHERV,
	POSTED_NEIGHBOR_ALLTOALL,
	POSTED_NEIGHBOR_ALLTOALLV,
	POSTED_NEIGHBOR_ALLTOALLW,
};

/* What a call was given. A function that has one count or one type has it in recv; Bcast has its buffer in
 * recvbuf. */
struct posted {
	enum posted_call call;
	int root;
	const void *sendbuf;
	void *recvbuf;
	int sendcount, recvcount;
	nx_t sendtype, recvtype, op;
	unsigned displ_size;            /* bytes of a displacement: 0 stands for an int's */
	/* One entry for each process that is sent to or received from; NULL where they mean nothing here. */
	const int *sendcounts, *recvcounts;
	const void *sdispls, *rdispls;
	const nx_t *sendtypes, *recvtypes;
};

long posted_start(struct posted a, nx_t comm, nx_t *request, const char *function);
/* The same for the middle itself: a collective with nothing to overwrite, whatever room the table has. 0 or
 * an error. */
int  posted_own(const struct posted *a, struct vcomm *c, nx_t *request);
bool posted_look(const struct vrequest *r, int *err);           /* as in the table of kinds, and the next */
bool posted_observe(const struct vrequest *r);
void posted_forget(void *kept);                         /* what a request has kept, before its memory goes */
#endif
