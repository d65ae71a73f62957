/* core.h: what the rank core offers to the MPI half (its client), and what it asks of it. Begin to read here.
 *
 * One process has two programs in it. The **lower** half is byssus-rank with its C library and the real MPI
 * library: the kernel has put it high into the address space, it is new after a restart, and it is called
 * lower since it lies below the application as an operating system does. The **upper** half is the
 * application with a loader and a C library of its own, in the arena (layout.h): its memory is what an image
 * saves. Each half has its thread-local storage (TLS), which a register, FS, points to: so a thread has an
 * upper FS and, while it is in the lower half, a lower one. To cross is to go from one half into the other on
 * the same stack. A thread parks when a stop is in effect: it waits in a signal handler. The carrier is the
 * parked MPI thread, which does the work of a checkpoint; the helper is a lower thread that leads it.
 *
 * The core knows no MPI: it loads the application into the arena, keeps the halves apart, stops threads,
 * writes and reads images. The client (rank/mpi) is told when a checkpoint is asked for, brings the MPI to
 * rest, and builds it anew after a restart. A rank without a client is a plain process. Inside, the core
 * consists of rooms (folders), each of which calls only those below it: internal/tools/house/rooms.txt lists
 * them.
 *
 * Context: lower half. Everything here may use libc (lower half's own). Functions marked [upper stack] run on
 * the application's stack with FS switched to a lower thread's TLS. */
#ifndef BYSSUS_CORE_H
#define BYSSUS_CORE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "layout.h"
#include "base/abi_gen.h"       /* generated from internal/wire/abi: socket messages, shared page, images */

/* A function that may run on the FS of either half, in a signal handler or on the way between them: it uses
 * no TLS, and of libc only what uses none. internal/tools/house checks it, and all that it calls. */
#define ANY_FS __attribute__((section("any_fs")))

struct core_client {
	/* Before the application is mapped: load libraries, fill call slots with core_set_call. NULL or an
	 * error sentence. */
	const char *(*start)(void);
	/* Helper thread: a message of the agreement (ABI_REQUEST, ABI_TARGETS, ABI_WAKE, ABI_CANCEL,
	 * ABI_RESUME). Must not call the MPI; may set flags and answer with core_send. The core has set
	 * ctl->pending before ABI_REQUEST arrives here, with a process-wide memory barrier behind it, and
	 * clears it (and ctl->stop) before ABI_CANCEL/ABI_RESUME. */
	void (*message)(const struct abi_header *h, const void *body);
	/* Every 5 ms on the helper thread while a request is pending and not yet stopped. */
	void (*tick)(void);
	/* Main MPI thread, all application threads stopped, FS lower, on a private lower stack: bring the MPI
	 * to rest (drain). Returns 0, or -1 with a sentence in why. Must poll core_cancelled() in its loops.
	 */
	int (*quiesce)(char *why, size_t n);
	/* After the checkpoint, before threads go on (same context as quiesce). */
	void (*resume)(void);
	/* At a restart, when the regions (core_region) are back and nothing else: start the MPI, while other
	 * threads read the application's memory. Returns 0, or -1 with a sentence in why. */
	int (*prepare)(char *why, size_t n);
	/* After a restart, memory and descriptors are back, no application thread runs yet: build the MPI's
	 * objects anew. */
	int (*restore)(char *why, size_t n);
	/* Names what the image should record about the MPI in use (library version, face). */
	void (*describe)(char *buf, size_t n);
	/* Helper thread, all application threads stopped: is there a reason against any checkpoint, whatever
	 * the policy? Then true with a sentence in why. May be NULL. */
	_Bool (*refuse)(char *why, size_t n);
	/* Programs that are executed below this one may begin the MPI in its place: they are led through
	 * byssus-rank too, unless this one has. */
	bool begins;
};
extern const struct core_client *const core_client;    /* defined by rank/mpi, or by rank/none */

/* -- identity -------------------------------------------------------------------------------------------- */
struct core_job {
	int rank, nranks;               /* from the launcher's environment */
	int restarted;                  /* this process continues an image */
	uint64_t checkpoint;            /* number of the image it continues */
	const char *libmpi;             /* path or soname of the real MPI (BYSSUS_LIBMPI) */
	const char *face;               /* "mpich", "openmpi" or "" */
	const char *libdir;             /* where our own files are */
	int verbose;
	int refused_error;              /* refused calls are answered with an error (BYSSUS_REFUSED) */
};
extern struct core_job core_job;

/* -- the place of this rank among the processes below its launcher --------------------------------------- */
/* The program begins the MPI: it is the rank from here on, unless another process of its place is. Ends the
 * process where that cannot be. [upper stack, or prepare] */
void core_begin(void);
/* What the MPI says of it; ends the process when that is another job. */
void core_world(int rank, int size);

/* -- crossings ------------------------------------------------------------------------------------------- */
void core_set_call(unsigned slot, void *fn);   /* fn: long f(6 integer arguments); runs [upper stack] */
void core_set_short_call(unsigned k, unsigned slot, void *fn);  /* the same, quicker, for a few (k <
								 * BY_NSHORT) */
/* Calls code of the application (a callback) from the lower half, on the same stack, with its FS. */
long core_upcall(void *fn, long a, long b, long c, long d, long e, long f);
/* The thread that runs quiesce is the one that last called this (default: the main thread). [upper stack] */
void core_this_is_the_mpi_thread(void);
/* The client has loaded its libraries: the main thread need not change FS any more, where that is possible.
 * [upper stack, or restore] */
void core_libraries_loaded(void);

/* -- saved memory ---------------------------------------------------------------------------------------- */
/* Region k (0..BY_STATE_N-1) at BY_STATE + k*BY_STATE_STRIDE, readable and writable, zero at first, saved
 * with the image and there again before restore(). len <= BY_STATE_STRIDE; untouched pages cost nothing. */
void *core_region(unsigned k, size_t len);
/* Anonymous saved memory from the arena's allocator (page granular); NULL when the arena is full. */
void *core_arena_map(size_t len);
void core_arena_unmap(void *p, size_t len);

/* -- agreement ------------------------------------------------------------------------------------------- */
/* any lower thread; -1: no agent */
int core_send(uint16_t type, uint64_t epoch, const void *body, size_t len);
/* In quiesce: it will fail, for this reason, and not at once: others must hear of it first. */
void core_checkpoint_failed(const char *why);
/* Why this rank is about to end the job (an abort, a refused call): for the user, by way of the agent. Any
 * lower thread. */
void core_reason(const char *sentence);
/* f is called before any of the lower half's libraries reads from fd; -1: from none. */
void core_before_read(int fd, void (*f)(int fd));
int core_cancelled(void);                    /* the checkpoint under way has been given up */
ANY_FS struct abi_page *core_page(void);        /* shared with the agent; never NULL (private memory when
						 * there is no agent) */

/* -- faults of tests ------------------------------------------------------------------------------------- */
void core_stop_here(void);                      /* this process, by SIGSTOP, until somebody continues it */
bool core_fault_fails(enum abi_fault f);     /* at the n-th pass: what the point names is to fail */

/* -- errors ---------------------------------------------------------------------------------------------- */
/* Prints "byssus: rank R: sentence" on stderr, tells the agent, ends the process with ABI_EXIT_INTERNAL. Only
 * for start and restart, never while the application runs. */
void core_die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* What this process is about to do cannot be: tells the agent, which ends the job with ABI_EXIT_REFUSED, and
 * ends the process. [upper stack] */
void core_refuse(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
void core_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void core_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));   /* with BYSSUS_VERBOSE */
#endif
