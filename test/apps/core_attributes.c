/* test_doc: what threads and the process have set about themselves is so after a restart: affinity, priorities, limits, prctls, stacks.
 *
 * With "pinned" it chooses the second processor, and then does as with "natural": it sets nothing and prints, at its end, what it finds: after a restart that is the new surroundings'. What
 * the kernel or the user's rights do not allow to set is left aside. A second argument is the number of rounds. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NTHREADS = 4, NPER = 8, NALL = 24, AUTODISARM = 1 << 31, POLICY_PREFERRED = 1 };
static volatile int wrong, stopping;
static pthread_barrier_t ready;

static void expect(int ok, const char *what)
{
	if (ok) return;
	wrong = 1;
	printf("wrong: %s: %s\n", what, strerror(errno));
}

/* Threads of high priority must let others run. */
static void pause_here(void)
{
	struct timespec t = { 0, 20000000 };
	while (nanosleep(&t, &t)) ;
}

/* -- of a thread ---------------------------------------------------------------------------------------------------------- */

static long number(const char *path)
{
	char s[64] = "";
	int fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, s, sizeof s - 1) < 0) s[0] = 0;
	close(fd);
	return strtol(s, NULL, 0);
}

struct thread_state { long v[NPER]; cpu_set_t cpus; struct sched_param param; stack_t stack; char name[16]; };

static void look(struct thread_state *t)
{
	int death = 0, mode = 0;
	unsigned long nodes = 0;
	memset(t, 0, sizeof *t);
	sched_getaffinity(0, sizeof t->cpus, &t->cpus);
	sched_getparam(0, &t->param);
	t->v[0] = sched_getscheduler(0);
	t->v[1] = getpriority(PRIO_PROCESS, 0);
	t->v[2] = prctl(PR_GET_TIMERSLACK);
	t->v[3] = syscall(SYS_ioprio_get, 1, 0);
	prctl(PR_GET_PDEATHSIG, &death);
	t->v[4] = death;
	t->v[5] = prctl(PR_GET_SECUREBITS) + 256 * prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
	syscall(SYS_get_mempolicy, &mode, &nodes, 64, NULL, 0);
	t->v[6] = mode + 16 * (long)nodes;
	t->v[7] = personality(0xffffffff);
	sigaltstack(NULL, &t->stack);
	prctl(PR_GET_NAME, t->name);
}

static void same(const struct thread_state *was, int who)
{
	static const char *const what[NPER] = { "policy", "nice", "slack", "ioprio", "death signal", "securebits", "numa", "personality" };
	struct thread_state t;
	look(&t);
	for (int i = 0; i < NPER; i++) {
		if (t.v[i] == was->v[i]) continue;
		printf("wrong: thread %d: %s: found %ld, want %ld\n", who, what[i], t.v[i], was->v[i]);
		wrong = 1;
	}
	expect(CPU_EQUAL(&t.cpus, &was->cpus), "affinity");
	expect(t.param.sched_priority == was->param.sched_priority, "priority");
	expect(t.stack.ss_sp == was->stack.ss_sp && t.stack.ss_size == was->stack.ss_size && t.stack.ss_flags == was->stack.ss_flags, "signal stack");
	expect(!strcmp(t.name, was->name), "name");
}

static void set_thread(int who)
{
	struct sched_param fifo = { .sched_priority = 3 }, none = { 0 };
	cpu_set_t one;
	unsigned long node0 = 1;
	CPU_ZERO(&one);
	CPU_SET(who % 2, &one);
	if (who != 1) sched_setaffinity(0, sizeof one, &one);
	if (who == 1 && sched_setscheduler(0, SCHED_RR, &fifo)) sched_setscheduler(0, SCHED_BATCH, &none);
	if (who == 2) sched_setscheduler(0, SCHED_BATCH, &none);
	if (who == 3) sched_setscheduler(0, SCHED_IDLE, &none);
	setpriority(PRIO_PROCESS, 0, 2 + who);
	prctl(PR_SET_TIMERSLACK, 70000 + who);
	syscall(SYS_ioprio_set, 1, 0, 2 << 13 | (4 + who % 4));
	if (who == 2) prctl(PR_SET_PDEATHSIG, SIGUSR2);
	if (who == 3) prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (who == 1) prctl(PR_SET_KEEPCAPS, 1);
	if (who == 2) syscall(SYS_set_mempolicy, POLICY_PREFERRED, &node0, 64);
	if (who == 3) personality((unsigned long)personality(0xffffffff) | ADDR_NO_RANDOMIZE);
	stack_t s = { .ss_sp = malloc(65536), .ss_size = 65536, .ss_flags = who == 2 ? AUTODISARM : 0 };
	expect(who == 1 || sigaltstack(&s, NULL) == 0, "sigaltstack");
	char name[16];
	snprintf(name, sizeof name, "thread %d", who);
	prctl(PR_SET_NAME, name);
}

/* Waits for the end on its alternate stack, where a checkpoint finds it. */
static volatile int on_stack_rounds;
static void on_signal(int s)
{
	stack_t in;
	(void)s;
	expect(sigaltstack(NULL, &in) == 0 && (in.ss_flags & SS_ONSTACK), "is on its signal stack");
	while (!stopping) {
		pause_here();
		expect(sigaltstack(NULL, &in) == 0 && (in.ss_flags & SS_ONSTACK), "is still on its signal stack");
		on_stack_rounds++;
	}
}

static void *thread(void *arg)
{
	int who = (int)(long)arg;
	struct thread_state was;
	set_thread(who);
	look(&was);
	pthread_barrier_wait(&ready);
	if (who == 3) raise(SIGUSR1);
	while (!stopping) {
		pause_here();
		same(&was, who);
	}
	same(&was, who);
	return NULL;
}

/* -- of the process ------------------------------------------------------------------------------------------------------- */

static void look_all(long *v)
{
	int sub = 0;
	mode_t mask = umask(0);
	umask(mask);
	struct rlimit rl;
	v[0] = prctl(PR_GET_DUMPABLE);
	prctl(PR_GET_CHILD_SUBREAPER, &sub);
	v[1] = sub;
	v[2] = prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0);
	v[3] = number("/proc/self/oom_score_adj");
	v[4] = number("/proc/self/coredump_filter");
	v[5] = (long)mask;
	v[6] = getpgid(0) == getpid();
	for (int i = 0; i < 16; i++) {
		getrlimit((__rlimit_resource_t)i, &rl);
		v[7 + i] = (long)(rl.rlim_cur * 31 + rl.rlim_max);
	}
	v[23] = prctl(68, 0, 0, 0, 0);
}

static void lower(int which, rlim_t soft, rlim_t hard)
{
	struct rlimit rl;
	getrlimit((__rlimit_resource_t)which, &rl);
	if (hard < rl.rlim_max) rl.rlim_max = hard;
	if (soft <= rl.rlim_max) rl.rlim_cur = soft;
	setrlimit((__rlimit_resource_t)which, &rl);
}

static void set_all(void)
{
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	prctl(67, 1, 0, 0, 0);
	int fd = open("/proc/self/oom_score_adj", O_WRONLY);
	if (fd >= 0 && write(fd, "77", 2) != 2) errno = 0;
	close(fd);
	fd = open("/proc/self/coredump_filter", O_WRONLY);
	if (fd >= 0 && write(fd, "0x7", 3) != 3) errno = 0;
	close(fd);
	umask(037);
	setpgid(0, 0);
	lower(RLIMIT_AS, 100ul << 40, 101ul << 40);
	lower(RLIMIT_DATA, 64ul << 30, 65ul << 30);
	lower(RLIMIT_MEMLOCK, 3 << 20, 4 << 20);
	lower(RLIMIT_CORE, 12345, 123456);
	lower(RLIMIT_NOFILE, 1000, RLIM_INFINITY);
	lower(RLIMIT_STACK, 4 << 20, RLIM_INFINITY);
	lower(RLIMIT_SIGPENDING, 500, 600);
}

static int natural(int rounds)
{
	struct rlimit stack, core;
	char list[200] = "";
	cpu_set_t set;
	for (int i = 0; i < rounds; i++) pause_here();
	sched_getaffinity(0, sizeof set, &set);
	for (int i = 0; i < 100; i++) if (CPU_ISSET(i, &set)) snprintf(list + strlen(list), 12, " %d", i);
	mode_t mask = umask(0);
	getrlimit(RLIMIT_STACK, &stack);
	getrlimit(RLIMIT_CORE, &core);
	printf("nice %d umask %o stack %ld core %ld processors%s\n", getpriority(PRIO_PROCESS, 0), mask, (long)stack.rlim_cur, (long)core.rlim_cur, list);
	return 0;
}

int main(int argc, char **argv)
{
	int own = argc > 1 && strcmp(argv[1], "natural"), rounds = argc > 2 ? atoi(argv[2]) : 50;
	long was[NALL], now[NALL];
	pthread_t t[NTHREADS];
	struct thread_state first;
	cpu_set_t second = { 0 };
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };
	if (!own) return natural(rounds);
	if (!strcmp(argv[1], "pinned")) {
		CPU_SET(1, &second);
		expect(sched_setaffinity(0, sizeof second, &second) == 0, "sched_setaffinity");
		return natural(rounds);
	}
	sigaction(SIGUSR1, &sa, NULL);
	pthread_barrier_init(&ready, NULL, NTHREADS);
	for (long i = 1; i < NTHREADS; i++) pthread_create(&t[i], NULL, thread, (void *)i);
	pthread_barrier_wait(&ready);
	set_thread(0);
	set_all();
	look(&first);
	look_all(was);
	for (int i = 0; i < rounds; i++) {
		pause_here();
		same(&first, 0);
		look_all(now);
		for (int k = 0; k < NALL; k++) {
			if (now[k] == was[k]) continue;
			printf("wrong: process %d: found %ld, want %ld\n", k, now[k], was[k]);
			wrong = 1;
		}
		if (wrong) break;
	}
	stopping = 1;
	for (int i = 1; i < NTHREADS; i++) pthread_join(t[i], NULL);
	printf("wrong %d, on its signal stack %d\n", wrong, on_stack_rounds > 0);
	return wrong;
}
