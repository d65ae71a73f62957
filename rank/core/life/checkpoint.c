/* checkpoint.c: the helper thread: speaks with the agent and leads this rank through a checkpoint.
 *
 *   IDLE --REQUEST--> PENDING --STOP--> (threads park) STOPPED --DRAIN--> WORKING --image--> IDLE, or HELD
 * --EXIT--> end or HELD --RESUME--> IDLE any --CANCEL, agent lost--> IDLE;   any but WORKING --EXIT--> end
 * Only the helper thread changes the state. The work on the image is the carrier's; the helper stays with the
 * socket meanwhile, so that the work can be given up. Context: helper thread, ordinary lower code, all
 * signals blocked. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "core/base/agent/agent.h"
#include "core/cross/cross.h"
#include "core/life/life.h"

enum state { IDLE, PENDING, STOPPED, WORKING, HELD };
static struct {
	enum state state;
	uint64_t epoch, stop_begun, stop_ns;
	volatile uint32_t cancelled, work_done;
	uint64_t dies_at;       /* the agent is gone, and SIGTERM has not ended this process: when something
				 * else does */
	struct abi_drain drain;
	bool revealed;                  /* attributes.c */
	bool image_ok, failed_early;    /* the carrier's: the failure has been reported before the work was
					 * over */
	bool inspected;                 /* records of descriptors are there */
	volatile uint32_t ready;        /* the helper has a table of descriptors of its own */
	volatile uint32_t listening;    /* nobody else reads from the agent any more */
	uint16_t order;                 /* EXIT or RESUME that came before the work was over */
} attempt;

int core_cancelled(void) { return attempt.cancelled != 0; }

/* -- a checkpoint ---------------------------------------------------------------------------------------- */

static void set_pending(uint32_t on)
{
	__atomic_store_n(&BY_CTLP->pending, on, __ATOMIC_SEQ_CST);
	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

struct inspection { struct buf refusals; unsigned n, passing; };

/* On the carrier, as all that has to do with the application's descriptors: the helper has others. */
static void inspect(void *p)
{
	struct inspection *i = p;
	fds_inspect(&i->refusals, &i->n);
	process_inspect(&i->refusals, &i->n);
}

static void let_go(void *none)
{
	(void)none;
	fds_release();
	vma_forget();
}

/* Threads go on, whatever the state. `type` is what the client is told. */
static void go_on(uint16_t type)
{
	bool stopped = attempt.state != PENDING && attempt.state != IDLE;
	struct abi_header h = {
		.magic = ABI_MAGIC, .version = ABI_VERSION, .type = type, .epoch = attempt.epoch
	};
	BY_CTLP->stop = 0;
	set_pending(0);
	core_client->message(&h, NULL);
	uint64_t stall = now_ns() - attempt.stop_begun;
	if (attempt.inspected) carrier_do(let_go, NULL);
	attempt.inspected = false;
	if (attempt.revealed) attributes_reveal(false);
	attempt.revealed = false;
	if (stopped) threads_resume();
	core_phase(ABI_PHASE_RUN);
	attempt.state = IDLE;
	attempt.cancelled = 0;
	if (!stopped) return;
	struct abi_resumed r = { stall };
	core_send(ABI_RESUMED, attempt.epoch, &r, sizeof r);
	core_fault(ABI_FAULT_RANK_RESUMED);
}

static void send_image(const struct image_result *r, uint64_t drain_ns)
{
	struct abi_image m = { .status = (uint32_t)r->status,
			       .nfiles = r->nfiles,
			       .bytes = r->bytes,
			       .logical_bytes = r->logical,
			       .stop_ns = attempt.stop_ns,
			       .drain_ns = drain_ns,
			       .write_ns = r->write_ns,
			       .table_crc = r->table_crc };
	wire_send(ABI_IMAGE, attempt.epoch, &m, sizeof m, r->error, r->status ? strlen(r->error) : 0);
}

void core_checkpoint_failed(const char *why)
{
	static struct image_result r;
	r.status = 1;
	core_ellipsis(r.error, sizeof r.error, snprintf(r.error, sizeof r.error, "%s", why));
	send_image(&r, 0);
	attempt.failed_early = true;
}

/* On the carrier. */
static void write_image(struct image_result *r)
{
	struct image_job job = { .drain = &attempt.drain,
				 .writers = attempt.drain.writers ? attempt.drain.writers : wire.writers,
				 .sections = sections_all,
				 .save = sections_save,
				 .describe = sections_describe,
				 .given_up = core_cancelled };
	image_write(&job, r);
}

/* On the carrier. */
static void work(void *arg)
{
	(void)arg;
	static struct image_result r;
	uint64_t t = now_ns();
	memset(&r, 0, sizeof r);
	attempt.failed_early = false;
	core_phase(ABI_PHASE_DRAINING);
	if (core_client->quiesce(r.error, sizeof r.error)) r.status = 1;
	uint64_t drain_ns = now_ns() - t;
	core_fault(ABI_FAULT_RANK_DRAINED);
	core_phase(ABI_PHASE_WRITING);
	if (!r.status && attempt.cancelled) {
		r.status = 1;
		snprintf(r.error, sizeof r.error, "given up");
	}
	if (!r.status) write_image(&r);
	attempt.image_ok = !r.status;
	if (attempt.image_ok) core_page()->checkpoints++;
	if (!attempt.failed_early) send_image(&r, drain_ns);
	core_fault(ABI_FAULT_RANK_IMAGE);
	if (attempt.image_ok && (attempt.drain.flags & ABI_DRAIN_EXIT_AFTER) && !attempt.cancelled)
		core_debug("image is written; waiting for the end");
	core_client->resume();
	__atomic_store_n(&attempt.work_done, 1, __ATOMIC_SEQ_CST);
	wire_wake();
}

static void message(void);

/* While threads are being stopped: the agent may change its mind, a thread may need a donor. */
static bool give_up(void)
{
	cross_donor_wanted();
	while (wire.sock >= 0 && !attempt.cancelled && wire_receive(MSG_DONTWAIT)) message();
	return attempt.cancelled || wire.sock < 0;
}

/* droppable: what is refused can be left out of the image. The last `passing` refusals may be none in a
 * moment. */
static void say_stopped(struct buf *refusals, unsigned n, unsigned passing, bool droppable)
{
	if (n && core_config.policy_drop && droppable) {
		core_say("not in the image:\n%.*s", (int)refusals->n, refusals->p);
		refusals->n = n = passing = 0;
	}
	struct buf all = { 0 };                         /* first what no policy drops and no time heals */
	char why[256];
	if (core_client->refuse && core_client->refuse(why, sizeof why)) {
		buf_line(&all, "%s", why);
		n++;
	}
	if (refusals->n) buf_add(&all, refusals->p, refusals->n);
	if (core_memory_failed()) {
		buf_free(&all);
		buf_line(&all, "pid %d: there is no memory for the list of what is to be saved",
			 core_self.pid);
		n = 1;
		passing = 0;
	}
	struct abi_stopped m = {
		.stop_ns = attempt.stop_ns, .nthreads = threads_count(), .nrefusals = n, .npassing = passing
	};
	core_fault(ABI_FAULT_RANK_STOPPED);
	while (all.n > ABI_MAX_BODY - sizeof m) /* whole lines: the agent says how many are missing */
		do all.n--; while (all.n && all.p[all.n - 1] != '\n');
	wire_send(ABI_STOPPED, attempt.epoch, &m, sizeof m, all.p, n ? all.n : 0);
	buf_free(&all);
}

/* Stops all threads, at a moment without child processes if there is one soon: children end while the threads
 * run on, which still hold in front of collectives. Returns which thread cannot be stopped, or NULL. */
static const char *stop_threads(void)
{
	enum { CHILD_WAIT_NS = 1000000000 };
	for (uint64_t until = now_ns() + CHILD_WAIT_NS; ; ) {
		__atomic_store_n(&BY_CTLP->stop, 1, __ATOMIC_SEQ_CST);
		const char *why = threads_stop(give_up);
		if (why || attempt.cancelled || wire.sock < 0 || now_ns() >= until || !fds_children(NULL))
			return why;
		__atomic_store_n(&BY_CTLP->stop, 0, __ATOMIC_SEQ_CST);
		threads_resume();
		fds_wait_for_child(wire.sock);
		if (give_up()) return NULL;
	}
}

static void stop(void)
{
	struct inspection i = { 0 };
	core_phase(ABI_PHASE_STOPPING);
	attempt.stop_begun = now_ns();
	attempt.state = STOPPED;
	const char *why = stop_threads();
	if (attempt.cancelled || wire.sock < 0) {
		go_on(ABI_CANCEL);
		return;
	}
	attempt.stop_ns = now_ns() - attempt.stop_begun;
	core_memory_begin();
	shared_begin();
	if (why) {
		buf_line(&i.refusals, "%s", why);
		i.n = 1;
	} else {
		attributes_reveal(true);
		attempt.revealed = true;
		attributes_inspect(&i.refusals, &i.n);
		still_inspect(&i.refusals, &i.n);
		carrier_do(inspect, &i);
		attempt.inspected = true;
		shared_report(attempt.epoch);
		i.passing = fds_children(&i.refusals);
	}
	say_stopped(&i.refusals, i.n + i.passing, i.passing, !why);
	buf_free(&i.refusals);
}

static void request(void)
{
	attempt.epoch = wire.in.epoch;
	attempt.cancelled = 0;
	attempt.state = PENDING;
	core_fault(ABI_FAULT_RANK_REQUESTED);
	core_phase(ABI_PHASE_PENDING);
	set_pending(1);
	core_client->message(&wire.in, wire.body);
}

static void settle(void *unused)
{
	(void)unused;
	fds_settle();
}

static void drain(void)
{
	if (wire.in.length < sizeof attempt.drain) return;
	memcpy(&attempt.drain, wire.body, sizeof attempt.drain);
	attempt.drain.dir[sizeof attempt.drain.dir - 1] = 0;
	attempt.work_done = attempt.order = 0;
	attempt.state = WORKING;
	carrier_do(settle, NULL);
	carrier_run(work, NULL);
}

static void end(void)
{
	core_page()->exit_code = ABI_EXIT_STOPPED;
	core_phase(ABI_PHASE_ENDED);
	raw(SYS_exit_group, ABI_EXIT_STOPPED);
}

/* In HELD. */
static void obey(void)
{
	if (attempt.order == ABI_EXIT) end();
	if (attempt.order == ABI_RESUME) go_on(ABI_RESUME);
}

static void terminate(void)
{
	wire.ending = 1;
	raw(SYS_kill, core_self.pid, SIGTERM);
}

/* A packet for another attempt than the one under way is late: ignored, but for a new REQUEST. */
static void message(void)
{
	bool current = wire.in.epoch == attempt.epoch;
	switch (wire.in.type) {
	case ABI_REQUEST: if (attempt.state == IDLE) request(); break;
	case ABI_TARGETS:
		if (attempt.state == PENDING && current) core_client->message(&wire.in, wire.body);
		break;
	case ABI_STOP: if (attempt.state == PENDING && current) stop(); break;
	case ABI_SHARED:
		if (attempt.state == STOPPED && current) shared_told(wire.body, wire.in.length);
		break;
	case ABI_DRAIN: if (attempt.state == STOPPED && current) drain(); break;
	case ABI_CANCEL:
		if (!current) break;
		attempt.cancelled = 1;
		if (attempt.state == PENDING || attempt.state == HELD) go_on(ABI_CANCEL);
		break;
	case ABI_RESUME:
		if (!current || (attempt.state != HELD && attempt.state != WORKING)) break;
		attempt.order = ABI_RESUME;
		if (attempt.state == HELD) obey();
		break;
	case ABI_EXIT:
		if (!current) break;
		attempt.order = ABI_EXIT;
		if (attempt.state != WORKING) end();
		break;
	case ABI_END: terminate(); break;
	}
}

static void after_work(void)
{
	attempt.work_done = 0;
	if (attempt.order == ABI_EXIT) end();
	bool hold = attempt.image_ok && ((attempt.drain.flags & ABI_DRAIN_EXIT_AFTER) || shared_hold()) &&
		    !attempt.cancelled && wire.sock >= 0;
	if (!hold) {
		go_on(ABI_RESUME);
		return;
	}
	attempt.state = HELD;
	obey();
}

/* Who started the job is gone, and the job goes with it: not every launcher sees to that. */
static void agent_lost(void)
{
	enum { PATIENCE_NS = 2000000000 };
	attempt.cancelled = 1;
	if (attempt.state == PENDING || attempt.state == STOPPED || attempt.state == HELD) go_on(ABI_CANCEL);
	if (!wire.hung_up) return;
	raw(SYS_kill, core_self.pid, SIGTERM);
	wire.hung_up = false;
	attempt.dies_at = now_ns() + PATIENCE_NS;
}

static void *helper(void *arg)
{
	(void)arg;
	lower_thread_here();
	own_descriptors();
	__atomic_store_n(&attempt.ready, 1, __ATOMIC_SEQ_CST);
	futex_wake(&attempt.ready, 1);
	while (!attempt.listening) futex_wait(&attempt.listening, 0);
	if (wire.end_came) terminate();
	for (;;) {
		struct pollfd p[2] = { { .fd = wire.wake, .events = POLLIN },
				       { .fd = wire.sock, .events = POLLIN } };
		poll(p, 2, attempt.state == PENDING ? 5 : attempt.dies_at ? 100 : -1);
		if (attempt.dies_at && now_ns() > attempt.dies_at) raw(SYS_kill, core_self.pid, SIGKILL);
		uint64_t n;
		if ((p[0].revents & POLLIN) && read(wire.wake, &n, sizeof n) < 0 && errno != EAGAIN)
			core_say("waiting for its agent: eventfd: %s", strerror(errno));
		cross_donor_wanted();
		if (__atomic_exchange_n(&wire.asked, 0, __ATOMIC_SEQ_CST))
			core_send(ABI_TERMINATE, 0, NULL, 0);
		if (wire.sock >= 0 && p[1].revents && wire_receive(MSG_DONTWAIT)) message();
		if (wire.sock < 0 && attempt.state != WORKING && (attempt.state != IDLE || wire.hung_up))
			agent_lost();
		if (attempt.work_done) after_work();
		if (attempt.state == STOPPED && attempt.cancelled) go_on(ABI_CANCEL);
		if (attempt.state == PENDING) core_client->tick();
	}
	return NULL;
}

/* -- start ----------------------------------------------------------------------------------------------- */

void helper_start(void)
{
	pthread_t t;
	static struct core_begin room;
	int err = core_thread(&t, &room, 1 << 20, helper, NULL);
	if (err) core_die("cannot make the helper thread: %s", strerror(err));
	while (!attempt.ready) futex_wait(&attempt.ready, 0);   /* then no end of a pipe is open there that
								 * the application has closed */
	if (core_config.stderr_fd >= 0) close(core_config.stderr_fd);
}

void helper_listen(void)
{
	__atomic_store_n(&attempt.listening, 1, __ATOMIC_SEQ_CST);
	futex_wake(&attempt.listening, 1);
}
