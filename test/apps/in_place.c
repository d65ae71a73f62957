/* test_doc: files that are read and written in place are what they were at the checkpoint after every restart: a number of each rank
 * to which it adds, by a descriptor, through a shared mapping, through one whose descriptor is closed, on a file system in memory; one
 * file with a number for each rank; a file with holes that is written here and there, cut and prolonged.
 *
 * What a program reads it has computed from: with a later state of the file every one of these counts too far. */
#include "app.h"
#include <sys/mman.h>
#include <sys/stat.h>

enum { PAGE_BYTES = 4096, SPARSE = 64 << 20, STEPS = 8 };

struct files {
	char dir[64], memory[96];
	int counter, common, sparse, fast;
	volatile uint64_t *mapped, *alone;
	off_t sparse_size;
};

static int opened(struct app *a, const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT, 0600);

	CHECK(a, fd >= 0, "%s: %s", name, strerror(errno));
	return fd;
}

static int own_file(struct app *a, const char *name, off_t size)
{
	char path[128];

	snprintf(path, sizeof path, "%s.%d", name, a->rank);
	int fd = opened(a, path);
	CHECK(a, ftruncate(fd, 0) == 0 && ftruncate(fd, size) == 0, "%s: %s", path, strerror(errno));
	return fd;
}

static volatile uint64_t *map(struct app *a, int fd)
{
	void *p = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	CHECK(a, p != MAP_FAILED, "mmap: %s", strerror(errno));
	return (volatile uint64_t *)p;
}

static void open_files(struct app *a, struct files *f)
{
	snprintf(f->dir, sizeof f->dir, "in_place.%d", (int)(a->seed % 1000000));
	if (a->rank == 0)
		CHECK(a, mkdir(f->dir, 0700) == 0 || errno == EEXIST, "%s: %s", f->dir, strerror(errno));
	MPI_Barrier(MPI_COMM_WORLD);
	CHECK(a, chdir(f->dir) == 0, "%s: %s", f->dir, strerror(errno));
	f->counter = own_file(a, "counter", 8);
	int fd = own_file(a, "mapped", PAGE_BYTES);
	f->mapped = map(a, fd);
	fd = own_file(a, "alone", PAGE_BYTES);
	f->alone = map(a, fd);
	close(fd);
	f->sparse = own_file(a, "sparse", f->sparse_size = SPARSE);
	snprintf(f->memory, sizeof f->memory, "/dev/shm/in_place.%d.%d.%d", (int)getpid(), (int)(a->seed % 1000000), a->rank);
	unlink(f->memory);
	f->fast = opened(a, f->memory);
	CHECK(a, ftruncate(f->fast, 8) == 0, "%s: %s", f->memory, strerror(errno));
	if (a->rank == 0)
		CHECK(a, truncate("common", 0) == 0 || errno == ENOENT, "common: %s", strerror(errno));
	MPI_Barrier(MPI_COMM_WORLD);
	f->common = opened(a, "common");
	if (a->rank == 0)
		CHECK(a, ftruncate(f->common, 8 * a->size) == 0, "common: %s", strerror(errno));
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Adds one to a number in a file, which must be `want` then. */
static void add(struct app *a, int fd, off_t at, uint64_t want, const char *what)
{
	uint64_t x = 0;

	CHECK(a, pread(fd, &x, sizeof x, at) == sizeof x, "%s: %s", what, strerror(errno));
	x++;
	CHECK(a, x == want, "%s: found %" PRIu64 ", wanted %" PRIu64, what, x, want);
	CHECK(a, pwrite(fd, &x, sizeof x, at) == sizeof x, "%s: %s", what, strerror(errno));
}

/* A place in the file for each step; every eighth iteration it is cut to half and prolonged again. */
static void write_sparse(struct app *a, struct files *f, uint64_t n, long iter, int step)
{
	uint64_t key = mix4(a->seed, (uint64_t)a->rank, (uint64_t)(step & 3), 7), was, want;
	off_t at = (off_t)(key % (SPARSE / 8 - 1)) * 8;

	CHECK(a, pread(f->sparse, &was, sizeof was, at) == sizeof was, "sparse: %s", strerror(errno));
	want = n < STEPS || (at >= SPARSE / 2 && iter % 8 == 0 && step < 4) ? was : mix(key + n - 4);
	CHECK(a, was == want, "sparse: found %" PRIx64 " at %ld, wanted %" PRIx64, was, (long)at, want);
	was = mix(key + n);
	CHECK(a, pwrite(f->sparse, &was, sizeof was, at) == sizeof was, "sparse: %s", strerror(errno));
	if (iter % 8 == 7 && step == STEPS - 1)
		CHECK(a, ftruncate(f->sparse, SPARSE / 2) == 0 && ftruncate(f->sparse, SPARSE) == 0, "sparse: %s", strerror(errno));
}

static void work(struct app *a, struct files *f, long iter)
{
	struct stat st;

	for (int step = 0; step < STEPS; step++) {
		uint64_t n = (uint64_t)iter * STEPS + (uint64_t)step;
		add(a, f->counter, 0, n + 1, "counter");
		add(a, f->common, 8 * a->rank, n + 1, "common");
		add(a, f->fast, 0, n + 1, "memory");
		CHECK(a, ++*f->mapped == n + 1, "mapped: found %" PRIu64 ", wanted %" PRIu64, *f->mapped, n + 1);
		CHECK(a, ++*f->alone == n + 1, "alone: found %" PRIu64 ", wanted %" PRIu64, *f->alone, n + 1);
		write_sparse(a, f, n, iter, step);
		app_compute(a, a->pace / STEPS);
	}
	CHECK(a, fstat(f->sparse, &st) == 0 && st.st_size == SPARSE, "sparse: %ld bytes", (long)st.st_size);
	CHECK(a, fstat(f->counter, &st) == 0 && st.st_size == 8, "counter: %ld bytes", (long)st.st_size);
}

int main(int argc, char **argv)
{
	struct files f = { 0 };
	struct app a;

	app_begin(&a, argc, argv);
	open_files(&a, &f);
	for (long iter = 0; iter < a.iters; iter++) {
		app_progress(&a, iter);
		work(&a, &f, iter);
		MPI_Barrier(MPI_COMM_WORLD);
		app_result(&a, iter, "place", *f.mapped);
	}
	CHECK(&a, unlink(f.memory) == 0, "%s: %s", f.memory, strerror(errno));
	return app_end(&a);
}
