/* test_doc: hypre as a library: an IJ matrix with BoomerAMG and PCG, and a struct grid with PFMG, made anew for every
 * time step.
 *
 * Each step solves (I - dt Laplacian) u = old on a square, first through the IJ interface, then through the struct
 * one, and prints residuals and norms. Arguments: steps and grid. Rank 0 prints. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <mpi.h>
#include <HYPRE.h>
#include <HYPRE_parcsr_ls.h>
#include <HYPRE_krylov.h>
#include <HYPRE_struct_ls.h>

struct field {
	int rank, size, n;  /* the square's side; rows are dealt out in blocks */
	int first, last;    /* lines of this rank */
	double dt, *u;      /* (last - first + 1) * n values */
};

static double norm(const struct field *f)
{
	double mine = 0, all;

	for (int i = 0; i < (f->last - f->first + 1) * f->n; i++)
		mine += f->u[i] * f->u[i];
	MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	return sqrt(all);
}

/* row fills a line of the matrix in global numbers and returns its length. */
static int row(const struct field *f, int j, int i, HYPRE_BigInt *cols, double *v)
{
	int n = 0, at = j * f->n + i;
	const int dj[] = { 0, -1, 0, 0, 1 }, di[] = { 0, 0, -1, 1, 0 };

	for (int k = 0; k < 5; k++) {
		int y = j + dj[k], x = i + di[k];

		if (y < 0 || y >= f->n || x < 0 || x >= f->n)
			continue;
		cols[n] = at + dj[k] * f->n + di[k];
		v[n++] = k ? -f->dt : 1 + 4 * f->dt;
	}
	return n;
}

static HYPRE_IJVector vector(const struct field *f, const double *values)
{
	HYPRE_IJVector x;
	HYPRE_BigInt lo = (HYPRE_BigInt)f->first * f->n, hi = (HYPRE_BigInt)(f->last + 1) * f->n - 1;

	HYPRE_IJVectorCreate(MPI_COMM_WORLD, lo, hi, &x);
	HYPRE_IJVectorSetObjectType(x, HYPRE_PARCSR);
	HYPRE_IJVectorInitialize(x);
	for (HYPRE_BigInt i = lo; i <= hi; i++)
		HYPRE_IJVectorSetValues(x, 1, &i, &values[i - lo]);
	HYPRE_IJVectorAssemble(x);
	return x;
}

static HYPRE_IJMatrix matrix(const struct field *f)
{
	HYPRE_IJMatrix a;
	HYPRE_BigInt lo = (HYPRE_BigInt)f->first * f->n, hi = (HYPRE_BigInt)(f->last + 1) * f->n - 1;

	HYPRE_IJMatrixCreate(MPI_COMM_WORLD, lo, hi, lo, hi, &a);
	HYPRE_IJMatrixSetObjectType(a, HYPRE_PARCSR);
	HYPRE_IJMatrixInitialize(a);
	for (HYPRE_BigInt at = lo; at <= hi; at++) {
		HYPRE_BigInt cols[5];
		double v[5];
		HYPRE_Int n = row(f, at / f->n, at % f->n, cols, v);

		HYPRE_IJMatrixSetValues(a, 1, &n, &at, cols, v);
	}
	HYPRE_IJMatrixAssemble(a);
	return a;
}

/* multigrid makes a step by PCG with BoomerAMG, all of it made here and destroyed again. */
static double multigrid(struct field *f, int *iterations)
{
	HYPRE_IJMatrix a = matrix(f);
	HYPRE_IJVector b = vector(f, f->u), x = vector(f, f->u);
	HYPRE_ParCSRMatrix pa;
	HYPRE_ParVector pb, px;
	HYPRE_Solver pcg, amg;
	double residual;
	HYPRE_BigInt lo = (HYPRE_BigInt)f->first * f->n, hi = (HYPRE_BigInt)(f->last + 1) * f->n - 1;

	HYPRE_IJMatrixGetObject(a, (void **)&pa);
	HYPRE_IJVectorGetObject(b, (void **)&pb);
	HYPRE_IJVectorGetObject(x, (void **)&px);
	HYPRE_ParCSRPCGCreate(MPI_COMM_WORLD, &pcg);
	HYPRE_PCGSetTol(pcg, 1e-9);
	HYPRE_PCGSetMaxIter(pcg, 100);
	HYPRE_BoomerAMGCreate(&amg);
	HYPRE_BoomerAMGSetTol(amg, 0);
	HYPRE_BoomerAMGSetMaxIter(amg, 1);
	HYPRE_BoomerAMGSetRelaxType(amg, 6);
	HYPRE_PCGSetPrecond(pcg, (HYPRE_PtrToSolverFcn)HYPRE_BoomerAMGSolve, (HYPRE_PtrToSolverFcn)HYPRE_BoomerAMGSetup, amg);
	HYPRE_ParCSRPCGSetup(pcg, pa, pb, px);
	HYPRE_ParCSRPCGSolve(pcg, pa, pb, px);
	HYPRE_PCGGetNumIterations(pcg, iterations);
	HYPRE_PCGGetFinalRelativeResidualNorm(pcg, &residual);
	for (HYPRE_BigInt i = lo; i <= hi; i++)
		HYPRE_IJVectorGetValues(x, 1, &i, &f->u[i - lo]);
	HYPRE_BoomerAMGDestroy(amg);
	HYPRE_ParCSRPCGDestroy(pcg);
	HYPRE_IJVectorDestroy(x);
	HYPRE_IJVectorDestroy(b);
	HYPRE_IJMatrixDestroy(a);
	return residual;
}

/* structured makes a step by PFMG on a struct grid. */
static double structured(struct field *f, int *iterations)
{
	static int offsets[5][2] = { { 0, 0 }, { -1, 0 }, { 1, 0 }, { 0, -1 }, { 0, 1 } };
	int lower[2] = { 0, f->first }, upper[2] = { f->n - 1, f->last }, entries[5] = { 0, 1, 2, 3, 4 };
	int count = (f->last - f->first + 1) * f->n;
	double *v = malloc(sizeof *v * 5 * count), residual;
	HYPRE_StructGrid grid;
	HYPRE_StructStencil stencil;
	HYPRE_StructMatrix a;
	HYPRE_StructVector b, x;
	HYPRE_StructSolver pfmg;

	for (int i = 0; i < 5 * count; i++) {
		int j = f->first + i / 5 / f->n, k = i / 5 % f->n, e = i % 5;
		int outside = (e == 1 && k == 0) || (e == 2 && k == f->n - 1) || (e == 3 && j == 0) || (e == 4 && j == f->n - 1);

		v[i] = e == 0 ? 1 + 4 * f->dt : outside ? 0 : -f->dt;
	}
	HYPRE_StructGridCreate(MPI_COMM_WORLD, 2, &grid);
	HYPRE_StructGridSetExtents(grid, lower, upper);
	HYPRE_StructGridAssemble(grid);
	HYPRE_StructStencilCreate(2, 5, &stencil);
	for (int e = 0; e < 5; e++)
		HYPRE_StructStencilSetElement(stencil, e, offsets[e]);
	HYPRE_StructMatrixCreate(MPI_COMM_WORLD, grid, stencil, &a);
	HYPRE_StructMatrixInitialize(a);
	HYPRE_StructMatrixSetBoxValues(a, lower, upper, 5, entries, v);
	HYPRE_StructMatrixAssemble(a);
	HYPRE_StructVectorCreate(MPI_COMM_WORLD, grid, &b);
	HYPRE_StructVectorInitialize(b);
	HYPRE_StructVectorSetBoxValues(b, lower, upper, f->u);
	HYPRE_StructVectorAssemble(b);
	HYPRE_StructVectorCreate(MPI_COMM_WORLD, grid, &x);
	HYPRE_StructVectorInitialize(x);
	HYPRE_StructVectorSetBoxValues(x, lower, upper, f->u);
	HYPRE_StructVectorAssemble(x);
	HYPRE_StructPFMGCreate(MPI_COMM_WORLD, &pfmg);
	HYPRE_StructPFMGSetTol(pfmg, 1e-9);
	HYPRE_StructPFMGSetLogging(pfmg, 1);        /* else there is no residual to ask for */
	HYPRE_StructPFMGSetup(pfmg, a, b, x);
	HYPRE_StructPFMGSolve(pfmg, a, b, x);
	HYPRE_StructPFMGGetNumIterations(pfmg, iterations);
	HYPRE_StructPFMGGetFinalRelativeResidualNorm(pfmg, &residual);
	HYPRE_StructVectorGetBoxValues(x, lower, upper, f->u);
	HYPRE_StructPFMGDestroy(pfmg);
	HYPRE_StructVectorDestroy(x);
	HYPRE_StructVectorDestroy(b);
	HYPRE_StructMatrixDestroy(a);
	HYPRE_StructStencilDestroy(stencil);
	HYPRE_StructGridDestroy(grid);
	free(v);
	return residual;
}

int main(int argc, char **argv)
{
	struct field f = { .dt = 0.4, .n = argc > 2 ? atoi(argv[2]) : 100 };
	int steps = argc > 1 ? atoi(argv[1]) : 60, count;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &f.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &f.size);
	HYPRE_Init();
	f.first = f.rank * f.n / f.size;
	f.last = (f.rank + 1) * f.n / f.size - 1;
	count = (f.last - f.first + 1) * f.n;
	f.u = malloc(sizeof *f.u * count);
	for (int i = 0; i < count; i++)
		f.u[i] = sin(0.7 * (i % f.n)) + cos(1.1 * (f.first + i / f.n));
	for (int s = 1; s <= steps; s++) {
		int a, b;
		double ra = multigrid(&f, &a), na = norm(&f), rb = structured(&f, &b), nb = norm(&f);

		if (f.rank == 0) {
			printf("result %d %d %.15e %.15e %d %.15e %.15e\n", s, a, ra, na, b, rb, nb);
			fflush(stdout);
		}
	}
	free(f.u);
	HYPRE_Finalize();
	MPI_Finalize();
	return 0;
}
