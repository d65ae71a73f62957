/* exec.c: the rank becomes another program: a wrapper script that ends with exec is as good as the program
 * itself.
 *
 * execve of the rank's own process is turned into one of byssus-rank, with the program as its argument and
 * with our part of the environment, which the application does not have. A program that cannot live in the
 * arena (static, setuid, foreign), and every program of a child, is executed as it is. In all of them
 * /proc/self/exe, and a descriptor opened from it, is the application's file. Context: exec_prepare at
 * start-up; exec_redirect in the SIGSYS handler on the application's FS: no libc. */
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
#include "core/calls/calls.h"

enum { MAX_OURS = 64 };
static char rank_path[PATH_MAX], *ours[MAX_OURS];
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

void exec_prepare(char **environment)
{
	ssize_t n = readlink("/proc/self/exe", rank_path, sizeof rank_path - 1);
	rank_path[n > 0 ? n : 0] = 0;
	for (char **e = environment; *e; e++) {
		bool once = !strncmp(*e, "BYSSUS_LAYOUT=", 14) || !strncmp(*e, "BYSSUS_INHERITED=", 17) ||
			    !strncmp(*e, "BYSSUS_NATURAL=", 15) || !strncmp(*e, "BYSSUS_NOTED=", 13) ||
			    !strncmp(*e, "BYSSUS_START=", 13);
		if (!strncmp(*e, "BYSSUS_", 7) && !once) keep(*e);
	}
	exec_keep(inherited_describe());
	const char *pmi = getenv("PMI_FD");
	if (!pmi || atoi(pmi) < core_config.fd_base) return;
	char s[32];
	pmi_fd = atoi(pmi);
	snprintf(s, sizeof s, "PMI_FD=%d", pmi_fd);
	keep(s);
}

static bool starts(const char *s, const char *head)
{
	while (*head && *s == *head) s++, head++;
	return !*head;
}

/* Replaced by ours: no variable of that name may stay. */
static bool replaced(const char *e) { return starts(e, "BYSSUS_") || (pmi_fd >= 0 && starts(e, "PMI_FD=")); }

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

static bool can_live_here(const char *path)
{
	Elf64_Ehdr h = { 0 };
	struct stat st;
	long fd = raw_open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) return false;
	bool ok = raw(SYS_fstat, fd, &st) == 0 && S_ISREG(st.st_mode) &&
		  !(st.st_mode & (S_ISUID | S_ISGID)) && raw(SYS_faccessat, AT_FDCWD, path, X_OK) == 0 &&
		  raw(SYS_pread64, fd, &h, sizeof h, 0) > 2;
	if (ok)
		ok = (h.e_ident[0] == '#' && h.e_ident[1] == '!') ||
		     (starts((const char *)h.e_ident, ELFMAG) && dynamic(fd, &h));
	raw(SYS_close, fd);
	return ok;
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
	if (!p || (core_is_rank() != 1 && !ours_)) return false;
	*path = ours_ ? (uint64_t)core_self.exe : (uint64_t)p;
	return true;
}

/* Replaces path, argv and envp by those of byssus-rank; leaves them when the program is executed as it is. */
void exec_redirect(uint64_t *path, uint64_t *argv, uint64_t *envp)
{
	const char **av = (const char **)*argv, **ev = (const char **)*envp;
	size_t na = 0, ne = 0, k = 0;
	if (core_is_rank() != 1 || !can_live_here((const char *)*path)) return;
	noted_tell();
	while (av && av[na]) na++;
	while (ev && ev[ne]) ne++;
	size_t bytes = PAGE_UP((na + 4 + ne + nours + 2) * sizeof(char *));
	const char **v = (const char **)raw(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if ((uint64_t)v > -4096UL) return;
	v[k++] = rank_path;
	v[k++] = "--exec";
	v[k++] = (const char *)*path;
	for (size_t i = 0; i < na; i++) v[k++] = av[i];
	v[k++] = NULL;
	*argv = (uint64_t)v;
	*envp = (uint64_t)&v[k];
	for (size_t i = 0; i < ne; i++)
		if (!replaced(ev[i])) v[k++] = ev[i];
	for (unsigned i = 0; i < nours; i++) v[k++] = ours[i];
	v[k] = NULL;
	*path = (uint64_t)rank_path;
	if (pmi_fd >= 0) raw(SYS_fcntl, pmi_fd, F_SETFD, 0);
}
