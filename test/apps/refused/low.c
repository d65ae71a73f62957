/* test_doc: a program at a fixed address that calls the kernel by itself has a key in the keyring of its process; the keyring is emptied. */
#include "held.h"

enum { OF_PROCESS = -2, CLEAR = 7, KEYCTL = 250, ADD_KEY = 248 };

static long own_call(long nr, long a, long b, long c, long d, long e)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	long r;
	__asm__ volatile("syscall" : "=a"(r) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
	return r;
}

static void hold(void)
{
	long key = own_call(ADD_KEY, (long)"user", (long)"byssus", (long)"x", 1, OF_PROCESS);
	if (key == -ENOSYS || key == -EPERM || key == -EACCES) lacks("keyrings");
	must(key > 0 && (unsigned long)own_call < 1UL << 32, "add_key");
	wants_here("has called add_key(2): keys of its own: cannot be saved");
}

static int let_go(void)
{
	must(own_call(KEYCTL, CLEAR, OF_PROCESS, 0, 0, 0) == 0, "keyctl");
	return 1;
}
