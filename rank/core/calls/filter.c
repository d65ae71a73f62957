/* filter.c: the seccomp program that holds the partition: which system calls of upper code come to trap.c.
 *
 * A call is looked at by its number first, so that all others keep the kernel's cached fast path; then by its
 * arguments; last by the instruction pointer: only code where no child can have any is trapped (layout.h). The program
 * is built from the table below: to add a call, add a row, and a case in trap.c.
 * Context: start-up, all threads of the lower half; ends the process on failure. */
#define _GNU_SOURCE
#include <asm/sockios.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>
#include "core/calls/calls.h"

enum when {
	ALWAYS,
	ARG_SET,                /* argument is not 0 */
	ARG_HIGH,               /* descriptor argument is the lower half's */
	MMAP,                   /* no MAP_FIXED, or an address outside the arena */
	MASK,                   /* a signal set is given, and it is not unblocked */
	RANGE,                  /* an argument is in one of two ranges: `arg` is the place in the table of these */
	PI,                     /* a futex whose word is an owner's number */
};
struct row { int nr; enum when when; int arg; };

enum ranges { NOFILE_FIRST, NOTIFY, OWNER, OWNER_IOCTL, CPU_CLOCK };
static const struct range { int arg; uint32_t lo, hi, lo2, hi2; } ranges[] = {
	[NOFILE_FIRST] = { 0, RLIMIT_NOFILE, RLIMIT_NOFILE, RLIMIT_NOFILE, RLIMIT_NOFILE },
	[NOTIFY] = { 1, F_NOTIFY, F_NOTIFY, F_NOTIFY, F_NOTIFY },
	[OWNER] = { 1, F_SETOWN, F_GETOWN_EX, F_NOTIFY, F_NOTIFY },
	[OWNER_IOCTL] = { 1, FIOSETOWN, SIOCGPGRP, FIOSETOWN, SIOCGPGRP },
	[CPU_CLOCK] = { 0, 0x80000000, 0xffffffff, 0x80000000, 0xffffffff },     /* negative: has the number of a thread or process */
};

static const struct row rows[] = {
	{ SYS_mmap, MMAP, 0 }, { SYS_brk, ALWAYS, 0 }, { SYS_mremap, ALWAYS, 0 }, { SYS_shmat, ALWAYS, 0 },
	{ SYS_rt_sigprocmask, MASK, 0 }, { SYS_rt_sigaction, ALWAYS, 0 },
	{ SYS_rt_sigsuspend, ALWAYS, 0 }, { SYS_rt_sigtimedwait, ALWAYS, 0 }, { SYS_signalfd4, ALWAYS, 0 },
	{ SYS_signalfd, ALWAYS, 0 },
	{ SYS_ppoll, ARG_SET, 3 }, { SYS_pselect6, ARG_SET, 5 }, { SYS_epoll_pwait, ARG_SET, 4 }, { SYS_epoll_pwait2, ARG_SET, 4 },
	{ SYS_readlink, ALWAYS, 0 }, { SYS_readlinkat, ALWAYS, 0 },
	{ SYS_rseq, ALWAYS, 0 }, { SYS_exit_group, ALWAYS, 0 }, { SYS_execve, ALWAYS, 0 }, { SYS_execveat, ALWAYS, 0 }, { SYS_socketpair, ALWAYS, 0 },
	{ SYS_timer_create, ALWAYS, 0 }, { SYS_prlimit64, ALWAYS, 0 },
	{ SYS_setrlimit, RANGE, NOFILE_FIRST }, { SYS_getrlimit, RANGE, NOFILE_FIRST }, { SYS_fcntl, RANGE, NOTIFY },
	{ SYS_close, ARG_HIGH, 0 }, { SYS_dup2, ARG_HIGH, 1 }, { SYS_dup3, ARG_HIGH, 1 }, { SYS_close_range, ALWAYS, 0 },
};

/* After a restart the kernel's process and thread numbers are not those that the application knows. */
static const struct row tid_rows[] = {
	{ SYS_futex, PI, 1 },                           /* the one that many programs make often */
	{ SYS_getpid, ALWAYS, 0 }, { SYS_gettid, ALWAYS, 0 }, { SYS_rt_sigqueueinfo, ALWAYS, 0 },
	{ SYS_getpgid, ALWAYS, 0 }, { SYS_getpgrp, ALWAYS, 0 }, { SYS_setpgid, ALWAYS, 0 }, { SYS_getsid, ALWAYS, 0 }, { SYS_pidfd_open, ALWAYS, 0 },
	{ SYS_get_robust_list, ALWAYS, 0 }, { SYS_set_tid_address, ALWAYS, 0 },
	{ SYS_kill, ALWAYS, 0 }, { SYS_tkill, ALWAYS, 0 }, { SYS_tgkill, ALWAYS, 0 }, { SYS_rt_tgsigqueueinfo, ALWAYS, 0 },
	{ SYS_exit, ALWAYS, 0 }, { SYS_sched_setaffinity, ALWAYS, 0 }, { SYS_sched_getaffinity, ALWAYS, 0 },
	{ SYS_sched_setscheduler, ALWAYS, 0 }, { SYS_sched_getscheduler, ALWAYS, 0 }, { SYS_sched_setparam, ALWAYS, 0 },
	{ SYS_sched_getparam, ALWAYS, 0 }, { SYS_sched_setattr, ALWAYS, 0 }, { SYS_sched_getattr, ALWAYS, 0 },
	{ SYS_sched_rr_get_interval, ALWAYS, 0 }, { SYS_getpriority, ALWAYS, 0 }, { SYS_setpriority, ALWAYS, 0 },
	{ SYS_clock_gettime, RANGE, CPU_CLOCK }, { SYS_clock_getres, RANGE, CPU_CLOCK }, { SYS_clock_nanosleep, RANGE, CPU_CLOCK },
	{ SYS_fcntl, RANGE, OWNER }, { SYS_ioctl, RANGE, OWNER_IOCTL },
};

/* After a lazy restart dropped memory must read as zeros. */
static const struct row lazy_rows[] = { { SYS_madvise, ALWAYS, 0 } };

/* Where low.c is at work: libc's first call in a new thread, besides rseq. */
static const struct row low_rows[] = { { SYS_set_robust_list, ALWAYS, 0 } };

enum { NTABLES = 4 };
static struct table { const struct row *row; size_t n; bool used; } tables[NTABLES] = {
	{ tid_rows, sizeof tid_rows / sizeof *tid_rows, false }, { rows, sizeof rows / sizeof *rows, false },   /* the first of a call counts */
	{ lazy_rows, sizeof lazy_rows / sizeof *lazy_rows, false }, { low_rows, sizeof low_rows / sizeof *low_rows, false },
};

static bool is_pi(uint32_t op) { return op >= 6 && op <= 13 && op != 9 && op != 10; }
static bool in_range(const struct range *g, uint32_t v) { return (v >= g->lo && v <= g->hi) || (v >= g->lo2 && v <= g->hi2); }

/* The same decision as the program's, without its last question. */
static bool taken(const struct row *r, const uint64_t *x)
{
	switch (r->when) {
	case ARG_SET: return x[r->arg] != 0;
	case RANGE: return in_range(&ranges[r->arg], (uint32_t)x[ranges[r->arg].arg]);
	case PI: return is_pi((uint32_t)x[r->arg] & 0x7f);
	case ARG_HIGH: return (uint32_t)x[r->arg] >= (uint32_t)core_config.fd_base;
	case MMAP: return !(x[3] & MAP_FIXED) || x[0] >= BY_ARENA_HI;
	case MASK: return x[1] && (uint32_t)x[0] != SIG_UNBLOCK;
	default: return true;
	}
}

bool filter_wants(long nr, const uint64_t *x)
{
	for (int t = 0; t < NTABLES; t++)
		for (size_t i = 0; tables[t].used && i < tables[t].n; i++)
			if (tables[t].row[i].nr == nr) return taken(&tables[t].row[i], x);
	return false;
}

enum { MAX_INSN = 800, TO_IP = 1, TO_ALLOW = 2 };
struct program { struct sock_filter q[MAX_INSN]; unsigned n; struct { unsigned at; int where; } fix[MAX_INSN]; unsigned nfix; };

static void load(struct program *p, unsigned off)
{
	p->q[p->n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, off);
}

/* Skips t instructions when it is so, f when not. */
static void jump(struct program *p, unsigned op, uint32_t k, uint8_t t, uint8_t f)
{
	p->q[p->n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | op | BPF_K, k, t, f);
}

static unsigned arg_lo(int i) { return (unsigned)(offsetof(struct seccomp_data, args) + 8 * (unsigned)i); }
static unsigned arg_hi(int i) { return arg_lo(i) + 4; }

/* To one of the two ends, which are known in finish(). Conditional jumps would reach 255 instructions only. */
static void to(struct program *p, int where)
{
	p->fix[p->nfix].at = p->n;
	p->fix[p->nfix++].where = where;
	p->q[p->n++] = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0);
}

static void emit_range(struct program *p, const struct range *g)
{
	load(p, arg_lo(g->arg));
	jump(p, BPF_JGE, g->lo, 0, 1);
	jump(p, BPF_JGT, g->hi, 0, 3);
	jump(p, BPF_JGE, g->lo2, 0, 1);
	jump(p, BPF_JGT, g->hi2, 0, 1);
	to(p, TO_ALLOW);
}

/* One call: falls through when it is another one, else ends in TO_IP or TO_ALLOW. */
static void emit_row(struct program *p, const struct row *r)
{
	unsigned head = p->n;
	jump(p, BPF_JEQ, (uint32_t)r->nr, 0, 0);
	switch (r->when) {
	case ALWAYS:
		break;
	case ARG_SET:
		load(p, arg_lo(r->arg));
		jump(p, BPF_JEQ, 0, 0, 2);
		load(p, arg_hi(r->arg));
		jump(p, BPF_JEQ, 0, 1, 0);
		jump(p, BPF_JA, 1, 0, 0);
		to(p, TO_ALLOW);
		break;
	case ARG_HIGH:
		load(p, arg_lo(r->arg));
		jump(p, BPF_JGE, (uint32_t)core_config.fd_base, 1, 0);
		to(p, TO_ALLOW);
		break;
	case MMAP:
		load(p, arg_lo(3));
		jump(p, BPF_JSET, MAP_FIXED, 0, 3);
		load(p, arg_hi(0));
		jump(p, BPF_JGE, (uint32_t)(BY_ARENA_HI >> 32), 1, 0);
		to(p, TO_ALLOW);
		break;
	case RANGE:
		emit_range(p, &ranges[r->arg]);
		break;
	case PI:                                        /* 6 to 8, and 11 to 13 */
		load(p, arg_lo(r->arg));
		p->q[p->n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x7f);
		jump(p, BPF_JGE, 6, 0, 3);
		jump(p, BPF_JGT, 13, 2, 0);
		jump(p, BPF_JEQ, 9, 1, 0);
		jump(p, BPF_JEQ, 10, 0, 1);
		to(p, TO_ALLOW);
		break;
	case MASK:
		load(p, arg_lo(1));
		jump(p, BPF_JEQ, 0, 0, 2);
		load(p, arg_hi(1));
		jump(p, BPF_JEQ, 0, 2, 0);
		load(p, arg_lo(0));
		jump(p, BPF_JEQ, SIG_UNBLOCK, 0, 1);
		to(p, TO_ALLOW);
		break;
	}
	to(p, TO_IP);
	p->q[head].jf = (uint8_t)(p->n - head - 1);
}

static void finish(struct program *p)
{
	unsigned ip = p->n;
	_Static_assert(BY_APP >= BY_TRAP_LO && BY_LDSO >= BY_TRAP_LO && BY_MMAP_LO >= BY_TRAP_LO && BY_PASS < BY_TRAP_LO, "layout.h");
	load(p, offsetof(struct seccomp_data, instruction_pointer) + 4);
	jump(p, BPF_JGE, (uint32_t)(BY_TRAP_LO >> 32), 0, 2);
	jump(p, BPF_JGE, (uint32_t)(BY_ARENA_HI >> 32), 1, 0);
	p->q[p->n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP | FILTER_MARK);
	unsigned allow = p->n;
	p->q[p->n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	for (unsigned i = 0; i < p->nfix; i++)
		p->q[p->fix[i].at].k = (p->fix[i].where == TO_IP ? ip : allow) - p->fix[i].at - 1;
}

static void use_tables(bool translate_tids)
{
	tables[0].used = translate_tids;
	tables[1].used = true;
	tables[2].used = translate_tids && core_config.lazy;
	tables[3].used = low_used();
}

static void install(struct program *p)
{
	struct sock_fprog prog = { (unsigned short)p->n, p->q };
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) == 0) return;       /* privileged: children keep their rights */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) core_die("filter: cannot set no_new_privs: %s", strerror(errno));
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog)) core_die("filter: seccomp: %s", strerror(errno));
}

void filter_install(bool translate_tids)
{
	static struct program p;
	load(&p, offsetof(struct seccomp_data, arch));
	jump(&p, BPF_JEQ, AUDIT_ARCH_X86_64, 1, 0);
	to(&p, TO_ALLOW);
	load(&p, offsetof(struct seccomp_data, nr));
	use_tables(translate_tids);
	for (int t = 0; t < NTABLES; t++)
		for (size_t i = 0; tables[t].used && i < tables[t].n; i++) emit_row(&p, &tables[t].row[i]);
	to(&p, TO_ALLOW);
	finish(&p);
	install(&p);
}
