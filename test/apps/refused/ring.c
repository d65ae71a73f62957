/* test_doc: has a ring (io_uring) that is registered and has no descriptor; it is registered no more. */
#include "held.h"

enum { SETUP = 425, ENTER, REGISTER, RING_FDS = 20, NO_RING_FDS = 21, ENTER_BY_INDEX = 16 };
static const unsigned BY_INDEX = 1u << 31;
static struct { unsigned offset, zero; unsigned long fd; } at = { .offset = -1u };

static void hold(void)
{
	char params[120] = "";
	long fd = syscall(SETUP, 4, params);
	if (fd < 0) lacks("io_uring");
	at.fd = (unsigned long)fd;
	if (syscall(REGISTER, fd, RING_FDS, &at, 1) != 1) lacks("rings without a descriptor");
	must(close((int)fd) == 0, "close");
	wants_here("has called io_uring_setup(2): a ring without a descriptor: cannot be saved");
}

static int let_go(void)
{
	must(syscall(ENTER, at.offset, 0, 0, ENTER_BY_INDEX, NULL, 0) == 0, "the ring");
	at.fd = 0;
	must(syscall(REGISTER, at.offset, NO_RING_FDS | BY_INDEX, &at, 1) == 1, "io_uring_register");
	return 1;
}
