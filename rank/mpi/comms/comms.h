/* comms.h: lower half: communicators, the groups that they are made of, and their topologies.
 *
 * Context: as table.h; comm_restore_all before the application runs. What makes a communicator is collective
 * over its members. */
#ifndef BYSSUS_COMMS_H
#define BYSSUS_COMMS_H
#include "../objects/objects.h"

/* c: the live communicator; else the error is the calling function's. */
#define LIVE(comm) \
	struct vcomm *c = comm_of(comm); \
	if (unlikely(!c)) FAIL(NX_COMM_WORLD, NX_ERR_COMM)

/* -- communicators (comm.c) -- */
void comm_describe_world(void);                                /* fills WORLD and SELF at MPI_Init */
int  comm_restore_all(char *why, size_t n);
/* takes topo; collective over the members */
int  comm_adopt(rh_t real, nx_t errh, struct vtopo *topo, nx_t *out);
void comm_sweep(void);                                         /* frees what all members have freed */
void comm_end(void);                                           /* at MPI_Finalize */

/* -- groups (group.c) -- */
nx_t group_new(int size, int rank);
struct vgroup *group_of(nx_t h);
int  peers_compare(const struct vcomm *a, const struct vcomm *b);

/* -- topologies (topo.c) -- */
size_t topo_bytes(const struct vtopo *t);
/* Replaces a real communicator without topology by one that has it, ranks unchanged. Collective. */
int topo_attach(rh_t *real, const struct vtopo *t);
#endif
