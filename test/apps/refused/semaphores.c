/* test_doc: has a set of System V semaphores, one of them to be undone at its end; the set is removed. */
#include "held.h"
#include <sys/ipc.h>
#include <sys/sem.h>

static int id;

static void hold(void)
{
	struct sembuf up = { .sem_num = 1, .sem_op = 3, .sem_flg = SEM_UNDO };
	must(semget(0x6279, 1, 0) < 0, "no such set");
	id = semget(IPC_PRIVATE, 2, IPC_CREAT | 0600);
	if (id < 0 && errno == ENOSYS) lacks("System V semaphores");
	must(id >= 0 && semop(id, &up, 1) == 0, "semget");
	wants_here("has called semget(2): a set of System V semaphores, and what it has in it: cannot be saved");
}

static int let_go(void)
{
	must(semctl(id, 1, GETVAL) == 3 && semctl(id, 0, IPC_RMID) == 0, "the set");
	return 1;
}
