/* base.h: what every other room of the core stands on: who this process is, saying and dying, the way to the
 * agent, bytes, descriptors and threads of our own, limits, crash points.
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
#include "core/base/raw.h"

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
void core_mark_rank(void);                              /* this process is the rank, its children are not */
ANY_FS int core_is_rank(void);                                  /* 0 in a forked child, -1 in a vforked one */

/* -- which process of its place is the rank (place.c) -- */
void place_at(struct abi_page *shared);
ANY_FS bool place_is_free(void);                /* nobody has begun the MPI here */
ANY_FS bool place_is_mine(void);
ANY_FS bool place_is_others(void);
/* From another process than this one, those around it and their launcher: from a batch system, for one. */
ANY_FS bool place_sent_from_outside(const siginfo_t *si);
ANY_FS bool place_sent_by_wrapper(const siginfo_t *si);  /* to the rank, by a process around it: timeout */
bool place_take(void);                          /* false: another process has it */
void place_program(char **argv);        /* start: what this process executes; core_self.exe is known */
const char *place_restores(void);       /* the image's directory, if it goes on from one instead, or NULL */
char *place_describe(void);     /* for the environment of what it executes: always the same string */

/* -- saying (say.c) -- */
extern int core_stderr;                 /* where we say things: not 2 while descriptors are restored */
/* Says why the application cannot be run, to the user and to the agent, and ends the process. */
void core_exit_message(int code, const char *fmt, ...) __attribute__((noreturn, format(printf, 2, 3)));
/* The same where an image is not as it was written: others may be able to make it again. */
void core_damaged(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* -- the agent (wire.c, page.c) -- */
struct wire {
	volatile int sock;              /* -1: no agent */
	int wake;                       /* an eventfd that ends the helper thread's wait */
	bool hung_up;                   /* the agent is gone */
	bool end_came;                  /* END, while a restart waited for something else */
	volatile uint32_t asked, ending; /* a SIGTERM is held back; none is held back any more */
	uint32_t writers;
	uint32_t ranks_here;            /* that share the processors of this node, this one among them */
	int file;                       /* descriptor that came with the last packet, or -1 */
	struct abi_header in;
	char body[ABI_MAX_BODY];
};
extern struct wire wire;
/* HELLO and WELCOME, and the page; ends the process on failure. The standard input for this rank, or -1. */
int wire_connect(uint32_t below, uint64_t input_read);
int wire_send(uint16_t type, uint64_t epoch, const void *body, size_t n, const void *text, size_t m);
bool wire_receive(int flags);   /* one packet into wire.in and wire.body: whoever leads this rank at the
				 * time */
void wire_failed(uint16_t type, const char *sentence);          /* FAILED or DAMAGED */
/* restart: gives to other ranks, or waits for what they give */
int wire_hand(unsigned what, uint32_t owner, uint64_t dev, uint64_t inode, int file);
void wire_claim(const struct abi_claim *c, const char *path);   /* restart: returns if it is right */
ANY_FS void wire_wake(void);
ANY_FS void wire_last_words(const char *text, size_t n);        /* of a process that is about to end */
ANY_FS bool wire_asked_to_end(void);    /* somebody asks this process to end. True: the agent will hear of it,
					 * and decides */
void page_map(void);                            /* start and restart, first: then the place is known */
const char *page_path(void);                    /* empty: the page is nobody's but ours */
void page_share(void);          /* this process is the rank from here on: its page is the agent's */
void core_phase(unsigned phase);

/* -- growing byte buffer (util.c) -- */
struct buf { char *p; size_t n, cap; bool bad; };  /* bad: memory has not sufficed, what is added is lost */
void buf_add(struct buf *b, const void *p, size_t n);
/* One line, whole, and a line feed. Such in names of files become question marks. */
void buf_line(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Shows that a text was cut at its end; whole: what snprintf returned for room n. */
void core_ellipsis(char *s, size_t n, int whole);
void buf_free(struct buf *b);
static inline void buf_u64(struct buf *b, uint64_t v) { buf_add(b, &v, sizeof v); }
void buf_str(struct buf *b, const char *s);             /* u32 length, bytes with the final 0, padded to 8 */
/* Reads back; every function leaves r->bad set when the bytes do not suffice. */
struct reader { const char *p; size_t n, at; bool bad; };
void read_bytes(struct reader *r, void *out, size_t n);
uint64_t read_u64(struct reader *r);
const char *read_str(struct reader *r);
const void *read_ref(struct reader *r, size_t n);

/* -- processors (processors.c) -- */
unsigned processors_for_each(unsigned ranks);   /* of so many here: at least 1 */

/* -- small things (util.c, crc32c.c) -- */
struct stat;
uint64_t now_ns(void);
char *slurp(const char *path, size_t *n);       /* whole file, 0-terminated, malloc'ed; NULL: unreadable, or
						 * no memory */
uint64_t status_field(const char *status, const char *key, int base);
ANY_FS uint64_t inode_key(const struct stat *st);  /* what images know a file by while it is open or mapped */
ANY_FS uint64_t inode_key_of(unsigned major, unsigned minor, uint64_t inode);
uint32_t crc32c(uint32_t crc, const void *p, size_t n);
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
