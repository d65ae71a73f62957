/* comm.c: communicators (MPI-4.1 chapter 7): made by the real MPI, named and counted by us, made again at a
 * restart.
 *
 * A communicator has an id that its members agree on when it is made and that is never used again: its first
 * member's rank in MPI_COMM_WORLD and a counter of that rank. At a restart the live ones are made again from
 * their groups, in the order of their ids, which is the same on all members. Real error handlers are always
 * MPI_ERRORS_RETURN: the virtual ones decide.
 *
 * MPI_Comm_free waits for nobody, although no member's communicator may go before all have freed theirs: the
 * others may still use it, and making it again takes all members. What a rank has freed stays, in the tables
 * and in the images, as LEAVING; the rank says farewell by an Ibarrier, which is the last collective there.
 * When that is complete all have freed it: it is GONE, and its entry is released as soon as no request needs
 * it. Some members may have seen that before a checkpoint and others not: at a restart they tell each other
 * what they hold. Context: as comms.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../agree/agree.h"
#include "../traffic/traffic.h"
#include "comms.h"

enum { FREED = 1u << 31 };              /* in the first word of an entry that the application has freed */

/* Ranks of a real communicator's members in MPI_COMM_WORLD, as counters. */
static int make_peers(rh_t real, int size, struct vpeer **out)
{
	struct vpeer *p = nx_malloc((size_t)size * sizeof *p);
	int *ranks = malloc(2 * (size_t)size * sizeof *ranks), e = NX_ERR_NO_MEM;
	rh_t g = 0, w = 0;
	if (p && ranks) {
		for (int i = 0; i < size; i++) ranks[i] = i;
		e = drv->comm_group(real, &g);
		if (!e) e = drv->comm_group(drv->comm_world, &w);
		if (!e) e = drv->group_translate_ranks(g, size, ranks, w, ranks + size);
		for (int i = 0; !e && i < size; i++) p[i].world = (uint32_t)ranks[size + i];
		if (g) drv->group_free(&g);
		if (w) drv->group_free(&w);
	}
	free(ranks);
	if (e) nx_free(p);
	else *out = p;
	return e;
}

/* All members learn the id of a communicator that has just been made. */
static int agree_id(rh_t real, int rank, uint64_t *id)
{
	enum { LEADER = 40 };                           /* the bits from here on: whose counter it is */
	if (rank == 0) *id = (uint64_t)(NX_STATE->rank + 1) << LEADER | ++NX_STATE->next_id;
	return drv->bcast(id, 1, drv->type[NX_TYPE_UINT64_T], 0, real);
}

/* Makes a virtual communicator of a real one. Collective over its members. */
int comm_adopt(rh_t real, nx_t errh, struct vtopo *topo, nx_t *out)
{
	*out = NX_COMM_NULL;
	if (real == drv->comm_null) {
		nx_free(topo);
		return 0;
	}
	nx_t h = nx_alloc(NX_K_COMM);
	if (!h) return NX_ERR_NO_MEM;
	struct vcomm *c = NX_COMM(h);
	uint64_t id = 0;
	int e = drv->comm_rank(real, &c->rank);
	if (!e) e = drv->comm_size(real, &c->size);
	if (!e) e = drv->comm_set_errhandler(real, drv->errh[NX_ERRH_RETURN]);
	if (!e) e = make_peers(real, c->size, &c->peer);
	if (!e) e = agree_id(real, c->rank, &id);
	if (e) {
		nx_release(NX_K_COMM, h);
		return e;
	}
	c->errh = errh;
	errh_ref(errh);
	c->topo = topo;
	RCOMM(h) = real;
	__atomic_store_n(&c->id, id, __ATOMIC_RELEASE);
	agree_new_comm(c);
	*out = h;
	comm_sweep();
	return 0;
}

static int adopt_plain(int e, rh_t real, struct vcomm *from, nx_t *out)
{
	return e ? e : comm_adopt(real, from->errh, NULL, out);
}

static int describe(struct vcomm *c, nx_t h, rh_t real, uint64_t id)
{
	c->handle = h;
	c->errh = NX_STATE->world_errh ? NX_ERRH_NULL : NX_ERRH_FATAL;
	RCOMM(h) = real;
	int e = drv->comm_set_errhandler(real, drv->errh[NX_ERRH_RETURN]);
	if (!e) e = drv->comm_rank(real, &c->rank);
	if (!e) e = drv->comm_size(real, &c->size);
	if (!e) e = make_peers(real, c->size, &c->peer);
	c->id = id;
	return e;
}

/* MPI_COMM_WORLD and MPI_COMM_SELF at MPI_Init. */
void comm_describe_world(void)
{
	int e = describe(NX_COMM(NX_COMM_WORLD), NX_COMM_WORLD, drv->comm_world, 1);
	if (!e) e = describe(NX_COMM(NX_COMM_SELF), NX_COMM_SELF, drv->comm_self, 2);
	if (e) core_die("MPI_Init: the MPI does not describe MPI_COMM_WORLD: error class %d", e);
	NX_COMM(NX_COMM_WORLD)->name = nx_strdup("MPI_COMM_WORLD");
	NX_COMM(NX_COMM_SELF)->name = nx_strdup("MPI_COMM_SELF");
	NX_STATE->gone = nx_malloc((size_t)NX_STATE->size * sizeof *NX_STATE->gone);
}

/* -- making ---------------------------------------------------------------------------------------------- */

static int real_dup(struct vcomm *c, nx_t *out)
{
	rh_t real;
	int e = drv->comm_dup(RCOMM(c->handle), &real);
	if (e) return e;
	struct vtopo *t = c->topo ? nx_memdup(c->topo, topo_bytes(c->topo)) : NULL;
	return comm_adopt(real, c->errh, t, out);
}

static int say_farewell(uint32_t i) { return drv->ibarrier(RCOMM(i), &real_farewell[i]); }

/* This rank, which has said farewell, does not use it any more. */
static void leave(nx_t comm)
{
	struct vcomm *c = NX_COMM(comm);
	route_forget(comm);
	errh_unref(c->errh);
	c->handle |= FREED;
	__atomic_fetch_add(&NX_STATE->zombies, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&c->freed, NX_LEAVING, __ATOMIC_RELEASE);
	comm_sweep();
}

/* A duplicate has the same topology and attributes (by their copy functions), and no hints but those that are
 * given: so MPI-4.0 section 7.4.2, and both libraries. */
static long dup_with(nx_t comm, nx_t info, nx_t *newcomm, const char *function)
{
	struct vcomm *c = comm_of(comm);
	if (unlikely(!c)) return nx_error(NX_COMM_WORLD, NX_ERR_COMM, function);
	int e = GATED(c, real_dup(c, newcomm));
	if (e) return nx_error(comm, e, function);
	struct vcomm *d = NX_COMM(*newcomm);
	d->info = info ? info_dup(info) : 0;
	if (!attr_copy_all(comm, *newcomm, c->attrs, &d->attrs, &e)) return 0;
	attr_drop(&d->attrs);   /* a copy function refused: not made here; others may have it */
	if (!say_farewell(NX_INDEX(*newcomm))) leave(*newcomm);
	return nx_error(comm, e, function);
}

long mid_comm_dup(nx_t comm, nx_t *newcomm)
{
	return dup_with(comm, 0, newcomm, "comm_dup");
}

long mid_comm_dup_with_info(nx_t comm, nx_t info, nx_t *newcomm)
{
	return dup_with(comm, info, newcomm, "comm_dup_with_info");
}

static int real_split(struct vcomm *c, int color, int key, nx_t *out)
{
	rh_t real;
	int e = drv->comm_split(RCOMM(c->handle), color, key, &real);
	return adopt_plain(e, real, c, out);
}

long mid_comm_split(nx_t comm, int color, int key, nx_t *newcomm)
{
	LIVE(comm);
	RESULT(comm, GATED(c, real_split(c, color, key, newcomm)));
}

/* The hints say by what the processes are told apart; without a guide the MPI says which resource they
 * share. */
static int real_split_type(struct vcomm *c, int type, int key, nx_t info, nx_t *out)
{
	rh_t real = drv->comm_null, hints;
	int e = info_real(info, &hints);
	if (!e) e = drv->comm_split_type(RCOMM(c->handle), type, key, hints, &real);
	if (!e && type == NX_COMM_TYPE_HW_UNGUIDED && info && real != drv->comm_null)
		e = info_learn(info, hints, "mpi_hw_resource_type");
	if (hints != drv->info_null) drv->info_free(&hints);
	return adopt_plain(e, real, c, out);
}

long mid_comm_split_type(nx_t comm, int split_type, int key, nx_t info, nx_t *newcomm)
{
	LIVE(comm);
	RESULT(comm, GATED(c, real_split_type(c, split_type, key, info, newcomm)));
}

/* The real group of ranks given in MPI_COMM_WORLD. */
static int real_group(const uint32_t *world, int n, rh_t *out)
{
	rh_t w;
	int e = drv->comm_group(drv->comm_world, &w);
	if (e) return e;
	e = drv->group_incl(w, n, (const int *)world, out);
	drv->group_free(&w);
	return e;
}

static int real_create(struct vcomm *c, struct vgroup *g, int tag, nx_t *out)
{
	rh_t real, group;
	int e = real_group(g->world, g->size, &group);
	if (e) return e;
	if (tag < 0) e = drv->comm_create(RCOMM(c->handle), group, &real);
	else e = drv->comm_create_group(RCOMM(c->handle), group, tag, &real);
	if (group != drv->group_empty) drv->group_free(&group);
	return adopt_plain(e, real, c, out);
}

long mid_comm_create(nx_t comm, nx_t group, nx_t *newcomm)
{
	LIVE(comm);
	struct vgroup *g = group_of(group);
	if (!g) FAIL(comm, NX_ERR_GROUP);
	RESULT(comm, GATED(c, real_create(c, g, -1, newcomm)));
}

/* Collective over the group only: its clock is that of the group with this tag on this communicator. */
long mid_comm_create_group(nx_t comm, nx_t group, int tag, nx_t *newcomm)
{
	LIVE(comm);
	struct vgroup *g = group_of(group);
	if (!g) FAIL(comm, NX_ERR_GROUP);
	if (tag < 0) FAIL(comm, NX_ERR_TAG);
	struct vcomm *clock = agree_group_clock(c->id, g, tag);
	if (!clock) FAIL(comm, NX_ERR_NO_MEM);
	RESULT(comm, GATED(clock, real_create(c, g, tag, newcomm)));
}

/* -- freeing --------------------------------------------------------------------------------------------- */

static uint64_t requests_on(nx_t comm)
{
	uint64_t n = 0;
	for (uint32_t i = NX_DYNAMIC; i < nx_high(NX_K_REQUEST); i++) {
		struct vrequest *r = NX_REQUEST(i);
		n += NX_INDEX(r->handle) == i && NX_INDEX(r->comm) == NX_INDEX(comm);
	}
	return n;
}

/* Its counts are added to those by rank in MPI_COMM_WORLD. */
static void release_entry(struct vcomm *c)
{
	struct vpeer *gone = NX_STATE->gone;
	for (int i = 0; i < c->size; i++) {
		gone[c->peer[i].world].sent += c->peer[i].sent;
		gone[c->peer[i].world].taken += c->peer[i].taken;
	}
	while (c->drained) {
		struct vdrained *d = c->drained;
		c->drained = d->next;
		nx_free(d);
	}
	nx_free(c->peer);
	nx_free(c->topo);
	nx_free(c->name);
	if (c->info) info_release(c->info);
	nx_t h = c->handle & ~FREED;
	c->id = 0;
	c->peer = NULL;
	nx_release(NX_K_COMM, h);
}

static bool is_entry(const struct vcomm *c, uint32_t i)
{
	return NX_INDEX(c->handle) == i && c->handle && c->peer;
}

/* Open MPI uses a communicator that is freed for what is still posted on it. */
static bool posted_on(nx_t comm)
{
	for (uint32_t i = NX_DYNAMIC; i < nx_high(NX_K_REQUEST); i++) {
		const struct vrequest *r = NX_REQUEST(i);
		bool open = NX_INDEX(r->handle) == i && NX_INDEX(r->comm) == NX_INDEX(comm) &&
			    pending_of(r)->holds_comm;
		if (open && !(r->flags & NX_RF_DONE)) return true;
	}
	return false;
}

/* Whether all members have freed it; the real one then goes too. What has arrived on it can never be received
 * any more, and is counted: what cannot be now is at the next occasion. */
static bool all_left(struct vcomm *c, uint32_t i)
{
	int flag = 0;
	if (posted_on(i) || drv->test(&real_farewell[i], &flag, NULL) || !flag) return false;
	if (drain_comm(c)) return false;
	real_farewell[i] = 0;
	drv->comm_free(&RCOMM(i));
	RCOMM(i) = 0;
	return true;
}

/* One thread at a time; another one that comes meanwhile leaves it to the next occasion. */
void comm_sweep(void)
{
	static uint32_t busy;
	if (likely(!__atomic_load_n(&NX_STATE->zombies, __ATOMIC_RELAXED)) ||
	    __atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE))
		return;
	for (uint32_t i = NX_DYNAMIC; i < nx_high(NX_K_COMM); i++) {
		struct vcomm *c = NX_COMM(i);
		if (!c->freed || !is_entry(c, i)) continue;
		arrival_lead_over(c);
		if (c->freed == NX_LEAVING && all_left(c, i)) c->freed = NX_GONE;
		if (c->freed != NX_GONE || requests_on(i)) continue;
		__atomic_fetch_sub(&NX_STATE->zombies, 1, __ATOMIC_RELAXED);
		release_entry(c);
	}
	__atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
}

/* At MPI_Finalize: nobody uses any of them any more, so all say farewell to all that they hold, and wait for
 * the others. */
void comm_end(void)
{
	for (uint32_t i = NX_COMM_WORLD; i < nx_high(NX_K_COMM); i++)
		for (unsigned spins = 0; is_entry(NX_COMM(i), i) && !arrival_lead_over(NX_COMM(i)); )
			wait_step_slow(++spins);
	for (uint32_t i = NX_DYNAMIC; i < nx_high(NX_K_COMM); i++)
		if (is_entry(NX_COMM(i), i) && !NX_COMM(i)->freed && say_farewell(i)) real_farewell[i] = 0;
	for (uint32_t i = NX_DYNAMIC; i < nx_high(NX_K_COMM); i++)
		for (int flag = !real_farewell[i], spins = 0; !flag; wait_step_slow((unsigned)++spins))
			if (drv->test(&real_farewell[i], &flag, NULL)) break;
}

static long free_comm(nx_t *comm, const char *function)
{
	struct vcomm *c = comm_of(*comm);
	if (!c || *comm < NX_DYNAMIC) return nx_error(NX_COMM_WORLD, NX_ERR_COMM, function);
	if (posted_open(c)) {   /* could not be posted again: some members may bury it before others */
		long g = gate_pass(c, 0, "mid_comm_free");
		if (g) return g;
		gate_leave();
	}
	int e = attr_delete_all(*comm, &c->attrs);
	if (!e) e = say_farewell(NX_INDEX(*comm));
	if (e) return nx_error(*comm, e, function);
	leave(*comm);
	*comm = NX_COMM_NULL;
	return 0;
}

long mid_comm_free(nx_t *comm) { return free_comm(comm, "comm_free"); }

/* Waits for the requests of the communicator, then frees it. */
long mid_comm_disconnect(nx_t *comm)
{
	if (!comm_of(*comm)) FAIL(NX_COMM_WORLD, NX_ERR_COMM);
	for (unsigned spins = 0; requests_on(*comm);) {
		uint32_t open = requests_progress(*comm);
		if (!open) break;
		if (wait_step(&spins)) return BY_AGAIN;
	}
	return free_comm(comm, "comm_disconnect");
}

/* -- queries --------------------------------------------------------------------------------------------- */

long mid_comm_compare(nx_t comm1, nx_t comm2, int *result)
{
	struct vcomm *a = comm_of(comm1), *b = comm_of(comm2);
	if (!a || !b) FAIL(NX_COMM_WORLD, NX_ERR_COMM);
	*result = NX_UNEQUAL;
	if (comm1 == comm2) *result = NX_IDENT;
	else if (a->size == b->size) *result = peers_compare(a, b);
	return 0;
}

long mid_comm_group(nx_t comm, nx_t *group)
{
	LIVE(comm);
	nx_t h = group_new(c->size, c->rank);
	if (!h) FAIL(comm, NX_ERR_NO_MEM);
	for (int i = 0; i < c->size; i++) NX_GROUP(h)->world[i] = c->peer[i].world;
	*group = h;
	return 0;
}

long mid_comm_test_inter(nx_t comm, int *flag)
{
	LIVE(comm);
	(void)c;
	*flag = 0;
	return 0;
}

long mid_comm_remote_size(nx_t comm, int *size)
{
	LIVE(comm);
	(void)c, (void)size;
	FAIL(comm, NX_ERR_COMM);                        /* of intercommunicators only */
}

long mid_comm_remote_group(nx_t comm, nx_t *group)
{
	LIVE(comm);
	(void)c, (void)group;
	FAIL(comm, NX_ERR_COMM);
}

long mid_comm_get_parent(nx_t *parent)
{
	*parent = NX_COMM_NULL;                         /* spawn is refused */
	return 0;
}

long mid_comm_set_name(nx_t comm, const char *comm_name)
{
	LIVE(comm);
	char *s = nx_strdup(comm_name);
	if (!s) FAIL(comm, NX_ERR_NO_MEM);
	nx_free(c->name);
	c->name = s;
	return 0;
}

long mid_comm_get_name(nx_t comm, char *comm_name, int comm_name_max, int *resultlen)
{
	LIVE(comm);
	put_string(c->name, comm_name, comm_name_max, resultlen);
	return 0;
}

long mid_comm_set_info(nx_t comm, nx_t info)
{
	LIVE(comm);
	nx_t copy = info ? info_dup(info) : 0;
	if (c->info) info_release(c->info);
	c->info = copy;
	return 0;
}

long mid_comm_get_info(nx_t comm, nx_t *info_used)
{
	LIVE(comm);
	*info_used = c->info ? info_dup(c->info) : info_new();
	return *info_used ? 0 : nx_error(comm, NX_ERR_NO_MEM, "comm_get_info");
}

/* -- after a restart ------------------------------------------------------------------------------------- */

static int by_id(const void *x, const void *y)
{
	const struct vcomm *a = *(struct vcomm *const *)x, *b = *(struct vcomm *const *)y;
	return a->id < b->id ? -1 : a->id > b->id;
}

/* The tag is the same on all members, whatever else each of them makes. */
static int make_again(struct vcomm *c)
{
	enum { TAGS = 16381 };                          /* a prime, and as many as every MPI has */
	int tag = (int)(c->id % TAGS);
	uint32_t *world = malloc((size_t)c->size * sizeof *world);
	rh_t group, real;
	if (!world) return NX_ERR_NO_MEM;
	for (int i = 0; i < c->size; i++) world[i] = c->peer[i].world;
	int e = real_group(world, c->size, &group);
	free(world);
	if (e) return e;
	/* MPICH 4.0 crashes when it is a duplicate */
	e = drv->comm_create_group(drv->comm_world, group, tag, &real);
	drv->group_free(&group);
	if (!e && c->topo) e = topo_attach(&real, c->topo);
	if (!e) e = drv->comm_set_errhandler(real, drv->errh[NX_ERRH_RETURN]);
	if (!e && c->name) e = drv->comm_set_name(real, c->name);
	RCOMM(c->handle) = real;
	return e;
}

/* -- what has been freed by some of its members when the image was taken -- */

static uint64_t holding(const struct vcomm *c) { return c->id << 1 | (c->freed != 0); }

static int by_word(const void *x, const void *y)
{
	const uint64_t *a = x, *b = y;
	return *a >> 1 < *b >> 1 ? -1 : *a >> 1 > *b >> 1;
}

/* What every rank holds: all words in one block, which the caller frees; rank r's are those from at[r] to
 * at[r] + n[r]. */
static int tell_holdings(struct vcomm **list, int k, int *n, int *at, uint64_t **all)
{
	rh_t word = drv->type[NX_TYPE_UINT64_T], number = drv->type[NX_TYPE_INT];
	int total = 0, e = drv->allgather(&k, 1, number, n, 1, number, own_world);
	for (int r = 0; !e && r < NX_STATE->size; total += n[r++]) at[r] = total;
	uint64_t *mine = calloc((size_t)k + 1, sizeof *mine);
	*all = calloc((size_t)total + 1, sizeof **all);
	for (int i = 0; mine && i < k; i++) mine[i] = holding(list[i]);
	if (!e && !(mine && *all)) e = NX_ERR_NO_MEM;
	if (!e) e = drv->allgatherv(mine, k, word, *all, n, at, word, own_world);
	free(mine);
	return e;
}

/* One that a member does not hold any more, or that nobody uses, is gone. All members return the same. */
static int judge(struct vcomm *c, const int *n, const int *at, const uint64_t *all)
{
	uint64_t want = c->id << 1;
	bool held = true, used = false;
	for (int i = 0; i < c->size; i++) {
		uint32_t w = c->peer[i].world;
		const uint64_t *found = bsearch(&want, all + at[w], (size_t)n[w], sizeof *all, by_word);
		held = held && found;
		used = used || (found && !(*found & 1));
	}
	if (!held && !c->freed) return NX_ERR_INTERN;   /* in use here, and another member has no memory of
							 * it */
	if (!held || !used) c->freed = NX_GONE;
	return 0;
}

/* Sorts out of the list, which is in the order of ids, what is not to be made again. */
static int settle_freed(struct vcomm **list, uint32_t *k)
{
	int size = NX_STATE->size, leaving = 0, any = 0;
	uint32_t left = 0;
	uint64_t *all = NULL;
	for (uint32_t i = 0; i < *k; i++) leaving |= list[i]->freed != 0;
	int e = drv->allreduce(&leaving, &any, 1, drv->type[NX_TYPE_INT], drv->op[NX_OP_MAX], own_world);
	if (e || !any) return e;
	int *n = calloc(2 * (size_t)size, sizeof *n);
	if (!n) return NX_ERR_NO_MEM;
	e = tell_holdings(list, (int)*k, n, n + size, &all);
	for (uint32_t i = 0; !e && i < *k; i++) {
		e = judge(list[i], n, n + size, all);
		if (list[i]->freed != NX_GONE) list[left++] = list[i];
	}
	*k = left;
	free(all);
	free(n);
	return e;
}

int comm_restore_all(char *why, size_t n)
{
	uint32_t high = nx_high(NX_K_COMM), k = 0, made = 0;
	struct vcomm **list = malloc(high * sizeof *list);
	int e = list ? 0 : NX_ERR_NO_MEM;
	RCOMM(NX_COMM_WORLD) = drv->comm_world;
	RCOMM(NX_COMM_SELF) = drv->comm_self;
	if (!e) e = drv->comm_set_errhandler(drv->comm_world, drv->errh[NX_ERRH_RETURN]);
	if (!e) e = drv->comm_set_errhandler(drv->comm_self, drv->errh[NX_ERRH_RETURN]);
	for (uint32_t i = NX_DYNAMIC; !e && i < high; i++) {
		struct vcomm *c = NX_COMM(i);
		RCOMM(i) = real_farewell[i] = 0;
		if (is_entry(c, i) && c->freed != NX_GONE) list[k++] = c;
	}
	if (!e) qsort(list, k, sizeof *list, by_id);
	if (!e) e = settle_freed(list, &k);
	for (; !e && made < k; made += !e) {
		e = make_again(list[made]);
		if (!e && list[made]->freed) e = say_farewell(NX_INDEX(list[made]->handle));
	}
	free(list);
	if (e)
		snprintf(why, n,
			 "%u communicators of the job's %u can be made again, and no more (error class %d)",
			 made, k, e);
	return e ? -1 : 0;
}
