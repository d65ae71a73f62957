/* objects.h: lower half: the objects that no other rank takes part in, and errors: datatypes, operations,
 * attributes, info objects, error handlers. Each is an entry of its table; the real one, if there is one, is
 * made from the entry.
 *
 * Context: as table.h. Copy and delete functions of attributes, error handlers and user operations are the
 * application's: they run with its TLS, and may make MPI calls. */
#ifndef BYSSUS_OBJECTS_H
#define BYSSUS_OBJECTS_H
#include "../table/table.h"

/* -- errors (errh.c): every middle function ends through one of these -- */
long nx_error(nx_t comm, int err, const char *function);        /* err 0: returns 0 at once; else the handler
								 * of comm decides */
static inline long nx_result(nx_t comm, int err, const char *function)
{
	return likely(err == 0) ? 0 : nx_error(comm, err, function);
}
bool refused_before(char *why, size_t n);       /* a refused call was answered with an error: no checkpoint;
						 * any thread */
/* In a function mid_name: its error is raised under that name. */
#define MID_NAME (__func__ + sizeof "mid_" - 1)
#define FAIL(comm, err) return nx_error((comm), (err), MID_NAME)
#define RESULT(comm, err) return nx_result((comm), (err), MID_NAME)

void put_string(const char *s, char *out, int max, int *len);      /* as MPI returns strings */
void errh_ref(nx_t e);
void errh_unref(nx_t e);

/* -- datatypes (types.c) -- */
void type_start(void);                                         /* at MPI_Init */
int  type_restore_all(char *why, size_t n);
void type_ref(nx_t t);
void type_unref(nx_t t);
static inline bool type_ok(nx_t t) { return likely(nx_live(t, NX_TYPE(t)) && RTYPE(t)); }

/* -- operations (op.c) -- */
void op_start(void);                                           /* at MPI_Init */
int  op_restore_all(char *why, size_t n);
void op_ref(nx_t op);                                          /* a request may need it again */
void op_unref(nx_t op);
void op_current_type(nx_t t);                   /* hint for user functions: the type of the call under way */

/* -- attributes (attr.c) -- */
void attr_predefined(void);                                    /* at MPI_Init */
int  attr_copy_all(nx_t from, nx_t to, struct vattr *list, struct vattr **out, int *err);
int  attr_delete_all(nx_t object, struct vattr **list);
void attr_drop(struct vattr **list);

/* -- info objects (info.c) -- */
nx_t info_new(void);
nx_t info_dup(nx_t info);
void info_release(nx_t info);
int  info_real(nx_t info, rh_t *real);          /* makes a real one with the same keys, for one call */
int  info_learn(nx_t info, rh_t real, const char *key);       /* what that call has set */

/* -- what the description of MPI says (names.c) -- */
/* A predefined datatype. */
enum nx_class {
	NX_CLASS_null,
	NX_CLASS_char,
	NX_CLASS_integer,
	NX_CLASS_real,
	NX_CLASS_complex,
	NX_CLASS_logical,
	NX_CLASS_byte,
	NX_CLASS_multi,
	NX_CLASS_packed,
	NX_CLASS_pair,
	NX_CLASS_marker
};
struct nx_type_info {
	const char *name;              /* "MPI_INT" */
	uint32_t size, extent;
	enum nx_class class;
};
extern const struct nx_type_info nx_type_info[NX_TYPE_N];

/* A function that is refused, by the index the face passes to NX_SLOT_REFUSED. What it does for a program
 * that handles errors: calls the communicator's error handler, returns the error at once, or ends the job
 * even so. */
enum nx_refused { NX_REFUSED_RAISES, NX_REFUSED_RETURNS, NX_REFUSED_ENDS };
struct nx_refusal {
	const char *function, *reason;
	enum nx_refused how;
};
extern const struct nx_refusal nx_refusal[];
#endif
