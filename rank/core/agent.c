/* agent.c: the helper thread: speaks with the agent and leads this rank through a checkpoint.
 *
 *   IDLE --REQUEST--> PENDING --STOP--> (threads park) STOPPED --DRAIN--> WORKING --image--> IDLE, or HELD --EXIT--> end
 *                                                                                              or HELD --RESUME--> IDLE
 *                     any --CANCEL, agent lost--> IDLE
 * Only the helper thread changes the state. The work on the image is the carrier's; the helper stays with the socket
 * meanwhile, so that the work can be given up.
 * Context: helper thread, ordinary lower code, all signals blocked. core_send: any lower thread. agent_wake: [any FS]. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "internal.h"

enum state { IDLE, PENDING, STOPPED, WORKING, HELD };
static struct {
	volatile int sock;              /* -1: no agent */
	int wake;
	enum state state;
	uint64_t epoch, stop_begun, stop_ns;
	volatile uint32_t cancelled, work_done;
	uint32_t writers;
	struct abi_drain drain;
	bool image_ok, failed_early;    /* the carrier's: the failure has been reported before the work was over */
	uint16_t order;                 /* EXIT or RESUME that came before the work was over */
	struct abi_header in;
	char body[ABI_MAX_BODY];
} a = { .sock = -1, .wake = -1 };
static struct abi_page own_page, *page = &own_page;

struct abi_page *core_page(void) { return page; }
int core_cancelled(void) { return a.cancelled != 0; }

/* -- messages ------------------------------------------------------------------------------------------------------------ */

static int send_two(uint16_t type, uint64_t epoch, const void *body, size_t n, const void *text, size_t m)
{
	if (a.sock < 0) return -1;
	if (n + m > ABI_MAX_BODY) m = ABI_MAX_BODY - n;
	struct abi_header h = { .magic = ABI_MAGIC, .version = ABI_VERSION, .type = type, .rank = (uint32_t)core_job.rank,
				.epoch = epoch, .length = (uint32_t)(n + m) };
	struct iovec v[3] = { { &h, sizeof h }, { (void *)body, n }, { (void *)text, m } };
	struct msghdr msg = { .msg_iov = v, .msg_iovlen = 3 };
	ssize_t r;
	do r = sendmsg(a.sock, &msg, MSG_NOSIGNAL); while (r < 0 && errno == EINTR);
	return r < 0 ? -1 : 0;
}

int core_send(uint16_t type, uint64_t epoch, const void *body, size_t len) { return send_two(type, epoch, body, len, NULL, 0); }

void agent_failed(const char *sentence) { send_two(ABI_FAILED, 0, sentence, strlen(sentence), NULL, 0); }

void core_reason(const char *sentence) { send_two(ABI_REASON, 0, sentence, strlen(sentence), NULL, 0); }

void agent_restored(uint64_t read_ns, uint64_t restore_ns, uint64_t bytes)
{
	struct abi_restored r = { read_ns, restore_ns, bytes };
	core_send(ABI_RESTORED, 0, &r, sizeof r);
}

void agent_wake(void)
{
	uint64_t one = 1;
	raw(SYS_write, a.wake, &one, sizeof one);
}

/* One packet into a.in and a.body; false: nothing there, or the agent is gone (then sock is -1). */
static bool receive(int flags)
{
	struct iovec v[2] = { { &a.in, sizeof a.in }, { a.body, sizeof a.body } };
	struct msghdr msg = { .msg_iov = v, .msg_iovlen = 2 };
	ssize_t n = recvmsg(a.sock, &msg, flags);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
	bool good = n >= (ssize_t)sizeof a.in && a.in.magic == ABI_MAGIC && a.in.version == ABI_VERSION &&
		a.in.length == (size_t)n - sizeof a.in;
	if (good) return true;
	if (n > 0) core_say("agent: a damaged message of %zd bytes; going on without checkpoints", n);
	close(a.sock);
	a.sock = -1;
	return false;
}

/* -- a checkpoint ------------------------------------------------------------------------------------------------------------ */

static void set_pending(uint32_t on)
{
	__atomic_store_n(&BY_CTLP->pending, on, __ATOMIC_SEQ_CST);
	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

/* Threads go on, whatever the state. `type` is what the client is told. */
static void go_on(uint16_t type)
{
	bool stopped = a.state != PENDING && a.state != IDLE;
	struct abi_header h = { .magic = ABI_MAGIC, .version = ABI_VERSION, .type = type, .epoch = a.epoch };
	BY_CTLP->stop = 0;
	set_pending(0);
	core_client->message(&h, NULL);
	uint64_t stall = now_ns() - a.stop_begun;
	if (stopped) threads_resume();
	core_phase(ABI_PHASE_RUN);
	a.state = IDLE;
	a.cancelled = 0;
	if (!stopped) return;
	struct abi_resumed r = { stall };
	core_send(ABI_RESUMED, a.epoch, &r, sizeof r);
	core_fault(ABI_FAULT_RANK_RESUMED);
}

static void send_image(const struct image_result *r, uint64_t drain_ns)
{
	struct abi_image m = { .status = (uint32_t)r->status, .nfiles = r->nfiles, .bytes = r->bytes, .logical_bytes = r->logical,
			       .stop_ns = a.stop_ns, .drain_ns = drain_ns, .write_ns = r->write_ns, .table_crc = r->table_crc };
	send_two(ABI_IMAGE, a.epoch, &m, sizeof m, r->error, r->status ? strlen(r->error) : 0);
}

void core_checkpoint_failed(const char *why)
{
	struct image_result r = { .status = 1 };
	snprintf(r.error, sizeof r.error, "%s", why);
	send_image(&r, 0);
	a.failed_early = true;
}

/* On the carrier. */
static void work(void *arg)
{
	(void)arg;
	struct image_result r = { 0 };
	uint64_t t = now_ns();
	a.failed_early = false;
	core_phase(ABI_PHASE_DRAINING);
	if (core_client->quiesce(r.error, sizeof r.error)) r.status = 1;
	uint64_t drain_ns = now_ns() - t;
	core_fault(ABI_FAULT_RANK_DRAINED);
	core_phase(ABI_PHASE_WRITING);
	if (!r.status && a.cancelled) {
		r.status = 1;
		snprintf(r.error, sizeof r.error, "given up");
	}
	if (!r.status) image_write(&a.drain, a.drain.writers ? a.drain.writers : a.writers, &r);
	a.image_ok = !r.status;
	if (a.image_ok) page->checkpoints++;
	if (!a.failed_early) send_image(&r, drain_ns);
	core_fault(ABI_FAULT_RANK_IMAGE);
	if (a.image_ok && (a.drain.flags & ABI_DRAIN_EXIT_AFTER) && !a.cancelled) core_debug("image is written; waiting for the end");
	core_client->resume();
	__atomic_store_n(&a.work_done, 1, __ATOMIC_SEQ_CST);
	agent_wake();
}

static void message(void);

/* While threads are being stopped: the agent may change its mind, a thread may need a donor. */
static bool give_up(void)
{
	cross_donor_wanted();
	while (a.sock >= 0 && receive(MSG_DONTWAIT)) message();
	return a.cancelled || a.sock < 0;
}

static void say_stopped(struct buf *refusals, unsigned n)
{
	if (n && core_config.policy_drop) {
		core_say("not in the image:\n%.*s", (int)refusals->n, refusals->p);
		refusals->n = n = 0;
	}
	char why[256];
	if (core_client->refuse && core_client->refuse(why, sizeof why)) {
		buf_printf(refusals, "%s\n", why);
		n++;
	}
	struct abi_stopped m = { a.stop_ns, threads_count(), n };
	core_fault(ABI_FAULT_RANK_STOPPED);
	send_two(ABI_STOPPED, a.epoch, &m, sizeof m, refusals->p, n ? refusals->n : 0);
}

static void stop(void)
{
	struct buf refusals = { 0 };
	unsigned n = 0;
	core_phase(ABI_PHASE_STOPPING);
	a.stop_begun = now_ns();
	__atomic_store_n(&BY_CTLP->stop, 1, __ATOMIC_SEQ_CST);
	a.state = STOPPED;
	threads_stop(give_up);
	if (a.cancelled || a.sock < 0) {
		go_on(ABI_CANCEL);
		return;
	}
	a.stop_ns = now_ns() - a.stop_begun;
	fds_inspect(&refusals, &n);
	say_stopped(&refusals, n);
	buf_free(&refusals);
}

static void request(void)
{
	a.epoch = a.in.epoch;
	a.cancelled = 0;
	a.state = PENDING;
	core_fault(ABI_FAULT_RANK_REQUESTED);
	core_phase(ABI_PHASE_PENDING);
	set_pending(1);
	core_client->message(&a.in, a.body);
}

static void drain(void)
{
	if (a.in.length < sizeof a.drain) return;
	memcpy(&a.drain, a.body, sizeof a.drain);
	a.drain.dir[sizeof a.drain.dir - 1] = 0;
	a.work_done = a.order = 0;
	a.state = WORKING;
	carrier_run(work, NULL);
}

static void end(void)
{
	page->exit_code = ABI_EXIT_STOPPED;
	core_phase(ABI_PHASE_ENDED);
	raw(SYS_exit_group, ABI_EXIT_STOPPED);
}

/* In HELD. */
static void obey(void)
{
	if (a.order == ABI_EXIT) end();
	if (a.order == ABI_RESUME) go_on(ABI_RESUME);
}

/* A packet for another attempt than the one under way is late: ignored, but for a new REQUEST. */
static void message(void)
{
	bool current = a.in.epoch == a.epoch;
	switch (a.in.type) {
	case ABI_REQUEST: if (a.state == IDLE) request(); break;
	case ABI_TARGETS: if (a.state == PENDING && current) core_client->message(&a.in, a.body); break;
	case ABI_STOP: if (a.state == PENDING && current) stop(); break;
	case ABI_DRAIN: if (a.state == STOPPED && current) drain(); break;
	case ABI_CANCEL:
		if (!current) break;
		a.cancelled = 1;
		if (a.state == PENDING || a.state == HELD) go_on(ABI_CANCEL);
		break;
	case ABI_RESUME:
	case ABI_EXIT:
		if (!current || (a.state != HELD && a.state != WORKING)) break;
		a.order = a.in.type;
		if (a.state == HELD) obey();
		break;
	}
}

static void after_work(void)
{
	a.work_done = 0;
	bool hold = a.image_ok && (a.drain.flags & ABI_DRAIN_EXIT_AFTER) && !a.cancelled && a.sock >= 0;
	if (!hold) {
		go_on(ABI_RESUME);
		return;
	}
	a.state = HELD;
	obey();
}

static void agent_lost(void)
{
	a.cancelled = 1;
	if (a.state == PENDING || a.state == STOPPED || a.state == HELD) go_on(ABI_CANCEL);
}

static void *helper(void *arg)
{
	(void)arg;
	lower_thread_here();
	for (;;) {
		struct pollfd p[2] = { { .fd = a.wake, .events = POLLIN }, { .fd = a.sock, .events = POLLIN } };
		poll(p, 2, a.state == PENDING ? 5 : -1);
		uint64_t n;
		if ((p[0].revents & POLLIN) && read(a.wake, &n, sizeof n) < 0 && errno != EAGAIN) core_say("agent: eventfd: %s", strerror(errno));
		cross_donor_wanted();
		if (a.sock >= 0 && p[1].revents && receive(MSG_DONTWAIT)) message();
		if (a.sock < 0 && a.state != IDLE && a.state != WORKING) agent_lost();
		if (a.work_done) after_work();
		if (a.state == STOPPED && a.cancelled) go_on(ABI_CANCEL);
		if (a.state == PENDING) core_client->tick();
	}
	return NULL;
}

/* -- start ----------------------------------------------------------------------------------------------------------------------- */

/* What this program takes by itself: asked for before the MPI and the application are loaded. */
static uint64_t resident(void)
{
	char *s = slurp("/proc/thread-self/statm", NULL);
	unsigned long pages = 0;
	if (!s || sscanf(s, "%*u %lu", &pages) != 1) pages = 0;
	free(s);
	return pages * PAGE;
}

static void map_page(char *path, size_t n)
{
	path[0] = 0;
	page->magic = ABI_MAGIC;
	if (core_config.rundir) {
		snprintf(path, n, "%s/page.%d", core_config.rundir, core_job.rank);
		int fd = open(path, O_RDWR | O_CLOEXEC);
		void *p = fd < 0 ? MAP_FAILED : mmap(NULL, ABI_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (fd >= 0) close(fd);
		if (p != MAP_FAILED) page = p;
		else path[0] = 0;
	}
	*page = (struct abi_page){ .magic = ABI_MAGIC, .version = ABI_VERSION, .pid = (uint32_t)core_self.pid, .rank = (uint32_t)core_job.rank,
				   .phase_since_ns = now_ns(), .resident_added = resident() };
}

void agent_connect(void)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct abi_hello h = { .pid = (uint32_t)core_self.pid, .nranks = (uint32_t)core_job.nranks, .abi_version = ABI_VERSION,
			       .restarted = (uint32_t)core_job.restarted, .checkpoint = core_job.checkpoint, .version = BYSSUS_VERSION };
	int size = 1 << 20;
	map_page(h.page, sizeof h.page);
	syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
	a.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	a.writers = core_config.writers;
	if (!core_config.agent) return;
	if (strlen(core_config.agent) >= sizeof to.sun_path) core_die("agent: %s: the path is too long", core_config.agent);
	strcpy(to.sun_path, core_config.agent);
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (s < 0 || connect(s, (struct sockaddr *)&to, sizeof to)) core_die("agent: %s: cannot connect: %s", core_config.agent, strerror(errno));
	setsockopt(s, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
	a.sock = s;
	snprintf(h.app, sizeof h.app, "%.255s", core_self.exe);
	gethostname(h.host, sizeof h.host - 1);
	core_send(ABI_HELLO, 0, &h, sizeof h);
	while (a.sock >= 0 && !receive(0)) ;
	if (a.sock < 0) core_die("agent: %s: it hung up", core_config.agent);
	if (a.in.type == ABI_REFUSE) core_die("agent: %.*s", (int)a.in.length, a.body);
	if (a.in.type != ABI_WELCOME) core_die("agent: %s: message type %u, want WELCOME", core_config.agent, a.in.type);
	const struct abi_welcome *w = (const void *)a.body;
	if (a.in.length >= sizeof *w && w->writers) a.writers = w->writers;
}

void agent_start(void)
{
	pthread_t t;
	int err = pthread_create(&t, NULL, helper, NULL);
	if (err) core_die("cannot make the helper thread: %s", strerror(err));
}
