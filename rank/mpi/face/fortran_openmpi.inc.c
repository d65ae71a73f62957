/* fortran_openmpi.inc.c: the Fortran interface of Open MPI, of which face_openmpi.c has an entry point for
 * each name: here is what those are made of, and the functions whose arguments are callbacks, attributes or
 * addresses. Open MPI's own Fortran library does not run: it looks into objects, which are shorter here. The
 * one of mpi_f08, which calls ompi_NAME_f alone, runs above this.
 *
 * Some libraries bring a stand-in for a sequential MPI under the same names (MUMPS without MPI): as long as
 * no Fortran library of an MPI is loaded, a call goes on to where it would have gone without the face.
 *
 * Included by the Open MPI face. Context: as face.h; at its first call an entry point asks the dynamic
 * linker, on the application's own FS. */
/* -- entry points ---------------------------------------------------------------------------------------- */

/* Where calls of mpi_NAME_ go: at first to a stub that finds out. */
struct fortran_entry {
	const void *to;
	const char *name;
	const void *own;
};

/* F_ENTRY(mpi_, send, void, (arguments)) { body } is ompi_send_f, and mpi_send_ with its other spellings. */
#define F_ENTRY(family, name, type, args) \
	type o##family##name##_f args; \
	__asm__(".pushsection .data.rel.fortran, \"aw\"\n.balign 8\n.local fto_" #name "\nfto_" #name \
		":\n\t.quad fstub_" #name ", fname_" #name ", o" #family #name "_f\n.popsection\n" \
		".pushsection .rodata\nfname_" #name ":\n\t.string \"" #family #name "_\"\n.popsection\n" \
		".pushsection fortran_text, \"ax\"\n.globl " #family #name "_\n.type " #family #name \
		"_, @function\n" #family #name "_:\n\tjmp *fto_" #name "(%rip)\nfstub_" #name \
		":\n\tleaq fto_" #name "(%rip), %r11\n\tjmp fortran_entry\n.popsection\n" \
			F_SAME(#family #name "__", #family #name "_") \
				F_SAME("p" #family #name "_", #family #name "_") \
					F_SAME("p" #family #name "__", #family #name "_")); \
	__attribute__((used)) type o##family##name##_f args
#define F_SAME(other, name) ".globl " other "\n.type " other ", @function\n.set " other ", " name "\n"
/* Callers of mpi_f08 may leave ierror out. */
#define F_RESULT(rc) \
	do { \
		int result_ = (rc); \
		if (ierror) *ierror = result_; \
	} while (0)

__asm__(".text\n.local fortran_entry\n.type fortran_entry, @function\nfortran_entry:\n"
	"\tpushq %rdi\n\tpushq %rsi\n\tpushq %rdx\n\tpushq %rcx\n\tpushq %r8\n\tpushq %r9\n\tpushq %rax\n"
	"\tmovq %r11, %rdi\n\tcall fortran_called\n\tmovq %rax, %r11\n"
	"\tpopq %rax\n\tpopq %r9\n\tpopq %r8\n\tpopq %rcx\n\tpopq %rdx\n\tpopq %rsi\n\tpopq %rdi\n\tjmp "
	"*%r11\n");

/* Is it one of an MPI's Fortran libraries, by its path? */
static bool is_fortran_library(const char *path)
{
	static const char *const starts[] = { "libmpi_mpifh", "libmpi_usempi", "libmpichf", "libmpifort" };
	for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
		if (starts_with(base_name(path), starts[i])) return true;
	return false;
}

static void *not_ours(const char *found)
{
	return found >= __start_fortran_text && found < __stop_fortran_text ? NULL : (void *)found;
}

/* Where a call would go without the face: to the next library of the program, or to one that was loaded
 * later; NULL: to an MPI's library. */
static void *elsewhere(const char *name)
{
	if (!dlsym || !dlopen || !dlclose || !&_r_debug) return NULL;
	for (const struct link_map *m = _r_debug.r_map; m; m = m->l_next)
		if (is_fortran_library(m->l_name)) return NULL;
	void *found = dlsym(RTLD_NEXT, name);
	for (const struct link_map *m = _r_debug.r_map; m && !found; m = m->l_next) {
		void *map = is_file(m) ? dlopen(m->l_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
		if (!map) continue;
		found = not_ours(dlsym(map, name));
		dlclose(map);
	}
	return found;
}

/* Where a call goes on, now and from now on. */
__attribute__((used)) static const void *fortran_called(struct fortran_entry *e)
{
	const void *to = elsewhere(e->name);
	return e->to = to ? to : e->own;
}

/* An array in C's terms. The compiler does not see that one without elements is not read. */
#define F_TEMP(T, t, count) \
	TEMP(T, t, count); \
	t##_small[0] = (T){ 0 }

/* -- arguments ------------------------------------------------------------------------------------------- */

/* Special places are variables of the program's, or of the face where the program has none of its own: their
 * names are bound by the dynamic linker, never here. */
static inline void *f_buffer(char *p)
{
	if (unlikely(p == mpi_fortran_in_place_)) return ABI_IN_PLACE;
	return unlikely(p == mpi_fortran_bottom_) ? NULL : p;
}

static inline MPI_Status *f_status(MPI_Fint *s)
{
	const char *p = (const char *)s;
	return p == mpi_fortran_status_ignore_ || p == mpi_fortran_statuses_ignore_ ? NULL : (MPI_Status *)s;
}

static inline int *f_weights(MPI_Fint *w)
{
	const char *p = (const char *)w;
	return p == mpi_fortran_unweighted_	? (int *)ABI_UNWEIGHTED
	       : p == mpi_fortran_weights_empty_ ? (int *)ABI_WEIGHTS_EMPTY
						 : w;
}

/* Blanks around a text do not belong to it, as in Open MPI's own library. */
static void f_text_in(char *to, const char *from, int n)
{
	while (n > 0 && from[n - 1] == ' ') n--;
	while (n > 0 && *from == ' ') from++, n--;
	for (int i = 0; i < n; i++) to[i] = from[i];
	to[n] = 0;
}

static void f_text_out(char *to, int n, const char *from)
{
	int i = 0;
	for (; i < n && from[i]; i++) to[i] = from[i];
	for (; i < n; i++) to[i] = ' ';
}

/* -- start, time, addresses ------------------------------------------------------------------------------ */

F_ENTRY(mpi_, init, void, (MPI_Fint *ierror)) { F_RESULT(PMPI_Init(NULL, NULL)); }
F_ENTRY(mpi_, init_thread, void, (MPI_Fint *required, MPI_Fint *provided, MPI_Fint *ierror))
{
	F_RESULT(PMPI_Init_thread(NULL, NULL, *required, provided));
}
F_ENTRY(mpi_, pcontrol, void, (MPI_Fint *level)) { PMPI_Pcontrol(*level); }
F_ENTRY(mpi_, wtime, double, (void)) { return PMPI_Wtime(); }
F_ENTRY(mpi_, wtick, double, (void)) { return PMPI_Wtick(); }
F_ENTRY(mpi_, aint_add, nx_aint, (nx_aint *base, nx_aint *disp)) { return *base + *disp; }
F_ENTRY(mpi_, aint_diff, nx_aint, (nx_aint *a, nx_aint *b)) { return *a - *b; }
F_ENTRY(mpi_, f_sync_reg, void, (UNUSED char *buffer)) {}

F_ENTRY(mpi_, alloc_mem, void, (nx_aint *size, MPI_Fint *info, void **base, MPI_Fint *ierror))
{
	F_RESULT(PMPI_Alloc_mem(*size, out_info(info_of_fint(*info)), base));
}
F_ENTRY(mpi_, alloc_mem_cptr, void, (nx_aint *size, MPI_Fint *info, void **base, MPI_Fint *ierror))
{
	F_RESULT(PMPI_Alloc_mem(*size, out_info(info_of_fint(*info)), base));
}
F_ENTRY(mpi_, free_mem, void, (char *base, MPI_Fint *ierror)) { F_RESULT(PMPI_Free_mem(base)); }
F_ENTRY(mpi_, buffer_attach, void, (char *buffer, MPI_Fint *size, MPI_Fint *ierror))
{
	F_RESULT(PMPI_Buffer_attach(buffer, *size));
}
F_ENTRY(mpi_, buffer_detach, void, (UNUSED char *buffer, MPI_Fint *size, MPI_Fint *ierror))
{
	void *was;
	F_RESULT(PMPI_Buffer_detach(&was, size));
}

/* -- callbacks ------------------------------------------------------------------------------------------- */

static long thunk_op_fortran(void *fn, void *in, void *inout, int *len, nx_t datatype)
{
	MPI_Fint type = fint_of_datatype(datatype);
	((void (*)(void *, void *, int *, MPI_Fint *))fn)(in, inout, len, &type);
	return 0;
}

static long thunk_comm_err_fortran(void *fn, nx_t comm, int error)
{
	MPI_Fint handle = fint_of_comm(comm), code = error_out(error);
	((void (*)(MPI_Fint *, MPI_Fint *))fn)(&handle, &code);
	return 0;
}

F_ENTRY(mpi_, op_create, void, (void *fn, MPI_Fint *commute, MPI_Fint *op, MPI_Fint *ierror))
{
	nx_t made;
	long rc = CROSS(NX_SLOT_OP_CREATE, void *, void *, int, nx_t *)(fn, (void *)thunk_op_fortran,
									*commute != 0, &made);
	if (rc == 0) *op = fint_of_op(made);
	F_RESULT(error_out((int)rc));
}

static int create_errhandler(void *fn, MPI_Fint *errhandler)
{
	nx_t made;
	long rc = CROSS(NX_SLOT_COMM_CREATE_ERRHANDLER, void *, void *, nx_t *)(
		fn, (void *)thunk_comm_err_fortran, &made);
	if (rc == 0) *errhandler = fint_of_errhandler(made);
	return error_out((int)rc);
}
F_ENTRY(mpi_, comm_create_errhandler, void, (void *fn, MPI_Fint *errhandler, MPI_Fint *ierror))
{
	F_RESULT(create_errhandler(fn, errhandler));
}
F_ENTRY(mpi_, errhandler_create, void, (void *fn, MPI_Fint *errhandler, MPI_Fint *ierror))
{
	F_RESULT(create_errhandler(fn, errhandler));
}

/* Functions of keyvals get integers: of the size of addresses, those of MPI-1 default ones. */
#define KEYVAL_FORTRAN(object, form, T) \
	static long thunk_##object##_copy_##form(void *fn, uint64_t pair, void *extra, void *value, \
						 void **out, int *flag) \
	{ \
		typedef void copy_fn(MPI_Fint *, MPI_Fint *, T *, T *, T *, MPI_Fint *, MPI_Fint *); \
		MPI_Fint handle = fint_of_##object((nx_t)pair), key = out_keyval((nx_t)(pair >> 32)); \
		MPI_Fint keep = 0, ierror = 0; \
		T state = (T)(nx_aint)extra, from = (T)(nx_aint)value, to = 0; \
		((copy_fn *)fn)(&handle, &key, &state, &from, &to, &keep, &ierror); \
		*out = (void *)(nx_aint)to; \
		*flag = keep != 0; \
		return error_in(ierror); \
	} \
	static long thunk_##object##_delete_##form(void *fn, uint64_t pair, void *value, void *extra) \
	{ \
		typedef void delete_fn(MPI_Fint *, MPI_Fint *, T *, T *, MPI_Fint *); \
		MPI_Fint handle = fint_of_##object((nx_t)pair), key = out_keyval((nx_t)(pair >> 32)); \
		MPI_Fint ierror = 0; \
		T was = (T)(nx_aint)value, state = (T)(nx_aint)extra; \
		((delete_fn *)fn)(&handle, &key, &was, &state, &ierror); \
		return error_in(ierror); \
	}
KEYVAL_FORTRAN(comm, address, nx_aint)
KEYVAL_FORTRAN(comm, default, MPI_Fint)
KEYVAL_FORTRAN(datatype, address, nx_aint)

#define CREATE_KEYVAL(slot, thunk_copy, thunk_delete, extra) \
	nx_t made; \
	long rc = CROSS(slot, void *, void *, void *, void *, nx_t *, void *)( \
		copy, (void *)thunk_copy, del, (void *)thunk_delete, &made, (void *)(nx_aint)(extra)); \
	if (rc == 0) *keyval = out_keyval(made); \
	F_RESULT(error_out((int)rc))

F_ENTRY(mpi_, comm_create_keyval, void,
	(void *copy, void *del, MPI_Fint *keyval,
	 nx_aint *extra, MPI_Fint *ierror))
{
	CREATE_KEYVAL(NX_SLOT_COMM_CREATE_KEYVAL, thunk_comm_copy_address, thunk_comm_delete_address,
		      *extra);
}
F_ENTRY(mpi_, keyval_create, void,
	(void *copy, void *del, MPI_Fint *keyval,
	 MPI_Fint *extra, MPI_Fint *ierror))
{
	CREATE_KEYVAL(NX_SLOT_COMM_CREATE_KEYVAL, thunk_comm_copy_default, thunk_comm_delete_default,
		      *extra);
}
F_ENTRY(mpi_, type_create_keyval, void,
	(void *copy, void *del, MPI_Fint *keyval,
	 nx_aint *extra, MPI_Fint *ierror))
{
	CREATE_KEYVAL(NX_SLOT_TYPE_CREATE_KEYVAL, thunk_datatype_copy_address, thunk_datatype_delete_address,
		      *extra);
}

/* -- attributes ------------------------------------------------------------------------------------------ */

static int f_comm_set(MPI_Fint comm, MPI_Fint keyval, nx_aint value)
{
	MPI_Comm c = out_comm(comm_of_fint(comm));
	int rc = PMPI_Comm_set_attr(c, keyval, (void *)value);
	if (rc == 0) set_by_fortran(NX_COMM(in_comm(c))->attrs, in_keyval(keyval));
	return rc;
}

static int f_comm_get(MPI_Fint comm, MPI_Fint keyval, nx_aint *value, MPI_Fint *flag)
{
	void *found;
	MPI_Comm c = out_comm(comm_of_fint(comm));
	int rc = PMPI_Comm_get_attr(c, keyval, &found, flag);
	if (rc == 0 && *flag)
		*value = value_for_fortran(NX_COMM(in_comm(c))->attrs, in_keyval(keyval), found);
	return rc;
}

F_ENTRY(mpi_, comm_set_attr, void,
	(MPI_Fint *comm, MPI_Fint *keyval,
	 nx_aint *value, MPI_Fint *ierror))
{
	F_RESULT(f_comm_set(*comm, *keyval, *value));
}
F_ENTRY(mpi_, attr_put, void, (MPI_Fint *comm, MPI_Fint *keyval, MPI_Fint *value, MPI_Fint *ierror))
{
	F_RESULT(f_comm_set(*comm, *keyval, *value));
}
F_ENTRY(mpi_, comm_get_attr, void,
	(MPI_Fint *comm, MPI_Fint *keyval, nx_aint *value,
	 MPI_Fint *flag, MPI_Fint *ierror))
{
	F_RESULT(f_comm_get(*comm, *keyval, value, flag));
}
F_ENTRY(mpi_, attr_get, void,
	(MPI_Fint *comm, MPI_Fint *keyval, MPI_Fint *value,
	 MPI_Fint *flag, MPI_Fint *ierror))
{
	nx_aint found = *value;
	int rc = f_comm_get(*comm, *keyval, &found, flag);
	*value = (MPI_Fint)found;
	F_RESULT(rc);
}
F_ENTRY(mpi_, type_set_attr, void,
	(MPI_Fint *datatype, MPI_Fint *keyval,
	 nx_aint *value, MPI_Fint *ierror))
{
	MPI_Datatype d = out_datatype(datatype_of_fint(*datatype));
	int rc = PMPI_Type_set_attr(d, *keyval, (void *)*value);
	if (rc == 0) set_by_fortran(NX_TYPE(in_datatype(d))->attrs, in_keyval(*keyval));
	F_RESULT(rc);
}
F_ENTRY(mpi_, type_get_attr, void,
	(MPI_Fint *datatype, MPI_Fint *keyval, nx_aint *value,
	 MPI_Fint *flag, MPI_Fint *ierror))
{
	void *found;
	MPI_Datatype d = out_datatype(datatype_of_fint(*datatype));
	int rc = PMPI_Type_get_attr(d, *keyval, &found, flag);
	if (rc == 0 && *flag)
		*value = value_for_fortran(NX_TYPE(in_datatype(d))->attrs, in_keyval(*keyval), found);
	F_RESULT(rc);
}

/* -- other names of what is there ------------------------------------------------------------------------ */

#define F_NAMES(name, is) __asm__(F_SAME(#name, #is) F_SAME(#name "_", #is) F_SAME(#name "__", #is));
F_NAMES(mpi_dup_fn, MPI_DUP_FN)
F_NAMES(mpi_null_copy_fn, MPI_NULL_COPY_FN)
F_NAMES(mpi_null_delete_fn, MPI_NULL_DELETE_FN)
F_NAMES(mpi_comm_dup_fn, MPI_COMM_DUP_FN)
F_NAMES(mpi_comm_null_copy_fn, MPI_COMM_NULL_COPY_FN)
F_NAMES(mpi_comm_null_delete_fn, MPI_COMM_NULL_DELETE_FN)
F_NAMES(mpi_type_dup_fn, MPI_TYPE_DUP_FN)
F_NAMES(mpi_type_null_copy_fn, MPI_TYPE_NULL_COPY_FN)
F_NAMES(mpi_type_null_delete_fn, MPI_TYPE_NULL_DELETE_FN)
F_NAMES(mpi_win_dup_fn, MPI_WIN_DUP_FN)
F_NAMES(mpi_win_null_copy_fn, MPI_WIN_NULL_COPY_FN)
F_NAMES(mpi_win_null_delete_fn, MPI_WIN_NULL_DELETE_FN)
F_NAMES(mpi_wtime_f90, PMPI_WTIME_F90)
F_NAMES(mpi_wtick_f90, PMPI_WTICK_F90)
F_NAMES(mpi_aint_add_f90, PMPI_AINT_ADD_F90)
F_NAMES(mpi_aint_diff_f90, PMPI_AINT_DIFF_F90)
