/* scr.c: begin and end of libscr, what its calls have in common, and the calls that ask a question only.
 * Context: see state.h. */
#define _GNU_SOURCE
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "state.h"

/* Launchers end a job as soon as a rank asks for it, and lose what they have not forwarded yet: nanoseconds
 * for the sentence to get there. */
#define FORWARDED 300000000

struct scr scr;

void scr_say(const char *call, const char *format, ...)
{
	char line[2048];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	fprintf(stderr, "libscr: rank %d: %s: %s\n", scr.me, call, line);
	fflush(stderr);
}

void scr_because(const char *format, ...)
{
	va_list args;
	if (scr.why[0])
		return;
	va_start(args, format);
	vsnprintf(scr.why, sizeof scr.why, format, args);
	va_end(args);
}

const char *scr_mpi(void)
{
	const char *why = mpi_find(&scr.mpi);
	scr.client.at = scr.mpi.agent;
	return why;
}

int scr_wrong(const char *call, const char *found, const char *wanted)
{
	bool runs = !scr_mpi() && mpi_runs(&scr.mpi);
	if (runs)
		scr.mpi.rank(scr.mpi.world, &scr.me);
	scr_say(call, "found %s, wanted %s", found, wanted);
	if (runs) {
		nanosleep(&(struct timespec){.tv_nsec = FORWARDED}, NULL);
		scr.mpi.abort(scr.mpi.world, 1);
	}
	return FAILURE;
}

const char *scr_found(void)
{
	static const char *const found[] = {
		[BEFORE] = "it before SCR_Init",
		[IDLE] = "it while nothing is open",
		[IN_RESTART] = "it after SCR_Start_restart",
		[IN_CHECKPOINT] = "it after SCR_Start_checkpoint",
		[IN_OUTPUT] = "it after SCR_Start_output",
	};
	return found[scr.phase];
}

bool scr_enter(const char *call)
{
	static const char *const wanted[] = {
		[BEFORE] = "SCR_Init first",
		[IDLE] = "",
		[IN_RESTART] = "SCR_Complete_restart first",
		[IN_CHECKPOINT] = "SCR_Complete_checkpoint first",
		[IN_OUTPUT] = "SCR_Complete_output first",
	};
	if (scr.phase != IDLE && (scr.phase == BEFORE || !scr.missed)) {
		scr_wrong(call, scr_found(), wanted[scr.phase]);
		return false;
	}
	scr.phase = IDLE, scr.missed = false, scr.why[0] = 0;
	return scr.on;
}

bool scr_attach(const char *call)
{
	const char *why = scr_mpi();
	if (!why && !mpi_runs(&scr.mpi))
		why = "MPI has not been initialised, or is finalised already";
	if (!why && !scr.comm) {
		uintptr_t made = 0;
		if (scr.mpi.dup(scr.mpi.world, &made) || scr.mpi.rank(made, &scr.me) ||
		    scr.mpi.size(made, &scr.all))
			why = "MPI_COMM_WORLD could not be duplicated";
		else
			scr.comm = made;
	}
	if (why)
		scr_say(call, "%s", why);
	return !why;
}

/* Colours of ranks that are alone are beyond the numbers of nodes. */
#define ALONE (1 << 24)

bool scr_meet(uint32_t number)
{
	struct node *n = &scr.node;
	uintptr_t made = 0;
	int color = number > 0 && number < ALONE ? (int)number : ALONE + scr.me;
	if (scr.mpi.split(scr.comm, color, scr.me, &made) || scr.mpi.rank(made, &n->me) ||
	    scr.mpi.size(made, &n->all)) {
		scr_because("MPI_COMM_WORLD could not be split by nodes");
		return false;
	}
	n->comm = made;
	if (n->me == 0)
		n->said = calloc((size_t)n->all, sizeof *n->said);
	if (n->me == 0 && !n->said)
		scr_because("no memory");
	return n->me || n->said;
}

static void part(void)
{
	if (scr.node.comm)
		scr.mpi.free(&scr.node.comm);
	if (scr.comm)
		scr.mpi.free(&scr.comm);
}

bool scr_share(void *bytes, size_t n)
{
	return !scr.mpi.bcast(bytes, (int)n, scr.mpi.byte, 0, scr.comm);
}

/* Ranks with a reason come before those without, so that a reason is heard if there is one. */
bool scr_agree(const char *call, bool yes)
{
	int mine = yes ? INT_MAX : scr.why[0] ? scr.me : INT_MAX / 2 + scr.me / 2, lowest = INT_MAX;
	if (scr.mpi.allreduce(&mine, &lowest, 1, scr.mpi.integer, scr.mpi.min, scr.comm)) {
		scr_say(call, "MPI_Allreduce failed");
		return false;
	}
	if (lowest == mine && scr.why[0] && !yes)
		scr_say(call, "%s", scr.why);
	return lowest == INT_MAX;
}

enum client_outcome scr_ask(struct client_request r, bool text)
{
	r.rank = (uint32_t)scr.me, r.nranks = (uint32_t)scr.all, r.run = scr.run;
	enum client_outcome outcome = client_ask(&scr.client, &r, text ? &scr.text : NULL);
	if (outcome != CLIENT_DONE)
		scr_because("%s", scr.client.why);
	return outcome;
}

enum client_outcome scr_ask_for(const struct client_request *asks, size_t n)
{
	enum client_outcome outcome = client_ask_for(&scr.client, asks, n);
	if (outcome != CLIENT_DONE)
		scr_because("%s", scr.client.why);
	return outcome;
}

bool scr_told(const char *call, enum client_outcome outcome)
{
	int well = outcome == CLIENT_DONE;
	if (scr.me == 0 && !well)
		scr_say(call, "%s", scr.why);
	return scr_share(&well, sizeof well) && well;
}

/* What rank 0 tells the others of the beginning. */
struct begun {
	uint64_t run;
	int well, disabled, exits;
	char prefix[SCR_MAX_FILENAME];
};

/* Rank 0: begins, and looks for what the ranks need to know among the settings in force. */
static void begin(struct begun *b)
{
	char path[MAX_PATH] = "";
	const char *prefix = ".";
	client_text_clear(&scr.text);
	scr_settings_text(&scr.text, NULL);
	b->well = scr_ask((struct client_request){.type = CLIENT_REQ_BEGIN}, true) == CLIENT_DONE;
	if (!b->well)
		return;
	b->run = scr.client.answer.run;
	for (const char *s = NULL; (s = client_text_next(&scr.client.text, s));) {
		if (!strncmp(s, "SCR_PREFIX=", 11) && s[11])
			prefix = s + 11;
		if (!strncmp(s, "SCR_ENABLE=", 11))
			b->disabled = atoi(s + 11) == 0;
		if (!strncmp(s, "SCR_HALT_EXIT=", 14))
			b->exits = atoi(s + 14) != 0;
	}
	if (!scr_absolute(prefix, path) || strlen(path) >= sizeof b->prefix) {
		scr_because("SCR_PREFIX: %s: no path of at most %zu bytes", prefix, sizeof b->prefix - 1);
		b->well = 0;
		return;
	}
	memcpy(b->prefix, path, strlen(path) + 1);
}

int SCR_Init(void)
{
	struct begun b = {0};
	if (scr.phase != BEFORE)
		return scr_wrong("SCR_Init", "it a second time", "SCR_Finalize first");
	scr.phase = IDLE, scr.on = scr.missed = scr.have = false, scr.run = 0, scr.why[0] = 0;
	if (scr_disabled() || !scr_attach("SCR_Init"))
		return FAILURE;
	if (scr.me == 0) {
		begin(&b);
		if (!b.well)
			scr_say("SCR_Init", "%s", scr.why);
	}
	if (!scr_share(&b, sizeof b) || !b.well)
		return FAILURE;
	scr.run = b.run;
	memcpy(scr.prefix, b.prefix, sizeof scr.prefix);
	if (b.disabled)
		return FAILURE;
	enum client_outcome joined = scr_ask((struct client_request){.type = CLIENT_REQ_JOIN}, false);
	bool met = scr_meet(joined == CLIENT_DONE ? scr.client.answer.node : 0);
	scr.on = scr_agree("SCR_Init", joined == CLIENT_DONE && met);
	if (!scr.on)
		scr.run = 0;
	scr.exits = b.exits;
	scr_halt("SCR_Init");
	return scr.on ? SCR_SUCCESS : FAILURE;
}

/* Ranks of a program whose SCR_Init has failed are here as well, and those of one that has SCR disabled:
 * what is there is given back. */
int SCR_Finalize(void)
{
	bool on = scr_enter("SCR_Finalize"), well = false;
	if (scr.phase == BEFORE)
		return FAILURE;
	bool runs = mpi_runs(&scr.mpi);
	if (on && !runs)
		scr_say("SCR_Finalize", "MPI is finalised already, so that not all may be safe");
	if (runs && scr.comm && scr.run) {
		enum client_outcome ended = CLIENT_LOST;
		well = !scr.mpi.barrier(scr.comm);
		if (scr.me == 0 && well)
			ended = scr_ask((struct client_request){.type = CLIENT_REQ_END}, false);
		well = well && scr_told("SCR_Finalize", ended);
	}
	if (runs)
		part();
	scr_settings_forget();
	scr_strings_clear(&scr.routed);
	client_text_free(&scr.text), client_text_free(&scr.client.text), client_text_free(&scr.fetched);
	free(scr.routed.at), free(scr.index), free(scr.node.said);
	scr = (struct scr){.mpi = scr.mpi, .me = scr.me};
	return on && well ? SCR_SUCCESS : FAILURE;
}

char *SCR_Get_version(void)
{
	static char version[] = SCR_VERSION;
	return version;
}

/* Rank 0 asks something that is yes or no. */
static int ask_flag(const char *call, uint16_t type, int *flag)
{
	struct { int well, yes; } told = {0, 0};
	if (!flag)
		return FAILURE;
	*flag = 0;
	if (!scr.on)
		return FAILURE;
	if (scr.me == 0) {
		told.well = scr_ask((struct client_request){.type = type}, false) == CLIENT_DONE;
		told.yes = told.well && scr.client.answer.valid;
		if (!told.well)
			scr_say(call, "%s", scr.why);
	}
	if (!scr_share(&told, sizeof told) || !told.well)
		return FAILURE;
	*flag = told.yes;
	return SCR_SUCCESS;
}

/* MPI is finalised first: launchers take a process that ends without for one that has failed. */
void scr_halt(const char *call)
{
	int halt = 0;
	if (!scr.exits || ask_flag(call, CLIENT_REQ_EXIT, &halt) != SCR_SUCCESS || !halt)
		return;
	const char *why = scr.me == 0 ? client_text_next(&scr.client.text, NULL) : NULL;
	if (scr.me == 0)
		scr_say(call, "SCR_HALT_EXIT=1: the program ends here: %s", why ? why : "it is told to");
	SCR_Finalize();
	scr.mpi.finalize();
	exit(0);
}

int SCR_Need_checkpoint(int *flag)
{
	scr_enter("SCR_Need_checkpoint");
	return ask_flag("SCR_Need_checkpoint", CLIENT_REQ_NEED, flag);
}

int SCR_Should_exit(int *flag)
{
	scr_enter("SCR_Should_exit");
	return ask_flag("SCR_Should_exit", CLIENT_REQ_EXIT, flag);
}

/* Rank 0 asks for something to be done with the dataset of a name. */
static int ask_name(const char *call, uint16_t type, const char *name)
{
	enum client_outcome outcome = CLIENT_LOST;
	if (!scr_enter(call))
		return FAILURE;
	if (scr.me == 0 && (!name || !*name || strlen(name) >= SCR_MAX_FILENAME))
		scr_because("a name of 1 to %d bytes is wanted", SCR_MAX_FILENAME - 1);
	else if (scr.me == 0) {
		client_text_clear(&scr.text);
		client_text_add(&scr.text, name);
		outcome = scr_ask((struct client_request){.type = type}, true);
	}
	return scr_told(call, outcome) ? SCR_SUCCESS : FAILURE;
}

/* The program has restarted by itself: what SCR_Have_restart has found is of no use. */
int SCR_Current(const char *name)
{
	int rc = ask_name("SCR_Current", CLIENT_REQ_CURRENT, name);
	if (rc == SCR_SUCCESS)
		scr.have = false;
	return rc;
}

int SCR_Drop(const char *name)
{
	return ask_name("SCR_Drop", CLIENT_REQ_DROP, name);
}

int SCR_Delete(const char *name)
{
	return ask_name("SCR_Delete", CLIENT_REQ_DELETE, name);
}
