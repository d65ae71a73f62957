/* raw.h: what may be used with either half's TLS: system calls, FS base, locks, bytes, the checksum.
 *
 * This room knows nothing of this process or its agent, and calls no other room. Context: any thread, any FS.
 * Anything reached from a signal handler or a crossing runs with the FS of the application: no errno, no libc
 * function that makes a system call, allocates or uses TLS. Results of system calls are the kernel's: -errno
 * on error. */
#ifndef BYSSUS_RAW_H
#define BYSSUS_RAW_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include "core/core.h"

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

/* -- bytes (bytes.c) -- */
/* Reads what struct buf has collected (base.h); every function leaves r->bad set when the bytes do not
 * suffice. */
struct reader { const char *p; size_t n, at; bool bad; };
ANY_FS void read_bytes(struct reader *r, void *out, size_t n);
ANY_FS uint64_t read_u64(struct reader *r);
ANY_FS const char *read_str(struct reader *r);
ANY_FS const void *read_ref(struct reader *r, size_t n);
/* Shows that a text was cut at its end; whole: what snprintf returned for room n. */
ANY_FS void core_ellipsis(char *s, size_t n, int whole);
struct stat;
ANY_FS uint64_t inode_key(const struct stat *st);  /* what images know a file by while it is open or mapped */
ANY_FS uint64_t inode_key_of(unsigned major, unsigned minor, uint64_t inode);

/* -- checksum (crc32c.c) -- */
ANY_FS uint32_t crc32c(uint32_t crc, const void *p, size_t n);

static inline bool raw_starts(const char *s, const char *head)
{
	while (*head && *s == *head) s++, head++;
	return !*head;
}

/* Whether a string of an environment is Byssus' own: not one of those by which a program's user speaks to a
 * library of ours in it (as in Env of internal/host/launch). */
static inline bool var_is_ours(const char *e)
{
	return raw_starts(e, "BYSSUS_") && !raw_starts(e, "BYSSUS_AMT_") &&
	       !raw_starts(e, "BYSSUS_HANDOVER_");
}
#endif
