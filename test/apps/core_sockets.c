/* test_doc: socket pairs: empty packets, descriptors in flight, credentials, halves that are shut down, options, peers that are gone. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include "ask.h"

enum { MOMENTS = 3 };

/* -- packets ------------------------------------------------------------------------------------------------------- */

/* What is sent and received in turn: many of them are empty, at both ends of the queue too. */
static const char *const texts[] = { "", "one", "", "", "two", "three and more", "", "four", "" };
enum { NTEXTS = sizeof texts / sizeof *texts, START = 5 };

struct line { int from, to, sent, taken; };

static void say(struct line *l)
{
	const char *s = texts[l->sent++ % NTEXTS];
	expect(send(l->from, s, strlen(s), 0) == (ssize_t)strlen(s), "send");
}

static void hear(struct line *l)
{
	char b[100];
	const char *s = texts[l->taken++ % NTEXTS];
	ssize_t n = recv(l->to, b, sizeof b, MSG_DONTWAIT);
	if (n == (ssize_t)strlen(s) && !memcmp(b, s, strlen(s))) return;
	wrong++;
	printf("wrong: packet %d: found %zd bytes, want \"%s\"\n", l->taken - 1, n, s);
}

static void packets(const char *file, int type)
{
	int s[2];
	char c;
	expect(socketpair(AF_UNIX, type, 0, s) == 0, "socketpair");
	struct line l[2] = { { s[0], s[1], 0, 0 }, { s[1], s[0], 0, 0 } };
	for (int d = 0; d < 2; d++)
		for (int i = 0; i < START + d; i++) say(&l[d]);
	for (int i = 0; i < 2 * MOMENTS; i++) {         /* all remainders of the table come to the front once */
		if (i % 2 == 0) moment(file);
		for (int d = 0; d < 2; d++) hear(&l[d]), say(&l[d]);
	}
	for (int d = 0; d < 2; d++) {
		while (l[d].taken < l[d].sent) hear(&l[d]);
		expect(recv(l[d].to, &c, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN, "nothing more");
	}
	printf("packets of type %d: %d and %d\n", type, l[0].taken, l[1].taken);
	close(s[0]), close(s[1]);
}

/* Packets of one that has closed its end, or shut it down: they are read, and then the end is. */
static void last_words(const char *file, int type, int closed)
{
	int s[2];
	char b[100];
	expect(socketpair(AF_UNIX, type, 0, s) == 0, "socketpair");
	expect(send(s[0], "last", 4, 0) == 4 && (type == SOCK_STREAM || send(s[0], "", 0, 0) == 0) && send(s[0], "words", 5, 0) == 5, "send");
	if (closed) close(s[0]);
	else expect(shutdown(s[0], SHUT_WR) == 0, "shutdown");
	moment(file);
	if (type == SOCK_STREAM) {
		expect(recv(s[1], b, sizeof b, 0) == 9 && !memcmp(b, "lastwords", 9), "last words");
	} else {
		expect(recv(s[1], b, sizeof b, 0) == 4 && recv(s[1], b, sizeof b, 0) == 0, "last");
		expect(recv(s[1], b, sizeof b, 0) == 5 && !memcmp(b, "words", 5), "words");
	}
	expect(recv(s[1], b, sizeof b, 0) == 0, "the end");
	ssize_t n = send(s[1], "x", 1, MSG_NOSIGNAL);
	expect(closed ? n < 0 && errno == EPIPE : n == 1, "answer");
	if (!closed) expect(send(s[0], "x", 1, MSG_NOSIGNAL) < 0 && errno == EPIPE && recv(s[0], b, 1, 0) == 1, "half shut down");
	if (!closed) close(s[0]);
	close(s[1]);
}

/* -- descriptors in flight ------------------------------------------------------------------------------------------- */

static void pass(int s, const char *text, const int *fd, int n)
{
	union { struct cmsghdr h; char room[CMSG_SPACE(8 * sizeof(int))]; } c;
	struct iovec v = { (void *)text, strlen(text) };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = CMSG_LEN((size_t)n * sizeof(int)) };
	c.h = (struct cmsghdr){ .cmsg_len = m.msg_controllen, .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(&c.h), fd, (size_t)n * sizeof(int));
	expect(sendmsg(s, &m, 0) == (ssize_t)strlen(text), "sendmsg");
}

/* Returns how many descriptors came. */
static int take(int s, char *text, size_t room, int *fd, int *pid)
{
	union { struct cmsghdr h; char room[512]; } c;
	struct iovec v = { text, room };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof c };
	ssize_t k = recvmsg(s, &m, MSG_DONTWAIT);
	int n = 0;
	expect(k >= 0, "recvmsg");
	text[k < 0 ? 0 : k] = 0;
	for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); k >= 0 && h; h = CMSG_NXTHDR(&m, h)) {
		if (h->cmsg_type == SCM_RIGHTS) {
			n = (int)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
			memcpy(fd, CMSG_DATA(h), (size_t)n * sizeof(int));
		} else if (h->cmsg_type == SCM_CREDENTIALS && pid) {
			*pid = ((struct ucred *)CMSG_DATA(h))->pid;
		}
	}
	return n;
}

static int open_descriptors(void)
{
	int n = 0;
	for (int fd = 0; fd < 1024; fd++) n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* A deleted file, a pipe's end and a socket's are in messages only; one is here as well; one carries another. */
static void in_flight(const char *file, int type)
{
	int s[2], p[2], inner[2], got[8], before;
	char b[200], name[] = "/tmp/core_sockets.XXXXXX";
	expect(socketpair(AF_UNIX, type, 0, s) == 0 && pipe(p) == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET, 0, inner) == 0, "pairs");
	int gone = mkstemp(name), here = open("/dev/null", O_WRONLY), both = open("/etc/passwd", O_RDONLY);
	expect(unlink(name) == 0 && write(gone, "content", 7) == 7 && lseek(gone, 3, SEEK_SET) == 3 && lseek(both, 5, SEEK_SET) == 5, "files");
	expect(write(p[1], "in the pipe", 11) == 11 && send(inner[1], "", 0, 0) == 0, "write");
	pass(inner[1], "deep", &gone, 1);
	expect(send(s[0], "before", 6, 0) == 6, "send");
	pass(s[0], "first", (int[]){ p[0], inner[0], both }, 3);
	pass(s[0], "second", (int[]){ p[1], inner[1] }, 2);
	expect(send(s[0], "after", 5, 0) == 5, "send");
	close(p[0]), close(p[1]), close(inner[0]), close(inner[1]), close(gone);
	before = open_descriptors();
	for (int i = 0; i < MOMENTS; i++) moment(file);
	expect(open_descriptors() == before, "number of descriptors");
	if (type == SOCK_STREAM) {
		expect(recv(s[1], b, 6, 0) == 6 && !memcmp(b, "before", 6), "text without descriptors");
		expect(take(s[1], b, sizeof b - 1, got, NULL) == 3 && !strcmp(b, "first"), "three descriptors");
		expect(take(s[1], b, 3, got + 3, NULL) == 2 && !strcmp(b, "sec"), "two descriptors");
		expect(take(s[1], b, sizeof b - 1, got + 5, NULL) == 0 && !strcmp(b, "ondafter"), "rest");
	} else {
		expect(take(s[1], b, sizeof b - 1, got, NULL) == 0 && !strcmp(b, "before"), "text without descriptors");
		expect(take(s[1], b, sizeof b - 1, got, NULL) == 3 && !strcmp(b, "first"), "three descriptors");
		expect(take(s[1], b, sizeof b - 1, got + 3, NULL) == 2 && !strcmp(b, "second"), "two descriptors");
		expect(take(s[1], b, sizeof b - 1, got + 5, NULL) == 0 && !strcmp(b, "after"), "text without descriptors");
	}
	expect(lseek(both, 2, SEEK_CUR) == 7 && lseek(got[2], 0, SEEK_CUR) == 7, "shared offset");
	expect(read(got[0], b, sizeof b) == 11 && !memcmp(b, "in the pipe", 11), "the pipe");
	expect(write(got[3], "x", 1) == 1 && read(got[0], b, sizeof b) == 1, "the pipe's other end");
	expect(recv(got[1], b, sizeof b, 0) == 0 && take(got[1], b, sizeof b - 1, got + 5, NULL) == 1 && !strcmp(b, "deep"), "a socket that was in flight");
	expect(read(got[5], b, sizeof b) == 4 && !memcmp(b, "tent", 4), "a file that was in flight");
	close(got[3]);
	expect(read(got[0], b, 1) == 0, "end of the pipe");
	for (int i = 0; i < 6; i++) close(got[i]);
	close(here), close(both), close(s[0]), close(s[1]);
	printf("in flight by type %d\n", type);
}

static void credentials(const char *file)
{
	int s[2], on = 1, pid = 0, got[8];
	char b[100];
	expect(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s) == 0 && setsockopt(s[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0, "SO_PASSCRED");
	expect(send(s[0], "", 0, 0) == 0 && send(s[0], "me", 2, 0) == 2, "send");
	moment(file);
	expect(take(s[1], b, sizeof b - 1, got, &pid) == 0 && pid > 0 && !*b, "credentials with an empty packet");
	pid = 0;
	expect(take(s[1], b, sizeof b - 1, got, &pid) == 0 && pid > 0 && !strcmp(b, "me"), "credentials");
	close(s[0]), close(s[1]);
}

/* -- halves and options -------------------------------------------------------------------------------------------------- */

static int events(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP };
	return poll(&p, 1, 0) < 0 ? -1 : p.revents;
}

static void halves(const char *file)
{
	static const int types[] = { SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM }, how[] = { SHUT_RD, SHUT_WR, SHUT_RDWR };
	int s[3][3][2], seen[3][3][2];
	for (int t = 0; t < 3; t++)
		for (int h = 0; h < 3; h++) {
			expect(socketpair(AF_UNIX, types[t], 0, s[t][h]) == 0 && shutdown(s[t][h][0], how[h]) == 0, "shutdown");
			for (int e = 0; e < 2; e++) seen[t][h][e] = events(s[t][h][e]);
		}
	for (int i = 0; i < MOMENTS; i++) moment(file);
	for (int t = 0; t < 3; t++)
		for (int h = 0; h < 3; h++) {
			char b;
			for (int e = 0; e < 2; e++) expect(events(s[t][h][e]) == seen[t][h][e], "events of a socket that is shut down");
			ssize_t w = send(s[t][h][0], "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
			expect(how[h] == SHUT_RD ? w == 1 : w < 0 && errno == EPIPE, "sending half");
			ssize_t r = recv(s[t][h][0], &b, 1, MSG_DONTWAIT);
			bool dgram = types[t] == SOCK_DGRAM;
			expect(how[h] == SHUT_WR || dgram ? r < 0 : r == 0, "receiving half");
			w = send(s[t][h][1], "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
			expect(how[h] == SHUT_WR ? w == 1 : w < 0 && errno == EPIPE, "the other's sending half");
			close(s[t][h][0]), close(s[t][h][1]);
		}
	int p[2], err = 0;                              /* a peer that left without having read all */
	socklen_t n = sizeof err;
	expect(socketpair(AF_UNIX, SOCK_STREAM, 0, p) == 0 && write(p[1], "unread", 6) == 6 && close(p[0]) == 0, "close");
	moment(file);
	expect(events(p[1]) & POLLERR, "POLLERR");
	expect(getsockopt(p[1], SOL_SOCKET, SO_ERROR, &err, &n) == 0 && err == ECONNRESET, "SO_ERROR");
	close(p[1]);
	printf("halves\n");
}

static const struct { int name, value; } plain[] = {
	{ SO_SNDBUF, 30000 }, { SO_RCVBUF, 50000 }, { SO_KEEPALIVE, 1 }, { SO_PASSCRED, 1 }, { SO_PRIORITY, 3 }, { SO_RCVLOWAT, 5 },
	{ SO_BROADCAST, 1 }, { SO_OOBINLINE, 1 }, { SO_REUSEADDR, 1 }, { SO_TIMESTAMPNS, 1 }, { SO_PEEK_OFF, 4 },
};
enum { NPLAIN = sizeof plain / sizeof *plain };

static void options(const char *file)
{
	int s[2], was[NPLAIN];
	socklen_t n;
	char b[100];
	struct timeval in = { 3, 250000 }, out = { 7, 0 }, tv;
	struct linger l = { 1, 9 }, k;
	expect(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0, "socketpair");
	for (size_t i = 0; i < NPLAIN; i++) {
		n = sizeof was[i];
		expect(setsockopt(s[1], SOL_SOCKET, plain[i].name, &plain[i].value, sizeof(int)) == 0, "setsockopt");
		expect(getsockopt(s[1], SOL_SOCKET, plain[i].name, &was[i], &n) == 0, "getsockopt");
	}
	expect(setsockopt(s[1], SOL_SOCKET, SO_RCVTIMEO, &in, sizeof in) == 0 && setsockopt(s[1], SOL_SOCKET, SO_SNDTIMEO, &out, sizeof out) == 0 &&
	       setsockopt(s[1], SOL_SOCKET, SO_LINGER, &l, sizeof l) == 0, "setsockopt");
	expect(write(s[0], "0123456789", 10) == 10, "write");
	for (int i = 0; i < MOMENTS; i++) moment(file);
	for (size_t i = 0; i < NPLAIN; i++) {
		int now = -2;
		n = sizeof now;
		expect(getsockopt(s[1], SOL_SOCKET, plain[i].name, &now, &n) == 0, "getsockopt");
		if (now == was[i]) continue;
		wrong++;
		printf("wrong: option %d: found %d, want %d\n", plain[i].name, now, was[i]);
	}
	n = sizeof tv;
	expect(getsockopt(s[1], SOL_SOCKET, SO_RCVTIMEO, &tv, &n) == 0 && tv.tv_sec == 3 && tv.tv_usec >= 250000 && tv.tv_usec < 270000, "SO_RCVTIMEO");
	expect(getsockopt(s[1], SOL_SOCKET, SO_SNDTIMEO, &tv, &n) == 0 && tv.tv_sec == 7, "SO_SNDTIMEO");
	n = sizeof k;
	expect(getsockopt(s[1], SOL_SOCKET, SO_LINGER, &k, &n) == 0 && k.l_onoff == 1 && k.l_linger == 9, "SO_LINGER");
	expect(recv(s[1], b, 3, MSG_PEEK) == 3 && !memcmp(b, "456", 3) && read(s[1], b, sizeof b) == 10, "SO_PEEK_OFF");
	close(s[0]), close(s[1]);
	printf("options\n");
}

int main(int argc, char **argv)
{
	const char *file = argc > 1 ? argv[1] : NULL;
	setvbuf(stdout, NULL, _IOLBF, 0);
	packets(file, SOCK_SEQPACKET);
	packets(file, SOCK_DGRAM);
	for (int closed = 0; closed < 2; closed++) {
		last_words(file, SOCK_STREAM, closed);
		last_words(file, SOCK_SEQPACKET, closed);
	}
	in_flight(file, SOCK_STREAM);
	in_flight(file, SOCK_SEQPACKET);
	in_flight(file, SOCK_DGRAM);
	credentials(file);
	halves(file);
	options(file);
	printf("wrong %d\n", wrong);
	return wrong != 0;
}
