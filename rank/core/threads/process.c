/* process.c: state of the process as a whole: directory, umask, limits, timers.
 *
 * Of umask and limits only what the application has changed is restored: see attributes.c.
 * Context: ordinary lower code; saving while the application's threads stand still, restoring before they
 * exist. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include "core/arena/arena.h"
#include "core/threads/threads.h"

enum { NLIMITS = 16, TIMER_CREATE_RESTORE_IDS = 77 };
struct timer { int32_t id, signo, notify, tid; uint64_t value; int32_t clock, pad; struct itimerspec at; };
static struct itimerval itimers[3];
static struct timer *timers;
static uint64_t ntimers;
static struct pending_set shared;

/* Umask and limits. own: bit i is limit i, bit NLIMITS the umask: they are the application's. */
struct natural { uint64_t mask, own; struct rlimit limit[NLIMITS]; };
static struct natural start, restored;  /* when the program or the restart began; what was restored (own 0:
					 * nothing) */

/* -- POSIX timers: the kernel lists them in /proc/self/timers -------------------------------------------- */

/* "ID: 0 / signal: 14/00007ffc... / notify: signal/pid.123 / ClockID: 1", four lines each. */
static bool parse_timer(const char **text, struct timer *t)
{
	char kind[16] = "", who[16] = "";
	const char *at = strstr(*text, "ID: ");
	if (!at) return false;
	*t = (struct timer){ 0 };
	if (sscanf(at, "ID: %d\nsignal: %d/%lx\nnotify: %15[a-z]/%15[a-z].%d\nClockID: %d", &t->id, &t->signo,
		   &t->value, kind, who, &t->tid, &t->clock) != 7)
		return false;
	t->notify = !strcmp(kind, "none") ? SIGEV_NONE : SIGEV_SIGNAL;
	if (!strcmp(who, "tid")) t->notify |= SIGEV_THREAD_ID;
	t->tid = tids_vtid(t->tid);
	at = strstr(at, "ClockID: ");
	*text = at + 9;
	return raw(SYS_timer_gettime, t->id, &t->at) == 0;
}

static bool on_cpu_clock(const struct timer *t, int *tid)
{
	*tid = ~(t->clock >> 3);
	return t->clock < 0 && (t->clock & 7) != 3 && *tid > 0;
}

/* A timer on the clock of a thread that has ended stands still for ever. */
static void leave_dead_clock(struct timer *t)
{
	int tid;
	if (!on_cpu_clock(t, &tid) || raw(SYS_tgkill, core_self.pid, tid, 0) == 0) return;
	t->clock = CLOCK_MONOTONIC;
	t->at = (struct itimerspec){ 0 };
}

void process_inspect(struct buf *refusals, unsigned *n)
{
	struct timer t;
	int tid;
	char cwd[PATH_MAX] = "";
	if (!getcwd(cwd, sizeof cwd) || *cwd != '/') {
		buf_line(refusals,
			 "pid %d thread %d: a working directory that has been deleted: cannot be saved",
			 core_self.pid, tids_vtid(core_self.main_tid));
		++*n;
	}
	char *text = slurp("/proc/self/timers", NULL);
	if (!text && (trap_timers_made() || ntimers)) { /* a kernel without CONFIG_CHECKPOINT_RESTORE */
		buf_line(refusals,
			 "pid %d: timers (timer_create), which this kernel does not list "
			 "(/proc/self/timers): cannot be saved",
			 core_self.pid);
		++*n;
	}
	for (const char *at = text ? text : ""; parse_timer(&at, &t); ) {
		if (!on_cpu_clock(&t, &tid) || (t.clock & 4) || tid == core_self.pid || kill(tid, 0))
			continue;
		buf_line(refusals, "pid %d timer %d: on the clock of process %d: cannot be saved",
			 core_self.pid, t.id, tid);
		++*n;
	}
	free(text);
}

static void save_timers(struct buf *b)
{
	struct buf list = { 0 };
	uint64_t n = 0;
	struct timer t;
	char *text = slurp("/proc/self/timers", NULL);
	for (const char *at = text ? text : ""; parse_timer(&at, &t); n++) {
		leave_dead_clock(&t);
		t.clock = tids_clock_saved(t.clock);
		buf_add(&list, &t, sizeof t);
	}
	free(text);
	buf_u64(b, n);
	buf_add(b, list.p, list.n);
	buf_free(&list);
}

/* The number that the application knows: asked for, or counted up to. */
static bool make_timer(const struct timer *t)
{
	struct {
		uint64_t value;
		int32_t signo, notify, tid, pad[11];
	} e = { t->value, t->signo, t->notify, tids_new(t->tid), { 0 } };
	int id = t->id, clock = tids_clock_new(t->clock);
	bool asked = raw(SYS_prctl, TIMER_CREATE_RESTORE_IDS, 1, 0, 0, 0) == 0;
	for (int tries = 0; tries < 100000; tries++) {
		long r = raw(SYS_timer_create, clock, &e, &id);
		if (r) {
			core_debug("timer_create: clock %d: %s", clock, strerror((int)-r));
			break;
		}
		if (id == t->id) {
			raw(SYS_timer_settime, id, 0, &t->at, 0);
			if (asked) raw(SYS_prctl, TIMER_CREATE_RESTORE_IDS, 0, 0, 0, 0);
			return true;
		}
		raw(SYS_timer_delete, id);
	}
	if (asked) raw(SYS_prctl, TIMER_CREATE_RESTORE_IDS, 0, 0, 0, 0);
	return false;
}

/* A timer whose signal has not been taken stands still. It may have sent another since we took one. */
static bool is_pending(int sig)
{
	uint64_t set = 0;
	for (uint32_t i = 0; i < shared.n; i++)
		if (shared.info[i].si_signo == sig) return true;
	return raw(SYS_rt_sigpending, &set, 8) == 0 && (set & SIGBIT(sig));
}

/* -- all of it ------------------------------------------------------------------------------------------- */

static void look(struct natural *n)
{
	char *status = slurp("/proc/thread-self/status", NULL);
	*n = (struct natural){ .mask = status ? status_field(status, "Umask", 8) : 022 };
	free(status);
	for (int i = 0; i < NLIMITS; i++) {
		if (i == RLIMIT_NOFILE) limits_save(&n->limit[i]);
		else getrlimit((__rlimit_resource_t)i, &n->limit[i]);
	}
}

void process_start(void) { look(&start); }

void *process_natural(size_t *n)
{
	*n = sizeof start;
	return &start;
}

static bool is_own(const struct natural *now, int i)
{
	if (i == NLIMITS)
		return now->mask != start.mask || ((restored.own >> i & 1) && now->mask == restored.mask);
	if (memcmp(&now->limit[i], &start.limit[i], sizeof start.limit[i])) return true;
	return (restored.own >> i & 1) && !memcmp(&now->limit[i], &restored.limit[i], sizeof start.limit[i]);
}

void process_save(struct buf *b)
{
	char cwd[PATH_MAX] = "", numbered[PATH_MAX];
	struct natural now;
	if (!getcwd(cwd, sizeof cwd)) cwd[0] = 0;
	bool own = tids_path(cwd, numbered, sizeof numbered, true) > 0;
	buf_str(b, own ? numbered : cwd);
	look(&now);
	for (int i = 0; i <= NLIMITS; i++) now.own |= (uint64_t)is_own(&now, i) << i;
	buf_add(b, &now, sizeof now);
	pending_take_shared(&shared);                   /* first: taking SIGALRM starts the timer again */
	for (int i = 0; i < 3; i++) {
		struct itimerval v = { 0 };
		getitimer((__itimer_which_t)i, &v);
		if (i == ITIMER_REAL && !timerisset(&v.it_value) && is_pending(SIGALRM))
			v.it_value = v.it_interval;
		buf_add(b, &v, sizeof v);
	}
	save_timers(b);
	signals_save(b);
	uint64_t blocked = threads_blocked(NULL);
	buf_u64(b, pending_kept(&shared, blocked));
	pending_save(b, &shared, blocked);
	pending_put(core_self.pid, 0, &shared);
}

/* With the application's own limits on memory, threads or time nothing could be brought back. That on
 * descriptors is limits.c's. */
void process_restore_limits(void)
{
	for (int i = 0; i < NLIMITS; i++) {
		struct rlimit now, want = restored.limit[i];
		if (i == RLIMIT_NOFILE || !(restored.own & 1UL << i) ||
		    setrlimit((__rlimit_resource_t)i, &want) == 0)
			continue;
		getrlimit((__rlimit_resource_t)i, &now);
		/* only root can raise it again */
		if (want.rlim_max > now.rlim_max) want.rlim_max = now.rlim_max;
		if (want.rlim_cur > want.rlim_max) want.rlim_cur = want.rlim_max;
		int err = setrlimit((__rlimit_resource_t)i, &want) ? errno : 0;
		core_say("limit %d was %ld (at most %ld), and is %ld%s%s", i,
			 (long)restored.limit[i].rlim_cur, (long)restored.limit[i].rlim_max,
			 (long)(err ? now.rlim_cur : want.rlim_cur), err ? ": " : "",
			 err ? strerror(err) : "");
	}
}

void process_restore(struct reader *r)
{
	char numbered[PATH_MAX];
	const char *cwd = read_str(r);
	if (tids_path(cwd, numbered, sizeof numbered, false) > 0) cwd = numbered;
	if (*cwd && chdir(cwd))
		core_die("image: cannot change to the application's directory %s: %s", cwd, strerror(errno));
	read_bytes(r, &restored, sizeof restored);
	if (restored.own >> NLIMITS & 1) umask((mode_t)restored.mask);
	if (restored.own >> RLIMIT_NOFILE & 1) limits_restore(&restored.limit[RLIMIT_NOFILE]);
	for (int i = 0; i < 3; i++) read_bytes(r, &itimers[i], sizeof itimers[i]);
	ntimers = read_u64(r);
	timers = (struct timer *)read_ref(r, ntimers * sizeof *timers);
	signals_restore(r);
	shared.n = (uint32_t)read_u64(r);
	shared.info = (siginfo_t *)read_ref(r, shared.n * sizeof(siginfo_t));
	if (r->bad) core_die("image: process: the section is damaged");
}

void process_start_timers(void)
{
	for (uint64_t i = 0; i < ntimers; i++)
		if (!make_timer(&timers[i]))
			core_die("timer %d of the application cannot be made again", timers[i].id);
	for (int i = 0; i < 3; i++)
		if (itimers[i].it_value.tv_sec || itimers[i].it_value.tv_usec)
			setitimer((__itimer_which_t)i, &itimers[i], NULL);
	pending_put(core_self.pid, 0, &shared);
}
