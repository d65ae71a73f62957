/* pages.c: which pages of the mappings have content that only this process has.
 *
 * By PAGEMAP_SCAN where the kernel has it (Linux 6.7), else by /proc/self/pagemap, else all. Pages that were
 * never touched, and the kernel's zero page, are left out. What may not be touched in place is marked
 * RUN_BOUNCE. Context: ordinary lower code while the application's threads stand still. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/memory/memory.h"

struct scan_arg {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, inverted, mask, any, ret;
};
struct scan_region { uint64_t start, end, categories; };
#define SCAN_IOCTL _IOWR('f', 16, struct scan_arg)
enum {
	IS_FILE = 4,
	IS_PRESENT = 8,
	IS_SWAPPED = 16,
	IS_ZERO = 32,
	IS_GUARD = 256,
	REGIONS = 1024,
	ENTRIES = 4096
};
static bool knows_guards = true;                /* Linux 6.15 */

static void add(struct run_list *l, uint64_t start, uint64_t end, size_t vma, uint32_t flags)
{
	struct run *last = l->n ? &l->r[l->n - 1] : NULL;
	if (last && last->end == start && last->vma == vma && last->flags == flags) {
		last->end = end;
		return;
	}
	if (l->n == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 4096;
		struct run *r = core_realloc(l->r, cap * sizeof *r);
		if (!r) l->bad = true;
		if (!r) return;
		l->r = r;
		l->cap = cap;
	}
	l->r[l->n++] = (struct run){ start, end, (uint32_t)vma, flags };
}

/* One step of a scan; -1: this kernel cannot. Before 6.15 it does not tell guard pages, and before 6.13 has
 * none; between them they are pages in swap that cannot be read, and a checkpoint fails (write.c). */
static long scan(int fd, struct scan_arg *a)
{
	long n = knows_guards ? ioctl(fd, SCAN_IOCTL, a) : -1;
	if (n >= 0 || (knows_guards && errno != EINVAL)) return n;
	a->any &= ~(uint64_t)IS_GUARD;
	a->ret &= ~(uint64_t)IS_GUARD;
	n = a->any ? ioctl(fd, SCAN_IOCTL, a) : 0;
	if (n >= 0) knows_guards = false;
	if (!a->any) a->walk_end = a->end;
	return n;
}

/* False: this kernel cannot. What is not present (in swap, or a marker of the kernel) is read with care. */
static bool by_scan(int fd, const struct abi_vma *v, size_t i, uint32_t flags, struct run_list *out,
		    struct run_list *guards)
{
	struct scan_region r[REGIONS];
	uint64_t not = v->kind == ABI_VMA_FILE_PRIVATE ? IS_FILE | IS_ZERO : IS_ZERO;
	uint64_t content = v->vmflags & (VMF_WHOLE | VMF_DROPPABLE) ? 0 : IS_PRESENT | IS_SWAPPED;
	for (uint64_t at = v->start; at < v->end; ) {
		struct scan_arg a = { .size = sizeof a,
				      .start = at,
				      .end = v->end,
				      .vec = (uint64_t)r,
				      .vec_len = REGIONS,
				      .inverted = not,
				      .mask = not,
				      .any = content | IS_GUARD,
				      .ret = IS_PRESENT | IS_GUARD };
		long n = scan(fd, &a);
		if (n < 0) return false;
		for (long k = 0; k < n; k++) {
			if (r[k].categories & IS_GUARD) add(guards, r[k].start, r[k].end, i, 0);
			else
				add(out, r[k].start, r[k].end, i,
				    flags | (r[k].categories & IS_PRESENT ? 0 : RUN_BOUNCE));
		}
		if (a.walk_end <= at) break;
		at = a.walk_end;
	}
	return true;
}

bool pages_guarded(const struct abi_vma *v)
{
	struct scan_region r;
	struct scan_arg a = { .size = sizeof a,
			      .start = v->start,
			      .end = v->end,
			      .vec = (uint64_t)&r,
			      .vec_len = 1,
			      .max_pages = 1,
			      .any = IS_GUARD,
			      .ret = IS_GUARD };
	int fd = open("/proc/thread-self/pagemap", O_RDONLY | O_CLOEXEC);
	bool found = fd >= 0 && scan(fd, &a) > 0;
	if (fd >= 0) close(fd);
	return found;
}

static bool by_pagemap(int fd, const struct abi_vma *v, size_t i, uint32_t flags, struct run_list *out)
{
	uint64_t e[ENTRIES];
	for (uint64_t at = v->start; at < v->end; ) {
		size_t n = (v->end - at) / PAGE < ENTRIES ? (v->end - at) / PAGE : ENTRIES;
		ssize_t got = pread(fd, e, n * sizeof *e, (off_t)(at / PAGE * sizeof *e));
		if (got < (ssize_t)sizeof *e) return false;
		for (size_t k = 0; k < (size_t)got / sizeof *e; k++, at += PAGE) {
			bool present = e[k] >> 63, swapped = e[k] >> 62 & 1, file = e[k] >> 61 & 1;
			if (!(present || swapped) || (v->kind == ABI_VMA_FILE_PRIVATE && file)) continue;
			add(out, at, at + PAGE, i, flags | (present ? 0 : RUN_BOUNCE));
		}
	}
	return true;
}

/* Content of a shared object that another mapping of the list has saved already. */
static bool covered(const struct vma_list *l, size_t i)
{
	const struct abi_vma *v = &l->v[i];
	for (size_t k = 0; k < i; k++) {
		const struct abi_vma *w = &l->v[k];
		if (w->inode_key == v->inode_key && w->kind == v->kind && w->file_offset <= v->file_offset &&
		    w->file_offset + (w->end - w->start) >= v->file_offset + (v->end - v->start)) return true;
	}
	return false;
}

/* A shared object: the parts of it that are allocated, whether mapped at the moment or not. */
static void by_holes(const struct abi_vma *v, size_t i, struct run_list *out)
{
	char path[80];
	snprintf(path, sizeof path, "/proc/self/map_files/%lx-%lx", v->start, v->end);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	off_t from = (off_t)v->file_offset, end = from + (off_t)(v->end - v->start), data, hole;
	if (fd < 0 || lseek(fd, 0, SEEK_DATA) < 0) {
		if (fd < 0 || errno != ENXIO) add(out, v->start, v->end, i, RUN_BOUNCE);
		if (fd >= 0) close(fd);
		return;
	}
	for (off_t at = from; at < end && (data = lseek(fd, at, SEEK_DATA)) >= 0 && data < end; at = hole) {
		hole = lseek(fd, data, SEEK_HOLE);
		if (hole < 0 || hole > end) hole = end;
		uint64_t a = PAGE_DOWN(v->start + (uint64_t)(data - from)),
			 b = PAGE_UP(v->start + (uint64_t)(hole - from));
		add(out, a, b, i, RUN_BOUNCE);
	}
	close(fd);
}

void pages_scan(const struct vma_list *l, struct run_list *out, struct run_list *guards)
{
	int fd = open("/proc/thread-self/pagemap", O_RDONLY | O_CLOEXEC);
	*out = *guards = (struct run_list){ 0 };
	for (size_t i = 0; i < l->n; i++) {
		const struct abi_vma *v = &l->v[i];
		uint32_t flags = v->prot & PROT_READ ? 0 : RUN_BOUNCE;
		size_t had = out->n;
		bool shared = v->kind == ABI_VMA_ANON_SHARED || v->kind == ABI_VMA_FILE_SHARED;
		if (v->kind == ABI_VMA_FILE_SHARED && !(v->vmflags & VMF_TMPFS)) continue;
		if (shared) {
			if (!covered(l, i) && shared_is_saved(v->inode_key)) by_holes(v, i, out);
			continue;
		}
		if (v->vmflags & VMF_WHOLE) add(out, v->start, v->end, i, RUN_BOUNCE);
		if (fd >= 0 && by_scan(fd, v, i, flags, out, guards)) continue;
		if (v->vmflags & (VMF_WHOLE | VMF_DROPPABLE)) continue;
		out->n = had;
		if (fd >= 0 && by_pagemap(fd, v, i, flags, out)) continue;
		out->n = had;
		add(out, v->start, v->end, i, RUN_BOUNCE);
	}
	if (fd >= 0) close(fd);
}
