/* test_doc: locks of files exclude other ranks over every restart, at once when these go on: ranks take turns by a lock of
 * fcntl(2), of an open file, and of flock(2); each has a lock all the time on a file that nobody else has open, and on its
 * bytes of one that all have.
 *
 * Who holds the turn is in memory that all share: a rank that is let in too early finds another one's number there, or loses its own. */
#define _GNU_SOURCE
#include "app.h"
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { KINDS = 3, NOBODY = -1, BYTES = 10, GRACE = 30000000 };
struct turn { volatile int holder; volatile long count; };
struct locks { int turn[KINDS], bytes, own; struct turn *shared; };

/* A rank that is killed loses its locks, and this one is let in before it is ended, too: so it waits for that end first. */
#define EXCLUDED(a, cond, ...) \
	do { if (!(cond)) { app_compute((a), GRACE); app_fail((a), __FILE__, __LINE__, __VA_ARGS__); } } while (0)

static int opened(struct app *a, const char *name, int flags)
{
	int fd = open(name, flags | O_CLOEXEC, 0600);

	CHECK(a, fd >= 0, "%s: %s", name, strerror(errno));
	return fd;
}

static int record(int fd, int cmd, int type, long start, long len)
{
	struct flock k = { .l_type = (short)type, .l_whence = SEEK_SET, .l_start = start, .l_len = len };

	return fcntl(fd, cmd, &k) ? -1 : k.l_type;
}

/* Signals may break off the wait. */
static void take(struct app *a, int fd, int kind)
{
	int r;

	do
		r = kind == 2 ? flock(fd, LOCK_EX) : record(fd, kind ? F_OFD_SETLKW : F_SETLKW, F_WRLCK, 0, 0);
	while (r < 0 && errno == EINTR);
	CHECK(a, r >= 0, "lock of kind %d: %s", kind, strerror(errno));
}

static void let_go(struct app *a, int fd, int kind)
{
	int r = kind == 2 ? flock(fd, LOCK_UN) : record(fd, kind ? F_OFD_SETLK : F_SETLK, F_UNLCK, 0, 0);

	CHECK(a, r >= 0, "lock of kind %d: %s", kind, strerror(errno));
}

static void take_turn(struct app *a, struct locks *l, int kind)
{
	struct turn *t = &l->shared[kind];

	take(a, l->turn[kind], kind);
	EXCLUDED(a, t->holder == NOBODY, "lock of kind %d: rank %d has it", kind, t->holder);
	t->holder = a->rank;
	long count = t->count;
	app_compute(a, a->pace / 2);
	EXCLUDED(a, t->holder == a->rank, "lock of kind %d: rank %d came in", kind, t->holder);
	t->count = count + 1;
	t->holder = NOBODY;
	let_go(a, l->turn[kind], kind);
}

static void name_of(char *out, size_t n, int rank) { snprintf(out, n, "own.%d", rank); }

/* What the others have all the time. */
static void look(struct app *a, struct locks *l)
{
	char name[32];

	for (int r = 0; r < a->size; r++) {
		if (r == a->rank) continue;
		int found = record(l->bytes, F_GETLK, F_WRLCK, (long)r * BYTES, BYTES);
		EXCLUDED(a, found == F_WRLCK, "bytes of rank %d: lock %d", r, found);
		name_of(name, sizeof name, r);
		int fd = opened(a, name, O_RDWR);
		EXCLUDED(a, flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK, "%s is not locked", name);
		close(fd);
	}
}

static void begin(struct app *a, struct locks *l)
{
	static const char *const names[KINDS] = { "record", "ofd", "flock" };
	char name[64];

	snprintf(name, sizeof name, "file_locks.%d", (int)(a->seed % 1000000));
	if (a->rank == 0)
		CHECK(a, mkdir(name, 0700) == 0 || errno == EEXIST, "%s: %s", name, strerror(errno));
	MPI_Barrier(MPI_COMM_WORLD);
	CHECK(a, chdir(name) == 0, "%s: %s", name, strerror(errno));
	int shared = opened(a, "shared", O_RDWR | O_CREAT);
	CHECK(a, ftruncate(shared, 4096) == 0, "ftruncate: %s", strerror(errno));
	l->shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
	CHECK(a, l->shared != MAP_FAILED, "mmap: %s", strerror(errno));
	close(shared);
	MPI_Barrier(MPI_COMM_WORLD);
	if (a->rank == 0) {
		unlink("shared");
		for (int k = 0; k < KINDS; k++) l->shared[k] = (struct turn){ NOBODY, 0 };
	}
	for (int k = 0; k < KINDS; k++) l->turn[k] = opened(a, names[k], O_RDWR | O_CREAT);
	l->bytes = opened(a, "bytes", O_RDWR | O_CREAT);
	name_of(name, sizeof name, a->rank);
	l->own = opened(a, name, O_RDWR | O_CREAT);
	CHECK(a, record(l->bytes, F_SETLK, F_WRLCK, (long)a->rank * BYTES, BYTES) == F_WRLCK, "bytes: %s", strerror(errno));
	CHECK(a, flock(l->own, LOCK_EX | LOCK_NB) == 0, "%s: %s", name, strerror(errno));
	MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	struct app a;
	struct locks l;

	app_begin(&a, argc, argv);
	begin(&a, &l);
	for (long i = 0; i < a.iters; i++) {
		for (int k = 0; k < KINDS; k++) {
			look(&a, &l);
			take_turn(&a, &l, k);
		}
		app_result(&a, i, "turn", mix2(a.seed, (uint64_t)i));
		app_progress(&a, i);
		MPI_Barrier(MPI_COMM_WORLD);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	for (int k = 0; k < KINDS; k++)
		CHECK(&a, l.shared[k].count == a.iters * a.size, "kind %d: %ld turns, want %ld", k, l.shared[k].count, a.iters * a.size);
	MPI_Barrier(MPI_COMM_WORLD);
	return app_end(&a);
}
