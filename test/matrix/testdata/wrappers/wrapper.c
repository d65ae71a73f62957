/* wrapper HOW PROGRAM ARGS: starts the program in one of the ways in which C programs do, and ends as it does. */
#define _GNU_SOURCE
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int run_by_shell(char **argv)
{
	char line[4096] = "";
	for (; *argv; argv++) strcat(strcat(line, *argv), " ");
	return system(line);
}

int main(int argc, char **argv)
{
	const char *how = argv[1];
	int status = 0;
	pid_t pid = 0;
	(void)argc;
	argv += 2;
	if (!strcmp(how, "system")) status = run_by_shell(argv);
	else if (!strcmp(how, "spawn")) status = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) ? 126 << 8 : 0;
	else if (!strcmp(how, "vfork")) {
		for (int i = 0; i < 20; i++) {         /* what a vforked child leaves behind must not add up */
			if (!(pid = vfork())) execlp("true", "true", NULL), _exit(126);
			waitpid(pid, &status, 0);
		}
		if (!(pid = vfork())) execvp(argv[0], argv), _exit(126);
	} else if (!strcmp(how, "leave")) {             /* before its child */
		if (fork()) return 0;
		execvp(argv[0], argv), _exit(126);
	} else if (!(pid = fork())) execvp(argv[0], argv), _exit(126);
	if (pid && waitpid(pid, &status, 0) != pid) return 125;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
