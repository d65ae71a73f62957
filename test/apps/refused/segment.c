/* test_doc: has a System V segment that is mapped nowhere; it is removed. */
#include "held.h"
#include <sys/ipc.h>
#include <sys/shm.h>

static int id;

static void hold(void)
{
	id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
	if (id < 0 && errno == ENOSYS) lacks("System V segments");
	char *p = shmat(id, NULL, 0);
	must(id >= 0 && p != (char *)-1, "shmat");
	*p = 'x';
	must(shmdt(p) == 0, "shmdt");
	wants_here("has called shmget(2): a System V segment: cannot be saved");
}

static int let_go(void)
{
	char *p = shmat(id, NULL, 0);
	must(p != (char *)-1 && *p == 'x' && shmdt(p) == 0 && shmctl(id, IPC_RMID, NULL) == 0, "the segment");
	return 1;
}
