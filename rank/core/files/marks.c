/* marks.c: what hangs on descriptors whatever their kind: owners and signals of SIGIO, locks and leases, and
 * whose /proc it is.
 *
 * Context: saving on the carrier while the application's threads stand still; restoring when all threads are
 * back. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include "core/arena/arena.h"
#include "core/files/fds.h"

/* -- owners ---------------------------------------------------------------------------------------------- */

static void save_owner(struct look *l, struct fd_rec *r)
{
	struct f_owner_ex o = { 0, 0 };
	r->owner_type = -1;
	if ((r->flags & O_PATH) || fcntl(l->fd, F_GETOWN_EX, &o)) return;
	r->sig = fcntl(l->fd, F_GETSIG);
	bool ours = o.type == F_OWNER_PGRP ? o.pid == getpgrp() : tids_is_own(o.pid);
	if (!o.pid || (!ours && r->kind == FD_INHERITED)) return;       /* the launcher's signal */
	if (!ours) {
		r->kind = fd_lost(l, "descriptor whose signals (F_SETOWN) are another process's");
		return;
	}
	r->owner_type = o.type;
	r->owner = o.type == F_OWNER_PGRP ? 0 : tids_vtid(o.pid);
}

/* The signal names the descriptor by which O_ASYNC was set: so it is set at the application's. */
void marks_owner(const struct fd_rec *r, int fd)
{
	struct f_owner_ex o = { r->owner_type,
				r->owner_type == F_OWNER_PGRP ? getpgrp() : tids_new(r->owner) };
	if (r->sig > 0 && fcntl(fd, F_SETSIG, r->sig))
		core_die("fd %d: F_SETSIG: %s", r->fd, strerror(errno));
	if (r->owner_type >= 0 && fcntl(fd, F_SETOWN_EX, &o))
		core_die("fd %d: F_SETOWN: %s", r->fd, strerror(errno));
	if ((r->flags & O_ASYNC) && r->kind != FD_INHERITED) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC);
}

/* -- locks ----------------------------------------------------------------------------------------------- */

static int class_of(const char *s)
{
	static const char *const names[] = { "POSIX", "FLOCK", "OFDLCK", "LEASE" };
	for (int i = 0; i < 4; i++)
		if (!strcmp(s, names[i])) return i;
	return -1;
}

/* "lock:	1: POSIX  ADVISORY  WRITE 123 00:1f:456 0 EOF" */
static void save_locks(struct look *l, struct fd_rec *r)
{
	struct buf b = { 0 };
	for (const char *s = l->info; (s = strstr(s, "lock:")); s++) {
		char class[16], state[16], type[16], end[32];
		long start;
		if (sscanf(s, "lock: %*d: %15s %15s %15s %*d %*s %ld %31s", class, state, type, &start,
			   end) != 5)
			continue;
		struct fd_lock k = { .class = class_of(class),
				     .type = !strcmp(type, "WRITE") ? F_WRLCK : F_RDLCK,
				     .start = start };
		k.len = !strcmp(end, "EOF") ? 0 : atol(end) - start + 1;
		bool good = k.class >= 0 && (k.class != LOCK_LEASE || !strcmp(state, "ACTIVE")) &&
			    (k.class != LOCK_RECORD || !r->in_flight);
		if (good) {
			buf_add(&b, &k, sizeof k);
		} else {
			char what[64];
			snprintf(what, sizeof what, "file with a lock of the kind %s, %s", class, state);
			r->kind = fd_lost(l, what);
		}
	}
	r->locks = (uint64_t)b.p;
	r->nlocks = b.n;
}

static int lock_again(int fd, const struct fd_lock *k)
{
	struct flock f = {
		.l_type = (short)k->type, .l_whence = SEEK_SET, .l_start = k->start, .l_len = k->len
	};
	switch (k->class) {
	case LOCK_RECORD: return fcntl(fd, F_SETLK, &f);
	case LOCK_OFD: return fcntl(fd, F_OFD_SETLK, &f);
	case LOCK_FLOCK: return flock(fd, (k->type == F_WRLCK ? LOCK_EX : LOCK_SH) | LOCK_NB);
	default: return fcntl(fd, F_SETLEASE, k->type);
	}
}

const char *marks_lock(const struct fd_rec *r, const void *locks, int fd)
{
	const struct fd_lock *k = locks;
	for (size_t i = 0; i < r->nlocks / sizeof *k; i++) {
		if (lock_again(fd, &k[i]) == 0) continue;
		if (r->kind == FD_INHERITED) continue;  /* it may be something else now, which cannot be
							 * locked */
		if (errno != EAGAIN && errno != EACCES) return strerror(errno);
		return k[i].class == LOCK_LEASE ? "had a lease, and is now open elsewhere"
						: "was locked, and the lock is now held by another process";
	}
	return NULL;
}

void marks_save(struct look *l, struct fd_rec *r)
{
	save_owner(l, r);
	save_locks(l, r);
}
