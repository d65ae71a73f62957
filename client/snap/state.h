/* state.h: what the files of libbyssus share. Context: inside other people's processes, any MPI or none; one
 * thread at a time for each description. Nothing ends the process, is printed, or raises a signal. */
#ifndef BYSSUS_SNAP_STATE_H
#define BYSSUS_SNAP_STATE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>
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

struct bys_description {
	pid_t pid;       /* who began it: a child has it not */
	atomic_flag use; /* a call is being made */
	enum phase phase;
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
	char why[640];
	struct bys_description *other; /* of this process (names.c) */
};

/* Has the description count as that of its member of its group; false: there is another (names.c). */
bool snap_name(struct bys_description *);
void snap_unname(struct bys_description *);

/* Makes the table; false: no memory. */
bool snap_lay_out(struct bys_description *);

/* The member's file of a snapshot (file.c); docs/format/snapshot.md. Each returns a bys_result, and fills
 * `why`. snap_read returns BYS_EDIFFER if the snapshot is of other regions. */
int snap_write(struct bys_description *, const char *dir, uint64_t tag);
int snap_read(struct bys_description *, const char *dir, uint64_t *tag);

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
