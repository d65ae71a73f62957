/* app.h: what the test programs share: arguments, reproducible numbers, result lines, moments.
 *
 * A test program works for --iters iterations and prints, for every rank,
 *     R <rank> <iteration> <name> <16 hex digits> <8 hex digits>
 * The last field checks the line itself, so that a line torn by a kill is recognised. Launchers tear lines too (Open MPI
 * reads its ranks' output through pseudo-terminals, in pieces), so with TEST_RESULTS=PREFIX in the environment a line also
 * goes, in one write, to the file PREFIX.<rank>. Result lines depend on the
 * seed and on nothing else: not on time, on the order in which wildcards matched, on the MPI, or on how often the
 * program was stopped and continued. Lines `iter <n>` of rank 0 tell a watcher how far the program is.
 * A wrong value found by the program itself is a line `FAIL` on stderr and a non-zero exit.
 *
 * With --until FILE the program makes the file FILE.ready.<rank> at its interesting moment, on every rank, and computes
 * without any MPI call until FILE exists. Rules: header only, C and C++; no state outside struct app. */
#ifndef TEST_APP_H
#define TEST_APP_H
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct app {
	int rank, size;
	long iters;             /* iterations to do */
	long pace;              /* microseconds of computation in each */
	long seconds;           /* for programs that compute in one piece */
	uint64_t seed;
	const char *until;      /* file that ends a moment; NULL: moments do not wait */
	uint64_t sum;           /* over all results of this rank */
	volatile uint64_t sink; /* what app_compute computes */
};

__attribute__((format(printf, 4, 5), noreturn))
static inline void app_fail(const struct app *a, const char *file, int line, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	fprintf(stderr, "FAIL rank %d: %s:%d: %s\n", a->rank, file, line, text);
	fflush(NULL);
	MPI_Abort(MPI_COMM_WORLD, 3);
	_exit(3);
}

#define CHECK(a, cond, ...) \
	do { if (!(cond)) app_fail((a), __FILE__, __LINE__, __VA_ARGS__); } while (0)

/* mix is splitmix64's finaliser: a good 64-bit hash of a 64-bit number. */
static inline uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static inline uint64_t mix2(uint64_t a, uint64_t b) { return mix(mix(a) ^ b); }
static inline uint64_t mix3(uint64_t a, uint64_t b, uint64_t c) { return mix2(mix2(a, b), c); }
static inline uint64_t mix4(uint64_t a, uint64_t b, uint64_t c, uint64_t d) { return mix2(mix3(a, b, c), d); }

/* fill writes the bytes that belong to a key; wrong returns the first offset that differs from them, or -1. */
static inline void fill(void *buf, size_t n, uint64_t key)
{
	uint8_t *p = (uint8_t *)buf;

	for (size_t i = 0; i < n; i += 8) {
		uint64_t v = mix(key + i);
		memcpy(p + i, &v, n - i < 8 ? n - i : 8);
	}
}

static inline long wrong(const void *buf, size_t n, uint64_t key)
{
	const uint8_t *p = (const uint8_t *)buf;

	for (size_t i = 0; i < n; i += 8) {
		uint64_t v = mix(key + i);
		if (memcmp(p + i, &v, n - i < 8 ? n - i : 8) != 0)
			return (long)i;
	}
	return -1;
}

static inline uint64_t hash_bytes(const void *buf, size_t n)
{
	const uint8_t *p = (const uint8_t *)buf;
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ p[i]) * 0x100000001b3u;
	return h;
}

/* Opens NAME<suffix>.<rank> for appending. */
static inline int app_open(const char *name, const char *suffix, int rank)
{
	char file[4096];

	if (snprintf(file, sizeof file, "%s%s.%d", name, suffix, rank) >= (int)sizeof file) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static inline void app_line(const struct app *a, long iter, const char *name, uint64_t value)
{
	char line[256];

	int n = snprintf(line, sizeof line, "R %d %ld %s %016" PRIx64, a->rank, iter, name, value);
	uint64_t h = hash_bytes(line, (size_t)n);
	n += snprintf(line + n, sizeof line - (size_t)n, " %08x\n", (unsigned)(h ^ (h >> 32)));
	fputs(line, stdout);
	fflush(stdout);
	const char *prefix = getenv("TEST_RESULTS");
	if (prefix == NULL)
		return;
	int fd = app_open(prefix, "", a->rank);
	CHECK(a, fd >= 0 && write(fd, line, (size_t)n) == n, "results %s.%d: %s", prefix, a->rank, strerror(errno));
	close(fd);
}

static inline void app_result(struct app *a, long iter, const char *name, uint64_t value)
{
	a->sum = mix3(a->sum, (uint64_t)iter, value);
	app_line(a, iter, name, value);
}

static inline void app_progress(const struct app *a, long iter)
{
	if (a->rank == 0) {
		printf("iter %ld\n", iter);
		fflush(stdout);
	}
}

static inline double app_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Computes for so many microseconds of wall time, without MPI. A clock that jumps (restart) ends it early. */
static inline void app_compute(struct app *a, long microseconds)
{
	double end = app_now() + 1e-6 * (double)microseconds, begin = app_now(), t;

	while ((t = app_now()) < end && t >= begin)
		for (int i = 0; i < 1000; i++)
			a->sink = mix(a->sink);
}

static inline void app_wait_file(struct app *a, const char *file)
{
	while (access(file, F_OK) != 0)
		app_compute(a, 1000);
}

/* Tells the watcher that this rank has come to the moment. */
static inline void app_ready(struct app *a)
{
	int fd = app_open(a->until, ".ready", a->rank);

	CHECK(a, fd >= 0, "%s.ready.%d: %s", a->until, a->rank, strerror(errno));
	close(fd);
}

/* The moment: tells the watcher and computes until the file of --until exists. */
static inline void app_moment(struct app *a)
{
	if (a->until == NULL)
		return;
	app_ready(a);
	app_wait_file(a, a->until);
}

/* At the end: computes until the file FILE.end of --until exists, so that the program is there as long as its watcher wants. */
static inline void app_stay(struct app *a)
{
	char file[4096];

	if (a->until == NULL)
		return;
	snprintf(file, sizeof file, "%s.end", a->until);
	app_wait_file(a, file);
}

/* Takes an argument of one program's own, with its value, out of the arguments; call it before app_begin. */
static inline const char *app_option(int *argc, char **argv, const char *name, const char *otherwise)
{
	for (int i = 1; i + 1 < *argc; i += 2)
		if (strcmp(argv[i], name) == 0) {
			otherwise = argv[i + 1];
			for (*argc -= 2; i <= *argc; i++) argv[i] = i < *argc ? argv[i + 2] : NULL;
		}
	return otherwise;
}

static inline void app_args(struct app *a, int argc, char **argv)
{
	memset(a, 0, sizeof *a);
	a->iters = 50;
	a->pace = 20000;
	a->seconds = 3;
	a->seed = 1;
	for (int i = 1; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--iters") == 0)
			a->iters = atol(argv[i + 1]);
		else if (strcmp(argv[i], "--pace") == 0)
			a->pace = atol(argv[i + 1]);
		else if (strcmp(argv[i], "--seconds") == 0)
			a->seconds = atol(argv[i + 1]);
		else if (strcmp(argv[i], "--seed") == 0)
			a->seed = strtoull(argv[i + 1], NULL, 0);
		else if (strcmp(argv[i], "--until") == 0)
			a->until = argv[i + 1];
		else {
			fprintf(stderr, "%s: unknown argument %s\n", argv[0], argv[i]);
			exit(2);
		}
	}
}

static inline void app_begin_threads(struct app *a, int argc, char **argv, int required, int *provided)
{
	app_args(a, argc, argv);
	MPI_Init_thread(&argc, &argv, required, provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &a->rank);
	MPI_Comm_size(MPI_COMM_WORLD, &a->size);
}

static inline void app_begin(struct app *a, int argc, char **argv)
{
	app_args(a, argc, argv);
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &a->rank);
	MPI_Comm_size(MPI_COMM_WORLD, &a->size);
}

static inline int app_end(struct app *a)
{
	app_line(a, a->iters, "end", a->sum);
	MPI_Finalize();
	return 0;
}

static inline void *app_alloc(const struct app *a, size_t n)
{
	void *p = malloc(n ? n : 1);

	CHECK(a, p != NULL, "malloc of %zu bytes", n);
	return p;
}
#endif
