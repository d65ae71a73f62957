/* inherited.c: the descriptors that were there when the program began: the launcher's, also across an exec of
 * the rank.
 *
 * Context: start-up, the only thread. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "core/calls/calls.h"

struct inherited inherited[MAX_INHERITED];
unsigned ninherited;

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
		if (fstat(fd, &st) == 0)
			inherited[ninherited++] = (struct inherited){ fd, inode_key(&st), st.st_mode,
								      (uint32_t)fcntl(fd, F_GETFL), 0 };
}

/* The launcher's descriptors stay the launcher's across an exec: "fd:key:mode:flags:own,..." */
void inherited_describe(char *s)
{
	strcpy(s, "BYSSUS_INHERITED=");
	for (const struct inherited *h = inherited; h < inherited + ninherited; h++)
		sprintf(s + strlen(s), "%d:%lx:%x:%x:%x,", h->fd, h->key, h->mode, h->flags, h->own);
}
