/* types.c: datatypes (MPI-4.1 chapter 5). The record of a derived type is its constructor's arguments, as
 * MPI_Type_get_contents returns them; the real type is made from the record, at once and again after a
 * restart.
 *
 * A type's entry is kept while the application, a request or another type refers to it (refs). Context: as
 * objects.h. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "objects.h"

#define LIVE(t, h) \
	struct vtype *t = NX_TYPE(h); \
	if (!nx_live(h, t)) FAIL(NX_COMM_WORLD, NX_ERR_TYPE)

/* -- predefined types ------------------------------------------------------------------------------------ */

static void bounds_of(struct vtype *t, rh_t real)
{
	drv->type_size_x(real, &t->size);
	drv->type_get_extent(real, &t->lb, &t->extent);
	drv->type_get_true_extent(real, &t->true_lb, &t->true_extent);
}

/* At MPI_Init: fills in the predefined types that this library has. */
void type_start(void)
{
	real_type[0] = drv->type[0];
	for (uint32_t i = 1; i < NX_TYPE_N; i++) {
		struct vtype *t = NX_TYPE(i);
		real_type[i] = drv->type[i];
		if (!real_type[i] || t->handle) continue;
		t->handle = i;
		t->predefined = t->committed = 1;
		t->combiner = NX_COMBINER_NAMED;
		t->refs = 1;
		if (nx_type_info[i].class != NX_CLASS_marker) bounds_of(t, real_type[i]);
		t->contiguous = t->size == t->extent && t->lb == 0 && t->size > 0 &&
				nx_type_info[i].class != NX_CLASS_pair;
	}
}

/* -- making the real type from the record ---------------------------------------------------------------- */

static int make_struct(const struct vtype *t, rh_t *out)
{
	rh_t small[32] = { 0 }, *real = t->nd <= 32 ? small : nx_malloc((size_t)t->nd * sizeof *real);
	if (!real) return NX_ERR_NO_MEM;
	for (int i = 0; i < t->nd; i++) real[i] = RTYPE(t->types[i]);
	int e = drv->type_create_struct(t->ints[0], t->ints + 1, t->aints, real, out);
	if (real != small) nx_free(real);
	return e;
}

static int make_real(const struct vtype *t, rh_t *out)
{
	const int *i = t->ints;
	const nx_aint *a = t->aints;
	rh_t old = t->nd ? RTYPE(t->types[0]) : 0;
	switch (t->combiner) {
	case NX_COMBINER_DUP: return drv->type_dup(old, out);
	case NX_COMBINER_CONTIGUOUS: return drv->type_contiguous(i[0], old, out);
	case NX_COMBINER_VECTOR: return drv->type_vector(i[0], i[1], i[2], old, out);
	case NX_COMBINER_HVECTOR: return drv->type_create_hvector(i[0], i[1], a[0], old, out);
	case NX_COMBINER_INDEXED: return drv->type_indexed(i[0], i + 1, i + 1 + i[0], old, out);
	case NX_COMBINER_HINDEXED: return drv->type_create_hindexed(i[0], i + 1, a, old, out);
	case NX_COMBINER_INDEXED_BLOCK: return drv->type_create_indexed_block(i[0], i[1], i + 2, old, out);
	case NX_COMBINER_HINDEXED_BLOCK: return drv->type_create_hindexed_block(i[0], i[1], a, old, out);
	case NX_COMBINER_STRUCT: return make_struct(t, out);
	case NX_COMBINER_SUBARRAY:
		return drv->type_create_subarray(i[0], i + 1, i + 1 + i[0], i + 1 + 2 * i[0], i[1 + 3 * i[0]],
						 old, out);
	case NX_COMBINER_DARRAY:
		return drv->type_create_darray(i[0], i[1], i[2], i + 3, i + 3 + i[2], i + 3 + 2 * i[2],
					       i + 3 + 3 * i[2], i[3 + 4 * i[2]], old, out);
	case NX_COMBINER_RESIZED: return drv->type_create_resized(old, a[0], a[1], out);
	case NX_COMBINER_F90_INTEGER: return drv->type_create_f90_integer(i[0], out);
	case NX_COMBINER_F90_REAL: return drv->type_create_f90_real(i[0], i[1], out);
	case NX_COMBINER_F90_COMPLEX: return drv->type_create_f90_complex(i[0], i[1], out);
	}
	return NX_ERR_TYPE;
}

/* -- references ------------------------------------------------------------------------------------------ */

void type_ref(nx_t h) { if (h >= NX_DYNAMIC) NX_TYPE(h)->refs++; }

void type_unref(nx_t h)
{
	struct vtype *t = NX_TYPE(h);
	if (h < NX_DYNAMIC || --t->refs) return;
	if (RTYPE(h) && t->combiner != NX_COMBINER_F90_INTEGER && t->combiner != NX_COMBINER_F90_REAL &&
	    t->combiner != NX_COMBINER_F90_COMPLEX)
		drv->type_free(&RTYPE(h));
	for (int i = 0; i < t->nd; i++) type_unref(t->types[i]);
	nx_free(t->ints);
	nx_free(t->aints);
	nx_free(t->types);
	nx_free(t->name);
	nx_release(NX_K_TYPE, h);
}

/* -- constructors ---------------------------------------------------------------------------------------- */

/* The parts of a record under construction; arrays are appended. */
struct record {
	int combiner, ni, na, nd;
	int *ints;
	nx_aint *aints;
	nx_t *types;
	bool failed;
};

static void record_open(struct record *r, int combiner, size_t ni, size_t na, size_t nd)
{
	*r = (struct record){ .combiner = combiner };
	r->ints = ni ? nx_malloc(ni * sizeof *r->ints) : NULL;
	r->aints = na ? nx_malloc(na * sizeof *r->aints) : NULL;
	r->types = nd ? nx_malloc(nd * sizeof *r->types) : NULL;
	r->failed = (ni && !r->ints) || (na && !r->aints) || (nd && !r->types);
}

static void ints(struct record *r, const int *v, int n)
{
	if (!r->failed && n > 0) memcpy(r->ints + r->ni, v, (size_t)n * sizeof *v);
	r->ni += n > 0 ? n : 0;
}

static void one(struct record *r, int v) { ints(r, &v, 1); }

static void aints(struct record *r, const nx_aint *v, int n)
{
	if (!r->failed && n > 0) memcpy(r->aints + r->na, v, (size_t)n * sizeof *v);
	r->na += n > 0 ? n : 0;
}

static void types(struct record *r, const nx_t *v, int n)
{
	if (!r->failed && n > 0) memcpy(r->types + r->nd, v, (size_t)n * sizeof *v);
	r->nd += n > 0 ? n : 0;
}

static void record_drop(struct record *r)
{
	nx_free(r->ints);
	nx_free(r->aints);
	nx_free(r->types);
}

static bool all_live(const struct record *r)
{
	for (int i = 0; i < r->nd; i++)
		if (!nx_live(r->types[i], NX_TYPE(r->types[i]))) return false;
	return true;
}

static long record_close(struct record *r, nx_t *newtype, const char *function)
{
	int e = r->failed ? NX_ERR_NO_MEM : all_live(r) ? 0 : NX_ERR_TYPE;
	nx_t h = e ? 0 : nx_alloc(NX_K_TYPE);
	if (!e && !h) e = NX_ERR_NO_MEM;
	if (e) {
		record_drop(r);
		return nx_error(NX_COMM_WORLD, e, function);
	}
	struct vtype *t = NX_TYPE(h);
	t->combiner = (uint16_t)r->combiner;
	t->refs = 1;
	t->ni = r->ni, t->na = r->na, t->nd = r->nd;
	t->ints = r->ints, t->aints = r->aints, t->types = r->types;
	e = make_real(t, &RTYPE(h));
	if (e) {
		record_drop(r);
		nx_release(NX_K_TYPE, h);
		return nx_error(NX_COMM_WORLD, e, function);
	}
	bounds_of(t, RTYPE(h));
	for (int i = 0; i < t->nd; i++) type_ref(t->types[i]);
	bool same = t->combiner == NX_COMBINER_CONTIGUOUS || t->combiner == NX_COMBINER_DUP;
	t->contiguous = same && NX_TYPE(t->types[0])->contiguous && t->size == t->extent;
	*newtype = h;
	return 0;
}

static size_t at_least(int n) { return n > 0 ? (size_t)n : 0; }

long mid_type_contiguous(int count, nx_t oldtype, nx_t *newtype)
{
	struct record r;
	record_open(&r, NX_COMBINER_CONTIGUOUS, 1, 0, 1);
	one(&r, count);
	types(&r, &oldtype, 1);
	return record_close(&r, newtype, "type_contiguous");
}

long mid_type_vector(int count, int blocklength, int stride, nx_t oldtype, nx_t *newtype)
{
	struct record r;
	record_open(&r, NX_COMBINER_VECTOR, 3, 0, 1);
	ints(&r, (int[]){ count, blocklength, stride }, 3);
	types(&r, &oldtype, 1);
	return record_close(&r, newtype, "type_vector");
}

long mid_type_create_hvector(int count, int blocklength, nx_aint stride, nx_t oldtype, nx_t *newtype)
{
	struct record r;
	record_open(&r, NX_COMBINER_HVECTOR, 2, 1, 1);
	ints(&r, (int[]){ count, blocklength }, 2);
	aints(&r, &stride, 1);
	types(&r, &oldtype, 1);
	return record_close(&r, newtype, "type_create_hvector");
}

long mid_type_indexed(int count, const int *array_of_blocklengths, const int *array_of_displacements,
		      nx_t oldtype, nx_t *newtype)
{
	struct record r;
	record_open(&r, NX_COMBINER_INDEXED, 1 + 2 * at_least(count), 0, 1);
	one(&r, count);
	ints(&r, array_of_blocklengths, count);
	ints(&r, array_of_displacements, count);
	types(&r, &oldtype, 1);
	return record_close(&r, newtype, "type_indexed");
}

long mid_type_create_hindexed(int count, const int *array_of_blocklengths,
			      const nx_aint *array_of_displacements, nx_t oldtype, nx_t *newtype)
{
	struct record r;
	record_open(&r, NX_COMBINER_HINDEXED, 1 + at_least(count), at_least(count), 1);
	one(&r, count);
	ints(&r, array_of_blocklengths, count);
	aints(&r, array_of_displacements, count);
	types(&r, &oldtype, 1);
	return record_close(&r, newtype, "type_create_hindexed");
}

long mid_type_create_indexed_block(int count, int blocklength, const int *array_of_displacements,
				   nx_t oldtype, nx_t *newtype)
{
	struct record r;
	record_open(&r, NX_COMBINER_INDEXED_BLOCK, 2 + at_least(count), 0, 1);
	ints(&r, (int[]){ count, blocklength }, 2);
	ints(&r, array_of_displacements, count);
	types(&r, &oldtype, 1);
	return record_close(&r, newtype, "type_create_indexed_block");
}

long mid_type_create_hindexed_block(int count, int blocklength, const nx_aint *array_of_displacements,
				    nx_t oldtype, nx_t *newtype)
{
	struct record r;
	record_open(&r, NX_COMBINER_HINDEXED_BLOCK, 2, at_least(count), 1);
	ints(&r, (int[]){ count, blocklength }, 2);
	aints(&r, array_of_displacements, count);
	types(&r, &oldtype, 1);
	return record_close(&r, newtype, "type_create_hindexed_block");
}

long mid_type_create_struct(int count, const int *array_of_blocklengths,
			    const nx_aint *array_of_displacements, const nx_t *array_of_types, nx_t *newtype)
{
	struct record r;
	record_open(&r, NX_COMBINER_STRUCT, 1 + at_least(count), at_least(count), at_least(count));
	one(&r, count);
	ints(&r, array_of_blocklengths, count);
	aints(&r, array_of_displacements, count);
	types(&r, array_of_types, count);
	return record_close(&r, newtype, "type_create_struct");
}

long mid_type_create_subarray(int ndims, const int *array_of_sizes, const int *array_of_subsizes,
			      const int *array_of_starts, int order, nx_t oldtype, nx_t *newtype)
{
	struct record r;
	record_open(&r, NX_COMBINER_SUBARRAY, 2 + 3 * at_least(ndims), 0, 1);
	one(&r, ndims);
	ints(&r, array_of_sizes, ndims);
	ints(&r, array_of_subsizes, ndims);
	ints(&r, array_of_starts, ndims);
	one(&r, order);
	types(&r, &oldtype, 1);
	return record_close(&r, newtype, "type_create_subarray");
}

long mid_type_create_darray(int size, int rank, int ndims, const int *array_of_gsizes,
			    const int *array_of_distribs, const int *array_of_dargs,
			    const int *array_of_psizes, int order, nx_t oldtype, nx_t *newtype)
{
	struct record r;
	record_open(&r, NX_COMBINER_DARRAY, 4 + 4 * at_least(ndims), 0, 1);
	ints(&r, (int[]){ size, rank, ndims }, 3);
	ints(&r, array_of_gsizes, ndims);
	ints(&r, array_of_distribs, ndims);
	ints(&r, array_of_dargs, ndims);
	ints(&r, array_of_psizes, ndims);
	one(&r, order);
	types(&r, &oldtype, 1);
	return record_close(&r, newtype, "type_create_darray");
}

long mid_type_create_resized(nx_t oldtype, nx_aint lb, nx_aint extent, nx_t *newtype)
{
	struct record r;
	record_open(&r, NX_COMBINER_RESIZED, 0, 2, 1);
	aints(&r, (nx_aint[]){ lb, extent }, 2);
	types(&r, &oldtype, 1);
	return record_close(&r, newtype, "type_create_resized");
}

long mid_type_dup(nx_t oldtype, nx_t *newtype)
{
	LIVE(old, oldtype);
	struct record r;
	record_open(&r, NX_COMBINER_DUP, 0, 0, 1);
	types(&r, &oldtype, 1);
	long e = record_close(&r, newtype, "type_dup");
	if (e) return e;
	struct vtype *t = NX_TYPE(*newtype);
	t->committed = old->committed;
	int err;
	if (!attr_copy_all(oldtype, *newtype, old->attrs, &t->attrs, &err)) return 0;
	attr_drop(&t->attrs);                   /* a copy function refused: the type is not made */
	type_unref(*newtype);
	FAIL(NX_COMM_WORLD, err);
}

/* The type that is there for the same precision and range, which both libraries give again: programs compare
 * them. 0: none. */
static nx_t same_f90(int combiner, int n, const int *v)
{
	for (uint32_t i = NX_DYNAMIC; i < nx_high(NX_K_TYPE); i++) {
		struct vtype *t = NX_TYPE(i);
		if (!t->handle || NX_INDEX(t->handle) != i || t->combiner != combiner) continue;
		if (memcmp(t->ints, v, (size_t)n * sizeof *v) == 0) return t->handle;
	}
	return 0;
}

static long make_f90(int combiner, int n, const int *v, nx_t *newtype, const char *function)
{
	struct record r;
	nx_t same = same_f90(combiner, n, v);
	if (same) {
		type_ref(same);
		*newtype = same;
		return 0;
	}
	record_open(&r, combiner, 2, 0, 0);
	ints(&r, v, n);
	long e = record_close(&r, newtype, function);
	if (!e) NX_TYPE(*newtype)->committed = 1;
	return e;
}

long mid_type_create_f90_integer(int r, nx_t *newtype)
{
	return make_f90(NX_COMBINER_F90_INTEGER, 1, &r, newtype, "type_create_f90_integer");
}
long mid_type_create_f90_real(int p, int r, nx_t *newtype)
{
	return make_f90(NX_COMBINER_F90_REAL, 2, (int[]){ p, r }, newtype, "type_create_f90_real");
}
long mid_type_create_f90_complex(int p, int r, nx_t *newtype)
{
	return make_f90(NX_COMBINER_F90_COMPLEX, 2, (int[]){ p, r }, newtype, "type_create_f90_complex");
}

long mid_type_match_size(int typeclass, int size, nx_t *datatype)
{
	static const nx_t integers[] = { NX_TYPE_INTEGER1, NX_TYPE_INTEGER2, NX_TYPE_INTEGER4,
					 NX_TYPE_INTEGER8 };
	static const nx_t reals[] = { NX_TYPE_REAL4, NX_TYPE_REAL8, NX_TYPE_REAL16 };
	static const nx_t complexes[] = { NX_TYPE_COMPLEX8, NX_TYPE_COMPLEX16, NX_TYPE_COMPLEX32 };
	const nx_t *list = typeclass == NX_TYPECLASS_INTEGER ? integers
			   : typeclass == NX_TYPECLASS_REAL  ? reals
							     : complexes;
	int n = list == integers ? 4 : 3;
	for (int i = 0; i < n; i++)
		if (NX_TYPE(list[i])->handle && NX_TYPE(list[i])->size == size) {
			*datatype = list[i];
			return 0;
		}
	FAIL(NX_COMM_WORLD, NX_ERR_ARG);
}

/* -- commit and free ------------------------------------------------------------------------------------- */

long mid_type_commit(nx_t datatype)
{
	LIVE(t, datatype);
	if (t->committed) return 0;
	int e = drv->type_commit(RTYPE(datatype));
	t->committed = !e;
	RESULT(NX_COMM_WORLD, e);
}

long mid_type_free(nx_t *datatype)
{
	LIVE(t, *datatype);
	if (t->predefined) FAIL(NX_COMM_WORLD, NX_ERR_TYPE);
	int e = attr_delete_all(*datatype, &t->attrs);
	if (e) FAIL(NX_COMM_WORLD, e);
	type_unref(*datatype);
	*datatype = NX_TYPE_NULL;
	return 0;
}

/* -- queries --------------------------------------------------------------------------------------------- */

long mid_type_get_extent(nx_t datatype, nx_aint *lb, nx_aint *extent)
{
	LIVE(t, datatype);
	*lb = t->lb;
	*extent = t->extent;
	return 0;
}

long mid_type_get_extent_x(nx_t datatype, nx_aint *lb, nx_aint *extent)
{
	return mid_type_get_extent(datatype, lb, extent);
}

long mid_type_get_true_extent(nx_t datatype, nx_aint *true_lb, nx_aint *true_extent)
{
	LIVE(t, datatype);
	*true_lb = t->true_lb;
	*true_extent = t->true_extent;
	return 0;
}

long mid_type_get_true_extent_x(nx_t datatype, nx_aint *true_lb, nx_aint *true_extent)
{
	return mid_type_get_true_extent(datatype, true_lb, true_extent);
}

long mid_type_get_envelope(nx_t datatype, int *num_integers, int *num_addresses, int *num_datatypes,
			   int *combiner)
{
	LIVE(t, datatype);
	*num_integers = t->ni;
	*num_addresses = t->na;
	*num_datatypes = t->nd;
	*combiner = t->combiner;
	return 0;
}

/* Derived types come back as further references, which the caller frees. */
long mid_type_get_contents(nx_t datatype, int max_integers, int max_addresses, int max_datatypes,
			   int *array_of_integers, nx_aint *array_of_addresses, nx_t *array_of_datatypes)
{
	LIVE(t, datatype);
	if (t->predefined) FAIL(NX_COMM_WORLD, NX_ERR_TYPE);
	if (max_integers < t->ni || max_addresses < t->na || max_datatypes < t->nd)
		FAIL(NX_COMM_WORLD, NX_ERR_ARG);
	if (t->ni) memcpy(array_of_integers, t->ints, (size_t)t->ni * sizeof *t->ints);
	if (t->na) memcpy(array_of_addresses, t->aints, (size_t)t->na * sizeof *t->aints);
	for (int i = 0; i < t->nd; i++) {
		array_of_datatypes[i] = t->types[i];
		type_ref(t->types[i]);
	}
	return 0;
}

long mid_type_set_name(nx_t datatype, const char *type_name)
{
	LIVE(t, datatype);
	char *s = nx_strdup(type_name);
	if (!s) FAIL(NX_COMM_WORLD, NX_ERR_NO_MEM);
	nx_free(t->name);
	t->name = s;
	return 0;
}

long mid_type_get_name(nx_t datatype, char *type_name, int type_name_max, int *resultlen)
{
	LIVE(t, datatype);
	put_string(t->name	   ? t->name
		   : t->predefined ? nx_type_info[datatype].name
				   : "",
		   type_name, type_name_max, resultlen);
	return 0;
}

/* -- elements -------------------------------------------------------------------------------------------- */

static int64_t consume(nx_t h, int64_t n, int64_t *bytes);

/* Basic elements that *bytes fill of one instance of t, in the order of its type map. */
static int64_t consume_partial(const struct vtype *t, int64_t *bytes)
{
	int64_t found = 0;
	for (int i = 0; i < t->nd && *bytes > 0; i++) {
		int64_t child = NX_TYPE(t->types[i])->size;
		int64_t n = t->combiner == NX_COMBINER_STRUCT ? t->ints[1 + i] : child ? t->size / child : 0;
		found += consume(t->types[i], n, bytes);
	}
	return found;
}

static int64_t basics(nx_t h)
{
	const struct vtype *t = NX_TYPE(h);
	if (t->predefined) return nx_type_info[h].class == NX_CLASS_pair ? 2 : 1;
	int64_t all = t->size;
	return t->nd ? consume_partial(t, &all) : 1;
}

static int64_t consume(nx_t h, int64_t n, int64_t *bytes)
{
	const struct vtype *t = NX_TYPE(h);
	if (t->size == 0) return 0;
	int64_t whole = *bytes / t->size < n ? *bytes / t->size : n;
	*bytes -= whole * t->size;
	int64_t found = whole ? whole * basics(h) : 0;
	if (whole < n && *bytes > 0) {
		if (t->nd) found += consume_partial(t, bytes);
		else *bytes = 0;
	}
	return found;
}

long mid_get_elements_x(const nx_status *status, nx_t datatype, nx_aint *count)
{
	LIVE(t, datatype);
	int64_t bytes = status->bytes;
	*count = t->size ? consume(datatype, INT64_MAX, &bytes) : 0;
	return 0;
}

long mid_get_elements(const nx_status *status, nx_t datatype, int *count)
{
	nx_aint n = 0;
	long e = mid_get_elements_x(status, datatype, &n);
	*count = n > INT_MAX ? NX_UNDEFINED : (int)n;
	return e;
}

/* -- packing --------------------------------------------------------------------------------------------- */

long mid_pack(const void *inbuf, int incount, nx_t datatype, void *outbuf, int outsize, int *position,
	      nx_t comm)
{
	if (!comm_of(comm)) FAIL(NX_COMM_WORLD, NX_ERR_COMM);
	RESULT(comm, drv->pack(inbuf, incount, RTYPE(datatype), outbuf, outsize, position, RCOMM(comm)));
}

long mid_unpack(const void *inbuf, int insize, int *position, void *outbuf, int outcount, nx_t datatype,
		nx_t comm)
{
	if (!comm_of(comm)) FAIL(NX_COMM_WORLD, NX_ERR_COMM);
	RESULT(comm, drv->unpack(inbuf, insize, position, outbuf, outcount, RTYPE(datatype), RCOMM(comm)));
}

long mid_pack_size(int incount, nx_t datatype, nx_t comm, int *size)
{
	if (!comm_of(comm)) FAIL(NX_COMM_WORLD, NX_ERR_COMM);
	RESULT(comm, drv->pack_size(incount, RTYPE(datatype), RCOMM(comm), size));
}

long mid_pack_external(const char *datarep, const void *inbuf, int incount, nx_t datatype, void *outbuf,
		       nx_aint outsize, nx_aint *position)
{
	RESULT(NX_COMM_WORLD,
	       drv->pack_external(datarep, inbuf, incount, RTYPE(datatype), outbuf, outsize, position));
}

long mid_unpack_external(const char *datarep, const void *inbuf, nx_aint insize, nx_aint *position,
			 void *outbuf, int outcount, nx_t datatype)
{
	RESULT(NX_COMM_WORLD,
	       drv->unpack_external(datarep, inbuf, insize, position, outbuf, outcount, RTYPE(datatype)));
}

long mid_pack_external_size(const char *datarep, int incount, nx_t datatype, nx_aint *size)
{
	RESULT(NX_COMM_WORLD, drv->pack_external_size(datarep, incount, RTYPE(datatype), size));
}

/* -- after a restart ------------------------------------------------------------------------------------- */

static int restore_one(nx_t h)
{
	struct vtype *t = NX_TYPE(h);
	if (RTYPE(h)) return 0;
	if (t->predefined) {
		core_say("%s, of which the job has made a datatype, is unknown to this MPI",
			 nx_type_info[h].name);
		return NX_ERR_TYPE;
	}
	int e = 0;
	for (int i = 0; i < t->nd && !e; i++) e = restore_one(t->types[i]);
	if (!e) e = make_real(t, &RTYPE(h));
	if (!e && t->committed) e = drv->type_commit(RTYPE(h));
	return e;
}

int type_restore_all(char *why, size_t n)
{
	type_start();
	int e = 0;
	for (uint32_t i = NX_DYNAMIC; i < nx_high(NX_K_TYPE); i++) real_type[i] = 0;
	for (uint32_t i = NX_DYNAMIC; i < nx_high(NX_K_TYPE) && !e; i++) {
		nx_t h = NX_TYPE(i)->handle;
		if (h && NX_INDEX(h) == i && h >= NX_DYNAMIC) e = restore_one(h);
	}
	if (e) snprintf(why, n, "making datatypes again: error class %d", e);
	return e ? -1 : 0;
}
