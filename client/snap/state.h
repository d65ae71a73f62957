/* state.h: what the files of libbyssus share. Context: inside other people's processes, any MPI or none; one
 * thread at a time for each description. Nothing ends the process, is printed, or raises a signal. */
#ifndef BYSSUS_SNAP_STATE_H
#define BYSSUS_SNAP_STATE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>
#include "../c/client.h"
#include "../c/mpi.h"
#pragma GCC visibility push(default)
#include "byssus.h"
#pragma GCC visibility pop

enum { MAX_REGIONS = 4096, NAME = 64, DIRECTORY = 4096 };

enum phase { ENTERING, READING, IDLE, STARTED, COMMITTING, LEAVING, ENDED /* by the death of a member */ };

/* What is known of the members' states (watch.c), by a conversation of its own. */
struct snap_watch {
	atomic_flag use;
	struct client client;
	int fd;           /* on which news come; -1: none are waited for */
	uint64_t version; /* of what is known, 0: nothing is */
	char *known;      /* a character for each member */
};

/* Where a region lies in the file of a snapshot. */
struct snap_entry { uint64_t id, bytes, at; };

/* The whole pages of a region that is watched (track.c). */
struct snap_watched {
	uint64_t at, pages, bit; /* bit: of the first page, in what is stale */
	unsigned rest;           /* how many snapshots copy all before it is looked at again */
	bool on, looked;         /* looked: at the last snapshot */
};

/* A file that we have filled, and a bit for each page that was written to since. */
struct snap_slot {
	uint64_t *stale;
	bool filled;
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec at; /* when it was written to */
};

enum { SNAP_SLOTS = 3 }; /* two are filled by turns; one more for when a file is lost */

struct snap_tracking {
	int pagemap, faults;
	struct snap_watched *of; /* by region; NULL: none is watched */
	uint64_t pages;
	struct snap_slot slots[SNAP_SLOTS];
	unsigned turn;
};

/* What bys_look has come to. LOOK_WAITS: it waits; LOOK_FOUND, with the offer of the agent, and LOOK_EMPTY:
 * bys_restore is to follow. */
enum look { LOOK_NO, LOOK_WAITS, LOOK_FOUND, LOOK_EMPTY };

/* What it is to fill. */
struct snap_sight {
	bys_region *regions;
	size_t *n;
	uint64_t *tag;
};

struct bys_description {
	pid_t pid;       /* who began it: a child has it not */
	atomic_flag use; /* a call is being made */
	enum phase phase;
	enum look look;
	struct client_answer offered; /* the snapshot that bys_look has found */
	bool restore, had; /* with the newest snapshot, which there was */
	bool room;         /* bys_start has found room */
	uint32_t member, members, process;
	char name[NAME], policy[NAME];
	bys_region *regions;
	struct snap_entry *table;
	size_t n;
	uint64_t run, next, tag, restored; /* next: number of the next snapshot; restored: tag */
	char dir[DIRECTORY];               /* of the next snapshot */
	int fd;                            /* on which an answer comes; -1: none is waited for */
	unsigned asked;                    /* type of the question */
	struct client client;
	struct client_text text; /* of questions */
	struct snap_watch watch;
	struct snap_tracking track;
	struct snap_hand *hand; /* copies what is handed over; NULL: nothing is */
	int file;               /* of the snapshot that is being written */
	struct snap_slot *slot; /* that it is; NULL: none */
	char why[640];
	struct bys_description *other; /* of this process (names.c) */
};

/* Has the description count as that of its member of its group; false: there is another (names.c). */
bool snap_name(struct bys_description *);
void snap_unname(struct bys_description *);

/* Makes the table; false: no memory. */
bool snap_lay_out(struct bys_description *);

/* The member's file of a snapshot (file.c); docs/format/snapshot.md. Each returns a bys_result, and fills
 * `why`. snap_read returns BYS_EDIFFER if the snapshot is of other regions; snap_look says of which. */
int snap_write(struct bys_description *, const char *dir, uint64_t tag);
int snap_read(struct bys_description *, const char *dir, uint64_t *tag);
int snap_look(struct bys_description *, const char *dir, const struct snap_sight *);

/* Completes what snap_write has begun, of a description whose regions are handed over. Returns errno. */
int snap_write_handed(struct bys_description *);

/* Says what a snapshot that was not completed has failed with. */
int snap_unwritten(struct bys_description *, int failed);

/* Gives the next snapshot's file its memory, so that bys_start need not wait for it. */
void snap_warm(struct bys_description *, const char *dir);

/* Which pages have been written to (track.c). At the beginning and at the end; in each bys_start, before
 * anything is copied: which have been since the last one; which slot a file is, NULL: nothing is watched;
 * when it has all bytes. A run of stale pages of a region that is on, from *to on, as their numbers; false:
 * there is no other. */
void snap_track_begin(struct bys_description *);
void snap_track_end(struct bys_description *);
void snap_track_look(struct bys_description *);
struct snap_slot *snap_track_slot(struct bys_description *, int fd);
void snap_track_filled(struct bys_description *, struct snap_slot *, int fd);
bool snap_track_run(const struct bys_description *, size_t region, const struct snap_slot *, uint64_t *from,
		    uint64_t *to);

/* Regions that are handed over (hand.c): at the beginning, and the end, which waits for what is being copied.
 * Has the thread call snap_write_handed; waits for it until then (CLOCK_MONOTONIC, NULL: for ever), false: it
 * has not; gives the regions back. */
void snap_hand_begin(struct bys_description *);
void snap_hand_end(struct bys_description *);
void snap_hand_over(struct bys_description *);
bool snap_hand_wait(struct bys_description *, const struct timespec *end, int *failed);
void snap_hand_back(const struct bys_description *);

/* How a region is captured. */
static inline uint32_t snap_capture(const bys_region *r) { return r->capture & ~(uint32_t)BYS_LEAVE; }

/* Whether checkpoints of this process are taken: all is copied at once then, since a checkpoint has nothing
 * of the kernel's tables, and would find the file that is being written. */
static inline bool snap_checkpointed(const struct bys_description *d)
{
	return d->client.at && *d->client.at;
}

/* Says which process this is: its rank in MPI_COMM_WORLD, else as it is given. Returns where the agent
 * listens, NULL: where the environment says. */
const char *snap_process(uint32_t *process, uint32_t otherwise);

/* Closes the conversation about states, and forgets them. */
void snap_unwatch(struct bys_description *);

/* Fills what bys_error(NULL) says. */
void snap_begun_why(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Fills `why`, with the group's name unless it is in it, and returns the result. */
int snap_because(struct bys_description *, int result, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
#endif
