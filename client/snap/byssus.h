/* byssus.h: snapshots of a program's memory, kept in the memory of its node and of others (docs/memory.md).
 * No MPI, no file: each member of a group talks to the agent of its node (byssus run --plain, with --cache).
 *
 * Calls return a bys_result. Those that wait for other members take a timeout in milliseconds: BYS_BLOCK
 * waits however long it takes, BYS_TEST not at all. After BYS_TIMEOUT nothing is lost: the same call goes on
 * waiting. No call prints, ends the process, or raises a signal. Any thread may call, one at a time for each
 * description. A child after fork has no descriptions. */
#ifndef BYSSUS_H
#define BYSSUS_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define BYS_BLOCK (-1L)
#define BYS_TEST 0L

enum bys_result {
	BYS_OK = 0,
	BYS_TIMEOUT = 1,  /* not yet; what was begun goes on */
	BYS_NOTHING = 2,  /* restore: there is no snapshot; the description has begun empty, and the regions
			   * may have any bytes */
	BYS_EUSE = -1,    /* arguments, the order of calls, or another process than began */
	BYS_EFAILED = -2, /* the snapshot does not count, and the one before stands */
	BYS_EROOM = -3,   /* there is no room for the snapshot, on this node; at the beginning, on any */
	BYS_EDIFFER = -4, /* members do not agree, or the snapshot is of other regions */
	BYS_EAGENT = -5,  /* there is no agent, or it refuses */
	BYS_ESYS = -6,    /* of the operating system: the sentence names what */
	BYS_EPEER = -7,   /* a member has died, and the others go on (byssus run --survivors keep): all
			   * members call bys_restore */
	BYS_ELOST = -8    /* restore: snapshots were committed, and more is lost, or damaged, than their
			   * redundancy covers; bys_init begins without */
};

/* How bys_start gets the bytes of a region. Each is the same snapshot; where the second and third cannot be
 * had, it is copied: in a process of which checkpoints are taken, or on a Linux before 6.7.
 *   BYS_COPY      all of it is copied
 *   BYS_TRACK     pages that were written to since are copied. For regions that change in few places: where
 *                 more than one page in eight has changed, all are copied for some time. Not for memory that
 *                 messages come to by RDMA or XPMEM: who writes past the page tables of this process is
 *                 not seen. Memory that is shared, or was not used yet in large part, is copied
 *   BYS_HANDOVER  it is copied while the program computes: it writes nothing there before bys_commit has
 *                 returned something else than BYS_TIMEOUT. BYSSUS_HANDOVER_GUARD=1 in the environment makes
 *                 what it writes nevertheless a SIGSEGV, for debugging (whole pages) */
enum bys_capture { BYS_COPY = 0, BYS_TRACK = 1, BYS_HANDOVER = 2 };

/* Added to a capture: bys_restore leaves the region as it is. */
#define BYS_LEAVE 256

/* Memory that a snapshot is to have. id: the program's, each once; capture: a bys_capture, and BYS_LEAVE or
 * not; bytes: at `at`, 1 at least. */
typedef struct {
	uint32_t id, capture;
	void *at;
	uint64_t bytes;
} bys_region;

/* Who makes snapshots together: `member` of `members`, counted from 0. name: of the group, at most 63 bytes
 * without blanks, slashes and dots; NULL: "memory". A process may be a member of several groups at once, of
 * different names, members and policies, with a description of each: their snapshots, and their ends, have
 * nothing to do with each other. policy: what its nodes do against the loss of some of them:
 * "partner", "partner:2", "ring", "pairs", "xor", "xor:4", "single" (docs/memory.md#policies); NULL: what
 * byssus run says. */
typedef struct {
	uint32_t member, members;
	const char *name, *policy;
} bys_group;

/* Of a member, from the beginning, or the last bys_restore, to the next. */
enum bys_state { BYS_HEALTHY = 0, BYS_CORRUPT = 1 /* its process has died */ };

typedef struct bys_description *bys_desc;

/* Begins: all members call it, or bys_restore. *d is NULL before, and after an error. A process that begins
 * several groups does so in the order in which all do. */
int bys_init(bys_desc *d, const bys_region *, size_t n, const bys_group *, long timeout);

/* As bys_init; then the regions have the bytes of the newest snapshot that counts, on all members, and *tag
 * is that snapshot's. Where survivors are kept (byssus run --survivors keep) they call it on their
 * description after BYS_EPEER, or as soon as they have noticed a death otherwise, and the process that
 * Byssus has started in the place of the dead on its own; regions must be those of the snapshot. BYS_EPEER:
 * a member has died that is one of another group as well, which is to be restored again before. */
int bys_restore(bys_desc *d, const bys_region *, size_t n, const bys_group *, uint64_t *tag, long timeout);

/* For a program that knows only then how much memory it needs: says which regions this member has in the
 * newest snapshot that counts, as bys_restore would read it. Filled in: id and bytes of the first *n regions,
 * how many it has in *n, and its tag. BYS_NOTHING: there is none, *n is 0. The members that call this call
 * bys_restore next, on the description that has been made, for which the others wait. If that has to be an
 * older snapshot meanwhile, since this one cannot be read, and it has other regions, it is BYS_EDIFFER. */
int bys_look(bys_desc *d, const bys_group *, bys_region *regions, size_t *n, uint64_t *tag, long timeout);

/* Copies the regions, which may be written to again then, but for those that are handed over. The tag is the
 * program's, equal on all members: a step, say. Waits for nobody. */
int bys_start(bys_desc, uint64_t tag);

/* Makes what was started the snapshot to restore: when all members have called it, and the bytes are safe
 * from the loss of a node. All members hear the same of one snapshot. */
int bys_commit(bys_desc, long timeout);

/* Ends: all members call it. keep 0: the snapshots are removed; else the newest is copied to the job's store,
 * and a later run goes on from it. *d is NULL after BYS_OK, and after errors but BYS_EPEER. */
int bys_finish(bys_desc *d, int keep, long timeout);

/* Says of each of n members, the first ones, which process it is now: its rank in MPI_COMM_WORLD, where there
 * is MPI, else the member's own number. UINT32_MAX: none, its process has died. */
int bys_processes(bys_desc, uint32_t *processes, size_t n);

/* A process that is no member waits here, outside of MPI, until it is to take the place of a member that has
 * died: under --survivors keep, of a program with Open MPI, whose launcher starts more processes than there
 * are members. group: its name, and how many members it has; filled in: member. BYS_OK: it is that one, and
 * calls bys_restore; BYS_NOTHING: the members have finished. One thread at a time; bys_error(NULL) has the
 * sentence. */
int bys_spare(bys_group *group, long timeout);

/* Numbers the time from one beginning, or restoring, of all members to the next: the same on all of them, and
 * higher each time, also when the job is started again. 0: they have not begun. */
uint64_t bys_epoch(bys_desc);

/* Says of each of n members, the first ones, whether it lives. BYS_OK: that has changed since the last such
 * call, or this is the first; BYS_TIMEOUT: it has not. May be called while another call waits. */
int bys_state(bys_desc, uint8_t *states, size_t n, long timeout);

/* A descriptor that is readable when bys_state has something to say, for poll(2), until bys_state has said
 * it; then there is another. -1: there is no agent. */
int bys_state_fd(bys_desc);

/* What the last call on a description said, or the last bys_init or bys_restore of this thread, if NULL. */
const char *bys_error(bys_desc);

#ifdef __cplusplus
}
#endif
#endif
