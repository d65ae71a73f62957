/* test_doc: mutexes of every protocol and kind keep excluding each other over checkpoints, while held, contended and waited for.
 *
 * Without and with priority inheritance, for each of normal, recursive,
 * error-checking and robust: threads take turns with a counter that only the mutex protects; some hold it for long,
 * some wait with a time limit, some with a condition; the error-checking ones try what must be refused; of the robust
 * ones each is left behind by a thread that ends, now and then. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PROTOCOLS = 2, KINDS = 4, N = PROTOCOLS * KINDS, THREADS = 4 };
static const int protocols[PROTOCOLS] = { PTHREAD_PRIO_NONE, PTHREAD_PRIO_INHERIT };
static const int kinds[KINDS] = { PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_NORMAL };
static struct slot { pthread_mutex_t m; pthread_cond_t c; volatile long before, after; int protocol, kind, usable; } *slots;
static volatile int stop, wrong;

static void expect(int ok, const char *what, int i, int e)
{
	if (ok) return;
	wrong = 1;
	printf("wrong: %s: protocol %d, kind %d: %s\n", what, i / KINDS, i % KINDS, strerror(e));
	fflush(stdout);
}

static void nap(long ns)
{
	struct timespec t = { 0, ns };
	nanosleep(&t, NULL);
}

static struct timespec in_ms(clockid_t clock, long ms)
{
	struct timespec t;
	clock_gettime(clock, &t);
	t.tv_nsec += ms * 1000000;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

static void make(int i)
{
	struct slot *s = &slots[i];
	pthread_mutexattr_t a;
	pthread_condattr_t ca;
	pthread_mutexattr_init(&a);
	s->protocol = protocols[i / KINDS];
	s->kind = i % KINDS;
	pthread_mutexattr_setprotocol(&a, s->protocol);
	pthread_mutexattr_settype(&a, kinds[s->kind]);
	if (s->kind == 3) pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	if (i % 2) pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_condattr_init(&ca);
	pthread_condattr_setpshared(&ca, i % 2);
	pthread_cond_init(&s->c, &ca);
	s->usable = pthread_mutex_init(&s->m, &a) == 0;
	int e = s->usable ? pthread_mutex_lock(&s->m) : 0;
	expect(e == 0, "first lock", i, e);
	if (s->usable) pthread_mutex_unlock(&s->m);
}

/* Takes the mutex in one of several ways; false: not in time. */
static int take(int i, unsigned r)
{
	struct slot *s = &slots[i];
	struct timespec t = in_ms(CLOCK_REALTIME, (long)(r / 8 % 30)), m = in_ms(CLOCK_MONOTONIC, (long)(r / 8 % 30));
	int e;
	switch (r % 8) {
	case 0: e = pthread_mutex_timedlock(&s->m, &t); break;
	case 1: e = pthread_mutex_clocklock(&s->m, CLOCK_MONOTONIC, &m); break;
	case 2: e = pthread_mutex_trylock(&s->m); break;
	default: e = pthread_mutex_lock(&s->m); break;
	}
	if (e == EOWNERDEAD) e = pthread_mutex_consistent(&s->m);
	expect(e == 0 || (e == ETIMEDOUT && r % 8 < 2) || (e == EBUSY && r % 8 == 2), "lock", i, e);
	return e == 0;
}

static void inside(int i, unsigned r)
{
	struct slot *s = &slots[i];
	struct timespec t = in_ms(CLOCK_REALTIME, 3);
	int e;
	expect(s->before == s->after, "nobody else is inside", i, 0);
	s->before++;
	if (r % 3 == 0) nap((long)(r % 4000000));
	if (s->kind == 1) {
		e = pthread_mutex_lock(&s->m);
		expect(e == 0, "lock again", i, e);
		e = pthread_mutex_unlock(&s->m);
		expect(e == 0, "unlock again", i, e);
	}
	if (s->kind == 2) {
		e = pthread_mutex_lock(&s->m);
		expect(e == EDEADLK, "is its own", i, e);
	}
	s->after++;
	if (r % 5 == 0) e = pthread_cond_timedwait(&s->c, &s->m, &t);
	else e = pthread_cond_signal(&s->c);
	if (e == EOWNERDEAD) e = pthread_mutex_consistent(&s->m);
	expect(e == 0 || e == ETIMEDOUT, "condition", i, e);
}

static void *leaves_it(void *arg)
{
	int i = (int)(long)arg, e = pthread_mutex_lock(&slots[i].m);
	if (e == EOWNERDEAD) e = pthread_mutex_consistent(&slots[i].m);
	expect(e == 0, "lock, and leave it", i, e);
	nap(2000000);
	return NULL;
}

static void leave(int i)
{
	pthread_t t;
	if (pthread_create(&t, NULL, leaves_it, (void *)(long)i) == 0) pthread_join(t, NULL);
}

static void *thread(void *arg)
{
	unsigned r = (unsigned)(long)arg * 7919 + 1;
	while (!stop) {
		for (int i = 0; i < N && !wrong; i++) {
			r = r * 1103515245 + 12345;
			if (!slots[i].usable || !take(i, r >> 8)) continue;
			inside(i, r >> 12);
			int e = pthread_mutex_unlock(&slots[i].m);
			expect(e == 0, "unlock", i, e);
			if (slots[i].kind == 2) {
				e = pthread_mutex_unlock(&slots[i].m);
				expect(e == EPERM, "unlock what is not one's own", i, e);
			}
			if (slots[i].kind == 3 && r >> 28 == 0) leave(i);
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 40;
	pthread_t t[THREADS];
	slots = mmap(NULL, N * sizeof *slots, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < N; i++) make(i);
	int e = pthread_mutex_lock(&slots[KINDS].m);    /* held by a thread that is always there, for all threads to wait for */
	expect(e == 0, "lock", KINDS, e);
	for (long i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, thread, (void *)i);
	for (int i = 0; i < rounds; i++) {
		nap(30000000);
		if (i % 4) continue;
		pthread_mutex_unlock(&slots[KINDS].m);
		nap(1000000);
		pthread_mutex_lock(&slots[KINDS].m);
	}
	pthread_mutex_unlock(&slots[KINDS].m);
	stop = 1;
	for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
	for (int i = 0; i < N; i++) expect(slots[i].before == slots[i].after && (!slots[i].usable || slots[i].after > 0), "the count", i, 0);
	printf("wrong %d\n", wrong);
	return wrong;
}
