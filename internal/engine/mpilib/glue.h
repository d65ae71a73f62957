/* glue.h: what package mpilib calls: the library, found at run time, and a ring of receives for batches.
 *
 * Context: called by Go on one thread at a time; nothing here calls back into Go. */
#ifndef BYSSUS_GO_GLUE_H
#define BYSSUS_GO_GLUE_H
#include "driver.h"

/* Finds the library: one that the process has already, else the named file. NULL, or a sentence. */
const char *real_load(const char *file);
const char *real_name(void);

/* All return 0, or a neutral error class. */
int real_init(int *provided);
int real_finalize(void);
enum { REAL_NEW, REAL_INITIALIZED, REAL_ATTACHED, REAL_FINALIZED };
int real_state(int *state);                     /* of MPI in this process */
int real_attach(int comm);                      /* the ranks are those of a communicator, by its handle in Fortran; collective */
int real_detach(void);
rh_t real_base(void);                           /* the communicator of all ranks */
void real_abort(int code);
int real_world(int *rank, int *size);
int real_bcast(void *buf, int n, int root);
int real_least(long mine, long *least);
void real_error(int class, char *text);          /* of the call that has just returned; room for NX_MAX_ERROR_STRING */
void real_rest(int microseconds);                /* 0: yields */

/* The ring: so many receives are posted, so many sends may be under way, and so many urgent ones besides; the longest
 * message. Memory of messages is the caller's: a receive's from its post until it is told, a send's until it is told to
 * be free. */
enum { REAL_RECEIVES = 16, REAL_SENDS = 32, REAL_URGENT = 8 };

/* What comes of a call of the ring. */
struct real_ring {
	int32_t sent, held;                      /* taken; the send that has its memory, whose last one is free, or -1 */
	int32_t got, from, tag;                  /* the receive that a message came in, or -1; that message's */
	int32_t n;
};

int real_open(int batch);                      /* how many bytes one has room for */
int real_post(int receive, char *memory);        /* room for a batch */
/* Sends a batch, and then posts an empty receive (>= 0) with fresh memory, while it is on its way. */
int real_ring_send(struct real_ring *r, int urgent, const char *out, int n, int to, int tag, int empty, char *fresh);
/* The same without a batch; then looks for a message so many times. */
int real_ring_look(struct real_ring *r, int looks, int empty, char *fresh);
int real_close(void);                            /* sends all, cancels the receives */
int real_abandon(void);                          /* cancels the receives, but for those in which something arrives, and waits for nothing */

/* -- for package mpi: handles are the driver's, types and operations neutral numbers (constants.h) ----------- */

rh_t real_comm_world(void);
rh_t real_comm_self(void);
rh_t real_comm_null(void);
int real_tag_ub(void);                           /* the highest tag; 32767 if the library does not tell */
char *real_nothing(void);                        /* where 0 elements are */

/* Calls that block do so by testing and resting on a node that has more ranks than processors. */
void real_crowded(int yes);
int real_on_node(int *ranks, int *processors);   /* that MPI_COMM_WORLD has on this node; collective */

enum { REAL_STANDARD, REAL_SYNCHRONOUS };
int real_send(int mode, const char *buf, int n, int type, int to, int tag, rh_t comm);
int real_recv(char *buf, int n, int type, int from, int tag, rh_t comm, nx_status *st);
int real_begin_send(int mode, const char *buf, int n, int type, int to, int tag, rh_t comm, rh_t *request);
int real_begin_recv(char *buf, int n, int type, int from, int tag, rh_t comm, rh_t *request);
int real_finish(rh_t *request, nx_status *st);
int real_done(rh_t *request, int *flag, nx_status *st);
int real_cancel(rh_t request);
int real_probe(int from, int tag, rh_t comm, int *flag, rh_t *message, nx_status *st);   /* matched; does not block */
int real_take(char *buf, int n, int type, rh_t *message, nx_status *st);

/* A collective operation. What it does not use is 0. */
enum real_kind {
	REAL_BARRIER, REAL_BCAST, REAL_GATHER, REAL_GATHERV, REAL_SCATTER, REAL_SCATTERV, REAL_ALLGATHER,
	REAL_ALLGATHERV, REAL_ALLTOALL, REAL_ALLTOALLV, REAL_REDUCE, REAL_ALLREDUCE, REAL_REDUCE_SCATTER_BLOCK,
	REAL_SCAN, REAL_EXSCAN
};
struct real_collective {
	const void *send;                        /* NULL: in place */
	void *recv;
	const int *sendcounts, *senddispls, *recvcounts, *recvdispls;
	rh_t comm;
	int32_t kind, sendcount, recvcount, type, op, root;
};
int real_collective(const struct real_collective *c, rh_t *request);   /* request NULL: blocks */
int real_equal(int kind, const char *send, int sendcount, char *recv, int recvcount, int type, int op, int root,
	       rh_t comm);                       /* without counts for each rank; blocks */

/* MPI_Allreduce, blocking, the short way. */
int real_allreduce(const char *send, char *recv, int n, int type, int op, rh_t comm);

/* Communicators. */
int real_comm_rank(rh_t comm, int *rank);
int real_comm_size(rh_t comm, int *size);
int real_comm_dup(rh_t comm, rh_t *out);
int real_comm_split(rh_t comm, int color, int key, rh_t *out);         /* color < 0: none */
int real_comm_split_shared(rh_t comm, int key, rh_t *out);
int real_comm_create(rh_t comm, const int *ranks, int n, int tag, rh_t *out);   /* tag < 0: by all of comm */
int real_comm_free(rh_t *comm);
int real_comm_cart(rh_t comm, const int *dims, const int *periods, int n, int reorder, rh_t *out);
int real_comm_world_ranks(rh_t comm, const int *ranks, int n, int *world);
int real_comm_fortran(rh_t comm, int *handle);   /* MPI_Comm_c2f */
int real_fortran_comm(int handle, rh_t *comm);   /* MPI_Comm_f2c */
int real_is_initialized(int *flag);
int real_dims(int ranks, int n, int *dims);

/* Long messages, apart from the ring. */
int real_isend(const void *buf, int n, int to, int tag, rh_t *request);
int real_irecv(void *buf, int n, int from, int tag, rh_t *request);
int real_test(rh_t *request, int *flag);
#endif
