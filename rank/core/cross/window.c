/* window.c: the main thread goes into the lower half without changing FS.
 *
 * Changing FS costs more than all the rest of a crossing. It is not needed when the lower half's static TLS
 * lies at distances from FS that the application does not use. It does: the last BY_PAD bytes of
 * byssus-rank's own TLS are empty, so that its variables and those of its libraries are more than BY_PAD
 * below FS; and the face, which is loaded right behind the program, has a window of BY_WINDOW bytes in its
 * TLS, which covers those distances. The lower half's few static variables are moved there once, and a
 * crossing exchanges words of the thread control block: the table of dynamic TLS, the thread's descriptor,
 * and, unless they are alike, as they are before the first restart, the pointer guard and the thread's
 * number. The canary stays.
 *
 * It is done only where it is certain to be right: both halves use the same libc file, the face was there
 * when the program started, and all of the lower half's static TLS fits, with what ld.so may still add
 * (SURPLUS). Else, and on other threads, crossings change FS.
 *
 * Invariant: a thread whose descriptor is the lower half's has all words of the lower half; otherwise its
 * table is the application's, and the pointer guard and the number, which never change, may be written at any
 * time. After opening, the old place of the static TLS is never used again. Context: as cross.h says of each
 * function. */
#define _GNU_SOURCE
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include "core/arena/arena.h"
#include "core/cross/cross.h"
#include "core/cross/trampoline.h"

enum { BY_PAD = 2048, SURPLUS = 2048, NEAR = 65536 };
enum { W_DTV, W_SELF, W_GUARD, W_TID };
#define WIN ((struct window *)(BY_CTL + BY_WIN))
_Static_assert(offsetof(struct window, fs) == BY_WIN_FS && offsetof(struct window, alike) == BY_WIN_ALIKE,
	       "layout.h");
_Static_assert(offsetof(struct window, low) == BY_WIN_LOW && offsetof(struct window, up) == BY_WIN_UP,
	       "layout.h");

static __thread char pad[BY_PAD] __attribute__((used, aligned(64)));     /* in .tbss: behind all others */

/* The static TLS that the lower half has on the main thread, all but the pad, and the entries of its table.
 */
enum { MAX_MODULES = 64 };
static struct plan {
	uint64_t fs, lo, hi, dtv;
	unsigned n;
	uint64_t module[MAX_MODULES], at[MAX_MODULES];
} plan;
static uint64_t offered;                        /* FS minus the window's lowest address; 0: none */
static struct { uint64_t fs, word[3]; } saved;  /* from an image: the words of its main thread, if they were
						 * the lower half's */

static inline uint64_t *word(uint64_t fs, unsigned distance) { return (uint64_t *)(fs + distance); }
static inline int32_t *tid_word(uint64_t fs) { return (int32_t *)(fs + BY_TCB_TID); }

/* -- is it possible? on the lower FS --------------------------------------------------------------------- */

static int note_module(struct dl_phdr_info *info, size_t n, void *v)
{
	struct plan *p = v;
	uint64_t at = (uint64_t)info->dlpi_tls_data;
	if (n < sizeof *info || !info->dlpi_tls_modid || at < p->fs - NEAR || at >= p->fs) return 0;
	if (p->n == MAX_MODULES) return 1;
	p->module[p->n] = info->dlpi_tls_modid;
	p->at[p->n++] = at;
	return 0;
}

/* The table of dynamic TLS, as __tls_get_addr knows it. */
struct dtv_entry { uint64_t address, to_free; };
static uint64_t *dtv_entry(uint64_t dtv, uint64_t module)
{
	return &((struct dtv_entry *)dtv)[module].address;
}

static bool make_plan(uint64_t fs)
{
	struct plan p = { .fs = fs, .lo = fs, .hi = (uint64_t)pad, .dtv = *word(fs, BY_TCB_DTV) };
	if (p.hi + sizeof pad != fs || *word(fs, 0) != fs || *word(fs, BY_TCB_SELF) != fs ||
	    *tid_word(fs) != core_self.main_tid)
		return false;
	if (dl_iterate_phdr(note_module, &p)) return false;
	for (unsigned i = 0; i < p.n; i++) {
		if (*dtv_entry(p.dtv, p.module[i]) != p.at[i]) return false;
		if (p.at[i] < p.lo) p.lo = p.at[i];
	}
	if (p.lo > p.hi) return false;
	plan = p;
	return true;
}

/* The device and inode of a line of /proc/self/maps that maps a libc. */
static bool libc_line(const char *line, const char *end, uint64_t *at, char *id, size_t n)
{
	static const char name[] = "/libc.so.6";
	size_t k = sizeof name - 1;
	if ((size_t)(end - line) < k || memcmp(end - k, name, k)) return false;
	*at = strtoull(line, NULL, 16);
	for (int field = 0; field < 3 && line < end; line++)
		if (*line == ' ') field++;
	const char *path = memchr(line, '/', (size_t)(end - line));
	if (!path || (size_t)(path - line) >= n) return false;
	memcpy(id, line, (size_t)(path - line));
	id[path - line] = 0;
	return true;
}

/* Do both halves use one libc, so that their thread descriptors have one layout? */
static bool same_libc(void)
{
	size_t n;
	char *maps = slurp("/proc/self/maps", &n), first[128] = "", id[128];
	bool same = maps != NULL, upper = false, lower = false;
	for (char *line = maps, *end; same && *line && (end = strchr(line, '\n')); line = end + 1) {
		uint64_t at;
		if (!libc_line(line, end, &at, id, sizeof id)) continue;
		if (!*first) strcpy(first, id);
		same = !strcmp(first, id);
		*(at < BY_ARENA_HI ? &upper : &lower) = true;
	}
	free(maps);
	return same && upper && lower;
}

void core_libraries_loaded(void)
{
	if (!offered || WIN->fs || raw(SYS_gettid) != core_self.main_tid) return;
	if (same_libc() && make_plan(fs_read())) cross_forget_main();
}

/* -- opening: on the main thread's upper FS -------------------------------------------------------------- */

static bool fits(uint64_t fs)
{
	bool covered = plan.fs - plan.lo + SURPLUS <= offered && plan.fs - plan.hi >= offered - BY_WINDOW;
	return covered && *word(fs, BY_TCB_SELF) == fs && *tid_word(fs) == tids_vtid(core_self.main_tid);
}

bool window_open(uint64_t fs)
{
	if (!plan.fs || WIN->fs || !offered) return false;
	if (!fits(fs)) {
		plan.fs = 0;
		return false;
	}
	uint64_t shift = fs - plan.fs;
	memcpy((void *)(plan.lo + shift), (void *)plan.lo, plan.hi - plan.lo);
	for (unsigned i = 0; i < plan.n; i++)
		if (plan.at[i] < plan.hi) *dtv_entry(plan.dtv, plan.module[i]) = plan.at[i] + shift;
	*(int32_t *)(fs + BY_TCB_MULTIPLE) = 1;         /* the lower half has some */
	uint64_t self[2] = { plan.fs, fs };
	for (int i = 0; i < 2; i++) {
		uint64_t *w = i ? WIN->up : WIN->low;
		w[W_DTV] = *word(self[i], BY_TCB_DTV);
		w[W_SELF] = self[i];
		w[W_GUARD] = *word(self[i], BY_TCB_GUARD);
		w[W_TID] = (uint32_t)*tid_word(self[i]);
	}
	if (WIN->low[W_GUARD] == WIN->up[W_GUARD] && WIN->low[W_TID] == WIN->up[W_TID]) WIN->alike = fs;
	__atomic_store_n(&WIN->fs, fs, __ATOMIC_SEQ_CST);
	return true;
}

bool window_here(void) { return WIN->fs && fs_read() == WIN->fs; }

long window_upcall(void *fn, long a, long b, long c, long d, long e, long f)
{
	uint64_t fs = WIN->fs;
	nest_enter(fs);
	by_window_out();
	long r = ((long (*)(long, long, long, long, long, long))fn)(a, b, c, d, e, f);
	by_window_in();
	nest_leave(fs);
	return r;
}

/* -- a signal of the application has come ---------------------------------------------------------------- */

/* An address of the crossing's body, which is a copy in the control block. */
static uint64_t copied(const char *label)
{
	return BY_CTL + BY_CROSS_CODE + (uint64_t)(by_cross_common - by_cross_template) +
	       (uint64_t)(label - by_cross_fsgs);
}

/* A way that has not come to its end begins again. */
static void redo(greg_t *pc, uint64_t from, uint64_t to)
{
	if ((uint64_t)*pc >= from && (uint64_t)*pc < to) *pc = (greg_t)from;
}

/* The same in a short trampoline, which is told by where the first one's labels are. */
static void redo_short(greg_t *pc)
{
	uint64_t first = BY_CTL + BY_CROSS_CODE + (uint64_t)(by_cross_short_0 - by_cross_template),
		 k = ((uint64_t)*pc - first) / BY_SHORT_SIZE;
	if ((uint64_t)*pc < first || k >= BY_NSHORT) return;
	first += k * BY_SHORT_SIZE;
	redo(pc, first + (uint64_t)(by_cross_short_0_in_0 - by_cross_short_0),
	     first + (uint64_t)(by_cross_short_0_in_1 - by_cross_short_0));
	redo(pc, first + (uint64_t)(by_cross_short_0_out_0 - by_cross_short_0),
	     first + (uint64_t)(by_cross_short_0_out_1 - by_cross_short_0));
}

static bool lower_words(uint64_t fs) { return *word(fs, BY_TCB_SELF) == WIN->low[W_SELF]; }

bool window_interrupted(uint64_t fs, ucontext_t *uc)
{
	if (!WIN->fs || fs != WIN->fs) return false;
	greg_t *pc = &uc->uc_mcontext.gregs[REG_RIP];
	redo(pc, copied(by_cross_in_0), copied(by_cross_in_1));
	redo(pc, copied(by_cross_out_0), copied(by_cross_out_1));
	redo(pc, copied(by_cross_alike_in_0), copied(by_cross_alike_in_1));
	redo(pc, copied(by_cross_alike_out_0), copied(by_cross_alike_out_1));
	redo_short(pc);
	redo(pc, (uint64_t)by_window_in_0, (uint64_t)by_window_in_1);
	redo(pc, (uint64_t)by_window_out_0, (uint64_t)by_window_out_1);
	if (lower_words(fs)) {
		by_window_out();
		return true;
	}
	/* On a way; or nowhere near one, perhaps in a forked child, which has a number of its own. */
	if (*word(fs, BY_TCB_GUARD) == WIN->low[W_GUARD]) *word(fs, BY_TCB_GUARD) = WIN->up[W_GUARD];
	if (*tid_word(fs) == (int32_t)WIN->low[W_TID]) *tid_word(fs) = (int32_t)WIN->up[W_TID];
	return false;
}

/* -- in the image ---------------------------------------------------------------------------------------- */

void window_declared(void) { offered = BY_CTLP->window; }

/* The image is written from inside: the main thread's words in it are then those of a lower half that ends
 * with this process, and its own are kept here. */
void window_save(struct buf *b)
{
	bool inside = WIN->fs && lower_words(WIN->fs);
	buf_u64(b, offered);
	buf_u64(b, inside ? WIN->fs : 0);
	for (int i = 0; i < 3; i++) buf_u64(b, inside ? WIN->up[i] : 0);
}

void window_restore(struct reader *r)
{
	offered = read_u64(r);
	saved.fs = read_u64(r);
	for (int i = 0; i < 3; i++) saved.word[i] = read_u64(r);
}

void window_restored(void)
{
	if (!saved.fs) return;
	*word(saved.fs, BY_TCB_DTV) = saved.word[W_DTV];
	*word(saved.fs, BY_TCB_SELF) = saved.word[W_SELF];
	*word(saved.fs, BY_TCB_GUARD) = saved.word[W_GUARD];
	*tid_word(saved.fs) = tids_vtid(core_self.main_tid);
}
