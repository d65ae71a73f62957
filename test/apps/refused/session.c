/* test_doc: has a session keyring of its own with a key in it, and a keyring of its thread; both are emptied. */
#include "held.h"

enum { OF_THREAD = -1, OF_SESSION = -3, JOIN_SESSION = 1, CLEAR = 7 };

static void hold(void)
{
	long session = syscall(SYS_keyctl, JOIN_SESSION, NULL);
	if (session < 0 && (errno == ENOSYS || errno == EPERM || errno == EACCES)) lacks("keyrings");
	must(session > 0 && syscall(SYS_add_key, "user", "byssus", "x", 1, OF_SESSION) > 0, "add_key");
	must(syscall(SYS_add_key, "user", "byssus", "y", 1, OF_THREAD) > 0, "add_key");
	wants_here("has called keyctl(2): keys of its own: cannot be saved");
}

static int let_go(void)
{
	must(syscall(SYS_keyctl, CLEAR, OF_SESSION) == 0 && syscall(SYS_keyctl, CLEAR, OF_THREAD) == 0, "keyctl");
	return 1;
}
