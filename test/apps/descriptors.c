/* test_doc: descriptors that are no files: epoll with its interest list, timerfd, eventfd as a semaphore,
 * a POSIX timer, directories, /dev/null, a pipe that is full, descriptor numbers with holes, and a standard input
 * that does not wait. */
#define _GNU_SOURCE
#include "app.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

struct open {
	int epoll, timer, semaphore, directory, null, pipe[2], high;
	timer_t posix;
};

static volatile sig_atomic_t ticks;

static void on_tick(int sig)
{
	(void)sig;
	ticks++;
}

static void watch(struct app *a, const struct open *o, int fd, uint64_t data)
{
	struct epoll_event e = { .events = EPOLLIN, .data.u64 = data };

	CHECK(a, epoll_ctl(o->epoll, EPOLL_CTL_ADD, fd, &e) == 0, "epoll_ctl: %s", strerror(errno));
}

static void open_all(struct app *a, struct open *o)
{
	struct itimerspec every = { { 0, 2000000 }, { 0, 2000000 } };
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2 };
	struct sigaction sa = { .sa_handler = on_tick, .sa_flags = SA_RESTART };

	o->epoll = epoll_create1(EPOLL_CLOEXEC);
	o->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	o->semaphore = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK);
	o->directory = open("/", O_RDONLY | O_DIRECTORY);
	o->null = open("/dev/null", O_RDWR);
	CHECK(a, pipe2(o->pipe, O_NONBLOCK) == 0, "pipe2: %s", strerror(errno));
	o->high = fcntl(o->null, F_DUPFD, 200);
	CHECK(a, o->epoll >= 0 && o->timer >= 0 && o->semaphore >= 0 && o->directory >= 0 && o->high == 200, "open: %s",
	      strerror(errno));
	CHECK(a, timerfd_settime(o->timer, 0, &every, NULL) == 0, "timerfd_settime: %s", strerror(errno));
	watch(a, o, o->timer, 11);
	watch(a, o, o->semaphore, 12);
	watch(a, o, o->pipe[0], 13);
	CHECK(a, fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK) == 0, "standard input: %s", strerror(errno));
	sigaction(SIGUSR2, &sa, NULL);
	CHECK(a, timer_create(CLOCK_MONOTONIC, &ev, &o->posix) == 0, "timer_create: %s", strerror(errno));
	CHECK(a, timer_settime(o->posix, 0, &every, NULL) == 0, "timer_settime: %s", strerror(errno));
}

/* Waits until epoll has reported all three sources, each with its own data. */
static void wait_all(struct app *a, const struct open *o)
{
	unsigned seen = 0;

	while (seen != 7) {
		struct epoll_event e[4];
		int n = epoll_wait(o->epoll, e, 4, 10000);
		CHECK(a, n > 0 || (n < 0 && errno == EINTR), "epoll_wait: %d: %s, seen %x", n, strerror(errno), seen);
		for (int i = 0; i < n; i++) {
			CHECK(a, e[i].data.u64 >= 11 && e[i].data.u64 <= 13, "epoll reports %" PRIu64, e[i].data.u64);
			seen |= 1u << (e[i].data.u64 - 11);
		}
	}
}

/* Fills the pipe until it takes no more; returns the number of bytes. */
static long fill_pipe(struct app *a, const struct open *o, uint64_t key)
{
	uint8_t block[512];
	long n = 0;

	for (ssize_t w; (w = (fill(block, sizeof block, key + (uint64_t)n), write(o->pipe[1], block, sizeof block))) > 0; n += w)
		;
	CHECK(a, errno == EAGAIN, "write to a full pipe: %s", strerror(errno));
	return n;
}

static void empty_pipe(struct app *a, const struct open *o, uint64_t key, long n)
{
	uint8_t block[512];

	for (long at = 0; at < n; at += (long)sizeof block) {
		CHECK(a, read(o->pipe[0], block, sizeof block) == sizeof block, "the pipe ends after %ld of %ld bytes", at, n);
		CHECK(a, wrong(block, sizeof block, key + (uint64_t)at) < 0, "pipe, byte %ld", at);
	}
	CHECK(a, read(o->pipe[0], block, 1) < 0 && errno == EAGAIN, "the pipe has more than was written");
}

static void others(struct app *a, struct open *o)
{
	uint64_t got;
	struct itimerspec t;
	char b[16];

	CHECK(a, read(o->timer, &got, sizeof got) == sizeof got && got > 0, "timerfd has not run");
	for (int i = 0; i < 3; i++)
		CHECK(a, read(o->semaphore, &got, sizeof got) == sizeof got && got == 1, "semaphore %d", i);
	CHECK(a, read(o->semaphore, &got, sizeof got) < 0 && errno == EAGAIN, "semaphore has too much");
	CHECK(a, write(o->high, b, sizeof b) == sizeof b && read(o->null, b, sizeof b) == 0, "/dev/null");
	CHECK(a, fcntl(150, F_GETFD) < 0 && errno == EBADF, "descriptor 150 is open");
	CHECK(a, faccessat(o->directory, "etc", R_OK, 0) == 0, "directory");
	timer_gettime(o->posix, &t);
	CHECK(a, t.it_interval.tv_nsec == 2000000, "POSIX timer of %ld ns", t.it_interval.tv_nsec);
}

int main(int argc, char **argv)
{
	struct open o = { 0 };
	struct app a;
	sigset_t ours;

	sigemptyset(&ours);
	sigaddset(&ours, SIGUSR2);
	sigprocmask(SIG_BLOCK, &ours, NULL);     /* threads of the MPI shall not take it */
	app_begin(&a, argc, argv);
	sigprocmask(SIG_UNBLOCK, &ours, NULL);
	open_all(&a, &o);
	for (long iter = 0; iter < a.iters; iter++) {
		uint64_t key = mix3(a.seed, (uint64_t)iter, (uint64_t)a.rank), three = 3;
		long n, before = ticks;
		app_progress(&a, iter);
		n = fill_pipe(&a, &o, key);
		CHECK(&a, write(o.semaphore, &three, sizeof three) == sizeof three, "eventfd: %s", strerror(errno));
		app_compute(&a, a.pace);
		wait_all(&a, &o);
		empty_pipe(&a, &o, key, n);
		others(&a, &o);
		CHECK(&a, fcntl(0, F_GETFL) & O_NONBLOCK, "standard input waits");
		while (ticks == before)
			app_compute(&a, 500);
		MPI_Barrier(MPI_COMM_WORLD);
		app_result(&a, iter, "descriptors", mix2(key, (uint64_t)n));
	}
	timer_delete(o.posix);
	return app_end(&a);
}
