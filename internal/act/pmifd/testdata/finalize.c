/* finalize.c: what MPICH before 4.2 with ch4:ucx lacks at its end, to be preloaded.
 *
 * MPI_Finalize disconnects all endpoints of UCX (ucp_disconnect_nb), lets UCX go on until that is done, and then enters a
 * barrier of PMI: a plain read(2). Over TCP, disconnecting an endpoint that was ever sent on is a question to the other
 * side, an empty PUT (uct_tcp_ep_flush), which UCX must answer there. But the other side may have had its own answers and
 * sit in that read, where it answers nobody: both wait for ever. MPI_Barrier in front does not help, since its messages
 * need such answers as well, nor does any setting of UCX. MPICH 4.2 enters the barrier first.
 *
 * Here UCX goes on while MPI_Finalize reads from PMI. */
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
