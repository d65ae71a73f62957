/* test_doc: what system calls make that no other program here shows is there after a restart; a call that the kernel does not know costs nothing.
 *
 * What this kernel or processor does not know is left aside. Argument: the
 * file that asks for a checkpoint. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include "ask.h"

enum { ROUNDS = 3, P = 4096, SET_GS = 0x1001, GET_GS = 0x1004, SET_CPUID = 0x1012, GET_CPUID = 0x1011, RESTORE_IDS = 77, GET_MDWE = 66, SET_MDWE = 65,
       TSC_SIGSEGV = 2, KILL_SET = 1, KILL_EARLY = 1, SET_IO_FLUSHER = 57, GET_IO_FLUSHER, UNKNOWN_CALL = 600 };
enum { REGISTER_GLOBAL = 1 << 2, SYNC_CORE = 1 << 5, REGISTER_SYNC_CORE = 1 << 6 };
enum { GS, TSC, MCE, FLUSHER, CPUID, POLICY, NICE, NSET, NPROCESS = 9 };

/* -- of a thread ---------------------------------------------------------------------------------------------------------- */

struct attr { unsigned size, policy; unsigned long flags; int nice; unsigned priority; unsigned long runtime, deadline, period; };

static void look(long *v)
{
	int tsc = 0;
	struct attr a = { 0 };
	memset(v, 0, NSET * sizeof *v);
	expect(syscall(SYS_arch_prctl, GET_GS, &v[GS]) == 0, "ARCH_GET_GS");
	prctl(PR_GET_TSC, &tsc);
	v[TSC] = tsc;
	v[MCE] = prctl(PR_MCE_KILL_GET, 0, 0, 0, 0);
	v[FLUSHER] = prctl(GET_IO_FLUSHER, 0, 0, 0, 0);
	v[CPUID] = syscall(SYS_arch_prctl, GET_CPUID, 0);
	syscall(SYS_sched_getattr, 0, &a, sizeof a, 0);
	v[POLICY] = a.policy;
	v[NICE] = a.nice;
}

static void same(const long *was, const char *who)
{
	static const char *const names[NSET] = { "GS", "time stamp counter", "memory errors", "I/O flusher", "CPUID", "policy", "nice" };
	long now[NSET];
	look(now);
	for (int i = 0; i < NSET; i++)
		if (now[i] != was[i]) printf("wrong: %s: %s: found %lx, want %lx\n", who, names[i], now[i], was[i]);
}

static volatile int round_no;

static void *thread(void *none)
{
	long was[NSET];
	struct attr batch = { .size = sizeof batch, .policy = SCHED_BATCH, .nice = 3 };
	syscall(SYS_arch_prctl, SET_GS, 0x7654321000);
	prctl(PR_SET_TSC, TSC_SIGSEGV);
	prctl(PR_MCE_KILL, KILL_SET, KILL_EARLY, 0, 0);
	prctl(SET_IO_FLUSHER, 1, 0, 0, 0);
	syscall(SYS_arch_prctl, SET_CPUID, 0);
	syscall(SYS_sched_setattr, 0, &batch, 0);
	look(was);
	for (int r = 0; r < ROUNDS; r++) {
		while (round_no == r) syscall(SYS_nanosleep, &(struct timespec){ 0, 2000000 }, NULL);   /* nothing that reads the clock */
		same(was, "thread");
	}
	return none;
}

/* -- descriptors by calls that are rare -------------------------------------------------------------------------------------- */

enum { CREAT, OPENAT2, DUP2, DUP3, GETFD, HANDLE, NFDS };
static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
static int fd[NFDS], ends[2], pair[2];

static void open_all(const char *name)
{
	struct { unsigned long flags, mode, resolve; } how = { O_RDONLY, 0, 0 };
	struct { struct file_handle h; char room[MAX_HANDLE_SZ]; } handle = { .h.handle_bytes = MAX_HANDLE_SZ };
	int mount, on = 1, self = (int)syscall(SYS_pidfd_open, getpid(), 0), dir = open(".", O_RDONLY | O_DIRECTORY);
	fd[CREAT] = (int)syscall(SYS_creat, name, 0600);
	expect(fd[CREAT] >= 0 && write(fd[CREAT], letters, 26) == 26, "creat");
	fd[OPENAT2] = (int)syscall(SYS_openat2, AT_FDCWD, name, &how, sizeof how);
	fd[DUP2] = dup2(fd[OPENAT2], 200);
	fd[DUP3] = dup3(fd[OPENAT2], 201, O_CLOEXEC);
	fd[GETFD] = (int)syscall(SYS_pidfd_getfd, self, fd[OPENAT2], 0);
	fd[HANDLE] = name_to_handle_at(AT_FDCWD, name, &handle.h, &mount, 0) ? -1 : open_by_handle_at(dir, &handle.h, O_RDONLY);
	if (fd[HANDLE] < 0) fd[HANDLE] = open(name, O_RDONLY);  /* not here */
	expect(pipe(ends) == 0 && ioctl(ends[0], FIONBIO, &on) == 0 && ioctl(ends[0], FIOCLEX) == 0, "ioctl");
	expect(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0, "socketpair");
	close(self), close(dir);
}

static int next_letter(int d)
{
	char c = 0;
	return read(d, &c, 1) == 1 ? c : -1;
}

/* Three numbers of one open file, and another of the same file. */
static void read_all(int r)
{
	int at = 4 * r;
	expect(lseek(fd[CREAT], 0, SEEK_CUR) == 26 && write(fd[CREAT], "", 0) == 0, "creat");
	for (int i = OPENAT2; i < HANDLE; i++) expect(next_letter(fd[i]) == letters[at + i - OPENAT2], "one open file");
	expect(next_letter(fd[HANDLE]) == letters[r], "by handle");
	expect((fcntl(fd[DUP3], F_GETFD) & FD_CLOEXEC) && !(fcntl(fd[DUP2], F_GETFD) & FD_CLOEXEC), "flags of a number");
	expect((fcntl(ends[0], F_GETFL) & O_NONBLOCK) && (fcntl(ends[0], F_GETFD) & FD_CLOEXEC), "FIONBIO, FIOCLEX");
}

static void send_two(void)
{
	struct iovec v[2] = { { "one", 3 }, { "three", 5 } };
	struct mmsghdr m[2] = { { .msg_hdr = { .msg_iov = &v[0], .msg_iovlen = 1 } }, { .msg_hdr = { .msg_iov = &v[1], .msg_iovlen = 1 } } };
	expect(sendmmsg(pair[0], m, 2, 0) == 2, "sendmmsg");
}

static void receive_two(void)
{
	char text[16];
	expect(recv(pair[1], text, sizeof text, 0) == 3 && recv(pair[1], text, sizeof text, 0) == 5, "messages");
}

/* -- memory ------------------------------------------------------------------------------------------------------------------ */

static char *grows, *locked_, *mixed;

static void map_all(void)
{
	grows = mmap(NULL, 4 * P, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_NORESERVE | MAP_STACK, -1, 0);
	locked_ = mmap(NULL, P, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0);
	mixed = mmap(NULL, 2 * P, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	expect(grows != MAP_FAILED && mixed != MAP_FAILED, "mmap");
	grows[3 * P] = 'g';
	mixed[0] = '0', mixed[P] = '1';
	if (syscall(SYS_remap_file_pages, mixed, P, 0, 1, 0)) mixed[0] = '1';  /* not here */
	if (locked_ != MAP_FAILED) *locked_ = 'l';
}

/* The VmFlags of the mapping at p have this word. A file of the kernel's that is read while the process is taken elsewhere goes on
 * in the middle of other lines: then it is read again. */
static int has_flag(const char *p, const char *word)
{
	char line[512];
	unsigned long a = 0, b = 0, x, y;
	int found = -1;
	for (int i = 0; i < 100 && found < 0; i++) {
		FILE *f = fopen("/proc/self/smaps", "r");
		while (f && fgets(line, sizeof line, f)) {
			if (sscanf(line, "%lx-%lx ", &x, &y) == 2) a = x, b = y;
			else if (!strncmp(line, "VmFlags:", 8) && a <= (unsigned long)p && (unsigned long)p < b) found = strstr(line, word) != NULL;
		}
		if (f) fclose(f);
	}
	return found > 0;
}

static void look_at_memory(void)
{
	expect(grows[3 * P] == 'g' && has_flag(grows, " gd"), "MAP_GROWSDOWN");
	expect(locked_ == MAP_FAILED || (*locked_ == 'l' && has_flag(locked_, " lo")), "MAP_LOCKED");
	expect(mixed[0] == '1' && mixed[P] == '1', "remap_file_pages");
}

/* -- signals ----------------------------------------------------------------------------------------------------------------- */

static void send_signal(int value)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	expect(pthread_sigqueue(pthread_self(), SIGUSR1, (union sigval){ .sival_int = value }) == 0, "pthread_sigqueue");
}

static void take_signal(int value)
{
	sigset_t set;
	siginfo_t info = { 0 };
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	expect(sigtimedwait(&set, &info, &(struct timespec){ 0, 0 }) == SIGUSR1 && info.si_value.sival_int == value, "a signal to a thread");
}

/* -- of the process --------------------------------------------------------------------------------------------------------- */

static void set_process(void)
{
	syscall(SYS_membarrier, REGISTER_GLOBAL, 0, 0);
	syscall(SYS_membarrier, REGISTER_SYNC_CORE, 0, 0);
	prctl(RESTORE_IDS, 1, 0, 0, 0);
	prctl(SET_MDWE, 1, 0, 0, 0);
	setsid();                                       /* unless it is a leader already */
}

static void look_at_process(long *v)
{
	char cwd[64] = "";
	void *p = mmap(NULL, P, PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	v[0] = syscall(SYS_membarrier, SYNC_CORE, 0, 0);
	v[1] = syscall(SYS_membarrier, 1 << 9, 0, 0) & (REGISTER_GLOBAL | REGISTER_SYNC_CORE);
	v[2] = prctl(RESTORE_IDS, 2, 0, 0, 0);
	v[3] = prctl(GET_MDWE, 0, 0, 0, 0);
	v[4] = p == MAP_FAILED;
	v[5] = getcwd(cwd, sizeof cwd) && !strcmp(cwd, "/usr");
	if (p != MAP_FAILED) munmap(p, P);
	errno = 0;
	v[6] = syscall(UNKNOWN_CALL, 1, 2, 3) == -1 && errno == ENOSYS;
	v[8] = getsid(0) == getpid();
	v[7] = prctl(0x1000000, 1, 2, 3, 4) == -1 && errno == EINVAL;
}

int main(int argc, char **argv)
{
	const char *file = argc > 1 ? argv[1] : NULL;
	char name[64];
	long was[NSET], process[NPROCESS], now[NPROCESS];
	pthread_t t;
	snprintf(name, sizeof name, "/tmp/core_calls.%d", (int)getpid());
	open_all(name);
	map_all();
	int usr = open("/usr", O_RDONLY | O_DIRECTORY);
	expect(usr >= 0 && fchdir(usr) == 0 && close(usr) == 0, "fchdir");
	syscall(SYS_arch_prctl, SET_GS, 0x1234567000);
	expect(pthread_create(&t, NULL, thread, NULL) == 0, "thread");
	set_process();
	look(was);
	look_at_process(process);
	for (int r = 0; r < ROUNDS; r++) {
		send_two();
		send_signal(r + 7);
		moment(file);
		same(was, "main");
		round_no = r + 1;
		read_all(r);
		receive_two();
		take_signal(r + 7);
		look_at_memory();
		look_at_process(now);
		for (int i = 0; i < NPROCESS; i++)
			if (now[i] != process[i]) printf("wrong: process: %d: found %ld, want %ld\n", i, now[i], process[i]);
	}
	expect(process[5] && process[6] && process[7], "what the process has set");
	pthread_join(t, NULL);
	unlink(name);
	printf("wrong %d\n", wrong);
	return wrong != 0;
}
