/* test_doc: a heat stencil in floating point, split in rows, with non-blocking halo exchange that overlaps the inner
 * rows; the residual by Allreduce with MAX, which is exact in any order. */
#include "app.h"

enum { W = 512, H = 128 };

typedef double row[W];

static void exchange(const struct app *a, row *u, MPI_Request rq[4])
{
	int up = a->rank > 0 ? a->rank - 1 : MPI_PROC_NULL, down = a->rank < a->size - 1 ? a->rank + 1 : MPI_PROC_NULL;

	MPI_Irecv(u[0], W, MPI_DOUBLE, up, 1, MPI_COMM_WORLD, &rq[0]);
	MPI_Irecv(u[H + 1], W, MPI_DOUBLE, down, 2, MPI_COMM_WORLD, &rq[1]);
	MPI_Isend(u[1], W, MPI_DOUBLE, up, 2, MPI_COMM_WORLD, &rq[2]);
	MPI_Isend(u[H], W, MPI_DOUBLE, down, 1, MPI_COMM_WORLD, &rq[3]);
}

static double rows(row *v, row *u, int from, int to)
{
	double most = 0;

	for (int i = from; i <= to; i++)
		for (int j = 1; j < W - 1; j++) {
			double n = 0.25 * (u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1]), d = n - u[i][j];
			v[i][j] = n;
			d = d < 0 ? -d : d;
			most = d > most ? d : most;
		}
	return most;
}

static double step(struct app *a, row *v, row *u)
{
	MPI_Request rq[4];
	double inner, top, bottom, most, all;

	exchange(a, u, rq);
	inner = rows(v, u, 2, H - 1);
	app_compute(a, a->pace);
	MPI_Waitall(4, rq, MPI_STATUSES_IGNORE);
	top = rows(v, u, 1, 1);
	bottom = rows(v, u, H, H);
	most = inner > top ? inner : top;
	most = most > bottom ? most : bottom;
	MPI_Allreduce(&most, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return all;
}

int main(int argc, char **argv)
{
	row *u, *v, *t;
	struct app a;

	app_begin(&a, argc, argv);
	u = (row *)app_alloc(&a, sizeof(row) * (H + 2));
	v = (row *)app_alloc(&a, sizeof(row) * (H + 2));
	for (int i = 0; i < H + 2; i++)
		for (int j = 0; j < W; j++)
			u[i][j] = v[i][j] = (double)(mix4(a.seed, (uint64_t)(a.rank * H + i), (uint64_t)j, 1) % 1000);
	for (long iter = 0; iter < a.iters; iter++) {
		double residual;
		uint64_t bits;
		app_progress(&a, iter);
		residual = step(&a, v, u);
		t = u, u = v, v = t;
		memcpy(&bits, &residual, sizeof bits);
		app_result(&a, iter, "stencil", mix2(bits, hash_bytes(u[1 + iter % H], sizeof(row))));
	}
	app_stay(&a);
	free(u), free(v);
	return app_end(&a);
}
