/* raw.h: system calls, FS base and locks for code that may run with the application's TLS.
 *
 * Context: anything reached from a signal handler or a crossing runs with the FS of the application: no
 * errno, no libc function that makes a system call or uses TLS. Results are the kernel's: -errno on error. */
#ifndef BYSSUS_RAW_H
#define BYSSUS_RAW_H
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

static inline long raw6(long n, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long r;
	__asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return r;
}
#define RAW_PICK(n, a, b, c, d, e, f, ...) \
	raw6((n), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
/* raw(SYS_x, up to six arguments) */
#define raw(...) RAW_PICK(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)

#define PAGE 4096UL
#define PAGE_UP(x)   (((uint64_t)(x) + PAGE - 1) & ~(PAGE - 1))
#define PAGE_DOWN(x) ((uint64_t)(x) & ~(PAGE - 1))

enum { RAW_HWCAP2_FSGSBASE = 2 };
enum { RAW_ARCH_SET_FS = 0x1002, RAW_ARCH_GET_FS = 0x1003 };
extern int core_fsgsbase;                       /* the kernel lets us use rdfsbase and wrfsbase */

static inline uint64_t fs_read(void)
{
	uint64_t x = 0;
	if (core_fsgsbase) __asm__ volatile("rdfsbase %0" : "=r"(x));
	else raw(SYS_arch_prctl, RAW_ARCH_GET_FS, &x);
	return x;
}

static inline void fs_write(uint64_t x)
{
	if (core_fsgsbase) __asm__ volatile("wrfsbase %0" : : "r"(x) : "memory");
	else raw(SYS_arch_prctl, RAW_ARCH_SET_FS, x);
}

enum { RAW_FUTEX_WAIT = 0, RAW_FUTEX_WAKE = 1 };
static inline void futex_wait(volatile uint32_t *p, uint32_t seen)
{
	raw(SYS_futex, p, RAW_FUTEX_WAIT, seen, 0);
}
static inline void futex_wake(volatile uint32_t *p, int n) { raw(SYS_futex, p, RAW_FUTEX_WAKE, n); }

/* A lock that sleeps. Signals of the application must be blocked by whoever takes it. */
static inline void raw_lock(volatile uint32_t *l)
{
	uint32_t free_ = 0;
	if (__atomic_compare_exchange_n(l, &free_, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return;
	while (__atomic_exchange_n(l, 2, __ATOMIC_ACQUIRE)) futex_wait(l, 2);
}

static inline void raw_unlock(volatile uint32_t *l)
{
	if (__atomic_exchange_n(l, 0, __ATOMIC_RELEASE) == 2) futex_wake(l, 1);
}

/* The kernel's struct sigaction, and signal sets as one word. */
struct ksigaction { uint64_t handler, flags, restorer, mask; };
#define SIGBIT(s) (1UL << ((s) - 1))
#endif
