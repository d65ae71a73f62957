/* test_doc: all neighbourhood collectives, blocking and non-blocking, on Cartesian, graph and distributed graph
 * communicators and a duplicate, among them processes without neighbours and MPI_PROC_NULL as a neighbour; several pending
 * at once, completed by each completion call.
 *
 * Rules: no process is twice a neighbour of another; what s sends to d tells s, d and the iteration, so that another order
 * of the neighbours after a restart is seen. What is not received stays as it was. */
#include "app.h"

enum { KINDS = 6, MOST = 8, SLOT = 16, OPS = 5 };

struct place {
	MPI_Comm comm;
	int in, out, from[2 * MOST], to[2 * MOST];
};

/* One operation: SLOT elements for each neighbour. */
struct work {
	uint64_t send[2 * MOST * SLOT], recv[2 * MOST * SLOT];
	int scount[2 * MOST], rcount[2 * MOST], sdispl[2 * MOST], rdispl[2 * MOST];
	MPI_Aint sbyte[2 * MOST], rbyte[2 * MOST];
	MPI_Datatype stype[2 * MOST], rtype[2 * MOST];
};

static MPI_Datatype pairs;
static const uint64_t untouched = 0x5555aaaa5555aaaa;

static uint64_t element(const struct app *a, long iter, int from, int to, int i)
{
	return mix4(a->seed + (uint64_t)i, (uint64_t)iter, (uint64_t)from + 3, (uint64_t)to + 5) >> 8;
}

/* The operation for a place. Where processes have more neighbours to send to than to receive from, MPICH 4.0.2's
 * Neighbor_alltoallw loses data by itself. */
static int choice(int op, int kind)
{
	op = (op + kind) % OPS;
	return op == 4 && (kind == 3 || kind == 5) ? 3 : op;
}

/* How many elements (or pairs of them) travel between two processes with the v and w variants. */
static int amount(long iter, int from, int to) { return (int)((iter + 3L * from + to) % 7) + 1; }

static int per_gather(int op) { return op < 2; }

/* -- places ------------------------------------------------------------------------------------------------------------ */

static void look_cart(struct place *p, int dims)
{
	p->in = p->out = 2 * dims;
	for (int d = 0; d < dims; d++)
		MPI_Cart_shift(p->comm, d, 1, &p->from[2 * d], &p->from[2 * d + 1]);
	memcpy(p->to, p->from, sizeof p->to);
}

static void look_graph(struct place *p, int rank)
{
	MPI_Graph_neighbors_count(p->comm, rank, &p->in);
	MPI_Graph_neighbors(p->comm, rank, 2 * MOST, p->from);
	p->out = p->in;
	memcpy(p->to, p->from, sizeof p->to);
}

static void look_dist(struct place *p)
{
	int weighted, w[2 * MOST];

	MPI_Dist_graph_neighbors_count(p->comm, &p->in, &p->out, &weighted);
	MPI_Dist_graph_neighbors(p->comm, p->in, p->from, w, p->out, p->to, w);
}

/* A path: process i knows i-1 and i+1. */
static void make_graph(const struct app *a, struct place *p)
{
	int index[MOST], edges[2 * MOST], n = 0;

	for (int i = 0; i < a->size; i++) {
		if (i + 1 < a->size) edges[n++] = i + 1;
		if (i > 0) edges[n++] = i - 1;
		index[i] = n;
	}
	MPI_Graph_create(MPI_COMM_WORLD, a->size, index, edges, 0, &p->comm);
	look_graph(p, a->rank);
}

/* Each sends to the two after it and to itself; the last has no neighbours at all. */
static void make_adjacent(const struct app *a, struct place *p)
{
	int from[3], to[3], in = 0, out = 0, n = a->size - 1, w[3] = { 7, 8, 9 };

	for (int k = 2; k >= 0 && a->rank < n; k--) {
		if (a->rank + k < n) to[out++] = a->rank + k;
		if (a->rank - k >= 0) from[in++] = a->rank - k;
	}
	MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in, from, w, out, to, w, MPI_INFO_NULL, 0, &p->comm);
	look_dist(p);
}

/* A star that the last process describes alone: 0 sends to all others, which answer. */
static void make_dist(const struct app *a, struct place *p)
{
	int from[MOST], degree[MOST], to[2 * MOST], weight[2 * MOST] = { 0 }, n = a->rank == a->size - 1 ? a->size : 0, k = 0;

	for (int i = 0; i < n; i++) {
		from[i] = i;
		degree[i] = i ? 1 : n - 1;
		if (i) to[k++] = 0;
		else for (int j = n - 1; j > 0; j--) to[k++] = j;
	}
	MPI_Dist_graph_create(MPI_COMM_WORLD, n, from, degree, to, weight, MPI_INFO_NULL, 0, &p->comm);
	look_dist(p);
}

static void make(const struct app *a, struct place *p)
{
	int dims[2] = { 0, 0 }, open[2] = { 0, 0 }, ring = a->size > 2;

	MPI_Dims_create(a->size, 2, dims);
	MPI_Cart_create(MPI_COMM_WORLD, 2, dims, open, 0, &p[0].comm);
	look_cart(&p[0], 2);
	MPI_Cart_create(MPI_COMM_WORLD, 1, &a->size, &ring, 0, &p[1].comm);
	look_cart(&p[1], 1);
	make_graph(a, &p[2]);
	make_adjacent(a, &p[3]);
	make_dist(a, &p[4]);
	MPI_Comm_dup(p[3].comm, &p[5].comm);
	look_dist(&p[5]);
}

/* -- operations -------------------------------------------------------------------------------------------------------- */

/* Elements that travel; with w half of the pairs of processes use a type of two. */
static int elements(long iter, int op, int from, int to)
{
	if (op == 0 || op == 2) return 3;
	if (op == 1) return amount(iter, from, 0);
	return op == 4 && (from + to) % 2 ? 2 * amount(iter, from, to) : amount(iter, from, to);
}

static void fill_side(long iter, int op, int n, const int *peer, int me, int out, struct work *w)
{
	for (int i = 0; i < n; i++) {
		int from = out ? me : peer[i], to = out ? peer[i] : me, wide = op == 4 && (from + to) % 2;
		int count = peer[i] == MPI_PROC_NULL ? 0 : elements(iter, op, from, to) / (wide ? 2 : 1);
		(out ? w->scount : w->rcount)[i] = count;
		(out ? w->sdispl : w->rdispl)[i] = i * SLOT;
		(out ? w->sbyte : w->rbyte)[i] = (MPI_Aint)(i * SLOT * sizeof(uint64_t));
		(out ? w->stype : w->rtype)[i] = wide ? pairs : MPI_UINT64_T;
	}
}

static void prepare(const struct app *a, long iter, int op, const struct place *p, struct work *w)
{
	int width = op == 0 || op == 2 ? 3 : SLOT;

	fill_side(iter, op, p->in, p->from, a->rank, 0, w);
	fill_side(iter, op, p->out, p->to, a->rank, 1, w);
	for (int i = 0; i < 2 * MOST * SLOT; i++) w->recv[i] = untouched;
	if (per_gather(op)) {
		for (int i = 0; i < SLOT; i++) w->send[i] = element(a, iter, a->rank, 0, i);
		w->scount[0] = elements(iter, op, a->rank, 0);
		return;
	}
	for (int n = 0; n < p->out; n++)
		for (int i = 0; i < width; i++) w->send[n * width + i] = element(a, iter, a->rank, p->to[n], i);
}

static void call(int op, struct work *w, MPI_Comm c)
{
	switch (op) {
	case 0: MPI_Neighbor_allgather(w->send, 3, MPI_UINT64_T, w->recv, 3, MPI_UINT64_T, c); break;
	case 1: MPI_Neighbor_allgatherv(w->send, w->scount[0], MPI_UINT64_T, w->recv, w->rcount, w->rdispl, MPI_UINT64_T, c); break;
	case 2: MPI_Neighbor_alltoall(w->send, 3, MPI_UINT64_T, w->recv, 3, MPI_UINT64_T, c); break;
	case 3: MPI_Neighbor_alltoallv(w->send, w->scount, w->sdispl, MPI_UINT64_T, w->recv, w->rcount, w->rdispl, MPI_UINT64_T, c); break;
	default: MPI_Neighbor_alltoallw(w->send, w->scount, w->sbyte, w->stype, w->recv, w->rcount, w->rbyte, w->rtype, c);
	}
}

static void start(int op, struct work *w, MPI_Comm c, MPI_Request *q)
{
	switch (op) {
	case 0: MPI_Ineighbor_allgather(w->send, 3, MPI_UINT64_T, w->recv, 3, MPI_UINT64_T, c, q); break;
	case 1: MPI_Ineighbor_allgatherv(w->send, w->scount[0], MPI_UINT64_T, w->recv, w->rcount, w->rdispl, MPI_UINT64_T, c, q); break;
	case 2: MPI_Ineighbor_alltoall(w->send, 3, MPI_UINT64_T, w->recv, 3, MPI_UINT64_T, c, q); break;
	case 3: MPI_Ineighbor_alltoallv(w->send, w->scount, w->sdispl, MPI_UINT64_T, w->recv, w->rcount, w->rdispl, MPI_UINT64_T, c, q); break;
	default: MPI_Ineighbor_alltoallw(w->send, w->scount, w->sbyte, w->stype, w->recv, w->rcount, w->rbyte, w->rtype, c, q);
	}
}

static uint64_t verify(struct app *a, long iter, int op, const struct place *p, const struct work *w, int kind)
{
	int width = op == 0 || op == 2 ? 3 : SLOT;
	uint64_t sum = (uint64_t)op;

	for (int n = 0; n < p->in; n++) {
		int from = p->from[n], count = from == MPI_PROC_NULL ? 0 : elements(iter, op, from, per_gather(op) ? 0 : a->rank);
		for (int i = 0; i < width; i++) {
			uint64_t want = i < count ? element(a, iter, from, per_gather(op) ? 0 : a->rank, i) : untouched;
			CHECK(a, w->recv[n * width + i] == want, "operation %d on %d: element %d from neighbour %d (%d)", op, kind, i, n, from);
			if (count) sum += mix3(w->recv[n * width + i], (uint64_t)from + 7, (uint64_t)i);  /* in any order of neighbours */
		}
	}
	return sum;
}

static void complete(MPI_Request *q, int n, unsigned how)
{
	int flag, index, some[KINDS];

	switch (how % 6) {
	case 0: MPI_Waitall(n, q, MPI_STATUSES_IGNORE); break;
	case 1:
		for (int i = n - 1; i >= 0; i--) MPI_Wait(&q[i], MPI_STATUS_IGNORE);
		break;
	case 2:
		for (flag = 0; !flag; ) MPI_Testall(n, q, &flag, MPI_STATUSES_IGNORE);
		break;
	case 3:
		for (index = 0; index != MPI_UNDEFINED; ) MPI_Waitany(n, q, &index, MPI_STATUS_IGNORE);
		break;
	case 4:
		for (index = 0; index != MPI_UNDEFINED; ) MPI_Waitsome(n, q, &index, some, MPI_STATUSES_IGNORE);
		break;
	default:
		for (int i = 0; i < n; i++)
			for (flag = 0; !flag; ) MPI_Test(&q[i], &flag, MPI_STATUS_IGNORE);
	}
}

/* A communicator without a topology is an error. */
static void mistake(struct app *a)
{
	int class = 0, x = 0, y[2 * MOST];

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Error_class(MPI_Neighbor_allgather(&x, 1, MPI_INT, y, 1, MPI_INT, MPI_COMM_WORLD), &class);
	CHECK(a, class != MPI_SUCCESS, "without a topology: no error");
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv)
{
	static struct place p[KINDS];
	static struct work w[KINDS];
	MPI_Request q[KINDS];
	struct app a;

	app_begin(&a, argc, argv);
	MPI_Type_contiguous(2, MPI_UINT64_T, &pairs);
	MPI_Type_commit(&pairs);
	make(&a, p);
	mistake(&a);
	for (long iter = 0; iter < a.iters; iter++) {
		uint64_t sum = 0;
		int op = (int)(mix3(a.seed, (uint64_t)iter, 4) % OPS), n = 0;
		app_progress(&a, iter);
		for (int k = 0; k < KINDS; k++) {
			prepare(&a, iter, choice(op, k), &p[k], &w[k]);
			if ((iter + k) % 3) start(choice(op, k), &w[k], p[k].comm, &q[n++]);
			else call(choice(op, k), &w[k], p[k].comm);
		}
		app_compute(&a, (long)(mix3(a.seed, (uint64_t)iter, (uint64_t)a.rank) % (uint64_t)(2 * a.pace + 1)));
		complete(q, n, (unsigned)mix3(a.seed, (uint64_t)iter, 9 + (uint64_t)a.rank));
		for (int k = 0; k < KINDS; k++) sum = mix3(sum, verify(&a, iter, choice(op, k), &p[k], &w[k], k), (uint64_t)k);
		app_result(&a, iter, "neighbors", sum);
	}
	for (int k = 0; k < KINDS; k++) MPI_Comm_free(&p[k].comm);
	MPI_Type_free(&pairs);
	return app_end(&a);
}
