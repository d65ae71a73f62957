/* errh.c: error codes and error handlers (MPI-4.1 chapter 9), entirely our own.
 *
 * The real MPI always returns its errors; what happens then is decided here by the handler of the virtual
 * communicator. A neutral code is a class, or at least NX_FIRST_USER_ERROR for classes and codes that the
 * application added: index into the tables of nx_state. Context: as objects.h. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "objects.h"

static const char *const class_text[NX_ERR_ABI + 1] = {
	[0] = "MPI_SUCCESS: no error",
	[NX_ERR_BUFFER] = "MPI_ERR_BUFFER: invalid buffer pointer",
	[NX_ERR_COUNT] = "MPI_ERR_COUNT: invalid count argument",
	[NX_ERR_TYPE] = "MPI_ERR_TYPE: invalid datatype",
	[NX_ERR_TAG] = "MPI_ERR_TAG: invalid tag",
	[NX_ERR_COMM] = "MPI_ERR_COMM: invalid communicator",
	[NX_ERR_RANK] = "MPI_ERR_RANK: invalid rank",
	[NX_ERR_REQUEST] = "MPI_ERR_REQUEST: invalid request",
	[NX_ERR_ROOT] = "MPI_ERR_ROOT: invalid root",
	[NX_ERR_GROUP] = "MPI_ERR_GROUP: invalid group",
	[NX_ERR_OP] = "MPI_ERR_OP: invalid reduce operation",
	[NX_ERR_TOPOLOGY] = "MPI_ERR_TOPOLOGY: invalid communicator topology",
	[NX_ERR_DIMS] = "MPI_ERR_DIMS: invalid dimension argument",
	[NX_ERR_ARG] = "MPI_ERR_ARG: invalid argument of some other kind",
	[NX_ERR_UNKNOWN] = "MPI_ERR_UNKNOWN: unknown error",
	[NX_ERR_TRUNCATE] = "MPI_ERR_TRUNCATE: message truncated",
	[NX_ERR_OTHER] = "MPI_ERR_OTHER: known error not in list",
	[NX_ERR_INTERN] = "MPI_ERR_INTERN: internal error",
	[NX_ERR_PENDING] = "MPI_ERR_PENDING: pending request",
	[NX_ERR_IN_STATUS] = "MPI_ERR_IN_STATUS: error code in status",
	[NX_ERR_KEYVAL] = "MPI_ERR_KEYVAL: invalid keyval",
	[NX_ERR_NO_MEM] = "MPI_ERR_NO_MEM: out of memory",
	[NX_ERR_INFO_KEY] = "MPI_ERR_INFO_KEY: key longer than MPI_MAX_INFO_KEY",
	[NX_ERR_INFO_VALUE] = "MPI_ERR_INFO_VALUE: value longer than MPI_MAX_INFO_VAL",
	[NX_ERR_INFO_NOKEY] = "MPI_ERR_INFO_NOKEY: invalid info key",
	[NX_ERR_INFO] = "MPI_ERR_INFO: invalid info argument",
	[NX_ERR_UNSUPPORTED_OPERATION] = "MPI_ERR_UNSUPPORTED_OPERATION: unsupported operation",
	[NX_ERR_ERRHANDLER] = "MPI_ERR_ERRHANDLER: invalid error handler",
};

static int user_index(int code) { return code - NX_FIRST_USER_ERROR; }
static bool is_user(int code)
{
	return code >= NX_FIRST_USER_ERROR && user_index(code) < NX_STATE->user_errors;
}

static const char *text_of(int code)
{
	if (is_user(code))
		return NX_STATE->user_error[user_index(code)] ? NX_STATE->user_error[user_index(code)] : "";
	if (code >= 0 && code <= NX_ERR_ABI && class_text[code]) return class_text[code];
	return "error of the MPI library";
}

/* -- raising --------------------------------------------------------------------------------------------- */

/* The agent must see that this is the application's own end, and no crash to come back from. */
long mid_abort(nx_t comm, int errorcode)
{
	int code = errorcode & 0xff ? errorcode & 0xff : 1;
	const struct vcomm *c = comm_of(comm);
	char reason[512];
	snprintf(reason, sizeof reason, "MPI_Abort on %s with code %d",
		 c && c->name ? c->name : "a communicator", errorcode);
	core_reason(reason);
	core_page()->exit_code = (uint64_t)code;
	__atomic_store_n(&core_page()->phase, ABI_PHASE_ENDED, __ATOMIC_RELEASE);
	if (NX_STATE->initialised && !NX_STATE->finalised) drv->abort(drv->comm_world, errorcode);
	_exit(code);
}

static void __attribute__((noreturn)) fatal(nx_t comm, int err, const char *function)
{
	const struct vcomm *c = comm_of(comm);
	char reason[1024];
	snprintf(reason, sizeof reason, "MPI_%c%s on %s: %s; MPI_ERRORS_ARE_FATAL: the job is aborted",
		 toupper(function[0]), function + 1, c && c->name ? c->name : "a communicator", text_of(err));
	core_say("%s", reason);
	core_reason(reason);
	mid_abort(comm, err);
	__builtin_unreachable();
}

/* A communicator has no handler of its own (NX_ERRH_NULL) where the face wants that: until one is set for it,
 * or for what it was made of. */
long nx_error(nx_t comm, int err, const char *function)
{
	if (!err) return 0;
	const struct vcomm *c = comm_of(comm);
	if (c && c->errh == NX_ERRH_NULL) c = NX_COMM(NX_COMM_WORLD);
	nx_t e = c && c->errh != NX_ERRH_NULL ? c->errh : NX_ERRH_FATAL;
	if (e == NX_ERRH_RETURN) return err;
	if (e < NX_DYNAMIC) fatal(comm, err, function);
	const struct verrh *h = NX_ERRH(e);
	core_upcall((void *)h->thunk, (long)h->fn, (long)c->handle, err, 0, 0, 0);
	return err;
}

long mid_raise(nx_t comm, int error, const char *function)
{
	return nx_error(comm_of(comm) ? comm : NX_COMM_WORLD, error, function);
}

/* -- refused functions ----------------------------------------------------------------------------------- */

/* The first that was answered with an error: what the program does then no checkpoint can vouch for. */
static const char *volatile answered;

/* A shell around the program may hide its exit code. */
static void __attribute__((noreturn))
refuse_and_end(const char *function, const char *reason, const char *advice)
{
	core_refuse("called %s, which is refused: %s (%s)", function, reason, advice);
}

long mid_unfit(const char *what, const char *reason) { core_refuse("cannot run: %.200s: %s", what, reason); }

long mid_refused(uint32_t index, nx_t comm)
{
	const struct nx_refusal *r = &nx_refusal[index];
	if (r->how == NX_REFUSED_ENDS)
		refuse_and_end(r->function, r->reason, "byssus doctor lists what is refused");
	if (!core_job.refused_error)
		refuse_and_end(r->function, r->reason,
			       "a program that handles the error can go on with --refused=error");
	core_say("%s is refused: %s", r->function, r->reason);
	if (!answered) answered = r->function;
	if (r->how == NX_REFUSED_RETURNS) return NX_ERR_UNSUPPORTED_OPERATION;
	return nx_error(comm_of(comm) ? comm : NX_COMM_WORLD, NX_ERR_UNSUPPORTED_OPERATION,
			r->function + strlen("MPI_"));
}

bool refused_before(char *why, size_t n)
{
	if (answered)
		snprintf(why, n,
			 "it has called %s, which is refused, and gone on after the error: its state may be "
			 "incomplete",
			 answered);
	return answered;
}

/* -- handlers -------------------------------------------------------------------------------------------- */

void errh_ref(nx_t e) { if (e >= NX_DYNAMIC) NX_ERRH(e)->refs++; }

void errh_unref(nx_t e)
{
	if (e >= NX_DYNAMIC && --NX_ERRH(e)->refs == 0) nx_release(NX_K_ERRH, e);
}

long mid_comm_create_errhandler(void *fn, void *thunk, nx_t *errhandler)
{
	nx_t h = nx_alloc(NX_K_ERRH);
	if (!h) FAIL(NX_COMM_WORLD, NX_ERR_NO_MEM);
	*NX_ERRH(h) =
		(struct verrh){ .handle = h, .refs = 1, .fn = (uintptr_t)fn, .thunk = (uintptr_t)thunk };
	*errhandler = h;
	return 0;
}

long mid_comm_set_errhandler(nx_t comm, nx_t errhandler)
{
	struct vcomm *c = comm_of(comm);
	if (!c) FAIL(NX_COMM_WORLD, NX_ERR_COMM);
	if (!nx_live(errhandler, NX_ERRH(errhandler))) FAIL(comm, NX_ERR_ERRHANDLER);
	errh_ref(errhandler);
	errh_unref(c->errh);
	c->errh = errhandler;
	return 0;
}

long mid_comm_get_errhandler(nx_t comm, nx_t *errhandler)
{
	struct vcomm *c = comm_of(comm);
	if (!c) FAIL(NX_COMM_WORLD, NX_ERR_COMM);
	errh_ref(c->errh);
	*errhandler = c->errh != NX_ERRH_NULL ? c->errh : NX_ERRH_FATAL;
	return 0;
}

long mid_comm_call_errhandler(nx_t comm, int errorcode)
{
	if (!comm_of(comm)) FAIL(NX_COMM_WORLD, NX_ERR_COMM);
	nx_error(comm, errorcode, "comm_call_errhandler");
	return 0;
}

long mid_errhandler_free(nx_t *errhandler)
{
	if (!nx_live(*errhandler, NX_ERRH(*errhandler))) FAIL(NX_COMM_WORLD, NX_ERR_ERRHANDLER);
	errh_unref(*errhandler);
	*errhandler = NX_ERRH_NULL;
	return 0;
}

/* -- texts ----------------------------------------------------------------------------------------------- */

void put_string(const char *s, char *out, int max, int *len)
{
	snprintf(out, (size_t)max, "%s", s ? s : "");
	*len = (int)strlen(out);
}

/* -- codes ----------------------------------------------------------------------------------------------- */

long mid_error_class(int errorcode, int *errorclass)
{
	*errorclass = is_user(errorcode) ? NX_STATE->user_class[user_index(errorcode)] : errorcode;
	return 0;
}

long mid_error_string(int errorcode, char *string, int string_max, int *resultlen)
{
	put_string(text_of(errorcode), string, string_max, resultlen);
	return 0;
}

static int add_code(int class, int *code)
{
	struct nx_state *s = NX_STATE;
	if (s->user_errors == NX_MAX_USER_ERRORS) return NX_ERR_NO_MEM;
	*code = NX_FIRST_USER_ERROR + s->user_errors;
	s->user_class[s->user_errors++] = class ? class : *code;
	s->attr_value[NX_KEYVAL_LASTUSEDCODE] = *code;
	return 0;
}

long mid_add_error_class(int *errorclass) { RESULT(NX_COMM_WORLD, add_code(0, errorclass)); }
long mid_add_error_code(int errorclass, int *errorcode)
{
	RESULT(NX_COMM_WORLD, add_code(errorclass, errorcode));
}

long mid_add_error_string(int errorcode, const char *string)
{
	if (!is_user(errorcode)) FAIL(NX_COMM_WORLD, NX_ERR_ARG);
	char **at = &NX_STATE->user_error[user_index(errorcode)], *s = nx_strdup(string);
	if (!s) FAIL(NX_COMM_WORLD, NX_ERR_NO_MEM);
	nx_free(*at);
	*at = s;
	return 0;
}
