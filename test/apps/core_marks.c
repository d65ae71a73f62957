/* test_doc: what hangs on descriptors: owners and signals of SIGIO, locks of all kinds, leases, flags, packets in pipes, paths in /proc. */
#define _GNU_SOURCE
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include "ask.h"

static volatile int by_tid, by_number, at_fd;
static void on_signal(int sig, siginfo_t *si, void *uc)
{
	(void)uc;
	at_fd = si->si_fd;
	by_tid = (int)syscall(SYS_gettid);
	by_number = sig; /* last: another thread waits for it */
}

static void settle(void)
{
	for (int i = 0; i < 60000 && !by_number; i++) usleep(1000);
}

/* -- SIGIO --------------------------------------------------------------------------------------------------------------- */

static volatile int thread_tid, thread_over, name_wanted;
static char thread_name[20];
static void *other_thread(void *arg)
{
	(void)arg;
	__atomic_store_n(&thread_tid, (int)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
	while (!thread_over) {
		if (name_wanted && prctl(PR_GET_NAME, thread_name) == 0) name_wanted = 0;
		usleep(1000);
	}
	return NULL;
}

static pthread_t begin(void)
{
	pthread_t t;
	thread_over = thread_tid = 0;
	pthread_create(&t, NULL, other_thread, NULL);
	while (!thread_tid) usleep(1000);
	return t;
}

static void signals(const char *file)
{
	struct sigaction a = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART };
	int p[2], s[2], group[2];
	pthread_t t = begin();
	sigaction(SIGRTMIN + 5, &a, NULL);
	sigaction(SIGRTMIN + 6, &a, NULL);
	expect(pipe(p) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0 && pipe(group) == 0, "pairs");
	struct f_owner_ex o = { F_OWNER_TID, thread_tid }, was;
	expect(fcntl(p[0], F_SETOWN, getpid()) == 0 && fcntl(p[0], F_SETSIG, SIGRTMIN + 5) == 0 && fcntl(p[0], F_SETFL, O_ASYNC | O_NONBLOCK) == 0, "F_SETOWN");
	expect(fcntl(s[0], F_SETOWN_EX, &o) == 0 && fcntl(s[0], F_SETSIG, SIGRTMIN + 6) == 0 && fcntl(s[0], F_SETFL, O_ASYNC) == 0, "F_SETOWN_EX");
	for (int i = 0; i < 3; i++) {
		moment(file);
		expect(fcntl(p[0], F_GETOWN) == getpid() && fcntl(p[0], F_GETSIG) == SIGRTMIN + 5 && (fcntl(p[0], F_GETFL) & (O_ASYNC | O_NONBLOCK)) == (O_ASYNC | O_NONBLOCK), "owner: process");
		by_number = 0;
		expect(write(p[1], "x", 1) == 1, "write");
		settle();
		expect(by_number == SIGRTMIN + 5 && at_fd == p[0], "signal to the process");
		expect(fcntl(s[0], F_GETOWN_EX, &was) == 0 && was.type == F_OWNER_TID && was.pid == thread_tid && fcntl(s[0], F_GETSIG) == SIGRTMIN + 6, "owner: thread");
		by_number = 0;
		expect(write(s[1], "x", 1) == 1, "write");
		settle();
		expect(by_number == SIGRTMIN + 6 && at_fd == s[0] && by_tid == thread_tid, "signal to the thread");
		/* Numbers that the program has kept, and hands to the kernel now. */
		expect(fcntl(p[1], F_SETOWN, getpid()) == 0 && fcntl(p[1], F_GETOWN) == getpid(), "F_SETOWN once more");
		int own = getpid();
		expect(ioctl(s[1], FIOSETOWN, &own) == 0 && (own = 0, ioctl(s[1], FIOGETOWN, &own)) == 0 && own == getpid(), "FIOSETOWN");
		expect(fcntl(s[0], F_SETOWN_EX, &o) == 0, "F_SETOWN_EX once more");
		expect(fcntl(group[0], F_SETOWN, -getpgrp()) == 0 && fcntl(group[0], F_GETOWN) == -getpgrp(), "group");
	}
	thread_over = 1;
	pthread_join(t, NULL);
	for (int i = 0; i < 2; i++) close(p[i]), close(s[i]), close(group[i]);
	printf("signals\n");
}

/* -- locks ------------------------------------------------------------------------------------------------------------------ */

/* What a child is told of a lock on the file: the type that stands in its way. */
static int in_the_way(const char *path, int cmd, int start, int len)
{
	int status;
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		int fd = open(path, O_RDWR);
		struct flock k = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = len };
		_exit(fcntl(fd, cmd, &k) ? 99 : k.l_type);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR) ;
	return WEXITSTATUS(status);
}

static int locked(const char *path, int how)
{
	int fd = open(path, O_RDONLY), r = flock(fd, how | LOCK_NB);
	close(fd);
	return r && errno == EWOULDBLOCK;
}

static void locks(const char *file)
{
	char dir[] = "/tmp/core_marks.XXXXXX", b[100];
	expect(mkdtemp(dir) && chdir(dir) == 0, dir);
	int ofd = open("ofd", O_RDWR | O_CREAT, 0600), posix = open("posix", O_RDWR | O_CREAT, 0600), fl = open("flock", O_RDWR | O_CREAT, 0600);
	int d = open(".", O_RDONLY | O_DIRECTORY), leased = open("leased", O_RDONLY | O_CREAT, 0600), gone = open("gone", O_WRONLY | O_CREAT, 0600);
	struct flock k = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5 }, r = { .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 20 };
	expect(fcntl(ofd, F_OFD_SETLK, &k) == 0 && fcntl(posix, F_SETLK, &k) == 0 && fcntl(posix, F_SETLK, &r) == 0, "fcntl");
	expect(flock(fl, LOCK_SH | LOCK_NB) == 0 && flock(d, LOCK_EX | LOCK_NB) == 0 && fcntl(leased, F_SETLEASE, F_RDLCK) == 0, "flock");
	expect(write(gone, "x", 1) == 1 && fcntl(gone, F_SETLK, &k) == 0, "deleted file");
	snprintf(b, sizeof b, "/proc/self/fd/%d", gone);
	expect(rename("gone", "gone2") == 0 && unlink("gone2") == 0, "unlink");
	for (int i = 0; i < 3; i++) {
		moment(file);
		expect(in_the_way("ofd", F_OFD_GETLK, 0, 0) == F_WRLCK && in_the_way("ofd", F_GETLK, 0, 0) == F_WRLCK && in_the_way("ofd", F_GETLK, 15, 0) == F_UNLCK, "OFD lock");
		struct flock same = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5 };
		expect(fcntl(posix, F_OFD_GETLK, &same) == 0 && same.l_type == F_WRLCK, "record lock against OFD");
		same = (struct flock){ .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5 };
		expect(fcntl(ofd, F_GETLK, &same) == 0 && same.l_type == F_WRLCK && same.l_pid == -1, "OFD lock against the process");
		expect(in_the_way("posix", F_GETLK, 10, 5) == F_WRLCK && in_the_way("posix", F_GETLK, 20, 1) == F_RDLCK && in_the_way("posix", F_GETLK, 0, 10) == F_UNLCK, "record locks");
		expect(locked("flock", LOCK_EX) && !locked("flock", LOCK_SH) && locked(".", LOCK_SH), "flock");
		expect(fcntl(leased, F_GETLEASE) == F_RDLCK, "lease");
		expect(in_the_way(b, F_GETLK, 10, 5) == F_WRLCK, "lock on a deleted file");
	}
	expect(fcntl(leased, F_SETLEASE, F_UNLCK) == 0, "lease");
	close(ofd), close(posix), close(fl), close(d), close(leased), close(gone);
	snprintf(b, sizeof b, "rm -rf %s", dir);
	expect(chdir("/") == 0 && system(b) == 0, "rm");
	printf("locks\n");
}

/* -- flags -------------------------------------------------------------------------------------------------------------------- */

static void flags(const char *file)
{
	int p[2], q[2], mem = memfd_create("sealed", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	char b[100], name[] = "/tmp/core_marks.XXXXXX";
	int f = mkstemp(name), many[] = { O_WRONLY | O_APPEND | O_SYNC, O_RDWR | O_NONBLOCK | O_DSYNC, O_RDONLY | O_NOATIME, O_PATH }, fd[4], tmp;
	expect(pipe2(p, O_DIRECT) == 0 && pipe(q) == 0 && fcntl(q[1], F_SETPIPE_SZ, 1 << 17) == 1 << 17, "pipes");
	expect(write(p[1], "one", 3) == 3 && write(p[1], "packet", 6) == 6 && write(p[1], "x", 1) == 1, "write");
	for (int i = 0; i < 4; i++) expect((fd[i] = open(name, many[i] | (i & 1 ? O_CLOEXEC : 0))) >= 0, "open");
	tmp = open("/tmp", O_TMPFILE | O_RDWR | O_SYNC, 0600);
	expect(tmp >= 0, "O_TMPFILE");
	expect(write(mem, "mem", 3) == 3 && fcntl(mem, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0, "seals");
	int was[8], now[8];
	for (int m = 0; m < 4; m++) {
		int *to = m ? now : was;
		if (m) moment(file);
		for (int i = 0; i < 4; i++) to[i] = fcntl(fd[i], F_GETFL) | fcntl(fd[i], F_GETFD) << 30;
		to[4] = fcntl(tmp, F_GETFL) & ~O_TMPFILE;
		to[5] = fcntl(mem, F_GET_SEALS) | fcntl(mem, F_GETFD) << 30;
		to[6] = fcntl(q[0], F_GETPIPE_SZ);
		to[7] = fcntl(p[1], F_GETFL);
		for (int i = 0; m && i < 8; i++) expect(was[i] == now[i], "flags");
	}
	expect(read(p[0], b, sizeof b) == 3 && read(p[0], b, sizeof b) == 6 && read(p[0], b, sizeof b) == 1, "packets in a pipe");
	for (int i = 0; i < 4; i++) close(fd[i]);
	close(f), close(p[0]), close(p[1]), close(q[0]), close(q[1]), close(mem), close(tmp), unlink(name);
	printf("flags\n");
}

/* -- paths in /proc ---------------------------------------------------------------------------------------------------------------- */

static int number_in(int fd, int at)
{
	char b[600] = "";
	ssize_t n = pread(fd, b, sizeof b - 1, 0);
	char *s = n > 0 && at ? strstr(b, "\nPid:") : b;
	return s && n > 0 ? atoi(s + (at ? 5 : 0)) : -1;
}

static void paths(const char *file)
{
	char p[100];
	pthread_t t = begin();
	snprintf(p, sizeof p, "/proc/%d/stat", getpid());
	int numbered = open(p, O_RDONLY), status = open("/proc/self/status", O_RDONLY), d = open("/proc/self/fd", O_RDONLY | O_DIRECTORY), maps = open("/proc/self/maps", O_RDONLY);
	snprintf(p, sizeof p, "/proc/self/task/%d/comm", thread_tid);
	int comm = open(p, O_RDWR), again = dup(comm), mem = open("/proc/self/mem", O_RDWR), load = open("/proc/loadavg", O_RDONLY);
	snprintf(p, sizeof p, "/proc/%d/task/%d/stat", getpid(), thread_tid);
	int task = open(p, O_RDONLY);
	expect(numbered >= 0 && status >= 0 && d >= 0 && maps >= 0 && comm >= 0 && mem >= 0 && load >= 0 && task >= 0, "open");
	char where[200];
	expect(getcwd(where, sizeof where) && chdir("/proc/self/fdinfo") == 0, "chdir");
	for (int i = 0; i < 3; i++) {
		moment(file);
		char b[100] = "", *end;
		snprintf(p, sizeof p, "%d", d);
		expect(access(p, F_OK) == 0, "own directory");
		long inside = 4711, seen = 0;
		int first = number_in(numbered, 0), second = number_in(status, 1);
		/* The kernel tells its own numbers there; they are of one process, which has our memory and descriptors. */
		expect(first > 0 && first == second, "own process");
		expect(pread(mem, &seen, sizeof seen, (off_t)&inside) == sizeof seen && seen == 4711, "own memory");
		snprintf(p, sizeof p, "%d", d);
		expect(readlinkat(d, p, b, sizeof b - 1) > 0, "own descriptors");
		expect(pread(maps, b, 20, 0) == 20 && strtoul(b, &end, 16) > 0 && *end == '-', "own maps");
		snprintf(p, sizeof p, "name%d", i);
		expect(write(i & 1 ? again : comm, p, strlen(p)) == (ssize_t)strlen(p), "name of the thread");
		memset(b, 0, sizeof b);
		for (name_wanted = 1; name_wanted; ) usleep(1000);
		expect(!strcmp(thread_name, p), "name of the thread");
		expect(pread(task, b, sizeof b, 0) > 0 && strstr(b, p) != NULL, "own thread");
		expect(pread(load, b, 4, 0) == 4, "a file that is nobody's");
	}
	expect(chdir(where) == 0, "chdir");
	thread_over = 1;
	pthread_join(t, NULL);
	close(numbered), close(status), close(d), close(maps), close(comm), close(again), close(mem), close(load), close(task);
	printf("paths\n");
}

int main(int argc, char **argv)
{
	const char *file = argc > 1 ? argv[1] : NULL;
	setvbuf(stdout, NULL, _IOLBF, 0);
	paths(file);            /* before the first restart: a path is not translated, what is open is */
	signals(file);
	expect(setpgid(0, 0) == 0, "a group of its own");
	signals(file);
	locks(file);
	flags(file);
	printf("wrong %d\n", wrong);
	return wrong != 0;
}
