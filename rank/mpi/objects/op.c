/* op.c: reduction operations (MPI-4.1 section 6.9). A user function is in the upper half; the real MPI gets a
 * thunk that passes the operation's number to op_common, which calls the user function with virtual handles.
 *
 * Context: as objects.h; op_common is called by the real MPI, at any depth of it. */
#include <stdio.h>
#include "objects.h"

enum { MAX_USER_OPS = 4096, THUNK_SIZE = 16 };
static BY_THREAD_LOCAL nx_t current_type;              /* of the reduction under way on this thread */

void op_current_type(nx_t t) { current_type = t; }

/* MAX_USER_OPS thunks of THUNK_SIZE bytes each: the one of a user operation passes its number to op_common.
 * It is never called by its own name. */
__attribute__((naked, noinline, aligned(THUNK_SIZE))) static void op_thunks(void)
{
	__asm__(".set i, 0\n.rept 4096\n mov $i, %r8d\n jmp op_common\n .balign 16\n .set i, i + 1\n.endr\n");
	_Static_assert(MAX_USER_OPS == 4096 && THUNK_SIZE == 16, "as written above");
}

static nx_t virtual_type(rh_t real)
{
	if (nx_live(current_type, NX_TYPE(current_type)) && RTYPE(current_type) == real) return current_type;
	for (uint32_t i = 1; i < nx_high(NX_K_TYPE); i++) {
		nx_t h = NX_TYPE(i)->handle;
		if (h && NX_INDEX(h) == i && real_type[i] == real) return h;
	}
	return NX_TYPE_NULL;
}

__attribute__((used, visibility("hidden"))) void op_common(void *in, void *inout, int *len, void *type,
							   uint32_t number)
{
	const struct vop *o = NX_OP(NX_DYNAMIC + number);
	nx_t t = virtual_type(drv->type_from_ptr(type));
	core_upcall((void *)o->thunk, (long)o->fn, (long)in, (long)inout, (long)len, (long)t, 0);
}

static int make_real(uint32_t index)
{
	const char *thunk = (const char *)op_thunks + THUNK_SIZE * (size_t)(index - NX_DYNAMIC);
	return drv->op_create((void *)thunk, NX_OP(index)->commute, &real_op[index]);
}

long mid_op_create(void *user_fn, void *user_fn_thunk, int commute, nx_t *op)
{
	nx_t h = nx_alloc(NX_K_OP);
	if (!h || NX_INDEX(h) - NX_DYNAMIC >= MAX_USER_OPS) {
		if (h) nx_release(NX_K_OP, h);
		FAIL(NX_COMM_WORLD, NX_ERR_NO_MEM);
	}
	*NX_OP(h) = (struct vop){
		.handle = h, .commute = commute, .fn = (uintptr_t)user_fn, .thunk = (uintptr_t)user_fn_thunk
	};
	int e = make_real(NX_INDEX(h));
	if (e) nx_release(NX_K_OP, h);
	else *op = h;
	RESULT(NX_COMM_WORLD, e);
}

/* One that the application has freed lives while a posted collective may have to be posted again with it. */
enum { FREED = 1u << 31 };                      /* in the first word of its entry */

static int destroy(struct vop *o, nx_t op)
{
	int e = drv->op_free(&ROP(op));
	o->handle = op;
	nx_release(NX_K_OP, op);
	return e;
}

void op_ref(nx_t op) { NX_OP(op)->refs++; }

void op_unref(nx_t op)
{
	struct vop *o = NX_OP(op);
	if (!--o->refs && (o->handle & FREED)) destroy(o, op);
}

long mid_op_free(nx_t *op)
{
	struct vop *o = NX_OP(*op);
	if (*op < NX_DYNAMIC || !nx_live(*op, o)) FAIL(NX_COMM_WORLD, NX_ERR_OP);
	int e = 0;
	if (o->refs) o->handle |= FREED;
	else e = destroy(o, *op);
	*op = NX_OP_NULL;
	RESULT(NX_COMM_WORLD, e);
}

long mid_op_commutative(nx_t op, int *commute)
{
	if (!nx_live(op, NX_OP(op))) FAIL(NX_COMM_WORLD, NX_ERR_OP);
	*commute = NX_OP(op)->commute;
	return 0;
}

void op_start(void)
{
	for (uint32_t i = 0; i < NX_OP_N; i++) real_op[i] = drv->op[i];
}

int op_restore_all(char *why, size_t n)
{
	int e = 0;
	op_start();
	for (uint32_t i = NX_DYNAMIC; i < nx_high(NX_K_OP) && !e; i++)
		if (NX_INDEX(NX_OP(i)->handle) == i) e = make_real(i);
	if (e) snprintf(why, n, "making operations again: error class %d", e);
	return e ? -1 : 0;
}
