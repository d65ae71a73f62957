/* space.c: gives out addresses of the arena: mmap without an address, brk, mremap, shmat.
 *
 * Truth is the kernel's list of mappings: every address is tried with MAP_FIXED_NOREPLACE, and munmap is not
 * watched. Addresses are taken upwards from gaps; when the gaps are used up (15 TiB have been mapped since)
 * they are read anew from /proc/self/maps. So an allocation costs O(1) amortised, memory that was given back
 * is used again, and adjacent mappings can merge as they do natively. All races, also with a forked or
 * vforked child, end in EEXIST and another try; only the reading of the gaps needs a lock. Context:
 * everything but core_region and core_arena_* is ANY_FS, in the SIGSYS handler, all signals blocked. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include "core/arena/arena.h"

struct space_state space;

enum { MAX_GAPS = 65536, TRIES = 64 };
#define HUGE_PAGE (2UL << 20)
struct gap { volatile uint64_t lo; uint64_t hi; };
static struct gap gaps[MAX_GAPS] = { { BY_MMAP_LO, BY_MMAP_HI } };
static volatile uint32_t ngaps = 1;
static volatile uint32_t at[2];                 /* the gap in use, for small and for large requests */
static volatile uint32_t reading;               /* pid of the process that reads the gaps; 0: none */
static char text[65536];

/* The kernel aligns what consists of whole huge pages, so that they can be huge. */
static uint64_t alignment(uint64_t len) { return len % HUGE_PAGE ? PAGE : HUGE_PAGE; }

static bool inside_arena(uint64_t a, uint64_t len)
{
	return a >= BY_MMAP_LO && a < BY_MMAP_HI && len <= BY_MMAP_HI - a;
}

static uint64_t take_from(struct gap *g, uint64_t len)
{
	uint64_t al = alignment(len), lo = g->lo, a;
	do {
		a = (lo + al - 1) & ~(al - 1);
		if (a < lo || a >= g->hi || len > g->hi - a) return 0;
	} while (!__atomic_compare_exchange_n(&g->lo, &lo, a + len, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return a;
}

/* An address that was free when the gaps were read, or 0. A gap that does not fit is left behind by its
 * cursor until the next reading. */
static uint64_t take(uint64_t len)
{
	volatile uint32_t *cursor = &at[len >= HUGE_PAGE];
	for (uint32_t i = *cursor; i < ngaps; i++) {
		uint64_t a = take_from(&gaps[i], len);
		if (a) return a;
		__atomic_compare_exchange_n(cursor, &i, i + 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	}
	return 0;
}

struct scan { uint64_t from, edge; uint32_t n; uint64_t v[2]; int field; bool in_line; };

static void note_gap(struct scan *s, uint64_t lo, uint64_t hi)
{
	if (lo < BY_MMAP_LO) lo = BY_MMAP_LO;
	if (hi > BY_MMAP_HI) hi = BY_MMAP_HI;
	if (lo >= hi || s->n == MAX_GAPS) return;
	gaps[s->n].lo = lo;
	gaps[s->n++].hi = hi;
}

/* "start-end perms ...": only the two numbers count. */
static void scan_byte(struct scan *s, char c)
{
	if (c == '\n') {
		note_gap(s, s->edge, s->v[0]);
		if (s->v[1] > s->edge) s->edge = s->v[1];
		s->v[0] = s->v[1] = 0;
		s->field = 0;
	} else if (s->field < 2) {
		if (c == '-' || c == ' ') s->field++;
		else s->v[s->field] = s->v[s->field] << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
}

static bool read_gaps(void)
{
	struct scan s = { .edge = BY_MMAP_LO };
	long fd = raw_open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC), n;
	if (fd < 0) return false;
	ngaps = 0;
	while ((n = raw(SYS_read, fd, text, sizeof text)) > 0)
		for (long i = 0; i < n; i++) scan_byte(&s, text[i]);
	raw(SYS_close, fd);
	note_gap(&s, s.edge, BY_MMAP_HI);
	at[0] = at[1] = 0;
	__atomic_store_n(&ngaps, s.n, __ATOMIC_RELEASE);
	return n == 0;
}

/* One thread reads, others wait. A child that was forked while its parent read does not inherit the reading.
 */
static bool refresh(void)
{
	uint32_t me = (uint32_t)raw(SYS_getpid), who = 0;
	if (__atomic_compare_exchange_n(&reading, &who, me, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED) ||
	    who != me) {
		reading = me;
		bool ok = read_gaps();
		__atomic_store_n(&reading, 0, __ATOMIC_RELEASE);
		futex_wake(&reading, 1 << 30);
		return ok;
	}
	futex_wait(&reading, me);
	return true;
}

/* Calls map(address) with free addresses until it is not refused with EEXIST. */
static long place(uint64_t len, long (*map)(uint64_t, const uint64_t *), const uint64_t *arg)
{
	int none = 0;
	for (int i = 0; i < TRIES; i++) {
		uint64_t a = take(len);
		if (a && inside_arena(a, len)) {
			long r = map(a, arg);
			if (r != -EEXIST) return r;
		}
		if ((!a && none++ == 2) || !refresh()) return -ENOMEM;
	}
	return -ENOMEM;
}

static long map_at(uint64_t a, const uint64_t *x)
{
	return raw(SYS_mmap, a, x[0], x[1], (long)x[2] | MAP_FIXED_NOREPLACE, x[3], x[4]);
}

/* Ours: control block, saved code, regions. No hint and no fixed mapping may lie there. */
static bool reserved(uint64_t a, uint64_t len) { return a < BY_OURS_HI && a + len > BY_CTL; }

long space_mmap(uint64_t addr, uint64_t len, long prot, long flags, long fd, uint64_t off)
{
	if (!len) return -EINVAL;
	uint64_t size = PAGE_UP(len), hint = PAGE_DOWN(addr);
	if (size < len) return -ENOMEM;
	if (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) {
		if (addr >= BY_ARENA_HI || size > BY_ARENA_HI - addr || reserved(addr, size)) return -ENOMEM;
		return raw(SYS_mmap, addr, len, prot, flags, fd, off);
	}
	if (flags & MAP_32BIT) return raw(SYS_mmap, addr, len, prot, flags, fd, off);
	if (hint >= BY_SAVED_LO && hint < BY_ARENA_HI && size <= BY_ARENA_HI - hint &&
	    !reserved(hint, size)) {
		long r = raw(SYS_mmap, hint, len, prot, flags | MAP_FIXED_NOREPLACE, fd, off);
		if (r != -EEXIST) return r;
	}
	uint64_t arg[] = { len, (uint64_t)prot, (uint64_t)flags, (uint64_t)fd, off };
	return place(size, map_at, arg);
}

long space_brk(uint64_t addr)
{
	uint64_t page = PAGE_UP(addr);
	if (addr < space.brk_lo || addr - space.brk_lo > BY_HEAP_MAX) return (long)space.brk_now;
	if (page > space.brk_mapped) {
		long r = raw(SYS_mmap, space.brk_mapped, page - space.brk_mapped, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (r < 0) return (long)space.brk_now;
	} else if (page < space.brk_mapped) {
		raw(SYS_munmap, page, space.brk_mapped - page);
	}
	space.brk_mapped = page;
	space.brk_now = addr;
	return (long)addr;
}

static long move_to(uint64_t a, const uint64_t *x)
{
	/* mremap knows no NOREPLACE: the place is taken first, then moved over. */
	long r = raw(SYS_mmap, a, x[2], PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (r < 0) return r;
	r = raw(SYS_mremap, x[0], x[1], x[2], x[3] | MREMAP_FIXED | MREMAP_MAYMOVE, a);
	if (r < 0) raw(SYS_munmap, a, x[2]);
	return r;
}

long space_mremap(uint64_t old, uint64_t oldlen, uint64_t newlen, long flags, uint64_t to)
{
	if (flags & MREMAP_FIXED) {
		if (to >= BY_ARENA_HI || newlen > BY_ARENA_HI - to || reserved(to, newlen)) return -ENOMEM;
		return raw(SYS_mremap, old, oldlen, newlen, flags, to);
	}
	if (!(flags & MREMAP_DONTUNMAP)) {
		long r = raw(SYS_mremap, old, oldlen, newlen, 0, 0);
		if (r != -ENOMEM || !(flags & MREMAP_MAYMOVE)) return r;
	}
	if (!newlen || newlen >= BY_ARENA_HI) return raw(SYS_mremap, old, oldlen, newlen, flags, 0);
	uint64_t arg[] = { old, oldlen, PAGE_UP(newlen), (uint64_t)flags };
	return place(PAGE_UP(newlen), move_to, arg);
}

/* shmat knows no NOREPLACE either. */
static long attach_at(uint64_t a, const uint64_t *x)
{
	long r = raw(SYS_mmap, a, x[0], PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (r < 0) return r;
	r = raw(SYS_shmat, x[1], a, x[2] | SHM_REMAP);
	if (r < 0) raw(SYS_munmap, a, x[0]);
	return r;
}

/* It cannot be saved; in the arena it is seen, and a checkpoint refused. */
long space_shmat(long id, uint64_t addr, long flags)
{
	struct shmid_ds ds;
	long r = raw(SYS_shmctl, id, IPC_STAT, &ds);
	if (r < 0) return r;
	uint64_t size = PAGE_UP(ds.shm_segsz);
	if (addr)
		return addr >= BY_ARENA_HI || size > BY_ARENA_HI - addr || reserved(addr, size)
			       ? -EINVAL
			       : raw(SYS_shmat, id, addr, flags);
	uint64_t arg[] = { size, (uint64_t)id, (uint64_t)flags };
	return place(size, attach_at, arg);
}

/* -- saved memory of the client: ordinary lower code ----------------------------------------------------- */

void *core_region(unsigned k, size_t len)
{
	uint64_t a = BY_STATE + (uint64_t)k * BY_STATE_STRIDE;
	if (k >= BY_STATE_N || len > BY_STATE_STRIDE)
		core_die("region %u: %zu bytes: no such region", k, len);
	uint64_t have = space.region_len[k], want = PAGE_UP(len);
	if (want > have) {
		long r = raw(SYS_mmap, a + have, want - have, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
		if (r < 0)
			core_die("region %u: cannot map %zu bytes at %#lx: error %ld", k, len,
				 (unsigned long)a, -r);
		space.region_len[k] = want;
	}
	return (void *)a;
}

void *core_arena_map(size_t len)
{
	uint64_t all = ~0UL, old;
	raw(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, 8);
	long r = space_mmap(0, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	raw(SYS_rt_sigprocmask, SIG_SETMASK, &old, 0, 8);
	return r < 0 ? NULL : (void *)r;
}

void core_arena_unmap(void *p, size_t len) { raw(SYS_munmap, p, len); }
