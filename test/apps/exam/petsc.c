/* test_doc: PETSc as a library: a DMDA's ghost exchange and matrices, KSP solvers by turns (CG with ILU, GMRES with a
 * Jacobi preconditioner, BiCGStab), and SNES for a reaction, over many time steps.
 *
 * A field on a square obeys a heat equation with a cubic reaction. Each step solves it implicitly and prints the norms.
 * Arguments: steps and grid. Rank 0 prints; its lines are the same in every undisturbed run. */
#include <petscdmda.h>
#include <petscsnes.h>

typedef struct {
	DM da;
	Vec old;
	PetscReal dt;
} Heat;

/* residual is the reaction's: u - old - dt * u (1 - u^2), point by point, plus diffusion over the ghosts. */
static PetscErrorCode residual(SNES snes, Vec u, Vec f, void *ctx)
{
	Heat *h = ctx;
	DMDALocalInfo in;
	Vec local;
	PetscScalar **x, **o, **r;

	(void)snes;
	PetscCall(DMDAGetLocalInfo(h->da, &in));
	PetscCall(DMGetLocalVector(h->da, &local));
	PetscCall(DMGlobalToLocal(h->da, u, INSERT_VALUES, local));
	PetscCall(DMDAVecGetArrayRead(h->da, local, &x));
	PetscCall(DMDAVecGetArrayRead(h->da, h->old, &o));
	PetscCall(DMDAVecGetArray(h->da, f, &r));
	for (int j = in.ys; j < in.ys + in.ym; j++)
		for (int i = in.xs; i < in.xs + in.xm; i++) {
			PetscScalar lap = x[j][i - 1] + x[j][i + 1] + x[j - 1][i] + x[j + 1][i] - 4 * x[j][i];

			r[j][i] = x[j][i] - o[j][i] - h->dt * (lap + x[j][i] * (1 - x[j][i] * x[j][i]));
		}
	PetscCall(DMDAVecRestoreArray(h->da, f, &r));
	PetscCall(DMDAVecRestoreArrayRead(h->da, h->old, &o));
	PetscCall(DMDAVecRestoreArrayRead(h->da, local, &x));
	PetscCall(DMRestoreLocalVector(h->da, &local));
	return 0;
}

/* matrix is I - dt * Laplacian, periodic. */
static PetscErrorCode matrix(Heat *h, Mat a)
{
	DMDALocalInfo in;

	PetscCall(DMDAGetLocalInfo(h->da, &in));
	for (int j = in.ys; j < in.ys + in.ym; j++)
		for (int i = in.xs; i < in.xs + in.xm; i++) {
			MatStencil row = { .i = i, .j = j };
			MatStencil col[5] = { row, row, row, row, row };
			PetscScalar v[5] = { 1 + 4 * h->dt, -h->dt, -h->dt, -h->dt, -h->dt };

			col[1].i--, col[2].i++, col[3].j--, col[4].j++;
			PetscCall(MatSetValuesStencil(a, 1, &row, 5, col, v, INSERT_VALUES));
		}
	PetscCall(MatAssemblyBegin(a, MAT_FINAL_ASSEMBLY));
	PetscCall(MatAssemblyEnd(a, MAT_FINAL_ASSEMBLY));
	return 0;
}

/* linear makes one diffusion step with a solver of its own, made and destroyed here. */
static PetscErrorCode linear(Heat *h, Mat a, Vec u, long step, PetscInt *iterations)
{
	static const char *const ksps[] = { KSPCG, KSPGMRES, KSPBCGS }, *const pcs[] = { PCBJACOBI, PCJACOBI, PCASM };
	KSP ksp;
	PC pc;

	PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
	PetscCall(KSPSetOperators(ksp, a, a));
	PetscCall(KSPSetType(ksp, ksps[step % 3]));
	PetscCall(KSPGetPC(ksp, &pc));
	PetscCall(PCSetType(pc, pcs[step % 3]));
	PetscCall(KSPSetTolerances(ksp, 1e-10, PETSC_DEFAULT, PETSC_DEFAULT, 500));
	PetscCall(VecCopy(u, h->old));
	PetscCall(KSPSolve(ksp, h->old, u));
	PetscCall(KSPGetIterationNumber(ksp, iterations));
	PetscCall(KSPDestroy(&ksp));
	return 0;
}

/* start fills the field with numbers that depend on the place alone. */
static PetscErrorCode start(Heat *h, Vec u)
{
	DMDALocalInfo in;
	PetscScalar **x;

	PetscCall(DMDAGetLocalInfo(h->da, &in));
	PetscCall(DMDAVecGetArray(h->da, u, &x));
	for (int j = in.ys; j < in.ys + in.ym; j++)
		for (int i = in.xs; i < in.xs + in.xm; i++)
			x[j][i] = PetscSinReal(0.7 * i) * PetscCosReal(1.3 * j + 0.01 * i * j);
	PetscCall(DMDAVecRestoreArray(h->da, u, &x));
	return 0;
}

static PetscErrorCode steps(Heat *h, long n)
{
	Vec u;
	Mat a;
	SNES snes;

	PetscCall(DMCreateGlobalVector(h->da, &u));
	PetscCall(VecDuplicate(u, &h->old));
	PetscCall(DMCreateMatrix(h->da, &a));
	PetscCall(matrix(h, a));
	PetscCall(SNESCreate(PETSC_COMM_WORLD, &snes));
	PetscCall(SNESSetDM(snes, h->da));
	PetscCall(SNESSetFunction(snes, NULL, residual, h));
	PetscCall(SNESSetFromOptions(snes));
	PetscCall(start(h, u));
	for (long s = 1; s <= n; s++) {
		PetscInt its, newton = 0;
		PetscReal two, most;

		PetscCall(linear(h, a, u, s, &its));
		if (s % 10 == 0) {
			PetscCall(VecCopy(u, h->old));
			PetscCall(SNESSolve(snes, NULL, u));
			PetscCall(SNESGetIterationNumber(snes, &newton));
		}
		PetscCall(VecNorm(u, NORM_2, &two));
		PetscCall(VecNorm(u, NORM_INFINITY, &most));
		PetscCall(PetscPrintf(PETSC_COMM_WORLD, "result %ld %d %d %.15e %.15e\n", s, (int)its, (int)newton, (double)two, (double)most));
	}
	PetscCall(SNESDestroy(&snes));
	PetscCall(MatDestroy(&a));
	PetscCall(VecDestroy(&h->old));
	PetscCall(VecDestroy(&u));
	return 0;
}

int main(int argc, char **argv)
{
	Heat h = { .dt = 0.3 };
	PetscInt grid = argc > 2 ? atoi(argv[2]) : 200;
	long n = argc > 1 ? atol(argv[1]) : 100;

	PetscCall(PetscInitialize(&argc, &argv, NULL, NULL));
	PetscCall(DMDACreate2d(PETSC_COMM_WORLD, DM_BOUNDARY_PERIODIC, DM_BOUNDARY_PERIODIC, DMDA_STENCIL_STAR, grid, grid,
	                       PETSC_DECIDE, PETSC_DECIDE, 1, 1, NULL, NULL, &h.da));
	PetscCall(DMSetUp(h.da));
	PetscCall(steps(&h, n));
	PetscCall(DMDestroy(&h.da));
	PetscCall(PetscFinalize());
	return 0;
}
