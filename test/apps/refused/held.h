/* held.h: for programs that hold one thing which no image can keep, go on computing when the checkpoint is refused for it,
 * give it up where that is possible, and are checkpointed then. Each has hold() and let_go().
 * Argument: the file that asks for a checkpoint (test/core/agent.py); without one nothing waits. What the refusal must name
 * is printed on standard error: "wants: " and how its line begins. */
#ifndef HELD_H
#define HELD_H
#define _GNU_SOURCE
#include <stdarg.h>
#include <sys/syscall.h>
#include "../ask.h"

static const char *ask;                         /* the file */
static void hold(void);
static int let_go(void);                        /* 0: it is for ever */

/* The kernel, the machine or the user's rights do not allow it: then there is nothing to show here. */
__attribute__((unused)) static void lacks(const char *what)
{
	printf("lacks: %s\n", what);
	exit(0);
}

/* The same, where all that Byssus sees of the thing are the results of calls: with these rules of test/core/kernel.py there
 * is something to show all the same. */
__attribute__((unused)) static void lacks_calls(const char *what, const char *rules)
{
	printf("lacks: %s\nwith: %s\n", what, rules);
	exit(0);
}

__attribute__((unused)) static void must(int ok, const char *what)
{
	if (ok) return;
	printf("wrong: %s: %s\n", what, strerror(errno));
	exit(1);
}

__attribute__((format(printf, 1, 2), unused)) static void wants_here(const char *fmt, ...)
{
	char what[200];
	va_list a;
	va_start(a, fmt);
	vsnprintf(what, sizeof what, fmt, a);
	va_end(a);
	fprintf(stderr, "wants: pid %d thread %d: %s\n", (int)getpid(), (int)syscall(SYS_gettid), what);
}

static unsigned long computed = 1;
static void compute(void)
{
	for (int i = 0; i < 1000000; i++) computed = computed * 6364136223846793005 + 1442695040888963407;
}

int main(int argc, char **argv)
{
	ask = argc > 1 ? argv[1] : NULL;
	hold();
	compute();
	moment(ask);
	compute();
	printf("held: %lx\n", computed);
	if (!let_go()) {
		printf("for ever\n");
		return wrong;
	}
	printf("let go\n");
	fflush(stdout);
	moment(ask);
	compute();
	printf("over: %lx\n", computed);
	return 4 + wrong;
}
#endif
