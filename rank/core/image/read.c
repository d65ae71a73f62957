/* read.c: checks an image and brings its memory back.
 *
 * Nothing of the application exists before all headers and tables have been checked. The client's regions are
 * read first; the rest by as many threads as there are idle processors, while the client starts the MPI.
 * Every chunk is verified as it is read; or, with BYSSUS_LAZY, the image is mapped and a lower thread
 * verifies it while the application runs already. Every error ends the process, with the file, what was found
 * and what was wanted. Context: restart, the main thread of the lower half, all signals blocked. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "core/base/agent/agent.h"
#include "core/calls/calls.h"
#include "core/image/content.h"
#include "core/image/fill.h"
#include "core/image/image.h"

enum { MAX_READERS = 8, READER_NICE = 10, WORTH_MAPPING = 65536, STEP = 256 << 10 };
enum { MADV_POPULATE_READ_ = 22, MADV_POPULATE_WRITE_ = 23 };   /* Linux 5.14; not in every libc's headers */
struct part {
	int fd;
	const char *map;
	char path[1200];
	struct abi_image_header h;
	struct abi_chunk *chunks;
	struct stat st;                 /* of the file, if error is 0 */
	int error;                      /* of opening it */
	ssize_t got;                    /* bytes of h */
};
static struct image_in {
	struct part *part;
	unsigned n;
	struct abi_vma *vmas;
	char *sections;
	struct reader sec[ABI_SEC_END];
	volatile uint64_t next, bytes;
	uint64_t total_chunks;
	bool filling;
} in;

/* -- checks ---------------------------------------------------------------------------------------------- */

static void read_at(struct part *p, void *out, size_t n, uint64_t off, const char *what)
{
	for (size_t at = 0; at < n; ) {
		ssize_t k = pread(p->fd, (char *)out + at, n - at, (off_t)(off + at));
		if (k < 0 && errno == EINTR) continue;
		if (k < 0) core_damaged("%s: %s: %s", p->path, what, strerror(errno));
		if (k == 0)
			core_damaged("%s: %s: the file ends at %lu, want %lu: it is truncated", p->path, what,
				     off + at, off + n);
		at += (size_t)k;
	}
}

/* What is wrong with it is said when there is an agent to hear it. */
static void open_part(struct part *p, const char *dir, unsigned i)
{
	snprintf(p->path, sizeof p->path, "%s/rank-%05d.%u.img", dir, core_job.rank, i);
	p->fd = open(p->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	p->error = p->fd < 0 || fstat(p->fd, &p->st) ? errno : 0;
	if (p->error || !S_ISREG(p->st.st_mode)) return;
	do p->got = pread(p->fd, &p->h, sizeof p->h, 0); while (p->got < 0 && errno == EINTR);
	if (p->got < 0) p->error = errno;
}

static void check_open(const struct part *p)
{
	if (p->error)
		core_damaged("%s: %s", p->path,
			     p->error == ELOOP ? "is a link, want a file" : strerror(p->error));
	if (!S_ISREG(p->st.st_mode) || p->st.st_uid != geteuid())
		core_damaged("%s: mode %o of uid %u, want a file of uid %u", p->path, p->st.st_mode,
			     p->st.st_uid, geteuid());
	if (p->got != sizeof p->h)
		core_damaged("%s: %ld bytes, want a header of %zu: it is truncated", p->path,
			     (long)p->st.st_size, sizeof p->h);
}

static void check_header(const struct part *p, unsigned i)
{
	const struct abi_image_header *h = &p->h, *first = &in.part[0].h;
	uint32_t crc = crc32c(0, h, ABI_HEADER_CRC_OFF);
	if (memcmp(h->magic, ABI_IMAGE_MAGIC, sizeof h->magic))
		core_damaged("%s: not an image, or one that was not finished", p->path);
	if (h->version < ABI_IMAGE_VERSION)
		core_damaged("%s: image format version %u is older than this byssus reads (%u)", p->path,
			     h->version, ABI_IMAGE_VERSION);
	if (h->version > ABI_IMAGE_VERSION)
		core_damaged("%s: image format version %u is newer than this byssus understands (%u)",
			     p->path, h->version, ABI_IMAGE_VERSION);
	if (crc != h->header_crc)
		core_damaged("%s: header: crc32c %08x, want %08x", p->path, crc, h->header_crc);
	if (h->incompat & ~(uint64_t)ABI_FEATURE_CONTENT)
		core_die("%s: needs features %#lx that this byssus does not have", p->path, h->incompat);
	if (h->header_size != ABI_PAGE_BYTES)
		core_damaged("%s: header of %u bytes, want %u", p->path, h->header_size, ABI_PAGE_BYTES);
	if (h->rank != (uint32_t)core_job.rank)
		core_damaged("%s: is the image of rank %u, want rank %d", p->path, h->rank, core_job.rank);
	if (h->nranks != (uint32_t)core_job.nranks)
		core_die("%s: the job had %u ranks, and is restarted with %d", p->path, h->nranks,
			 core_job.nranks);
	if (h->nparts > ABI_MAX_PARTS)
		core_damaged("%s: %u parts, at most %u", p->path, h->nparts, ABI_MAX_PARTS);
	if (h->part != i || h->nparts != first->nparts || h->checkpoint != first->checkpoint)
		core_damaged("%s: part %u of %u of checkpoint %lu, want part %u of %u of checkpoint %lu",
			     p->path, h->part, h->nparts, h->checkpoint, i, first->nparts,
			     first->checkpoint);
	if ((uint64_t)p->st.st_size != h->file_size)
		core_damaged("%s: %ld bytes, want %lu: it is truncated", p->path, (long)p->st.st_size,
			     h->file_size);
}

/* The parts of a file lie one behind the other without a gap, so that each byte has its checksum. */
static void check_layout(const struct part *p)
{
	const struct abi_image_header *h = &p->h;
	const struct { const char *name; uint64_t off, n, one, most; } run[] = {
		{ "data", h->data_off, h->data_len, 1, h->file_size },
		{ "sections", h->sections_off, h->sections_len, 1, ABI_MAX_TABLE },
		{ "table of mappings", h->vmas_off, h->n_vmas, sizeof *in.vmas, ABI_MAX_TABLE },
		{ "table of chunks", h->chunks_off, h->n_chunks, sizeof *p->chunks, ABI_MAX_TABLE },
	};
	uint64_t at = ABI_PAGE_BYTES;
	for (size_t i = 0; i < sizeof run / sizeof *run; i++) {
		if (run[i].off != at)
			core_damaged("%s: %s: at %lu, want %lu", p->path, run[i].name, run[i].off, at);
		if (run[i].n > run[i].most / run[i].one || run[i].n * run[i].one > h->file_size - at)
			core_damaged("%s: %s: %lu times %lu bytes do not fit", p->path, run[i].name, run[i].n,
				     run[i].one);
		at += run[i].n * run[i].one;
	}
	if (at != h->file_size) core_damaged("%s: its parts end at %lu, want %lu", p->path, at, h->file_size);
	if (h->part && (h->sections_len || h->n_sections || h->n_vmas))
		core_damaged("%s: sections in part %u, want them in part 0", p->path, h->part);
}

static bool is_zero(const char *p, size_t n)
{
	while (n && !p[n - 1]) n--;
	return n == 0;
}

/* Reads a table, and adds it to a checksum. Pages of zeros are not copied, and nothing here looks at them
 * again, since a kernel may have no page of zeros to share: a file that announces more than it holds (it has
 * a hole) costs address space alone. */
static void *table(struct part *p, uint64_t off, uint64_t n, size_t one, uint32_t *crc, const char *what)
{
	char *t = mmap(NULL, n * one + STEP, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *piece = malloc(STEP);
	if (t == MAP_FAILED || !piece) core_die("%s: %s: no memory for %lu entries", p->path, what, n);
	madvise(t, n * one + STEP, MADV_NOHUGEPAGE);
	for (uint64_t at = 0; at < n * one; at += STEP) {
		size_t k = n * one - at < STEP ? n * one - at : STEP;
		read_at(p, piece, k, off + at, what);
		*crc = crc32c(*crc, piece, k);
		for (size_t i = 0; i < k; i += PAGE) {
			size_t m = k - i < PAGE ? k - i : PAGE;
			if (!is_zero(piece + i, m)) memcpy(t + at + i, piece + i, m);
		}
	}
	free(piece);
	return t;
}

/* The first wrong one ends it: of a table of nothing no more is read. */
static void check_mappings(const struct part *p)
{
	for (uint64_t i = 0; i < p->h.n_vmas; i++) {
		const struct abi_vma *v = &in.vmas[i];
		bool content = v->kind == ABI_VMA_CONTENT;
		if (v->start >= v->end || v->start < (content ? ABI_CONTENT_LO : BY_SAVED_LO) ||
		    (!content && v->end > BY_ARENA_HI))
			core_damaged("%s: mapping %lu: %lx-%lx: cannot be", p->path, i, v->start, v->end);
	}
}

static void check_chunks(const struct part *p)
{
	uint64_t at = p->h.data_off;
	for (uint64_t i = 0; i < p->h.n_chunks; i++) {
		const struct abi_chunk *c = &p->chunks[i];
		bool content = p->h.incompat & ABI_FEATURE_CONTENT;
		if ((c->addr >= BY_ARENA_HI && !content) || !c->length || c->length > ABI_MAX_CHUNK ||
		    c->length % PAGE || c->offset != at || c->length > p->h.file_size - at)
			core_damaged("%s: chunk %lu: %u bytes at %#lx from offset %lu: cannot be", p->path, i,
				     c->length, c->addr, c->offset);
		at += c->length;
	}
	if (at != p->h.data_off + p->h.data_len)
		core_damaged("%s: chunks end at %lu, want %lu", p->path, at, p->h.data_off + p->h.data_len);
}

static void read_tables(struct part *p)
{
	uint32_t crc = 0, own = 0;      /* sections have their own */
	check_layout(p);
	if (p->h.part == 0) {
		in.vmas = table(p, p->h.vmas_off, p->h.n_vmas, sizeof *in.vmas, &crc, "table of mappings");
		in.sections = table(p, p->h.sections_off, p->h.sections_len, 1, &own, "sections");
	}
	p->chunks = table(p, p->h.chunks_off, p->h.n_chunks, sizeof *p->chunks, &crc, "table of chunks");
	if (crc != p->h.tables_crc)
		core_damaged("%s: tables: crc32c %08x, want %08x", p->path, crc, p->h.tables_crc);
	in.total_chunks += p->h.n_chunks;
	if (p->h.part == 0) check_mappings(p);
	check_chunks(p);
}

static void read_section(struct part *p, struct reader *r, uint64_t i)
{
	struct abi_section s;
	read_bytes(r, &s, sizeof s);
	const char *body = read_ref(r, s.length);
	if (r->bad) core_damaged("%s: section %lu: lies outside the file", p->path, i);
	uint32_t crc = crc32c(crc32c(0, &s.type, sizeof s.type), &s.length, sizeof s.length);
	crc = crc32c(crc, body, (s.length + 7) & ~7UL);
	if (crc != s.crc32c)
		core_damaged("%s: section of type %u: crc32c %08x, want %08x", p->path, s.type, crc,
			     s.crc32c);
	bool known = s.type && s.type < ABI_SEC_END;
	if (!known && !(s.type & ABI_SEC_MAY_IGNORE))
		core_die("%s: section of type %u: this byssus does not know it", p->path, s.type);
	if (known && in.sec[s.type].p) core_die("%s: section of type %u: is there twice", p->path, s.type);
	if (known) in.sec[s.type] = (struct reader){ .p = body, .n = s.length };
}

static void want_section(const struct part *p, uint32_t type)
{
	if (!in.sec[type].p) core_die("%s: section of type %u: is missing", p->path, type);
}

static void read_sections(struct part *p, const uint32_t *wanted)
{
	struct reader r = { .p = in.sections, .n = p->h.sections_len };
	for (uint64_t i = 0; i < p->h.n_sections; i++) read_section(p, &r, i);
	if (r.at != r.n)
		core_damaged("%s: sections: %lu of them end at %zu, want %zu", p->path, p->h.n_sections, r.at,
			     r.n);
	want_section(p, ABI_SEC_STRINGS);
	while (*wanted) want_section(p, *wanted++);
}

void image_open(const char *dir)
{
	struct part first = { 0 };
	open_part(&first, dir, 0);
	bool plausible = first.got == sizeof first.h &&
			 !memcmp(first.h.magic, ABI_IMAGE_MAGIC, sizeof first.h.magic) && first.h.nparts &&
			 first.h.nparts <= ABI_MAX_PARTS;
	core_job.checkpoint = plausible ? first.h.checkpoint : 0;
	snprintf(core_self.exe, sizeof core_self.exe, "%.255s", plausible ? first.h.app : "");
	in.n = plausible ? first.h.nparts : 1;
	in.part = calloc(in.n, sizeof *in.part);
	if (!in.part) core_die("no memory for %u parts", in.n);
	in.part[0] = first;
}

void image_check(const char *dir, const uint32_t *sections)
{
	for (unsigned i = 0; i < in.n; i++) {
		if (i) open_part(&in.part[i], dir, i);
		check_open(&in.part[i]);
		check_header(&in.part[i], i);
	}
	for (unsigned i = 0; i < in.n; i++) read_tables(&in.part[i]);
	read_sections(&in.part[0], sections);
	for (unsigned i = 0; i < in.n; i++) core_page()->bytes_total += in.part[i].h.data_len;
}

/* -- mappings -------------------------------------------------------------------------------------------- */

static const char *name_of(const struct abi_vma *v)
{
	const struct reader *s = &in.sec[ABI_SEC_STRINGS];
	return v->name < s->n && memchr(s->p + v->name, 0, s->n - v->name) ? s->p + v->name : "";
}

static int open_mapped(const struct abi_vma *v)
{
	const char *path = name_of(v);
	bool shared = v->kind == ABI_VMA_FILE_SHARED;
	/* Memory with a name is filled, also where this mapping is for reading only. */
	bool filled = shared && (v->vmflags & VMF_TMPFS) && !shared_theirs(v->inode_key);
	bool write = filled || (shared && (v->prot & PROT_WRITE));
	int fd = open(path, (write ? O_RDWR : O_RDONLY) | O_CLOEXEC | (filled ? O_CREAT : 0), 0600);
	if (fd < 0 && shared && !(v->prot & PROT_WRITE))
		fd = open(path, (write ? O_RDONLY : O_RDWR) | O_CLOEXEC);
	if (fd < 0) core_die("%s: was mapped at the checkpoint, and now: %s", path, strerror(errno));
	if (!filled) return fd;
	shared_claim(v->inode_key, path, fd);
	struct stat st;
	uint64_t want = v->file_offset + (v->end - v->start);
	if (fstat(fd, &st) == 0 && (uint64_t)st.st_size < want && ftruncate(fd, (off_t)want))
		core_die("%s: cannot be made %lu bytes long: %s", path, want, strerror(errno));
	return fd;
}

bool image_has_content(uint64_t key)
{
	for (uint64_t i = 0; i < in.part[0].h.n_vmas; i++)
		if (in.vmas[i].kind == ABI_VMA_FILE_SHARED && (in.vmas[i].vmflags & VMF_TMPFS) &&
		    in.vmas[i].inode_key == key)
			return !shared_theirs(key);
		else if (in.vmas[i].kind == ABI_VMA_CONTENT && in.vmas[i].inode_key == key) return true;
	return false;
}

static bool is_private(const struct abi_vma *v)
{
	return v->kind != ABI_VMA_ANON_SHARED && v->kind != ABI_VMA_FILE_SHARED && v->kind != ABI_VMA_CONTENT;
}

/* Memory that the kernel may empty at any time, and that is to be in no file: it comes back empty. */
static bool map_droppable(const struct abi_vma *v)
{
	enum { DROPPABLE = 8 };                         /* Linux 6.11 */
	void *p = mmap((void *)v->start, v->end - v->start, (int)v->prot,
		       DROPPABLE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	return p == (void *)v->start;
}

static void map_vma(const struct abi_vma *v)
{
	int prot = (int)v->prot, flags = MAP_FIXED_NOREPLACE, fd = -1;
	uint64_t off = 0;
	bool file = v->kind == ABI_VMA_FILE_SHARED ||
		    (v->kind == ABI_VMA_FILE_PRIVATE && !(v->vmflags & VMF_WHOLE));
	if (v->kind == ABI_VMA_ANON_SHARED)
		fd = shared_object(v->inode_key, name_of(v), v->file_offset + (v->end - v->start));
	else if (file) fd = open_mapped(v);
	if (fd >= 0) off = v->file_offset;
	flags |= is_private(v) ? MAP_PRIVATE : MAP_SHARED;
	if (fd < 0) flags |= MAP_ANONYMOUS;
	if (v->vmflags & VMF_NORESERVE) flags |= MAP_NORESERVE;
	if (v->vmflags & VMF_GROWSDOWN) flags |= MAP_GROWSDOWN | MAP_STACK;
	if ((v->vmflags & VMF_DROPPABLE) && map_droppable(v)) return;
	if (mmap((void *)v->start, v->end - v->start, prot, flags, fd, (off_t)off) != (void *)v->start)
		core_die("image: cannot map %lx-%lx %s: %s", v->start, v->end, name_of(v), strerror(errno));
	if (file) close(fd);
}

static void map_all(void)
{
	for (uint64_t i = 0; i < in.part[0].h.n_vmas; i++)      /* a file that is mapped may be one of them */
		if (in.vmas[i].kind == ABI_VMA_CONTENT) content_make(&in.vmas[i], name_of(&in.vmas[i]));
	for (uint64_t i = 0; i < in.part[0].h.n_vmas; i++)
		if (in.vmas[i].kind != ABI_VMA_CONTENT) map_vma(&in.vmas[i]);
}

/* -- content --------------------------------------------------------------------------------------------- */

static const struct abi_vma *vma_at(uint64_t addr)
{
	uint64_t lo = 0, hi = in.part[0].h.n_vmas;
	while (lo < hi) {
		uint64_t mid = (lo + hi) / 2;
		if (in.vmas[mid].end <= addr) lo = mid + 1;
		else hi = mid;
	}
	return lo < in.part[0].h.n_vmas && in.vmas[lo].start <= addr ? &in.vmas[lo] : NULL;
}

/* Mappings that receive chunks are writable until all have been read. */
static void open_for_writing(bool on)
{
	const struct abi_vma *last = NULL;
	for (unsigned p = 0; p < in.n; p++)
		for (uint64_t i = 0; i < in.part[p].h.n_chunks; i++) {
			const struct abi_chunk *c = &in.part[p].chunks[i];
			const struct abi_vma *v = vma_at(c->addr);
			if (!v || c->length > v->end - c->addr)
				core_die("%s: chunk %lu at %#lx belongs to no mapping", in.part[p].path, i,
					 c->addr);
			if (v == last || v->kind == ABI_VMA_CONTENT || (v->prot & PROT_WRITE)) continue;
			last = v;
			int prot = on ? PROT_READ | PROT_WRITE : (int)v->prot;
			if (mprotect((void *)v->start, v->end - v->start, prot))
				core_die("image: mprotect %lx-%lx: %s", v->start, v->end, strerror(errno));
		}
}

static void check_crc(const struct part *p, uint64_t i, uint32_t crc)
{
	const struct abi_chunk *c = &p->chunks[i];
	if (crc != c->crc32c)
		core_damaged("%s: chunk %lu at %#lx: crc32c %08x, want %08x", p->path, i, c->addr, crc,
			     c->crc32c);
}

static bool is_region(uint64_t addr)
{
	return addr >= BY_STATE && addr < BY_STATE + BY_STATE_N * BY_STATE_STRIDE;
}

/* Memory that fill_pages may give its content: nobody touches it before all has been read, and it has no
 * pages yet. */
static bool is_fillable(const struct abi_vma *v)
{
	return (v->kind == ABI_VMA_ANON || v->kind == ABI_VMA_BRK) &&
	       !(v->vmflags & (VMF_HUGE | VMF_LOCKED | VMF_GROWSDOWN)) && !is_region(v->start);
}

/* An image in memory is copied from where it lies. Others are read, which tells errors. */
static void map_part(struct part *p)
{
	struct statfs fs;
	if (fstatfs(p->fd, &fs) || (fs.f_type != TMPFS_MAGIC && fs.f_type != RAMFS_MAGIC)) return;
	void *m = mmap(NULL, p->h.file_size, PROT_READ, MAP_SHARED, p->fd, 0);
	if (m != MAP_FAILED) p->map = m;
}

/* All or nothing: what cannot be filled is read in place. */
static void fill_prepare(void)
{
	in.filling = fill_begin();
	for (uint64_t i = 0; in.filling && i < in.part[0].h.n_vmas; i++)
		if (is_fillable(&in.vmas[i]) && !fill_register(in.vmas[i].start, in.vmas[i].end)) {
			core_debug("image: userfaultfd: %lx-%lx: %s", in.vmas[i].start, in.vmas[i].end,
				   strerror(errno));
			fill_end();
			in.filling = false;
		}
	for (unsigned i = 0; in.filling && i < in.n; i++) map_part(&in.part[i]);
}

static void fill_finish(void)
{
	fill_end();
	for (unsigned i = 0; i < in.n; i++)
		if (in.part[i].map) munmap((void *)in.part[i].map, in.part[i].h.file_size);
}

static void fill_chunk(struct part *p, uint64_t i, char *buffer)
{
	const struct abi_chunk *c = &p->chunks[i];
	const char *map = p->map ? p->map + c->offset : NULL;
	uint32_t crc = 0;
	if (map && madvise((void *)map, c->length, MADV_POPULATE_READ_)) map = NULL;
	for (size_t at = 0; at < c->length; at += STEP) {
		size_t n = c->length - at < STEP ? c->length - at : STEP;
		const char *from = map ? map + at : buffer;
		if (!map) read_at(p, buffer, n, c->offset + at, "chunk");
		crc = crc32c(crc, from, n);
		if (!fill_pages((char *)c->addr + at, from, n))
			core_die("%s: chunk %lu at %#lx: userfaultfd: %s", p->path, i, c->addr,
				 strerror(errno));
	}
	check_crc(p, i, crc);
}

/* Of a file: with its checksum compared before a byte of it is written. */
static void read_content(struct part *p, uint64_t i)
{
	const struct abi_chunk *c = &p->chunks[i];
	char *b = mmap(NULL, c->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b == MAP_FAILED) core_die("no memory to read the image: %s", strerror(errno));
	read_at(p, b, c->length, c->offset, "chunk");
	check_crc(p, i, crc32c(0, b, c->length));
	content_put(c->addr, b, c->length);
	munmap(b, c->length);
}

/* In steps that stay in a processor's cache until they have been verified. */
static void read_chunk(struct part *p, uint64_t i, char *buffer)
{
	const struct abi_chunk *c = &p->chunks[i];
	char *to = (char *)c->addr;
	uint32_t crc = 0;
	if (c->addr >= ABI_CONTENT_LO) return read_content(p, i);
	if (in.filling && is_fillable(vma_at(c->addr))) return fill_chunk(p, i, buffer);
	madvise(to, c->length, MADV_POPULATE_WRITE_);           /* older kernels cannot: then page by page */
	for (size_t at = 0; at < c->length; at += STEP) {
		size_t n = c->length - at < STEP ? c->length - at : STEP;
		read_at(p, to + at, n, c->offset + at, "chunk");
		crc = crc32c(crc, to + at, n);
	}
	check_crc(p, i, crc);
}

static struct part *locate(uint64_t *i)
{
	unsigned p = 0;
	while (*i >= in.part[p].h.n_chunks) *i -= in.part[p++].h.n_chunks;
	return &in.part[p];
}

/* Reads the chunks that nobody has taken yet: those of the client's regions, or all others. */
static void read_chunks(bool regions, volatile uint64_t *next)
{
	char *buffer = mmap(NULL, STEP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buffer == MAP_FAILED) core_die("no memory to read the image: %s", strerror(errno));
	for (uint64_t i; (i = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) < in.total_chunks; ) {
		struct part *p = locate(&i);
		const struct abi_chunk *c = &p->chunks[i];
		if (is_region(c->addr) != regions) continue;
		read_chunk(p, i, buffer);
		__atomic_fetch_add(&core_page()->bytes_done, c->length, __ATOMIC_RELAXED);
		__atomic_fetch_add(&in.bytes, c->length, __ATOMIC_RELAXED);
	}
	munmap(buffer, STEP);
}

/* The MPI starts meanwhile and may spin until all its ranks have come so far: reading takes what that leaves.
 * Not the idle class: the last chunk must come even where other ranks go on and spin. */
static void *reader(void *arg)
{
	(void)arg;
	setpriority(PRIO_PROCESS, (id_t)gettid(), READER_NICE);
	read_chunks(false, &in.next);
	return NULL;
}

static struct { pthread_t t[MAX_READERS]; struct core_begin room[MAX_READERS]; unsigned n; } readers;

static void read_regions(void)
{
	volatile uint64_t next = 0;
	read_chunks(true, &next);
}

void image_start_readers(void)
{
	if (core_config.lazy) return;
	unsigned n = processors_for_each(wire.ranks_here);
	for (; readers.n < n && readers.n < MAX_READERS; readers.n++)
		if (core_thread(&readers.t[readers.n], &readers.room[readers.n], SMALL_STACK, reader, NULL))
			return;
}

static void readers_finish(void)
{
	read_chunks(false, &in.next);
	for (unsigned i = 0; i < readers.n; i++) pthread_join(readers.t[i], NULL);
}

/* -- lazily ---------------------------------------------------------------------------------------------- */

static void *scrubber(void *arg)
{
	char *b = mmap(NULL, ABI_MAX_CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	(void)arg;
	if (b == MAP_FAILED) core_die("no memory to verify the image");
	for (uint64_t k = 0; k < in.total_chunks; k++) {
		uint64_t i = k;
		struct part *p = locate(&i);
		read_at(p, b, p->chunks[i].length, p->chunks[i].offset, "chunk");
		check_crc(p, i, crc32c(0, b, p->chunks[i].length));
	}
	munmap(b, ABI_MAX_CHUNK);
	for (unsigned i = 0; i < in.n; i++) close(in.part[i].fd);
	core_debug("the image that was mapped has been verified");
	return NULL;
}

static void map_chunks(void)
{
	for (unsigned k = 0; k < in.n; k++) {
		struct part *p = &in.part[k];
		for (uint64_t i = 0, e; i < p->h.n_chunks; i = e) {
			const struct abi_chunk *c = &p->chunks[i], *last = c;
			const struct abi_vma *v = vma_at(c->addr);
			if (v->kind == ABI_VMA_CONTENT) {
				read_content(p, i);
				in.bytes += c->length;
				e = i + 1;
				continue;
			}
			for (e = i + 1; e < p->h.n_chunks; last = &p->chunks[e++])
				if (p->chunks[e].addr != last->addr + last->length ||
				    p->chunks[e].offset != last->offset + last->length ||
				    p->chunks[e].addr >= v->end)
					break;
			uint64_t n = last->addr + last->length - c->addr;
			if (is_private(v) && !(v->vmflags & VMF_GROWSDOWN) && n >= WORTH_MAPPING) {
				if (mmap((void *)c->addr, n, (int)v->prot,
					 MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, p->fd,
					 (off_t)c->offset) == MAP_FAILED)
					core_die("%s: cannot be mapped: %s", p->path, strerror(errno));
			} else {                        /* a stack has to grow, and small mappings are dear */
				read_at(p, (void *)c->addr, n, c->offset, "chunk");
			}
			in.bytes += n;
		}
	}
}

/* -- advice ---------------------------------------------------------------------------------------------- */

static void advise_all(void)
{
	static const struct { uint64_t flag; int advice;
	} advice[] = {
		{ VMF_HUGE, MADV_HUGEPAGE },	   { VMF_NOHUGE, MADV_NOHUGEPAGE },
		{ VMF_DONTFORK, MADV_DONTFORK },   { VMF_DONTDUMP, MADV_DONTDUMP },
		{ VMF_WIPEFORK, MADV_WIPEONFORK }, { VMF_DROPPABLE, MADV_WIPEONFORK },
		{ VMF_MERGE, MADV_MERGEABLE },	   { VMF_SEQ, MADV_SEQUENTIAL },
		{ VMF_RANDOM, MADV_RANDOM },
	};
	for (uint64_t i = 0; i < in.part[0].h.n_vmas; i++) {
		const struct abi_vma *v = &in.vmas[i];
		for (size_t k = 0; k < sizeof advice / sizeof *advice; k++)
			if ((v->vmflags & advice[k].flag) &&
			    madvise((void *)v->start, v->end - v->start, advice[k].advice))
				core_debug("madvise %d on %lx-%lx: %s", advice[k].advice, v->start, v->end,
					   strerror(errno));
		int on_fault = v->vmflags & VMF_ONFAULT ? MLOCK_ONFAULT : 0;
		if ((v->vmflags & VMF_LOCKED) && mlock2((void *)v->start, v->end - v->start, on_fault))
			core_say("memory %lx-%lx was locked, and cannot be: %s", v->start, v->end,
				 strerror(errno));
	}
}

/* Last: nothing can be changed about it any more. */
static void seal_all(void)
{
	enum { MSEAL = 462 };                           /* Linux 6.10 */
	for (uint64_t i = 0; i < in.part[0].h.n_vmas; i++) {
		const struct abi_vma *v = &in.vmas[i];
		if ((v->vmflags & VMF_SEALED) && syscall(MSEAL, v->start, v->end - v->start, 0))
			core_say("memory %lx-%lx was sealed, and cannot be: %s", v->start, v->end,
				 strerror(errno));
	}
}

struct reader *image_section(uint32_t type) { return &in.sec[type]; }
const char *image_path(void) { return in.part[0].path; }
const struct abi_image_header *image_header(void) { return &in.part[0].h; }

/* A header that is damaged says nothing; image_check names it. */
bool image_is_below(void)
{
	const struct part *p = &in.part[0];
	return p->got == sizeof p->h && crc32c(0, &p->h, ABI_HEADER_CRC_OFF) == p->h.header_crc && p->h.below;
}
uint64_t image_bytes(void) { return in.bytes; }

void image_begin_memory(void)
{
	map_all();
	memory_restore(&in.sec[ABI_SEC_MEMORY]);
	advise_all();                                   /* before the content: it decides about huge pages */
	open_for_writing(true);
	if (core_config.lazy) {
		for (unsigned i = 0; i < in.n; i++) lazy_maps(in.part[i].st.st_dev, in.part[i].st.st_ino);
		map_chunks();
	} else {
		fill_prepare();
		read_regions();
	}
}

void image_finish_memory(void)
{
	if (!core_config.lazy) {
		readers_finish();
		fill_finish();
	}
	open_for_writing(false);
	content_end();
	if (core_config.lazy) {
		memory_restore(&in.sec[ABI_SEC_MEMORY]);
		advise_all();
	}
	memory_restore_guards();
	seal_all();
	core_fault(ABI_FAULT_RANK_MAPPED);
}

void image_release(void)
{
	pthread_t t;
	if (core_config.lazy) {
		static struct core_begin room;
		if (core_thread(&t, &room, SMALL_STACK, scrubber, NULL))
			core_die("cannot make the thread that verifies the image");
		pthread_detach(t);
		return;
	}
	for (unsigned i = 0; i < in.n; i++) close(in.part[i].fd);
}
