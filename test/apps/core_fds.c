/* test_doc: files, offsets shared by dup, append, deleted files, pipes, eventfd, epoll, memfd, socket pairs, locks, directories. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static int wrong;
static void expect(int ok, const char *what)
{
	if (ok) return;
	wrong++;
	printf("wrong: %s: %s\n", what, strerror(errno));
}
static void pause_here(void)
{
	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	do clock_gettime(CLOCK_MONOTONIC, &b); while ((double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9 < 0.03);
}

int main(int argc, char **argv)
{
	int lines = argc > 1 ? atoi(argv[1]) : 30;
	char dir[] = "/tmp/core_fds.XXXXXX", path[200], b[400];
	expect(mkdtemp(dir) != NULL, "mkdtemp");
	expect(chdir(dir) == 0, "chdir");
	umask(027);
	int f = open("plain", O_RDWR | O_CREAT, 0644), d = dup(f), app = open("log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	int del = open("gone", O_RDWR | O_CREAT, 0600), dirfd_ = open(".", O_RDONLY | O_DIRECTORY), hole = open("/dev/null", O_WRONLY), rnd = open("/dev/urandom", O_RDONLY);
	unlink("gone");
	int p[2], q[2], sp[2], dg[2], ev = eventfd(5, EFD_NONBLOCK), ep = epoll_create1(EPOLL_CLOEXEC), mem = memfd_create("scratch", MFD_ALLOW_SEALING);
	expect(pipe(p) == 0 && pipe2(q, O_NONBLOCK) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, sp) == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET, 0, dg) == 0, "pairs");
	sigset_t s;
	sigemptyset(&s);
	sigaddset(&s, SIGUSR1);
	sigprocmask(SIG_BLOCK, &s, NULL);
	int sfd = signalfd(-1, &s, SFD_NONBLOCK), lk = open("lock", O_RDWR | O_CREAT, 0600);
	struct flock record = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 3, .l_len = 5 };
	int rec = open("record", O_RDWR | O_CREAT, 0600);
	expect(flock(lk, LOCK_EX | LOCK_NB) == 0 && fcntl(rec, F_SETLK, &record) == 0, "locks");
	struct epoll_event e = { .events = EPOLLIN, .data.u64 = 4711 };
	epoll_ctl(ep, EPOLL_CTL_ADD, q[0], &e);
	expect(write(del, "secret", 6) == 6, "write");
	expect(ftruncate(mem, 10000) == 0 && pwrite(mem, "tail", 4, 9000) == 4, "memfd");
	char *map = mmap(NULL, 10000, PROT_READ | PROT_WRITE, MAP_SHARED, mem, 0);
	dup2(f, 200);
	for (int i = 0; i < lines; i++) {
		int n = snprintf(b, sizeof b, "line %d\n", i);
		expect(write(i & 1 ? d : f, b, (size_t)n) == n, "write plain");
		expect(write(app, b, (size_t)n) == n, "write log");
		expect(write(p[1], b, (size_t)n) == n && write(sp[0], b, (size_t)n) == n && send(dg[1], b, (size_t)n, 0) == n, "write queues");
		map[i] = (char)('a' + i % 26);
		uint64_t two = 2;
		expect(write(ev, &two, 8) == 8, "eventfd");
		pause_here();
	}
	snprintf(path, sizeof path, "/proc/self/fd/%d", del);
	expect(lseek(f, 0, SEEK_CUR) == lseek(d, 0, SEEK_CUR) && lseek(200, 0, SEEK_CUR) == lseek(f, 0, SEEK_CUR), "shared offset");
	struct stat st;
	fstat(f, &st);
	printf("plain %ld offset %ld\n", (long)st.st_size, (long)lseek(f, 0, SEEK_CUR));
	fstat(app, &st);
	printf("log %ld flags %x cloexec %d\n", (long)st.st_size, fcntl(app, F_GETFL) & (O_APPEND | O_ACCMODE), fcntl(app, F_GETFD));
	expect(pread(del, b, 6, 0) == 6 && !memcmp(b, "secret", 6) && lseek(del, 0, SEEK_CUR) == 6, "deleted file");
	fstat(del, &st);
	printf("deleted links %ld size %ld\n", (long)st.st_nlink, (long)st.st_size);
	ssize_t n = read(p[0], b, sizeof b);
	printf("pipe %zd %.6s\n", n, b);
	n = read(sp[1], b, sizeof b);
	printf("stream %zd %.6s\n", n, b);
	for (int i = 0; i < lines; i++) expect(recv(dg[0], b, sizeof b, MSG_DONTWAIT) > 0, "packet");
	expect(recv(dg[0], b, sizeof b, MSG_DONTWAIT) < 0 && errno == EAGAIN, "no more packets");
	uint64_t count;
	expect(read(ev, &count, 8) == 8, "eventfd");
	printf("eventfd %lu\n", count);
	expect(read(q[0], b, 1) < 0 && errno == EAGAIN, "nonblocking pipe");
	expect(write(q[1], "x", 1) == 1 && epoll_wait(ep, &e, 1, 0) == 1, "epoll");
	printf("epoll %lu\n", (unsigned long)e.data.u64);
	expect(pread(mem, b, 4, 9000) == 4 && !memcmp(b, "tail", 4) && pread(mem, b, 4, 0) == 4 && !memcmp(b, "abcd", 4), "memfd");
	raise(SIGUSR1);
	struct signalfd_siginfo si;
	expect(read(sfd, &si, sizeof si) == sizeof si && si.ssi_signo == SIGUSR1, "signalfd");
	DIR *dd = fdopendir(dirfd_);
	int entries = 0;
	while (readdir(dd)) entries++;
	expect(write(hole, "x", 1) == 1 && read(rnd, b, 8) == 8, "devices");
	int lk2 = open("lock", O_RDWR);
	expect(flock(lk2, LOCK_EX | LOCK_NB) < 0, "lock is held");
	pid_t pid = fork();                             /* record locks are the process's own */
	if (pid == 0) _exit(fcntl(rec, F_GETLK, &record) == 0 && record.l_type == F_WRLCK && record.l_start == 3 && record.l_len == 5);
	int status;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR) ;
	expect(status == 1 << 8, "record lock is held");
	mode_t um = umask(0);
	printf("entries %d umask %o wrong %d\n", entries, (unsigned)um, wrong);
	snprintf(b, sizeof b, "rm -rf %s", dir);
	expect(system(b) == 0, "system");
	return wrong != 0;
}
