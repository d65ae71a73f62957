/* test_doc: holds what no image can keep, lets go of it, and holds nothing; it waits for a checkpoint to be tried each time.
 *
 * Arguments: socket, listener, fifo, sysv, aio, filter (which it keeps) or child, and the file that asks for a checkpoint (test/core/agent.py); without a
 * file nothing waits. What the refusal must name is printed on standard error: "wants: " and how its line begins. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
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
	fprintf(stderr, "wants: pid %d: 1 seccomp filters of its own: cannot be saved\n", (int)getpid());
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
	else if (!strcmp(kind, "filter")) with_filter(file);
	else return 2;
	printf("%s: held and let go\n", kind);
	fflush(stdout);
	moment(file);
	printf("over\n");
	return 4;
}
