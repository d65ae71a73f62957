/* protect.c: the calls of protect.h, made of those of byssus.h: a table of regions, and one description,
 * which begins with the table as it is then. Context: see state.h; one thread at a time in all of it. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "state.h"
#pragma GCC visibility push(default)
#include "protect.h"
#pragma GCC visibility pop

/* What the description is doing. LOST: a member has died, and all begin again; LOOKED: bys_restart is to
 * follow; ENDING: it has been told to, and waits. */
enum stage { NONE, LOST, LOOKED, RESTARTING, BEGUN, WAITING, ENDING };

static struct {
	atomic_flag use; /* a call is being made */
	pid_t pid;       /* who made the first one: a child does not have what is here */
	enum stage stage;
	bool said;       /* bys_protect_group has been called */
	bys_group group;
	char name[NAME];
	bys_region regions[MAX_REGIONS];
	size_t n;
	bys_desc d;
	uint64_t version; /* of the one that is waited for */
	char missed[300]; /* what bys_start said of it; empty: it is there */
} all = {.use = ATOMIC_FLAG_INIT};

static __thread char why[1024];

const char *bys_protect_error(void) { return why; }

static int __attribute__((format(printf, 2, 3))) because(int result, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(why, sizeof why, format, args);
	va_end(args);
	return result;
}

/* Whether a call may be made now; it ends with leave. */
static int come(const char *call)
{
	pid_t me = getpid();
	if (all.pid && all.pid != me)
		return because(BYS_EUSE, "%s: found a child after fork, wanted the process that began", call);
	if (atomic_flag_test_and_set(&all.use))
		return because(BYS_EUSE, "%s: found another thread in a call, wanted one at a time", call);
	all.pid = me, why[0] = 0;
	return BYS_OK;
}

static int leave(int result)
{
	atomic_flag_clear(&all.use);
	return result;
}

/* The result of a call of byssus.h, with what was said. */
static int told(const char *call, int result)
{
	return result < 0 ? because(result, "%s: %s", call, bys_error(all.d)) : result;
}

/* -- what there is to be in a snapshot ------------------------------------------------------------------- */

static bys_region *find(uint32_t id)
{
	for (size_t i = 0; i < all.n; i++)
		if (all.regions[i].id == id) return &all.regions[i];
	return NULL;
}

static int begun(const char *call, uint32_t id)
{
	return because(BYS_EUSE, "%s: region %u: found snapshots of other regions that have begun, "
		       "wanted bys_protect_end first", call, id);
}

static int protect(bys_region r, size_t count, size_t size)
{
	bys_region *old = find(r.id);
	if (!r.at || !count || !size || __builtin_mul_overflow((uint64_t)count, (uint64_t)size, &r.bytes))
		return because(BYS_EUSE, "bys_protect: region %u: found %zu elements of %zu bytes at %p, "
			       "wanted an address and at least 1 byte", r.id, count, size, r.at);
	if (old && old->at == r.at && old->bytes == r.bytes) return BYS_OK;
	if (all.stage > LOOKED) return begun("bys_protect", r.id);
	if (!old && all.n == MAX_REGIONS)
		return because(BYS_EUSE, "bys_protect: region %u: wanted at most %d regions", r.id,
			       MAX_REGIONS);
	*(old ? old : &all.regions[all.n++]) = r;
	return BYS_OK;
}

int bys_protect(uint32_t id, void *at, size_t count, size_t size)
{
	if (come("bys_protect") != BYS_OK) return BYS_EUSE;
	return leave(protect((bys_region){.id = id, .at = at}, count, size));
}

static int unprotect(uint32_t id)
{
	bys_region *r = find(id);
	if (!r) return because(BYS_EUSE, "bys_unprotect: region %u: found none, wanted a protected one", id);
	if (all.stage > LOOKED) return begun("bys_unprotect", id);
	size_t behind = (size_t)(all.regions + all.n-- - (r + 1));
	memmove(r, r + 1, behind * sizeof *r);
	return BYS_OK;
}

int bys_unprotect(uint32_t id)
{
	if (come("bys_unprotect") != BYS_OK) return BYS_EUSE;
	return leave(unprotect(id));
}

int bys_protect_group(uint32_t member, uint32_t members)
{
	if (come("bys_protect_group") != BYS_OK) return BYS_EUSE;
	if (all.stage != NONE)
		return leave(because(BYS_EUSE, "bys_protect_group: found snapshots that have begun, "
				     "wanted bys_protect_end first"));
	if (member >= members)
		return leave(because(BYS_EUSE, "bys_protect_group: found member %u of %u, wanted one "
				     "below the number of members", member, members));
	all.group.member = member, all.group.members = members, all.said = true;
	return leave(BYS_OK);
}

/* -- snapshots ------------------------------------------------------------------------------------------- */

/* Who this is, if the program has not said it. */
static int meet(const char *call)
{
	struct mpi mpi = {0};
	int rank = 0, size = 0;
	if (all.said) return BYS_OK;
	const char *missing = mpi_find(&mpi);
	if (!missing && !mpi_runs(&mpi)) missing = "MPI does not run";
	if (!missing && (mpi.rank(mpi.world, &rank) || mpi.size(mpi.world, &size)))
		missing = "MPI does not say which rank this is";
	if (missing)
		return because(BYS_EUSE, "%s: found %s, wanted MPI_Init or bys_protect_group first", call,
			       missing);
	all.group.member = (uint32_t)rank, all.group.members = (uint32_t)size;
	return BYS_OK;
}

/* Whether the group has this name, or none yet. */
static int named(const char *call, const char *name)
{
	if (!name || !*name || strlen(name) >= sizeof all.name || strpbrk(name, " \t\n/."))
		return because(BYS_EUSE, "%s: found \"%.100s\", wanted a name of 1 to 63 bytes without "
			       "blanks, slashes and dots", call, name ? name : "");
	if (all.stage != NONE && strcmp(name, all.name))
		return because(BYS_EUSE, "%s: found %s, wanted %s, with which snapshots have begun", call,
			       name, all.name);
	return BYS_OK;
}

/* Begins, or goes on beginning. */
static int begin(const char *call, const char *name, bool restore, uint64_t *version, long timeout)
{
	if (!all.n) return because(BYS_EUSE, "%s: found no region, wanted bys_protect first", call);
	if (all.stage <= LOST && meet(call) != BYS_OK) return BYS_EUSE;
	snprintf(all.name, sizeof all.name, "%s", name);
	all.group.name = all.name, all.stage = RESTARTING;
	int result = restore ? bys_restore(&all.d, all.regions, all.n, &all.group, version, timeout)
			     : bys_init(&all.d, all.regions, all.n, &all.group, timeout);
	if (result != BYS_TIMEOUT) all.stage = result < 0 ? NONE : BEGUN;
	return told(call, result);
}

/* Whether a call that begins may be made now. */
static int early(const char *call, const char *name)
{
	if (named(call, name) != BYS_OK) return BYS_EUSE;
	if (all.stage <= RESTARTING) return BYS_OK;
	return because(BYS_EUSE, "%s: found snapshots that have begun, wanted it before they do", call);
}

int bys_restart(const char *name, uint64_t *version, long timeout)
{
	const char *call = "bys_restart";
	uint64_t ignored;
	if (come(call) != BYS_OK) return BYS_EUSE;
	if (early(call, name) != BYS_OK) return leave(BYS_EUSE);
	return leave(begin(call, name, true, version ? version : &ignored, timeout));
}

/* Marks the regions that are left as they are: all, but for these. */
static int mark(const char *call, const uint32_t *ids, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!find(ids[i]))
			return because(BYS_EUSE, "%s: region %u: found none, wanted a protected one", call,
				       ids[i]);
	for (size_t i = 0; i < all.n; i++) all.regions[i].capture |= BYS_LEAVE;
	for (size_t i = 0; i < n; i++) find(ids[i])->capture &= ~(uint32_t)BYS_LEAVE;
	return BYS_OK;
}

int bys_restart_some(const char *name, uint64_t *version, const uint32_t *ids, size_t n, long timeout)
{
	const char *call = "bys_restart_some";
	uint64_t ignored;
	if (come(call) != BYS_OK) return BYS_EUSE;
	if (early(call, name) != BYS_OK || mark(call, ids, n) != BYS_OK) return leave(BYS_EUSE);
	int result = begin(call, name, true, version ? version : &ignored, timeout);
	for (size_t i = 0; i < all.n; i++) all.regions[i].capture &= ~(uint32_t)BYS_LEAVE;
	return leave(result);
}

int bys_restart_look(const char *name, uint64_t *version, bys_region *regions, size_t *n, long timeout)
{
	const char *call = "bys_restart_look";
	if (come(call) != BYS_OK) return BYS_EUSE;
	if (early(call, name) != BYS_OK) return leave(BYS_EUSE);
	if (all.stage == LOST || all.stage == RESTARTING)
		return leave(because(BYS_EUSE, "%s: found snapshots that have begun, wanted bys_restart",
				     call));
	if (all.stage == NONE && meet(call) != BYS_OK) return leave(BYS_EUSE);
	snprintf(all.name, sizeof all.name, "%s", name);
	all.group.name = all.name;
	int result = bys_look(&all.d, &all.group, regions, n, version, timeout);
	all.stage = all.d ? LOOKED : NONE;
	return leave(told(call, result));
}

static int lost(const char *call)
{
	return because(BYS_EPEER, "%s: found a member that has died, wanted bys_restart of all", call);
}

/* A member that has no room is waited for by the others, and hears with them that the snapshot does not
 * count. */
static int commit(long timeout)
{
	int result = bys_commit(all.d, timeout);
	bool over = result == BYS_OK || result == BYS_EFAILED || result == BYS_EDIFFER;
	if (over || result == BYS_EPEER) all.stage = over ? BEGUN : LOST;
	if (result < 0 && all.missed[0])
		return because(result, "bys_checkpoint: %s; here %s", bys_error(all.d), all.missed);
	return told("bys_checkpoint", result);
}

static int checkpoint(const char *name, uint64_t version, long timeout)
{
	const char *call = "bys_checkpoint";
	if (named(call, name) != BYS_OK) return BYS_EUSE;
	if (all.stage == LOST) return lost(call);
	if (all.stage == LOOKED || all.stage == RESTARTING || all.stage == ENDING)
		return because(BYS_EUSE, "%s: found a call that still waits, wanted %s again first", call,
			       all.stage == ENDING ? "bys_protect_end" : "bys_restart");
	if (all.stage == WAITING && version != all.version)
		return because(BYS_EUSE, "%s: found version %lu, wanted %lu, which is still waited for", call,
			       (unsigned long)version, (unsigned long)all.version);
	if (all.stage == NONE) {
		int result = begin(call, name, false, NULL, BYS_BLOCK);
		if (result != BYS_OK) return result;
	}
	if (all.stage == BEGUN) {
		int result = bys_start(all.d, version);
		snprintf(all.missed, sizeof all.missed, "%s", result < 0 ? bys_error(all.d) : "");
		all.version = version, all.stage = WAITING;
	}
	return commit(timeout);
}

int bys_checkpoint(const char *name, uint64_t version, long timeout)
{
	if (come("bys_checkpoint") != BYS_OK) return BYS_EUSE;
	return leave(checkpoint(name, version, timeout));
}

int bys_protect_end(int keep, long timeout)
{
	if (come("bys_protect_end") != BYS_OK) return BYS_EUSE;
	if (all.stage == NONE) return leave(BYS_OK);
	if (all.stage == LOST) return leave(lost("bys_protect_end"));
	if (all.stage == LOOKED || all.stage == RESTARTING || all.stage == WAITING)
		return leave(because(BYS_EUSE, "bys_protect_end: found a call that still waits, wanted %s "
				     "again first", all.stage == WAITING ? "bys_checkpoint" : "bys_restart"));
	all.stage = ENDING;
	int result = bys_finish(&all.d, keep, timeout);
	if (result != BYS_TIMEOUT) all.stage = result == BYS_EPEER ? LOST : NONE;
	return leave(told("bys_protect_end", result));
}
