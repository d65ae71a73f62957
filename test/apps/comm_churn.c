/* test_doc: communicators, groups, attributes, names, info and error handlers made and freed for ever; a few live
 * long and are checked in every iteration for size, rank, members, name, attribute, error handler.
 *
 * Copy and delete callbacks of attributes are counted: each must run exactly as often as MPI says. */
#include "app.h"

enum { LIVE = 6 };

struct live {
	MPI_Comm comm;            /* MPI_COMM_NULL when this rank is no member, or the slot is empty */
	int size, rank, made;
	long born;
	int *world;               /* the members' ranks in MPI_COMM_WORLD */
	void *attribute;
	char name[64];
};

struct counts { long copied, deleted, raised; };

static int copy_fn(MPI_Comm c, int key, void *extra, void *in, void *out, int *flag)
{
	(void)c, (void)key;
	((struct counts *)extra)->copied++;
	*(void **)out = (char *)in + 1;
	*flag = 1;
	return MPI_SUCCESS;
}

static int delete_fn(MPI_Comm c, int key, void *value, void *extra)
{
	(void)c, (void)key, (void)value;
	((struct counts *)extra)->deleted++;
	return MPI_SUCCESS;
}

static struct counts *raised_into;     /* an error handler has no argument of its own */

static void handler(MPI_Comm *c, int *code, ...)
{
	(void)c, (void)code;
	raised_into->raised++;
}

/* -- long-lived communicators ---------------------------------------------------------------------------------------- */

static void learn(struct app *a, struct live *l)
{
	MPI_Group g, w;
	int *mine;

	MPI_Comm_size(l->comm, &l->size);
	MPI_Comm_rank(l->comm, &l->rank);
	l->world = (int *)app_alloc(a, sizeof(int) * (size_t)l->size);
	mine = (int *)app_alloc(a, sizeof(int) * (size_t)l->size);
	for (int i = 0; i < l->size; i++)
		mine[i] = i;
	MPI_Comm_group(l->comm, &g);
	MPI_Comm_group(MPI_COMM_WORLD, &w);
	MPI_Group_translate_ranks(g, l->size, mine, w, l->world);
	MPI_Group_free(&g);
	MPI_Group_free(&w);
	free(mine);
}

/* Makes a communicator in one of five ways, the same on all ranks. */
static void make(struct app *a, struct live *l, struct live *parent, long iter, int key, MPI_Errhandler eh)
{
	uint64_t r = mix3(a->seed, (uint64_t)iter, 3);
	MPI_Comm from = parent->made && r % 5 < 2 && parent->size == a->size ? parent->comm : MPI_COMM_WORLD;
	MPI_Group w, g;
	int range[1][3] = { { 0, a->size - 1, 2 } };

	switch (r % 5) {
	case 0: MPI_Comm_dup(from, &l->comm); break;
	case 1: MPI_Comm_split(from, 0, (int)(mix2(r, (uint64_t)a->rank) % 1000), &l->comm); break;
	case 2: MPI_Comm_split(from, (int)(mix2(r, (uint64_t)a->rank) % 2), a->rank, &l->comm); break;
	case 3:
		MPI_Comm_group(MPI_COMM_WORLD, &w);
		MPI_Group_range_incl(w, 1, range, &g);
		MPI_Comm_create(MPI_COMM_WORLD, g, &l->comm);
		MPI_Group_free(&g);
		MPI_Group_free(&w);
		break;
	default:
		MPI_Comm_group(MPI_COMM_WORLD, &w);
		MPI_Group_range_incl(w, 1, range, &g);
		l->comm = MPI_COMM_NULL;
		if (a->rank % 2 == 0)
			MPI_Comm_create_group(MPI_COMM_WORLD, g, 17, &l->comm);
		MPI_Group_free(&g);
		MPI_Group_free(&w);
		break;
	}
	l->made = 1;
	l->born = iter;
	if (l->comm == MPI_COMM_NULL)
		return;
	learn(a, l);
	snprintf(l->name, sizeof l->name, "churn %ld of way %d", iter, (int)(r % 5));
	MPI_Comm_set_name(l->comm, l->name);
	l->attribute = (char *)a + iter;
	MPI_Comm_set_attr(l->comm, key, l->attribute);
	MPI_Comm_set_errhandler(l->comm, eh);
}

static uint64_t check(struct app *a, struct live *l, int key, MPI_Errhandler eh, struct counts *n)
{
	char name[MPI_MAX_OBJECT_NAME];
	int size, rank, len, flag, same, sum = 0, one = l->world[l->rank];
	long raised = n->raised;
	void *value;
	struct live now = { 0 };
	MPI_Errhandler got;

	MPI_Comm_size(l->comm, &size);
	MPI_Comm_rank(l->comm, &rank);
	CHECK(a, size == l->size && rank == l->rank, "rank %d of %d, want %d of %d", rank, size, l->rank, l->size);
	MPI_Comm_get_name(l->comm, name, &len);
	CHECK(a, strcmp(name, l->name) == 0 && len == (int)strlen(name), "name '%s', want '%s'", name, l->name);
	MPI_Comm_get_attr(l->comm, key, &value, &flag);
	CHECK(a, flag && value == l->attribute, "attribute of '%s'", l->name);
	now.comm = l->comm;
	learn(a, &now);
	same = memcmp(now.world, l->world, sizeof(int) * (size_t)size) == 0;
	free(now.world);
	CHECK(a, same, "members of '%s' changed", l->name);
	MPI_Comm_get_errhandler(l->comm, &got);
	CHECK(a, got == eh, "error handler of '%s' changed", l->name);
	MPI_Errhandler_free(&got);
	MPI_Send(NULL, 0, MPI_BYTE, size + 5, 0, l->comm);
	CHECK(a, n->raised == raised + 1, "error handler of '%s' ran %ld times, want 1", l->name, n->raised - raised);
	MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_INT, MPI_SUM, l->comm);
	for (int i = 0; i < l->size; i++)
		sum += l->world[i];
	CHECK(a, one == sum, "sum over '%s': %d, want %d", l->name, one, sum);
	return mix3((uint64_t)size, (uint64_t)sum, (uint64_t)l->born);
}

static void drop(struct live *l)
{
	if (l->made && l->comm != MPI_COMM_NULL) {
		MPI_Comm_free(&l->comm);
		free(l->world);
	}
	memset(l, 0, sizeof *l);
}

/* -- short-lived objects ----------------------------------------------------------------------------------------------- */

static uint64_t groups(struct app *a, long iter)
{
	MPI_Group w, g, h, u, d, i;
	int n = a->size, ranks[3] = { 0, n - 1, n / 2 }, result, size, rank;

	MPI_Comm_group(MPI_COMM_WORLD, &w);
	MPI_Group_incl(w, n > 2 ? 3 : 2, ranks, &g);
	MPI_Group_excl(w, 1, ranks, &h);
	MPI_Group_union(g, h, &u);
	MPI_Group_intersection(g, h, &i);
	MPI_Group_difference(g, h, &d);
	MPI_Group_compare(u, w, &result);
	CHECK(a, result == (n == 2 ? MPI_IDENT : MPI_SIMILAR) || n == 3, "union compares as %d", result);
	MPI_Group_size(i, &size);
	CHECK(a, size == (n > 2 ? 2 : 1), "intersection of %d ranks", size);
	MPI_Group_size(d, &size);
	MPI_Group_rank(d, &rank);
	CHECK(a, size == 1 && rank == (a->rank == 0 ? 0 : MPI_UNDEFINED), "difference: rank %d of %d", rank, size);
	MPI_Group_free(&w), MPI_Group_free(&g), MPI_Group_free(&h);
	MPI_Group_free(&u), MPI_Group_free(&i), MPI_Group_free(&d);
	return (uint64_t)(iter + size);
}

/* Attributes are copied by Comm_dup and deleted by Comm_free and Comm_delete_attr: callbacks are counted. */
static void attributes(struct app *a, struct counts *n)
{
	struct counts before = *n;
	MPI_Comm one, two;
	void *value;
	int key, flag;

	MPI_Comm_create_keyval(copy_fn, delete_fn, &key, n);
	MPI_Comm_dup(MPI_COMM_SELF, &one);
	MPI_Comm_set_attr(one, key, (char *)n + 1);
	MPI_Comm_dup(one, &two);
	MPI_Comm_get_attr(two, key, &value, &flag);
	CHECK(a, flag && value == (char *)n + 2, "attribute of the duplicate");
	MPI_Comm_delete_attr(one, key);
	MPI_Comm_get_attr(one, key, &value, &flag);
	CHECK(a, !flag, "deleted attribute is still there");
	MPI_Comm_free(&one);
	MPI_Comm_free(&two);
	MPI_Comm_free_keyval(&key);
	CHECK(a, key == MPI_KEYVAL_INVALID, "freed keyval");
	CHECK(a, n->copied == before.copied + 1 && n->deleted == before.deleted + 2, "callbacks: %ld copies, %ld deletions",
	      n->copied - before.copied, n->deleted - before.deleted);
}

static void infos(struct app *a, long iter)
{
	char value[64], want[64];
	MPI_Info info, dup;
	int flag, n;

	snprintf(want, sizeof want, "value %ld", iter);
	MPI_Info_create(&info);
	MPI_Info_set(info, "byssus_test", want);
	MPI_Info_set(info, "other", "x");
	MPI_Info_dup(info, &dup);
	MPI_Info_delete(info, "other");
	MPI_Info_get(dup, "byssus_test", sizeof value - 1, value, &flag);
	CHECK(a, flag && strcmp(value, want) == 0, "info: '%s', want '%s'", flag ? value : "", want);
	MPI_Info_get_nkeys(info, &n);
	CHECK(a, n == 1, "info has %d keys, want 1", n);
	MPI_Info_free(&info);
	MPI_Info_free(&dup);
}

int main(int argc, char **argv)
{
	static struct counts n;
	struct live live[LIVE] = { 0 };
	struct app a;
	MPI_Errhandler eh;
	int key;

	app_begin(&a, argc, argv);
	raised_into = &n;
	MPI_Comm_create_errhandler(handler, &eh);
	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_fn, &key, &n);
	for (long iter = 0; iter < a.iters; iter++) {
		uint64_t sum = groups(&a, iter);
		int slot = (int)(mix2(a.seed, (uint64_t)iter) % LIVE);
		app_progress(&a, iter);
		drop(&live[slot]);
		make(&a, &live[slot], &live[(slot + 1) % LIVE], iter, key, eh);
		attributes(&a, &n);
		infos(&a, iter);
		for (int i = 0; i < LIVE; i++)
			if (live[i].made && live[i].comm != MPI_COMM_NULL)
				sum = mix2(sum, check(&a, &live[i], key, eh, &n));
		app_result(&a, iter, "churn", sum);
		app_compute(&a, a.pace);
	}
	for (int i = 0; i < LIVE; i++)
		drop(&live[i]);
	MPI_Comm_free_keyval(&key);
	MPI_Errhandler_free(&eh);
	app_result(&a, a.iters, "callbacks", mix3((uint64_t)n.copied, (uint64_t)n.deleted, (uint64_t)n.raised));
	return app_end(&a);
}
