/* clocks: clocks that only go on, and waits until a moment of theirs, on ranks that go on elsewhere, where the machine has been up for
 * another time. Each rank has threads that wait all the time, each in another way; one that waits for long is told by the others. */
#define _GNU_SOURCE
#include "app.h"
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <linux/futex.h>

enum { STEP_NS = 20000000, WAYS = 8 };
static const clockid_t clocks[] = { CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME };
static const char *const names[WAYS] = { "condition", "sleep", "semaphore", "timerfd", "futex", "mutex", "sleep in boot time", "timer" };
static struct app app;
static volatile long steps[WAYS];
static volatile int over;

static int64_t now(clockid_t c)
{
	struct timespec t;

	clock_gettime(c, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Without the C library, which asks the vDSO. */
static int64_t now_by_call(clockid_t c)
{
	struct timespec t;

	syscall(SYS_clock_gettime, c, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static struct timespec at(int64_t ns) { return (struct timespec){ ns / 1000000000, ns % 1000000000 }; }

/* Waits until a moment. */
static void wait_until(int way, int64_t when)
{
	static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
	struct timespec t = at(when);

	switch (way) {
	case 0: {
		pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
		pthread_condattr_t a;
		pthread_cond_t c;
		pthread_condattr_init(&a);
		pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
		pthread_cond_init(&c, &a);
		pthread_mutex_lock(&m);
		while (pthread_cond_timedwait(&c, &m, &t) != ETIMEDOUT) ;
		pthread_mutex_unlock(&m);
		return;
	}
	case 1: while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) ; return;
	case 2: {
		sem_t s;
		sem_init(&s, 0, 0);
		while (sem_clockwait(&s, CLOCK_MONOTONIC, &t) == 0 || errno == EINTR) ;
		return;
	}
	case 3: {
		struct itimerspec it = { { 0, 0 }, t };
		uint64_t n;
		int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
		CHECK(&app, fd >= 0 && timerfd_settime(fd, TFD_TIMER_ABSTIME, &it, NULL) == 0, "timerfd: %s", strerror(errno));
		while (read(fd, &n, sizeof n) < 0 && errno == EINTR) ;
		close(fd);
		return;
	}
	case 4: {
		int word = 0;
		while (syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0, &t, NULL, FUTEX_BITSET_MATCH_ANY) == 0 ||
		       errno == EINTR) ;
		CHECK(&app, errno == ETIMEDOUT, "futex: %s", strerror(errno));
		return;
	}
	case 5:
		pthread_mutex_trylock(&held); /* by this thread, once and for all */
		while (pthread_mutex_clocklock(&held, CLOCK_MONOTONIC, &t) != ETIMEDOUT) ;
		return;
	case 6: while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &t, NULL) == EINTR) ; return;
	default: {
		static timer_t timer;
		static int made;
		struct itimerspec it = { { 0, 0 }, t };
		struct sigevent none = { .sigev_notify = SIGEV_NONE };
		if (!made)
			made = timer_create(CLOCK_MONOTONIC, &none, &timer) == 0;
		CHECK(&app, made && timer_settime(timer, TIMER_ABSTIME, &it, NULL) == 0, "timer: %s", strerror(errno));
		do usleep(1000); while (timer_gettime(timer, &it) == 0 && (it.it_value.tv_sec || it.it_value.tv_nsec));
		return;
	}
	}
}

static void *waiter(void *arg)
{
	int way = (int)(intptr_t)arg;
	clockid_t c = way == 6 ? CLOCK_BOOTTIME : CLOCK_MONOTONIC;

	while (!over) {
		int64_t when = now(c) + STEP_NS;
		wait_until(way, when);
		int64_t late = now(c) - when;
		CHECK(&app, late >= 0, "%s: it was over %lld ns before its time", names[way], (long long)-late);
		steps[way]++;
	}
	return NULL;
}

/* Each way has gone on since; by another clock, which is not asked to go on. */
static void check_progress(struct app *a)
{
	static long last[WAYS];
	enum { MINUTE = 60000 };

	for (int i = 0; i < WAYS; i++) {
		for (long ms = 0; steps[i] == last[i]; ms++) {
			CHECK(a, ms < MINUTE, "%s: it has waited a minute for %d ms", names[i], STEP_NS / 1000000);
			usleep(1000);
		}
		last[i] = steps[i];
	}
}

static void check_clocks(struct app *a)
{
	static int64_t last[4];
	static double last_wtime;
	double w = MPI_Wtime();

	CHECK(a, w >= last_wtime && (last_wtime == 0 || w < last_wtime + 600), "MPI_Wtime: %f after %f", w, last_wtime);
	last_wtime = w;
	for (int i = 0; i < 4; i++) {
		int64_t t = now(clocks[i]), u = now_by_call(clocks[i]);
		CHECK(a, t >= last[i], "clock %d has gone back by %lld ns", clocks[i], (long long)(last[i] - t));
		CHECK(a, last[i] == 0 || t - last[i] < 600 * 1000000000LL, "clock %d has gone on by %lld ns", clocks[i], (long long)(t - last[i]));
		CHECK(a, u >= t - 1, "clock %d is %lld ns behind when the kernel is asked", clocks[i], (long long)(t - u));
		CHECK(a, u - t < 600 * 1000000000LL, "clock %d is %lld ns ahead when the kernel is asked", clocks[i], (long long)(u - t));
		last[i] = u;
	}
}

int main(int argc, char **argv)
{
	pthread_t t[WAYS];
	int provided;

	app_begin_threads(&app, argc, argv, MPI_THREAD_FUNNELED, &provided);
	for (int i = 0; i < WAYS; i++)
		pthread_create(&t[i], NULL, waiter, (void *)(intptr_t)i);
	for (long i = 0; i < app.iters; i++) {
		check_clocks(&app);
		check_progress(&app);
		app_compute(&app, app.pace);
		MPI_Barrier(MPI_COMM_WORLD);
		app_progress(&app, i);
	}
	app_stay(&app);
	over = 1;
	for (int i = 0; i < WAYS; i++)
		pthread_join(t[i], NULL);
	app_result(&app, app.iters, "clocks", 1);
	return app_end(&app);
}
