/* test_doc: every blocking collective, with its v and w variants, IN_PLACE, user-defined operations and MAXLOC, on
 * many communicators that overlap: duplicates, reversed, halves, neighbours, all but one, self.
 *
 * What a rank contributes follows from (seed, iteration, communicator, its rank in it, index), so each rank knows
 * every result without asking and compares it. Which operation runs follows from (seed, iteration, communicator). */
#include "app.h"

enum { MAXCOMMS = 16, COUNT = 48, MOD = 1000003 };

struct comm { MPI_Comm comm; int rank, size; uint64_t id; };

struct round {
	struct app *a;
	const struct comm *c;
	uint64_t key;            /* of this iteration on this communicator */
	int n;                   /* elements per rank */
	int root, in_place;
	uint64_t *in, *out;      /* size * COUNT elements each */
	uint64_t sum;
};

/* Element i that rank r contributes (small, so that sums of 64 of them are exact everywhere). */
static uint64_t value(const struct round *x, int r, int i)
{
	return mix3(x->key, (uint64_t)r, (uint64_t)i) % MOD;
}

/* Elements that rank r sends in the v variants: 0..COUNT. */
static int vcount(const struct round *x, int r) { return (int)(mix3(x->key, 99, (uint64_t)r) % (COUNT + 1)); }
/* Elements that rank r sends to rank s in Alltoallv and w. */
static int pcount(const struct round *x, int r, int s)
{
	return (int)(mix4(x->key, 98, (uint64_t)r, (uint64_t)s) % (COUNT + 1));
}

static void expect(struct round *x, const char *what, int r, int i, uint64_t found, uint64_t want)
{
	CHECK(x->a, found == want, "%s on communicator %d of %d ranks: from rank %d element %d: %" PRIu64 ", want %" PRIu64,
	      what, (int)x->c->id, x->c->size, r, i, found, want);
	x->sum = mix2(x->sum, found);
}

static void contribute(struct round *x, uint64_t *to, int n)
{
	for (int i = 0; i < n; i++)
		to[i] = value(x, x->c->rank, i);
}

/* -- rooted ------------------------------------------------------------------------------------------------------ */

static void do_bcast(struct round *x)
{
	if (x->c->rank == x->root)
		contribute(x, x->out, x->n);
	MPI_Bcast(x->out, x->n, MPI_UINT64_T, x->root, x->c->comm);
	for (int i = 0; i < x->n; i++)
		expect(x, "Bcast", x->root, i, x->out[i], value(x, x->root, i));
}

static void do_gather(struct round *x)
{
	int at_root = x->c->rank == x->root;

	contribute(x, x->in, x->n);
	if (at_root && x->in_place) {
		contribute(x, x->out + x->root * x->n, x->n);
		MPI_Gather(MPI_IN_PLACE, 0, MPI_UINT64_T, x->out, x->n, MPI_UINT64_T, x->root, x->c->comm);
	} else
		MPI_Gather(x->in, x->n, MPI_UINT64_T, x->out, x->n, MPI_UINT64_T, x->root, x->c->comm);
	for (int r = 0; at_root && r < x->c->size; r++)
		for (int i = 0; i < x->n; i++)
			expect(x, "Gather", r, i, x->out[r * x->n + i], value(x, r, i));
}

static void do_gatherv(struct round *x)
{
	int counts[64], displs[64];

	for (int r = 0; r < x->c->size; r++)
		counts[r] = vcount(x, r), displs[r] = (x->c->size - 1 - r) * COUNT;
	contribute(x, x->in, COUNT);
	MPI_Gatherv(x->in, counts[x->c->rank], MPI_UINT64_T, x->out, counts, displs, MPI_UINT64_T, x->root, x->c->comm);
	for (int r = 0; x->c->rank == x->root && r < x->c->size; r++)
		for (int i = 0; i < counts[r]; i++)
			expect(x, "Gatherv", r, i, x->out[displs[r] + i], value(x, r, i));
}

static void do_scatter(struct round *x)
{
	int all = x->c->size * x->n;

	for (int i = 0; x->c->rank == x->root && i < all; i++)
		x->in[i] = value(x, x->root, i);
	MPI_Scatter(x->in, x->n, MPI_UINT64_T, x->out, x->n, MPI_UINT64_T, x->root, x->c->comm);
	for (int i = 0; i < x->n; i++)
		expect(x, "Scatter", x->root, i, x->out[i], value(x, x->root, x->c->rank * x->n + i));
}

static void do_scatterv(struct round *x)
{
	int counts[64], displs[64], me = x->c->rank;

	for (int r = 0; r < x->c->size; r++)
		counts[r] = vcount(x, r), displs[r] = r * COUNT;
	for (int i = 0; me == x->root && i < x->c->size * COUNT; i++)
		x->in[i] = value(x, x->root, i);
	MPI_Scatterv(x->in, counts, displs, MPI_UINT64_T, x->out, counts[me], MPI_UINT64_T, x->root, x->c->comm);
	for (int i = 0; i < counts[me]; i++)
		expect(x, "Scatterv", x->root, i, x->out[i], value(x, x->root, displs[me] + i));
}

/* -- all to all ---------------------------------------------------------------------------------------------------- */

static void do_allgather(struct round *x)
{
	contribute(x, x->in, x->n);
	if (x->in_place) {
		contribute(x, x->out + x->c->rank * x->n, x->n);
		MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, x->out, x->n, MPI_UINT64_T, x->c->comm);
	} else
		MPI_Allgather(x->in, x->n, MPI_UINT64_T, x->out, x->n, MPI_UINT64_T, x->c->comm);
	for (int r = 0; r < x->c->size; r++)
		for (int i = 0; i < x->n; i++)
			expect(x, "Allgather", r, i, x->out[r * x->n + i], value(x, r, i));
}

static void do_allgatherv(struct round *x)
{
	int counts[64], displs[64];

	for (int r = 0; r < x->c->size; r++)
		counts[r] = vcount(x, r), displs[r] = r * COUNT;
	contribute(x, x->in, COUNT);
	MPI_Allgatherv(x->in, counts[x->c->rank], MPI_UINT64_T, x->out, counts, displs, MPI_UINT64_T, x->c->comm);
	for (int r = 0; r < x->c->size; r++)
		for (int i = 0; i < counts[r]; i++)
			expect(x, "Allgatherv", r, i, x->out[displs[r] + i], value(x, r, i));
}

static void do_alltoall(struct round *x)
{
	int all = x->c->size * x->n;

	contribute(x, x->in_place ? x->out : x->in, all);
	if (x->in_place)
		MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, x->out, x->n, MPI_UINT64_T, x->c->comm);
	else
		MPI_Alltoall(x->in, x->n, MPI_UINT64_T, x->out, x->n, MPI_UINT64_T, x->c->comm);
	for (int r = 0; r < x->c->size; r++)
		for (int i = 0; i < x->n; i++)
			expect(x, "Alltoall", r, i, x->out[r * x->n + i], value(x, r, x->c->rank * x->n + i));
}

static void do_alltoallv(struct round *x)
{
	int sc[64], sd[64], rc[64], rd[64], me = x->c->rank;

	for (int r = 0; r < x->c->size; r++) {
		sc[r] = pcount(x, me, r), sd[r] = r * COUNT;
		rc[r] = pcount(x, r, me), rd[r] = (x->c->size - 1 - r) * COUNT;
	}
	contribute(x, x->in, x->c->size * COUNT);
	MPI_Alltoallv(x->in, sc, sd, MPI_UINT64_T, x->out, rc, rd, MPI_UINT64_T, x->c->comm);
	for (int r = 0; r < x->c->size; r++)
		for (int i = 0; i < rc[r]; i++)
			expect(x, "Alltoallv", r, i, x->out[rd[r] + i], value(x, r, me * COUNT + i));
}

/* Rank r sends to rank s as every second element; s receives them packed. */
static void do_alltoallw(struct round *x)
{
	int sc[64], sd[64], rc[64], rd[64], me = x->c->rank;
	MPI_Datatype st[64], rt[64], second, resized;

	MPI_Type_vector(1, 1, 2, MPI_UINT64_T, &second);
	MPI_Type_create_resized(second, 0, 16, &resized);
	MPI_Type_commit(&resized);
	for (int r = 0; r < x->c->size; r++) {
		sc[r] = pcount(x, me, r) / 2, sd[r] = r * COUNT * 8, st[r] = resized;
		rc[r] = pcount(x, r, me) / 2, rd[r] = r * COUNT * 8, rt[r] = MPI_UINT64_T;
	}
	contribute(x, x->in, x->c->size * COUNT);
	MPI_Alltoallw(x->in, sc, sd, st, x->out, rc, rd, rt, x->c->comm);
	for (int r = 0; r < x->c->size; r++)
		for (int i = 0; i < rc[r]; i++)
			expect(x, "Alltoallw", r, i, x->out[r * COUNT + i], value(x, r, me * COUNT + 2 * i));
	MPI_Type_free(&second);
	MPI_Type_free(&resized);
}

/* -- reductions ------------------------------------------------------------------------------------------------------ */

/* A user-defined, associative, non-commutative operation: composition of maps v -> (a v + b) mod MOD. */
static void compose(void *invec, void *inoutvec, int *len, MPI_Datatype *type)
{
	uint64_t *f = (uint64_t *)invec, *g = (uint64_t *)inoutvec;

	(void)type;
	for (int i = 0; i < *len; i++, f += 2, g += 2) {
		uint64_t a = f[0] * g[0] % MOD, b = (g[0] * f[1] + g[1]) % MOD;
		g[0] = a, g[1] = b;
	}
}

/* op of ranks first..last on element i, computed here. */
static uint64_t reduced(const struct round *x, MPI_Op op, int first, int last, int i)
{
	uint64_t v = value(x, first, i);

	for (int r = first + 1; r <= last; r++) {
		uint64_t w = value(x, r, i);
		if (op == MPI_SUM)
			v += w;
		else if (op == MPI_MAX)
			v = v > w ? v : w;
		else if (op == MPI_MIN)
			v = v < w ? v : w;
		else
			v ^= w;
	}
	return v;
}

static MPI_Op builtin(const struct round *x)
{
	MPI_Op ops[4] = { MPI_SUM, MPI_MAX, MPI_MIN, MPI_BXOR };

	return ops[mix2(x->key, 5) % 4];
}

static void do_reduce(struct round *x)
{
	MPI_Op op = builtin(x);
	int at_root = x->c->rank == x->root;

	contribute(x, x->in, x->n);
	if (at_root && x->in_place) {
		contribute(x, x->out, x->n);
		MPI_Reduce(MPI_IN_PLACE, x->out, x->n, MPI_UINT64_T, op, x->root, x->c->comm);
	} else
		MPI_Reduce(x->in, x->out, x->n, MPI_UINT64_T, op, x->root, x->c->comm);
	for (int i = 0; at_root && i < x->n; i++)
		expect(x, "Reduce", -1, i, x->out[i], reduced(x, op, 0, x->c->size - 1, i));
}

static void do_allreduce(struct round *x)
{
	MPI_Op op = builtin(x);

	contribute(x, x->in_place ? x->out : x->in, x->n);
	MPI_Allreduce(x->in_place ? MPI_IN_PLACE : x->in, x->out, x->n, MPI_UINT64_T, op, x->c->comm);
	for (int i = 0; i < x->n; i++)
		expect(x, "Allreduce", -1, i, x->out[i], reduced(x, op, 0, x->c->size - 1, i));
}

static void do_reduce_scatter(struct round *x)
{
	MPI_Op op = builtin(x);
	int counts[64], at = 0, all = 0;

	for (int r = 0; r < x->c->size; r++) {
		counts[r] = vcount(x, r);
		at += r < x->c->rank ? counts[r] : 0;
		all += counts[r];
	}
	contribute(x, x->in, all);
	MPI_Reduce_scatter(x->in, x->out, counts, MPI_UINT64_T, op, x->c->comm);
	for (int i = 0; i < counts[x->c->rank]; i++)
		expect(x, "Reduce_scatter", -1, i, x->out[i], reduced(x, op, 0, x->c->size - 1, at + i));
}

static void do_reduce_scatter_block(struct round *x)
{
	MPI_Op op = builtin(x);

	contribute(x, x->in, x->n * x->c->size);
	MPI_Reduce_scatter_block(x->in, x->out, x->n, MPI_UINT64_T, op, x->c->comm);
	for (int i = 0; i < x->n; i++)
		expect(x, "Reduce_scatter_block", -1, i, x->out[i],
		       reduced(x, op, 0, x->c->size - 1, x->c->rank * x->n + i));
}

static void do_scan(struct round *x)
{
	MPI_Op op = builtin(x);

	contribute(x, x->in_place ? x->out : x->in, x->n);
	MPI_Scan(x->in_place ? MPI_IN_PLACE : x->in, x->out, x->n, MPI_UINT64_T, op, x->c->comm);
	for (int i = 0; i < x->n; i++)
		expect(x, "Scan", -1, i, x->out[i], reduced(x, op, 0, x->c->rank, i));
}

static void do_exscan(struct round *x)
{
	MPI_Op op = builtin(x);

	contribute(x, x->in, x->n);
	MPI_Exscan(x->in, x->out, x->n, MPI_UINT64_T, op, x->c->comm);
	for (int i = 0; x->c->rank > 0 && i < x->n; i++)
		expect(x, "Exscan", -1, i, x->out[i], reduced(x, op, 0, x->c->rank - 1, i));
}

static void do_user_op(struct round *x)
{
	uint64_t want[2 * COUNT], f[2 * COUNT];
	int pairs = x->n / 2, last = x->in_place ? x->c->rank : x->c->size - 1;
	MPI_Datatype pair;
	MPI_Op op;

	MPI_Type_contiguous(2, MPI_UINT64_T, &pair);
	MPI_Type_commit(&pair);
	MPI_Op_create(compose, 0, &op);
	contribute(x, x->in, 2 * pairs);
	if (x->in_place)
		MPI_Scan(x->in, x->out, pairs, pair, op, x->c->comm);
	else
		MPI_Allreduce(x->in, x->out, pairs, pair, op, x->c->comm);
	for (int i = 0; i < 2 * pairs; i++)
		want[i] = value(x, last, i);
	for (int r = last - 1; r >= 0; r--) {
		for (int i = 0; i < 2 * pairs; i++)
			f[i] = value(x, r, i);
		compose(f, want, &pairs, &pair);
	}
	for (int i = 0; i < 2 * pairs; i++)
		expect(x, "user operation", -1, i, x->out[i], want[i]);
	MPI_Op_free(&op);
	MPI_Type_free(&pair);
}

static void do_maxloc(struct round *x)
{
	struct { double v; int r; } in, out;
	int best = 0;

	in.v = (double)value(x, x->c->rank, 0), in.r = x->c->rank;
	MPI_Allreduce(&in, &out, 1, MPI_DOUBLE_INT, MPI_MAXLOC, x->c->comm);
	for (int r = 1; r < x->c->size; r++)
		if (value(x, r, 0) > value(x, best, 0))
			best = r;
	expect(x, "MAXLOC rank", -1, 0, (uint64_t)out.r, (uint64_t)best);
	expect(x, "MAXLOC value", -1, 0, (uint64_t)out.v, value(x, best, 0));
}

/* Exact floating point: sums of small integers. */
static void do_double_sum(struct round *x)
{
	double in[COUNT], out[COUNT];

	for (int i = 0; i < x->n; i++)
		in[i] = (double)value(x, x->c->rank, i);
	MPI_Allreduce(in, out, x->n, MPI_DOUBLE, MPI_SUM, x->c->comm);
	for (int i = 0; i < x->n; i++)
		expect(x, "double sum", -1, i, (uint64_t)out[i], reduced(x, MPI_SUM, 0, x->c->size - 1, i));
}

static void do_barrier(struct round *x) { MPI_Barrier(x->c->comm); }

static void (*const operations[])(struct round *) = {
	do_barrier, do_bcast, do_gather, do_gatherv, do_scatter, do_scatterv, do_allgather, do_allgatherv, do_alltoall,
	do_alltoallv, do_alltoallw, do_reduce, do_allreduce, do_reduce_scatter, do_reduce_scatter_block, do_scan,
	do_exscan, do_user_op, do_maxloc, do_double_sum,
};
enum { NOPERATIONS = sizeof operations / sizeof operations[0] };

/* -- communicators ------------------------------------------------------------------------------------------------- */

static int add(struct comm *c, int n, MPI_Comm comm, int id)
{
	if (comm == MPI_COMM_NULL)
		return n;
	c[n].comm = comm, c[n].id = (uint64_t)id;
	MPI_Comm_rank(comm, &c[n].rank);
	MPI_Comm_size(comm, &c[n].size);
	return n + 1;
}

static int open_comms(const struct app *a, struct comm *c)
{
	int n = 0, r = a->rank;
	MPI_Comm m;

	n = add(c, n, MPI_COMM_WORLD, 0);
	MPI_Comm_dup(MPI_COMM_WORLD, &m), n = add(c, n, m, 1);
	MPI_Comm_split(MPI_COMM_WORLD, 0, -r, &m), n = add(c, n, m, 2);
	MPI_Comm_split(MPI_COMM_WORLD, r % 2, r, &m), n = add(c, n, m, 3 + 10 * (r % 2));
	MPI_Comm_split(MPI_COMM_WORLD, r / 2, -r, &m), n = add(c, n, m, 4 + 10 * (r / 2));
	MPI_Comm_split(MPI_COMM_WORLD, (r + 1) / 2, r, &m), n = add(c, n, m, 5 + 10 * ((r + 1) / 2));
	MPI_Comm_split(MPI_COMM_WORLD, r == 0 ? MPI_UNDEFINED : 1, r, &m), n = add(c, n, m, 6);
	MPI_Comm_split(MPI_COMM_WORLD, r == a->size - 1 ? MPI_UNDEFINED : 1, r, &m), n = add(c, n, m, 7);
	MPI_Comm_dup(MPI_COMM_SELF, &m), n = add(c, n, m, 8 + 10 * r);
	return n;
}

static void one(struct app *a, const struct comm *c, struct round *x, long iter)
{
	x->a = a, x->c = c;
	x->key = mix3(a->seed, c->id, (uint64_t)iter);
	x->n = (int)(mix2(x->key, 1) % (COUNT + 1));
	x->root = (int)(mix2(x->key, 2) % (uint64_t)c->size);
	x->in_place = (int)(mix2(x->key, 3) % 2);
	memset(x->out, 0xee, sizeof(uint64_t) * COUNT * (size_t)c->size);
	operations[mix2(x->key, 4) % NOPERATIONS](x);
}

int main(int argc, char **argv)
{
	struct comm comms[MAXCOMMS];
	struct round x = { 0 };
	struct app a;
	int n;

	app_begin(&a, argc, argv);
	CHECK(&a, a.size <= 64, "%d ranks, at most 64", a.size);
	n = open_comms(&a, comms);
	x.in = (uint64_t *)app_alloc(&a, sizeof(uint64_t) * COUNT * (size_t)a.size);
	x.out = (uint64_t *)app_alloc(&a, sizeof(uint64_t) * COUNT * (size_t)a.size);
	for (long iter = 0; iter < a.iters; iter++) {
		app_progress(&a, iter);
		x.sum = 0;
		for (int i = 0; i < n; i++)
			one(&a, &comms[i], &x, iter);
		app_result(&a, iter, "coll", x.sum);
		app_compute(&a, (long)(mix3(a.seed, (uint64_t)iter, (uint64_t)a.rank) % (uint64_t)(2 * a.pace + 1)));
	}
	for (int i = 1; i < n; i++)
		MPI_Comm_free(&comms[i].comm);
	free(x.in), free(x.out);
	return app_end(&a);
}
