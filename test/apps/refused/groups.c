/* test_doc: has other groups than at its start, and takes its old ones again. */
#include "held.h"
#include <grp.h>

static gid_t was[1024], own;
static int nwas;

static void hold(void)
{
	gid_t other = 54321;
	own = getegid();
	nwas = (int)syscall(SYS_getgroups, 1024, was);
	if (nwas < 0 || syscall(SYS_setgroups, 1, &other) || syscall(SYS_setresgid, -1, other, -1)) lacks("rights to change groups");
	wants_here("another user, group or set of capabilities than at the program's start: cannot be saved");
}

static int let_go(void)
{
	must(syscall(SYS_setresgid, -1, own, -1) == 0 && syscall(SYS_setgroups, nwas, was) == 0, "setgroups");
	return 1;
}
