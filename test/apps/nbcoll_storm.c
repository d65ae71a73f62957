/* test_doc: random sequences of all collectives of calls.h, blocking and non-blocking, on communicators that overlap, with
 * derived types and operations that are freed while they are in use, MPI_IN_PLACE, communicators that are freed with
 * collectives open, messages between, delays and completion calls that differ from rank to rank.
 *
 * Rules: the sequence follows from (seed, iteration, step), so all ranks know it, and keep its order; when a rank completes
 * what it has posted, and by which call, is its own affair and follows from its rank too. A message is sent without waiting,
 * so the first of all steps that somebody waits for can always be completed. */
#include "calls.h"

enum { PLACES = 12, OPEN = 64, STEPS = 24, EVERY = 3, TAG = 7 };

struct state {
	struct app *a;
	struct place p[PLACES];
	int places, typed, messages;
	struct call *open[OPEN];        /* posted and not completed */
	int n;
	MPI_Request sent[STEPS * EVERY];
	uint64_t letter[STEPS * EVERY];
	int nsent;
	uint64_t sum;                   /* of what has been completed, in any order */
};

static void add(struct state *s, MPI_Comm comm, int id)
{
	if (comm == MPI_COMM_NULL) return;
	place_of(&s->p[s->places], comm);
	s->p[s->places++].id = (uint64_t)id;
}

static void places(struct state *s)
{
	int r = s->a->rank, last = s->a->size - 1;
	MPI_Comm c;

	add(s, MPI_COMM_WORLD, 0);
	MPI_Comm_dup(MPI_COMM_WORLD, &c), add(s, c, 1);
	MPI_Comm_split(MPI_COMM_WORLD, 0, -r, &c), add(s, c, 2);
	MPI_Comm_split(MPI_COMM_WORLD, r % 2, r, &c), add(s, c, 3 + 100 * (r % 2));
	MPI_Comm_split(MPI_COMM_WORLD, r / 2, -r, &c), add(s, c, 4 + 100 * (r / 2));
	MPI_Comm_split(MPI_COMM_WORLD, (r + 1) / 2, r, &c), add(s, c, 5 + 100 * ((r + 1) / 2));
	MPI_Comm_split(MPI_COMM_WORLD, r == 0 ? MPI_UNDEFINED : 1, r, &c), add(s, c, 6);
	MPI_Comm_split(MPI_COMM_WORLD, r == last ? MPI_UNDEFINED : 1, r, &c), add(s, c, 7);
	place_cart(&s->p[s->places], MPI_COMM_WORLD), s->p[s->places++].id = 8;
	place_graph(&s->p[s->places], MPI_COMM_WORLD), s->p[s->places++].id = 9;
	MPI_Comm_dup(MPI_COMM_SELF, &c), add(s, c, 10 + 100 * r);
}

/* A random number that only this rank draws. */
static uint64_t own(const struct state *s, uint64_t key, uint64_t what) { return mix4(key, (uint64_t)s->a->rank, what, 77); }

static int flags(const struct state *s, uint64_t key)
{
	int f = 0;

	if (mix2(key, 20) % 4 == 0) f |= CALL_IN_PLACE;
	if (mix2(key, 21) % 4 == 0) f |= CALL_STRIDED;
	if (mix2(key, 22) % 3 == 0) f |= CALL_USER;
	if (s->typed && mix2(key, 23) % 8 == 0) f |= CALL_TYPED;
	return f;
}

static void ended(struct state *s, struct call *c)
{
	s->sum += mix2(c->key, call_end(c));
	free(c);
}

/* Completes a random part of what is open, or all. */
static void complete(struct state *s, uint64_t key, int all)
{
	MPI_Request q[OPEN];
	struct call *some[OPEN];
	int n = 0, rest = 0;

	for (int i = 0; i < s->n; i++) {
		if (all || own(s, key, 100 + (uint64_t)i) % 3 == 0) q[n] = s->open[i]->rq, some[n++] = s->open[i];
		else s->open[rest++] = s->open[i];
	}
	s->n = rest;
	call_complete(n, q, (int)(own(s, key, 30) % CALL_COMPLETIONS));
	for (int i = 0; i < n; i++) {
		some[i]->rq = q[i];
		ended(s, some[i]);
	}
}

/* Looks at one that is open, once. */
static void look(struct state *s, uint64_t key)
{
	int flag = 0, i = s->n ? (int)(own(s, key, 31) % (uint64_t)s->n) : 0;

	if (s->n == 0) return;
	MPI_Test(&s->open[i]->rq, &flag, MPI_STATUS_IGNORE);
	if (!flag) return;
	ended(s, s->open[i]);
	s->open[i] = s->open[--s->n];
}

static void collective(struct state *s, const struct place *p, uint64_t key, int open)
{
	int kinds = p->in || p->out ? CALL_KINDS : CALL_PLAIN;
	uint64_t k = mix2(key, p->id);
	const struct kind *kind = &call_kinds[mix2(k, 10) % (uint64_t)kinds];
	int n = mix2(k, 11) % 16 == 0 ? 2000 : (int)(mix2(k, 12) % 24);
	struct call *c = (struct call *)app_alloc(s->a, sizeof *c);

	if (s->n == OPEN) complete(s, key, 1);
	call_begin(c, s->a, p, kind, k, n, (int)(mix2(k, 13) % (uint64_t)p->size), flags(s, k), open);
	if (open) s->open[s->n++] = c;
	else ended(s, c);
}

/* A communicator that lives for two collectives, which are open when it is freed. (Open MPI 4.1.4 itself crashes then, so its
 * program completes them before.) */
static void short_lived(struct state *s, uint64_t key)
{
	const struct place *from = &s->p[mix2(key, 14) % 3];
	struct place p;
	MPI_Comm c;

	MPI_Comm_dup(from->comm, &c);
	place_of(&p, c);
	p.id = 50;
	for (uint64_t i = 0; i < 2; i++) collective(s, &p, mix2(key, 60 + i), 1);
	for (int i = s->n - 2; i < s->n; i++) s->open[i]->p = from; /* of the same size; p goes */
#ifdef OPEN_MPI
	complete(s, key, 1);
#endif
	MPI_Comm_free(&c);
}

/* Some rank sends another one a letter, which is waited for. */
static void message(struct state *s, uint64_t key)
{
	int size = s->a->size, from = (int)(mix2(key, 15) % (uint64_t)size), to = (from + 1 + (int)(mix2(key, 16) % (uint64_t)size)) % size;
	uint64_t got = 0;

	if (from == to) return;
	if (s->a->rank == from) {
		s->letter[s->nsent] = key;
		if (mix2(key, 17) % 2) MPI_Issend(&s->letter[s->nsent], 1, MPI_UINT64_T, to, TAG, MPI_COMM_WORLD, &s->sent[s->nsent]);
		else MPI_Isend(&s->letter[s->nsent], 1, MPI_UINT64_T, to, TAG, MPI_COMM_WORLD, &s->sent[s->nsent]);
		s->nsent++;
	} else if (s->a->rank == to) {
		MPI_Recv(&got, 1, MPI_UINT64_T, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		CHECK(s->a, got == key, "the letter of another step");
	}
}

static void step(struct state *s, long iter, int i)
{
	uint64_t key = mix3(s->a->seed, (uint64_t)iter, (uint64_t)i), what = mix2(key, 1) % 16, place = mix2(key, 2) % 11;

	if (what == 0) short_lived(s, key);
	else if (what < 3 && s->messages) message(s, key);
	else
		for (int k = 0; k < s->places; k++)
			if (s->p[k].id % 100 == place) collective(s, &s->p[k], key, what > 6);
	if (own(s, key, 3) % 4 == 0) complete(s, key, 0);
	if (own(s, key, 4) % 2 == 0) look(s, key);
	if (own(s, key, 5) % 12 == 0) app_compute(s->a, (long)(own(s, key, 6) % (uint64_t)(2 * s->a->pace + 1)));
}

int main(int argc, char **argv)
{
	static struct state s;
	struct app a;

	s.typed = atoi(app_option(&argc, argv, "--typed", "1"));
	s.messages = atoi(app_option(&argc, argv, "--messages", "1"));
	app_begin(&a, argc, argv);
	CHECK(&a, a.size <= CALL_MOST, "%d ranks, at most %d", a.size, CALL_MOST);
	s.a = &a;
	places(&s);
	for (long iter = 0; iter < a.iters; iter++) {
		app_progress(&a, iter);
		for (int i = 0; i < STEPS; i++) step(&s, iter, i);
		if ((iter + 1) % EVERY && iter + 1 < a.iters) continue;
		complete(&s, mix2(a.seed, (uint64_t)iter), 1);
		MPI_Waitall(s.nsent, s.sent, MPI_STATUSES_IGNORE);
		s.nsent = 0;
		app_result(&a, iter, "storm", s.sum);
	}
	for (int i = 1; i < s.places; i++) MPI_Comm_free(&s.p[i].comm);
	return app_end(&a);
}
