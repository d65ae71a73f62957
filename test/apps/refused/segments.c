/* test_doc: has a segment in a descriptor table of its own (LDT); it is taken out again. */
#include "held.h"
#include <asm/ldt.h>

enum { READ = 0, WRITE = 0x11 };

static void hold(void)
{
	struct user_desc d = { .entry_number = 3, .base_addr = 0x10000, .limit = 0xfff, .useable = 1 };
	if (syscall(SYS_modify_ldt, WRITE, &d, sizeof d) && (errno == ENOSYS || errno == EPERM)) lacks("modify_ldt");
	wants_here("has called modify_ldt(2): segments in a table of its own (LDT): cannot be saved");
}

static int let_go(void)
{
	struct user_desc none = { .entry_number = 3, .read_exec_only = 1, .seg_not_present = 1 };
	char table[64] = "";
	must(syscall(SYS_modify_ldt, READ, table, sizeof table) > 0 && table[24], "the table");
	must(syscall(SYS_modify_ldt, WRITE, &none, sizeof none) == 0, "modify_ldt");
	return 1;
}
