/* test_doc: has POSIX message queues with a message, one of which is removed already; they are closed, and the other removed. */
#include "held.h"

enum { NFDS = 2 };
static int fd[NFDS];
static char name[NFDS][64];

static void hold(void)
{
	char line[128];
	for (int i = 0; i < NFDS; i++) {
		snprintf(name[i], sizeof name[i], "byssus-queue-%d-%d", (int)getpid(), i);
		fd[i] = (int)syscall(SYS_mq_open, name[i], O_RDWR | O_CREAT | O_EXCL, 0600, NULL);
		if (fd[i] < 0 && errno == ENOSYS) lacks("POSIX message queues");
		must(fd[i] >= 0 && syscall(SYS_mq_timedsend, fd[i], "x", 1, 0, NULL) == 0, "mq_open");
		snprintf(line, sizeof line, "POSIX message queue /%s", name[i]);
		wants(fd[i], line);
	}
	must(syscall(SYS_mq_unlink, name[1]) == 0, "mq_unlink");
}

static int let_go(void)
{
	char text[8192];
	for (int i = 0; i < NFDS; i++) {
		must(syscall(SYS_mq_timedreceive, fd[i], text, sizeof text, NULL, NULL) == 1 && *text == 'x', "the queue");
		must(close(fd[i]) == 0, "close");
	}
	must(syscall(SYS_mq_unlink, name[0]) == 0, "mq_unlink");
	return 1;
}
