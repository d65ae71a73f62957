/* face_fast.inc.c: the face's own way for the common case of point-to-point calls in inner loops.
 *
 * Sends and receives go by a route (route.h). Requests of sends that were complete at once are completed
 * here. What is not common (no route yet, no real peer, a derived datatype, a wrong handle) goes the way of
 * all other calls: middle_name, which is generated. Included by every face at its end. Context: as face.h. */

#ifdef FACE_MPICH
static inline struct nx_key route_key(MPI_Comm comm, MPI_Datatype type)
{
	return (struct nx_key){ (uint32_t)comm, (uint32_t)type };
}
#else
static inline struct nx_key route_key(MPI_Comm comm, MPI_Datatype type)
{
	return (struct nx_key){ in_comm(comm), in_datatype(type) };
}
#endif

/* The function behind a crossing by its type in route.h. */
#define FAST(type, slot) ((type *)BY_CTLP->call[slot])

/* Is there a route for these handles, and is the peer one of its processes? */
static inline bool leads(const struct nx_route *r, struct nx_key key, int peer)
{
	return likely(route_is(r, key) && (uint32_t)peer < r->size);
}
static inline bool leads_from(const struct nx_route *r, struct nx_key key, int peer)
{
	return likely(route_is(r, key) && ((uint32_t)peer < r->size || peer == NX_ANY_SOURCE));
}

/* The next call with these handles may find a route. */
static void route_wanted(MPI_Comm comm, MPI_Datatype type)
{
	struct nx_key key = route_key(comm, type);
	nx_t c = in_comm(comm), t = in_datatype(type);
	if (!NX_STATE->routed || route_is(route_at(key), key) || !face_comm(c) || t >= NX_DYNAMIC ||
	    !face_type(t))
		return;
	CROSS(NX_SLOT_ROUTE, uint32_t, uint32_t, nx_t, nx_t)(key.comm, key.type, c, t);
}

/* The handle of a request that has just been made. */
static inline MPI_Request new_request(nx_t nx)
{
	if (nx < NX_FIRST_DYNAMIC) __builtin_unreachable();
	return out_request(nx);
}

/* -- calls without a route: with the arguments of the call, so that nothing has to be saved for them
 * ------------------------ */

COLD static int send_without(const void *buf, int count, MPI_Datatype datatype, int dest, int tag,
			     MPI_Comm comm)
{
	route_wanted(comm, datatype);
	return middle_send(buf, count, datatype, dest, tag, comm);
}

COLD static int recv_without(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
			     MPI_Status *status)
{
	route_wanted(comm, datatype);
	return middle_recv(buf, count, datatype, source, tag, comm, status);
}

COLD static int sendrecv_without(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest,
				 int sendtag, void *recvbuf, int recvcount, MPI_Datatype recvtype, int source,
				 int recvtag, MPI_Comm comm, MPI_Status *status)
{
	route_wanted(comm, sendtype);
	route_wanted(comm, recvtype);
	return middle_sendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype,
			       source, recvtag, comm, status);
}

COLD static int isend_without(const void *buf, int count, MPI_Datatype datatype, int dest, int tag,
			      MPI_Comm comm, MPI_Request *request)
{
	route_wanted(comm, datatype);
	return middle_isend(buf, count, datatype, dest, tag, comm, request);
}

COLD static int irecv_without(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
			      MPI_Request *request)
{
	route_wanted(comm, datatype);
	return middle_irecv(buf, count, datatype, source, tag, comm, request);
}

/* -- calls with a route ---------------------------------------------------------------------------------- */

int PMPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
	struct nx_key key = route_key(comm, datatype);
	const struct nx_route *r = route_at(key);
	nx_cont cont;
	if (!leads(r, key, dest)) return send_without(buf, count, datatype, dest, tag, comm);
	long rc = FAST(nx_routed_send, NX_SLOT_ROUTED_SEND)(buf, count, r, dest, tag, &cont);
	if (unlikely(rc == BY_AGAIN)) rc = face_resume(&cont, NULL);
	return error_out((int)rc);
}

int PMPI_Recv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
	      MPI_Status *status)
{
	struct nx_key key = route_key(comm, datatype);
	const struct nx_route *r = route_at(key);
	int from = rank_in(source);
	nx_cont cont;
	if (!leads_from(r, key, from)) return recv_without(buf, count, datatype, source, tag, comm, status);
	bool want = status != ABI_STATUS_IGNORE;
	long rc = FAST(nx_routed_recv, want ? NX_SLOT_ROUTED_RECV_STATUS
					    : NX_SLOT_ROUTED_RECV)(buf, count, r, from, tag, &cont);
	if (unlikely(rc == BY_AGAIN)) rc = face_resume(&cont, &cont.st);
	if (want && STATUS_SET(rc)) status_out(status, &cont.st);
	return error_out((int)rc);
}

int PMPI_Sendrecv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag,
		  void *recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
		  MPI_Status *status)
{
	struct nx_key send_key = route_key(comm, sendtype), recv_key = route_key(comm, recvtype);
	const struct nx_route *s = route_at(send_key), *r = route_at(recv_key);
	int from = rank_in(source);
	struct nx_routed_sendrecv b;
	if (!leads(s, send_key, dest) || !leads_from(r, recv_key, from))
		return sendrecv_without(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount,
					recvtype, source, recvtag, comm, status);
	b.sendbuf = sendbuf;
	b.recvbuf = recvbuf;
	b.sendcount = sendcount;
	b.dest = dest;
	b.sendtag = sendtag;
	b.recvcount = recvcount;
	b.source = from;
	b.recvtag = recvtag;
	long rc = FAST(nx_routed_sendrecv, NX_SLOT_ROUTED_SENDRECV)(&b, s, r);
	if (unlikely(rc == BY_AGAIN)) rc = face_resume(&b.cont, &b.cont.st);
	if (status != ABI_STATUS_IGNORE && STATUS_SET(rc)) status_out(status, &b.cont.st);
	return error_out((int)rc);
}

int PMPI_Isend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
	       MPI_Request *request)
{
	struct nx_key key = route_key(comm, datatype);
	const struct nx_route *r = route_at(key);
	if (!leads(r, key, dest) || unlikely(!request))
		return isend_without(buf, count, datatype, dest, tag, comm, request);
	long q = FAST(nx_routed_isend, NX_SLOT_ROUTED_ISEND)(buf, count, r, dest, tag);
	if (unlikely(q <= 0)) return error_out((int)-q);
	*request = new_request((nx_t)q);
	return 0;
}

int PMPI_Irecv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
	       MPI_Request *request)
{
	struct nx_key key = route_key(comm, datatype);
	const struct nx_route *r = route_at(key);
	int from = rank_in(source);
	if (!leads_from(r, key, from) || unlikely(!request))
		return irecv_without(buf, count, datatype, source, tag, comm, request);
	long q = FAST(nx_routed_irecv, NX_SLOT_ROUTED_IRECV)(buf, count, r, from, tag);
	if (unlikely(q <= 0)) return error_out((int)-q);
	*request = new_request((nx_t)q);
	return 0;
}

/* -- completion ------------------------------------------------------------------------------------------ */

/* The request of a send that was complete at once. */
static inline bool is_sent(MPI_Request q) { return q == new_request(NX_REQUEST_SENT); }

int PMPI_Wait(MPI_Request *request, MPI_Status *status)
{
	if (status != ABI_STATUS_IGNORE || unlikely(!request) || !is_sent(*request))
		return middle_wait(request, status);
	*request = out_request(NX_REQUEST_NULL);
	return 0;
}

int PMPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
	if (status != ABI_STATUS_IGNORE || unlikely(!request || !flag) || !is_sent(*request))
		return middle_test(request, flag, status);
	*request = out_request(NX_REQUEST_NULL);
	*flag = 1;
	return 0;
}

int PMPI_Waitall(int count, MPI_Request *array_of_requests, MPI_Status *array_of_statuses)
{
	nx_t live[NX_ROUTED_MANY];
	uint32_t at[NX_ROUTED_MANY];
	int n = 0;
	long rc;
	if (unlikely(array_of_statuses != ABI_STATUSES_IGNORE || count > NX_ROUTED_MANY || !NX_STATE->routed))
		return middle_waitall(count, array_of_requests, array_of_statuses);
	for (int i = 0; i < count; i++) {
		MPI_Request q = array_of_requests[i];
		if (is_sent(q)) {
			array_of_requests[i] = out_request(NX_REQUEST_NULL);
			continue;
		}
		live[n] = in_request(q);
		at[n] = (uint32_t)i;
		n += live[n] != NX_REQUEST_NULL;
	}
	if (n == 0) return 0;
	do rc = FAST(nx_routed_waitall, NX_SLOT_ROUTED_WAITALL)(n, live);
	while (unlikely(rc == BY_AGAIN) && face_park());
	for (int k = 0; k < n; k++)
		if (likely(rc == NX_ROUTED_GONE || live[k] == NX_REQUEST_NULL))
			array_of_requests[at[k]] = out_request(NX_REQUEST_NULL);
	return rc == NX_ROUTED_GONE ? 0 : error_out((int)rc);
}
