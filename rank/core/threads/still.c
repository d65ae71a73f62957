/* still.c: whether what a noted call has made is still there, and threads that share less with the others
 * than threads do.
 *
 * Of some the kernel can be asked as soon as it is known that it must be; the rest stays for good. A note of
 * what is there no more is given back. Context: helper thread while the application's threads stand still;
 * still_here ANY_FS on a thread that is about to park. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <linux/keyctl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include "core/threads/threads.h"
#include "core/arena/arena.h"

static long session_start;                      /* the session's keyring when the program began */
static uint64_t cookie_start;
static volatile bool keys, rings;               /* some thread has its own */

/* -- asked of a thread by itself ------------------------------------------------------------------------- */

static long keyring(int which) { return raw(SYS_keyctl, KEYCTL_GET_KEYRING_ID, which, 0); }

/* One that cannot be read is not empty. */
static bool has_keys(long ring) { return ring > 0 && raw(SYS_keyctl, KEYCTL_READ, ring, 0, 0) != 0; }

static bool has_own_keys(void)
{
	long session = keyring(KEY_SPEC_SESSION_KEYRING);
	return has_keys(keyring(KEY_SPEC_THREAD_KEYRING)) || has_keys(keyring(KEY_SPEC_PROCESS_KEYRING)) ||
	       (session != session_start && has_keys(session));
}

/* Registered with the thread by a small number, and known to nobody else. Entering a ring with nothing to do
 * does nothing. */
static bool has_ring(void)
{
	enum { MOST = 16, BY_NUMBER = 1 << 4 };
	for (int i = 0; i < MOST; i++)
		if (raw(SYS_io_uring_enter, i, 0, 0, BY_NUMBER, 0, 0) >= 0) return true;
	return false;
}

void still_here(void)
{
	if (!keys && (noted_made(SYS_keyctl) || noted_made(SYS_add_key) || noted_made(SYS_request_key)))
		keys = has_own_keys();
	if (!rings && noted_made(SYS_io_uring_setup)) rings = has_ring();
}

void still_begin(void) { keys = rings = false; }

/* -- asked of the process -------------------------------------------------------------------------------- */

static bool traced_by(const char *status)
{
	int tracer = (int)status_field(status, "TracerPid", 10);
	return tracer > 0 && tids_is_own(tracer);
}

/* Calls fn for each number that is a name in a folder, until it says true. */
static bool any_number(const char *folder, bool (*fn)(const char *path))
{
	char path[64];
	bool found = false;
	DIR *d = opendir(folder);
	for (struct dirent *e; d && !found && (e = readdir(d)); ) {
		int number = atoi(e->d_name);
		snprintf(path, sizeof path, "%s/%d", folder, number);
		found = number > 0 && fn(path);
	}
	if (d) closedir(d);
	return found;
}

static bool thread_is_ours(const char *path)
{
	char name[80];
	snprintf(name, sizeof name, "%s/status", path);
	char *text = slurp(name, NULL);
	bool ours = text && traced_by(text);
	free(text);
	return ours;
}

static bool has_thread_of_ours(const char *path)
{
	char name[80];
	snprintf(name, sizeof name, "%s/task", path);
	return any_number(name, thread_is_ours);
}

static bool is_traced(int tid)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
	char *text = slurp(path, NULL);
	bool traced = text && status_field(text, "TracerPid", 10);
	free(text);
	return traced;
}

static bool has_segments(void)
{
	static char table[65536];
	long n = raw(SYS_modify_ldt, 0, table, sizeof table);
	for (long i = 0; i < n; i++)
		if (table[i]) return true;
	return false;
}

/* The kernel looks at the key first, and then finds nothing at this address. */
static bool has_protection_key(void)
{
	enum { MOST = 16 };
	for (int key = 1; key < MOST; key++)
		if (raw(SYS_pkey_mprotect, 0, PAGE, 0, key) == -ENOMEM) return true;
	return false;
}

/* Only such a policy can have a home node. */
static bool has_bound_memory(void)
{
	enum { BIND = 2, PREFERRED_MANY = 5, OF_ADDRESS = 2, FLAGS = 0xf000 };
	char *maps = slurp("/proc/thread-self/maps", NULL);
	bool found = maps == NULL;
	for (char *l = maps; l && *l && !found; l += strcspn(l, "\n"), l += *l == '\n') {
		int mode = 0;
		uint64_t at = strtoull(l, NULL, 16);
		if (at < BY_ARENA_HI && raw(SYS_get_mempolicy, &mode, 0, 0, at, OF_ADDRESS) == 0)
			found = (mode & ~FLAGS) == BIND || (mode & ~FLAGS) == PREFERRED_MANY;
	}
	free(maps);
	return found;
}

static uint64_t cookie_of(int tid)
{
	enum { SCHED_CORE = 62, GET = 0, THREAD = 0 };
	uint64_t cookie = 0;
	raw(SYS_prctl, SCHED_CORE, GET, tid, THREAD, &cookie);
	return cookie;
}

static bool has_cookie(void)
{
	for (unsigned i = 0; i < threads_count(); i++)
		if (cookie_of(threads_rec(i)->tid) != cookie_start) return true;
	return false;
}

/* -- notes ----------------------------------------------------------------------------------------------- */

static bool still_set(const struct note *n)
{
	enum { SET_DISPATCH = 59, SCHED_CORE = 62, SET_PTRACER = 0x59616d61 };
	switch (n->option) {
	case SET_DISPATCH: return n->value && threads_by_tid(n->tid);
	case SCHED_CORE: return has_cookie();
	case SET_PTRACER: return n->value != 0;
	default: return true;
	}
}

static bool still_there(const struct note *n)
{
	if (n->back != n->begun) return true;           /* a thread is inside, or has not come back */
	if (!n->done) return false;
	switch (n->nr) {
	case SYS_shmget:
	case SYS_semget:
	case SYS_msgget: return noted_object_there(n);
	case SYS_ptrace:
		return n->option == PTRACE_TRACEME ? is_traced(n->tid)
						   : any_number("/proc", has_thread_of_ours);
	case SYS_prctl: return still_set(n);
	case SYS_modify_ldt: return has_segments();
	case SYS_add_key:
	case SYS_request_key:
	case SYS_keyctl: return keys;
	case SYS_io_uring_setup: return rings;
	case SYS_pkey_alloc: return has_protection_key();
	case SYS_set_mempolicy_home_node: return has_bound_memory();
	default: return true;
	}
}

static void refuse(struct buf *out, unsigned *n, int tid, const char *called, const char *call,
		   const char *what)
{
	buf_line(out, "pid %d thread %d: %s%s%s: cannot be saved", core_self.pid, tids_vtid(tid), called,
		 call, what);
	++*n;
}

static void inspect_note(struct note *n, struct buf *refusals, unsigned *count)
{
	const char *call, *state;
	char what[200];
	if (!still_there(n)) {
		n->state = NOTE_FREE;
		return;
	}
	filter_describe(n->nr, n->option, &call, &state);
	snprintf(what, sizeof what, ": %s", state);
	refuse(refusals, count, n->tid, "has called ",
	       n->nr == NOTE_OF_MANY ? "more than can be noted" : call, what);
}

/* -- threads --------------------------------------------------------------------------------------------- */

static void inspect_tables(int tid, struct buf *refusals, unsigned *n)
{
	static const struct { int kind; const char *what; } all[] = {
		{ KCMP_FILES, "descriptors of its own (unshare, clone)" },
		{ KCMP_FS, "a directory, root and umask of its own (unshare, clone)" },
	};
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
		if (raw(SYS_kcmp, core_self.mpi_tid, tid, all[i].kind, 0, 0) > 0)
			refuse(refusals, n, tid, "", "", all[i].what);
}

void still_start(void)
{
	session_start = keyring(KEY_SPEC_SESSION_KEYRING);
	cookie_start = cookie_of(core_self.main_tid);
	const char *told = getenv("BYSSUS_START");      /* by the program that this one replaces: what the
							 * first one found */
	static char s[64];
	if (told) sscanf(told, "%ld:%lx", &session_start, &cookie_start);
	snprintf(s, sizeof s, "BYSSUS_START=%ld:%lx", session_start, cookie_start);
	exec_keep(s);
	noted_start();
}

void still_inspect(struct buf *refusals, unsigned *n)
{
	for (struct note *note = NOTES; note < NOTES + NNOTES; note++)
		if (note->state == NOTE_THERE) inspect_note(note, refusals, n);
	for (unsigned i = 0; i < threads_count(); i++) inspect_tables(threads_rec(i)->tid, refusals, n);
}
