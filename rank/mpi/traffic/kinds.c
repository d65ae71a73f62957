/* kinds.c: the kinds of requests that messages and non-blocking collectives have, for the table of pending
 * ones. Context: as traffic.h. */
#include "traffic.h"

/* A posted collective that not all members need to have posted. */
static bool collective_stays(const struct vrequest *r) { return !agree_settles(NX_COMM(r->comm), r->order); }

static const struct pending_kind send = { .must_complete = true };
static const struct pending_kind receive = { .repost = p2p_repost_all };
static const struct pending_kind matched = { .must_complete = true };
static const struct pending_kind collective = {
	.must_complete = true,
	.holds_comm = true,
	.stays_open = collective_stays,
	.poll = posted_poll,
	.repost = posted_repost_all,
	.forget = posted_forget,
};

void kinds_enter(void)
{
	pending_enter(NX_RQ_SEND, &send);
	pending_enter(NX_RQ_RECV, &receive);
	pending_enter(NX_RQ_COLL, &collective);
	pending_enter(NX_RQ_MRECV, &matched);
}
