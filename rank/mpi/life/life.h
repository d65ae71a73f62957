/* life.h: lower half: the life of the MPI half: its start, MPI_Init and MPI_Finalize, rest at a checkpoint,
 * return at a restart. The top of the middle: the core calls it as its client (core.h), the face by the call
 * slots.
 *
 * Context: client.c says on which thread each function of the client runs; the rest as table.h. */
#ifndef BYSSUS_LIFE_H
#define BYSSUS_LIFE_H
#include "../agree/agree.h"
#include "../objects/objects.h"
#include "../traffic/traffic.h"
#include "../comms/comms.h"
#include "../driver/driver.h"

void nx_fill_slots(void);                                      /* entries.c: core_set_call for every slot */
const char *env_load(void);                                    /* NULL or why the real MPI cannot be loaded */
void env_remember_library(void);                               /* what it says about itself, for images */
int  env_own_comms(void);
void finalize_begin(void), finalize_over(void);                /* around the real MPI_Finalize */
#endif
