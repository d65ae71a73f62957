/* fortran_attributes.inc.c: attributes between the languages (MPI-4.1 section 19.3.7). Each has the value
 * that was set, whoever asks; C is given the address of what Fortran has set. Included by every face.
 * Context: as face.h. */

static struct vattr *attribute(struct vattr *list, nx_t keyval)
{
	while (list && list->keyval != keyval) list = list->next;
	return list;
}

/* An attribute that has just been set was set by Fortran. */
static void set_by_fortran(struct vattr *list, nx_t keyval)
{
	struct vattr *a = attribute(list, keyval);
	if (a) a->kind = NX_ATTR_INTEGER;
}

/* What Fortran gets of an attribute of which C gets found: of predefined ones, which C has addresses of, the
 * value. */
static nx_aint value_for_fortran(struct vattr *list, nx_t keyval, void *found)
{
	if (keyval < NX_FIRST_DYNAMIC) return *(int *)found;
	return (nx_aint)attribute(list, keyval)->value;
}
