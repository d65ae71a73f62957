/* heap.c: memory that is saved with the image and lies where it lay after a restart.
 *
 * Blocks of up to 256 KiB come from slabs: blocks of one size, four sizes to each power of two, so that less
 * than a fifth is lost. A slab that is empty again is given back, but for a small one of each size. Larger
 * blocks are mappings of their own. All of it is the arena's (core_arena_map), whose size is the only limit.
 * What is given out is zero. Context: lower half, any thread that runs middle code; takes the middle's lock
 * only with MPI_THREAD_MULTIPLE. */
#include <string.h>
#include "table.h"

enum { QUANTUM = 32, STEPS = 4, LARGEST = 256 << 10, CLASSES = 56, SLAB = 64 << 10, FEWEST = 8, UNIT = 4096 };

/* In front of what the caller gets: 16 bytes. of: the slab, NULL for a mapping. */
struct block { uint64_t size; struct slab *of; };
struct unused { struct unused *next; };         /* what is in a block that nobody has */
struct slab {
	struct slab *next, **link;  /* in the list of those with room; link: what points here, NULL: full */
	struct unused *unused;
	uint32_t class, taken, cut, room;       /* blocks: given out; ever; at most */
	uint64_t bytes;
};
struct heap { struct slab *with_room[CLASSES]; };

static struct heap *heap(void) { return (struct heap *)NX_TABLE(NX_REGION_HEAP); }

/* 32, 64, 96, 128, then four steps to each doubling. */
static size_t size_of_class(unsigned c)
{
	if (c < STEPS) return (size_t)QUANTUM * (c + 1);
	return (size_t)(QUANTUM * (STEPS + 1 + c % STEPS)) << (c / STEPS - 1);
}

static unsigned class_of(size_t total)
{
	if (total <= QUANTUM * STEPS) return (unsigned)((total + QUANTUM - 1) / QUANTUM - 1);
	unsigned doublings = (unsigned)(63 - __builtin_clzl((total - 1) / (QUANTUM * STEPS)));
	unsigned step = (unsigned)(((total - 1) >> doublings) / QUANTUM) - STEPS;
	return STEPS * (doublings + 1) + step;
}

/* -- slabs ----------------------------------------------------------------------------------------------- */

static void enlist(struct slab *s)
{
	struct slab **head = &heap()->with_room[s->class];
	s->next = *head;
	s->link = head;
	if (s->next) s->next->link = &s->next;
	*head = s;
}

static void delist(struct slab *s)
{
	*s->link = s->next;
	if (s->next) s->next->link = s->link;
	s->link = NULL;
}

static struct slab *slab_new(unsigned class)
{
	size_t size = size_of_class(class), room = SLAB / size < FEWEST ? FEWEST : SLAB / size;
	size_t bytes = (sizeof(struct slab) + room * size + UNIT - 1) & ~(size_t)(UNIT - 1);
	struct slab *s = core_arena_map(bytes);
	if (!s) return NULL;
	*s = (struct slab){ .class = class, .room = (uint32_t)((bytes - sizeof *s) / size), .bytes = bytes };
	enlist(s);
	return s;
}

/* Memory that was never given out is zero already. */
static struct block *slab_take(struct slab *s, size_t total)
{
	size_t size = size_of_class(s->class);
	struct block *b = (struct block *)s->unused;
	if (b) {
		s->unused = s->unused->next;
		memset(b, 0, total);
	} else {
		b = (struct block *)((char *)(s + 1) + size * s->cut++);
	}
	if (++s->taken == s->room) delist(s);
	b->size = size;
	b->of = s;
	return b;
}

static void slab_put(struct slab *s, struct block *b)
{
	struct unused *u = (struct unused *)b;
	u->next = s->unused;
	s->unused = u;
	if (s->taken-- == s->room) enlist(s);
	bool spare = s->bytes <= SLAB + UNIT && heap()->with_room[s->class] == s && !s->next;
	if (s->taken || spare) return;
	delist(s);
	core_arena_unmap(s, s->bytes);
}

/* -- blocks ---------------------------------------------------------------------------------------------- */

static struct block *mapping(size_t total)
{
	struct block *b = core_arena_map(total);
	if (b) *b = (struct block){ total, NULL };
	return b;
}

void *nx_malloc(size_t n)
{
	size_t total = n + sizeof(struct block);
	if (total < n) return NULL;
	if (total > LARGEST) {
		struct block *b = mapping(total);
		return b ? b + 1 : NULL;
	}
	unsigned class = class_of(total);
	nx_lock();
	struct slab *s = heap()->with_room[class];
	if (!s) s = slab_new(class);
	struct block *b = s ? slab_take(s, total) : NULL;
	nx_unlock();
	return b ? b + 1 : NULL;
}

void nx_free(void *p)
{
	if (!p) return;
	struct block *b = (struct block *)p - 1;
	if (!b->of) {
		core_arena_unmap(b, b->size);
		return;
	}
	nx_lock();
	slab_put(b->of, b);
	nx_unlock();
}

void *nx_memdup(const void *p, size_t n)
{
	void *q = nx_malloc(n ? n : 1);
	if (q && n) memcpy(q, p, n);
	return q;
}

char *nx_strdup(const char *s) { return nx_memdup(s, strlen(s) + 1); }
