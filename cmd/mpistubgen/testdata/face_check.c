/* face_check.c: calls a face (named by the first argument) on top of a stand-in for the lower half and checks what
 * arrives in neutral terms and what comes back. FACE_MPICH or FACE_OPENMPI says which. Arguments pass through
 * entries.c, so that packing and unpacking are checked against each other. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "abi/abi.h"
#ifdef FACE_MPICH
#define HANDLE(T, mpich, openmpi) ((T)(mpich))
#else
#define HANDLE(T, mpich, openmpi) ((T)dlsym(face, #openmpi))
#endif
#include "life/life.h"

static int wrong, calls, again, routes;
static void *face;
#define CHECK(what) do { if (!(what)) { printf("line %d: %s\n", __LINE__, #what); wrong++; } } while (0)

/* -- the lower half ------------------------------------------------------------------------------------------------ */

void core_set_call(unsigned slot, void *fn) { BY_CTLP->call[slot] = (uint64_t)fn; }

static char data[64];
enum { COMM_NX = 300 | 5 << NX_INDEX_BITS, REQ_NX = 400 };

long mid_send(const void *buf, int count, nx_t datatype, int dest, int tag, nx_t comm, nx_cont *cont)
{
	calls++;
	CHECK(buf == data && count == 3 && datatype == NX_TYPE_DOUBLE && dest == NX_PROC_NULL && tag == 77 && comm == COMM_NX && cont);
	return again-- > 0 ? BY_AGAIN : 0;
}

long mid_resume(nx_cont *cont, nx_status *status)
{
	CHECK(cont != NULL);
	if (status) *status = (nx_status){ .source = NX_PROC_NULL, .tag = 5, .bytes = 1L << 33 };
	return again-- > 0 ? BY_AGAIN : 0;
}

long mid_sendrecv(const void *sendbuf, int sendcount, nx_t sendtype, int dest, int sendtag, void *recvbuf, int recvcount, nx_t recvtype,
		  int source, int recvtag, nx_t comm, nx_status *status, nx_cont *cont)
{
	CHECK(sendbuf == data && sendcount == 1 && sendtype == NX_TYPE_INT && dest == 2 && sendtag == 3 && recvbuf == data + 8);
	CHECK(recvcount == 4 && recvtype == NX_TYPE_FLOAT_INT && source == NX_ANY_SOURCE && recvtag == NX_ANY_TAG && comm == NX_COMM_WORLD);
	CHECK(status && cont);
	return BY_AGAIN;
}

long mid_irecv(void *buf, int count, nx_t datatype, int source, int tag, nx_t comm, nx_t *request)
{
	CHECK(buf == data && count == 1 && datatype == NX_TYPE_BYTE && source == NX_ANY_SOURCE && tag == NX_ANY_TAG && comm == NX_COMM_SELF);
	*request = REQ_NX;
	return 0;
}

long mid_waitall(int count, nx_t *request, nx_status *status)
{
	if (again-- > 0) return BY_AGAIN;
	for (int i = 0; i < count; i++) {
		CHECK(request[i] == (i % 2 ? REQ_NX : NX_REQUEST_NULL));
		request[i] = NX_REQUEST_NULL;
		if (status) status[i] = (nx_status){ .source = i, .tag = NX_ANY_TAG, .error = i == 3 ? NX_ERR_TRUNCATE : 0, .bytes = i };
	}
	return status ? NX_ERR_IN_STATUS : 0;
}

/* Makes the route of MPI_INT on MPI_COMM_WORLD only. */
long mid_route(uint32_t comm_key, uint32_t type_key, nx_t comm, nx_t datatype)
{
	struct nx_key key = { comm_key, type_key };
	CHECK(comm_key != 0 && !route_is(route_at(key), key));
	if (comm != NX_COMM_WORLD || datatype != NX_TYPE_INT) return 0;
	*route_at(key) = (struct nx_route){ .key = key, .size = 7, .comm = comm, .type = datatype };
	routes++;
	return 0;
}

static int is_route(const struct nx_route *r) { return r->comm == NX_COMM_WORLD && r->type == NX_TYPE_INT; }

static long routed_send(const void *buf, int count, const struct nx_route *r, int dest, int tag, nx_cont *cont)
{
	CHECK(buf == data && count == 3 && is_route(r) && dest == 6 && tag == 77 && cont);
	return again-- > 0 ? BY_AGAIN : NX_ERR_TAG;
}

static long routed_recv(void *buf, int count, const struct nx_route *r, int source, int tag, nx_cont *cont)
{
	CHECK(buf == data && count == 3 && is_route(r) && source == NX_ANY_SOURCE && tag == NX_ANY_TAG && cont);
	cont->st = (nx_status){ .source = 4, .tag = 9, .bytes = 12 };
	return again-- > 0 ? BY_AGAIN : 0;
}

static long routed_sendrecv(struct nx_routed_sendrecv *b, const struct nx_route *s, const struct nx_route *r)
{
	CHECK(b->sendbuf == data && b->sendcount == 1 && is_route(s) && b->dest == 2 && b->sendtag == 3);
	CHECK(b->recvbuf == data + 8 && b->recvcount == 4 && r == s && b->source == 0 && b->recvtag == 8);
	b->cont.st = (nx_status){ .source = 0, .tag = 8, .bytes = 16 };
	return 0;
}

static long routed_isend(const void *buf, int count, const struct nx_route *r, int dest, int tag)
{
	CHECK(buf == data && count == 3 && is_route(r) && dest == 0);
	return tag == 1 ? (long)NX_REQUEST_SENT : -NX_ERR_COUNT;
}

static long routed_irecv(void *buf, int count, const struct nx_route *r, int source, int tag)
{
	CHECK(buf == data && count == 3 && is_route(r) && source == 5 && tag == 1);
	return REQ_NX;
}

static long routed_waitall(int n, nx_t *requests)
{
	if (again == 1) {
		CHECK(n == 1 && requests[0] == REQ_NX);
		return again--, BY_AGAIN;
	}
	if (again == 0) return again--, NX_ROUTED_GONE;
	requests[0] = NX_REQUEST_NULL;                  /* the other one is persistent */
	return NX_ERR_IN_STATUS;
}

long mid_allreduce(const void *sendbuf, void *recvbuf, int count, nx_t datatype, nx_t op, nx_t comm)
{
	CHECK(sendbuf == NX_IN_PLACE && recvbuf == data && count == 2 && datatype == NX_TYPE_LONG && op == NX_OP_MAXLOC && comm == NX_COMM_WORLD);
	return again-- > 0 ? BY_AGAIN : NX_ERR_OP;
}

long mid_comm_split(nx_t comm, int color, int key, nx_t *newcomm)
{
	CHECK(comm == NX_COMM_WORLD && color == NX_UNDEFINED && key == 9);
	*newcomm = NX_COMM_NULL;
	return 0;
}

long mid_comm_get_name(nx_t comm, char *name, int max, int *resultlen)
{
	CHECK(comm == NX_COMM_WORLD && max == ABI_MAX_OBJECT_NAME && name == data && resultlen);
	return NX_FIRST_USER_ERROR + 2;
}

static int (*op_thunk)(void *, void *, void *, int *, nx_t);
static void *op_fn;
long mid_op_create(void *user_fn, void *thunk, int commute, nx_t *op)
{
	op_fn = user_fn;
	memcpy(&op_thunk, &thunk, sizeof thunk);
	CHECK(commute == 1);
	*op = 256;
	return 0;
}

long mid_refused(uint32_t index, nx_t comm)
{
	CHECK(!strcmp(nx_refusal[index].function, "MPI_Intercomm_create") && comm == NX_COMM_SELF);
	return NX_ERR_UNSUPPORTED_OPERATION;
}

long mid_raise(nx_t comm, int error, const char *function)
{
	CHECK(comm == NX_COMM_WORLD && function[0] >= 'A' && function[0] <= 'Z');
	if (error == NX_ERR_ARG) CHECK(!strcmp(function, "Comm_rank") || !strcmp(function, "Type_contiguous"));
	return error;
}

long mid_dist_graph_create(nx_t comm_old, int n, const int *sources, const int *degrees, const int *destinations, const int *weights,
			   nx_t info, int reorder, nx_t *comm)
{
	CHECK(comm_old == NX_COMM_WORLD && n == 2 && sources[1] == 1 && degrees[1] == 2 && destinations[2] == 1);
	CHECK(weights == NX_UNWEIGHTED && info == NX_INFO_NULL && reorder == 1);
	*comm = COMM_NX;
	return 0;
}

long mid_type_get_envelope(nx_t datatype, int *ni, int *na, int *nd, int *combiner)
{
	CHECK(datatype == NX_TYPE_DOUBLE);
	*ni = 8, *na = 0, *nd = 1, *combiner = NX_COMBINER_DARRAY;
	return 0;
}

long mid_type_get_contents(nx_t datatype, int max_ni, int max_na, int max_nd, int *ints, nx_aint *aints, nx_t *types)
{
	const int contents[8] = { 4, 1, 1, 100, NX_DISTRIBUTE_CYCLIC, NX_DISTRIBUTE_DFLT_DARG, 4, NX_ORDER_FORTRAN };
	CHECK(datatype == NX_TYPE_DOUBLE && max_ni == 8 && max_na == 0 && max_nd == 3 && aints == NULL);
	memcpy(ints, contents, sizeof contents);
	types[0] = NX_TYPE_FLOAT_INT;
	return 0;
}

/* -- the application ------------------------------------------------------------------------------------------------ */

#define CALL(name, ...) ((int (*)(__VA_ARGS__))dlsym(face, #name))

static void map(uint64_t at, size_t n)
{
	void *p = mmap((void *)at, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	CHECK(p == (void *)at);
}

static MPI_Datatype seen;
static void user_fn(void *in, void *inout, int *len, MPI_Datatype *type)
{
	CHECK(in == data && inout == data && *len == 4);
	seen = *type;
}

/* Calls without a place for the result. */
static void without_result(MPI_Comm world)
{
	int (*rank)(MPI_Comm, int *) = (int (*)(MPI_Comm, int *))dlsym(face, "MPI_Comm_rank");
	int (*contiguous)(int, MPI_Datatype, MPI_Datatype *) = (int (*)(int, MPI_Datatype, MPI_Datatype *))dlsym(face, "MPI_Type_contiguous");
	CHECK(rank(world, NULL) != 0);
	CHECK(contiguous(1, HANDLE(MPI_Datatype, 0x4c00080b, ompi_mpi_double), NULL) != 0);
}

static void point_to_point(MPI_Comm world, MPI_Comm self, MPI_Comm dup)
{
	MPI_Status st;
	MPI_Request req;
	typedef int send_fn(const void *, int, MPI_Datatype, int, int, MPI_Comm);
	send_fn *send = (send_fn *)dlsym(face, "MPI_Send");
	again = 0;
	CHECK(send(data, 3, HANDLE(MPI_Datatype, 0x4c00080b, ompi_mpi_double), ABI_PROC_NULL, 77, dup) == 0 && calls == 1);
	again = 3;
	CHECK(send(data, 3, HANDLE(MPI_Datatype, 0x4c00080b, ompi_mpi_double), ABI_PROC_NULL, 77, dup) == 0 && calls == 2 && again == -1);
	again = 1;
	st.MPI_ERROR = 1234;
	CHECK(CALL(MPI_Sendrecv, const void *, int, MPI_Datatype, int, int, void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *)(
		data, 1, HANDLE(MPI_Datatype, 0x4c000405, ompi_mpi_int), 2, 3, data + 8, 4, HANDLE(MPI_Datatype, 0x8c000000, ompi_mpi_float_int),
		ABI_ANY_SOURCE, ABI_ANY_TAG, world, &st) == 0);
	CHECK(st.MPI_SOURCE == ABI_PROC_NULL && st.MPI_TAG == 5 && st.MPI_ERROR == 1234 && status_bytes(&st) == 1L << 33);
	CHECK(CALL(MPI_Irecv, void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *)(data, 1, HANDLE(MPI_Datatype, 0x4c00010d, ompi_mpi_byte),
		ABI_ANY_SOURCE, ABI_ANY_TAG, self, &req) == 0);
	CHECK(req == HANDLE(MPI_Request, (int)(0xac000000 | REQ_NX), x) || req == (MPI_Request)(uintptr_t)NX_ENTRY(REQUEST, REQ_NX));
}

/* A call that may have a route asks for one and goes the long way; the next takes it. */
static void routed(MPI_Comm world)
{
	MPI_Datatype type = HANDLE(MPI_Datatype, 0x4c000405, ompi_mpi_int);
	MPI_Request q[3], null = HANDLE(MPI_Request, 0x2c000000, ompi_request_null);
	MPI_Status st;
	int flag = 0;
	CHECK(routes == 1);                             /* by the Sendrecv of point_to_point */
	again = 1;
	CHECK(CALL(MPI_Send, const void *, int, MPI_Datatype, int, int, MPI_Comm)(data, 3, type, 6, 77, world) == 0 && again == -1);
	CHECK(CALL(MPI_Send, const void *, int, MPI_Datatype, int, int, MPI_Comm)(data, 3, type, 6, 77, world) == ABI_ERR_TAG);
	CHECK(CALL(MPI_Recv, void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *)(data, 3, type, ABI_ANY_SOURCE, ABI_ANY_TAG, world, &st) == 0);
	CHECK(st.MPI_SOURCE == 4 && st.MPI_TAG == 9 && status_bytes(&st) == 12);
	CHECK(CALL(MPI_Recv, void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *)(data, 3, type, ABI_ANY_SOURCE, ABI_ANY_TAG, world,
		ABI_STATUS_IGNORE) == 0);
	CHECK(CALL(MPI_Sendrecv, const void *, int, MPI_Datatype, int, int, void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *)(
		data, 1, type, 2, 3, data + 8, 4, type, 0, 8, world, &st) == 0 && st.MPI_TAG == 8);
	for (int i = 0; i < 3; i++) {
		CHECK(CALL(MPI_Isend, const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *)(data, 3, type, 0, 1, world, &q[i]) == 0);
		CHECK(q[i] != null);
	}
	CHECK(CALL(MPI_Wait, MPI_Request *, MPI_Status *)(&q[0], ABI_STATUS_IGNORE) == 0 && q[0] == null);
	CHECK(CALL(MPI_Test, MPI_Request *, int *, MPI_Status *)(&q[1], &flag, ABI_STATUS_IGNORE) == 0 && q[1] == null && flag);
	CHECK(CALL(MPI_Irecv, void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *)(data, 3, type, 5, 1, world, &q[1]) == 0 && q[1] != null);
	again = 1;
	CHECK(CALL(MPI_Waitall, int, MPI_Request *, MPI_Status *)(3, q, ABI_STATUSES_IGNORE) == 0 && again == -1);
	CHECK(q[0] == null && q[1] == null && q[2] == null);
	for (int i = 0; i < 2; i++)
		CHECK(CALL(MPI_Irecv, void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *)(data, 3, type, 5, 1, world, &q[i]) == 0);
	CHECK(CALL(MPI_Waitall, int, MPI_Request *, MPI_Status *)(3, q, ABI_STATUSES_IGNORE) == ABI_ERR_IN_STATUS && q[0] == null && q[1] != null);
	CHECK(CALL(MPI_Isend, const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *)(data, 3, type, 0, 2, world, &q[0]) == ABI_ERR_COUNT);
	CHECK(q[0] == null && routes == 1);
}

static void completion(void)
{
	static MPI_Request many[5001];
	static MPI_Status sts[5001];
	MPI_Request null = HANDLE(MPI_Request, 0x2c000000, ompi_request_null);
	for (int n = 5; n <= 5001; n += 4996) {
		for (int i = 0; i < n; i++) many[i] = i % 2 ? HANDLE(MPI_Request, (int)(0xac000000 | REQ_NX), x) : null;
#ifdef FACE_OPENMPI
		for (int i = 1; i < n; i += 2) many[i] = NX_ENTRY(REQUEST, REQ_NX);
#endif
		again = 2;
		int rc = CALL(MPI_Waitall, int, MPI_Request *, MPI_Status *)(n, many, n == 5 ? sts : ABI_STATUSES_IGNORE);
		CHECK(rc == (n == 5 ? ABI_ERR_IN_STATUS : 0));
		for (int i = 0; i < n; i++) CHECK(many[i] == null);
	}
	CHECK(sts[3].MPI_ERROR == ABI_ERR_TRUNCATE && sts[4].MPI_ERROR == 0 && sts[4].MPI_SOURCE == 4 && status_bytes(&sts[4]) == 4);
}

static void others(MPI_Comm world, MPI_Comm self)
{
	MPI_Comm c;
	MPI_Op op;
	int n = 4, rank = -1, sources[2] = { 0, 1 }, degrees[2] = { 1, 2 }, dests[3] = { 1, 0, 1 }, count;
	int **unweighted = dlsym(face, "MPI_UNWEIGHTED");
	MPI_Status st;
	again = 2;
	CHECK(CALL(MPI_Allreduce, const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm)(ABI_IN_PLACE, data, 2,
		HANDLE(MPI_Datatype, 0x4c000807, ompi_mpi_long), HANDLE(MPI_Op, 0x5800000c, ompi_mpi_op_maxloc), world) == ABI_ERR_OP);
	CHECK(CALL(MPI_Comm_split, MPI_Comm, int, int, MPI_Comm *)(world, ABI_UNDEFINED, 9, &c) == 0);
	CHECK(c == HANDLE(MPI_Comm, 0x04000000, ompi_mpi_comm_null));
	CHECK(CALL(PMPI_Comm_get_name, MPI_Comm, char *, int *)(world, data, &n) == ABI_ERR_LASTCODE + 3);
	CHECK(CALL(MPI_Op_create, void *, int, MPI_Op *)((void *)user_fn, 1, &op) == 0 && op_fn == (void *)user_fn);
	n = 4;
	op_thunk(op_fn, data, data, &n, NX_TYPE_INT);
	CHECK(seen == HANDLE(MPI_Datatype, 0x4c000405, ompi_mpi_int));
	CHECK(CALL(MPI_Intercomm_create, MPI_Comm, int, MPI_Comm, int, int, MPI_Comm *)(self, 0, world, 0, 0, &c) == ABI_ERR_UNSUPPORTED_OPERATION);
	CHECK(CALL(MPI_Comm_rank, MPI_Comm, int *)(world, &rank) == 0 && rank == 6);
	CHECK(CALL(MPI_Comm_rank, MPI_Comm, int *)(HANDLE(MPI_Comm, 0x04000000, ompi_mpi_comm_null), &rank) == ABI_ERR_COMM);
	CHECK(CALL(MPI_Dist_graph_create, MPI_Comm, int, int *, int *, int *, int *, MPI_Info, int, MPI_Comm *)(world, 2, sources, degrees, dests,
		unweighted ? *unweighted : (int *)2, HANDLE(MPI_Info, 0x1c000000, ompi_mpi_info_null), 1, &c) == 0);
	status_set(&st, 24, 0);
	CHECK(CALL(MPI_Get_count, const MPI_Status *, MPI_Datatype, int *)(&st, HANDLE(MPI_Datatype, 0x4c00080b, ompi_mpi_double), &count) == 0 && count == 3);
	MPI_Datatype types[3];
	int ints[8];
	CHECK(CALL(MPI_Type_get_contents, MPI_Datatype, int, int, int, int *, nx_aint *, MPI_Datatype *)(
		HANDLE(MPI_Datatype, 0x4c00080b, ompi_mpi_double), 8, 0, 3, ints, NULL, types) == 0);
	CHECK(types[0] == HANDLE(MPI_Datatype, 0x8c000000, ompi_mpi_float_int) && ints[3] == 100 && ints[4] == ABI_DISTRIBUTE_CYCLIC);
	CHECK(ints[5] == ABI_DISTRIBUTE_DFLT_DARG && ints[7] == ABI_ORDER_FORTRAN);
	CHECK(CALL(MPI_T_init_thread, int, int *)(0, &n) == ABI_T_ERR_CANNOT_INIT);
}

int main(int argc, char **argv)
{
	map(BY_CTL, BY_CTL_SIZE);
	for (int k = 0; k <= NX_REGION_STATE; k++) map(NX_TABLE(k), 1 << 26);
	face = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW);
	if (!face) return printf("%s\n", dlerror()), 2;
	signal(BY_SIG, SIG_IGN);
	nx_fill_slots();
	NX_STATE->routed = 1;
	core_set_call(NX_SLOT_ROUTED_SEND, routed_send);
	core_set_call(NX_SLOT_ROUTED_RECV, routed_recv);
	core_set_call(NX_SLOT_ROUTED_RECV_STATUS, routed_recv);
	core_set_call(NX_SLOT_ROUTED_SENDRECV, routed_sendrecv);
	core_set_call(NX_SLOT_ROUTED_ISEND, routed_isend);
	core_set_call(NX_SLOT_ROUTED_IRECV, routed_irecv);
	core_set_call(NX_SLOT_ROUTED_WAITALL, routed_waitall);
	*NX_COMM(NX_COMM_WORLD) = (struct vcomm){ .handle = NX_COMM_WORLD, .rank = 6, .size = 7 };
	*NX_COMM(COMM_NX) = (struct vcomm){ .handle = COMM_NX };
	*NX_REQUEST(REQ_NX) = (struct vrequest){ .handle = REQ_NX };
	*NX_TYPE(NX_TYPE_DOUBLE) = (struct vtype){ .handle = NX_TYPE_DOUBLE, .size = 8 };
	*NX_TYPE(NX_TYPE_INT) = (struct vtype){ .handle = NX_TYPE_INT, .size = 4 };
	MPI_Comm world = HANDLE(MPI_Comm, 0x44000000, ompi_mpi_comm_world), self = HANDLE(MPI_Comm, 0x44000001, ompi_mpi_comm_self);
	MPI_Comm dup = HANDLE(MPI_Comm, (int)(0x84000000 | COMM_NX), x);
#ifdef FACE_OPENMPI
	dup = NX_ENTRY(COMM, COMM_NX);
#endif
	without_result(world);
	point_to_point(world, self, dup);
	routed(world);
	completion();
	others(world, self);
	printf("%d wrong\n", wrong);
	return wrong != 0;
}
