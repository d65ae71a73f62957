/* fds.c: the application's descriptors: what they are, whether they can be saved, and their content.
 *
 * fds_inspect makes a record of every descriptor below the lower half's, and names what cannot be saved. fds_save
 * writes the records, and what is in pipes, socket pairs and files without a name, without consuming it.
 * Context: ordinary lower code while the application's threads stand still. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
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
#include <sys/un.h>
#include <unistd.h>
#include "fds.h"

struct inherited inherited[MAX_INHERITED];
unsigned ninherited;
static struct fd_rec *recs;
static size_t nrecs, cap;

uint64_t inode_key(unsigned maj, unsigned min, uint64_t inode) { return inode ^ (uint64_t)maj << 52 ^ (uint64_t)min << 44; }
static uint64_t key_of(const struct stat *st) { return inode_key(major(st->st_dev), minor(st->st_dev), st->st_ino); }

void fds_start(void)
{
	struct stat st;
	const char *told = getenv("BYSSUS_INHERITED");  /* by the program that this one replaces */
	for (int n = 0; told && *told && ninherited < MAX_INHERITED; told += n) {
		struct inherited *h = &inherited[ninherited];
		if (sscanf(told, "%d:%lx:%x,%n", &h->fd, &h->key, &h->mode, &n) != 3 || !n) break;
		ninherited++;
	}
	for (int fd = 0; !told && fd < 1024 && ninherited < MAX_INHERITED; fd++)
		if (fstat(fd, &st) == 0) inherited[ninherited++] = (struct inherited){ fd, key_of(&st), st.st_mode };
}

/* -- what is it? ---------------------------------------------------------------------------------------------------------------- */

struct look { int fd; struct stat st; char path[PATH_MAX]; char *info; struct buf *refusals; unsigned *n; };

static int lost(struct look *l, const char *what)
{
	if (l->refusals) buf_printf(l->refusals, "pid %d fd %d: %s: cannot be saved\n", core_self.pid, l->fd, what);
	if (l->n) ++*l->n;
	return FD_LOST;
}

static int lostf(struct look *l, const char *fmt, const char *arg)
{
	char s[PATH_MAX + 64];
	snprintf(s, sizeof s, fmt, arg);
	return lost(l, s);
}

static uint64_t info(const struct look *l, const char *key, int base) { return status_field(l->info, key, base); }

static bool starts(const char *s, const char *head) { return !strncmp(s, head, strlen(head)); }

/* Inherited: a pipe, socket or terminal cannot be opened again by chance; of a file or device only what is still in its place. */
static int inherited_as(const struct look *l, uint64_t key)
{
	for (unsigned i = 0; i < ninherited; i++)       /* standard output and error may be one file, and two the next time */
		if (inherited[i].fd == l->fd && inherited[i].key == key) return l->fd;
	for (unsigned i = 0; i < ninherited; i++) {
		const struct inherited *h = &inherited[i];
		if (h->key != key || (h->mode & S_IFMT) != (l->st.st_mode & S_IFMT)) continue;
		bool unique = S_ISFIFO(h->mode) || S_ISSOCK(h->mode) || (S_ISCHR(h->mode) && isatty(l->fd));
		if (unique || raw(SYS_kcmp, core_self.pid, core_self.pid, KCMP_FILE, h->fd, l->fd) == 0) return h->fd;
	}
	return -1;
}

static void describe_address(int fd, bool peer, char *out, size_t n)
{
	union { struct sockaddr any; struct sockaddr_in in; struct sockaddr_in6 in6; struct sockaddr_un un; } a = { 0 };
	socklen_t len = sizeof a;
	char host[INET6_ADDRSTRLEN] = "";
	snprintf(out, n, "nobody");
	if (peer ? getpeername(fd, &a.any, &len) : getsockname(fd, &a.any, &len)) return;
	if (a.any.sa_family == AF_INET)
		snprintf(out, n, "%s:%u", inet_ntop(AF_INET, &a.in.sin_addr, host, sizeof host), ntohs(a.in.sin_port));
	else if (a.any.sa_family == AF_INET6)
		snprintf(out, n, "[%s]:%u", inet_ntop(AF_INET6, &a.in6.sin6_addr, host, sizeof host), ntohs(a.in6.sin6_port));
	else if (a.any.sa_family == AF_UNIX)
		snprintf(out, n, "unix %s%.100s", a.un.sun_path[0] ? "" : "@", a.un.sun_path[0] ? a.un.sun_path : a.un.sun_path + 1);
	else
		snprintf(out, n, "address family %d", a.any.sa_family);
}

static bool hung_up(int fd, short what)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT };
	return poll(&p, 1, 0) >= 0 && (p.revents & what);
}

/* Another descriptor of this process on the same pipe or socket, opened for `mode` (any when negative). */
static bool have_end(uint64_t ino, int mode)
{
	DIR *d = opendir("/proc/thread-self/fd");
	bool found = false;
	for (struct dirent *e; d && !found && (e = readdir(d)); ) {
		struct stat st;
		int fd = atoi(e->d_name);
		if (*e->d_name == '.' || fd >= core_config.fd_base || fstat(fd, &st) || st.st_ino != ino) continue;
		if (!S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode)) continue;
		int acc = fcntl(fd, F_GETFL) & O_ACCMODE;
		found = mode < 0 || acc == mode || acc == O_RDWR;
	}
	if (d) closedir(d);
	return found;
}

static int look_at_socket(struct look *l, struct fd_rec *r)
{
	int domain = 0, type = 0, listening = 0;
	socklen_t n = sizeof domain;
	char peer[160], what[200];
	getsockopt(l->fd, SOL_SOCKET, SO_DOMAIN, &domain, &n);
	n = sizeof type;
	getsockopt(l->fd, SOL_SOCKET, SO_TYPE, &type, &n);
	n = sizeof listening;
	getsockopt(l->fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &n);
	uint64_t pair = domain == AF_UNIX ? trap_pair_of(l->st.st_ino) : 0;
	if (pair && (have_end(pair, -1) || hung_up(l->fd, POLLHUP))) {
		r->x[0] = (uint64_t)type;
		r->x[1] = pair;
		r->x[2] = l->st.st_ino;
		return FD_SOCKETPAIR;
	}
	describe_address(l->fd, !listening, peer, sizeof peer);
	snprintf(what, sizeof what, "%s %s", listening ? "socket listening on" : "socket to", peer);
	return lost(l, what);
}

static int look_at_pipe(struct look *l, struct fd_rec *r)
{
	int acc = r->flags & O_ACCMODE;
	if (*l->path == '/') return lostf(l, "named pipe %s", l->path);
	r->x[0] = (uint64_t)fcntl(l->fd, F_GETPIPE_SZ);
	bool whole = acc == O_RDONLY ? have_end(l->st.st_ino, O_WRONLY) || hung_up(l->fd, POLLHUP) : have_end(l->st.st_ino, O_RDONLY) || hung_up(l->fd, POLLERR);
	return whole ? FD_PIPE : lost(l, "pipe to another process");
}

static int look_at_anon(struct look *l, struct fd_rec *r)
{
	const char *what = l->path + strlen("anon_inode:");
	if (!strcmp(what, "[eventfd]")) {
		r->x[0] = info(l, "eventfd-count", 16);
		r->x[1] = info(l, "eventfd-semaphore", 10);
		return FD_EVENTFD;
	}
	if (!strcmp(what, "[eventpoll]")) return FD_EPOLL;
	if (!strcmp(what, "[signalfd]")) {
		r->x[0] = info(l, "sigmask", 16);
		return FD_SIGNALFD;
	}
	if (!strcmp(what, "[timerfd]")) {
		const char *v = strstr(l->info, "it_value: ("), *i = strstr(l->info, "it_interval: (");
		r->x[0] = info(l, "clockid", 10);
		r->x[1] = info(l, "ticks", 10);
		if (!v || !i || sscanf(v + 11, "%lu, %lu", &r->x[2], &r->x[3]) != 2 || sscanf(i + 14, "%lu, %lu", &r->x[4], &r->x[5]) != 2)
			return lost(l, "timerfd that the kernel does not describe");
		return FD_TIMERFD;
	}
	return lost(l, l->path);
}

static int look_at_device(struct look *l)
{
	static const unsigned simple[] = { 3, 5, 7, 8, 9 };     /* null zero full random urandom */
	unsigned maj = major(l->st.st_rdev), min = minor(l->st.st_rdev);
	for (size_t i = 0; maj == 1 && i < sizeof simple / sizeof *simple; i++)
		if (min == simple[i]) return FD_DEVICE;
	if (isatty(l->fd) && !starts(l->path, "/dev/ptmx") && strcmp(l->path, "/dev/pts/ptmx")) return FD_DEVICE;
	return lostf(l, "device %s", l->path);
}

static int look_at_file(struct look *l, struct fd_rec *r)
{
	struct stat there;
	r->x[0] = (uint64_t)l->st.st_size;
	r->x[1] = (r->flags & O_ACCMODE) != O_RDONLY && ((r->flags & O_APPEND) || r->offset >= r->x[0]);
	bool nameless = starts(l->path, "/memfd:") || l->st.st_nlink == 0;
	if (nameless && !(r->flags & O_PATH) && !shared_can_be_read(l->fd)) return lostf(l, "file without a name that cannot be read, %s", l->path);
	if (starts(l->path, "/memfd:")) {
		r->x[1] = (uint64_t)fcntl(l->fd, F_GET_SEALS);
		return FD_MEMFD;
	}
	if (l->st.st_nlink == 0) {
		char *mark = strstr(l->path, " (deleted)");
		if (mark) *mark = 0;
		return FD_DELETED;
	}
	if (stat(l->path, &there) || there.st_ino != l->st.st_ino || there.st_dev != l->st.st_dev) {
		if (!starts(l->path, "/proc/")) return lostf(l, "file %s, which is not there under this name", l->path);
	}
	return FD_FILE;
}

static int kind_of(struct look *l, struct fd_rec *r)
{
	int from = inherited_as(l, r->key);
	if (from >= 0) {
		r->x[0] = (uint64_t)from;
		return FD_INHERITED;
	}
	if (starts(l->path, "anon_inode:")) return look_at_anon(l, r);
	switch (l->st.st_mode & S_IFMT) {
	case S_IFREG: return look_at_file(l, r);
	case S_IFDIR: return l->st.st_nlink ? FD_DIRECTORY : lostf(l, "directory %s", l->path);
	case S_IFIFO: return look_at_pipe(l, r);
	case S_IFCHR: return look_at_device(l);
	case S_IFSOCK: return look_at_socket(l, r);
	default: return lost(l, l->path);
	}
}

static void epoll_entries(const struct look *l, struct fd_rec *r)
{
	struct buf b = { 0 };
	for (const char *s = l->info; (s = strstr(s, "tfd:")); s++) {
		struct epoll_entry e;
		if (sscanf(s, "tfd: %d events: %x data: %lx", &e.fd, &e.events, &e.data) == 3) buf_add(&b, &e, sizeof e);
	}
	r->extra = (uint64_t)b.p;
	r->nextra = b.n;
}

/* "lock:	1: POSIX  ADVISORY  WRITE 123 00:1f:456 0 EOF" */
static void file_locks(const struct look *l, struct fd_rec *r)
{
	struct buf b = { 0 };
	for (const char *s = l->info; (s = strstr(s, "lock:")); s++) {
		char class[16], type[16], end[32];
		struct fd_lock k = { 0 };
		long start;
		if (sscanf(s, "lock: %*d: %15s %*s %15s %*d %*s %ld %31s", class, type, &start, end) != 4) continue;
		k.flock = !strcmp(class, "FLOCK");
		k.type = !strcmp(type, "WRITE") ? F_WRLCK : F_RDLCK;
		k.start = start;
		k.len = !strcmp(end, "EOF") ? 0 : atol(end) - start + 1;
		buf_add(&b, &k, sizeof k);
	}
	r->extra = (uint64_t)b.p;
	r->nextra = b.n;
}

static void relate(struct fd_rec *r, size_t i)
{
	r->same = r->content = -1;
	if (r->kind == FD_INHERITED) return;
	for (size_t k = 0; k < i && r->same < 0; k++) {
		if (recs[k].key != r->key || recs[k].kind == FD_INHERITED) continue;
		if (r->content < 0 && recs[k].kind == r->kind) r->content = (int32_t)k;
		if (recs[k].same < 0 && raw(SYS_kcmp, core_self.pid, core_self.pid, KCMP_FILE, recs[k].fd, r->fd) == 0) r->same = (int32_t)k;
	}
}

/* What others might have too. Of the kernel's anonymous objects all have one inode: only the agent can tell them apart. */
static void report(const struct fd_rec *r, const struct stat *st, const char *path)
{
	struct object o = { .dev = st->st_dev, .inode = st->st_ino, .key = r->key, .size = (uint64_t)st->st_size, .fd = r->fd, .path = path };
	if (r->same >= 0 || (r->flags & O_PATH)) return;
	if ((r->flags & O_ACCMODE) != O_RDONLY) o.flags |= ABI_OBJECT_WRITES;
	switch (r->kind) {
	case FD_FILE: if (r->x[1]) o.flags |= ABI_OBJECT_END; break;
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
		bool named = v->kind == ABI_VMA_FILE_SHARED && (v->vmflags & VMF_TMPFS);
		if (v->kind != ABI_VMA_ANON_SHARED && !named) continue;
		struct object o = { .dev = l->id[i].dev, .inode = l->id[i].inode, .key = v->inode_key, .offset = v->file_offset, .fd = -1,
				    .size = v->file_offset + (v->end - v->start), .path = l->strings.p + v->name };
		o.flags = (named ? ABI_OBJECT_MEMORY : ABI_OBJECT_NAMELESS) | (v->prot & PROT_WRITE ? ABI_OBJECT_WRITES : 0);
		shared_add(&o);
	}
}

static void look_at(int fd, struct buf *refusals, unsigned *n)
{
	struct look l = { .fd = fd, .refusals = refusals, .n = n };
	char p[64];
	snprintf(p, sizeof p, "/proc/thread-self/fd/%d", fd);
	ssize_t k = readlink(p, l.path, sizeof l.path - 1);
	if (k < 0 || fstat(fd, &l.st)) return;
	l.path[k] = 0;
	snprintf(p, sizeof p, "/proc/thread-self/fdinfo/%d", fd);
	l.info = slurp(p, NULL);
	if (!l.info) l.info = strdup("");
	if (nrecs == cap) {
		cap = cap ? 2 * cap : 64;
		recs = realloc(recs, cap * sizeof *recs);
		if (!recs) core_die("no memory for the list of descriptors");
	}
	struct fd_rec *r = &recs[nrecs];
	*r = (struct fd_rec){ .fd = fd, .key = key_of(&l.st) };
	r->flags = (int32_t)info(&l, "flags", 8) & ~O_CLOEXEC;
	r->cloexec = (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0;
	r->offset = info(&l, "pos", 10);
	r->kind = kind_of(&l, r);
	relate(r, nrecs);
	report(r, &l.st, l.path);
	if (r->kind == FD_EPOLL) epoll_entries(&l, r);
	if (r->kind == FD_FILE) file_locks(&l, r);
	r->path = (uint64_t)strdup(l.path);
	r->npath = strlen(l.path) + 1;
	free(l.info);
	nrecs++;
}

/* -- children ---------------------------------------------------------------------------------------------------------------------- */

static void look_at_children(struct buf *refusals, unsigned *n)
{
	DIR *d = opendir("/proc/self/task");
	for (struct dirent *e; d && (e = readdir(d)); ) {
		char path[300], comm[64] = "";
		if (*e->d_name == '.') continue;
		snprintf(path, sizeof path, "/proc/self/task/%s/children", e->d_name);
		char *list = slurp(path, NULL);
		for (char *s = list, *end; s && *s; s = end) {
			long pid = strtol(s, &end, 10);
			if (end == s || pid <= 0) break;
			snprintf(path, sizeof path, "/proc/%ld/comm", pid);
			char *name = slurp(path, NULL);
			if (name) snprintf(comm, sizeof comm, "%.*s", (int)strcspn(name, "\n"), name);
			free(name);
			buf_printf(refusals, "pid %d: child process %ld (%s): cannot be saved\n", core_self.pid, pid, comm);
			++*n;
		}
		free(list);
	}
	if (d) closedir(d);
}

static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

void fds_inspect(struct buf *refusals, unsigned *n)
{
	struct buf list = { 0 };
	for (size_t i = 0; i < nrecs; i++) {
		free((void *)recs[i].path);
		free((void *)recs[i].extra);
	}
	nrecs = 0;
	DIR *d = opendir("/proc/thread-self/fd");
	for (struct dirent *e; d && (e = readdir(d)); ) {
		int fd = atoi(e->d_name);
		if (*e->d_name != '.' && fd < core_config.fd_base) buf_add(&list, &fd, sizeof fd);
	}
	if (d) closedir(d);
	if (list.n) qsort(list.p, list.n / sizeof(int), sizeof(int), by_number);
	for (size_t i = 0; i < list.n / sizeof(int); i++) look_at(((int *)list.p)[i], refusals, n);
	buf_free(&list);
	look_at_children(refusals, n);
	struct vma_list l;
	vma_scan(&l, refusals, n);
	report_memory(&l);
	vma_free(&l);
}

void fds_settle(void)
{
	for (size_t i = 0; i < nrecs; i++)
		if (recs[i].kind == FD_FILE || recs[i].kind == FD_DELETED || recs[i].kind == FD_MEMFD) file_settle(&recs[i]);
}

/* -- content ------------------------------------------------------------------------------------------------------------------------ */

/* Pieces {offset, length, bytes} of a file, ended by a length of 0. */
static void file_content(int fd, uint64_t size, struct buf *out)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/thread-self/fd/%d", fd);
	int in = open(path, O_RDONLY | O_CLOEXEC);
	off_t data, hole;
	for (off_t at = 0; in >= 0 && (data = lseek(in, at, SEEK_DATA)) >= 0 && (uint64_t)data < size; at = hole) {
		hole = lseek(in, data, SEEK_HOLE);
		if (hole < 0) hole = (off_t)size;
		uint64_t head[2] = { (uint64_t)data, (uint64_t)(hole - data) };
		size_t from = out->n + sizeof head;
		buf_add(out, head, sizeof head);
		buf_add(out, NULL, (head[1] + 7) & ~7UL);
		for (uint64_t done = 0; done < head[1]; ) {
			ssize_t k = pread(in, out->p + from + done, head[1] - done, data + (off_t)done);
			if (k <= 0) break;
			done += (uint64_t)k;
		}
	}
	uint64_t end[2] = { 0, 0 };
	buf_add(out, end, sizeof end);
	if (in >= 0) close(in);
}

/* What is in a pipe, by tee(2) into another one: nothing is consumed. */
static void pipe_content(int fd, uint64_t capacity, struct buf *out)
{
	int t[2], queued = 0;
	size_t at = out->n;
	buf_u64(out, 0);
	if (ioctl(fd, FIONREAD, &queued) || queued <= 0 || pipe(t)) return;
	fcntl(t[1], F_SETPIPE_SZ, (int)capacity);
	ssize_t k = syscall(SYS_tee, fd, t[1], (size_t)queued, 2 /* SPLICE_F_NONBLOCK */);
	for (ssize_t left = k; left > 0; ) {
		char b[65536];
		ssize_t n = read(t[0], b, (size_t)left < sizeof b ? (size_t)left : sizeof b);
		if (n <= 0) break;
		buf_add(out, b, (size_t)n);
		left -= n;
	}
	close(t[0]);
	close(t[1]);
	uint64_t n = out->n - at - 8;
	memcpy(out->p + at, &n, 8);
	buf_add(out, NULL, (8 - n % 8) % 8);
}

/* Packets {length, bytes} in a socket's queue, ended by a length of 0. */
static void socket_content(int fd, struct buf *out)
{
	static char b[1 << 18];
	int off = 0, none = -1;
	setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &off, sizeof off);
	for (ssize_t k; (k = recv(fd, b, sizeof b, MSG_PEEK | MSG_DONTWAIT)) > 0; ) {
		buf_u64(out, (uint64_t)k);
		buf_add(out, b, (size_t)k);
		buf_add(out, NULL, (size_t)(8 - k % 8) % 8);
	}
	setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &none, sizeof none);
	buf_u64(out, 0);
}

static bool wholly_mapped(const struct vma_list *l, const struct fd_rec *r)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].kind == ABI_VMA_ANON_SHARED && l->v[i].inode_key == r->key && !l->v[i].file_offset &&
		    l->v[i].end - l->v[i].start >= r->x[0]) return true;
	return false;
}

/* The content of a pipe goes with its first record; a pipe that nobody here reads has none. */
static void content_of_pipe(const struct fd_rec *r, struct buf *out)
{
	for (size_t k = 0; k < nrecs; k++)
		if (recs[k].kind == FD_PIPE && recs[k].key == r->key && (recs[k].flags & O_ACCMODE) != O_WRONLY) {
			pipe_content(recs[k].fd, r->x[0], out);
			return;
		}
	buf_u64(out, 0);
}

static void content_of(const struct vma_list *l, const struct fd_rec *r, struct buf *out)
{
	uint64_t end[2] = { 0, 0 };
	switch (r->kind) {
	case FD_MEMFD:
	case FD_DELETED:
		if (wholly_mapped(l, r) || !shared_is_saved(r->key)) buf_add(out, end, sizeof end);
		else file_content(r->fd, r->x[0], out);
		break;
	case FD_SOCKETPAIR:
		socket_content(r->fd, out);
		break;
	case FD_PIPE:
		content_of_pipe(r, out);
		break;
	}
}

void fds_save(const struct vma_list *l, struct buf *out, struct buf *content)
{
	buf_u64(out, nrecs);
	for (size_t i = 0; i < nrecs; i++) {
		const struct fd_rec *r = &recs[i];
		buf_add(out, r, sizeof *r);
		buf_add(out, (void *)r->path, r->npath);
		buf_add(out, NULL, (8 - r->npath % 8) % 8);
		buf_add(out, (void *)r->extra, r->nextra);
		if (r->same < 0 && r->content < 0) content_of(l, r, content);
	}
}
