/* finalize.c: what MPICH 4.0 and 4.1 with ch4:ucx lack at the end, to be preloaded.
 *
 * MPI_Finalize asks UCX to disconnect all endpoints, which waits until what was ever started on them is through, and then
 * enters a barrier of PMI: a plain read(2) of the descriptor. A connection that UCX has begun and not finished (it makes
 * them when they are first used, the last ones in MPI_Finalize itself) needs the other side to answer, and the other side
 * may sit in that read already, where it answers nobody. Then both wait for ever. MPI_Barrier in front does not help.
 *
 * Here UCX goes on while MPI_Finalize reads from PMI. MPICH 4.2 has the barrier in front of the disconnects instead. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WORKERS = 64 };                  /* MPICH's own limit (MPIDI_CH4_MAX_VCIS) */
static void *worker[WORKERS];
static int workers, ending;

int ucp_worker_create(void *context, const void *params, void **w)
{
	int (*real)(void *, const void *, void **) = (__typeof__(real))dlsym(RTLD_NEXT, "ucp_worker_create");
	int r = real(context, params, w);
	if (r == 0 && workers < WORKERS) worker[workers++] = *w;
	return r;
}

void ucp_worker_destroy(void *w)
{
	void (*real)(void *) = (__typeof__(real))dlsym(RTLD_NEXT, "ucp_worker_destroy");
	workers = 0;                    /* MPICH destroys them all, after the barrier */
	real(w);
}

ssize_t read(int fd, void *buf, size_t n)
{
	const char *pmi = ending ? getenv("PMI_FD") : NULL;
	if (pmi && fd == atoi(pmi) && workers) {
		unsigned (*progress)(void *) = (__typeof__(progress))dlsym(RTLD_DEFAULT, "ucp_worker_progress");
		struct pollfd p = { .fd = fd, .events = POLLIN };
		while (poll(&p, 1, 1) == 0)
			for (int i = 0; i < workers; i++)
				while (progress(worker[i])) ;
	}
	return syscall(SYS_read, fd, buf, n);
}

int MPI_Finalize(void)
{
	int (*real)(void) = (__typeof__(real))dlsym(RTLD_NEXT, "MPI_Finalize");
	ending = 1;
	return real();
}
