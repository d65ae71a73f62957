/* files.c: what a dataset costs the program that writes it by SCR's calls, beside the same without them.
 *
 *   files blocked DIR BYTES ROUNDS    a file of each rank: written plainly into DIR, and through libscr; seconds
 *   files empty ROUNDS                a dataset without files, and its Bcast and Allreduce alone; microseconds
 *
 * Rank 0 prints a line for each round: plain, and through libscr; the slowest rank's time. Between the two
 * there is a pause, in which nodes make redundancy. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "scr.h"

static int rank;

static double slowest(double mine)
{
	double all;
	MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return all;
}

static void put(const char *path, const char *bytes, size_t n)
{
	FILE *f = fopen(path, "w");
	setvbuf(f, NULL, _IONBF, 0);
	for (size_t at = 0; f && at < n; at += 1 << 20)
		if (fwrite(bytes + at, 1 << 20, 1, f) != 1) break;
	if (!f || fclose(f)) perror(path), MPI_Abort(MPI_COMM_WORLD, 2);
}

static void blocked(const char *dir, size_t n, int rounds)
{
	char *bytes = malloc(n), path[4096], name[64], routed[SCR_MAX_FILENAME];
	for (size_t i = 0; i < n; i++) bytes[i] = (char)(i * 2654435761u >> 13);
	for (int i = 0; i < rounds; i++) {
		snprintf(path, sizeof path, "%s/plain.%d", dir, rank);
		MPI_Barrier(MPI_COMM_WORLD);
		double t = MPI_Wtime();
		put(path, bytes, n);
		MPI_Barrier(MPI_COMM_WORLD);
		double plain = slowest(MPI_Wtime() - t);
		unlink(path);
		snprintf(name, sizeof name, "d%d", i);
		MPI_Barrier(MPI_COMM_WORLD);
		t = MPI_Wtime();
		SCR_Start_output(name, SCR_FLAG_CHECKPOINT);
		snprintf(path, sizeof path, "%s/f.%d", name, rank);
		SCR_Route_file(path, routed);
		put(routed, bytes, n);
		SCR_Complete_output(1);
		double scr = slowest(MPI_Wtime() - t);
		if (rank == 0) printf("%.6f %.6f\n", plain, scr), fflush(stdout);
		usleep(3000000);
	}
}

static void empty(int rounds)
{
	char packet[1100] = "";
	for (int i = 0; i < rounds; i++) {
		int one = 1, all;
		MPI_Barrier(MPI_COMM_WORLD);
		double t = MPI_Wtime();
		MPI_Bcast(packet, sizeof packet, MPI_BYTE, 0, MPI_COMM_WORLD);
		MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
		double plain = slowest(MPI_Wtime() - t);
		MPI_Barrier(MPI_COMM_WORLD);
		t = MPI_Wtime();
		SCR_Start_output("e", SCR_FLAG_CHECKPOINT);
		SCR_Complete_output(1);
		double scr = slowest(MPI_Wtime() - t);
		if (rank == 0) printf("%.2f %.2f\n", plain * 1e6, scr * 1e6), fflush(stdout);
		usleep(100000);
	}
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (SCR_Init() != SCR_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
	if (argc == 5 && !strcmp(argv[1], "blocked")) blocked(argv[2], strtoul(argv[3], 0, 10), atoi(argv[4]));
	else if (argc == 3 && !strcmp(argv[1], "empty")) empty(atoi(argv[2]));
	else if (rank == 0) fprintf(stderr, "files: see files.c\n");
	SCR_Finalize();
	return MPI_Finalize();
}
