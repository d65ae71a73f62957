/* test_doc: holds what no image can keep, lets go of it, and holds nothing; it waits for a checkpoint to be tried each time.
 *
 * Arguments: socket, listener, fifo, sysv, aio, seccomp (which it keeps), child, huge_pages, hidden, watched, guarded, poisoned, pipes, crowd, directory,
 * user, namespace, nothing, flock, ofd, record, lease or one of the table below, and the file that asks for a checkpoint (test/core/agent.py); without a
 * file nothing waits. What the refusal must name is printed on standard error: "wants: " and how its line begins. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/fanotify.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include "ask.h"

static void must(int ok, const char *what)
{
	if (ok) return;
	printf("wrong: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* A TCP connection of the process with itself, or only the socket that it would be made on. */
static void with_socket(const char *file, int connected)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof a;
	char c = 0;
	int s = socket(AF_INET, SOCK_STREAM, 0), to = -1, from = -1;
	must(s >= 0 && bind(s, (struct sockaddr *)&a, sizeof a) == 0 && listen(s, 1) == 0, "listen");
	must(getsockname(s, (struct sockaddr *)&a, &n) == 0, "getsockname");
	if (connected) {
		to = socket(AF_INET, SOCK_STREAM, 0);
		must(connect(to, (struct sockaddr *)&a, sizeof a) == 0 && (from = accept(s, NULL, NULL)) >= 0, "connect");
		wants(to, "socket to 127.0.0.1:");
		wants(from, "socket to 127.0.0.1:");
	}
	wants(s, "socket listening on 127.0.0.1:");
	moment(file);
	if (connected) must(write(to, "x", 1) == 1 && read(from, &c, 1) == 1 && c == 'x', "the connection");
	close(to), close(from), close(s);
}

static void with_fifo(const char *file)
{
	must(mkfifo("core_refused.fifo", 0600) == 0, "mkfifo");
	int fd = open("core_refused.fifo", O_RDWR);
	must(fd >= 0 && unlink("core_refused.fifo") == 0, "open");
	wants(fd, "named pipe ");
	moment(file);
	must(write(fd, "x", 1) == 1 && close(fd) == 0, "write");
}

static void with_sysv(const char *file)
{
	int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
	char *p = shmat(id, NULL, 0);
	must(id >= 0 && p != (char *)-1 && shmctl(id, IPC_RMID, NULL) == 0, "shmat");
	*p = 'x';
	fprintf(stderr, "wants: pid %d memory %lx-%lx: System V shared memory\n", (int)getpid(), (unsigned long)p,
		(unsigned long)p + 4096);
	moment(file);
	must(*p == 'x' && shmdt(p) == 0, "shmdt");
}

static void with_aio(const char *file)
{
	aio_context_t context = 0;
	must(syscall(SYS_io_setup, 8, &context) == 0, "io_setup");
	fprintf(stderr, "wants: pid %d memory %lx-\n", (int)getpid(), (unsigned long)context);
	moment(file);
	must(syscall(SYS_io_getevents, context, 0, 1, NULL, NULL) == 0 && syscall(SYS_io_destroy, context) == 0, "the context");
}

/* A child that lives as long as its parent holds the pipe. */
static void with_child(const char *file)
{
	int p[2], status;
	must(pipe(p) == 0, "pipe");
	pid_t pid = fork();
	must(pid >= 0, "fork");
	if (pid == 0) {
		close(p[1]);
		_exit(read(p[0], &status, 1) == 0 ? 11 : 12);
	}
	close(p[0]);
	fprintf(stderr, "wants: pid %d: child process %d (core_refused): cannot be saved\n", (int)getpid(), (int)pid);
	wants(p[1], "pipe to another process");
	moment(file);
	must(close(p[1]) == 0 && waitpid(pid, &status, 0) == pid && status == 11 << 8, "the child's end");
}

static void wants_memory(const void *p, size_t n, const char *what)
{
	fprintf(stderr, "wants: pid %d memory %lx-%lx: %s\n", (int)getpid(), (unsigned long)p, (unsigned long)p + n, what);
}

/* Memory that no other program may read, the kernel included. Its descriptor is closed. */
static void with_secret(const char *file)
{
	enum { MEMFD_SECRET = 447 };
	int fd = (int)syscall(MEMFD_SECRET, 0);
	if (fd < 0) {                                   /* not in this kernel */
		fprintf(stderr, "wants: \n");
		exit(77);
	}
	must(ftruncate(fd, 4096) == 0, "ftruncate");
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(p != MAP_FAILED && close(fd) == 0, "mmap");
	*p = 'x';
	wants_memory(p, 4096, "memory that is hidden from the kernel (memfd_secret) /secretmem");
	moment(file);
	must(*p == 'x' && munmap(p, 4096) == 0, "secret memory");
}

/* No huge page is reserved for it, and none is touched. */
static void with_huge(const char *file)
{
	const size_t n = 2 << 20;
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE, -1, 0);
	must(p != MAP_FAILED, "huge pages");
	wants_memory(p, n, "pages of hugetlbfs");
	moment(file);
	must(munmap(p, n) == 0, "munmap");
}

/* Memory whose faults are left to somebody: here to the process itself, by a descriptor that it holds. */
static void with_watched(const char *file)
{
	struct uffdio_api api = { .api = UFFD_API };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | 1);
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register r = { .range = { (unsigned long)p, 8192 }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	must(fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 && ioctl(fd, UFFDIO_REGISTER, &r) == 0, "userfaultfd");
	wants_memory(p, 8192, "its faults are handled by userfaultfd");
	moment(file);
	must(close(fd) == 0 && p[4096] == 0, "memory that nobody watches");
}

/* A guard page in memory that may be shared hides what others see there. */
static void with_guarded(const char *file)
{
	enum { GUARD_INSTALL = 102 };
	char *p = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memset(p, 7, 16384);
	must(madvise(p + 4096, 4096, GUARD_INSTALL) == 0, "guard page");
	wants_memory(p, 16384, "guard pages in shared memory");
	moment(file);
	must(p[8192] == 7 && munmap(p, 16384) == 0, "shared memory");
}

/* A page that the kernel holds back, as after an error of the hardware: nobody handles its faults any more. */
static void with_poisoned(const char *file)
{
	struct { struct { unsigned long long start, len; } range; unsigned long long mode; long long updated; } bad;
	enum { FEATURE_POISON = 1 << 14 };
	struct uffdio_api api = { .api = UFFD_API, .features = FEATURE_POISON };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | 1);
	char *p = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register r = { .range = { (unsigned long)p, 16384 }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	must(fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 && ioctl(fd, UFFDIO_REGISTER, &r) == 0, "userfaultfd");
	memset(&bad, 0, sizeof bad);
	bad.range.start = (unsigned long)p + 8192;
	bad.range.len = 4096;
	must(ioctl(fd, _IOWR(UFFDIO, 8, bad), &bad) == 0 && close(fd) == 0, "poison");
	fprintf(stderr, "wants: image: memory %lx-%lx of the mapping ", (unsigned long)p + 8192, (unsigned long)p + 12288);
	fprintf(stderr, "\n");
	*p = 'x';
	moment(file);
	must(*p == 'x' && munmap(p, 16384) == 0, "poisoned memory");
}

/* What all pipes of a user may hold is used up by others (/proc/sys/fs/pipe-user-pages-soft): the content of a full one cannot
 * be looked at by another as large. Not for root. */
static void with_pipes(const char *file)
{
	enum { MOST = 400, LARGE = 1 << 20, FULL = 65536 };
	static char text[FULL], back[FULL];
	int full[2], p[MOST][2], n = 0;
	struct stat st;
	memset(text, 'x', sizeof text);
	must(pipe(full) == 0 && write(full[1], text, FULL) == FULL && fstat(full[0], &st) == 0, "pipe");
	do must(n < MOST && pipe(p[n]) == 0, "there is no limit on pipes"); while (fcntl(p[n++][1], F_SETPIPE_SZ, LARGE) == LARGE);
	while (n < MOST && pipe(p[n]) == 0 && fcntl(p[n++][1], F_GETPIPE_SZ) == FULL) ;
	fprintf(stderr, "wants: image: the content of pipe:[%lu] cannot be read\n", (unsigned long)st.st_ino);
	moment(file);
	while (n-- > 0) must(close(p[n][0]) == 0 && close(p[n][1]) == 0, "close");
	must(read(full[0], back, FULL) == FULL && !memcmp(text, back, FULL), "a full pipe");
	close(full[0]);
	close(full[1]);
}

/* More descriptors in messages than this process may have at a time. */
static void with_crowd(const char *file)
{
	enum { MESSAGES = 5, FDS = 253 };
	static union { struct cmsghdr h; char room[CMSG_SPACE(FDS * sizeof(int))]; } c;
	int s[2];
	char byte = 'x';
	struct iovec v = { &byte, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = CMSG_LEN(FDS * sizeof(int)) };
	must(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0, "socketpair");
	c.h = (struct cmsghdr){ .cmsg_len = m.msg_controllen, .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
	memset(CMSG_DATA(&c.h), 0, FDS * sizeof(int));          /* all of them are standard input */
	for (int i = 0; i < MESSAGES; i++) must(sendmsg(s[0], &m, 0) == 1, "sendmsg");
	fprintf(stderr, "wants: pid %d fd %d: socket of a pair, with descriptors in messages for which there is no room\n", (int)getpid(), s[1]);
	moment(file);
	for (int i = 0; i < MESSAGES; i++) {
		m.msg_controllen = sizeof c;
		must(recvmsg(s[1], &m, 0) == 1 && !(m.msg_flags & MSG_CTRUNC), "recvmsg");
		const int *fd = (const int *)CMSG_DATA(&c.h);
		for (int k = 0; k < FDS; k++) must(close(fd[k]) == 0, "close");
	}
	close(s[0]);
	close(s[1]);
}

static void wants_thread(const char *what) { fprintf(stderr, "wants: pid %d thread %d: %s: cannot be saved\n", (int)getpid(), (int)getpid(), what); }

static void with_directory(const char *file)
{
	must(mkdir("core_refused.gone", 0700) == 0 && chdir("core_refused.gone") == 0 && rmdir("../core_refused.gone") == 0, "directory");
	wants_thread("a working directory that has been deleted");
	moment(file);
	must(chdir("/") == 0, "chdir");
}

/* The rest is for ever: without a file natively, else only up to the refusal. */

static void with_user(const char *file)
{
	struct { unsigned version; int pid; } head = { 0x20080522, 0 };
	struct { unsigned effective, permitted, inheritable; } caps[2];
	must(syscall(SYS_capget, &head, caps) == 0, "capget");
	caps[0].effective &= ~(1u << 23), caps[0].permitted &= ~(1u << 23);     /* CAP_SYS_NICE */
	must(syscall(SYS_capset, &head, caps) == 0, "capset");
	wants_thread("another user, group or set of capabilities than at the program's start");
	moment(file);
}

/* A filter of its own that raises SIGSYS; it has no effect on what is trapped otherwise, and cannot be taken back. */
static volatile int seen;
static void on_sigsys(int s, siginfo_t *si, void *uc)
{
	(void)s;
	seen++;
	((ucontext_t *)uc)->uc_mcontext.gregs[REG_RAX] = si->si_syscall == SYS_getpgrp ? 77 : -1;
}

static void with_filter(const char *file)
{
	struct sock_filter q[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpgrp, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog p = { 4, q };
	struct sigaction a = { .sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO };
	must(sigaction(SIGSYS, &a, NULL) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "sigaction");
	must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p) == 0, "seccomp");
	must(syscall(SYS_getpgrp) == 77 && seen == 1 && readlink("/proc/self/exe", (char[8]){ 0 }, 8) == 8, "the handler");
	wants_thread("a seccomp filter of its own");
	moment(file);
}

/* A lock that can be kept, unless somebody takes it between the checkpoint and the restart. */
static int with_lock(const char *kind, const char *file)
{
	struct flock k = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 3, .l_len = 4 };
	int fd = open("core_refused.lock", O_RDWR | O_CREAT, 0600), bad;
	if (!strcmp(kind, "flock")) bad = flock(fd, LOCK_EX);
	else if (!strcmp(kind, "ofd")) bad = fcntl(fd, F_OFD_SETLK, &k);
	else if (!strcmp(kind, "record")) bad = fcntl(fd, F_SETLK, &k);
	else if (!strcmp(kind, "lease")) bad = fcntl(fd, F_SETLEASE, F_WRLCK);
	else return 0;
	must(!bad, "lock");
	moment(file);
	return 1;
}

/* -- one descriptor of each kind ------------------------------------------------------------------------------------------ */

static int pair(int type, int *other)
{
	int s[2];
	must(socketpair(AF_UNIX, type, 0, s) == 0, "socketpair");
	*other = s[1];
	return s[0];
}

static int perf(void)
{
	struct perf_event_attr a = { .type = PERF_TYPE_SOFTWARE, .size = sizeof a, .config = PERF_COUNT_SW_TASK_CLOCK, .exclude_kernel = 1 };
	return (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, 0);
}

static int map(void)
{
	union bpf_attr a = { .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1 };
	return (int)syscall(SYS_bpf, BPF_MAP_CREATE, &a, sizeof a);
}

static int uring(void)
{
	char params[120] = { 0 };
	return (int)syscall(SYS_io_uring_setup, 4, params);
}

static int watching(void)
{
	int fd = open("/tmp", O_RDONLY | O_DIRECTORY);
	signal(SIGIO, SIG_IGN);
	must(fcntl(fd, F_NOTIFY, DN_CREATE | DN_MULTISHOT) == 0, "F_NOTIFY");
	return fd;
}

static int others(void)
{
	int fd = open("/dev/null", O_RDONLY);
	must(fcntl(fd, F_SETOWN, getppid()) == 0, "F_SETOWN");
	return fd;
}

static int filtered(int *other)
{
	struct sock_filter all = { BPF_RET | BPF_K, 0, 0, 0xffff };
	struct sock_fprog p = { 1, &all };
	int fd = pair(SOCK_DGRAM, other);
	must(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &p, sizeof p) == 0, "SO_ATTACH_FILTER");
	return fd;
}

static int named(int *other)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = pair(SOCK_DGRAM, other);
	must(bind(fd, (struct sockaddr *)&a, sizeof a.sun_family) == 0, "bind");
	return fd;
}

/* Descriptors in a stream whose sender is gone: where their message begins, is not known. */
static int orphans(int *other)
{
	union { struct cmsghdr h; char room[CMSG_SPACE(sizeof(int))]; } c;
	struct iovec v = { "text", 4 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = CMSG_LEN(sizeof(int)) };
	int fd = pair(SOCK_STREAM, other);
	c.h = (struct cmsghdr){ .cmsg_len = m.msg_controllen, .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
	memset(CMSG_DATA(&c.h), 0, sizeof(int));
	must(sendmsg(*other, &m, 0) == 4 && close(*other) == 0, "sendmsg");
	*other = -1;
	return fd;
}

/* What is in a message is named as well, though it has no number. */
static int in_message(int *other)
{
	union { struct cmsghdr h; char room[CMSG_SPACE(sizeof(int))]; } c;
	struct iovec v = { "", 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = CMSG_LEN(sizeof(int)) };
	int fd = pair(SOCK_STREAM, other), gone = inotify_init();
	c.h = (struct cmsghdr){ .cmsg_len = m.msg_controllen, .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(&c.h), &gone, sizeof gone);
	must(sendmsg(*other, &m, 0) == 1 && close(gone) == 0, "sendmsg");
	return fd;
}

static const struct { const char *kind, *named; } held[] = {
	{ "secret", "secret memory" }, { "inotify", "anon_inode:inotify" }, { "uring", "anon_inode:[io_uring]" },
	{ "userfault", "anon_inode:[userfaultfd]" }, { "perf", "anon_inode:[perf_event]" }, { "bpf", "anon_inode:bpf-map" },
	{ "fanotify", "anon_inode:[fanotify]" }, { "notify", "directory /tmp with notifications" }, { "stranger", "file /proc/1/" },
	{ "owner", "descriptor whose signals (F_SETOWN)" }, { "filter", "socket of a pair, with a filter" }, { "named", "socket of a pair, with a name" },
	{ "orphans", "socket of a pair, with descriptors in messages" }, { "huge", "memfd of huge pages" }, { "pidfd", "pidfd of another" },
	{ "message", "" }, { "netlink", "socket to address family 16" }, { "unconnected", "socket to nobody" },
};

static int hold(const char *kind, int *other)
{
	if (!strcmp(kind, "secret")) return (int)syscall(SYS_memfd_secret, 0);
	if (!strcmp(kind, "inotify")) return inotify_init();
	if (!strcmp(kind, "uring")) return uring();
	if (!strcmp(kind, "userfault")) return (int)syscall(SYS_userfaultfd, 1);
	if (!strcmp(kind, "perf")) return perf();
	if (!strcmp(kind, "bpf")) return map();
	if (!strcmp(kind, "fanotify")) return fanotify_init(FAN_CLASS_NOTIF, O_RDONLY);
	if (!strcmp(kind, "notify")) return watching();
	if (!strcmp(kind, "stranger")) return open("/proc/1/stat", O_RDONLY);
	if (!strcmp(kind, "owner")) return others();
	if (!strcmp(kind, "filter")) return filtered(other);
	if (!strcmp(kind, "named")) return named(other);
	if (!strcmp(kind, "orphans")) return orphans(other);
	if (!strcmp(kind, "huge")) return memfd_create("huge", MFD_HUGETLB);
	if (!strcmp(kind, "pidfd")) return (int)syscall(SYS_pidfd_open, getppid(), 0);
	if (!strcmp(kind, "message")) return in_message(other);
	if (!strcmp(kind, "netlink")) return socket(AF_NETLINK, SOCK_RAW, 0);
	return socket(AF_UNIX, SOCK_DGRAM, 0);
}

static int with_descriptor(const char *kind, const char *file)
{
	for (size_t i = 0; i < sizeof held / sizeof *held; i++) {
		if (strcmp(kind, held[i].kind)) continue;
		int other = -1, fd = hold(kind, &other);
		const char *name = held[i].named;
		if (fd < 0 && (errno == EPERM || errno == EACCES || errno == ENOSYS)) fd = inotify_init(), name = "anon_inode:inotify";  /* not here */
		must(fd >= 0, kind);
		if (*name) wants(fd, name);
		else fprintf(stderr, "wants: pid %d fd ", (int)getpid());
		if (!*name) fprintf(stderr, "%d (in a message): anon_inode:inotify\n", fd);
		moment(file);
		close(fd), close(other);
		return 1;
	}
	return 0;
}

static void with_namespace(const char *file)
{
	must(unshare(CLONE_NEWUTS) == 0, "unshare");
	wants_thread("another namespace (uts) than at the start");
	moment(file);
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "", *file = argc > 2 ? argv[2] : NULL;
	if (!strcmp(kind, "socket")) with_socket(file, 1);
	else if (!strcmp(kind, "listener")) with_socket(file, 0);
	else if (!strcmp(kind, "fifo")) with_fifo(file);
	else if (!strcmp(kind, "sysv")) with_sysv(file);
	else if (!strcmp(kind, "aio")) with_aio(file);
	else if (!strcmp(kind, "child")) with_child(file);
	else if (!strcmp(kind, "hidden")) with_secret(file);
	else if (!strcmp(kind, "huge_pages")) with_huge(file);
	else if (!strcmp(kind, "watched")) with_watched(file);
	else if (!strcmp(kind, "guarded")) with_guarded(file);
	else if (!strcmp(kind, "poisoned")) with_poisoned(file);
	else if (!strcmp(kind, "pipes")) with_pipes(file);
	else if (!strcmp(kind, "crowd")) with_crowd(file);
	else if (!strcmp(kind, "nothing")) moment(file);
	else if (!strcmp(kind, "directory")) with_directory(file);
	else if (!strcmp(kind, "user")) with_user(file);
	else if (!strcmp(kind, "namespace")) with_namespace(file);
	else if (!strcmp(kind, "seccomp")) with_filter(file);
	else if (!with_lock(kind, file) && !with_descriptor(kind, file)) return 2;
	printf("%s: held and let go\n", kind);
	fflush(stdout);
	moment(file);
	printf("over\n");
	return 4;
}
