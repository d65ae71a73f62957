/* test_doc: open descriptors go on: an appended file, a file read and written at a seek position, a deleted file
 * with its content, a pipe with bytes in it, a duplicated descriptor that shares its offset, close-on-exec flags, an
 * eventfd, a shared file mapping, a shared anonymous mapping, the working directory and the umask.
 *
 * The rank works in a directory of its own, made below the one where it was started and removed at the end. A
 * program that is set back to a checkpoint finds its files as it left them later, which no checkpointer undoes: so
 * every block of a named file is written with the same bytes whenever it is written, and of the appended file only
 * the least length is known. */
#include "app.h"
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { BLOCK = 512, SHARED = 4096, PIPED = 3000 };

struct files {
	char dir[64];
	int append, seek, seek2, deleted, event, pipe[2];
	uint8_t *mapped, *shared;
	size_t mapped_len;
	long deleted_blocks;
};

static int must(struct app *a, const char *what, int rc)
{
	CHECK(a, rc >= 0, "%s: %s", what, strerror(errno));
	return rc;
}

static void open_files(struct app *a, struct files *f)
{
	int fd;

	f->mapped_len = (size_t)a->iters * BLOCK;
	snprintf(f->dir, sizeof f->dir, "files_pipes.%d.%d", a->rank, (int)(a->seed % 1000000));
	must(a, "mkdir", mkdir(f->dir, 0700) == 0 || errno == EEXIST ? 0 : -1);
	must(a, "chdir", chdir(f->dir));
	umask(027);
	f->append = must(a, "open append", open("append", O_CREAT | O_TRUNC | O_RDWR | O_APPEND | O_CLOEXEC, 0600));
	f->seek = must(a, "open seek", open("seek", O_CREAT | O_TRUNC | O_RDWR, 0600));
	f->seek2 = must(a, "dup", dup(f->seek));
	f->deleted = must(a, "open deleted", open("deleted", O_CREAT | O_TRUNC | O_RDWR, 0600));
	must(a, "unlink", unlink("deleted"));
	must(a, "pipe", pipe(f->pipe));
	f->event = must(a, "eventfd", eventfd(0, EFD_NONBLOCK));
	fd = must(a, "open mapped", open("mapped", O_CREAT | O_TRUNC | O_RDWR, 0600));
	must(a, "ftruncate", ftruncate(fd, (off_t)f->mapped_len));
	f->mapped = (uint8_t *)mmap(NULL, f->mapped_len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	f->shared = (uint8_t *)mmap(NULL, SHARED, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(a, f->mapped != MAP_FAILED && f->shared != MAP_FAILED, "mmap: %s", strerror(errno));
	close(fd);
}

static void put(struct app *a, int fd, const void *buf, size_t n)
{
	ssize_t w = write(fd, buf, n);

	CHECK(a, w == (ssize_t)n, "write: %zd of %zu bytes: %s", w, n, strerror(errno));
}

static void get(struct app *a, int fd, void *buf, size_t n)
{
	ssize_t r = read(fd, buf, n);

	CHECK(a, r == (ssize_t)n, "read: %zd of %zu bytes: %s", r, n, strerror(errno));
}

static void before(struct app *a, struct files *f, long iter, uint64_t key)
{
	uint8_t b[PIPED];
	uint64_t one = key % 1000 + 1;

	fill(b, sizeof b, key);
	put(a, f->append, b, BLOCK);
	must(a, "lseek", (int)lseek(f->seek, iter * BLOCK, SEEK_SET));
	put(a, f->seek2, b, BLOCK);
	must(a, "lseek", (int)lseek(f->deleted, f->deleted_blocks * BLOCK, SEEK_SET));
	put(a, f->deleted, b, BLOCK);
	f->deleted_blocks++;
	put(a, f->pipe[1], b, PIPED);
	put(a, f->event, &one, sizeof one);
	memcpy(f->mapped + iter * BLOCK, b, BLOCK);
	memcpy(f->shared + (iter % 8) * BLOCK, b, BLOCK);
}

static uint64_t key_of(const struct app *a, long iter) { return mix3(a->seed, (uint64_t)iter, (uint64_t)a->rank); }

/* The mapping and the file it maps are one. */
static void after_mapped(struct app *a, struct files *f, long iter, uint64_t key)
{
	uint8_t b[BLOCK];
	int fd = must(a, "open mapped", open("mapped", O_RDONLY));

	CHECK(a, wrong(f->mapped + iter * BLOCK, BLOCK, key) < 0, "shared file mapping");
	CHECK(a, pread(fd, b, BLOCK, iter * BLOCK) == BLOCK && wrong(b, BLOCK, key) < 0,
	      "the file does not show what was written to its mapping");
	close(fd);
}

static void after(struct app *a, struct files *f, long iter, uint64_t key)
{
	uint8_t b[PIPED];
	uint64_t one;
	mode_t mask;

	CHECK(a, lseek(f->seek, 0, SEEK_CUR) == (iter + 1) * BLOCK, "duplicated descriptor does not share its offset");
	must(a, "lseek", (int)lseek(f->seek2, -BLOCK, SEEK_CUR));
	get(a, f->seek, b, BLOCK);
	CHECK(a, wrong(b, BLOCK, key) < 0, "file at a seek position");
	for (long i = 0; i < f->deleted_blocks; i++) {
		CHECK(a, pread(f->deleted, b, BLOCK, i * BLOCK) == BLOCK, "pread of a deleted file, block %ld", i);
		CHECK(a, wrong(b, BLOCK, key_of(a, iter - f->deleted_blocks + 1 + i)) < 0, "deleted file, block %ld", i);
	}
	get(a, f->pipe[0], b, PIPED);
	CHECK(a, wrong(b, PIPED, key) < 0, "pipe");
	get(a, f->event, &one, sizeof one);
	CHECK(a, one == key % 1000 + 1, "eventfd: %" PRIu64, one);
	for (long i = iter; i >= 0 && i > iter - SHARED / BLOCK; i--)
		CHECK(a, wrong(f->shared + (i % 8) * BLOCK, BLOCK, key_of(a, i)) < 0, "shared anonymous mapping");
	after_mapped(a, f, iter, key);
	CHECK(a, (fcntl(f->append, F_GETFD) & FD_CLOEXEC) && !(fcntl(f->seek, F_GETFD) & FD_CLOEXEC), "close-on-exec");
	CHECK(a, fcntl(f->append, F_GETFL) & O_APPEND, "O_APPEND");
	CHECK(a, fcntl(f->event, F_GETFL) & O_NONBLOCK, "O_NONBLOCK");
	mask = umask(027);
	CHECK(a, mask == 027, "umask %o", (unsigned)mask);
	CHECK(a, access("seek", R_OK) == 0, "working directory");
	if (f->deleted_blocks == 16) {
		must(a, "ftruncate", ftruncate(f->deleted, 0));
		f->deleted_blocks = 0;
	}
}

static void close_files(struct app *a, struct files *f)
{
	static const char *names[] = { "append", "seek", "mapped" };
	struct stat st;

	must(a, "fstat", fstat(f->append, &st));
	CHECK(a, st.st_size >= a->iters * BLOCK, "appended file has %ld bytes", (long)st.st_size);
	for (int i = 0; i < 3; i++)
		must(a, "unlink", unlink(names[i]));
	must(a, "chdir", chdir(".."));
	must(a, "rmdir", rmdir(f->dir));
}

int main(int argc, char **argv)
{
	struct files f = { 0 };
	struct app a;

	app_begin(&a, argc, argv);
	open_files(&a, &f);
	for (long iter = 0; iter < a.iters; iter++) {
		uint64_t key = key_of(&a, iter);
		app_progress(&a, iter);
		before(&a, &f, iter, key);
		app_compute(&a, a.pace);
		MPI_Barrier(MPI_COMM_WORLD);
		after(&a, &f, iter, key);
		app_result(&a, iter, "files", key);
	}
	close_files(&a, &f);
	return app_end(&a);
}
