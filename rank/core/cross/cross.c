/* cross.c: lower TLS for upper threads, and the control block that holds the trampolines of trampoline.S.
 *
 * The main thread uses the TLS of the lower half's main thread. Every other upper thread that crosses borrows
 * the TLS of a donor: a lower thread that is parked for ever. Donors are made on demand by the helper thread
 * and go to another thread when their borrower has died. Invariant: a donor is taken away only while inside
 * == 0, by 0 -> RECLAIMED. Context: cross_enter and everything that is ANY_FS runs on the application's FS.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include "core/base/agent/agent.h"
#include "core/cross/cross.h"
#include "core/cross/trampoline.h"

enum { MAX_DONORS = 4096, TABLE = 16384, RECLAIMED = -1, DONOR_STACK = 65536 };
/* fs and inside are known to trampoline.S. */
struct donor { uint64_t fs; int32_t inside; int32_t tid; uint64_t upper; struct lower_tls *tls; };
struct lower_tls { uint64_t upper_fs; };
_Static_assert(offsetof(struct donor, inside) == 8, "trampoline.S");
_Static_assert(offsetof(struct by_ctl, call) == BY_CTL_CALL, "layout.h");
_Static_assert(offsetof(struct by_ctl, app_entry) == BY_CTL_APP_ENTRY, "layout.h");
_Static_assert(offsetof(struct by_ctl, vdso) == BY_CTL_VDSO, "layout.h");
_Static_assert(offsetof(struct by_ctl, vdso_real) == BY_CTL_VDSO_REAL, "layout.h");
_Static_assert(offsetof(struct by_ctl, main_upper_fs) == BY_CTL_MAIN_UP, "layout.h");
_Static_assert(offsetof(struct by_ctl, main_lower_fs) == BY_CTL_MAIN_LOW, "layout.h");
_Static_assert(sizeof(struct by_ctl) <= BY_CROSS_DATA, "layout.h");

struct cross_data {
	uint64_t target[BY_NCALL], main_up, main_low, enter;
	struct window window;
	uint64_t short_target[BY_NSHORT];
};
#define CROSS ((struct cross_data *)(BY_CTL + BY_CROSS_DATA))
_Static_assert(offsetof(struct cross_data, window) + BY_CROSS_DATA == BY_WIN, "layout.h");
_Static_assert(sizeof(struct window) == BY_WIN_END, "layout.h");
_Static_assert(BY_CROSS_DATA + sizeof(struct cross_data) <= BY_CROSS_CODE, "layout.h");

static BY_THREAD_LOCAL struct lower_tls self;
static struct lower_tls *main_tls;
static struct donor main_donor, donors[MAX_DONORS];
static struct donor *volatile table[TABLE];     /* by upper FS; open addressing, slots are never emptied but
						 * reused */
static volatile uint32_t ndonors, wanted, lock;
static uint32_t filled;                         /* slots of the table in use */

static unsigned slot_of(uint64_t fs) { return (unsigned)((fs >> 6) * 0x9e3779b97f4a7c15UL >> 50) % TABLE; }

static struct donor *lookup(uint64_t fs)
{
	for (unsigned i = slot_of(fs), k = 0; k < TABLE; i = (i + 1) % TABLE, k++) {
		struct donor *d = __atomic_load_n(&table[i], __ATOMIC_ACQUIRE);
		if (!d) return NULL;
		if (__atomic_load_n(&d->upper, __ATOMIC_ACQUIRE) == fs) return d;
	}
	return NULL;
}

/* False: since it was looked up it has gone to another thread, because its first borrower has died; this one
 * has the dead thread's FS, with its stack. */
static bool step_in(struct donor *d, uint64_t fs)
{
	int32_t n = __atomic_load_n(&d->inside, __ATOMIC_RELAXED);
	do
		if (n == RECLAIMED) return false;
	while (!__atomic_compare_exchange_n(&d->inside, &n, n + 1, 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
	if (__atomic_load_n(&d->upper, __ATOMIC_RELAXED) == fs) return true;
	__atomic_fetch_sub(&d->inside, 1, __ATOMIC_RELEASE);
	return false;
}

/* Signals stay blocked around the lock: a handler of the application may cross as well. */
static uint64_t block_all(void)
{
	uint64_t all = ~0UL, old;
	raw(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, 8);
	return old;
}
static void unblock(uint64_t old) { raw(SYS_rt_sigprocmask, SIG_SETMASK, &old, 0, 8); }

static void put(struct donor *d)
{
	unsigned k = slot_of(d->upper);
	while (table[k] && table[k] != d) k = (k + 1) % TABLE;
	if (!table[k]) filled++;
	__atomic_store_n(&table[k], d, __ATOMIC_RELEASE);
}

/* Under the lock: makes a donor reachable from its present hash. A table full of old hashes is built anew;
 * whoever looks something up meanwhile and misses it, looks again under the lock. */
static void reach(struct donor *d)
{
	if (filled > TABLE / 2) {
		for (unsigned i = 0; i < TABLE; i++) __atomic_store_n(&table[i], NULL, __ATOMIC_RELEASE);
		filled = 0;
		for (uint32_t i = 0; i < ndonors; i++)
			if (donors[i].inside != RECLAIMED) put(&donors[i]);
	}
	put(d);
}

/* Under the lock: ties a free donor to an upper FS, or returns NULL. */
static struct donor *bind(uint64_t fs, int tid)
{
	for (uint32_t i = 0; i < ndonors; i++) {
		struct donor *d = &donors[i];
		int32_t idle = 0;
		bool free_ = d->inside == RECLAIMED;
		if (!free_) {
			bool dead = raw(SYS_tgkill, core_self.pid, d->tid, 0) != 0;
			if (!dead || !__atomic_compare_exchange_n(&d->inside, &idle, RECLAIMED, 0,
								  __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
				continue;
		}
		d->tid = tid;
		d->tls->upper_fs = fs;
		__atomic_store_n(&d->upper, fs, __ATOMIC_RELEASE);
		__atomic_store_n(&d->inside, 0, __ATOMIC_RELEASE);
		reach(d);
		return d;
	}
	return NULL;
}

static struct donor *borrow(uint64_t fs)
{
	int tid = (int)raw(SYS_gettid);
	uint64_t old = block_all();
	struct donor *d;
	raw_lock(&lock);
	while (!(d = lookup(fs)) && !(d = bind(fs, tid))) {
		uint32_t seen = ndonors;
		if (seen == MAX_DONORS) __builtin_trap();
		raw_unlock(&lock);
		__atomic_store_n(&wanted, 1, __ATOMIC_SEQ_CST);
		wire_wake();
		futex_wait(&ndonors, seen);
		raw_lock(&lock);
	}
	raw_unlock(&lock);
	unblock(old);
	return d;
}

/* From trampoline.S: whose TLS does the thread with this FS use? Counts it in. NULL: it has a window now. */
static ANY_FS struct donor *cross_enter(uint64_t fs)
{
	if (raw(SYS_gettid) == core_self.main_tid) {
		if (window_open(fs)) return NULL;
		CROSS->main_up = BY_CTLP->main_upper_fs = fs;
		main_tls->upper_fs = fs;
		__atomic_fetch_add(&main_donor.inside, 1, __ATOMIC_RELAXED);
		return &main_donor;
	}
	for (;;) {
		struct donor *d = lookup(fs);
		if (!d) d = borrow(fs);
		if (step_in(d, fs)) return d;
	}
}

uint64_t cross_lower_fs(uint64_t upper_fs)
{
	if (raw(SYS_gettid) == core_self.main_tid) return main_donor.fs;
	struct donor *d = lookup(upper_fs);
	return (d ? d : borrow(upper_fs))->fs;
}

/* The main thread's next crossing asks again. */
void cross_forget_main(void) { CROSS->main_up = 0; }

bool cross_is_borrowed(uint64_t fs)
{
	if (fs == main_donor.fs) return raw(SYS_gettid) == core_self.main_tid;
	for (uint32_t i = 0, n = ndonors; i < n; i++)
		if (donors[i].fs == fs) return true;
	return false;
}

uint64_t cross_upper_here(void) { return self.upper_fs; }

/* -- making donors: helper thread ------------------------------------------------------------------------ */

static void *donor_thread(void *arg)
{
	struct donor *d = arg;
	lower_thread_here();
	d->tls = &self;
	__atomic_store_n(&d->fs, fs_read(), __ATOMIC_RELEASE);
	futex_wake((volatile uint32_t *)&d->fs, 1);
	static volatile uint32_t never;
	for (;;) futex_wait(&never, 0);
	return NULL;
}

void cross_donor_wanted(void)
{
	if (!__atomic_exchange_n(&wanted, 0, __ATOMIC_SEQ_CST)) return;
	struct donor *d = &donors[ndonors];
	pthread_attr_t a;
	pthread_t t;
	d->inside = RECLAIMED;
	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, DONOR_STACK);
	int err = pthread_create(&t, &a, donor_thread, d);
	pthread_attr_destroy(&a);
	if (err) {
		core_say("cannot make a thread for an application thread that calls MPI: %s", strerror(err));
		__atomic_store_n(&wanted, 1, __ATOMIC_SEQ_CST);
		return;
	}
	while (!__atomic_load_n(&d->fs, __ATOMIC_ACQUIRE)) futex_wait((volatile uint32_t *)&d->fs, 0);
	__atomic_store_n(&ndonors, ndonors + 1, __ATOMIC_SEQ_CST);
	futex_wake(&ndonors, 1 << 30);
}

/* -- upper code on top of lower frames ------------------------------------------------------------------- */

enum { NESTS = 1024 };
static struct { volatile uint64_t fs; uint32_t depth; } nest[NESTS];
static volatile uint32_t nests;

static int nest_find(uint64_t fs)
{
	for (int i = 0; i < NESTS; i++)
		if (nest[i].fs == fs) return i;
	return -1;
}

void nest_enter(uint64_t fs)
{
	int i = nest_find(fs);
	__atomic_fetch_add(&nests, 1, __ATOMIC_SEQ_CST);
	for (int k = 0; i < 0; k = (k + 1) % NESTS) {
		uint64_t none = 0;
		if (__atomic_compare_exchange_n(&nest[k].fs, &none, fs, 0, __ATOMIC_SEQ_CST,
						__ATOMIC_SEQ_CST)) {
			nest[k].depth = 0;
			i = k;
		}
	}
	nest[i].depth++;
}

void nest_leave(uint64_t fs)
{
	int i = nest_find(fs);
	if (i < 0) return;
	if (--nest[i].depth == 0) __atomic_store_n(&nest[i].fs, 0, __ATOMIC_SEQ_CST);
	__atomic_fetch_sub(&nests, 1, __ATOMIC_SEQ_CST);
}

bool nest_active(uint64_t fs) { return __atomic_load_n(&nests, __ATOMIC_SEQ_CST) && nest_find(fs) >= 0; }

/* -- offered to the client ------------------------------------------------------------------------------- */

long core_upcall(void *fn, long a, long b, long c, long d, long e, long f)
{
	if (window_here()) return window_upcall(fn, a, b, c, d, e, f);
	long arg[6] = { a, b, c, d, e, f };
	uint64_t up = self.upper_fs, low = fs_read();
	nest_enter(up);
	long r = core_fsgsbase ? by_upcall_fsgs(up, low, fn, arg) : by_upcall_prctl(up, low, fn, arg);
	nest_leave(up);
	return r;
}

void core_set_call(unsigned slot, void *fn)
{
	if (slot >= BY_NCALL) core_die("call slot %u, wanted one below %u", slot, BY_NCALL);
	CROSS->target[slot] = (uint64_t)fn;
	BY_CTLP->call[slot] = BY_CTL + BY_CROSS_CODE + BY_SLOT_SIZE * slot;
}

void core_set_short_call(unsigned k, unsigned slot, void *fn)
{
	if (k >= BY_NSHORT) core_die("short trampoline %u, wanted one below %u", k, BY_NSHORT);
	core_set_call(slot, fn);
	CROSS->short_target[k] = (uint64_t)fn;
	BY_CTLP->call[slot] =
		BY_CTL + BY_CROSS_CODE + (uint64_t)(by_cross_short - by_cross_template) + BY_SHORT_SIZE * k;
}

void core_this_is_the_mpi_thread(void) { core_self.mpi_tid = (int)raw(SYS_gettid); }

static long no_such_call(void) { return BY_AGAIN - 1; }

void cross_start(void)
{
	core_fsgsbase = (getauxval(AT_HWCAP2) & RAW_HWCAP2_FSGSBASE) != 0;
	main_tls = &self;
	main_donor = (struct donor){ .fs = fs_read(), .tls = &self, .tid = core_self.main_tid };
	char *ctl = mmap(BY_CTLP, BY_CTL_SIZE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (ctl != (char *)BY_CTLP) core_die("cannot map the control block at %#lx", (unsigned long)BY_CTL);
	const char *body = core_fsgsbase ? by_cross_fsgs : by_cross_prctl;
	size_t n = (size_t)((core_fsgsbase ? by_cross_fsgs_end : by_cross_prctl_end) - body);
	size_t common = (size_t)(by_cross_common - by_cross_template);
	memcpy(ctl + BY_CROSS_CODE, by_cross_template, common);
	memcpy(ctl + BY_CROSS_CODE + common, body, n);
	mprotect(ctl + BY_CROSS_CODE, BY_CLIENT - BY_CROSS_CODE, PROT_READ | PROT_EXEC);
	BY_CTLP->magic = ABI_MAGIC;
	BY_CTLP->version = ABI_VERSION;
	BY_CTLP->main_lower_fs = CROSS->main_low = main_donor.fs;
	CROSS->enter = (uint64_t)cross_enter;
	for (unsigned i = 0; i < BY_NCALL; i++) core_set_call(i, no_such_call);
}
