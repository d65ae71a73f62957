/* test_doc: fork, exec, system, popen and posix_spawn work, children find a clean environment and no descriptors of ours. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
static volatile int usr1;
static void on_usr1(int s) { (void)s; usr1++; }
static void pause_here(double s)
{
	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	do clock_gettime(CLOCK_MONOTONIC, &b); while ((double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9 < s);
}

static void one_round(void)
{
	char line[200] = "";
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		void *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		memset(p, 1, 1 << 20);
		raise(SIGUSR1);
		_exit(usr1 == 1 ? 11 : 12);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR) ;
	if (WEXITSTATUS(status) != 11) printf("wrong: forked child: %x\n", (unsigned)status);
	if (system("exit 3") != 3 << 8) printf("wrong: system\n");
	FILE *f = popen("env | grep -c -e BYSSUS -e LD_PRELOAD -e LD_LIBRARY_PATH; ls /proc/self/fd | grep -c '....'; grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status | tr '\\n\\t' '  '", "r");
	while (fgets(line, sizeof line, f)) fputs(line, stdout);
	printf("\n");
	pclose(f);
	char *argv[] = { "sh", "-c", "kill -USR1 $$; exit 0", NULL };
	if (posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ)) printf("wrong: posix_spawn\n");
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR) ;
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGUSR1) printf("wrong: spawned child: %x\n", (unsigned)status);
	raise(SIGUSR1);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 4;
	signal(SIGUSR1, on_usr1);
	for (int i = 0; i < rounds; i++) {
		pause_here(0.25);
		usr1 = 0;
		one_round();
		printf("round %d usr1 %d\n", i, usr1);
		fflush(stdout);
	}
	return 0;
}
