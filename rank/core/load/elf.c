/* elf.c: reads ELF files: may the file be run, what does it need, and maps it into the arena as the kernel
 * would.
 *
 * Context: start-up, on the lower half's FS. elf_check, and elf_map on a damaged file, end the process. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/base/agent/agent.h"
#include "core/load/load.h"

enum { MAX_PHDR = 128 };
struct elf_file { int fd; uint64_t size; Elf64_Ehdr h; Elf64_Phdr p[MAX_PHDR]; };

static const char *machine_name(unsigned m)
{
	switch (m) {
	case EM_386: return "i386";
	case EM_AARCH64: return "aarch64";
	case EM_ARM: return "arm";
	case EM_PPC64: return "ppc64";
	case EM_RISCV: return "riscv";
	case EM_S390: return "s390";
	default: return "another architecture";
	}
}

static bool elf_open(const char *path, struct elf_file *f)
{
	struct stat st;
	f->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (f->fd < 0) return false;
	bool ok = fstat(f->fd, &st) == 0 && pread(f->fd, &f->h, sizeof f->h, 0) == sizeof f->h &&
		  !memcmp(f->h.e_ident, ELFMAG, SELFMAG) && f->h.e_ident[EI_CLASS] == ELFCLASS64 &&
		  f->h.e_machine == EM_X86_64 && f->h.e_phentsize == sizeof(Elf64_Phdr) &&
		  f->h.e_phnum <= MAX_PHDR &&
		  pread(f->fd, f->p, f->h.e_phnum * sizeof *f->p, (off_t)f->h.e_phoff) ==
			  (ssize_t)(f->h.e_phnum * sizeof *f->p);
	f->size = ok ? (uint64_t)st.st_size : 0;
	if (!ok) close(f->fd);
	return ok;
}

void elf_check(const char *path)
{
	struct stat st;
	unsigned char id[20] = { 0 };
	if (stat(path, &st)) core_exit_message(ABI_EXIT_NOT_FOUND, "%s: %s", path, strerror(errno));
	if (S_ISDIR(st.st_mode)) core_exit_message(ABI_EXIT_NOT_EXEC, "%s: is a directory", path);
	if (!S_ISREG(st.st_mode) || access(path, X_OK))
		core_exit_message(ABI_EXIT_NOT_EXEC, "%s: not executable", path);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		core_exit_message(ABI_EXIT_REFUSED,
				  "%s: cannot be read (%s): only a readable program can be checkpointed",
				  path, strerror(errno));
	ssize_t n = pread(fd, id, sizeof id, 0);
	close(fd);
	if (n < 4 || memcmp(id, ELFMAG, 4))
		core_exit_message(ABI_EXIT_NOT_EXEC,
				  "%s: neither an ELF program nor a script that names its interpreter", path);
	unsigned machine = id[18] | id[19] << 8;
	if (machine != EM_X86_64)
		core_exit_message(ABI_EXIT_REFUSED, "%s: is a program for %s; byssus runs x86-64 programs",
				  path, machine_name(machine));
	if (id[EI_CLASS] != ELFCLASS64)
		core_exit_message(ABI_EXIT_REFUSED, "%s: is a 32-bit program; byssus runs 64-bit programs",
				  path);
	if (st.st_mode & S_ISUID)
		core_exit_message(ABI_EXIT_REFUSED, "%s: is a setuid program; its memory may not be saved",
				  path);
	if ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP))
		core_exit_message(ABI_EXIT_REFUSED, "%s: is a setgid program; its memory may not be saved",
				  path);
	struct elf_file f;
	if (!elf_open(path, &f)) core_exit_message(ABI_EXIT_NOT_EXEC, "%s: is a damaged ELF file", path);
	close(f.fd);
	if (f.h.e_type != ET_EXEC && f.h.e_type != ET_DYN)
		core_exit_message(ABI_EXIT_NOT_EXEC, "%s: is an ELF file, but not a program", path);
	for (int i = 0; i < f.h.e_phnum; i++)
		if (f.p[i].p_type == PT_INTERP) return;
	core_exit_message(ABI_EXIT_REFUSED,
			  "%s: is a statically linked program; byssus needs one that is dynamically linked",
			  path);
}

bool elf_interpreter(const char *path, char *interp, size_t ni, char *arg, size_t na)
{
	char line[256] = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) return false;
	ssize_t n = pread(fd, line, sizeof line - 1, 0);
	close(fd);
	if (n < 3 || line[0] != '#' || line[1] != '!') return false;
	line[strcspn(line, "\n")] = 0;
	char *p = line + 2 + strspn(line + 2, " \t"), *e = p + strcspn(p, " \t"), *a = e + strspn(e, " \t");
	for (size_t k = strlen(a); k && (a[k - 1] == ' ' || a[k - 1] == '\t'); ) a[--k] = 0;
	snprintf(arg, na, "%s", a);
	*e = 0;
	snprintf(interp, ni, "%s", p);
	return *p != 0;
}

static int prot_of(uint32_t flags)
{
	return (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) |
	       (flags & PF_X ? PROT_EXEC : 0);
}

static void map_segment(const char *path, const struct elf_file *f, const Elf64_Phdr *p, uint64_t bias)
{
	int prot = prot_of(p->p_flags);
	uint64_t v = bias + p->p_vaddr, file_end = v + p->p_filesz, mem_end = v + p->p_memsz;
	if (p->p_filesz && mmap((void *)PAGE_DOWN(v), file_end - PAGE_DOWN(v), prot, MAP_PRIVATE | MAP_FIXED,
				f->fd, (off_t)PAGE_DOWN(p->p_offset)) == MAP_FAILED)
		core_die("%s: cannot map a segment at %#lx: %s", path, (unsigned long)v, strerror(errno));
	if (mem_end <= file_end) return;
	uint64_t tail = p->p_filesz ? PAGE_UP(file_end) : PAGE_DOWN(v);
	if (p->p_filesz && (file_end & (PAGE - 1)) && (prot & PROT_WRITE))
		memset((void *)file_end, 0, tail - file_end);
	if (PAGE_UP(mem_end) > tail && mmap((void *)tail, PAGE_UP(mem_end) - tail, prot,
					    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		core_die("%s: cannot map its bss at %#lx: %s", path, (unsigned long)tail, strerror(errno));
}

void elf_map(const char *path, uint64_t at, struct elf_image *out)
{
	struct elf_file f;
	uint64_t lo = ~0UL, hi = 0, align = PAGE;
	if (!elf_open(path, &f))
		core_die("%s: cannot be read as an x86-64 ELF file: %s", path, strerror(errno));
	for (int i = 0; i < f.h.e_phnum; i++) {
		const Elf64_Phdr *p = &f.p[i];
		if (p->p_type != PT_LOAD) continue;
		if (p->p_vaddr < lo) lo = p->p_vaddr;
		if (p->p_vaddr + p->p_memsz > hi) hi = p->p_vaddr + p->p_memsz;
		if (p->p_align > align) align = p->p_align;
		if (p->p_filesz > p->p_memsz || p->p_offset + p->p_filesz > f.size)
			core_die("%s: is truncated", path);
	}
	if (lo >= hi) core_die("%s: has nothing to load", path);
	*out = (struct elf_image){ .bias = f.h.e_type == ET_DYN ? (at + align - 1) & ~(align - 1) : 0,
				   .phnum = f.h.e_phnum };
	uint64_t start = PAGE_DOWN(out->bias + lo), end = PAGE_UP(out->bias + hi);
	if (start < BY_SAVED_LO || end > BY_ARENA_HI)
		core_die("%s: wants to be at %#lx, where it cannot be", path, (unsigned long)start);
	if (mmap((void *)start, end - start, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED)
		core_die("%s: cannot have the memory from %#lx to %#lx: %s", path, (unsigned long)start,
			 (unsigned long)end, strerror(errno));
	out->entry = out->bias + f.h.e_entry;
	out->end = end;
	for (int i = 0; i < f.h.e_phnum; i++) {
		const Elf64_Phdr *p = &f.p[i];
		if (p->p_type == PT_INTERP && p->p_filesz < sizeof out->interp &&
		    pread(f.fd, out->interp, p->p_filesz, (off_t)p->p_offset) < 0)
			core_die("%s: cannot be read: %s", path, strerror(errno));
		if (p->p_type == PT_GNU_STACK) out->exec_stack = (p->p_flags & PF_X) != 0;
		if (p->p_type == PT_PHDR) out->phdr = out->bias + p->p_vaddr;
		if (p->p_type != PT_LOAD) continue;
		map_segment(path, &f, p, out->bias);
		if (!out->phdr && p->p_offset <= f.h.e_phoff && f.h.e_phoff < p->p_offset + p->p_filesz)
			out->phdr = out->bias + p->p_vaddr + f.h.e_phoff - p->p_offset;
	}
	close(f.fd);
}

/* -- what a file needs ----------------------------------------------------------------------------------- */

static uint64_t file_offset(const struct elf_file *f, uint64_t vaddr)
{
	for (int i = 0; i < f->h.e_phnum; i++)
		if (f->p[i].p_type == PT_LOAD && vaddr >= f->p[i].p_vaddr &&
		    vaddr < f->p[i].p_vaddr + f->p[i].p_filesz)
			return vaddr - f->p[i].p_vaddr + f->p[i].p_offset;
	return ~0UL;
}

static void read_needs(const char *m, size_t size, const struct elf_file *f, const Elf64_Dyn *d, size_t n,
		       struct elf_needs *out)
{
	uint64_t str = ~0UL;
	for (size_t i = 0; i < n && d[i].d_tag; i++)
		if (d[i].d_tag == DT_STRTAB) str = file_offset(f, d[i].d_un.d_ptr);
	if (str >= size) return;
	for (size_t i = 0; i < n && d[i].d_tag; i++) {
		uint64_t o = str + d[i].d_un.d_val;
		if (d[i].d_tag != DT_NEEDED && d[i].d_tag != DT_RPATH && d[i].d_tag != DT_RUNPATH) continue;
		if (o >= size || !memchr(m + o, 0, size - o)) continue;
		if (d[i].d_tag == DT_RPATH) snprintf(out->rpath, sizeof out->rpath, "%s", m + o);
		if (d[i].d_tag == DT_RUNPATH) snprintf(out->runpath, sizeof out->runpath, "%s", m + o);
		if (d[i].d_tag != DT_NEEDED) continue;
		char **s = realloc(out->soname, (out->n + 1) * sizeof *s);
		if (!s) return;
		out->soname = s;
		out->soname[out->n++] = strdup(m + o);
	}
}

bool elf_needs(const char *path, struct elf_needs *out)
{
	struct elf_file f;
	*out = (struct elf_needs){ 0 };
	if (!elf_open(path, &f)) return false;
	char *m = mmap(NULL, f.size, PROT_READ, MAP_PRIVATE, f.fd, 0);
	close(f.fd);
	if (m == MAP_FAILED) return false;
	for (int i = 0; i < f.h.e_phnum; i++)
		if (f.p[i].p_type == PT_DYNAMIC && f.p[i].p_offset + f.p[i].p_filesz <= f.size)
			read_needs(m, f.size, &f, (const void *)(m + f.p[i].p_offset),
				   f.p[i].p_filesz / sizeof(Elf64_Dyn), out);
	munmap(m, f.size);
	return true;
}

void elf_needs_free(struct elf_needs *n)
{
	for (size_t i = 0; i < n->n; i++) free(n->soname[i]);
	free(n->soname);
}
