/* filter.c: the seccomp program that holds the partition: which system calls of upper code come to trap.c.
 *
 * A call is looked at by its number first, so that all others keep the kernel's cached fast path; then by its
 * arguments; last by the instruction pointer: only code where no child can have any is trapped (layout.h).
 * The table is generated from the ledger (internal/tools/ledger/x86_64.txt): to add a call, change its row
 * there, and add a case in trap.c. Context: start-up, all threads of the lower half; ends the process on
 * failure. */
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
	START,                  /* always */
	RESTART,                /* the kernel's numbers of threads are not those that the application knows */
	LAZY,                   /* memory that is dropped must read as zeros */
	LOW,    /* a new thread's first call, besides rseq: its code at low addresses is not taken yet */
	NOTE,                   /* always, only to be noted */
};
enum take {
	ALWAYS,
	SET,                    /* argument is not 0 */
	OURS,                   /* descriptor argument is the lower half's */
	MMAP,                   /* no MAP_FIXED, or an address outside the arena */
	MASK,                   /* a signal set is given, and it is not unblocked */
	IN,                     /* argument is in one of some ranges */
	BITS,                   /* argument has one of some bits */
	PI,     /* a futex whose word is an owner's number, or that waits until a moment of a clock that goes
		 * on */
};
struct span { uint32_t lo, hi; };
struct row { int nr; enum when when; enum take take; int arg; unsigned span, nspans; };
/* arg: in which its option stands, or -1 */
struct noted { int nr, arg; uint32_t lo, hi; const char *call, *state; };
#include "filter_gen.h"

enum { NROWS = sizeof rows / sizeof *rows, NNOTED = sizeof noted / sizeof *noted, PI_OP = 1, PI_TIME = 3,
       WAIT_BITSET = 9, WAIT_REAL = 256 };
static bool used[] = { [START] = true, [RESTART] = false, [LAZY] = false, [LOW] = false, [NOTE] = true };

static bool is_pi(uint32_t op) { return op >= 6 && op <= 13 && op != 9 && op != 10; }

static bool in_spans(const struct row *r, uint32_t v)
{
	for (const struct span *s = spans + r->span; s < spans + r->span + r->nspans; s++)
		if (v >= s->lo && v <= s->hi) return true;
	return false;
}

static uint32_t bits_of(const struct row *r)
{
	uint32_t all = 0;
	for (const struct span *s = spans + r->span; s < spans + r->span + r->nspans; s++) all |= s->lo;
	return all;
}

/* The same decision as the program's, without its last question. */
static bool taken(const struct row *r, const uint64_t *x)
{
	switch (r->take) {
	case SET: return x[r->arg] != 0;
	case IN: return in_spans(r, (uint32_t)x[r->arg]);
	case BITS: return (uint32_t)x[r->arg] & bits_of(r);
	case PI: return is_pi((uint32_t)x[PI_OP] & 0x7f) ||
			(((uint32_t)x[PI_OP] & (0x7f | WAIT_REAL)) == WAIT_BITSET && x[PI_TIME]);
	case OURS: return (uint32_t)x[r->arg] >= (uint32_t)core_config.fd_base;
	case MMAP: return !(x[3] & MAP_FIXED) || x[0] >= BY_ARENA_HI;
	case MASK: return x[1] && (uint32_t)x[0] != SIG_UNBLOCK;
	default: return true;
	}
}

static const struct row *row_of(long nr)
{
	for (unsigned i = 0; i < NROWS; i++)
		if (rows[i].nr == nr && used[rows[i].when]) return &rows[i];
	return NULL;
}

bool filter_wants(long nr, const uint64_t *x)
{
	const struct row *r = row_of(nr);
	return r ? taken(r, x) : (unsigned long)nr > NEWEST_CALL;
}

bool filter_notes(long nr, const uint64_t *x, uint32_t *option)
{
	const struct row *r = row_of(nr);
	*option = r && r->take == IN ? (uint32_t)x[r->arg] : 0;
	return r ? r->when == NOTE : (unsigned long)nr > NEWEST_CALL;
}

const char *filter_name(long nr)
{
	bool known = nr >= 0 && nr <= NEWEST_CALL && names[nr];
	return known ? names[nr] : "unknown";
}

void filter_describe(long nr, uint32_t option, const char **call, const char **state)
{
	*call = "a system call that Byssus does not know";
	*state = "what it has made";
	for (unsigned i = 0; i < NNOTED; i++)
		if (noted[i].nr == nr &&
		    (noted[i].arg < 0 || (option >= noted[i].lo && option <= noted[i].hi))) {
			*call = noted[i].call;
			*state = noted[i].state;
		}
}

enum { MAX_INSN = 800, TO_IP = 1, TO_ALLOW = 2 };
struct program {
	struct sock_filter q[MAX_INSN];
	unsigned n;
	struct {
		unsigned at;
		int where;
	} fix[MAX_INSN];
	unsigned nfix;
};

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

/* To one of the two ends, which are known in finish(). Conditional jumps would reach 255 instructions only.
 */
static void to(struct program *p, int where)
{
	p->fix[p->nfix].at = p->n;
	p->fix[p->nfix++].where = where;
	p->q[p->n++] = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0);
}

static void emit_spans(struct program *p, const struct row *r)
{
	load(p, arg_lo(r->arg));
	for (unsigned i = 0; i < r->nspans; i++) {
		jump(p, BPF_JGE, spans[r->span + i].lo, 0, 2);
		jump(p, BPF_JGT, spans[r->span + i].hi, 1, 0);
		jump(p, BPF_JA, 3 * (r->nspans - i) - 2, 0, 0);  /* behind all of this */
	}
	to(p, TO_ALLOW);
}

/* One call: falls through when it is another one, else ends in TO_IP or TO_ALLOW. */
static void emit_row(struct program *p, const struct row *r)
{
	unsigned head = p->n;
	jump(p, BPF_JEQ, (uint32_t)r->nr, 0, 0);
	switch (r->take) {
	case ALWAYS:
		break;
	case SET:
		load(p, arg_lo(r->arg));
		jump(p, BPF_JEQ, 0, 0, 2);
		load(p, arg_hi(r->arg));
		jump(p, BPF_JEQ, 0, 1, 0);
		jump(p, BPF_JA, 1, 0, 0);
		to(p, TO_ALLOW);
		break;
	case OURS:
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
	case IN:
		emit_spans(p, r);
		break;
	case BITS:
		load(p, arg_lo(r->arg));
		jump(p, BPF_JSET, bits_of(r), 1, 0);
		to(p, TO_ALLOW);
		break;
	case PI:                                /* 6 to 8, 11 to 13, and 9 with a time */
		load(p, arg_lo(PI_OP));
		p->q[p->n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x7f);
		jump(p, BPF_JGE, 6, 0, 9);
		jump(p, BPF_JGT, 13, 8, 0);
		jump(p, BPF_JEQ, 10, 7, 0);
		jump(p, BPF_JEQ, WAIT_BITSET, 0, 7);
		load(p, arg_lo(PI_OP));
		jump(p, BPF_JSET, WAIT_REAL, 4, 0);
		load(p, arg_lo(PI_TIME));
		jump(p, BPF_JEQ, 0, 0, 3);
		load(p, arg_hi(PI_TIME));
		jump(p, BPF_JEQ, 0, 0, 1);
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
	_Static_assert(BY_APP >= BY_TRAP_LO && BY_LDSO >= BY_TRAP_LO && BY_MMAP_LO >= BY_TRAP_LO &&
			       BY_PASS < BY_TRAP_LO,
		       "layout.h");
	load(p, offsetof(struct seccomp_data, instruction_pointer) + 4);
	jump(p, BPF_JGE, (uint32_t)(BY_TRAP_LO >> 32), 0, 2);
	jump(p, BPF_JGE, (uint32_t)(BY_ARENA_HI >> 32), 1, 0);
	p->q[p->n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP | FILTER_MARK);
	unsigned allow = p->n;
	p->q[p->n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	for (unsigned i = 0; i < p->nfix; i++)
		p->q[p->fix[i].at].k = (p->fix[i].where == TO_IP ? ip : allow) - p->fix[i].at - 1;
}

static void install(struct program *p)
{
	struct sock_fprog prog = { (unsigned short)p->n, p->q };
	/* privileged: children keep their rights */
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) == 0) return;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		core_die("the filter of system calls cannot be set: no_new_privs: %s", strerror(errno));
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog))
		core_die("the filter of system calls cannot be set: seccomp: %s", strerror(errno));
}

void filter_install(bool translate_tids)
{
	static struct program p;
	load(&p, offsetof(struct seccomp_data, arch));
	jump(&p, BPF_JEQ, AUDIT_ARCH_X86_64, 1, 0);
	to(&p, TO_ALLOW);
	load(&p, offsetof(struct seccomp_data, nr));
	used[RESTART] = translate_tids;
	used[LAZY] = translate_tids && core_config.lazy;
	used[LOW] = low_used();
	for (unsigned i = 0; i < NROWS; i++)
		if (used[rows[i].when]) emit_row(&p, &rows[i]);
	jump(&p, BPF_JGT, NEWEST_CALL, 1, 0);
	to(&p, TO_ALLOW);
	to(&p, TO_IP);
	finish(&p);
	install(&p);
}
