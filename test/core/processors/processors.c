/* processors.c: how many processors a rank may use (rank/core/base/processors.c) by itself, also on a kernel
 * for more than 1,024 of them, which takes no smaller set: a filter makes this one such. It ends with 0, or
 * says what is wrong. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include "../../../rank/core/base/processors.c"

static void must(int ok, const char *what)
{
	if (ok) return;
	printf("wrong: %s\n", what);
	exit(1);
}

static void more_processors(void)
{
	struct sock_filter text[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_getaffinity, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 1024, 1, 0),        /* bytes, for 8,192 */
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof text / sizeof *text, text };
	must(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program),
	     "no filter");
}

int main(void)
{
	cpu_set_t set;
	must(!sched_getaffinity(0, sizeof set, &set), "this test is for machines with less than 1,024 processors");
	unsigned n = (unsigned)CPU_COUNT(&set);
	must(processors_for_each(1) == n && processors_for_each(0) == n, "one rank has all");
	must(processors_for_each(n) == 1 && processors_for_each(n + 1) == 1, "each has one at least");
	more_processors();
	must(sched_getaffinity(0, sizeof set, &set), "the filter does nothing");
	must(processors_for_each(1) == n, "of a machine with many");
	printf("%u processors\n", n);
	return 0;
}
