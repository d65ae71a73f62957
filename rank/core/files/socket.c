/* socket.c: pairs of sockets: what waits in them, their options, and which halves are shut down.
 *
 * Messages are peeked at, one after the other, by SO_PEEK_OFF. The kernel shows an empty packet that way once
 * and never again: so a queue that has some is taken out and sent anew (socket_renew), and so is a stream
 * that has descriptors. These come with each look: they get records of their own and are held until the
 * checkpoint is over. Context: saving on the carrier while the application's threads stand still; restoring
 * with one thread. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include "core/files/fds.h"

enum { ROOM = 4 << 20, MAX_FDS = 256, SO_PASSPIDFD_ = 76, MAX_MARKED = 1024 };
static char room[ROOM];                         /* touched as far as messages are long */

struct message { ssize_t n; bool real, whole; int pid, nfds, fd[MAX_FDS]; };

/* -- looking at messages --------------------------------------------------------------------------------- */

static int get(int s, int name)
{
	int v = 0;
	socklen_t n = sizeof v;
	return getsockopt(s, SOL_SOCKET, name, &v, &n) ? 0 : v;
}

static void set(int s, int name, int v) { setsockopt(s, SOL_SOCKET, name, &v, sizeof v); }

/* `real`: it is a message, as its credentials show, also when it is empty, and not the end. */
static void take_control(struct msghdr *m, struct message *out)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET) continue;
		if (c->cmsg_type == SCM_CREDENTIALS) {
			struct ucred u;
			memcpy(&u, CMSG_DATA(c), sizeof u);
			out->real = true;
			out->pid = u.pid;
		} else if (c->cmsg_type == SCM_RIGHTS) {
			out->nfds = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
			memcpy(out->fd, CMSG_DATA(c), (size_t)out->nfds * sizeof(int));
		}
	}
}

static void receive(int s, size_t len, int flags, struct message *out)
{
	union { struct cmsghdr h; char bytes[4096]; } control;
	struct iovec v = { room, len };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
	};
	*out = (struct message){ 0 };
	do out->n = recvmsg(s, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | flags);
	while (out->n < 0 && errno == EINTR);
	if (out->n < 0) return;
	out->whole = !(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
	take_control(&m, out);
}

/* From byte `at` of the queue on; -1: the first message, whatever has been seen of it before. */
static void peek(int s, int at, size_t len, struct message *out)
{
	set(s, SO_PEEK_OFF, at);
	receive(s, len, MSG_PEEK, out);
}

static void drop(struct message *m)
{
	for (int i = 0; i < m->nfds; i++) close(m->fd[i]);
	m->nfds = 0;
}

static void put_part(struct buf *b, const char *p, size_t len, const int32_t *rec, size_t n)
{
	buf_u64(b, len);
	buf_u64(b, n);
	buf_add(b, rec, n * sizeof *rec);
	buf_add(b, NULL, (8 - n * sizeof *rec % 8) % 8);
	if (len) buf_add(b, p, len);
	buf_add(b, NULL, (8 - len % 8) % 8);
}

static void put(struct buf *b, const struct message *m)
{
	int32_t rec[MAX_FDS];
	for (int i = 0; i < m->nfds; i++) rec[i] = fds_hold(m->fd[i]);
	put_part(b, room, (size_t)m->n, rec, (size_t)m->nfds);
}

static const char *packets(int s, bool shown, struct socket_look *out, uint64_t *n)
{
	struct message m;
	peek(s, -1, ROOM, &m);
	out->renew = m.n == 0 && m.real;
	if (out->renew) put(&out->saved, &m), ++*n;
	else drop(&m);
	for (int at = 0; ; at += (int)m.n, ++*n) {
		peek(s, at, ROOM, &m);
		if (m.n < 0) return errno == EAGAIN ? NULL : "whose messages cannot be looked at";
		if (!m.real) return NULL;
		if (!m.whole)
			return drop(&m), "with a message that is too long, or has descriptors for which "
					 "there is no room";
		if (shown && m.pid && m.pid != core_self.pid)
			return drop(&m), "with the credentials of another process in a message";
		if (!m.n) out->renew = true;
		put(&out->saved, &m);
	}
}

/* A look ends behind the part that has descriptors. It shows them whatever it is of the part before: where
 * theirs begins is known only when that is taken out byte by byte (renew_stream). */
static const char *stream(int s, bool shown, struct socket_look *out, uint64_t *n)
{
	struct message m;
	int queued = 0;
	ioctl(s, SIOCINQ, &queued);  /* at the end of the queue a look would take an error that waits there */
	for (int at = 0; at < queued; at += (int)m.n, ++*n) {
		peek(s, at, ROOM, &m);
		if (m.n <= 0) return drop(&m), "whose bytes cannot be looked at";
		if (!m.whole) return drop(&m), "with descriptors in messages for which there is no room";
		if (shown && m.pid && m.pid != core_self.pid)
			return drop(&m), "with the credentials of another process in a message";
		if (m.nfds && m.n > 1) out->renew = true;
		put(&out->saved, &m);
	}
	return NULL;
}

/* -- options and halves ---------------------------------------------------------------------------------- */

/* Every option that a socket of a pair keeps, by its number where the headers may not have it. Those of other
 * protocols have no meaning here; SO_ERROR, SO_TYPE and the like are not settings; a filter is refused. */
static const int names[] = {
	SO_DEBUG,
	SO_REUSEADDR,
	SO_DONTROUTE,
	SO_BROADCAST,
	SO_SNDBUF,
	SO_RCVBUF,
	SO_KEEPALIVE,
	SO_OOBINLINE,
	SO_NO_CHECK,
	SO_PRIORITY,
	SO_LINGER,
	SO_REUSEPORT,
	SO_PASSCRED,
	SO_RCVLOWAT,
	SO_RCVTIMEO,
	SO_SNDTIMEO,
	SO_TIMESTAMP,
	SO_PASSSEC,
	SO_TIMESTAMPNS,
	SO_MARK,
	SO_TIMESTAMPING,
	SO_RXQ_OVFL,
	SO_WIFI_STATUS,
	SO_NOFCS,
	SO_SELECT_ERR_QUEUE,
	SO_BUSY_POLL,
	SO_MAX_PACING_RATE,
	61 /* TXTIME */,
	63 /* TIMESTAMP_NEW */,
	64,
	65,
	69 /* PREFER_BUSY_POLL */,
	70,
	73 /* RESERVE_MEM */,
	74 /* TXREHASH */,
	SO_PASSPIDFD_,
	83 /* PASSRIGHTS */,
};

static uint64_t save_options(int s, struct buf *b)
{
	uint64_t n = 0;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char v[64];
		int32_t which[2] = { SOL_SOCKET, names[i] };
		socklen_t len = sizeof v;
		if (getsockopt(s, SOL_SOCKET, names[i], v, &len) || !len) continue;
		buf_add(b, which, sizeof which);
		buf_u64(b, len);
		buf_add(b, v, len);
		buf_add(b, NULL, (8 - len % 8) % 8);
		n++;
	}
	return n;
}

/* A bad address is found out after the half has been looked at, and before anything is sent. */
static bool may_write(int s)
{
	struct iovec v = { (void *)1, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	return sendmsg(s, &m, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 || errno != EPIPE;
}

static const char *halves(int s, int type, uint32_t *state)
{
	struct pollfd p = { .fd = s, .events = POLLRDHUP };
	poll(&p, 1, 0);
	bool both = p.revents & POLLHUP, error = p.revents & POLLERR;
	if (error && (!both || type != SOCK_STREAM)) return "with an error that waits";
	*state = (both || (p.revents & POLLRDHUP) ? SOCKET_NO_READ : 0) | (error ? SOCKET_RESET : 0);
	if (both || !may_write(s)) *state |= SOCKET_NO_WRITE;
	return NULL;
}

static const char *unusual(int s)
{
	union { struct sockaddr any; char bytes[128]; } a;
	socklen_t n = sizeof a;
	char c;
	if (getsockname(s, &a.any, &n) == 0 && n > sizeof(sa_family_t)) return "with a name";
	n = 0;
	if (getsockopt(s, SOL_SOCKET, SO_GET_FILTER, NULL, &n) ? errno == EACCES : n > 0)
		return "with a filter";
	if (recv(s, &c, 1, MSG_OOB | MSG_PEEK | MSG_DONTWAIT) > 0) return "with urgent data";
	return NULL;
}

/* -- empty packets --------------------------------------------------------------------------------------- */

static uint64_t marked[MAX_MARKED];     /* sockets whose empty packets have been seen, and could not be sent
					 * anew */
static unsigned nmarked;

static bool is_marked(uint64_t inode)
{
	for (unsigned i = 0; i < nmarked && i < MAX_MARKED; i++)
		if (marked[i] == inode) return true;
	return nmarked > MAX_MARKED;
}

static void mark(uint64_t inode)
{
	if (nmarked < MAX_MARKED) marked[nmarked] = inode;
	nmarked++;
}

static struct reader at_messages(const struct buf *saved)
{
	struct reader r = { .p = saved->p, .n = saved->n };
	struct socket_head h;
	read_bytes(&r, &h, sizeof h);
	for (uint64_t i = 0; i < h.noptions && !r.bad; i++) {
		read_u64(&r);
		read_ref(&r, read_u64(&r));
	}
	return r;
}

/* Takes so many bytes out of a stream, one by one until descriptors come; returns how many were before these.
 */
static size_t take_out(int fd, size_t len, bool one_by_one)
{
	struct message m = { 0 };
	size_t before = 0;
	for (size_t done = 0; done < len; done += (size_t)m.n) {
		receive(fd, one_by_one ? 1 : len - done < ROOM ? len - done : ROOM, 0, &m);
		if (m.n <= 0) break;
		if (m.nfds) before = done, one_by_one = false;
		drop(&m);
	}
	return before;
}

/* Takes all messages out; those of a stream are cut where their descriptors begin. */
static void take_all(int fd, int type, struct buf *saved)
{
	struct socket_head h;
	memcpy(&h, saved->p, sizeof h);
	struct reader r = at_messages(saved);
	struct buf cut = { 0 };
	buf_add(&cut, saved->p, r.at);
	uint64_t n = h.nmessages;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t len = read_u64(&r), nfds = read_u64(&r);
		const int32_t *rec = read_ref(&r, nfds * sizeof *rec);
		const char *p = read_ref(&r, len);
		struct message m;
		size_t before = type == SOCK_STREAM ? take_out(fd, len, nfds > 0) : 0;
		if (type != SOCK_STREAM) receive(fd, ROOM, 0, &m), drop(&m);
		if (before) put_part(&cut, p, before, NULL, 0), h.nmessages++;
		put_part(&cut, p + before, len - before, rec, nfds);
	}
	memcpy(cut.p, &h, sizeof h);
	buf_free(saved);
	*saved = cut;
}

/* Takes all messages out of fd, and sends them again from its peer (-1: it is gone). */
bool socket_renew(int fd, int peer, uint64_t inode, struct buf *saved, char *why, size_t n)
{
	const struct socket_head *h = (const void *)saved->p;
	uint32_t theirs = SOCKET_NO_WRITE;
	int type = get(fd, SO_TYPE);
	if (peer < 0 || halves(peer, type, &theirs) || (theirs & SOCKET_NO_WRITE) ||
	    (h->state & SOCKET_NO_READ)) {
		mark(inode);
		if (type == SOCK_STREAM)
			snprintf(why, n,
				 "socket of a pair, with descriptors in messages of a peer that sends no "
				 "more");
		return type != SOCK_STREAM;
	}
	int was = get(peer, SO_SNDBUF), cred = get(fd, SO_PASSCRED);
	set(peer, SO_SNDBUFFORCE, ROOM);
	if (get(peer, SO_SNDBUF) < was) set(peer, SO_SNDBUF, was / 2);
	set(fd, SO_PASSCRED, 1);
	take_all(fd, type, saved);
	bool ok = socket_send(peer, saved->p, saved->n, fds_held);
	if (!ok)
		snprintf(why, n, "socket of a pair, whose messages cannot be sent anew: %s", strerror(errno));
	if (!ok) core_say("fd %d: %s", fd, why);
	set(fd, SO_PASSCRED, cred);
	set(peer, SO_SNDBUFFORCE, was / 2);
	if (get(peer, SO_SNDBUF) != was) set(peer, SO_SNDBUF, was / 2);
	return ok;
}

/* -- save ------------------------------------------------------------------------------------------------ */

static const char *look(int fd, int type, struct socket_look *s)
{
	struct socket_head h = { .peek = (uint32_t)get(fd, SO_PEEK_OFF) };
	const char *wrong = unusual(fd);
	int cred = get(fd, SO_PASSCRED), pidfd = get(fd, SO_PASSPIDFD_);
	if (!wrong) wrong = halves(fd, type, &h.state);
	if (wrong) return wrong;
	buf_add(&s->saved, &h, sizeof h);
	h.noptions = save_options(fd, &s->saved);
	set(fd, SO_PASSCRED, 1);
	if (pidfd) set(fd, SO_PASSPIDFD_, 0);
	wrong = (type == SOCK_STREAM ? stream : packets)(fd, cred, s, &h.nmessages);
	set(fd, SO_PASSCRED, cred);
	if (pidfd) set(fd, SO_PASSPIDFD_, 1);
	set(fd, SO_PEEK_OFF, (int)h.peek);
	memcpy(s->saved.p, &h, sizeof h);
	return wrong;
}

bool socket_look(int fd, uint64_t inode, int type, struct socket_look *s, char *why, size_t n)
{
	const char *wrong = look(fd, type, s);
	const struct socket_head *h = (const void *)s->saved.p;
	if (!wrong && h->nmessages && is_marked(inode))
		wrong = "with empty packets of a peer that sends no more, which the kernel shows once only";
	if (wrong) snprintf(why, n, "socket of a pair, %s", wrong);
	return !wrong;
}

/* -- restore --------------------------------------------------------------------------------------------- */

static void set_option(int s, int level, int name, const void *v, socklen_t len)
{
	char now[64];
	socklen_t n = sizeof now;
	int half;
	if (getsockopt(s, level, name, now, &n) == 0 && n == len && !memcmp(now, v, len)) return;
	if (name == SO_SNDBUF || name == SO_RCVBUF) {   /* the kernel tells twice of what it was told */
		memcpy(&half, v, sizeof half);
		half /= 2;
		set(s, name == SO_SNDBUF ? SO_SNDBUFFORCE : SO_RCVBUFFORCE, half);
		if (get(s, name) / 2 != half) set(s, name, half);
	} else {
		setsockopt(s, level, name, v, len);
	}
	n = sizeof now;
	if (getsockopt(s, level, name, now, &n) || n != len || memcmp(now, v, len))
		core_say("an option of a socket (%d) cannot be set again: %s", name, strerror(errno));
}

/* Called before messages are sent, and once more after it: a send buffer may have been made smaller than what
 * was sent. */
void socket_options(int fd, const void *saved, size_t n)
{
	struct reader r = { .p = saved, .n = n };
	struct socket_head h;
	read_bytes(&r, &h, sizeof h);
	for (uint64_t i = 0; i < h.noptions && !r.bad; i++) {
		int32_t which[2];
		read_bytes(&r, which, sizeof which);
		uint64_t len = read_u64(&r);
		const void *v = read_ref(&r, len);
		if (v && len <= 64) set_option(fd, which[0], which[1], v, (socklen_t)len);
	}
}

static bool send_one(int to, const char *p, size_t len, const int *fd, size_t nfds)
{
	union { struct cmsghdr h; char bytes[CMSG_SPACE(MAX_FDS * sizeof(int))]; } c;
	struct iovec v = { (void *)p, len };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	if (nfds) {
		m.msg_control = &c;
		m.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		memset(&c, 0, sizeof c);
		c.h = (struct cmsghdr){ .cmsg_len = CMSG_LEN(nfds * sizeof(int)),
					.cmsg_level = SOL_SOCKET,
					.cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&c.h), fd, nfds * sizeof(int));
	}
	for (;;) {
		ssize_t k = sendmsg(to, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (k < 0 && errno == EINTR) continue;
		if (k < 0) return false;
		if ((size_t)k >= v.iov_len) return true;
		v.iov_base = (char *)v.iov_base + k;
		v.iov_len -= (size_t)k;
		m.msg_controllen = 0;
	}
}

bool socket_send(int to, const void *saved, size_t n, int (*fd_of)(int32_t rec))
{
	struct buf all = { .p = (char *)saved, .n = n };
	struct reader r = at_messages(&all);
	struct socket_head h;
	memcpy(&h, saved, sizeof h);
	for (uint64_t i = 0; i < h.nmessages; i++) {
		int fd[MAX_FDS];
		uint64_t len = read_u64(&r), nfds = read_u64(&r);
		const int32_t *rec = read_ref(&r, nfds * sizeof *rec);
		const char *p = read_ref(&r, len);
		if (r.bad || nfds > MAX_FDS) return errno = EBADMSG, false;
		for (uint64_t k = 0; k < nfds; k++) fd[k] = fd_of(rec[k]);
		if (!send_one(to, p, len, fd, nfds)) return false;
	}
	return true;
}

/* The last of all: what would keep messages from being sent. */
void socket_end(int fd, const void *saved, size_t n)
{
	struct socket_head h;
	memcpy(&h, saved, sizeof h);
	socket_options(fd, saved, n);
	if (h.state & SOCKET_NO_READ) shutdown(fd, SHUT_RD);
	if (h.state & SOCKET_NO_WRITE) shutdown(fd, SHUT_WR);
	set(fd, SO_PEEK_OFF, (int)h.peek);
}
