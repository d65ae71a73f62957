/* test_doc: guard pages, locks, also of memory that is mapped later, seals, droppable memory, NUMA policies and advice are
 * after a restart what they were. With an odd number of rounds what is locked later is so on fault.
 *
 * What this kernel does not know is left aside. */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { GUARD_INSTALL = 102, GUARD_REMOVE = 103, DROPPABLE = 8, MSEAL = 462, P = 4096, NFLAGGED = 16, POLICY_BIND = 2, OF_ADDRESS = 2 };

static int wrong;
static sigjmp_buf back;
static void expect(int ok, const char *what)
{
	if (ok) return;
	wrong++;
	printf("wrong: %s: %s\n", what, strerror(errno));
}
static void on_fault(int s) { siglongjmp(back, s); }
static int fault(volatile char *p)
{
	int s = sigsetjmp(back, 1);
	if (s) return s;
	(void)*p;
	return 0;
}
static char *get(size_t n) { return mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
/* A mapping that cannot merge with its neighbours. */
static char *alone(size_t n)
{
	char *p = get(n + 2 * P);
	mprotect(p, P, PROT_NONE);
	mprotect(p + P + n, P, PROT_NONE);
	return p + P;
}

/* The VmFlags of the mapping at p. A file of the kernel's that is read while the process is taken elsewhere goes on in the middle
 * of other lines: then it is read again. */
static void flags_at(const char *p, char *out, size_t n)
{
	char line[512];
	unsigned long a = 0, b = 0, x, y;
	out[0] = '\0';
	for (int i = 0; i < 100 && !*out; i++) {
		FILE *f = fopen("/proc/self/smaps", "r");
		while (f && fgets(line, sizeof line, f)) {
			if (sscanf(line, "%lx-%lx ", &x, &y) == 2) a = x, b = y;
			else if (!strncmp(line, "VmFlags:", 8) && a <= (unsigned long)p && (unsigned long)p < b) snprintf(out, n, "%.150s", line);
		}
		if (f) fclose(f);
	}
}

static struct flagged { char *p, was[200]; const char *what; } list[NFLAGGED];
static int nlist;

static void flagged(char *p, const char *what)
{
	list[nlist].p = p;
	list[nlist].what = what;
	flags_at(p, list[nlist++].was, sizeof list->was);
}

static void advised(int advice, const char *what)
{
	char *p = alone(4 * P);
	memset(p, 1, 4 * P);
	if (madvise(p, 4 * P, advice) == 0) flagged(p, what);
}

/* Is new memory locked, and in the way that was asked for? */
static int new_is_locked(int on_fault)
{
	char now[200] = "", *p = get(P);
	flags_at(p, now, sizeof now);
	munmap(p, P);
	return strstr(now, " lo") && !strstr(now, " lf") == !on_fault;
}

static long policy(const char *p, unsigned long *nodes)
{
	int mode = -1;
	long r = syscall(SYS_get_mempolicy, &mode, nodes, 64, p, OF_ADDRESS);
	return r ? r : mode;
}

static void pause_here(void)
{
	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	do clock_gettime(CLOCK_MONOTONIC, &b); while ((double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9 < 0.04);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 25;
	unsigned long node0 = 1, nodes = 0;
	signal(SIGSEGV, on_fault);
	signal(SIGBUS, on_fault);
	struct rlimit memlock = { RLIM_INFINITY, RLIM_INFINITY };
	setrlimit(RLIMIT_MEMLOCK, &memlock);

	char *g = alone(64 * P);                        /* guards in memory that is used, between it, and in memory that is not */
	memset(g, 5, 32 * P);
	int guards = madvise(g + P, P, GUARD_INSTALL) == 0 && madvise(g + 30 * P, 10 * P, GUARD_INSTALL) == 0;
	if (guards) expect(fault(g + P) == SIGSEGV && fault(g + 39 * P) == SIGSEGV, "guard pages natively");
	char *stack = alone(16 * P);                    /* as glibc makes the stacks of threads */
	if (guards) madvise(stack, P, GUARD_INSTALL);

	char *locked = alone(4 * P), *onfault = alone(64 * P);
	memset(locked, 2, 4 * P);
	if (mlock(locked, 4 * P) == 0) flagged(locked, "locked");
	if (syscall(SYS_mlock2, onfault, 64 * P, 1) == 0) flagged(onfault, "locked on fault");
	onfault[3 * P] = 7;
	char *drop = mmap(NULL, 4 * P, PROT_READ | PROT_WRITE, DROPPABLE | MAP_ANONYMOUS, -1, 0);
	if (drop != MAP_FAILED) flagged(drop, "droppable");
	advised(MADV_DONTFORK, "not for children");
	advised(MADV_WIPEONFORK, "wiped in children");
	advised(MADV_DONTDUMP, "not in dumps");
	advised(MADV_MERGEABLE, "mergeable");
	advised(MADV_HUGEPAGE, "huge pages");
	advised(MADV_NOHUGEPAGE, "no huge pages");
	advised(MADV_SEQUENTIAL, "in sequence");
	advised(MADV_RANDOM, "at random");
	char *noreserve = mmap(NULL, 8 * P, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	noreserve[5] = 1;
	flagged(noreserve, "not reserved");
	char *sealed = alone(4 * P);
	memset(sealed, 3, 4 * P);
	mprotect(sealed, 4 * P, PROT_READ);
	int seals = syscall(MSEAL, sealed, 4 * P, 0) == 0;
	if (seals) flagged(sealed, "sealed");
	char *bound = alone(8 * P);
	int policies = syscall(SYS_mbind, bound, 8 * P, POLICY_BIND, &node0, 64, 0) == 0;
	memset(bound, 4, 8 * P);

	int later = mlockall(MCL_FUTURE | (rounds % 2 ? MCL_ONFAULT : 0)) == 0;

	for (int i = 0; i < rounds; i++) {
		pause_here();
		if (later) expect(new_is_locked(rounds % 2), "locks of the future");
		if (!guards) continue;
		expect(fault(g + P) == SIGSEGV && fault(g + 30 * P) == SIGSEGV && fault(g + 39 * P) == SIGSEGV, "guard pages");
		expect(g[0] == 5 && g[2 * P] == 5 && g[29 * P + 1] == 5 && g[40 * P] == 0 && g[41 * P] == (char)i, "between guard pages");
		expect(fault(stack) == SIGSEGV && fault(stack + P) == 0, "a stack's guard page");
		g[41 * P] = (char)(i + 1);
	}
	if (guards) expect(madvise(g + P, P, GUARD_REMOVE) == 0 && fault(g + P) == 0, "guard page taken away");
	for (int i = 0; i < nlist; i++) {
		char now[200] = "";
		flags_at(list[i].p, now, sizeof now);
		/* ac (accounted) and sd (soft-dirty) are the kernel's own; nh comes with droppable memory by itself */
		if (strcmp(now, list[i].was)) printf("wrong: %s: found %swrong: want %s", list[i].what, now, list[i].was);
		wrong += strcmp(now, list[i].was) != 0;
	}
	expect(onfault[3 * P] == 7 && locked[P] == 2 && noreserve[5] == 1 && sealed[2 * P] == 3 && bound[7 * P] == 4, "content");
	if (seals) expect(munmap(sealed, P) == -1 && mprotect(sealed, P, PROT_WRITE) == -1 && errno == EPERM, "a seal");
	if (policies) expect(policy(bound, &nodes) == POLICY_BIND && nodes == 1, "NUMA policy");
	printf("wrong %d\n", wrong);
	return wrong != 0;
}
