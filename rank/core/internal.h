/* internal.h: what the files of the rank core share with each other and with nobody else.
 *
 * Words: "upper" is the application, "lower" the real MPI and this core. A thread "parks" when a stop is in effect;
 * the "carrier" is the parked MPI thread, which does the work of a checkpoint. Every function below says in its own
 * file in which context it may run; those marked [any FS] use no TLS. */
#ifndef BYSSUS_INTERNAL_H
#define BYSSUS_INTERNAL_H
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>
#include "core.h"
#include "raw.h"

#define BYSSUS_VERSION "0.1.0"
/* Says why the application cannot be run, to the user and to the agent, and ends the process. */
void core_exit_message(int code, const char *fmt, ...) __attribute__((noreturn, format(printf, 2, 3)));
#define RESERVED_SIGNALS (SIGBIT(SIGSYS) | SIGBIT(BY_SIG))

/* -- growing byte buffer (util.c) -- */
struct buf { char *p; size_t n, cap; bool bad; };               /* bad: memory has not sufficed, what is added is lost */
void buf_add(struct buf *b, const void *p, size_t n);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_free(struct buf *b);
static inline void buf_u64(struct buf *b, uint64_t v) { buf_add(b, &v, sizeof v); }
void buf_str(struct buf *b, const char *s);                     /* u32 length, bytes with the final 0, padded to 8 */
/* Reads back; every function leaves r->bad set when the bytes do not suffice. */
struct reader { const char *p; size_t n, at; bool bad; };
void read_bytes(struct reader *r, void *out, size_t n);
uint64_t read_u64(struct reader *r);
const char *read_str(struct reader *r);
const void *read_ref(struct reader *r, size_t n);

/* -- small things (util.c) -- */
uint64_t now_ns(void);
char *slurp(const char *path, size_t *n);                       /* whole file, 0-terminated, malloc'ed; NULL: unreadable, or no memory */
uint64_t status_field(const char *status, const char *key, int base);
int high_fd(int fd);                                            /* moves a descriptor of ours above the application's */
void own_descriptors(void);                                     /* the calling thread gets a table of descriptors of its own */
int unshare_descriptors(void);                                  /* the same, with all that is in it; 0 or an error number */
void core_phase(unsigned phase);
/* A thread of ours that takes little of the address space that the application may be limited to; 0 or an error number.
 * room: stays until the thread has begun. */
struct core_begin { void *(*fn)(void *); void *arg; };
#define SMALL_STACK (256UL << 10)
int core_thread(pthread_t *t, struct core_begin *room, size_t stack, void *(*fn)(void *), void *arg);
/* Memory for what a checkpoint needs (tests let it fail). Whatever is made of a NULL, the checkpoint fails at its end. */
void *core_realloc(void *p, size_t n);
char *core_strdup(const char *s);
void core_memory_begin(void);
bool core_memory_failed(void);                                  /* since then an allocation has failed */

/* -- the limit on descriptors (limits.c) -- */
struct rlimit;
void limits_start(void);
void limits_raise(void);                                        /* nobody of the application runs */
void limits_lower(void);
void limits_save(struct rlimit *out);
void limits_restore(const struct rlimit *was);
struct limits_loan { uint64_t soft, mask; };
bool limits_borrow(struct limits_loan *l);                      /* [any FS] true: limits_return must follow */
void limits_return(const struct limits_loan *l);
long limits_trap(const struct rlimit *set, struct rlimit *get); /* [any FS] */
long raw_open(const char *path, int flags);                     /* [any FS] also when the application has used up its descriptors */

/* -- configuration (main.c) -- */
struct core_config {
	const char *agent, *rundir, *job;
	unsigned writers;
	bool lazy, policy_drop;
	bool old_kernel;                /* for tests: what kernels before 6.5 do not tell is not looked at */
	int stderr_fd;                  /* the launcher's standard error, until the helper thread has it */
	int fd_base;                    /* descriptors from here on are the lower half's */
	uint64_t soft_stack;
	char libdir[512];
};
extern struct core_config core_config;
struct core_self {
	int pid, main_tid;
	volatile int mpi_tid;           /* the thread that carries checkpoints */
	char exe[4096];                 /* the application's file */
};
extern struct core_self core_self;
extern int core_stderr;                                         /* where we say things: not 2 while descriptors are restored */
int core_is_rank(void);                                         /* [any FS] 0 in a forked child, -1 in a vforked one */

/* -- faults (faults.c) -- */
void faults_start(const char *spec);
void core_fault(enum abi_fault f);

/* -- control block, crossings (cross.c) -- */
void cross_start(void);                                         /* maps the control block and the trampolines */
void cross_donor_wanted(void);                                  /* helper thread: makes the donors that are asked for */
bool cross_is_borrowed(uint64_t fs);                            /* [any FS] a lower TLS that an upper thread may use */
uint64_t cross_lower_fs(uint64_t upper_fs);                     /* [any FS] the TLS this upper thread borrows */
uint64_t cross_upper_here(void);                                /* on a lower FS: that of the thread it is lent to */
void cross_forget_main(void);
/* -- the main thread's TLS window (window.c); [any FS] unless it says otherwise -- */
struct window { uint64_t fs, alike; uint64_t low[4], up[4]; };
void window_declared(void);                                     /* at the program's entry: what the face has offered counts */
bool window_open(uint64_t fs);                                  /* on the main thread's upper FS: true, it crosses by its window now */
bool window_here(void);                                         /* the calling thread has a window */
long window_upcall(void *fn, long a, long b, long c, long d, long e, long f);
bool window_interrupted(uint64_t fs, ucontext_t *uc);           /* true: was inside, has its own words now */
void by_window_in(void);
void by_window_out(void);
void window_save(struct buf *b);
void window_restore(struct reader *r);
void window_restored(void);                                     /* restart: memory is back, FS is the main thread's */
void nest_enter(uint64_t fs);                                   /* [any FS] upper code now runs on top of lower frames */
void nest_leave(uint64_t fs);
bool nest_active(uint64_t fs);
#define BY_SLOT_ENTRY (BY_NCALL - 1)                            /* the program's entry */

/* -- stand-in vDSO, gate, entry stub (vdso.c) -- */
void vdso_map(void);                                            /* fresh start only: it is saved with the image */
void vdso_link(void);                                           /* every start: the real functions' addresses */
void vdso_park(bool on);                                        /* [any FS] reading the clock parks, or does not */

/* -- loader (elf.c, face.c, start.c) -- */
struct elf_image { uint64_t bias, entry, phdr, end; unsigned phnum; bool exec_stack; char interp[512]; };
void elf_check(const char *path);                               /* ends the process unless the file can be run */
void elf_map(const char *path, uint64_t at, struct elf_image *out);
bool elf_interpreter(const char *path, char *interp, size_t ni, char *arg, size_t na);   /* #! */
struct elf_needs { char **soname; size_t n; char rpath[2048], runpath[2048]; };
bool elf_needs(const char *path, struct elf_needs *out);
void elf_needs_free(struct elf_needs *n);
const char *face_for(const char *app);                          /* "mpich", "openmpi" or "" */
void start_keep_environment(void);
void start_save(struct buf *b);                                 /* address space, program, what the entry stub has yet to do */
void start_restore(struct reader *r);
void start_application(const char *path, char **argv) __attribute__((noreturn));   /* path NULL: argv[0] is looked for */

/* -- what /proc shows (shown.c) -- */
struct shown { uint64_t arg, arg_end, env, env_end, stack, nauxv, auxv[48]; };    /* nauxv: words */
void shown_start(const struct shown *s);
void shown_save(struct buf *b);
void shown_restore(struct reader *r);
void shown_again(void);                                         /* restart: memory is back */

/* -- address space (space.c) -- */
struct space_state { uint64_t brk_lo, brk_now, brk_mapped; uint64_t region_len[BY_STATE_N]; };
extern struct space_state space;
long space_mmap(uint64_t addr, uint64_t len, long prot, long flags, long fd, uint64_t off);   /* [any FS] */
long space_brk(uint64_t addr);                                                                /* [any FS] */
long space_mremap(uint64_t old, uint64_t oldlen, uint64_t newlen, long flags, uint64_t to);   /* [any FS] */
long space_shmat(long id, uint64_t addr, long flags);
/* After a lazy restart (lazy.c); lazy_mremap at any time. */
long lazy_madvise(uint64_t addr, uint64_t len, int advice);
long lazy_mremap(uint64_t old, uint64_t oldlen, uint64_t newlen, long flags, uint64_t to);

/* -- partition (filter.c, trap.c) -- */
enum { FILTER_MARK = 0xb5 };                                    /* si_errno of what our filter traps: the application may have its own */
void filter_install(bool translate_tids);
bool filter_wants(long nr, const uint64_t *x);                  /* [any FS] would it trap this call from the arena? */
void trap_start(void);                                          /* installs the SIGSYS handler */
void trap_pairs_save(struct buf *b);                            /* socket pairs the application has made */
uint64_t trap_pair_of(uint64_t inode);
bool trap_timers_made(void);                                    /* by this process, since it began or was restarted */
bool trap_dir_watched(uint64_t key);                            /* F_NOTIFY, which cannot be seen afterwards */
void trap_unpass(ucontext_t *uc);                               /* [any FS] back to where the call was trapped, if need be */
int cpu_clock_new(int id);                                      /* [any FS] the kernel's number of a clock that has a thread's in it */
int cpu_clock_saved(int id);
void trap_pair_add(uint64_t a, uint64_t b);                     /* [any FS] */

void low_start(const struct elf_image *app);                    /* low.c: fresh start, the program is mapped */
bool low_used(void);                                            /* [any FS] the program makes calls from low addresses */
void low_thread(void);                                          /* [any FS] those of the calling thread are ours from here on */
uint64_t low_stub(uint64_t site);                               /* [any FS] where to make the call that returns to site; or 0 */
uint64_t low_site(uint64_t pc);                                 /* [any FS] of a pc behind the call in a stub; else pc */
void low_save(struct buf *b);
void low_restore(struct reader *r);
void low_again(void);

void exec_prepare(char **environment);                          /* exec.c: our part of the environment, for the next program */
bool exec_at(long dir, uint64_t *path, uint64_t flags);         /* [any FS] execveat is an execve of this path; false: leave it */
void exec_keep(const char *variable);                           /* one more */
void exec_redirect(uint64_t *path, uint64_t *argv, uint64_t *envp);   /* [any FS] */

long pi_futex(ucontext_t *uc, const uint64_t *x);               /* [any FS] pi.c: after a restart */

/* -- signals (signals.c) -- */
extern struct ksigaction sig_upper[65];                         /* what the application asked for */
void signals_start(void);
long signals_action(int sig, const struct ksigaction *act, struct ksigaction *old, long size);   /* [any FS] */
void signals_save(struct buf *b);
void signals_restore(struct reader *r);
struct pending_set { uint32_t n; siginfo_t *info; };
struct thread_rec;
void pending_reset(void);                                       /* a new checkpoint begins */
bool pending_take(int tid, struct pending_set *p);              /* [any FS] the calling thread's private queue */
void pending_take_shared(struct pending_set *p);
void pending_put(int pid, int tid, const struct pending_set *p);/* [any FS] tid 0: to the process */
uint32_t pending_kept(const struct pending_set *p, uint64_t blocked);   /* how many of them an image keeps; blocked: by whoever could take them */
void pending_save(struct buf *b, const struct pending_set *p, uint64_t blocked);
uint64_t threads_blocked(const struct thread_rec *r);           /* by that thread of the application; NULL: by all */

/* -- threads (threads.c, tids.c) -- */
struct thread_rec {
	int32_t tid, vtid;              /* kernel's number; the number the application knows */
	volatile uint32_t parked;
	uint32_t flags;
	uint64_t fs, uc, robust, robust_len, tid_address;
	char name[16];
	struct pending_set pending;
};
void threads_start(void);
void threads_remake_call(ucontext_t *uc);                       /* [any FS] a signal that the program does not see broke it off */
/* Helper thread: NULL when all have parked, or it was given up; else which thread cannot be stopped. */
const char *threads_stop(bool (*give_up)(void));
void threads_resume(void);
unsigned threads_count(void);
unsigned threads_most(void);
struct thread_rec *threads_rec(unsigned i);
struct thread_rec *threads_by_tid(int tid);
void threads_save(struct buf *b);
void threads_restore(struct reader *r);                         /* reads the records */
void threads_revive(void);                                      /* makes the threads; they wait */
void threads_release(void) __attribute__((noreturn));           /* all go on, the caller as the main thread */
int threads_new_tid(int vtid);                                  /* [any FS] the kernel's number now; vtid when unknown */
int threads_vtid(int tid);                                      /* [any FS] */
void threads_forget(int tid);                                   /* [any FS] */
void lower_thread_here(void);                                   /* the calling thread is the lower half's */
bool lower_thread_is(int tid);
/* work for the carrier: runs on its private lower stack */
void carrier_run(void (*fn)(void *), void *arg);
void carrier_do(void (*fn)(void *), void *arg);                 /* and waits for it */
struct carrier { volatile uint32_t word; volatile int tid; void (*fn)(void *); void *arg; };

/* -- attributes of threads and process (attributes.c) -- */
void attributes_start(void);                                    /* what is natural here; behind the filter, before threads */
void attributes_here(unsigned i);                               /* [any FS] of the calling thread, whose record is i */
void attributes_inspect(struct buf *refusals, unsigned *n);
void attributes_reveal(bool on);                                /* during a checkpoint /proc/self is readable */
void attributes_save(struct buf *b);
void attributes_restore(struct reader *r);                      /* reads the section, which stays */
void attributes_apply_here(int vtid);                           /* [any FS] of the calling thread */
void attributes_restore_process(void);                          /* all others; the last thing */

/* -- process-wide state (process.c) -- */
void process_start(void);                                       /* what is natural here */
void *process_natural(size_t *n);                               /* that, as bytes */
void process_save(struct buf *b);
void process_restore(struct reader *r);                         /* all but timers and limits */
void process_start_timers(void);
void process_inspect(struct buf *refusals, unsigned *n);
void process_restore_limits(void);                              /* the last thing */

/* -- memory (vma.c, pages.c) -- */
struct vma_id { uint64_t dev, inode; };
/* bad: it is not complete. */
struct vma_list { struct abi_vma *v; struct vma_id *id; size_t n, cap; struct buf strings; bool bad; };
void vma_scan(struct vma_list *l, struct buf *refusals, unsigned *n);
void vma_free(struct vma_list *l);
/* -- descriptors (fds.c, fds_restore.c) -- */
void fds_start(void);                                           /* remembers what was inherited */
void fds_inspect(struct buf *refusals, unsigned *n);            /* threads stopped; makes the records */
unsigned fds_children(struct buf *refusals);                    /* how many there are; named, unless refusals is NULL */
void fds_wait_for_child(int or_readable);                       /* until one ends, for some milliseconds at most */
void fds_settle(void);                                          /* all ranks stand: what files are now */
/* 0, or the error number for which the content of the file *unread cannot be saved. */
int fds_save(const struct vma_list *l, struct buf *fds, struct buf *content, const char **unread);
void fds_release(void);                                         /* what an inspection holds */
void fds_restore(struct reader *fds, struct reader *content);
void fds_finish(void);                                          /* restart: the threads are back */
/* -- what ranks share (shared.c) -- */
struct object { uint64_t dev, inode, key, size, offset; uint32_t flags; int32_t fd; const char *path; };
void shared_begin(void);                                        /* a rank stands: nothing is known yet */
void shared_add(const struct object *o);                        /* something that others might have too */
void shared_report(uint64_t epoch);                             /* to the coordinator */
void shared_told(const void *body, size_t n);                   /* its answer */
bool shared_hold(void);                                         /* wait for RESUME after the image */
uint32_t shared_flags(uint64_t key, bool *others);              /* of all ranks together; others: another rank answers for it */
bool shared_can_be_read(int fd);                                /* all of the file behind it */
bool shared_is_saved(uint64_t key);                             /* by this rank: alone, or among others */
void shared_save(struct buf *b);
void shared_restore(struct reader *r, struct reader *fds);      /* before anything is mapped or opened */
void shared_done(void);                                         /* what this rank restores is restored: until that is so of all */
int shared_object(uint64_t key, const char *name, uint64_t size);   /* restart: the nameless object behind mappings and descriptors */
int shared_known(uint64_t key);                                 /* the same if it is there already, or -1 */
void shared_close(void);
void files_check(struct reader fds);                            /* files.c; restart: before any of them is opened */
bool image_has_content(uint64_t key);                           /* of a file with a name that lies in memory */
uint64_t inode_key(unsigned major, unsigned minor, uint64_t inode);

#define VMF_HUGE      (1UL << 0)
#define VMF_NOHUGE    (1UL << 1)
#define VMF_DONTFORK  (1UL << 2)
#define VMF_DONTDUMP  (1UL << 3)
#define VMF_WIPEFORK  (1UL << 4)
#define VMF_MERGE     (1UL << 5)
#define VMF_LOCKED    (1UL << 6)
#define VMF_SEQ       (1UL << 7)
#define VMF_RANDOM    (1UL << 8)
#define VMF_NORESERVE (1UL << 9)
#define VMF_GROWSDOWN (1UL << 10)
#define VMF_WHOLE     (1UL << 11)       /* the file's bytes are in the image: comes back as anonymous memory */
#define VMF_DELETED   (1UL << 12)
#define VMF_TMPFS     (1UL << 13)
#define VMF_ONFAULT   (1UL << 20)       /* locked, page by page as they are touched */
#define VMF_DROPPABLE (1UL << 21)       /* the kernel may empty it: comes back empty */
#define VMF_SEALED    (1UL << 22)
struct run { uint64_t start, end; uint32_t vma, flags; };
#define RUN_BOUNCE 1                    /* not readable in place: read through /proc/self/mem */
struct run_list { struct run *r; size_t n, cap; bool bad; };    /* bad: it is not complete */
void pages_scan(const struct vma_list *l, struct run_list *out, struct run_list *guards);
bool pages_guarded(const struct abi_vma *v);                    /* some of its pages are guard pages */
/* -- what mappings have besides bytes (memory.c) -- */
void memory_save(const struct vma_list *l, const struct run_list *guards, struct buf *b);
void memory_restore(struct reader *r);                          /* reads the section; places memory that is to come */
void memory_restore_guards(void);                               /* content is there */
void memory_restore_lock(void);                                 /* nothing more is mapped */

/* -- content of fresh memory (fill.c) -- */
bool fill_begin(void);                                          /* false: not here; then nothing else of it is called */
bool fill_register(uint64_t start, uint64_t end);               /* private anonymous memory that nobody has touched */
bool fill_pages(char *to, const char *from, size_t n);          /* [any lower thread] whole pages */
void fill_end(void);

/* -- image (image_write.c, image_read.c, crc32c.c) -- */
struct image_result { int status; char error[512]; uint32_t nfiles; uint64_t bytes, logical, write_ns; uint32_t table_crc; };
bool image_is_mapped(unsigned major, unsigned minor, uint64_t inode);   /* after a lazy restart: memory may be an image */
void image_write(const struct abi_drain *d, unsigned writers, struct image_result *r);
void image_restart(const char *dir) __attribute__((noreturn));
uint32_t crc32c(uint32_t crc, const void *p, size_t n);
void cpu_describe(struct abi_image_header *h);
void cpu_check(const char *path, const struct abi_image_header *h);
const char *cpu_frame_wrong(uint64_t uc);                       /* why a thread could not go on from this frame; NULL: it can */
void cpu_frame_prepare(uint64_t uc);                            /* [any FS] the calling thread is about to go on from it */

void libs_save(const struct vma_list *l, struct buf *b);        /* libs.c */
void libs_check(struct reader *r);

/* -- agent (agent.c) -- */
void agent_connect(void);                                       /* HELLO and WELCOME */
void agent_start(void);                                         /* the helper thread */
void agent_wake(void);                                          /* [any FS] */
void agent_last_words(const char *text, size_t n);              /* [any FS] */
bool agent_asked_to_end(void);                                  /* [any FS] */
void agent_failed(const char *sentence);
int agent_hand(unsigned what, uint64_t dev, uint64_t inode, int file);   /* restart: gives to other ranks, or waits for what they give */
void agent_restored(uint64_t read_ns, uint64_t restore_ns, uint64_t bytes);
#endif
