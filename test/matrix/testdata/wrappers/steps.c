/* steps FILE CODE [INPUT]: takes steps until FILE is there, adding up, and ends with CODE. Rank 0 prints every tenth step, and
 * with INPUT reads a line of its standard input before each. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int rank, size, one = 1, n, over = 0;
	long sum = 0, line = 0;
	char text[100];
	if (argc < 3) return 4;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (int i = 1; !over; i++) {
		if (argc > 3 && rank == 0 && i % 10 == 0 && (!fgets(text, sizeof text, stdin) || atol(text) != ++line))
			return 3;
		MPI_Allreduce(&one, &n, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		sum += n;
		if (n != size || sum != (long)size * i) return 2;
		if (rank == 0 && i % 10 == 0) printf("step %d\n", i), fflush(stdout);
		usleep(5000);
		over = rank == 0 && access(argv[1], F_OK) == 0;
		MPI_Bcast(&over, 1, MPI_INT, 0, MPI_COMM_WORLD);
	}
	if (rank == 0) printf("%d ranks, sum %s\n", size, sum % size ? "wrong" : "right");
	MPI_Finalize();
	return atoi(argv[2]);
}
