/* pending.h: lower half: what is different between kinds of requests when a checkpoint or a restart meets
 * them unfinished. One table: who drains, completes and posts again walks it, and knows no kind.
 *
 * A kind is entered from above, at the start of the process (traffic/kinds.c): this room knows none. In saved
 * memory stands its number alone (struct vrequest, kind), since a later process has its code elsewhere.
 * Context: entered before the application runs, then only read; the operations as traffic.h. */
#ifndef BYSSUS_PENDING_H
#define BYSSUS_PENDING_H
#include "../table/table.h"

struct pending_kind {
	/* Must be complete before an image is made. Else it is posted again after a restart. */
	bool must_complete;
	/* Is complete only when all members of its communicator have come to it: the real one is kept. */
	bool holds_comm;
	/* What completes it is a message: source and tag may be known from the real status alone. */
	bool receives;
	/* At a checkpoint it is left as it is, though it must complete otherwise; NULL: never. */
	bool (*stays_open)(const struct vrequest *r);
	/* Whether it is complete; takes nothing. *err: with what error. NULL: the real MPI's test says all.
	 */
	bool (*look)(const struct vrequest *r, int *err);
	/* It is complete: whether the application may see so now. With look. */
	bool (*observe)(const struct vrequest *r);
	/* The real one has completed with st (NULL where nobody needed it): counts. NULL: nothing to count.
	 */
	void (*completed)(struct vrequest *r, const nx_status *st);
	/* While messages are drained: true when the ranks settle among them what its completion means;
	 * *over: it is complete for the real MPI. False: it is tested as ever. NULL: always that. */
	bool (*settles)(struct vrequest *r, bool *over);
	/* After a restart, when none of its kind has a real one: posts again those that were waiting, in
	 * their order. 0, or -1 and why. NULL: none. */
	int (*repost)(char *why, size_t n);
	/* Gives up what a request has kept besides its own memory, which goes after that; NULL: nothing. */
	void (*forget)(void *kept);
};

enum { PENDING_KINDS = 8 };                      /* NX_RQ_*, and room for more */
extern const struct pending_kind *pending_kinds[PENDING_KINDS];

void pending_enter(unsigned kind, const struct pending_kind *k);
/* Forgets the real ones of the process before, then posts again what was waiting, kind by kind in the order
 * of their numbers. */
int pending_repost_all(char *why, size_t n);

static inline const struct pending_kind *pending_of(const struct vrequest *r)
{
	return pending_kinds[r->kind];
}
#endif
