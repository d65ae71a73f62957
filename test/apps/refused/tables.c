/* test_doc: one thread has a table of descriptors of its own, another a directory; both end. */
#include "held.h"
#include <pthread.h>
#include <sched.h>

static pthread_t t[2];
static volatile int ending;
static pthread_barrier_t ready;
static const struct { int what; const char *named; } own[] = {
	{ CLONE_FILES, "descriptors of its own (unshare, clone): cannot be saved" },
	{ CLONE_FS, "a directory, root and umask of its own (unshare, clone): cannot be saved" },
};

static void *other(void *arg)
{
	long i = (long)arg;
	must(unshare(own[i].what) == 0, "unshare");
	wants_here("%s", own[i].named);
	pthread_barrier_wait(&ready);
	while (!ending) usleep(2000);
	return NULL;
}

static void hold(void)
{
	if (syscall(SYS_kcmp, getpid(), getpid(), 2, 0, 0) != 0) lacks("kcmp");
	pthread_barrier_init(&ready, NULL, 3);
	for (long i = 0; i < 2; i++) must(pthread_create(&t[i], NULL, other, (void *)i) == 0, "thread");
	pthread_barrier_wait(&ready);
}

static int let_go(void)
{
	ending = 1;
	for (int i = 0; i < 2; i++) must(pthread_join(t[i], NULL) == 0, "thread");
	return 1;
}
