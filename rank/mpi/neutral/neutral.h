/* neutral.h: both halves: the language between the faces, the middle and the drivers.
 *
 * A face turns what the application's mpi.h says into these types and constants, a driver turns them into
 * what the real library's mpi.h says. Neither includes an mpi.h; nothing here belongs to one implementation.
 * The virtual objects as they lie in saved memory (saved.h), the crossings (slots.h, boxes.h) and the routes
 * (route.h) are part of it. Context: both halves, any thread; types, constants and inline functions only: no
 * libc, no TLS, no allocation.
 *
 * The types, constants and errors that drivers need stand in basics.h, which processes of Go have, too. Of
 * virtual handles (nx_t), predefined objects of each kind are small numbers (constants.h); dynamic objects
 * are index | generation << NX_INDEX_BITS with an index of at least NX_FIRST_DYNAMIC, 26 bits in all. */
#ifndef BYSSUS_NEUTRAL_H
#define BYSSUS_NEUTRAL_H
#include "../../core/layout.h"
#include "basics.h"

#define NX_INDEX_BITS        20
#define NX_HANDLE_BITS       26
#define NX_FIRST_DYNAMIC     256
#define NX_INDEX(nx)         ((nx) & ((1u << NX_INDEX_BITS) - 1))
#define NX_GENERATION(nx)    ((nx) >> NX_INDEX_BITS)

/* What a blocking point-to-point call needs to continue after a checkpoint. It is on the face's stack, in
 * saved memory; the first crossing (which returns BY_AGAIN) writes it, NX_SLOT_RESUME reads and writes it. */
typedef struct nx_cont {
	nx_t     req[2];                /* what is not complete; else NX_REQUEST_NULL */
	uint32_t received;              /* is st set? */
	int32_t  error;                 /* the first of what is complete, or 0 */
	nx_status st;                   /* of the receive */
	/* of a call by a route, for the lower half alone, until it returns: */
	const struct nx_route *route;
	void    *buf;
	int32_t  count, peer, tag;
} nx_cont;

/* Callbacks. With the application's function a face passes a thunk, code of its own that turns neutral
 * arguments into the application's. The middle stores both and calls core_upcall(thunk, function, ...) with:
 *   op          (fn, void *in, void *inout, int *len, nx_t datatype)
 *   copy        (fn, nx_pair(object, keyval), void *extra, void *value, void **out, int *flag)    -> neutral
 * error delete      (fn, nx_pair(object, keyval), void *value, void *extra)                           ->
 * neutral error errhandler  (fn, nx_t comm, int error) */
static inline uint64_t nx_pair(nx_t object, nx_t keyval) { return object | (uint64_t)keyval << 32; }

#include "saved.h"
#include "slots.h"
#include "boxes.h"
#include "route.h"
#endif
