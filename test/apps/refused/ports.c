/* test_doc: may use an I/O port; nobody can see whether it still may. */
#include "held.h"
#include <sys/io.h>

static void hold(void)
{
	if (ioperm(0x80, 1, 1) || iopl(3)) lacks_calls("I/O ports", "172=0 173=0");
	wants_here("has called ioperm(2): access to I/O ports: cannot be saved");
	wants_here("has called iopl(2): access to I/O ports: cannot be saved");
}

static int let_go(void)
{
	return 0;
}
