/* arena.h: the application's address space: its allocator, what is saved there beside its memory, and the
 * numbers by which it knows its threads.
 *
 * Context: what is marked ANY_FS runs in signal handlers of the application's threads, all signals blocked,
 * and allocates nothing; the rest is start and restart, on the only thread. */
#ifndef BYSSUS_ARENA_H
#define BYSSUS_ARENA_H
#include <time.h>
#include "core/base/base.h"

/* -- address space (space.c) -- */
struct space_state { uint64_t brk_lo, brk_now, brk_mapped; uint64_t region_len[BY_STATE_N]; };
extern struct space_state space;
ANY_FS long space_mmap(uint64_t addr, uint64_t len, long prot, long flags, long fd, uint64_t off);
ANY_FS long space_brk(uint64_t addr);
ANY_FS long space_mremap(uint64_t old, uint64_t oldlen, uint64_t newlen, long flags, uint64_t to);
ANY_FS long space_shmat(long id, uint64_t addr, long flags);

/* -- stand-in vDSO, gate, entry stub (vdso.c) -- */
void vdso_map(void);                                    /* fresh start only: it is saved with the image */
void vdso_link(void);                                   /* every start: the real functions' addresses */
ANY_FS void vdso_park(bool on);                                 /* reading the clock parks, or does not */

/* -- clocks that only go forward (clocks.c): `there` is what the application reads -- */
void clocks_save(struct buf *b);
void clocks_restore(struct reader *r);                  /* before anything that is measured by them */
ANY_FS void clocks_here_to_there(int clock, struct timespec *t);
ANY_FS void clocks_there_to_here(int clock, struct timespec *t);

/* -- numbers of threads and of the process, after a restart (tids.c) -- */
void tids_begin(unsigned n);                            /* restart; the first that is added is the process */
void tids_add(int vtid, int tid);
ANY_FS int tids_new(int vtid);                          /* the kernel's number now; vtid when unknown */
ANY_FS int tids_vtid(int tid);                                  /* the number that the application knows */
ANY_FS void tids_forget(int tid);
ANY_FS bool tids_is_own(int tid);                       /* a thread of this process, by the kernel's number */
ANY_FS int tids_clock_new(int id);              /* the kernel's number of a clock that has a thread's in it */
ANY_FS int tids_clock_saved(int id);
ANY_FS int tids_timer_clock(int id); /* the same for a timer, which must say whose clock "the caller's" is */
int tids_path(const char *path, char *out, size_t n,
	      bool save); /* ordinary code. 1: below our /proc, with numbers translated; 0: nobody's; -1:
			     another process's */
#endif
