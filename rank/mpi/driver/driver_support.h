/* driver_support.h: what both drivers share: finding functions and objects, errors, temporaries.
 *
 * The file that includes this one is generated; it has declared the ABI's types and `real`, the real
 * library's functions. Context: lower half; may use libc. */
#ifndef BYSSUS_DRIVER_SUPPORT_H
#define BYSSUS_DRIVER_SUPPORT_H
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Real handles are ints or pointers. */
#define REAL(T, h)  ((T)(uintptr_t)(h))
#define RH(h)       ((rh_t)(uintptr_t)(h))

#define COMM_SIZE(comm) comm_size_of(REAL(MPI_Comm, comm))
#define NEIGHBOURS_IN(comm)  neighbours_of(REAL(MPI_Comm, comm), false)
#define NEIGHBOURS_OUT(comm) neighbours_of(REAL(MPI_Comm, comm), true)

/* -- errors ---------------------------------------------------------------------------------------------- */

/* Is told the library's own code, which may stand for a longer text, and its neutral class. */
#ifndef NOTE_ERROR
#define NOTE_ERROR(code, class) ((void)0)
#endif

COLD static int error_class_of(int code)
{
	int class = code;
	real.error_class(code, &class);
	class = error_in(class);
	NOTE_ERROR(code, class);
	return class;
}

static inline int neutral(int code) { return likely(code == 0) ? 0 : error_class_of(code); }

__attribute__((unused)) static void status_in_of_many(nx_status *to, const MPI_Status *from, int rc)
{
	status_in(to, from);
	if (rc == NX_ERR_IN_STATUS) to->error = from->MPI_ERROR ? error_class_of(from->MPI_ERROR) : 0;
}

/* -- arrays in the real library's language --------------------------------------------------------------- */

#define TEMP_STACK 64
#define TEMP(T, t, count) \
	int t##_n = (count); \
	if (t##_n < 0) t##_n = 0; \
	T t##_small[TEMP_STACK]; \
	T *t = likely(t##_n <= TEMP_STACK) ? t##_small : temp_alloc((size_t)t##_n * sizeof(T)); \
	__asm__("" : "+r"(t))   /* the compiler cannot know that elements below n are set before they are
				 * read */
#define TEMP_END(t) if (unlikely(t != t##_small)) free(t)

__attribute__((unused)) static void *temp_alloc(size_t n)
{
	void *p = malloc(n);
	if (p) return p;
	fprintf(stderr, "byssus: no memory for an array of %zu bytes\n", n);
	abort();
}

__attribute__((unused)) static int comm_size_of(MPI_Comm comm)
{
	int n = 0;
	return real.comm_size(comm, &n) == 0 ? n : 0;
}

/* How many neighbours a process has in the topology, to receive from or to send to. */
__attribute__((unused)) static int neighbours_of(MPI_Comm comm, bool outward)
{
	int kind, rank, in = 0, out = 0, weighted;
	if (real.topo_test(comm, &kind)) return 0;
	if (kind == ABI_CART) return real.cartdim_get(comm, &in) ? 0 : 2 * in;
	if (kind == ABI_GRAPH)
		return real.comm_rank(comm, &rank) || real.graph_neighbors_count(comm, rank, &in) ? 0 : in;
	return kind == ABI_DIST_GRAPH && real.dist_graph_neighbors_count(comm, &in, &out, &weighted) == 0
		       ? outward ? out : in
		       : 0;
}

__attribute__((unused)) static int sum(const int *v, int n)
{
	int total = 0;
	for (int i = 0; i < n; i++) total += v[i];
	return total;
}

/* -- special addresses ----------------------------------------------------------------------------------- */

static inline void *place_out(const void *p) { return p == NX_IN_PLACE ? ABI_IN_PLACE : (void *)p; }

#ifndef ABI_UNWEIGHTED
static int *real_unweighted, *real_weights_empty;
#define ABI_UNWEIGHTED    real_unweighted
#define ABI_WEIGHTS_EMPTY real_weights_empty
static void find_weights(void *libmpi)
{
	int **u = dlsym(libmpi, "MPI_UNWEIGHTED"), **e = dlsym(libmpi, "MPI_WEIGHTS_EMPTY");
	if (u) real_unweighted = *u;
	if (e) real_weights_empty = *e;
}
#else
static void find_weights(void *libmpi) { (void)libmpi; }
#endif

static inline int *weights_out(const int *w)
{
	return w == NX_UNWEIGHTED ? ABI_UNWEIGHTED : w == NX_WEIGHTS_EMPTY ? ABI_WEIGHTS_EMPTY : (int *)w;
}

static rh_t type_from_ptr(const void *datatype) { return RH(*(const MPI_Datatype *)datatype); }

/* -- ending ---------------------------------------------------------------------------------------------- */

/* Waits until the reader of a pipe has read all of it, a second at most. Nothing wakes the writer of a
 * pipe when it has become empty. */
static void let_read(int pipe)
{
	const struct timespec rest = { 0, 1000000 };
	struct stat is;
	if (fstat(pipe, &is) || !S_ISFIFO(is.st_mode)) return;
	for (int unread, rests = 0; rests < 1000; rests++) {
		if (ioctl(pipe, FIONREAD, &unread) || !unread) return;
		nanosleep(&rest, NULL);
	}
}

/* What this process has printed, a launcher has read it. MPICH's ends at MPI_Abort without reading the ranks'
 * pipes once more: the reason, printed just before, was lost in up to one run of ten. */
static void let_launcher_read(void)
{
	let_read(STDOUT_FILENO);
	let_read(STDERR_FILENO);
}

/* -- loading --------------------------------------------------------------------------------------------- */

struct symbol {
	const char *name;
	size_t offset;                /* in struct real or struct nx_driver */
};

/* Fills in struct real. NULL, or a sentence about the first function that is missing. */
static const char *find_functions(void *libmpi, const struct symbol *s, size_t n)
{
	static char why[128];
	for (size_t i = 0; i < n; i++) {
		void *f = dlsym(libmpi, s[i].name);
		if (!f) {
			snprintf(why, sizeof why, "the MPI library has no function %s", s[i].name);
			return why;
		}
		memcpy((char *)&real + s[i].offset, &f, sizeof f);
	}
	return NULL;
}

/* Fills in the predefined objects of a library whose handles are addresses; those it lacks stay 0. */
__attribute__((unused)) static void find_objects(void *libmpi, const struct symbol *s, size_t n,
						 struct nx_driver *d)
{
	for (size_t i = 0; i < n; i++) {
		rh_t h = RH(dlsym(libmpi, s[i].name));
		memcpy((char *)d + s[i].offset, &h, sizeof h);
	}
}
#endif
