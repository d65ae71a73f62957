/* test_doc: changes its group, forbids itself something (Landlock) and makes semaphores, and becomes another program, which takes back what it can. */
#include "held.h"
#include <sys/sem.h>

enum { CREATE_RULESET = 444, RESTRICT_SELF = 446, MAKE_FIFO = 1 << 10 };

/* The second time the number of the semaphores is known. */
static void hold(void)
{
	const char *known = getenv("WRAPPED");
	char number[32];
	unsigned long handled = MAKE_FIFO;
	if (!known) {
		int rules = (int)syscall(CREATE_RULESET, &handled, sizeof handled, 0), id = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
		snprintf(number, sizeof number, "%d", id);
		if (rules < 0 || syscall(RESTRICT_SELF, rules, 0) || syscall(SYS_setresgid, -1, 54321, -1)) {
			semctl(id, 0, IPC_RMID);
			lacks("Landlock, or rights to change groups");
		}
		must(id >= 0 && close(rules) == 0 && setenv("WRAPPED", number, 1) == 0, "semget");
		execl("/proc/self/exe", "wrapper", ask, (char *)NULL);
		must(0, "exec");
	}
	wants_here("has called landlock_restrict_self(2): rules on what the thread may do (Landlock): cannot be saved");
	wants_here("has called semget(2): a set of System V semaphores, and what it has in it: cannot be saved");
	wants_here("another user, group or set of capabilities than at the program's start: cannot be saved");
}

static int let_go(void)
{
	must(semctl(atoi(getenv("WRAPPED")), 0, IPC_RMID) == 0, "the set");
	return 0;
}
