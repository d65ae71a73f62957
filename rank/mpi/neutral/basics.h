/* basics.h: the part of the neutral language that drivers speak: handles, constants, statuses, errors.
 *
 * Drivers serve ranks under Byssus, whose whole language is neutral.h, and processes of Go that use package
 * mpi: internal/engine/mpilib has a copy of this file, written by mpistubgen. nx_t is a virtual handle; rh_t
 * is a handle of the real library, an int or a pointer by its nature. A neutral error code is an error class
 * (0 is success), or at least NX_FIRST_USER_ERROR for classes and codes that the application has added.
 * Context: both halves, any thread; types and constants only: no libc, no TLS, no allocation. */
#ifndef BYSSUS_BASICS_H
#define BYSSUS_BASICS_H
#include <stdbool.h>
#include <stdint.h>

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define COLD        __attribute__((noinline, cold))

typedef uint32_t nx_t;
typedef uint64_t rh_t;
typedef int64_t  nx_aint;         /* MPI_Aint, MPI_Count and MPI_Offset: 64 bits in every ABI */

#define NX_INVALID           0xffffffffu     /* what the application passed is no handle of that kind */
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
