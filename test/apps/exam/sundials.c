/* test_doc: SUNDIALS as a library: CVODE with a parallel N_Vector, BDF and a GMRES of its own without a matrix; the
 * right-hand side exchanges ghosts by Isend and Irecv.
 *
 * A reaction and diffusion of one species on a ring. Each output time prints the norm and the integrator's counters.
 * Arguments: output times and points of each rank. Rank 0 prints. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <mpi.h>
#include <cvode/cvode.h>
#include <nvector/nvector_parallel.h>
#include <sundials/sundials_types.h>
#include <sunlinsol/sunlinsol_spgmr.h>

struct ring {
	MPI_Comm comm;
	int rank, size, n;
};

static int rhs(realtype t, N_Vector y, N_Vector ydot, void *user)
{
	struct ring *r = user;
	realtype *u = N_VGetArrayPointer(y), *f = N_VGetArrayPointer(ydot), ends[2] = { u[0], u[r->n - 1] }, ghost[2];
	int left = (r->rank + r->size - 1) % r->size, right = (r->rank + 1) % r->size;
	MPI_Request q[4];

	MPI_Irecv(&ghost[0], 1, MPI_DOUBLE, left, 1, r->comm, &q[0]);
	MPI_Irecv(&ghost[1], 1, MPI_DOUBLE, right, 2, r->comm, &q[1]);
	MPI_Isend(&ends[1], 1, MPI_DOUBLE, right, 1, r->comm, &q[2]);
	MPI_Isend(&ends[0], 1, MPI_DOUBLE, left, 2, r->comm, &q[3]);
	MPI_Waitall(4, q, MPI_STATUSES_IGNORE);
	for (int i = 0; i < r->n; i++) {
		realtype a = i ? u[i - 1] : ghost[0], b = i < r->n - 1 ? u[i + 1] : ghost[1];

		f[i] = 40 * (a - 2 * u[i] + b) + u[i] * (1 - u[i] * u[i]) + 0.3 * sin(t + 0.01 * (r->rank * r->n + i));
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct ring r = { .n = argc > 2 ? atoi(argv[2]) : 4000 };
	int times = argc > 1 ? atoi(argv[1]) : 100;

	MPI_Init(&argc, &argv);
	MPI_Comm_dup(MPI_COMM_WORLD, &r.comm);
	MPI_Comm_rank(r.comm, &r.rank);
	MPI_Comm_size(r.comm, &r.size);
	SUNContext ctx;
	SUNContext_Create(&r.comm, &ctx);
	N_Vector y = N_VNew_Parallel(r.comm, r.n, (sunindextype)r.n * r.size, ctx);
	for (int i = 0; i < r.n; i++)
		N_VGetArrayPointer(y)[i] = sin(0.05 * (r.rank * r.n + i)) * 1.5;
	void *cv = CVodeCreate(CV_BDF, ctx);
	CVodeInit(cv, rhs, 0, y);
	CVodeSStolerances(cv, 1e-8, 1e-10);
	CVodeSetUserData(cv, &r);
	CVodeSetMaxNumSteps(cv, 100000);
	SUNLinearSolver ls = SUNLinSol_SPGMR(y, SUN_PREC_NONE, 20, ctx);
	CVodeSetLinearSolver(cv, ls, NULL);
	for (int k = 1; k <= times; k++) {
		realtype t;
		long taken, calls;
		int bad = CVode(cv, 0.25 * k, y, &t, CV_NORMAL);
		double norm = sqrt(N_VDotProd(y, y)), most = N_VMaxNorm(y);

		CVodeGetNumSteps(cv, &taken);
		CVodeGetNumRhsEvals(cv, &calls);
		if (r.rank == 0) {
			printf("result %d %d %ld %ld %.15e %.15e\n", k, bad, taken, calls, norm, most);
			fflush(stdout);
		}
	}
	CVodeFree(&cv);
	SUNLinSolFree(ls);
	N_VDestroy(y);
	SUNContext_Free(&ctx);
	MPI_Comm_free(&r.comm);
	MPI_Finalize();
	return 0;
}
