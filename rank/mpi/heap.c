/* heap.c: memory that is saved with the image and lies where it lay after a restart.
 *
 * Segregated free lists over one saved region for up to 1 MiB, the arena's allocator above. Everything is zeroed.
 * Context: lower half, any thread that runs middle code; takes the middle's lock only with MPI_THREAD_MULTIPLE. */
#include <string.h>
#include "middle.h"

enum { MIN_SHIFT = 5, MAX_SHIFT = 20, CLASSES = MAX_SHIFT - MIN_SHIFT + 1 };
struct block { uint64_t size; struct block *next; };          /* 16 bytes in front of what the caller gets */
struct heap { uint64_t used; struct block *free[CLASSES]; };

static struct heap *heap(void) { return (struct heap *)NX_TABLE(NX_REGION_HEAP); }

static int class_of(size_t total)
{
	int c = 0;
	while (((size_t)1 << (c + MIN_SHIFT)) < total) c++;
	return c;
}

static struct block *carve(size_t size)
{
	struct heap *h = heap();
	if (!h->used) h->used = 4096;
	if (h->used + size > BY_STATE_STRIDE) return NULL;
	struct block *b = (struct block *)((char *)h + h->used);
	h->used += size;
	return b;
}

void *nx_malloc(size_t n)
{
	size_t total = n + sizeof(struct block);
	struct block *b;
	if (total > (size_t)1 << MAX_SHIFT) {
		b = core_arena_map(total);
		if (!b) return NULL;
		b->size = total;
		return b + 1;
	}
	int c = class_of(total);
	size_t size = (size_t)1 << (c + MIN_SHIFT);
	nx_lock();
	b = heap()->free[c];
	if (b) heap()->free[c] = b->next;
	else b = carve(size);
	nx_unlock();
	if (!b) return NULL;
	memset(b, 0, total);
	b->size = size;
	return b + 1;
}

void nx_free(void *p)
{
	if (!p) return;
	struct block *b = (struct block *)p - 1;
	if (b->size > (size_t)1 << MAX_SHIFT) {
		core_arena_unmap(b, b->size);
		return;
	}
	int c = class_of(b->size);
	nx_lock();
	b->next = heap()->free[c];
	heap()->free[c] = b;
	nx_unlock();
}

void *nx_memdup(const void *p, size_t n)
{
	void *q = nx_malloc(n ? n : 1);
	if (q && n) memcpy(q, p, n);
	return q;
}

char *nx_strdup(const char *s) { return nx_memdup(s, strlen(s) + 1); }
