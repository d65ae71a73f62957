/* wire.c: packets between this rank and its agent, one at a time. What needs an answer: asked.c.
 *
 * Whoever restarts a rank or leads it through a checkpoint reads packets; any lower thread sends. Without an
 * agent sock is -1 and nothing is sent. Context: ordinary lower code; wire_wake, wire_last_words and
 * wire_asked_to_end are ANY_FS. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "core/base/agent/agent.h"

struct wire wire = { .sock = -1, .wake = -1, .file = -1 };

/* -- sending --------------------------------------------------------------------------------------------- */

int wire_packet(struct iovec *v, size_t nv, int file)
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
	return wire_packet(v, 3, -1);
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
