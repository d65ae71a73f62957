/* main.c: the C side of the Fortran programs: main, arguments and result lines (app.h). The program itself is a file
 * beside this one, whose subroutine initialises MPI and finalises it. */
#include "../app.h"

static struct app a;

void fortran_part(const int *iters);

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

/* Does Byssus hold the program? Its programs lie in the lower part of the address space. */
int c_held(void) { return (uintptr_t)&a < 0x500000000000; }

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

/* An attribute of C's: a pointer, which a copy has moved. */
static int c_copies(MPI_Comm comm, int keyval, void *extra, void *from, void *to, int *flag)
{
	(void)comm, (void)keyval;
	*(void **)to = (char *)from + *(int *)extra;
	*flag = 1;
	return MPI_SUCCESS;
}
void c_sets(const MPI_Fint *comm, int *keyval)
{
	static int step = 8;
	MPI_Comm c = MPI_Comm_f2c(*comm);
	MPI_Comm_create_keyval(c_copies, MPI_COMM_NULL_DELETE_FN, keyval, &step);
	MPI_Comm_set_attr(c, *keyval, (void *)7000000000);
}

/* What C is given the address of when Fortran has set it, and of predefined attributes. */
intptr_t c_address_of(const MPI_Fint *comm, const int *keyval)
{
	MPI_Aint *value;
	int flag;
	MPI_Comm_get_attr(MPI_Comm_f2c(*comm), *keyval, &value, &flag);
	return flag ? *value : -1;
}
int c_int_of(const MPI_Fint *comm, int which)
{
	const int keys[] = { MPI_TAG_UB, MPI_WTIME_IS_GLOBAL, MPI_UNIVERSE_SIZE, MPI_APPNUM, MPI_LASTUSEDCODE };
	int *value, flag;
	MPI_Comm_get_attr(MPI_Comm_f2c(*comm), keys[which - 1], &value, &flag);
	return flag ? *value : -1;
}

/* A status of Fortran's, as C sees it, and one that C has changed. */
int c_sees(const MPI_Fint *in, MPI_Fint *out, const MPI_Fint *type)
{
	MPI_Status s;
	int count;
	MPI_Status_f2c(in, &s);
	MPI_Get_count(&s, MPI_Type_f2c(*type), &count);
	count += 1000 * s.MPI_SOURCE;
	s.MPI_SOURCE += 100;
	s.MPI_TAG++;
	s.MPI_ERROR = 7;
	MPI_Status_c2f(&s, out);
	return count;
}

int main(int argc, char **argv)
{
	app_args(&a, argc, argv);
	int iters = (int)a.iters;
	fortran_part(&iters);
	return 0;
}
