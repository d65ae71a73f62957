/* asked.c: what this rank asks its agent and waits for: to be taken, and at a restart what other ranks have.
 *
 * Nobody else reads packets at these times: the helper thread does not run yet. Context: start and restart,
 * ordinary lower code. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>
#include "core/base/agent/agent.h"

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
	if (wire_packet(v, 2, file)) core_die("its agent cannot be told: %s", strerror(errno));
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
