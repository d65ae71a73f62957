/* threads.h: the application's threads and its process: stopped, described, made again.
 *
 * Context: threads_stop and threads_resume on the helper thread; saving on the carrier, restoring on the main
 * thread before the application's threads exist: ordinary lower code. What is marked ANY_FS runs on a thread
 * of the application. */
#ifndef BYSSUS_THREADS_H
#define BYSSUS_THREADS_H
#include "core/calls/calls.h"

/* -- threads (threads.c, revive.c) -- */
enum { REC_MAIN = 1, REC_CARRIER = 2 };                         /* flags, in the image */
struct thread_rec {
	int32_t tid, vtid;              /* kernel's number; the number the application knows */
	volatile uint32_t parked;
	uint32_t flags;
	uint64_t fs, uc, robust, robust_len, tid_address;
	char name[16];
	struct pending_set pending;
};
void threads_start(void);
/* NULL when all have parked, or it was given up; else which thread cannot be stopped. */
const char *threads_stop(bool (*give_up)(void));
void threads_resume(void);
unsigned threads_count(void);
unsigned threads_most(void);
struct thread_rec *threads_rec(unsigned i);
struct thread_rec *threads_by_tid(int tid);
uint64_t threads_blocked(const struct thread_rec *r);           /* signals, by that thread; NULL: by all */
void threads_save(struct buf *b);
void threads_restore(struct reader *r);                         /* reads the records */
void threads_revive(void);                                      /* makes the threads; they wait */
void threads_release(void) __attribute__((noreturn));           /* all go on, the caller as the main thread */
/* work for the carrier: runs on its private lower stack */
void carrier_run(void (*fn)(void *), void *arg);
void carrier_do(void (*fn)(void *), void *arg);                 /* and waits for it */

/* -- attributes of threads and process (attributes.c) -- */
void attributes_start(void);                    /* what is natural here; behind the filter, before threads */
ANY_FS void attributes_here(unsigned i);                        /* of the calling thread, whose record is i */
void attributes_inspect(struct buf *refusals, unsigned *n);
void attributes_reveal(bool on);                        /* during a checkpoint /proc/self is readable */
void attributes_save(struct buf *b);
void attributes_restore(struct reader *r);                      /* reads the section, which stays */
ANY_FS void attributes_apply_here(int vtid);                    /* of the calling thread */
void attributes_restore_group(void);                            /* before its number is used */
void attributes_restore_process(void);                          /* all others; the last thing */

/* -- what noted calls have made (still.c) -- */
void still_start(void);                                 /* what is natural here; with attributes_start */
void still_begin(void);                                         /* a new checkpoint begins */
ANY_FS void still_here(void);                           /* of the calling thread, which is about to park */
void still_inspect(struct buf *refusals, unsigned *n);  /* names what is still there, and forgets what is
							 * not */

/* -- processor (cpu.c) -- */
void cpu_describe(struct abi_image_header *h);
void cpu_check(const char *path, const struct abi_image_header *h);
void cpu_print(void);  /* what an image written here needs, one to a line */
const char *cpu_frame_wrong(uint64_t uc);  /* why a thread could not go on from this frame; NULL: it can */
ANY_FS void cpu_frame_prepare(uint64_t uc);             /* the calling thread is about to go on from it */

/* -- process-wide state (process.c) -- */
void process_start(void);                                       /* what is natural here */
void *process_natural(size_t *n);                               /* that, as bytes */
void process_save(struct buf *b);
void process_restore(struct reader *r);                         /* all but timers and limits */
void process_start_timers(void);
void process_inspect(struct buf *refusals, unsigned *n);
void process_restore_limits(void);                              /* the last thing */
#endif
