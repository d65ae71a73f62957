/* kinds.c: the kinds of requests that messages and non-blocking collectives have, for the table of pending
 * ones. Context: as traffic.h. */
#include "traffic.h"

/* A posted collective that not all members need to have posted. */
static bool collective_stays(const struct vrequest *r) { return !agree_settles(NX_COMM(r->comm), r->order); }

static void send_completed(struct vrequest *r, const nx_status *st)
{
	(void)st;
	if (unlikely(r->flags & NX_RF_SYNC)) sync_closed(r);
}

static void receive_completed(struct vrequest *r, const nx_status *st)
{
	struct vcomm *c = NX_COMM(r->comm);
	if (st && st->cancelled) return;
	if (unlikely(r->flags & NX_RF_LATE)) sync_overtaken(c, st->source, st->tag, r->order);
	count_taken(c, r->peer == NX_ANY_SOURCE ? (st ? st->source : NX_PROC_NULL) : r->peer);
}

/* Whose message it is was known when it was matched. */
static void matched_completed(struct vrequest *r, const nx_status *st)
{
	if (!st || !st->cancelled) count_taken(NX_COMM(r->comm), r->peer);
}

static const struct pending_kind send = {
	.must_complete = true,
	.completed = send_completed,
	.settles = sync_settles,
};
static const struct pending_kind receive = {
	.receives = true,
	.completed = receive_completed,
	.repost = p2p_repost_all,
};
static const struct pending_kind matched = {
	.must_complete = true,
	.receives = true,
	.completed = matched_completed,
};
static const struct pending_kind collective = {
	.must_complete = true,
	.holds_comm = true,
	.stays_open = collective_stays,
	.look = posted_look,
	.observe = posted_observe,
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
