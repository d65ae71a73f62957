/* calls.h: every collective, blocking or not, with results that each rank knows without asking.
 *
 * A call is begun (its buffers are filled from its key, and it is made or posted; its derived types and its operation are
 * freed at once), completed by its request if it has one, and ended: every value is compared, and so is what it must not
 * have written. All members of a communicator begin a call with the same kind, key and choices.
 * Rules: as app.h; a call stays where it is from begin to end, for the MPI knows addresses in it. */
#ifndef TEST_CALLS_H
#define TEST_CALLS_H
#include "app.h"

enum { CALL_MOST = 16, CALL_MOD = 1000003 };
/* What a call may be asked for: MPI_IN_PLACE, types with gaps, a user's operation, one that asks its type for the extent. */
enum { CALL_IN_PLACE = 1, CALL_STRIDED = 2, CALL_USER = 4, CALL_TYPED = 8 };
/* What a kind is. */
enum { KIND_IN_PLACE = 1, KIND_REDUCTION = 2, KIND_ROOTED = 4, KIND_NEIGHBOR = 8, KIND_BLOCKING_IN_PLACE = 16, KIND_NO_GAPS = 32, KIND_SHORT_IN_PLACE = 64 };

static const uint64_t call_rest = 0x5555aaaa5555aaaau;

/* A communicator, and whom this rank receives from and sends to in neighbourhood collectives. */
struct place {
	MPI_Comm comm;
	int rank, size, in, out, from[CALL_MOST], to[CALL_MOST];
	int reversed;                   /* for the programs: ranks count from the other end */
	uint64_t id;                    /* for the programs: the same at all its members */
};

struct call;
struct kind {
	const char *name;
	int is;
	void (*make)(struct call *c);
	void (*check)(struct call *c);
};

struct call {
	struct app *a;
	const struct kind *kind;
	const struct place *p;
	MPI_Comm comm;
	uint64_t key;
	int n, root, flags, open;       /* elements of a block; open: non-blocking */
	int me, size, vals, stride;     /* values of an element, and the cells that it takes */
	int loose;                      /* the MPI may write anywhere in out */
	MPI_Datatype type;
	MPI_Op op;
	MPI_Request rq;
	uint64_t *in, *out, in_hash, sum;
	size_t cells;
	uint8_t *seen;
	int sc[CALL_MOST], sd[CALL_MOST], rc[CALL_MOST], rd[CALL_MOST];
	MPI_Aint sa[CALL_MOST], ra[CALL_MOST];
	MPI_Datatype st[CALL_MOST], rt[CALL_MOST];
};

/* Makes the call, or posts it. */
#define CALL(c, name, iname, ...) ((c)->open ? MPI_##iname(__VA_ARGS__, &(c)->rq) : MPI_##name(__VA_ARGS__))

/* -- values ----------------------------------------------------------------------------------------------------------- */

static inline uint64_t call_value(const struct call *c, int r, int i)
{
	return mix3(c->key, (uint64_t)r + 1, (uint64_t)i) % CALL_MOD;
}

/* What the sender and the receiver of a block agree on: a rank for the two of them. */
static inline int call_pair(int from, int to) { return 1000 + 100 * from + to; }

/* Up to n; none is empty when n is odd. */
static inline int call_length(int n, uint64_t random) { return n % 2 ? 1 + (int)(random % (uint64_t)n) : (int)(random % ((uint64_t)n + 1)); }

/* Lengths of blocks in the v variants, those of a rank and those between two; in place these two must be one. */
static inline int call_vcount(const struct call *c, int r) { return call_length(c->n, mix3(c->key, 99, (uint64_t)r)); }

static inline int call_pcount(const struct call *c, int from, int to)
{
	int swap = (c->flags & CALL_IN_PLACE) && from > to;

	return call_length(c->n, mix4(c->key, 98, (uint64_t)(swap ? to : from), (uint64_t)(swap ? from : to)));
}

/* Writes count elements of a contribution, from its element base on, at the element at. */
static inline void call_put(struct call *c, uint64_t *buf, int at, int count, int r, int base)
{
	for (int i = 0; i < count; i++)
		for (int k = 0; k < c->vals; k++)
			buf[(size_t)(at + i) * (size_t)c->stride + (size_t)k] = call_value(c, r, (base + i) * c->vals + k);
}

static inline void call_expect(struct call *c, int at, int k, int r, uint64_t want)
{
	size_t cell = (size_t)at * (size_t)c->stride + (size_t)k;

	CHECK(c->a, c->out[cell] == want, "%s%s (choices %d, %d elements) of %d ranks: from %d at %d.%d: %" PRIu64 ", want %" PRIu64,
	      c->open ? "I" : "", c->kind->name, c->flags, c->n, c->size, r, at, k, c->out[cell], want);
	c->seen[cell] = 1;
	c->sum = mix2(c->sum, want);
}

static inline void call_want(struct call *c, int at, int count, int r, int base)
{
	for (int i = 0; i < count; i++)
		for (int k = 0; k < c->vals; k++)
			call_expect(c, at + i, k, r, call_value(c, r, (base + i) * c->vals + k));
}

/* -- operations of the user: composition of maps v -> (a v + b), the same with the two exchanged, a sum ------------------ */

static inline void call_apply(int which, int stride, const uint64_t *f, uint64_t *g, int len)
{
	for (int i = 0; i < len; i++, f += stride, g += stride) {
		uint64_t f0 = f[0], f1 = f[1], g0 = g[0], g1 = g[1];
		g[0] = which == 2 ? (f0 + g0) % CALL_MOD : f0 * g0 % CALL_MOD;
		if (which == 0) g[1] = (g0 * f1 + g1) % CALL_MOD;
		else if (which == 1) g[1] = (f0 * g1 + f1) % CALL_MOD;
		else g[1] = (f1 + g1) % CALL_MOD;
	}
}

static inline int call_extent(MPI_Datatype t)
{
	MPI_Aint lb, extent = 0;

	MPI_Type_get_extent(t, &lb, &extent);
	return (int)(extent / 8);
}

#define CALL_USERS(which) \
	static void call_user##which##_2(void *f, void *g, int *n, MPI_Datatype *t) { (void)t; call_apply(which, 2, (uint64_t *)f, (uint64_t *)g, *n); } \
	static void call_user##which##_3(void *f, void *g, int *n, MPI_Datatype *t) { (void)t; call_apply(which, 3, (uint64_t *)f, (uint64_t *)g, *n); } \
	static void call_user##which##_t(void *f, void *g, int *n, MPI_Datatype *t) { call_apply(which, call_extent(*t), (uint64_t *)f, (uint64_t *)g, *n); }
CALL_USERS(0)
CALL_USERS(1)
CALL_USERS(2)

static inline int call_which(const struct call *c) { return (int)(mix2(c->key, 5) % 3); }

static inline void call_make_op(struct call *c)
{
	static MPI_User_function *const users[3][3] = {
		{ call_user0_2, call_user0_3, call_user0_t }, { call_user1_2, call_user1_3, call_user1_t }, { call_user2_2, call_user2_3, call_user2_t },
	};
	MPI_Op ops[4] = { MPI_SUM, MPI_MAX, MPI_MIN, MPI_BXOR };

	if (c->flags & CALL_USER)
		MPI_Op_create(users[call_which(c)][c->flags & CALL_TYPED ? 2 : c->stride - 2], call_which(c) == 2, &c->op);
	else
		c->op = ops[mix2(c->key, 5) % 4];
}

/* The reduction of element i of the ranks first..last. */
static inline void call_reduced(const struct call *c, int first, int last, int i, uint64_t *v)
{
	for (int r = last; r >= first; r--) {
		uint64_t f[2] = { call_value(c, r, i * c->vals), call_value(c, r, i * c->vals + 1) };
		if (r == last) v[0] = f[0], v[1] = f[1];
		else if (c->flags & CALL_USER) call_apply(call_which(c), 2, f, v, 1);
		else if (c->op == MPI_SUM) v[0] += f[0];
		else if (c->op == MPI_MAX) v[0] = v[0] > f[0] ? v[0] : f[0];
		else if (c->op == MPI_MIN) v[0] = v[0] < f[0] ? v[0] : f[0];
		else v[0] ^= f[0];
	}
}

/* Elements base.. of the reduction over the ranks first..last are the first count of out. */
static inline void call_want_reduced(struct call *c, int count, int first, int last, int base)
{
	uint64_t v[2] = { 0, 0 };

	for (int i = 0; i < count && first <= last; i++) {
		call_reduced(c, first, last, base + i, v);
		for (int k = 0; k < c->vals; k++) call_expect(c, i, k, -1, v[k]);
	}
}

/* -- the kinds: rooted. What does not count at a rank is nonsense there. ------------------------------------------------- */

#define CALL_AT_ROOT(c) ((c)->me == (c)->root)
#define CALL_SENDBUF(c) ((c)->flags & CALL_IN_PLACE ? MPI_IN_PLACE : (void *)(c)->in)
#define CALL_SENDTYPE(c) ((c)->flags & CALL_IN_PLACE ? MPI_DATATYPE_NULL : (c)->type)
#define CALL_OWN(c) ((c)->flags & CALL_IN_PLACE ? (c)->out : (c)->in)

static inline void call_make_barrier(struct call *c)
{
	if (c->open) MPI_Ibarrier(c->comm, &c->rq);
	else MPI_Barrier(c->comm);
}

static inline void call_check_barrier(struct call *c) { (void)c; }

static inline void call_make_bcast(struct call *c)
{
	if (CALL_AT_ROOT(c)) call_put(c, c->out, 0, c->n, c->root, 0);
	CALL(c, Bcast, Ibcast, c->out, c->n, c->type, c->root, c->comm);
}

static inline void call_check_bcast(struct call *c) { call_want(c, 0, c->n, c->root, 0); }

/* Blocks lie in the opposite order in v variants. */
static inline int call_place(const struct call *c, int r) { return (c->size - 1 - r) * c->n; }

static inline void call_blocks(struct call *c)
{
	for (int r = 0; r < c->size; r++) c->rc[r] = call_vcount(c, r), c->rd[r] = call_place(c, r);
}

static inline void call_make_gather(struct call *c)
{
	int root = CALL_AT_ROOT(c), in_place = root && c->flags & CALL_IN_PLACE;

	call_put(c, in_place ? c->out : c->in, in_place ? c->me * c->n : 0, c->n, c->me, 0);
	CALL(c, Gather, Igather, in_place ? MPI_IN_PLACE : (void *)c->in, c->n, c->type, root ? c->out : NULL, root ? c->n : 0,
	     root ? c->type : MPI_DATATYPE_NULL, c->root, c->comm);
}

static inline void call_check_gather(struct call *c)
{
	for (int r = 0; CALL_AT_ROOT(c) && r < c->size; r++) call_want(c, r * c->n, c->n, r, 0);
}

static inline void call_make_gatherv(struct call *c)
{
	int root = CALL_AT_ROOT(c), in_place = root && c->flags & CALL_IN_PLACE, mine = call_vcount(c, c->me);

	call_blocks(c);
	call_put(c, in_place ? c->out : c->in, in_place ? call_place(c, c->me) : 0, mine, c->me, 0);
	CALL(c, Gatherv, Igatherv, in_place ? MPI_IN_PLACE : (void *)c->in, mine, c->type, root ? c->out : NULL, root ? c->rc : NULL,
	     root ? c->rd : NULL, root ? c->type : MPI_DATATYPE_NULL, c->root, c->comm);
}

static inline void call_check_gatherv(struct call *c)
{
	for (int r = 0; CALL_AT_ROOT(c) && r < c->size; r++) call_want(c, call_place(c, r), call_vcount(c, r), r, 0);
}

static inline void call_make_scatter(struct call *c)
{
	int root = CALL_AT_ROOT(c), in_place = root && c->flags & CALL_IN_PLACE;

	if (root) call_put(c, c->in, 0, c->size * c->n, c->root, 0);
	CALL(c, Scatter, Iscatter, root ? c->in : NULL, root ? c->n : 0, root ? c->type : MPI_DATATYPE_NULL,
	     in_place ? MPI_IN_PLACE : (void *)c->out, c->n, c->type, c->root, c->comm);
}

static inline void call_check_scatter(struct call *c)
{
	if (!(CALL_AT_ROOT(c) && c->flags & CALL_IN_PLACE)) call_want(c, 0, c->n, c->root, c->me * c->n);
}

static inline void call_make_scatterv(struct call *c)
{
	int root = CALL_AT_ROOT(c), in_place = root && c->flags & CALL_IN_PLACE;

	call_blocks(c);
	for (int r = 0; root && r < c->size; r++) call_put(c, c->in, c->rd[r], c->rc[r], c->root, r * c->n);
	CALL(c, Scatterv, Iscatterv, root ? c->in : NULL, root ? c->rc : NULL, root ? c->rd : NULL, root ? c->type : MPI_DATATYPE_NULL,
	     in_place ? MPI_IN_PLACE : (void *)c->out, c->rc[c->me], c->type, c->root, c->comm);
}

static inline void call_check_scatterv(struct call *c)
{
	if (!(CALL_AT_ROOT(c) && c->flags & CALL_IN_PLACE)) call_want(c, 0, call_vcount(c, c->me), c->root, c->me * c->n);
}

/* -- all to all ---------------------------------------------------------------------------------------------------------- */

static inline void call_make_allgather(struct call *c)
{
	call_put(c, CALL_OWN(c), c->flags & CALL_IN_PLACE ? c->me * c->n : 0, c->n, c->me, 0);
	CALL(c, Allgather, Iallgather, CALL_SENDBUF(c), c->n, CALL_SENDTYPE(c), c->out, c->n, c->type, c->comm);
}

static inline void call_check_allgather(struct call *c)
{
	for (int r = 0; r < c->size; r++) call_want(c, r * c->n, c->n, r, 0);
}

static inline void call_make_allgatherv(struct call *c)
{
	call_blocks(c);
	call_put(c, CALL_OWN(c), c->flags & CALL_IN_PLACE ? c->rd[c->me] : 0, c->rc[c->me], c->me, 0);
	CALL(c, Allgatherv, Iallgatherv, CALL_SENDBUF(c), c->rc[c->me], CALL_SENDTYPE(c), c->out, c->rc, c->rd, c->type, c->comm);
}

static inline void call_check_allgatherv(struct call *c)
{
	for (int r = 0; r < c->size; r++) call_want(c, call_place(c, r), call_vcount(c, r), r, 0);
}

static inline void call_make_alltoall(struct call *c)
{
	for (int r = 0; r < c->size; r++) call_put(c, CALL_OWN(c), r * c->n, c->n, call_pair(c->me, r), 0);
	CALL(c, Alltoall, Ialltoall, CALL_SENDBUF(c), c->n, CALL_SENDTYPE(c), c->out, c->n, c->type, c->comm);
}

static inline void call_check_alltoall(struct call *c)
{
	for (int r = 0; r < c->size; r++) call_want(c, r * c->n, c->n, call_pair(r, c->me), 0);
}

/* Half of the blocks of the w variants are one element of a type of their own. (MPICH 4.0.2 itself loses such blocks in an
 * Ialltoallw in place.) */
static inline MPI_Datatype call_block_type(struct call *c, int one, int *count)
{
	MPI_Datatype t;

	if (one) MPI_Type_contiguous(*count, c->type, &t), *count = 1;
	else MPI_Type_dup(c->type, &t);
	MPI_Type_commit(&t);
	return t;
}

/* A block for each neighbour, or for each rank, on both sides. */
static inline void call_sides(struct call *c, int nto, const int *to, int nfrom, const int *from, int w)
{
	int bytes = 8 * c->stride, in_place = c->flags & CALL_IN_PLACE;

	for (int i = 0; i < nto; i++) {
		c->sc[i] = to[i] < 0 ? 0 : call_pcount(c, c->me, to[i]), c->sd[i] = i * c->n;
		call_put(c, c->in, c->sd[i], c->sc[i], call_pair(c->me, to[i]), 0);
		if (w) c->st[i] = call_block_type(c, (c->me + to[i]) % 2 != 0, &c->sc[i]), c->sd[i] *= bytes, c->sa[i] = c->sd[i];
	}
	for (int i = 0; i < nfrom; i++) {
		c->rc[i] = from[i] < 0 ? 0 : call_pcount(c, from[i], c->me), c->rd[i] = (nfrom - 1 - i) * c->n;
		if (in_place) call_put(c, c->out, c->rd[i], c->rc[i], call_pair(c->me, from[i]), 0);
		if (w) c->rt[i] = call_block_type(c, (c->me + from[i]) % 2 != 0, &c->rc[i]), c->rd[i] *= bytes, c->ra[i] = c->rd[i];
	}
}

static inline void call_free_sides(struct call *c, int nto, int nfrom)
{
	for (int i = 0; i < nto + nfrom; i++) {
		MPI_Datatype t = i < nto ? c->st[i] : c->rt[i - nto];
		MPI_Type_free(&t);
	}
}

static inline void call_all(const struct call *c, int *ranks)
{
	for (int r = 0; r < c->size; r++) ranks[r] = r;
}

static inline void call_make_alltoallv(struct call *c)
{
	int in_place = c->flags & CALL_IN_PLACE, all[CALL_MOST];

	call_all(c, all);
	call_sides(c, c->size, all, c->size, all, 0);
	CALL(c, Alltoallv, Ialltoallv, CALL_SENDBUF(c), in_place ? NULL : c->sc, in_place ? NULL : c->sd, CALL_SENDTYPE(c), c->out, c->rc, c->rd,
	     c->type, c->comm);
}

static inline void call_make_alltoallw(struct call *c)
{
	int all[CALL_MOST];

	call_all(c, all);
	call_sides(c, c->size, all, c->size, all, 1);
	CALL(c, Alltoallw, Ialltoallw, c->in, c->sc, c->sd, c->st, c->out, c->rc, c->rd, c->rt, c->comm);
	call_free_sides(c, c->size, c->size);
}

static inline void call_check_alltoallv(struct call *c)
{
	for (int r = 0; r < c->size; r++) call_want(c, (c->size - 1 - r) * c->n, call_pcount(c, r, c->me), call_pair(r, c->me), 0);
}

/* -- reductions ------------------------------------------------------------------------------------------------------------ */

static inline void call_make_reduce(struct call *c)
{
	int root = CALL_AT_ROOT(c), in_place = root && c->flags & CALL_IN_PLACE;

	call_put(c, in_place ? c->out : c->in, 0, c->n, c->me, 0);
	CALL(c, Reduce, Ireduce, in_place ? MPI_IN_PLACE : (void *)c->in, root ? c->out : NULL, c->n, c->type, c->op, c->root, c->comm);
}

static inline void call_check_reduce(struct call *c)
{
	if (CALL_AT_ROOT(c)) call_want_reduced(c, c->n, 0, c->size - 1, 0);
}

static inline void call_make_allreduce(struct call *c)
{
	call_put(c, CALL_OWN(c), 0, c->n, c->me, 0);
	CALL(c, Allreduce, Iallreduce, CALL_SENDBUF(c), c->out, c->n, c->type, c->op, c->comm);
}

static inline void call_check_allreduce(struct call *c) { call_want_reduced(c, c->n, 0, c->size - 1, 0); }

static inline void call_make_reduce_scatter_block(struct call *c)
{
	c->loose = 1;
	call_put(c, CALL_OWN(c), 0, c->size * c->n, c->me, 0);
	CALL(c, Reduce_scatter_block, Ireduce_scatter_block, CALL_SENDBUF(c), c->out, c->n, c->type, c->op, c->comm);
}

static inline void call_check_reduce_scatter_block(struct call *c) { call_want_reduced(c, c->n, 0, c->size - 1, c->me * c->n); }

static inline void call_make_reduce_scatter(struct call *c)
{
	int all = 0;

	c->loose = 1;
	for (int r = 0; r < c->size; r++) all += c->rc[r] = call_vcount(c, r);
	call_put(c, CALL_OWN(c), 0, all, c->me, 0);
	CALL(c, Reduce_scatter, Ireduce_scatter, CALL_SENDBUF(c), c->out, c->rc, c->type, c->op, c->comm);
}

static inline void call_check_reduce_scatter(struct call *c)
{
	int at = 0;

	for (int r = 0; r < c->me; r++) at += call_vcount(c, r);
	call_want_reduced(c, call_vcount(c, c->me), 0, c->size - 1, at);
}

static inline void call_make_scan(struct call *c)
{
	call_put(c, CALL_OWN(c), 0, c->n, c->me, 0);
	CALL(c, Scan, Iscan, CALL_SENDBUF(c), c->out, c->n, c->type, c->op, c->comm);
}

static inline void call_check_scan(struct call *c) { call_want_reduced(c, c->n, 0, c->me, 0); }

static inline void call_make_exscan(struct call *c)
{
	c->loose = c->me == 0;
	call_put(c, CALL_OWN(c), 0, c->n, c->me, 0);
	CALL(c, Exscan, Iexscan, CALL_SENDBUF(c), c->out, c->n, c->type, c->op, c->comm);
}

static inline void call_check_exscan(struct call *c) { call_want_reduced(c, c->n, 0, c->me - 1, 0); }

/* -- neighbours ------------------------------------------------------------------------------------------------------------ */

static inline void call_make_nallgather(struct call *c)
{
	call_put(c, c->in, 0, c->n, c->me, 0);
	CALL(c, Neighbor_allgather, Ineighbor_allgather, c->in, c->n, c->type, c->out, c->n, c->type, c->comm);
}

static inline void call_check_nallgather(struct call *c)
{
	for (int i = 0; i < c->p->in; i++)
		if (c->p->from[i] >= 0) call_want(c, i * c->n, c->n, c->p->from[i], 0);
}

static inline void call_make_nallgatherv(struct call *c)
{
	call_put(c, c->in, 0, call_vcount(c, c->me), c->me, 0);
	for (int i = 0; i < c->p->in; i++)
		c->rc[i] = c->p->from[i] < 0 ? 0 : call_vcount(c, c->p->from[i]), c->rd[i] = (c->p->in - 1 - i) * c->n;
	CALL(c, Neighbor_allgatherv, Ineighbor_allgatherv, c->in, call_vcount(c, c->me), c->type, c->out, c->rc, c->rd, c->type, c->comm);
}

static inline void call_check_nallgatherv(struct call *c)
{
	for (int i = 0; i < c->p->in; i++)
		if (c->p->from[i] >= 0) call_want(c, (c->p->in - 1 - i) * c->n, call_vcount(c, c->p->from[i]), c->p->from[i], 0);
}

static inline void call_make_nalltoall(struct call *c)
{
	for (int i = 0; i < c->p->out; i++) call_put(c, c->in, i * c->n, c->n, call_pair(c->me, c->p->to[i]), 0);
	CALL(c, Neighbor_alltoall, Ineighbor_alltoall, c->in, c->n, c->type, c->out, c->n, c->type, c->comm);
}

static inline void call_check_nalltoall(struct call *c)
{
	for (int i = 0; i < c->p->in; i++)
		if (c->p->from[i] >= 0) call_want(c, i * c->n, c->n, call_pair(c->p->from[i], c->me), 0);
}

static inline void call_make_nalltoallv(struct call *c)
{
	call_sides(c, c->p->out, c->p->to, c->p->in, c->p->from, 0);
	CALL(c, Neighbor_alltoallv, Ineighbor_alltoallv, c->in, c->sc, c->sd, c->type, c->out, c->rc, c->rd, c->type, c->comm);
}

static inline void call_make_nalltoallw(struct call *c)
{
	call_sides(c, c->p->out, c->p->to, c->p->in, c->p->from, 1);
	CALL(c, Neighbor_alltoallw, Ineighbor_alltoallw, c->in, c->sc, c->sa, c->st, c->out, c->rc, c->ra, c->rt, c->comm);
	call_free_sides(c, c->p->out, c->p->in);
}

static inline void call_check_nalltoallv(struct call *c)
{
	for (int i = 0; i < c->p->in; i++)
		if (c->p->from[i] >= 0)
			call_want(c, (c->p->in - 1 - i) * c->n, call_pcount(c, c->p->from[i], c->me), call_pair(c->p->from[i], c->me), 0);
}

static const struct kind call_kinds[] = {
	/* Open MPI 4.1.4's Ialltoallv in place does not end. MPICH 4.0.2's Reduce_scatter and Reduce_scatter_block are wrong, and
	 * destroy the heap, when there are gaps in the type and the operation is not commutative; its Reduce and Reduce_scatter
	 * read at MPI_IN_PLACE when they are long. */
	{ "barrier", 0, call_make_barrier, call_check_barrier },
	{ "bcast", KIND_ROOTED, call_make_bcast, call_check_bcast },
	{ "gather", KIND_ROOTED | KIND_IN_PLACE, call_make_gather, call_check_gather },
	{ "gatherv", KIND_ROOTED | KIND_IN_PLACE, call_make_gatherv, call_check_gatherv },
	{ "scatter", KIND_ROOTED | KIND_IN_PLACE, call_make_scatter, call_check_scatter },
	{ "scatterv", KIND_ROOTED | KIND_IN_PLACE, call_make_scatterv, call_check_scatterv },
	{ "allgather", KIND_IN_PLACE, call_make_allgather, call_check_allgather },
	{ "allgatherv", KIND_IN_PLACE, call_make_allgatherv, call_check_allgatherv },
	{ "alltoall", KIND_IN_PLACE, call_make_alltoall, call_check_alltoall },
	{ "alltoallv", KIND_BLOCKING_IN_PLACE, call_make_alltoallv, call_check_alltoallv },
	{ "alltoallw", 0, call_make_alltoallw, call_check_alltoallv },
	{ "reduce", KIND_ROOTED | KIND_REDUCTION | KIND_IN_PLACE | KIND_SHORT_IN_PLACE, call_make_reduce, call_check_reduce },
	{ "allreduce", KIND_REDUCTION | KIND_IN_PLACE, call_make_allreduce, call_check_allreduce },
	{ "reduce_scatter_block", KIND_REDUCTION | KIND_IN_PLACE | KIND_NO_GAPS, call_make_reduce_scatter_block, call_check_reduce_scatter_block },
	{ "reduce_scatter", KIND_REDUCTION | KIND_IN_PLACE | KIND_SHORT_IN_PLACE | KIND_NO_GAPS, call_make_reduce_scatter, call_check_reduce_scatter },
	{ "scan", KIND_REDUCTION | KIND_IN_PLACE, call_make_scan, call_check_scan },
	{ "exscan", KIND_REDUCTION | KIND_IN_PLACE, call_make_exscan, call_check_exscan },
	{ "neighbor_allgather", KIND_NEIGHBOR, call_make_nallgather, call_check_nallgather },
	{ "neighbor_allgatherv", KIND_NEIGHBOR, call_make_nallgatherv, call_check_nallgatherv },
	{ "neighbor_alltoall", KIND_NEIGHBOR, call_make_nalltoall, call_check_nalltoall },
	{ "neighbor_alltoallv", KIND_NEIGHBOR, call_make_nalltoallv, call_check_nalltoallv },
	{ "neighbor_alltoallw", KIND_NEIGHBOR, call_make_nalltoallw, call_check_nalltoallv },
};
enum { CALL_KINDS = sizeof call_kinds / sizeof call_kinds[0], CALL_PLAIN = CALL_KINDS - 5 };

/* -- a call from begin to end ------------------------------------------------------------------------------------------------ */

static inline int call_can_be(const struct kind *k, int n, int flags, int open)
{
	if (k->is & KIND_SHORT_IN_PLACE && n > 100) flags &= ~CALL_IN_PLACE;
	if (!(k->is & (open ? KIND_IN_PLACE : KIND_IN_PLACE | KIND_BLOCKING_IN_PLACE))) flags &= ~CALL_IN_PLACE;
	if (k->is & KIND_NO_GAPS) flags &= ~CALL_STRIDED;
	if (!(k->is & KIND_REDUCTION)) flags &= ~(CALL_USER | CALL_TYPED);
	else if (flags & (CALL_STRIDED | CALL_TYPED)) flags |= CALL_USER; /* the MPI's own operations take no derived types */
	return flags;
}

static inline void call_make_type(struct call *c)
{
	MPI_Datatype t;

	c->vals = c->flags & CALL_USER ? 2 : 1;
	c->stride = c->flags & CALL_STRIDED ? c->vals + 1 : c->vals;
	c->type = MPI_UINT64_T;
	if (c->stride == 1) return;
	MPI_Type_contiguous(c->vals, MPI_UINT64_T, &t);
	MPI_Type_create_resized(t, 0, 8 * c->stride, &c->type);
	MPI_Type_free(&t);
	MPI_Type_commit(&c->type);
}

/* Begins a call of n elements a block. It is open until its request has completed, if it has one. */
static inline void call_begin(struct call *c, struct app *a, const struct place *p, const struct kind *k, uint64_t key, int n, int root, int flags, int open)
{
	int blocks = p->size;

	memset(c, 0, sizeof *c);
	c->a = a, c->p = p, c->kind = k, c->key = key, c->n = n, c->root = root, c->open = open;
	c->comm = p->comm, c->me = p->rank, c->size = p->size, c->rq = MPI_REQUEST_NULL;
	c->flags = call_can_be(k, n, flags, open);
	if (p->in > blocks) blocks = p->in;
	if (p->out > blocks) blocks = p->out;
	call_make_type(c);
	call_make_op(c);
	c->cells = (size_t)blocks * (size_t)n * (size_t)c->stride;
	c->in = (uint64_t *)app_alloc(a, 8 * c->cells);
	c->out = (uint64_t *)app_alloc(a, 8 * c->cells);
	c->seen = (uint8_t *)app_alloc(a, c->cells);
	memset(c->seen, 0, c->cells);
	for (size_t i = 0; i < c->cells; i++) c->in[i] = c->out[i] = call_rest;
	k->make(c);
	if (c->stride > 1) MPI_Type_free(&c->type);
	if (c->flags & CALL_USER) MPI_Op_free(&c->op);
	c->in_hash = hash_bytes(c->in, 8 * c->cells);
}

/* Compares everything and returns a number for the results. */
static inline uint64_t call_end(struct call *c)
{
	CHECK(c->a, c->rq == MPI_REQUEST_NULL, "I%s: the request lives after completion", c->kind->name);
	c->kind->check(c);
	CHECK(c->a, hash_bytes(c->in, 8 * c->cells) == c->in_hash, "%s%s has changed its input", c->open ? "I" : "", c->kind->name);
	for (size_t i = 0; i < c->cells && !c->loose; i++)
		CHECK(c->a, c->seen[i] || c->out[i] == call_rest || (c->flags & CALL_IN_PLACE), "%s%s (choices %d) has written to cell %zu of %zu",
		      c->open ? "I" : "", c->kind->name, c->flags, i, c->cells);
	free(c->in), free(c->out), free(c->seen);
	c->in = NULL;
	return c->sum;
}

static const char *const call_completions[] = { "wait", "waitall", "test", "testall", "waitany", "testany", "waitsome", "testsome", "status" };
enum { CALL_COMPLETIONS = sizeof call_completions / sizeof call_completions[0] };

/* Completes all n requests by one of the completion calls. */
static inline void call_complete(int n, MPI_Request *q, int how)
{
	int flag = 0, index = 0, some[64];

	switch (how) {
	case 0:
		for (int i = n - 1; i >= 0; i--) MPI_Wait(&q[i], MPI_STATUS_IGNORE);
		break;
	case 1: MPI_Waitall(n, q, MPI_STATUSES_IGNORE); break;
	case 2:
		for (int i = 0; i < n; i++)
			for (flag = 0; !flag; ) MPI_Test(&q[i], &flag, MPI_STATUS_IGNORE);
		break;
	case 3:
		while (!flag) MPI_Testall(n, q, &flag, MPI_STATUSES_IGNORE);
		break;
	case 4:
		while (index != MPI_UNDEFINED) MPI_Waitany(n, q, &index, MPI_STATUS_IGNORE);
		break;
	case 5:
		while (!flag || index != MPI_UNDEFINED) MPI_Testany(n, q, &index, &flag, MPI_STATUS_IGNORE);
		break;
	case 6:
		while (index != MPI_UNDEFINED) MPI_Waitsome(n, q, &index, some, MPI_STATUSES_IGNORE);
		break;
	case 7:
		while (index != MPI_UNDEFINED) MPI_Testsome(n, q, &index, some, MPI_STATUSES_IGNORE);
		break;
	default:
		for (int i = 0; i < n; i++) {
			for (flag = 0; !flag; ) MPI_Request_get_status(q[i], &flag, MPI_STATUS_IGNORE);
			MPI_Wait(&q[i], MPI_STATUS_IGNORE);
		}
	}
}

/* -- places ------------------------------------------------------------------------------------------------------------------ */

static inline void place_of(struct place *p, MPI_Comm comm)
{
	memset(p, 0, sizeof *p);
	p->comm = comm;
	MPI_Comm_rank(comm, &p->rank);
	MPI_Comm_size(comm, &p->size);
}

/* A ring; a path where both neighbours would be the same. */
static inline void place_cart(struct place *p, MPI_Comm comm)
{
	MPI_Comm cart;
	int size, ring;

	MPI_Comm_size(comm, &size);
	ring = size > 2;
	MPI_Cart_create(comm, 1, &size, &ring, 0, &cart);
	place_of(p, cart);
	p->in = p->out = 2;
	MPI_Cart_shift(cart, 0, 1, &p->from[0], &p->from[1]);
	p->to[0] = p->from[0], p->to[1] = p->from[1];
}

/* Each sends to the next one and, of more than one, to itself. */
static inline void place_graph(struct place *p, MPI_Comm comm)
{
	MPI_Comm graph;
	int rank, size, n, weighted, from[2], to[2], w[2] = { 1, 2 };

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	n = size > 1 ? 2 : 1;
	from[0] = (rank + size - 1) % size, to[0] = (rank + 1) % size;
	from[1] = to[1] = rank;
	MPI_Dist_graph_create_adjacent(comm, n, from, w, n, to, w, MPI_INFO_NULL, 0, &graph);
	place_of(p, graph);
	MPI_Dist_graph_neighbors_count(graph, &p->in, &p->out, &weighted);
	MPI_Dist_graph_neighbors(graph, p->in, p->from, w, p->out, p->to, w);
}
#endif
