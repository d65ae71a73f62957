/* steps.c: a program that computes step by step, writes its checkpoints by SCR's interface, and restarts from
 * them. What it prints at its end depends on every step of every rank, and on nothing else.
 *
 *   steps STEPS [every=N] [size=BYTES] [ms=MILLISECONDS] [files=N] [output=N] [name=ckpt] [die=RANK@STEP]
 *         [until=FILE]
 *
 * every: steps between checkpoints; size: of each file; ms: that a step takes at least; files: of each rank;
 * output: a result every so many steps; die: SIGKILL of itself, unless it has restarted; until: it does its
 * last step when there is such a file. */
#define _GNU_SOURCE
#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "scr.h"

static int rank, ranks, step, restarted;
static long steps = 10, every = 1, size = 1000, ms, files = 1, output, die_rank = -1, die_step;
static char name[64] = "ckpt";
static char until[200];
static uint64_t *cells;

static void fail(const char *what, const char *path)
{
	fprintf(stderr, "steps: rank %d: step %d: %s %s: %s\n", rank, step, what, path, strerror(errno));
	MPI_Abort(MPI_COMM_WORLD, 7);
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 31) * 0x7fb5d329728ea185;
	x = (x ^ x >> 27) * 0x81dadef4bc2dd44d;
	return x ^ x >> 33;
}

/* A file has its step, and the cells; each file other ones. */
static int put(const char *path, int number)
{
	FILE *f = fopen(path, "w");
	if (!f) return 0;
	int ok = fprintf(f, "%010d", step) == 10;
	for (long i = 0; i < size / 8; i++) {
		uint64_t x = cells[i] + (uint64_t)number;
		ok = ok && fwrite(&x, sizeof x, 1, f) == 1;
	}
	return !fclose(f) && ok;
}

static int get(const char *path, int number)
{
	FILE *f = fopen(path, "r");
	if (!f) return 0;
	int ok = fscanf(f, "%10d", &step) == 1;
	for (long i = 0; i < size / 8; i++) {
		uint64_t x;
		ok = ok && fread(&x, sizeof x, 1, f) == 1;
		if (ok && number && cells[i] != x - (uint64_t)number) ok = 0;
		if (ok) cells[i] = x - (uint64_t)number;
	}
	return ok && fgetc(f) == EOF && !fclose(f);
}

static void path_of(char *path, const char *dir, int number)
{
	if (snprintf(path, SCR_MAX_FILENAME, "%.900s/rank_%d.%d", dir, rank, number) < 0) fail("path", dir);
}

static void write_all(const char *dir, int flags)
{
	char path[SCR_MAX_FILENAME], routed[SCR_MAX_FILENAME];
	int ok = 1;
	SCR_Start_output(dir, flags);
	for (int i = 0; i < files; i++) {
		path_of(path, dir, i);
		if (SCR_Route_file(path, routed) != SCR_SUCCESS) fail("route", path);
		if (!put(routed, i)) ok = 0;
	}
	if (SCR_Complete_output(ok) != SCR_SUCCESS && rank == 0) fprintf(stderr, "steps: %s is not complete\n", dir);
}

static void begin(void)
{
	step = 0;
	for (long i = 0; i < size / 8; i++) cells[i] = mix((uint64_t)(rank * 1000003 + i));
}

static void restart(void)
{
	char dir[SCR_MAX_FILENAME], path[SCR_MAX_FILENAME], routed[SCR_MAX_FILENAME];
	for (int have = 0; SCR_Have_restart(&have, dir) == SCR_SUCCESS && have && !restarted; ) {
		int ok = SCR_Start_restart(dir) == SCR_SUCCESS;
		for (int i = 0; i < files && ok; i++) {
			path_of(path, dir, i);
			ok = SCR_Route_file(path, routed) == SCR_SUCCESS && get(routed, i);
			if (!ok) fprintf(stderr, "steps: rank %d: %s cannot be read\n", rank, path);
		}
		restarted = SCR_Complete_restart(ok) == SCR_SUCCESS;
		if (!restarted) begin();
	}
	if (restarted && rank == 0) fprintf(stderr, "steps: restarted at step %d from %s\n", step, dir);
}

static void options(int argc, char **argv)
{
	if (argc > 1) steps = atol(argv[1]);
	for (int i = 2; i < argc; i++)
		if (!(sscanf(argv[i], "every=%ld", &every) || sscanf(argv[i], "size=%ld", &size) ||
		      sscanf(argv[i], "ms=%ld", &ms) || sscanf(argv[i], "files=%ld", &files) ||
		      sscanf(argv[i], "output=%ld", &output) || sscanf(argv[i], "name=%63s", name) ||
		      sscanf(argv[i], "until=%199s", until) ||
		      sscanf(argv[i], "die=%ld@%ld", &die_rank, &die_step) == 2))
			exit(64);
}

/* So that whatever a test lets happen happens before the end; the steps do not depend on it. */
static void wait_for_the_end(void)
{
	int there = step < steps || !until[0];
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
	options(argc, argv);
	cells = calloc((size_t)size / 8 + 1, 8);
	begin();
	if (SCR_Init() != SCR_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 8);
	restart();
	int stop = 0;
	while (step < steps && !stop) {
		uint64_t sum = 0, all;
		step++;
		for (long i = 0; i < size / 8; i++) sum += cells[i] = mix(cells[i] + (uint64_t)step);
		MPI_Allreduce(&sum, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
		if (size >= 8) cells[0] += all;
		if (ms) usleep((useconds_t)ms * 1000);
		wait_for_the_end();
		if (rank == die_rank && step == die_step && !restarted) raise(SIGKILL);
		char dir[128];
		int need = 0;
		if (step % every == 0) SCR_Need_checkpoint(&need);
		if (need) snprintf(dir, sizeof dir, "%s.%d", name, step), write_all(dir, SCR_FLAG_CHECKPOINT);
		if (output && step % output == 0) snprintf(dir, sizeof dir, "out.%d", step), write_all(dir, SCR_FLAG_OUTPUT);
		SCR_Should_exit(&stop);
	}
	uint64_t sum = 0, all;
	for (long i = 0; i < size / 8; i++) sum ^= mix(cells[i]);
	MPI_Allreduce(&sum, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
	if (rank == 0) printf("step %d of %ld: %016lx\n", step, steps, (unsigned long)all);
	SCR_Finalize();
	return MPI_Finalize();
}
