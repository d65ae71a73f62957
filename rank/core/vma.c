/* vma.c: lists the application's mappings from /proc/self/smaps and says of each how it is saved.
 *
 * kind ANON, STACK, BRK      pages in the image, comes back as private anonymous memory
 *      FILE_PRIVATE          changed pages in the image, the rest from the file, whose identity is recorded; with
 *                            VMF_WHOLE (file deleted, or one of ours) all pages in the image, comes back as anonymous memory
 *      ANON_SHARED           pages in the image once for each object, comes back as a memory file mapped again
 *      FILE_SHARED           mapped from the file again; with VMF_TMPFS the pages are in the image as well
 * What cannot be saved is named in the refusals.
 * Context: ordinary lower code while the application's threads stand still. */
#define _GNU_SOURCE
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include "internal.h"

struct line { uint64_t start, end, offset, inode; unsigned major, minor; char perms[8]; const char *path; };

static bool ends_with(const char *s, const char *tail)
{
	size_t n = strlen(s), k = strlen(tail);
	return n >= k && !strcmp(s + n - k, tail);
}

static bool is_tmpfs(const char *path)
{
	struct statfs f;
	return statfs(path, &f) == 0 && (f.f_type == TMPFS_MAGIC || f.f_type == RAMFS_MAGIC);
}

static bool is_device(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISCHR(st.st_mode);
}

/* The words of a VmFlags line; io and pf are returned in *device, ht in *hugetlb. */
static uint64_t flags_of(const char *s, bool *device, bool *hugetlb)
{
	static const struct { char word[3]; uint64_t flag; } known[] = {
		{ "hg", VMF_HUGE }, { "nh", VMF_NOHUGE }, { "dc", VMF_DONTFORK }, { "dd", VMF_DONTDUMP }, { "wf", VMF_WIPEFORK },
		{ "mg", VMF_MERGE }, { "lo", VMF_LOCKED }, { "sr", VMF_SEQ }, { "rr", VMF_RANDOM }, { "nr", VMF_NORESERVE },
		{ "gd", VMF_GROWSDOWN },
	};
	uint64_t f = 0;
	for (; *s && *s != '\n'; s++) {
		if (s[0] == ' ' || s[1] == ' ' || !s[1]) continue;
		if (!strncmp(s, "io", 2) || !strncmp(s, "pf", 2)) *device = true;
		if (!strncmp(s, "ht", 2)) *hugetlb = true;
		for (size_t i = 0; i < sizeof known / sizeof *known; i++)
			if (!strncmp(s, known[i].word, 2)) f |= known[i].flag;
		s++;
	}
	return f;
}

static void refuse(struct buf *out, unsigned *n, const struct line *l, const char *what)
{
	if (!out) return;
	buf_printf(out, "pid %d memory %lx-%lx: %s%s%s\n", core_self.pid, l->start, l->end, what, *l->path ? " " : "", l->path);
	++*n;
}

static bool ours(const char *path)
{
	size_t n = strlen(core_config.libdir);
	return !strncmp(path, core_config.libdir, n) && path[n] == '/';
}

static uint32_t private_kind(const struct line *l, uint64_t *flags)
{
	if (!l->inode) {
		if (*flags & VMF_GROWSDOWN) return ABI_VMA_STACK;
		return l->start >= space.brk_lo && l->end <= space.brk_mapped ? ABI_VMA_BRK : ABI_VMA_ANON;
	}
	if (!strcmp(l->path, "/dev/zero")) return ABI_VMA_ANON;
	if (ends_with(l->path, " (deleted)") || ours(l->path) || image_is_mapped(l->major, l->minor, l->inode)) *flags |= VMF_WHOLE;
	return ABI_VMA_FILE_PRIVATE;
}

/* 0: refused. */
static uint32_t shared_kind(const struct line *l, uint64_t *flags, struct buf *refusals, unsigned *n)
{
	if (!strncmp(l->path, "/SYSV", 5)) {
		refuse(refusals, n, l, "System V shared memory");
		return 0;
	}
	if (!strncmp(l->path, "anon_inode:", 11) || (strncmp(l->path, "/dev/zero", 9) && is_device(l->path))) {
		refuse(refusals, n, l, "memory of the device");
		return 0;
	}
	if (ends_with(l->path, " (deleted)") || !strncmp(l->path, "/dev/zero", 9) || !strncmp(l->path, "/memfd:", 7)) {
		*flags |= VMF_DELETED;
		return ABI_VMA_ANON_SHARED;
	}
	if (is_tmpfs(l->path)) *flags |= VMF_TMPFS;
	return ABI_VMA_FILE_SHARED;
}

static void add(struct vma_list *l, const struct abi_vma *v, const struct line *from)
{
	if (l->n == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 1024;
		l->v = realloc(l->v, l->cap * sizeof *l->v);
		l->id = realloc(l->id, l->cap * sizeof *l->id);
		if (!l->v || !l->id) core_die("no memory for the list of mappings");
	}
	l->id[l->n] = (struct vma_id){ makedev(from->major, from->minor), from->inode };
	l->v[l->n++] = *v;
}

static void take(struct vma_list *out, const struct line *l, const char *vmflags, struct buf *refusals, unsigned *n)
{
	bool device = false, hugetlb = false, shared = l->perms[3] == 's';
	struct abi_vma v = { .start = l->start, .end = l->end, .file_offset = l->offset };
	if (!strncmp(l->path, "/[aio]", 6)) {           /* the kernel's choice of address; io_setup cannot be told another */
		refuse(refusals, n, l, "context of asynchronous I/O");
		return;
	}
	if (l->end > BY_ARENA_HI || l->start < BY_SAVED_LO || (l->start >= BY_CTL && l->start < BY_CTL + BY_CTL_SIZE)) return;
	v.vmflags = flags_of(vmflags, &device, &hugetlb);
	v.prot = (l->perms[0] == 'r' ? PROT_READ : 0) | (l->perms[1] == 'w' ? PROT_WRITE : 0) | (l->perms[2] == 'x' ? PROT_EXEC : 0);
	v.flags = shared ? MAP_SHARED : MAP_PRIVATE;
	v.inode_key = l->inode ? inode_key(l->major, l->minor, l->inode) : 0;
	if (device || hugetlb) {
		refuse(refusals, n, l, device ? "memory of a device" : "pages of hugetlbfs");
		return;
	}
	v.kind = shared ? shared_kind(l, &v.vmflags, refusals, n) : private_kind(l, &v.vmflags);
	if (!v.kind) return;
	v.name = (uint32_t)out->strings.n;
	if (v.inode_key) buf_add(&out->strings, l->path, strlen(l->path) + 1);
	else v.name = 0;
	add(out, &v, l);
}

/* A header line: "start-end perms offset major:minor inode   path". */
static bool parse_header(char *s, struct line *l)
{
	int at = 0;
	if (sscanf(s, "%lx-%lx %7s %lx %x:%x %lu %n", &l->start, &l->end, l->perms, &l->offset, &l->major, &l->minor, &l->inode, &at) < 7) return false;
	s[strcspn(s, "\n")] = 0;
	l->path = s + at;
	return true;
}

void vma_scan(struct vma_list *out, struct buf *refusals, unsigned *n)
{
	size_t len;
	char *text = slurp("/proc/thread-self/smaps", &len), *next;
	*out = (struct vma_list){ 0 };
	buf_add(&out->strings, "", 1);
	if (!text || !len) {
		free(text);
		text = slurp("/proc/thread-self/maps", &len);
	}
	if (!text) core_die("/proc/thread-self/maps: cannot be read");
	struct line l = { 0 };
	bool have = false;
	const char *flags = "";
	for (char *s = text; *s; s = next) {
		next = s + strcspn(s, "\n");
		if (*next) *next++ = 0;
		if (!strncmp(s, "VmFlags:", 8)) {
			flags = s + 8;
		} else if ((*s >= '0' && *s <= '9') || (*s >= 'a' && *s <= 'f')) {
			if (have) take(out, &l, flags, refusals, n);
			have = parse_header(s, &l);
			flags = "";
		}
	}
	if (have) take(out, &l, flags, refusals, n);
	free(text);
}

void vma_free(struct vma_list *l)
{
	free(l->v);
	free(l->id);
	buf_free(&l->strings);
	*l = (struct vma_list){ 0 };
}
