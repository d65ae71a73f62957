/* test_doc: has a key in the keyring of its process, and finds it there; the keyring is emptied. */
#include "held.h"

enum { OF_PROCESS = -2, CLEAR = 7 };

static void hold(void)
{
	long key = syscall(SYS_add_key, "user", "byssus", "x", 1, OF_PROCESS);
	if (key < 0 && (errno == ENOSYS || errno == EPERM || errno == EACCES)) lacks("keyrings");
	must(key > 0 && syscall(SYS_request_key, "user", "byssus", NULL, OF_PROCESS) == key, "add_key");
	wants_here("has called add_key(2): keys of its own: cannot be saved");
	wants_here("has called request_key(2): keys of its own: cannot be saved");
}

static int let_go(void)
{
	must(syscall(SYS_request_key, "user", "byssus", NULL, OF_PROCESS) > 0, "the key");
	must(syscall(SYS_keyctl, CLEAR, OF_PROCESS) == 0, "keyctl");
	return 1;
}
