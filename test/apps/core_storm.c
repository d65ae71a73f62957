/* test_doc: threads are made and end all the time, wait in calls that a signal breaks off, and send each other signals, while
 * stops begin and are given up as fast as they can: every thread goes on after each, nothing is lost, and the limit on
 * descriptors is the one that the program has set. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { STEADY = 6 };
static volatile uint64_t work[STEADY], born, usr1;
static volatile int ended;

static void on_usr1(int s)
{
	(void)s;
	__atomic_fetch_add(&usr1, 1, __ATOMIC_SEQ_CST);
}

static void *brief(void *arg)
{
	struct timespec t = { 0, 50000 };
	if ((uintptr_t)arg & 1) nanosleep(&t, NULL);
	__atomic_fetch_add(&born, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void *maker(void *arg)
{
	pthread_t t[3];
	for (uintptr_t n = 0; !ended; n++) {
		for (uintptr_t i = 0; i < 3; i++)
			if (pthread_create(&t[i], NULL, brief, (void *)(n + i))) printf("wrong: pthread_create\n");
		for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
	}
	return arg;
}

static void *steady(void *arg)
{
	uintptr_t me = (uintptr_t)arg;
	struct timespec t = { 0, 200000 }, now;
	while (!ended) {
		if (me % 3 == 0) nanosleep(&t, NULL);
		else if (me % 3 == 1) clock_gettime(CLOCK_MONOTONIC, &now);
		else syscall(SYS_getppid);
		work[me]++;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 10;
	pthread_t t[STEADY], m[2];
	uint64_t sent = 0;
	signal(SIGUSR1, on_usr1);
	for (uintptr_t i = 0; i < STEADY; i++)
		if (pthread_create(&t[i], NULL, steady, (void *)i)) return 1;
	for (int i = 0; i < 2; i++)
		if (pthread_create(&m[i], NULL, maker, NULL)) return 1;
	for (int i = 0; i < rounds; i++) {
		struct timespec round = { 0, 100000000 };
		struct rlimit limit;
		getrlimit(RLIMIT_NOFILE, &limit);
		limit.rlim_cur = 300 + (rlim_t)i;
		if (setrlimit(RLIMIT_NOFILE, &limit)) printf("wrong: setrlimit\n");
		uint64_t was[STEADY], births = born;
		for (int k = 0; k < STEADY; k++) was[k] = work[k];
		nanosleep(&round, NULL);
		for (int k = 0; k < STEADY; k++)
			while (work[k] == was[k]) sched_yield();        /* a thread that does not go on hangs the test here */
		while (born == births) sched_yield();
		pthread_kill(t[i % STEADY], SIGUSR1);
		for (sent++; usr1 != sent; ) sched_yield();
		getrlimit(RLIMIT_NOFILE, &limit);
		printf("round %d, %lu descriptors\n", i, (unsigned long)limit.rlim_cur);
		fflush(stdout);
	}
	ended = 1;
	for (int i = 0; i < STEADY; i++) pthread_join(t[i], NULL);
	for (int i = 0; i < 2; i++) pthread_join(m[i], NULL);
	printf("usr1 %d\n", (int)usr1);
	return 0;
}
