/* snapshots.c: what a snapshot of memory costs its program, beside plain copies in the same minute.
 *
 *   snapshots start DIR BYTES ROUNDS     bys_start of a region, beside memcpy into memory that was used before
 *   snapshots track DIR BYTES ROUNDS     the same of one that is watched (BYS_TRACK), of which one page in a hundred was written
 *   snapshots hand DIR BYTES ROUNDS      the same of one that is handed over (BYS_HANDOVER)
 *   snapshots commit DIR BYTES ROUNDS    bys_commit of it, beside writing a file in DIR over
 *   snapshots few DIR BYTES ROUNDS       the same, of which the program has written one page in a hundred
 *
 * Rank 0 prints a line for each round: plain, and the snapshot's; seconds of the slowest rank. Rounds that make slots are
 * not printed. But with few, every byte differs from round to round. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "byssus.h"

static int rank, ranks;

static double slowest(double begun)
{
	double mine = MPI_Wtime() - begun, all;
	MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return all;
}

static double now(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
	return MPI_Wtime();
}

static void check(int ok, const char *what)
{
	if (!ok) fprintf(stderr, "rank %d: %s\n", rank, what), MPI_Abort(MPI_COMM_WORLD, 2);
}

static void over(int fd, const char *bytes, size_t n)
{
	for (size_t at = 0; at < n; at += 1 << 20) check(pwrite(fd, bytes + at, 1 << 20, (off_t)at) == 1 << 20, "write");
}

/* compute changes all, or of each hundred pages one. */
static void compute(uint64_t *bytes, size_t n, size_t round, int few)
{
	if (!few) {
		for (size_t k = 0; k < n / 8; k++) bytes[k] = (k + round) * 0x9e3779b97f4a7c15;
		return;
	}
	for (size_t page = round * 37 % 100; page < n / 4096; page += 100)
		for (size_t k = 0; k < 512; k++) bytes[512 * page + k] = (k + page + round) * 0x9e3779b97f4a7c15;
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	check(argc == 5, "start, track, hand, commit or few, DIR, BYTES, ROUNDS");
	int track = !strcmp(argv[1], "track"), hand = !strcmp(argv[1], "hand"), rounds = atoi(argv[4]);
	int few = track || !strcmp(argv[1], "few"), commit = !strcmp(argv[1], "few") || !strcmp(argv[1], "commit");
	size_t n = strtoull(argv[3], NULL, 10);
	uint64_t *bytes = malloc(n);
	char *copy = malloc(n), path[4096];
	snprintf(path, sizeof path, "%s/plain.%d", argv[2], rank);
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	check(fd >= 0 && bytes && copy, path);
	memset(copy, 1, n);
	bys_region region = {.id = 1, .capture = track ? BYS_TRACK : hand ? BYS_HANDOVER : BYS_COPY, .at = bytes, .bytes = n};
	bys_group group = {.member = (uint32_t)rank, .members = (uint32_t)ranks};
	bys_desc d = NULL;
	check(bys_init(&d, &region, 1, &group, BYS_BLOCK) == BYS_OK, bys_error(d));
	for (int i = -3; i < rounds; i++) {
		compute(bytes, n, (size_t)(i + 9), few && i > -3);
		double t = now();
		if (commit) over(fd, (char *)bytes, n);
		else memcpy(copy, bytes, n);
		__asm__ volatile("" : : "r"(copy) : "memory"); /* the copy is looked at */
		double plain = slowest(t);
		t = now();
		check(bys_start(d, (uint64_t)(i + 3)) == BYS_OK, bys_error(d));
		double started = slowest(t);
		t = now();
		check(bys_commit(d, BYS_BLOCK) == BYS_OK, bys_error(d));
		double committed = slowest(t);
		if (rank == 0 && i >= 0) printf("%.6f %.6f\n", plain, commit ? committed : started), fflush(stdout);
	}
	unlink(path);
	bys_finish(&d, 0, BYS_BLOCK);
	return MPI_Finalize();
}
