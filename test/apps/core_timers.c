/* test_doc: POSIX timers by signal and by thread, timerfd, and calls that wait: none of them reports EINTR. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static volatile int by_signal, by_thread, stop, wrong;
static void on_timer(int s, siginfo_t *si, void *uc) { (void)s; (void)uc; if (si->si_value.sival_int == 77) by_signal++; }
static void in_thread(union sigval v) { if (v.sival_int == 88) __atomic_fetch_add(&by_thread, 1, __ATOMIC_SEQ_CST); }

static void expect(int ok, const char *what)
{
	if (ok) return;
	wrong++;
	printf("wrong: %s: %s\n", what, strerror(errno));
}

static void *sleeper(void *kind)
{
	sigset_t s;
	sigfillset(&s);
	pthread_sigmask(SIG_BLOCK, &s, NULL);
	int ep = epoll_create1(0);
	sem_t sem;
	sem_init(&sem, 0, 0);
	while (!stop) {
		struct timespec t = { 0, 30000000 }, abs;
		struct timeval tv = { 0, 30000 };
		struct epoll_event ev;
		switch ((long)kind) {
		case 0: expect(nanosleep(&t, NULL) == 0, "nanosleep"); break;
		case 1: expect(poll(NULL, 0, 30) == 0, "poll"); break;
		case 2: expect(select(0, NULL, NULL, NULL, &tv) == 0, "select"); break;
		case 3: expect(epoll_wait(ep, &ev, 1, 30) == 0, "epoll_wait"); break;
		case 4: sigemptyset(&s); sigaddset(&s, SIGRTMIN + 9); expect(sigtimedwait(&s, NULL, &t) == -1 && errno == EAGAIN, "sigtimedwait"); break;
		case 5: sigfillset(&s); expect(ppoll(NULL, 0, &t, &s) == 0, "ppoll"); break;
		case 6: expect(pselect(0, NULL, NULL, NULL, &t, &s) == 0, "pselect"); break;
		case 7: expect(epoll_pwait(ep, &ev, 1, 30, &s) == 0, "epoll_pwait"); break;
		case 8: expect(clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL) == 0, "clock_nanosleep"); break;
		case 9:
			clock_gettime(CLOCK_REALTIME, &abs);
			abs.tv_nsec += 30000000;
			if (abs.tv_nsec >= 1000000000) abs.tv_nsec -= 1000000000, abs.tv_sec++;
			expect(sem_timedwait(&sem, &abs) == -1 && errno == ETIMEDOUT, "sem_timedwait");
			break;
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	enum { N = 10 };
	int rounds = argc > 1 ? atoi(argv[1]) : 60;          /* at least 25 */
	pthread_t t[N];
	timer_t a, b;
	struct sigaction sa = { .sa_sigaction = on_timer, .sa_flags = SA_SIGINFO | SA_RESTART };
	struct sigevent e1 = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 2, .sigev_value.sival_int = 77 };
	struct sigevent e2 = { .sigev_notify = SIGEV_THREAD, .sigev_notify_function = in_thread, .sigev_value.sival_int = 88 };
	struct itimerspec it = { { 0, 20000000 }, { 0, 20000000 } };
	uint64_t ticks = 0, n;
	sigaction(SIGRTMIN + 2, &sa, NULL);
	expect(timer_create(CLOCK_MONOTONIC, &e1, &a) == 0, "timer_create");
	expect(timer_create(CLOCK_REALTIME, &e2, &b) == 0, "timer_create");
	timer_settime(a, 0, &it, NULL);
	timer_settime(b, 0, &it, NULL);
	int fd = timerfd_create(CLOCK_MONOTONIC, 0);
	timerfd_settime(fd, 0, &it, NULL);
	for (long i = 0; i < N; i++) pthread_create(&t[i], NULL, sleeper, (void *)i);
	for (int i = 0; i < rounds; i++) {
		ssize_t k;
		while ((k = read(fd, &n, sizeof n)) < 0 && errno == EINTR) ;
		expect(k == sizeof n, "timerfd");
		ticks += n;
	}
	stop = 1;
	for (int i = 0; i < N; i++) pthread_join(t[i], NULL);
	int s = by_signal, h = by_thread;
	struct itimerspec left;
	expect(timer_gettime(a, &left) == 0 && left.it_interval.tv_nsec == 20000000, "timer_gettime");
	printf("timerfd %s signal %s thread %s wrong %d\n", ticks >= (uint64_t)rounds ? "many" : "few", s >= 20 ? "many" : "few", h >= 20 ? "many" : "few", wrong);
	timer_delete(a);
	timer_delete(b);
	return wrong != 0;
}
