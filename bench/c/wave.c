/* wave.c: a seismic shot: acoustic waves in three dimensions, of order 8 in space and 2 in time, from a
 * Ricker wavelet in layers of rock, which the edges absorb. It makes snapshots of its memory by byssus.h, and
 * goes on from them. An MPI program, for ranks that share processors: who waits leaves them to others.
 *
 *   wave [steps=N] [every=N] [size=ZxYxX] [out=FILE] [until=FILE]
 *
 * every: steps between snapshots, 0: there are none, and nothing of Byssus is called; out: where rank 0
 * writes a slice of the wave field, and of the velocities there (bench/demo/picture.go makes a PNG of it);
 * until: it does its last step when there is such a file. Each rank has a slab across z. Rank 0 prints,
 * with the time of day where it says @:
 *
 *   begun @T                      all ranks have left MPI_Init
 *   restored STEP SECONDS @T      all have the bytes of a snapshot, for which the slowest waited so long
 *   step N @T                     every tenth step
 *   snapshot STEP SECONDS         in bys_start and bys_commit for it, of the slowest rank
 *   loop SECONDS STEPS            of the steps without what is before and after them
 *   snapshots N                   that count
 *   field DIGEST STEP             of all bytes of both time levels, and the last step
 *
 * A snapshot is started between two steps, and looked after between the next ones: the program waits for it
 * only when the next one is due. The field follows from the arguments to the last bit. */
#define _GNU_SOURCE
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "byssus.h"

#define R 4             /* cells that the stencil reaches */
#define SPONGE 20       /* cells that absorb, at each edge */
#define CELL 10.0       /* metres */
#define TICK 1.3e-3     /* seconds that a step is */
#define PEAK 18.0       /* hertz, of the source */

static int rank, ranks;
static long steps = 400, every, nz = 384, ny = 176, nx = 176;
static char out[400], until[400];
static long first, planes; /* of this rank's slab */
static float *field[2]; /* time levels: planes, and R of each neighbour; a step writes over the older one */
static float *speed, *sponge_x; /* (velocity * TICK / CELL)^2 of each row; what the edges leave at each x */
static uint64_t step;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "wave: rank %d: step %lu: %s: %s\n", rank, (unsigned long)step, what, why);
	MPI_Abort(MPI_COMM_WORLD, 7);
}

static double slowest(double mine)
{
	double all;
	MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return all;
}

static void options(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!(sscanf(argv[i], "steps=%ld", &steps) || sscanf(argv[i], "every=%ld", &every) ||
		      sscanf(argv[i], "size=%ldx%ldx%ld", &nz, &ny, &nx) == 3 ||
		      sscanf(argv[i], "out=%399s", out) || sscanf(argv[i], "until=%399s", until)))
			fail("arguments", argv[i]);
	if (nz / ranks < R || ny < 2 * R + 1 || nx < 2 * R + 1) fail("arguments", "the grid is too small");
}

/* -- the model --------------------------------------------------------------------------------------- */

/* Metres a second: layers, which dip along z; y is the depth. */
static double velocity(long z, long y)
{
	double depth = (double)y / (double)ny, along = (double)z / (double)nz;
	if (depth < 0.28) return 1500;
	if (depth < 0.50 + 0.10 * along) return 2000;
	if (depth < 0.72 + 0.06 * sin(9 * along)) return 2700;
	return 3400;
}

/* What the edges leave of a wave in one step, at cell i of n. */
static double sponge(long i, long n)
{
	long from = i < n - 1 - i ? i : n - 1 - i;
	double deep = from < SPONGE ? (double)(SPONGE - from) * 0.012 : 0;
	return exp(-deep * deep);
}

static size_t row(long z, long y) { return (size_t)((z + R) * ny + y) * (size_t)nx; } /* z in the slab */

static void *memory(size_t bytes)
{
	void *p = NULL;
	if (posix_memalign(&p, 4096, bytes)) fail("memory", "there is not enough");
	memset(p, 0xee, bytes); /* which must not be what is computed with */
	return p;
}

static void model(void)
{
	first = rank * nz / ranks, planes = (rank + 1) * nz / ranks - first;
	for (int i = 0; i < 2; i++) field[i] = memory((size_t)((planes + 2 * R) * ny * nx) * sizeof(float));
	speed = memory((size_t)(planes * ny) * sizeof(float));
	sponge_x = memory((size_t)nx * sizeof(float));
	for (long x = 0; x < nx; x++) sponge_x[x] = (float)sponge(x, nx);
	for (long z = 0; z < planes; z++)
		for (long y = 0; y < ny; y++) {
			double c = velocity(first + z, y) * TICK / CELL;
			speed[z * ny + y] = (float)(c * c);
		}
}

static void still(void)
{
	for (int i = 0; i < 2; i++) memset(field[i], 0, (size_t)((planes + 2 * R) * ny * nx) * sizeof(float));
	step = 0;
}

/* -- a step ------------------------------------------------------------------------------------------ */

/* A row of the next field: q has the one before, and gets the next; p is the field, whose rows and
 * planes lie dy and dz apart. */
static void one_row(const float *restrict p, float *restrict q, long dy, long dz, float c, float g)
{
	const float w0 = 3 * -205.0f / 72, w1 = 8.0f / 5, w2 = -1.0f / 5, w3 = 8.0f / 315, w4 = -1.0f / 560;
	for (long x = R; x < nx - R; x++) {
		const float *a = p + x;
		float l = w0 * a[0];
		l += w1 * (a[-1] + a[1] + a[-dy] + a[dy] + a[-dz] + a[dz]);
		l += w2 * (a[-2] + a[2] + a[-2 * dy] + a[2 * dy] + a[-2 * dz] + a[2 * dz]);
		l += w3 * (a[-3] + a[3] + a[-3 * dy] + a[3 * dy] + a[-3 * dz] + a[3 * dz]);
		l += w4 * (a[-4] + a[4] + a[-4 * dy] + a[4 * dy] + a[-4 * dz] + a[4 * dz]);
		float left = g * sponge_x[x];
		q[x] = left * (2 * a[0] - left * q[x] + c * l);
	}
}

/* Planes of the slab, from..to-1; what is at the grid's edge stays zero. */
static void compute(long from, long to)
{
	const float *p = field[step & 1];
	float *q = field[(step + 1) & 1];
	for (long z = from; z < to; z++) {
		if (first + z < R || first + z >= nz - R) continue;
		for (long y = R; y < ny - R; y++)
			one_row(p + row(z, y), q + row(z, y), nx, ny * nx, speed[z * ny + y],
				(float)(sponge(first + z, nz) * sponge(y, ny)));
	}
}

/* The source: a Ricker wavelet in one cell. */
static void shoot(void)
{
	long z = nz / 2 - first, y = SPONGE + R + 2 < ny / 2 ? SPONGE + R + 2 : ny / 2;
	if (z < 0 || z >= planes) return;
	double u = M_PI * PEAK * ((double)step * TICK - 1.2 / PEAK);
	field[(step + 1) & 1][row(z, y) + (size_t)(nx / 2)] += (float)((1 - 2 * u * u) * exp(-u * u));
}

/* Waits, and leaves the processor to others meanwhile. */
static void wait_for(int n, MPI_Request *requests)
{
	for (int done = 0;;) {
		MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE);
		if (done) return;
		usleep(20);
	}
}

/* Neighbours' planes come while those are computed that do not need them. */
static void advance(void)
{
	float *p = field[step & 1];
	size_t cells = (size_t)(R * ny * nx);
	int above = rank ? rank - 1 : MPI_PROC_NULL, below = rank < ranks - 1 ? rank + 1 : MPI_PROC_NULL;
	MPI_Request r[4];
	MPI_Irecv(p + row(-R, 0), (int)cells, MPI_FLOAT, above, 1, MPI_COMM_WORLD, &r[0]);
	MPI_Irecv(p + row(planes, 0), (int)cells, MPI_FLOAT, below, 2, MPI_COMM_WORLD, &r[1]);
	MPI_Isend(p + row(0, 0), (int)cells, MPI_FLOAT, above, 2, MPI_COMM_WORLD, &r[2]);
	MPI_Isend(p + row(planes - R, 0), (int)cells, MPI_FLOAT, below, 1, MPI_COMM_WORLD, &r[3]);
	long from = R < planes ? R : planes, to = planes - R > from ? planes - R : from;
	int done;
	for (long z = from; z < to; z += R) {
		compute(z, z + R < to ? z + R : to);
		MPI_Testall(4, r, &done, MPI_STATUSES_IGNORE);
	}
	wait_for(4, r);
	compute(0, from);
	compute(to, planes);
	shoot();
	step++;
}

/* -- snapshots --------------------------------------------------------------------------------------- */

static bys_desc snapshots;
static int pending;        /* one is started, and not committed yet */
static struct made { double blocked; uint64_t step; } *made;
static int began;          /* so many have been */
static long counted;

/* Looks whether the snapshot that is pending counts now, or waits until it is known. */
static void commit(long timeout)
{
	if (!pending) return;
	double begun = now();
	int result = bys_commit(snapshots, timeout);
	made[began - 1].blocked += now() - begun;
	if (result == BYS_TIMEOUT) return;
	pending = 0;
	if (result == BYS_OK) counted++;
	else if (result != BYS_EFAILED) fail("bys_commit", bys_error(snapshots));
	else if (rank == 0)
		fprintf(stderr, "wave: step %lu: %s\n", (unsigned long)step, bys_error(snapshots));
}

static void start(void)
{
	commit(BYS_BLOCK);
	double begun = now();
	int result = bys_start(snapshots, step);
	made[began++] = (struct made){now() - begun, step};
	if (result != BYS_OK && result != BYS_EROOM) fail("bys_start", bys_error(snapshots));
	pending = 1;
	commit(BYS_TEST);
}

/* The field at a snapshot, or at the beginning. */
static void begin(void)
{
	size_t bytes = (size_t)(planes * ny * nx) * sizeof(float);
	bys_region regions[] = {{.id = 1, .at = field[0] + row(0, 0), .bytes = bytes},
				{.id = 2, .at = field[1] + row(0, 0), .bytes = bytes},
				{.id = 3, .at = &step, .bytes = sizeof step}};
	bys_group group = {.member = (uint32_t)rank, .members = (uint32_t)ranks};
	uint64_t tag;
	still();
	if (!every) return;
	made = memory((size_t)(steps / every + 1) * sizeof *made);
	for (int i = 0; i < 2; i++) memset(field[i] + row(0, 0), 0xee, bytes);
	double begun = now();
	int result = bys_restore(&snapshots, regions, 3, &group, &tag, BYS_BLOCK);
	if (result < 0) fail("bys_restore", bys_error(snapshots));
	if (result == BYS_NOTHING) {
		still();
		return;
	}
	if (tag != step) fail("bys_restore", "the step is not that of the snapshot");
	double took = slowest(now() - begun);
	if (rank == 0) printf("restored %lu %.3f @%.6f\n", (unsigned long)step, took, now());
}

/* -- the end ----------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 31) * 0x7fb5d329728ea185;
	x = (x ^ x >> 27) * 0x81dadef4bc2dd44d;
	return x ^ x >> 33;
}

/* Of the whole field, whatever the number of ranks is. */
static uint64_t digest(void)
{
	uint64_t sum = 0, all;
	for (int i = 0; i < 2; i++)
		for (size_t k = 0, n = (size_t)(planes * ny * nx); k < n; k++) {
			uint32_t bits;
			memcpy(&bits, field[(step + (uint64_t)i) & 1] + row(0, 0) + k, sizeof bits);
			sum += mix(((uint64_t)(first * ny * nx) + k) * 2 + (uint64_t)i + mix(bits));
		}
	MPI_Allreduce(&sum, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
	return all;
}

/* The slice through the source: a line "wave NZ NY", the field, the velocities; float, z by z. */
static void picture(void)
{
	float *mine = memory((size_t)(planes * ny) * sizeof(float));
	float *all = rank ? NULL : memory((size_t)(nz * ny) * sizeof(float));
	int counts[ranks], at[ranks];
	for (int i = 0; i < ranks; i++) {
		at[i] = (int)(i * nz / ranks * ny);
		counts[i] = (int)((i + 1) * nz / ranks * ny) - at[i];
	}
	for (long i = 0; i < planes * ny; i++) mine[i] = field[step & 1][row(0, i) + (size_t)(nx / 2)];
	MPI_Gatherv(mine, (int)(planes * ny), MPI_FLOAT, all, counts, at, MPI_FLOAT, 0, MPI_COMM_WORLD);
	FILE *f = rank ? NULL : fopen(out, "w");
	if (f) {
		fprintf(f, "wave %ld %ld\n", nz, ny);
		fwrite(all, sizeof(float), (size_t)(nz * ny), f);
		for (long i = 0; i < nz * ny; i++) all[i] = (float)velocity(i / ny, i % ny);
		fwrite(all, sizeof(float), (size_t)(nz * ny), f);
	}
	if (!rank && (!f || ferror(f) | fclose(f))) fail(out, "cannot be written");
	free(mine), free(all);
}

/* So that whatever a test lets happen happens before the end; the field does not depend on it. */
static void wait_for_the_end(void)
{
	int there = !until[0];
	for (int all = 0; !all; usleep(10000)) {
		if (!there) there = !access(until, F_OK);
		MPI_Allreduce(&there, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
		if (all) return;
	}
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	setvbuf(stdout, NULL, _IOLBF, 0);
	options(argc, argv);
	double begun = slowest(now());
	if (rank == 0) printf("begun @%.6f\n", begun);
	model();
	begin();
	uint64_t from = step;
	double loop = slowest(now());
	while ((long)step < steps) {
		if ((long)step == steps - 1) wait_for_the_end();
		advance();
		commit(BYS_TEST);
		if (every && (long)step % every == 0 && (long)step < steps) start();
		if (step % 10 == 0 && rank == 0) printf("step %lu @%.6f\n", (unsigned long)step, now());
	}
	commit(BYS_BLOCK);
	loop = slowest(now()) - loop;
	for (int i = 0; i < began; i++) {
		double blocked = slowest(made[i].blocked);
		if (rank == 0) printf("snapshot %lu %.6f\n", (unsigned long)made[i].step, blocked);
	}
	if (out[0]) picture();
	uint64_t all = digest();
	if (rank == 0)
		printf("loop %.6f %ld\nsnapshots %ld\nfield %016lx %lu\n", loop, steps - (long)from, counted,
		       (unsigned long)all, (unsigned long)step);
	if (snapshots && bys_finish(&snapshots, 0, BYS_BLOCK) != BYS_OK)
		fail("bys_finish", bys_error(snapshots));
	return MPI_Finalize();
}
