/* test_doc: handlers on signal stacks, nested handlers, blocked pending signals with values, intervals timers, sigsuspend. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t alarms, usr1, usr2, nested, on_alt, got_value, resets;
static char *alt;
static size_t alt_size;

static void burn(double s)
{
	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	do clock_gettime(CLOCK_MONOTONIC, &b); while ((double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9 < s);
}

static void on_alarm(int s) { (void)s; alarms++; }
static void on_usr1(int s, siginfo_t *si, void *uc)
{
	char here;
	(void)s; (void)si; (void)uc;
	if (&here >= alt && &here < alt + alt_size) on_alt++;
	raise(SIGUSR2);                 /* handled at once, on top of this one */
	burn(0.02);                     /* a checkpoint may come in here */
	usr1++;
}
static void on_usr2(int s) { (void)s; nested++; burn(0.01); usr2++; }
static void on_rt(int s, siginfo_t *si, void *uc) { (void)s; (void)uc; got_value = got_value * 10 + si->si_value.sival_int; }
static void on_reset(int s) { (void)s; resets++; }

static void *other(void *arg)
{
	sigset_t s;
	int sig;
	(void)arg;
	sigemptyset(&s);
	sigaddset(&s, SIGRTMIN + 3);
	int n = 0;
	while (n < 5 && sigwait(&s, &sig) == 0) n++;
	return (void *)(long)n;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 30;          /* at least 25 */
	struct sigaction a = { .sa_flags = SA_SIGINFO | SA_ONSTACK };
	struct itimerval it = { { 0, 10000 }, { 0, 10000 } };
	sigset_t block, old, empty;
	pthread_t t;
	void *n;
	alt_size = 65536;
	alt = malloc(alt_size);
	sigaltstack(&(stack_t){ .ss_sp = alt, .ss_size = alt_size }, NULL);
	a.sa_sigaction = on_usr1;
	sigaction(SIGUSR1, &a, NULL);
	a.sa_sigaction = on_rt;
	sigaction(SIGRTMIN + 1, &a, NULL);
	signal(SIGUSR2, on_usr2);
	signal(SIGALRM, on_alarm);
	signal(SIGHUP, SIG_IGN);
	sigaction(SIGCONT, &(struct sigaction){ .sa_handler = on_reset, .sa_flags = SA_RESETHAND }, NULL);
	sigemptyset(&empty);
	sigemptyset(&block);
	sigaddset(&block, SIGRTMIN + 3);
	sigaddset(&block, SIGRTMIN + 1);
	sigaddset(&block, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &block, &old);
	pthread_create(&t, NULL, other, NULL);
	for (int i = 1; i <= 3; i++) sigqueue(getpid(), SIGRTMIN + 1, (union sigval){ .sival_int = i });
	kill(getpid(), SIGTERM);
	setitimer(ITIMER_REAL, &it, NULL);
	for (int i = 0; i < rounds; i++) {
		raise(SIGUSR1);
		kill(getpid(), SIGHUP);
		usleep(1000);
		burn(0.005);
		if (i % 6 == 0 && i < 30) pthread_kill(t, SIGRTMIN + 3);
	}
	for (int i = 0; i < 10; i++) {
		int was = alarms;
		sigset_t most;
		sigfillset(&most);
		sigdelset(&most, SIGALRM);
		if (sigsuspend(&most) != -1 || errno != EINTR || alarms == was) printf("wrong: sigsuspend\n");
	}
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
	raise(SIGCONT);
	struct sigaction now;
	sigaction(SIGCONT, NULL, &now);
	printf("reset %d %s\n", resets, now.sa_handler == SIG_DFL ? "default" : "kept");
	sigaction(SIGUSR1, NULL, &now);
	printf("handler %s flags %x\n", now.sa_sigaction == on_usr1 ? "mine" : "changed", (unsigned)now.sa_flags & ~0x4000000u);
	signal(SIGTERM, SIG_IGN);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_join(t, &n);
	printf("usr1 %d on alt %d usr2 %d nested %d values %d waited %ld alarms %s\n", usr1, on_alt, usr2, nested, got_value, (long)n, alarms > 10 ? "many" : "few");
	return 0;
}
