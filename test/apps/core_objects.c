/* test_doc: epoll sets (nested, one-shot, exclusive, of a closed number), timerfd, eventfd as semaphore, signalfd, pidfd; CPU clocks and timers on them. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include "ask.h"

/* -- epoll ----------------------------------------------------------------------------------------------------------------- */

static void add(int ep, int fd, unsigned events, unsigned long data)
{
	struct epoll_event e = { .events = events, .data.u64 = data };
	expect(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) == 0, "EPOLL_CTL_ADD");
}

static unsigned long next(int ep)
{
	struct epoll_event e = { 0 };
	return epoll_wait(ep, &e, 1, 0) == 1 ? e.data.u64 : 0;
}

static void epolls(const char *file)
{
	int in = epoll_create1(0), out = epoll_create1(EPOLL_CLOEXEC), once = epoll_create1(0), excl = epoll_create1(0), odd = epoll_create1(0);
	int a = eventfd(0, EFD_NONBLOCK), b = eventfd(1, 0), c = eventfd(0, 0), p[2], q[2], idle[2];
	uint64_t v = 1;
	expect(pipe(p) == 0 && pipe(q) == 0 && pipe(idle) == 0, "pipe");
	add(in, a, EPOLLIN, 0x1234567890abcdef);
	add(out, in, EPOLLIN | EPOLLET, 2);
	add(once, b, EPOLLIN | EPOLLONESHOT, 3);
	add(once, p[1], EPOLLOUT | EPOLLONESHOT, 4);
	add(once, idle[0], EPOLLIN | EPOLLONESHOT, 9);
	add(excl, c, EPOLLIN | EPOLLEXCLUSIVE, 5);
	/* The number of this entry is closed, and then another file's: the entry is of the pipe, which lives by another. Where
	 * the test's agent has denied kcmp(2) that is refused. */
	bool confined = getenv("CONFINED") != NULL;
	int number = confined ? q[0] : dup(q[0]);
	add(odd, number, EPOLLIN, 6);
	if (!confined) close(number);
	int stranger = open("/dev/null", O_RDONLY);
	expect(confined || stranger == number, "number");
	expect(write(idle[1], "x", 1) == 1 && next(once) == 3 && next(once) == 4 && next(once) == 9 && next(once) == 0, "one-shot");
	char ch;
	expect(read(idle[0], &ch, 1) == 1, "read");
	for (int i = 0; i < 3; i++) {
		moment(file);
		expect(next(once) == 0, "one-shot stays off");
		expect(write(idle[1], "x", 1) == 1 && next(once) == 0 && read(idle[0], &ch, 1) == 1, "one-shot of an idle descriptor stays off");
		expect(next(in) == 0 && write(a, &v, 8) == 8 && next(out) == 2 && next(in) == 0x1234567890abcdef && read(a, &v, 8) == 8, "nested");
		while (next(out)) ;
		expect(next(excl) == 0 && write(c, &v, 8) == 8 && next(excl) == 5 && read(c, &v, 8) == 8, "exclusive");
		expect(next(odd) == 0 && write(q[1], "x", 1) == 1 && next(odd) == 6 && read(q[0], &ch, 1) == 1, "entry of a closed number");
	}
	struct epoll_event e = { .events = EPOLLIN | EPOLLONESHOT, .data.u64 = 7 };
	expect(epoll_ctl(once, EPOLL_CTL_MOD, b, &e) == 0 && next(once) == 7, "armed again");
	close(idle[1]);
	expect(next(once) == 0, "a hang-up does not arm");
	int all[] = { in, out, once, excl, odd, a, b, c, p[0], p[1], q[0], q[1], idle[0], stranger };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) close(all[i]);
	printf("epoll\n");
}

/* -- eventfd, timerfd, signalfd, pidfd ------------------------------------------------------------------------------------------------- */

static void counters(const char *file)
{
	static const uint64_t count[] = { 0, 1, 2, 7, 0xfffffffffffffffe };
	enum { N = sizeof count / sizeof *count };
	int sem[N], plain[N];
	uint64_t v;
	for (int i = 0; i < N; i++) {
		sem[i] = eventfd(0, EFD_SEMAPHORE | (i & 1 ? EFD_NONBLOCK : 0));
		plain[i] = eventfd(0, i & 1 ? EFD_NONBLOCK : 0);
		if (count[i]) expect(write(sem[i], &count[i], 8) == 8 && write(plain[i], &count[i], 8) == 8, "write");
	}
	for (int i = 0; i < 3; i++) moment(file);
	for (int i = 0; i < N; i++) {
		struct pollfd p[2] = { { sem[i], POLLIN, 0 }, { plain[i], POLLIN, 0 } };
		expect(poll(p, 2, 0) == (count[i] ? 2 : 0), "poll");
		if (!count[i]) {
			v = 2;
			expect(write(sem[i], &v, 8) == 8 && write(plain[i], &v, 8) == 8, "write");
			v = 0;
		}
		expect(read(sem[i], &v, 8) == 8 && v == 1, "semaphore");
		expect(read(plain[i], &v, 8) == 8 && v == (count[i] ? count[i] : 2), "counter");
		if (count[i] != 1) expect(read(sem[i], &v, 8) == 8 && v == 1, "semaphore's rest");
		close(sem[i]), close(plain[i]);
	}
	printf("eventfd\n");
}

static void objects(const char *file)
{
	int rel = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), abs_ = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK), self = (int)syscall(SYS_pidfd_open, getpid(), 0);
	int due = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK);
	struct itimerspec r = { { 500, 0 }, { 1000, 0 } }, a = { { 0, 0 }, { 0, 0 } }, d = { { 0, 0 }, { 0, 1 } }, now;
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	a.it_value.tv_sec = t.tv_sec + 1000;
	expect(timerfd_settime(rel, 0, &r, NULL) == 0 && timerfd_settime(abs_, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &a, NULL) == 0 && timerfd_settime(due, 0, &d, NULL) == 0, "timerfd_settime");
	struct pollfd p = { due, POLLIN, 0 };
	expect(poll(&p, 1, -1) == 1 && self >= 0, "poll");
	sigset_t s;
	sigemptyset(&s);
	sigaddset(&s, SIGUSR2);
	sigprocmask(SIG_BLOCK, &s, NULL);
	int sfd = signalfd(-1, &s, SFD_NONBLOCK);
	for (int i = 0; i < 3; i++) {
		moment(file);
		expect(timerfd_gettime(rel, &now) == 0 && now.it_interval.tv_sec == 500 && now.it_value.tv_sec > 100, "timerfd");
		clock_gettime(CLOCK_REALTIME, &t);
		expect(timerfd_gettime(abs_, &now) == 0, "timerfd_gettime");
		double when = (double)(t.tv_sec + now.it_value.tv_sec) + (double)(t.tv_nsec + now.it_value.tv_nsec) * 1e-9;
		expect(when - (double)a.it_value.tv_sec < 0.01 && (double)a.it_value.tv_sec - when < 0.5, "timerfd at a moment of the day");
		/* What is sent by the descriptor comes to this process. */
		expect(syscall(SYS_pidfd_send_signal, self, SIGUSR2, NULL, 0) == 0, "pidfd");
		struct signalfd_siginfo si;
		expect(read(sfd, &si, sizeof si) == sizeof si && si.ssi_signo == SIGUSR2, "signalfd");
	}
	uint64_t v = 0;
	expect(read(due, &v, 8) == 8 && v == 1 && read(due, &v, 8) < 0, "timerfd that was due");
	close(rel), close(abs_), close(due), close(self), close(sfd);
	printf("objects\n");
}

/* -- clocks of processors' time ---------------------------------------------------------------------------------------------------------- */

static volatile int fired[2];
static void on_timer(int sig, siginfo_t *si, void *uc) { (void)sig; (void)uc; fired[si->si_value.sival_int]++; }

static volatile int work, over;
static timer_t of_thread;

static void *worker(void *arg)
{
	(void)arg;
	struct sigevent e = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 7, .sigev_value.sival_int = 1 };
	struct itimerspec soon = { { 0, 2000000 }, { 0, 2000000 } };
	expect(timer_create(CLOCK_THREAD_CPUTIME_ID, &e, &of_thread) == 0 && timer_settime(of_thread, 0, &soon, NULL) == 0, "timer of a thread");
	__atomic_store_n(&work, 1, __ATOMIC_SEQ_CST);
	while (!over) {
		struct timespec t = { 0, 1000000 };
		if (work == 2) for (volatile int i = 0; i < 1000000; i++) ;
		else nanosleep(&t, NULL);
	}
	return NULL;
}

static void *sleeper(void *clock)
{
	struct timespec t = { 0, 300000000 };
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	expect(clock_nanosleep(*(clockid_t *)clock, 0, &t, NULL) == 0, "clock_nanosleep");
	return NULL;
}

static double seconds(clockid_t c)
{
	struct timespec t = { 0, 0 };
	int r = clock_gettime(c, &t);
	expect(r == 0, "clock_gettime");
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void clocks(const char *file)
{
	pthread_t t, z;
	clockid_t process, thread;
	timer_t of_process;
	struct sigaction a = { .sa_sigaction = on_timer, .sa_flags = SA_SIGINFO | SA_RESTART };
	struct sigevent e = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 7, .sigev_value.sival_int = 0 };
	struct itimerspec soon = { { 0, 2000000 }, { 0, 2000000 } };
	struct timespec r;
	sigaction(SIGRTMIN + 7, &a, NULL);
	pthread_create(&t, NULL, worker, NULL);
	while (!work) usleep(1000);
	expect(pthread_getcpuclockid(t, &thread) == 0 && clock_getcpuclockid(getpid(), &process) == 0, "getcpuclockid");
	expect(timer_create(process, &e, &of_process) == 0 && timer_settime(of_process, 0, &soon, NULL) == 0, "timer of the process");
	pthread_create(&z, NULL, sleeper, &process);
	for (int i = 0; i < 3; i++) {
		moment(file);
		double p = seconds(process), w = seconds(thread);
		for (volatile int k = 0; k < 20000000; k++) ;
		expect(seconds(process) > p, "clock of the process");
		struct timespec raw_;
		expect(syscall(SYS_clock_gettime, thread, &raw_) == 0 && clock_getres(thread, &r) == 0 && syscall(SYS_clock_getres, process, &r) == 0, "system calls");
		fired[0] = fired[1] = 0;
		__atomic_store_n(&work, 2, __ATOMIC_SEQ_CST);
		while (!fired[0] || !fired[1]) usleep(1000);
		expect(seconds(thread) > w, "clock of the thread");
		__atomic_store_n(&work, 1, __ATOMIC_SEQ_CST);
		double here = seconds(CLOCK_THREAD_CPUTIME_ID);
		expect(here > 0 && here <= seconds(CLOCK_PROCESS_CPUTIME_ID), "own clocks");
	}
	__atomic_store_n(&work, 2, __ATOMIC_SEQ_CST);
	pthread_join(z, NULL);
	over = 1;
	pthread_join(t, NULL);
	moment(file);                                   /* the timer's thread is gone */
	expect(timer_delete(of_process) == 0 && timer_delete(of_thread) == 0, "timer_delete");
	printf("clocks\n");
}

int main(int argc, char **argv)
{
	const char *file = argc > 1 ? argv[1] : NULL;
	setvbuf(stdout, NULL, _IOLBF, 0);
	epolls(file);
	counters(file);
	objects(file);
	clocks(file);
	printf("wrong %d\n", wrong);
	return wrong != 0;
}
