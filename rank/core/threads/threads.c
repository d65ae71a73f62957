/* threads.c: stops the application's threads, and after a restart makes them again.
 *
 * A thread parks in the handler of BY_SIG: the kernel's frame on its stack is its saved state. It parks only
 * when its pc is in the arena, its FS is its own, and nothing of the lower half is below it on the stack;
 * else the handler returns and the helper signals again; reading the clock parks as well (vdso.c). A system
 * call that the signal broke off is made again if it is certain which one it was (again.c). The parked MPI
 * thread is the carrier: it does the work of a checkpoint on a private lower stack with lower FS. If it has
 * ended, another one is; so it is chosen when all have parked.
 *
 * Invariants: a thread comes in by one atomic step, which succeeds only while a stop is in effect, and is
 * counted until it has left; a stop begins when the count is 0. So all that a parked thread looks at, and its
 * record, belong to the stop that it has come to, however soon that was given up and however slowly the
 * thread leaves. A thread that has not come within STOP_SECONDS is named, and the checkpoint fails: it may be
 * in an uninterruptible wait, stopped by a debugger, computing inside the lower half, or have blocked the
 * signal where we cannot see it. Context: on_stop and park run on any FS, in a handler with all signals
 * blocked, maybe on a small signal stack. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "core/arena/arena.h"
#include "core/cross/cross.h"
#include "core/threads/switch.h"

enum { MAX_THREADS = 65536, CARRIER_STACK = 1 << 20, PR_GET_TID_ADDRESS_ = 40 };
/* Below the time that a job has to leave after SIGTERM (--grace). */
enum { STOP_SECONDS = 15, LATE_NS = 100000000 };

static struct thread_rec *recs;                 /* MAX_THREADS, untouched pages cost nothing */
static volatile uint32_t nrecs, nparked;
static const uint32_t STOPPING = 1u << 31;
static volatile uint32_t inside;  /* STOPPING: threads may come; the rest: how many have come and not left */
enum { FREE, PARKED, COLLECT };
static volatile uint32_t held;                  /* what they do there; COLLECT: all have come */
static volatile uint32_t collected;             /* threads that have taken the signals in their queues */
static char *carrier_top;
static struct { volatile uint32_t word; volatile int tid; void (*fn)(void *); void *arg; } carrier;

/* Where a thread was last that could not park. */
enum { NSEEN = 256 };
static struct { volatile int tid; volatile uint64_t pc; } seen_at[NSEEN];

/* -- in the handler -------------------------------------------------------------------------------------- */

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

/* On the parked thread that has been chosen, until it is told to go on. */
static void carry(uint64_t fs)
{
	if (window_here()) {
		by_window_in();
		by_on_stack(carrier_top, carrier_loop, NULL);
		by_window_out();
		return;
	}
	fs_write(cross_lower_fs(fs));
	by_on_stack(carrier_top, carrier_loop, NULL);
	fs_write(fs);
}

static bool come_in(void)
{
	uint32_t n = inside;
	do
		if (!(n & STOPPING)) return false;
	while (!__atomic_compare_exchange_n(&inside, &n, n + 1, 1, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
	return true;
}

static void leave(void)
{
	__atomic_fetch_sub(&inside, 1, __ATOMIC_SEQ_CST);
	futex_wake(&inside, 1);
}

static void stay(struct thread_rec *r)
{
	bool done = false;
	for (uint32_t h; (h = held) != FREE; ) {
		if (h != COLLECT || done) {
			futex_wait(&held, h);
			continue;
		}
		done = true;
		if (carrier.tid == r->tid) {
			carry(r->fs);
			continue;
		}
		pending_take(r->tid, &r->pending);
		__atomic_fetch_add(&collected, 1, __ATOMIC_SEQ_CST);
		futex_wake(&collected, 1);
	}
}

/* The thread has come in. */
static void park(ucontext_t *uc, int tid, uint64_t fs)
{
	uint32_t i = __atomic_fetch_add(&nrecs, 1, __ATOMIC_SEQ_CST);
	if (i >= MAX_THREADS) return;
	struct thread_rec *r = &recs[i];
	*r = (struct thread_rec){ .tid = tid, .vtid = tids_vtid(tid), .fs = fs, .uc = (uint64_t)uc };
	raw(SYS_get_robust_list, 0, &r->robust, &r->robust_len);
	raw(SYS_prctl, PR_GET_TID_ADDRESS_, &r->tid_address);
	raw(SYS_prctl, PR_GET_NAME, r->name);
	attributes_here(i);
	still_here();
	__atomic_store_n(&r->parked, 1, __ATOMIC_RELEASE);
	__atomic_fetch_add(&nparked, 1, __ATOMIC_SEQ_CST);
	futex_wake(&nparked, 1);
	stay(r);
	pending_put(core_self.pid, tid, &r->pending);
}

static ANY_FS void on_stop(int sig, siginfo_t *si, void *v)
{
	(void)sig;
	(void)si;
	ucontext_t *uc = v;
	uint64_t fs = fs_read();
	int rank = core_is_rank();
	if (rank == 0) vdso_park(false);        /* a child that was forked while a stop was in effect */
	if (rank != 1) return;
	int tid = (int)raw(SYS_gettid);
	again_remake(uc);
	low_thread();
	if (!may_park(uc, fs)) {
		seen_at[tid % NSEEN].tid = tid;
		seen_at[tid % NSEEN].pc = (uint64_t)uc->uc_mcontext.gregs[REG_RIP];
	} else if (come_in()) {
		trap_unpass(uc);
		park(uc, tid, fs);
		leave();
	}
}

/* -- stopping: helper thread ----------------------------------------------------------------------------- */

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
	if (sscanf(s, "%ld %lx %lx %lx %lx %lx %lx %lx %lx", &c.nr, a, a + 1, a + 2, a + 3, a + 4, a + 5,
		   &c.sp, &c.pc) != 9 ||
	    c.nr < 0)
		return true;
	if (c.pc >= BY_ARENA_HI) return false;
	again_note(&c);
	return true;
}

/* Real-time signals queue up, and a user has only so many: one that waits is enough. */
static bool is_signalled(int tid)
{
	char s[2048];
	return read_small(tid, "status", s, sizeof s) && (status_field(s, "SigPnd", 16) & SIGBIT(BY_SIG));
}

/* Signals an upper thread that has not parked. False: it is no thread any more. */
static bool signal_one(int tid, bool late)
{
	if ((late || tid == core_self.main_tid) && is_zombie(tid)) return false;
	if (note_call(tid) && !(late && is_signalled(tid))) raw(SYS_tgkill, core_self.pid, tid, BY_SIG);
	return true;
}

/* Signals every upper thread that has not parked; returns how many there are. The list is complete only if it
 * is as long as the kernel says: a thread that ends while it is read can hide another. */
static unsigned signal_rest(bool late, int *one)
{
	unsigned rest = 0, listed = 0;
	struct stat st;
	DIR *d = opendir("/proc/self/task");
	if (!d) return 1;
	for (struct dirent *e; (e = readdir(d)); ) {
		int tid = atoi(e->d_name);
		if (tid <= 0) continue;
		listed++;
		if (lower_thread_is(tid) || has_parked(tid) || !signal_one(tid, late)) continue;
		rest++;
		*one = tid;
	}
	if (rest == 0 && (fstat(dirfd(d), &st) || listed + 2 < st.st_nlink)) rest++;
	closedir(d);
	return rest;
}

/* Somebody must carry the checkpoint, also when the thread that last called MPI has ended. */
static void choose_carrier(void)
{
	if (!threads_by_tid(core_self.mpi_tid) && threads_count()) core_self.mpi_tid = recs[0].tid;
	__atomic_store_n(&carrier.tid, core_self.mpi_tid, __ATOMIC_SEQ_CST);
}

static void wait_a_while(volatile uint32_t *word, uint32_t seen, long ns)
{
	struct timespec t = { 0, ns };
	raw(SYS_futex, word, RAW_FUTEX_WAIT, seen, &t);
}

/* -- a thread that does not come ------------------------------------------------------------------------- */

/* What is mapped at an address. */
static void name_of_place(uint64_t pc, char *out, size_t n)
{
	char *maps = slurp("/proc/thread-self/maps", NULL);
	snprintf(out, n, "%#lx", (unsigned long)pc);
	for (char *l = maps, *end; l && *l && (end = strchr(l, '\n')); l = end + 1) {
		unsigned long lo, hi;
		*end = 0;
		char *path = strchr(l, '/');
		if (sscanf(l, "%lx-%lx", &lo, &hi) == 2 && pc >= lo && pc < hi)
			snprintf(out, n, "%#lx (%s)", (unsigned long)pc, path ? path : "no file");
	}
	free(maps);
}

/* Where it waits or was seen. */
static void whereabouts(int tid, char *out, size_t n)
{
	char s[512];
	static char place[PATH_MAX + 64];       /* one thread looks */
	long nr;
	uint64_t pc = 0;
	if (read_small(tid, "syscall", s, sizeof s) &&
	    sscanf(s, "%ld %*x %*x %*x %*x %*x %*x %*x %lx", &nr, &pc) == 2) {
		name_of_place(pc, place, sizeof place);
		snprintf(out, n, "in system call %ld (%s) at %s", nr, filter_name(nr), place);
	} else if (seen_at[tid % NSEEN].tid == tid) {
		pc = seen_at[tid % NSEEN].pc;
		name_of_place(pc, place, sizeof place);
		snprintf(out, n, "%s at %s",
			 pc >= BY_ARENA_HI ? "inside the MPI" : "in a handler that interrupted the MPI",
			 place);
	} else {
		snprintf(out, n, "running");
	}
}

static const char *describe(int tid)
{
	static char sentence[2 * PATH_MAX], where[PATH_MAX + 256];
	char status[2048], name[32] = "?";
	const char *state = NULL;
	if (read_small(tid, "status", status, sizeof status)) {
		sscanf(status, "Name:\t%31[^\n]", name);
		state = strstr(status, "\nState:\t");
	} else {
		status[0] = 0;
	}
	whereabouts(tid, where, sizeof where);
	bool blocked = status_field(status, "SigBlk", 16) & SIGBIT(BY_SIG);
	snprintf(sentence, sizeof sentence,
		 "pid %d thread %d (%s): cannot be stopped within %d seconds: state %.*s, %s%s",
		 core_self.pid, tid, name, STOP_SECONDS, state ? (int)strcspn(state + 8, "\n") : 1,
		 state ? state + 8 : "?", where, blocked ? "; it has blocked the checkpoint's signal" : "");
	return sentence;
}

/* -- a stop ---------------------------------------------------------------------------------------------- */

/* Of an earlier stop: a thread may be slow to leave it. Returns why there can be no other yet, or NULL. */
static const char *all_have_left(bool (*give_up)(void), uint64_t deadline)
{
	for (uint32_t n; (n = inside) != 0 && !give_up(); wait_a_while(&inside, n, 2000000)) {
		if (now_ns() < deadline) continue;
		for (unsigned i = 0; i < threads_count(); i++)
			if (recs[i].parked && !is_zombie(recs[i].tid)) return describe(recs[i].tid);
		return "a thread has not left an earlier stop";
	}
	return NULL;
}

/* Only now can nobody send signals any more. The carrier takes its own when the image is made. */
static const char *collect(bool (*give_up)(void), uint64_t deadline)
{
	if (!threads_count()) return "all threads of the application have ended";
	choose_carrier();
	uint32_t others = threads_count() - 1;
	__atomic_store_n(&held, COLLECT, __ATOMIC_SEQ_CST);
	futex_wake(&held, 1 << 30);
	for (uint32_t n; (n = collected) < others && !give_up(); wait_a_while(&collected, n, 2000000))
		if (now_ns() > deadline) return "a parked thread does not go on";
	return NULL;
}

static void begin_stop(void)
{
	pending_reset();
	still_begin();
	for (uint32_t i = threads_count(); i-- > 0; ) recs[i].parked = 0;
	nrecs = nparked = collected = 0;
	again_begin();
	carrier.word = 0;
	carrier.tid = 0;
	__atomic_store_n(&held, PARKED, __ATOMIC_SEQ_CST);
	__atomic_store_n(&inside, STOPPING, __ATOMIC_SEQ_CST);
	vdso_park(true);
}

const char *threads_stop(bool (*give_up)(void))
{
	uint64_t begun = now_ns(), deadline = begun + STOP_SECONDS * 1000000000UL;
	const char *why = all_have_left(give_up, deadline);
	if (why || inside) return why;
	begin_stop();
	int one = core_self.main_tid;
	for (long ns = 200000; !give_up(); ) {
		uint32_t seen = nparked;
		uint64_t now = now_ns();
		if (!signal_rest(now > begun + LATE_NS, &one)) {
			limits_raise();
			return collect(give_up, deadline);
		}
		if (now > deadline) return describe(one);
		wait_a_while(&nparked, seen, ns);
		if (seen == nparked && ns < 2000000) ns += ns / 2;
	}
	return NULL;
}

void carrier_run(void (*fn)(void *), void *arg)
{
	carrier.fn = fn;
	carrier.arg = arg;
	__atomic_store_n(&carrier.word, 1, __ATOMIC_RELEASE);
	futex_wake(&carrier.word, 1);
}

/* Waits for the carrier, which may itself wait for a donor: one that has never called the MPI. */
static void carrier_done(void)
{
	for (uint32_t w; (w = carrier.word) && carrier.fn; wait_a_while(&carrier.word, w, 1000000))
		cross_donor_wanted();
}

void carrier_do(void (*fn)(void *), void *arg)
{
	if (!threads_by_tid(core_self.mpi_tid)) {
		fn(arg);
		return;
	}
	carrier_done();
	carrier_run(fn, arg);
	carrier_done();
}

void threads_resume(void)
{
	limits_lower();
	__atomic_fetch_and(&inside, ~STOPPING, __ATOMIC_SEQ_CST);
	vdso_park(false);
	carrier_done();
	carrier_run(NULL, NULL);                /* also if it has yet to come */
	__atomic_store_n(&held, FREE, __ATOMIC_SEQ_CST);
	futex_wake(&held, 1 << 30);
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

uint64_t threads_blocked(const struct thread_rec *r)
{
	uint64_t all = ~0UL;
	if (r) return *(uint64_t *)&((ucontext_t *)r->uc)->uc_sigmask;
	for (unsigned i = 0; i < threads_count(); i++) all &= threads_blocked(threads_rec(i));
	return all;
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
	again_start();
	carrier_top = (char *)big_table(CARRIER_STACK) + CARRIER_STACK;
	struct ksigaction a = our_action(on_stop);
	raw(SYS_rt_sigaction, BY_SIG, &a, 0, 8);
}
