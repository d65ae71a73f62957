/* calls.c: the calls of package mpi: messages, collective operations, communicators, by neutral numbers.
 *
 * Context: called by Go on one thread at a time (MPI_THREAD_SERIALIZED); does not allocate. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "glue.h"

static int crowded;                              /* more ranks than processors: calls that block test and rest */

rh_t real_comm_world(void) { return real_base(); }
rh_t real_comm_self(void) { return drv->comm_self; }
int real_tag_ub(void)
{
	int *value = NULL, flag = 0;
	int rc = drv->comm_get_attr(drv->comm_world, NX_KEYVAL_TAG_UB, (void **)&value, &flag);
	return rc == 0 && flag && value ? *value : 32767;
}

rh_t real_comm_null(void) { return drv->comm_null; }
void real_crowded(int yes) { crowded = yes; }

/* Whether ranks on this node have to share processors: launchers bind each to some. */
int real_on_node(int *ranks, int *processors)
{
	enum { MOST = 65536 / 8 };              /* the kernel takes no set that is smaller than its own */
	unsigned char mine[MOST] = { 0 }, all[MOST];
	rh_t node;
	syscall(SYS_sched_getaffinity, 0, sizeof mine, mine);
	int rc = real_comm_split_shared(real_base(), 0, &node);
	if (rc) return rc;
	rc = drv->comm_size(node, ranks);
	if (!rc)
		rc = drv->allreduce(mine, all, MOST, drv->type[NX_TYPE_UNSIGNED_CHAR], drv->op[NX_OP_BOR], node);
	*processors = 0;
	for (int i = 0; !rc && i < MOST; i++) *processors += __builtin_popcount(all[i]);
	return rc ? rc : drv->comm_free(&node);
}

char *real_nothing(void)
{
	static char nothing[8];
	return nothing;
}

/* -- messages -------------------------------------------------------------------------------------------- */

int real_finish(rh_t *request, nx_status *st)
{
	if (!crowded) return drv->wait(request, st);
	for (int n = 0;; n++) {
		int flag, rc = drv->test(request, &flag, st);
		if (rc || flag) return rc;
		real_rest(n < 256 ? 0 : 50);
	}
}

int real_begin_send(int mode, const char *buf, int n, int type, int to, int tag, rh_t comm, rh_t *request)
{
	return (mode == REAL_SYNCHRONOUS ? drv->issend : drv->isend)(buf, n, drv->type[type], to, tag, comm, request);
}

int real_begin_recv(char *buf, int n, int type, int from, int tag, rh_t comm, rh_t *request)
{
	return drv->irecv(buf, n, drv->type[type], from, tag, comm, request);
}

int real_send(int mode, const char *buf, int n, int type, int to, int tag, rh_t comm)
{
	rh_t request;
	if (!crowded) return (mode == REAL_SYNCHRONOUS ? drv->ssend : drv->send)(buf, n, drv->type[type], to, tag, comm);
	int rc = real_begin_send(mode, buf, n, type, to, tag, comm, &request);
	return rc ? rc : real_finish(&request, NULL);
}

int real_recv(char *buf, int n, int type, int from, int tag, rh_t comm, nx_status *st)
{
	rh_t request;
	if (!crowded) return drv->recv(buf, n, drv->type[type], from, tag, comm, st);
	int rc = real_begin_recv(buf, n, type, from, tag, comm, &request);
	return rc ? rc : real_finish(&request, st);
}

int real_done(rh_t *request, int *flag, nx_status *st) { return drv->test(request, flag, st); }

int real_cancel(rh_t request) { return drv->cancel(request); }

int real_probe(int from, int tag, rh_t comm, int *flag, rh_t *message, nx_status *st)
{
	return drv->improbe(from, tag, comm, flag, message, st);
}

int real_take(char *buf, int n, int type, rh_t *message, nx_status *st)
{
	return drv->mrecv(buf, n, drv->type[type], message, st);
}

/* -- collective operations ------------------------------------------------------------------------------- */

#define EITHER(name, ...) (request ? drv->i##name(__VA_ARGS__, request) : drv->name(__VA_ARGS__))

static int collective(const struct real_collective *c, rh_t *request)
{
	rh_t t = drv->type[c->type], op = drv->op[c->op], comm = c->comm;
	const void *send = c->send ? c->send : NX_IN_PLACE;
	switch ((enum real_kind)c->kind) {
	case REAL_BARRIER: return EITHER(barrier, comm);
	case REAL_BCAST: return EITHER(bcast, c->recv, c->recvcount, t, c->root, comm);
	case REAL_GATHER: return EITHER(gather, send, c->sendcount, t, c->recv, c->recvcount, t, c->root, comm);
	case REAL_GATHERV:
		return EITHER(gatherv, send, c->sendcount, t, c->recv, c->recvcounts, c->recvdispls, t, c->root, comm);
	case REAL_SCATTER: return EITHER(scatter, send, c->sendcount, t, c->recv, c->recvcount, t, c->root, comm);
	case REAL_SCATTERV:
		return EITHER(scatterv, send, c->sendcounts, c->senddispls, t, c->recv, c->recvcount, t, c->root, comm);
	case REAL_ALLGATHER: return EITHER(allgather, send, c->sendcount, t, c->recv, c->recvcount, t, comm);
	case REAL_ALLGATHERV:
		return EITHER(allgatherv, send, c->sendcount, t, c->recv, c->recvcounts, c->recvdispls, t, comm);
	case REAL_ALLTOALL: return EITHER(alltoall, send, c->sendcount, t, c->recv, c->recvcount, t, comm);
	case REAL_ALLTOALLV:
		return EITHER(alltoallv, send, c->sendcounts, c->senddispls, t, c->recv, c->recvcounts,
			      c->recvdispls, t, comm);
	case REAL_REDUCE: return EITHER(reduce, send, c->recv, c->recvcount, t, op, c->root, comm);
	case REAL_ALLREDUCE: return EITHER(allreduce, send, c->recv, c->recvcount, t, op, comm);
	case REAL_REDUCE_SCATTER_BLOCK: return EITHER(reduce_scatter_block, send, c->recv, c->recvcount, t, op, comm);
	case REAL_SCAN: return EITHER(scan, send, c->recv, c->recvcount, t, op, comm);
	case REAL_EXSCAN: return EITHER(exscan, send, c->recv, c->recvcount, t, op, comm);
	}
	return NX_ERR_UNSUPPORTED_OPERATION;
}

int real_collective(const struct real_collective *c, rh_t *request)
{
	rh_t own;
	if (request || !crowded) return collective(c, request);
	int rc = collective(c, &own);
	return rc ? rc : real_finish(&own, NULL);
}

int real_equal(int kind, const char *send, int sendcount, char *recv, int recvcount, int type, int op, int root,
	       rh_t comm)
{
	struct real_collective c = { .send = send, .recv = recv, .comm = comm, .kind = kind, .sendcount = sendcount,
				     .recvcount = recvcount, .type = type, .op = op, .root = root };
	return real_collective(&c, NULL);
}

int real_allreduce(const char *send, char *recv, int n, int type, int op, rh_t comm)
{
	if (crowded) return real_equal(REAL_ALLREDUCE, send, n, recv, n, type, op, 0, comm);
	return drv->allreduce(send, recv, n, drv->type[type], drv->op[op], comm);
}

/* -- communicators --------------------------------------------------------------------------------------- */

int real_comm_rank(rh_t comm, int *rank) { return drv->comm_rank(comm, rank); }
int real_comm_size(rh_t comm, int *size) { return drv->comm_size(comm, size); }
int real_comm_dup(rh_t comm, rh_t *out) { return drv->comm_dup(comm, out); }
int real_comm_free(rh_t *comm) { return drv->comm_free(comm); }
int real_is_initialized(int *flag) { return drv->initialized(flag); }
int real_dims(int ranks, int n, int *dims) { return drv->dims_create(ranks, n, dims); }

int real_comm_split(rh_t comm, int color, int key, rh_t *out)
{
	return drv->comm_split(comm, color < 0 ? NX_UNDEFINED : color, key, out);
}

int real_comm_split_shared(rh_t comm, int key, rh_t *out)
{
	return drv->comm_split_type(comm, NX_COMM_TYPE_SHARED, key, drv->info_null, out);
}

int real_comm_create(rh_t comm, const int *ranks, int n, int tag, rh_t *out)
{
	rh_t all, group = drv->group_null;
	int rc = drv->comm_group(comm, &all);
	if (rc) return rc;
	rc = drv->group_incl(all, n, ranks, &group);
	if (!rc)
		rc = tag < 0 ? drv->comm_create(comm, group, out) : drv->comm_create_group(comm, group, tag, out);
	if (group != drv->group_null && group != drv->group_empty) drv->group_free(&group);
	drv->group_free(&all);
	return rc;
}

int real_comm_cart(rh_t comm, const int *dims, const int *periods, int n, int reorder, rh_t *out)
{
	return drv->cart_create(comm, n, dims, periods, reorder, out);
}

int real_comm_world_ranks(rh_t comm, const int *ranks, int n, int *world)
{
	rh_t from, to;
	int rc = drv->comm_group(comm, &from);
	if (rc) return rc;
	if (!(rc = drv->comm_group(real_base(), &to))) {
		rc = drv->group_translate_ranks(from, n, ranks, to, world);
		drv->group_free(&to);
	}
	drv->group_free(&from);
	return rc;
}

/* MPICH's handles are the numbers that Fortran knows; Open MPI's are converted by two functions. */
int real_comm_fortran(rh_t comm, int *handle)
{
	int (*c2f)(void *) = NULL;
	void *f = strcmp(drv->name, "openmpi") == 0 ? dlsym(RTLD_DEFAULT, "PMPI_Comm_c2f") : NULL;
	if (f) memcpy(&c2f, &f, sizeof f);
	*handle = c2f ? c2f((void *)(uintptr_t)comm) : (int)comm;
	return 0;
}

int real_fortran_comm(int handle, rh_t *comm)
{
	void *(*f2c)(int) = NULL;
	void *f = strcmp(drv->name, "openmpi") == 0 ? dlsym(RTLD_DEFAULT, "PMPI_Comm_f2c") : NULL;
	if (f) memcpy(&f2c, &f, sizeof f);
	*comm = f2c ? (rh_t)(uintptr_t)f2c(handle) : (rh_t)(uintptr_t)(intptr_t)handle;
	return *comm == drv->comm_null || *comm == 0 ? NX_ERR_COMM : 0;
}
