/* names.c: which groups the descriptions of this process are of: each member of a group has one. Context: see
 * state.h; any thread. */
#include <sched.h>
#include <string.h>
#include <unistd.h>
#include "state.h"

/* The process that changes the list, 0: none. A child that finds its parent here takes its place: it has a
 * list of its own. */
static atomic_int holder;
static struct bys_description *first;

static void hold(void)
{
	int me = getpid(), found = 0;
	while (!atomic_compare_exchange_weak(&holder, &found, me)) {
		if (found == me) sched_yield(), found = 0;
	}
}

static void let_go(void) { atomic_store(&holder, 0); }

bool snap_name(struct bys_description *d)
{
	bool taken = false;
	hold();
	for (struct bys_description *o = first; o; o = o->other)
		taken |= o->pid == d->pid && o->member == d->member && !strcmp(o->name, d->name);
	if (!taken) d->other = first, first = d;
	let_go();
	return !taken;
}

void snap_unname(struct bys_description *d)
{
	hold();
	for (struct bys_description **at = &first; *at; at = &(*at)->other)
		if (*at == d) {
			*at = d->other;
			break;
		}
	let_go();
}
