/* test_doc: a thread's system calls can be sent to itself (Syscall User Dispatch), and others' were; it is switched off. */
#include "held.h"
#include <pthread.h>
#include <sys/prctl.h>

enum { DISPATCH = 59 };
static volatile char selector;                  /* 0: they are not */

static void *other(void *none)
{
	must(prctl(DISPATCH, 1, 0, 0, &selector) == 0, "prctl");
	return none;
}

static void hold(void)
{
	pthread_t t;
	if (prctl(DISPATCH, 1, 0, 0, &selector)) lacks("Syscall User Dispatch");
	must(pthread_create(&t, NULL, other, NULL) == 0 && pthread_join(t, NULL) == 0, "thread");
	wants_here("has called prctl(PR_SET_SYSCALL_USER_DISPATCH): that its system calls are sent to itself: cannot be saved");
}

static int let_go(void)
{
	must(prctl(DISPATCH, 0, 0, 0, 0) == 0, "prctl");
	return 1;
}
