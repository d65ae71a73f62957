/* group.c: groups (MPI-4.1 section 7.3): lists of ranks in MPI_COMM_WORLD, entirely our own.
 * Context: as comms.h. */
#include <stdlib.h>
#include <string.h>
#include "comms.h"

struct vgroup *group_of(nx_t h)
{
	static struct vgroup empty = { .handle = NX_GROUP_EMPTY, .rank = NX_UNDEFINED };
	if (h == NX_GROUP_EMPTY) return &empty;
	struct vgroup *g = NX_GROUP(h);
	return nx_live(h, g) ? g : NULL;
}

nx_t group_new(int size, int rank)
{
	nx_t h = nx_alloc(NX_K_GROUP);
	if (!h) return 0;
	struct vgroup *g = NX_GROUP(h);
	g->size = size;
	g->rank = rank;
	g->world = nx_malloc((size_t)(size ? size : 1) * sizeof *g->world);
	if (g->world) return h;
	nx_release(NX_K_GROUP, h);
	return 0;
}

#define GROUP(g, h) \
	struct vgroup *g = group_of(h); \
	if (!g) FAIL(NX_COMM_WORLD, NX_ERR_GROUP)

static int find(const struct vgroup *g, uint32_t world)
{
	for (int i = 0; i < g->size; i++)
		if (g->world[i] == world) return i;
	return NX_UNDEFINED;
}

/* Table from rank in MPI_COMM_WORLD to rank in g, NX_UNDEFINED elsewhere; to be freed. */
static int *inverse(const struct vgroup *g)
{
	int *t = malloc((size_t)NX_STATE->size * sizeof *t);
	for (int i = 0; t && i < NX_STATE->size; i++) t[i] = NX_UNDEFINED;
	for (int i = 0; t && i < g->size; i++) t[g->world[i]] = i;
	return t;
}

/* A group of the n ranks given; the empty one has the predefined handle. */
static long make(const uint32_t *world, int n, nx_t *out, const char *function)
{
	if (!n) {
		*out = NX_GROUP_EMPTY;
		return 0;
	}
	nx_t h = group_new(n, NX_UNDEFINED);
	if (!h) return nx_error(NX_COMM_WORLD, NX_ERR_NO_MEM, function);
	struct vgroup *g = NX_GROUP(h);
	memcpy(g->world, world, (size_t)n * sizeof *world);
	g->rank = find(g, (uint32_t)NX_STATE->rank);
	*out = h;
	return 0;
}

long mid_group_size(nx_t group, int *size)
{
	GROUP(g, group);
	*size = g->size;
	return 0;
}

long mid_group_rank(nx_t group, int *rank)
{
	GROUP(g, group);
	*rank = g->rank;
	return 0;
}

long mid_group_translate_ranks(nx_t group1, int n, const int *ranks1, nx_t group2, int *ranks2)
{
	GROUP(a, group1);
	GROUP(b, group2);
	int *t = inverse(b), bad = 0;
	if (!t) FAIL(NX_COMM_WORLD, NX_ERR_NO_MEM);
	for (int i = 0; i < n && !bad; i++) {
		if (ranks1[i] == NX_PROC_NULL) ranks2[i] = NX_PROC_NULL;
		else if ((unsigned)ranks1[i] < (unsigned)a->size) ranks2[i] = t[a->world[ranks1[i]]];
		else bad = NX_ERR_RANK;
	}
	free(t);
	RESULT(NX_COMM_WORLD, bad);
}

static int compare(const uint32_t *a, const uint32_t *b, int n)
{
	if (!memcmp(a, b, (size_t)n * sizeof *a)) return NX_IDENT;
	struct vgroup g = { .size = n, .world = (uint32_t *)b };
	int *t = inverse(&g), similar = t != NULL;
	for (int i = 0; similar && i < n; i++) similar = t[a[i]] != NX_UNDEFINED;
	free(t);
	return similar ? NX_SIMILAR : NX_UNEQUAL;
}

long mid_group_compare(nx_t group1, nx_t group2, int *result)
{
	GROUP(a, group1);
	GROUP(b, group2);
	*result = a->size != b->size ? NX_UNEQUAL : a->size ? compare(a->world, b->world, a->size) : NX_IDENT;
	return 0;
}

/* Of two different communicators of one size. */
int peers_compare(const struct vcomm *a, const struct vcomm *b)
{
	uint32_t *w = malloc(2 * (size_t)a->size * sizeof *w);
	if (!w) return NX_UNEQUAL;
	for (int i = 0; i < a->size; i++) {
		w[i] = a->peer[i].world;
		w[a->size + i] = b->peer[i].world;
	}
	int r = compare(w, w + a->size, a->size);
	free(w);
	return r == NX_IDENT ? NX_CONGRUENT : r;
}

enum set { UNION, INTERSECTION, DIFFERENCE };

static long combine(enum set op, nx_t group1, nx_t group2, nx_t *out, const char *function)
{
	struct vgroup *a = group_of(group1), *b = group_of(group2);
	if (!a || !b) return nx_error(NX_COMM_WORLD, NX_ERR_GROUP, function);
	int *in_a = inverse(a), *in_b = inverse(b), n = 0;
	uint32_t *w = malloc((size_t)(a->size + b->size + 1) * sizeof *w);
	long result = NX_ERR_NO_MEM;
	if (in_a && in_b && w) {
		for (int i = 0; i < a->size; i++)
			if (op == UNION || (in_b[a->world[i]] != NX_UNDEFINED) == (op == INTERSECTION))
				w[n++] = a->world[i];
		for (int i = 0; op == UNION && i < b->size; i++)
			if (in_a[b->world[i]] == NX_UNDEFINED) w[n++] = b->world[i];
		result = make(w, n, out, function);
	}
	free(in_a);
	free(in_b);
	free(w);
	return result == NX_ERR_NO_MEM ? nx_error(NX_COMM_WORLD, NX_ERR_NO_MEM, function) : result;
}

long mid_group_union(nx_t group1, nx_t group2, nx_t *newgroup)
{
	return combine(UNION, group1, group2, newgroup, "group_union");
}
long mid_group_intersection(nx_t group1, nx_t group2, nx_t *newgroup)
{
	return combine(INTERSECTION, group1, group2, newgroup, "group_intersection");
}
long mid_group_difference(nx_t group1, nx_t group2, nx_t *newgroup)
{
	return combine(DIFFERENCE, group1, group2, newgroup, "group_difference");
}

/* The members of g at ranks[0..n) (include), or all others in their order (exclude). */
static long choose(struct vgroup *g, int n, const int *ranks, bool include, nx_t *out, const char *function)
{
	uint32_t *w = malloc((size_t)(g->size + n + 1) * sizeof *w);
	char *chosen = calloc((size_t)g->size + 1, 1);
	int m = 0, bad = w && chosen ? 0 : NX_ERR_NO_MEM;
	for (int i = 0; i < n && !bad; i++) {
		if ((unsigned)ranks[i] >= (unsigned)g->size || chosen[ranks[i]]) bad = NX_ERR_RANK;
		else chosen[ranks[i]] = 1;
		if (!bad && include) w[m++] = g->world[ranks[i]];
	}
	for (int i = 0; i < g->size && !bad && !include; i++)
		if (!chosen[i]) w[m++] = g->world[i];
	long result = bad ? nx_error(NX_COMM_WORLD, bad, function) : make(w, m, out, function);
	free(w);
	free(chosen);
	return result;
}

long mid_group_incl(nx_t group, int n, const int *ranks, nx_t *newgroup)
{
	GROUP(g, group);
	return choose(g, n, ranks, true, newgroup, "group_incl");
}

long mid_group_excl(nx_t group, int n, const int *ranks, nx_t *newgroup)
{
	GROUP(g, group);
	return choose(g, n, ranks, false, newgroup, "group_excl");
}

/* Ranges are triplets (first, last, stride). */
static long choose_ranges(struct vgroup *g, int n, const int *ranges, bool include, nx_t *out,
			  const char *function)
{
	int *ranks = malloc((size_t)(g->size + 1) * sizeof *ranks), m = 0, bad = ranks ? 0 : NX_ERR_NO_MEM;
	for (int i = 0; i < n && !bad; i++) {
		int first = ranges[3 * i], last = ranges[3 * i + 1], stride = ranges[3 * i + 2];
		if (!stride) bad = NX_ERR_ARG;
		for (int r = first; !bad && (stride > 0 ? r <= last : r >= last); r += stride) {
			if (m >= g->size) bad = NX_ERR_RANK;
			else ranks[m++] = r;
		}
	}
	long result =
		bad ? nx_error(NX_COMM_WORLD, bad, function) : choose(g, m, ranks, include, out, function);
	free(ranks);
	return result;
}

long mid_group_range_incl(nx_t group, int n, const int *ranges, nx_t *newgroup)
{
	GROUP(g, group);
	return choose_ranges(g, n, ranges, true, newgroup, "group_range_incl");
}

long mid_group_range_excl(nx_t group, int n, const int *ranges, nx_t *newgroup)
{
	GROUP(g, group);
	return choose_ranges(g, n, ranges, false, newgroup, "group_range_excl");
}

long mid_group_free(nx_t *group)
{
	GROUP(g, *group);
	if (*group >= NX_DYNAMIC) {
		nx_free(g->world);
		nx_release(NX_K_GROUP, *group);
	}
	*group = NX_GROUP_NULL;
	return 0;
}
