/* test_doc: shares a core with nobody (core scheduling); that is for ever. */
#include "held.h"
#include <sys/prctl.h>

enum { SCHED_CORE = 62, CREATE = 1, THREAD = 0 };

static void hold(void)
{
	if (prctl(SCHED_CORE, CREATE, 0, THREAD, 0)) lacks_calls("core scheduling", "core-scheduling");
	wants_here("has called prctl(PR_SCHED_CORE): a cookie of core scheduling: cannot be saved");
}

static int let_go(void)
{
	return 0;
}
