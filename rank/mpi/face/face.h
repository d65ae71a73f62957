/* face.h: upper half: what every face shares: crossing into the lower half, parking, temporaries, callbacks.
 *
 * A face is the application's libmpi: it translates the arguments of a call into the neutral language,
 * crosses once, and translates the results back. It does nothing else; queries that saved tables can answer
 * (rank, size, type size) it answers itself. The file that includes this one is generated and says whose face
 * it is: FACE_MPICH or FACE_OPENMPI. A face is a library by itself: no other room calls into it, and it calls
 * only by crossings. Context: upper half, saved with the application; the application's threads and its TLS
 * (window.c). No libc calls, no allocation but on the stack (long arrays: the arena), no address of the lower
 * half kept anywhere. Every function may be interrupted by a checkpoint at any instruction, and continue in
 * another process. */
#ifndef BYSSUS_FACE_H
#define BYSSUS_FACE_H
#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include "../abi/abi.h"

#define UNUSED       __attribute__((unused))
#define ALIGNED      __attribute__((aligned(32)))
#define HANDLE_MASK  ((1u << NX_HANDLE_BITS) - 1)

/* name is another name of target; WEAK: one that a tool may replace, as the profiling interface wants. */
#define SAME(name, target) extern __typeof__(target) name __attribute__((alias(#target)));
#define WEAK(name, target) extern __typeof__(target) name __attribute__((weak, alias(#target)));

/* The function in a slot, with the types of its arguments. */
#define CROSS(slot, ...) ((long (*)(__VA_ARGS__))BY_CTLP->call[slot])
/* Two narrow arguments in one register. */
#define PACK(low, high)  ((uint64_t)(uint32_t)(low) | (uint64_t)(uint32_t)(high) << 32)

static inline long face_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	__asm__ volatile("syscall"
			 : "+a"(nr)
			 : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return nr;
}

/* Called when a crossing has returned BY_AGAIN: the core's handler stops the thread here if a stop is in
 * effect. Always true. */
COLD UNUSED static int face_park(void)
{
	long pid = face_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0),
	     tid = face_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
	face_syscall(SYS_tgkill, pid, tid, BY_SIG, 0, 0, 0);
	return 1;
}

COLD UNUSED static long face_resume(nx_cont *cont, nx_status *status)
{
	long rc;
	do face_park();
	while ((rc = CROSS(NX_SLOT_RESUME, nx_cont *, nx_status *)(cont, status)) == BY_AGAIN);
	return rc;
}

COLD UNUSED static int face_refused(unsigned index, nx_t comm)
{
	return error_out((int)CROSS(NX_SLOT_REFUSED, uint32_t, nx_t)(index, comm));
}

/* An error that the face itself has found: the middle calls the error handler. The name is the function's,
 * without MPI_. */
COLD UNUSED static int face_raise_in(const char *name, nx_t comm, int error)
{
	return error_out((int)CROSS(NX_SLOT_RAISE, nx_t, int, const char *)(comm, error, name));
}
/* In a function PMPI_Name. */
#define face_raise(comm, error) face_raise_in(__func__ + sizeof "PMPI", comm, error)

/* Can the program run above this face? (fit.inc.c) */
COLD static void check_fit(void);

/* -- arrays in the other language: on the stack, long ones in the arena ---------------------------------- */

#define TEMP_STACK 4096
#define TEMP(T, t, count) \
	int t##_n = (count); \
	if (t##_n < 0) t##_n = 0; \
	T t##_small[t##_n <= TEMP_STACK ? t##_n + 1 : 1]; \
	T *t = likely(t##_n <= TEMP_STACK) ? t##_small : face_map((size_t)t##_n * sizeof(T))
#define TEMP_END(t) \
	if (unlikely(t != t##_small)) \
	face_syscall(SYS_munmap, (long)t, (long)((size_t)t##_n * sizeof *t), 0, 0, 0, 0)

/* Without memory for its own array the application's call cannot even fail properly: it stops at once. */
COLD UNUSED static void *face_map(size_t n)
{
	long p = face_syscall(SYS_mmap, 0, (long)n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			      0);
	if (p < 0 && p > -4096) __builtin_trap();
	return (void *)p;
}

UNUSED static int sum(const int *v, int n)
{
	int total = 0;
	for (int i = 0; i < n; i++) total += v[i];
	return total;
}

/* -- special addresses ----------------------------------------------------------------------------------- */

static inline void *place_in(const void *p) { return p == ABI_IN_PLACE ? NX_IN_PLACE : (void *)p; }

#ifdef FACE_MPICH
extern int *const MPI_UNWEIGHTED, *const MPI_WEIGHTS_EMPTY;
#define ABI_UNWEIGHTED    MPI_UNWEIGHTED
#define ABI_WEIGHTS_EMPTY MPI_WEIGHTS_EMPTY
#endif
static inline int *weights_in(const int *w)
{
	return w == ABI_UNWEIGHTED ? NX_UNWEIGHTED : w == ABI_WEIGHTS_EMPTY ? NX_WEIGHTS_EMPTY : (int *)w;
}

/* The section of the entry points of MPI's Fortran libraries (face_fortran.inc.c): the linker defines its
 * ends. */
extern const char __start_fortran_text[] __attribute__((visibility("hidden"))),
	__stop_fortran_text[] __attribute__((visibility("hidden")));

/* Completion of many requests: MPI_ERROR of each counts only when the call says so. */
static inline void status_out_of_many(MPI_Status *to, const nx_status *from, long rc)
{
	status_out(to, from);
	if (unlikely(rc == NX_ERR_IN_STATUS)) to->MPI_ERROR = error_out(from->error);
}
#endif
