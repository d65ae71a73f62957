/* trap.c: performs the system calls that filter.c takes away from upper code.
 *
 * Each case does what the kernel would have done, inside the arena, without our signals and descriptors. A
 * call that blocks with a signal mask is not made here, where its thread could not be parked: it is sent on
 * its way through the one instruction at BY_PASS, with the mask cleaned of our signals. Context: SIGSYS
 * handler on the application's FS and stack (its signal stack if it has one), all signals blocked: no TLS, no
 * locks but those of this core, little stack. Operands that cannot be the application's memory give EFAULT;
 * one that is merely not mapped ends the process by SIGSEGV, where natively the call would return EFAULT: to
 * ask the kernel first would cost a system call in each of these. */
#define _GNU_SOURCE
#include <asm/sockios.h>
#include <errno.h>
#include <linux/audit.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include "core/arena/arena.h"
#include "core/base/agent/agent.h"
#include "core/calls/calls.h"
#include "core/cross/cross.h"

typedef greg_t *regs;
enum { SYS_SECCOMP_ = 1, SYS_USER_DISPATCH_ = 2, FUTEX_TID_MASK_ = 0x3fffffff, FUTEX_DIED = 0x40000000 };
#define FUTEX_WAITERS_ 0x80000000u

/* -- small cases ----------------------------------------------------------------------------------------- */

static long do_sigprocmask(ucontext_t *uc, int how, const uint64_t *set, uint64_t *old, size_t size)
{
	uint64_t *mask = (uint64_t *)&uc->uc_sigmask, was = *mask, s = *set & ~RESERVED_SIGNALS;
	if (size != 8) return -EINVAL;
	if (how == SIG_BLOCK) *mask = was | s;
	else if (how == SIG_SETMASK) *mask = s;
	else return -EINVAL;
	if (old) *old = was;
	return 0;
}

static bool same(const char *a, const char *b)
{
	while (*a && *a == *b) a++, b++;
	return *a == *b;
}

static bool is_exe_of(const char *p, long pid)
{
	char own[32] = "/proc/", digits[12];
	int n = 0, k = 6;
	for (; pid; pid /= 10) digits[n++] = (char)('0' + pid % 10);
	while (n) own[k++] = digits[--n];
	for (const char *e = "/exe"; *e; e++) own[k++] = *e;
	return same(p, own);
}

/* /proc/self/exe, also by number; a child's is its parent's until it executes something. */
static bool is_own_exe(const char *p)
{
	if (!p || p[0] != '/' || p[1] != 'p' || p[2] != 'r') return false;
	if (same(p, "/proc/self/exe") || same(p, "/proc/thread-self/exe")) return true;
	long pid = core_self.pid;
	return is_exe_of(p, raw(SYS_getpid)) || is_exe_of(p, pid) || is_exe_of(p, tids_vtid((int)pid));
}

static long do_readlink(long nr, const uint64_t *a)
{
	const char *path = (const char *)(nr == SYS_readlink ? a[0] : a[1]);
	char *out = (char *)(nr == SYS_readlink ? a[1] : a[2]);
	long n = (long)(int)(nr == SYS_readlink ? a[2] : a[3]), k = 0;
	if (n <= 0 || !is_own_exe(path)) return raw(nr, a[0], a[1], a[2], a[3]);
	for (; core_self.exe[k] && k < n; k++) out[k] = core_self.exe[k];
	return k;
}

static long do_close_range(uint64_t first, uint64_t last, uint64_t flags)
{
	uint64_t base = (uint64_t)core_config.fd_base;
	if (first > last) return -EINVAL;
	if (first >= base) return 0;
	return raw(SYS_close_range, first, last < base ? last : base - 1, flags);
}

static long do_exit_group(long code)
{
	if (core_is_rank() == 1 && !(place_is_others() && !core_config.below)) {
		struct timespec t;
		core_page()->exit_code = (uint64_t)(code & 0xff);
		if (!raw(SYS_clock_gettime, CLOCK_MONOTONIC, &t))
			core_page()->phase_since_ns = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
		__atomic_store_n(&core_page()->phase, ABI_PHASE_ENDED, __ATOMIC_RELEASE);
	}
	return raw(SYS_exit_group, code);
}

/* -- socket pairs: the kernel does not tell afterwards who is whose peer --------------------------------- */

enum { MAX_PAIRS = 4096 };
static struct { volatile uint64_t a, b; } pairs[MAX_PAIRS];
static volatile uint32_t next_pair;

void trap_pair_add(uint64_t a, uint64_t b)
{
	uint32_t i = __atomic_fetch_add(&next_pair, 1, __ATOMIC_RELAXED) % MAX_PAIRS;
	pairs[i].a = a;
	pairs[i].b = b;
}

/* The newest entry counts: inode numbers come again. */
uint64_t trap_pair_of(uint64_t inode)
{
	for (uint32_t n = next_pair, i = n; i + MAX_PAIRS > n && i-- > 0; ) {
		if (pairs[i % MAX_PAIRS].a == inode) return pairs[i % MAX_PAIRS].b;
		if (pairs[i % MAX_PAIRS].b == inode) return pairs[i % MAX_PAIRS].a;
	}
	return 0;
}

static long do_socketpair(const uint64_t *x)
{
	int *fd = (int *)x[3];
	struct stat s[2];
	long r = raw(SYS_socketpair, x[0], x[1], x[2], fd);
	if (r == 0 && raw(SYS_fstat, fd[0], &s[0]) == 0 && raw(SYS_fstat, fd[1], &s[1]) == 0)
		trap_pair_add(s[0].st_ino, s[1].st_ino);
	return r;
}

/* -- calls that wait under another signal mask ----------------------------------------------------------- */

/* Makes the interrupted code call again from BY_PASS, as it is: with its own signal mask and pc in the arena.
 */
static uint64_t *pass(ucontext_t *uc)
{
	regs g = uc->uc_mcontext.gregs;
	uint64_t *f = (uint64_t *)(g[REG_RSP] - BY_PASS_FRAME);
	f[0] = (uint64_t)g[REG_RIP];
	f[BY_PASS_REG] = 0;
	g[REG_RSP] = (greg_t)f;
	g[REG_RIP] = BY_PASS;
	return f;
}

/* The same, with a copy of the mask below its red zone in place of the
 * argument in `reg`; with `boxed` the argument is a pointer to {pointer to mask, size}. */
static long pass_with_mask(ucontext_t *uc, long nr, int reg, bool boxed)
{
	regs g = uc->uc_mcontext.gregs;
	uint64_t *given = (uint64_t *)g[reg], *mask = boxed ? (uint64_t *)given[0] : given, *f = pass(uc);
	f[1] = mask ? *mask & ~RESERVED_SIGNALS : 0;
	f[2] = mask ? (uint64_t)&f[1] : 0;
	f[3] = boxed ? given[1] : 8;
	f[BY_PASS_NR] = (uint64_t)nr;
	g[reg] = boxed ? (greg_t)&f[2] : (greg_t)&f[1];
	return nr;
}

/* Made here, not at BY_PASS: a thread on its way there could be parked, and what is handed over is not in the
 * image. The next program has the caller's mask; a rank's besides our signal, which may be on its way and
 * would end it. */
static long execute(ucontext_t *uc, long nr, const uint64_t *x)
{
	uint64_t mask = *(uint64_t *)&uc->uc_sigmask | (core_is_rank() == 1 ? SIGBIT(BY_SIG) : 0), all = ~0UL;
	raw(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
	long r = raw(nr, x[0], x[1], x[2], x[3], x[4]);
	raw(SYS_rt_sigprocmask, SIG_SETMASK, &all, 0, 8);
	return r;
}

static long do_execve(ucontext_t *uc, const uint64_t *x)
{
	uint64_t e[5] = { is_own_exe((const char *)x[0]) ? (uint64_t)core_self.exe : x[0], x[1], x[2] };
	exec_redirect(&e[0], &e[1], &e[2]);
	return execute(uc, SYS_execve, e);
}

/* fexecve, for one. */
static long do_execveat(ucontext_t *uc, const uint64_t *x)
{
	uint64_t e[3] = { x[1], x[2], x[3] };
	return exec_at((int)x[0], &e[0], x[4]) ? do_execve(uc, e) : execute(uc, SYS_execveat, x);
}

/* A call that waits until a moment, to which a register leads. */
static long wait_until(ucontext_t *uc, long nr, int reg, int clock)
{
	uint64_t *f = pass(uc);
	f[BY_PASS_NR] = (uint64_t)nr;
	timed_frame(f, uc->uc_mcontext.gregs, reg, clock);
	return nr;
}

/* The word of a child's is the kernel's. */
static long do_futex(ucontext_t *uc, const uint64_t *x)
{
	enum { COMMAND = 0x7f, WAIT_BITSET = 9 };
	if ((x[1] & COMMAND) == WAIT_BITSET) return wait_until(uc, SYS_futex, REG_R10, CLOCK_MONOTONIC);
	if (core_is_rank() == 1) return pi_futex(uc, x);
	pass(uc)[BY_PASS_NR] = SYS_futex;
	return SYS_futex;
}

static long do_signalfd(long nr, const uint64_t *x)
{
	uint64_t mask = *(uint64_t *)x[1] & ~RESERVED_SIGNALS;
	return raw(nr, x[0], &mask, x[2], x[3]);
}

/* -- notifications about directories: the kernel does not tell of them afterwards ------------------------ */

enum { MAX_WATCHED = 64 };
static volatile uint64_t watched[MAX_WATCHED];
static volatile bool watched_many;

bool trap_dir_watched(uint64_t key)
{
	for (int i = 0; i < MAX_WATCHED; i++)
		if (watched[i] == key) return true;
	return watched_many;
}

static void watch(uint64_t key, bool on)
{
	for (int i = 0; i < MAX_WATCHED; i++) {
		uint64_t found = on ? 0 : key;
		if (on && watched[i] == key) return;
		if (__atomic_compare_exchange_n(&watched[i], &found, on ? key : 0, 0, __ATOMIC_SEQ_CST,
						__ATOMIC_SEQ_CST))
			return;
	}
	if (on) watched_many = true;
}

static long do_notify(const uint64_t *x)
{
	struct stat st;
	long r = raw(SYS_fcntl, x[0], x[1], x[2]);
	if (r == 0 && core_is_rank() == 1 && raw(SYS_fstat, x[0], &st) == 0) watch(inode_key(&st), x[2] != 0);
	return r;
}

/* -- process and thread numbers after a restart: the application keeps those it had at its start
 * ------------------------------------------------------------------------------------ */

static int tid_of(uint64_t t) { return core_is_rank() == 1 ? tids_new((int)t) : (int)t; }

/* What the kernel does at the end of a thread that holds robust mutexes: it would compare them with its own
 * number. */
struct list { struct list *next; };
/* the bit: it inherits priority */
static struct list *robust_entry(struct list *e) { return (struct list *)((uint64_t)e & ~1UL); }

static void leave_robust_mutexes(int vtid)
{
	struct { struct list list; long offset; struct list *pending; } *head;
	size_t len;
	if (raw(SYS_get_robust_list, 0, &head, &len) || !head) return;
	struct list *e = robust_entry(head->list.next);
	for (int n = 0; e && e != &head->list && n < 2048; n++) {
		volatile uint32_t *word = (volatile uint32_t *)((char *)e + head->offset);
		e = robust_entry(e->next);
		uint32_t w = *word;
		if ((w & FUTEX_TID_MASK_) != (uint32_t)vtid) continue;
		__atomic_compare_exchange_n(word, &w, (w & FUTEX_WAITERS_) | FUTEX_DIED, 0, __ATOMIC_SEQ_CST,
					    __ATOMIC_SEQ_CST);
		raw(SYS_futex, word, RAW_FUTEX_WAKE, 1);
	}
}

static long do_exit(uint64_t code)
{
	int tid = (int)raw(SYS_gettid), vtid = tids_vtid(tid);
	if (core_is_rank() == 1) leave_robust_mutexes(vtid);    /* of new threads as well: pi.c wakes who
								 * waits, not the kernel */
	if (core_is_rank() == 1 && vtid != tid) tids_forget(tid);
	return raw(SYS_exit, code);
}

static volatile bool timers_made;

bool trap_timers_made(void) { return timers_made; }

static long do_timer_create(const uint64_t *x)
{
	struct { uint64_t value; int32_t signo, notify, tid, pad[11]; } e, *given = (void *)x[1];
	int clock = tids_timer_clock((int)x[0]);
	timers_made = true;
	if (!given || !(given->notify & SIGEV_THREAD_ID)) return raw(SYS_timer_create, clock, x[1], x[2]);
	e = *(__typeof__(e) *)given;
	e.tid = tid_of((uint64_t)e.tid);
	return raw(SYS_timer_create, clock, &e, x[2]);
}

/* The kernel's number must not stay in the registers of a thread that is parked: trap_unpass takes it out
 * again. */
static long do_clock_nanosleep(ucontext_t *uc)
{
	regs g = uc->uc_mcontext.gregs;
	uint64_t *f = pass(uc);
	f[1] = (uint64_t)g[REG_RDI];
	f[BY_PASS_NR] = SYS_clock_nanosleep;
	g[REG_RDI] = tids_clock_new((int)g[REG_RDI]);
	if (g[REG_RSI] & TIMER_ABSTIME) timed_frame(f, g, REG_RDX, (int)f[1]);
	return SYS_clock_nanosleep;
}

/* The code at BY_NOTED tells the note what has come of it. A child's calls are its own affair. */
static long do_noted(ucontext_t *uc, long nr, uint32_t option, const uint64_t *x)
{
	uint64_t *f = pass(uc);
	f[BY_PASS_NR] = (uint64_t)nr;
	if (core_is_rank() != 1) return nr;
	f[BY_PASS_NOTE] = (uint64_t)noted_begin(nr, option, x);
	uc->uc_mcontext.gregs[REG_RIP] = BY_NOTED;
	return nr;
}

/* Only where the call is to be made for the first time. */
void trap_unpass(ucontext_t *uc)
{
	regs g = uc->uc_mcontext.gregs;
	uint64_t pc = (uint64_t)g[REG_RIP], *f = (uint64_t *)g[REG_RSP];
	if (pc == BY_PASS && (g[REG_RAX] == SYS_clock_nanosleep || f[BY_PASS_REG])) {
		if (f[BY_PASS_REG]) g[f[BY_PASS_REG] - 1] = (greg_t)f[BY_PASS_KEPT];
		if (g[REG_RAX] == SYS_clock_nanosleep) g[REG_RDI] = (greg_t)f[1];
	} else if (pc == BY_NOTED && (uint64_t)g[REG_RAX] == f[BY_PASS_NR])
		noted_not_begun((struct note *)f[BY_PASS_NOTE]);
	else return;
	g[REG_RIP] = (greg_t)f[0] - 2;
	g[REG_RSP] += BY_PASS_FRAME;
}

/* A negative number is a process group's, whose leader may be this process. */
static int owner_new(int who) { return who < 0 ? -tid_of((uint64_t)-(int64_t)who) : tid_of((uint64_t)who); }
static int owner_told(int who) { return who < 0 ? -tids_vtid(-who) : tids_vtid(who); }

static long do_fcntl(const uint64_t *x)
{
	enum { LARGEST_ERROR = 4095 };
	struct owner { int type, pid; } *o = (struct owner *)x[2], mine;
	long r;
	switch ((int)x[1]) {
	case F_NOTIFY:
		return do_notify(x);
	case F_SETOWN:
		return raw(SYS_fcntl, x[0], x[1], owner_new((int)x[2]));
	case F_GETOWN:
		r = raw(SYS_fcntl, x[0], x[1]);
		return (r > 0 || r < -LARGEST_ERROR) && core_is_rank() == 1 ? owner_told((int)r) : r;
	case F_SETOWN_EX:
		mine = *o;
		mine.pid = tid_of((uint64_t)mine.pid);
		return raw(SYS_fcntl, x[0], x[1], &mine);
	case F_GETOWN_EX:
		r = raw(SYS_fcntl, x[0], x[1], o);
		if (!r && core_is_rank() == 1) o->pid = tids_vtid(o->pid);
		return r;
	default:
		return raw(SYS_fcntl, x[0], x[1], x[2]);
	}
}

static long do_ioctl_owner(const uint64_t *x)
{
	int *pid = (int *)x[2], mine;
	if ((int)x[1] == FIOSETOWN || (int)x[1] == SIOCSPGRP) {
		mine = owner_new(*pid);
		return raw(SYS_ioctl, x[0], x[1], &mine);
	}
	long r = raw(SYS_ioctl, x[0], x[1], pid);
	if (!r && core_is_rank() == 1) *pid = owner_told(*pid);
	return r;
}

static long do_limit(long nr, const uint64_t *x)
{
	bool here = !x[0] || (int)x[0] == (int)raw(SYS_getpid) || (int)x[0] == tids_vtid(core_self.main_tid);
	if (nr == SYS_setrlimit) return limits_trap((const struct rlimit *)x[1], NULL);
	if (nr == SYS_getrlimit) return limits_trap(NULL, (struct rlimit *)x[1]);
	if (here && (int)x[1] == RLIMIT_NOFILE)
		return limits_trap((const struct rlimit *)x[2], (struct rlimit *)x[3]);
	return raw(nr, x[0] ? tid_of(x[0]) : 0, x[1], x[2], x[3]);
}

static long do_with_tids(long nr, const uint64_t *x)
{
	switch (nr) {
	case SYS_getpid:
		return core_is_rank() == 1 ? tids_vtid(core_self.main_tid) : raw(nr);
	case SYS_gettid:
		return core_is_rank() == 1 ? tids_vtid((int)raw(nr)) : raw(nr);
	case SYS_set_tid_address: {             /* a program that was saved before its libc had started */
		long tid = raw(nr, x[0]);
		return core_is_rank() == 1 ? tids_vtid((int)tid) : tid;
	}
	case SYS_tgkill:
	case SYS_rt_tgsigqueueinfo:
		return raw(nr, tid_of(x[0]), tid_of(x[1]), x[2], x[3]);
	case SYS_getpriority:
	case SYS_setpriority:
		return raw(nr, x[0], x[0] == PRIO_PROCESS ? (uint64_t)tid_of(x[1]) : x[1], x[2]);
	case SYS_getpgrp:
	case SYS_getpgid:
	case SYS_getsid:
		return core_is_rank() == 1 ? tids_vtid((int)raw(nr, tid_of(x[0]))) : raw(nr, x[0]);
	case SYS_setpgid:
		return raw(nr, tid_of(x[0]), tid_of(x[1]));
	case SYS_timer_create:
		return do_timer_create(x);
	case SYS_clock_gettime: {
		long r = raw(nr, tids_clock_new((int)x[0]), x[1]);
		if (!r) clocks_here_to_there((int)x[0], (struct timespec *)x[1]);
		return r;
	}
	case SYS_clock_getres:
		return raw(nr, tids_clock_new((int)x[0]), x[1]);
	case SYS_kill:
		if ((int)x[0] < -1) return raw(nr, -tid_of((uint64_t)-(int)x[0]), x[1]);
		return raw(nr, (int)x[0] > 0 ? tid_of(x[0]) : (int)x[0], x[1]);
	default:
		return raw(nr, tid_of(x[0]), x[1], x[2], x[3]);
	}
}

enum { CALL_FUTEX_WAITV = 449, CALL_FUTEX_WAIT = 455 };  /* newer than the headers */

static long do_open(ucontext_t *uc, long nr, const uint64_t *x)
{
	bool made;
	long fd = written_open(nr, x, &made);
	if (made) return fd;
	pass(uc)[BY_PASS_NR] = (uint64_t)nr;
	return nr;
}

/* -- the handler ----------------------------------------------------------------------------------------- */

static bool bad(uint64_t p) { return p < BY_SAVED_LO || p >= BY_ARENA_HI; }
static bool bad_or_null(uint64_t p) { return p && bad(p); }

/* What is read or written here without the kernel's help. */
static bool bad_operands(long nr, const uint64_t *x)
{
	switch (nr) {
	case SYS_rt_sigprocmask:
	case SYS_rt_sigaction: return bad_or_null(x[1]) || bad_or_null(x[2]);
	case SYS_rt_sigsuspend:
	case SYS_rt_sigtimedwait: return bad(x[0]);
	case SYS_ppoll: return bad(x[3]);
	case SYS_pselect6: return bad(x[5]) || bad_or_null(*(uint64_t *)x[5]);
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2: return bad(x[4]);
	case SYS_signalfd:
	case SYS_signalfd4: return bad(x[1]);
	case SYS_readlink:
	case SYS_execve: return bad(x[0]);
	case SYS_readlinkat:
	case SYS_process_madvise:
	case SYS_execveat: return bad(x[1]);
	case SYS_timer_create: return bad_or_null(x[1]);
	case SYS_openat2:
	case SYS_timer_settime:
	case SYS_timerfd_settime: return bad(x[2]);
	case SYS_clock_nanosleep: return bad(x[2]);
	case CALL_FUTEX_WAITV: return bad(x[3]);
	case CALL_FUTEX_WAIT: return bad(x[4]);
	case SYS_futex: return (x[1] & 0x7f) == 9 && bad(x[3]);
	default: return false;
	}
}

/* Returns what the interrupted code finds in rax. */
static long perform(ucontext_t *uc, long nr, const uint64_t *x)
{
	uint32_t option;
	if (filter_notes(nr, x, &option)) return do_noted(uc, nr, option, x);
	if (bad_operands(nr, x)) return -EFAULT;
	switch (nr) {
	case SYS_mmap: return space_mmap(x[0], x[1], (long)x[2], (int)x[3], (int)x[4], x[5]);
	case SYS_brk: return space_brk(x[0]);
	case SYS_mremap: return lazy_mremap(x[0], x[1], x[2], (long)x[3], x[4]);
	case SYS_madvise: return lazy_madvise(x[0], x[1], (int)x[2]);
	case SYS_process_madvise:
		return lazy_process_madvise((int)x[0], (const struct iovec *)x[1], x[2], (int)x[3], x[4]);
	case SYS_shmat: return space_shmat((long)(int)x[0], x[1], (long)(int)x[2]);
	case SYS_rt_sigprocmask:
		return do_sigprocmask(uc, (int)x[0], (const uint64_t *)x[1], (uint64_t *)x[2], x[3]);
	case SYS_rt_sigaction:
		return signals_action((int)x[0], (const struct ksigaction *)x[1], (struct ksigaction *)x[2],
				      (long)x[3]);
	case SYS_rt_sigsuspend: return pass_with_mask(uc, nr, REG_RDI, false);
	case SYS_rt_sigtimedwait: return pass_with_mask(uc, nr, REG_RDI, false);
	case SYS_ppoll: return pass_with_mask(uc, nr, REG_R10, false);
	case SYS_pselect6: return pass_with_mask(uc, nr, REG_R9, true);
	case SYS_epoll_pwait: return pass_with_mask(uc, nr, REG_R8, false);
	case SYS_epoll_pwait2: return pass_with_mask(uc, nr, REG_R8, false);
	case SYS_signalfd:
	case SYS_signalfd4: return do_signalfd(nr, x);
	case SYS_execve: return do_execve(uc, x);
	case SYS_execveat: return do_execveat(uc, x);
	case SYS_futex: return do_futex(uc, x);
	case SYS_readlink:
	case SYS_readlinkat: return do_readlink(nr, x);
	case SYS_set_robust_list:
		low_thread();
		return raw(nr, x[0], x[1]);
	case SYS_rseq:
		low_thread();
		return -ENOSYS; /* its area would lie in memory that a restart brings back unregistered */
	case SYS_exit_group: return do_exit_group((int)x[0]);
	case SYS_exit: return do_exit(x[0]);
	case SYS_socketpair: return do_socketpair(x);
	case SYS_open:
	case SYS_openat:
	case SYS_openat2: return do_open(uc, nr, x);
	case SYS_fcntl: return do_fcntl(x);
	case SYS_ioctl: return do_ioctl_owner(x);
	case SYS_clock_nanosleep: return do_clock_nanosleep(uc);
	case CALL_FUTEX_WAITV: return wait_until(uc, nr, REG_R10, (int)x[4]);
	case CALL_FUTEX_WAIT: return wait_until(uc, nr, REG_R8, (int)x[5]);
	case SYS_timer_settime:
	case SYS_timerfd_settime: return timed_settime(nr, x);
	case SYS_prlimit64:
	case SYS_setrlimit:
	case SYS_getrlimit: return do_limit(nr, x);
	case SYS_close:
	case SYS_dup2:
	case SYS_dup3: return -EBADF;
	case SYS_close_range: return do_close_range((uint32_t)x[0], (uint32_t)x[1], x[2]);
	default: return do_with_tids(nr, x);
	}
}

/* A call of code at low addresses, which the filter has not seen; what it would let pass is made outside of
 * them. */
static void from_low(siginfo_t *si, ucontext_t *uc, const uint64_t *x)
{
	regs g = uc->uc_mcontext.gregs;
	long nr = si->si_syscall;
	uint64_t stub = low_stub((uint64_t)g[REG_RIP]);
	if (si->si_arch != AUDIT_ARCH_X86_64) {
		g[REG_RAX] = -ENOSYS;
	} else if (filter_wants(nr, x)) {
		g[REG_RAX] = perform(uc, nr, x);
	} else {
		if (stub) g[REG_RIP] = (greg_t)stub;
		else if (nr == SYS_rt_sigreturn) g[REG_RIP] = BY_PASS;
		else pass(uc)[BY_PASS_NR] = (uint64_t)nr;
		g[REG_RAX] = nr;
	}
}

/* SIGSYS that somebody sent, or that a filter or a dispatch of the application's own raised. */
static void foreign_sigsys(siginfo_t *si, ucontext_t *uc)
{
	uint64_t h = sig_upper[SIGSYS].handler;
	if (h > 1) {
		((void (*)(int, siginfo_t *, void *))h)(SIGSYS, si, uc);
	} else if (h == 0) {
		struct ksigaction dfl = { 0 };
		raw(SYS_rt_sigaction, SIGSYS, &dfl, 0, 8);
		raw(SYS_tgkill, raw(SYS_getpid), raw(SYS_gettid), SIGSYS);
	}
}

static ANY_FS void on_sigsys(int sig, siginfo_t *si, void *v)
{
	(void)sig;
	ucontext_t *uc = v;
	regs g = uc->uc_mcontext.gregs;
	uint64_t x[6] = { (uint64_t)g[REG_RDI], (uint64_t)g[REG_RSI], (uint64_t)g[REG_RDX],
			  (uint64_t)g[REG_R10], (uint64_t)g[REG_R8],  (uint64_t)g[REG_R9] };
	bool ours = si->si_code == SYS_SECCOMP_ && si->si_errno == FILTER_MARK,
	     low = si->si_code == SYS_USER_DISPATCH_ && low_used();
	if (!ours && !low) {
		foreign_sigsys(si, uc);
		return;
	}
	__atomic_fetch_add(&core_page()->traps, 1, __ATOMIC_RELAXED);
	if (low) from_low(si, uc, x);
	else g[REG_RAX] = perform(uc, si->si_syscall, x);
}

__asm__(".pushsection any_fs, \"ax\", @progbits\n.globl by_restorer\n.type by_restorer, "
	"@function\nby_restorer:\n\tmov $15, %eax\n\tsyscall\n.popsection\n");

void trap_start(void)
{
	struct ksigaction a = our_action(on_sigsys);
	raw(SYS_rt_sigaction, SIGSYS, &a, 0, 8);
	uint64_t ours = RESERVED_SIGNALS;
	raw(SYS_rt_sigprocmask, SIG_UNBLOCK, &ours, 0, 8);
}
