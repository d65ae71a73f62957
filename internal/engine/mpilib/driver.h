/* driver.h: one real MPI library in neutral terms, for package mpilib.
 *
 * Context: any thread that may call MPI; loading on the one that does so first. */
#ifndef BYSSUS_GO_DRIVER_H
#define BYSSUS_GO_DRIVER_H
#include <stddef.h>
#include "neutral.h"
#include "real.h"

/* The last error of the library: its own code, and the neutral class. */
struct real_noted { int code, class; };
extern struct real_noted real_noted;
#define NOTE_ERROR(c, k) (real_noted = (struct real_noted){ (c), (k) })

const char *nx_driver_load_mpich(void *libmpi, const struct nx_driver **found);
const char *nx_driver_load_openmpi(void *libmpi, const struct nx_driver **found);
#endif
