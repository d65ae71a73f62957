/* saved.h: the virtual MPI objects of a rank, as they lie in saved memory. Part of neutral.h.
 *
 * Every object the application holds a handle to is an entry of a table at a fixed address in the arena, so
 * that a handle finds its entry in O(1) without locks, and an image contains all of them. Entries hold no
 * address of the lower half: the real handles lie beside, in lower memory (table.h), and are made anew after
 * a restart.
 *
 * A handle (nx_t) is index | generation << NX_INDEX_BITS; predefined objects have generation 0 and small
 * indices. An entry is live if and only if its first word equals the handle that names it; Open MPI's face
 * returns the address of the entry itself, so the first word of every entry is its handle. In a free entry
 * the first word is the next generation (index bits zero) and the second the index of the next free entry.
 *
 * Context: both halves; plain data, but for one reckoning. The upper half reads, the lower half writes. */
#ifndef BYSSUS_SAVED_H
#define BYSSUS_SAVED_H

#define NX_GEN_MASK   0x3fu
#define NX_DYNAMIC    256u             /* first index of objects made at run time: NX_FIRST_DYNAMIC */
#define NX_MAXINDEX   (1u << NX_INDEX_BITS)

/* Saved regions: one for each kind, then the MPI half's own. */
enum nx_kind {
	NX_K_COMM,
	NX_K_GROUP,
	NX_K_TYPE,
	NX_K_OP,
	NX_K_REQUEST,
	NX_K_ERRH,
	NX_K_KEYVAL,
	NX_K_INFO,
	NX_K_MESSAGE,
	NX_K_N,
	NX_REGION_STATE = NX_K_N,
	NX_REGION_HEAP,
};

#define NX_MAX_USER_ERRORS 4096

#define NX_STRIDE_COMM    192
#define NX_STRIDE_GROUP   32
#define NX_STRIDE_TYPE    128
#define NX_STRIDE_OP      32
#define NX_STRIDE_REQUEST 96
#define NX_STRIDE_ERRH    32
#define NX_STRIDE_KEYVAL  80
#define NX_STRIDE_INFO    32
#define NX_STRIDE_MESSAGE 64

#define NX_TABLE(kind)         (BY_STATE + (uint64_t)(kind) * BY_STATE_STRIDE)
#define NX_AT(K, T, h)         ((struct T *)(NX_TABLE(NX_K_##K) + (uint64_t)NX_INDEX(h) * NX_STRIDE_##K))
#define NX_COMM(h)    NX_AT(COMM, vcomm, h)
#define NX_GROUP(h)   NX_AT(GROUP, vgroup, h)
#define NX_TYPE(h)    NX_AT(TYPE, vtype, h)
#define NX_OP(h)      NX_AT(OP, vop, h)
#define NX_REQUEST(h) NX_AT(REQUEST, vrequest, h)
#define NX_ERRH(h)    NX_AT(ERRH, verrh, h)
#define NX_KEYVAL(h)  NX_AT(KEYVAL, vkeyval, h)
#define NX_INFO(h)    NX_AT(INFO, vinfo, h)
#define NX_MESSAGE(h) NX_AT(MESSAGE, vmessage, h)
/* Address of an entry for the Open MPI face: NX_ENTRY(COMM, h). */
#define NX_ENTRY(K, h) ((void *)(NX_TABLE(NX_K_##K) + (uint64_t)NX_INDEX(h) * NX_STRIDE_##K))

/* Messages and bytes are counted for each pair on each communicator: what was sent to that rank and what was
 * taken from it. At a checkpoint the sums over all communicators, exchanged, say what is still on its way. */
struct vpeer {
	uint32_t world;               /* rank in MPI_COMM_WORLD */
	uint32_t pad;
	uint64_t sent, taken;         /* messages */
};

/* Kind: an NX_ATTR of the language that has set it. C gets the address of a value that Fortran has set
 * (MPI-4.1 section 19.3.7). */
struct vattr { struct vattr *next; nx_t keyval; uint32_t kind; uint64_t value; };
enum { NX_ATTR_ADDRESS, NX_ATTR_INTEGER };

/* A message taken off the network at a checkpoint, before the application asked for it: packed bytes. */
struct vdrained {
	struct vdrained *next;
	int32_t source, tag;          /* source: rank in the communicator */
	int64_t bytes;
	uint32_t world;               /* the source in MPI_COMM_WORLD */
	nx_t sync;  /* its request of a synchronous send that is to be acknowledged (synchronous.c), or 0 */
	unsigned char data[];
};

struct vtopo {                        /* kind: NX_CART / NX_GRAPH / NX_DIST_GRAPH */
	int32_t kind, n;              /* cart: dimensions; graph: nodes; dist_graph: indegree */
	int32_t m, weighted;          /* graph: edges; dist_graph: outdegree */
	int32_t data[];         /* cart: dims, periods, coords; graph: index, edges; dist: sources, srcw,
				 * dests, dstw */
};

/* How many neighbours a process has to receive from (outward 0) or to send to (1). */
static inline int nx_neighbours(const struct vtopo *t, int rank, int outward)
{
	if (t->kind == NX_CART) return 2 * t->n;
	if (t->kind == NX_GRAPH) return rank < t->n ? t->data[rank] - (rank ? t->data[rank - 1] : 0) : 0;
	return outward ? t->m : t->n;
}

/* Of a communicator that the application has freed (comm.c): other members may still use it; or all have
 * freed it, and requests need it. */
enum { NX_LEAVING = 1, NX_GONE };

enum { NX_ARRIVED = 1 };              /* no request: its index is that of a predefined object */

struct vcomm {
	nx_t handle;
	int32_t rank, size;
	nx_t errh;
	struct vpeer *peer;           /* [size] */
	struct vdrained *drained;     /* oldest first; NULL: the hot path's only question */
	uint64_t seq;   /* collectives that this rank has started: a posted one has its number from then on */
	uint64_t id;                  /* the same on every member, never used again */
	uint64_t reported, target;    /* of the agreement under way (epoch) */
	uint64_t epoch;
	struct vtopo *topo;
	struct vattr *attrs;
	char *name;
	nx_t info;
	uint8_t freed;                /* by the application: 0, or NX_LEAVING or NX_GONE */
	uint8_t group_clock;          /* no communicator, only a clock (agree.c) */
	uint16_t unmet;               /* counted in the agreement as not yet at its target */
	struct vdrained *drained_tail;
	/* While one of these is not 0 there are no routes, and messages are counted (synchronous.c): */
	uint32_t syncs;               /* synchronous sends that are open */
	uint32_t matched;             /* messages that are matched, not received, and only in the real MPI */
	/* The collective clock is the higher of two numbers (agree.c): */
	uint64_t entered;             /* of the last blocking collective that was entered */
	uint64_t observed;            /* of the last posted one whose completion was seen */
	/* Arrival waits (arrival.c): */
	nx_t arrival;                 /* the request of the one under way, NX_ARRIVED, or 0 */
	uint32_t calls;               /* synchronising calls that were entered */
	uint64_t window_ns;           /* when the first call of the window came */
	uint64_t least_ns;            /* the shortest arrival wait of the window */
	uint64_t cost_ns;             /* what an arrival wait costs, as agreed */
	uint8_t straight;             /* this window's calls have none */
	/* The same of calls in which all wait for a root (arrival.c): */
	uint8_t led_straight;         /* enum led (arrival.c) */
	uint16_t led;                 /* calls that are left of the window */
	nx_t lead;                    /* what this rank has posted as a root, or 0 */
	uint32_t led_least_ns, led_cost_ns;
	uint64_t led_window_ns;       /* 0: there was no call */
};
struct vgroup { nx_t handle; int32_t rank, size; uint32_t pad; uint32_t *world; };

struct vtype {
	nx_t handle;
	uint8_t committed, predefined;
	uint16_t combiner;
	int64_t size, lb, extent, true_lb, true_extent;
	uint32_t refs;
	int32_t ni, na, nd;           /* contents as given to the constructor */
	int32_t *ints;
	int64_t *aints;
	nx_t *types;
	char *name;
	struct vattr *attrs;
	uint32_t contiguous, pad;
};
struct vop { nx_t handle; int32_t commute; uint64_t fn, thunk; uint32_t refs, pad; };

enum { NX_RQ_SEND = 1, NX_RQ_RECV, NX_RQ_COLL, NX_RQ_MRECV };
enum { NX_SEND_STANDARD, NX_SEND_SYNCHRONOUS, NX_SEND_BUFFERED, NX_SEND_PERSISTENT_BUFFERED };
enum {
	NX_RF_DONE = 1,
	NX_RF_PERSISTENT = 2,
	NX_RF_ACTIVE = 4,
	NX_RF_FREED = 8,
	NX_RF_CANCEL = 16,
	NX_RF_SHARED = 32,
	NX_RF_SYNC = 64,   /* of a send: synchronous, and its receiver may not have matched it */
	NX_RF_LATE = 64,   /* of a receive: posted while its communicator had matched messages */
	NX_RF_POSTED = 64, /* of a collective, always: what completes it asks the agreement first
			    * (posted.c) */
	NX_RF_HELD = 128
}; /* one that a checkpoint has completed for the real MPI, and its receiver not
    * yet */
#define NX_REQUEST_SENT NX_DYNAMIC  /* the request of every send that was complete at once: never released */
struct vrequest {
	nx_t handle;
	uint8_t kind, flags;
	uint8_t mode;                 /* of a send: NX_SEND_STANDARD ... */
	uint8_t routed;               /* from is set */
	nx_t comm, type;
	int32_t count, peer, tag;
	uint32_t pad1;
	void *buf;
	uint64_t order;         /* receives: of posting, in which they are posted again; SYNC: its place in
				 * its lane; collectives: its number */
	void *own;                    /* saved memory released at completion */
	nx_status st;
	struct vpeer *from;           /* of a receive by a route from one rank: whose counter it moves */
};
struct verrh { nx_t handle; uint32_t refs; uint64_t fn, thunk; uint64_t pad; };
struct vkeyval {
	nx_t handle;
	uint32_t refs, freed, kind;
	uint64_t copy, copy_thunk, del, del_thunk, extra;
	uint64_t copy_proxy, del_proxy; /* by which the library of another language calls them, 0: none */
};
struct vinfo { nx_t handle; int32_t n, cap; uint32_t pad; char **kv; };   /* kv[2i] key, kv[2i+1] value */
struct vmessage {
	nx_t handle, comm;
	int32_t source, tag;
	int64_t bytes;
	struct vdrained *held;
	uint64_t order;               /* of matching */
	uint32_t overtaken;           /* messages of its lane that were received after it was matched */
	nx_t sync;                    /* as in vdrained, before it is held */
};

_Static_assert(sizeof(struct vcomm) <= NX_STRIDE_COMM, "vcomm");
_Static_assert(sizeof(struct vgroup) <= NX_STRIDE_GROUP, "vgroup");
_Static_assert(sizeof(struct vtype) <= NX_STRIDE_TYPE, "vtype");
_Static_assert(sizeof(struct vop) <= NX_STRIDE_OP, "vop");
_Static_assert(sizeof(struct vrequest) <= NX_STRIDE_REQUEST, "vrequest");
_Static_assert(sizeof(struct verrh) <= NX_STRIDE_ERRH, "verrh");
_Static_assert(sizeof(struct vkeyval) <= NX_STRIDE_KEYVAL, "vkeyval");
_Static_assert(sizeof(struct vinfo) <= NX_STRIDE_INFO, "vinfo");
_Static_assert(sizeof(struct vmessage) <= NX_STRIDE_MESSAGE, "vmessage");

/* The application's handles of a communicator and a datatype, as its face writes them in 32 bits; comm 0:
 * none. */
struct nx_key { uint32_t comm, type; };
/* What a route is made from again at a restart, at the same index (route.h). */
enum { NX_ROUTES = 64 };
struct nx_routed { struct nx_key key; nx_t comm, type; };

/* The rank's own record, at NX_TABLE(NX_REGION_STATE). */
struct nx_state {
	uint32_t layout;              /* NX_LAYOUT: an image of another layout is refused */
	uint32_t routed;        /* between MPI_Init and MPI_Finalize, but for MPI_THREAD_MULTIPLE: calls may
				 * go by routes */
	uint64_t interface;           /* NX_INTERFACE: what the face in the image takes for granted */
	uint32_t initialised, finalised, thread_level, multiple;
	int32_t main_thread, pad0;    /* MPI_Init was called on the process's first thread */
	int32_t rank, size;
	uint32_t next[NX_K_N];        /* first index never used */
	uint32_t free[NX_K_N];        /* free list of recycled indices, 0: empty */
	struct vpeer *gone;     /* [size] counts of communicators that are gone, by rank in MPI_COMM_WORLD */
	uint64_t order;               /* receives posted so far */
	uint64_t next_id;             /* communicators this rank has named as leader */
	int64_t wtime_ns;             /* MPI_Wtime at the checkpoint */
	int32_t attr_value[16];       /* predefined attributes, by keyval number */
	uint8_t attr_set[16];
	uint32_t zombies;             /* communicators that are freed and whose entries are not released */
	uint32_t held, pad1;          /* requests that are NX_RF_HELD */
	struct nx_routed route[NX_ROUTES];    /* route.h */
	uint64_t bsend_buf; int64_t bsend_size, bsend_used;
	int32_t user_errors;          /* classes and codes added by the application */
	uint32_t world_errh;          /* set by the face: communicators without an error handler of their
				       * own go by that of MPI_COMM_WORLD */
	char *user_error[NX_MAX_USER_ERRORS];
	int32_t user_class[NX_MAX_USER_ERRORS];
	char library[256];            /* the real MPI at the checkpoint */
};
#define NX_LAYOUT 9
#define NX_STATE ((struct nx_state *)NX_TABLE(NX_REGION_STATE))
#endif
