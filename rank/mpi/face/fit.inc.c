/* fit.inc.c: what MPI_Init finds in the process that cannot run above this face, and would give wrong results
 * in silence: another MPI's library, Fortran's integers of 8 bytes, and calls that end in Open MPI's own
 * Fortran library, which looks into objects of Open MPI's. Included by every face. internal/host/elfcheck
 * finds the same in a program's file, before it runs.
 *
 * Context: as face.h; asks the dynamic linker, on the application's own FS. */
#pragma weak dlopen
#pragma weak dlsym
#pragma weak dlclose
#pragma weak dladdr1
#pragma weak _r_debug

#ifdef FACE_MPICH
#define ANOTHER_MPI "libmpi.so.40"
#define ONE_INTEGER "mpifcmb5_"         /* a common block of mpif.h's with one INTEGER */
#else
#define ANOTHER_MPI "libmpich.so.12"
#define ONE_INTEGER "mpi_fortran_bottom_"
#endif
#define OWN_FORTRAN "libmpi_mpifh"      /* which this face takes the place of */

static bool starts_with(const char *s, const char *with)
{
	while (*with && *s == *with) s++, with++;
	return !*with;
}

static const char *base_name(const char *path)
{
	const char *base = path;
	for (const char *p = path; *p; p++)
		if (*p == '/') base = p + 1;
	return base;
}

/* Is it a file? The kernel's object is none. The program's own name is empty. */
static bool is_file(const struct link_map *m)
{
	return base_name(m->l_name) != m->l_name;
}

static void unfit(const char *what, const char *why)
{
	CROSS(NX_SLOT_UNFIT, const char *, const char *)(what, why);
}

/* -- integers -------------------------------------------------------------------------------------------- */

static void check_integers(const struct link_map *m)
{
	void *object = dlopen(*m->l_name ? m->l_name : NULL, RTLD_LAZY | RTLD_NOLOAD);
	void *at = object ? dlsym(object, ONE_INTEGER) : NULL;
	const ElfW(Sym) *symbol = NULL;
	Dl_info where;
	if (at && dladdr1(at, &where, (void **)&symbol, RTLD_DL_SYMENT) && symbol && symbol->st_size == 8)
		unfit(where.dli_fname,
		      "compiled with -fdefault-integer-8, and the MPI library has INTEGERs of 4 bytes");
	if (object) dlclose(object);
}

/* -- names ----------------------------------------------------------------------------------------------- */

/* Names of MPI's Fortran interface in any form, and some more. */
static bool may_be_fortran(const char *name)
{
	static const char *const starts[] = { "mpi", "pmpi", "ompi", "MPI_", "PMPI_" };
	for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
		if (starts_with(name, starts[i])) return true;
	return false;
}

/* Would a call of it end in the library that must not run? */
static bool is_stray(const char *name)
{
	const ElfW(Sym) *symbol = NULL;
	Dl_info where;
	void *at = may_be_fortran(name) ? dlsym(RTLD_DEFAULT, name) : NULL;
	return at && dladdr1(at, &where, (void **)&symbol, RTLD_DL_SYMENT) && symbol &&
	       ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
	       starts_with(base_name(where.dli_fname), OWN_FORTRAN);
}

static const char *stray_among(const ElfW(Rela) *r, size_t bytes, const ElfW(Sym) *symbols, const char *names)
{
	for (const ElfW(Rela) *end = r + bytes / sizeof *r; r < end; r++) {
		const ElfW(Sym) *s = &symbols[ELF64_R_SYM(r->r_info)];
		if (ELF64_R_SYM(r->r_info) && s->st_shndx == SHN_UNDEF && is_stray(names + s->st_name))
			return names + s->st_name;
	}
	return NULL;
}

/* Something that an object takes from that library, or NULL. */
static const char *stray_of(const struct link_map *m)
{
	ElfW(Addr) value[DT_JMPREL + 1] = { 0 };
	for (const ElfW(Dyn) *d = m->l_ld; d->d_tag != DT_NULL; d++)
		if (d->d_tag > 0 && d->d_tag <= DT_JMPREL) value[d->d_tag] = d->d_un.d_ptr;
	const ElfW(Sym) *symbols = (const void *)value[DT_SYMTAB];
	const char *names = (const void *)value[DT_STRTAB];
	if (!symbols || !names) return NULL;
	const char *found = stray_among((const void *)value[DT_JMPREL], value[DT_PLTRELSZ], symbols, names);
	return found ? found : stray_among((const void *)value[DT_RELA], value[DT_RELASZ], symbols, names);
}

static void check_names(const struct link_map *m)
{
	if (starts_with(base_name(m->l_name), OWN_FORTRAN)) return;
	const char *name = stray_of(m);
	if (!name) return;
	unfit(name, starts_with(name, "ompi") ?
	      "called by a library of Open MPI's for mpi_f08 that is newer than 4.1" :
	      "Fortran's names are supported in the forms mpi_name_ and mpi_name__ (-funderscoring)");
}

/* -- all ------------------------------------------------------------------------------------------------- */

COLD static void check_fit(void)
{
	bool own_fortran = false;
	if (!dlopen || !dlsym || !dlclose || !dladdr1 || !&_r_debug) return;
	for (const struct link_map *m = _r_debug.r_map; m; m = m->l_next) {
		own_fortran |= starts_with(base_name(m->l_name), OWN_FORTRAN);
		if (starts_with(base_name(m->l_name), ANOTHER_MPI))
			unfit(m->l_name, "a library of another MPI than the program's first");
	}
	for (const struct link_map *m = _r_debug.r_map; m; m = m->l_next) {
		if (*m->l_name && !is_file(m)) continue;
		check_integers(m);
		if (own_fortran) check_names(m);
	}
}
