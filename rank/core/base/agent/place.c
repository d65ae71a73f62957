/* place.c: which process of a place is the rank.
 *
 * A place is what the launcher starts once for each rank. The process that it starts there may be a wrapper,
 * and so may those below it (a shell, timeout): whichever of them begins the MPI first is the rank, for good.
 * They settle that by a word in the page which they share with the agent: no process waits for another. All
 * of them are connected to the agent, which hears from the winner (PLACE) that it is the rank now; those that
 * are not have a page of their own to write to. What a program says and does for it: begin.c. Context: start
 * and restart; what is ANY_FS on any FS, also in a forked child. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include "core/base/agent/agent.h"

static struct abi_page nobody, *place = &nobody;        /* of all processes here; nobody: there is no agent */

/* -- the place ------------------------------------------------------------------------------------------- */

void place_at(struct abi_page *shared)
{
	uint64_t is = __atomic_load_n(&shared->claimed, __ATOMIC_ACQUIRE);
	const char *launcher = getenv("BYSSUS_LAUNCHER");
	place = shared;
	core_self.launcher = launcher ? atoi(launcher) : getppid();
	/* whom the launcher has started, and who has become another program since, may be outside */
	if (is && is != (uint64_t)core_self.pid) core_config.below = true;
}

unsigned long place_pid(void) { return __atomic_load_n(&place->claimed, __ATOMIC_ACQUIRE); }

bool place_is_free(void) { return !__atomic_load_n(&place->claimed, __ATOMIC_ACQUIRE); }

bool place_is_mine(void)
{
	return __atomic_load_n(&place->claimed, __ATOMIC_ACQUIRE) == (uint64_t)core_self.pid;
}

bool place_is_others(void) { return !place_is_free() && !place_is_mine(); }

bool place_take(void)
{
	uint64_t none = 0;
	return place_is_mine() || __atomic_compare_exchange_n(&place->claimed, &none, (uint64_t)core_self.pid,
							      0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* -- signals --------------------------------------------------------------------------------------------- */

/* The process's parent, 0: not to be had. */
static int parent_of(int pid)
{
	char path[32] = "/proc/", digits[12], text[512], *at = text;
	int n = 0, k = 6, parent = 0;
	for (int d = pid; d || !n; d /= 10) digits[n++] = (char)('0' + d % 10);
	while (n) path[k++] = digits[--n];
	for (const char *e = "/stat"; *e; e++) path[k++] = *e;
	long fd = raw_open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) return 0;
	long len = raw(SYS_read, fd, text, sizeof text - 1);
	raw(SYS_close, fd);
	for (long i = 0; i < len; i++)
		if (text[i] == ')') at = text + i;              /* the name before it may hold anything */
	for (at += 4; at < text + len && *at >= '0' && *at <= '9'; at++) parent = 10 * parent + (*at - '0');
	return parent;
}

bool place_sent_from_outside(const siginfo_t *si)
{
	enum { DEPTH = 64 };
	bool sent = si->si_code == SI_USER || si->si_code == SI_TKILL || si->si_code == SI_QUEUE;
	int pid = core_self.pid;
	if (si->si_pid == core_self.launcher) return false;     /* also when those in between are gone */
	for (int i = 0; sent && i < DEPTH && pid > 1; i++) {
		if (pid == si->si_pid) return false;
		if (pid == core_self.launcher) break;   /* who is above it does not belong to the job */
		pid = i ? parent_of(pid) : (int)raw(SYS_getppid);
	}
	return sent;
}

bool place_sent_by_wrapper(const siginfo_t *si)
{
	return core_config.below && place_is_mine() && si->si_code == SI_USER &&
	       si->si_pid != core_self.pid && si->si_pid != core_self.launcher &&
	       !place_sent_from_outside(si);
}
