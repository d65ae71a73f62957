/* test_doc: a Cartesian communicator that lives over the whole run: halo exchange by Cart_shift (PROC_NULL at the
 * open ends, periodic in the other dimension), sub-grids by Cart_sub, coordinates and ranks, topology queries. */
#include "app.h"

enum { N = 24 };

struct grid {
	MPI_Comm cart, row;
	int dims[2], periods[2], coords[2], rank;
	uint64_t cell[N + 2][N + 2];
};

static void open_grid(struct app *a, struct grid *g)
{
	int keep[2] = { 0, 1 };

	g->dims[0] = g->dims[1] = 0;
	g->periods[0] = 0, g->periods[1] = 1;
	MPI_Dims_create(a->size, 2, g->dims);
	MPI_Cart_create(MPI_COMM_WORLD, 2, g->dims, g->periods, 0, &g->cart);
	MPI_Comm_rank(g->cart, &g->rank);
	MPI_Cart_coords(g->cart, g->rank, 2, g->coords);
	MPI_Cart_sub(g->cart, keep, &g->row);
	for (int i = 1; i <= N; i++)
		for (int j = 1; j <= N; j++)
			g->cell[i][j] = mix4(a->seed, (uint64_t)(g->coords[0] * N + i), (uint64_t)(g->coords[1] * N + j), 0);
}

static void check_topology(struct app *a, const struct grid *g)
{
	int dims[2], periods[2], coords[2], status, ndims, rank, n;

	MPI_Topo_test(g->cart, &status);
	CHECK(a, status == MPI_CART, "topology is %d, want Cartesian", status);
	MPI_Cartdim_get(g->cart, &ndims);
	MPI_Cart_get(g->cart, 2, dims, periods, coords);
	CHECK(a, ndims == 2 && memcmp(dims, g->dims, sizeof dims) == 0 && memcmp(coords, g->coords, sizeof coords) == 0,
	      "grid %dx%d at %d,%d", dims[0], dims[1], coords[0], coords[1]);
	CHECK(a, periods[0] == 0 && periods[1] == 1, "periods %d,%d", periods[0], periods[1]);
	coords[1] += g->dims[1];           /* periodic: the same rank */
	MPI_Cart_rank(g->cart, coords, &rank);
	CHECK(a, rank == g->rank, "Cart_rank %d, want %d", rank, g->rank);
	MPI_Cartdim_get(g->row, &ndims);
	MPI_Comm_size(g->row, &n);
	CHECK(a, ndims == 1 && n == g->dims[1], "row: %d dimensions, %d ranks", ndims, n);
}

static void halo(struct app *a, struct grid *g)
{
	MPI_Datatype column;
	int up, down, left, right;

	MPI_Type_vector(N, 1, N + 2, MPI_UINT64_T, &column);
	MPI_Type_commit(&column);
	MPI_Cart_shift(g->cart, 0, 1, &up, &down);
	MPI_Cart_shift(g->cart, 1, 1, &left, &right);
	CHECK(a, (g->coords[0] == 0) == (up == MPI_PROC_NULL), "open end: rank %d", up);
	memset(g->cell[0], 0, sizeof g->cell[0]);
	memset(g->cell[N + 1], 0, sizeof g->cell[0]);
	MPI_Sendrecv(&g->cell[1][1], N, MPI_UINT64_T, up, 1, &g->cell[N + 1][1], N, MPI_UINT64_T, down, 1, g->cart,
	             MPI_STATUS_IGNORE);
	MPI_Sendrecv(&g->cell[N][1], N, MPI_UINT64_T, down, 2, &g->cell[0][1], N, MPI_UINT64_T, up, 2, g->cart,
	             MPI_STATUS_IGNORE);
	MPI_Sendrecv(&g->cell[1][1], 1, column, left, 3, &g->cell[1][N + 1], 1, column, right, 3, g->cart, MPI_STATUS_IGNORE);
	MPI_Sendrecv(&g->cell[1][N], 1, column, right, 4, &g->cell[1][0], 1, column, left, 4, g->cart, MPI_STATUS_IGNORE);
	MPI_Type_free(&column);
}

static uint64_t update(struct grid *g)
{
	static uint64_t next[N + 2][N + 2];
	uint64_t sum = 0;

	for (int i = 1; i <= N; i++)
		for (int j = 1; j <= N; j++) {
			next[i][j] = mix(g->cell[i - 1][j] + 3 * g->cell[i + 1][j] + 5 * g->cell[i][j - 1] + 7 * g->cell[i][j + 1]);
			sum += next[i][j];
		}
	memcpy(g->cell, next, sizeof next);
	return sum;
}

int main(int argc, char **argv)
{
	static struct grid g;
	struct app a;

	app_begin(&a, argc, argv);
	open_grid(&a, &g);
	for (long iter = 0; iter < a.iters; iter++) {
		uint64_t mine, row, all;
		app_progress(&a, iter);
		check_topology(&a, &g);
		halo(&a, &g);
		mine = update(&g);
		app_compute(&a, a.pace);
		MPI_Allreduce(&mine, &row, 1, MPI_UINT64_T, MPI_SUM, g.row);
		MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, g.cart);
		app_result(&a, iter, "cart", mix3(mine, row, all));
	}
	MPI_Comm_free(&g.row);
	MPI_Comm_free(&g.cart);
	return app_end(&a);
}
