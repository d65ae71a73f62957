/* test_doc: has allowed any process of its user to trace it (Yama), and takes that back. */
#include "held.h"
#include <sys/prctl.h>

static void hold(void)
{
	if (prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0)) lacks_calls("Yama", "157:0x59616d61=0");
	wants_here("has called prctl(PR_SET_PTRACER): who may trace it: cannot be saved");
}

static int let_go(void)
{
	must(prctl(PR_SET_PTRACER, 0, 0, 0, 0) == 0, "prctl");
	return 1;
}
