/* cross.h: the ways between the halves: crossings, the main thread's window, the gate of the application's
 * signal handlers.
 *
 * Context: everything here may run on the application's FS and stack, allocates nothing and uses no TLS
 * (ANY_FS), unless a line says otherwise. A crossing itself is code of trampoline.S: nothing here is called
 * on its way. */
#ifndef BYSSUS_CROSS_H
#define BYSSUS_CROSS_H
#include "core/base/base.h"

/* -- control block, crossings (cross.c) -- */
#define BY_SLOT_ENTRY (BY_NCALL - 1)                            /* the program's entry */
void cross_start(void);                         /* start: maps the control block and the trampolines */
void cross_donor_wanted(void);                  /* helper thread: makes the donors that are asked for */
ANY_FS bool cross_is_borrowed(uint64_t fs);                     /* a lower TLS that an upper thread may use */
ANY_FS uint64_t cross_lower_fs(uint64_t upper_fs);              /* the TLS this upper thread borrows */
uint64_t cross_upper_here(void);                        /* on a lower FS: that of the thread it is lent to */
ANY_FS void cross_forget_main(void);
ANY_FS void nest_enter(uint64_t fs);                    /* upper code now runs on top of lower frames */
ANY_FS void nest_leave(uint64_t fs);
ANY_FS bool nest_active(uint64_t fs);

/* -- the main thread's TLS window (window.c) -- */
struct window { uint64_t fs, alike; uint64_t low[4], up[4]; };
void window_declared(void);                     /* at the program's entry: what the face has offered counts */
ANY_FS bool window_open(uint64_t fs);  /* on the main thread's upper FS: true, it crosses by its window now */
ANY_FS bool window_here(void);                                  /* the calling thread has a window */
ANY_FS long window_upcall(void *fn, long a, long b, long c, long d, long e, long f);
ANY_FS bool window_interrupted(uint64_t fs, ucontext_t *uc);    /* true: was inside, has its own words now */
void by_window_in(void);                                        /* trampoline.S: ANY_FS */
void by_window_out(void);
void window_save(struct buf *b);                                /* ordinary lower code */
void window_restore(struct reader *r);
ANY_FS void window_restored(void);                      /* restart: memory is back, FS is the main thread's */

/* -- signal handlers of the application (gate.c) -- */
extern struct ksigaction sig_upper[65];                         /* what the application asked for */
void by_gate(void);                             /* trampoline.S: what the kernel calls in their place */
#endif
