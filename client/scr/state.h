/* state.h: what the files of libscr share: its state, and what its calls have in common. Context: inside
 * other people's processes, of any MPI; one thread at a time. Nothing ends the process but scr_wrong, which
 * is called where SCR itself ends the job. */
#ifndef BYSSUS_SCR_STATE_H
#define BYSSUS_SCR_STATE_H
#include <stdbool.h>
#include <stdint.h>
#include "../c/client.h"
#include "../c/mpi.h"
#pragma GCC visibility push(default)
#include "scr.h"
#pragma GCC visibility pop

#define FAILURE 1
#define MAX_PATH 4096

enum phase { BEFORE, IDLE, IN_RESTART, IN_CHECKPOINT, IN_OUTPUT };

/* Strings of one's own. */
struct strings {
	char **at;
	size_t n, room;
};

/* A setting of the program: NAME=value, and what it has set below that value, "SUB=value SUB=value". */
struct setting {
	char *name, *value, *below;
};

/* The ranks of this node, of which the first speaks for all. */
struct node {
	uintptr_t comm; /* 0: none yet */
	int me, all;
	struct client_request *said; /* by all of them, and then those that are to be said for them */
};

struct scr {
	enum phase phase;
	bool on;        /* SCR_Init has succeeded: calls do something */
	bool missed;    /* a start has failed on all ranks: nothing is open, whatever the phase says */
	bool unrouted;  /* a file of this rank could not be routed: its output is not valid */
	bool exits;     /* the program is ended here when it is to end */
	bool have;      /* SCR_Have_restart has found something that the program has not read yet */
	struct mpi mpi;
	uintptr_t comm; /* a duplicate of MPI_COMM_WORLD, for messages of ours alone; 0: none yet */
	int me, all;
	struct node node;
	uint64_t run;   /* the agent's number of this program */
	uint64_t dataset;
	uint32_t flags; /* of the dataset, as the agent says */
	char prefix[SCR_MAX_FILENAME];
	char directory[MAX_PATH]; /* of this rank's files in the open dataset */
	char made[MAX_PATH];      /* the directory that was made last */
	struct strings routed;    /* paths below `directory` */
	char restart[SCR_MAX_FILENAME];    /* name of what there is to read */
	uint32_t restart_flags;
	struct client_text fetched;        /* where its files are: a directory, then paths */
	const char **index;                /* the paths in order */
	size_t indexed;
	struct setting *settings;
	size_t nsettings;
	struct client client;
	struct client_text text; /* of requests */
	char why[640];           /* what is wrong with this rank's part of a call */
};
extern struct scr scr;

/* Saying (scr.c). */
void scr_say(const char *call, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Fills scr.why, if it is empty. */
void scr_because(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Where SCR ends the job: a call in a wrong order, arguments that differ between ranks, a file outside the
 * prefix. The job is ended by MPI_Abort, since programs that ignore what calls return would go on without
 * checkpoints. Returns FAILURE where no MPI runs. */
int scr_wrong(const char *call, const char *found, const char *wanted);

/* Where in the order of calls the program is, as what scr_wrong has found. */
const char *scr_found(void);

/* What calls begin with: ends the job unless it is one that may be made now. Returns whether the library is
 * on. */
bool scr_enter(const char *call);

/* Finds the MPI library, and the agent that it knows of. NULL: found; else what is missing. */
const char *scr_mpi(void);

/* Finds MPI and makes the communicator. */
bool scr_attach(const char *call);

/* All ranks: finds those of this node, which has that number among the nodes; 0: this rank is alone. Returns
 * whether that was well here. */
bool scr_meet(uint32_t node);

/* All ranks: what rank 0 has. */
bool scr_share(void *bytes, size_t n);

/* All ranks: whether all of them say yes. The lowest rank with a reason in scr.why says it. */
bool scr_agree(const char *call, bool yes);

/* One conversation with the agent: the request of this rank, with scr.text if text is true. What is wrong
 * is in scr.why. */
enum client_outcome scr_ask(struct client_request, bool text);

/* The same for these ranks of the node, which have no text. */
enum client_outcome scr_ask_for(const struct client_request *, size_t n);

/* All ranks: rank 0 has asked, and this is how it ended; it says what was wrong. Returns whether that was
 * well, on all ranks. */
bool scr_told(const char *call, enum client_outcome);

/* All ranks: with SCR_HALT_EXIT=1 a program that is to end is ended. */
void scr_halt(const char *call);

/* Settings (config.c). The text is that of the agent: the working directory, then settings; also: of what
 * further variable of the environment. */
void scr_settings_text(struct client_text *, const char *also);
bool scr_disabled(void); /* by the environment or the program */
void scr_settings_forget(void);

/* Paths (path.c). */
bool scr_absolute(const char *name, char path[MAX_PATH]);       /* without . and .., by its letters alone */
const char *scr_below(const char *directory, const char *path); /* the rest of a path; NULL: not below */
bool scr_make_directories(const char *path, unsigned mode);     /* in which a file can be made */
bool scr_strings_add(struct strings *, const char *);
void scr_strings_clear(struct strings *);

/* The way of a file that is written (output.c). */
int scr_route_output(const char *call, const char *name, char *file);
#endif
