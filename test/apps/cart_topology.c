/* test_doc: a Cartesian communicator and a row of it keep their topology over a restart. */
#include "app.h"

int main(int argc, char **argv)
{
	struct app a;
	MPI_Comm cart, row;
	int dims[2] = { 0, 0 }, periods[2] = { 1, 0 }, keep[2] = { 1, 0 }, coords[2], before[2][2], after[2][2], status, n;

	app_begin(&a, argc, argv);
	MPI_Dims_create(a.size, 2, dims);
	MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &cart);
	MPI_Cart_sub(cart, keep, &row);
	MPI_Cart_shift(cart, 0, 1, &before[0][0], &before[0][1]);
	MPI_Cart_shift(cart, 1, 1, &before[1][0], &before[1][1]);
	app_moment(&a);
	MPI_Topo_test(cart, &status);
	CHECK(&a, status == MPI_CART, "topology %d after the restart, want Cartesian", status);
	MPI_Cart_shift(cart, 0, 1, &after[0][0], &after[0][1]);
	MPI_Cart_shift(cart, 1, 1, &after[1][0], &after[1][1]);
	CHECK(&a, memcmp(before, after, sizeof before) == 0, "neighbours changed");
	MPI_Cart_get(cart, 2, dims, periods, coords);
	CHECK(&a, periods[0] == 1 && periods[1] == 0, "periods %d,%d", periods[0], periods[1]);
	MPI_Cartdim_get(row, &n);
	CHECK(&a, n == 1, "row has %d dimensions", n);
	MPI_Sendrecv(&a.rank, 1, MPI_INT, after[0][1], 1, &n, 1, MPI_INT, after[0][0], 1, cart, MPI_STATUS_IGNORE);
	app_result(&a, 0, "cart", mix4((uint64_t)dims[0], (uint64_t)dims[1], (uint64_t)coords[0], (uint64_t)coords[1]));
	MPI_Comm_free(&row);
	MPI_Comm_free(&cart);
	return app_end(&a);
}
