/* spare.c: which processes members are, and processes that wait to become members. Context: see state.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "state.h"

const char *snap_process(uint32_t *process, uint32_t otherwise)
{
	struct mpi m = {0};
	int rank = 0;
	*process = otherwise;
	if (mpi_find(&m)) return NULL;
	if (mpi_runs(&m) && !m.rank(m.world, &rank)) *process = (uint32_t)rank;
	return m.agent;
}

int bys_processes(bys_desc d, uint32_t *processes, size_t n)
{
	if (!d || d->pid != getpid() || d->phase < IDLE) return BYS_EUSE;
	if (n > d->members || (n && !processes)) return BYS_EUSE;
	struct client c = {.at = d->client.at};
	struct client_request r = {.type = CLIENT_REQ_STATE, .rank = d->member, .nranks = d->members,
				   .run = d->run};
	struct client_text text = {0};
	client_text_add(&text, "");
	client_text_add(&text, d->name);
	int result = client_ask(&c, &r, &text) == CLIENT_DONE ? BYS_OK : BYS_EAGENT;
	client_text_free(&text);
	const char *states = result == BYS_OK ? client_text_next(&c.text, NULL) : NULL;
	const char *list = states ? client_text_next(&c.text, states) : NULL;
	for (size_t i = 0; i < n; i++) {
		char *end = (char *)list;
		unsigned long number = list ? strtoul(list, &end, 10) : UINT32_MAX;
		processes[i] = list && end != list ? (uint32_t)number : UINT32_MAX;
		list = list ? strchr(list, ' ') : NULL;
		list = list ? list + 1 : NULL;
	}
	client_text_free(&c.text);
	return result;
}

/* The question of a spare, which stays open when its time is up. */
static struct {
	atomic_flag use;
	pid_t pid; /* who asked */
	struct client client;
	int fd; /* valid if pid is this process's: it waits */
} spare = {.use = ATOMIC_FLAG_INIT};

static int wait_for_place(bys_group *group, long timeout)
{
	struct client_request r = {.type = CLIENT_REQ_SPARE, .nranks = group->members};
	struct client_text text = {0};
	uint32_t process;
	if (spare.pid != getpid()) {
		spare.client = (struct client){.at = snap_process(&process, UINT32_MAX)};
		r.nfiles = process;
		client_text_add(&text, group->name ? group->name : "memory");
		spare.fd = client_say(&spare.client, &r, &text);
		client_text_free(&text);
		if (spare.fd < 0) return snap_begun_why("%s", spare.client.why), BYS_EAGENT;
		spare.pid = getpid();
	}
	enum client_outcome o = client_hear(&spare.client, spare.fd, CLIENT_REQ_SPARE, timeout);
	if (o == CLIENT_LATER) return BYS_TIMEOUT;
	spare.pid = 0;
	if (o != CLIENT_DONE) return snap_begun_why("%s", spare.client.why), BYS_EAGENT;
	if (!spare.client.answer.valid) return BYS_NOTHING;
	group->member = (uint32_t)spare.client.answer.dataset;
	return BYS_OK;
}

int bys_spare(bys_group *group, long timeout)
{
	if (!group || !group->members)
		return snap_begun_why("wanted a group with the number of its members"), BYS_EUSE;
	if (atomic_flag_test_and_set(&spare.use)) return BYS_EUSE;
	int result = wait_for_place(group, timeout);
	atomic_flag_clear(&spare.use);
	return result;
}
