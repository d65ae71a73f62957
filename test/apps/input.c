/* input: rank 0 reads its standard input, a line in each iteration, and gives it to all. --how: stream (of the C library), raw
 * (read, in pieces that do not care about lines), moved (at another number, with 0 closed), poll (which does not wait), late (all at
 * the end of the moment), none. */
#include "app.h"
#include <poll.h>

enum { LINE = 256 };

/* Returns the length of the next line with its end, 0 at the end of the input. */
static int read_raw(const struct app *a, int fd, char *line, int wait)
{
	static char buf[100];
	static int have, from;
	int n = 0;

	for (;;) {
		while (from < have && n < LINE)
			if ((line[n++] = buf[from++]) == '\n')
				return n;
		CHECK(a, n < LINE, "a line of more than %d bytes", LINE);
		struct pollfd p = { fd, POLLIN, 0 };
		if (wait && poll(&p, 1, -1) < 0)
			continue;
		from = 0;
		have = (int)read(fd, buf, sizeof buf);
		if (have < 0 && (errno == EINTR || errno == EAGAIN)) {
			have = 0;
			continue;
		}
		CHECK(a, have >= 0, "standard input: %s", strerror(errno));
		if (have == 0)
			return n;
	}
}

static int next_line(const struct app *a, const char *how, char *line)
{
	static int fd = 0;

	if (strcmp(how, "none") == 0)
		return 0;
	if (strcmp(how, "stream") == 0 || strcmp(how, "late") == 0)
		return fgets(line, LINE, stdin) ? (int)strlen(line) : 0;
	if (strcmp(how, "moved") == 0 && fd == 0) {
		fd = fcntl(0, F_DUPFD, 50);
		close(0);
	}
	if (strcmp(how, "poll") == 0 && fd == 0)
		CHECK(a, fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK) == 0, "fcntl: %s", strerror(errno));
	return read_raw(a, fd, line, strcmp(how, "poll") == 0);
}

int main(int argc, char **argv)
{
	struct app a;
	char line[LINE + 1] = "";
	uint64_t sum = 0;
	long bytes = 0, i = 0;
	const char *how = app_option(&argc, argv, "--how", "stream");

	app_begin(&a, argc, argv);
	if (strcmp(how, "late") == 0)
		app_moment(&a);
	for (int n; ; i++) {
		const int mine = a.rank == 0 ? next_line(&a, how, line) : 0;
		/* Whoever waits here for rank 0 can be stopped; inside of a Bcast it could not (docs/limits.md, "A checkpoint waits"). */
		MPI_Allreduce(&mine, &n, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
		if (n == 0)
			break;
		MPI_Bcast(line, n, MPI_CHAR, 0, MPI_COMM_WORLD);
		sum = mix2(sum, hash_bytes(line, (size_t)n));
		bytes += n;
		app_progress(&a, i);
		app_compute(&a, a.pace);
	}
	app_stay(&a);
	app_result(&a, i, "input", sum);
	app_result(&a, bytes, "bytes", sum);
	return app_end(&a);
}
