/* restart.c: datasets that the program reads, and the way of a file's name. Context: see state.h. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "state.h"

/* What rank 0 tells the others of a restart. */
struct newest {
	uint64_t dataset; /* 0: none */
	uint32_t flags;
	int well;
	char name[SCR_MAX_FILENAME];
};

/* Rank 0: the newest dataset that there is. */
static void newest(struct newest *n)
{
	if (scr_ask((struct client_request){.type = CLIENT_REQ_NEWEST}, false) != CLIENT_DONE)
		return;
	const char *name = client_text_next(&scr.client.text, NULL);
	n->dataset = scr.client.answer.dataset, n->flags = scr.client.answer.flags;
	if (n->dataset && (!name || strlen(name) >= sizeof n->name)) {
		scr_because("dataset %llu: the agent gives no name, or one that is too long",
			    (unsigned long long)n->dataset);
		return;
	}
	snprintf(n->name, sizeof n->name, "%s", name ? name : "");
	n->well = 1;
}

static int by_letters(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Keeps where this rank's files are: the answer's text, and its paths in order. */
static enum client_outcome fetch(uint64_t dataset, uint32_t flags)
{
	struct client_request r = {.type = CLIENT_REQ_FETCH, .dataset = dataset, .flags = flags};
	enum client_outcome outcome = scr_ask(r, false);
	if (outcome != CLIENT_DONE)
		return outcome;
	struct client_text given = scr.client.text;
	scr.client.text = scr.fetched, scr.fetched = given;
	scr.restart_flags = scr.client.answer.flags;
	const char *s = client_text_next(&scr.fetched, NULL);
	size_t n = 0;
	for (const char *p = s; p && (p = client_text_next(&scr.fetched, p));)
		n++;
	free(scr.index);
	scr.index = malloc((n + 1) * sizeof *scr.index), scr.indexed = 0;
	if (!s || !scr.index) {
		scr_because("%s (%zu files)", s ? "no memory" : "the agent names no directory", n);
		return CLIENT_LOST;
	}
	while ((s = client_text_next(&scr.fetched, s)))
		scr.index[scr.indexed++] = s;
	qsort(scr.index, n, sizeof *scr.index, by_letters);
	return CLIENT_DONE;
}

/* All ranks: how all have fetched; the lowest rank with the worst outcome says why. */
static enum client_outcome fetched(const char *call, enum client_outcome mine)
{
	int worst = -(int)mine, all = -(int)CLIENT_LOST;
	if (scr.mpi.allreduce(&worst, &all, 1, scr.mpi.integer, scr.mpi.min, scr.comm))
		return CLIENT_LOST;
	if (all)
		scr_agree(call, -(int)mine != all);
	return (enum client_outcome)-all;
}

/* All ranks: looks for the newest dataset. Returns false where nobody can say whether there is one, or a rank
 * cannot have its files: the agents have looked through all of them before they offer it. */
static bool look(const char *call, char *name)
{
	struct newest n = {.well = 0};
	if (scr.me == 0) {
		newest(&n);
		if (!n.well)
			scr_say(call, "%s", scr.why);
	}
	if (!scr_share(&n, sizeof n) || !n.well)
		return false;
	if (!n.dataset)
		return true;
	if (fetched(call, fetch(n.dataset, n.flags)) != CLIENT_DONE)
		return false;
	scr.have = true, scr.dataset = n.dataset;
	memcpy(name, n.name, sizeof n.name);
	return true;
}

int SCR_Have_restart(int *flag, char *name)
{
	bool on = scr_enter("SCR_Have_restart"), known = true;
	if (!flag)
		return FAILURE;
	*flag = 0;
	if (!on)
		return FAILURE;
	if (!scr.have)
		known = look("SCR_Have_restart", scr.restart);
	if (!known) /* else it would begin anew, and its checkpoints take the place of those that it has */
		return scr_wrong("SCR_Have_restart", "a dataset that cannot be had now",
				 "an agent that has it");
	*flag = scr.have;
	if (scr.have && name)
		strcpy(name, scr.restart);
	return SCR_SUCCESS;
}

int SCR_Start_restart(char *name)
{
	bool on = scr_enter("SCR_Start_restart");
	if (scr.phase == BEFORE)
		return FAILURE;
	if (!scr.have)
		return scr_wrong("SCR_Start_restart", "it without a dataset to read",
				 "SCR_Have_restart first, and that it finds one");
	scr.phase = IN_RESTART;
	if (!on)
		return FAILURE;
	if (name)
		strcpy(name, scr.restart);
	return SCR_SUCCESS;
}

int SCR_Complete_restart(int valid)
{
	const char *call = "SCR_Complete_restart";
	if (scr.phase != IN_RESTART)
		return scr_wrong(call, scr_found(), "SCR_Start_restart first");
	scr.phase = IDLE, scr.have = false, scr.why[0] = 0;
	if (!scr.on)
		return FAILURE;
	bool all = scr_agree(call, valid);
	struct client_request r = {.type = CLIENT_REQ_READ, .dataset = scr.dataset, .valid = all};
	if (scr.me == 0 && scr_ask(r, false) != CLIENT_DONE)
		scr_say(call, "%s", scr.why);
	return all ? SCR_SUCCESS : FAILURE;
}

static bool readable(const char *below, char *file)
{
	char full[MAX_PATH];
	const char *directory = client_text_next(&scr.fetched, NULL);
	size_t n = (size_t)snprintf(full, sizeof full, "%s/%s", directory, below);
	if (n >= SCR_MAX_FILENAME || access(full, R_OK))
		return false;
	memcpy(file, full, strlen(full) + 1);
	return true;
}

/* The file that was written under this path; else, as SCR does, one whose last part is the name's: programs
 * may give that alone. In the prefix itself any file may be read. */
static int route_restart(const char *call, const char *name, char *file)
{
	char path[MAX_PATH];
	const char *base = strrchr(name, '/'), *below = NULL;
	if (scr_absolute(name, path))
		below = scr_below(scr.prefix, path);
	bool listed = below && bsearch(&below, scr.index, scr.indexed, sizeof *scr.index, by_letters);
	if (listed && readable(below, file))
		return SCR_SUCCESS;
	if (below && scr.restart_flags & CLIENT_FLAG_BYPASS && readable(below, file))
		return SCR_SUCCESS;
	base = base ? base + 1 : name;
	for (size_t i = 0; i < scr.indexed; i++) {
		const char *last = strrchr(scr.index[i], '/');
		if (!strcmp(last ? last + 1 : scr.index[i], base) && readable(scr.index[i], file))
			return SCR_SUCCESS;
	}
	scr_say(call, "%s: found no such file %s dataset %s", name,
		scr.restart_flags & CLIENT_FLAG_ANY ? "of any rank in" : "of this rank in", scr.restart);
	return FAILURE;
}

int SCR_Route_file(const char *name, char *file)
{
	const char *call = "SCR_Route_file";
	bool inside = scr.phase == IN_RESTART || scr.phase == IN_CHECKPOINT || scr.phase == IN_OUTPUT;
	if (!name || !*name || !file)
		return FAILURE;
	if (strlen(name) >= SCR_MAX_FILENAME) {
		scr_say(call, "a name of %zu bytes, at most %d", strlen(name), SCR_MAX_FILENAME - 1);
		scr.unrouted = true;
		return FAILURE;
	}
	if (!inside) {
		memcpy(file, name, strlen(name) + 1);
		return SCR_SUCCESS;
	}
	if (!scr.on || scr.missed)
		return FAILURE;
	if (scr.phase == IN_RESTART)
		return route_restart(call, name, file);
	return scr_route_output(call, name, file);
}
