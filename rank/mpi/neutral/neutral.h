/* neutral.h: both halves: the language between the faces, the middle and the drivers.
 *
 * A face turns what the application's mpi.h says into these types and constants, a driver turns them into
 * what the real library's mpi.h says. Neither includes an mpi.h; nothing here belongs to one implementation.
 * The virtual objects as they lie in saved memory (saved.h), the crossings (slots.h, boxes.h) and the routes
 * (route.h) are part of it. Context: both halves, any thread; types, constants and inline functions only: no
 * libc, no TLS, no allocation.
 *
 * Handles. nx_t is a virtual handle. Predefined objects of each kind are small numbers (constants.h); dynamic
 * objects are index | generation << NX_INDEX_BITS with an index of at least NX_FIRST_DYNAMIC, 26 bits in all.
 * rh_t is a handle of the real library, an int or a pointer by its nature.
 * Errors. A neutral error code is an error class (0 is success), or at least NX_FIRST_USER_ERROR for classes
 * and codes that the application has added. */
#ifndef BYSSUS_NEUTRAL_H
#define BYSSUS_NEUTRAL_H
#include <stdbool.h>
#include <stdint.h>
#include "../../core/layout.h"

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define COLD        __attribute__((noinline, cold))

typedef uint32_t nx_t;
typedef uint64_t rh_t;
typedef int64_t  nx_aint;         /* MPI_Aint, MPI_Count and MPI_Offset: 64 bits in every ABI */

#define NX_INDEX_BITS        20
#define NX_HANDLE_BITS       26
#define NX_FIRST_DYNAMIC     256
#define NX_INDEX(nx)         ((nx) & ((1u << NX_INDEX_BITS) - 1))
#define NX_GENERATION(nx)    ((nx) >> NX_INDEX_BITS)
#define NX_INVALID           0xffffffffu     /* what the application passed is no handle of that kind */
#define NX_FIRST_USER_ERROR  0x100
#define NX_UNDEFINED_BYTES   (-1)

#include "constants.h"

typedef struct nx_status {
	int32_t source, tag, error, cancelled;
	int64_t bytes;                 /* received, or NX_UNDEFINED_BYTES */
} nx_status;

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

/* A status has been filled in if the call succeeded or the message was truncated. */
#define STATUS_SET(rc) ((rc) == 0 || (rc) == NX_ERR_TRUNCATE)

#include "saved.h"
#include "slots.h"
#include "boxes.h"
#include "route.h"
#endif
