/* driver.h: one real MPI library in neutral terms, for package mpilib.
 *
 * The drivers and what they include are copies of files of rank/mpi (docs/decisions/055-two-copies-of-the-drivers.md).
 * Context: any thread that may call MPI; loading on the one that does so first. */
#ifndef BYSSUS_GO_DRIVER_H
#define BYSSUS_GO_DRIVER_H
#include <stddef.h>
#include "basics.h"
#include "real.h"
#if defined DRIVER_MPICH
#include "abi_mpich.h"
#elif defined DRIVER_OPENMPI
#include "abi_openmpi.h"
#endif

/* The last error of the library: its own code, and the neutral class. */
struct real_noted { int code, class; };
extern struct real_noted real_noted;
#define NOTE_ERROR(c, k) (real_noted = (struct real_noted){ (c), (k) })

const char *nx_driver_load_mpich(void *libmpi, const struct nx_driver **found);
const char *nx_driver_load_openmpi(void *libmpi, const struct nx_driver **found);
#endif
