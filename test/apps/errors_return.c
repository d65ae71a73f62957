/* test_doc: MPI_ERRORS_RETURN set before the checkpoint holds after it, on the world and on a duplicate that inherited
 * it; an error class is right before and after; a user's error handler is still called. */
#include "app.h"

static int called;

static void handler(MPI_Comm *c, int *code, ...)
{
	(void)c, (void)code;
	called++;
}

static int class_of_bad_send(MPI_Comm c)
{
	int x = 0, size, code, class;

	MPI_Comm_size(c, &size);
	code = MPI_Send(&x, 1, MPI_INT, size + 3, 0, c);
	MPI_Error_class(code, &class);
	return class;
}

int main(int argc, char **argv)
{
	struct app a;
	MPI_Comm dup, own;
	MPI_Errhandler eh;

	app_begin(&a, argc, argv);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_dup(MPI_COMM_WORLD, &dup);
	MPI_Comm_dup(MPI_COMM_WORLD, &own);
	MPI_Comm_create_errhandler(handler, &eh);
	MPI_Comm_set_errhandler(own, eh);
	MPI_Errhandler_free(&eh);
	CHECK(&a, class_of_bad_send(MPI_COMM_WORLD) == MPI_ERR_RANK, "error class before");
	app_moment(&a);
	CHECK(&a, class_of_bad_send(MPI_COMM_WORLD) == MPI_ERR_RANK, "error class on the world");
	CHECK(&a, class_of_bad_send(dup) == MPI_ERR_RANK, "error class on the duplicate");
	CHECK(&a, class_of_bad_send(own) == MPI_ERR_RANK && called == 1, "user's handler was called %d times", called);
	MPI_Comm_get_errhandler(dup, &eh);
	CHECK(&a, eh == MPI_ERRORS_RETURN, "error handler of the duplicate");
	MPI_Comm_free(&dup);
	MPI_Comm_free(&own);
	MPI_Barrier(MPI_COMM_WORLD);
	app_result(&a, 0, "errors", (uint64_t)called);
	return app_end(&a);
}
