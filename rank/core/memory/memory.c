/* memory.c: what mappings have besides their bytes: guard pages (madvise), NUMA policies (mbind), and the
 * promise that what is mapped later is locked (mlockall).
 *
 * A policy names nodes of the machine: where they are not there any more, memory comes where it comes, and it
 * is said. Context: ordinary lower code, while the application's threads stand still or do not exist yet. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "core/memory/memory.h"

enum { NODES = 1024, POLICY_OF_ADDRESS = 2, GUARD_INSTALL = 102 };
struct policy { uint64_t start, end; int32_t mode, pad; uint64_t nodes[NODES / 64]; };
struct guard { uint64_t start, end; };
static const struct guard *guards;
static uint64_t nguards, later;                 /* later: MCL_FUTURE, MCL_ONFAULT or 0 */

static uint64_t locked(void)
{
	char *text = slurp("/proc/thread-self/status", NULL);
	uint64_t kib = text ? status_field(text, "VmLck", 10) : 0;
	free(text);
	return kib;
}

/* The kernel tells it of new memory only: whether it counts as locked, and is there without having been
 * touched. */
static uint64_t locks_of_the_future(void)
{
	unsigned char there = 0;
	uint64_t before = locked();
	char *probe = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (probe == MAP_FAILED) return errno == EAGAIN ? MCL_FUTURE : 0;       /* no more may be locked */
	bool grown = locked() > before;
	if (mincore(probe, PAGE, &there)) there = 1;
	munmap(probe, PAGE);
	return !grown ? 0 : MCL_FUTURE | (there & 1 ? 0 : MCL_ONFAULT);
}

void memory_save(const struct vma_list *l, const struct run_list *g, struct buf *b)
{
	struct buf policies = { 0 };
	uint64_t n = 0;
	buf_u64(b, locks_of_the_future());
	buf_u64(b, g->n);
	for (size_t i = 0; i < g->n; i++) {
		struct guard one = { g->r[i].start, g->r[i].end };
		buf_add(b, &one, sizeof one);
	}
	for (size_t i = 0; i < l->n; i++) {
		struct policy p = { .start = l->v[i].start, .end = l->v[i].end };
		if (raw(SYS_get_mempolicy, &p.mode, p.nodes, NODES, p.start, POLICY_OF_ADDRESS)) continue;
		if (p.mode == 0) continue;
		buf_add(&policies, &p, sizeof p);
		n++;
	}
	buf_u64(b, n);
	buf_add(b, policies.p, policies.n);
	b->bad |= policies.bad;
	buf_free(&policies);
}

void memory_restore(struct reader *given)
{
	struct reader r = *given;
	later = read_u64(&r);
	nguards = read_u64(&r);
	guards = nguards <= r.n / sizeof *guards ? read_ref(&r, nguards * sizeof *guards) : NULL;
	if (nguards && !guards) core_die("image: memory: the section is damaged");
	for (uint64_t n = read_u64(&r); n && !r.bad; n--) {
		const struct policy *p = read_ref(&r, sizeof *p);
		if (p && raw(SYS_mbind, p->start, p->end - p->start, p->mode, p->nodes, NODES, 0))
			core_say("memory %lx-%lx was bound to NUMA nodes that it cannot be bound to here",
				 p->start, p->end);
	}
	if (r.bad) core_die("image: memory: the section is damaged");
}

void memory_restore_guards(void)
{
	for (uint64_t i = 0; i < nguards; i++)
		if (madvise((void *)guards[i].start, guards[i].end - guards[i].start, GUARD_INSTALL))
			core_die("image: guard pages %lx-%lx cannot be made: %s; they need Linux 6.13 (in "
				 "mappings of files 6.15)",
				 guards[i].start, guards[i].end, strerror(errno));
}

void memory_restore_lock(void)
{
	if (later && mlockall((int)later))
		core_say("memory that is mapped from now on was to be locked, and cannot be: %s",
			 strerror(errno));
}
