/* agent.c: the helper thread: speaks with the agent and leads this rank through a checkpoint.
 *
 *   IDLE --REQUEST--> PENDING --STOP--> (threads park) STOPPED --DRAIN--> WORKING --image--> IDLE, or HELD --EXIT--> end
 *                                                                                              or HELD --RESUME--> IDLE
 *                     any --CANCEL, agent lost--> IDLE;   any but WORKING --EXIT--> end
 * Only the helper thread changes the state. The work on the image is the carrier's; the helper stays with the socket
 * meanwhile, so that the work can be given up.
 * Context: helper thread, ordinary lower code, all signals blocked. core_send: any lower thread. agent_wake: [any FS]. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
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
	bool hung_up;                   /* the agent is gone */
	uint64_t dies_at;               /* then, and SIGTERM has not ended this process: when something else does */
	volatile uint32_t asked, ending; /* a SIGTERM is held back; none is held back any more */
	uint32_t writers;
	struct abi_drain drain;
	bool revealed;                  /* attributes.c */
	bool image_ok, failed_early;    /* the carrier's: the failure has been reported before the work was over */
	bool inspected;                 /* records of descriptors are there */
	volatile uint32_t ready;        /* the helper has a table of descriptors of its own */
	uint16_t order;                 /* EXIT or RESUME that came before the work was over */
	int file;                       /* descriptor that came with the last packet, or -1 */
	struct abi_header in;
	char body[ABI_MAX_BODY];
} a = { .sock = -1, .wake = -1, .file = -1 };
static struct abi_page own_page, *page = &own_page;

struct abi_page *core_page(void) { return page; }
int core_cancelled(void) { return a.cancelled != 0; }

/* -- messages ------------------------------------------------------------------------------------------------------------ */

/* file: a descriptor that goes with it, or -1. */
static int send_packet(struct iovec *v, size_t nv, int file)
{
	union { struct cmsghdr h; char room[CMSG_SPACE(sizeof(int))]; } c = { .h = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct msghdr msg = { .msg_iov = v, .msg_iovlen = nv };
	ssize_t r;
	if (file >= 0) {
		memcpy(CMSG_DATA(&c.h), &file, sizeof file);
		msg.msg_control = &c;
		msg.msg_controllen = sizeof c;
	}
	do r = sendmsg(a.sock, &msg, MSG_NOSIGNAL); while (r < 0 && errno == EINTR);
	return r < 0 ? -1 : 0;
}

static int send_two(uint16_t type, uint64_t epoch, const void *body, size_t n, const void *text, size_t m)
{
	if (a.sock < 0) return -1;
	if (n + m > ABI_MAX_BODY) m = ABI_MAX_BODY - n;
	struct abi_header h = { .magic = ABI_MAGIC, .version = ABI_VERSION, .type = type, .rank = (uint32_t)core_job.rank,
				.epoch = epoch, .length = (uint32_t)(n + m) };
	struct iovec v[3] = { { &h, sizeof h }, { (void *)body, n }, { (void *)text, m } };
	return send_packet(v, 3, -1);
}

int core_send(uint16_t type, uint64_t epoch, const void *body, size_t len) { return send_two(type, epoch, body, len, NULL, 0); }

void agent_failed(const char *sentence) { send_two(ABI_FAILED, 0, sentence, strlen(sentence), NULL, 0); }

void core_reason(const char *sentence) { send_two(ABI_REASON, 0, sentence, strlen(sentence), NULL, 0); }

/* [any FS] For a process that is about to end. */
void agent_last_words(const char *text, size_t n)
{
	struct abi_header h = { .magic = ABI_MAGIC, .version = ABI_VERSION, .type = ABI_REASON, .rank = (uint32_t)core_job.rank, .length = (uint32_t)n };
	struct iovec v[2] = { { &h, sizeof h }, { (void *)text, n } };
	struct msghdr msg = { .msg_iov = v, .msg_iovlen = 2 };
	if (a.sock >= 0) raw(SYS_sendmsg, a.sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* [any FS] Somebody asks this process to end. True: the agent will hear of it, and decides. */
bool agent_asked_to_end(void)
{
	if (a.sock < 0 || a.ending) return false;
	a.asked = 1;
	agent_wake();
	return true;
}

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
	union { struct cmsghdr h; char room[CMSG_SPACE(sizeof(int))]; } c;
	struct msghdr msg = { .msg_iov = v, .msg_iovlen = 2, .msg_control = &c, .msg_controllen = sizeof c };
	ssize_t n = recvmsg(a.sock, &msg, flags | MSG_CMSG_CLOEXEC);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
	if (a.file >= 0) close(a.file);
	a.file = -1;
	if (n > 0 && msg.msg_controllen >= CMSG_LEN(sizeof(int)) && c.h.cmsg_type == SCM_RIGHTS) memcpy(&a.file, CMSG_DATA(&c.h), sizeof a.file);
	bool good = n >= (ssize_t)sizeof a.in && a.in.magic == ABI_MAGIC && a.in.version == ABI_VERSION &&
		a.in.length == (size_t)n - sizeof a.in;
	if (good) return true;
	if (n > 0) core_say("agent: a damaged message of %zd bytes; going on without checkpoints", n);
	a.hung_up = n <= 0;
	shutdown(a.sock, SHUT_RDWR);                    /* there is another descriptor of it, in the application's table */
	close(a.sock);
	a.sock = -1;
	return false;
}

/* At a restart: the helper thread does not run yet. */
int agent_hand(unsigned what, uint64_t dev, uint64_t inode, int file)
{
	struct abi_header h = { .magic = ABI_MAGIC, .version = ABI_VERSION, .type = ABI_HAND, .rank = (uint32_t)core_job.rank,
				.length = sizeof(struct abi_hand) };
	struct abi_hand b = { .what = what, .dev = dev, .inode = inode }, *got = (void *)a.body;
	struct iovec v[2] = { { &h, sizeof h }, { &b, sizeof b } };
	if (a.sock < 0) core_die("the image shares something with other ranks, and there is no agent to reach them");
	if (send_packet(v, 2, file)) core_die("agent: %s", strerror(errno));
	if (what == ABI_HAND_GIVE) return -1;
	do {
		while (a.sock >= 0 && !receive(0)) ;
		if (a.sock < 0) core_die("agent: it hung up while this rank waited for others");
	} while (a.in.type != ABI_HANDED || a.in.length < sizeof b || got->what != what || got->dev != dev || got->inode != inode);
	int fd = a.file;
	a.file = -1;
	return fd;
}

/* -- a checkpoint ------------------------------------------------------------------------------------------------------------ */

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
}

static void let_go(void *none)
{
	(void)none;
	fds_release();
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
	if (a.inspected) carrier_do(let_go, NULL);
	a.inspected = false;
	if (a.revealed) attributes_reveal(false);
	a.revealed = false;
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
	while (a.sock >= 0 && !a.cancelled && receive(MSG_DONTWAIT)) message();
	return a.cancelled || a.sock < 0;
}

/* droppable: what is refused can be left out of the image. The last `passing` refusals may be none in a moment. */
static void say_stopped(struct buf *refusals, unsigned n, unsigned passing, bool droppable)
{
	if (n && core_config.policy_drop && droppable) {
		core_say("not in the image:\n%.*s", (int)refusals->n, refusals->p);
		refusals->n = n = passing = 0;
	}
	struct buf all = { 0 };                         /* first what no policy drops and no time heals */
	char why[256];
	if (core_client->refuse && core_client->refuse(why, sizeof why)) {
		buf_printf(&all, "%s\n", why);
		n++;
	}
	if (refusals->n) buf_add(&all, refusals->p, refusals->n);
	if (core_memory_failed()) {
		buf_free(&all);
		buf_printf(&all, "pid %d: there is no memory for the list of what is to be saved\n", core_self.pid);
		n = 1;
		passing = 0;
	}
	struct abi_stopped m = { .stop_ns = a.stop_ns, .nthreads = threads_count(), .nrefusals = n, .npassing = passing };
	core_fault(ABI_FAULT_RANK_STOPPED);
	send_two(ABI_STOPPED, a.epoch, &m, sizeof m, all.p, n ? all.n : 0);
	buf_free(&all);
}

/* Stops all threads, at a moment without child processes if there is one soon: children end while the threads run on,
 * which still hold in front of collectives. Returns which thread cannot be stopped, or NULL. */
static const char *stop_threads(void)
{
	enum { CHILD_WAIT_NS = 1000000000 };
	for (uint64_t until = now_ns() + CHILD_WAIT_NS; ; ) {
		__atomic_store_n(&BY_CTLP->stop, 1, __ATOMIC_SEQ_CST);
		const char *why = threads_stop(give_up);
		if (why || a.cancelled || a.sock < 0 || now_ns() >= until || !fds_children(NULL)) return why;
		__atomic_store_n(&BY_CTLP->stop, 0, __ATOMIC_SEQ_CST);
		threads_resume();
		fds_wait_for_child(a.sock);
		if (give_up()) return NULL;
	}
}

static void stop(void)
{
	struct inspection i = { 0 };
	core_phase(ABI_PHASE_STOPPING);
	a.stop_begun = now_ns();
	a.state = STOPPED;
	const char *why = stop_threads();
	if (a.cancelled || a.sock < 0) {
		go_on(ABI_CANCEL);
		return;
	}
	a.stop_ns = now_ns() - a.stop_begun;
	core_memory_begin();
	shared_begin();
	if (why) {
		buf_printf(&i.refusals, "%s\n", why);
		i.n = 1;
	} else {
		attributes_reveal(true);
		a.revealed = true;
		attributes_inspect(&i.refusals, &i.n);
		carrier_do(inspect, &i);
		a.inspected = true;
		shared_report(a.epoch);
		i.passing = fds_children(&i.refusals);
	}
	say_stopped(&i.refusals, i.n + i.passing, i.passing, !why);
	buf_free(&i.refusals);
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

static void settle(void *unused)
{
	(void)unused;
	fds_settle();
}

static void drain(void)
{
	if (a.in.length < sizeof a.drain) return;
	memcpy(&a.drain, a.body, sizeof a.drain);
	a.drain.dir[sizeof a.drain.dir - 1] = 0;
	a.work_done = a.order = 0;
	a.state = WORKING;
	carrier_do(settle, NULL);
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
	case ABI_SHARED: if (a.state == STOPPED && current) shared_told(a.body, a.in.length); break;
	case ABI_DRAIN: if (a.state == STOPPED && current) drain(); break;
	case ABI_CANCEL:
		if (!current) break;
		a.cancelled = 1;
		if (a.state == PENDING || a.state == HELD) go_on(ABI_CANCEL);
		break;
	case ABI_RESUME:
		if (!current || (a.state != HELD && a.state != WORKING)) break;
		a.order = ABI_RESUME;
		if (a.state == HELD) obey();
		break;
	case ABI_EXIT:
		if (!current) break;
		a.order = ABI_EXIT;
		if (a.state != WORKING) end();
		break;
	case ABI_END:
		a.ending = 1;
		raw(SYS_kill, core_self.pid, SIGTERM);
		break;
	}
}

static void after_work(void)
{
	a.work_done = 0;
	if (a.order == ABI_EXIT) end();
	bool hold = a.image_ok && ((a.drain.flags & ABI_DRAIN_EXIT_AFTER) || shared_hold()) && !a.cancelled && a.sock >= 0;
	if (!hold) {
		go_on(ABI_RESUME);
		return;
	}
	a.state = HELD;
	obey();
}

/* Who started the job is gone, and the job goes with it: not every launcher sees to that. */
static void agent_lost(void)
{
	enum { PATIENCE_NS = 2000000000 };
	a.cancelled = 1;
	if (a.state == PENDING || a.state == STOPPED || a.state == HELD) go_on(ABI_CANCEL);
	if (!a.hung_up) return;
	raw(SYS_kill, core_self.pid, SIGTERM);
	a.hung_up = false;
	a.dies_at = now_ns() + PATIENCE_NS;
}

static void *helper(void *arg)
{
	(void)arg;
	lower_thread_here();
	own_descriptors();
	__atomic_store_n(&a.ready, 1, __ATOMIC_SEQ_CST);
	futex_wake(&a.ready, 1);
	for (;;) {
		struct pollfd p[2] = { { .fd = a.wake, .events = POLLIN }, { .fd = a.sock, .events = POLLIN } };
		poll(p, 2, a.state == PENDING ? 5 : a.dies_at ? 100 : -1);
		if (a.dies_at && now_ns() > a.dies_at) raw(SYS_kill, core_self.pid, SIGKILL);
		uint64_t n;
		if ((p[0].revents & POLLIN) && read(a.wake, &n, sizeof n) < 0 && errno != EAGAIN) core_say("agent: eventfd: %s", strerror(errno));
		cross_donor_wanted();
		if (__atomic_exchange_n(&a.asked, 0, __ATOMIC_SEQ_CST)) core_send(ABI_TERMINATE, 0, NULL, 0);
		if (a.sock >= 0 && p[1].revents && receive(MSG_DONTWAIT)) message();
		if (a.sock < 0 && a.state != WORKING && (a.state != IDLE || a.hung_up)) agent_lost();
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
	static struct core_begin room;
	int err = core_thread(&t, &room, 1 << 20, helper, NULL);
	if (err) core_die("cannot make the helper thread: %s", strerror(err));
	while (!a.ready) futex_wait(&a.ready, 0);       /* then no end of a pipe is open there that the application has closed */
	if (core_config.stderr_fd >= 0) close(core_config.stderr_fd);
}
