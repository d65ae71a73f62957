/* test_doc: memory that the ranks share without the MPI stays one memory: an object of shm_open that has been unlinked,
 * with a mutex and a barrier in it; a memory file that the others have opened below /proc/PID/fd, not mapped; a deleted
 * file of which each rank maps two pages only; an object of shm_open that keeps its name, which some map for reading.
 *
 * Each rank writes its slots, all wait at the barrier in the shared memory, and every rank reads the slots of all. */
#define _GNU_SOURCE
#include "app.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { MAX_RANKS = 64, BLOCK = 4096 };

struct common {
	pthread_mutex_t lock;
	pthread_barrier_t all;
	uint64_t count;
	uint8_t slot[MAX_RANKS][BLOCK];
};

struct shared {
	struct common *nameless;
	int memory_file;
	uint8_t *own_page, *next_page;          /* of the deleted file */
	uint8_t *named;                         /* written by the even ranks */
	char name[64];
};

static void *mapped(struct app *a, int fd, size_t len, int prot, off_t at)
{
	void *p = mmap(NULL, len, prot, MAP_SHARED, fd, at);

	CHECK(a, p != MAP_FAILED, "mmap: %s", strerror(errno));
	return p;
}

/* Rank 0 makes it, the others open it; the caller unlinks it when all have. */
static int object(struct app *a, const char *name, size_t size)
{
	int fd = -1;

	if (a->rank == 0) {
		shm_unlink(name);
		fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
		CHECK(a, fd >= 0 && ftruncate(fd, (off_t)size) == 0, "shm_open %s: %s", name, strerror(errno));
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (a->rank > 0)
		fd = shm_open(name, a->rank % 2 ? O_RDONLY : O_RDWR, 0);
	CHECK(a, fd >= 0, "shm_open %s: %s", name, strerror(errno));
	return fd;
}

static void open_nameless(struct app *a, struct shared *s)
{
	char path[80];
	int fd = object(a, s->name, sizeof *s->nameless);

	if (a->rank % 2) {              /* for writing after all */
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		int rw = open(path, O_RDWR);
		CHECK(a, rw >= 0, "%s: %s", path, strerror(errno));
		close(fd);
		fd = rw;
	}
	s->nameless = mapped(a, fd, sizeof *s->nameless, PROT_READ | PROT_WRITE, 0);
	close(fd);
	if (a->rank == 0) {
		pthread_mutexattr_t ma;
		pthread_barrierattr_t ba;
		pthread_mutexattr_init(&ma);
		pthread_mutexattr_setpshared(&ma, PTHREAD_PROCESS_SHARED);
		pthread_mutex_init(&s->nameless->lock, &ma);
		pthread_barrierattr_init(&ba);
		pthread_barrierattr_setpshared(&ba, PTHREAD_PROCESS_SHARED);
		pthread_barrier_init(&s->nameless->all, &ba, (unsigned)a->size);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (a->rank == 0)
		shm_unlink(s->name);
}

static void open_memory_file(struct app *a, struct shared *s)
{
	int where[2] = { (int)getpid(), -1 };

	if (a->rank == 0) {
		where[1] = memfd_create("shared_memory", MFD_ALLOW_SEALING);
		CHECK(a, where[1] >= 0 && ftruncate(where[1], (off_t)a->size * BLOCK) == 0, "memfd: %s", strerror(errno));
		CHECK(a, fcntl(where[1], F_ADD_SEALS, F_SEAL_SHRINK) == 0, "seal: %s", strerror(errno));
		s->memory_file = where[1];
	}
	MPI_Bcast(where, 2, MPI_INT, 0, MPI_COMM_WORLD);
	if (a->rank > 0) {
		char path[80];
		snprintf(path, sizeof path, "/proc/%d/fd/%d", where[0], where[1]);
		s->memory_file = open(path, O_RDWR | O_CLOEXEC);
		CHECK(a, s->memory_file >= 0, "%s: %s", path, strerror(errno));
	}
}

/* A ring: each rank maps its own page for writing and the next rank's for reading. */
static void open_pages(struct app *a, struct shared *s)
{
	char file[80];
	int fd;

	snprintf(file, sizeof file, "shared_memory.%d", (int)(a->seed % 1000000));
	if (a->rank == 0) {
		fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
		CHECK(a, fd >= 0 && ftruncate(fd, (off_t)a->size * BLOCK) == 0, "%s: %s", file, strerror(errno));
		close(fd);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	fd = open(file, O_RDWR);
	CHECK(a, fd >= 0, "%s: %s", file, strerror(errno));
	s->own_page = mapped(a, fd, BLOCK, PROT_READ | PROT_WRITE, (off_t)a->rank * BLOCK);
	s->next_page = mapped(a, fd, BLOCK, PROT_READ, (off_t)((a->rank + 1) % a->size) * BLOCK);
	close(fd);
	MPI_Barrier(MPI_COMM_WORLD);
	if (a->rank == 0)
		unlink(file);
}

static void open_named(struct app *a, struct shared *s)
{
	int fd = object(a, s->name, (size_t)a->size * BLOCK);

	s->named = mapped(a, fd, (size_t)a->size * BLOCK, PROT_READ | (a->rank % 2 ? 0 : PROT_WRITE), 0);
	close(fd);
}

static uint64_t key_of(const struct app *a, long iter, int rank, int kind) { return mix4(a->seed, (uint64_t)iter, (uint64_t)rank, (uint64_t)kind); }

static void writes(struct app *a, struct shared *s, long iter)
{
	uint8_t b[BLOCK];

	pthread_mutex_lock(&s->nameless->lock);
	s->nameless->count++;
	fill(s->nameless->slot[a->rank], BLOCK, key_of(a, iter, a->rank, 0));
	pthread_mutex_unlock(&s->nameless->lock);
	fill(b, BLOCK, key_of(a, iter, a->rank, 1));
	CHECK(a, pwrite(s->memory_file, b, BLOCK, (off_t)a->rank * BLOCK) == BLOCK, "pwrite: %s", strerror(errno));
	fill(s->own_page, BLOCK, key_of(a, iter, a->rank, 2));
	if (a->rank % 2 == 0)
		fill(s->named + (size_t)a->rank * BLOCK, BLOCK, key_of(a, iter, a->rank, 3));
}

static void reads(struct app *a, struct shared *s, long iter)
{
	uint8_t b[BLOCK];
	int next = (a->rank + 1) % a->size;

	CHECK(a, s->nameless->count == (uint64_t)(iter + 1) * (uint64_t)a->size, "the count is %" PRIu64 " in iteration %ld", s->nameless->count, iter);
	CHECK(a, wrong(s->next_page, BLOCK, key_of(a, iter, next, 2)) < 0, "deleted file: page of rank %d", next);
	for (int r = 0; r < a->size; r++) {
		CHECK(a, wrong(s->nameless->slot[r], BLOCK, key_of(a, iter, r, 0)) < 0, "nameless object: slot of rank %d", r);
		CHECK(a, pread(s->memory_file, b, BLOCK, (off_t)r * BLOCK) == BLOCK, "pread: %s", strerror(errno));
		CHECK(a, wrong(b, BLOCK, key_of(a, iter, r, 1)) < 0, "memory file: block of rank %d", r);
		if (r % 2 == 0)
			CHECK(a, wrong(s->named + (size_t)r * BLOCK, BLOCK, key_of(a, iter, r, 3)) < 0, "named object: block of rank %d", r);
	}
	CHECK(a, fcntl(s->memory_file, F_GET_SEALS) == F_SEAL_SHRINK, "seals %x", fcntl(s->memory_file, F_GET_SEALS));
}

int main(int argc, char **argv)
{
	struct shared s = { 0 };
	struct app a;

	app_begin(&a, argc, argv);
	CHECK(&a, a.size <= MAX_RANKS, "%d ranks", a.size);
	int creator = (int)getpid();
	MPI_Bcast(&creator, 1, MPI_INT, 0, MPI_COMM_WORLD);
	snprintf(s.name, sizeof s.name, "/byssus-test.%d", creator);
	open_nameless(&a, &s);
	open_memory_file(&a, &s);
	open_pages(&a, &s);
	open_named(&a, &s);
	for (long iter = 0; iter < a.iters; iter++) {
		app_progress(&a, iter);
		writes(&a, &s, iter);
		pthread_barrier_wait(&s.nameless->all);
		app_compute(&a, a.pace);
		reads(&a, &s, iter);
		MPI_Barrier(MPI_COMM_WORLD);
		app_result(&a, iter, "shared", key_of(&a, iter, a.rank, 0));
	}
	if (a.rank == 0)
		shm_unlink(s.name);
	return app_end(&a);
}
