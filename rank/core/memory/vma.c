/* vma.c: lists the application's mappings from /proc/self/smaps and says of each how it is saved.
 *
 * kind ANON, STACK, BRK      pages in the image, comes back as private anonymous memory
 *      FILE_PRIVATE          changed pages in the image, the rest from the file, whose identity is recorded;
 * with VMF_WHOLE (file deleted, or one of ours) all pages in the image, comes back as anonymous memory
 *      ANON_SHARED           pages in the image once for each object, comes back as a memory file mapped
 * again FILE_SHARED           mapped from the file again; with VMF_TMPFS the pages are in the image as well
 * What cannot be saved is named in the refusals.
 *
 * For the counts in smaps the kernel looks at every page, at some 50 ns each. Nothing but the drain changes
 * what is listed once the application's threads stand, so the list of that moment is kept, and is the image's
 * too if maps, which costs nothing of that kind, still has its lines. What smaps says besides, only calls of
 * the application change. Context: ordinary lower code while the application's threads stand still. */
#define _GNU_SOURCE
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include "core/arena/arena.h"
#include "core/calls/calls.h"
#include "core/memory/memory.h"

struct line {
	uint64_t start, end, offset, inode;
	unsigned major, minor, key;
	char perms[8];
	const char *path, *flags;
};

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

/* What a word of the VmFlags line says of memory that no image can keep. */
static const char *unsaveable(const char *word)
{
	static const struct { char word[3]; const char *what;
	} known[] = {
		{ "io", "memory of a device" },
		{ "pf", "memory of a device" },
		{ "ht", "pages of hugetlbfs" },
		{ "um", "its faults are handled by userfaultfd" },
		{ "uw", "its faults are handled by userfaultfd" },
		{ "ui", "its faults are handled by userfaultfd" },
		{ "ss", "a shadow stack" },
	};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (!strncmp(word, known[i].word, 2)) return known[i].what;
	return NULL;
}

/* The words of a VmFlags line; *no is why the mapping cannot be saved, or stays as it is. */
static uint64_t flags_of(const char *s, const char **no)
{
	static const struct { char word[3]; uint64_t flag;
	} known[] = {
		{ "hg", VMF_HUGE },	 { "nh", VMF_NOHUGE },	  { "dc", VMF_DONTFORK },
		{ "dd", VMF_DONTDUMP },	 { "wf", VMF_WIPEFORK },  { "mg", VMF_MERGE },
		{ "lo", VMF_LOCKED },	 { "sr", VMF_SEQ },	  { "rr", VMF_RANDOM },
		{ "nr", VMF_NORESERVE }, { "gd", VMF_GROWSDOWN }, { "lf", VMF_ONFAULT },
		{ "dp", VMF_DROPPABLE }, { "sl", VMF_SEALED },
	};
	uint64_t f = 0;
	for (; *s && *s != '\n'; s++) {
		if (s[0] == ' ' || s[1] == ' ' || !s[1]) continue;
		if (!*no) *no = unsaveable(s);
		for (size_t i = 0; i < sizeof known / sizeof *known; i++)
			if (!strncmp(s, known[i].word, 2)) f |= known[i].flag;
		s++;
	}
	return f;
}

static void refuse(struct buf *out, unsigned *n, const struct line *l, const char *what)
{
	if (!out) return;
	buf_line(out, "pid %d memory %lx-%lx: %s%s%s", core_self.pid, l->start, l->end, what,
		 *l->path ? " " : "", l->path);
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
	if (ends_with(l->path, " (deleted)") || ours(l->path) || lazy_is_image(l->major, l->minor, l->inode))
		*flags |= VMF_WHOLE;
	return ABI_VMA_FILE_PRIVATE;
}

/* 0: refused. */
static uint32_t shared_kind(const struct line *l, uint64_t *flags, struct buf *refusals, unsigned *n)
{
	if (!strncmp(l->path, "/secretmem", 10)) {
		refuse(refusals, n, l, "memory that is hidden from the kernel (memfd_secret)");
		return 0;
	}
	if (!strncmp(l->path, "/SYSV", 5)) {
		refuse(refusals, n, l, "System V shared memory");
		return 0;
	}
	if (!strncmp(l->path, "anon_inode:", 11) ||
	    (strncmp(l->path, "/dev/zero", 9) && is_device(l->path))) {
		refuse(refusals, n, l, "memory of the device");
		return 0;
	}
	bool named = !strncmp(l->path, "[anon_shmem:", 12);     /* prctl(PR_SET_VMA) */
	if (named || ends_with(l->path, " (deleted)") || !strncmp(l->path, "/dev/zero", 9) ||
	    !strncmp(l->path, "/memfd:", 7)) {
		*flags |= VMF_DELETED;
		return ABI_VMA_ANON_SHARED;
	}
	if (is_tmpfs(l->path)) *flags |= VMF_TMPFS;
	return ABI_VMA_FILE_SHARED;
}

static void add(struct vma_list *l, const struct abi_vma *v, const struct line *from)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 1024;
		struct abi_vma *v = core_realloc(l->v, cap * sizeof *v);
		if (v) l->v = v;
		struct vma_id *id = core_realloc(l->id, cap * sizeof *id);
		if (id) l->id = id;
		if (!v || !id) l->bad = true;
		if (!v || !id) return;
		l->cap = cap;
	}
	l->id[l->n] = (struct vma_id){ makedev(from->major, from->minor), from->inode };
	l->v[l->n++] = *v;
}

/* Not the application's. */
static bool outside(const struct line *l)
{
	return l->end > BY_ARENA_HI || l->start < BY_SAVED_LO ||
	       (l->start >= BY_CTL && l->start < BY_CTL + BY_CTL_SIZE);
}

static void take(struct vma_list *out, const struct line *l, struct buf *refusals, unsigned *n)
{
	bool shared = l->perms[3] == 's';
	const char *no = NULL;
	struct abi_vma v = { .start = l->start, .end = l->end, .file_offset = l->offset };
	if (!strncmp(l->path, "/[aio]", 6)) {   /* the kernel's choice of address; io_setup cannot be told
						 * another */
		refuse(refusals, n, l, "context of asynchronous I/O");
		return;
	}
	if (outside(l)) return;
	v.vmflags = flags_of(l->flags, &no);
	v.prot = (l->perms[0] == 'r' ? PROT_READ : 0) | (l->perms[1] == 'w' ? PROT_WRITE : 0) |
		 (l->perms[2] == 'x' ? PROT_EXEC : 0);
	v.flags = shared ? MAP_SHARED : MAP_PRIVATE;
	v.inode_key = l->inode ? inode_key_of(l->major, l->minor, l->inode) : 0;
	/* execute-only memory has one by itself */
	if (!no && l->key && v.prot != PROT_EXEC) no = "memory under a protection key";
	if (!no && shared && refusals && pages_guarded(&v)) no = "guard pages in shared memory";
	if (no) {
		refuse(refusals, n, l, no);
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
	if (sscanf(s, "%lx-%lx %7s %lx %x:%x %lu %n", &l->start, &l->end, l->perms, &l->offset, &l->major,
		   &l->minor, &l->inode, &at) < 7)
		return false;
	s[strcspn(s, "\n")] = 0;
	l->path = s + at;
	l->flags = "";
	l->key = 0;
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
	bool listed = text != NULL;
	out->bad = !listed;
	struct line l = { 0 };
	bool have = false;
	for (char *s = text; s && *s; s = next) {
		next = s + strcspn(s, "\n");
		if (*next) *next++ = 0;
		if (!strncmp(s, "VmFlags:", 8)) {
			l.flags = s + 8;
		} else if (!strncmp(s, "ProtectionKey:", 14)) {
			l.key = (unsigned)atoi(s + 14);
		} else if ((*s >= '0' && *s <= '9') || (*s >= 'a' && *s <= 'f')) {
			if (have) take(out, &l, refusals, n);
			have = parse_header(s, &l);
			if (have && !outside(&l)) buf_add(&out->lines, s, strlen(s) + 1);
		}
	}
	if (have) take(out, &l, refusals, n);
	out->bad |= out->strings.bad | out->lines.bad;
	free(text);
	if (listed || !refusals) return;
	buf_line(refusals, "pid %d: its mappings cannot be listed: /proc/self/maps cannot be read",
		 core_self.pid);
	++*n;
}

void vma_add_content(struct vma_list *l, const struct content *c)
{
	struct abi_vma v = { .start = c->start,
			     .end = c->end,
			     .file_offset = c->size,
			     .prot = c->mode,
			     .flags = MAP_SHARED,
			     .vmflags = c->journal ? VMF_JOURNAL : 0,
			     .inode_key = c->key,
			     .kind = ABI_VMA_CONTENT,
			     .name = (uint32_t)l->strings.n };
	struct line none = { 0 };
	buf_add(&l->strings, c->path, strlen(c->path) + 1);
	add(l, &v, &none);
	l->bad |= l->strings.bad;
}

void vma_free(struct vma_list *l)
{
	free(l->v);
	free(l->id);
	buf_free(&l->strings);
	buf_free(&l->lines);
	*l = (struct vma_list){ 0 };
}

/* -- the same once more ---------------------------------------------------------------------------------- */

static struct vma_list kept;

void vma_keep(struct vma_list *l)
{
	vma_free(&kept);
	kept = *l;
	*l = (struct vma_list){ 0 };
}

void vma_forget(void) { vma_free(&kept); }

static bool is_as_kept(void)
{
	size_t len, at = 0;
	char *text = slurp("/proc/thread-self/maps", &len), *next;
	bool same = text && len && kept.n && !kept.bad;
	for (char *s = text; same && *s; s = next) {
		struct line now;
		next = s + strcspn(s, "\n");
		if (*next) *next++ = 0;
		if (!parse_header(s, &now) || outside(&now)) continue;
		size_t n = strlen(s) + 1;
		same = n <= kept.lines.n - at && !memcmp(kept.lines.p + at, s, n);
		at += n;
	}
	free(text);
	return same && at == kept.lines.n;
}

void vma_scan_again(struct vma_list *out)
{
	if (!is_as_kept()) {
		vma_scan(out, NULL, NULL);
		return;
	}
	*out = kept;
	kept = (struct vma_list){ 0 };
}
