/* fixed.c: the smallest program at a fixed address and without any library, a child of core_layout. */
#include <signal.h>
#include <stdlib.h>

int main(void)
{
	sigset_t none;
	void *p = malloc(1 << 20);
	sigemptyset(&none);
	return p && sigprocmask(SIG_SETMASK, &none, NULL) == 0 ? 8 : 1;
}
