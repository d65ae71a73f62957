/* test_doc: has a thread that no signal stops, lets it go, and has none; it waits for a checkpoint to be tried each time.
 *
 * Arguments: masked (it has blocked all signals by a call that nobody sees), vforked (it waits in the kernel for its child
 * to execute something), traced (another process has stopped it), inside (it computes in the lower half: rank of
 * test/core/client), and the file that asks for a checkpoint (test/core/agent.py);
 * without a file nothing waits. What the refusal must name is printed on standard error: "wants: " and how its line begins. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../../rank/core/layout.h"

static const char *file;
static int hold[2], ready[2];

static void must(int ok, const char *what)
{
	if (ok) return;
	printf("wrong: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void wants(int tid) { fprintf(stderr, "wants: pid %d thread %d (core_stuck): cannot be stopped within ", (int)getpid(), tid); }

/* Asks for a checkpoint and waits until one was taken or refused. */
static void moment(void)
{
	if (!file) return;
	int fd = open(file, O_WRONLY | O_CREAT, 0600);
	must(fd >= 0 && close(fd) == 0, file);
	while (access(file, F_OK) == 0) usleep(2000);
}

static void tell(int tid) { must(write(ready[1], &tid, sizeof tid) == sizeof tid, "write"); }

static int told(void)
{
	int tid = 0;
	must(read(ready[0], &tid, sizeof tid) == sizeof tid, "read");
	return tid;
}

static void *masked(void *arg)
{
	static const unsigned char code[] = { 0x49, 0x89, 0xca, 0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0x48, 0x89, 0xd6, 0x4c, 0x89, 0xca,
					      0x0f, 0x05, 0xc3 };
	/* mov %rcx,%r10; mov %rdi,%rax; mov %rsi,%rdi; mov %rdx,%rsi; mov %r9,%rdx; syscall; ret: (nr, how, set, size, -, old) */
	unsigned char *p = mmap((void *)0x10000000000, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	uint64_t all = ~0UL, none = 0;
	char c;
	must(p != MAP_FAILED, "mmap");
	memcpy(p, code, sizeof code);
	must(mprotect(p, 4096, PROT_READ | PROT_EXEC) == 0, "mprotect");
	long (*call)(long, long, const void *, long, long, void *) = (__typeof__(call))(uintptr_t)p;
	must(call(SYS_rt_sigprocmask, SIG_SETMASK, &all, 8, 0, NULL) == 0, "sigprocmask");
	tell((int)syscall(SYS_gettid));
	must(read(hold[0], &c, 1) == 1, "read");
	must(call(SYS_rt_sigprocmask, SIG_SETMASK, &none, 8, 0, NULL) == 0, "sigprocmask");
	munmap(p, 4096);
	return arg;
}

static void *vforked(void *arg)
{
	int status = 0;
	tell((int)syscall(SYS_gettid));
	pid_t pid = vfork();
	if (pid == 0) {
		char c;
		close(hold[1]);
		_exit(read(hold[0], &c, 1) == 1 ? 11 : 12);
	}
	must(waitpid(pid, &status, 0) == pid && status == 11 << 8, "the child's end");
	return arg;
}

static void *sleeper(void *arg)
{
	char c;
	tell((int)syscall(SYS_gettid));
	must(read(hold[0], &c, 1) == 1, "read");
	return arg;
}

static volatile int go_on;

static void *inside(void *arg)
{
	tell((int)syscall(SYS_gettid));
	if (file) ((long (*)(long))BY_CTLP->call[6])((long)&go_on);
	return arg;
}

static pid_t trace(int tid)
{
	pid_t pid = fork();
	must(pid >= 0, "fork");
	if (pid) return pid;
	char c;
	int status;
	close(hold[1]);                         /* the parent's end is this one's, also by a kill */
	long ok = ptrace(PTRACE_ATTACH, tid, 0, 0) == 0 && waitpid(tid, &status, __WALL) == tid;
	tell(ok ? tid : -1);
	if (read(hold[0], &c, 1) != 1) _exit(12);
	_exit(ptrace(PTRACE_DETACH, tid, 0, 0) == 0 ? 11 : 12);
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "";
	void *(*fn)(void *) = !strcmp(kind, "masked") ? masked : !strcmp(kind, "vforked") ? vforked : !strcmp(kind, "traced") ? sleeper : !strcmp(kind, "inside") ? inside : NULL;
	pthread_t t;
	pid_t tracer = 0;
	int status;
	file = argc > 2 ? argv[2] : NULL;
	if (!fn) return 2;
	must(pipe(hold) == 0 && pipe(ready) == 0 && pthread_create(&t, NULL, fn, NULL) == 0, "start");
	int tid = told();
	if (fn == sleeper) {
		tracer = trace(tid);
		must(told() == tid, "ptrace");
	}
	wants(tid);
	fprintf(stderr, "\n");
	moment();
	go_on = 1;
	must(write(hold[1], "xx", tracer ? 2 : 1) > 0, "write");
	pthread_join(t, NULL);
	if (tracer) must(waitpid(tracer, &status, 0) == tracer && status == 11 << 8, "the tracer's end");
	printf("%s: held and let go\n", kind);
	fflush(stdout);
	moment();
	printf("over\n");
	return 4;
}
