/* fortran_mpich.inc.c: what MPICH's Fortran library (libmpichfort) takes from the C library beside the API.
 * The program has its own one, which runs above this face: in both languages handles and constants are the
 * same integers, but keyvals of predefined attributes, which Fortran counts one higher. Included by the
 * MPICH face. Context: as face.h. */

/* Is it a predefined keyval as Fortran writes them? */
static inline int keyval_of_fortran(int keyval)
{
	enum { BUILTIN = 0x64400000, MASK = (int)0xffff0000 };
	return (keyval & MASK) == BUILTIN && !(keyval & 1) ? keyval - 1 : keyval;
}

int MPII_Comm_get_attr(MPI_Comm comm, int keyval, void *value, int *flag, int kind)
{
	void *found = NULL;
	int key = kind == PROXY_ADDRESS ? keyval : keyval_of_fortran(keyval);
	int rc = PMPI_Comm_get_attr(comm, key, &found, flag);
	if (rc || !*flag) return rc;
	struct vattr *list = NX_COMM(in_comm(comm))->attrs;
	if (kind == PROXY_ADDRESS) *(void **)value = found;
	else *(nx_aint *)value = value_for_fortran(list, in_keyval(key), found);
	return 0;
}

int MPII_Comm_set_attr(MPI_Comm comm, int keyval, void *value, int kind)
{
	int rc = PMPI_Comm_set_attr(comm, keyval, value);
	if (rc == 0 && kind != PROXY_ADDRESS)
		set_by_fortran(NX_COMM(in_comm(comm))->attrs, in_keyval(keyval));
	return rc;
}

int MPII_Type_get_attr(MPI_Datatype datatype, int keyval, void *value, int *flag, int kind)
{
	void *found = NULL;
	int rc = PMPI_Type_get_attr(datatype, keyval, &found, flag);
	if (rc || !*flag) return rc;
	struct vattr *list = NX_TYPE(in_datatype(datatype))->attrs;
	if (kind == PROXY_ADDRESS) *(void **)value = found;
	else *(nx_aint *)value = value_for_fortran(list, in_keyval(keyval), found);
	return 0;
}

int MPII_Type_set_attr(MPI_Datatype datatype, int keyval, void *value, int kind)
{
	int rc = PMPI_Type_set_attr(datatype, keyval, value);
	if (rc == 0 && kind != PROXY_ADDRESS)
		set_by_fortran(NX_TYPE(in_datatype(datatype))->attrs, in_keyval(keyval));
	return rc;
}

/* How the library calls the functions of a keyval that it has just made. */
int MPII_Keyval_set_proxy(int keyval, void *copy, void *del)
{
	struct vkeyval *v = NX_KEYVAL(in_keyval(keyval));
	v->copy_proxy = (uintptr_t)copy;
	v->del_proxy = (uintptr_t)del;
	return 0;
}
