/* finalize.c: a library that keeps MPI_Finalize from hanging in programs that are started as they are, on
 * several nodes, under MPICH before 4.2 with ch4:ucx. What goes wrong there, rank/mpi/life/finalize.c says.
 *
 * UCX goes on here while the library reads from PMI. Preloaded into programs, so it has no other effect: what
 * it stands in for goes to the real function. Context: any program, any thread; no allocation, no output. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

enum { WORKERS = 64 };                  /* as many as MPICH can have (MPIDI_CH4_MAX_VCIS) */

static struct {
	void *workers[WORKERS];
	int n;
} ucx;

int ucp_worker_create(void *context, const void *params, void **out)
{
	int (*create)(void *, const void *, void **) = (__typeof__(create))dlsym(RTLD_NEXT, __func__);
	int e = create(context, params, out);
	if (!e && ucx.n < WORKERS) ucx.workers[ucx.n++] = *out;
	return e;
}

/* MPICH destroys them all, after the barrier in which it waits. */
void ucp_worker_destroy(void *worker)
{
	void (*destroy)(void *) = (__typeof__(destroy))dlsym(RTLD_NEXT, __func__);
	ucx.n = 0;
	destroy(worker);
}

static void go_on_until_readable(int fd)
{
	unsigned (*go_on)(void *) = (__typeof__(go_on))dlsym(RTLD_DEFAULT, "ucp_worker_progress");
	struct pollfd p = { .fd = fd, .events = POLLIN };
	while (go_on && ucx.n && poll(&p, 1, 1) == 0)
		for (int i = 0; i < ucx.n; i++)
			while (go_on(ucx.workers[i])) ;
}

ssize_t read(int fd, void *to, size_t n)
{
	static ssize_t (*real)(int, void *, size_t);
	if (!real) real = (__typeof__(real))dlsym(RTLD_NEXT, "read");
	const char *pmi = ucx.n ? getenv("PMI_FD") : NULL;
	if (pmi && atoi(pmi) == fd) go_on_until_readable(fd);
	return real(fd, to, n);
}
