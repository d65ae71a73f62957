/* vdso.c: gives the application a vDSO of ours, and beside it the code that is saved with the image.
 *
 * The kernel's vDSO cannot move and differs from boot to boot; the stand-in has a fixed address and fixed
 * code, and finds the real functions through the control block, which is written at every start. A thread
 * cannot be parked inside the kernel's functions. One that does nothing but read the clock is met there by
 * almost every signal: so while a stop is in effect the stand-in's functions park before they read.
 * Context: start-up, on the lower half's FS; vdso_park on the helper thread. */
#define _GNU_SOURCE
#include <elf.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include "core/arena/arena.h"
#include "core/arena/saved.h"

enum { VDSO_SIZE = 0x4000, GETTIME = 0, GETRES = 4 };

void vdso_map(void)
{
	char *b = mmap((void *)BY_VDSO, VDSO_SIZE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (b != (char *)BY_VDSO) core_die("cannot map the stand-in vDSO at %#lx", (unsigned long)BY_VDSO);
	const Elf64_Ehdr *h = (const void *)by_vdso_blob;
	const Elf64_Phdr *p = (const void *)(by_vdso_blob + h->e_phoff);
	for (int i = 0; i < h->e_phnum; i++)
		if (p[i].p_type == PT_LOAD)
			memcpy(b + p[i].p_vaddr, by_vdso_blob + p[i].p_offset, p[i].p_filesz);
	memcpy(b + (BY_PASS - BY_VDSO), by_pass_code, (size_t)(by_pass_end - by_pass_code));
	memcpy(b + (BY_PI - BY_VDSO), by_pi_code, (size_t)(by_pi_end - by_pi_code));
	memcpy(b + (BY_NOTED - BY_VDSO), by_noted_code, (size_t)(by_noted_end - by_noted_code));
	memcpy(b + (BY_VPARK - BY_VDSO), by_vpark_code, (size_t)(by_vpark_end - by_vpark_code));
	memcpy(b + (BY_ENTRY - BY_VDSO), by_entry_code, (size_t)(by_entry_end - by_entry_code));
	mprotect(b, VDSO_SIZE, PROT_READ | PROT_EXEC);
}

/* Where the kernel gives no vDSO, system calls do. They run on the application's FS. */
static ANY_FS long sys_clock_gettime(long c, void *t) { return raw(SYS_clock_gettime, c, t); }
static ANY_FS long sys_gettimeofday(void *t, void *z) { return raw(SYS_gettimeofday, t, z); }
static ANY_FS long sys_time(void *t) { return raw(SYS_time, t); }
static ANY_FS long sys_getcpu(void *c, void *n, void *x) { return raw(SYS_getcpu, c, n, x); }
static ANY_FS long sys_clock_getres(long c, void *t) { return raw(SYS_clock_getres, c, t); }

/* After a restart, clocks that have the number of a thread in them: the vDSO would hand it on to the kernel;
 * and those that go on from the image. */
static long (*real_gettime)(long, void *), (*real_getres)(long, void *);
static ANY_FS long new_clock_gettime(long c, void *t)
{
	long r = (int)c >= 0 ? real_gettime(c, t) : raw(SYS_clock_gettime, tids_clock_new((int)c), t);
	if (!r) clocks_here_to_there((int)c, t);
	return r;
}
static ANY_FS long new_clock_getres(long c, void *t)
{
	return (int)c >= 0 ? real_getres(c, t) : raw(SYS_clock_getres, tids_clock_new((int)c), t);
}

static uint32_t symbol_count(const Elf64_Sym *sym, const char *str, const uint32_t *hash)
{
	return hash ? hash[1] : (uint32_t)((str - (const char *)sym) / (long)sizeof *sym);
}

static uint64_t real_function(const char *name)
{
	const char *b = (const char *)getauxval(AT_SYSINFO_EHDR), *str = NULL;
	if (!b) return 0;
	const Elf64_Ehdr *h = (const void *)b;
	const Elf64_Phdr *p = (const void *)(b + h->e_phoff);
	const Elf64_Dyn *d = NULL;
	const Elf64_Sym *sym = NULL;
	const uint32_t *hash = NULL;
	const char *base = b;
	for (int i = 0; i < h->e_phnum; i++) {
		if (p[i].p_type == PT_DYNAMIC) d = (const void *)(b + p[i].p_offset);
		if (p[i].p_type == PT_LOAD) base = b + p[i].p_offset - p[i].p_vaddr;
	}
	for (; d && d->d_tag; d++) {
		if (d->d_tag == DT_STRTAB) str = base + d->d_un.d_ptr;
		if (d->d_tag == DT_SYMTAB) sym = (const void *)(base + d->d_un.d_ptr);
		if (d->d_tag == DT_HASH) hash = (const void *)(base + d->d_un.d_ptr);
	}
	for (uint32_t i = 0, n = sym && str ? symbol_count(sym, str, hash) : 0; i < n; i++)
		if (sym[i].st_value && !strcmp(str + sym[i].st_name, name))
			return (uint64_t)base + sym[i].st_value;
	return 0;
}

void vdso_link(void)
{
	static const struct { const char *name; void *instead;
	} fn[] = {
		{ "__vdso_clock_gettime", sys_clock_gettime },
		{ "__vdso_gettimeofday", sys_gettimeofday },
		{ "__vdso_time", sys_time },
		{ "__vdso_getcpu", sys_getcpu },
		{ "__vdso_clock_getres", sys_clock_getres },
	};
	_Static_assert(sizeof fn / sizeof *fn == BY_NVDSO, "layout.h");
	for (unsigned i = 0; i < BY_NVDSO; i++) {
		uint64_t real = real_function(fn[i].name);
		BY_CTLP->vdso_real[i] = real ? real : (uint64_t)fn[i].instead;
	}
	if (core_job.restarted) {
		real_gettime = (long (*)(long, void *))BY_CTLP->vdso_real[GETTIME];
		real_getres = (long (*)(long, void *))BY_CTLP->vdso_real[GETRES];
		BY_CTLP->vdso_real[GETTIME] = (uint64_t)new_clock_gettime;
		BY_CTLP->vdso_real[GETRES] = (uint64_t)new_clock_getres;
	}
	for (unsigned i = 0; i < BY_NVDSO; i++) BY_CTLP->vdso[i] = BY_CTLP->vdso_real[i];
}

void vdso_park(bool on)
{
	for (unsigned i = 0; i < BY_NVDSO; i++) {
		uint64_t to = on ? (uint64_t)BY_VPARK + i * BY_VPARK_SIZE : BY_CTLP->vdso_real[i];
		__atomic_store_n(&BY_CTLP->vdso[i], to, __ATOMIC_RELAXED);
	}
}
