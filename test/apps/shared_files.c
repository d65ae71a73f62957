/* test_doc: files that several ranks have open are whole after every restart: a log to which all append, a table that
 * each has open under another name (hard link, symbolic link) and writes in its own places, a file that one rank writes
 * at the end, by two descriptors with one offset, while the others read it.
 *
 * After a restart the log has what it had at the checkpoint, no record less and none more: each rank counts. */
#include "app.h"
#include <fcntl.h>
#include <sys/stat.h>

enum { RECORD = 64, BURST = 256 };

struct files {
	char dir[64];
	int log, reader, table, tail, tail2;
};

static int opened(struct app *a, const char *name, int flags)
{
	int fd = open(name, flags, 0600);

	CHECK(a, fd >= 0, "%s: %s", name, strerror(errno));
	return fd;
}

static void make_files(struct app *a)
{
	static const char *names[] = { "log", "table", "tail", "table.hard", "table.soft" };

	for (int i = 0; i < 5; i++)
		unlink(names[i]);
	for (int i = 0; i < 3; i++)
		close(opened(a, names[i], O_CREAT | O_EXCL | O_WRONLY));
	CHECK(a, link("table", "table.hard") == 0 && symlink("table", "table.soft") == 0, "links: %s", strerror(errno));
}

static void open_files(struct app *a, struct files *f)
{
	static const char *tables[] = { "table", "table.hard", "table.soft" };

	snprintf(f->dir, sizeof f->dir, "shared_files.%d", (int)(a->seed % 1000000));
	if (a->rank == 0)
		CHECK(a, mkdir(f->dir, 0700) == 0 || errno == EEXIST, "%s: %s", f->dir, strerror(errno));
	MPI_Barrier(MPI_COMM_WORLD);
	CHECK(a, chdir(f->dir) == 0, "%s: %s", f->dir, strerror(errno));
	if (a->rank == 0)
		make_files(a);
	MPI_Barrier(MPI_COMM_WORLD);
	f->log = opened(a, "log", O_WRONLY | O_APPEND);
	f->reader = opened(a, "log", O_RDONLY);
	f->table = opened(a, tables[a->rank % 3], O_RDWR);
	f->tail = opened(a, "tail", a->rank == 0 ? O_RDWR : O_RDONLY);
	f->tail2 = dup(f->tail);
}

static uint64_t key_of(const struct app *a, long iter, int rank, int k) { return mix4(a->seed, (uint64_t)iter, (uint64_t)rank, (uint64_t)k); }

static void put(struct app *a, int fd, const void *b, size_t n)
{
	ssize_t w = write(fd, b, n);

	CHECK(a, w == (ssize_t)n, "write: %zd of %zu bytes: %s", w, n, strerror(errno));
}

/* A record says whose it is. */
static void make_record(const struct app *a, uint8_t *b, long iter, int rank, int k)
{
	uint32_t who[2] = { (uint32_t)rank, (uint32_t)k };

	fill(b, RECORD, key_of(a, iter, rank, k));
	memcpy(b, who, sizeof who);
}

static void writes(struct app *a, struct files *f, long iter)
{
	uint8_t b[RECORD];

	for (int k = 0; k < BURST; k++) {
		make_record(a, b, iter, a->rank, k);
		put(a, f->log, b, RECORD);
		CHECK(a, pwrite(f->table, b, RECORD, ((iter * a->size + a->rank) * BURST + k) * RECORD) == RECORD, "pwrite: %s", strerror(errno));
		if (a->rank == 0)
			put(a, k % 2 ? f->tail : f->tail2, b, RECORD);
		app_compute(a, a->pace / BURST);
	}
}

/* The records of this iteration, each once, are the last ones of the log, and nothing is before them but the earlier ones. */
static void check_log(struct app *a, struct files *f, long iter)
{
	int n = a->size * BURST;
	uint8_t b[RECORD], *last = (uint8_t *)app_alloc(a, (size_t)n * RECORD), *seen = (uint8_t *)app_alloc(a, (size_t)n);
	struct stat st;

	CHECK(a, fstat(f->reader, &st) == 0 && st.st_size == (iter + 1) * n * RECORD, "the log has %ld bytes in iteration %ld, %ld wanted",
	      (long)st.st_size, iter, (iter + 1) * n * RECORD);
	CHECK(a, pread(f->reader, last, (size_t)n * RECORD, iter * n * RECORD) == n * RECORD, "log: %s", strerror(errno));
	memset(seen, 0, (size_t)n);
	for (int i = 0; i < n; i++) {
		uint32_t who[2];
		memcpy(who, last + i * RECORD, sizeof who);
		CHECK(a, who[0] < (uint32_t)a->size && who[1] < BURST, "log: record %d in iteration %ld", i, iter);
		make_record(a, b, iter, (int)who[0], (int)who[1]);
		CHECK(a, memcmp(b, last + i * RECORD, RECORD) == 0, "log: record %d in iteration %ld", i, iter);
		CHECK(a, !seen[who[0] * BURST + who[1]]++, "log: record %u of rank %u twice", who[1], who[0]);
	}
	free(last);
	free(seen);
}

static void check_table(struct app *a, struct files *f, long iter, int rank, int k)
{
	uint8_t b[RECORD] = { 0 }, want[RECORD];
	off_t at = ((iter * a->size + rank) * BURST + k) * RECORD;
	ssize_t got = pread(f->table, b, RECORD, at);
	uint32_t who[2];
	struct stat st;

	make_record(a, want, iter, rank, k);
	if (got == RECORD && memcmp(b, want, RECORD) == 0)
		return;
	memcpy(who, b, sizeof who);
	fstat(f->table, &st);
	CHECK(a, 0, "table: record %d of rank %d in iteration %ld: found %zd bytes (%s) at %ld of %ld: record %u of rank %u", k, rank, iter, got,
	      strerror(errno), (long)at, (long)st.st_size, who[1], who[0]);
}

static void check_others(struct app *a, struct files *f, long iter)
{
	uint8_t b[RECORD], want[RECORD];

	for (int r = 0; r < a->size; r++)
		for (int k = 0; k < BURST; k++)
			check_table(a, f, iter, r, k);
	for (int k = 0; k < BURST; k++) {
		off_t at = (iter * BURST + k) * RECORD;
		make_record(a, want, iter, 0, k);
		ssize_t got = a->rank == 0 ? pread(f->tail, b, RECORD, at) : read(k % 2 ? f->tail : f->tail2, b, RECORD);
		CHECK(a, got == RECORD && memcmp(b, want, RECORD) == 0, "tail: record %d: %zd bytes", k, got);
		CHECK(a, a->rank == 0 || lseek(f->tail, 0, SEEK_CUR) == at + RECORD, "tail: the offset is %ld", (long)lseek(f->tail, 0, SEEK_CUR));
	}
	CHECK(a, a->rank || lseek(f->tail2, 0, SEEK_CUR) == (iter + 1) * BURST * RECORD, "tail: the offset is %ld", (long)lseek(f->tail2, 0, SEEK_CUR));
}

static void close_files(struct app *a, struct files *f)
{
	static const char *names[] = { "log", "table", "tail", "table.hard", "table.soft" };

	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < 5 && a->rank == 0; i++)
		CHECK(a, unlink(names[i]) == 0, "unlink %s: %s", names[i], strerror(errno));
	CHECK(a, chdir("..") == 0, "..: %s", strerror(errno));
	if (a->rank == 0)
		CHECK(a, rmdir(f->dir) == 0, "rmdir %s: %s", f->dir, strerror(errno));
}

int main(int argc, char **argv)
{
	struct files f = { 0 };
	struct app a;

	app_begin(&a, argc, argv);
	open_files(&a, &f);
	for (long iter = 0; iter < a.iters; iter++) {
		app_progress(&a, iter);
		writes(&a, &f, iter);
		MPI_Barrier(MPI_COMM_WORLD);
		check_log(&a, &f, iter);
		check_others(&a, &f, iter);
		MPI_Barrier(MPI_COMM_WORLD);
		app_result(&a, iter, "files", key_of(&a, iter, a.rank, 0));
	}
	close_files(&a, &f);
	return app_end(&a);
}
