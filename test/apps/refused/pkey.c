/* test_doc: has a protection key, and memory under it; both are given back. */
#include "held.h"
#include <sys/mman.h>

static int key;
static char *p;

static void hold(void)
{
	key = pkey_alloc(0, 0);
	if (key < 0) lacks("protection keys");
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(pkey_mprotect(p, 4096, PROT_READ | PROT_WRITE, key) == 0, "pkey_mprotect");
	*p = 'x';
	wants_here("has called pkey_alloc(2): a protection key: cannot be saved");
	fprintf(stderr, "wants: pid %d memory %lx-%lx: memory under a protection key\n", (int)getpid(), (unsigned long)p, (unsigned long)p + 4096);
}

static int let_go(void)
{
	must(*p == 'x' && munmap(p, 4096) == 0 && pkey_free(key) == 0, "pkey_free");
	return 1;
}
