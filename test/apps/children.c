/* test_doc: fork, exec, system and popen by the application work, and the child sees the application's environment and
 * descriptors and nothing else: no preloaded library, no variable, no open file of the checkpointer or the launcher.
 *
 * What the environment was after MPI_Init is what every child must see later. No child lives at the end of an
 * iteration. */
#include "app.h"
#include <sys/wait.h>

extern char **environ;

/* Names that would be ours in a child. */
static int is_foreign(const char *entry)
{
	return strncmp(entry, "BYSSUS_", 7) == 0 || (strncmp(entry, "LD_PRELOAD=", 11) == 0 && strstr(entry, "byssus")) ||
	       (strncmp(entry, "LD_LIBRARY_PATH=", 16) == 0 && strstr(entry, "byssus"));
}

static uint64_t environment(void)
{
	uint64_t h = 0;

	for (char **e = environ; *e; e++)
		h = mix2(h, hash_bytes(*e, strlen(*e)));
	return h;
}

static void check_environment(struct app *a, uint64_t want)
{
	for (char **e = environ; *e; e++)
		CHECK(a, !is_foreign(*e), "the environment has %s", *e);
	CHECK(a, environment() == want, "the environment changed");
}

static void read_command(struct app *a, const char *command, char *out, int room)
{
	FILE *p = popen(command, "r");
	size_t n;

	CHECK(a, p != NULL, "popen: %s", strerror(errno));
	n = fread(out, 1, (size_t)room - 1, p);
	out[n] = 0;
	CHECK(a, pclose(p) == 0, "%s failed", command);
}

/* The shell's environment, without what the shell itself sets, has none of our names. */
static void check_shell(struct app *a)
{
	char out[65536];

	read_command(a, "env", out, sizeof out);
	for (char *line = strtok(out, "\n"); line; line = strtok(NULL, "\n"))
		CHECK(a, !is_foreign(line), "a child has %s", line);
	read_command(a, "cat /proc/self/maps", out, sizeof out);
	CHECK(a, strstr(out, "byssus") == NULL, "a child has mapped a library of the checkpointer");
}

/* A forked child computes on its copy of memory and answers by a pipe and its exit code. */
static uint64_t forked(struct app *a, long iter)
{
	uint64_t key = mix3(a->seed, (uint64_t)iter, (uint64_t)a->rank), answer = 0;
	int p[2], status;
	pid_t pid;

	CHECK(a, pipe(p) == 0, "pipe: %s", strerror(errno));
	pid = fork();
	CHECK(a, pid >= 0, "fork: %s", strerror(errno));
	if (pid == 0) {
		key = mix(key);
		_exit(write(p[1], &key, sizeof key) == sizeof key ? (int)(key % 100) : 255);
	}
	CHECK(a, read(p[0], &answer, sizeof answer) == sizeof answer, "no answer of the child");
	CHECK(a, waitpid(pid, &status, 0) == pid && WIFEXITED(status), "waitpid: status %x", (unsigned)status);
	CHECK(a, answer == mix(key) && WEXITSTATUS(status) == (int)(answer % 100), "answer of the child");
	close(p[0]), close(p[1]);
	return answer;
}

int main(int argc, char **argv)
{
	struct app a;
	uint64_t env;
	char out[64];

	app_begin(&a, argc, argv);
	env = environment();                     /* Open MPI adds to it in MPI_Init */
	for (long iter = 0; iter < a.iters; iter++) {
		uint64_t h;
		app_progress(&a, iter);
		check_environment(&a, env);
		h = forked(&a, iter);
		CHECK(&a, system("exit 7") == 7 << 8, "system");
		if (iter % 5 == 0)
			check_shell(&a);
		read_command(&a, "echo $((6 * 7))", out, sizeof out);
		CHECK(&a, strcmp(out, "42\n") == 0, "the shell says %s", out);
		app_compute(&a, a.pace);
		MPI_Barrier(MPI_COMM_WORLD);
		app_result(&a, iter, "children", h);
	}
	return app_end(&a);
}
