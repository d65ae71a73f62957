/* test_doc: has trees of mounts that are nowhere mounted, a file system that is being set up, and a namespace open; they are closed. */
#include "held.h"

enum { OPEN_TREE = 428, FSOPEN = 430, FSCONFIG, FSMOUNT, FSPICK, CLONE_TREE = 1, CREATE = 6, NFDS = 5 };
static int fd[NFDS];

static void hold(void)
{
	fd[0] = (int)syscall(FSOPEN, "tmpfs", 0);
	if (fd[0] < 0 && (errno == EPERM || errno == ENOSYS)) lacks("rights over mounts");
	must(fd[0] >= 0 && syscall(FSCONFIG, fd[0], CREATE, NULL, NULL, 0) == 0, "fsopen");
	fd[1] = (int)syscall(FSMOUNT, fd[0], 0, 0);
	fd[2] = (int)syscall(OPEN_TREE, AT_FDCWD, "/tmp", CLONE_TREE);
	fd[3] = (int)syscall(FSPICK, AT_FDCWD, "/", 0);
	fd[4] = open("/proc/self/ns/uts", O_RDONLY);
	for (int i = 0; i < NFDS; i++) must(fd[i] >= 0, "a descriptor");
	wants(fd[0], "anon_inode:[fscontext]");
	wants(fd[1], "directory /, which is not there under this name");
	wants(fd[2], "directory /, which is not there under this name");
	wants(fd[3], "anon_inode:[fscontext]");
	wants(fd[4], "file uts:[");
}

static int let_go(void)
{
	for (int i = 0; i < NFDS; i++) must(close(fd[i]) == 0, "close");
	return 1;
}
