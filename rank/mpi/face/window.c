/* window.c: the face's TLS window, which the lower half uses (rank/core/cross/window.c): where it is,
 * relative to FS.
 *
 * The core takes the answer at the program's entry. A face that is loaded later has no window in the static
 * TLS, and nobody asks. Context: upper half, a constructor; no libc calls. */
#include "../../core/layout.h"

static __thread char window[BY_WINDOW] __attribute__((aligned(64)));

__attribute__((constructor)) static void declare_window(void)
{
	uint64_t fs;
	__asm__("mov %%fs:0, %0" : "=r"(fs));
	BY_CTLP->window = fs - (uint64_t)window;
}
