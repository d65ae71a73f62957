/* base.h: who this process is, memory and buffers, descriptors and threads of our own, limits, crash points.
 *
 * This room knows no agent, says nothing and ends nothing: what fails is returned. With raw.h, which it
 * includes, and agent.h it is what every other room of the core stands on.
 *
 * Context: ordinary lower code (lower half's libc, its TLS, memory by malloc), any lower thread, unless a
 * line says otherwise. What is marked ANY_FS allocates nothing and uses no TLS. */
#ifndef BYSSUS_BASE_H
#define BYSSUS_BASE_H
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>
#include "core/core.h"
#include "core/base/raw/raw.h"

#define BYSSUS_VERSION "0.1.0"
#define RESERVED_SIGNALS (SIGBIT(SIGSYS) | SIGBIT(BY_SIG))

/* -- this process (self.c); written at start and restart, by one thread -- */
struct core_config {
	const char *agent, *rundir, *job;
	uint64_t start;                 /* which start of the job's ranks this is */
	unsigned writers;
	bool lazy, policy_drop;
	bool save_files;                /* what is read and written in place (inplace.c) */
	bool below;                     /* the launcher has started another process, this one is below it */
	bool old_kernel;                /* for tests: what kernels before 6.5 do not tell is not looked at */
	int stderr_fd;                  /* the launcher's standard error, until the helper thread has it */
	int fd_base;                    /* descriptors from here on are the lower half's */
	uint64_t soft_stack;
	char libdir[512];
};
extern struct core_config core_config;
struct core_self {
	int pid, main_tid;
	int launcher;                   /* the parent of the process that the launcher has started */
	volatile int mpi_tid;           /* the thread that carries checkpoints */
	char exe[4096];                 /* the application's file */
	/* Below the launcher's process: what was started here, as an image knows it. */
	struct core_began { uint64_t hash; uint32_t nth, input; } began;
};
extern struct core_self core_self;
bool core_mark_rank(void);              /* this process is the rank, its children are not; false: see errno */
ANY_FS int core_is_rank(void);          /* 0 in a forked child, -1 in a vforked one */

/* -- growing byte buffer (util.c); read back by what raw.h has -- */
struct buf { char *p; size_t n, cap; bool bad; };  /* bad: memory has not sufficed, what is added is lost */
void buf_add(struct buf *b, const void *p, size_t n);
/* One line, whole, and a line feed. Such in names of files become question marks. */
void buf_line(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_free(struct buf *b);
static inline void buf_u64(struct buf *b, uint64_t v) { buf_add(b, &v, sizeof v); }
void buf_str(struct buf *b, const char *s);     /* u64 length, bytes with the final 0, padded to 8 */

/* -- processors (processors.c) -- */
unsigned processors_for_each(unsigned ranks);   /* of so many here: at least 1 */

/* -- small things (util.c) -- */
uint64_t now_ns(void);
char *slurp(const char *path, size_t *n);       /* whole file, 0-terminated, malloc'ed; NULL: unreadable, or
						 * no memory */
uint64_t status_field(const char *status, const char *key, int base);
/* Memory for what a checkpoint needs (tests let it fail). Whatever is made of a NULL, the checkpoint fails at
 * its end. */
void *core_realloc(void *p, size_t n);
char *core_strdup(const char *s);
void core_memory_begin(void);
bool core_memory_failed(void);                                  /* since then an allocation has failed */

/* -- descriptors and threads of ours (interpose.c, lower.c) -- */
int high_fd(int fd);                            /* moves a descriptor of ours above the application's */
/* 0: a thread of ours makes a descriptor, which has a low number meanwhile. Otherwise a number that stays the
 * same until the next one is made. */
uint32_t descriptors_rest(void);
void own_descriptors(void);             /* the calling thread gets a table of descriptors of its own */
int unshare_descriptors(void);                  /* the same, with all that is in it; 0 or an error number */
/* On a thread with a table of descriptors of its own: closing there ends no lock. 0, or the error number for
 * which it was not run. */
int own_table_run(void (*fn)(void *), void *arg);
/* A thread of ours that takes little of the address space that the application may be limited to; 0 or an
 * error number. room: stays until the thread has begun. */
struct core_begin { void *(*fn)(void *); void *arg; };
#define SMALL_STACK (256UL << 10)
int core_thread(pthread_t *t, struct core_begin *room, size_t stack, void *(*fn)(void *), void *arg);
void lower_thread_here(void);                                   /* the calling thread is the lower half's */
bool lower_thread_is(int tid);

/* -- the limit on descriptors (limits.c) -- */
struct rlimit;
void limits_start(void);
void limits_raise(void);                                        /* nobody of the application runs */
void limits_lower(void);
void limits_save(struct rlimit *out);
void limits_restore(const struct rlimit *was);
struct limits_loan { uint64_t soft, mask; };
ANY_FS bool limits_borrow(struct limits_loan *l);               /* true: limits_return must follow */
ANY_FS void limits_return(const struct limits_loan *l);
ANY_FS long limits_trap(const struct rlimit *set, struct rlimit *get);
ANY_FS long raw_open(const char *path, int flags);      /* also when the application has used up its
							 * descriptors */

/* -- crash points for tests (faults.c) -- */
void faults_start(const char *spec);
void core_fault(enum abi_fault f);
#endif
