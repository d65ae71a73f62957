/* face_fortran.inc.c: the entry points of MPI's Fortran libraries, each of which ends the job with its name.
 *
 * Those libraries load, because the face has what they take from libmpi, but their wrappers look into the
 * library's own objects, which are not there. The face is loaded before them, so that their callers come
 * here. Some libraries bring a stand-in for a sequential MPI under the same names (MUMPS without MPI): as
 * long as no Fortran library of an MPI is loaded, a call goes on to where it would have gone without the
 * face. Included by every face. Context: as face.h, but the dynamic linker is asked, on the application's own
 * FS. */
#include <dlfcn.h>
#include <link.h>

#pragma weak dlopen
#pragma weak dlsym
#pragma weak dlclose
#pragma weak _r_debug

/* name_ with index i and its other spellings, called with any arguments: fortran_entry finds the index in
 * r11. */
#define FORTRAN(name, i) \
	__asm__(".section fortran_text, \"ax\"\n.globl " #name "_\n.type " #name "_, @function\n" #name \
		"_:\n\tmovl $" #i ", %r11d\n\tjmp fortran_entry\n" FORTRAN_SAME(#name "__", #name) \
			FORTRAN_SAME("p" #name "_", #name) FORTRAN_SAME("p" #name "__", #name) ".text\n");
#define FORTRAN_08(name, form) \
	__asm__(FORTRAN_SAME(#name "_" #form "_", #name) FORTRAN_SAME("p" #name "_" #form "_", #name));
#define FORTRAN_SAME(other, name) ".globl " other "\n.type " other ", @function\n.set " other ", " name "_\n"

__asm__(".text\n.local fortran_entry\n.type fortran_entry, @function\nfortran_entry:\n"
	"\tpushq %rdi\n\tpushq %rsi\n\tpushq %rdx\n\tpushq %rcx\n\tpushq %r8\n\tpushq %r9\n\tpushq %rax\n"
	"\tmovl %r11d, %edi\n\tcall fortran_called\n\tmovq %rax, %r11\n"
	"\tpopq %rax\n\tpopq %r9\n\tpopq %r8\n\tpopq %rcx\n\tpopq %rdx\n\tpopq %rsi\n\tpopq %rdi\n\tjmp "
	"*%r11\n");

static const char *const fortran_name[FORTRAN_N];
static void *fortran_goes_on[FORTRAN_N];

static bool starts_with(const char *s, const char *with)
{
	while (*with && *s == *with) s++, with++;
	return !*with;
}

/* Is it one of an MPI's Fortran libraries, by its path? */
static bool is_fortran_library(const char *path)
{
	static const char *const starts[] = { "libmpi_mpifh", "libmpi_usempi", "libmpichf", "libmpifort" };
	const char *base = path;
	for (const char *p = path; *p; p++)
		if (*p == '/') base = p + 1;
	for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
		if (starts_with(base, starts[i])) return true;
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
		void *map = *m->l_name == '/' ? dlopen(m->l_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
		if (!map) continue;
		found = not_ours(dlsym(map, name));
		dlclose(map);
	}
	return found;
}

/* The address at which a call of entry point i goes on; does not return when it is refused. */
__attribute__((used)) static void *fortran_called(unsigned i)
{
	void *to = fortran_goes_on[i];
	if (!to) to = fortran_goes_on[i] = elsewhere(fortran_name[i]);
	if (to) return to;
	CROSS(NX_SLOT_REFUSED_FORTRAN, const char *)(fortran_name[i]);
	__builtin_trap();
}
