/* test_doc: has System V message queues, more than once the same, with a message; they are removed. */
#include "held.h"
#include <pthread.h>
#include <sys/ipc.h>
#include <sys/msg.h>

enum { MANY = 300 };
static int id;

static void *others(void *key)
{
	must(msgget(*(key_t *)key, 0) == id, "the same queue");
	wants_here("has called msgget(2): a System V message queue, and what it has in it: cannot be saved");
	return NULL;
}

static void hold(void)
{
	struct { long type; char text[4]; } m = { 7, "abc" };
	key_t key = 0x62790000 | (getpid() & 0xffff);
	pthread_t t;
	for (int i = 0; i < MANY; i++) {                /* more than there is room to note: what is gone makes room */
		id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
		if (id < 0 && errno == ENOSYS) lacks("System V messages");
		must(id >= 0 && msgctl(id, IPC_RMID, NULL) == 0, "msgget");
	}
	id = msgget(key, IPC_CREAT | IPC_EXCL | 0600);
	must(id >= 0 && msgsnd(id, &m, sizeof m.text, 0) == 0, "msgget");
	must(pthread_create(&t, NULL, others, &key) == 0 && pthread_join(t, NULL) == 0, "thread");
	wants_here("has called msgget(2): a System V message queue, and what it has in it: cannot be saved");
}

static int let_go(void)
{
	struct { long type; char text[4]; } m;
	must(msgrcv(id, &m, sizeof m.text, 7, 0) == 4 && !strcmp(m.text, "abc") && msgctl(id, IPC_RMID, NULL) == 0, "the queue");
	return 1;
}
