/* test_doc: children live in every layout of the address space (unlimited stack, legacy, without randomization): of every
 * kind (static, at a fixed address, position-independent), made in every way, and their children; and the main thread's
 * stack grows as far as its limit lets it. */
#define _GNU_SOURCE
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static void pause_here(double s)
{
	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	do clock_gettime(CLOCK_MONOTONIC, &b); while ((double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9 < s);
}

static int status_of(pid_t pid)
{
	int status = -1;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR) ;
	return status;
}

/* Leaves `deep` MiB of frames on the stack, and one word in each page. */
static unsigned long descend(unsigned long deep)
{
	volatile char room[1 << 20];
	unsigned long sum = deep;
	for (size_t i = 0; i < sizeof room; i += 4096) room[i] = (char)deep;
	if (deep > 1) sum += descend(deep - 1);
	for (size_t i = 0; i < sizeof room; i += 4096) sum += (unsigned char)room[i];
	return sum;
}

static void one_round(char **child)
{
	pid_t pid;
	if (posix_spawn(&pid, child[0], NULL, NULL, child, environ)) printf("wrong: posix_spawn\n");
	else printf("spawned %s: %x\n", child[0], (unsigned)status_of(pid));
	if ((pid = vfork()) == 0) {
		execv(child[0], child);
		_exit(99);
	}
	printf("vforked: %x\n", (unsigned)status_of(pid));
	if ((pid = fork()) == 0) {
		execv(child[0], child);
		_exit(99);
	}
	printf("forked: %x\n", (unsigned)status_of(pid));
}

int main(int argc, char **argv)
{
	char self[4096], line[400];
	struct rlimit rl;
	if (argc == 2 && !strcmp(argv[1], "child")) return system("exit 6") == 6 << 8 ? 5 : 4;
	int rounds = argc > 1 ? atoi(argv[1]) : 4;
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	self[n > 0 ? n : 0] = 0;
	getrlimit(RLIMIT_STACK, &rl);
	printf("personality %x, stack %ld\n", (unsigned)personality(0xffffffff), rl.rlim_cur == RLIM_INFINITY ? -1 : (long)(rl.rlim_cur & 0xfffffffffff));
	char *dynamic[] = { self, "child", NULL };
	char *fixed[] = { "/usr/bin/python3", "-c", "import os, ctypes; os._exit(os.system('exit 7') >> 8)", NULL };
	char *shell[] = { "/bin/sh", "-c", "sh -c 'sh -c \"exit 9\"; exit $?'; exit $?", NULL };
	char *nothing[] = { strcat(strcpy(line, self), "_static"), NULL };
	char **all[] = { dynamic, fixed, shell, nothing };
	for (int i = 0; i < rounds; i++) {
		pause_here(0.2);
		one_round(all[i % 4]);
		printf("round %d, stack %lu\n", i, descend(rl.rlim_cur == RLIM_INFINITY ? 100 : 5));
		fflush(stdout);
	}
	return 0;
}
