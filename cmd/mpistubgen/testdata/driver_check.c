/* driver_check.c: calls a driver over the real MPI library named by the first argument, as one process, and checks
 * what comes back in neutral terms. Prints one line for each thing that is wrong; exits 0 if there is none. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "driver/driver.h"
#include "objects/objects.h"

/* The crossings of the common case, which need the core and the middle, are not called here. */
void core_set_call(unsigned slot, void *fn) { (void)slot, (void)fn; }

const struct nx_driver *drv;

static int wrong;
#define CHECK(what) do { if (!(what)) { printf("line %d: %s\n", __LINE__, #what); wrong++; } } while (0)
#define OK(call) CHECK((call) == 0)

static void point_to_point(rh_t comm)
{
	enum { N = 100 };
	rh_t req[2 * N], one;
	int out[N], in[N], flag = 0, i;
	nx_status st[2 * N], s;
	for (i = 0; i < N; i++) {
		out[i] = i;
		OK(drv->irecv(&in[i], 1, drv->type[NX_TYPE_INT], NX_ANY_SOURCE, NX_ANY_TAG, comm, &req[i]));
	}
	for (i = 0; i < N; i++) OK(drv->isend(&out[i], 1, drv->type[NX_TYPE_INT], 0, i, comm, &req[N + i]));
	while (!flag) OK(drv->testall(2 * N, req, &flag, st));
	for (i = 0; i < N; i++) {
		CHECK(in[i] == i && st[i].source == 0 && st[i].tag == i && st[i].bytes == 4 && !st[i].cancelled);
		CHECK(req[i] == drv->request_null);
	}
	OK(drv->recv(in, 1, drv->type[NX_TYPE_INT], NX_PROC_NULL, NX_ANY_TAG, comm, &s));
	CHECK(s.source == NX_PROC_NULL && s.tag == NX_ANY_TAG && s.bytes == 0);
	OK(drv->send(out, 1, drv->type[NX_TYPE_INT], NX_PROC_NULL, 0, comm));
	OK(drv->isend(out, 8, drv->type[NX_TYPE_INT], 0, 7, comm, &one));
	CHECK(drv->recv(in, 1, drv->type[NX_TYPE_INT], 0, 7, comm, &s) == NX_ERR_TRUNCATE);
	OK(drv->wait(&one, NULL));
	OK(drv->irecv(in, 1, drv->type[NX_TYPE_INT], 0, 9, comm, &one));
	OK(drv->cancel(one));
	OK(drv->wait(&one, &s));
	CHECK(s.cancelled);
	OK(drv->iprobe(NX_ANY_SOURCE, NX_ANY_TAG, comm, &flag, &s));
	CHECK(!flag);
}

static void probe(rh_t comm)
{
	char text[] = "hello", got[8];
	rh_t req, message;
	nx_status s;
	int flag = 0;
	OK(drv->isend(text, 6, drv->type[NX_TYPE_CHAR], 0, 3, comm, &req));
	while (!flag) OK(drv->improbe(NX_ANY_SOURCE, 3, comm, &flag, &message, &s));
	CHECK(s.bytes == 6 && s.source == 0 && s.tag == 3);
	OK(drv->mrecv(got, 8, drv->type[NX_TYPE_CHAR], &message, &s));
	CHECK(!strcmp(got, "hello") && message == drv->message_null);
	OK(drv->wait(&req, NULL));
	OK(drv->improbe(NX_PROC_NULL, 3, comm, &flag, &message, NULL));
	CHECK(flag && message == drv->message_no_proc);
}

static rh_t seen_type;
static void user_op(void *in, void *inout, int *len, void *type)
{
	seen_type = drv->type_from_ptr(type);
	for (int i = 0; i < *len; i++) ((double *)inout)[i] += 2 * ((double *)in)[i];
}

static void collectives(rh_t comm)
{
	double a[2] = { 1, 2 }, b[2] = { 0, 0 };
	int counts[1] = { 2 }, displs[1] = { 0 };
	rh_t types[1] = { drv->type[NX_TYPE_DOUBLE] }, req, op;
	OK(drv->allreduce(a, b, 2, drv->type[NX_TYPE_DOUBLE], drv->op[NX_OP_SUM], comm));
	CHECK(b[1] == 2);
	OK(drv->allreduce(NX_IN_PLACE, b, 2, drv->type[NX_TYPE_DOUBLE], drv->op[NX_OP_MAX], comm));
	CHECK(b[0] == 1);
	OK(drv->alltoallw(a, counts, displs, types, b, counts, displs, types, comm));
	OK(drv->alltoallw(NX_IN_PLACE, NULL, NULL, NULL, b, counts, displs, types, comm));
	OK(drv->ibarrier(comm, &req));
	OK(drv->wait(&req, NULL));
	OK(drv->op_create((void *)user_op, 1, &op));
	OK(drv->reduce_local(a, b, 2, drv->type[NX_TYPE_DOUBLE], op));
	CHECK(b[1] == 6 && seen_type == drv->type[NX_TYPE_DOUBLE]);
	OK(drv->op_free(&op));
}

static void datatypes(void)
{
	int lengths[2] = { 1, 3 }, n, sizes[2] = { 4, 6 }, sub[2] = { 2, 3 }, start[2] = { 1, 1 };
	int distribs[2] = { NX_DISTRIBUTE_BLOCK, NX_DISTRIBUTE_CYCLIC }, dargs[2] = { NX_DISTRIBUTE_DFLT_DARG, 2 }, grid[2] = { 1, 1 };
	nx_aint displs[2] = { 0, 8 }, size, lb, extent;
	rh_t types[2] = { drv->type[NX_TYPE_INT], drv->type[NX_TYPE_DOUBLE] }, t;
	OK(drv->type_create_struct(2, lengths, displs, types, &t));
	OK(drv->type_commit(t));
	OK(drv->type_size_x(t, &size));
	OK(drv->type_get_extent(t, &lb, &extent));
	CHECK(size == 28 && lb == 0 && extent == 32);
	OK(drv->type_free(&t));
	OK(drv->type_create_subarray(2, sizes, sub, start, NX_ORDER_FORTRAN, drv->type[NX_TYPE_INT], &t));
	OK(drv->type_get_true_extent(t, &lb, &extent));
	CHECK(lb == 4 * (1 + 4 * 1));
	OK(drv->type_free(&t));
	OK(drv->type_create_darray(1, 0, 2, sizes, distribs, dargs, grid, NX_ORDER_C, drv->type[NX_TYPE_INT], &t));
	OK(drv->type_size_x(t, &size));
	CHECK(size == 4 * 24);
	OK(drv->type_free(&t));
	for (n = 1; n < NX_TYPE_N; n++) {
		if (!drv->type[n] || drv->type_size_x(drv->type[n], &size) != 0) continue;
		if (size == 0 && nx_type_info[n].class != NX_CLASS_marker) continue;      /* a Fortran type that this build lacks */
		if (size != nx_type_info[n].size) printf("%s: size %ld, table %u\n", nx_type_info[n].name, (long)size, nx_type_info[n].size), wrong++;
		if (nx_type_info[n].class == NX_CLASS_marker) continue;
		OK(drv->type_get_extent(drv->type[n], &lb, &extent));
		if (extent != nx_type_info[n].extent) printf("%s: extent %ld, table %u\n", nx_type_info[n].name, (long)extent, nx_type_info[n].extent), wrong++;
	}
}

static void communicators(void)
{
	int dims[2] = { 1, 1 }, periods[2] = { 1, 0 }, n, result, flag, *tag_ub, degrees[1] = { 1 }, zero[1] = { 0 };
	rh_t c, d, g;
	OK(drv->comm_dup(drv->comm_world, &c));
	OK(drv->comm_compare(c, drv->comm_world, &result));
	CHECK(result == NX_CONGRUENT);
	OK(drv->cart_create(c, 2, dims, periods, 0, &d));
	OK(drv->comm_free(&d));
	CHECK(d == drv->comm_null);
	OK(drv->comm_split(c, NX_UNDEFINED, 0, &d));
	CHECK(d == drv->comm_null);
	OK(drv->comm_split_type(c, NX_COMM_TYPE_SHARED, 0, drv->info_null, &d));
	OK(drv->comm_size(d, &n));
	CHECK(n == 1);
	OK(drv->comm_free(&d));
	OK(drv->dist_graph_create(c, 1, zero, degrees, zero, NX_UNWEIGHTED, drv->info_null, 0, &d));
	OK(drv->comm_free(&d));
	OK(drv->comm_group(c, &g));
	int ranks[2] = { 0, NX_PROC_NULL }, out[2];
	OK(drv->group_translate_ranks(g, 2, ranks, g, out));
	CHECK(out[0] == 0 && out[1] == NX_PROC_NULL);
	OK(drv->group_free(&g));
	OK(drv->comm_get_attr(c, NX_KEYVAL_TAG_UB, (void **)&tag_ub, &flag));
	CHECK(flag && *tag_ub >= 32767);
	OK(drv->comm_set_errhandler(c, drv->errh[NX_ERRH_RETURN]));
	CHECK(drv->send(&n, 1, drv->type[NX_TYPE_INT], 5, 0, c) == NX_ERR_RANK);
	CHECK(drv->send(&n, -1, drv->type[NX_TYPE_INT], 0, 0, c) == NX_ERR_COUNT);
	OK(drv->comm_free(&c));
}

int main(int argc, char **argv)
{
	void *lib = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW | RTLD_GLOBAL);
	if (!lib) return printf("%s\n", dlerror()), 2;
	const char *why = nx_driver_load(lib);
	char text[NX_MAX_LIBRARY_VERSION_STRING];
	int n, provided;
	if (why) return printf("%s\n", why), 2;
	OK(drv->init_thread(NULL, NULL, NX_THREAD_SERIALIZED, &provided));
	CHECK(provided >= NX_THREAD_SINGLE && provided <= NX_THREAD_MULTIPLE && provided % 1024 == 0);
	OK(drv->comm_set_errhandler(drv->comm_world, drv->errh[NX_ERRH_RETURN]));
	OK(drv->comm_set_errhandler(drv->comm_self, drv->errh[NX_ERRH_RETURN]));
	OK(drv->error_string(NX_ERR_TRUNCATE, text, &n));
	CHECK(strcasestr(text, "trunc"));
	point_to_point(drv->comm_world);
	probe(drv->comm_world);
	collectives(drv->comm_world);
	datatypes();
	communicators();
	OK(drv->finalize());
	printf("%s: %d wrong\n", drv->name, wrong);
	return wrong != 0;
}
