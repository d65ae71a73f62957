/* test_doc: logs that are opened, appended to and closed at each step have each line once after every restart: one of each rank by
 * fopen, under a long name and through a symbolic link; one of all ranks by openat relative to a directory; one by open that is read
 * back in between.
 *
 * A line has a fixed length, so that the size of a log says how many it has. */
#include "app.h"
#include <sys/stat.h>

enum { LINE = 24, STEPS = 4 };

struct logs {
	char own[1024], link[64];
	int dir;
};

static void make(struct app *a, struct logs *l)
{
	char dir[64], deep[201];

	snprintf(dir, sizeof dir, "log_each_step.%d", (int)(a->seed % 1000000));
	memset(deep, 'd', sizeof deep - 1);
	deep[200] = 0;
	if (a->rank == 0) {
		CHECK(a, mkdir(dir, 0700) == 0 || errno == EEXIST, "%s: %s", dir, strerror(errno));
		CHECK(a, chdir(dir) == 0 && (mkdir(deep, 0700) == 0 || errno == EEXIST) && chdir("..") == 0, "%s: %s", dir, strerror(errno));
	}
	MPI_Barrier(MPI_COMM_WORLD);
	CHECK(a, chdir(dir) == 0, "%s: %s", dir, strerror(errno));
	l->dir = open(".", O_RDONLY | O_DIRECTORY);
	CHECK(a, l->dir >= 0, "%s: %s", dir, strerror(errno));
	snprintf(l->own, sizeof l->own, "%s/%s.%d", deep, deep, a->rank);
	snprintf(l->link, sizeof l->link, "link.%d", a->rank);
	unlink(l->link);
	CHECK(a, symlink(l->own, l->link) == 0, "%s: %s", l->link, strerror(errno));
	close(open(l->own, O_WRONLY | O_CREAT | O_TRUNC, 0600));
	if (a->rank == 0) {
		unlink("common");
		unlink("read");
	}
	MPI_Barrier(MPI_COMM_WORLD);
}

static void has(struct app *a, const char *path, long lines)
{
	struct stat st;

	CHECK(a, stat(path, &st) == 0, "%s: %s", path, strerror(errno));
	CHECK(a, st.st_size == lines * LINE, "%s: %ld bytes, wanted %ld", path, (long)st.st_size, lines * LINE);
}

static void put(struct app *a, int fd, long n)
{
	char line[64];

	CHECK(a, fd >= 0, "open: %s", strerror(errno));
	snprintf(line, sizeof line, "%6d %15ld \n", a->rank, n);
	CHECK(a, write(fd, line, LINE) == LINE && close(fd) == 0, "write: %s", strerror(errno));
}

static void step(struct app *a, struct logs *l, long n)
{
	FILE *f = fopen(n & 1 ? l->own : l->link, "a");

	CHECK(a, f, "%s: %s", l->own, strerror(errno));
	CHECK(a, fprintf(f, "%6d %15ld \n", a->rank, n) == LINE && fclose(f) == 0, "%s: %s", l->own, strerror(errno));
	has(a, l->own, n + 1);
	app_compute(a, a->pace / STEPS);
	put(a, openat(l->dir, "common", O_WRONLY | O_APPEND | O_CREAT, 0600), n);
}

/* Rank 0 reads the last line of its log before it adds another. */
static void read_back(struct app *a, long iter)
{
	char line[LINE + 1] = "";
	int rank;
	long last = -1;
	int fd = open("read", O_RDWR | O_APPEND | O_CREAT, 0600);

	CHECK(a, fd >= 0, "read: %s", strerror(errno));
	if (iter > 0) {
		CHECK(a, lseek(fd, -LINE, SEEK_END) >= 0 && read(fd, line, LINE) == LINE, "read: %s", strerror(errno));
		CHECK(a, sscanf(line, "%d %ld", &rank, &last) == 2 && last == iter - 1, "read: %ld, wanted %ld", last, iter - 1);
	}
	put(a, fd, iter);
	has(a, "read", iter + 1);
}

int main(int argc, char **argv)
{
	struct logs l = { 0 };
	struct app a;

	app_begin(&a, argc, argv);
	make(&a, &l);
	for (long iter = 0; iter < a.iters; iter++) {
		app_progress(&a, iter);
		for (int s = 0; s < STEPS; s++)
			step(&a, &l, iter * STEPS + s);
		if (a.rank == 0)
			read_back(&a, iter);
		MPI_Barrier(MPI_COMM_WORLD);
		has(&a, "common", (iter + 1) * STEPS * a.size);
		MPI_Barrier(MPI_COMM_WORLD);
		app_result(&a, iter, "logs", (uint64_t)iter);
	}
	return app_end(&a);
}
