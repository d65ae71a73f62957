/* test_doc: files that a program is in the middle of writing are whole after every restart, however often it has begun them anew since:
 * a temporary file that is renamed when it is complete; one that is emptied and written over under its name; one that all ranks write
 * by turns; one that is open from the beginning on.
 *
 * The content depends on the iteration, so that a first half of another one is seen. Files are open until nobody needs them any more:
 * one that is closed at the checkpoint is as the job has left it. */
#include "app.h"
#include <sys/stat.h>

enum { HALF = 100 << 10, KEPT = 3, PAIRS = 4 };

static void put(struct app *a, FILE *f, uint64_t key, const char *what)
{
	static char text[HALF];

	fill(text, sizeof text, key);
	CHECK(a, fwrite(text, 1, sizeof text, f) == sizeof text && fflush(f) == 0, "%s: %s", what, strerror(errno));
}

static void whole(struct app *a, const char *path, const uint64_t *keys, int n)
{
	static char text[HALF];
	struct stat st;
	FILE *f = fopen(path, "r");

	CHECK(a, f, "%s: %s", path, strerror(errno));
	CHECK(a, fstat(fileno(f), &st) == 0 && st.st_size == (off_t)n * HALF, "%s: %ld bytes", path, (long)st.st_size);
	for (int i = 0; i < n; i++) {
		CHECK(a, fread(text, 1, sizeof text, f) == sizeof text, "%s: %s", path, strerror(errno));
		CHECK(a, wrong(text, sizeof text, keys[i]) < 0, "%s: part %d: offset %ld is of another step", path, i,
		      (long)wrong(text, sizeof text, keys[i]));
	}
	fclose(f);
}

/* Both files at once, so that a moment is in the middle of both more often than not. */
static void write_own(struct app *a, long iter)
{
	char kept[64], over[64], tmp[64];
	uint64_t keys[2][2];

	snprintf(tmp, sizeof tmp, "result.%d.tmp", a->rank);
	snprintf(kept, sizeof kept, "result.%d.%ld", a->rank, iter % KEPT);
	snprintf(over, sizeof over, "over.%d", a->rank);
	FILE *f[2] = { fopen(tmp, "w"), fopen(over, "w") };
	CHECK(a, f[0] && f[1], "%s, %s: %s", tmp, over, strerror(errno));
	for (int part = 0; part < 2; part++)
		for (int i = 0; i < 2; i++) {
			keys[i][part] = mix4(a->seed, (uint64_t)iter, (uint64_t)(2 * i + part), (uint64_t)a->rank);
			put(a, f[i], keys[i][part], i ? over : tmp);
			app_compute(a, a->pace / PAIRS);
		}
	whole(a, tmp, keys[0], 2);
	whole(a, over, keys[1], 2);
	CHECK(a, rename(tmp, kept) == 0, "%s: %s", tmp, strerror(errno));
	for (int i = 0; i < 2; i++)
		CHECK(a, fclose(f[i]) == 0, "%s", strerror(errno));
}

/* Rank 0 begins it; each writes two pieces at places of its own. */
static void write_common(struct app *a, long iter)
{
	static char text[HALF];
	uint64_t keys[256];
	int n = 2 * a->size < 256 ? 2 * a->size : 256;
	int fd = a->rank == 0 ? open("common", O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;

	MPI_Barrier(MPI_COMM_WORLD);
	if (a->rank > 0)
		fd = open("common", O_WRONLY);
	CHECK(a, fd >= 0, "common: %s", strerror(errno));
	for (int i = 0; i < n; i++) {
		keys[i] = mix4(a->seed, (uint64_t)iter, (uint64_t)i, 99);
		if (i / 2 != a->rank)
			continue;
		fill(text, sizeof text, keys[i]);
		CHECK(a, pwrite(fd, text, sizeof text, (off_t)i * HALF) == (ssize_t)sizeof text, "common: %s", strerror(errno));
		app_compute(a, a->pace / PAIRS);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (a->rank == 0)
		whole(a, "common", keys, n);
	MPI_Barrier(MPI_COMM_WORLD);
	CHECK(a, close(fd) == 0, "common: %s", strerror(errno));
}

int main(int argc, char **argv)
{
	char dir[64], name[64];
	struct stat st;
	struct app a;

	app_begin(&a, argc, argv);
	snprintf(dir, sizeof dir, "unfinished.%d", (int)(a.seed % 1000000));
	if (a.rank == 0)
		CHECK(&a, mkdir(dir, 0700) == 0 || errno == EEXIST, "%s: %s", dir, strerror(errno));
	MPI_Barrier(MPI_COMM_WORLD);
	snprintf(name, sizeof name, "log.%d", a.rank);
	CHECK(&a, chdir(dir) == 0, "%s: %s", dir, strerror(errno));
	FILE *log = fopen(name, "w");
	CHECK(&a, log, "%s: %s", name, strerror(errno));
	for (long iter = 0; iter < a.iters; iter++) {
		app_progress(&a, iter);
		write_own(&a, iter);
		write_common(&a, iter);
		CHECK(&a, fprintf(log, "%7ld\n", iter) == 8 && fflush(log) == 0, "%s: %s", name, strerror(errno));
		CHECK(&a, stat(name, &st) == 0 && st.st_size == 8 * (iter + 1), "%s: %ld bytes", name, (long)st.st_size);
		app_result(&a, iter, "files", (uint64_t)iter);
	}
	return app_end(&a);
}
