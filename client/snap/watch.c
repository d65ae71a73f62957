/* watch.c: which members live. The agent is asked, and answers when that changes: until then the question
 * stays open on a descriptor of its own. Context: see state.h; beside another call on the description. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "state.h"

void snap_unwatch(struct bys_description *d)
{
	struct snap_watch *w = &d->watch;
	if (w->fd >= 0) close(w->fd);
	client_text_free(&w->client.text);
	free(w->known);
	w->fd = -1, w->version = 0, w->known = NULL;
}

/* Asks for news, unless that has been done; false: there is no agent. */
static bool watch(struct bys_description *d)
{
	struct snap_watch *w = &d->watch;
	struct client_request r = {.type = CLIENT_REQ_STATE, .rank = d->member, .nranks = d->members,
				   .run = d->run, .dataset = w->version};
	w->client.at = d->client.at;
	struct client_text text = {0};
	if (w->fd < 0) {
		client_text_add(&text, "");
		client_text_add(&text, d->name);
		w->fd = client_say(&w->client, &r, &text);
		client_text_free(&text);
	}
	return w->fd >= 0;
}

/* Takes in news; false: they are none. */
static bool learn(struct bys_description *d)
{
	struct snap_watch *w = &d->watch;
	const char *states = client_text_next(&w->client.text, NULL);
	char *known = states && strlen(states) == d->members ? strdup(states) : NULL;
	if (!known) return false;
	free(w->known);
	w->known = known, w->version = w->client.answer.dataset;
	return true;
}

static int look(struct bys_description *d, long timeout)
{
	struct snap_watch *w = &d->watch;
	if (d->phase < IDLE) return BYS_EUSE; /* it has not begun */
	if (!watch(d)) return BYS_EAGENT;
	switch (client_hear(&w->client, w->fd, CLIENT_REQ_STATE, timeout)) {
	case CLIENT_LATER: return BYS_TIMEOUT;
	case CLIENT_DONE: break;
	default: w->fd = -1; return BYS_EAGENT;
	}
	w->fd = -1;
	if (!learn(d)) return BYS_EAGENT;
	watch(d); /* so that bys_state_fd tells of the next change */
	return BYS_OK;
}

int bys_state(bys_desc d, uint8_t *states, size_t n, long timeout)
{
	if (!d || d->pid != getpid() || n > d->members || (n && !states)) return BYS_EUSE;
	if (atomic_flag_test_and_set(&d->watch.use)) return BYS_EUSE;
	int result = look(d, timeout);
	for (size_t i = 0; i < n; i++) {
		bool dead = d->watch.known && d->watch.known[i] == '1';
		states[i] = dead ? BYS_CORRUPT : BYS_HEALTHY;
	}
	atomic_flag_clear(&d->watch.use);
	return result;
}

uint64_t bys_epoch(bys_desc d)
{
	return d && d->pid == getpid() && d->phase >= IDLE ? d->run : 0;
}

int bys_state_fd(bys_desc d)
{
	if (!d || d->pid != getpid() || d->phase < IDLE) return -1;
	if (atomic_flag_test_and_set(&d->watch.use)) return -1;
	int fd = watch(d) ? d->watch.fd : -1;
	atomic_flag_clear(&d->watch.use);
	return fd;
}
