/* client.c: one conversation with the agent for each call, over a socket whose path is in the environment.
 * Context: inside other people's processes; see client.h. The socket is closed when a call returns, so that
 * none is open when the process is stopped. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>
#include "client.h"

#define VARIABLE "BYSSUS_CLIENTS"

/* Makes room for n more bytes. */
static bool reserve(struct client_text *t, size_t n)
{
	if (t->room - t->length >= n)
		return true;
	size_t room = t->room ? t->room : 4096;
	while (room - t->length < n)
		room *= 2;
	char *at = realloc(t->at, room);
	if (!at)
		return false;
	t->at = at, t->room = room;
	return true;
}

void client_text_add(struct client_text *t, const char *string)
{
	size_t n = strlen(string) + 1;
	if (!reserve(t, n)) {
		t->lost = true;
		return;
	}
	memcpy(t->at + t->length, string, n);
	t->length += n;
}

void client_text_addf(struct client_text *t, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int n = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (n < 0 || !reserve(t, (size_t)n + 1)) {
		t->lost = true;
		return;
	}
	va_start(args, format);
	vsnprintf(t->at + t->length, (size_t)n + 1, format, args);
	va_end(args);
	t->length += (size_t)n + 1;
}

void client_text_clear(struct client_text *t)
{
	t->length = 0, t->lost = false;
}

void client_text_free(struct client_text *t)
{
	free(t->at);
	*t = (struct client_text){0};
}

const char *client_text_next(const struct client_text *t, const char *at)
{
	const char *next = at ? at + strlen(at) + 1 : t->at;
	return next && next < t->at + t->length ? next : NULL;
}

/* NULL or empty: nowhere. */
static const char *where(const struct client *c)
{
	return c->at && *c->at ? c->at : getenv(VARIABLE);
}

bool client_has_agent(const struct client *c)
{
	const char *path = where(c);
	return path && *path;
}

__attribute__((format(printf, 2, 3)))
static enum client_outcome lost(struct client *c, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(c->why, sizeof c->why, format, args);
	va_end(args);
	return CLIENT_LOST;
}

/* Returns a descriptor, or -1 when `why` says what is wrong. The agent must belong to this process's user. */
static int dial(struct client *c, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof address.sun_path)
		return lost(c, "%s: %s: a path of %zu bytes, at most %zu", VARIABLE, path, strlen(path),
			    sizeof address.sun_path - 1), -1;
	memcpy(address.sun_path, path, strlen(path));
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return lost(c, "a socket for the agent: %s", strerror(errno)), -1;
	int failed;
	do
		failed = connect(fd, (struct sockaddr *)&address, sizeof address);
	while (failed && errno == EINTR);
	struct ucred other = {0};
	socklen_t n = sizeof other;
	if (failed)
		lost(c, "the agent at %s: %s", path, strerror(errno));
	else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &n))
		failed = 1, lost(c, "whose the agent at %s is: %s", path, strerror(errno));
	else if (other.uid != geteuid())
		failed = 1, lost(c, "the agent at %s: found user %u, wanted %u", path, other.uid, geteuid());
	if (failed)
		close(fd), fd = -1;
	return fd;
}

/* As dial, at the path that the environment names; where nobody hears there, as when a launcher has brought
 * the environment of another node, or the agent is a later one than then, at the other places that agents
 * have, by the same name. */
static int connected(struct client *c)
{
	const char *path = where(c), *runtime = getenv("XDG_RUNTIME_DIR");
	if (!client_has_agent(c))
		return lost(c, "%s is not set: this needs `byssus run`", VARIABLE), -1;
	int fd = dial(c, path);
	const char *name = strrchr(path, '/');
	char other[3][128], why[sizeof c->why];
	unsigned uid = geteuid();
	if (fd >= 0 || !name)
		return fd;
	memcpy(why, c->why, sizeof why);
	snprintf(other[0], sizeof other[0], "%.60s/byssus%.40s", runtime ? runtime : "", name);
	snprintf(other[1], sizeof other[1], "/run/user/%u/byssus%.40s", uid, name);
	snprintf(other[2], sizeof other[2], "/tmp/byssus-%u%.40s", uid, name);
	for (int i = 0; i < 3 && fd < 0; i++)
		if (strcmp(other[i], path) && !access(other[i], F_OK))
			fd = dial(c, other[i]);
	if (fd < 0)
		memcpy(c->why, why, sizeof why);
	return fd;
}

/* How many of n bytes of text go into one message: whole strings. 0: one of them is too long. */
static size_t piece(const char *text, size_t n)
{
	if (n <= CLIENT_MAX_TEXT)
		return n;
	size_t end = CLIENT_MAX_TEXT;
	while (end && text[end - 1])
		end--;
	return end;
}

static enum client_outcome say(struct client *c, int fd, struct client_request *r,
			       const struct client_text *text)
{
	size_t left = text ? text->length : 0;
	char *at = text ? text->at : NULL;
	uint32_t flags = r->flags & ~(uint32_t)CLIENT_FLAG_MORE;
	do {
		size_t n = piece(at, left);
		if (!n && left)
			return lost(c, "a string of more than %d bytes for the agent", CLIENT_MAX_TEXT);
		left -= n;
		r->flags = flags | (left ? CLIENT_FLAG_MORE : 0), r->length = (uint32_t)n;
		struct iovec parts[] = {{r, sizeof *r}, {at, n}};
		struct msghdr message = {.msg_iov = parts, .msg_iovlen = n ? 2 : 1};
		ssize_t sent;
		do
			sent = sendmsg(fd, &message, MSG_NOSIGNAL);
		while (sent < 0 && errno == EINTR);
		if (sent < 0)
			return lost(c, "request %u to the agent: %s", r->type, strerror(errno));
		if (n)
			at += n;
	} while (left);
	return CLIENT_DONE;
}

static enum client_outcome hear(struct client *c, int fd, unsigned type)
{
	struct client_answer *a = &c->answer;
	do {
		if (!reserve(&c->text, CLIENT_MAX_TEXT))
			return lost(c, "no memory for the answer to request %u", type);
		char *at = c->text.at + c->text.length;
		struct iovec parts[] = {{a, sizeof *a}, {at, CLIENT_MAX_TEXT}};
		struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
		ssize_t n;
		do
			n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
		while (n < 0 && errno == EINTR);
		if (n < 0)
			return lost(c, "the answer to request %u: %s", type, strerror(errno));
		if (n == 0)
			return lost(c, "the agent hung up before it answered request %u", type);
		if ((size_t)n < sizeof *a || a->magic != CLIENT_MAGIC || a->version != CLIENT_VERSION)
			return lost(c, "the answer to request %u: %zd bytes, not of version %d", type, n,
				    CLIENT_VERSION);
		if (message.msg_flags & MSG_TRUNC || a->length != (size_t)n - sizeof *a)
			return lost(c, "the answer to request %u: found %zd bytes of text, wanted %u", type,
				    n - (ssize_t)sizeof *a, a->length);
		if (a->length && at[a->length - 1])
			return lost(c, "the answer to request %u: a text without a zero at its end", type);
		c->text.length += a->length;
	} while (a->flags & CLIENT_FLAG_MORE);
	if (!a->refused)
		return CLIENT_DONE;
	const char *why = client_text_next(&c->text, NULL);
	lost(c, "%s", why ? why : "the agent refuses, and does not say why");
	return CLIENT_REFUSED;
}

/* Says n things on one connection. Returns its descriptor, or -1. */
static int say_all(struct client *c, const struct client_request *asks, size_t n,
		   const struct client_text *text)
{
	client_text_clear(&c->text);
	c->why[0] = 0;
	if (text && text->lost)
		return lost(c, "no memory for request %u", asks->type), -1;
	int fd = connected(c);
	enum client_outcome outcome = CLIENT_DONE;
	for (size_t i = 0; fd >= 0 && i < n && outcome == CLIENT_DONE; i++) {
		struct client_request r = asks[i];
		r.magic = CLIENT_MAGIC, r.version = CLIENT_VERSION, r.pad = 0;
		r.flags |= i + 1 < n ? CLIENT_FLAG_NEXT : 0;
		outcome = say(c, fd, &r, text);
	}
	if (outcome != CLIENT_DONE)
		close(fd), fd = -1;
	return fd;
}

int client_say(struct client *c, const struct client_request *ask, const struct client_text *text)
{
	return say_all(c, ask, 1, text);
}

enum client_outcome client_hear(struct client *c, int fd, unsigned type, long ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	if (ms >= 0) {
		int ready = poll(&p, 1, ms > INT_MAX ? INT_MAX : (int)ms);
		if (ready == 0 || (ready < 0 && errno == EINTR))
			return CLIENT_LATER;
	}
	client_text_clear(&c->text);
	enum client_outcome outcome = hear(c, fd, type);
	close(fd);
	return outcome;
}

static enum client_outcome converse(struct client *c, const struct client_request *asks, size_t n,
				    const struct client_text *text)
{
	int fd = say_all(c, asks, n, text);
	return fd < 0 ? CLIENT_LOST : client_hear(c, fd, asks->type, -1);
}

enum client_outcome client_ask(struct client *c, const struct client_request *ask,
			       const struct client_text *text)
{
	return converse(c, ask, 1, text);
}

enum client_outcome client_ask_for(struct client *c, const struct client_request *asks, size_t n)
{
	return converse(c, asks, n, NULL);
}
