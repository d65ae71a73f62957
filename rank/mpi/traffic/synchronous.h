/* synchronous.h: what the files of this room know of synchronous sends (synchronous.c). Context: as
 * traffic.h. */
#ifndef BYSSUS_SYNCHRONOUS_H
#define BYSSUS_SYNCHRONOUS_H
#include "../table/table.h"

/* Tags on own_world. */
enum { OWN_TAG_ACK = 1, OWN_TAG_NOTES, OWN_TAG_ANSWERS };

/* -- sends: between sync_lock and sync_unlock with MPI_THREAD_MULTIPLE -- */
void sync_lock(void);
void sync_unlock(void);
int sync_prepare(const struct vcomm *c, int dest, int tag);  /* before a synchronous send; an error class */
void sync_posted(struct vrequest *r, struct vcomm *c);          /* after it; r has peer, tag and comm */
void sync_followed(const struct vcomm *c, int dest, int tag);   /* after any other, while c->syncs */
void sync_closed(struct vrequest *r);                           /* r is complete; takes the lock */

/* -- matched messages -- */
void sync_matched(struct vmessage *m, struct vcomm *c);         /* m has just been matched in the real MPI */
void sync_received(const struct vmessage *m, struct vcomm *c);  /* its receive begins, or it has been
								 * drained */
/* While c->matched: a receive that was posted as the order-th has taken a message. */
void sync_overtaken(struct vcomm *c, int source, int tag, uint64_t order);

/* -- acknowledgements -- */
int sync_acknowledge(const struct vdrained *d); /* its receive has started */
int sync_take_acks(void);                       /* completes HELD requests */

/* -- at a checkpoint, in this order -- */
void sync_count_notes(uint64_t *counts, int step);      /* adds how many there are for rank i to counts[i *
							 * step] */
uint64_t sync_acks_sent(int world);
uint64_t sync_acks_taken(int world);
int sync_begin(const uint64_t *mine, const uint64_t *theirs, int step);    /* the numbers of notes, by rank */
bool sync_in_talks(void);                       /* some rank has notes for this one, or this one for some */
bool sync_settles(struct vrequest *r, bool *over);     /* of a send, as in the table of kinds */
int sync_converse(bool *all);   /* everything has been drained but what is matched; until all have answered */
void sync_conclude(void);               /* every send is complete, or held, or (failed) open as before */
#endif
