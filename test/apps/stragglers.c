/* test_doc: one rank computes without MPI while all others are in a collective, or have posted some and wait for them: any
 * of calls.h, as the first ones of their communicators, after rounds with computation between them, or after a tight loop.
 *
 *   --stages STAGE/STAGE...    STAGE: CALL,CALL...:OPTION=VALUE:OPTION=VALUE...
 *
 * CALL is a name of calls.h with i in front (non-blocking), and _inplace, _strided, _user, _typed, _large behind; several
 * are posted at once, on all places in turn. Options:
 *   on=PLACE              world, dup, reversed, cart, graph: of the first call; all but world are made anew for each stage
 *   tight=N coarse=N more=N after=N   rounds of the first call without computation, with it (--pace), without; and at the end
 *   completion=HOW        as in calls.h
 *   late=R root=R         which rank computes, -1 being the last one; which is the root: without it one that makes the others wait
 *   observe=1             rank 0 sees its part completed if it can, and uses the buffer for something else, before the late one comes
 *   free=1                the communicator is freed while the collective is open (Open MPI 4.1.4 itself crashes then)
 *
 * The moment of stage K ends with the file FILE.K of --until. A rank that waits says that it has come there when it has been
 * inside the call for a while, which a thread sees by its clock of processor time. */
#include <pthread.h>
#include "calls.h"

enum { PLACES = 5, SEVERAL = 24 };
static const char *const place_names[PLACES] = { "world", "dup", "reversed", "cart", "graph" };

struct choice { const struct kind *kind; int open, flags, n; };

struct stage {
	struct choice c[SEVERAL];
	int number, calls, on, completion, late, root, observe, free_comm;
	long tight, coarse, more, after;
	struct place p[PLACES];
};

/* -- what a stage is ------------------------------------------------------------------------------------------------------- */

__attribute__((noreturn)) static void unknown(const char *what, const char *name)
{
	fprintf(stderr, "stragglers: no %s %s\n", what, name);
	exit(2);
}

static int named(const char *what, const char *name, const char *const *names, int n)
{
	for (int i = 0; i < n; i++)
		if (strcmp(names[i], name) == 0) return i;
	unknown(what, name);
}

/* Takes an ending off a name. */
static int ending(char *name, const char *end)
{
	size_t n = strlen(name), k = strlen(end);

	if (n <= k || strcmp(name + n - k, end) != 0) return 0;
	name[n - k] = 0;
	return 1;
}

static const struct kind *kind_of(const char *name)
{
	for (int i = 0; i < CALL_KINDS; i++)
		if (strcmp(call_kinds[i].name, name) == 0) return &call_kinds[i];
	return NULL;
}

static void choose(struct choice *c, char *name)
{
	static const struct { const char *end; int flag; } ends[] = {
		{ "_inplace", CALL_IN_PLACE }, { "_strided", CALL_STRIDED }, { "_user", CALL_USER }, { "_typed", CALL_TYPED | CALL_USER },
	};

	c->n = ending(name, "_large") ? 50001 : 37;
	for (int again = 1; again; )
		for (int i = again = 0; i < 4; i++)
			if (ending(name, ends[i].end)) c->flags |= ends[i].flag, again = 1;
	c->kind = kind_of(name);
	if (!c->kind && name[0] == 'i') c->kind = kind_of(name + 1), c->open = 1;
	if (!c->kind) unknown("call", name);
}

static void option(struct stage *s, const char *text)
{
	const struct { const char *name; long *number; int *small; } all[] = {
		{ "tight=", &s->tight, NULL }, { "coarse=", &s->coarse, NULL }, { "more=", &s->more, NULL }, { "after=", &s->after, NULL },
		{ "late=", NULL, &s->late }, { "root=", NULL, &s->root }, { "observe=", NULL, &s->observe }, { "free=", NULL, &s->free_comm },
	};

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		size_t n = strlen(all[i].name);
		if (strncmp(text, all[i].name, n) != 0) continue;
		if (all[i].number) *all[i].number = atol(text + n);
		else *all[i].small = atoi(text + n);
		return;
	}
	if (strncmp(text, "on=", 3) == 0) s->on = named("place", text + 3, place_names, PLACES);
	else if (strncmp(text, "completion=", 11) == 0) s->completion = named("completion", text + 11, call_completions, CALL_COMPLETIONS);
	else unknown("option", text);
}

static void describe(struct stage *s, const struct app *a, int number, char *text)
{
	char *rest, *calls = strtok_r(text, ":", &rest), *one, *last;

	memset(s, 0, sizeof *s);
	s->number = number, s->late = -1, s->root = -2, s->after = -1;
	for (one = strtok_r(calls, ",", &last); one && s->calls < SEVERAL; one = strtok_r(NULL, ",", &last))
		choose(&s->c[s->calls++], one);
	s->on = s->c[0].kind->is & KIND_NEIGHBOR ? 4 : 1;
	while ((one = strtok_r(NULL, ":", &rest)))
		option(s, one);
	if (s->after < 0) s->after = s->on ? 70 : 3; /* not enough of them to change what the world is used to */
	if (s->late < 0) s->late = a->size - 1;
	if (s->root == -1) s->root = a->size - 1;
}

static void make_places(struct place *p)
{
	MPI_Comm c;
	int rank;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	place_of(&p[0], MPI_COMM_WORLD);
	MPI_Comm_dup(MPI_COMM_WORLD, &c);
	place_of(&p[1], c);
	MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &c);
	place_of(&p[2], c);
	p[2].reversed = 1;
	place_cart(&p[3], MPI_COMM_WORLD);
	place_graph(&p[4], MPI_COMM_WORLD);
}

/* -- calls ----------------------------------------------------------------------------------------------------------------- */

/* The root that lets the others wait for the late rank: it is late when it sends, and another one when it receives. */
static int root_of(const struct app *a, const struct stage *s, const struct kind *k)
{
	if (s->root >= 0) return s->root;
	return strcmp(k->name, "bcast") == 0 || strncmp(k->name, "scatter", 7) == 0 ? s->late : (s->late + 1) % a->size;
}

/* The place of the i-th of several: neighbourhood collectives need neighbours. */
static const struct place *place_at(const struct stage *s, int i)
{
	return &s->p[s->c[i].kind->is & KIND_NEIGHBOR ? 3 + (s->on + 1 + i) % 2 : (s->on + i) % PLACES];
}

static void begin(struct app *a, const struct stage *s, const struct place *p, int i, struct call *c, uint64_t round)
{
	const struct choice *o = &s->c[i];
	int root = root_of(a, s, o->kind);

	if (p->reversed) root = a->size - 1 - root;
	call_begin(c, a, p, o->kind, mix3(a->seed, (uint64_t)s->number, round), o->n, root, o->flags, o->open);
}

static uint64_t rounds(struct app *a, const struct stage *s, const struct place *p, uint64_t from, long n, long pace)
{
	struct call c;
	uint64_t sum = 0;

	for (long r = 0; r < n; r++) {
		if (pace) app_compute(a, pace);
		begin(a, s, p, 0, &c, from + (uint64_t)r);
		call_complete(1, &c.rq, s->completion);
		sum = mix2(sum, call_end(&c));
	}
	return sum;
}

/* -- the moment -------------------------------------------------------------------------------------------------------------- */

struct watch { struct app a; clockid_t clock; double begin; char until[4096]; };

static double seconds(clockid_t clock)
{
	struct timespec t = { 0, 0 };

	clock_gettime(clock, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Says that the rank has come to its moment when it has used 20 ms in the call. */
static void *watch(void *arg)
{
	struct watch *w = (struct watch *)arg;

	while (seconds(w->clock) < w->begin + 0.02) usleep(1000);
	app_ready(&w->a);
	free(w);
	return NULL;
}

static void soon_ready(struct app *a)
{
	pthread_t thread;

	if (a->until == NULL) return;
	struct watch *w = (struct watch *)app_alloc(a, sizeof *w);
	w->a = *a;
	w->a.until = strcpy(w->until, a->until);
	CHECK(a, pthread_getcpuclockid(pthread_self(), &w->clock) == 0, "no clock of a thread");
	w->begin = seconds(w->clock);
	CHECK(a, pthread_create(&thread, NULL, watch, w) == 0 && pthread_detach(thread) == 0, "no thread");
}

static void compute(struct app *a)
{
	if (a->until != NULL) app_moment(a);
	else app_compute(a, a->pace);
}

/* Sees its part completed, if the MPI does that before the late rank comes, and says so in the file FILE.K.seen.0; from then on
 * its buffers belong to others. */
static uint64_t observed(struct app *a, struct call *c)
{
	double end = app_now() + 1;
	int flag = 0, fd;

	while (!flag && app_now() < end) MPI_Test(&c->rq, &flag, MPI_STATUS_IGNORE);
	if (a->until != NULL) {
		if (flag) CHECK(a, (fd = app_open(a->until, ".seen", 0)) >= 0 && close(fd) == 0, "%s.seen.0: %s", a->until, strerror(errno));
		app_ready(a);
	}
	while (!flag) MPI_Test(&c->rq, &flag, MPI_STATUS_IGNORE);
	memset(c->in, 0x77, 8 * c->cells);
	memset(c->out, 0x77, 8 * c->cells);
	return c->key;
}

static uint64_t moment(struct app *a, struct stage *s)
{
	static struct call c[SEVERAL];
	MPI_Request q[SEVERAL];
	uint64_t sum = 0;
	int late = a->rank == s->late, sees = s->observe && a->rank == 0;

	if (late) compute(a);
	else if (!s->c[0].open) soon_ready(a);
	for (int i = 0; i < s->calls; i++) {
		begin(a, s, place_at(s, i), i, &c[i], 1000000 + (uint64_t)i);
		q[i] = c[i].rq;
	}
	if (s->free_comm) MPI_Comm_free(&s->p[s->on].comm);
	if (sees) return observed(a, &c[0]);
	if (!late && s->c[0].open) soon_ready(a);
	call_complete(s->calls, q, s->completion);
	for (int i = 0; i < s->calls; i++) {
		c[i].rq = q[i];
		sum = mix2(sum, call_end(&c[i]));
	}
	return sum;
}

static void stage(struct app *a, struct stage *s, const char *until)
{
	char file[4096];
	uint64_t sum;
	const struct place *p = &s->p[s->on];

	app_progress(a, s->number);
	if (until != NULL) snprintf(file, sizeof file, "%s.%d", until, s->number);
	a->until = until ? file : NULL;
	make_places(s->p);
	sum = rounds(a, s, p, 0, s->tight, 0);
	sum = mix2(sum, rounds(a, s, p, 10000, s->coarse, a->pace));
	sum = mix2(sum, rounds(a, s, p, 20000, s->more, 0));
	app_result(a, s->number, "before", sum);
	app_result(a, s->number, "moment", moment(a, s));
	MPI_Barrier(MPI_COMM_WORLD);
	app_result(a, s->number, "after", rounds(a, s, &s->p[s->free_comm ? 0 : s->on], 30000, s->after, 0));
	for (int i = 1; i < PLACES; i++)
		if (s->p[i].comm != MPI_COMM_NULL) MPI_Comm_free(&s->p[i].comm);
	a->until = until;
}

int main(int argc, char **argv)
{
	static struct stage s;
	struct app a;
	char *text = strdup(app_option(&argc, argv, "--stages", "barrier")), *one, *rest;
	int number = 0;

	app_begin(&a, argc, argv);
	CHECK(&a, text != NULL && a.size <= CALL_MOST, "%d ranks, at most %d", a.size, CALL_MOST);
	const char *until = a.until;
	for (one = strtok_r(text, "/", &rest); one; one = strtok_r(NULL, "/", &rest)) {
		describe(&s, &a, number++, one);
		stage(&a, &s, until);
	}
	free(text);
	app_stay(&a);
	return app_end(&a);
}
