/* snap.c: the calls of byssus.h. What members say together goes to the agent as one question each, whose
 * answer is waited for on a descriptor: a call whose time is up leaves that open, and the next goes on.
 * Context: see state.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "state.h"

static __thread char begun_why[640]; /* of a description that could not begin */

void snap_begun_why(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(begun_why, sizeof begun_why, format, args);
	va_end(args);
}

int snap_because(struct bys_description *d, int result, const char *format, ...)
{
	char named[sizeof "group " + NAME];
	va_list args;
	va_start(args, format);
	int n = vsnprintf(d->why, sizeof d->why - sizeof named - 3, format, args);
	va_end(args);
	snprintf(named, sizeof named, "group %s", d->name);
	if (n >= 0 && !strstr(d->why, named)) {
		size_t end = strlen(d->why);
		snprintf(d->why + end, sizeof d->why - end, " (%s)", named);
	}
	return result;
}

const char *bys_error(bys_desc d) { return d ? d->why : begun_why; }

static int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

/* Of a call that may take so long: the time when it is up; < 0: never. */
static int64_t until(long timeout) { return timeout < 0 ? -1 : now_ms() + timeout; }

static int refused(struct bys_description *d)
{
	int result = d->client.answer.flags & CLIENT_FLAG_DIFFER ? BYS_EDIFFER : BYS_EAGENT;
	if (d->client.answer.flags & CLIENT_FLAG_LOST) result = BYS_ELOST;
	if (d->client.answer.flags & CLIENT_FLAG_USE) result = BYS_EUSE;
	if (d->client.answer.flags & CLIENT_FLAG_ROOM) result = BYS_EROOM;
	if (d->client.answer.flags & CLIENT_FLAG_PEER) result = BYS_EPEER, d->phase = ENDED;
	return snap_because(d, result, "%s", d->client.why);
}

/* Asks, and waits for the answer until then. */
static int ask(struct bys_description *d, struct client_request r, int64_t end)
{
	if (d->fd < 0) {
		r.rank = d->member, r.nranks = d->members, r.run = d->run;
		d->asked = r.type;
		d->fd = client_say(&d->client, &r, d->text.length ? &d->text : NULL);
		if (d->fd < 0) return snap_because(d, BYS_EAGENT, "%s", d->client.why);
	}
	for (;;) {
		int64_t left = end < 0 ? -1 : end - now_ms();
		if (end >= 0 && left < 0) left = 0;
		enum client_outcome o = client_hear(&d->client, d->fd, d->asked, left);
		if (o == CLIENT_LATER && left) continue;
		if (o == CLIENT_LATER) return BYS_TIMEOUT;
		d->fd = -1;
		if (o == CLIENT_REFUSED) return refused(d);
		return o == CLIENT_DONE ? BYS_OK : snap_because(d, BYS_EAGENT, "%s", d->client.why);
	}
}

/* Takes in where the next snapshot is to be put. */
static int placed(struct bys_description *d)
{
	const struct client_answer *a = &d->client.answer;
	const char *dir = client_text_next(&d->client.text, NULL);
	d->run = a->run, d->next = a->dataset;
	int n = dir ? snprintf(d->dir, sizeof d->dir, "%s/rank-%05u.files", dir, d->member) : -1;
	if (n < 0 || n >= (int)sizeof d->dir)
		return snap_because(d, BYS_EAGENT, "the agent names no directory for the next snapshot");
	d->phase = IDLE;
	if (d->n) snap_warm(d, d->dir);
	return BYS_OK;
}

/* Reads the snapshot that the agent has offered, and says how that went in the next question; or looks at it,
 * of which nothing is said if it can be read. */
static int read_offered(struct bys_description *d, struct client_request *r, const struct snap_sight *s)
{
	struct client_answer offered = d->client.answer;
	uint64_t n = offered.dataset;
	struct client_request fetch = {.type = CLIENT_REQ_FETCH, .dataset = n,
				       .flags = d->client.answer.flags & CLIENT_FLAG_BYPASS};
	d->run = d->client.answer.run;
	client_text_clear(&d->text);
	int result = ask(d, fetch, -1); /* this node's agent answers at once */
	const char *dir = result == BYS_OK ? client_text_next(&d->client.text, NULL) : NULL;
	if (result == BYS_OK && s)
		result = dir ? snap_look(d, dir, s) : BYS_ESYS;
	else if (result == BYS_OK)
		result = dir ? snap_read(d, dir, &d->restored) : BYS_ESYS;
	if (result == BYS_OK && s) return d->offered = offered, d->look = LOOK_FOUND, BYS_OK;
	client_text_add(&d->text, result == BYS_EDIFFER ? d->why : "");
	client_text_add(&d->text, d->name);
	*r = (struct client_request){.type = CLIENT_REQ_READY, .dataset = n, .valid = result == BYS_OK};
	return result;
}

/* A member that has its regions is ready to be computed with. */
static void settle(struct bys_description *d)
{
	d->look = LOOK_NO;
	snap_track_end(d);
	snap_track_begin(d);
	snap_hand_begin(d);
}

/* Begins, or goes on beginning; with a sight, as far as it takes to fill that. */
static int enter(struct bys_description *d, int64_t end, const struct snap_sight *s)
{
	struct client_request r = {.type = CLIENT_REQ_ENTER, .nfiles = d->process};
	r.flags = d->restore ? CLIENT_FLAG_RESTORE : 0;
	if (d->fd < 0) {
		for (size_t i = 0; i < d->n; i++) r.bytes += d->regions[i].bytes;
		client_text_clear(&d->text);
		client_text_add(&d->text, d->name);
		client_text_add(&d->text, d->policy);
	}
	if (d->look == LOOK_FOUND) d->client.answer = d->offered;
	int result = d->look == LOOK_FOUND ? BYS_OK : ask(d, r, end);
	while (result == BYS_OK && d->client.answer.flags & CLIENT_FLAG_RESTORE) {
		d->phase = READING, d->look = s ? LOOK_WAITS : LOOK_NO;
		if (read_offered(d, &r, s) == BYS_OK && s) return BYS_OK;
		result = ask(d, r, end);
	}
	if (result != BYS_OK) return result;
	d->had = d->phase == READING && d->client.answer.valid;
	if (!s) return settle(d), placed(d);
	result = placed(d);
	d->phase = READING, d->look = LOOK_EMPTY, *s->n = 0;
	return result;
}

/* -- beginning ------------------------------------------------------------------------------------------- */

static const char *wrong_group(const bys_group *g)
{
	if (!g || g->member >= g->members) return "a group, and a member below the number of members";
	if (g->name && (!*g->name || strlen(g->name) >= NAME || strpbrk(g->name, " \t\n/.")))
		return "a name of 1 to 63 bytes without blanks, slashes and dots";
	if (g->policy && strlen(g->policy) >= NAME) return "a policy of at most 63 bytes";
	return NULL;
}

static const char *wrong(const bys_region *regions, size_t n, const bys_group *g)
{
	const char *why = wrong_group(g);
	if (why) return why;
	if (!regions || n < 1 || n > MAX_REGIONS) return "1 to 4096 regions";
	for (size_t i = 0; i < n; i++) {
		if (!regions[i].at || !regions[i].bytes) return "regions with an address and at least 1 byte";
		if (snap_capture(&regions[i]) > BYS_HANDOVER)
			return "a capture of BYS_COPY, BYS_TRACK or BYS_HANDOVER";
		for (size_t k = 0; k < i; k++)
			if (regions[k].id == regions[i].id) return "each id once";
	}
	return NULL;
}

static const char *name_of(const bys_group *g) { return g->name ? g->name : "memory"; }

static struct bys_description *make(const bys_region *regions, size_t n, const bys_group *g, bool restore)
{
	struct bys_description *d = calloc(1, sizeof *d);
	bys_region *copy = calloc(n + 1, sizeof *copy); /* who looks has none yet */
	if (!d || !copy) return free(d), free(copy), NULL;
	if (n) memcpy(copy, regions, n * sizeof *copy);
	atomic_flag_clear(&d->use), atomic_flag_clear(&d->watch.use);
	d->fd = d->watch.fd = d->file = d->track.pagemap = d->track.faults = -1;
	d->pid = getpid(), d->restore = restore, d->regions = copy, d->n = n;
	d->member = g->member, d->members = g->members;
	snprintf(d->name, sizeof d->name, "%s", name_of(g));
	snprintf(d->policy, sizeof d->policy, "%s", g->policy ? g->policy : "");
	d->client.at = snap_process(&d->process, d->member);
	return snap_lay_out(d) ? d : (free(copy), free(d), NULL);
}

/* Makes the description of a member that has none yet. */
static int make_named(bys_desc *at, const bys_region *regions, size_t n, const bys_group *g, bool restore)
{
	struct bys_description *d = make(regions, n, g, restore);
	if (!d) return snap_begun_why("no memory for the description"), BYS_ESYS;
	if (snap_name(d)) return *at = d, BYS_OK;
	snap_begun_why("found another description of member %u of group %s in this process, wanted that, "
		       "or a group of another name", d->member, d->name);
	free(d->regions), free(d->table), free(d);
	return BYS_EUSE;
}

static void unmake(bys_desc *at)
{
	struct bys_description *d = *at;
	snprintf(begun_why, sizeof begun_why, "%s", d->why);
	snap_unname(d);
	snap_hand_end(d), snap_hand_back(d);
	snap_track_end(d);
	if (d->fd >= 0) close(d->fd);
	snap_unwatch(d);
	client_text_free(&d->text), client_text_free(&d->client.text);
	free(d->regions), free(d->table), free(d);
	*at = NULL;
}

/* Whether a call may be made now; it ends with leave. Another thread's sentence is left alone. */
static int come(struct bys_description *d)
{
	if (!d) return BYS_EUSE;
	if (d->pid != getpid())
		return snap_because(d, BYS_EUSE, "found process %d, wanted the one that began, %d", getpid(),
				    d->pid);
	return atomic_flag_test_and_set(&d->use) ? BYS_EUSE : BYS_OK;
}

static int leave(struct bys_description *d, int result)
{
	atomic_flag_clear(&d->use);
	return result;
}

/* Takes the regions of another description, which is no more then. */
static void take(struct bys_description *d, struct bys_description *new)
{
	free(d->regions), free(d->table);
	d->regions = new->regions, d->table = new->table, d->n = new->n;
	free(new);
}

/* Takes the regions that bys_look was not given. */
static int adopt(struct bys_description *d, const bys_region *regions, size_t n, const bys_group *g)
{
	struct bys_description *new = make(regions, n, g, true);
	if (!new) return BYS_ESYS;
	return take(d, new), BYS_OK;
}

/* Takes other regions, and whatever else may differ, when a description begins again. */
static int renew(struct bys_description *d, const bys_region *regions, size_t n, const bys_group *g)
{
	struct bys_description *new = make(regions, n, g, true);
	if (!new) return BYS_ESYS;
	snap_hand_end(d), snap_hand_back(d);
	snap_track_end(d);
	if (d->fd >= 0) close(d->fd);
	d->members = new->members, d->fd = -1;
	memcpy(d->policy, new->policy, sizeof d->policy);
	d->phase = ENTERING, d->restore = true, d->had = false;
	snap_unwatch(d);
	return take(d, new), BYS_OK;
}

static int begin(bys_desc *at, const bys_region *regions, size_t n, const bys_group *g, long timeout,
		 bool restore)
{
	const char *why = at ? wrong(regions, n, g) : "a place for the description";
	if (why) return snap_begun_why("wanted %s", why), BYS_EUSE;
	if (!*at) {
		int made = make_named(at, regions, n, g, restore);
		if (made != BYS_OK) return made;
	}
	if (come(*at) != BYS_OK) return BYS_EUSE;
	struct bys_description *d = *at;
	if (d->phase <= READING && d->restore != restore)
		return leave(d, snap_because(d, BYS_EUSE, "found bys_%s, wanted the call that timed out",
					     restore ? "restore" : "init"));
	if (d->phase > READING && !restore)
		return leave(d, snap_because(d, BYS_EUSE, "this description has begun already"));
	bool looked = d->look != LOOK_NO;
	if ((d->phase > READING || looked) && (strcmp(d->name, name_of(g)) || d->member != g->member))
		return leave(d, snap_because(d, BYS_EUSE, "found member %u of %s, wanted member %u of group "
					     "%s, as which this description has begun", g->member,
					     name_of(g), d->member, d->name));
	if ((d->phase > READING && renew(d, regions, n, g) != BYS_OK) ||
	    (looked && adopt(d, regions, n, g) != BYS_OK))
		return leave(d, snap_because(d, BYS_ESYS, "no memory for the description"));
	if (d->look == LOOK_EMPTY) {
		settle(d), d->phase = IDLE, d->had = false;
		snap_warm(d, d->dir);
		return leave(d, BYS_OK);
	}
	int result = enter(d, until(timeout), NULL);
	if (result < 0) return unmake(at), result;
	return leave(d, result);
}

int bys_look(bys_desc *at, const bys_group *g, bys_region *regions, size_t *n, uint64_t *tag, long timeout)
{
	const char *why = at && n && (regions || !*n) ? wrong_group(g) : "places for what there is to say";
	if (why) return snap_begun_why("wanted %s", why), BYS_EUSE;
	if (!*at) {
		int made = make_named(at, NULL, 0, g, true);
		if (made != BYS_OK) return made;
		(*at)->look = LOOK_WAITS;
	}
	if (come(*at) != BYS_OK) return BYS_EUSE;
	struct bys_description *d = *at;
	if (d->look == LOOK_NO)
		return leave(d, snap_because(d, BYS_EUSE, "found a description that has begun otherwise, "
					     "wanted none"));
	if (d->look == LOOK_EMPTY) return *n = 0, leave(d, BYS_NOTHING);
	struct snap_sight s = {regions, n, tag};
	int result = enter(d, until(timeout), &s);
	if (result < 0) return unmake(at), result;
	return leave(d, result == BYS_OK && d->look == LOOK_EMPTY ? BYS_NOTHING : result);
}

int bys_init(bys_desc *d, const bys_region *regions, size_t n, const bys_group *g, long timeout)
{
	return begin(d, regions, n, g, timeout, false);
}

int bys_restore(bys_desc *d, const bys_region *regions, size_t n, const bys_group *g, uint64_t *tag,
		long timeout)
{
	int result = begin(d, regions, n, g, timeout, true);
	if (result == BYS_OK && tag) *tag = (*d)->restored;
	return result == BYS_OK && !(*d)->had ? BYS_NOTHING : result;
}

/* -- snapshots ------------------------------------------------------------------------------------------- */

static const char not_begun[] = "found a description that has not begun yet: its time was up, or bys_restore "
				"has not followed bys_look";

int bys_start(bys_desc d, uint64_t tag)
{
	if (come(d) != BYS_OK) return BYS_EUSE;
	if (d->phase == ENDED) return leave(d, BYS_EPEER);
	if (d->phase != IDLE)
		return leave(d, snap_because(d, BYS_EUSE, d->phase < IDLE ? not_begun :
					     "start: found one that is not committed"));
	int result = snap_write(d, d->dir, tag);
	d->phase = STARTED, d->tag = tag, d->room = result == BYS_OK;
	return leave(d, result);
}

/* Waits for what is handed over to be copied. */
static int take_back(struct bys_description *d, int64_t end)
{
	struct timespec at = {end / 1000, end % 1000 * 1000000};
	int failed;
	if (!snap_hand_wait(d, end < 0 ? NULL : &at, &failed)) return BYS_TIMEOUT;
	if (failed) snap_unwritten(d, failed), d->room = false;
	return BYS_OK;
}

static int commit(struct bys_description *d, int64_t end)
{
	struct client_request r = {.type = CLIENT_REQ_COMMIT, .dataset = d->next, .valid = d->room};
	if (d->phase == STARTED) {
		int taken = take_back(d, end);
		if (taken == BYS_TIMEOUT) return taken;
		r.valid = d->room;
		for (size_t i = 0; i < d->n; i++) r.bytes += d->regions[i].bytes;
		client_text_clear(&d->text);
		client_text_addf(&d->text, "%lu", (unsigned long)d->tag);
		client_text_add(&d->text, d->name);
		d->phase = COMMITTING;
	}
	int result = ask(d, r, end);
	if (result != BYS_TIMEOUT) snap_hand_back(d);
	if (result == BYS_EDIFFER) d->phase = IDLE; /* it may be started again */
	if (result != BYS_OK) return result;
	if (!d->client.answer.valid) {
		const char *why = client_text_next(&d->client.text, client_text_next(&d->client.text, NULL));
		result = snap_because(d, BYS_EFAILED, "%s", why ? why : "the agent does not say why");
	}
	int next = placed(d);
	return next == BYS_OK ? result : next;
}

int bys_commit(bys_desc d, long timeout)
{
	if (come(d) != BYS_OK) return BYS_EUSE;
	if (d->phase == ENDED) return leave(d, BYS_EPEER);
	if (d->phase != STARTED && d->phase != COMMITTING)
		return leave(d, snap_because(d, BYS_EUSE, "commit: found nothing that was started"));
	return leave(d, commit(d, until(timeout)));
}

int bys_finish(bys_desc *at, int keep, long timeout)
{
	if (!at || come(*at) != BYS_OK) return BYS_EUSE;
	struct bys_description *d = *at;
	if (d->phase == ENDED) return leave(d, BYS_EPEER);
	if (d->phase != IDLE && d->phase != LEAVING)
		return leave(d, snap_because(d, BYS_EUSE, d->phase < IDLE ? not_begun :
					     "finish: found a snapshot that is not committed"));
	if (d->phase == IDLE) {
		client_text_clear(&d->text);
		client_text_add(&d->text, "");
		client_text_add(&d->text, d->name);
	}
	d->phase = LEAVING;
	struct client_request r = {.type = CLIENT_REQ_LEAVE, .valid = keep != 0};
	int result = ask(d, r, until(timeout));
	if (result == BYS_TIMEOUT || result == BYS_EPEER) return leave(d, result);
	return unmake(at), result;
}
