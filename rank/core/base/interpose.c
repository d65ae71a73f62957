/* interpose.c: libc functions of the lower half that this program replaces for the libraries it loads.
 *
 * The symbols here are exported, so they win over libc's for every library of the lower half (the application
 * has a libc of its own and never sees them). Descriptors that the real MPI makes are moved above the
 * application's; signal handlers that it installs have no effect. Threads that it makes: lower.c. To add a
 * function that makes a descriptor: wrap it in HIGH below and add it to exports.txt. Context: ordinary lower
 * code on any lower thread. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include "core/base/base.h"

/* -- reading --------------------------------------------------------------------------------------------- */

static volatile int awaited = -1;               /* descriptor of which a client of the core wants to know */
static void (*volatile before_read)(int fd);

void core_before_read(int fd, void (*f)(int fd))
{
	before_read = f;
	awaited = fd;
}

ssize_t read(int fd, void *to, size_t n)
{
	if (fd == awaited && fd >= 0) before_read(fd);
	return syscall(SYS_read, fd, to, n);
}

/* -- descriptors ----------------------------------------------------------------------------------------- */

static BY_THREAD_LOCAL bool own_table = false;

/* unshare(2) is denied in many containers; the other call is not. */
int unshare_descriptors(void)
{
	enum { UNSHARE = 2 };           /* CLOSE_RANGE_UNSHARE, Linux 5.9; no descriptor has that number */
	long r = raw(SYS_unshare, CLONE_FILES);
	return r ? (int)-raw(SYS_close_range, ~0u, ~0u, UNSHARE) : 0;
}

/* What the application opens and closes meanwhile, and that it may have used up its numbers, is nothing to
 * this thread; and its short-lived descriptors take no number away from the application. */
void own_descriptors(void)
{
	if (unshare_descriptors()) return;
	own_table = true;
	if (core_config.stderr_fd >= 0) dup2(core_config.stderr_fd, 2), close(core_config.stderr_fd);
	raw(SYS_close_range, 0, 1, 0);
	raw(SYS_close_range, 3, core_config.fd_base - 1, 0);
}

/* The application keeps its own soft limit; ours is higher for the moment of the move. */
static int move_up(int fd)
{
	struct limits_loan was;
	bool low = limits_borrow(&was);
	int n = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, core_config.fd_base), e = errno;
	if (low) limits_return(&was);
	errno = e;
	return n;
}

int high_fd(int fd)
{
	if (fd < 0 || own_table || !core_config.fd_base || fd >= core_config.fd_base) return fd;
	int n = move_up(fd), e = errno;
	if (n < 0) return fd;
	raw(SYS_close, fd);
	errno = e;
	return n;
}

/* Calls that make descriptors, of threads that share the application's table: begun, and over. */
static uint32_t begun, over;

static void making(uint32_t *count)
{
	if (!own_table) __atomic_fetch_add(count, 1, __ATOMIC_SEQ_CST);
}

uint32_t descriptors_rest(void)
{
	uint32_t n = __atomic_load_n(&over, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&begun, __ATOMIC_SEQ_CST) == n ? n + 1 : 0;
}

/* Carries out a call that makes descriptors, once more under a higher limit when the application has used up
 * its own. */
#define MAKING(call) ({ \
	struct limits_loan was_; \
	int r_ = (int)(call); \
	if (r_ < 0 && errno == EMFILE && limits_borrow(&was_)) { \
		r_ = (int)(call); \
		int e_ = errno; \
		limits_return(&was_); \
		errno = e_; \
	} \
	r_; })
#define HIGH(call) ({ \
	making(&begun); \
	int h_ = high_fd(MAKING(call)); \
	making(&over); \
	h_; })

static mode_t mode_arg(int flags, va_list ap)
{
	return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? (mode_t)va_arg(ap, int) : 0;
}

int open(const char *path, int flags, ...)
{
	va_list ap;
	va_start(ap, flags);
	mode_t m = mode_arg(flags, ap);
	va_end(ap);
	return HIGH(syscall(SYS_openat, AT_FDCWD, path, flags, m));
}

int openat(int dir, const char *path, int flags, ...)
{
	va_list ap;
	va_start(ap, flags);
	mode_t m = mode_arg(flags, ap);
	va_end(ap);
	return HIGH(syscall(SYS_openat, dir, path, flags, m));
}

int open64(const char *, int, ...) __attribute__((alias("open")));
int openat64(int, const char *, int, ...) __attribute__((alias("openat")));
int creat(const char *path, mode_t m)
{
	return HIGH(syscall(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, m));
}
int creat64(const char *, mode_t) __attribute__((alias("creat")));

int socket(int domain, int type, int protocol) { return HIGH(syscall(SYS_socket, domain, type, protocol)); }
int epoll_create(int n) { return HIGH(syscall(SYS_epoll_create, n)); }
int epoll_create1(int flags) { return HIGH(syscall(SYS_epoll_create1, flags)); }
int eventfd(unsigned n, int flags) { return HIGH(syscall(SYS_eventfd2, n, flags)); }
int timerfd_create(int clock, int flags) { return HIGH(syscall(SYS_timerfd_create, clock, flags)); }
int inotify_init(void) { return HIGH(syscall(SYS_inotify_init1, 0)); }
int inotify_init1(int flags) { return HIGH(syscall(SYS_inotify_init1, flags)); }
int memfd_create(const char *name, unsigned flags) { return HIGH(syscall(SYS_memfd_create, name, flags)); }
int signalfd(int fd, const sigset_t *set, int flags)
{
	return HIGH(syscall(SYS_signalfd4, fd, set, 8, flags));
}
int dup(int fd) { return HIGH(syscall(SYS_dup, fd)); }

#define BOTH_HIGH(call, fd) ({ \
	making(&begun); \
	int b_ = MAKING(call); \
	if (b_ == 0) (fd)[0] = high_fd((fd)[0]), (fd)[1] = high_fd((fd)[1]); \
	making(&over); \
	b_; })
int pipe2(int fd[2], int flags) { return BOTH_HIGH(syscall(SYS_pipe2, fd, flags), fd); }
int pipe(int fd[2]) { return pipe2(fd, 0); }
int socketpair(int domain, int type, int protocol, int fd[2])
{
	return BOTH_HIGH(syscall(SYS_socketpair, domain, type, protocol, fd), fd);
}

int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	return HIGH(syscall(SYS_accept4, fd, addr, len, flags));
}
int accept(int fd, struct sockaddr *addr, socklen_t *len) { return accept4(fd, addr, len, 0); }

ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	ssize_t r = syscall(SYS_recvmsg, fd, m, flags);
	for (struct cmsghdr *c = r >= 0 ? CMSG_FIRSTHDR(m) : NULL; c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
		for (size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= c->cmsg_len; i++) {
			int n;
			memcpy(&n, CMSG_DATA(c) + i * sizeof n, sizeof n);
			n = high_fd(n);
			memcpy(CMSG_DATA(c) + i * sizeof n, &n, sizeof n);
		}
	}
	return r;
}

/* libc's own calls inside fopen and the like do not come here: the result is made from a descriptor of ours.
 */
static int flags_of(const char *mode)
{
	int plus = strchr(mode, '+') != NULL, flags = strchr(mode, 'x') ? O_EXCL : 0;
	if (*mode == 'r') return plus ? O_RDWR : O_RDONLY;
	flags |= O_CREAT | (plus ? O_RDWR : O_WRONLY);
	return flags | (*mode == 'w' ? O_TRUNC : O_APPEND);
}

FILE *fopen(const char *path, const char *mode)
{
	int fd = open(path, flags_of(mode) | O_CLOEXEC, 0666);
	FILE *f = fd < 0 ? NULL : fdopen(fd, mode);
	if (!f && fd >= 0) close(fd);
	return f;
}
FILE *fopen64(const char *, const char *) __attribute__((alias("fopen")));

DIR *opendir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d && fd >= 0) close(fd);
	return d;
}

int shm_open(const char *name, int flags, mode_t mode)
{
	char path[NAME_MAX + 16];
	while (*name == '/') name++;
	snprintf(path, sizeof path, "/dev/shm/%s", name);
	return open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, mode);
}

int mkstemp(char *template)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	size_t n = strlen(template);
	if (n < 6 || strcmp(template + n - 6, "XXXXXX")) return errno = EINVAL, -1;
	for (int tries = 0; tries < 1000; tries++) {
		struct timespec now = { 0 };
		raw(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
		uint64_t x = (uint64_t)now.tv_nsec * 0x9e3779b97f4a7c15UL + (uint64_t)getpid() * 40503;
		for (size_t i = n - 6; i < n; i++, x /= 36) template[i] = letters[(x >> 8) % 36];
		int fd = open(template, O_RDWR | O_CREAT | O_EXCL, 0600);
		if (fd >= 0 || errno != EEXIST) return fd;
	}
	return -1;
}
int mkstemp64(char *) __attribute__((alias("mkstemp")));

/* -- signals --------------------------------------------------------------------------------------------- */

static struct sigaction lower_wish[NSIG];

int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	if (sig < 1 || sig >= NSIG || (act && (sig == SIGKILL || sig == SIGSTOP))) return errno = EINVAL, -1;
	struct sigaction was = lower_wish[sig];
	if (act) lower_wish[sig] = *act;
	if (old) *old = was;
	return 0;
}

sighandler_t signal(int sig, sighandler_t h)
{
	struct sigaction a = { .sa_handler = h, .sa_flags = SA_RESTART }, old;
	return sigaction(sig, &a, &old) ? SIG_ERR : old.sa_handler;
}
