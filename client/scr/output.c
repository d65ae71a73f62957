/* output.c: datasets that the program writes. Context: see state.h. A start is one conversation of rank 0
 * and one broadcast, a complete is one gathering on each node, one conversation of its first
 * rank for all of it, and one reduction: nothing more, if no file is routed. Ranks that have to name files
 * talk to the agent by themselves. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "state.h"

/* What rank 0 tells the others of a dataset: then its own name of it, and the directory, in one packet if
 * they are short. */
struct opened {
	uint64_t dataset;
	uint32_t flags;
	int32_t well, asked, length; /* what rank 0 asked for; bytes of both strings */
	char strings[1024];
};

/* Rank 0: opens a dataset. The strings are in scr.text. */
static void open_dataset(struct opened *o, const char *name, int flags)
{
	struct client_request r = {.type = CLIENT_REQ_OPEN};
	r.flags = flags & (SCR_FLAG_CHECKPOINT | SCR_FLAG_OUTPUT);
	o->asked = flags;
	client_text_clear(&scr.text);
	if (strlen(name) >= SCR_MAX_FILENAME) {
		scr_because("a name of %zu bytes, at most %d", strlen(name), SCR_MAX_FILENAME - 1);
		return;
	}
	client_text_add(&scr.text, name);
	if (scr_ask(r, true) != CLIENT_DONE)
		return;
	const char *given = client_text_next(&scr.client.text, NULL);
	const char *directory = given ? client_text_next(&scr.client.text, given) : NULL;
	if (!directory || strlen(directory) >= MAX_PATH - 32) {
		scr_because("the agent names no directory, or one that is too long");
		return;
	}
	client_text_add(&scr.text, directory);
	o->well = !scr.text.lost, o->dataset = scr.client.answer.dataset, o->flags = scr.client.answer.flags;
	o->length = (int32_t)scr.text.length;
	if (scr.text.length <= sizeof o->strings)
		memcpy(o->strings, scr.text.at, scr.text.length);
}

/* All ranks: the strings, from the packet or from one that follows. They are in `both`. */
static bool strings(const struct opened *o, char both[SCR_MAX_FILENAME + MAX_PATH])
{
	if ((size_t)o->length <= sizeof o->strings) {
		memcpy(both, o->strings, (size_t)o->length);
		return true;
	}
	if (scr.me == 0)
		memcpy(both, scr.text.at, (size_t)o->length);
	return scr_share(both, (size_t)o->length);
}

static int start(const char *call, enum phase phase, const char *name, int flags)
{
	struct opened o = {.well = 0};
	char both[SCR_MAX_FILENAME + MAX_PATH];
	bool on = scr_enter(call);
	if (scr.phase == BEFORE)
		return FAILURE;
	scr.phase = phase, scr.missed = true;
	if (!on)
		return FAILURE;
	scr.have = scr.unrouted = false, scr.made[0] = 0;
	name = name ? name : "";
	if (scr.me == 0) {
		open_dataset(&o, name, flags);
		if (!o.well)
			scr_say(call, "%s", scr.why);
	}
	if (!scr_share(&o, sizeof o) || !o.well || !strings(&o, both))
		return FAILURE;
	if (strcmp(name, both))
		return scr_wrong(call, *name ? name : "no name", "the name that rank 0 gave");
	if (flags != o.asked)
		return scr_wrong(call, "other flags", "those that rank 0 gave");
	const char *directory = both + strlen(both) + 1;
	scr.missed = false, scr.dataset = o.dataset, scr.flags = o.flags;
	if (o.flags & CLIENT_FLAG_BYPASS)
		snprintf(scr.directory, sizeof scr.directory, "%s", directory);
	else
		snprintf(scr.directory, sizeof scr.directory, "%s/rank-%05d.files", directory, scr.me);
	return SCR_SUCCESS;
}

int SCR_Start_output(const char *name, int flags)
{
	return start("SCR_Start_output", IN_OUTPUT, name, flags);
}

int SCR_Start_checkpoint(void)
{
	return start("SCR_Start_checkpoint", IN_CHECKPOINT, NULL, SCR_FLAG_CHECKPOINT);
}

/* This rank's output cannot be whole without the file. */
static int unrouted(const char *call, const char *name, const char *why)
{
	scr_say(call, "%s: %s", name, why);
	scr.unrouted = true;
	return FAILURE;
}

int scr_route_output(const char *call, const char *name, char *file)
{
	char path[MAX_PATH], full[MAX_PATH];
	unsigned mode = scr.flags & CLIENT_FLAG_BYPASS ? 0777 : 0700;
	if (!scr_absolute(name, path))
		return unrouted(call, name, "its path is too long, or the working directory is gone");
	const char *below = scr_below(scr.prefix, path);
	if (!below) {
		char wanted[SCR_MAX_FILENAME + 64];
		snprintf(wanted, sizeof wanted, "a file below SCR_PREFIX, %s", scr.prefix);
		scr.unrouted = true;
		return scr_wrong(call, path, wanted);
	}
	if ((size_t)snprintf(full, sizeof full, "%s/%s", scr.directory, below) >= SCR_MAX_FILENAME)
		return unrouted(call, name, "the path to write to is longer than SCR_MAX_FILENAME");
	if (!scr_make_directories(full, mode))
		return unrouted(call, full, strerror(errno));
	if (!scr_strings_add(&scr.routed, below))
		return unrouted(call, name, "no memory");
	memcpy(file, full, strlen(full) + 1);
	return SCR_SUCCESS;
}

/* Whether somebody has a file open for writing: then no read lease is given. The signal that tells of who
 * comes in between is one that does nothing by itself. */
static bool still_written(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	if (fd < 0)
		return false;
	fcntl(fd, F_SETSIG, SIGURG);
	bool written = fcntl(fd, F_SETLEASE, F_RDLCK) && errno == EAGAIN;
	close(fd);
	return written;
}

/* Looks at one file; false: scr.why says what is wrong with it. */
static bool whole(const char *below, uint64_t *bytes)
{
	char path[2 * MAX_PATH];
	struct stat st;
	bool bypass = scr.flags & CLIENT_FLAG_BYPASS;
	snprintf(path, sizeof path, "%s/%s", scr.directory, below);
	if (bypass ? stat(path, &st) : lstat(path, &st))
		scr_because("%s: %s", path, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		scr_because("%s: it is not a regular file", path);
	else if (!bypass && still_written(path))
		scr_because("%s: somebody has it open for writing still", path);
	else
		*bytes += (uint64_t)st.st_size;
	return !scr.why[0];
}

static int by_letters(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Looks at the routed files, each once. */
static bool all_whole(uint64_t *files, uint64_t *bytes)
{
	struct strings *s = &scr.routed;
	if (s->n)
		qsort(s->at, s->n, sizeof *s->at, by_letters);
	for (size_t i = 0; i < s->n; i++) {
		if (i && !strcmp(s->at[i], s->at[i - 1]))
			continue;
		if (!whole(s->at[i], bytes))
			return false;
		++*files;
	}
	return true;
}

/* All ranks: tells the agent what this rank has to say of its part. Returns whether it was told, where this
 * rank knows it: the first of the node may know it for others. */
static bool tell(struct client_request *mine)
{
	struct node *n = &scr.node;
	bool well = true;
	mine->rank = (uint32_t)scr.me, mine->nranks = (uint32_t)scr.all, mine->run = scr.run;
	if (n->all == 1 || scr.text.length || scr.text.lost) {
		well = scr_ask(*mine, true) == CLIENT_DONE;
		mine->type = 0; /* nobody needs to say it again */
	}
	if (n->all == 1)
		return well;
	int size = (int)sizeof *mine;
	if (scr.mpi.gather(mine, size, scr.mpi.byte, n->said, size, scr.mpi.byte, 0, n->comm)) {
		scr_because("MPI_Gather failed");
		return false;
	}
	size_t left = 0;
	for (int i = 0; n->me == 0 && i < n->all; i++)
		if (n->said[i].type)
			n->said[left++] = n->said[i];
	return (!left || scr_ask_for(n->said, left) == CLIENT_DONE) && well;
}

/* A rank without files has a directory, too: the agent looks for what lies in it. */
static bool has_directory(void)
{
	char inside[MAX_PATH + 4];
	if (scr.flags & CLIENT_FLAG_BYPASS || scr.routed.n)
		return true;
	snprintf(inside, sizeof inside, "%s/.", scr.directory);
	if (!scr_make_directories(inside, 0700))
		scr_because("%s: %s", scr.directory, strerror(errno));
	return !scr.why[0];
}

static int complete(const char *call, enum phase phase, const char *first, int valid)
{
	struct client_request r = {.type = CLIENT_REQ_WRITTEN, .dataset = scr.dataset};
	if (scr.phase != phase)
		return scr_wrong(call, scr_found(), first);
	bool missed = scr.missed;
	scr.phase = IDLE, scr.missed = false, scr.why[0] = 0;
	if (!scr.on || missed)
		return FAILURE;
	bool well = valid && !scr.unrouted && has_directory() && all_whole(&r.nfiles, &r.bytes);
	r.valid = well;
	client_text_clear(&scr.text);
	if (scr.flags & CLIENT_FLAG_BYPASS)
		for (size_t i = 0; i < scr.routed.n; i++)
			if (!i || strcmp(scr.routed.at[i], scr.routed.at[i - 1]))
				client_text_add(&scr.text, scr.routed.at[i]);
	if (!tell(&r))
		well = false;
	scr_strings_clear(&scr.routed);
	if (!scr_agree(call, well))
		return FAILURE;
	if (scr.flags & CLIENT_FLAG_CHECKPOINT)
		scr_halt(call);
	return SCR_SUCCESS;
}

int SCR_Complete_output(int valid)
{
	return complete("SCR_Complete_output", IN_OUTPUT, "SCR_Start_output first", valid);
}

int SCR_Complete_checkpoint(int valid)
{
	return complete("SCR_Complete_checkpoint", IN_CHECKPOINT, "SCR_Start_checkpoint first", valid);
}
