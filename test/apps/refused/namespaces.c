/* test_doc: is in namespaces of its own, and goes back to those of its parent. */
#include "held.h"
#include <sched.h>

static const struct { int flag; const char *file, *named; } all[] = {
	{ CLONE_NEWUTS, "uts", "uts" }, { CLONE_NEWIPC, "ipc", "ipc" }, { CLONE_NEWNET, "net", "net" }, { CLONE_NEWCGROUP, "cgroup", "cgroup" },
	{ CLONE_NEWPID, "pid", "pid_for_children" },
};
enum { NALL = sizeof all / sizeof *all };

static void hold(void)
{
	for (int i = 0; i < NALL; i++) {
		if (unshare(all[i].flag)) lacks("rights over namespaces");
		wants_here("another namespace (%s) than at the start: cannot be saved", all[i].named);
	}
}

static int let_go(void)
{
	for (int i = 0; i < NALL; i++) {
		char path[64];
		snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)getppid(), all[i].file);
		int fd = open(path, O_RDONLY);
		must(fd >= 0 && setns(fd, all[i].flag) == 0 && close(fd) == 0, all[i].file);
	}
	return 1;
}
