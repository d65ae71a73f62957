/* ask.h: for core_* programs that say themselves when they are checkpointed, by a file that test/core/agent.py waits
 * for. Without a file nothing waits, and the program is what it is natively. */
#ifndef ASK_H
#define ASK_H
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int wrong;

__attribute__((unused)) static void expect(int ok, const char *what)
{
	if (ok) return;
	wrong++;
	printf("wrong: %s: %s\n", what, strerror(errno));
}

/* Asks for a checkpoint and waits until one was taken or refused. */
__attribute__((unused)) static void moment(const char *file)
{
	if (!file) return;
	int fd = open(file, O_WRONLY | O_CREAT, 0600);
	expect(fd >= 0 && close(fd) == 0, file);
	while (access(file, F_OK) == 0) usleep(2000);
}

__attribute__((unused)) static void wants(int fd, const char *what)
{
	fprintf(stderr, "wants: pid %d fd %d: %s\n", (int)getpid(), fd, what);
}
#endif
