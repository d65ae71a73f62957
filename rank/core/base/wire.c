/* wire.c: packets between this rank and its agent.
 *
 * Whoever restarts a rank or leads it through a checkpoint reads packets; any lower thread sends. Without an
 * agent sock is -1 and nothing is sent. Context: ordinary lower code; wire_wake, wire_last_words and
 * wire_asked_to_end are ANY_FS. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "core/base/base.h"

struct wire wire = { .sock = -1, .wake = -1, .file = -1 };

/* -- sending --------------------------------------------------------------------------------------------- */

/* file: a descriptor that goes with it, or -1. */
static int send_packet(struct iovec *v, size_t nv, int file)
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int))];
	} c = { .h = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct msghdr msg = { .msg_iov = v, .msg_iovlen = nv };
	ssize_t r;
	if (file >= 0) {
		memcpy(CMSG_DATA(&c.h), &file, sizeof file);
		msg.msg_control = &c;
		msg.msg_controllen = sizeof c;
	}
	do r = sendmsg(wire.sock, &msg, MSG_NOSIGNAL); while (r < 0 && errno == EINTR);
	return r < 0 ? -1 : 0;
}

int wire_send(uint16_t type, uint64_t epoch, const void *body, size_t n, const void *text, size_t m)
{
	if (wire.sock < 0) return -1;
	if (n + m > ABI_MAX_BODY) m = ABI_MAX_BODY - n;
	struct abi_header h = { .magic = ABI_MAGIC,
				.version = ABI_VERSION,
				.type = type,
				.rank = (uint32_t)core_job.rank,
				.epoch = epoch,
				.length = (uint32_t)(n + m) };
	struct iovec v[3] = { { &h, sizeof h }, { (void *)body, n }, { (void *)text, m } };
	return send_packet(v, 3, -1);
}

int core_send(uint16_t type, uint64_t epoch, const void *body, size_t len)
{
	return wire_send(type, epoch, body, len, NULL, 0);
}

void wire_failed(uint16_t type, const char *sentence)
{
	wire_send(type, 0, sentence, strlen(sentence), NULL, 0);
}

void core_reason(const char *sentence) { wire_send(ABI_REASON, 0, sentence, strlen(sentence), NULL, 0); }

void wire_last_words(const char *text, size_t n)
{
	struct abi_header h = { .magic = ABI_MAGIC,
				.version = ABI_VERSION,
				.type = ABI_REASON,
				.rank = (uint32_t)core_job.rank,
				.length = (uint32_t)n };
	struct iovec v[2] = { { &h, sizeof h }, { (void *)text, n } };
	struct msghdr msg = { .msg_iov = v, .msg_iovlen = 2 };
	if (wire.sock >= 0) raw(SYS_sendmsg, wire.sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool wire_asked_to_end(void)
{
	if (wire.sock < 0 || wire.ending) return false;
	wire.asked = 1;
	wire_wake();
	return true;
}

void wire_wake(void)
{
	uint64_t one = 1;
	raw(SYS_write, wire.wake, &one, sizeof one);
}

/* -- receiving ------------------------------------------------------------------------------------------- */

/* One packet into wire.in and wire.body; false: nothing there, or the agent is gone (then sock is -1). */
bool wire_receive(int flags)
{
	struct iovec v[2] = { { &wire.in, sizeof wire.in }, { wire.body, sizeof wire.body } };
	union { struct cmsghdr h; char room[CMSG_SPACE(sizeof(int))]; } c;
	struct msghdr msg = { .msg_iov = v, .msg_iovlen = 2, .msg_control = &c,
			      .msg_controllen = CMSG_LEN(sizeof(int)) };      /* room for one, not two */
	ssize_t n = recvmsg(wire.sock, &msg, flags | MSG_CMSG_CLOEXEC);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
	if (wire.file >= 0) close(wire.file);
	wire.file = -1;
	if (n > 0 && msg.msg_controllen >= CMSG_LEN(sizeof(int)) && c.h.cmsg_type == SCM_RIGHTS)
		memcpy(&wire.file, CMSG_DATA(&c.h), sizeof wire.file);
	bool good = n >= (ssize_t)sizeof wire.in && wire.in.magic == ABI_MAGIC &&
		    wire.in.version == ABI_VERSION && wire.in.length == (size_t)n - sizeof wire.in;
	if (good) return true;
	if (n > 0) core_say("its agent sent a damaged message of %zd bytes; going on without checkpoints", n);
	wire.hung_up = n <= 0;
	shutdown(wire.sock, SHUT_RDWR); /* there is another descriptor of it, in the application's table */
	close(wire.sock);
	wire.sock = -1;
	return false;
}

/* Waits for an answer. At a restart: the helper thread does not run yet. */
static int handed(unsigned what, uint64_t dev, uint64_t inode)
{
	struct abi_hand *got = (void *)wire.body;
	do {
		while (wire.sock >= 0 && !wire_receive(0)) ;
		if (wire.sock < 0) core_die("its agent hung up while this rank waited for others");
		if (wire.in.type == ABI_END) wire.end_came = true;
	} while (wire.in.type != ABI_HANDED || wire.in.length < sizeof *got || got->what != what ||
		 got->dev != dev || got->inode != inode);
	int fd = wire.file;
	wire.file = -1;
	return fd;
}

int wire_hand(unsigned what, uint32_t owner, uint64_t dev, uint64_t inode, int file)
{
	struct abi_header h = { .magic = ABI_MAGIC,
				.version = ABI_VERSION,
				.type = ABI_HAND,
				.rank = (uint32_t)core_job.rank,
				.length = sizeof(struct abi_hand) };
	struct abi_hand b = { .what = what, .owner = owner, .dev = dev, .inode = inode };
	struct iovec v[2] = { { &h, sizeof h }, { &b, sizeof b } };
	if (wire.sock < 0)
		core_die("the image shares something with other ranks, and there is no agent to reach them");
	if (send_packet(v, 2, file)) core_die("its agent cannot be told: %s", strerror(errno));
	return what == ABI_HAND_GIVE ? -1 : handed(what, dev, inode);
}

void wire_claim(const struct abi_claim *c, const char *path)
{
	if (wire.sock < 0) return;      /* it is alone */
	if (wire_send(ABI_CLAIM, 0, c, sizeof *c, path, strlen(path)))
		core_die("its agent cannot be told: %s", strerror(errno));
	handed(ABI_HAND_CLAIMED, c->dev, c->inode);
}

int wire_connect(uint32_t below, uint64_t input_read)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct abi_hello h = { .pid = (uint32_t)core_self.pid,
			       .nranks = (uint32_t)core_job.nranks,
			       .abi_version = ABI_VERSION,
			       .restarted = (uint32_t)core_job.restarted,
			       .checkpoint = core_job.checkpoint,
			       .start = core_config.start,
			       .input = input_read,
			       .wants_input = core_self.began.input,
			       .version = BYSSUS_VERSION };
	int size = 1 << 20;
	snprintf(h.page, sizeof h.page, "%s", page_path());
	h.below = core_config.below && !below ? ABI_BELOW_STARTED : below;
	syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
	wire.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	wire.writers = core_config.writers;
	wire.ranks_here = (unsigned)core_job.nranks;
	if (!core_config.agent) return -1;
	if (strlen(core_config.agent) >= sizeof to.sun_path)
		core_die("the path of its agent is too long: %s", core_config.agent);
	strcpy(to.sun_path, core_config.agent);
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (s < 0 || connect(s, (struct sockaddr *)&to, sizeof to))
		core_die("its agent at %s cannot be reached: %s", core_config.agent, strerror(errno));
	setsockopt(s, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
	wire.sock = s;
	snprintf(h.app, sizeof h.app, "%.255s", core_self.exe);
	gethostname(h.host, sizeof h.host - 1);
	core_send(ABI_HELLO, 0, &h, sizeof h);
	while (wire.sock >= 0 && !wire_receive(0)) ;
	if (wire.sock < 0) core_die("its agent at %s hung up", core_config.agent);
	if (wire.in.type == ABI_REFUSE)
		core_die("its agent refuses it: %.*s", (int)wire.in.length, wire.body);
	if (wire.in.type != ABI_WELCOME)
		core_die("its agent at %s answers with message %u, wanted WELCOME",
			 core_config.agent, wire.in.type);
	const struct abi_welcome *w = (const void *)wire.body;
	if (wire.in.length >= sizeof *w && w->writers) wire.writers = w->writers;
	if (wire.in.length >= sizeof *w && w->here) wire.ranks_here = w->here;
	int input = wire.file;
	wire.file = -1;
	return input;
}
