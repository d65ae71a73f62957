/* test_doc: the main thread crosses by its window while signals come at every instruction of the way: each half finds its own
 * words of the thread control block, in handlers, callbacks and after a restart (byssus-rank-test). It takes its time on the
 * way back from a handler, where a stop must not find it when the handler has interrupted the lower half. Linked with
 * rank/mpi/face/window.c as a library, as a face is. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "../../rank/core/layout.h"

enum { ROUNDS = 4000, CROSSINGS = 10000, WORK = 100000 };
static const int signals[] = { SIGUSR2, SIGURG, SIGWINCH };
static __thread volatile long mine;
static pthread_key_t key;
static pthread_t main_thread;
static volatile int end;
static long wrong, handled, changed;

static long cross(unsigned slot, long a, long b)
{
	return ((long (*)(long, long, long, long, long, long))BY_CTLP->call[slot])(a, b, 0, 0, 0, 0);
}

static void look(void)
{
	if (mine != 4711 || pthread_getspecific(key) != (void *)&key || !pthread_equal(pthread_self(), main_thread)) wrong++;
}

static void on_signal(int s)
{
	(void)s;
	look();
	if (cross(3, 0, 0) & 7) wrong++;
	look();
	handled++;
}

static long back(long x)
{
	look();
	return x + cross(0, 1, 1);
}

/* Its own way back from a handler; libc's is two instructions. */
void slow_restorer(void);
__asm__(".text\n.type slow_restorer, @function\nslow_restorer:\n\tmov $20000, %ecx\n1:\tdec %ecx\n\tjnz 1b\n\tmov $15, %eax\n\tsyscall\n");

static void handle(int sig)
{
	struct { void (*handler)(int); unsigned long flags; void (*restorer)(void); unsigned long mask; } a = {
		on_signal, SA_RESTART | 0x04000000, slow_restorer, 0,
	};
	syscall(SYS_rt_sigaction, sig, &a, NULL, 8);
}

static void *sender(void *arg)
{
	for (unsigned n = 0; !end; n++) {
		pthread_kill(main_thread, signals[n % 3]);
		for (volatile int i = 0; i < 10000; i++) ;
	}
	return arg;
}

int main(void)
{
	pthread_t t;
	mine = 4711;
	main_thread = pthread_self();
	pthread_key_create(&key, NULL);
	pthread_setspecific(key, (void *)&key);
	cross(4, 0, 0);
	for (int i = 0; i < 3; i++) handle(signals[i]);
	pthread_create(&t, NULL, sender, NULL);
	for (int r = 0; r < ROUNDS; r++) {
		for (int i = 0; i < CROSSINGS; i++) {
			long w = cross(r % 2 ? 5 : 3, 0, 0);   /* by a short trampoline, by the common one */
			if (w & 7) wrong++;
			if (w & 8) changed++;
		}
		if (cross(0, r, 1) != r + 2 || cross(2, (long)back, r) != 1000 + r + 3) wrong++;
		look();
		for (volatile int i = 0; i < WORK; i++) ;       /* a stop comes easily only here */
	}
	end = 1;
	pthread_join(t, NULL);
	printf("wrong %ld, %s, %s\n", wrong, handled > 100 ? "handled" : "few signals", changed > ROUNDS * 10 ? "FS was changed" : "by the window");
	return wrong != 0;
}
