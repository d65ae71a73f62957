/* limits.c: the limit on descriptors (RLIMIT_NOFILE): the application's, and room for ours above it.
 *
 * The application's own limit, as far as the kernel knows it, never reaches the lower half's descriptors, and
 * the hard limit never changes: so that ours can be made, for a moment under a higher limit, when it has used
 * up its own. What it asks for and is told goes through trap.c. Context: what is ANY_FS on any thread, in its
 * handlers too; the rest is ordinary lower code. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include "core/base/base.h"

static struct rlimit app;                       /* rlim_max: what the application takes for the hard limit */
static bool raised;             /* the kernel's is not the application's: while its threads stand still or do
				 * not exist */
static volatile uint32_t lock;

static long kernel(const struct rlimit *set, struct rlimit *get)
{
	return raw(SYS_prlimit64, 0, RLIMIT_NOFILE, set, get);
}

static uint64_t capped(uint64_t n)
{
	return n < (uint64_t)core_config.fd_base ? n : (uint64_t)core_config.fd_base;
}

void limits_start(void)
{
	kernel(NULL, &app);
	app.rlim_cur = capped(app.rlim_cur);
	raised = true;
}

void limits_raise(void)
{
	struct rlimit now;
	raw_lock(&lock);
	if (kernel(NULL, &now) == 0) {
		if (!raised) app.rlim_cur = capped(now.rlim_cur);
		now.rlim_cur = now.rlim_max;
		if (kernel(&now, NULL) == 0) raised = true;
	}
	raw_unlock(&lock);
}

void limits_lower(void)
{
	struct rlimit now;
	raw_lock(&lock);
	if (raised && kernel(NULL, &now) == 0) {        /* a stop that was given up has not raised it */
		now.rlim_cur = app.rlim_cur;
		if (kernel(&now, NULL) == 0) raised = false;
	}
	raw_unlock(&lock);
}

void limits_save(struct rlimit *out) { *out = app; }

/* Takes effect when the limit is lowered. */
void limits_restore(const struct rlimit *was)
{
	struct rlimit now;
	kernel(NULL, &now);
	app.rlim_max = was->rlim_max < now.rlim_max ? was->rlim_max : now.rlim_max;
	app.rlim_cur = capped(was->rlim_cur < app.rlim_max ? was->rlim_cur : app.rlim_max);
}

/* For one call, on any thread. A handler of the application must not find the lock held by its own thread. */
bool limits_borrow(struct limits_loan *l)
{
	struct rlimit now;
	uint64_t all = ~0UL;
	if (core_is_rank() != 1) return false;
	raw(SYS_rt_sigprocmask, SIG_SETMASK, &all, &l->mask, 8);
	raw_lock(&lock);
	bool low = kernel(NULL, &now) == 0 && now.rlim_cur < now.rlim_max;
	l->soft = now.rlim_cur;
	now.rlim_cur = now.rlim_max;
	if (low && kernel(&now, NULL) == 0) return true;
	raw_unlock(&lock);
	raw(SYS_rt_sigprocmask, SIG_SETMASK, &l->mask, 0, 8);
	return false;
}

void limits_return(const struct limits_loan *l)
{
	struct rlimit now;
	kernel(NULL, &now);
	now.rlim_cur = l->soft;
	kernel(&now, NULL);
	raw_unlock(&lock);
	raw(SYS_rt_sigprocmask, SIG_SETMASK, &l->mask, 0, 8);
}

long raw_open(const char *path, int flags)
{
	struct limits_loan was;
	long fd = raw(SYS_open, path, flags);
	if (fd != -EMFILE || !limits_borrow(&was)) return fd;
	fd = raw(SYS_open, path, flags);
	limits_return(&was);
	return fd;
}

/* -- what the application asks for ----------------------------------------------------------------------- */

static long change(const struct rlimit *want)
{
	struct rlimit now;
	if (want->rlim_cur > want->rlim_max) return -EINVAL;
	if (want->rlim_max > app.rlim_max) return -EPERM;
	long r = kernel(NULL, &now);
	now.rlim_cur = capped(want->rlim_cur);
	if (!r) r = kernel(&now, NULL);
	if (!r) app.rlim_max = want->rlim_max;
	return r;
}

/* Of the rank itself; its children's are the kernel's business. */
long limits_trap(const struct rlimit *set, struct rlimit *get)
{
	struct rlimit was;
	if (core_is_rank() != 1) return kernel(set, get);
	raw_lock(&lock);
	long r = kernel(NULL, &was);
	was.rlim_max = app.rlim_max;
	if (!r && set) r = change(set);
	raw_unlock(&lock);
	if (!r && get) *get = was;
	return r;
}
