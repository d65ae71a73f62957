/* util.c: memory for a checkpoint, buffers that grow, reading of small files, the clock.
 *
 * Context: lower half, ordinary code. Nothing here ends the process. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "core/base/base.h"

uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000UL + (uint64_t)t.tv_nsec;
}

static volatile bool short_of_memory;

void *core_realloc(void *p, size_t n)
{
	void *q = core_fault_fails(ABI_FAULT_RANK_MEMORY) ? NULL : realloc(p, n);
	if (!q) short_of_memory = true;
	return q;
}

char *core_strdup(const char *s)
{
	char *q = core_realloc(NULL, strlen(s) + 1);
	return q ? strcpy(q, s) : NULL;
}

void core_memory_begin(void) { short_of_memory = false; }
bool core_memory_failed(void) { return short_of_memory; }

/* Growing takes address space, not memory: buffers of a checkpoint are released after it. A buffer that
 * cannot grow is bad, and is to be looked at before it is used. */
void buf_add(struct buf *b, const void *p, size_t n)
{
	if (b->bad) return;
	if (b->n + n > b->cap) {
		size_t cap = b->cap ? b->cap : 4096;
		while (cap < b->n + n) cap *= 2;
		char *q = core_realloc(b->p, cap);
		b->bad = !q;
		if (!q) return;
		b->p = q;
		b->cap = cap;
	}
	if (p) memcpy(b->p + b->n, p, n);
	else memset(b->p + b->n, 0, n);
	b->n += n;
}

void buf_line(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0) return;
	size_t at = b->n, len = (size_t)n + 1;          /* the zero at its end becomes the line feed */
	buf_add(b, NULL, len);
	if (b->bad) return;
	va_start(ap, fmt);
	vsnprintf(b->p + at, len, fmt, ap);
	va_end(ap);
	for (size_t i = at; i < b->n; i++)
		if (b->p[i] == '\n') b->p[i] = '?';
	b->p[b->n - 1] = '\n';
}

void buf_free(struct buf *b)
{
	free(b->p);
	*b = (struct buf){ 0 };
}

void buf_str(struct buf *b, const char *s)
{
	uint64_t n = strlen(s) + 1;
	buf_u64(b, n);
	buf_add(b, s, n);
	buf_add(b, NULL, (8 - n % 8) % 8);
}

char *slurp(const char *path, size_t *n)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0, cap = 16384;
	char *p = fd < 0 ? NULL : core_realloc(NULL, cap);
	while (p) {
		ssize_t k = read(fd, p + len, cap - len - 1);
		if (k < 0 && errno == EINTR) continue;
		if (k <= 0) break;
		len += (size_t)k;
		if (cap - len > 4096) continue;
		char *q = core_realloc(p, cap *= 2);
		if (!q) free(p);
		p = q;
	}
	if (fd >= 0) close(fd);
	if (p) p[len] = 0;
	if (n) *n = p ? len : 0;
	return p;
}

/* A line "Key:\tvalue" of /proc's status files. */
uint64_t status_field(const char *status, const char *key, int base)
{
	size_t k = strlen(key);
	for (const char *l = status; l; l = strchr(l, '\n')) {
		l += *l == '\n';
		if (!strncmp(l, key, k) && l[k] == ':') return strtoull(l + k + 1, NULL, base);
		if (!*l) break;
	}
	return 0;
}
