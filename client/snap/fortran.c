/* fortran.c: what byssus.F90 cannot ask in Fortran of an array: where it lies, and whether its elements lie
 * one behind the other. Context: inside programs of any Fortran compiler; needs none itself. */
#include "state.h"

/* A descriptor, as ISO_Fortran_binding.h has it. The standard says what the first three members are; that the
 * dimensions follow at 24 is so in gfortran's and LLVM's. */
struct array {
	char *at;
	size_t element;
	int version;
	int8_t rank;
	char rest[3];
	struct { ptrdiff_t lower, extent, step; } dim[];
};

/* Known to byssus.F90. */
enum { WELL, NO_MEMORY, EMPTY, SCATTERED, UNKNOWN };

#pragma GCC visibility push(default)
int bys_fortran_array(const struct array *, int rank, int64_t count, void **at, int64_t *bytes);
#pragma GCC visibility pop

/* rank and count: what the compiler says of it, so that a descriptor that it lays out in another way is not
 * taken for one like this. A step must be right where there is one element as well: gfortran 12 has a wrong
 * address for some sections of components, but a step that tells. */
int bys_fortran_array(const struct array *a, int rank, int64_t count, void **at, int64_t *bytes)
{
	*at = a->at, *bytes = 0;
	if (!a->at) return NO_MEMORY;
	if (a->rank != rank) return UNKNOWN;
	int64_t elements = 1;
	for (int i = 0; i < rank; i++) {
		if (a->dim[i].extent < 0) return UNKNOWN;
		elements *= a->dim[i].extent;
	}
	if (elements != count) return UNKNOWN;
	if (!elements || !a->element) return EMPTY;
	ptrdiff_t step = (ptrdiff_t)a->element;
	for (int i = 0; i < rank; i++) {
		if (a->dim[i].step != step) return SCATTERED;
		step *= a->dim[i].extent;
	}
	*bytes = step;
	return WELL;
}
