/* lower.c: the lower half's own threads: which they are, how they begin, and those that have a table of
 * descriptors of their own.
 *
 * pthread_create is exported, so that it wins over libc's for every library of the lower half: threads that
 * the real MPI makes are known to be lower and get no signals. Context: ordinary lower code on any lower
 * thread; lower_thread_is is asked by the helper thread. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include "core/base/base.h"

enum { MAX_LOWER = 8192 };
static volatile int lower_tids[MAX_LOWER];
static pthread_key_t lower_key;
static pthread_once_t lower_once = PTHREAD_ONCE_INIT;

static void lower_gone(void *slot) { *(volatile int *)slot = 0; }
static void lower_init(void) { pthread_key_create(&lower_key, lower_gone); }

void lower_thread_here(void)
{
	int tid = (int)raw(SYS_gettid);
	pthread_once(&lower_once, lower_init);
	for (int i = 0; i < MAX_LOWER; i++) {
		int none = 0;
		if (!__atomic_compare_exchange_n(&lower_tids[i], &none, tid, 0, __ATOMIC_SEQ_CST,
						 __ATOMIC_SEQ_CST))
			continue;
		pthread_setspecific(lower_key, (void *)&lower_tids[i]);
		return;
	}
}

bool lower_thread_is(int tid)
{
	for (int i = 0; i < MAX_LOWER; i++)
		if (lower_tids[i] == tid) return true;
	return false;
}

/* -- beginning ------------------------------------------------------------------------------------------- */

static void *begin_kept(void *p)
{
	struct core_begin b = *(struct core_begin *)p;
	lower_thread_here();
	return b.fn(b.arg);
}

static void *begin(void *p)
{
	struct core_begin b = *(struct core_begin *)p;
	free(p);
	lower_thread_here();
	return b.fn(b.arg);
}

/* All signals are blocked in lower threads: handlers of the application cannot run on them. */
static int create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	uint64_t all = ~0UL, old;
	if (!real) real = (__typeof__(real))dlsym(RTLD_NEXT, "pthread_create");
	raw(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, 8);
	int r = real(t, attr, fn, arg);
	raw(SYS_rt_sigprocmask, SIG_SETMASK, &old, 0, 8);
	return r;
}

int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	struct core_begin *b = malloc(sizeof *b);
	if (!b) return EAGAIN;
	*b = (struct core_begin){ fn, arg };
	int r = create(t, attr, begin, b);
	if (r) free(b);
	return r;
}

int core_thread(pthread_t *t, struct core_begin *room, size_t stack, void *(*fn)(void *), void *arg)
{
	pthread_attr_t a;
	*room = (struct core_begin){ fn, arg };
	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, stack);
	int err = create(t, &a, begin_kept, room);
	pthread_attr_destroy(&a);
	return err;
}

/* -- a table of descriptors of its own ------------------------------------------------------------------- */

/* Record locks end when their process closes any descriptor of the file. They are held by the table of
 * descriptors: what a thread with another table opens and closes has nothing to do with them. */
struct job { void (*fn)(void *); void *arg; long err; };

static void *with_own_table(void *p)
{
	struct job *j = p;
	j->err = unshare_descriptors();
	if (!j->err) j->fn(j->arg);
	return NULL;
}

int own_table_run(void (*fn)(void *), void *arg)
{
	pthread_t t;
	struct job j = { .fn = fn, .arg = arg };
	struct core_begin room;
	int err = core_thread(&t, &room, 2 * SMALL_STACK, with_own_table, &j);
	if (!err) pthread_join(t, NULL);
	return err ? err : (int)j.err;
}
