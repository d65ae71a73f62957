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
#include <sys/stat.h>
#include <sys/sysmacros.h>
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

/* Who has locked the file by flock(2), 0: nobody is found. */
static int flock_holder(int fd)
{
	struct stat st;
	char *all = fstat(fd, &st) ? NULL : slurp("/proc/locks", NULL);
	int found = 0;
	for (const char *s = all; s && *s && !found; s = strchr(s, '\n'), s += s != NULL) {
		unsigned major_, minor_;
		unsigned long inode;
		int pid;
		if (sscanf(s, "%*d: FLOCK %*s %*s %d %x:%x:%lu", &pid, &major_, &minor_, &inode) == 4 &&
		    inode == st.st_ino && makedev(major_, minor_) == st.st_dev && pid != core_self.pid)
			found = pid;
	}
	free(all);
	return found;
}

/* "12 (name)", of the process whose lock is in the way. The kernel does not name that of a lock of an open
 * file, which may have several. */
static void name_holder(int fd, const struct fd_lock *k, char *out, size_t n)
{
	struct flock f = {
		.l_type = (short)k->type, .l_whence = SEEK_SET, .l_start = k->start, .l_len = k->len
	};
	char path[64];
	int pid = 0;
	if (k->class == LOCK_FLOCK) pid = flock_holder(fd);
	else if (fcntl(fd, k->class == LOCK_OFD ? F_OFD_GETLK : F_GETLK, &f) == 0 && f.l_type != F_UNLCK)
		pid = f.l_pid;
	snprintf(path, sizeof path, "/proc/%d/comm", pid);
	char *name = pid > 0 ? slurp(path, NULL) : NULL;
	if (name) name[strcspn(name, "\n")] = 0;
	if (pid > 0) snprintf(out, n, "%d (%s)", pid, name ? name : "");
	else snprintf(out, n, "which the kernel does not name");
	free(name);
}

/* Another process has the lock. That may be a rank of the job's previous life, which the kernel takes its
 * time to end, or which ends because its byssus is gone (agent_lost): it is waited for. */
static int lock_soon(const struct fd_rec *r, const char *path, const struct fd_lock *k, int fd)
{
	static const struct timespec moment = { 0, 5000000 };
	enum { PATIENCE_S = 20 };
	char who[64];
	for (uint64_t until = 0; lock_again(fd, k); nanosleep(&moment, NULL)) {
		if (errno != EAGAIN && errno != EACCES) return errno;
		if (until && now_ns() > until) return EAGAIN;
		if (until) continue;
		until = now_ns() + PATIENCE_S * 1000000000UL;
		name_holder(fd, k, who, sizeof who);
		if (k->class == LOCK_LEASE)
			core_say("fd %d, %s: had a lease: waits for who has it open now", r->fd, path);
		else core_say("fd %d, %s: was locked: waits for process %s", r->fd, path, who);
	}
	return 0;
}

const char *marks_lock(const struct fd_rec *r, const char *path, const void *locks, int fd)
{
	static char why[160];
	char who[64];
	const struct fd_lock *k = locks;
	for (size_t i = 0; i < r->nlocks / sizeof *k; i++) {
		int err = lock_soon(r, path, &k[i], fd);
		if (!err || r->kind == FD_INHERITED) continue;  /* it may be something else now, which cannot
								 * be locked */
		if (err != EAGAIN) return strerror(err);
		if (k[i].class == LOCK_LEASE) return "had a lease, and is now open elsewhere";
		name_holder(fd, &k[i], who, sizeof who);
		snprintf(why, sizeof why, "was locked, and the lock is now held by another process, %s", who);
		return why;
	}
	return NULL;
}

void marks_save(struct look *l, struct fd_rec *r)
{
	save_owner(l, r);
	save_locks(l, r);
}
