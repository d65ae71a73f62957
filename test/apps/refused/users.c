/* test_doc: acts for another user than at its start, and for its old one again. */
#include "held.h"
#include <sys/stat.h>

static uid_t own;

/* The file that asks is made in this folder. */
static void hold(void)
{
	own = geteuid();
	if (chmod(".", 0777) || syscall(SYS_setresuid, -1, 54321, -1)) lacks("rights to become another user");
	wants_here("another user, group or set of capabilities than at the program's start: cannot be saved");
}

static int let_go(void)
{
	must(syscall(SYS_setresuid, -1, own, -1) == 0, "setresuid");
	return 1;
}
