/* test_doc: traces a process that is not its child, which is ended. */
#include "held.h"
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

static pid_t traced;

static void hold(void)
{
	int p[2], status;
	must(pipe(p) == 0, "pipe");
	pid_t child = fork();
	if (child == 0) {
		pid_t its = fork();
		if (its == 0) {
			close(p[0]), close(p[1]);
			alarm(60);              /* not longer than the test */
			for (;;) pause();
		}
		_exit(write(p[1], &its, sizeof its) != sizeof its);
	}
	must(read(p[0], &traced, sizeof traced) == sizeof traced && waitpid(child, &status, 0) == child && status == 0, "fork");
	close(p[0]), close(p[1]);
	if (ptrace(PTRACE_SEIZE, traced, NULL, NULL)) {
		kill(traced, SIGKILL);
		lacks("rights to trace a process that is not a child");
	}
	wants_here("has called ptrace(PTRACE_SEIZE): a process or thread that it traces: cannot be saved");
}

static int let_go(void)
{
	int status;
	must(kill(traced, SIGKILL) == 0 && waitpid(traced, &status, __WALL) == traced && status == SIGKILL, "its end");
	return 1;
}
