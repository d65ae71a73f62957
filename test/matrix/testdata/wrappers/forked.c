/* forked: begins the MPI in a child that has executed nothing. */
#include <mpi.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int status;
	if (fork()) return wait(&status) < 0;
	MPI_Init(&argc, &argv);
	printf("computed\n");
	MPI_Finalize();
	return 0;
}
