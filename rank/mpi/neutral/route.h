/* route.h: routes, by which the point-to-point calls of inner loops go from the face straight to the real
 * MPI. Part of neutral.h.
 *
 * A route is a communicator and a predefined datatype whose handles have been looked up and found right, with
 * all that a call needs to know of them. The face finds it by the application's own two handles, in a table
 * at a fixed address, and passes its address; the function behind the crossing (driver/hot.inc.c) looks
 * nothing up again. A face without a route asks the middle for one (NX_SLOT_ROUTE), so that the next call
 * finds it. With MPI_THREAD_MULTIPLE there are none.
 *
 * A thread may be stopped between the two, and continue in another process: what it was given is an address
 * and must still be the same route. So the table is the lower half's, but the saved state names what is at
 * each index, and a restart makes the same routes before the application runs (traffic/route.c). A route goes
 * when its communicator is freed; no thread can be on its way with it then. Context: both halves; the lower
 * half writes the table. */
#ifndef BYSSUS_ROUTE_H
#define BYSSUS_ROUTE_H

struct nx_route {
	struct nx_key key;
	const struct vcomm *c;
	struct vpeer *peer;           /* of c */
	uint32_t size;                /* of c: processes */
	uint32_t bytes;               /* of the datatype */
	nx_t comm, type;
	rh_t real_comm, real_type;
	uint64_t pad;
};
_Static_assert(sizeof(struct nx_route) == 64, "a line of the cache each");
_Static_assert(NX_ROUTES * sizeof(struct nx_route) <= BY_CLIENT_SIZE, "layout.h");
#define NX_ROUTE_TABLE ((struct nx_route *)(BY_CTL + BY_CLIENT))

/* Where the route of a key is, if there is one. In both faces handles differ in their last bits. */
static inline struct nx_route *route_at(struct nx_key key)
{
	return &NX_ROUTE_TABLE[(key.comm * 5 + key.type) % NX_ROUTES];
}
static inline bool route_is(const struct nx_route *r, struct nx_key key)
{
	return r->key.comm == key.comm && r->key.type == key.type;
}

/* The arguments of a Sendrecv that do not fit in registers. */
struct nx_routed_sendrecv {
	const void *sendbuf;
	void *recvbuf;
	int sendcount, dest, sendtag, recvcount, source, recvtag;
	nx_cont cont;
};

/* The functions behind the crossings. Ranks: neutral; that the peer is one (or NX_ANY_SOURCE) has been seen.
 */
typedef long nx_routed_send(const void *buf, int count, const struct nx_route *r, int dest, int tag,
			    nx_cont *cont);
typedef long nx_routed_recv(void *buf, int count, const struct nx_route *r, int source, int tag,
			    nx_cont *cont);
typedef long nx_routed_sendrecv(struct nx_routed_sendrecv *b, const struct nx_route *send,
				const struct nx_route *recv);
/* The new request, or minus the error. */
typedef long nx_routed_isend(const void *buf, int count, const struct nx_route *r, int dest, int tag);
typedef long nx_routed_irecv(void *buf, int count, const struct nx_route *r, int source, int tag);
/* At most NX_ROUTED_MANY requests, none of them null. NX_ROUTED_GONE: all are complete and released, requests
 * is as it was; else as Waitall, with NX_REQUEST_NULL for those that are released. */
typedef long nx_routed_waitall(int n, nx_t *requests);
enum { NX_ROUTED_MANY = 64, NX_ROUTED_GONE = -1 };
#endif
