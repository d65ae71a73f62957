/* test_doc: 80 threads cross into the lower half, are interrupted there by signals, and are called back (byssus-rank-test). */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
#include "../../rank/core/layout.h"

enum { N = 80, ROUNDS = 60 };
static __thread long mine;
static long wrong, handled, here;
static int native;

static long cross(unsigned slot, long a, long b, long c, long d, long e, long f)
{
	long r;
	if (native) return slot == 0 ? a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f : slot == 1 ? (usleep((unsigned)a), a) :
		1000 + ((long (*)(long, long, long, long, long, long))a)(b, 2, 3, 4, 5, 6);
	while ((r = ((long (*)(long, long, long, long, long, long))BY_CTLP->call[slot])(a, b, c, d, e, f)) == BY_AGAIN)
		syscall(SYS_tgkill, getpid(), (int)syscall(SYS_gettid), BY_SIG);
	return r;
}
static long back(long a, long b, long c, long d, long e, long f)
{
	char line[50];
	snprintf(line, sizeof line, "%ld", mine);
	if (a % 7 == 0) usleep(200);            /* a stop must wait for this */
	return a * 10 + b + c + d + e + f + mine + cross(0, 1, 1, 1, 1, 1, 1);
}
static void on_signal(int s)
{
	(void)s;
	if (here && mine == 0) __atomic_fetch_add(&wrong, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&handled, 1, __ATOMIC_SEQ_CST);
}
static void *work(void *arg)
{
	long id = (long)arg;
	mine = 100 + id;
	for (long r = 0; r < ROUNDS; r++) {
		if (cross(0, id, r, 3, 4, 5, 6) != id + 2 * r + 9 + 16 + 25 + 36) __atomic_fetch_add(&wrong, 1, __ATOMIC_SEQ_CST);
		if (cross(1, 300 + (r & 1), 0, 0, 0, 0, 0) != 300 + (r & 1)) __atomic_fetch_add(&wrong, 1, __ATOMIC_SEQ_CST);
		if (cross(2, (long)back, r, 0, 0, 0, 0) != 1000 + r * 10 + 20 + mine + 21) __atomic_fetch_add(&wrong, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t[N];
	struct sigaction a = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct itimerval it = { { 0, 2000 }, { 0, 2000 } };
	native = argc > 1 && !strcmp(argv[1], "native");
	mine = 1;
	sigaction(SIGALRM, &a, NULL);
	setitimer(ITIMER_REAL, &it, NULL);
	for (int generation = 0; generation < 4; generation++) {        /* donors go from dead threads to new ones */
		here = 0;
		for (long i = 0; i < N; i++) pthread_create(&t[i], NULL, work, (void *)i);
		work((void *)1000L);
		for (int i = 0; i < N; i++) pthread_join(t[i], NULL);
		mine = 1;
		here = 1;                                               /* only the main thread is left: it has its TLS in handlers */
		for (int i = 0; i < 20; i++) cross(1, 5001, 0, 0, 0, 0, 0);
	}
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
	printf("wrong %ld %s\n", wrong, handled > 20 ? "handled" : "few signals");
	return wrong != 0;
}
