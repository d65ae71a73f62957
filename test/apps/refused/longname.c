/* test_doc: has a named pipe open whose path is longer than many buffers, and has a line feed in it: it is named whole, in one line. */
#include "held.h"
#include <limits.h>
#include <sys/stat.h>

enum { DEEP = 14, LONG = 200 };
static int fd;
static char path[PATH_MAX];

static void hold(void)
{
	static char part[LONG + 2];
	int start = open(".", O_RDONLY | O_DIRECTORY);
	must(start >= 0 && getcwd(path, sizeof path) != NULL, "the directory");
	memset(part, 'd', LONG);
	for (int i = 0; i < DEEP; i++) {
		must((mkdir(part, 0700) == 0 || errno == EEXIST) && chdir(part) == 0, "a directory");
		strcat(strcat(path, "/"), part);
	}
	must(mkfifo("one\ntwo", 0600) == 0 || errno == EEXIST, "mkfifo");
	fd = open("one\ntwo", O_RDWR);
	must(fd >= 0 && fchdir(start) == 0 && close(start) == 0, "open");
	fprintf(stderr, "wants: pid %d fd %d: named pipe %s/one?two: cannot be saved\n", (int)getpid(), fd, path);
}

static int let_go(void)
{
	must(close(fd) == 0, "close");
	return 1;
}
