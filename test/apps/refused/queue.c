/* test_doc: has a POSIX message queue with a message; it is closed and removed. */
#include "held.h"

static int fd;
static char name[64];

static void hold(void)
{
	char line[128];
	snprintf(name, sizeof name, "byssus-queue-%d", (int)getpid());
	fd = (int)syscall(SYS_mq_open, name, O_RDWR | O_CREAT | O_EXCL, 0600, NULL);
	if (fd < 0 && errno == ENOSYS) lacks("POSIX message queues");
	must(fd >= 0 && syscall(SYS_mq_timedsend, fd, "x", 1, 0, NULL) == 0, "mq_open");
	snprintf(line, sizeof line, "file /%s, which is not there under this name", name);
	wants(fd, line);
}

static int let_go(void)
{
	char text[8192];
	must(syscall(SYS_mq_timedreceive, fd, text, sizeof text, NULL, NULL) == 1 && *text == 'x', "the queue");
	must(close(fd) == 0 && syscall(SYS_mq_unlink, name) == 0, "close");
	return 1;
}
