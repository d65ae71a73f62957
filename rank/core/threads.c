/* threads.c: stops the application's threads, and after a restart makes them again.
 *
 * A thread parks in the handler of BY_SIG: the kernel's frame on its stack is its saved state. It parks only when its
 * pc is in the arena, its FS is its own, and nothing of the lower half is below it on the stack; else the handler
 * returns and the helper signals again; reading the clock parks as well (vdso.c). A system call that the signal broke
 * off is made again if it is certain which one it was: the helper reads /proc/self/task/T/syscall just before it
 * signals, the handler compares all operands; or its number stands in the code.
 * The parked MPI thread is the carrier: it does the work of a checkpoint on a private lower stack with lower FS.
 *
 * Invariants: records are added only while a stop is in effect; gen is even while threads run, odd
 * from when all have parked until all go on; a thread that has parked stays until then.
 * Context: on_stop and park are [any FS], in a handler with all signals blocked, maybe on a small signal stack. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
#include "internal.h"

enum { MAX_THREADS = 65536, CARRIER_STACK = 1 << 20, PR_GET_TID_ADDRESS_ = 40 };
void by_on_stack(void *top, void (*fn)(void *), void *arg);
extern void by_restorer(void);

static struct thread_rec *recs;                 /* MAX_THREADS, untouched pages cost nothing */
static volatile uint32_t nrecs, nparked, gen, stopping;
static volatile uint32_t collected;              /* threads that have taken the signals in their queues */
static char *carrier_top;
static struct carrier carrier;

/* What a thread that is about to be signalled is waiting in. */
struct in_call { int tid; long nr; uint64_t arg[6], sp, pc; };
static struct in_call *calls;
static volatile uint32_t ncalls;

/* -- in the handler ----------------------------------------------------------------------------------------------- */

/* The number of a call that nobody has noted: its time was over and its thread already awake, yet waiting for a processor,
 * when the helper looked; poll and select say EINTR then as well. -1: it is not certain. It is in the code right before
 * the call, where glibc has it, and only counts if the kernel breaks off that call in spite of SA_RESTART. */
static long number_in_code(const greg_t *g)
{
	static const short broken_off[] = {
		SYS_poll, SYS_select, SYS_pause, SYS_nanosleep, SYS_semop, SYS_msgsnd, SYS_msgrcv, SYS_rt_sigtimedwait, SYS_rt_sigsuspend,
		SYS_futex, SYS_semtimedop, SYS_clock_nanosleep, SYS_epoll_wait, SYS_pselect6, SYS_ppoll, SYS_epoll_pwait, SYS_epoll_pwait2,
	};
	const uint8_t *p = (const uint8_t *)g[REG_RIP];
	int32_t nr = -1;
	if ((uint64_t)g[REG_RIP] == BY_PASS + 2) nr = (int32_t)((uint64_t *)g[REG_RSP])[BY_PASS_NR];
	else if (((uint64_t)p & (PAGE - 1)) >= 8 && p[-7] == 0xb8 && (p[-8] & 0xf9) != 0x41 && p[-2] == 0x0f && p[-1] == 0x05)
		memcpy(&nr, p - 6, sizeof nr);          /* mov $nr, %eax; syscall. With the other byte before it: %r8d */
	for (size_t i = 0; i < sizeof broken_off / sizeof *broken_off; i++)
		if (nr == broken_off[i]) return nr;
	return -1;
}

/* The number of the call that the signal broke off, or -1. */
static long number_of_call(const greg_t *g, int tid)
{
	uint64_t now[6] = { (uint64_t)g[REG_RDI], (uint64_t)g[REG_RSI], (uint64_t)g[REG_RDX], (uint64_t)g[REG_R10],
			    (uint64_t)g[REG_R8], (uint64_t)g[REG_R9] };
	for (uint32_t i = 0, n = ncalls; i < n; i++) {
		struct in_call *c = &calls[i];
		if (c->tid != tid || c->pc != (uint64_t)g[REG_RIP] || c->sp != (uint64_t)g[REG_RSP]) continue;
		if (memcmp(now, c->arg, sizeof now) == 0) return c->nr;
	}
	return number_in_code(g);
}

static void remake_call(ucontext_t *uc, int tid)
{
	greg_t *g = uc->uc_mcontext.gregs;
	long nr = g[REG_RAX] == -EINTR ? number_of_call(g, tid) : -1;
	if (nr < 0) return;
	if (nr == SYS_nanosleep && g[REG_RSI]) g[REG_RDI] = g[REG_RSI];         /* the kernel wrote there what remains */
	if (nr == SYS_clock_nanosleep && g[REG_R10] && !(g[REG_RSI] & 1)) g[REG_RDX] = g[REG_R10];
	g[REG_RAX] = nr;
	g[REG_RIP] -= 2;
}

static bool may_park(const ucontext_t *uc, uint64_t fs)
{
	uint64_t pc = (uint64_t)uc->uc_mcontext.gregs[REG_RIP];
	if (fs >= BY_ARENA_HI || pc >= BY_ARENA_HI || pc < BY_SAVED_LO) return false;
	if (pc >= BY_CTL && pc < BY_CTL + BY_CTL_SIZE) return false;
	return !nest_active(fs);
}

static void carrier_loop(void *arg)
{
	(void)arg;
	for (;;) {
		while (!__atomic_load_n(&carrier.word, __ATOMIC_ACQUIRE)) futex_wait(&carrier.word, 0);
		void (*fn)(void *) = carrier.fn;
		if (fn) fn(carrier.arg);
		__atomic_store_n(&carrier.word, 0, __ATOMIC_RELEASE);
		futex_wake(&carrier.word, 1);
		if (!fn) return;
	}
}

static void park(ucontext_t *uc, int tid, uint64_t fs)
{
	uint32_t g = gen, i = __atomic_fetch_add(&nrecs, 1, __ATOMIC_SEQ_CST);
	if (i >= MAX_THREADS) return;
	struct thread_rec *r = &recs[i];
	*r = (struct thread_rec){ .tid = tid, .vtid = threads_vtid(tid), .fs = fs, .uc = (uint64_t)uc };
	raw(SYS_get_robust_list, 0, &r->robust, &r->robust_len);
	raw(SYS_prctl, PR_GET_TID_ADDRESS_, &r->tid_address);
	raw(SYS_prctl, PR_GET_NAME, r->name);
	attributes_here(i);
	bool taken = false, carries = tid == core_self.mpi_tid;
	bool window = carries && window_here();
	uint64_t lower = carries && !window ? cross_lower_fs(fs) : 0;
	__atomic_store_n(&r->parked, 1, __ATOMIC_RELEASE);
	__atomic_fetch_add(&nparked, 1, __ATOMIC_SEQ_CST);
	futex_wake(&nparked, 1);
	if (window) {
		by_window_in();
		by_on_stack(carrier_top, carrier_loop, NULL);
		by_window_out();
	} else if (carries) {
		fs_write(lower);
		by_on_stack(carrier_top, carrier_loop, NULL);
		fs_write(fs);
	}
	for (uint32_t seen; (seen = gen) != g + 2; futex_wait(&gen, seen)) {
		if (carries || taken || seen != g + 1) continue;
		taken = true;
		pending_take(tid, &r->pending);
		__atomic_fetch_add(&collected, 1, __ATOMIC_SEQ_CST);
		futex_wake(&collected, 1);
	}
	pending_put(core_self.pid, tid, &r->pending);
	__atomic_fetch_sub(&nparked, 1, __ATOMIC_SEQ_CST);
	futex_wake(&nparked, 1);
}

/* A thread may be slow to leave the stop before: its record and the carrier's word are its own until then. */
static void all_have_left(void)
{
	for (uint32_t n; (n = nparked) != 0; ) futex_wait(&nparked, n);
}

static void on_stop(int sig, siginfo_t *si, void *v)
{
	(void)sig;
	(void)si;
	ucontext_t *uc = v;
	uint64_t fs = fs_read();
	int rank = core_is_rank();
	if (rank == 0) vdso_park(false);                /* a child that was forked while a stop was in effect */
	if (rank != 1) return;
	int tid = (int)raw(SYS_gettid);
	if (fs < BY_ARENA_HI) remake_call(uc, tid);
	if (stopping && may_park(uc, fs)) park(uc, tid, fs);
}

/* -- lower threads: never signalled ----------------------------------------------------------------------------------- */

enum { MAX_LOWER = 8192 };
static volatile int lower_tids[MAX_LOWER];
static pthread_key_t lower_key;
static pthread_once_t lower_once = PTHREAD_ONCE_INIT;

static void lower_gone(void *slot) { *(volatile int *)slot = 0; }
static void lower_init(void) { pthread_key_create(&lower_key, lower_gone); }

void lower_thread_here(void)
{
	int tid = (int)raw(SYS_gettid);
	pthread_once(&lower_once, lower_init);
	for (int i = 0; i < MAX_LOWER; i++) {
		int none = 0;
		if (!__atomic_compare_exchange_n(&lower_tids[i], &none, tid, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) continue;
		pthread_setspecific(lower_key, (void *)&lower_tids[i]);
		return;
	}
}

bool lower_thread_is(int tid)
{
	for (int i = 0; i < MAX_LOWER; i++)
		if (lower_tids[i] == tid) return true;
	return false;
}

/* -- stopping: helper thread -------------------------------------------------------------------------------------------- */

static bool has_parked(int tid)
{
	for (uint32_t i = 0; i < nrecs && i < MAX_THREADS; i++)
		if (recs[i].tid == tid && recs[i].parked) return true;
	return false;
}

static bool read_small(int tid, const char *file, char *out, size_t n)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/self/task/%d/%s", tid, file);
	int fd = (int)raw(SYS_open, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) return false;
	ssize_t k = read(fd, out, n - 1);
	close(fd);
	out[k > 0 ? k : 0] = 0;
	return k > 0;
}

static bool is_zombie(int tid)
{
	char s[512];
	const char *p = read_small(tid, "stat", s, sizeof s) ? strrchr(s, ')') : NULL;
	return !p || p[2] == 'Z' || p[2] == 'X';
}

/* Notes the call the thread waits in. False: it waits inside the lower half, and comes by itself. */
static bool note_call(int tid)
{
	char s[512];
	struct in_call c = { .tid = tid };
	if (!read_small(tid, "syscall", s, sizeof s)) return true;
	uint64_t *a = c.arg;
	if (sscanf(s, "%ld %lx %lx %lx %lx %lx %lx %lx %lx", &c.nr, a, a + 1, a + 2, a + 3, a + 4, a + 5, &c.sp, &c.pc) != 9 || c.nr < 0) return true;
	if (c.pc >= BY_ARENA_HI) return false;
	uint32_t i = 0;
	while (i < ncalls && calls[i].tid != tid) i++;
	if (i == MAX_THREADS) return true;
	calls[i] = c;
	if (i == ncalls) __atomic_store_n(&ncalls, i + 1, __ATOMIC_RELEASE);
	return true;
}

/* Signals every upper thread that has not parked; returns how many there are. */
static unsigned signal_rest(void)
{
	unsigned rest = 0;
	DIR *d = opendir("/proc/self/task");
	if (!d) return 1;
	for (struct dirent *e; (e = readdir(d)); ) {
		int tid = atoi(e->d_name);
		if (tid <= 0 || lower_thread_is(tid) || has_parked(tid)) continue;
		if (tid == core_self.main_tid && is_zombie(tid)) continue;
		rest++;
		if (note_call(tid)) raw(SYS_tgkill, core_self.pid, tid, BY_SIG);
	}
	closedir(d);
	return rest;
}

/* Somebody must carry the checkpoint, also when the thread that last called MPI has ended. */
static void choose_carrier(void)
{
	if (raw(SYS_tgkill, core_self.pid, core_self.mpi_tid, 0) == 0 && !is_zombie(core_self.mpi_tid)) return;
	DIR *d = opendir("/proc/self/task");
	for (struct dirent *e; d && (e = readdir(d)); ) {
		int tid = atoi(e->d_name);
		if (tid > 0 && !lower_thread_is(tid) && !is_zombie(tid)) core_self.mpi_tid = tid;
	}
	if (d) closedir(d);
}

/* Only now can nobody send signals any more. The carrier takes its own when the image is made. */
static void collect(void)
{
	uint32_t others = threads_count() - (threads_by_tid(core_self.mpi_tid) ? 1 : 0), seen;
	__atomic_store_n(&gen, gen + 1, __ATOMIC_SEQ_CST);
	futex_wake(&gen, 1 << 30);
	while ((seen = collected) < others) futex_wait(&collected, seen);
}

void threads_stop(bool (*give_up)(void))
{
	choose_carrier();
	all_have_left();
	pending_reset();
	nrecs = ncalls = collected = 0;
	carrier.word = 0;
	__atomic_store_n(&stopping, 1, __ATOMIC_SEQ_CST);
	vdso_park(true);
	long ns = 200000;
	while (!give_up()) {
		uint32_t seen = nparked;
		if (!signal_rest()) {
			collect();
			return;
		}
		struct timespec t = { 0, ns };
		raw(SYS_futex, &nparked, RAW_FUTEX_WAIT, seen, &t);
		if (seen == nparked && ns < 2000000) ns += ns / 2;
	}
}

void carrier_run(void (*fn)(void *), void *arg)
{
	carrier.fn = fn;
	carrier.arg = arg;
	__atomic_store_n(&carrier.word, 1, __ATOMIC_RELEASE);
	futex_wake(&carrier.word, 1);
}

void threads_resume(void)
{
	__atomic_store_n(&stopping, 0, __ATOMIC_SEQ_CST);
	vdso_park(false);
	if (threads_by_tid(core_self.mpi_tid)) {
		while (carrier.word) futex_wait(&carrier.word, 1);
		carrier_run(NULL, NULL);
	}
	__atomic_store_n(&gen, (gen | 1) + 1, __ATOMIC_SEQ_CST);
	futex_wake(&gen, 1 << 30);
}

unsigned threads_count(void) { return nrecs < MAX_THREADS ? nrecs : MAX_THREADS; }
unsigned threads_most(void) { return MAX_THREADS; }
struct thread_rec *threads_rec(unsigned i) { return &recs[i]; }

struct thread_rec *threads_by_tid(int tid)
{
	for (unsigned i = 0; i < threads_count(); i++)
		if (recs[i].tid == tid) return &recs[i];
	return NULL;
}

static void *big_table(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) core_die("no memory for the table of threads");
	return p;
}

void threads_start(void)
{
	recs = recs ? recs : big_table(MAX_THREADS * sizeof *recs);
	calls = big_table(MAX_THREADS * sizeof *calls);
	carrier_top = (char *)big_table(CARRIER_STACK) + CARRIER_STACK;
	struct ksigaction a = { (uint64_t)on_stop, SA_SIGINFO | SA_ONSTACK | SA_RESTART | 0x04000000, (uint64_t)by_restorer, ~0UL };
	raw(SYS_rt_sigaction, BY_SIG, &a, 0, 8);
}
