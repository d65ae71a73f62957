/* calls.h: the application's system calls and signals, as far as Byssus has a hand in them.
 *
 * Context: what is marked ANY_FS runs in a signal handler on the application's FS and stack, all signals
 * blocked: no TLS, no allocation, no locks but those of the core. The rest is ordinary lower code at start,
 * restart or while the application's threads stand still. */
#ifndef BYSSUS_CALLS_H
#define BYSSUS_CALLS_H
#include <limits.h>
#include <sys/types.h>
#include "core/base/base.h"
#include "core/load/load.h"

/* -- which calls are taken, and what is done for them (filter.c, trap.c) -- */
enum { FILTER_MARK = 0xb5 };    /* si_errno of what our filter traps: the application may have its own */
void filter_install(bool translate_tids);
ANY_FS bool filter_wants(long nr, const uint64_t *x);           /* would it trap this call from the arena? */
/* if it does: only to have it noted; 0 where it has no options */
ANY_FS bool filter_notes(long nr, const uint64_t *x, uint32_t *option);
ANY_FS const char *filter_name(long nr);
void filter_describe(long nr, uint32_t option, const char **call, const char **state);  /* of what is noted */
void trap_start(void);          /* installs the SIGSYS handler, and unblocks our signals: the handler of
				 * BY_SIG is there */
ANY_FS void trap_pair_add(uint64_t a, uint64_t b);              /* socket pairs the application has made */
uint64_t trap_pair_of(uint64_t inode);
bool trap_timers_made(void);                            /* by this process, since it began or was restarted */
bool trap_dir_watched(uint64_t key);                    /* F_NOTIFY, which cannot be seen afterwards */
ANY_FS void trap_unpass(ucontext_t *uc);                /* back to where the call was trapped, if need be */
ANY_FS long pi_futex(ucontext_t *uc, const uint64_t *x);        /* pi.c: after a restart */

/* -- moments, after a restart (timed.c) -- */
ANY_FS long timed_settime(long nr, const uint64_t *x);  /* timer_settime, timerfd_settime */
/* The call is made with another moment in place of that to which a register of the caller's leads. */
ANY_FS void timed_frame(uint64_t *frame, greg_t *g, int reg, int clock);

/* -- calls that make what nobody can see afterwards (noted.c); notes lie at BY_NOTES -- */
struct note {
	volatile uint32_t state;        /* NOTE_THERE: the rest counts */
	int32_t nr;
	uint32_t option;
	int32_t tid;                    /* who has called, by the kernel's number */
	volatile uint32_t begun, back, done;    /* how often: called, returned, succeeded */
	volatile int32_t result;        /* of the last that succeeded */
	volatile uint32_t value;        /* the argument behind the option, of the last */
	uint32_t pad;
};
enum { NOTE_FREE, NOTE_TAKEN, NOTE_THERE, NNOTES = BY_NOTES_SIZE / sizeof(struct note), NOTE_OF_MANY = -1 };
#define NOTES ((struct note *)(BY_CTL + BY_NOTES))
void noted_start(void);                                         /* what the program before has told */
ANY_FS void noted_tell(void);                                   /* the next one */
ANY_FS struct note *noted_begin(long nr, uint32_t option, const uint64_t *x);
ANY_FS void noted_not_begun(struct note *n);                    /* after all */
ANY_FS bool noted_made(int nr);                         /* somebody has called it, and it has not failed */
ANY_FS bool noted_object_there(const struct note *n);   /* the System V object that it has asked for */

/* -- files that have been opened for writing (written.c) -- */
enum { NWRITTEN = 256, WRITTEN_AT_END = 1, WRITTEN_LATE = 2 };
struct written {
	uint64_t dev, inode;
	uint64_t used;                  /* moment of the last opening; 0: nothing is here */
	uint32_t flags;                 /* by O_APPEND; for the first time after it had been written since the
					 * image that the rank goes on from */
	char path[PATH_MAX];
};
/* An open, openat or openat2 that the filter has trapped. *made: it is done; else it is the caller's. */
ANY_FS long written_open(long nr, const uint64_t *x, bool *made);
struct written *written_at(unsigned i);         /* while the application's threads stand still */
uint32_t written_moment(int fd);        /* another for each opening; 0: not known, by dup or beyond 1,024 */
/* restart: known at the image (NULL: none is), which was made at that time */
void written_again(const struct written *w, uint64_t image_ns);

/* -- calls that a signal broke off (again.c) -- */
struct in_call { int tid; long nr; uint64_t arg[6], sp, pc; };
void again_start(void);
void again_begin(void);                                 /* helper thread: a stop begins, nothing is noted */
void again_note(const struct in_call *c);                       /* helper thread */
ANY_FS void again_remake(ucontext_t *uc);                       /* the program does not see this signal */

/* -- calls of code at low addresses (low.c) -- */
void low_start(const struct elf_image *app);                    /* fresh start, the program is mapped */
ANY_FS bool low_used(void);                             /* the program makes calls from low addresses */
ANY_FS void low_thread(void);                   /* those of the calling thread are ours from here on */
ANY_FS uint64_t low_stub(uint64_t site);        /* where to make the call that returns to site; or 0 */
ANY_FS uint64_t low_site(uint64_t pc);                  /* of a pc behind the call in a stub; else pc */
void low_save(struct buf *b);
void low_restore(struct reader *r);
void low_again(void);

/* -- the next program (exec.c), and what it inherits (inherited.c) -- */
void exec_prepare(char **environment);          /* our part of the environment, for the next program */
ANY_FS bool exec_at(long dir, uint64_t *path, uint64_t flags);  /* execveat is an execve of this path; false:
								 * leave it */
void exec_keep(char *variable);                         /* one more; it stays where it is, and may change */
ANY_FS void exec_redirect(uint64_t *path, uint64_t *argv, uint64_t *envp);
/* flags: F_GETFL at the start; own: those of SET_LATER that are the application's, whatever they were. */
struct inherited { int fd; uint64_t key; uint32_t mode, flags, own; };
enum { MAX_INHERITED = 64 };
extern struct inherited inherited[MAX_INHERITED];
extern unsigned ninherited;
void inherited_start(void);                                     /* remembers what was inherited */
void inherited_input(int fd);           /* becomes standard input; -1: it stays as it is */
char *inherited_input_key(void);        /* of the job's standard input, for the next: the same string */
char *inherited_describe(void);         /* for the next program's environment: always the same string, anew */

/* -- memory that is mapped from the image (lazy.c): after a lazy restart; lazy_mremap at any time -- */
void lazy_maps(dev_t dev, ino_t inode);                 /* memory may be this file's, which is of the image */
ANY_FS bool lazy_is_image(unsigned major, unsigned minor, uint64_t inode);
ANY_FS long lazy_madvise(uint64_t addr, uint64_t len, int advice);
struct iovec;
ANY_FS long lazy_process_madvise(int pidfd, const struct iovec *v, uint64_t n, int advice, uint64_t flags);
ANY_FS long lazy_mremap(uint64_t old, uint64_t oldlen, uint64_t newlen, long flags, uint64_t to);

/* -- signals (signals.c) -- */
void signals_start(void);
ANY_FS long signals_action(int sig, const struct ksigaction *act, struct ksigaction *old, long size);
void signals_save(struct buf *b);
void signals_restore(struct reader *r);
struct pending_set { uint32_t n; siginfo_t *info; };
void pending_reset(void);                                       /* a new checkpoint begins */
ANY_FS bool pending_take(int tid, struct pending_set *p);       /* the calling thread's private queue */
void pending_take_shared(struct pending_set *p);
ANY_FS void pending_put(int pid, int tid, const struct pending_set *p); /* tid 0: to the process */
/* how many of them an image keeps; blocked: by whoever could take them */
uint32_t pending_kept(const struct pending_set *p, uint64_t blocked);
void pending_save(struct buf *b, const struct pending_set *p, uint64_t blocked);

void by_restorer(void);                 /* trap.c: where the kernel returns to from a handler of ours */
enum { SA_RESTORER_ = 0x04000000 };
static inline struct ksigaction our_action(void (*fn)(int, siginfo_t *, void *))
{
	return (struct ksigaction){ (uint64_t)fn, SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_RESTORER_,
				    (uint64_t)by_restorer, ~0UL };
}
#endif
