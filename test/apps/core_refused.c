/* test_doc: holds what no image can keep, lets go of it, and holds nothing; it waits for a checkpoint to be tried each time.
 *
 * Arguments: socket, listener, fifo, sysv, aio, child, secret, huge, watched, guarded, poisoned, directory, user, filter, namespace or nothing, and the file that asks for a checkpoint (test/core/agent.py); without a
 * file nothing waits. What the refusal must name is printed on standard error: "wants: " and how its line begins. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void must(int ok, const char *what)
{
	if (ok) return;
	printf("wrong: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void wants(int fd, const char *what) { fprintf(stderr, "wants: pid %d fd %d: %s\n", (int)getpid(), fd, what); }

/* Asks for a checkpoint and waits until one was taken or refused. */
static void moment(const char *file)
{
	if (!file) return;
	int fd = open(file, O_WRONLY | O_CREAT, 0600);
	must(fd >= 0 && close(fd) == 0, file);
	while (access(file, F_OK) == 0) usleep(2000);
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

static void with_filter(const char *file)
{
	struct sock_filter all = { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW };
	struct sock_fprog program = { 1, &all };
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0, "seccomp");
	wants_thread("a seccomp filter of its own");
	moment(file);
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
	else if (!strcmp(kind, "secret")) with_secret(file);
	else if (!strcmp(kind, "huge")) with_huge(file);
	else if (!strcmp(kind, "watched")) with_watched(file);
	else if (!strcmp(kind, "guarded")) with_guarded(file);
	else if (!strcmp(kind, "poisoned")) with_poisoned(file);
	else if (!strcmp(kind, "nothing")) moment(file);
	else if (!strcmp(kind, "directory")) with_directory(file);
	else if (!strcmp(kind, "user")) with_user(file);
	else if (!strcmp(kind, "filter")) with_filter(file);
	else if (!strcmp(kind, "namespace")) with_namespace(file);
	else return 2;
	printf("%s: held and let go\n", kind);
	fflush(stdout);
	moment(file);
	printf("over\n");
	return 4;
}
