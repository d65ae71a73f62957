/* test_doc: address space: mmap, munmap, mremap, mprotect, madvise, brk and guard pages in random order, at chosen and
 * at given addresses; contents and protections stay; a write to a protected page faults, before and after a restart.
 *
 * The program keeps a table of its own mappings and checks one of them completely in every step; faults are caught by a
 * SIGSEGV handler that jumps back. */
#define _GNU_SOURCE
#include "app.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

enum { SLOTS = 24, PAGE = 4096, PAGES = 64, STEPS = 40 };

struct mapping {
	uint8_t *at;
	size_t pages;
	uint64_t key;
	int prot;
};

static sigjmp_buf back;

static void on_fault(int sig)
{
	(void)sig;
	siglongjmp(back, 1);
}

static int faults(volatile uint8_t *p, int write)
{
	if (sigsetjmp(back, 1))
		return 1;
	if (write)
		*p = *p;
	else
		(void)*p;
	return 0;
}

static void check(struct app *a, const struct mapping *m)
{
	if (m->prot == PROT_NONE) {
		CHECK(a, faults(m->at, 0), "a page without access is readable");
		return;
	}
	CHECK(a, wrong(m->at, m->pages * PAGE, m->key) < 0, "mapping of %zu pages at %p changed", m->pages, (void *)m->at);
	CHECK(a, faults(m->at + (m->pages - 1) * PAGE, 1) == !(m->prot & PROT_WRITE), "protection %d does not hold", m->prot);
}

static void map(struct app *a, struct mapping *m, uint64_t r)
{
	size_t len = (1 + r % PAGES) * PAGE;

	m->at = (uint8_t *)mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(a, m->at != MAP_FAILED, "mmap of %zu bytes: %s", len, strerror(errno));
	m->pages = len / PAGE, m->key = r, m->prot = PROT_READ | PROT_WRITE;
	fill(m->at, len, r);
}

/* Gives a mapping another length, wherever it then lies. */
static void resize(struct app *a, struct mapping *m, uint64_t r)
{
	size_t pages = 1 + r % PAGES;
	void *p;

	if (m->prot != (PROT_READ | PROT_WRITE))
		return;
	p = mremap(m->at, m->pages * PAGE, pages * PAGE, MREMAP_MAYMOVE);
	CHECK(a, p != MAP_FAILED, "mremap to %zu pages: %s", pages, strerror(errno));
	m->at = (uint8_t *)p;
	CHECK(a, wrong(p, (pages < m->pages ? pages : m->pages) * PAGE, m->key) < 0, "mremap changed the contents");
	m->pages = pages;
	fill(p, pages * PAGE, m->key);
}

static void protect(struct app *a, struct mapping *m, uint64_t r)
{
	static const int prots[3] = { PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE };

	m->prot = prots[r % 3];
	CHECK(a, mprotect(m->at, m->pages * PAGE, m->prot) == 0, "mprotect: %s", strerror(errno));
}

/* Drops the contents, which then read as zeroes, and writes them anew; or maps new memory over the old place. */
static void renew(struct app *a, struct mapping *m, uint64_t r)
{
	size_t len = m->pages * PAGE;

	if (m->prot != (PROT_READ | PROT_WRITE))
		return;
	if (r % 2)
		CHECK(a, madvise(m->at, len, MADV_DONTNEED) == 0, "madvise: %s", strerror(errno));
	else
		CHECK(a, mmap(m->at, len, m->prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == m->at, "mmap at a given address");
	for (size_t i = 0; i < len; i += 512)
		CHECK(a, m->at[i] == 0, "dropped memory is not zero");
	fill(m->at, len, m->key);
}

static void step(struct app *a, struct mapping *table, uint64_t r)
{
	struct mapping *m = &table[mix(r) % SLOTS];

	if (m->at == NULL) {
		map(a, m, r);
		return;
	}
	check(a, m);
	switch (r % 5) {
	case 0:
		munmap(m->at, m->pages * PAGE);
		m->at = NULL;
		break;
	case 1: resize(a, m, r >> 8); break;
	case 2: protect(a, m, r >> 8); break;
	case 3: renew(a, m, r >> 8); break;
	default: break;
	}
}

/* The heap's end goes up and down, as sbrk does it. */
static uint64_t heap_end(struct app *a, long iter)
{
	size_t n = (size_t)(mix3(a->seed, (uint64_t)iter, 5) % 100000);
	uint8_t *p = (uint8_t *)sbrk((intptr_t)n);

	CHECK(a, p != (void *)-1, "sbrk: %s", strerror(errno));
	fill(p, n, (uint64_t)iter);
	app_compute(a, a->pace);
	CHECK(a, wrong(p, n, (uint64_t)iter) < 0, "memory below the break changed");
	CHECK(a, sbrk(0) == p + n, "the break moved");
	CHECK(a, sbrk(-(intptr_t)n) == p + n, "sbrk back");
	return n;
}

int main(int argc, char **argv)
{
	static struct mapping table[SLOTS];
	struct sigaction sa = { .sa_handler = on_fault };
	struct app a;

	app_begin(&a, argc, argv);
	sigaction(SIGSEGV, &sa, NULL);
	for (long iter = 0; iter < a.iters; iter++) {
		uint64_t sum = 0, key = mix3(a.seed, (uint64_t)iter, (uint64_t)a.rank);
		app_progress(&a, iter);
		for (uint64_t i = 0; i < STEPS; i++)
			step(&a, table, mix2(key, i));
		for (int i = 0; i < SLOTS; i++)
			sum = mix3(sum, table[i].at ? table[i].key + table[i].pages : 0, (uint64_t)table[i].prot);
		sum = mix2(sum, heap_end(&a, iter));
		for (int i = 0; i < SLOTS; i++)
			if (table[i].at)
				check(&a, &table[i]);
		MPI_Barrier(MPI_COMM_WORLD);
		app_result(&a, iter, "memory", sum);
	}
	return app_end(&a);
}
