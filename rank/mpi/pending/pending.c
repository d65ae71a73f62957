/* pending.c: the table of kinds of requests. Context: as pending.h. */
#include "pending.h"

const struct pending_kind *pending_kinds[PENDING_KINDS];

void pending_enter(unsigned kind, const struct pending_kind *k) { pending_kinds[kind] = k; }

int pending_repost_all(char *why, size_t n)
{
	for (uint32_t i = NX_DYNAMIC; i < nx_high(NX_K_REQUEST); i++) RREQ(i) = 0;
	for (unsigned i = 0; i < PENDING_KINDS; i++) {
		const struct pending_kind *k = pending_kinds[i];
		if (k && k->repost && k->repost(why, n)) return -1;
	}
	return 0;
}
