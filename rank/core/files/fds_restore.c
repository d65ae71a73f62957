/* fds_restore.c: makes the application's descriptors again, from the records of fds.c.
 *
 * Every object is made at a descriptor of the lower half and put in its place. What the new process has
 * inherited is set aside before, so that standard output of the new launcher can go where the old one's was.
 * Context: restart, one thread, before the MPI is built anew. Errors end the process and name file and
 * descriptor. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "core/arena/arena.h"
#include "core/base/agent/agent.h"
#include "core/calls/calls.h"
#include "core/files/fds.h"

/* high: the object at a descriptor of ours, then at its place; spare: the other end of a pair, which the
 * application had closed. */
struct back { struct fd_rec r; const char *path; const void *extra, *locks; int high, spare; };
static struct back *backs;
static size_t nbacks;
static int aside[MAX_INHERITED];
enum { KEPT = O_APPEND | O_NONBLOCK | O_DIRECT | O_NOATIME };    /* O_ASYNC: marks_owner */

__attribute__((noreturn)) static void die(const struct back *x, const char *what)
{
	core_die("fd %d, %s: %s: %s", x->r.fd, x->path, what, strerror(errno));
}

static int opened_again(int fd, int flags)
{
	char p[64];
	snprintf(p, sizeof p, "/proc/thread-self/fd/%d", fd);
	return open(p,
		    (flags & (O_ACCMODE | O_APPEND | O_NONBLOCK | O_PATH | O_SYNC | O_DIRECT | O_NOATIME)) |
			    O_CLOEXEC);
}

/* -- files ----------------------------------------------------------------------------------------------- */

/* Where a directory's reading has come to is known to its file system beside the offset. Of ext4, what is
 * read first after opening decides where it believes to be: at an offset at the end it reads nothing, and
 * believes to be there still when the offset is 0 again. So something is read from the beginning before the
 * offset is set. */
static void seek_directory(const struct back *x, int fd)
{
	char some[1024];
	if (!x->r.offset) return;
	long k = raw(SYS_getdents64, fd, some, sizeof some);
	if (k < 0) core_debug("fd %d, %s: %s", x->r.fd, x->path, strerror((int)-k));
	if (lseek(fd, (off_t)x->r.offset, SEEK_SET) < 0)
		die(x, "directory: cannot be brought to where its reading had come to");
}

static int make_file(struct back *x)
{
	int fd = open(x->path, (x->r.flags & ~(O_CREAT | O_TRUNC | O_EXCL)) | O_CLOEXEC);
	if (fd < 0) die(x, "cannot be opened again");
	if (x->r.flags & O_PATH) return fd;
	if (x->r.kind == FD_FILE) file_claim(&x->r, x->path, fd);
	if (x->r.kind == FD_DIRECTORY) seek_directory(x, fd);
	else if (lseek(fd, (off_t)x->r.offset, SEEK_SET) < 0 && errno != ESPIPE && errno != EINVAL)
		die(x, "lseek");
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
	int base = first ? dup(shared_object(x->r.key, x->path, x->r.x[0])) : dup(backs[x->r.content].high);
	if (base < 0) die(x, "cannot be made again");
	if (first) fill_file(x, base, content);
	int fd = opened_again(base, x->r.flags);
	if (fd < 0) die(x, "cannot be opened again");
	lseek(fd, (off_t)x->r.offset, SEEK_SET);
	close(base);
	return fd;
}

/* -- pipes and socket pairs ------------------------------------------------------------------------------ */

/* Never waits: nobody reads. */
static void fill(const struct back *x, int to, struct reader *content)
{
	fcntl(to, F_SETFL, O_NONBLOCK | (read_u64(content) ? O_DIRECT : 0));
	for (uint64_t len; (len = read_u64(content)) && !content->bad; ) {
		const char *p = read_ref(content, len);
		for (uint64_t done = 0; p && done < len; ) {
			ssize_t k = write(to, p + done, len - done);
			if (k <= 0) die(x, "cannot be filled");
			done += (uint64_t)k;
		}
	}
	fcntl(to, F_SETFL, 0);
}

/* The first record of a pipe makes it, with all its ends and its content. */
static void make_pipe(size_t i, struct reader *content)
{
	int p[2];
	bool used[2] = { false, false };
	if (pipe2(p, O_CLOEXEC)) die(&backs[i], "pipe");
	fcntl(p[1], F_SETPIPE_SZ, (int)backs[i].r.x[0]);
	fill(&backs[i], p[1], content);
	int capacity = fcntl(p[1], F_GETPIPE_SZ);
	if (capacity != (int)backs[i].r.x[0])
		core_say("fd %d: the capacity of the pipe is %d now, and was %lu", backs[i].r.fd, capacity,
			 backs[i].r.x[0]);
	for (size_t k = i; k < nbacks; k++) {
		struct fd_rec *r = &backs[k].r;
		if (r->kind != FD_PIPE || r->key != backs[i].r.key || r->same >= 0) continue;
		int end = (r->flags & O_ACCMODE) == O_WRONLY;
		backs[k].high = used[end] || (r->flags & O_ACCMODE) == O_RDWR ? opened_again(p[end], r->flags)
									      : p[end];
		used[end] = used[end] || backs[k].high == p[end];
	}
	for (int end = 0; end < 2; end++)
		if (!used[end]) close(p[end]);
}

static int made(int32_t rec)
{
	if (rec < 0 || (size_t)rec >= nbacks) return -1;
	return backs[backs[rec].r.same >= 0 ? backs[rec].r.same : rec].high;
}

/* An end makes both. The other may have been closed. */
static void make_socketpair(struct back *x)
{
	int s[2];
	struct back *peer = NULL;
	struct stat st[2];
	for (size_t k = 0; k < nbacks; k++)
		if (backs[k].r.kind == FD_SOCKETPAIR && backs[k].r.x[2] == x->r.x[1] && backs[k].r.same < 0)
			peer = &backs[k];
	if (x->high >= 0) return;
	if (socketpair(AF_UNIX, (int)x->r.x[0] | SOCK_CLOEXEC, 0, s)) die(x, "socketpair");
	if (fstat(s[0], &st[0]) == 0 && fstat(s[1], &st[1]) == 0) trap_pair_add(st[0].st_ino, st[1].st_ino);
	x->high = s[0];
	if (peer) peer->high = s[1];
	else x->spare = s[1];
	/* What it has sent, and we send again, may have been more than a new socket's own. */
	int large = 4 << 20;
	if (!peer && setsockopt(s[1], SOL_SOCKET, SO_SNDBUFFORCE, &large, sizeof large))
		setsockopt(s[1], SOL_SOCKET, SO_SNDBUF, &large, sizeof large);
}

static int other_end(const struct back *x)
{
	for (size_t k = 0; k < nbacks && x->spare < 0; k++)
		if (backs[k].r.kind == FD_SOCKETPAIR && backs[k].r.x[2] == x->r.x[1] && backs[k].r.same < 0)
			return backs[k].high;
	return x->spare;
}

/* A peer that leaves without having read all is an error at this end. */
static void leave(struct back *x)
{
	struct socket_head h;
	memcpy(&h, x->extra, sizeof h);
	if ((h.state & SOCKET_RESET) && send(x->high, "", 1, MSG_NOSIGNAL) < 0)
		core_debug("fd %d: %s", x->r.fd, strerror(errno));
	close(x->spare);
	x->spare = -1;
}

/* All objects are there: messages may have any of them in flight. What was in a queue is sent by the other
 * end. */
static void fill_sockets(void)
{
	for (int step = 0; step < 4; step++)
		for (size_t i = 0; i < nbacks; i++) {
			struct back *x = &backs[i];
			if (x->r.kind != FD_SOCKETPAIR || x->r.same >= 0) continue;
			if (x->r.nextra < sizeof(struct socket_head))
				core_die("image: descriptors: the section is damaged");
			if (step == 0) socket_options(x->high, x->extra, x->r.nextra);
			if (step == 1 && !socket_send(other_end(x), x->extra, x->r.nextra, made))
				die(x, "cannot be filled");
			if (step == 2 && x->spare >= 0) leave(x);
			if (step == 3) socket_end(x->high, x->extra, x->r.nextra);
		}
}

/* -- objects of the kernel ------------------------------------------------------------------------------- */

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
	/* A timer that has expired and was not read stands still, with nothing left to run: it expires again
	 * at once. */
	bool expired = !v[2] && !v[3] && (ticks || v[4] || v[5]);
	int how = (int)(v[0] >> 32);
	if (expired) at.it_value.tv_nsec = 1;
	if ((int)v[0] != CLOCK_REALTIME && (int)v[0] != CLOCK_REALTIME_ALARM) how = 0;
	if (fd >= 0 && timerfd_settime(fd, how, &at, NULL)) die(x, "cannot be set");
	if (fd >= 0 && ticks > expired) ioctl(fd, _IOW('T', 0, uint64_t), &ticks);
	return fd;
}

static int make_pidfd(void) { return high_fd((int)syscall(SYS_pidfd_open, core_self.pid, 0)); }

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
	uint32_t own = (uint32_t)x->r.x[1] & SET_LATER;
	for (unsigned i = 0; i < ninherited; i++) {
		if (inherited[i].fd != (int)x->r.x[0] || aside[i] < 0) continue;
		inherited[i].own = own;
		if (own)
			fcntl(aside[i], F_SETFL,
			      (fcntl(aside[i], F_GETFL) & ~(int)own) | (x->r.flags & (int)own));
		return dup(aside[i]);
	}
	return x->r.x[0] <= 2 ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;
}

/* From where it was made, at once: there may be fewer numbers for ours than the application has files. */
static void put_in_place(struct back *x)
{
	int from = x->r.same >= 0 ? backs[x->r.same].high : x->high;
	if (from < 0) return;
	if (x->r.same < 0 && from < core_config.fd_base)
		core_die("fd %d, %s: no descriptor is left: the hard limit is too low", x->r.fd, x->path);
	if (x->r.in_flight) return;
	if (dup3(from, x->r.fd, x->r.cloexec ? O_CLOEXEC : 0) < 0) die(x, "cannot be put in its place");
	places_filled(x->r.fd);
	if (x->r.same >= 0) return;
	close(x->high);
	x->high = x->r.fd;
}

static void make(size_t i, struct reader *content)
{
	struct back *x = &backs[i];
	switch (x->r.kind) {
	case FD_INHERITED:
		x->high = make_inherited(x);
		put_in_place(x);
		return;
	case FD_FILE:
	case FD_DIRECTORY: x->high = make_file(x); break;
	case FD_DELETED:
	case FD_MEMFD: x->high = make_nameless(x, content); break;
	case FD_PIPE: if (x->r.content < 0) make_pipe(i, content); break;
	case FD_SOCKETPAIR: make_socketpair(x); break;
	case FD_PIDFD: x->high = make_pidfd(); break;
	case FD_EVENTFD: x->high = make_eventfd(x); break;
	case FD_TIMERFD: x->high = make_timerfd(x); break;
	case FD_SIGNALFD: x->high = signalfd(-1, (const sigset_t *)&x->r.x[0], SFD_CLOEXEC); break;
	case FD_EPOLL: x->high = epoll_create1(EPOLL_CLOEXEC); break;
	case FD_DEVICE: x->high = make_device(x); break;
	case FD_OWN_PROC:
	case FD_LOST: return;
	}
	if (x->high < 0) die(x, "cannot be made again");
	if (!(x->r.flags & O_PATH)) fcntl(x->high, F_SETFL, x->r.flags & KEPT);
	put_in_place(x);
}

/* -- into place ------------------------------------------------------------------------------------------ */

static void set_aside(void)
{
	for (unsigned i = 0; i < ninherited; i++) {
		aside[i] = dup(inherited[i].fd);
		if (inherited[i].fd == 2 && aside[i] >= 0) core_stderr = aside[i];
		if (inherited[i].fd <= 2) places_hold(inherited[i].fd);
	}
}

static void read_records(struct reader *r)
{
	nbacks = read_u64(r);
	if (r->bad || nbacks > r->n / sizeof(struct fd_rec))
		core_die("image: descriptors: the section is damaged");
	backs = calloc(nbacks + 1, sizeof *backs);
	if (!backs) core_die("no memory for %zu descriptors", nbacks);
	for (size_t i = 0; i < nbacks; i++) {
		read_bytes(r, &backs[i].r, sizeof backs[i].r);
		backs[i].path = read_ref(r, backs[i].r.npath);
		backs[i].extra = read_ref(r, backs[i].r.nextra);
		backs[i].locks = read_ref(r, backs[i].r.nlocks);
		backs[i].high = backs[i].spare = -1;
		bool good = !r->bad && backs[i].r.npath && !backs[i].path[backs[i].r.npath - 1] &&
			    backs[i].r.same < (int)i && backs[i].r.content < (int)i;
		if (!good) core_die("image: descriptors: the section is damaged");
	}
}

/* -- epoll ----------------------------------------------------------------------------------------------- */

enum { EVENTS = 0xffff };

static bool is_off(const struct epoll_entry *e)
{
	return (e->events & EPOLLONESHOT) && !(e->events & EVENTS);
}

/* Puts a byte into an empty pipe, or takes it out again. */
static void ready(const struct back *x, bool on)
{
	char c = 0;
	int from = made((int32_t)(x - backs)), fd = on ? opened_again(from, O_WRONLY | O_NONBLOCK) : -1;
	if (fd >= 0 && write(fd, &c, 1) != 1) core_debug("epoll: pipe: %s", strerror(errno));
	if (fd >= 0) close(fd);
	if (!on && read(from, &c, 1) != 1) die(x, "epoll: pipe");
}

static bool is_empty_pipe(const struct back *x)
{
	int queued = 0;
	return x->r.kind == FD_PIPE && (x->r.flags & O_ACCMODE) == O_RDONLY &&
	       ioctl(made((int32_t)(x - backs)), FIONREAD, &queued) == 0 && !queued;
}

static bool told(int ep, uint64_t data)
{
	struct epoll_event got[8];
	for (int k; (k = epoll_wait(ep, got, 8, 0)) > 0; )
		for (int i = 0; i < k; i++)
			if (got[i].data.u64 == data) return true;
	return false;
}

/* One-shot, and has been given: it stays entered and says nothing, not even a hang-up. That is so only of an
 * entry that has told something: so it is armed for all there is, and made to tell. What cannot be made ready
 * here is a socket whose peer does not read, which then tells of a hang-up, and what never hangs up. */
static void disarm(const struct back *x, const struct epoll_entry *e)
{
	const struct back *of = &backs[e->rec];
	struct epoll_event ev = { .events = EVENTS | e->events, .data.u64 = e->data };
	bool pipe_ = is_empty_pipe(of);
	if (pipe_) ready(of, true);
	if (epoll_ctl(x->high, EPOLL_CTL_MOD, e->fd, &ev)) die(x, "epoll_ctl");
	bool done = told(x->high, e->data);
	if (pipe_) ready(of, false);
	ev.events = e->events;
	if (!done && epoll_ctl(x->high, EPOLL_CTL_MOD, e->fd, &ev)) die(x, "epoll_ctl");
}

/* The entry's file may not be the one that has its number. */
static void enter(const struct back *x, const struct epoll_entry *e)
{
	struct epoll_event ev = { .events = e->events, .data.u64 = e->data };
	int from = made(e->rec), kept = -1, cloexec = 0;
	if (from < 0) return;                           /* dropped, by policy */
	bool moved = backs[e->rec].r.fd != e->fd || backs[e->rec].r.in_flight;
	if (moved) {
		cloexec = fcntl(e->fd, F_GETFD);
		kept = fcntl(e->fd, F_DUPFD, core_config.fd_base);
		if (kept < 0 || dup2(from, e->fd) < 0) die(x, "epoll: number of an entry");
	}
	if (epoll_ctl(x->high, EPOLL_CTL_ADD, e->fd, &ev)) die(x, "epoll_ctl");
	if (is_off(e)) disarm(x, e);
	if (!moved) return;
	if (dup3(kept, e->fd, cloexec & FD_CLOEXEC ? O_CLOEXEC : 0) < 0 || close(kept))
		die(x, "epoll: number of an entry");
}

/* First those that have to tell something once: others would tell it too. */
static void fill_epoll(const struct back *x)
{
	const struct epoll_entry *e = x->extra;
	for (int on = 0; on < 2; on++)
		for (size_t i = 0; i < x->r.nextra / sizeof *e; i++)
			if (is_off(&e[i]) != on) enter(x, &e[i]);
}

/* When all that this and other ranks write to it is written. */
static void seal(const struct back *x)
{
	if (x->r.kind == FD_MEMFD && (int)x->r.x[1] > 0 && fcntl(x->high, F_ADD_SEALS, (int)x->r.x[1]) &&
	    errno != EPERM)
		core_say("fd %d, %s: cannot be sealed again: %s", x->r.fd, x->path, strerror(errno));
}

/* -- the whole ------------------------------------------------------------------------------------------- */

void fds_restore(struct reader *records, struct reader *content)
{
	read_records(records);
	set_aside();
	for (size_t i = 0; i < nbacks; i++)
		if (backs[i].r.same < 0) make(i, content);
	fill_sockets();
	for (size_t i = 0; i < nbacks; i++)
		if (backs[i].r.same >= 0) put_in_place(&backs[i]);
	core_stderr = 2;
	shared_done();
	for (size_t i = 0; i < nbacks; i++) seal(&backs[i]);
	for (unsigned i = 0; i < ninherited; i++)
		if (aside[i] >= 0) close(aside[i]);
	inherited_describe();   /* with the flags that are the application's */
	if (content->bad) core_die("image: content of descriptors: the section is damaged");
}

/* With the threads: below /proc their numbers are new. */
static void open_own_proc(struct back *x)
{
	char path[4200];
	if (tids_path(x->path, path, sizeof path, false) != 1) die(x, "is not below /proc");
	x->high = open(path, (x->r.flags & ~(O_CREAT | O_TRUNC | O_EXCL)) | O_CLOEXEC);
	if (x->high < 0) die(x, "cannot be opened again");
	if (!(x->r.flags & O_PATH)) lseek(x->high, (off_t)x->r.offset, SEEK_SET);
	put_in_place(x);
}

static void lock_file(const struct back *x, int fd)
{
	if (x->r.same >= 0 || x->r.kind == FD_LOST) return;
	const char *wrong = marks_lock(&x->r, x->path, x->locks, fd);
	if (wrong) core_die("fd %d, %s: %s", x->r.fd, x->path, wrong);
}

/* The threads are there, and nothing that we open will be closed any more: closing any descriptor of a file
 * ends the process's record locks on it. */
void fds_finish(void)
{
	for (size_t i = 0; i < nbacks; i++) {
		if (backs[i].r.kind == FD_OWN_PROC && backs[i].r.same < 0) open_own_proc(&backs[i]);
		else if (backs[i].r.kind == FD_OWN_PROC) put_in_place(&backs[i]);
	}
	for (size_t i = 0; i < nbacks; i++)
		if (backs[i].r.kind == FD_EPOLL && backs[i].r.same < 0) fill_epoll(&backs[i]);
	for (size_t i = 0; i < nbacks; i++)
		if (backs[i].r.same < 0 && backs[i].high >= 0)
			marks_owner(&backs[i].r, backs[i].r.in_flight ? backs[i].high : backs[i].r.fd);
	for (size_t i = 0; i < nbacks; i++)
		if (backs[i].r.in_flight) lock_file(&backs[i], backs[i].high);
	for (size_t i = 0; i < nbacks; i++)
		if (backs[i].high >= 0 && backs[i].r.in_flight) close(backs[i].high);
	for (size_t i = 0; i < nbacks; i++)
		if (!backs[i].r.in_flight) lock_file(&backs[i], backs[i].r.fd);
	places_release();
	free(backs);
	backs = NULL;
}
