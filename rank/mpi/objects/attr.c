/* attr.c: keyvals and attributes of communicators and datatypes (MPI-4.1 section 7.7), entirely our own: the
 * real MPI never sees them. Copy and delete functions are the application's, called back through the face's
 * thunks. Context: as objects.h; callbacks run the application's code and may make MPI calls. */
#include <stdlib.h>
#include "objects.h"

enum { COMM_KEY, TYPE_KEY };

/* A keyval that the application has freed lives, and may be used, as long as attributes hold it. */
static struct vkeyval *keyval_of(nx_t k, uint32_t kind)
{
	struct vkeyval *v = NX_KEYVAL(k);
	return k >= NX_DYNAMIC && nx_live(k, v) && v->kind == kind ? v : NULL;
}

static void unref(nx_t k)
{
	struct vkeyval *v = NX_KEYVAL(k);
	if (--v->refs == 0) nx_release(NX_K_KEYVAL, k);
}

static long create(uint32_t kind, void *copy, void *copy_thunk, void *del, void *del_thunk, nx_t *keyval,
		   void *extra)
{
	nx_t k = nx_alloc(NX_K_KEYVAL);
	if (!k) return nx_error(NX_COMM_WORLD, NX_ERR_NO_MEM, "create_keyval");
	struct vkeyval *v = NX_KEYVAL(k);
	v->kind = kind;
	v->refs = 1;
	v->copy = (uintptr_t)copy;
	v->copy_thunk = (uintptr_t)copy_thunk;
	v->del = (uintptr_t)del;
	v->del_thunk = (uintptr_t)del_thunk;
	v->extra = (uintptr_t)extra;
	*keyval = k;
	return 0;
}

/* The entry is kept while attributes use the keyval. A delete function may free it once more, as both
 * libraries let it: it has only one reference to give back. */
static long free_keyval(nx_t *keyval, uint32_t kind, const char *function)
{
	struct vkeyval *v = keyval_of(*keyval, kind);
	if (!v) return nx_error(NX_COMM_WORLD, NX_ERR_KEYVAL, function);
	if (!v->freed) {
		v->freed = 1;
		unref(*keyval);
	}
	*keyval = NX_KEYVAL_INVALID;
	return 0;
}

static struct vattr **find(struct vattr **list, nx_t keyval)
{
	while (*list && (*list)->keyval != keyval) list = &(*list)->next;
	return list;
}

static void *value_for_c(struct vattr *a)
{
	return a->kind == NX_ATTR_INTEGER ? &a->value : (void *)(uintptr_t)a->value;
}

static int call_delete(nx_t object, const struct vattr *a)
{
	const struct vkeyval *v = NX_KEYVAL(a->keyval);
	if (!v->del) return 0;
	return (int)core_upcall((void *)v->del_thunk, (long)v->del, (long)nx_pair(object, a->keyval),
				(long)a->value, (long)v->extra, 0, 0);
}

/* An error of the delete function leaves the attribute in place. The function may set and delete others of
 * the object, so the list is looked at after it. */
static int remove_attr(nx_t object, struct vattr **list, nx_t keyval)
{
	struct vattr **at = find(list, keyval), *a = *at;
	int e = a ? call_delete(object, a) : NX_ERR_KEYVAL;
	if (e) return e;
	at = find(list, keyval);
	if (*at != a) return 0;
	*at = a->next;
	unref(keyval);
	nx_free(a);
	return 0;
}

static int set(nx_t object, struct vattr **list, uint32_t kind, nx_t keyval, void *value)
{
	struct vkeyval *v = keyval_of(keyval, kind);
	if (!v) return NX_ERR_KEYVAL;
	struct vattr *old = *find(list, keyval);
	if (old) {
		int e = call_delete(object, old);
		if (!e && *find(list, keyval) == old) {
			old->value = (uintptr_t)value;
			old->kind = NX_ATTR_ADDRESS;
		}
		return e;
	}
	struct vattr *a = nx_malloc(sizeof *a);
	if (!a) return NX_ERR_NO_MEM;
	*a = (struct vattr){ .next = *list, .keyval = keyval, .value = (uintptr_t)value };
	*list = a;
	v->refs++;
	return 0;
}

/* In the order of setting reversed, as MPI-4.1 7.7.1 asks for MPI_COMM_SELF at MPI_Finalize: the list has it
 * so. */
int attr_delete_all(nx_t object, struct vattr **list)
{
	while (*list) {
		int e = remove_attr(object, list, (*list)->keyval);
		if (e) return e;
	}
	return 0;
}

/* Of a duplicate that is not made after all: the delete functions are for attributes that the application has
 * seen. */
void attr_drop(struct vattr **list)
{
	while (*list) {
		struct vattr *a = *list;
		*list = a->next;
		unref(a->keyval);
		nx_free(a);
	}
}

int attr_copy_all(nx_t from, nx_t to, struct vattr *list, struct vattr **out, int *err)
{
	(void)to;
	*err = 0;
	for (struct vattr *a = list; a && !*err; a = a->next) {
		struct vkeyval *v = NX_KEYVAL(a->keyval);
		void *value = NULL;
		int flag = 0;
		if (!v->copy) continue;
		*err = (int)core_upcall((void *)v->copy_thunk, (long)v->copy, (long)nx_pair(from, a->keyval),
					(long)v->extra, (long)a->value, (long)&value, (long)&flag);
		if (*err || !flag) continue;
		struct vattr *n = nx_malloc(sizeof *n);
		if (!n) {
			*err = NX_ERR_NO_MEM;
			break;
		}
		*n = (struct vattr){ .next = *out, .keyval = a->keyval, .kind = a->kind,
				     .value = (uintptr_t)value };
		*out = n;
		v->refs++;
	}
	return *err;
}

/* The values of the predefined attributes of MPI_COMM_WORLD, at MPI_Init. MPI_TAG_UB is held at what both
 * implementations allow, so that tags stay valid after a restart under the other. */
void attr_predefined(void)
{
	enum { COMMON_TAG_UB = (1 << 28) - 1 };
	static const nx_t asked[] = { NX_KEYVAL_TAG_UB, NX_KEYVAL_IO, NX_KEYVAL_APPNUM,
				      NX_KEYVAL_UNIVERSE_SIZE };
	struct nx_state *s = NX_STATE;
	for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
		int *p = NULL, flag = 0;
		if (drv->comm_get_attr(drv->comm_world, asked[i], (void **)&p, &flag) || !flag) continue;
		s->attr_set[asked[i]] = 1;
		s->attr_value[asked[i]] = *p;
	}
	if (s->attr_value[NX_KEYVAL_TAG_UB] > COMMON_TAG_UB) s->attr_value[NX_KEYVAL_TAG_UB] = COMMON_TAG_UB;
	s->attr_set[NX_KEYVAL_HOST] = s->attr_set[NX_KEYVAL_WTIME_IS_GLOBAL] =
		s->attr_set[NX_KEYVAL_LASTUSEDCODE] = 1;
	s->attr_value[NX_KEYVAL_HOST] = NX_PROC_NULL;
	s->attr_value[NX_KEYVAL_LASTUSEDCODE] = NX_ERR_LASTCODE;
}

/* -- communicators -- */

long mid_comm_create_keyval(void *copy, void *copy_thunk, void *del, void *del_thunk, nx_t *comm_keyval,
			    void *extra_state)
{
	return create(COMM_KEY, copy, copy_thunk, del, del_thunk, comm_keyval, extra_state);
}

long mid_comm_free_keyval(nx_t *comm_keyval)
{
	return free_keyval(comm_keyval, COMM_KEY, "comm_free_keyval");
}

long mid_comm_set_attr(nx_t comm, nx_t comm_keyval, void *attribute_val)
{
	struct vcomm *c = comm_of(comm);
	if (!c) FAIL(NX_COMM_WORLD, NX_ERR_COMM);
	RESULT(comm, set(comm, &c->attrs, COMM_KEY, comm_keyval, attribute_val));
}

long mid_comm_get_attr(nx_t comm, nx_t comm_keyval, void **attribute_val, int *flag)
{
	struct vcomm *c = comm_of(comm);
	if (!c) FAIL(NX_COMM_WORLD, NX_ERR_COMM);
	*flag = 0;
	if (comm_keyval && comm_keyval < NX_KEYVAL_N) {
		*flag = NX_STATE->attr_set[comm_keyval];
		*attribute_val = &NX_STATE->attr_value[comm_keyval];
		return 0;
	}
	if (!keyval_of(comm_keyval, COMM_KEY)) FAIL(comm, NX_ERR_KEYVAL);
	struct vattr *a = *find(&c->attrs, comm_keyval);
	*flag = a != NULL;
	if (a) *attribute_val = value_for_c(a);
	return 0;
}

long mid_comm_delete_attr(nx_t comm, nx_t comm_keyval)
{
	struct vcomm *c = comm_of(comm);
	if (!c) FAIL(NX_COMM_WORLD, NX_ERR_COMM);
	RESULT(comm, remove_attr(comm, &c->attrs, comm_keyval));
}

/* -- datatypes -- */

#define LIVE_TYPE(t, h) \
	struct vtype *t = NX_TYPE(h); \
	if (!nx_live(h, t)) FAIL(NX_COMM_WORLD, NX_ERR_TYPE)

long mid_type_create_keyval(void *copy, void *copy_thunk, void *del, void *del_thunk, nx_t *type_keyval,
			    void *extra_state)
{
	return create(TYPE_KEY, copy, copy_thunk, del, del_thunk, type_keyval, extra_state);
}

long mid_type_free_keyval(nx_t *type_keyval)
{
	return free_keyval(type_keyval, TYPE_KEY, "type_free_keyval");
}

long mid_type_set_attr(nx_t datatype, nx_t type_keyval, void *attribute_val)
{
	LIVE_TYPE(t, datatype);
	RESULT(NX_COMM_WORLD, set(datatype, &t->attrs, TYPE_KEY, type_keyval, attribute_val));
}

long mid_type_get_attr(nx_t datatype, nx_t type_keyval, void **attribute_val, int *flag)
{
	LIVE_TYPE(t, datatype);
	if (!keyval_of(type_keyval, TYPE_KEY)) FAIL(NX_COMM_WORLD, NX_ERR_KEYVAL);
	struct vattr *a = *find(&t->attrs, type_keyval);
	*flag = a != NULL;
	if (a) *attribute_val = value_for_c(a);
	return 0;
}

long mid_type_delete_attr(nx_t datatype, nx_t type_keyval)
{
	LIVE_TYPE(t, datatype);
	RESULT(NX_COMM_WORLD, remove_attr(datatype, &t->attrs, type_keyval));
}
