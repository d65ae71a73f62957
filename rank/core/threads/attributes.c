/* attributes.c: what the kernel keeps about threads and process beside memory, descriptors and signals.
 *
 * The launcher and the batch system have their say in them too (binding to processors, nice, limits), and say
 * it anew at a restart. So only what the application has changed is restored: what differs from the main
 * thread's value at the start of the first program, or was restored before and is still the same. The rest is
 * what the new process finds. What belongs to what is the ledger's matter: docs/syscalls.md.
 *
 * An affinity within the process's own is kept within the new one: processors that the new job does not give
 * are left out, and when none is left that is said. What the application has chosen stays its choice until it
 * makes another: the next image has it whole. Context: attributes_here and attributes_apply_here are
 * ANY_FS, on the thread that they are about; the rest is ordinary lower code. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/arena/arena.h"
#include "core/threads/threads.h"

enum {
	CPUS = 4096,
	NODES = 1024,
	IOPRIO_PROCESS = 1,
	SET_GS = 0x1001,
	GET_GS = 0x1004,
	GET_CPUID = 0x1011,
	SET_CPUID,
	GET_XCOMP_PERM = 0x1022,
	ASK_XCOMP_PERM,
	AMX_TILES = 18,
	KEEP_CAPS = 4,
	MEMBARRIER_REGISTRATIONS = 1 << 9,
	TIMER_CREATE_RESTORE_IDS = 77,
	RESTORE_IDS_GET = 2,
	GET_UNTAG_MASK = 0x4001
};
/* Of a thread, told only by itself. */
enum {
	GS_BASE,
	SLACK,
	SECUREBITS,
	NO_NEW_PRIVS,
	TSC,
	CPUID,
	DEATH_SIGNAL,
	IO_FLUSHER,
	MCE_KILL,
	SPEC0,
	SPEC1,
	SPEC2,
	PERSONALITY,
	NHERE
};
/* Of a thread, by its number. */
enum { AFFINITY = NHERE, SCHED, NICE, IOPRIO, NUMA };
/* Of the process. */
enum {
	DUMPABLE,
	SUBREAPER,
	THP,
	MERGE,
	MDWE,
	OOM_SCORE,
	CORE_FILTER,
	LEADER,
	PERMITTED,
	MEMBARRIER,
	TIMER_NUMBERS,
	NPROCESS
};

struct here { int64_t v[NHERE]; int32_t numa, pad; uint64_t nodes[NODES / 64]; };
struct sched {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
	uint32_t low, high;
};
/* In the image. own: the bits of what is the application's. */
struct thread_attributes {
	int32_t vtid, nice;
	uint64_t own;
	struct here here;
	struct sched sched;
	int64_t ioprio;
	uint64_t cpus[CPUS / 64];
};
struct process_attributes { uint64_t own; int64_t v[NPROCESS]; };
struct saved {
	struct process_attributes process;
	struct thread_attributes start;
	uint64_t n;
	struct thread_attributes t[];
};

static struct here *table;                      /* by thread's record (threads.c) */
static struct thread_attributes start;          /* the main thread's when the program or the restart began */
static struct process_attributes natural;
static const struct saved *restored;            /* NULL: this is no restart */
/* By thread of restored: what its choice has come to. */
static struct { uint64_t cpus[CPUS / 64]; } *granted;
static int64_t dumpable;                        /* what it is outside of checkpoints */

/* -- looking --------------------------------------------------------------------------------------------- */

static int64_t told(int what)
{
	int v = -1;
	return raw(SYS_prctl, what, &v, 0, 0, 0) ? -1 : v;
}

static void look_here(struct here *h)
{
	h->v[GS_BASE] = 0;
	raw(SYS_arch_prctl, GET_GS, &h->v[GS_BASE]);
	h->v[SLACK] = raw(SYS_prctl, PR_GET_TIMERSLACK);
	h->v[SECUREBITS] = raw(SYS_prctl, PR_GET_SECUREBITS);
	h->v[NO_NEW_PRIVS] = raw(SYS_prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
	h->v[TSC] = told(PR_GET_TSC);
	h->v[CPUID] = raw(SYS_arch_prctl, GET_CPUID, 0);
	h->v[DEATH_SIGNAL] = told(PR_GET_PDEATHSIG);
	h->v[IO_FLUSHER] = raw(SYS_prctl, PR_GET_IO_FLUSHER, 0, 0, 0, 0);
	h->v[MCE_KILL] = raw(SYS_prctl, PR_MCE_KILL_GET, 0, 0, 0, 0);
	for (int i = 0; i < 3; i++) h->v[SPEC0 + i] = raw(SYS_prctl, PR_GET_SPECULATION_CTRL, i, 0, 0, 0);
	h->v[PERSONALITY] = raw(SYS_personality, 0xffffffff);
	h->numa = -1;
	raw(SYS_get_mempolicy, &h->numa, h->nodes, NODES, 0, 0);
}

void attributes_here(unsigned i)
{
	table[i] = (struct here){ .numa = -1 };
	look_here(&table[i]);
}

static void look_at(struct thread_attributes *t, int tid, const struct here *h)
{
	*t = (struct thread_attributes){ .vtid = tids_vtid(tid), .here = *h };
	raw(SYS_sched_getattr, tid, &t->sched, sizeof t->sched, 0);
	raw(SYS_sched_getaffinity, tid, sizeof t->cpus, t->cpus);
	t->nice = 20 - (int)raw(SYS_getpriority, PRIO_PROCESS, tid);    /* the kernel's answer is 20 - nice */
	t->ioprio = raw(SYS_ioprio_get, IOPRIO_PROCESS, tid);
}

/* Of /proc/self, whose main thread may have ended: by the number of one that has not. */
static int64_t number_in(const char *file)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/%s", (int)raw(SYS_gettid), file);
	char *s = slurp(path, NULL);
	int64_t v = s && *s ? strtol(s, NULL, strstr(path, "filter") ? 16 : 10) : INT64_MIN;
	free(s);
	return v;
}

static void look_at_process(struct process_attributes *p)
{
	p->v[DUMPABLE] = prctl(PR_GET_DUMPABLE);
	p->v[SUBREAPER] = told(PR_GET_CHILD_SUBREAPER);
	p->v[THP] = prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0);
	p->v[MERGE] = prctl(68 /* PR_GET_MEMORY_MERGE */, 0, 0, 0, 0);
	p->v[MDWE] = prctl(66 /* PR_GET_MDWE */, 0, 0, 0, 0);
	p->v[OOM_SCORE] = number_in("oom_score_adj");
	p->v[CORE_FILTER] = number_in("coredump_filter");
	uint64_t permitted = 0;                         /* processor state that must be asked for: AMX */
	p->v[PERMITTED] = raw(SYS_arch_prctl, GET_XCOMP_PERM, &permitted) ? -1 : (int64_t)permitted;
	p->v[MEMBARRIER] = raw(SYS_membarrier, MEMBARRIER_REGISTRATIONS, 0, 0);
	p->v[TIMER_NUMBERS] = raw(SYS_prctl, TIMER_CREATE_RESTORE_IDS, RESTORE_IDS_GET, 0, 0, 0);
	p->v[LEADER] = (getsid(0) == getpid()) + 2 * (getpgid(0) == getpid());
}

/* Lines of a thread's status by what they say, and what it is when they are others than at the start. */
enum { NLINES = 8, USER = 0, SECCOMP = 1 };
static const struct { const char *what, *line[NLINES]; } identity[] = {
	{ "another user, group or set of capabilities than at the program's start",
	  { "Uid:", "Gid:", "Groups:", "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:" } },
	{ "a seccomp filter of its own", { "Seccomp:", "Seccomp_filters:" } },
	{ "a shadow stack", { "x86_Thread_features:" } },
};
enum { NIDENTITY = sizeof identity / sizeof *identity };
struct identity { uint32_t sum[NIDENTITY], context; };          /* checksums */
static struct identity start_identity;

static void take_line(struct identity *out, const char *line, size_t n)
{
	for (unsigned i = 0; i < NIDENTITY; i++)
		for (unsigned k = 0; k < NLINES && identity[i].line[k]; k++)
			if (!strncmp(line, identity[i].line[k], strlen(identity[i].line[k])))
				out->sum[i] = crc32c(out->sum[i], line, n);
}

/* What is compared with the start must not depend on memory that may be missing at one of the two times. */
static size_t read_text(int tid, const char *file, char *out, size_t n)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/self/task/%d/%s", tid, file);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t at = 0;
	for (ssize_t k; fd >= 0 && (k = read(fd, out + at, n - 1 - at)) > 0; ) at += (size_t)k;
	if (fd >= 0) close(fd);
	out[at] = 0;
	return at;
}

/* False: the thread has ended. */
static bool identity_of(int tid, struct identity *out)
{
	static char text[65536];
	out->context = crc32c(0, text, read_text(tid, "attr/current", text, sizeof text));
	memset(out->sum, 0, sizeof out->sum);
	bool there = read_text(tid, "status", text, sizeof text) > 0;
	for (char *l = text; *l; l += strcspn(l, "\n"), l += *l == '\n') take_line(out, l, strcspn(l, "\n"));
	return there;
}

static uint64_t filters_here(void)
{
	char *text = slurp("/proc/thread-self/status", NULL);
	uint64_t n = text ? status_field(text, "Seccomp_filters", 10) : 0;
	free(text);
	return n;
}

/* Of addresses with tags in their upper bits: which bits count. */
static uint64_t untag_mask(void)
{
	uint64_t m = ~0UL;
	raw(SYS_arch_prctl, GET_UNTAG_MASK, &m);
	return m;
}
static uint64_t start_mask;

static const char *const spaces[] = {
	"mnt", "net", "ipc", "uts", "user", "cgroup", "pid", "time", "pid_for_children", "time_for_children"
};
enum { NSPACES = sizeof spaces / sizeof *spaces };
static uint64_t space_start[NSPACES + 1];

/* Of a thread: they need not be alike. The last is the root directory. */
static uint64_t space_of(unsigned i, int tid)
{
	char path[64];
	struct stat st;
	if (i < NSPACES) snprintf(path, sizeof path, "/proc/self/task/%d/ns/%s", tid, spaces[i]);
	else snprintf(path, sizeof path, "/proc/self/task/%d/root", tid);
	return stat(path, &st) ? 0 : st.st_ino ^ (uint64_t)st.st_dev << 40;
}

/* Who the first program was, and where. Each one has a filter of ours more than the one before. */
static struct { uint32_t user, context; uint64_t filters, space[NSPACES + 1]; } first;

/* A program that becomes another one (nice, taskset, a shell with ulimit) has changed what the next one
 * finds: natural is still what the first one found. It is told in the environment, as digits; told of another
 * length, it counts for nothing. */
struct part { unsigned char *p; size_t n; };
enum { NPARTS = 4, LONGEST_NATURAL = 16 + 2 * (sizeof start + sizeof natural + sizeof first + 512) };

static void parts(struct part *part)
{
	part[0] = (struct part){ (void *)&start, sizeof start };
	part[1] = (struct part){ (void *)&natural, sizeof natural };
	part[2] = (struct part){ (void *)&first, sizeof first };
	part[3].p = process_natural(&part[3].n);
}

static bool hear_of_first(void)
{
	const char *told = getenv("BYSSUS_NATURAL");
	struct part part[NPARTS];
	size_t total = 0;
	parts(part);
	for (int i = 0; i < NPARTS; i++) total += part[i].n;
	if (!told || strlen(told) != 2 * total) return false;
	for (int i = 0; i < NPARTS; i++)
		for (size_t k = 0; k < part[i].n; k++, told += 2) {
			unsigned v;
			if (sscanf(told, "%2x", &v) == 1) part[i].p[k] = (unsigned char)v;
		}
	return true;
}

static void tell_of_first(void)
{
	static char s[LONGEST_NATURAL] = "BYSSUS_NATURAL=";
	struct part part[NPARTS];
	size_t at = strlen("BYSSUS_NATURAL=");
	parts(part);
	for (int i = 0; i < NPARTS; i++)
		for (size_t k = 0; k < part[i].n && at + 3 < sizeof s; k++, at += 2)
			snprintf(s + at, 3, "%02x", part[i].p[k]);
	exec_keep(s);
}

static void natural_across_exec(void)
{
	uint64_t filters = first.filters;
	if (hear_of_first()) {
		/* between ours: no thread is as the first was */
		bool others = filters && filters != ++first.filters;
		start_identity.sum[USER] = first.user;
		start_identity.context = first.context;
		if (others) start_identity.sum[SECCOMP] ^= 1;
		memcpy(space_start, first.space, sizeof space_start);
	}
	tell_of_first();
}

void attributes_start(void)
{
	struct here h = { 0 };
	size_t n = (size_t)threads_most() * sizeof *table;
	if (!table)
		table = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			     0);
	if (table == MAP_FAILED) core_die("no memory for the attributes of threads");
	look_here(&h);
	look_at(&start, core_self.main_tid, &h);
	look_at_process(&natural);
	identity_of(core_self.main_tid, &start_identity);
	start_mask = untag_mask();
	for (unsigned i = 0; i <= NSPACES; i++) space_start[i] = space_of(i, core_self.main_tid);
	first.user = start_identity.sum[USER];
	first.context = start_identity.context;
	first.filters = filters_here();
	memcpy(first.space, space_start, sizeof first.space);
	natural_across_exec();
}

/* -- what cannot be saved -------------------------------------------------------------------------------- */

static void refuse(struct buf *out, unsigned *n, int tid, const char *what)
{
	buf_line(out, "pid %d thread %d: %s: cannot be saved", core_self.pid, tids_vtid(tid), what);
	++*n;
}

static void inspect_spaces(int tid, struct buf *refusals, unsigned *n)
{
	for (unsigned i = 0; i <= NSPACES; i++) {
		char what[64];
		snprintf(what, sizeof what,
			 i < NSPACES ? "another namespace (%s) than at the start"
				     : "another root directory than at the start",
			 spaces[i % NSPACES]);
		if (space_of(i, tid) != space_start[i]) refuse(refusals, n, tid, what);
	}
}

static void inspect_thread(int tid, struct buf *refusals, unsigned *n)
{
	struct identity now;
	if (!identity_of(tid, &now)) return;
	for (unsigned i = 0; i < NIDENTITY; i++)
		if (now.sum[i] != start_identity.sum[i]) refuse(refusals, n, tid, identity[i].what);
	if (now.context != start_identity.context)
		refuse(refusals, n, tid, "another security context than at the program's start");
}

void attributes_inspect(struct buf *refusals, unsigned *n)
{
	for (unsigned i = 0; i < threads_count(); i++) {
		const char *wrong = cpu_frame_wrong(threads_rec(i)->uc);
		if (wrong) refuse(refusals, n, threads_rec(i)->tid, wrong);
		inspect_thread(threads_rec(i)->tid, refusals, n);
		inspect_spaces(threads_rec(i)->tid, refusals, n);
	}
	if (untag_mask() != start_mask) refuse(refusals, n, core_self.main_tid, "addresses with tags");
}

/* A process that is not dumpable may not read what /proc says of itself, unless it is root's. */
void attributes_reveal(bool on)
{
	if (on) {
		dumpable = prctl(PR_GET_DUMPABLE);
		if (dumpable != 1) prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	} else if (dumpable != 1) {
		prctl(PR_SET_DUMPABLE, dumpable, 0, 0, 0);
	}
}

/* -- in the image ---------------------------------------------------------------------------------------- */

static bool same_numa(const struct here *a, const struct here *b)
{
	return a->numa == b->numa && !memcmp(a->nodes, b->nodes, sizeof a->nodes);
}

/* The bits of what is alike in both. */
static uint64_t alike(const struct thread_attributes *a, const struct thread_attributes *b)
{
	uint64_t bits = 0;
	struct sched x = a->sched, y = b->sched;
	x.nice = y.nice = 0;                            /* has a bit of its own */
	for (int k = 0; k < NHERE; k++) bits |= (uint64_t)(a->here.v[k] == b->here.v[k]) << k;
	bits |= (uint64_t)!memcmp(a->cpus, b->cpus, sizeof a->cpus) << AFFINITY;
	bits |= (uint64_t)!memcmp(&x, &y, sizeof x) << SCHED;
	bits |= (uint64_t)(a->nice == b->nice) << NICE | (uint64_t)(a->ioprio == b->ioprio) << IOPRIO;
	return bits | (uint64_t)same_numa(&a->here, &b->here) << NUMA;
}

static const struct thread_attributes *restored_of(int vtid)
{
	for (uint64_t i = 0; restored && i < restored->n; i++)
		if (restored->t[i].vtid == vtid) return &restored->t[i];
	return NULL;
}

static uint64_t own_of(const struct thread_attributes *t)
{
	const struct thread_attributes *was = restored_of(t->vtid);
	uint64_t own = ~alike(t, &start);
	if (was) own |= was->own & alike(t, was);
	return own & ((1UL << (NUMA + 1)) - 1);
}

/* What this restart could not grant of the thread's choice is still chosen. */
static void keep_choice(struct thread_attributes *t)
{
	const struct thread_attributes *was = restored_of(t->vtid);
	if (!was || !(was->own >> AFFINITY & 1) ||
	    memcmp(t->cpus, granted[was - restored->t].cpus, sizeof t->cpus))
		return;
	memcpy(t->cpus, was->cpus, sizeof t->cpus);
	t->own |= 1UL << AFFINITY;
}

static void save_process(struct buf *b)
{
	struct process_attributes p = { 0 };
	look_at_process(&p);
	p.v[DUMPABLE] = dumpable;
	for (int k = 0; k < NPROCESS; k++) {
		bool before =
			restored && (restored->process.own >> k & 1) && restored->process.v[k] == p.v[k];
		if (p.v[k] != INT64_MIN && (p.v[k] != natural.v[k] || before)) p.own |= 1UL << k;
	}
	buf_add(b, &p, sizeof p);
}

void attributes_save(struct buf *b)
{
	save_process(b);
	buf_add(b, &start, sizeof start);
	buf_u64(b, threads_count());
	for (unsigned i = 0; i < threads_count(); i++) {
		struct thread_attributes t;
		look_at(&t, threads_rec(i)->tid, &table[i]);
		t.own = own_of(&t);
		keep_choice(&t);
		buf_add(b, &t, sizeof t);
	}
}

void attributes_restore(struct reader *r)
{
	const struct saved *s = read_ref(r, r->n);
	if (!s || r->n < sizeof *s || s->n > (r->n - sizeof *s) / sizeof *s->t)
		core_die("image: attributes: the section is damaged");
	restored = s;
	granted = calloc(s->n + 1, sizeof *granted);
	if (!granted) core_die("no memory for the attributes of threads");
	bool amx = (s->process.own >> PERMITTED & 1) && (s->process.v[PERMITTED] >> AMX_TILES & 1);
	long e = amx ? raw(SYS_arch_prctl, ASK_XCOMP_PERM, AMX_TILES) : 0;
	if (e)
		core_die("image: the program uses AMX tiles, which this kernel does not permit: %s",
			 strerror((int)-e));
}

/* -- restoring ------------------------------------------------------------------------------------------- */

static void not_here(const struct thread_attributes *t, const char *what, long err)
{
	core_say("thread %d: its %s cannot be what it was: %s", t->vtid, what, strerror((int)-err));
}

/* Processors of the old process's own stay within the new one's. */
static void apply_affinity(const struct thread_attributes *t, int tid)
{
	uint64_t want[CPUS / 64], outside = 0, any = 0;
	for (int i = 0; i < CPUS / 64; i++) outside |= t->cpus[i] & ~restored->start.cpus[i];
	for (int i = 0; i < CPUS / 64; i++)
		any |= want[i] = outside ? t->cpus[i] : t->cpus[i] & start.cpus[i];
	long e = any ? raw(SYS_sched_setaffinity, tid, sizeof want, want) : -EINVAL;
	if (e < 0)
		core_say("thread %d: none of the processors that it has chosen is given to this rank now: it "
			 "may run on all that are",
			 t->vtid);
}

/* By its number, from any thread. */
static void apply(const struct thread_attributes *t, int tid)
{
	struct sched s = t->sched;
	s.nice = t->nice;
	if (t->own >> AFFINITY & 1) apply_affinity(t, tid);
	raw(SYS_sched_getaffinity, tid, sizeof granted->cpus, granted[t - restored->t].cpus);
	long e = t->own >> SCHED & 1 ? raw(SYS_sched_setattr, tid, &s, 0) : 0;
	if (e) not_here(t, "scheduling policy", e);
	e = t->own >> NICE & 1 ? raw(SYS_setpriority, PRIO_PROCESS, tid, t->nice) : 0;
	if (e) not_here(t, "nice value", e);
	e = t->own >> IOPRIO & 1 ? raw(SYS_ioprio_set, IOPRIO_PROCESS, tid, t->ioprio) : 0;
	if (e) not_here(t, "I/O priority", e);
}

static long set_here(const struct here *h, int k)
{
	int64_t v = h->v[k];
	switch (k) {
	case GS_BASE: return raw(SYS_arch_prctl, SET_GS, v);
	case SLACK: return raw(SYS_prctl, PR_SET_TIMERSLACK, v);
	case SECUREBITS:                                /* keep-caps anybody may set */
		if (raw(SYS_prctl, PR_SET_KEEPCAPS, v >> KEEP_CAPS & 1) == 0 &&
		    raw(SYS_prctl, PR_GET_SECUREBITS) == v)
			return 0;
		return raw(SYS_prctl, PR_SET_SECUREBITS, v);
	case NO_NEW_PRIVS: return v == 1 ? raw(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) : 0;
	case TSC: return raw(SYS_prctl, PR_SET_TSC, v);
	case CPUID: return raw(SYS_arch_prctl, SET_CPUID, v);
	case DEATH_SIGNAL: return raw(SYS_prctl, PR_SET_PDEATHSIG, v);
	case IO_FLUSHER: return raw(SYS_prctl, PR_SET_IO_FLUSHER, v, 0, 0, 0);
	case MCE_KILL: return raw(SYS_prctl, PR_MCE_KILL, PR_MCE_KILL_SET, v, 0, 0);
	case SPEC0:
	case SPEC1:
	case SPEC2: return raw(SYS_prctl, PR_SET_SPECULATION_CTRL, k - SPEC0, v & ~1, 0, 0);
	case PERSONALITY: return raw(SYS_personality, v) < 0 ? -EINVAL : 0;
	default: return 0;
	}
}

static volatile uint64_t failed_here;           /* bits of what some thread could not set */

void attributes_apply_here(int vtid)
{
	const struct thread_attributes *t = restored_of(vtid);
	for (int k = 0; t && k < NHERE; k++)
		if ((t->own >> k & 1) && set_here(&t->here, k))
			__atomic_fetch_or(&failed_here, 1UL << k, __ATOMIC_RELAXED);
	if (t && (t->own >> NUMA & 1) && raw(SYS_set_mempolicy, t->here.numa, t->here.nodes, NODES))
		__atomic_fetch_or(&failed_here, 1UL << NUMA, __ATOMIC_RELAXED);
}

static void write_number(const char *file, int64_t v)
{
	char s[32], path[64];
	snprintf(path, sizeof path, "/proc/%d/%s", (int)raw(SYS_gettid), file);
	int n = snprintf(s, sizeof s, strstr(path, "filter") ? "%#lx" : "%ld", (long)v),
	    fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, s, (size_t)n) != n)
		core_say("%s cannot be what it was (%s): %s", path, s, strerror(errno));
	if (fd >= 0) close(fd);
}

static bool set_membarrier(uint64_t registrations)
{
	bool ok = true;
	for (uint64_t bit = 1; bit && bit <= registrations; bit <<= 1)
		if (registrations & bit) ok &= raw(SYS_membarrier, bit, 0, 0) == 0;
	return ok;
}

static bool set_process(int k, int64_t v)
{
	switch (k) {
	case DUMPABLE:
		return v > 1 || prctl(PR_SET_DUMPABLE, v, 0, 0, 0) == 0; /* 2: the kernel's own choice */
	case SUBREAPER: return prctl(PR_SET_CHILD_SUBREAPER, v, 0, 0, 0) == 0;
	case THP: return prctl(PR_SET_THP_DISABLE, v & 1, v & ~1L, 0, 0) == 0;
	case MERGE: return prctl(67 /* PR_SET_MEMORY_MERGE */, v, 0, 0, 0) == 0;
	case MDWE: return prctl(65 /* PR_SET_MDWE */, v, 0, 0, 0) == 0;
	case OOM_SCORE: write_number("oom_score_adj", v); return true;
	case CORE_FILTER: write_number("coredump_filter", v); return true;
	case MEMBARRIER: return set_membarrier((uint64_t)v);
	case TIMER_NUMBERS: return prctl(TIMER_CREATE_RESTORE_IDS, v, 0, 0, 0) == 0;
	case LEADER: return !(v & 1) ? !(v & 2) || setpgid(0, 0) == 0 : setsid() > 0 || getsid(0) == getpid();
	default: return true;
	}
}

void attributes_restore_group(void)
{
	if ((restored->process.own >> LEADER & 1) && !set_process(LEADER, restored->process.v[LEADER]))
		core_say("the process cannot lead a group of processes again: %s", strerror(errno));
}

void attributes_restore_process(void)
{
	static const char *const names[NHERE] = { "GS",
						  "timer slack",
						  "securebits",
						  "no_new_privs",
						  "access to the time stamp counter",
						  "access to CPUID",
						  "parent-death signal",
						  "I/O flusher",
						  "memory error policy",
						  "speculation",
						  "speculation",
						  "speculation",
						  "personality" };
	for (uint64_t i = 0; i < restored->n; i++) {
		const struct thread_attributes *t = &restored->t[i];
		apply(t, tids_new(t->vtid));
	}
	attributes_apply_here(tids_vtid(core_self.main_tid));
	for (int k = 0; k < NHERE; k++)
		if (failed_here >> k & 1) core_say("a thread's %s cannot be what it was", names[k]);
	if (failed_here >> NUMA & 1) core_say("a thread's NUMA policy names nodes that are not here");
	for (int k = 0; k < NPROCESS; k++)
		if (k != PERMITTED && k != LEADER && (restored->process.own >> k & 1) &&
		    !set_process(k, restored->process.v[k]))
			core_say("an attribute of the process (%d) cannot be what it was (%ld): %s", k,
				 (long)restored->process.v[k], strerror(errno));
}
