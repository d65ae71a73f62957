/* route.c: making routes (route.h), and making them again at a restart.
 *
 * Invariant: the saved record at an index names the live communicator and the datatype of the route at that
 * index, and there is a route exactly where there is a record. Context: as traffic.h; never with
 * MPI_THREAD_MULTIPLE. */
#include "traffic.h"

static void fill(struct nx_route *r, const struct nx_routed *from)
{
	const struct vcomm *c = NX_COMM(from->comm);
	rh_t type = RTYPE(from->type);  /* 0: after a restart, a library that has not got it: its error is the
					 * call's */
	*r = (struct nx_route){
		.key = from->key,
		.c = c,
		.peer = c->peer,
		.size = (uint32_t)c->size,
		.bytes = (uint32_t)NX_TYPE(from->type)->size,
		.comm = from->comm,
		.type = from->type,
		.real_comm = RCOMM(from->comm),
		.real_type = type ? type : drv->type[NX_TYPE_NULL],
	};
}

long mid_route(uint32_t comm_key, uint32_t type_key, nx_t comm, nx_t datatype)
{
	struct nx_state *s = NX_STATE;
	const struct vcomm *c = comm_of(comm);
	if (!s->routed || !c || c->syncs || c->matched || !datatype || datatype >= NX_DYNAMIC ||
	    !RTYPE(datatype))
		return 0;
	struct nx_key key = { comm_key, type_key };
	struct nx_route *r = route_at(key);
	struct nx_routed *saved = &s->route[r - NX_ROUTE_TABLE];
	*saved = (struct nx_routed){ key, comm, datatype };
	fill(r, saved);
	return 0;
}

void route_restore_all(void)
{
	for (int i = 0; i < NX_ROUTES; i++)
		if (NX_STATE->route[i].key.comm) fill(&NX_ROUTE_TABLE[i], &NX_STATE->route[i]);
}

void route_forget(nx_t comm)
{
	for (int i = 0; i < NX_ROUTES; i++) {
		if (comm && NX_STATE->route[i].comm != comm) continue;
		NX_STATE->route[i].key = NX_ROUTE_TABLE[i].key = (struct nx_key){ 0, 0 };
	}
}
