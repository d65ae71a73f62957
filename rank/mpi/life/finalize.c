/* finalize.c: what MPICH before 4.2 with ch4:ucx lacks at its end on several nodes.
 *
 * Its MPI_Finalize disconnects all endpoints of UCX, lets UCX go on until that is done, and then waits in a
 * barrier of PMI: a plain read. Over TCP, to disconnect an endpoint that was ever sent on is a question to
 * the other side, an empty PUT (uct_tcp_ep_flush), which UCX must answer there; but the other side may have
 * had its own answers, and sit in that read. Both would wait for ever, in a third of all runs. Neither a
 * barrier of MPI in front nor any setting of UCX helps; MPICH 4.2 enters the barrier first. So UCX goes on
 * here while MPI_Finalize reads from PMI.
 *
 * The functions of UCX are exported (exports.txt), and win over the libraries' own. Context: ordinary lower
 * code on any lower thread; finalize_begin and finalize_over on the thread that ends the MPI. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>
#include "life.h"

enum { WORKERS = 64 };                  /* as many as MPICH can have (MPIDI_CH4_MAX_VCIS) */
static void *worker[WORKERS];
static volatile int workers;
static unsigned (*go_on)(void *);

/* From the real library, behind this program in the order of symbols. */
static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

int ucp_worker_create(void *context, const void *params, void **out)
{
	int (*create)(void *, const void *, void **) = (__typeof__(create))real("ucp_worker_create");
	int e = create(context, params, out);
	if (!e && workers < WORKERS) worker[workers++] = *out;
	return e;
}

/* MPICH destroys them all, after the barrier. */
void ucp_worker_destroy(void *w)
{
	void (*destroy)(void *) = (__typeof__(destroy))real("ucp_worker_destroy");
	workers = 0;
	destroy(w);
}

static void wait_and_go_on(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	while (workers && poll(&p, 1, 1) == 0)
		for (int i = 0; i < workers; i++)
			while (go_on(worker[i])) ;
}

void finalize_begin(void)
{
	const char *fd = getenv("PMI_FD");
	go_on = (__typeof__(go_on))real("ucp_worker_progress");
	if (fd && go_on) core_before_read(atoi(fd), wait_and_go_on);
}

void finalize_over(void) { core_before_read(-1, NULL); }
