/* topo.c: process topologies (MPI-4.1 chapter 8). The real MPI makes the communicator (and may reorder
 * ranks); queries are answered from the virtual record, so they are the same after a restart under another
 * MPI.
 *
 * Cartesian ranks are row-major in every implementation (MPI-4.1 section 8.2). Context: as comms.h. */
#include <stdlib.h>
#include <string.h>
#include "../agree/agree.h"
#include "comms.h"

size_t topo_bytes(const struct vtopo *t)
{
	size_t n = t->kind == NX_CART	 ? 2 * (size_t)t->n
		   : t->kind == NX_GRAPH ? (size_t)t->n + t->m
					 : 2 * ((size_t)t->n + t->m);
	return sizeof *t + n * sizeof t->data[0];
}

static struct vtopo *topo_new(int kind, int n, int m, size_t words)
{
	struct vtopo *t = nx_malloc(sizeof *t + words * sizeof t->data[0]);
	if (!t) return NULL;
	t->kind = kind;
	t->n = n;
	t->m = m;
	return t;
}

/* Parts of data[]. */
static int32_t *dims_of(struct vtopo *t) { return t->data; }
static int32_t *periods_of(struct vtopo *t) { return t->data + t->n; }
static int32_t *index_of(struct vtopo *t) { return t->data; }
static int32_t *edges_of(struct vtopo *t) { return t->data + t->n; }
static int32_t *sources_of(struct vtopo *t) { return t->data; }
static int32_t *source_weights_of(struct vtopo *t) { return t->data + t->n; }
static int32_t *dests_of(struct vtopo *t) { return t->data + 2 * t->n; }
static int32_t *dest_weights_of(struct vtopo *t) { return t->data + 2 * t->n + t->m; }

static const int *weights(struct vtopo *t, int32_t *w) { return t->weighted ? w : NX_UNWEIGHTED; }

static int real_topology(rh_t base, struct vtopo *t, int reorder, rh_t *out)
{
	switch (t->kind) {
	case NX_CART: return drv->cart_create(base, t->n, dims_of(t), periods_of(t), reorder, out);
	case NX_GRAPH: return drv->graph_create(base, t->n, index_of(t), edges_of(t), reorder, out);
	default:
		return drv->dist_graph_create_adjacent(base, t->n, sources_of(t),
						       weights(t, source_weights_of(t)), t->m, dests_of(t),
						       weights(t, dest_weights_of(t)), drv->info_null,
						       reorder, out);
	}
}

int topo_attach(rh_t *real, const struct vtopo *t)
{
	rh_t with;
	int e = real_topology(*real, (struct vtopo *)t, 0, &with);
	if (e) return e;
	drv->comm_free(real);
	*real = with;
	return 0;
}

#define WITH_TOPOLOGY(comm, wanted) \
	LIVE(comm); \
	struct vtopo *t = c->topo; \
	if (!t || t->kind != (wanted)) FAIL(comm, NX_ERR_TOPOLOGY)

/* -- making ---------------------------------------------------------------------------------------------- */

static int create(struct vcomm *c, struct vtopo *t, int reorder, nx_t *out)
{
	rh_t real;
	int e = real_topology(RCOMM(c->handle), t, reorder, &real);
	if (!e) return comm_adopt(real, c->errh, t, out);
	nx_free(t);
	return e;
}

long mid_cart_create(nx_t comm_old, int ndims, const int *dims, const int *periods, int reorder,
		     nx_t *comm_cart)
{
	LIVE(comm_old);
	if (ndims < 0) FAIL(comm_old, NX_ERR_DIMS);
	long g = gate_enter(c);
	if (g) return g;
	struct vtopo *t = topo_new(NX_CART, ndims, 0, 2 * (size_t)ndims);
	int e = t ? 0 : NX_ERR_NO_MEM;
	for (int i = 0; !e && i < ndims; i++) {
		dims_of(t)[i] = dims[i];
		periods_of(t)[i] = periods[i] != 0;
	}
	if (!e) e = create(c, t, reorder, comm_cart);
	gate_leave();
	RESULT(comm_old, e);
}

long mid_graph_create(nx_t comm_old, int nnodes, const int *index, const int *edges, int reorder,
		      nx_t *comm_graph)
{
	LIVE(comm_old);
	if (nnodes < 0 || nnodes > c->size) FAIL(comm_old, NX_ERR_ARG);
	long g = gate_enter(c);
	if (g) return g;
	int m = nnodes ? index[nnodes - 1] : 0;
	struct vtopo *t = topo_new(NX_GRAPH, nnodes, m, (size_t)nnodes + (size_t)m);
	int e = t ? 0 : NX_ERR_NO_MEM;
	if (!e) {
		memcpy(index_of(t), index, (size_t)nnodes * sizeof *index);
		memcpy(edges_of(t), edges, (size_t)m * sizeof *edges);
		e = create(c, t, reorder, comm_graph);
	}
	gate_leave();
	RESULT(comm_old, e);
}

static struct vtopo *adjacency(int in, const int *sources, const int *sw, int out, const int *dests,
			       const int *dw)
{
	struct vtopo *t = topo_new(NX_DIST_GRAPH, in, out, 2 * ((size_t)in + (size_t)out));
	if (!t) return NULL;
	t->weighted = sw != NX_UNWEIGHTED && dw != NX_UNWEIGHTED;
	if (in) memcpy(sources_of(t), sources, (size_t)in * sizeof *sources);
	if (out) memcpy(dests_of(t), dests, (size_t)out * sizeof *dests);
	if (t->weighted && in && sw != NX_WEIGHTS_EMPTY)
		memcpy(source_weights_of(t), sw, (size_t)in * sizeof *sw);
	if (t->weighted && out && dw != NX_WEIGHTS_EMPTY)
		memcpy(dest_weights_of(t), dw, (size_t)out * sizeof *dw);
	return t;
}

long mid_dist_graph_create_adjacent(nx_t comm_old, int indegree, const int *sources, const int *sourceweights,
				    int outdegree, const int *destinations, const int *destweights, nx_t info,
				    int reorder, nx_t *comm_dist_graph)
{
	(void)info;
	LIVE(comm_old);
	if (indegree < 0 || outdegree < 0) FAIL(comm_old, NX_ERR_ARG);
	long g = gate_enter(c);
	if (g) return g;
	struct vtopo *t = adjacency(indegree, sources, sourceweights, outdegree, destinations, destweights);
	int e = t ? create(c, t, reorder, comm_dist_graph) : NX_ERR_NO_MEM;
	gate_leave();
	RESULT(comm_old, e);
}

/* The real MPI finds out who is whose neighbour; its answer becomes the record. */
static struct vtopo *ask_neighbours(rh_t real, int *e)
{
	int in, out, weighted;
	*e = drv->dist_graph_neighbors_count(real, &in, &out, &weighted);
	if (*e) return NULL;
	struct vtopo *t = topo_new(NX_DIST_GRAPH, in, out, 2 * ((size_t)in + (size_t)out));
	if (!t) {
		*e = NX_ERR_NO_MEM;
		return NULL;
	}
	t->weighted = weighted;
	int *sw = weighted ? source_weights_of(t) : NX_UNWEIGHTED;
	int *dw = weighted ? dest_weights_of(t) : NX_UNWEIGHTED;
	*e = drv->dist_graph_neighbors(real, in, sources_of(t), sw, out, dests_of(t), dw);
	return t;
}

static int create_dist(struct vcomm *c, int n, const int *sources, const int *degrees, const int *dests,
		       const int *w, int reorder, nx_t *out)
{
	rh_t real;
	int e = drv->dist_graph_create(RCOMM(c->handle), n, sources, degrees, dests, w, drv->info_null,
				       reorder, &real);
	if (e) return e;
	struct vtopo *t = ask_neighbours(real, &e);
	return e ? e : comm_adopt(real, c->errh, t, out);
}

long mid_dist_graph_create(nx_t comm_old, int n, const int *sources, const int *degrees,
			   const int *destinations, const int *weights, nx_t info, int reorder,
			   nx_t *comm_dist_graph)
{
	(void)info;
	LIVE(comm_old);
	RESULT(comm_old, GATED(c, create_dist(c, n, sources, degrees, destinations, weights, reorder,
					      comm_dist_graph)));
}

/* -- Cartesian queries ----------------------------------------------------------------------------------- */

static void coords_of(struct vtopo *t, int rank, int32_t *coords)
{
	for (int i = t->n - 1; i >= 0; i--) {
		coords[i] = rank % dims_of(t)[i];
		rank /= dims_of(t)[i];
	}
}

/* Row-major rank; a coordinate outside a non-periodic dimension returns NX_PROC_NULL. */
static int rank_at(struct vtopo *t, const int32_t *coords)
{
	int rank = 0;
	for (int i = 0; i < t->n; i++) {
		int d = dims_of(t)[i], x = coords[i];
		if (x < 0 || x >= d) {
			if (!periods_of(t)[i]) return NX_PROC_NULL;
			x = ((x % d) + d) % d;
		}
		rank = rank * d + x;
	}
	return rank;
}

long mid_topo_test(nx_t comm, int *status)
{
	LIVE(comm);
	*status = c->topo ? c->topo->kind : NX_UNDEFINED;
	return 0;
}

long mid_cartdim_get(nx_t comm, int *ndims)
{
	WITH_TOPOLOGY(comm, NX_CART);
	*ndims = t->n;
	return 0;
}

long mid_cart_get(nx_t comm, int maxdims, int *dims, int *periods, int *coords)
{
	WITH_TOPOLOGY(comm, NX_CART);
	int32_t *x = malloc((size_t)(t->n + 1) * sizeof *x);
	if (!x) FAIL(comm, NX_ERR_NO_MEM);
	coords_of(t, c->rank, x);
	for (int i = 0; i < t->n && i < maxdims; i++) {
		dims[i] = dims_of(t)[i];
		periods[i] = periods_of(t)[i];
		coords[i] = x[i];
	}
	free(x);
	return 0;
}

long mid_cart_rank(nx_t comm, const int *coords, int *rank)
{
	WITH_TOPOLOGY(comm, NX_CART);
	*rank = rank_at(t, coords);
	if (*rank == NX_PROC_NULL) FAIL(comm, NX_ERR_ARG);
	return 0;
}

long mid_cart_coords(nx_t comm, int rank, int maxdims, int *coords)
{
	WITH_TOPOLOGY(comm, NX_CART);
	if ((unsigned)rank >= (unsigned)c->size) FAIL(comm, NX_ERR_RANK);
	if (maxdims < t->n) FAIL(comm, NX_ERR_DIMS);
	coords_of(t, rank, coords);
	return 0;
}

long mid_cart_shift(nx_t comm, int direction, int disp, int *rank_source, int *rank_dest)
{
	WITH_TOPOLOGY(comm, NX_CART);
	if (direction < 0 || direction >= t->n) FAIL(comm, NX_ERR_DIMS);
	int32_t *x = malloc((size_t)t->n * sizeof *x);
	if (!x) FAIL(comm, NX_ERR_NO_MEM);
	coords_of(t, c->rank, x);
	int32_t here = x[direction];
	x[direction] = here + disp;
	*rank_dest = rank_at(t, x);
	x[direction] = here - disp;
	*rank_source = rank_at(t, x);
	free(x);
	return 0;
}

/* Ranks that agree in the dimensions left out form a communicator of the others. */
static int create_sub(struct vcomm *c, const int *remain, nx_t *out)
{
	struct vtopo *t = c->topo;
	int n = 0, color = 0, key = 0;
	int32_t *x = malloc((size_t)(t->n + 1) * sizeof *x);
	struct vtopo *s = topo_new(NX_CART, 0, 0, 2 * (size_t)t->n);
	if (!x || !s) {
		free(x);
		return NX_ERR_NO_MEM;
	}
	coords_of(t, c->rank, x);
	for (int i = 0; i < t->n; i++) n += remain[i] != 0;
	s->n = n;
	for (int i = 0, k = 0; i < t->n; i++) {
		int *part = remain[i] ? &key : &color;
		*part = *part * dims_of(t)[i] + x[i];
		if (!remain[i]) continue;
		dims_of(s)[k] = dims_of(t)[i];
		periods_of(s)[k++] = periods_of(t)[i];
	}
	free(x);
	rh_t real;
	int e = drv->comm_split(RCOMM(c->handle), color, key, &real);
	if (!e) e = topo_attach(&real, s);
	return e ? e : comm_adopt(real, c->errh, s, out);
}

long mid_cart_sub(nx_t comm, const int *remain_dims, nx_t *newcomm)
{
	WITH_TOPOLOGY(comm, NX_CART);
	(void)t;
	RESULT(comm, GATED(c, create_sub(c, remain_dims, newcomm)));
}

/* Open MPI gives a process its rank also where the topology has none of that number. */
static void no_rank_beyond(int64_t nodes, int *rank)
{
	if (*rank >= nodes) *rank = NX_UNDEFINED;
}

long mid_cart_map(nx_t comm, int ndims, const int *dims, const int *periods, int *newrank)
{
	LIVE(comm);
	int64_t nodes = 1;
	int e = drv->cart_map(RCOMM(comm), ndims, dims, periods, newrank);
	for (int i = 0; !e && i < ndims && nodes <= c->size; i++) nodes *= dims[i];
	if (!e) no_rank_beyond(nodes, newrank);
	RESULT(comm, e);
}

long mid_dims_create(int nnodes, int ndims, int *dims)
{
	RESULT(NX_COMM_WORLD, drv->dims_create(nnodes, ndims, dims));
}

/* -- graph queries --------------------------------------------------------------------------------------- */

long mid_graphdims_get(nx_t comm, int *nnodes, int *nedges)
{
	WITH_TOPOLOGY(comm, NX_GRAPH);
	*nnodes = t->n;
	*nedges = t->m;
	return 0;
}

long mid_graph_get(nx_t comm, int maxindex, int maxedges, int *index, int *edges)
{
	WITH_TOPOLOGY(comm, NX_GRAPH);
	for (int i = 0; i < t->n && i < maxindex; i++) index[i] = index_of(t)[i];
	for (int i = 0; i < t->m && i < maxedges; i++) edges[i] = edges_of(t)[i];
	return 0;
}

static int first_edge(struct vtopo *t, int rank) { return rank ? index_of(t)[rank - 1] : 0; }

long mid_graph_neighbors_count(nx_t comm, int rank, int *nneighbors)
{
	WITH_TOPOLOGY(comm, NX_GRAPH);
	if ((unsigned)rank >= (unsigned)t->n) FAIL(comm, NX_ERR_RANK);
	*nneighbors = index_of(t)[rank] - first_edge(t, rank);
	return 0;
}

long mid_graph_neighbors(nx_t comm, int rank, int maxneighbors, int *neighbors)
{
	WITH_TOPOLOGY(comm, NX_GRAPH);
	if ((unsigned)rank >= (unsigned)t->n) FAIL(comm, NX_ERR_RANK);
	int first = first_edge(t, rank), n = index_of(t)[rank] - first;
	for (int i = 0; i < n && i < maxneighbors; i++) neighbors[i] = edges_of(t)[first + i];
	return 0;
}

long mid_graph_map(nx_t comm, int nnodes, const int *index, const int *edges, int *newrank)
{
	LIVE(comm);
	(void)c;
	int e = drv->graph_map(RCOMM(comm), nnodes, index, edges, newrank);
	if (!e) no_rank_beyond(nnodes, newrank);
	RESULT(comm, e);
}

long mid_dist_graph_neighbors_count(nx_t comm, int *indegree, int *outdegree, int *weighted)
{
	WITH_TOPOLOGY(comm, NX_DIST_GRAPH);
	*indegree = t->n;
	*outdegree = t->m;
	*weighted = t->weighted;
	return 0;
}

static void copy_some(int32_t *to, const int32_t *from, int n, int max)
{
	for (int i = 0; i < n && i < max; i++) to[i] = from[i];
}

long mid_dist_graph_neighbors(nx_t comm, int maxindegree, int *sources, int *sourceweights, int maxoutdegree,
			      int *destinations, int *destweights)
{
	WITH_TOPOLOGY(comm, NX_DIST_GRAPH);
	copy_some(sources, sources_of(t), t->n, maxindegree);
	copy_some(destinations, dests_of(t), t->m, maxoutdegree);
	if (!t->weighted) return 0;
	if (sourceweights != NX_UNWEIGHTED) copy_some(sourceweights, source_weights_of(t), t->n, maxindegree);
	if (destweights != NX_UNWEIGHTED) copy_some(destweights, dest_weights_of(t), t->m, maxoutdegree);
	return 0;
}
