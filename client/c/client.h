/* client.h: how a program talks to the agent of its node (docs/format/client.md): it connects, says one
 * thing, hears the answer and hangs up. Context: inside other people's processes, any MPI or none; one
 * thread at a time for each struct client. Nothing is printed, nothing ends the process, no signal is
 * touched: what goes wrong is a sentence in `why`. */
#ifndef BYSSUS_CLIENT_H
#define BYSSUS_CLIENT_H
#include <stdbool.h>
#include <stddef.h>
#include "client_gen.h"

/* Strings behind each other, each with a zero at its end. All zero: none. The memory stays for the next
 * use. */
struct client_text {
	char *at;
	size_t length, room;
	bool lost; /* memory ran out: something is missing */
};

void client_text_add(struct client_text *, const char *string);
void client_text_addf(struct client_text *, const char *format, ...) __attribute__((format(printf, 2, 3)));
void client_text_clear(struct client_text *);
void client_text_free(struct client_text *);

/* The string behind `at`, the first one if that is NULL; NULL: there is none. */
const char *client_text_next(const struct client_text *, const char *at);

/* A conversation: the answer, or why there is none. All zero at first. */
struct client {
	const char *at; /* where the agent listens; NULL or empty: where the environment says */
	struct client_answer answer;
	struct client_text text; /* of the answer */
	char why[512];
};

enum client_outcome {
	CLIENT_DONE,    /* the answer is there */
	CLIENT_REFUSED, /* the agent does not do it: `why` is its sentence */
	CLIENT_LOST,    /* there was no conversation: `why` says what was missing */
	CLIENT_LATER    /* the answer has not come yet */
};

/* Says one thing to the agent and hears its answer. Type, rank and so on are the caller's; the rest of the
 * record is filled in. `text` may be NULL. */
enum client_outcome client_ask(struct client *, const struct client_request *, const struct client_text *);

/* Says one thing. Returns a descriptor on which the answer comes, or -1: `why` says what was missing. */
int client_say(struct client *, const struct client_request *, const struct client_text *);

/* Hears the answer, for which ms milliseconds are waited, < 0: however long it takes. Unless it comes later,
 * the descriptor is closed. */
enum client_outcome client_hear(struct client *, int fd, unsigned type, long ms);

/* The same of several ranks, each without a text: n requests of type WRITTEN, 1 at least. */
enum client_outcome client_ask_for(struct client *, const struct client_request *, size_t n);

/* Whether there is an agent to talk to. */
bool client_has_agent(const struct client *);
#endif
