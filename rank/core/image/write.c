/* write.c: writes the rank's memory and state into DIR/rank-RRRRR.P.img, one file for each writer thread.
 *
 *   0      header, written last: a file without it is incomplete
 *   4096   chunks: runs of pages, at most 1 MiB each, without pages of zeros; also of the content of files
 *          that are read and written in place
 *   ...    part 0 only: sections (type, checksum, length, bytes), table of mappings
 *   end    table of chunks
 * in this order, without a gap: every byte belongs to something that has a checksum. A file that is there
 * already is written over: its header is zeros, and what it has beyond the end is cut off.
 * A writer takes the next piece of memory that nobody has taken, finds the pages of zeros, and checksums each
 * 256 KiB while it is in the cache for the write. Context: the carrier, and lower threads made here, which
 * read the memory; application threads stand still. An error removes what was written and is reported; the
 * application goes on. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include "core/image/image.h"

enum { PIECE = ABI_MAX_CHUNK, STEP = 256 << 10, MAX_WRITERS = 64 };
struct writer {
	struct image *image;
	unsigned part;
	int fd, mem;                    /* mem: /proc/self/mem, for what cannot be read in place */
	char path[1200];
	char *bounce;
	uint64_t off;
	struct abi_chunk *chunks;  /* a mapping: malloc would reserve address space for this thread alone */
	size_t nchunks, room;
	pthread_t thread;
	struct core_begin begin;
	bool started;
};
struct image {
	const struct image_job *job;
	struct vma_list vmas;
	struct content_list contents;
	struct run_list pieces;         /* runs cut into pieces */
	struct run_list guards;
	volatile uint64_t next, logical;
	volatile int failed;
	volatile uint32_t begin, working;       /* writers may begin; have not ended */
	struct image_result *result;
	unsigned n;
	struct writer w[MAX_WRITERS];
};

__attribute__((format(printf, 3, 4))) static void fail_as(struct writer *w, int err, const char *fmt, ...)
{
	struct image_result *r = w->image->result;
	size_t room = sizeof r->error;
	va_list ap;
	int none = 0;
	if (!__atomic_compare_exchange_n(&w->image->failed, &none, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return;
	r->status = err ? err : 1;
	size_t at = (size_t)snprintf(r->error, room, "%s: ", w->path);
	va_start(ap, fmt);
	at += (size_t)vsnprintf(r->error + at, room - at, fmt, ap);
	va_end(ap);
	if (at < room) at += (size_t)snprintf(r->error + at, room - at, ": %s", strerror(err));
	core_ellipsis(r->error, room, (int)at);
}

static void fail(struct writer *w, const char *what, int err) { fail_as(w, err, "%s", what); }

static void fail_memory(struct writer *w, uint64_t addr, const struct abi_vma *v, int err)
{
	fail_as(w, err, "memory %lx-%lx of the mapping %lx-%lx %s cannot be read", addr, addr + PAGE,
		v->start, v->end, w->image->vmas.strings.p + v->name);
}

static void fail_content(struct writer *w, const char *path, int err)
{
	fail_as(w, err, "the content of %s cannot be read", path);
}

static bool put(struct writer *w, const void *p, size_t n)
{
	for (size_t at = 0; at < n; ) {
		ssize_t k = pwrite(w->fd, (const char *)p + at, n - at, (off_t)w->off);
		if (k < 0 && errno == EINTR) continue;
		if (k <= 0) {
			fail(w, "write", k < 0 ? errno : EIO);
			return false;
		}
		at += (size_t)k;
		w->off += (size_t)k;
	}
	return true;
}

/* -- memory ---------------------------------------------------------------------------------------------- */

static bool is_zero(const char *page)
{
	const uint64_t *p = (const uint64_t *)page;
	if (p[0] | p[1] | p[2] | p[3]) return false;
	uint64_t any = 0;
	for (size_t i = 0; i < PAGE / 8; i += 8) {
		any = p[i] | p[i + 1] | p[i + 2] | p[i + 3] | p[i + 4] | p[i + 5] | p[i + 6] | p[i + 7];
		if (any) return false;
	}
	return true;
}

static bool note_chunk(struct writer *w, const struct abi_chunk *c)
{
	enum { FIRST = 65536 };
	if (w->nchunks == w->room) {
		size_t bytes = w->room * sizeof *c, want = bytes ? 2 * bytes : FIRST * sizeof *c;
		void *p = core_fault_fails(ABI_FAULT_RANK_MEMORY) ? MAP_FAILED
			  : bytes ? mremap(w->chunks, bytes, want, MREMAP_MAYMOVE)
				  : mmap(NULL, want, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (p == MAP_FAILED) fail(w, "memory for the table of chunks", ENOMEM);
		if (p == MAP_FAILED) return false;
		w->chunks = p;
		w->room = want / sizeof *c;
	}
	w->chunks[w->nchunks++] = *c;
	return true;
}

static bool write_chunk(struct writer *w, uint64_t addr, const char *p, size_t n)
{
	struct abi_chunk c = { .addr = addr, .offset = w->off, .length = (uint32_t)n };
	for (size_t at = 0; at < n; at += STEP) {
		size_t k = n - at < STEP ? n - at : STEP;
		c.crc32c = crc32c(c.crc32c, p + at, k);
		if (!put(w, p + at, k)) return false;
	}
	if (!note_chunk(w, &c)) return false;
	__atomic_fetch_add(&core_page()->bytes_done, n, __ATOMIC_RELAXED);
	core_fault(ABI_FAULT_RANK_CHUNK);
	return true;
}

/* Pages of a piece that are not all zeros, as chunks. */
static bool write_pages(struct writer *w, uint64_t addr, const char *p, size_t n)
{
	for (size_t at = 0; at < n; ) {
		while (at < n && is_zero(p + at)) at += PAGE;
		size_t from = at;
		while (at < n && !is_zero(p + at)) at += PAGE;
		if (at > from && !write_chunk(w, addr + from, p + from, at - from)) return false;
	}
	return true;
}

static bool open_bounce(struct writer *w)
{
	if (w->bounce) return true;
	w->bounce = core_fault_fails(ABI_FAULT_RANK_MEMORY) ? (errno = ENOMEM, MAP_FAILED) :
		mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (w->bounce == MAP_FAILED) {
		w->bounce = NULL;
		fail(w, "memory for a buffer", errno);
		return false;
	}
	w->mem = open("/proc/thread-self/mem", O_RDONLY | O_CLOEXEC);
	if (w->mem < 0) fail(w, "/proc/thread-self/mem", errno);
	return w->mem >= 0;
}

/* A page without content, though it cannot be read: a guard page, or a file's mapping beyond the end of the
 * file. There the last page cannot be read either. */
static bool is_nothing(struct writer *w, const struct abi_vma *v, uint64_t addr)
{
	const struct run_list *g = &w->image->guards;
	char c;
	size_t lo = 0, hi = g->n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (g->r[mid].end <= addr) lo = mid + 1;
		else hi = mid;
	}
	if (lo < g->n && g->r[lo].start <= addr) return true;
	return v->inode_key && pread(w->mem, &c, 1, (off_t)(v->end - PAGE)) != 1;
}

/* Through /proc/self/mem, where what may not be touched can be read, and what cannot be read is an error. */
static bool write_bounced(struct writer *w, const struct abi_vma *v, uint64_t addr, size_t n)
{
	if (!open_bounce(w)) return false;
	for (size_t at = 0; at < n; ) {
		ssize_t k = pread(w->mem, w->bounce, n - at, (off_t)(addr + at));
		int err = k < 0 ? errno : EIO;
		if (k < (ssize_t)PAGE && !is_nothing(w, v, addr + at)) {
			fail_memory(w, addr + at, v, err);
			return false;
		}
		if (k < (ssize_t)PAGE) {
			at += PAGE;
			continue;
		}
		k &= ~(ssize_t)(PAGE - 1);
		if (!write_pages(w, addr + at, w->bounce, (size_t)k)) return false;
		at += (size_t)k;
	}
	return true;
}

/* Of a file, up to its end; the rest of the last page is zeros. Nobody of the job writes to it meanwhile. */
static bool write_content(struct writer *w, const struct run *r)
{
	const struct content *c = &w->image->contents.c[r->vma];
	uint64_t at = r->start - c->start;
	size_t n = r->end - r->start, want = c->size - at < n ? c->size - at : n, have = 0;
	if (!open_bounce(w)) return false;
	while (have < want) {
		ssize_t k = pread(c->fd, w->bounce + have, n - have, (off_t)(at + have));
		if (k < 0 && errno == EINTR) continue;
		if (k <= 0) fail_content(w, c->path, k < 0 ? errno : EIO);
		if (k <= 0) return false;
		have += (size_t)k;
	}
	memset(w->bounce + want, 0, n - want);
	return write_pages(w, r->start, w->bounce, n);
}

static void writer_done(struct image *im)
{
	if (__atomic_sub_fetch(&im->working, 1, __ATOMIC_SEQ_CST) == 0) futex_wake(&im->working, 1);
}

static void *writer(void *arg)
{
	struct writer *w = arg;
	struct image *im = w->image;
	while (!__atomic_load_n(&im->begin, __ATOMIC_ACQUIRE)) futex_wait(&im->begin, 0);
	for (uint64_t i;
	     !im->failed && (i = __atomic_fetch_add(&im->next, 1, __ATOMIC_RELAXED)) < im->pieces.n;) {
		const struct run *r = &im->pieces.r[i];
		size_t n = r->end - r->start;
		__atomic_fetch_add(&im->logical, n, __ATOMIC_RELAXED);
		if (w->image->job->given_up()) fail(w, "given up", ECANCELED);
		else if (r->flags & RUN_CONTENT) write_content(w, r);
		else if (r->flags & RUN_BOUNCE) write_bounced(w, &im->vmas.v[r->vma], r->start, n);
		else write_pages(w, r->start, (const char *)r->start, n);
	}
	writer_done(im);
	return NULL;
}

static bool cut_runs(const struct run_list *runs, struct run_list *out)
{
	size_t n = 0;
	for (size_t i = 0; i < runs->n; i++) n += (runs->r[i].end - runs->r[i].start + PIECE - 1) / PIECE;
	*out = (struct run_list){ .r = core_realloc(NULL, (n + 1) * sizeof *out->r), .cap = n };
	if (!out->r) return false;
	for (size_t i = 0; i < runs->n; i++)
		for (uint64_t a = runs->r[i].start; a < runs->r[i].end; a += PIECE) {
			struct run r = runs->r[i];
			r.start = a;
			if (r.end - a > PIECE) r.end = a + PIECE;
			out->r[out->n++] = r;
			core_page()->bytes_total += r.end - r.start;
		}
	return true;
}

/* -- state ----------------------------------------------------------------------------------------------- */

static void section(struct buf *out, uint32_t type, struct buf *b, uint64_t *n)
{
	struct abi_section s = { type, 0, b->n };
	buf_add(b, NULL, (8 - b->n % 8) % 8);
	s.crc32c = crc32c(crc32c(crc32c(0, &s.type, sizeof s.type), &s.length, sizeof s.length), b->p, b->n);
	out->bad |= b->bad;
	buf_add(out, &s, sizeof s);
	buf_add(out, b->p, b->n);
	buf_free(b);
	++*n;
}

static void sections(struct writer *w, struct buf *out, uint64_t *n)
{
	struct image *im = w->image;
	struct buf b = { 0 };
	for (const uint32_t *type = im->job->sections; *type; type++) {
		const char *unread = NULL;
		int err = im->job->save(*type, &im->vmas, &im->guards, &b, &unread);
		if (err) fail_content(w, unread, err);
		section(out, *type, &b, n);
	}
	buf_add(&b, im->vmas.strings.p, im->vmas.strings.n);
	section(out, ABI_SEC_STRINGS, &b, n);
}

static void describe(struct image *im, struct abi_image_header *h)
{
	struct utsname u;
	struct timespec t;
	memcpy(h->magic, ABI_IMAGE_MAGIC, sizeof h->magic);
	h->version = ABI_IMAGE_VERSION;
	h->header_size = ABI_PAGE_BYTES;
	h->rank = (uint32_t)core_job.rank;
	h->nranks = (uint32_t)core_job.nranks;
	h->nparts = im->n;
	memcpy(h->job_id, im->job->drain->job_id, sizeof h->job_id);
	h->checkpoint = im->job->drain->checkpoint;
	h->start = core_config.start;
	h->input = im->job->drain->input;
	clock_gettime(CLOCK_REALTIME, &t);
	h->created_unix_ns = (uint64_t)t.tv_sec * 1000000000UL + (uint64_t)t.tv_nsec;
	h->chunk_size = ABI_MAX_CHUNK;
	uname(&u);
	snprintf(h->kernel, sizeof h->kernel, "%.63s", u.release);
	snprintf(h->libc, sizeof h->libc, "glibc %.20s", gnu_get_libc_version());
	snprintf(h->byssus, sizeof h->byssus, "%s", BYSSUS_VERSION);
	snprintf(h->app, sizeof h->app, "%.255s", core_self.exe);
	if (im->contents.n) h->incompat = ABI_FEATURE_CONTENT;
	im->job->describe(h);
}

static bool write_tables(struct writer *w, struct abi_image_header *h)
{
	struct image *im = w->image;
	h->part = w->part;
	h->data_off = ABI_PAGE_BYTES;
	h->data_len = w->off - ABI_PAGE_BYTES;
	h->n_chunks = w->nchunks;
	uint32_t crc = 0;
	h->sections_off = h->vmas_off = w->off;
	if (w->part == 0) {
		struct buf s = { 0 };
		sections(w, &s, &h->n_sections);
		h->sections_len = s.n;
		if (s.bad) fail(w, "memory for the tables", ENOMEM);
		bool ok = !s.bad && s.n <= ABI_MAX_TABLE && put(w, s.p, s.n);
		if (s.n > ABI_MAX_TABLE)
			fail(w, "files without a name hold more than an image may have", EFBIG);
		buf_free(&s);
		h->vmas_off = w->off;
		h->n_vmas = im->vmas.n;
		crc = crc32c(0, im->vmas.v, im->vmas.n * sizeof *im->vmas.v);
		if (!ok || !put(w, im->vmas.v, im->vmas.n * sizeof *im->vmas.v)) return false;
	}
	h->chunks_off = w->off;
	h->tables_crc = crc32c(crc, w->chunks, w->nchunks * sizeof *w->chunks);
	if (!put(w, w->chunks, w->nchunks * sizeof *w->chunks)) return false;
	h->file_size = w->off;
	if (ftruncate(w->fd, (off_t)w->off)) fail(w, "cut", errno);
	return !im->failed;
}

static bool write_header(struct writer *w, struct abi_image_header *h)
{
	w->image->result->bytes += w->off;
	w->image->result->table_crc ^= h->tables_crc;
	h->header_crc = crc32c(0, h, ABI_HEADER_CRC_OFF);
	w->off = 0;
	return put(w, h, sizeof *h);
}

/* -- the whole ------------------------------------------------------------------------------------------- */

static bool open_parts(struct image *im)
{
	for (unsigned i = 0; i < im->n; i++) {
		struct writer *w = &im->w[i];
		w->image = im;
		w->part = i;
		w->off = ABI_PAGE_BYTES;
		snprintf(w->path, sizeof w->path, "%s/rank-%05d.%u.img", im->job->drain->dir, core_job.rank,
			 i);
		w->fd = open(w->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (w->fd < 0) {
			fail(w, "create", errno);
			return false;
		}
	}
	return true;
}

/* The calling thread may be the application's, inside through its window (window.c): its thread-local
 * variables and its thread control block are in the memory that is written. So it does nothing but wait,
 * without libc. */
static void write_memory(struct image *im)
{
	im->working = im->n;
	for (unsigned i = 0; i < im->n; i++) {
		struct writer *w = &im->w[i];
		int err = core_thread(&w->thread, &w->begin, SMALL_STACK, writer, w);
		w->started = !err;
		if (err) fail(w, "make a thread", err);
		if (err) writer_done(im);
	}
	__atomic_store_n(&im->begin, 1, __ATOMIC_SEQ_CST);
	futex_wake(&im->begin, MAX_WRITERS);
	for (uint32_t n; (n = im->working) != 0; ) futex_wait(&im->working, n);
	for (unsigned i = 0; i < im->n; i++)
		if (im->w[i].started) pthread_join(im->w[i].thread, NULL);
}

static void finish(struct image *im)
{
	static struct abi_image_header h[MAX_WRITERS];
	memset(h, 0, sizeof h);
	for (unsigned i = 0; i < im->n && !im->failed; i++) {
		describe(im, &h[i]);
		write_tables(&im->w[i], &h[i]);
	}
	if (core_memory_failed()) fail(&im->w[0], "memory for the tables", ENOMEM);
	if (!im->failed) core_fault(ABI_FAULT_RANK_TABLES);
	for (unsigned i = im->n; i-- > 0 && !im->failed; ) write_header(&im->w[i], &h[i]);
	if (!im->failed) core_fault(ABI_FAULT_RANK_HEADER);
}

static void close_parts(struct image *im)
{
	for (unsigned i = 0; i < im->n; i++) {
		struct writer *w = &im->w[i];
		if (w->fd >= 0 && close(w->fd) && !im->failed) fail(w, "close", errno);
		if (w->bounce) munmap(w->bounce, PIECE);
		if (w->mem >= 0) close(w->mem);
		if (w->chunks) munmap(w->chunks, w->room * sizeof *w->chunks);
	}
	for (unsigned i = 0; im->failed && i < im->n; i++)
		if (im->w[i].fd >= 0) unlink(im->w[i].path);
}

static bool list_memory(struct image *im)
{
	struct run_list runs;
	vma_scan_again(&im->vmas);
	pages_scan(&im->vmas, &runs, &im->guards);
	inplace_list(&im->contents);
	for (size_t i = 0; i < im->contents.n; i++) vma_add_content(&im->vmas, &im->contents.c[i]);
	inplace_runs(&im->contents, &runs);
	if (im->contents.unread) fail_content(&im->w[0], im->contents.unread, im->contents.error);
	bool ok = !im->vmas.bad && !runs.bad && !im->guards.bad && cut_runs(&runs, &im->pieces);
	free(runs.r);
	if (!ok) fail(&im->w[0], "memory for the list of what is to be written", ENOMEM);
	return ok;
}

void image_write(const struct image_job *job, struct image_result *r)
{
	uint64_t t = now_ns();
	struct image *im = core_fault_fails(ABI_FAULT_RANK_MEMORY) ? NULL : calloc(1, sizeof *im);
	*r = (struct image_result){ 0 };
	if (!im) {
		r->status = ENOMEM;
		snprintf(r->error, sizeof r->error, "image: no memory");
		return;
	}
	im->job = job;
	im->result = r;
	im->n = job->writers < 1 ? 1 : job->writers > MAX_WRITERS ? MAX_WRITERS : job->writers;
	for (unsigned i = 0; i < im->n; i++) im->w[i].fd = im->w[i].mem = -1;
	core_page()->bytes_done = core_page()->bytes_total = 0;
	if (open_parts(im) && list_memory(im)) {
		write_memory(im);
		finish(im);
	}
	close_parts(im);
	r->nfiles = im->n;
	r->logical = im->logical;
	r->write_ns = now_ns() - t;
	vma_free(&im->vmas);
	inplace_free(&im->contents);
	free(im->guards.r);
	free(im->pieces.r);
	free(im);
}
