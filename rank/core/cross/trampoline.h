/* trampoline.h: the labels and functions of trampoline.S, for cross.c and window.c. Context: as trampoline.S
 * says. */
#ifndef BYSSUS_TRAMPOLINE_H
#define BYSSUS_TRAMPOLINE_H
#include "core/cross/cross.h"

extern const char by_cross_template[], by_cross_short[], by_cross_common[], by_cross_fsgs[],
	by_cross_fsgs_end[], by_cross_prctl[], by_cross_prctl_end[];
/* Where the ways through the window begin and end. */
extern const char by_cross_in_0[], by_cross_in_1[], by_cross_out_0[], by_cross_out_1[], by_cross_alike_in_0[],
	by_cross_alike_in_1[], by_cross_alike_out_0[], by_cross_alike_out_1[], by_cross_short_0[],
	by_cross_short_0_in_0[], by_cross_short_0_in_1[], by_cross_short_0_out_0[], by_cross_short_0_out_1[],
	by_window_in_0[], by_window_in_1[], by_window_out_0[], by_window_out_1[];
/* gate.c, for by_gate. */
ANY_FS uint64_t gate_enter(int sig, siginfo_t *si, ucontext_t *uc);
ANY_FS void gate_leave(uint64_t how);
long by_upcall_fsgs(uint64_t up, uint64_t low, void *fn, const long *arg);
long by_upcall_prctl(uint64_t up, uint64_t low, void *fn, const long *arg);
#endif
