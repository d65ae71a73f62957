/* files.c: a program that computes step by step, and writes and reads its checkpoints as files, in one of the ways
 * that programs have. It knows nothing of Byssus. What it prints at its end depends on every step of every rank, and
 * on nothing else.
 *
 *   files STEPS [way=WAY] [every=N] [size=BYTES] [ms=MILLISECONDS] [from=KEY] [until=FILE] [keep=N]
 *
 * WAY: ranks   rst.STEP.RANK, by each rank
 *      one     rst.STEP, by rank 0, which has gathered all
 *      shared  rst.STEP, by all ranks, each its part (MPI-IO)
 *      dirs    rank<RANK>/STEP/data and rank<RANK>/STEP/more/size, by each rank
 *      temp    rst.STEP.RANK, by each rank as rst.STEP.RANK.tmp, renamed then
 *      append  rst.STEP.RANK, by each rank, opened three times, first anew and then to append
 *      excl    rst.STEP.RANK, by each rank, O_EXCL | O_NOFOLLOW, then linked to copy.STEP.RANK
 * every: steps between checkpoints; size: of a rank's cells; ms: that a step takes at least; from: goes on from this
 * checkpoint, "newest": from the newest that the directory shows; until: it does its last step when there is such a
 * file; keep: removes all but so many of its checkpoints. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int rank, ranks;
static long step, steps = 10, every = 1, size = 1000, ms, keep;
static char from[64], until[200], way[16] = "ranks";
static uint64_t *cells;

__attribute__((noreturn)) static void fail(const char *what, const char *path)
{
	fprintf(stderr, "files: rank %d: step %ld: %s %s: %s\n", rank, step, what, path, strerror(errno));
	MPI_Abort(MPI_COMM_WORLD, 7);
	exit(7);
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 31) * 0x7fb5d329728ea185;
	x = (x ^ x >> 27) * 0x81dadef4bc2dd44d;
	return x ^ x >> 33;
}

static int is(const char *name) { return !strcmp(way, name); }

static void put(FILE *f, const char *path, const void *data, size_t n)
{
	if (!f || fwrite(data, 1, n, f) != n || fclose(f)) fail("write", path);
}

static void get(const char *path, void *data, size_t n)
{
	FILE *f = fopen(path, "r");
	if (!f || fread(data, 1, n, f) != n || fgetc(f) != EOF) fail("read", path);
	fclose(f);
}

static size_t bytes(void) { return (size_t)size / 8 * 8; }

/* The name of a rank's file of a checkpoint. */
static const char *name_of(char *to, long key, const char *end)
{
	if (is("one") || is("shared")) sprintf(to, "rst.%ld%s", key, end);
	else if (is("dirs")) sprintf(to, "rank%d/%ld/data%s", rank, key, end);
	else sprintf(to, "rst.%ld.%d%s", key, rank, end);
	return to;
}

static void all_shared(const char *path, int writes)
{
	MPI_File f;
	MPI_Offset at = (MPI_Offset)(bytes() * (size_t)rank);
	int mode = writes ? MPI_MODE_CREATE | MPI_MODE_WRONLY : MPI_MODE_RDONLY;
	if (MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &f)) fail("MPI_File_open", path);
	int e = writes ? MPI_File_write_at_all(f, at, cells, (int)bytes(), MPI_BYTE, MPI_STATUS_IGNORE)
		       : MPI_File_read_at_all(f, at, cells, (int)bytes(), MPI_BYTE, MPI_STATUS_IGNORE);
	if (e || MPI_File_close(&f)) fail("MPI_File_read or write", path);
}

static void by_one(const char *path, int writes)
{
	uint64_t *all = malloc(bytes() * (size_t)ranks + 1);
	if (writes) MPI_Gather(cells, (int)bytes(), MPI_BYTE, all, (int)bytes(), MPI_BYTE, 0, MPI_COMM_WORLD);
	if (rank == 0 && writes) put(fopen(path, "w"), path, all, bytes() * (size_t)ranks);
	if (rank == 0 && !writes) get(path, all, bytes() * (size_t)ranks);
	if (!writes) MPI_Scatter(all, (int)bytes(), MPI_BYTE, cells, (int)bytes(), MPI_BYTE, 0, MPI_COMM_WORLD);
	free(all);
}

static void in_dirs(const char *path)
{
	char dir[64], more[96];
	sprintf(dir, "rank%d", rank), mkdir(dir, 0777);
	sprintf(dir, "rank%d/%ld", rank, step), mkdir(dir, 0777);
	sprintf(more, "%s/more", dir), mkdir(more, 0777);
	put(fopen(path, "w"), path, cells, bytes());
	strcat(more, "/size");
	put(fopen(more, "w"), more, &size, sizeof size);
}

static void in_pieces(const char *path)
{
	size_t third = bytes() / 3;
	put(fopen(path, "w"), path, cells, third);
	put(fopen(path, "a"), path, (char *)cells + third, third);
	put(fopen(path, "a"), path, (char *)cells + 2 * third, bytes() - 2 * third);
}

static void exclusively(const char *path)
{
	char copy[80];
	unlink(path);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0640);
	if (fd < 0) fail("open", path);
	if (open(path, O_WRONLY | O_CREAT | O_EXCL, 0640) >= 0 || errno != EEXIST) fail("made twice", path);
	put(fdopen(fd, "w"), path, cells, bytes());
	sprintf(copy, "copy.%ld.%d", step, rank), unlink(copy);
	if (link(path, copy)) fail("link", copy);
}

static void write_all(void)
{
	char path[80], other[80];
	name_of(path, step, "");
	if (is("one")) by_one(path, 1);
	else if (is("shared")) all_shared(path, 1);
	else if (is("dirs")) in_dirs(path);
	else if (is("append")) in_pieces(path);
	else if (is("excl")) exclusively(path);
	else if (is("temp")) {
		name_of(other, step, ".tmp");
		put(fopen(other, "w"), other, cells, bytes());
		if (rename(other, path)) fail("rename", path);
	} else
		put(fopen(path, "w"), path, cells, bytes());
	if (keep && step > keep * every && (rank == 0 || !(is("one") || is("shared")))) unlink(name_of(path, step - keep * every, ""));
}

/* The newest checkpoint that the directory shows, as programs look for it. */
static long newest(void)
{
	char path[32] = ".";
	long found = 0, key;
	if (is("dirs")) sprintf(path, "rank%d", rank);
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		if (sscanf(e->d_name, is("dirs") ? "%ld" : "rst.%ld", &key) == 1 && key > found) found = key;
	if (d) closedir(d);
	MPI_Allreduce(&found, &key, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
	return key;
}

static void restart(void)
{
	char path[80];
	step = strcmp(from, "newest") ? atol(from) : newest();
	if (!step) return;
	name_of(path, step, "");
	if (is("one")) by_one(path, 0);
	else if (is("shared")) all_shared(path, 0);
	else get(path, cells, bytes());
	if (rank == 0) fprintf(stderr, "files: goes on from step %ld\n", step);
}

static void options(int argc, char **argv)
{
	if (argc > 1) steps = atol(argv[1]);
	for (int i = 2; i < argc; i++)
		if (!(sscanf(argv[i], "way=%15s", way) || sscanf(argv[i], "every=%ld", &every) || sscanf(argv[i], "size=%ld", &size) ||
		      sscanf(argv[i], "ms=%ld", &ms) || sscanf(argv[i], "from=%63s", from) ||
		      sscanf(argv[i], "until=%199s", until) || sscanf(argv[i], "keep=%ld", &keep)))
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
	for (long i = 0; i < size / 8; i++) cells[i] = mix((uint64_t)(rank * 1000003 + i));
	if (from[0]) restart();
	while (step < steps) {
		uint64_t sum = 0, all;
		step++;
		for (long i = 0; i < size / 8; i++) sum += cells[i] = mix(cells[i] + (uint64_t)step);
		MPI_Allreduce(&sum, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
		if (size >= 8) cells[0] += all;
		if (ms) usleep((useconds_t)ms * 1000);
		wait_for_the_end();
		if (step % every == 0) write_all();
	}
	uint64_t sum = 0, all;
	for (long i = 0; i < size / 8; i++) sum ^= mix(cells[i]);
	MPI_Allreduce(&sum, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
	if (rank == 0) printf("step %ld of %ld: %016lx\n", step, steps, (unsigned long)all);
	return MPI_Finalize();
}
