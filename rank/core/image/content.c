/* content.c: brings back the content of files that were read and written in place, from chunks behind all
 * memory.
 *
 * A file begins empty, since pages of zeros have no chunk, and with the size that it had. Other ranks that
 * have it wait in shared.c until all is back. A death in between leaves files half written, and the image as
 * it is: the next restart writes them anew. Context: restart; content_put on any thread that reads the
 * image. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/image/content.h"
#include "core/image/image.h"

static struct back { const struct abi_vma *v; const char *path; int fd; } *backs;
static size_t n;

void content_make(const struct abi_vma *v, const char *path)
{
	struct back *more = realloc(backs, (n + 1) * sizeof *more);
	if (!more) core_die("no memory for the list of files that are brought back");
	int fd = inplace_make(path, v->prot & 07777);
	if (ftruncate(fd, 0) || ftruncate(fd, (off_t)v->file_offset))
		core_die("%s: cannot be made %lu bytes long: %s", path, v->file_offset, strerror(errno));
	if (!(v->vmflags & VMF_JOURNAL)) inplace_no_journal(path);
	backs = more;
	backs[n++] = (struct back){ v, path, fd };
}

static const struct back *at(uint64_t addr)
{
	for (size_t i = 0; i < n; i++)
		if (backs[i].v->start <= addr && addr < backs[i].v->end) return &backs[i];
	core_die("image: chunk at %#lx belongs to no file", addr);
}

void content_put(uint64_t addr, const char *p, size_t length)
{
	const struct back *x = at(addr);
	uint64_t from = addr - x->v->start, left = x->v->file_offset > from ? x->v->file_offset - from : 0;
	if (length > left) length = left;
	for (size_t done = 0; done < length; ) {
		ssize_t k = pwrite(x->fd, p + done, length - done, (off_t)(from + done));
		if (k < 0 && errno == EINTR) continue;
		if (k <= 0)
			core_die("%s: its content at the checkpoint cannot be written: %s", x->path,
				 strerror(k < 0 ? errno : EIO));
		done += (size_t)k;
	}
}

void content_end(void)
{
	for (size_t i = 0; i < n; i++)
		if (close(backs[i].fd))
			core_die("%s: its content at the checkpoint cannot be written: %s", backs[i].path,
				 strerror(errno));
	free(backs);
	backs = NULL;
	n = 0;
}
