/* switch.h: the functions of switch.S, for threads.c and revive.c. Context: on whatever FS the thread has. */
#ifndef BYSSUS_SWITCH_H
#define BYSSUS_SWITCH_H
#include "core/threads/threads.h"

void by_on_stack(void *top, void (*fn)(void *), void *arg);
void by_sigreturn(uint64_t uc) __attribute__((noreturn));
long by_clone(long flags, void *stack, int *ptid, int *ctid, uint64_t tls, void *arg);
/* revive.c: what the new thread calls */
ANY_FS void thread_revived(struct thread_rec *r) __attribute__((noreturn));
#endif
