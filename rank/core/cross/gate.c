/* gate.c: where the kernel enters the application's signal handlers.
 *
 * A handler may interrupt its thread inside the lower half: then FS is switched around it, and the thread
 * must not be parked before it has returned, because lower frames are below it. The same holds when it
 * interrupts the real vDSO, a trampoline or this gate. A thread that is inside through its window (window.c)
 * gets its own words back, also around the handler. Otherwise the handler is entered by a jump, and nothing
 * of ours is on the stack. Context: called from by_gate (trampoline.S) on whatever FS the thread has; only
 * the handler's own mask is in force. */
#define _GNU_SOURCE
#include "core/base/agent/agent.h"
#include "core/cross/cross.h"
#include "core/cross/trampoline.h"

struct ksigaction sig_upper[65];

/* known to trampoline.S; anything else: lower FS to go back to */
enum { GATE_PLAIN = 0, GATE_NESTED = 1, GATE_SKIP = 2, GATE_WINDOW = 3 };

/* A signal has come to a thread of the lower half itself. */
static uint64_t not_for_us(int sig)
{
	bool fault = sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL || sig == SIGTRAP;
	if (fault) {
		struct ksigaction dfl = { 0 };
		raw(SYS_rt_sigaction, sig, &dfl, 0, 8); /* comes again, and ends the process as it would
							 * natively */
	} else {
		raw(SYS_tgkill, core_self.pid, core_self.main_tid, sig);
	}
	return GATE_SKIP;
}

/* The control block lies in the arena, but its trampolines hold addresses of the lower half in registers. */
static bool in_lower_code(uint64_t pc)
{
	return pc >= BY_ARENA_HI || (pc >= BY_CTL && pc < BY_CTL + BY_CTL_SIZE);
}

uint64_t gate_enter(int sig, siginfo_t *si, ucontext_t *uc)
{
	uint64_t fs = fs_read();
	/* a wrapper, as timeout, would send it on to the rank, which is to be saved first */
	if (sig == SIGTERM && place_is_others() && place_sent_from_outside(si) && wire_asked_to_end())
		return GATE_SKIP;
	if (fs < BY_ARENA_HI) {
		if (window_interrupted(fs, uc)) {
			nest_enter(fs);
			return GATE_WINDOW;
		}
		if (!in_lower_code((uint64_t)uc->uc_mcontext.gregs[REG_RIP])) return GATE_PLAIN;
		nest_enter(fs);
		return GATE_NESTED;
	}
	uint64_t up = cross_is_borrowed(fs) ? cross_upper_here() : 0;
	if (!up) return not_for_us(sig);
	nest_enter(up);
	fs_write(up);
	return fs;
}

void gate_leave(uint64_t how)
{
	nest_leave(fs_read());
	if (how == GATE_WINDOW) by_window_in();
	else if (how != GATE_NESTED) fs_write(how);
}
