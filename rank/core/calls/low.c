/* low.c: system calls of the application's own code at fixed low addresses.
 *
 * A program that is not position-independent lies where programs that its children execute lie too, and they
 * keep the filter: it cannot trap there. What such a program's own code asks for (the Go runtime makes every
 * call itself, C does with syscall instructions or static parts) comes to trap.c by Syscall User Dispatch: it
 * belongs to a thread and ends with fork and exec. It takes every call of that code by SIGSYS, about a
 * microsecond. Those that filter.c does not want are sent on through a stub outside of the dispatched
 * addresses, one for each syscall instruction in the program's text: {syscall; mov $site, %rcx; jmp *%rcx}.
 * It needs no stack (Go's are small, and vfork's child shares its parent's) and leaves in rcx what the kernel
 * does. Stubs are saved with the image: threads may be waiting in them. The kernel does not inherit it to new
 * threads: a new thread's first trapped call (its libc's, of robust mutexes), and every stop, sees to that.
 * Only programs with a syscall instruction at a low address have it at all. Context: low_start and
 * low_restore at start-up; the rest is ANY_FS. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "core/base/agent/agent.h"
#include "core/calls/calls.h"

enum { SET_DISPATCH = 59, DISPATCH_ON = 1, STUB = 16, MAX_SITES = BY_LOW_SIZE / STUB };
struct stub { uint8_t call[4]; uint64_t site; uint8_t back[4]; } __attribute__((packed));
_Static_assert(sizeof(struct stub) == STUB, "stubs");
#define USER_HI (1UL << 47)                     /* where the kernel's half begins */
static uint64_t nsites;                         /* 0: there is no such code */

static long dispatch_on(void)
{
	return raw(SYS_prctl, SET_DISPATCH, DISPATCH_ON, BY_CTL, USER_HI - BY_CTL, 0);
}

void low_thread(void)
{
	if (nsites && core_is_rank() == 1) dispatch_on();
}

bool low_used(void) { return nsites != 0; }

uint64_t low_stub(uint64_t site)
{
	const struct stub *s = (const struct stub *)BY_LOW;
	for (uint64_t lo = 0, hi = nsites; lo < hi; ) {
		uint64_t mid = (lo + hi) / 2;
		if (s[mid].site == site) return (uint64_t)&s[mid];
		if (s[mid].site < site) lo = mid + 1;
		else hi = mid;
	}
	return 0;
}

uint64_t low_site(uint64_t pc)
{
	if (pc < BY_LOW || pc >= BY_LOW + nsites * STUB) return pc;
	return ((const struct stub *)(pc - (pc - BY_LOW) % STUB))->site;
}

/* -- start ----------------------------------------------------------------------------------------------- */

static void find_sites(const uint8_t *p, const uint8_t *end, struct stub *out)
{
	for (; (p = memchr(p, 0x0f, (size_t)(end - p))) && p + 1 < end; p++) {
		if (p[1] != 0x05) continue;
		if (nsites == MAX_SITES)
			core_die("the program has more than %d system calls of its own", MAX_SITES);
		out[nsites++] = (struct stub){ { 0x0f, 0x05, 0x48, 0xb9 },
					       (uint64_t)p + 2,
					       { 0xff, 0xe1, 0xcc, 0xcc } };
	}
}

static bool is_go(const Elf64_Phdr *p)
{
	return p->p_type == PT_NOTE && p->p_filesz > 16 && !memcmp((const char *)p->p_vaddr + 12, "Go\0", 4);
}

static int by_site(const void *a, const void *b)
{
	uint64_t x = ((const struct stub *)a)->site, y = ((const struct stub *)b)->site;
	return (x > y) - (x < y);
}

void low_start(const struct elf_image *app)
{
	const Elf64_Phdr *p = (const void *)app->phdr;
	bool go = false;
	if (app->bias || !p) return;
	struct stub *s = mmap((void *)BY_LOW, BY_LOW_SIZE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (s != (struct stub *)BY_LOW) core_die("no memory at %#lx", (unsigned long)BY_LOW);
	for (unsigned i = 0; i < app->phnum; i++) {
		go |= is_go(&p[i]);
		if (p[i].p_type != PT_LOAD || !(p[i].p_flags & PF_X) || p[i].p_vaddr >= BY_TRAP_LO) continue;
		find_sites((const uint8_t *)p[i].p_vaddr, (const uint8_t *)p[i].p_vaddr + p[i].p_filesz, s);
	}
	qsort(s, nsites, sizeof *s, by_site);
	long r = nsites ? dispatch_on() : 0;
	if (r < 0 && go)
		core_exit_message(
			ABI_EXIT_REFUSED,
			"%s: a Go program at a fixed address needs Linux 5.11 (Syscall User Dispatch: %s); "
			"build it with -buildmode=pie",
			core_self.exe, strerror((int)-r));
	if (r < 0) nsites = 0;
	size_t used = PAGE_UP(nsites * sizeof *s);
	munmap((char *)s + used, BY_LOW_SIZE - used);
	if (used) mprotect(s, used, PROT_READ | PROT_EXEC);
}

void low_save(struct buf *b) { buf_u64(b, nsites); }

void low_restore(struct reader *r)
{
	nsites = read_u64(r);
	if (nsites > MAX_SITES) r->bad = true;
}

/* After a restart, before the main thread goes on. */
void low_again(void)
{
	long r = nsites ? dispatch_on() : 0;
	if (r < 0)
		core_die("image: the program needs Syscall User Dispatch (Linux 5.11): %s",
			 strerror((int)-r));
}
