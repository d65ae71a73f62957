/* heap.c: the middle's saved memory (rank/mpi/table/heap.c) by itself, on an arena that this program makes.
 *
 * heap ROUNDS SEED: random blocks of all sizes are taken and given back. Each is zero when it comes, keeps what is written
 * to it, and overlaps no other; when all are given back, next to nothing is mapped; when the arena has nothing left, the answer is
 * NULL and nothing breaks. It ends with 0, or says what is wrong. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "../../../rank/mpi/table/table.h"

static size_t mapped, most, limit = 1ul << 40;
static unsigned long maps, unmaps;
static int locked;

void nx_lock(void)
{
	if (locked++) abort();
}
void nx_unlock(void)
{
	if (--locked) abort();
}

void *core_arena_map(size_t len)
{
	if (mapped + len > limit) return NULL;
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) return NULL;
	mapped += (len + 4095) & ~4095ul;
	if (mapped > most) most = mapped;
	maps++;
	return p;
}

void core_arena_unmap(void *p, size_t len)
{
	if (munmap(p, len)) abort();
	mapped -= (len + 4095) & ~4095ul;
	unmaps++;
}

static void must(int ok, const char *what)
{
	if (ok) return;
	printf("wrong: %s\n", what);
	exit(1);
}

enum { LIVE = 4000 };
static struct { unsigned char *p; size_t n; unsigned char mark; } live[LIVE];
static size_t asked;

static size_t some_size(void)
{
	unsigned r = (unsigned)rand();
	switch (r % 16) {
	case 0: return (size_t)rand() % (3 << 20);
	case 1: return ((size_t)16 << rand() % 15) - 16 + (size_t)rand() % 33;          /* around the limits of classes */
	case 2: return 0;
	case 3: case 4: case 5: return (size_t)rand() % 20000;
	default: return (size_t)rand() % 300;
	}
}

static void look(int i)
{
	for (size_t k = 0; k < live[i].n; k += k < 64 || k + 64 > live[i].n ? 1 : 61) must(live[i].p[k] == live[i].mark, "a block has kept its content");
}

static void give(int i)
{
	if (!live[i].p) return;
	look(i);
	nx_free(live[i].p);
	asked -= live[i].n;
	live[i].p = NULL;
}

static void take(int i)
{
	size_t n = some_size();
	unsigned char *p = nx_malloc(n);
	must(p != NULL && (uintptr_t)p % 16 == 0, "a block comes, and is aligned");
	for (size_t k = 0; k < n; k++) must(p[k] == 0, "a block is zero");
	live[i].p = p;
	live[i].n = n;
	live[i].mark = (unsigned char)(1 + rand() % 255);
	memset(p, live[i].mark, n);
	asked += n;
}

static void give_all(void)
{
	for (int i = 0; i < LIVE; i++) give(i);
	must(asked == 0 && mapped <= 60 * (68 << 10), "what is given back goes back to the arena");
}

/* Several GiB at once, as many messages on their way are. */
static void much(void)
{
	enum { N = 96 };
	static char *p[N];
	for (int i = 0; i < N; i++) {
		p[i] = nx_malloc(64ul << 20);
		must(p[i] != NULL, "six GiB in blocks of 64 MiB");
		p[i][0] = p[i][(64 << 20) - 1] = 1;
	}
	for (int i = 0; i < N; i++) nx_free(p[i]);
	for (int i = 0; i < N; i++) must((p[i] = nx_malloc(60000)) != NULL, "blocks of 60,000 bytes");
	for (int i = 0; i < N; i++) nx_free(p[i]);
}

/* Little is lost: the pages behind blocks of one size are little more than what was asked for. */
static void dense(size_t n)
{
	enum { N = 1000 };
	static void *p[N];
	size_t before = mapped;
	for (int i = 0; i < N; i++) p[i] = nx_malloc(n);
	double lost = (double)(mapped - before) / ((double)N * (double)(n + 16));
	if (lost > 1.30) printf("%zu bytes: %.2f of what was asked for\n", n, lost);
	must(lost <= 1.30, "little is lost");
	for (int i = 0; i < N; i++) nx_free(p[i]);
}

static void exhausted(void)
{
	static void *p[100000];
	int n = 0;
	limit = mapped + (8 << 20);
	while (n < 100000 && (p[n] = nx_malloc((size_t)rand() % 5000))) n++;
	must(n > 100 && n < 100000, "the arena is full");
	must(nx_malloc(1 << 20) == NULL && nx_malloc(~(size_t)0) == NULL && nx_malloc(~(size_t)0 - 20) == NULL, "nothing more comes");
	while (n) nx_free(p[--n]);
	must((p[0] = nx_malloc(100)) != NULL, "after all has been given back");
	nx_free(p[0]);
	limit = 1ul << 40;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 100000;
	srand(argc > 2 ? (unsigned)atoi(argv[2]) : 1);
	void *region = mmap((void *)NX_TABLE(NX_REGION_HEAP), 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	must(region == (void *)NX_TABLE(NX_REGION_HEAP), "the region");
	for (int i = 0; i < rounds; i++) {
		int k = rand() % LIVE;
		if (live[k].p) give(k);
		else take(k);
	}
	give_all();
	for (size_t n = 112; n < 200000; n = n * 5 / 4 + 7) dense(n);
	give_all();
	much();
	exhausted();
	give_all();
	char *s = nx_strdup("byssus"), *d = nx_memdup(s, 7);
	must(!strcmp(d, "byssus"), "a copy");
	nx_free(s), nx_free(d), nx_free(NULL);
	printf("%lu mappings made, %lu given back, %zu MiB at most\n", maps, unmaps, most >> 20);
	return 0;
}
