/* pi.c: mutexes that inherit priority, after a restart.
 *
 * The word of such a mutex is the number of the thread that has it, and the kernel, asked to wait for it or
 * to wake, believes the word. After a restart the application's threads write the numbers that they know,
 * which are not the kernel's any more: it would answer that there is no such thread, and libc then waits for
 * ever. So the calls are done here, with an ordinary futex on the same word: the one who has to wait marks
 * the word and waits until it changes; the one who gives the mutex away clears the word and wakes one.
 * Whoever comes this way takes the mutex with the mark, since others may wait. Nothing is inherited then;
 * what excludes each other goes on to do so. The calls that move a waiter from one word to another
 * (FUTEX_WAIT_REQUEUE_PI), which libc does not use, are not there.
 *
 * Waiting is not done in the handler, where the thread could not be parked: the interrupted code waits at
 * BY_PI, in saved code, and comes again. Context: SIGSYS handler, any FS, all signals blocked. */
#define _GNU_SOURCE
#include <errno.h>
#include "core/arena/arena.h"
#include "core/calls/calls.h"

enum {
	LOCK_PI = 6,
	UNLOCK_PI = 7,
	TRYLOCK_PI = 8,
	WAIT_BITSET = 9,
	LOCK_PI2 = 13,
	CLOCK_REAL = 256,
	PRIVATE = 128,
	COMMAND = 0x7f
};
#define WAITERS 0x80000000u
#define DIED    0x40000000u
#define OWNER   0x3fffffffu

static bool change(volatile uint32_t *word, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(word, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* The interrupted code waits while the word is `seen`, and makes its call again; with its registers as they
 * are now. */
static long wait_outside(ucontext_t *uc, uint32_t seen)
{
	greg_t *g = uc->uc_mcontext.gregs;
	uint64_t *f = (uint64_t *)(g[REG_RSP] - BY_PASS_FRAME);
	long op = g[REG_RSI];
	f[0] = (uint64_t)g[REG_RIP];
	f[1] = SYS_futex;
	f[2] = (uint64_t)op;
	f[3] = (uint64_t)g[REG_RDX];
	f[4] = (uint64_t)g[REG_R9];
	g[REG_RSP] = (greg_t)f;
	g[REG_RIP] = BY_PI;
	g[REG_RSI] =
		WAIT_BITSET | (op & PRIVATE) | ((op & COMMAND) == LOCK_PI ? CLOCK_REAL : op & CLOCK_REAL);
	g[REG_RDX] = (greg_t)seen;
	g[REG_R9] = 0xffffffff;
	return SYS_futex;
}

static long lock(ucontext_t *uc, volatile uint32_t *word, uint32_t me, bool wait)
{
	for (;;) {
		uint32_t w = *word, owner = w & OWNER;
		if (!owner && change(word, w, me | WAITERS | (w & DIED))) return 0;
		if (!owner) continue;
		if (owner == me) return -EDEADLK;
		if (!wait) return -EWOULDBLOCK;
		if ((w & WAITERS) || change(word, w, w | WAITERS)) return wait_outside(uc, w | WAITERS);
	}
}

static long unlock(volatile uint32_t *word, uint32_t me, long op)
{
	if ((*word & OWNER) != me) return -EPERM;
	__atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
	raw(SYS_futex, word, RAW_FUTEX_WAKE | (op & PRIVATE), 1);
	return 0;
}

long pi_futex(ucontext_t *uc, const uint64_t *x)
{
	volatile uint32_t *word = (volatile uint32_t *)x[0];
	uint32_t me = (uint32_t)tids_vtid((int)raw(SYS_gettid));
	switch (x[1] & COMMAND) {
	case LOCK_PI:
	case LOCK_PI2: return lock(uc, word, me, true);
	case TRYLOCK_PI: return lock(uc, word, me, false);
	case UNLOCK_PI: return unlock(word, me, (long)x[1]);
	default: return -ENOSYS;
	}
}
