/* driver.h: lower half: one real MPI library in neutral terms, for each family that we know, and the calls of
 * inner loops that go straight into it (hot.inc.c).
 *
 * The rooms below call the driver in use by its table (drv, real.h), which is filled here: so nothing below
 * depends on the family. Context: as table.h; loading on the main thread, before MPI_Init or at a restart. */
#ifndef BYSSUS_DRIVER_H
#define BYSSUS_DRIVER_H
#include "../table/table.h"
#if defined DRIVER_MPICH || defined DRIVER_OPENMPI     /* a driver includes it */
#include "../abi/abi.h"
#define DRIVER_HOT "hot.inc.c"
#endif

/* Sets drv by what MPI_Get_library_version of the library (a handle of dlopen) says. NULL or a sentence. */
const char *nx_driver_load(void *libmpi);

/* -- of each family: fills its table, if the library has what it needs -- */
const char *nx_driver_load_mpich(void *libmpi, const struct nx_driver **found);
const char *nx_driver_load_openmpi(void *libmpi, const struct nx_driver **found);
#endif
