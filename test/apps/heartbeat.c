/* test_doc: signals: a SIGALRM interval timer whose handler runs on an alternate stack while the program is in MPI,
 * blocked and pending signals, SA_SIGINFO with a value, sigsuspend; a sleep that ends when it should.
 *
 * Handlers count, write only what they own, and check that they run on the alternate stack with their own data. */
#include "app.h"
#include <signal.h>
#include <sys/time.h>

enum { STACK = 65536, MAGIC = 0x5eed };

static volatile sig_atomic_t alarms, users, usr2, wrong_stack, wrong_value;
static char *stack_lo;
static __thread volatile uint64_t tls_word = MAGIC;

static void on_alarm(int sig)
{
	char here;

	(void)sig;
	if (&here < stack_lo || &here >= stack_lo + STACK)
		wrong_stack++;
	if (tls_word != MAGIC)
		wrong_value++;
	alarms++;
}

static void on_user(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	if (context == NULL || info->si_code != SI_QUEUE || info->si_value.sival_int != (int)users + 1)
		wrong_value++;
	users++;
}

static void on_usr2(int sig)
{
	(void)sig;
	usr2++;
}

static void install(struct app *a)
{
	struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = SA_ONSTACK | SA_RESTART };
	struct sigaction si = { .sa_flags = SA_SIGINFO | SA_RESTART };
	struct sigaction s2 = { .sa_handler = on_usr2 };
	struct itimerval every = { { 0, 3000 }, { 0, 3000 } };
	stack_t ss = { .ss_size = STACK };

	stack_lo = (char *)app_alloc(a, STACK);
	ss.ss_sp = stack_lo;
	CHECK(a, sigaltstack(&ss, NULL) == 0, "sigaltstack: %s", strerror(errno));
	si.sa_sigaction = on_user;
	sigaddset(&sa.sa_mask, SIGUSR1);
	sigaction(SIGALRM, &sa, NULL);
	sigaction(SIGUSR1, &si, NULL);
	sigaction(SIGUSR2, &s2, NULL);
	CHECK(a, setitimer(ITIMER_REAL, &every, NULL) == 0, "setitimer: %s", strerror(errno));
}

static void check_state(struct app *a)
{
	struct sigaction sa;
	struct itimerval it;
	stack_t ss;

	sigaction(SIGALRM, NULL, &sa);
	CHECK(a, sa.sa_handler == on_alarm && (sa.sa_flags & SA_ONSTACK) && sigismember(&sa.sa_mask, SIGUSR1) == 1,
	      "disposition of SIGALRM");
	sigaltstack(NULL, &ss);
	CHECK(a, ss.ss_sp == stack_lo && ss.ss_size == STACK, "alternate stack");
	getitimer(ITIMER_REAL, &it);
	CHECK(a, it.it_interval.tv_usec == 3000, "interval timer of %ld us", (long)it.it_interval.tv_usec);
	CHECK(a, wrong_stack == 0 && wrong_value == 0, "%d handlers off their stack, %d with wrong values", (int)wrong_stack,
	      (int)wrong_value);
}

/* A sleep with the timer off is not cut short by anybody. */
static void sleeps(struct app *a)
{
	struct itimerval off = { { 0, 0 }, { 0, 0 } }, every = { { 0, 3000 }, { 0, 3000 } };
	struct timespec t = { 0, 5000000 };

	setitimer(ITIMER_REAL, &off, NULL);
	int rc = nanosleep(&t, NULL);
	CHECK(a, rc == 0, "nanosleep: %s", strerror(errno));
	setitimer(ITIMER_REAL, &every, NULL);
}

/* Blocked signals stay pending over the computation, and are delivered once by sigsuspend. */
static void pending(struct app *a)
{
	sigset_t set, old, now;
	long before = usr2;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, &old);
	kill(getpid(), SIGUSR2);
	app_compute(a, a->pace);
	sigpending(&now);
	CHECK(a, sigismember(&now, SIGUSR2) == 1 && usr2 == before, "blocked signal is not pending");
	sigprocmask(SIG_SETMASK, NULL, &now);
	CHECK(a, sigismember(&now, SIGUSR2) == 1, "signal mask lost");
	while (usr2 == before)
		sigsuspend(&old);
	CHECK(a, usr2 == before + 1, "pending signal came %ld times", (long)usr2 - before);
	sigprocmask(SIG_SETMASK, &old, NULL);
}

int main(int argc, char **argv)
{
	struct itimerval off = { { 0, 0 }, { 0, 0 } };
	struct app a;
	sigset_t ours;

	sigemptyset(&ours);
	sigaddset(&ours, SIGALRM), sigaddset(&ours, SIGUSR1), sigaddset(&ours, SIGUSR2);
	sigprocmask(SIG_BLOCK, &ours, NULL);     /* threads that the MPI starts inherit this and take none of them */
	app_begin(&a, argc, argv);
	sigprocmask(SIG_UNBLOCK, &ours, NULL);
	install(&a);
	for (long iter = 0; iter < a.iters; iter++) {
		uint64_t mine = mix3(a.seed, (uint64_t)iter, (uint64_t)a.rank), all = 0;
		long seen = alarms;
		app_progress(&a, iter);
		pending(&a);
		sleeps(&a);
		CHECK(&a, sigqueue(getpid(), SIGUSR1, (union sigval){ .sival_int = (int)iter + 1 }) == 0, "sigqueue");
		for (int k = 0; k < 20; k++)
			MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
		while (alarms == seen)
			app_compute(&a, 500);
		CHECK(&a, users == iter + 1, "%d queued signals, want %ld", (int)users, iter + 1);
		check_state(&a);
		app_result(&a, iter, "heartbeat", mix2(all, (uint64_t)(users + usr2)));
	}
	setitimer(ITIMER_REAL, &off, NULL);
	return app_end(&a);
}
