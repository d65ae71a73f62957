/* face_local.inc.c: MPI functions that a face answers itself, from saved tables or by arithmetic, and those
 * whose results need more than the generator's translation. Included by every face.
 *
 * A handle is checked by comparing it with the first word of its entry; whatever is wrong goes to the middle,
 * which calls the error handler. Context: as face.h. */

/* -- entries --------------------------------------------------------------------------------------------- */

/* The live entry of a communicator or datatype, or NULL. */
static inline const struct vcomm *face_comm(nx_t nx)
{
	const struct vcomm *c = NX_COMM(nx);
	return likely(nx != NX_COMM_NULL && c->handle == nx) ? c : NULL;
}

static inline const struct vtype *face_type(nx_t nx)
{
	const struct vtype *t = NX_TYPE(nx);
	return likely(nx != NX_TYPE_NULL && t->handle == nx) ? t : NULL;
}

/* Processes in a communicator; 0 when the handle is wrong (the middle will say so). */
static inline int comm_size_of(MPI_Comm comm)
{
	const struct vcomm *c = face_comm(in_comm(comm));
	return c ? c->size : 0;
}
/* Neighbours in its topology. */
static inline int neighbours_of(MPI_Comm comm, int outward)
{
	const struct vcomm *c = face_comm(in_comm(comm));
	return c && c->topo ? nx_neighbours(c->topo, c->rank, outward) : 0;
}
#define COMM_SIZE(comm) comm_size_of(comm)
#define NEIGHBOURS_IN(comm)  neighbours_of(comm, 0)
#define NEIGHBOURS_OUT(comm) neighbours_of(comm, 1)

static inline int fits_int(int64_t n) { return n == (int)n ? (int)n : NX_UNDEFINED; }

int PMPI_Comm_rank(MPI_Comm comm, int *rank)
{
	const struct vcomm *c = face_comm(in_comm(comm));
	if (unlikely(!c)) return face_raise(NX_COMM_WORLD, NX_ERR_COMM);
	if (unlikely(!rank)) return face_raise(in_comm(comm), NX_ERR_ARG);
	*rank = c->rank;
	return 0;
}

int PMPI_Comm_size(MPI_Comm comm, int *size)
{
	const struct vcomm *c = face_comm(in_comm(comm));
	if (unlikely(!c)) return face_raise(NX_COMM_WORLD, NX_ERR_COMM);
	if (unlikely(!size)) return face_raise(in_comm(comm), NX_ERR_ARG);
	*size = c->size;
	return 0;
}

int PMPI_Type_size(MPI_Datatype datatype, int *size)
{
	const struct vtype *t = face_type(in_datatype(datatype));
	if (unlikely(!t)) return face_raise(NX_COMM_WORLD, NX_ERR_TYPE);
	if (unlikely(!size)) return face_raise(NX_COMM_WORLD, NX_ERR_ARG);
	*size = fits_int(t->size);
	return 0;
}

int PMPI_Type_size_x(MPI_Datatype datatype, nx_aint *size)
{
	const struct vtype *t = face_type(in_datatype(datatype));
	if (unlikely(!t)) return face_raise(NX_COMM_WORLD, NX_ERR_TYPE);
	if (unlikely(!size)) return face_raise(NX_COMM_WORLD, NX_ERR_ARG);
	*size = t->size;
	return 0;
}

/* -- MPI-1 ways to ask for an extent --------------------------------------------------------------------- */

int PMPI_Type_extent(MPI_Datatype datatype, nx_aint *extent)
{
	nx_aint lb;
	return PMPI_Type_get_extent(datatype, &lb, extent);
}

int PMPI_Type_lb(MPI_Datatype datatype, nx_aint *displacement)
{
	nx_aint extent;
	return PMPI_Type_get_extent(datatype, displacement, &extent);
}

int PMPI_Type_ub(MPI_Datatype datatype, nx_aint *displacement)
{
	nx_aint lb, extent;
	if (unlikely(!displacement)) return face_raise(NX_COMM_WORLD, NX_ERR_ARG);
	int rc = PMPI_Type_get_extent(datatype, &lb, &extent);
	if (rc == 0) *displacement = lb + extent;
	return rc;
}

/* -- status ---------------------------------------------------------------------------------------------- */

int PMPI_Get_count(const MPI_Status *status, MPI_Datatype datatype, int *count)
{
	const struct vtype *t = face_type(in_datatype(datatype));
	int64_t bytes = status_bytes(status);
	if (unlikely(!t)) return face_raise(NX_COMM_WORLD, NX_ERR_TYPE);
	if (unlikely(!count)) return face_raise(NX_COMM_WORLD, NX_ERR_ARG);
	if (t->size == 0) *count = bytes == 0 ? 0 : NX_UNDEFINED;
	else if (bytes < 0 || bytes % t->size != 0) *count = NX_UNDEFINED;
	else *count = fits_int(bytes / t->size);
	return 0;
}

/* Basic elements that so many bytes hold: more with each element. */
static int64_t elements_in(nx_t type, int64_t bytes)
{
	nx_status st = { .bytes = bytes };
	nx_aint n = 0;
	CROSS(NX_SLOT_GET_ELEMENTS_X, const nx_status *, nx_t, nx_aint *)(&st, type, &n);
	return n;
}

/* The fewest bytes that hold so many basic elements of a type of that size. */
static int64_t bytes_of(nx_t type, int64_t size, int64_t elements)
{
	int64_t each = elements_in(type, size);
	if (each <= 0) return 0;
	int64_t rest = elements % each, low = 0, high = rest ? size : 0;
	while (low < high) {
		int64_t mid = (low + high) / 2;
		if (elements_in(type, mid) >= rest) high = mid;
		else low = mid + 1;
	}
	return elements / each * size + low;
}

int PMPI_Status_set_elements_x(MPI_Status *status, MPI_Datatype datatype, nx_aint count)
{
	nx_t type = in_datatype(datatype);
	const struct vtype *t = face_type(type);
	if (unlikely(!t)) return face_raise(NX_COMM_WORLD, NX_ERR_TYPE);
	if (unlikely(count < 0)) return face_raise(NX_COMM_WORLD, NX_ERR_COUNT);
	status_set(status, bytes_of(type, t->size, count), status_cancelled(status));
	return 0;
}

int PMPI_Status_set_elements(MPI_Status *status, MPI_Datatype datatype, int count)
{
	return PMPI_Status_set_elements_x(status, datatype, count);
}

int PMPI_Status_set_cancelled(MPI_Status *status, int flag)
{
	status_set(status, status_bytes(status), flag);
	return 0;
}

int PMPI_Test_cancelled(const MPI_Status *status, int *flag)
{
	if (unlikely(!flag)) return face_raise(NX_COMM_WORLD, NX_ERR_ARG);
	*flag = status_cancelled(status);
	return 0;
}

/* -- environment ----------------------------------------------------------------------------------------- */

int PMPI_Get_version(int *version, int *subversion)
{
	*version = ABI_STANDARD_VERSION;
	*subversion = ABI_STANDARD_SUBVERSION;
	return 0;
}

/* What libraries of this face say of themselves, and what is said while one of the others is below: a program
 * chooses by it whose handles and constants it has. */
#ifdef FACE_MPICH
static const char *const face_family[] = { "MPICH", "MVAPICH", "Intel(R) MPI" };
static const char face_itself[] = "MPICH Version:\t4.0.2\nMPICH Device:\tbyssus\n";
#else
static const char *const face_family[] = { "Open MPI" };
static const char face_itself[] = "Open MPI v4.1.4, package: Byssus, ident: 4.1.4";
#endif

#ifdef FACE_MPICH
/* MPICH's communicators go by the error handler of MPI_COMM_WORLD until one is set for them, or for what they
 * were made of. */
__attribute__((constructor)) static void face_declare_errors(void) { NX_STATE->world_errh = 1; }
#endif

static bool face_says(const char *text, const char *word)
{
	for (int i; *text; text++) {
		for (i = 0; word[i] && text[i] == word[i]; i++) ;
		if (!word[i]) return true;
	}
	return false;
}

int PMPI_Get_library_version(char *version, int *resultlen)
{
	if (unlikely(!version || !resultlen)) return face_raise(NX_COMM_WORLD, NX_ERR_ARG);
	long e = cross_get_library_version(version, ABI_MAX_LIBRARY_VERSION_STRING, resultlen);
	int rc = error_out((int)e);
	for (size_t i = 0; !rc && i < sizeof face_family / sizeof *face_family; i++)
		if (face_says(version, face_family[i])) return 0;
	for (size_t i = 0; !rc && i < sizeof face_itself; i++) version[i] = face_itself[i];
	if (!rc) *resultlen = (int)sizeof face_itself - 1;
	return rc;
}

/* The kernel's clock_gettime, through the control block. Its address changes with a restart and must not be
 * in a register when a checkpoint stops the thread: the call is one instruction. */
static void face_clock(struct timespec *now)
{
	long clock = CLOCK_MONOTONIC;
	__asm__ volatile(
		"mov %%rsp, %%rbx\n\tsub $128, %%rsp\n\tand $-16, %%rsp\n\tcall *(%2)\n\tmov %%rbx, %%rsp"
		: "+D"(clock), "+S"(now)
		: "r"(&BY_CTLP->vdso[0])
		: "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "memory", "cc", "xmm0", "xmm1",
		  "xmm2", "xmm3");
}

/* The clock continues across restarts: the core keeps the shift. If it has changed meanwhile, the reading is
 * stale. */
double PMPI_Wtime(void)
{
	const volatile int64_t *shift = &BY_CTLP->wtime_shift_ns, *own = &BY_CTLP->clock_shift_ns;
	struct timespec now;
	int64_t before;
	do {
		before = *shift;
		face_clock(&now);
	} while (unlikely(before != *shift));
	return (double)(now.tv_sec * 1000000000 + now.tv_nsec + before - *own) * 1e-9;
}

double PMPI_Wtick(void) { return 1e-9; }

int PMPI_Pcontrol(UNUSED int level, ...) { return 0; }

int PMPI_Get_address(const void *location, nx_aint *address)
{
	*address = (nx_aint)location;
	return 0;
}

MPI_Aint PMPI_Aint_add(nx_aint base, nx_aint disp) { return base + disp; }
MPI_Aint PMPI_Aint_diff(nx_aint addr1, nx_aint addr2) { return addr1 - addr2; }

int PMPIX_Query_cuda_support(void) { return 0; }

/* -- attributes and contents: values inside need translation --------------------------------------------- */

/* Values of predefined attributes that are ranks or error codes: a copy in the application's terms. */
static void *face_attribute(nx_t keyval, const int *value)
{
	static int host, io, last;
	switch (keyval) {
	case NX_KEYVAL_HOST: host = rank_out(*value); return &host;
	case NX_KEYVAL_IO: io = rank_out(*value); return &io;
	case NX_KEYVAL_LASTUSEDCODE:
		last = *value < NX_FIRST_USER_ERROR ? ABI_ERR_LASTCODE : error_out(*value);
		return &last;
	}
	return (void *)value;
}

int PMPI_Comm_get_attr(MPI_Comm comm, int comm_keyval, void *attribute_val, int *flag)
{
	nx_t keyval = in_keyval(comm_keyval);
	void **value = attribute_val;
	if (unlikely(!value || !flag)) return face_raise(in_comm(comm), NX_ERR_ARG);
	long rc = cross_comm_get_attr(in_comm(comm), keyval, value, flag);
	if (rc == 0 && *flag && keyval < NX_FIRST_DYNAMIC) *value = face_attribute(keyval, *value);
	return error_out((int)rc);
}

/* Order, distributions and their arguments stand among the integers of the two array constructors. */
static void face_contents(int combiner, int *v)
{
	if (combiner == NX_COMBINER_SUBARRAY) {
		int n = v[0];
		v[1 + 3 * n] = order_out(v[1 + 3 * n]);
	}
	if (combiner == NX_COMBINER_DARRAY) {
		int n = v[2], *distribs = v + 3 + n, *dargs = distribs + n;
		for (int i = 0; i < n; i++) {
			distribs[i] = distrib_out(distribs[i]);
			dargs[i] = darg_out(dargs[i]);
		}
		v[3 + 4 * n] = order_out(v[3 + 4 * n]);
	}
}

int PMPI_Type_get_envelope(MPI_Datatype datatype, int *num_integers, int *num_addresses, int *num_datatypes,
			   int *combiner)
{
	int neutral;
	if (unlikely(!num_integers || !num_addresses || !num_datatypes || !combiner))
		return face_raise(NX_COMM_WORLD, NX_ERR_ARG);
	long rc = cross_type_get_envelope(in_datatype(datatype), num_integers, num_addresses, num_datatypes,
					  &neutral);
	if (rc == 0) *combiner = combiner_out(neutral);
	return error_out((int)rc);
}

int PMPI_Type_get_contents(MPI_Datatype datatype, int max_integers, int max_addresses, int max_datatypes,
			   int *array_of_integers, nx_aint *array_of_addresses,
			   MPI_Datatype *array_of_datatypes)
{
	nx_t type = in_datatype(datatype);
	int integers, addresses, datatypes, combiner;
	long rc = cross_type_get_envelope(type, &integers, &addresses, &datatypes, &combiner);
	if (rc != 0) return error_out((int)rc);
	TEMP(nx_t, types, max_datatypes);
	rc = cross_type_get_contents(type, max_integers, max_addresses, max_datatypes, array_of_integers,
				     array_of_addresses, types);
	if (rc == 0) {
		face_contents(combiner, array_of_integers);
		for (int i = 0; i < datatypes; i++) array_of_datatypes[i] = out_datatype(types[i]);
	}
	TEMP_END(types);
	return error_out((int)rc);
}

/* -- hints of communicators ------------------------------------------------------------------------------ */

/* Those that this library knows, and what they are until they are set. Byssus does nothing differently for
 * any of them; a program that asks which were taken hears what it would hear from its library. */
static const struct { char key[32], value[8]; } face_hint[] = {
#ifdef FACE_MPICH
	{ "mpi_assert_no_any_tag", "false" },
	{ "mpi_assert_no_any_source", "false" },
	{ "mpi_assert_exact_length", "false" },
	{ "mpi_assert_allow_overtaking", "false" },
	{ "enable_multi_nic_striping", "true" },
	{ "enable_multi_nic_hashing", "true" },
	{ "multi_nic_pref_nic", "-1" },
	{ "sender_vci", "-1" },
	{ "receiver_vci", "-1" },
	{ "vci", "-1" },
#else
	{ "mpi_assert_no_any_source", "false" },
	{ "mpi_assert_allow_overtaking", "false" },
#endif
};
enum { FACE_HINTS = sizeof face_hint / sizeof *face_hint };

/* What was set of a communicator's hints: a new object, which the caller frees. */
static int face_held(MPI_Comm comm, MPI_Info *held)
{
	nx_t info;
	long rc = cross_comm_get_info(in_comm(comm), &info);
	*held = out_info(rc == 0 ? info : NX_INFO_NULL);
	return error_out((int)rc);
}

/* What the library does not know is passed by. */
int PMPI_Comm_set_info(MPI_Comm comm, MPI_Info info)
{
	MPI_Info held;
	char value[ABI_MAX_INFO_VAL + 1];
	int flag = 0, rc = face_held(comm, &held);
	if (rc || in_info(info) == NX_INFO_NULL) {
		if (!rc) PMPI_Info_free(&held);
		return rc;
	}
	for (int i = 0; i < FACE_HINTS && !rc; i++) {
		rc = PMPI_Info_get(info, face_hint[i].key, ABI_MAX_INFO_VAL, value, &flag);
		if (!rc && flag) rc = PMPI_Info_set(held, face_hint[i].key, value);
	}
	if (!rc) rc = error_out((int)cross_comm_set_info(in_comm(comm), in_info(held)));
	PMPI_Info_free(&held);
	return rc;
}

int PMPI_Comm_get_info(MPI_Comm comm, MPI_Info *info_used)
{
	if (unlikely(!info_used)) return face_raise(in_comm(comm), NX_ERR_ARG);
	int flag = 0, length, rc = face_held(comm, info_used);
	for (int i = 0; i < FACE_HINTS && !rc; i++) {
		rc = PMPI_Info_get_valuelen(*info_used, face_hint[i].key, &length, &flag);
		if (!rc && !flag) rc = PMPI_Info_set(*info_used, face_hint[i].key, face_hint[i].value);
	}
	return rc;
}

/* Open MPI keeps all that it is given here. */
int PMPI_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm)
{
	if (unlikely(!newcomm)) return face_raise(in_comm(comm), NX_ERR_ARG);
	nx_t made, kept = in_info(info);
	long rc;
#ifdef FACE_MPICH
	kept = NX_INFO_NULL;
#endif
	do rc = cross_comm_dup_with_info(in_comm(comm), kept, &made);
	while (unlikely(rc == BY_AGAIN) && face_park());
	*newcomm = out_comm(rc == 0 ? made : NX_COMM_NULL);
	return rc || kept ? error_out((int)rc) : PMPI_Comm_set_info(*newcomm, info);
}

/* Of no dimension at all MPICH makes one communicator, of rank 0, and Open MPI one of each rank. */
int PMPI_Cart_sub(MPI_Comm comm, const int *remain_dims, MPI_Comm *newcomm)
{
	if (unlikely(!newcomm)) return face_raise(in_comm(comm), NX_ERR_ARG);
	nx_t made;
	long rc;
	do rc = cross_cart_sub(in_comm(comm), remain_dims, &made);
	while (unlikely(rc == BY_AGAIN) && face_park());
	*newcomm = out_comm(rc == 0 ? made : NX_COMM_NULL);
#ifdef FACE_MPICH
	if (rc == 0 && NX_COMM(made)->topo->n == 0 && NX_COMM(in_comm(comm))->rank != 0)
		return PMPI_Comm_free(newcomm);
#endif
	return error_out((int)rc);
}

/* -- callbacks: from neutral arguments to the application's ---------------------------------------------- */

static long thunk_op_fn(void *fn, void *in, void *inout, int *len, nx_t datatype)
{
	MPI_Datatype type = out_datatype(datatype);
	((void (*)(void *, void *, int *, MPI_Datatype *))fn)(in, inout, len, &type);
	return 0;
}

/* Functions that the library of another language has given go by its proxies, which know their arguments. */
#ifdef FACE_MPICH
enum { PROXY_ADDRESS, PROXY_INTEGER };  /* what a value is to a proxy: MPIR_ATTR_PTR, MPIR_ATTR_AINT */
#define COPY_BY_PROXY(object) \
	const struct vkeyval *key = NX_KEYVAL((nx_t)(pair >> 32)); \
	typedef int copy_proxy(void *, int, int, void *, int, void *, void **, int *); \
	if (key->copy_proxy) \
		return error_in(((copy_proxy *)key->copy_proxy)(fn, out_##object((nx_t)pair), \
				out_keyval((nx_t)(pair >> 32)), extra, PROXY_INTEGER, value, out, flag));
#define DELETE_BY_PROXY(object) \
	const struct vkeyval *key = NX_KEYVAL((nx_t)(pair >> 32)); \
	typedef int delete_proxy(void *, int, int, int, void *, void *); \
	if (key->del_proxy) \
		return error_in(((delete_proxy *)key->del_proxy)(fn, out_##object((nx_t)pair), \
				out_keyval((nx_t)(pair >> 32)), PROXY_INTEGER, value, extra));
#else
#define COPY_BY_PROXY(object)
#define DELETE_BY_PROXY(object)
#endif

static long thunk_comm_copy_fn(void *fn, uint64_t pair, void *extra, void *value, void **out, int *flag)
{
	COPY_BY_PROXY(comm)
	typedef int copy_fn(MPI_Comm, int, void *, void *, void *, int *);
	return error_in(((copy_fn *)fn)(out_comm((nx_t)pair), out_keyval((nx_t)(pair >> 32)), extra, value,
					out, flag));
}

static long thunk_comm_delete_fn(void *fn, uint64_t pair, void *value, void *extra)
{
	DELETE_BY_PROXY(comm)
	typedef int delete_fn(MPI_Comm, int, void *, void *);
	return error_in(
		((delete_fn *)fn)(out_comm((nx_t)pair), out_keyval((nx_t)(pair >> 32)), value, extra));
}

static long thunk_type_copy_fn(void *fn, uint64_t pair, void *extra, void *value, void **out, int *flag)
{
	COPY_BY_PROXY(datatype)
	typedef int copy_fn(MPI_Datatype, int, void *, void *, void *, int *);
	return error_in(((copy_fn *)fn)(out_datatype((nx_t)pair), out_keyval((nx_t)(pair >> 32)), extra,
					value, out, flag));
}

static long thunk_type_delete_fn(void *fn, uint64_t pair, void *value, void *extra)
{
	DELETE_BY_PROXY(datatype)
	typedef int delete_fn(MPI_Datatype, int, void *, void *);
	return error_in(
		((delete_fn *)fn)(out_datatype((nx_t)pair), out_keyval((nx_t)(pair >> 32)), value, extra));
}

static long thunk_comm_err_fn(void *fn, nx_t comm, int error)
{
	MPI_Comm handle = out_comm(comm);
	int code = error_out(error);
	((void (*)(MPI_Comm *, int *, ...))fn)(&handle, &code);
	return 0;
}

/* The predefined copy and delete functions have one body each. */
#define COPY_FN \
	UNUSED void *object, UNUSED int keyval, UNUSED void *extra, UNUSED void *in, UNUSED void *out, \
		int *flag
#define DELETE_FN UNUSED void *object, UNUSED int keyval, UNUSED void *value, UNUSED void *extra
#define DUP_BODY       { *(void **)out = in; *flag = 1; return 0; }
#define NULL_COPY_BODY { *flag = 0; return 0; }
#define NULL_DELETE_BODY { return 0; }

/* -- conversions between C and Fortran ------------------------------------------------------------------- */

static int copy_status(int *to, const int *from)
{
	for (size_t i = 0; i < sizeof(MPI_Status) / sizeof(int); i++) to[i] = from[i];
	return 0;
}

int PMPI_Status_c2f(const MPI_Status *c_status, MPI_Fint *f_status)
{
	return copy_status(f_status, (const int *)c_status);
}
int PMPI_Status_f2c(const MPI_Fint *f_status, MPI_Status *c_status)
{
	return copy_status((int *)c_status, f_status);
}
int PMPI_Status_c2f08(const MPI_Status *c_status, void *f08_status)
{
	return copy_status(f08_status, (const int *)c_status);
}
int PMPI_Status_f082c(const void *f08_status, MPI_Status *c_status)
{
	return copy_status((int *)c_status, f08_status);
}
int PMPI_Status_f082f(const void *f08_status, MPI_Fint *f_status)
{
	return copy_status(f_status, f08_status);
}
int PMPI_Status_f2f08(const MPI_Fint *f_status, void *f08_status)
{
	return copy_status(f08_status, f_status);
}

#ifdef FACE_MPICH
/* Handles are the same integers in both languages; only files are addresses, and there are none but the null
 * one. */
#define BOTH(Kind, T) \
	MPI_Fint PMPI_##Kind##_c2f(T handle) { return handle; } \
	T PMPI_##Kind##_f2c(MPI_Fint handle) { return handle; }
BOTH(Session, MPI_Session)
BOTH(Win, MPI_Win)

MPI_Fint PMPI_File_c2f(UNUSED MPI_File file) { return 0; }
MPI_File PMPI_File_f2c(UNUSED MPI_Fint file) { return NULL; }

int PMPIX_GPU_query_support(UNUSED int gpu_type, int *is_supported)
{
	*is_supported = 0;
	return 0;
}
int PMPIX_Query_hip_support(void) { return 0; }
int PMPIX_Query_ze_support(void) { return 0; }

int MPIR_Dup_fn(COPY_FN) DUP_BODY

/* Special addresses are the values of variables. */
int MPIR_F08_MPI_BOTTOM, MPIR_F08_MPI_IN_PLACE;
MPI_Status MPIR_F08_MPI_STATUS_IGNORE_OBJ, MPIR_F08_MPI_STATUSES_IGNORE_OBJ[1];
MPI_Status *MPI_F08_STATUS_IGNORE = &MPIR_F08_MPI_STATUS_IGNORE_OBJ;
MPI_Status *MPI_F08_STATUSES_IGNORE = MPIR_F08_MPI_STATUSES_IGNORE_OBJ;
MPI_Fint *MPI_F_STATUS_IGNORE, *MPI_F_STATUSES_IGNORE;
static int unweighted, weights_empty, all_handles;
int *MPIR_C_MPI_UNWEIGHTED = &unweighted, *MPIR_C_MPI_WEIGHTS_EMPTY = &weights_empty;
int *const MPI_UNWEIGHTED = &unweighted, *const MPI_WEIGHTS_EMPTY = &weights_empty;
void *const MPI_T_PVAR_ALL_HANDLES = &all_handles;
#endif

#ifdef FACE_OPENMPI
/* Fortran's integers: those of mpif.h for predefined objects, else the neutral handle. */
#define BOTH(Kind, T, kind) \
	MPI_Fint PMPI_##Kind##_c2f(T handle) { return fint_of_##kind(in_##kind(handle)); } \
	T PMPI_##Kind##_f2c(MPI_Fint handle) { return out_##kind(kind##_of_fint(handle)); }

MPI_Fint PMPI_File_c2f(UNUSED MPI_File file) { return 0; }
MPI_File PMPI_File_f2c(UNUSED MPI_Fint file) { return &ompi_mpi_file_null; }
MPI_Fint PMPI_Win_c2f(UNUSED MPI_Win win) { return 0; }
MPI_Win PMPI_Win_f2c(UNUSED MPI_Fint win) { return &ompi_mpi_win_null; }
MPI_Fint PMPI_Session_c2f(UNUSED MPI_Session session) { return 0; }
MPI_Session PMPI_Session_f2c(UNUSED MPI_Fint session) { return NULL; }

int PMPI_AINT_ADD_F90(const nx_aint *base, const nx_aint *disp, nx_aint *result)
{
	*result = *base + *disp;
	return 0;
}
int PMPI_AINT_DIFF_F90(const nx_aint *addr1, const nx_aint *addr2, nx_aint *result)
{
	*result = *addr1 - *addr2;
	return 0;
}
int PMPI_WTIME_F90(double *time) { *time = PMPI_Wtime(); return 0; }
int PMPI_WTICK_F90(double *time) { *time = PMPI_Wtick(); return 0; }

int OMPI_C_MPI_NULL_DELETE_FN(DELETE_FN) NULL_DELETE_BODY
int OMPI_C_MPI_COMM_NULL_DELETE_FN(DELETE_FN) NULL_DELETE_BODY
int OMPI_C_MPI_TYPE_NULL_DELETE_FN(DELETE_FN) NULL_DELETE_BODY
int OMPI_C_MPI_WIN_NULL_DELETE_FN(DELETE_FN) NULL_DELETE_BODY
int OMPI_C_MPI_NULL_COPY_FN(COPY_FN) NULL_COPY_BODY
int OMPI_C_MPI_COMM_NULL_COPY_FN(COPY_FN) NULL_COPY_BODY
int OMPI_C_MPI_TYPE_NULL_COPY_FN(COPY_FN) NULL_COPY_BODY
int OMPI_C_MPI_WIN_NULL_COPY_FN(COPY_FN) NULL_COPY_BODY
int OMPI_C_MPI_DUP_FN(COPY_FN) DUP_BODY
int OMPI_C_MPI_COMM_DUP_FN(COPY_FN) DUP_BODY
int OMPI_C_MPI_TYPE_DUP_FN(COPY_FN) DUP_BODY
int OMPI_C_MPI_WIN_DUP_FN(COPY_FN) DUP_BODY

/* Fortran's predefined attribute functions, whose upper-case names the C library exports. */
#define F_COPY(Name, T, set, truth) \
	void Name(UNUSED MPI_Fint *object, UNUSED MPI_Fint *keyval, UNUSED void *extra, UNUSED T *in, \
		  UNUSED T *out, MPI_Fint *flag, MPI_Fint *ierror) \
	{ \
		set; \
		*flag = truth; \
		*ierror = 0; \
	}
#define F_DELETE(Name) \
	void Name(UNUSED MPI_Fint *object, UNUSED MPI_Fint *keyval, UNUSED void *value, UNUSED void *extra, \
		  MPI_Fint *ierror) \
	{ \
		*ierror = 0; \
	}
	F_COPY(MPI_DUP_FN, MPI_Fint, *out = *in, 1) F_COPY(MPI_COMM_DUP_FN, nx_aint, *out = *in,
							   1) F_COPY(MPI_TYPE_DUP_FN, nx_aint, *out = *in, 1)
		F_COPY(MPI_WIN_DUP_FN, nx_aint, *out = *in,
		       1) F_COPY(MPI_NULL_COPY_FN, MPI_Fint, , 0) F_COPY(MPI_COMM_NULL_COPY_FN, nx_aint, , 0)
			F_COPY(MPI_TYPE_NULL_COPY_FN, nx_aint, , 0) F_COPY(MPI_WIN_NULL_COPY_FN, nx_aint, ,
									   0) F_DELETE(MPI_NULL_DELETE_FN)
				F_DELETE(MPI_COMM_NULL_DELETE_FN) F_DELETE(MPI_TYPE_NULL_DELETE_FN)
					F_DELETE(MPI_WIN_NULL_DELETE_FN) void MPI_CONVERSION_FN_NULL(void)
{
}
#endif

#ifdef FACE_MPICH
#define BOTH_KINDS(Kind, T, kind) BOTH(Kind, T)
#else
#define BOTH_KINDS(Kind, T, kind) BOTH(Kind, T, kind)
#endif
BOTH_KINDS(Comm, MPI_Comm, comm)
BOTH_KINDS(Errhandler, MPI_Errhandler, errhandler)
BOTH_KINDS(Group, MPI_Group, group)
BOTH_KINDS(Info, MPI_Info, info)
BOTH_KINDS(Message, MPI_Message, message)
BOTH_KINDS(Op, MPI_Op, op)
BOTH_KINDS(Request, MPI_Request, request)
BOTH_KINDS(Type, MPI_Datatype, datatype)
