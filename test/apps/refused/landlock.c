/* test_doc: has forbidden itself to make named pipes (Landlock); that is for ever. */
#include "held.h"
#include <sys/prctl.h>
#include <sys/stat.h>

enum { CREATE_RULESET = 444, RESTRICT_SELF = 446, MAKE_FIFO = 1 << 10 };

static void hold(void)
{
	unsigned long handled = MAKE_FIFO;
	int rules = (int)syscall(CREATE_RULESET, &handled, sizeof handled, 0);
	if (rules < 0 && (errno == ENOSYS || errno == EOPNOTSUPP || errno == EPERM)) lacks("Landlock");
	long ok = rules < 0 ? -1 : syscall(RESTRICT_SELF, rules, 0);
	if (ok < 0 && errno == EPERM && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) ok = syscall(RESTRICT_SELF, rules, 0);  /* not root */
	must(ok == 0, "landlock_restrict_self");
	wants(rules, "anon_inode:[landlock-ruleset]");
	wants_here("has called landlock_restrict_self(2): rules on what the thread may do (Landlock): cannot be saved");
}

static int let_go(void)
{
	must(mkfifo("refused.fifo", 0600) < 0 && errno == EACCES, "the rules");
	return 0;
}
