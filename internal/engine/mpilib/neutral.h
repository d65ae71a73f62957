/* neutral.h: the neutral language of the drivers in package mpilib: what rank/mpi/neutral/neutral.h says of it,
 * without what only ranks under Byssus have.
 *
 * Context: any thread; types and constants only. */
#ifndef BYSSUS_GO_NEUTRAL_H
#define BYSSUS_GO_NEUTRAL_H
#include <stdbool.h>
#include <stdint.h>

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define COLD        __attribute__((noinline, cold))

typedef uint32_t nx_t;
typedef uint64_t rh_t;
typedef int64_t  nx_aint;         /* MPI_Aint, MPI_Count and MPI_Offset: 64 bits in every ABI */

#define NX_INVALID           0xffffffffu     /* what was passed is no handle of that kind */
#define NX_FIRST_USER_ERROR  0x100
#define NX_UNDEFINED_BYTES   (-1)

#include "constants.h"

typedef struct nx_status {
	int32_t source, tag, error, cancelled;
	int64_t bytes;                 /* received, or NX_UNDEFINED_BYTES */
} nx_status;

/* A status has been filled in if the call succeeded or the message was truncated. */
#define STATUS_SET(rc) ((rc) == 0 || (rc) == NX_ERR_TRUNCATE)
#endif
