/* main.c: the C side of the Fortran programs: main, arguments and result lines (app.h). The program itself is everyday.F90,
 * whose subroutine initialises MPI and finalises it. */
#include "../app.h"

static struct app a;

void everyday(const int *iters);

void app_set(const int *rank, const int *size)
{
	a.rank = *rank;
	a.size = *size;
}
void app_step(const int *iter)
{
	app_progress(&a, *iter);
	app_compute(&a, a.pace);
}
void app_value(const int *iter, const char *name, const int64_t *value)
{
	char what[16] = { 0 };
	memcpy(what, name, strcspn(name, " "));
	app_result(&a, *iter, what, (uint64_t)*value);
}
void app_wrong(const char *what)
{
	CHECK(&a, 0, "%.*s", (int)strcspn(what, "."), what);
}
void app_over(void) { app_line(&a, a.iters, "end", a.sum); }

/* A communicator and an attribute that Fortran has, as C sees them (MPI-4.1 section 19.3). */
int c_looks(const MPI_Fint *comm, const int *keyval, const int *type)
{
	MPI_Comm c = MPI_Comm_f2c(*comm);
	int size, flag, bytes;
	MPI_Aint *value;
	MPI_Comm_size(c, &size);
	MPI_Comm_get_attr(c, *keyval, &value, &flag);
	MPI_Type_size(MPI_Type_f2c(*type), &bytes);
	if (MPI_Comm_c2f(c) != *comm || !flag) return -1;
	return (int)*value + size + bytes;
}

int main(int argc, char **argv)
{
	app_args(&a, argc, argv);
	int iters = (int)a.iters;
	everyday(&iters);
	return 0;
}
