/* test_doc: conjugate gradients on a one-dimensional Laplacian; the dot products go through Allreduce in 64-bit fixed
 * point, so that their sums are the same in any order and under any MPI. */
#include "app.h"
#include <math.h>

enum { N = 2000 };

struct cg { double x[N + 2], r[N + 2], p[N + 2], q[N + 2]; };

static double dot(const double *x, const double *y)
{
	int64_t part = 0, all;
	double s = 0;

	for (int i = 1; i <= N; i++)
		s += x[i] * y[i];
	part = llround(ldexp(s, 20));
	MPI_Allreduce(&part, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
	return ldexp((double)all, -20);
}

static void halo(const struct app *a, double *p)
{
	int left = a->rank > 0 ? a->rank - 1 : MPI_PROC_NULL, right = a->rank < a->size - 1 ? a->rank + 1 : MPI_PROC_NULL;

	p[0] = p[N + 1] = 0;
	MPI_Sendrecv(&p[1], 1, MPI_DOUBLE, left, 1, &p[N + 1], 1, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Sendrecv(&p[N], 1, MPI_DOUBLE, right, 2, &p[0], 1, MPI_DOUBLE, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void start(const struct app *a, struct cg *c, long iter)
{
	memset(c, 0, sizeof *c);
	for (int i = 1; i <= N; i++)
		c->r[i] = c->p[i] = (double)(mix4(a->seed, (uint64_t)iter, (uint64_t)(a->rank * N + i), 2) % 64) - 32;
}

/* One step; returns the new square of the residual. */
static double step(const struct app *a, struct cg *c, double rr)
{
	double alpha, next;

	halo(a, c->p);
	for (int i = 1; i <= N; i++)
		c->q[i] = 2.5 * c->p[i] - c->p[i - 1] - c->p[i + 1];
	alpha = rr / dot(c->p, c->q);
	for (int i = 1; i <= N; i++)
		c->x[i] += alpha * c->p[i], c->r[i] -= alpha * c->q[i];
	next = dot(c->r, c->r);
	for (int i = 1; i <= N; i++)
		c->p[i] = c->r[i] + next / rr * c->p[i];
	return next;
}

int main(int argc, char **argv)
{
	static struct cg c;
	struct app a;
	double rr = 0;

	app_begin(&a, argc, argv);
	for (long iter = 0; iter < a.iters; iter++) {
		uint64_t bits;
		app_progress(&a, iter);
		if (iter % 25 == 0) {
			CHECK(&a, iter == 0 || rr < 1e-2, "residual %g after 25 steps", rr);
			start(&a, &c, iter);
			rr = dot(c.r, c.r);
		}
		if (rr > 1e-3)                   /* fixed point ends here */
			rr = step(&a, &c, rr);
		memcpy(&bits, &rr, sizeof bits);
		app_result(&a, iter, "cg", mix2(bits, hash_bytes(c.x, sizeof c.x)));
		app_compute(&a, a.pace);
	}
	return app_end(&a);
}
