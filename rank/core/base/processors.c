/* processors.c: how many processors this rank may use.
 *
 * Context: ordinary lower code, any thread. Nothing here fails. */
#include <sys/syscall.h>
#include "core/base/base.h"

/* The kernel refuses a set with less room than its own has, however few processors are in it, and tells how
 * much of the room it has filled: this is more than any has. */
static unsigned processors(void)
{
	enum { MOST = 65536 };
	uint64_t set[MOST / 64];
	unsigned n = 0;
	long filled = raw(SYS_sched_getaffinity, 0, sizeof set, set);
	for (long i = 0; i < filled / (long)sizeof *set; i++) n += (unsigned)__builtin_popcountll(set[i]);
	return n;
}

unsigned processors_for_each(unsigned ranks)
{
	unsigned n = processors() / (ranks ? ranks : 1);
	return n ? n : 1;
}
