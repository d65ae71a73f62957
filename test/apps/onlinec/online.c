/* online.c: what online (main.go) does, in C, by byssus.h: members that speak over sockets, without MPI, and whose survivors go on when one has
 * died. Whatever it waits for, it looks at bys_state_fd as well: a member whose node is silent closes no connection.
 *
 *   online STEPS dir=DIRECTORY [size=BYTES] [ms=MILLISECONDS] [die=MEMBER@STEP@MOMENT] [until=FILE]
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "byssus.h"

enum { AGAIN = 1 }; /* a member has died, or has noticed that another has */

static int id, members, left = -1, right = -1, listener = -1;
static long steps = 10, size = 1000, ms, die_member = -1, die_step, die_moment;
static char dir[200], until[200];
static uint64_t *cells, state[2]; /* step, and the sum of all */
static size_t n;
static bool first;
static bys_desc d;

static void fail(const char *call, int result)
{
	fprintf(stderr, "online: member %d: step %lu: %s: %d: %s\n", id, (unsigned long)state[0], call, result, bys_error(d));
	exit(7);
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 31) * 0x7fb5d329728ea185;
	x = (x ^ x >> 27) * 0x81dadef4bc2dd44d;
	return x ^ x >> 33;
}

static void die_at(long moment)
{
	if (id == die_member && (long)state[0] == die_step && moment == die_moment && (first || moment == 3)) raise(SIGKILL);
}

/* Whether a member has died in this epoch. */
static bool broken(void)
{
	uint8_t states[1024];
	int result = bys_state(d, states, (size_t)members, BYS_TEST);
	if (result < 0) fail("state", result);
	bool any = false;
	for (int i = 0; i < members; i++)
		if (states[i] == BYS_CORRUPT) any = true, fprintf(stderr, "online: member %d hears that %d died\n", id, i);
	return any;
}

/* Waits until a descriptor is ready, or a member has died. fd < 0: for a moment. */
static int ready(int fd, short events)
{
	for (;;) {
		struct pollfd p[] = {{.fd = bys_state_fd(d), .events = POLLIN}, {.fd = fd, .events = events}};
		if (poll(p, fd < 0 ? 1 : 2, fd < 0 ? 1 : -1) < 0) return AGAIN;
		if (p[0].revents && broken()) return AGAIN;
		if (fd < 0 || p[1].revents) return 0;
	}
}

static void hang_up(void)
{
	int *all[] = {&left, &right, &listener};
	for (int i = 0; i < 3; i++) {
		if (*all[i] >= 0) close(*all[i]);
		*all[i] = -1;
	}
}

static struct sockaddr_in here(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct ifaddrs *all = NULL;
	if (getifaddrs(&all)) return at;
	for (struct ifaddrs *i = all; i; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && !(i->ifa_flags & IFF_LOOPBACK))
			at.sin_addr = ((struct sockaddr_in *)i->ifa_addr)->sin_addr;
	freeifaddrs(all);
	return at;
}

static void name_of(char *name, int member)
{
	snprintf(name, 300, "%s/address.%lu.%d", dir, (unsigned long)bys_epoch(d), member);
}

/* Leaves this member's address for the one before it. */
static int listens(void)
{
	struct sockaddr_in at = here();
	socklen_t length = sizeof at;
	char name[300], new[310], host[64];
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 4) || getsockname(listener, (struct sockaddr *)&at, &length)) return -1;
	name_of(name, id);
	snprintf(new, sizeof new, "%s.new", name);
	FILE *f = fopen(new, "w");
	if (!f) return -1;
	fprintf(f, "%s:%d", inet_ntop(AF_INET, &at.sin_addr, host, sizeof host), ntohs(at.sin_port));
	return fclose(f) || rename(new, name);
}

static int connects(void)
{
	char name[300], host[64] = "";
	int port = 0;
	name_of(name, (id + 1) % members);
	for (FILE *f; !(f = fopen(name, "r")) || fscanf(f, "%63[^:]:%d", host, &port) != 2 || fclose(f);)
		if (ready(-1, 0)) return AGAIN;
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	inet_pton(AF_INET, host, &at.sin_addr);
	right = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (connect(right, (struct sockaddr *)&at, sizeof at) && errno != EINPROGRESS) return AGAIN;
	if (ready(right, POLLOUT) || ready(listener, POLLIN)) return AGAIN;
	left = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	return left < 0 ? AGAIN : 0;
}

static int exchange(uint64_t mine, uint64_t *theirs)
{
	if (ready(right, POLLOUT) || send(right, &mine, sizeof mine, MSG_NOSIGNAL) != sizeof mine) return AGAIN;
	if (ready(left, POLLIN) || recv(left, theirs, sizeof *theirs, MSG_WAITALL) != sizeof *theirs) return AGAIN;
	return 0;
}

/* 0, or AGAIN. */
static int step(void)
{
	uint64_t sum = 0, theirs = 0;
	state[0]++;
	for (size_t i = 0; i < n; i++) sum += cells[i] = mix(cells[i] + state[0]);
	if (exchange(sum, &theirs)) return AGAIN;
	cells[0] += theirs, state[1] = mix(state[1] + theirs);
	usleep((useconds_t)ms * 1000);
	while ((long)state[0] == steps && until[0] && access(until, F_OK))
		if (ready(-1, 0)) return AGAIN;
	die_at(0);
	int result = bys_start(d, state[0]);
	if (result == BYS_EPEER) return AGAIN;
	if (result != BYS_OK) fprintf(stderr, "online: member %d: start: %d: %s\n", id, result, bys_error(d));
	die_at(1);
	result = bys_commit(d, BYS_TEST);
	die_at(2);
	while (result == BYS_TIMEOUT) result = bys_commit(d, 50);
	if (result == BYS_EPEER) return AGAIN;
	if (result == BYS_EFAILED) fprintf(stderr, "online: step %lu: %s\n", (unsigned long)state[0], bys_error(d));
	else if (result != BYS_OK) fail("commit", result);
	return 0;
}

/* 0, or AGAIN. */
static int live(void)
{
	if (listens()) fail("an address", errno);
	if (connects()) return AGAIN;
	while ((long)state[0] < steps)
		if (step()) return AGAIN;
	uint64_t sum = 0;
	for (size_t i = 0; i < n; i++) sum ^= mix(cells[i]);
	int result = bys_finish(&d, 0, BYS_BLOCK);
	if (result == BYS_EPEER) return AGAIN;
	if (result != BYS_OK) fail("finish", result);
	printf("step %lu member %d: %016lx %016lx\n", (unsigned long)state[0], id, (unsigned long)sum, (unsigned long)state[1]);
	return 0;
}

/* Who begins looks first what there is; with MOMENT 6 a newcomer dies then, once. */
static void look(const bys_group *group)
{
	bys_region found[2] = {{0}};
	size_t k = 2;
	uint64_t tag = 0;
	int result = bys_look(&d, group, found, &k, &tag, BYS_TEST);
	while (result == BYS_TIMEOUT) result = bys_look(&d, group, found, &k, &tag, 50);
	if (result < 0) fail("look", result);
	if (result == BYS_NOTHING) return;
	if (k != 2 || found[0].bytes != n * 8 || found[1].bytes != sizeof state || !tag) fail("look: other regions", (int)k);
	char path[300];
	snprintf(path, sizeof path, "%s/looked", dir);
	if (id == die_member && die_moment == 6 && open(path, O_CREAT | O_EXCL | O_WRONLY, 0600) >= 0) raise(SIGKILL);
}

static void restore(void)
{
	bys_region regions[] = {{.id = 7, .capture = BYS_TRACK, .at = cells, .bytes = n * 8}, {.id = 1, .at = state, .bytes = sizeof state}};
	bys_group group = {.member = (uint32_t)id, .members = (uint32_t)members};
	uint64_t tag = 0;
	if (!d) look(&group);
	int result = bys_restore(&d, regions, 2, &group, &tag, BYS_BLOCK);
	if (result < 0) fail("restore", result);
	if (result == BYS_OK && tag != state[0]) fail("tag", 0);
	first = result == BYS_NOTHING;
	if (first) {
		state[0] = state[1] = 0;
		for (size_t i = 0; i < n; i++) cells[i] = mix((uint64_t)id * 1000003 + i);
	} else {
		fprintf(stderr, "online: member %d restored at step %lu in epoch %lu\n", id, (unsigned long)tag, (unsigned long)bys_epoch(d));
	}
	die_at(3);
}

int main(int argc, char **argv)
{
	if (!getenv("PMI_RANK") || !getenv("PMI_SIZE")) return 64;
	id = atoi(getenv("PMI_RANK")), members = atoi(getenv("PMI_SIZE"));
	if (argc > 1) steps = atol(argv[1]);
	for (int i = 2; i < argc; i++)
		if (!(sscanf(argv[i], "size=%ld", &size) || sscanf(argv[i], "ms=%ld", &ms) || sscanf(argv[i], "until=%199s", until) ||
		      sscanf(argv[i], "dir=%199s", dir) || sscanf(argv[i], "die=%ld@%ld@%ld", &die_member, &die_step, &die_moment) == 3))
			return 64;
	n = (size_t)size / 8 + 1, cells = malloc(n * 8);
	for (int result = AGAIN; result == AGAIN;) {
		memset(cells, 0xee, n * 8), state[0] = state[1] = 77; /* survivors overwrite everything */
		restore();
		result = live();
		hang_up();
	}
	return 0;
}
