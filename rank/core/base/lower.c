/* lower.c: the lower half's own threads: which they are, and those that have a table of descriptors of their
 * own.
 *
 * Context: ordinary lower code on any lower thread; lower_thread_is is asked by the helper thread. */
#define _GNU_SOURCE
#include <pthread.h>
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
