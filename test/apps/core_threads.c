/* test_doc: 64 threads keep their TLS, names, held recursive, error-checking and robust mutexes, and their work. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { N = 64 };
static int rounds = 40;
static __thread unsigned long mine;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static unsigned long total, result[N];
static int wrong;

static void check(int ok, const char *what)
{
	if (ok) return;
	__atomic_fetch_add(&wrong, 1, __ATOMIC_SEQ_CST);
	printf("wrong: %s (%s)\n", what, strerror(errno));
}

static pthread_mutex_t made(int type, int robust)
{
	pthread_mutex_t m;
	pthread_mutexattr_t a;
	pthread_mutexattr_init(&a);
	pthread_mutexattr_settype(&a, type);
	if (robust) pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&m, &a);
	return m;
}

static void *work(void *arg)
{
	long id = (long)arg;
	char name[16], got[16] = "";
	pthread_mutex_t rec = made(PTHREAD_MUTEX_RECURSIVE, 0), chk = made(PTHREAD_MUTEX_ERRORCHECK, 0), rob = made(PTHREAD_MUTEX_NORMAL, 1);
	snprintf(name, sizeof name, "worker-%ld", id);
	prctl(PR_SET_NAME, name);
	mine = (unsigned long)id * 1000003 + 1;
	pthread_mutex_lock(&rec);
	pthread_mutex_lock(&chk);
	pthread_mutex_lock(&rob);
	for (int r = 0; r < rounds; r++) {
		for (int k = 0; k < 200000; k++) mine = mine * 6364136223846793005UL + 1442695040888963407UL;
		check(pthread_mutex_lock(&rec) == 0, "recursive lock");
		check(pthread_mutex_unlock(&rec) == 0, "recursive unlock");
		check(pthread_mutex_lock(&chk) == EDEADLK, "error-checking lock");
		pthread_mutex_lock(&lock);
		total += mine;
		pthread_mutex_unlock(&lock);
		pthread_barrier_wait(&barrier);
	}
	check(pthread_mutex_unlock(&rec) == 0, "recursive last unlock");
	check(pthread_mutex_unlock(&chk) == 0, "error-checking unlock");
	check(pthread_mutex_unlock(&rob) == 0, "robust unlock");
	prctl(PR_GET_NAME, got);
	check(!strcmp(name, got), "name");
	check(pthread_kill(pthread_self(), 0) == 0, "pthread_kill");
	result[id] = mine;
	return (void *)(mine & 0xffff);
}

int main(int argc, char **argv)
{
	pthread_t t[N];
	if (argc > 1) rounds = atoi(argv[1]);
	unsigned long h = 0;
	pthread_barrier_init(&barrier, NULL, N);
	for (long i = 0; i < N; i++) pthread_create(&t[i], NULL, work, (void *)i);
	for (int i = 0; i < N; i++) {
		void *r;
		pthread_join(t[i], &r);
		h = h * 31 + (unsigned long)r + result[i];
	}
	printf("total %lx hash %lx wrong %d\n", total, h, wrong);
	return wrong != 0;
}
