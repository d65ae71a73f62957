/* micro.c: how long single MPI operations take between two ranks.
 *
 * Rank 0 prints one line per operation: its name, the best and the median time in nanoseconds over many short
 * batches. Short batches, because on a shared machine the best of many is what repeats.
 * Context: an ordinary MPI program, 2 ranks; it knows nothing of Byssus and runs natively and under it. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCHES 60
#define SMALL 8
#define LARGE (1 << 20)
#define WAVE 8

static char out[LARGE], in[LARGE];
static int rank, peer;

static void comm_rank(int n)
{
	for (int i = 0; i < n; i++) {
		int r;
		MPI_Comm_rank(MPI_COMM_WORLD, &r);
		__asm__ volatile("" :: "r"(r));
	}
}

static void type_size(int n)
{
	for (int i = 0; i < n; i++) {
		int s;
		MPI_Type_size(MPI_DOUBLE, &s);
		__asm__ volatile("" :: "r"(s));
	}
}

static void ping_pong(int n, int bytes)
{
	for (int i = 0; i < n; i++) {
		if (rank == 0) {
			MPI_Send(out, bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
			MPI_Recv(in, bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else {
			MPI_Recv(in, bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			MPI_Send(out, bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
		}
	}
}

static void ping_pong_small(int n)
{
	ping_pong(n, SMALL);
}

static void ping_pong_large(int n)
{
	ping_pong(n, LARGE);
}

static void sendrecv(int n)
{
	for (int i = 0; i < n; i++)
		MPI_Sendrecv(out, SMALL, MPI_BYTE, peer, 2, in, SMALL, MPI_BYTE, peer, 2, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
}

static void allreduce(int n)
{
	double a = 1, b;
	for (int i = 0; i < n; i++)
		MPI_Allreduce(&a, &b, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void barrier(int n)
{
	for (int i = 0; i < n; i++)
		MPI_Barrier(MPI_COMM_WORLD);
}

static void iallreduce(int n)
{
	double a = 1, b;
	MPI_Request req;
	for (int i = 0; i < n; i++) {
		MPI_Iallreduce(&a, &b, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &req);
		MPI_Wait(&req, MPI_STATUS_IGNORE);
	}
}

static void wave(int n)
{
	MPI_Request req[2 * WAVE];
	for (int i = 0; i < n; i++) {
		for (int k = 0; k < WAVE; k++)
			MPI_Irecv(in + k * SMALL, SMALL, MPI_BYTE, peer, k, MPI_COMM_WORLD, &req[k]);
		for (int k = 0; k < WAVE; k++)
			MPI_Isend(out + k * SMALL, SMALL, MPI_BYTE, peer, k, MPI_COMM_WORLD, &req[WAVE + k]);
		MPI_Waitall(2 * WAVE, req, MPI_STATUSES_IGNORE);
	}
}

/* The same two with no call that waits inside the library: what is left to anybody who must be able to stop a rank that
 * waits, before he has done anything of his own. */
static void polled_recv(void)
{
	MPI_Request req;
	int done = 0;
	MPI_Irecv(in, SMALL, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &req);
	while (!done)
		MPI_Test(&req, &done, MPI_STATUS_IGNORE);
}

static void ping_pong_polled(int n)
{
	for (int i = 0; i < n; i++) {
		if (rank == 0) {
			MPI_Send(out, SMALL, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
			polled_recv();
		} else {
			polled_recv();
			MPI_Send(out, SMALL, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
		}
	}
}

static void wave_polled(int n)
{
	MPI_Request req[2 * WAVE];
	for (int i = 0; i < n; i++) {
		int done = 0;
		for (int k = 0; k < WAVE; k++)
			MPI_Irecv(in + k * SMALL, SMALL, MPI_BYTE, peer, k, MPI_COMM_WORLD, &req[k]);
		for (int k = 0; k < WAVE; k++)
			MPI_Isend(out + k * SMALL, SMALL, MPI_BYTE, peer, k, MPI_COMM_WORLD, &req[WAVE + k]);
		while (!done)
			MPI_Testall(2 * WAVE, req, &done, MPI_STATUSES_IGNORE);
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Times f in batches of n operations. */
static void measure(const char *name, void (*f)(int), int n, int divisor)
{
	double ns[BATCHES];
	f(n);
	for (int b = 0; b < BATCHES; b++) {
		MPI_Barrier(MPI_COMM_WORLD);
		double t = MPI_Wtime();
		f(n);
		ns[b] = (MPI_Wtime() - t) * 1e9 / n / divisor;
	}
	qsort(ns, BATCHES, sizeof ns[0], by_value);
	if (rank == 0)
		printf("micro %s %.3f %.3f\n", name, ns[0], ns[BATCHES / 2]);
}

int main(int argc, char **argv)
{
	int size;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (size != 2) {
		fprintf(stderr, "micro: started with %d ranks, want 2\n", size);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	peer = 1 - rank;
	memset(out, rank + 1, sizeof out);
	memset(in, 0, sizeof in);
	measure("CommRank", comm_rank, 1000000, 1);
	measure("TypeSize", type_size, 1000000, 1);
	measure("PingPong8B", ping_pong_small, 10000, 2);
	measure("Sendrecv8B", sendrecv, 10000, 1);
	measure("Allreduce8B", allreduce, 10000, 1);
	measure("Barrier", barrier, 10000, 1);
	measure("Wave8x8B", wave, 2000, 1);
	measure("PingPong1MiB", ping_pong_large, 50, 2);
	measure("PingPong8BPolled", ping_pong_polled, 10000, 2);
	measure("Wave8x8BPolled", wave_polled, 2000, 1);
	measure("Iallreduce8B", iallreduce, 10000, 1);
	MPI_Finalize();
	return 0;
}
