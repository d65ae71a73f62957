/* test_doc: a program at a fixed address that makes its system calls itself, as the Go runtime does: all signals blocked,
 * memory, its own path, signals to its threads by number, handlers with its own restorer, waiting, children, the end. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long call6(long n, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	long r;
	__asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return r;
}
#define CALL_(n, a, b, c, d, e, f, ...) call6((n), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define call(...) CALL_(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)

struct action { void (*handler)(int); uint64_t flags; void (*restorer)(void); uint64_t mask; };
void low_restorer(void);
__asm__(".text\nlow_restorer:\n\tmov $15, %eax\n\tsyscall\n");

static uint64_t now(void)
{
	struct timespec t;
	call(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static volatile int usr1, ended;
static volatile uint32_t beat;
static volatile int tid;
static void on_usr1(int s) { (void)s; usr1++; }

/* Everything but its own signal is blocked, by a call of its own, for ever. */
static void *worker(void *arg)
{
	uint64_t all = ~(1UL << (SIGUSR1 - 1));
	struct timespec t = { 0, 3000000 };
	(void)arg;
	call(SYS_rt_sigprocmask, SIG_SETMASK, &all, 0, 8);
	tid = (int)call(SYS_gettid);
	while (!ended) {
		uint32_t seen = beat;
		long r = call(SYS_futex, &beat, FUTEX_WAIT, seen, &t);
		if (r && r != -EAGAIN && r != -ETIMEDOUT && r != -EINTR) printf("wrong: futex: %ld\n", r);
		beat++;
	}
	return NULL;
}

/* Below the shared stack of parent and child nothing of the parent's may be touched: as Go's rawVforkSyscall. */
static long raw_vfork(void)
{
	long r;
	__asm__ volatile("syscall" : "=a"(r) : "a"(SYS_vfork) : "rcx", "r11", "memory");
	return r;
}

static void children(int i)
{
	static char *const sh[] = { "sh", "-c", "exit 4", NULL };
	int status = 0;
	long pid = call(SYS_fork);
	if (pid == 0) call(SYS_exit_group, 3);
	call(SYS_wait4, pid, &status, 0, 0);
	printf("%d forked %x", i, (unsigned)status);
	pid = raw_vfork();
	if (pid == 0) {
		call(SYS_execve, "/bin/sh", sh, NULL);
		call(SYS_exit_group, 5);
	}
	call(SYS_wait4, pid, &status, 0, 0);
	printf(" vforked %x\n", (unsigned)status);
}

static void paths(void)
{
	char self[4096], libc[4096];
	long n = call(SYS_readlink, "/proc/self/exe", self, sizeof self), m = (long)readlink("/proc/self/exe", libc, sizeof libc);
	printf("exe %.*s\n", (int)n, self);
	if (n != m || memcmp(self, libc, (size_t)n)) printf("wrong: another by libc\n");
}

static void one_round(int i, unsigned char **kept)
{
	struct timespec left = { 0, 30000000 };
	uint64_t t = now();
	int before = usr1;
	long r;
	kept[i] = (unsigned char *)call(SYS_mmap, 0, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(kept[i], i + 1, 1 << 16);
	kept[i] = (unsigned char *)call(SYS_mremap, kept[i], 1 << 16, 1 << 20, MREMAP_MAYMOVE);
	for (int k = 0; k <= i; k++)
		if (kept[k][0] != k + 1 || kept[k][65535] != k + 1 || kept[k][1 << 19]) printf("wrong: memory %d\n", k);
	while ((r = call(SYS_nanosleep, &left, &left)) == -EINTR) printf("wrong: nanosleep was broken off\n");
	if (now() - t < 30000000) printf("wrong: nanosleep: too short\n");
	if ((r = call(SYS_tgkill, call(SYS_getpid), tid, SIGUSR1))) printf("wrong: tgkill: %ld\n", r);
	while (usr1 == before) call(SYS_sched_yield);
	paths();
	children(i);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 4;
	unsigned char **kept = calloc((size_t)rounds, sizeof *kept);
	struct action a = { on_usr1, 0x04000000 | SA_RESTART, low_restorer, 0 }, was;
	pthread_t t;
	if (call(SYS_rt_sigaction, SIGUSR1, &a, NULL, 8) || call(SYS_rt_sigaction, SIGUSR1, NULL, &was, 8) || was.handler != on_usr1)
		printf("wrong: sigaction\n");
	if (pthread_create(&t, NULL, worker, NULL)) return 1;
	while (!tid) call(SYS_sched_yield);
	for (int i = 0; i < rounds; i++) {
		one_round(i, kept);
		fflush(stdout);
	}
	ended = 1;
	pthread_join(t, NULL);
	printf("usr1 %d\n", usr1);
	fflush(stdout);
	call(SYS_exit_group, 42);
	return 0;
}
