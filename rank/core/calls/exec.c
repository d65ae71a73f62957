/* exec.c: the rank becomes another program: a wrapper script that ends with exec is as good as the program
 * itself.
 *
 * execve of the rank's own process is turned into one of byssus-rank, with the program as its argument and
 * with our part of the environment, which the application does not have. So is that of a child, unless this
 * process has begun the MPI: it may be a wrapper, and the rank be below it (place.c). A program that cannot
 * live in the arena (static, setuid, foreign), and every other program of a child, is executed as it is;
 * below the former MPI may not begin (guard.c). In
 * all of them /proc/self/exe, and a descriptor opened from it, is the application's file. Context:
 * exec_prepare at start-up; exec_redirect in the SIGSYS handler on the application's FS: no libc. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/base/agent/agent.h"
#include "core/calls/calls.h"

enum { MAX_OURS = 64 };
static char rank_path[PATH_MAX], guard[PATH_MAX + 16], *ours[MAX_OURS];
static unsigned nours;
static int pmi_fd = -1;

static void keep(const char *s)
{
	if (nours < MAX_OURS) ours[nours++] = strdup(s);
}

void exec_keep(char *s)
{
	if (nours < MAX_OURS) ours[nours++] = s;
}

/* What a program tells only the one that takes its place: what is natural, inherited and noted. */
static bool of_this_process(const char *e)
{
	return raw_starts(e, "BYSSUS_INHERITED=") || raw_starts(e, "BYSSUS_NATURAL=") ||
	       raw_starts(e, "BYSSUS_NOTED=") || raw_starts(e, "BYSSUS_START=") ||
	       raw_starts(e, "BYSSUS_BEGAN=");
}

static void keep_number(const char *name, int value)
{
	char s[48];
	snprintf(s, sizeof s, "%s%d", name, value);
	keep(s);
}

/* LD_PRELOAD has no way to write a blank or a colon. */
static void find_guard(void)
{
	static const char name[] = "LD_PRELOAD=";
	const char *slash = strrchr(rank_path, '/');
	int n = slash ? (int)(slash - rank_path) : 0;
	snprintf(guard, sizeof guard, "%s%.*s/guard.so", name, n, rank_path);
	const char *path = guard + sizeof name - 1;
	if (strpbrk(path, " :") || access(path, R_OK)) guard[0] = 0;
}

void exec_prepare(char **environment)
{
	ssize_t n = readlink("/proc/self/exe", rank_path, sizeof rank_path - 1);
	rank_path[n > 0 ? n : 0] = 0;
	find_guard();
	for (char **e = environment; *e; e++) {
		static const char *const once[] = { "BYSSUS_LAYOUT=", "BYSSUS_FACE=",	 "BYSSUS_PLACE=",
						    "BYSSUS_BELOW=",  "BYSSUS_RESTART=", "BYSSUS_INPUT=",
						    "BYSSUS_LAUNCHER=" };
		bool again = var_is_ours(*e) && !of_this_process(*e);
		for (size_t i = 0; i < sizeof once / sizeof *once; i++)
			again = again && strncmp(*e, once[i], strlen(once[i])) != 0;
		if (again) keep(*e);
	}
	keep_number("BYSSUS_PLACE=", core_job.rank);
	keep_number("BYSSUS_LAUNCHER=", core_self.launcher);
	exec_keep(inherited_describe());
	exec_keep(place_describe());
	exec_keep(inherited_input_key());
	const char *pmi = getenv("PMI_FD");
	if (!pmi || atoi(pmi) < core_config.fd_base) return;
	pmi_fd = atoi(pmi);
	keep_number("PMI_FD=", pmi_fd);
}

/* Replaced by ours: no variable of that name may stay. */
static bool replaced(const char *e)
{
	return (var_is_ours(e) && !raw_starts(e, "BYSSUS_RESTART=")) ||
	       (pmi_fd >= 0 && raw_starts(e, "PMI_FD="));
}

/* Is what this process executes led through byssus-rank? What a rank starts, once it has begun, is not. */
static bool led(void) { return core_is_rank() == 1 || (core_client->begins && !place_is_mine()); }

/* Below the launcher's process nothing is told of the program before, which is run again at a restart, until
 * the rank has begun. */
static bool tells(void) { return core_is_rank() == 1 && (!core_config.below || place_is_mine()); }

static bool dynamic(long fd, const Elf64_Ehdr *h)
{
	Elf64_Phdr p;
	if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_machine != EM_X86_64) return false;
	for (int i = 0; i < h->e_phnum; i++)
		if (raw(SYS_pread64, fd, &p, sizeof p, h->e_phoff + (uint64_t)i * sizeof p) == sizeof p &&
		    p.p_type == PT_INTERP)
			return true;
	return false;
}

/* The interpreter that a script names, in its first bytes. */
static const char *interpreter(char *head, size_t n)
{
	size_t i = 2, from;
	while (i < n - 1 && (head[i] == ' ' || head[i] == '\t')) i++;
	for (from = i; i < n - 1 && head[i] != ' ' && head[i] != '\t' && head[i] != '\n'; i++) ;
	head[i] = 0;
	return head + from;
}

/* What a setuid program, or one with capabilities, may do it may not do here. */
static bool can_live_here(const char *path)
{
	enum { DEPTH = 4 };             /* as the kernel has it */
	union { Elf64_Ehdr h; char head[256]; } u;
	struct stat st;
	for (int depth = 0; depth <= DEPTH; depth++) {
		memset(&u, 0, sizeof u);
		long fd = raw_open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0) return false;
		bool ok = raw(SYS_fstat, fd, &st) == 0 && S_ISREG(st.st_mode) &&
			  !(st.st_mode & (S_ISUID | S_ISGID)) &&
			  raw(SYS_faccessat, AT_FDCWD, path, X_OK) == 0 &&
			  raw(SYS_fgetxattr, fd, "security.capability", 0, 0) <= 0 &&
			  raw(SYS_pread64, fd, &u, sizeof u, 0) > 2;
		bool script = ok && u.head[0] == '#' && u.head[1] == '!';
		if (ok && !script) ok = raw_starts(u.head, ELFMAG) && dynamic(fd, &u.h);
		raw(SYS_close, fd);
		if (!ok || !script) return ok;
		path = interpreter(u.head, sizeof u);
	}
	return false;
}

static char *append(char *to, const char *end, const char *s)
{
	while (*s && to < end) *to++ = *s++;
	*to = 0;
	return to;
}

/* The path of what execveat names, below a page of memory that is kept until the exec; NULL: it has none. */
static const char *path_at(long dir, const char *path, uint64_t flags)
{
	char link[32] = "/proc/self/fd/", digits[12];
	int n = 0, k = 14;
	if (*path == '/' || (dir == AT_FDCWD && *path)) return flags & AT_SYMLINK_NOFOLLOW ? NULL : path;
	if (dir < 0 || flags & ~(uint64_t)AT_EMPTY_PATH || (!*path && !flags)) return NULL;
	for (long d = dir; d || !n; d /= 10) digits[n++] = (char)('0' + d % 10);
	while (n) link[k++] = digits[--n];
	char *p = (char *)raw(SYS_mmap, 0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			      0),
	     *at;
	if ((uint64_t)p > -4096UL) return NULL;
	long len = raw(SYS_readlink, link, p, PAGE - 1);
	if (len <= 0 || *p != '/') return NULL;
	at = p + len;
	if (*path) append(append(at, p + PAGE, "/"), p + 2 * PAGE - 1, path);
	struct stat there, here;
	bool same = raw(SYS_stat, p, &there) == 0 && raw(SYS_fstat, dir, &here) == 0 &&
		    there.st_dev == here.st_dev && there.st_ino == here.st_ino;
	return *path || same ? p : NULL;                /* it may have been removed, or never had a name */
}

static bool same(const char *a, const char *b)
{
	while (*a && *a == *b) a++, b++;
	return *a == *b;
}

bool exec_at(long dir, uint64_t *path, uint64_t flags)
{
	const char *p = path_at(dir, (const char *)*path, flags);
	bool ours_ = p && same(p, rank_path);
	if (!p || (!led() && !ours_)) return false;
	*path = ours_ ? (uint64_t)core_self.exe : (uint64_t)p;
	return true;
}

/* Memory for the arguments of an exec. A vforked child has its parent's, and leaves it there: the next one of
 * the same thread, which waits meanwhile, takes it again. */
enum { MAX_LENT = 64 };
static struct { volatile uint64_t fs; void *p; size_t n; } lent[MAX_LENT];

static void *memory_for(size_t n)
{
	uint64_t fs = fs_read(), none;
	unsigned i = 0;
	for (; core_is_rank() < 0 && i < MAX_LENT; i++) {
		none = 0;
		if (lent[i].fs == fs ||
		    __atomic_compare_exchange_n(&lent[i].fs, &none, fs, 0, __ATOMIC_SEQ_CST,
						__ATOMIC_SEQ_CST))
			break;
	}
	bool lend = core_is_rank() < 0 && i < MAX_LENT;
	if (lend && lent[i].n >= n) return lent[i].p;
	if (lend && lent[i].n) raw(SYS_munmap, lent[i].p, lent[i].n);
	if (lend) lent[i].n = 0;
	void *p = (void *)raw(SYS_mmap, 0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if ((uint64_t)p > -4096UL) return NULL;
	if (lend) lent[i].p = p, lent[i].n = n;
	return p;
}

/* What is executed as it is may start what calls MPI. A path that is not there, as when PATH is searched,
 * costs no memory. */
static void guarded(const char *path, uint64_t *envp)
{
	const char **ev = (const char **)*envp, *preload = NULL;
	size_t ne = 0, k = 0;
	if (!guard[0] || raw(SYS_faccessat, AT_FDCWD, path, X_OK)) return;
	while (ev && ev[ne]) ne++;
	size_t words = (ne + 3) * sizeof(char *), text = 4 * PATH_MAX;
	const char **v = memory_for(PAGE_UP(words + text));
	if (!v) return;
	char *at = (char *)v + words, *end = at + text - 1;
	for (size_t i = 0; i < ne; i++) {
		if (raw_starts(ev[i], "LD_PRELOAD=")) preload = ev[i] + sizeof "LD_PRELOAD=" - 1;
		else if (!raw_starts(ev[i], "BYSSUS_UNLED=")) v[k++] = ev[i];
	}
	v[k++] = at;
	at = append(at, end, guard);
	if (preload && *preload) at = append(append(at, end, ":"), end, preload);
	v[k++] = ++at;
	append(append(at, end, "BYSSUS_UNLED="), end, path);
	v[k] = NULL;
	*envp = (uint64_t)v;
}

/* Replaces path, argv and envp by those of byssus-rank; leaves them when the program is executed as it is,
 * with the guard for what it starts. */
void exec_redirect(uint64_t *path, uint64_t *argv, uint64_t *envp)
{
	const char **av = (const char **)*argv, **ev = (const char **)*envp;
	size_t na = 0, ne = 0, k = 0;
	if (!led()) return;
	if (!can_live_here((const char *)*path)) {
		guarded((const char *)*path, envp);
		return;
	}
	bool tell = tells();
	if (tell) noted_tell();
	while (av && av[na]) na++;
	while (ev && ev[ne]) ne++;
	const char **v = memory_for(PAGE_UP((na + 4 + ne + nours + 3) * sizeof(char *)));
	if (!v) return;
	v[k++] = rank_path;
	v[k++] = "--exec";
	v[k++] = (const char *)*path;
	for (size_t i = 0; i < na; i++) v[k++] = av[i];
	v[k++] = NULL;
	*argv = (uint64_t)v;
	*envp = (uint64_t)&v[k];
	for (size_t i = 0; i < ne; i++)
		if (!replaced(ev[i])) v[k++] = ev[i];
	for (unsigned i = 0; i < nours; i++)
		if (tell || !of_this_process(ours[i])) v[k++] = ours[i];
	if (core_is_rank() != 1 || core_config.below) v[k++] = "BYSSUS_BELOW=1";
	v[k] = NULL;
	*path = (uint64_t)rank_path;
	if (pmi_fd >= 0) raw(SYS_fcntl, pmi_fd, F_SETFD, 0);
}
