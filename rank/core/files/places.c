/* places.c: at a restart the numbers of the application's descriptors are taken from before the MPI starts
 * until the application's own are there: a stand-in has each meanwhile.
 *
 * The MPI has threads, and what they open or accept has the lowest free number for a moment, before it is
 * moved above the application's (core/base/interpose.c). Were that a number of the application's, a
 * descriptor that is put there would take the place of the thread's, which would then use the application's
 * file as its socket, and close it. Context: restart, one thread; places_take while there is no other. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "core/files/fds.h"

static int stand_in = -1;
static bool *taken;                             /* by number */

void places_hold(int fd)
{
	if (dup3(stand_in, fd, O_CLOEXEC) < 0)
		core_die("fd %d: its number cannot be kept for it: %s", fd, strerror(errno));
	taken[fd] = true;
}

/* What the launcher has there stays until what belongs there replaces it. */
static void take(int fd)
{
	if (fd >= 0 && fd < core_config.fd_base && fcntl(fd, F_GETFD) < 0) places_hold(fd);
}

/* Damage is told of when the records are restored. */
void places_take(struct reader records)
{
	stand_in = eventfd(0, EFD_CLOEXEC);
	taken = calloc((size_t)core_config.fd_base, sizeof *taken);
	if (stand_in < 0 || !taken) core_die("numbers of descriptors cannot be kept: %s", strerror(errno));
	uint64_t n = read_u64(&records);
	for (uint64_t i = 0; i < n && !records.bad; i++) {
		struct fd_rec r;
		read_bytes(&records, &r, sizeof r);
		read_ref(&records, r.npath);
		const struct epoll_entry *e = read_ref(&records, r.nextra);
		read_ref(&records, r.nlocks);
		if (records.bad) break;
		if (!r.in_flight) take(r.fd);
		for (size_t k = 0; r.kind == FD_EPOLL && k < r.nextra / sizeof *e; k++) take(e[k].fd);
	}
}

void places_filled(int fd) { taken[fd] = false; }

void places_release(void)
{
	for (int fd = 0; fd < core_config.fd_base; fd++)
		if (taken[fd]) raw(SYS_close, fd);
	free(taken);
	close(stand_in);
	taken = NULL;
}
