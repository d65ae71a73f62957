/* fds.c: the application's descriptors: what they are, whether they can be saved, and their content.
 *
 * fds_inspect makes a record of every descriptor below the lower half's, and names what cannot be saved.
 * fds_save writes the records, and what is in pipes, socket pairs and files without a name, without consuming
 * it. Context: ordinary lower code while the application's threads stand still. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <linux/magic.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/timerfd.h>
#include <sys/vfs.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "core/arena/arena.h"
#include "core/calls/calls.h"
#include "core/files/fds.h"

static struct fd_rec *recs;
static size_t nrecs, cap;


/* -- all of them ----------------------------------------------------------------------------------------- */

/* What is looked at: the application's descriptors, and behind them those that came out of messages. The i-th
 * has the i-th record. `in`: in whose message it was; `mode`: how it is open; `why`: what is wrong with a
 * socket. */
struct item {
	int fd;
	bool held;
	int32_t in;
	struct stat st;
	int mode;
	uint64_t pair;
	struct socket_look sock;
	char *why;
};
static struct item *items;
static size_t nitems, items_cap;
static int32_t looking;                         /* the socket that is looked into */

static bool add_item(int fd, bool held)
{
	if (nitems == items_cap) {
		size_t more = items_cap ? 2 * items_cap : 256;
		struct item *grown = core_realloc(items, more * sizeof *items);
		if (!grown) return false;
		items = grown;
		items_cap = more;
	}
	struct item *t = &items[nitems++];
	*t = (struct item){ .fd = fd, .held = held, .in = looking };
	if (fstat(fd, &t->st)) t->st.st_mode = 0;
	if (S_ISFIFO(t->st.st_mode) || S_ISSOCK(t->st.st_mode)) t->mode = fcntl(fd, F_GETFL);
	return true;
}

int32_t fds_hold(int fd)
{
	if (add_item(fd, true)) return (int32_t)nitems - 1;
	close(fd);
	return -1;
}

int fds_held(int32_t rec) { return rec >= 0 && (size_t)rec < nitems ? items[rec].fd : -1; }

/* Another descriptor of this process on the same pipe or socket, opened for `mode` (any when negative): its
 * place, or -1. */
static long end_of(uint64_t ino, int mode)
{
	for (size_t i = 0; i < nitems; i++) {
		const struct item *t = &items[i];
		if (t->st.st_ino != ino || (!S_ISFIFO(t->st.st_mode) && !S_ISSOCK(t->st.st_mode))) continue;
		if (mode < 0 || (t->mode & O_ACCMODE) == mode || (t->mode & O_ACCMODE) == O_RDWR)
			return (long)i;
	}
	return -1;
}

static bool have_end(uint64_t ino, int mode) { return end_of(ino, mode) >= 0; }

static int socket_is(int fd, int name)
{
	int v = 0;
	socklen_t n = sizeof v;
	return getsockopt(fd, SOL_SOCKET, name, &v, &n) ? 0 : v;
}

/* A descriptor that shares its socket with one before has the same in it. */
static void look_into(size_t i)
{
	char why[160];
	uint64_t ino = items[i].st.st_ino;
	if (!S_ISSOCK(items[i].st.st_mode) || socket_is(items[i].fd, SO_DOMAIN) != AF_UNIX ||
	    !trap_pair_of(ino))
		return;
	items[i].pair = trap_pair_of(ino);
	if (end_of(ino, -1) < (long)i) return;
	looking = (int32_t)i;
	struct socket_look sock = { 0 };                /* the list may grow and move */
	bool ok = socket_look(items[i].fd, ino, socket_is(items[i].fd, SO_TYPE), &sock, why, sizeof why);
	items[i].sock = sock;
	if (!ok) items[i].why = core_strdup(why);
}

static void renew(struct item *t)
{
	char why[160];
	long peer = end_of(t->pair, -1);
	if (!socket_renew(t->fd, peer < 0 ? -1 : items[peer].fd, t->st.st_ino, &t->sock.saved, why,
			  sizeof why))
		t->why = core_strdup(why);
}

/* Called again and again: nothing is kept from one checkpoint to the next. */
void fds_release(void)
{
	for (size_t i = 0; i < nrecs; i++) {
		free((void *)recs[i].path);
		free((void *)recs[i].locks);
		if (recs[i].kind == FD_EPOLL) free((void *)recs[i].extra);
	}
	for (size_t i = 0; i < nitems; i++) {
		if (items[i].held) close(items[i].fd);
		buf_free(&items[i].sock.saved);
		free(items[i].why);
	}
	nrecs = nitems = 0;
}

static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* What threads of the lower half make has a low number for a moment: so the list is of a time when none was
 * made. One that hangs, in a file system or in accept, shows nothing yet, and is not waited for. */
static bool list_numbers(struct buf *list)
{
	enum { TRIES = 500 };
	static const struct timespec moment = { 0, 200000 };
	DIR *d = opendir("/proc/thread-self/fd");
	if (!d) return false;
	for (int i = 0; i < TRIES; i++) {
		uint32_t rest = descriptors_rest();
		list->n = 0;
		rewinddir(d);
		for (struct dirent *e; (e = readdir(d)); ) {
			int fd = atoi(e->d_name);
			if (*e->d_name != '.' && fd < core_config.fd_base) buf_add(list, &fd, sizeof fd);
		}
		if (rest && rest == descriptors_rest()) break;
		nanosleep(&moment, NULL);
	}
	closedir(d);
	return true;
}

static bool gather(void)
{
	struct buf list = { 0 };
	if (!list_numbers(&list)) return false;
	if (list.n) qsort(list.p, list.n / sizeof(int), sizeof(int), by_number);
	for (size_t i = 0; i < list.n / sizeof(int); i++) add_item(((int *)list.p)[i], false);
	buf_free(&list);
	for (size_t i = 0; i < nitems; i++) look_into(i);       /* the list grows */
	for (size_t i = 0; i < nitems; i++)
		if (items[i].sock.renew && !items[i].why) renew(&items[i]);
	return true;
}

/* -- what is it? ----------------------------------------------------------------------------------------- */

int fd_lost(struct look *l, const char *what)
{
	const struct item *t = &items[nrecs];
	if (l->refusals)
		buf_line(l->refusals, "pid %d fd %d%s: %s: cannot be saved", core_self.pid,
			 t->held ? items[t->in].fd : l->fd, t->held ? " (in a message)" : "", what);
	if (l->n) ++*l->n;
	return FD_LOST;
}

static int lostf(struct look *l, const char *fmt, const char *arg)
{
	char s[PATH_MAX + 64];
	snprintf(s, sizeof s, fmt, arg);
	return fd_lost(l, s);
}

static uint64_t info(const struct look *l, const char *key, int base)
{
	return status_field(l->info, key, base);
}

static bool starts(const char *s, const char *head) { return !strncmp(s, head, strlen(head)); }

/* Whether two descriptors are one open file, with one offset. Where kcmp(2) is denied, as in many containers:
 * whether what is set by one is seen by the other. */
static bool same_open_file(int a, int b)
{
	long r = raw(SYS_kcmp, core_self.pid, core_self.pid, KCMP_FILE, a, b);
	if (r >= 0) return r == 0;
	int was = fcntl(a, F_GETFL), other = fcntl(b, F_GETFL);
	if (was < 0 || was != other || (was & O_PATH)) return false;
	bool same = fcntl(a, F_SETFL, was ^ O_NONBLOCK) == 0 && fcntl(b, F_GETFL) != other;
	fcntl(a, F_SETFL, was);
	return same;
}

/* Inherited: a pipe, socket or terminal cannot be opened again by chance; of a file or device only what is
 * still in its place. */
static int inherited_as(const struct look *l, uint64_t key)
{
	for (unsigned i = 0; i < ninherited; i++)       /* standard output and error may be one file, and two
							 * the next time */
		if (inherited[i].fd == l->fd && inherited[i].key == key) return l->fd;
	for (unsigned i = 0; i < ninherited; i++) {
		const struct inherited *h = &inherited[i];
		if (h->key != key || (h->mode & S_IFMT) != (l->st.st_mode & S_IFMT)) continue;
		bool unique = S_ISFIFO(h->mode) || S_ISSOCK(h->mode) || (S_ISCHR(h->mode) && isatty(l->fd));
		if (unique || same_open_file(h->fd, l->fd)) return h->fd;
	}
	return -1;
}

/* The flags that the application has set or cleared: the new launcher's descriptor gets them, and otherwise
 * keeps its own. */
static uint64_t own_flags(int from, int flags)
{
	uint32_t own = 0;
	for (unsigned i = 0; i < ninherited; i++)
		if (inherited[i].fd == from)
			own = inherited[i].own | (((uint32_t)flags ^ inherited[i].flags) & SET_LATER);
	return own;
}

static void describe_address(int fd, bool peer, char *out, size_t n)
{
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct sockaddr_un un;
	} a = { 0 };
	socklen_t len = sizeof a;
	char host[INET6_ADDRSTRLEN] = "";
	snprintf(out, n, "nobody");
	if (peer ? getpeername(fd, &a.any, &len) : getsockname(fd, &a.any, &len)) return;
	if (a.any.sa_family == AF_INET)
		snprintf(out, n, "%s:%u", inet_ntop(AF_INET, &a.in.sin_addr, host, sizeof host),
			 ntohs(a.in.sin_port));
	else if (a.any.sa_family == AF_INET6)
		snprintf(out, n, "[%s]:%u", inet_ntop(AF_INET6, &a.in6.sin6_addr, host, sizeof host),
			 ntohs(a.in6.sin6_port));
	else if (a.any.sa_family == AF_UNIX)
		snprintf(out, n, "unix %s%.107s", a.un.sun_path[0] ? "" : "@",
			 a.un.sun_path[0] ? a.un.sun_path : a.un.sun_path + 1);
	else
		snprintf(out, n, "address family %d", a.any.sa_family);
}

static bool hung_up(int fd, short what)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT };
	return poll(&p, 1, 0) >= 0 && (p.revents & what);
}

static int look_at_socket(struct look *l, struct fd_rec *r)
{
	char peer[160], what[200];
	const struct item *t = &items[nrecs], *first = &items[end_of(l->st.st_ino, -1)];
	bool listening = socket_is(l->fd, SO_ACCEPTCONN);
	if (first->why) return fd_lost(l, first->why);
	if (t->pair && (have_end(t->pair, -1) || hung_up(l->fd, POLLHUP))) {
		r->x[0] = (uint64_t)socket_is(l->fd, SO_TYPE);
		r->x[1] = t->pair;
		r->x[2] = l->st.st_ino;
		r->extra = (uint64_t)t->sock.saved.p;
		r->nextra = t->sock.saved.n;
		return FD_SOCKETPAIR;
	}
	describe_address(l->fd, !listening, peer, sizeof peer);
	snprintf(what, sizeof what, "%s %s", listening ? "socket listening on" : "socket to", peer);
	return fd_lost(l, what);
}

static int look_at_pipe(struct look *l, struct fd_rec *r)
{
	int acc = r->flags & O_ACCMODE;
	if (*l->path == '/') return lostf(l, "named pipe %s", l->path);
	r->x[0] = (uint64_t)fcntl(l->fd, F_GETPIPE_SZ);
	if (fcntl(l->fd, F_SETPIPE_SZ, (int)r->x[0]) < 0 && errno == EBUSY)
		return fd_lost(l, "pipe of notifications (O_NOTIFICATION_PIPE)");
	for (size_t i = 0; i < nitems; i++)
		if (items[i].st.st_ino == l->st.st_ino && S_ISFIFO(items[i].st.st_mode))
			r->x[1] |= (items[i].mode & O_DIRECT) != 0;
	bool whole = acc == O_RDONLY ? have_end(l->st.st_ino, O_WRONLY) || hung_up(l->fd, POLLHUP)
				     : have_end(l->st.st_ino, O_RDONLY) || hung_up(l->fd, POLLERR);
	return whole ? FD_PIPE : fd_lost(l, "pipe to another process");
}

static void count(int fd, uint64_t v, bool add)
{
	if ((add ? write(fd, &v, sizeof v) : read(fd, &v, sizeof v)) < 0)
		core_debug("eventfd %d: %s", fd, strerror(errno));
}

/* Linux before 6.5 does not tell. With a count of 2 or more a semaphore gives 1 when it is read. The count is
 * what it was in the end; nobody looks meanwhile. */
static bool is_semaphore(int fd, uint64_t n)
{
	uint64_t v = 0, more = n < 2 ? 2 : 0;
	if (more) count(fd, more, true);
	if (read(fd, &v, sizeof v) != sizeof v) return false;
	bool semaphore = v == 1;
	if (!semaphore && n) count(fd, n, true);
	if (semaphore && !more) count(fd, 1, true);
	if (semaphore && more) count(fd, 0, false);
	return semaphore;
}

static int look_at_pidfd(struct look *l)
{
	return (int)info(l, "Pid", 10) == core_self.pid && !(fcntl(l->fd, F_GETFL) & O_EXCL)
		       ? FD_PIDFD
		       : fd_lost(l, "pidfd of another process or of a thread");
}

/* Of timers at moments of the day: they are due at the same moment when time has passed. */
static bool is_day(uint64_t x)
{
	return (uint32_t)x == CLOCK_REALTIME || (uint32_t)x == CLOCK_REALTIME_ALARM;
}

static int look_at_timerfd(struct look *l, struct fd_rec *r)
{
	const char *v = strstr(l->info, "it_value: ("), *i = strstr(l->info, "it_interval: (");
	uint64_t flags = info(l, "settime flags", 8);
	r->x[0] = info(l, "clockid", 10) | flags << 32;
	r->x[1] = info(l, "ticks", 10);
	if (!v || !i || sscanf(v + 11, "%lu, %lu", &r->x[2], &r->x[3]) != 2 ||
	    sscanf(i + 14, "%lu, %lu", &r->x[4], &r->x[5]) != 2)
		return fd_lost(l, "timerfd that the kernel does not describe");
	if ((flags & TFD_TIMER_ABSTIME) && (r->x[2] || r->x[3]) && is_day(r->x[0])) {
		struct timespec now;
		clock_gettime(CLOCK_REALTIME, &now);    /* what is left becomes the moment again */
		uint64_t ns = r->x[3] + (uint64_t)now.tv_nsec;
		r->x[2] += (uint64_t)now.tv_sec + ns / 1000000000;
		r->x[3] = ns % 1000000000;
	}
	return FD_TIMERFD;
}

static int look_at_anon(struct look *l, struct fd_rec *r)
{
	const char *what = l->path + strlen("anon_inode:");
	if (!strcmp(what, "[eventfd]")) {
		r->x[0] = info(l, "eventfd-count", 16);
		r->x[1] = core_config.old_kernel || !strstr(l->info, "eventfd-semaphore")
				  ? is_semaphore(l->fd, r->x[0])
				  : info(l, "eventfd-semaphore", 10);
		return FD_EVENTFD;
	}
	if (!strcmp(what, "[eventpoll]")) return FD_EPOLL;
	if (!strcmp(what, "[signalfd]")) {
		r->x[0] = info(l, "sigmask", 16);
		return FD_SIGNALFD;
	}
	if (!strcmp(what, "[timerfd]")) return look_at_timerfd(l, r);
	if (!strcmp(what, "[pidfd]")) return look_at_pidfd(l);
	return fd_lost(l, l->path);
}

static int look_at_device(struct look *l)
{
	static const unsigned simple[] = { 3, 5, 7, 8, 9 };     /* null zero full random urandom */
	unsigned maj = major(l->st.st_rdev), min = minor(l->st.st_rdev);
	for (size_t i = 0; maj == 1 && i < sizeof simple / sizeof *simple; i++)
		if (min == simple[i]) return FD_DEVICE;
	if (isatty(l->fd) && !starts(l->path, "/dev/ptmx") && strcmp(l->path, "/dev/pts/ptmx"))
		return FD_DEVICE;
	return lostf(l, "device %s", l->path);
}

/* Of trees of mounts that are nowhere mounted the kernel gives paths that lead elsewhere. */
static int look_at_directory(struct look *l, const struct fd_rec *r)
{
	struct stat there;
	if (trap_dir_watched(r->key)) return lostf(l, "directory %s with notifications (F_NOTIFY)", l->path);
	if (!l->st.st_nlink) return lostf(l, "directory %s", l->path);
	bool same =
		stat(l->path, &there) == 0 && there.st_ino == l->st.st_ino && there.st_dev == l->st.st_dev;
	return same ? FD_DIRECTORY : lostf(l, "directory %s, which is not there under this name", l->path);
}

/* It looks like a file, also when it is opened below a mount of its own or has been removed; what is in it
 * are messages, which reading does not show. */
static bool is_queue(int fd)
{
	enum { MQUEUE_MAGIC = 0x19800202 };             /* of ipc/mqueue.c; in no header */
	struct statfs fs;
	return fstatfs(fd, &fs) == 0 && fs.f_type == MQUEUE_MAGIC;
}

static int look_at_file(struct look *l, struct fd_rec *r)
{
	struct stat there;
	if (is_queue(l->fd)) return lostf(l, "POSIX message queue %s", l->path);
	r->x[0] = (uint64_t)l->st.st_size;
	r->x[1] = (r->flags & O_ACCMODE) != O_RDONLY && ((r->flags & O_APPEND) || r->offset >= r->x[0]);
	if (starts(l->path, "/secretmem")) return fd_lost(l, "secret memory (memfd_secret)");
	bool nameless = starts(l->path, "/memfd:") || l->st.st_nlink == 0;
	if (nameless && !(r->flags & O_PATH) && !shared_can_be_read(l->fd))
		return lostf(l, "file without a name that cannot be read, %s", l->path);
	if (starts(l->path, "/memfd:")) {
		struct statfs fs;
		if (fstatfs(l->fd, &fs) == 0 && fs.f_type == HUGETLBFS_MAGIC)
			return fd_lost(l, "memfd of huge pages");
		r->x[1] = (uint64_t)fcntl(l->fd, F_GET_SEALS);
		return FD_MEMFD;
	}
	if (l->st.st_nlink == 0) {
		char *mark = strstr(l->path, " (deleted)");
		if (mark) *mark = 0;
		return FD_DELETED;
	}
	if (stat(l->path, &there) || there.st_ino != l->st.st_ino || there.st_dev != l->st.st_dev) {
		if (!starts(l->path, "/proc/"))
			return lostf(l, "file %s, which is not there under this name", l->path);
	}
	return FD_FILE;
}

static int kind_of(struct look *l, struct fd_rec *r)
{
	int from = inherited_as(l, r->key);
	if (from >= 0) {
		r->x[0] = (uint64_t)from;
		r->x[1] = own_flags(from, r->flags);
		return FD_INHERITED;
	}
	if (starts(l->path, "anon_inode:")) return look_at_anon(l, r);
	if (starts(l->path, "/proc/")) {
		char ours[PATH_MAX];
		int whose = tids_path(l->path, ours, sizeof ours, true);
		if (whose < 0 || (whose && (r->in_flight || strstr(l->path, " (deleted)"))))
			return lostf(l, "file %s", l->path);
		if (whose) return snprintf(l->path, sizeof l->path, "%s", ours), FD_OWN_PROC;
	}
	switch (l->st.st_mode & S_IFMT) {
	case S_IFREG: return look_at_file(l, r);
	case S_IFDIR: return look_at_directory(l, r);
	case S_IFIFO: return look_at_pipe(l, r);
	case S_IFCHR: return look_at_device(l);
	case S_IFSOCK: return look_at_socket(l, r);
	default: return fd_lost(l, l->path);
	}
}

/* nth: among those of this number. Where kcmp(2) is denied only the file that has the number now is found. */
static bool is_entered(const struct look *l, const struct item *t, int fd, unsigned nth, uint64_t inode)
{
	struct kcmp_epoll_slot slot = { .efd = (uint32_t)l->fd, .tfd = (uint32_t)fd, .toff = nth };
	long r = raw(SYS_kcmp, core_self.pid, core_self.pid, KCMP_EPOLL_TFD, t->fd, &slot);
	bool denied = r == -EPERM || r == -ENOSYS;
	return denied ? t->fd == fd && t->st.st_ino == inode : r == 0;
}

/* The open file of an entry, which need not be the one that has its number now: index of a record, or -1. */
static int32_t entered(const struct look *l, int fd, unsigned nth, uint64_t inode)
{
	for (size_t i = 0; i < nitems; i++)
		if (items[i].fd == fd && is_entered(l, &items[i], fd, nth, inode)) return (int32_t)i;
	for (size_t i = 0; i < nitems; i++)
		if (is_entered(l, &items[i], fd, nth, inode)) return (int32_t)i;
	return -1;
}

static void epoll_entries(struct look *l, struct fd_rec *r)
{
	struct buf b = { 0 };
	for (const char *s = l->info; (s = strstr(s, "tfd:")); s++) {
		struct epoll_entry e = { 0 };
		unsigned nth = 0;
		uint64_t inode = 0;
		if (sscanf(s, "tfd: %d events: %x data: %lx pos:%*d ino:%lx", &e.fd, &e.events, &e.data,
			   &inode) < 3)
			continue;
		for (size_t i = 0; i < b.n / sizeof e; i++) nth += ((struct epoll_entry *)b.p)[i].fd == e.fd;
		e.rec = entered(l, e.fd, nth, inode);
		buf_add(&b, &e, sizeof e);
		if (e.rec >= 0) continue;
		char what[80];
		snprintf(what, sizeof what, "epoll set with an entry (%d) whose file is open nowhere else",
			 e.fd);
		r->kind = fd_lost(l, what);
	}
	r->extra = (uint64_t)b.p;
	r->nextra = b.n;
	if (r->kind != FD_EPOLL) free(b.p), r->extra = r->nextra = 0;
}

static void relate(struct fd_rec *r, size_t i)
{
	r->same = r->content = -1;
	if (r->kind == FD_INHERITED) return;
	for (size_t k = 0; k < i && r->same < 0; k++) {
		if (recs[k].key != r->key || recs[k].kind == FD_INHERITED) continue;
		if (r->content < 0 && recs[k].kind == r->kind) r->content = (int32_t)k;
		if (recs[k].same < 0 && same_open_file(recs[k].fd, r->fd)) r->same = (int32_t)k;
	}
}

/* What others might have too. Of the kernel's anonymous objects all have one inode: only the agent can tell
 * them apart. */
static void report(const struct fd_rec *r, const struct stat *st, const char *path)
{
	struct object o = { .dev = st->st_dev,
			    .inode = st->st_ino,
			    .key = r->key,
			    .size = (uint64_t)st->st_size,
			    .fd = r->fd,
			    .path = path };
	if (r->same >= 0 || (r->flags & O_PATH)) return;
	if ((r->flags & O_ACCMODE) != O_RDONLY) o.flags |= ABI_OBJECT_WRITES;
	switch (r->kind) {
	case FD_FILE:
		if (r->x[1]) o.flags |= ABI_OBJECT_END;
		if (inplace_open(r->flags)) o.flags |= ABI_OBJECT_IN_PLACE;
		if (unfinished_young(r, o.size)) o.flags |= ABI_OBJECT_IN_PLACE | ABI_OBJECT_UNFINISHED;
		break;
	case FD_DELETED:
	case FD_MEMFD: o.flags |= ABI_OBJECT_NAMELESS; break;
	case FD_PIPE:
	case FD_SOCKETPAIR: o.flags = ABI_OBJECT_KERNEL; break;
	case FD_EVENTFD:
	case FD_EPOLL:
	case FD_TIMERFD:
	case FD_SIGNALFD: o.flags = 0; break;
	default: return;
	}
	shared_add(&o);
}

static void report_memory(const struct vma_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct abi_vma *v = &l->v[i];
		bool named = v->kind == ABI_VMA_FILE_SHARED && (v->vmflags & VMF_TMPFS),
		     in_place = inplace_mapped(v);
		if (v->kind != ABI_VMA_ANON_SHARED && !named && !in_place) continue;
		struct object o = { .dev = l->id[i].dev,
				    .inode = l->id[i].inode,
				    .key = v->inode_key,
				    .offset = v->file_offset,
				    .fd = -1,
				    .size = v->file_offset + (v->end - v->start),
				    .path = l->strings.p + v->name };
		o.flags = (in_place ? ABI_OBJECT_IN_PLACE : named ? ABI_OBJECT_MEMORY : ABI_OBJECT_NAMELESS) |
			  (v->prot & PROT_WRITE ? ABI_OBJECT_WRITES : 0);
		shared_add(&o);
	}
}

static struct fd_rec *new_record(void)
{
	if (nrecs == cap) {
		struct fd_rec *more = core_realloc(recs, (cap ? 2 * cap : 64) * sizeof *recs);
		if (!more) return NULL;
		recs = more;
		cap = cap ? 2 * cap : 64;
	}
	return &recs[nrecs];
}

static void look_at(const struct item *t, struct buf *refusals, unsigned *n)
{
	struct look l = { .fd = t->fd, .st = t->st, .refusals = refusals, .n = n };
	char p[64];
	struct fd_rec *r = new_record();
	if (!r) return;
	*r = (struct fd_rec){ .fd = t->fd, .in_flight = t->held, .key = inode_key(&l.st) };
	snprintf(p, sizeof p, "/proc/thread-self/fd/%d", t->fd);
	ssize_t k = readlink(p, l.path, sizeof l.path - 1);
	l.path[k < 0 ? 0 : k] = 0;
	snprintf(p, sizeof p, "/proc/thread-self/fdinfo/%d", t->fd);
	l.info = slurp(p, NULL);
	if (!l.info) l.info = core_strdup("");
	if (!l.info) return;
	r->flags = (int32_t)info(&l, "flags", 8) & ~O_CLOEXEC;
	r->cloexec = (fcntl(t->fd, F_GETFD) & FD_CLOEXEC) != 0;
	r->offset = info(&l, "pos", 10);
	r->kind = k < 0 || !*l.info ? fd_lost(&l, "descriptor that /proc does not describe") : kind_of(&l, r);
	relate(r, nrecs);
	if (r->kind == FD_EPOLL) epoll_entries(&l, r);
	marks_save(&l, r);
	report(r, &l.st, l.path);
	r->path = (uint64_t)core_strdup(l.path);
	r->npath = r->path ? strlen(l.path) + 1 : 0;
	free(l.info);
	nrecs++;
}

/* -- children -------------------------------------------------------------------------------------------- */

static void each_child(void (*fn)(int pid, void *arg), void *arg)
{
	DIR *d = opendir("/proc/self/task");
	for (struct dirent *e; d && (e = readdir(d)); ) {
		char path[300];
		if (*e->d_name == '.') continue;
		snprintf(path, sizeof path, "/proc/self/task/%s/children", e->d_name);
		char *list = slurp(path, NULL);
		for (char *s = list, *end; s && *s; s = end) {
			long pid = strtol(s, &end, 10);
			if (end == s || pid <= 0) break;
			fn((int)pid, arg);
		}
		free(list);
	}
	if (d) closedir(d);
}

struct children { struct buf *refusals; unsigned n; };

static void name_child(int pid, void *arg)
{
	struct children *c = arg;
	char path[64], comm[64] = "";
	c->n++;
	if (!c->refusals) return;
	snprintf(path, sizeof path, "/proc/%d/comm", pid);
	char *name = slurp(path, NULL);
	if (name) snprintf(comm, sizeof comm, "%.*s", (int)strcspn(name, "\n"), name);
	free(name);
	buf_line(c->refusals, "pid %d: child process %d (%s): cannot be saved", core_self.pid, pid, comm);
}

unsigned fds_children(struct buf *refusals)
{
	struct children c = { refusals, 0 };
	each_child(name_child, &c);
	return c.n;
}

enum { MAX_WAITED = 16 };
struct waited { struct pollfd p[MAX_WAITED]; nfds_t n; };

static void wait_for(int pid, void *arg)
{
	struct waited *w = arg;
	if (w->n == MAX_WAITED) return;
	int fd = (int)raw(SYS_pidfd_open, pid, 0);
	if (fd >= 0) w->p[w->n++] = (struct pollfd){ .fd = fd, .events = POLLIN };
}

/* One that has ended already has yet to be waited for by the application, which takes it a moment. */
void fds_wait_for_child(int or_readable)
{
	enum { LONGEST_MS = 20, MOMENT_NS = 200000 };
	struct waited w = { .p[0] = { .fd = or_readable, .events = POLLIN }, .n = 1 };
	each_child(wait_for, &w);
	if (poll(w.p, w.n, 0) > 0) nanosleep(&(struct timespec){ 0, MOMENT_NS }, NULL);
	else poll(w.p, w.n, LONGEST_MS);
	for (nfds_t i = 1; i < w.n; i++) close(w.p[i].fd);
}

void fds_inspect(struct buf *refusals, unsigned *n)
{
	fds_release();
	unfinished_begin();
	if (!gather()) {
		buf_line(refusals, "pid %d: its descriptors cannot be listed: %s", core_self.pid,
			 strerror(errno));
		++*n;
	}
	for (size_t i = 0; i < nitems; i++) look_at(&items[i], refusals, n);
	struct vma_list l;
	vma_scan(&l, refusals, n);
	report_memory(&l);
	vma_keep(&l);
}

static struct buf closed;                       /* of files.c */

static bool is_written(uint64_t key)
{
	for (size_t i = 0; i < nrecs; i++)
		if (recs[i].kind == FD_FILE && recs[i].key == key && (recs[i].flags & O_ACCMODE) != O_RDONLY)
			return true;
	return false;
}

void fds_settle(void)
{
	for (size_t i = 0; i < nrecs; i++)
		if (recs[i].kind == FD_FILE || recs[i].kind == FD_DELETED || recs[i].kind == FD_MEMFD)
			file_settle(&recs[i]);
	closed_settle(&closed, is_written);
}

/* -- content --------------------------------------------------------------------------------------------- */

/* Pieces {offset, length, bytes} of a file, ended by a length of 0. */
static int piece_content(int in, off_t data, off_t hole, struct buf *out)
{
	uint64_t head[2] = { (uint64_t)data, (uint64_t)(hole - data) };
	size_t from = out->n + sizeof head;
	buf_add(out, head, sizeof head);
	buf_add(out, NULL, (head[1] + 7) & ~7UL);
	for (uint64_t done = 0; done < head[1] && !out->bad; ) {
		ssize_t k = pread(in, out->p + from + done, head[1] - done, data + (off_t)done);
		if (k < 0 && errno == EINTR) continue;
		if (k <= 0) return k < 0 ? errno : EIO; /* it ends too early: somebody has cut it */
		done += (uint64_t)k;
	}
	return 0;
}

/* 0, or the error number for which it cannot be read. */
static int file_content(int fd, uint64_t size, struct buf *out)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/thread-self/fd/%d", fd);
	int in = open(path, O_RDONLY | O_CLOEXEC), err = in < 0 ? errno : 0;
	off_t data, hole;
	for (off_t at = 0; !err && (uint64_t)at < size; at = hole) {
		data = lseek(in, at, SEEK_DATA);
		if (data < 0 && errno != ENXIO) err = errno;
		if (data < 0 || (uint64_t)data >= size) break;
		hole = lseek(in, data, SEEK_HOLE);
		if (hole < 0 || (uint64_t)hole > size) hole = (off_t)size;
		err = piece_content(in, data, hole, out);
	}
	uint64_t end[2] = { 0, 0 };
	buf_add(out, end, sizeof end);
	if (in >= 0) close(in);
	return err;
}

/* What is in a pipe, by tee(2) into another one: nothing is consumed. 1 if it has packets, then pieces
 * {length, bytes}, ended by a length of 0. A packet ends a read. Returns 0, or the error number for which not
 * all of it can be seen: a user may have used up what pipes may hold. */
static int pipe_content(int fd, uint64_t capacity, bool packets, struct buf *out)
{
	static char b[65536];
	int t[2], queued = 0;
	size_t at = out->n;
	buf_u64(out, packets);
	int err = ioctl(fd, FIONREAD, &queued) || (queued > 0 && pipe(t)) ? errno : 0;
	if (err || queued <= 0) {
		buf_u64(out, 0);
		return err;
	}
	fcntl(t[1], F_SETPIPE_SZ, (int)capacity);
	ssize_t k = syscall(SYS_tee, fd, t[1], (size_t)queued, 2 /* SPLICE_F_NONBLOCK */);
	if (k != queued) err = k < 0 ? errno : ENOBUFS;
	for (ssize_t left = k; left > 0; ) {
		ssize_t n = read(t[0], b, (size_t)left < sizeof b ? (size_t)left : sizeof b);
		if (n <= 0) err = n < 0 ? errno : EIO;
		if (n <= 0) break;
		buf_u64(out, (uint64_t)n);
		buf_add(out, b, (size_t)n);
		buf_add(out, NULL, (size_t)(8 - n % 8) % 8);
		left -= n;
		if (left && n < (ssize_t)sizeof b && !out->bad) memcpy(out->p + at, &(uint64_t){ 1 }, 8);
	}
	close(t[0]);
	close(t[1]);
	buf_u64(out, 0);
	return err;
}

static bool wholly_mapped(const struct vma_list *l, const struct fd_rec *r)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].kind == ABI_VMA_ANON_SHARED && l->v[i].inode_key == r->key &&
		    !l->v[i].file_offset && l->v[i].end - l->v[i].start >= r->x[0])
			return true;
	return false;
}

/* The content of a pipe goes with its first record; a pipe that nobody here reads has none. */
static int content_of_pipe(const struct fd_rec *r, struct buf *out)
{
	for (size_t k = 0; k < nrecs; k++)
		if (recs[k].kind == FD_PIPE && recs[k].key == r->key &&
		    (recs[k].flags & O_ACCMODE) != O_WRONLY)
			return pipe_content(recs[k].fd, r->x[0], r->x[1], out);
	buf_u64(out, 0);
	buf_u64(out, 0);
	return 0;
}

static int content_of(const struct vma_list *l, const struct fd_rec *r, struct buf *out)
{
	uint64_t end[2] = { 0, 0 };
	int err = 0;
	switch (r->kind) {
	case FD_MEMFD:
	case FD_DELETED:
		if (wholly_mapped(l, r) || !shared_is_saved(r->key)) buf_add(out, end, sizeof end);
		else err = file_content(r->fd, r->x[0], out);
		break;
	case FD_PIPE:
		err = content_of_pipe(r, out);
		break;
	}
	return err;
}

struct saving { const struct vma_list *l; struct buf *out, *content; const char *unread; int err; };

static void save_all(void *p)
{
	struct saving *s = p;
	buf_u64(s->out, nrecs);
	for (size_t i = 0; i < nrecs; i++) {
		const struct fd_rec *r = &recs[i];
		buf_add(s->out, r, sizeof *r);
		buf_add(s->out, (void *)r->path, r->npath);
		buf_add(s->out, NULL, (8 - r->npath % 8) % 8);
		buf_add(s->out, (void *)r->extra, r->nextra);
		buf_add(s->out, (void *)r->locks, r->nlocks);
		int err = r->same < 0 && r->content < 0 ? content_of(s->l, r, s->content) : 0;
		if (!err || s->err) continue;
		s->err = err;
		s->unread = (const char *)r->path;
	}
	buf_add(s->out, closed.p, closed.n);
	s->out->bad |= closed.bad;
	unfinished_save(recs, nrecs, s->out);
}

/* Files are opened again to be read, and closed. */
int fds_save(const struct vma_list *l, struct buf *out, struct buf *content, const char **unread)
{
	struct saving s = { .l = l, .out = out, .content = content, .unread = "files without a name" };
	int err = own_table_run(save_all, &s);
	*unread = s.unread;
	return err ? err : s.err;
}
