/* signals.c: the application's signal dispositions, and signals that wait in queues.
 *
 * The kernel's handler for every signal that the application handles is the gate; what the application asked
 * for is in sig_upper, and that is what it is told and what is saved. SIGSYS and the checkpoint signal are
 * not given away: what is asked for them is remembered and has no effect. Context: functions that are ANY_FS
 * in a signal handler with all signals blocked; the rest is ordinary lower code. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include "core/base/agent/agent.h"
#include "core/calls/calls.h"
#include "core/cross/cross.h"

enum { NSIG_ = 64 };

/* -- signals that end the process
 * ------------------------------------------------------------------------------------
 *
 * Where the application has left the default effect of these, the kernel's handler is ours: a rank that dies
 * of a fault says so to the agent first, and a SIGTERM from outside (a batch system sends it to all processes
 * of a job) is a wish to the job, which leaves with a checkpoint. From the process itself, from those around
 * it or from its launcher it has its effect at once. A wrapper around a rank holds it back also where it has
 * a handler (gate.c), which would hand it on. A forked child inherits the handler, and dies as it would. */

static bool is_watched(int sig)
{
	return sig == SIGTERM || sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL ||
	       sig == SIGABRT;
}

/* The default effect: of a fault by its coming again, of anything else by sending it again. */
static void have_effect(int sig, const siginfo_t *si)
{
	struct ksigaction dfl = { 0 };
	raw(SYS_rt_sigaction, sig, &dfl, 0, 8);
	if (si->si_code <= 0 || sig == SIGTERM || sig == SIGABRT)
		raw(SYS_tgkill, raw(SYS_getpid), raw(SYS_gettid), sig);
}

static ANY_FS void on_end(int sig, siginfo_t *si, void *uc)
{
	static const char *const words[] = {
		[SIGSEGV] = "killed by SIGSEGV", [SIGBUS] = "killed by SIGBUS",
		[SIGFPE] = "killed by SIGFPE",	 [SIGILL] = "killed by SIGILL",
		[SIGABRT] = "killed by SIGABRT", [SIGTERM] = "killed by SIGTERM"
	};
	if (core_is_rank() == 1) {
		if (sig == SIGTERM && place_sent_from_outside(si) && wire_asked_to_end()) {
			again_remake(uc);
			return;
		}
		if (sig == SIGTERM && place_sent_by_wrapper(si)) {
			/* its own end, as it is natively: it does not go back to a checkpoint for that */
			core_page()->exit_code = 128 + SIGTERM;
			__atomic_store_n(&core_page()->phase, ABI_PHASE_ENDED, __ATOMIC_RELEASE);
		} else {
			wire_last_words(words[sig], strlen(words[sig]));
		}
	}
	have_effect(sig, si);
}

static long set_kernel(int sig, const struct ksigaction *want)
{
	struct ksigaction k = *want;
	k.mask &= ~RESERVED_SIGNALS;
	if (k.handler > 1) k.handler = (uint64_t)by_gate;
	else if (k.handler == 0 && is_watched(sig))
		k = our_action(on_end);
	return raw(SYS_rt_sigaction, sig, &k, 0, 8);
}

/* A vforked child (posix_spawn's) has the kernel's table for itself, but ours with its parent. */
static long action_of_vforked(int sig, const struct ksigaction *act, struct ksigaction *old)
{
	if (act && act->handler > 1) return 0;
	return raw(SYS_rt_sigaction, sig, act, old, 8);
}

long signals_action(int sig, const struct ksigaction *act, struct ksigaction *old, long size)
{
	if (size != 8 || sig < 1 || sig > NSIG_ || (act && (sig == SIGKILL || sig == SIGSTOP)))
		return -EINVAL;
	bool ours = SIGBIT(sig) & RESERVED_SIGNALS;
	if (!ours && core_is_rank() < 0) return action_of_vforked(sig, act, old);
	struct ksigaction was = sig_upper[sig], want, now;
	if (!ours && (was.flags & SA_RESETHAND) && raw(SYS_rt_sigaction, sig, 0, &now, 8) == 0 &&
	    now.handler == 0)
		was.handler = 0;
	if (act) {
		want = *act;
		sig_upper[sig] = want;
		long r = ours ? 0 : set_kernel(sig, &want);
		if (r) {
			sig_upper[sig] = was;
			return r;
		}
	}
	if (old) *old = was;
	return 0;
}

/* What is inherited: ignored signals stay ignored. */
void signals_start(void)
{
	for (int s = 1; s <= NSIG_; s++) raw(SYS_rt_sigaction, s, 0, &sig_upper[s], 8);
	sig_upper[SIGSYS] = sig_upper[BY_SIG] = (struct ksigaction){ 0 };
	for (int s = 1; s <= NSIG_; s++)
		if (is_watched(s) && sig_upper[s].handler == 0) set_kernel(s, &sig_upper[s]);
	uint64_t term = SIGBIT(SIGTERM);        /* launchers are started with it blocked
						 * (internal/host/launch), hydra hands that on */
	raw(SYS_rt_sigprocmask, SIG_UNBLOCK, &term, 0, 8);
}

void signals_save(struct buf *b) { buf_add(b, sig_upper, sizeof sig_upper); }

void signals_restore(struct reader *r)
{
	read_bytes(r, sig_upper, sizeof sig_upper);
	for (int s = 1; s <= NSIG_ && !r->bad; s++)
		if (s != SIGKILL && s != SIGSTOP && !(SIGBIT(s) & RESERVED_SIGNALS))
			set_kernel(s, &sig_upper[s]);
}

/* -- queues ---------------------------------------------------------------------------------------------- */

enum { POOL = 4096 };
static siginfo_t pool[POOL];                    /* of one checkpoint; taken from under `lock` */
static volatile uint32_t used, lock;

/* Under the lock: the set in a line "SigPnd:" or "ShdPnd:" of a thread's status. */
static uint64_t pending_of(int tid, const char *key)
{
	static char text[4096];                 /* not on what may be a small signal stack */
	char path[64] = "/proc/self/task/", digits[12];
	int n = 0, k = 16;
	do digits[n++] = (char)('0' + tid % 10); while (tid /= 10);
	while (n) path[k++] = digits[--n];
	memcpy(path + k, "/status", 8);
	long fd = raw(SYS_open, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) return 0;
	long len = raw(SYS_read, fd, text, sizeof text - 1);
	raw(SYS_close, fd);
	text[len > 0 ? len : 0] = 0;
	const char *at = strstr(text, key);
	uint64_t set = 0;
	for (at = at ? at + strlen(key) + 2 : ""; *at && *at != '\n'; at++)
		set = set << 4 | (uint64_t)(*at <= '9' ? *at - '0' : *at - 'a' + 10);
	return set & ~RESERVED_SIGNALS;
}

/* Takes what is in the queue named by key; the caller has all signals blocked. */
static bool take(int tid, const char *key, struct pending_set *p)
{
	uint64_t set;
	struct timespec none = { 0, 0 };
	p->n = 0;
	p->info = NULL;
	if (raw(SYS_rt_sigpending, &set, 8) || !(set & ~RESERVED_SIGNALS)) return true;
	raw_lock(&lock);
	p->info = &pool[used];
	while ((set = pending_of(tid, key)) && used < POOL) {
		uint64_t one = set & -set;
		if (raw(SYS_rt_sigtimedwait, &one, &pool[used], &none, 8) < 0) break;
		used++;
		p->n++;
	}
	raw_unlock(&lock);
	return !set;
}

/* A thread's own queue comes first in rt_sigtimedwait, as long as it has that signal. */
bool pending_take(int tid, struct pending_set *p) { return take(tid, "SigPnd", p); }

void pending_take_shared(struct pending_set *p) { take((int)raw(SYS_gettid), "ShdPnd", p); }

void pending_put(int pid, int tid, const struct pending_set *p)
{
	for (uint32_t i = 0; i < p->n; i++) {
		siginfo_t *si = &p->info[i];
		if (tid) raw(SYS_rt_tgsigqueueinfo, pid, tid, si->si_signo, si);
		else raw(SYS_rt_sigqueueinfo, pid, si->si_signo, si);
	}
}

/* From another process, and the end of the program as soon as a thread can take it. Who sends such a signal,
 * a batch system to all processes of a job for one, ends this run of the program, not each that goes on from
 * the image. */
static bool ends_this_run(const siginfo_t *si, uint64_t blocked)
{
	static const uint64_t no_end = SIGBIT(SIGCHLD) | SIGBIT(SIGURG) | SIGBIT(SIGWINCH) | SIGBIT(SIGCONT) |
				       SIGBIT(SIGSTOP) | SIGBIT(SIGTSTP) | SIGBIT(SIGTTIN) | SIGBIT(SIGTTOU);
	bool sent = (si->si_code == SI_USER || si->si_code == SI_QUEUE || si->si_code == SI_TKILL) &&
		    si->si_pid != core_self.pid;
	bool typed = si->si_code == SI_KERNEL &&
		     (SIGBIT(si->si_signo) & (SIGBIT(SIGINT) | SIGBIT(SIGQUIT) | SIGBIT(SIGHUP)));
	return (sent || typed) && sig_upper[si->si_signo].handler == 0 &&
	       !((blocked | no_end) & SIGBIT(si->si_signo));
}

uint32_t pending_kept(const struct pending_set *p, uint64_t blocked)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < p->n; i++) n += !ends_this_run(&p->info[i], blocked);
	return n;
}

void pending_save(struct buf *b, const struct pending_set *p, uint64_t blocked)
{
	for (uint32_t i = 0; i < p->n; i++)
		if (!ends_this_run(&p->info[i], blocked)) buf_add(b, &p->info[i], sizeof *p->info);
}

void pending_reset(void) { used = 0; }
