/* ranks.c: what the test's ranks do, by the first argument, between MPI_Init and MPI_Finalize. Each prints one line. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

/* The sum of all ranks, how many ranks share this rank's machine, and the first of them. */
static void sum(void)
{
	int s, first, n;
	MPI_Comm near;
	MPI_Allreduce(&rank, &s, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near);
	MPI_Comm_size(near, &n);
	MPI_Allreduce(&rank, &first, 1, MPI_INT, MPI_MIN, near);
	MPI_Comm_free(&near);
	printf("%d of %d: sum %d, %d ranks from %d on\n", rank, size, s, n, first);
}

/* The last rank leaves early, by MPI_Abort or without a word; the others wait for it. */
static void leave(int abort)
{
	if (rank < size - 1) MPI_Barrier(MPI_COMM_WORLD);
	else if (abort) MPI_Abort(MPI_COMM_WORLD, 42);
	else _exit(3);
}

/* The first rank publishes a name, the last looks it up and takes it back; a name that nobody has published is not found. */
static void names(void)
{
	char port[MPI_MAX_PORT_NAME] = "";
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	if (rank == 0) MPI_Publish_name("service", MPI_INFO_NULL, "here");
	MPI_Barrier(MPI_COMM_WORLD);
	int found = MPI_Lookup_name("service", MPI_INFO_NULL, port) == MPI_SUCCESS;
	MPI_Barrier(MPI_COMM_WORLD);
	int back = rank < size - 1 || MPI_Unpublish_name("service", MPI_INFO_NULL, port) == MPI_SUCCESS;
	MPI_Barrier(MPI_COMM_WORLD);
	int gone = MPI_Lookup_name("service", MPI_INFO_NULL, port + sizeof port / 2) != MPI_SUCCESS;
	printf("%d: found %d %s, back %d, gone %d\n", rank, found, port, back, gone);
}

/* Spawning is refused with an error. */
static void spawn(void)
{
	char *command[2] = { "/bin/true", "/bin/true" };
	int each[2] = { 1, 1 }, errors[2];
	MPI_Info info[2] = { MPI_INFO_NULL, MPI_INFO_NULL };
	MPI_Comm other;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	int r = MPI_Comm_spawn_multiple(2, command, MPI_ARGVS_NULL, each, info, 0, MPI_COMM_WORLD, &other, errors);
	printf("%d: spawn %s\n", rank, r == MPI_SUCCESS ? "went well" : "failed");
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (argc < 2) return 2;
	if (!strcmp(argv[1], "sum")) sum();
	if (!strcmp(argv[1], "abort")) leave(1);
	if (!strcmp(argv[1], "die")) leave(0);
	if (!strcmp(argv[1], "names")) names();
	if (!strcmp(argv[1], "spawn")) spawn();
	fflush(stdout);
	MPI_Finalize();
	return 0;
}
