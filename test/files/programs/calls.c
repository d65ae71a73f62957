/* test_doc: makes the calls of SCR that its arguments name, in their order, and prints what each returned.
 *
 * A word is CALL:ARGUMENT:ARGUMENT; R@WORD is for rank R alone, R!WORD for all others. In names of files and datasets, # stands for the
 * rank. A line is the rank, the word, and what came of it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "scr.h"

static int rank = -1, flag, kept = -1;
static char name[SCR_MAX_FILENAME], path[SCR_MAX_FILENAME], arg[3][2048];

static int route(void)
{
	memset(path, 0, sizeof path);
	return SCR_Route_file(arg[0], path);
}

static const char *mpi_init(void)
{
	MPI_Init(NULL, NULL);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	return "done";
}

static const char *mpi_end(void)
{
	MPI_Finalize();
	return "done";
}

static const char *result(int rc)
{
	return rc == SCR_SUCCESS ? "well" : "failed";
}

static const char *config(void)
{
	static char copy[4096];
	const char *value = SCR_Config(arg[0]);
	snprintf(copy, sizeof copy, "%s", value ? value : "none");
	free((void *)value);
	return copy;
}

static const char *flagged(int rc)
{
	return rc == SCR_SUCCESS ? flag ? "yes" : "no" : flag ? "failed yes" : "failed";
}

static const char *have(void)
{
	static char both[2 * SCR_MAX_FILENAME];
	const char *f = flagged(SCR_Have_restart(&flag, name));
	snprintf(both, sizeof both, "%s%s%s", f, flag ? " " : "", flag ? name : "");
	return both;
}

static const char *restart(void)
{
	return SCR_Start_restart(name) ? "failed" : name;
}

static const char *where(void)
{
	return route() ? "failed" : path;
}

/* Routes a file and opens it. */
static int routed(int flags)
{
	if (route())
		return -1;
	return open(path, flags | O_CLOEXEC, 0600);
}

static const char *write_file(void)
{
	int fd = routed(O_WRONLY | O_CREAT | O_TRUNC);
	ssize_t n = fd < 0 ? -1 : write(fd, arg[1], strlen(arg[1]));
	return n < 0 || close(fd) ? "failed" : "well";
}

static const char *read_file(void)
{
	static char text[2048];
	int fd = routed(O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (n < 0 || close(fd))
		return "failed";
	text[n] = 0;
	return text;
}

/* Leaves the file open for writing. */
static const char *keep_open(void)
{
	kept = routed(O_WRONLY | O_CREAT);
	return kept < 0 ? "failed" : "well";
}

static const char *make_link(void)
{
	return route() || symlink("/etc/passwd", path) ? "failed" : "well";
}

static const char *long_name(void)
{
	memset(arg[0], 'x', 2000);
	arg[0][atoi(arg[1])] = 0;
	return where();
}

static const char *directory(void)
{
	return (mkdir(arg[0], 0700) && errno != EEXIST) || chdir(arg[0]) ? "failed" : "well";
}

/* Empty datasets, and as many pairs of the collectives that they are made of: microseconds of each. */
static const char *bench(void)
{
	static char text[128];
	int n = atoi(arg[0]), in = 1, out, bad = 0;
	char buffer[1056] = "";
	MPI_Barrier(MPI_COMM_WORLD);
	double begin = MPI_Wtime();
	for (int i = 0; i < n; i++)
		bad |= SCR_Start_checkpoint() | SCR_Complete_checkpoint(1);
	double middle = MPI_Wtime();
	for (int i = 0; i < n; i++) {
		MPI_Bcast(buffer, sizeof buffer, MPI_BYTE, 0, MPI_COMM_WORLD);
		MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	}
	snprintf(text, sizeof text, "%s %.1f %.1f", result(bad), (middle - begin) / n * 1e6, (MPI_Wtime() - middle) / n * 1e6);
	return text;
}

#define IS(word) (!strcmp(call, word))

static const char *plain(const char *call)
{
	if (IS("init"))
		return result(SCR_Init());
	if (IS("finalize"))
		return result(SCR_Finalize());
	if (IS("version"))
		return SCR_Get_version();
	if (IS("need"))
		return flagged(SCR_Need_checkpoint(&flag));
	if (IS("exit"))
		return flagged(SCR_Should_exit(&flag));
	if (IS("have"))
		return have();
	if (IS("restart"))
		return restart();
	if (IS("restart-unnamed"))
		return result(SCR_Start_restart(NULL));
	if (IS("restarted"))
		return result(SCR_Complete_restart(atoi(arg[0])));
	if (IS("checkpoint"))
		return result(SCR_Start_checkpoint());
	if (IS("checkpointed"))
		return result(SCR_Complete_checkpoint(atoi(arg[0])));
	if (IS("output"))
		return result(SCR_Start_output(arg[0], atoi(arg[1])));
	if (IS("output-unnamed"))
		return result(SCR_Start_output(NULL, atoi(arg[0])));
	if (IS("written"))
		return result(SCR_Complete_output(atoi(arg[0])));
	return NULL;
}

static const char *made(const char *call)
{
	const char *known = plain(call);
	if (known)
		return known;
	if (IS("current"))
		return result(SCR_Current(arg[0]));
	if (IS("drop"))
		return result(SCR_Drop(arg[0]));
	if (IS("delete"))
		return result(SCR_Delete(arg[0]));
	if (IS("config"))
		return config();
	if (IS("configf"))
		return SCR_Configf("%s=%d", arg[0], atoi(arg[1])) ? "value" : "none";
	if (IS("config-null"))
		return SCR_Config(NULL) ? "value" : "none";
	if (IS("route"))
		return where();
	if (IS("route-null"))
		return result(SCR_Route_file(NULL, path) && SCR_Route_file("", path) ? SCR_SUCCESS : 1);
	if (IS("route-long"))
		return long_name();
	if (IS("write"))
		return write_file();
	if (IS("read"))
		return read_file();
	if (IS("keep-open"))
		return keep_open();
	if (IS("close"))
		return close(kept) ? "failed" : "well";
	if (IS("link"))
		return make_link();
	if (IS("cd"))
		return directory();
	if (IS("umask"))
		return umask((mode_t)strtol(arg[0], NULL, 8)) ? "well" : "well";
	if (IS("bench"))
		return bench();
	if (IS("mpi"))
		return mpi_init();
	return IS("end") ? mpi_end() : "no such call";
}

/* Takes a word's arguments apart; the last has the rest. */
static void arguments(const char *at)
{
	memset(arg, 0, sizeof arg);
	for (int i = 0; i < 3 && at; i++) {
		const char *end = i < 2 ? strchr(at, ':') : NULL;
		size_t n = 0, length = end ? (size_t)(end - at) : strlen(at);
		for (size_t k = 0; k < length && n < sizeof arg[i] - 16; k++)
			n += (size_t)(at[k] == '#' ? snprintf(arg[i] + n, 16, "%d", rank)
						     : snprintf(arg[i] + n, 2, "%c", at[k]));
		at = end ? end + 1 : NULL;
	}
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *word = argv[i];
		size_t digits = strspn(word, "0123456789");
		if (digits && (word[digits] == '@' || word[digits] == '!')) {
			if ((atoi(word) == rank) != (word[digits] == '@'))
				continue;
			word += digits + 1;
		}
		char call[32] = "";
		size_t n = strcspn(word, ":");
		memcpy(call, word, n < sizeof call - 1 ? n : sizeof call - 1);
		arguments(word[n] ? word + n + 1 : NULL);
		printf("%d %.60s -> %s\n", rank, word, made(call));
		fflush(stdout);
	}
	return 0;
}
