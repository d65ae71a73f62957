/* test_doc: what a program hears of its own MPI library whichever MPI it runs on: which standard, the names of types, the
 * hints that the library knows, what a failing duplicate leaves, a keyval that is freed twice or while it is held, delete
 * functions that delete other attributes, how it splits by a resource that this MPI cannot tell apart, a Cartesian communicator
 * of no dimension, who has no rank in a topology, whose error handler a communicator has, and calls without a place for
 * their result. Some of it is asked before the checkpoint, all of it afterwards. */
#include "app.h"

/* -- what has a name ------------------------------------------------------------------------------------------------- */

static void named(struct app *a, MPI_Datatype type, const char *want)
{
	char name[MPI_MAX_OBJECT_NAME];
	int n;

	MPI_Type_get_name(type, name, &n);
	CHECK(a, !strcmp(name, want) && n == (int)strlen(want), "a type is named %s, want %s", name, want);
}

static void names(struct app *a)
{
	int version, subversion, length;
	char library[MPI_MAX_LIBRARY_VERSION_STRING];
#ifdef OPEN_MPI
	const char *family = "Open MPI";
#else
	const char *family = "MPICH";
#endif

	MPI_Get_library_version(library, &length);
	CHECK(a, strstr(library, family), "the library is \"%s\", want %s", library, family);
	MPI_Get_version(&version, &subversion);
	CHECK(a, version == MPI_VERSION && subversion == MPI_SUBVERSION, "MPI %d.%d, want that of mpi.h", version, subversion);
	named(a, MPI_LONG_LONG, "MPI_LONG_LONG_INT");
	named(a, MPI_LONG_LONG_INT, "MPI_LONG_LONG_INT");
	named(a, MPI_UNSIGNED_LONG_LONG, "MPI_UNSIGNED_LONG_LONG");
	named(a, MPI_C_COMPLEX, "MPI_C_COMPLEX");
	named(a, MPI_C_FLOAT_COMPLEX, "MPI_C_COMPLEX");
	named(a, MPI_C_DOUBLE_COMPLEX, "MPI_C_DOUBLE_COMPLEX");
	named(a, MPI_INT, "MPI_INT");
}

/* -- attributes ------------------------------------------------------------------------------------------------------ */

enum { OWN_ERROR = MPI_ERR_OTHER };
static int deleted;

static int no_copy(MPI_Comm c, int key, void *extra, void *in, void *out, int *flag)
{
	(void)c, (void)key, (void)extra, (void)in, (void)out;
	*flag = 1;
	return OWN_ERROR;
}

static int no_copy_of_type(MPI_Datatype t, int key, void *extra, void *in, void *out, int *flag)
{
	(void)t, (void)key, (void)extra, (void)in, (void)out;
	*flag = 1;
	return OWN_ERROR;
}

static int count(MPI_Comm c, int key, void *value, void *extra)
{
	(void)c, (void)key, (void)value, (void)extra;
	deleted++;
	return MPI_SUCCESS;
}

/* Takes another attribute, whose keyval it is given, with it. */
static int both(MPI_Comm c, int key, void *value, void *extra)
{
	(void)key, (void)extra;
	deleted++;
	return MPI_Comm_delete_attr(c, *(int *)value);
}

/* Frees the keyval, of which it has a copy. */
static int again(MPI_Comm c, int key, void *value, void *extra)
{
	(void)c, (void)value, (void)extra;
	deleted++;
	return MPI_Comm_free_keyval(&key);
}

static void failing_duplicates(struct app *a, MPI_Comm from)
{
	MPI_Comm dup = MPI_COMM_SELF;
	MPI_Datatype pair, twin = MPI_INT;
	int key, before, of_type, class, x = 7;

	MPI_Comm_create_keyval(MPI_COMM_DUP_FN, count, &before, NULL);
	MPI_Comm_create_keyval(no_copy, MPI_COMM_NULL_DELETE_FN, &key, NULL);
	MPI_Comm_set_attr(from, key, &x);
	MPI_Comm_set_attr(from, before, &x);
	deleted = 0;
	MPI_Error_class(MPI_Comm_dup(from, &dup), &class);
	CHECK(a, class == OWN_ERROR, "class %d of a duplicate that its copy function refuses, want its own", class);
	CHECK(a, dup == MPI_COMM_NULL, "a refused duplicate is not MPI_COMM_NULL");
	dup = MPI_COMM_SELF;
	MPI_Error_class(MPI_Comm_dup_with_info(from, MPI_INFO_NULL, &dup), &class);
	CHECK(a, class == OWN_ERROR && dup == MPI_COMM_NULL, "a refused duplicate with hints: class %d", class);
	MPI_Comm_delete_attr(from, key);
	MPI_Comm_free_keyval(&key);
	MPI_Comm_dup(from, &dup);
	MPI_Barrier(dup);
	MPI_Comm_free(&dup);
	MPI_Comm_delete_attr(from, before);
	MPI_Comm_free_keyval(&before);

	MPI_Type_create_keyval(no_copy_of_type, MPI_TYPE_NULL_DELETE_FN, &of_type, NULL);
	MPI_Type_contiguous(2, MPI_INT, &pair);
	MPI_Type_set_attr(pair, of_type, &x);
	class = MPI_SUCCESS;
	CHECK(a, MPI_Type_dup(pair, &twin) != MPI_SUCCESS, "MPI_Type_dup succeeds although a copy function refuses");
#ifndef OPEN_MPI               /* which leaves the address of what it has freed */
	CHECK(a, twin == MPI_DATATYPE_NULL, "a refused type is not MPI_DATATYPE_NULL");
#endif
	MPI_Type_free(&pair);
	MPI_Type_free_keyval(&of_type);
}

static void freed_keyvals(struct app *a)
{
	MPI_Comm one, two;
	int key, copy __attribute__((unused)), other, flag, x = 3, *found;

	MPI_Comm_dup(MPI_COMM_SELF, &one);
	MPI_Comm_dup(MPI_COMM_SELF, &two);
	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, again, &key, NULL);
	copy = key;
	deleted = 0;
	MPI_Comm_set_attr(one, key, &x);
	MPI_Comm_set_attr(two, key, &x);
	MPI_Comm_free(&one);                    /* frees the keyval a first time */
	CHECK(a, deleted == 1, "%d delete functions were called, want 1", deleted);
	MPI_Comm_get_attr(two, key, &found, &flag);
	CHECK(a, flag && *found == 3, "a freed keyval that an attribute holds is not found any more");
	CHECK(a, MPI_Comm_free_keyval(&key) == MPI_SUCCESS && key == MPI_KEYVAL_INVALID, "second MPI_Comm_free_keyval");
#ifndef OPEN_MPI               /* whose third one takes the reference of the attribute */
	CHECK(a, MPI_Comm_free_keyval(&copy) == MPI_SUCCESS && copy == MPI_KEYVAL_INVALID, "third MPI_Comm_free_keyval");
#endif
	MPI_Comm_dup(MPI_COMM_SELF, &one);
	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, count, &other, NULL);
	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, both, &key, NULL);
	deleted = 0;
	MPI_Comm_set_attr(one, other, &x);
	MPI_Comm_set_attr(one, key, &other);
	MPI_Comm_delete_attr(one, key);
	CHECK(a, deleted == 2, "%d delete functions were called, want 2", deleted);
	MPI_Comm_get_attr(one, other, &found, &flag);
	CHECK(a, !flag, "an attribute is there that a delete function has deleted");
	MPI_Comm_free(&one);
	MPI_Comm_free_keyval(&key);
	MPI_Comm_free_keyval(&other);
}

/* -- hints ----------------------------------------------------------------------------------------------------------- */

static void hint(struct app *a, MPI_Comm c, const char *key, const char *want)
{
	char value[MPI_MAX_INFO_VAL + 1];
	MPI_Info info;
	int flag;

	MPI_Comm_get_info(c, &info);
	MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &flag);
	CHECK(a, want ? flag && !strcmp(value, want) : !flag, "hint %s is %s, want %s", key, flag ? value : "not there",
	      want ? want : "not there");
	MPI_Info_free(&info);
}

static void hints(struct app *a)
{
	MPI_Comm c, d, e;
	MPI_Info info;

	hint(a, MPI_COMM_WORLD, "mpi_assert_no_any_source", "false");
	MPI_Info_create(&info);
	MPI_Info_set(info, "arbitrary_key", "true");
	MPI_Comm_dup(MPI_COMM_WORLD, &c);
	MPI_Comm_set_info(c, info);
	hint(a, c, "arbitrary_key", NULL);
	hint(a, c, "mpi_assert_allow_overtaking", "false");
	MPI_Info_set(info, "mpi_assert_allow_overtaking", "true");
	MPI_Comm_dup_with_info(c, info, &d);
	hint(a, d, "mpi_assert_allow_overtaking", "true");
	hint(a, d, "mpi_assert_no_any_source", "false");
	MPI_Comm_dup(d, &e);
	hint(a, e, "mpi_assert_allow_overtaking", "false");
	MPI_Comm_free(&e);
#ifndef OPEN_MPI
	hint(a, d, "arbitrary_key", NULL);
	hint(a, d, "vci", "-1");
	MPI_Comm_set_info(c, info);
	hint(a, c, "mpi_assert_allow_overtaking", "true");
#endif
	MPI_Info_free(&info);
	MPI_Comm_free(&d);
	MPI_Comm_free(&c);
}

/* -- communicators --------------------------------------------------------------------------------------------------- */

/* On one machine all processes share its memory; none shares what nobody has. */
static void resources(struct app *a)
{
	MPI_Comm c;
	int n;

	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, a->rank, MPI_INFO_NULL, &c);
	MPI_Comm_size(c, &n);
	CHECK(a, n == a->size, "%d processes share memory, want %d", n, a->size);
	MPI_Comm_free(&c);
#ifdef MPI_COMM_TYPE_HW_GUIDED
	MPI_Info info;

	MPI_Info_create(&info);
	MPI_Info_set(info, "mpi_hw_resource_type", "no such resource");
	c = MPI_COMM_SELF;
	CHECK(a, !MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &c) && c == MPI_COMM_NULL,
	      "split by a resource that nobody has");
	MPI_Info_set(info, "mpix_tooth_fairy", "enable");
	c = MPI_COMM_SELF;
	CHECK(a, !MPI_Comm_split_type(MPI_COMM_WORLD, MPIX_COMM_TYPE_NEIGHBORHOOD, 0, info, &c) && c == MPI_COMM_NULL,
	      "split by a neighbourhood that nobody knows");
	MPI_Info_free(&info);
#endif
}

static MPI_Comm no_dimension(struct app *a)
{
	int dims[1] = { a->size }, periods[1] = { 0 }, none[1] = { 0 };
	MPI_Comm line, point;

	MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &line);
	MPI_Cart_sub(line, none, &point);
	MPI_Comm_free(&line);
	return point;
}

/* A process that the topology has no room for has no rank in it. */
static void maps(struct app *a)
{
#ifndef OPEN_MPI               /* which gives it one */
	int dims[1] = { a->size - 1 }, periods[1] = { 0 }, index[1] = { 0 }, rank = -1;

	MPI_Cart_map(MPI_COMM_WORLD, 1, dims, periods, &rank);
	CHECK(a, (rank == MPI_UNDEFINED) == (a->rank == a->size - 1), "rank %d of a grid of %d processes", rank, a->size - 1);
	MPI_Graph_map(MPI_COMM_WORLD, 1, index, index, &rank);
	CHECK(a, (rank == MPI_UNDEFINED) == (a->rank > 0), "rank %d of a graph of one process", rank);
#else
	(void)a;
#endif
}

static void look_at(struct app *a, MPI_Comm point)
{
	int n, status;

#ifndef OPEN_MPI
	if (a->rank != 0) {
		CHECK(a, point == MPI_COMM_NULL, "rank %d is in a Cartesian communicator of no dimension", a->rank);
		return;
	}
#endif
	CHECK(a, point != MPI_COMM_NULL, "no Cartesian communicator of no dimension");
	MPI_Topo_test(point, &status);
	MPI_Cartdim_get(point, &n);
	CHECK(a, status == MPI_CART && n == 0, "topology %d of %d dimensions, want Cartesian of none", status, n);
	MPI_Comm_size(point, &n);
	CHECK(a, n == 1, "%d processes, want 1", n);
}

/* The standard leaves the message open when there is none; both libraries make it null, and programs look at it. */
static void no_message(struct app *a)
{
	MPI_Message m;
	int flag = 7;

	memset(&m, 0x5a, sizeof m);
	MPI_Improbe(a->rank, 77, MPI_COMM_WORLD, &flag, &m, MPI_STATUS_IGNORE);
	CHECK(a, !flag && m == MPI_MESSAGE_NULL, "Improbe without a message: flag %d, the message is not null", flag);
}

/* -- error handlers, and calls without a place for the result ---------------------------------------------------------- */

static void refuses(struct app *a, int error, int want, const char *what)
{
	int class;

	MPI_Error_class(error, &class);
	CHECK(a, class == want, "%s: class %d, want %d", what, class, want);
}

/* A communicator that nobody gave an error handler: with MPICH it goes by what MPI_COMM_WORLD has now, with Open MPI by
 * what that had when it was made, which would end the job here. */
static void handlers(struct app *a, MPI_Comm plain)
{
	MPI_Errhandler has;

	MPI_Comm_get_errhandler(plain, &has);
	CHECK(a, has == MPI_ERRORS_ARE_FATAL, "a communicator without a handler of its own has another one");
	MPI_Errhandler_free(&has);
#ifndef OPEN_MPI
	refuses(a, MPI_Send(NULL, 0, MPI_INT, a->size, 0, plain), MPI_ERR_RANK, "a rank that is not there");
	refuses(a, MPI_Comm_split(plain, 0, 0, NULL), MPI_ERR_ARG, "MPI_Comm_split without a place for the communicator");
#endif
}

static void no_place(struct app *a)
{
	MPI_Group world;
	int rank = 0;

	MPI_Comm_group(MPI_COMM_WORLD, &world);
	CHECK(a, MPI_Group_translate_ranks(world, 1, &rank, world, NULL) != MPI_SUCCESS, "MPI_Group_translate_ranks without a place");
	refuses(a, MPI_Group_translate_ranks(world, 0, NULL, world, NULL), MPI_SUCCESS, "MPI_Group_translate_ranks of no rank");
	MPI_Group_free(&world);
}

int main(int argc, char **argv)
{
	struct app a;
	MPI_Comm from, point, plain;

	app_begin(&a, argc, argv);
	MPI_Comm_dup(MPI_COMM_WORLD, &plain);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_dup(MPI_COMM_WORLD, &from);
	failing_duplicates(&a, from);
	point = no_dimension(&a);
	hints(&a);
	app_moment(&a);
	names(&a);
	failing_duplicates(&a, from);
	freed_keyvals(&a);
	no_message(&a);
	handlers(&a, plain);
	no_place(&a);
	hints(&a);
	resources(&a);
	maps(&a);
	look_at(&a, point);
	if (point != MPI_COMM_NULL)
		MPI_Comm_free(&point);
	point = no_dimension(&a);
	look_at(&a, point);
	if (point != MPI_COMM_NULL)
		MPI_Comm_free(&point);
	MPI_Comm_free(&from);
	MPI_Comm_free(&plain);
	app_result(&a, 0, "answers", (uint64_t)deleted);
	return app_end(&a);
}
