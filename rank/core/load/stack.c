/* stack.c: the application's first stack: arguments, environment, auxiliary vector, as its ld.so expects to
 * find them.
 *
 * The application's ld.so is told of our face by LD_PRELOAD or LD_LIBRARY_PATH. Before its main runs, at the
 * entry stub, both are put back to what the user had, so that neither the application nor its children see
 * them. Runtimes find the auxiliary vector behind the environment, and libc keeps its address: it must be in
 * both places. So a variable that the user does not have is there twice, and the vector begins with an entry
 * that says nothing: when both pointers go, the vector moves by exactly that entry, and from its old address
 * on nothing has changed. Context: start-up, lower FS; entry_arrived runs on the application's stack with
 * lower FS. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>
#include "core/cross/cross.h"
#include "core/load/load.h"

/* Variables of the new environment that are ours until main: the string on the new stack, and the user's or
 * NULL. */
enum { NCHANGED = 2 };
static const char *const changed_name[NCHANGED] = { "LD_PRELOAD", "LD_LIBRARY_PATH" };
static struct { char *ours; char *users; } changed[NCHANGED];

struct stack { char *sp; };

static char *push_string(struct stack *s, const char *str)
{
	size_t n = strlen(str) + 1;
	s->sp -= n;
	return memcpy(s->sp, str, n);
}

static char *put_string(char **at, const char *str)
{
	char *p = *at;
	*at = stpcpy(p, str) + 1;
	return p;
}

static bool is_var(const char *e, const char *name)
{
	size_t n = strlen(name);
	return !strncmp(e, name, n) && e[n] == '=';
}

static bool hidden(const char *e)
{
	return var_is_ours(e) && !is_var(e, "BYSSUS_RESTART");
}

static void move_auxv(uint64_t *from, uint64_t *to)
{
	size_t n = 0;
	while (from[n]) n += 2;
	memmove(to, from, (n + 2) * sizeof *to);
}

/* At the entry stub: sp points to argc. */
static long entry_arrived(uint64_t *sp)
{
	char **env = (char **)(sp + 1 + sp[0] + 1), **out = env, **e = env;
	for (; *e; e++) {
		char *keep = *e;
		for (int i = 0; i < NCHANGED; i++)
			if (changed[i].ours && keep == changed[i].ours) keep = changed[i].users;
		if (keep) *out++ = keep;
	}
	*out = NULL;
	if (out < e) move_auxv((uint64_t *)(e + 1), (uint64_t *)(out + 1));
	window_declared();
	for (int i = 0; i < NCHANGED; i++)              /* a constructor may have copied the pointers */
		if (changed[i].ours) strcpy(changed[i].ours, changed[i].users ? changed[i].users : "");
	return 0;
}

/* The value that a changed variable has until main, or NULL when it stays the user's. */
static char *changed_value(int which, const char *face, const char *users)
{
	char *s = NULL;
	int n = 0;
	const char *value = users ? strchr(users, '=') + 1 : "";
	if (which == 0 && *face)
		n = asprintf(&s, "LD_PRELOAD=%s%s%s/%s/%s", value, *value ? ":" : "", core_job.libdir, face,
			     strcmp(face, "mpich") ? "libmpi.so.40" : "libmpich.so.12");
	if (which == 1 && !*face)
		n = asprintf(&s, "LD_LIBRARY_PATH=%s/mpich:%s/openmpi%s%s", core_job.libdir, core_job.libdir,
			     *value ? ":" : "", value);
	if (n < 0) core_die("no memory");
	return s;
}

static char **users_environ;                    /* as we found it: the application's */

/* Later changes of our own environment are for the real MPI. */
void stack_keep_environment(void)
{
	size_t n = 0;
	while (environ[n]) n++;
	users_environ = calloc(n + 1, sizeof *users_environ);
	if (!users_environ) core_die("no memory");
	for (size_t i = 0; i < n; i++) users_environ[i] = strdup(environ[i]);
}

/* The user's strings from `at` on; ours, which are gone in main, elsewhere. Returns the number of pointers.
 */
static size_t put_environment(char *at, struct stack *s, const char *face, char **ev)
{
	size_t n = 0;
	bool done[NCHANGED] = { false };
	for (char **e = users_environ; *e; e++) {
		if (hidden(*e)) continue;
		char *p = put_string(&at, *e);
		for (int i = 0; i < NCHANGED; i++) {
			if (!is_var(*e, changed_name[i]) || done[i]) continue;
			char *v = changed_value(i, face, *e);
			done[i] = true;
			if (!v) continue;
			changed[i].users = p;
			p = changed[i].ours = push_string(s, v);
			free(v);
		}
		ev[n++] = p;
	}
	for (int i = 0; i < NCHANGED; i++) {
		char *v = done[i] ? NULL : changed_value(i, face, NULL);
		if (!v) continue;
		changed[i].ours = push_string(s, v);
		ev[n++] = changed[i].ours;
		ev[n++] = changed[i].ours;
		free(v);
	}
	return n;
}

static char *map_stack(size_t strings, bool exec)
{
	size_t size = PAGE_UP(strings) + (192UL << 10);
	int prot = PROT_READ | PROT_WRITE | (exec ? PROT_EXEC : 0);
	char *p = mmap((void *)(BY_STACK_TOP - size), size, prot,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_GROWSDOWN | MAP_STACK |
			       MAP_NORESERVE,
		       -1, 0);
	if (p != (char *)(BY_STACK_TOP - size))
		core_die("cannot map the application's stack: %s", strerror(errno));
	return p + size - 64;
}

static size_t size_of(char **v, bool (*left_out)(const char *))
{
	size_t n = 0;
	for (; *v; v++)
		if (!left_out || !left_out(*v)) n += strlen(*v) + 1;
	return n;
}

enum { AUXV = 44 };

/* Fills aux, of AUXV words: first the entry that says nothing. */
static void fill_auxv(uint64_t *aux, uint64_t random, uint64_t name, uint64_t platform,
		      const struct elf_image *app, const struct elf_image *ld)
{
	enum { AT_MINSIGSTKSZ_ = 51 };
	/* Signal stacks that the application sizes by this must have room for our handler's frame on top of
	 * theirs. */
	uint64_t minsig = 2 * (getauxval(AT_MINSIGSTKSZ_) ? getauxval(AT_MINSIGSTKSZ_) : 2048) + 2048;
	uint64_t v[] = {
		AT_IGNORE,	 0,
		AT_SYSINFO_EHDR, BY_VDSO,
		AT_HWCAP,	 getauxval(AT_HWCAP),
		AT_HWCAP2,	 getauxval(AT_HWCAP2),
		AT_PAGESZ,	 PAGE,
		AT_CLKTCK,	 getauxval(AT_CLKTCK),
		AT_PHDR,	 app->phdr,
		AT_PHENT,	 sizeof(Elf64_Phdr),
		AT_PHNUM,	 app->phnum,
		AT_BASE,	 ld->bias,
		AT_FLAGS,	 0,
		AT_ENTRY,	 BY_ENTRY,
		AT_UID,		 getuid(),
		AT_EUID,	 geteuid(),
		AT_GID,		 getgid(),
		AT_EGID,	 getegid(),
		AT_SECURE,	 0,
		AT_RANDOM,	 random,
		AT_EXECFN,	 name,
		AT_PLATFORM,	 platform,
		AT_MINSIGSTKSZ_, minsig,
		AT_NULL,	 0,
	};
	_Static_assert(sizeof v == AUXV * sizeof *aux, "AUXV");
	memcpy(aux, v, sizeof v);
}

/* Lays out what ld.so expects to find; returns the stack pointer. From the top: name, environment, arguments,
 * as the kernel has them; then what is ours or points to them. */
uint64_t stack_build(char **argv, const char *name, const char *face, const struct elf_image *app,
		     const struct elf_image *ld)
{
	size_t argc = count_strings(argv), nargs = size_of(argv, NULL),
	       nstrings = size_of(users_environ, hidden);
	size_t nvars = count_strings(users_environ) + 2 * NCHANGED;
	char **av = calloc(argc + 1, sizeof *av), **ev = calloc(nvars + 1, sizeof *ev);
	struct stack s = { map_stack(nargs + 2 * nstrings + 8 * (argc + nvars) + 65536, app->exec_stack) };
	if (!av || !ev) core_die("no memory");
	char *execfn = push_string(&s, name), *env = execfn - nstrings, *args = env - nargs;
	struct shown shown = { .arg = (uint64_t)args,
			       .arg_end = (uint64_t)env,
			       .env = (uint64_t)env,
			       .env_end = (uint64_t)execfn };
	s.sp = args;
	for (size_t i = 0; i < argc; i++) av[i] = put_string(&args, argv[i]);
	size_t nenv = put_environment(env, &s, face, ev);
	char *platform = push_string(&s, "x86_64");
	s.sp = (char *)((uint64_t)(s.sp - 16) & ~15UL);
	memcpy(s.sp, (void *)getauxval(AT_RANDOM), 16);
	uint64_t aux[AUXV];
	fill_auxv(aux, (uint64_t)s.sp, (uint64_t)execfn, (uint64_t)platform, app, ld);
	size_t skip = nenv > 1 && ev[nenv - 1] == ev[nenv - 2] ? 0 : 2,
	       words = 1 + argc + 1 + nenv + 1 + AUXV - skip;
	uint64_t *w = (uint64_t *)((uint64_t)(s.sp - 8 * words) & ~15UL);
	w[0] = argc;
	memcpy(w + 1, av, (argc + 1) * sizeof *w);
	memcpy(w + argc + 2, ev, (nenv + 1) * sizeof *w);
	memcpy(w + words - (AUXV - skip), aux + skip, (AUXV - skip) * sizeof *w);
	free(av);
	free(ev);
	shown.stack = (uint64_t)w;
	shown.nauxv = AUXV - 2;
	memcpy(shown.auxv, aux + 2, shown.nauxv * sizeof *aux);
	shown_start(&shown);
	core_set_call(BY_SLOT_ENTRY, entry_arrived);
	return (uint64_t)w;
}

/* -- in the image ---------------------------------------------------------------------------------------- */

void stack_save(struct buf *b) { buf_add(b, changed, sizeof changed); }

void stack_restore(struct reader *r)
{
	read_bytes(r, changed, sizeof changed);
	core_set_call(BY_SLOT_ENTRY, entry_arrived);
}
