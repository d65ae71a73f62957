/* test_doc: a program that becomes itself again by /proc/self/exe, by a descriptor of it, by execveat, through a script, or
 * starts itself as a child in every way: always the program that it would be natively, and calls with impossible
 * pointers return EFAULT. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
static char self[4096];

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

static int child(char **argv, int how)
{
	pid_t pid;
	char parent[64];
	if (how == 0) return posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ) ? -1 : status_of(pid);
	snprintf(parent, sizeof parent, "/proc/%d/exe", (int)getpid());
	if ((pid = how == 1 ? vfork() : fork()) != 0) return status_of(pid);
	if (how < 3) execv(how == 1 ? "/proc/self/exe" : parent, argv);
	else fexecve(open("/proc/self/exe", O_RDONLY), argv, environ);
	_exit(99);
}

static void children(void)
{
	char *argv[] = { "me", "child", NULL };
	for (int how = 0; how < 4; how++) printf("child %d: %x\n", how, (unsigned)child(argv, how));
}

static void pointers(void)
{
	void *impossible[] = { (void *)1, (void *)-1, (void *)0x7fff12345678 };
	for (int i = 0; i < 3; i++) {
		void *p = impossible[i];
		long r[] = { syscall(SYS_rt_sigprocmask, SIG_SETMASK, p, NULL, 8), syscall(SYS_rt_sigaction, SIGUSR1, p, NULL, 8),
			     syscall(SYS_ppoll, NULL, 0, NULL, p, 8), syscall(SYS_readlink, p, self, 10), syscall(SYS_execve, p, NULL, NULL),
			     syscall(SYS_signalfd4, -1, p, 8, 0), syscall(SYS_rt_sigsuspend, p, 8) };
		for (size_t k = 0; k < sizeof r / sizeof *r; k++)
			if (r[k] != -1) printf("wrong: pointer %p, call %d: %ld\n", p, (int)k, r[k]);
	}
}

/* The next life. */
static void become(int life, int lives)
{
	char number[2][16];
	char *argv[] = { "me", number[0], number[1], NULL };
	sprintf(number[0], "%d", life + 1);
	sprintf(number[1], "%d", lives);
	fflush(stdout);
	char *slash = strrchr(self, '/');
	int dir, fd;
	switch (life % 6) {
	case 0: execv("/proc/self/exe", argv); break;
	case 1: fexecve(open(self, O_RDONLY | O_CLOEXEC), argv, environ); break;
	case 2: fexecve(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), argv, environ); break;
	case 3:
		*slash = 0;
		dir = open(self, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		*slash = '/';
		syscall(SYS_execveat, dir, slash + 1, argv, environ, 0);
		break;
	case 4:
		fd = open("core_exec.sh", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
		dprintf(fd, "#!/bin/sh\nexec %s \"$@\"\n", self);
		close(fd);
		execv("./core_exec.sh", argv);
		break;
	default: execv(self, argv);
	}
	printf("wrong: life %d: %s\n", life, strerror(errno));
}

int main(int argc, char **argv)
{
	char exe[4096];
	FILE *f = fopen("/proc/self/comm", "r");
	if (argc == 2 && !strcmp(argv[1], "child")) return 7;
	int life = argc > 2 ? atoi(argv[1]) : 0, lives = atoi(argv[argc - 1]);
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	self[n > 0 ? n : 0] = 0;
	n = readlinkat(AT_FDCWD, "/proc/thread-self/exe", exe, sizeof exe);
	if (n != (ssize_t)strlen(self) || memcmp(exe, self, (size_t)n)) printf("wrong: thread-self/exe\n");
	if (!f || !fgets(exe, sizeof exe, f)) return 1;
	fclose(f);
	printf("life %d as %s, pid %s, comm %s", life, strrchr(self, '/'), getenv("CORE_EXEC_PID") ? "kept" : "new", life % 6 ? "any\n" : exe);
	setenv("CORE_EXEC_PID", "1", 1);
	pointers();
	children();
	pause_here(0.15);
	if (life + 1 < lives) become(life, lives);
	printf("over\n");
	unlink("core_exec.sh");
	return 9;
}
