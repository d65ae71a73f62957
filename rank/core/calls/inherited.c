/* inherited.c: the descriptors that were there when the program began: the launcher's, also across an exec of
 * the rank; but standard input of rank 0 is the agent's, which knows what of it has been read.
 *
 * Context: start-up, the only thread. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/calls/calls.h"

struct inherited inherited[MAX_INHERITED];
unsigned ninherited;

static struct inherited as_inherited(int fd, const struct stat *st)
{
	return (struct inherited){ fd, inode_key(st), st->st_mode, (uint32_t)fcntl(fd, F_GETFL), 0 };
}

void inherited_start(void)
{
	struct stat st;
	const char *told = getenv("BYSSUS_INHERITED");  /* by the program that this one replaces */
	for (int n = 0; told && *told && ninherited < MAX_INHERITED; told += n) {
		struct inherited *h = &inherited[ninherited];
		if (sscanf(told, "%d:%lx:%x:%x:%x,%n", &h->fd, &h->key, &h->mode, &h->flags, &h->own, &n) !=
			    5 ||
		    !n)
			break;
		ninherited++;
	}
	for (int fd = 0; !told && fd < 1024 && ninherited < MAX_INHERITED; fd++)
		if (fstat(fd, &st) == 0) inherited[ninherited++] = as_inherited(fd, &st);
}

static char input_key[sizeof "BYSSUS_INPUT=" + 16] = "BYSSUS_INPUT=";

/* It comes first, also where the launcher has given none. */
void inherited_input(int fd)
{
	struct stat st;
	if (fd < 0) return;
	if (dup2(fd, 0) < 0 || fcntl(0, F_SETFD, 0) || fstat(0, &st))
		core_die("standard input: %s", strerror(errno));
	if (fd) close(fd);
	if (!ninherited || inherited[0].fd != 0) {
		ninherited += ninherited < MAX_INHERITED;
		memmove(inherited + 1, inherited, (ninherited - 1) * sizeof *inherited);
	}
	inherited[0] = as_inherited(0, &st);
	inherited_describe();
	snprintf(input_key, sizeof input_key, "BYSSUS_INPUT=%lx", inherited[0].key);
}

char *inherited_input_key(void)
{
	const char *told = getenv("BYSSUS_INPUT");      /* by who has it from the agent */
	if (told) snprintf(input_key, sizeof input_key, "BYSSUS_INPUT=%s", told);
	return input_key;
}

/* The launcher's descriptors stay the launcher's across an exec: "fd:key:mode:flags:own,..." */
char *inherited_describe(void)
{
	static char s[sizeof "BYSSUS_INHERITED=" + MAX_INHERITED * 60];
	strcpy(s, "BYSSUS_INHERITED=");
	for (const struct inherited *h = inherited; h < inherited + ninherited; h++)
		sprintf(s + strlen(s), "%d:%lx:%x:%x:%x,", h->fd, h->key, h->mode, h->flags, h->own);
	return s;
}
