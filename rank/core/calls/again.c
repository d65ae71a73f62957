/* again.c: a system call that a signal broke off is made again, if it is certain which one it was.
 *
 * The helper reads /proc/self/task/T/syscall just before it signals, and notes here what it finds; the
 * handler compares all operands. Or the call's number stands in the code. Context: again_begin and again_note
 * on the helper thread; again_remake in a signal handler. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include "core/calls/calls.h"

/* What a thread that is about to be signalled is waiting in. */
enum { MAX_CALLS = 65536 };
static struct in_call *calls;                   /* MAX_CALLS, untouched pages cost nothing */
static volatile uint32_t ncalls;

void again_start(void)
{
	calls = mmap(NULL, MAX_CALLS * sizeof *calls, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (calls == MAP_FAILED) core_die("no memory for the table of system calls");
}

void again_begin(void) { ncalls = 0; }

void again_note(const struct in_call *found)
{
	struct in_call c = *found;
	uint32_t i = 0;
	while (i < ncalls && calls[i].tid != c.tid) i++;
	if (i == MAX_CALLS) return;
	__atomic_store_n(&calls[i].tid, 0, __ATOMIC_SEQ_CST);    /* its thread may be looking */
	c.tid = 0;
	calls[i] = c;
	__atomic_store_n(&calls[i].tid, found->tid, __ATOMIC_SEQ_CST);
	if (i == ncalls) __atomic_store_n(&ncalls, i + 1, __ATOMIC_RELEASE);
}

/* The number of a call that nobody has noted: its time was over and its thread already awake, yet waiting for
 * a processor, when the helper looked; poll and select say EINTR then as well. -1: it is not certain. It is
 * in the code right before the call, where glibc has it, and only counts if the kernel breaks off that call
 * in spite of SA_RESTART. */
static long number_in_code(const greg_t *g)
{
	static const short broken_off[] = {
		SYS_poll,	 SYS_select,	      SYS_pause,	   SYS_nanosleep,     SYS_semop,
		SYS_msgsnd,	 SYS_msgrcv,	      SYS_rt_sigtimedwait, SYS_rt_sigsuspend, SYS_futex,
		SYS_semtimedop,	 SYS_clock_nanosleep, SYS_epoll_wait,	   SYS_pselect6,      SYS_ppoll,
		SYS_epoll_pwait, SYS_epoll_pwait2,
	};
	const uint8_t *p = (const uint8_t *)low_site((uint64_t)g[REG_RIP]);
	int32_t nr = -1;
	if ((uint64_t)g[REG_RIP] == BY_PASS + 2) nr = (int32_t)((uint64_t *)g[REG_RSP])[BY_PASS_NR];
	else if (((uint64_t)p & (PAGE - 1)) >= 8 && p[-7] == 0xb8 && (p[-8] & 0xf9) != 0x41 &&
		 p[-2] == 0x0f && p[-1] == 0x05)
		memcpy(&nr, p - 6, sizeof nr);  /* mov $nr, %eax; syscall. With the other byte before it:
						 * %r8d */
	for (size_t i = 0; i < sizeof broken_off / sizeof *broken_off; i++)
		if (nr == broken_off[i]) return nr;
	return -1;
}

/* The number of the call that the signal broke off, or -1. */
static long number_of_call(const greg_t *g, int tid)
{
	uint64_t now[6] = { (uint64_t)g[REG_RDI], (uint64_t)g[REG_RSI], (uint64_t)g[REG_RDX],
			    (uint64_t)g[REG_R10], (uint64_t)g[REG_R8],	(uint64_t)g[REG_R9] };
	for (uint32_t i = 0, n = ncalls; i < n; i++) {
		struct in_call *c = &calls[i];
		if (__atomic_load_n(&c->tid, __ATOMIC_ACQUIRE) != tid || c->pc != (uint64_t)g[REG_RIP] ||
		    c->sp != (uint64_t)g[REG_RSP])
			continue;
		if (memcmp(now, c->arg, sizeof now) == 0) return c->nr;
	}
	return number_in_code(g);
}

void again_remake(ucontext_t *uc)
{
	greg_t *g = uc->uc_mcontext.gregs;
	if (fs_read() >= BY_ARENA_HI) return;
	long nr = g[REG_RAX] == -EINTR ? number_of_call(g, (int)raw(SYS_gettid)) : -1;
	if (nr < 0) return;
	/* the kernel wrote there what remains */
	if (nr == SYS_nanosleep && g[REG_RSI]) g[REG_RDI] = g[REG_RSI];
	if (nr == SYS_clock_nanosleep && g[REG_R10] && !(g[REG_RSI] & 1)) g[REG_RDX] = g[REG_R10];
	g[REG_RAX] = nr;
	g[REG_RIP] -= 2;
	trap_unpass(uc);
}
