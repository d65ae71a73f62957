/* protect.h: snapshots in the way of VeloC: regions are said one by one, and one description that nobody
 * sees is made of them (docs/memory.md). byssus.h has the results, and what a snapshot is. No call prints,
 * ends the process, or raises a signal. Any thread may call, one at a time; a child after fork may not. */
#ifndef BYSSUS_PROTECT_H
#define BYSSUS_PROTECT_H
#include "byssus.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Who makes snapshots together. Not needed by a program that has initialised MPI: there it is the rank in
 * MPI_COMM_WORLD. Before they have begun. */
int bys_protect_group(uint32_t member, uint32_t members);

/* Snapshots have `count` elements of `size` bytes at `at`; another call with an id takes the place of the one
 * before. Snapshots begin at the first bys_restart or bys_checkpoint, with the regions that there are then:
 * to have others is BYS_EUSE from then on, until bys_protect_end. The same region again is BYS_OK. */
int bys_protect(uint32_t id, void *at, size_t count, size_t size);
int bys_unprotect(uint32_t id);

/* All members call it before their first bys_checkpoint, and after BYS_EPEER; regions may be others then.
 * BYS_OK: they have the bytes of the newest snapshot, and *version is its number; BYS_NOTHING: there is none.
 * The name is of the group: it is one, as long as snapshots are made. */
int bys_restart(const char *name, uint64_t *version, long timeout);

/* bys_restart that fills these regions, of the protected ones, and leaves the others as they are. */
int bys_restart_some(const char *name, uint64_t *version, const uint32_t *ids, size_t n, long timeout);

/* For a program that knows only then how much memory it needs: bys_look, before bys_restart or
 * bys_restart_some of the same name. What is protected may be changed in between. */
int bys_restart_look(const char *name, uint64_t *version, bys_region *regions, size_t *n, long timeout);

/* Makes a snapshot: bys_start, and bys_commit. After BYS_TIMEOUT it has been copied: regions may be written
 * to, and the same call goes on waiting, by its version. Where there was no bys_restart, snapshots begin
 * here, and those of an earlier start of the program are not looked at: all members are waited for then,
 * whatever the timeout is. */
int bys_checkpoint(const char *name, uint64_t version, long timeout);

/* Ends: all members call it, as bys_finish. After it regions are still protected, may be changed, and
 * snapshots can begin anew. BYS_OK where none have begun. */
int bys_protect_end(int keep, long timeout);

/* What the last of these calls of this thread said. */
const char *bys_protect_error(void);

#ifdef __cplusplus
}
#endif
#endif
