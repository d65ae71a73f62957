/* fds_restore.c: makes the application's descriptors again, from the records of fds.c.
 *
 * Every object is first made at a descriptor of the lower half, then put in its place. What the new process has
 * inherited is set aside before, so that standard output of the new launcher can go where the old one's was.
 * Context: restart, one thread, before the MPI is built anew. Errors end the process and name file and descriptor. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "fds.h"

struct back { struct fd_rec r; const char *path; const void *extra; int high; };        /* high: object at a lower descriptor */
static struct back *b;
static size_t n;
static int aside[MAX_INHERITED];
enum { KEPT = O_APPEND | O_NONBLOCK | O_ASYNC | O_DIRECT | O_NOATIME };

__attribute__((noreturn)) static void die(const struct back *x, const char *what)
{
	core_die("fd %d, %s: %s: %s", x->r.fd, x->path, what, strerror(errno));
}

static int opened_again(int fd, int flags)
{
	char p[64];
	snprintf(p, sizeof p, "/proc/thread-self/fd/%d", fd);
	return open(p, (flags & (O_ACCMODE | O_APPEND | O_NONBLOCK | O_PATH)) | O_CLOEXEC);
}

/* -- files ------------------------------------------------------------------------------------------------------------------------ */

static const char *own_proc(const char *path, char *out, size_t len)
{
	int pid, at = 0;
	if (sscanf(path, "/proc/%d/%n", &pid, &at) != 1 || !at) return path;
	snprintf(out, len, "/proc/self/%s", path + at);
	return out;
}

static int make_file(struct back *x)
{
	char other[4200];
	struct stat st;
	int fd = open(own_proc(x->path, other, sizeof other), (x->r.flags & ~(O_CREAT | O_TRUNC | O_EXCL)) | O_CLOEXEC);
	if (fd < 0) die(x, "cannot be opened again");
	if (x->r.flags & O_PATH) return fd;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
	}
	if (lseek(fd, (off_t)x->r.offset, SEEK_SET) < 0 && errno != ESPIPE && errno != EINVAL) die(x, "lseek");
	return fd;
}

static void fill_file(struct back *x, int fd, struct reader *content)
{
	if (ftruncate(fd, (off_t)x->r.x[0])) die(x, "ftruncate");
	for (;;) {
		uint64_t at = read_u64(content), len = read_u64(content);
		if (!len || content->bad) return;
		const char *p = read_ref(content, len);
		for (uint64_t done = 0; p && done < len; ) {
			ssize_t k = pwrite(fd, p + done, len - done, (off_t)(at + done));
			if (k <= 0) die(x, "write");
			done += (uint64_t)k;
		}
	}
}

static int make_nameless(struct back *x, struct reader *content)
{
	bool first = x->r.content < 0;
	int base = first ? dup(shared_object(x->r.key, x->path, x->r.x[0])) : dup(b[x->r.content].high);
	if (base < 0) die(x, "cannot be made again");
	if (first) fill_file(x, base, content);
	int fd = opened_again(base, x->r.flags);
	if (fd < 0) die(x, "cannot be opened again");
	lseek(fd, (off_t)x->r.offset, SEEK_SET);
	close(base);
	return fd;
}

/* -- pipes and socket pairs ---------------------------------------------------------------------------------------------------------- */

static void fill(const struct back *x, int to, const char *p, uint64_t len)
{
	for (uint64_t done = 0; p && done < len; ) {
		ssize_t k = write(to, p + done, len - done);
		if (k <= 0) die(x, "cannot be filled");
		done += (uint64_t)k;
	}
}

/* The first record of a pipe makes it, with all its ends and its content. */
static void make_pipe(size_t i, struct reader *content)
{
	int p[2];
	bool used[2] = { false, false };
	if (pipe2(p, O_CLOEXEC)) die(&b[i], "pipe");
	fcntl(p[1], F_SETPIPE_SZ, (int)b[i].r.x[0]);
	uint64_t len = read_u64(content);
	fill(&b[i], p[1], read_ref(content, len), len);
	for (size_t k = i; k < n; k++) {
		struct fd_rec *r = &b[k].r;
		if (r->kind != FD_PIPE || r->key != b[i].r.key || r->same >= 0) continue;
		int end = (r->flags & O_ACCMODE) == O_WRONLY;
		b[k].high = used[end] || (r->flags & O_ACCMODE) == O_RDWR ? opened_again(p[end], r->flags) : p[end];
		used[end] = used[end] || b[k].high == p[end];
	}
	for (int end = 0; end < 2; end++)
		if (!used[end]) close(p[end]);
}

/* An end makes both; what was in its queue is sent to it from the other, which may have been closed. */
static void make_socketpair(struct back *x, struct reader *content)
{
	int s[2] = { x->high, -1 };
	struct back *peer = NULL;
	struct stat st[2];
	for (size_t k = 0; k < n; k++)
		if (b[k].r.kind == FD_SOCKETPAIR && b[k].r.x[2] == x->r.x[1] && b[k].r.same < 0) peer = &b[k];
	if (x->high >= 0) {
		s[1] = peer->high;
	} else {
		if (socketpair(AF_UNIX, (int)x->r.x[0] | SOCK_CLOEXEC, 0, s)) die(x, "socketpair");
		if (fstat(s[0], &st[0]) == 0 && fstat(s[1], &st[1]) == 0) trap_pair_add(st[0].st_ino, st[1].st_ino);
		x->high = s[0];
		if (peer) peer->high = s[1];
	}
	for (uint64_t len; (len = read_u64(content)) && !content->bad; ) {
		const void *p = read_ref(content, len);
		if (p && send(s[1], p, len, MSG_NOSIGNAL) != (ssize_t)len) die(x, "cannot be filled");
	}
	if (!peer) close(s[1]);
}

/* -- objects of the kernel ------------------------------------------------------------------------------------------------------------- */

static int make_eventfd(const struct back *x)
{
	int fd = eventfd(0, EFD_CLOEXEC | (x->r.x[1] ? EFD_SEMAPHORE : 0));
	uint64_t count = x->r.x[0];
	if (fd >= 0 && count && write(fd, &count, sizeof count) != sizeof count) die(x, "cannot be set");
	return fd;
}

static int make_timerfd(const struct back *x)
{
	const uint64_t *v = x->r.x;
	struct itimerspec at = { { (time_t)v[4], (long)v[5] }, { (time_t)v[2], (long)v[3] } };
	int fd = timerfd_create((int)v[0], TFD_CLOEXEC);
	uint64_t ticks = v[1];
	/* A timer that has expired and was not read stands still, with nothing left to run: it expires again at once. */
	bool expired = !v[2] && !v[3] && (ticks || v[4] || v[5]);
	if (expired) at.it_value.tv_nsec = 1;
	if (fd >= 0 && timerfd_settime(fd, 0, &at, NULL)) die(x, "cannot be set");
	if (fd >= 0 && ticks > expired) ioctl(fd, _IOW('T', 0, uint64_t), &ticks);
	return fd;
}

static int make_device(const struct back *x)
{
	int flags = x->r.flags | O_NOCTTY | O_CLOEXEC, fd = open(x->path, flags);
	if (fd < 0) fd = open("/dev/tty", flags);
	if (fd < 0) {
		core_say("fd %d: %s is not there any more: it is /dev/null now", x->r.fd, x->path);
		fd = open("/dev/null", flags);
	}
	return fd;
}

static int make_inherited(const struct back *x)
{
	for (unsigned i = 0; i < ninherited; i++)
		if (inherited[i].fd == (int)x->r.x[0] && aside[i] >= 0) return dup(aside[i]);
	return x->r.x[0] <= 2 ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;
}

static void make(size_t i, struct reader *content)
{
	struct back *x = &b[i];
	switch (x->r.kind) {
	case FD_INHERITED: x->high = make_inherited(x); return;
	case FD_FILE:
	case FD_DIRECTORY: x->high = make_file(x); break;
	case FD_DELETED:
	case FD_MEMFD: x->high = make_nameless(x, content); break;
	case FD_PIPE: if (x->r.content < 0) make_pipe(i, content); break;
	case FD_SOCKETPAIR: make_socketpair(x, content); break;
	case FD_EVENTFD: x->high = make_eventfd(x); break;
	case FD_TIMERFD: x->high = make_timerfd(x); break;
	case FD_SIGNALFD: x->high = signalfd(-1, (const sigset_t *)&x->r.x[0], SFD_CLOEXEC); break;
	case FD_EPOLL: x->high = epoll_create1(EPOLL_CLOEXEC); break;
	case FD_DEVICE: x->high = make_device(x); break;
	case FD_LOST: return;
	}
	if (x->high < 0) die(x, "cannot be made again");
	if (!(x->r.flags & O_PATH)) fcntl(x->high, F_SETFL, x->r.flags & KEPT);
}

/* -- into place ------------------------------------------------------------------------------------------------------------------------ */

static void set_aside(void)
{
	for (unsigned i = 0; i < ninherited; i++) {
		aside[i] = dup(inherited[i].fd);
		if (inherited[i].fd == 2 && aside[i] >= 0) core_stderr = aside[i];
		if (inherited[i].fd <= 2) raw(SYS_close, inherited[i].fd);
	}
}

static void read_records(struct reader *r)
{
	n = read_u64(r);
	if (r->bad || n > r->n / sizeof(struct fd_rec)) core_die("image: descriptors: the section is damaged");
	b = calloc(n + 1, sizeof *b);
	if (!b) core_die("no memory for %zu descriptors", n);
	for (size_t i = 0; i < n; i++) {
		read_bytes(r, &b[i].r, sizeof b[i].r);
		b[i].path = read_ref(r, b[i].r.npath);
		b[i].extra = read_ref(r, b[i].r.nextra);
		b[i].high = -1;
		bool good = !r->bad && b[i].r.npath && !b[i].path[b[i].r.npath - 1] && b[i].r.same < (int)i && b[i].r.content < (int)i;
		if (!good) core_die("image: descriptors: the section is damaged");
	}
}

static void put_in_place(struct back *x)
{
	int from = x->r.same >= 0 ? b[x->r.same].high : x->high;
	if (from < 0) return;
	if (dup3(from, x->r.fd, x->r.cloexec ? O_CLOEXEC : 0) < 0) die(x, "cannot be put in its place");
	if (x->r.same >= 0) x->high = -1;
}

static void fill_epoll(const struct back *x)
{
	const struct epoll_entry *e = x->extra;
	for (size_t i = 0; i < x->r.nextra / sizeof *e; i++) {
		struct epoll_event ev = { .events = e[i].events, .data.u64 = e[i].data };
		if (epoll_ctl(x->r.fd, EPOLL_CTL_ADD, e[i].fd, &ev)) core_debug("fd %d: epoll: fd %d cannot be added: %s", x->r.fd, e[i].fd, strerror(errno));
	}
}

/* When all that this and other ranks write to it is written. */
static void seal(const struct back *x)
{
	if (x->r.kind == FD_MEMFD && (int)x->r.x[1] > 0 && fcntl(x->r.fd, F_ADD_SEALS, (int)x->r.x[1]) && errno != EPERM)
		core_say("fd %d, %s: cannot be sealed again: %s", x->r.fd, x->path, strerror(errno));
}

static void lock_file(const struct back *x)
{
	const struct fd_lock *k = x->extra;
	for (size_t i = 0; i < x->r.nextra / sizeof *k; i++) {
		struct flock f = { .l_type = (short)k[i].type, .l_whence = SEEK_SET, .l_start = k[i].start, .l_len = k[i].len };
		int bad = k[i].flock ? flock(x->r.fd, (k[i].type == F_WRLCK ? LOCK_EX : LOCK_SH) | LOCK_NB) : fcntl(x->r.fd, F_SETLK, &f);
		if (bad) die(x, "was locked, and the lock is now held by another process");
	}
}

void fds_restore(struct reader *records, struct reader *content)
{
	read_records(records);
	set_aside();
	for (size_t i = 0; i < n; i++)
		if (b[i].r.same < 0) make(i, content);
	for (size_t i = 0; i < n; i++) put_in_place(&b[i]);
	for (size_t i = 0; i < n; i++)
		if (b[i].high >= 0) close(b[i].high);
	for (size_t i = 0; i < n; i++) {                /* now: closing any descriptor of a file ends the process's record locks on it */
		if (b[i].r.kind == FD_EPOLL && b[i].r.same < 0) fill_epoll(&b[i]);
		if (b[i].r.kind == FD_FILE && b[i].r.same < 0) lock_file(&b[i]);
	}
	core_stderr = 2;
	shared_done();
	for (size_t i = 0; i < n; i++) seal(&b[i]);
	for (unsigned i = 0; i < ninherited; i++)
		if (aside[i] >= 0) close(aside[i]);
	if (content->bad) core_die("image: content of descriptors: the section is damaged");
	free(b);
}
