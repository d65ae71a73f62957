/* test_doc: has memory with a home node in its policy; it is unmapped. */
#include "held.h"
#include <sys/mman.h>

enum { SET_HOME_NODE = 450, BIND = 2, SIZE = 65536 };
static char *p;

static void hold(void)
{
	unsigned long node0 = 1;
	p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (syscall(SYS_mbind, p, SIZE, BIND, &node0, 64, 0)) lacks("NUMA policies");
	if (syscall(SET_HOME_NODE, p, SIZE, 0, 0)) lacks("home nodes");
	*p = 'x';
	wants_here("has called set_mempolicy_home_node(2): the home node of a memory policy: cannot be saved");
}

static int let_go(void)
{
	must(*p == 'x' && munmap(p, SIZE) == 0, "munmap");
	return 1;
}
