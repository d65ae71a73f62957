/* test_doc: has another root directory, in a mount namespace of its own; that is for ever. */
#include "held.h"
#include <libgen.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

/* The program's folder becomes the root, with a /proc. The file that asks is in it. */
static void hold(void)
{
	static char inside[256];
	if (unshare(CLONE_NEWNS)) lacks("rights over mounts");
	must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && mkdir("proc", 0755) == 0, "a root directory");
	must(mount("proc", "proc", "proc", 0, NULL) == 0 && chroot(".") == 0, "chroot");
	wants_here("another namespace (mnt) than at the start: cannot be saved");
	wants_here("another root directory than at the start: cannot be saved");
	if (ask) ask = (snprintf(inside, sizeof inside, "/%s", basename(strdup(ask))), inside);
}

static int let_go(void)
{
	return 0;
}
