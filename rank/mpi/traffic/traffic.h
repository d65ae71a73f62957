/* traffic.h: lower half: what is under way between ranks: messages, requests and collectives, how they come
 * to rest for a checkpoint, and what of them goes on after it.
 *
 * request.h is part of what is offered: the driver's calls of inner loops (driver/hot.inc.c) make and
 * complete requests by themselves. Context: as table.h; p2p_drain and p2p_repost_all run on the MPI thread
 * with all application threads stopped. */
#ifndef BYSSUS_TRAFFIC_H
#define BYSSUS_TRAFFIC_H
#include "request.h"

/* -- a checkpoint and a restart (drain.c, synchronous.c) -- */
void kinds_enter(void);                                 /* at the start of the process (kinds.c) */
int  drain_start(void);                                        /* after MPI_Init, and at a restart */
int  sync_start(void);                                         /* the same */
int  p2p_drain(char *why, size_t n);
int  p2p_drained(int mine);                             /* tells the others: 0, when all have drained */
int  p2p_repost_all(char *why, size_t n);
int  posted_repost_all(char *why, size_t n);

/* -- the end of a communicator (drain.c) -- */
uint32_t requests_progress(nx_t comm);          /* polls its requests; returns how many are not complete */
int  drain_comm(struct vcomm *c);
bool posted_open(const struct vcomm *c);        /* posted collectives on it may have to be posted again */
bool arrival_lead_over(struct vcomm *c);        /* what this rank has sent as a root is complete, and gone */

/* -- at MPI_Finalize -- */
void p2p_finish_buffered(void);                                /* waits for buffered sends */
bool sync_acks_gone(void);                      /* false: the real MPI still has acknowledgements to send */

/* -- routes (route.c) -- */
void route_restore_all(void);
void route_forget(nx_t comm);                                  /* NX_COMM_NULL: all */
#endif
