/* main.c: the start of byssus-rank: address layout, descriptors, configuration; then a fresh start or a
 * restart.
 *
 *   byssus-rank -- application arguments...
 *   byssus-rank --restart DIRECTORY [-- application arguments...]
 *   byssus-rank --exec PROGRAM argument0 arguments...      (made by exec.c)
 *   byssus-rank --processor                                (asked by the agent of a node)
 * Context: the only thread, before anything of the application exists. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <unistd.h>
#include "core/base/agent/agent.h"
#include "core/calls/calls.h"
#include "core/cross/cross.h"
#include "core/life/life.h"
#include "core/load/load.h"
#include "core/threads/threads.h"

static int number(const char *const *names, int otherwise)
{
	for (; *names; names++) {
		const char *v = getenv(*names);
		if (v && *v) return atoi(v);
	}
	return otherwise;
}

static void read_environment(void)
{
	static const char *const ranks[] = { "BYSSUS_PLACE", "PMI_RANK",     "OMPI_COMM_WORLD_RANK",
					     "PMIX_RANK",    "SLURM_PROCID", NULL };
	static const char *const sizes[] = { "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "BYSSUS_NRANKS",
					     "SLURM_NTASKS", NULL };
	const char *policy = getenv("BYSSUS_POLICY"), *writers = getenv("BYSSUS_WRITERS");
	const char *save = getenv("BYSSUS_SAVE_FILES");
	const char *refused = getenv("BYSSUS_REFUSED"), *start = getenv("BYSSUS_START_NUMBER");
	core_job.refused_error = refused && !strcmp(refused, "error");
	core_job.rank = number(ranks, 0);
	core_job.nranks = number(sizes, 1);
	const char *launcher = getenv("BYSSUS_UNSET");  /* a variable that is for the launcher alone */
	if (launcher) unsetenv(launcher);
	core_job.libmpi = getenv("BYSSUS_LIBMPI");
	core_job.face = "";
	core_job.verbose = getenv("BYSSUS_VERBOSE") != NULL && *getenv("BYSSUS_VERBOSE") != '0';
	core_config.agent = getenv("BYSSUS_AGENT");
	core_config.rundir = getenv("BYSSUS_RUNDIR");
	core_config.job = getenv("BYSSUS_JOB");
	core_config.start = start ? strtoull(start, NULL, 10) : 0;
	core_config.lazy = getenv("BYSSUS_LAZY") != NULL && *getenv("BYSSUS_LAZY") == '1';
	core_config.below = getenv("BYSSUS_BELOW") != NULL;
	core_config.policy_drop = policy && !strcmp(policy, "drop");
	core_config.save_files = !save || strcmp(save, "0");
	core_config.old_kernel = getenv("BYSSUS_OLD_KERNEL") != NULL;
	core_config.writers = writers && atoi(writers) > 0 ? (unsigned)atoi(writers) : 1;
	faults_start(getenv("BYSSUS_FAULT"));
}

static void find_libdir(void)
{
	const char *given = getenv("BYSSUS_LIBDIR");
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
	exe[n > 0 ? n : 0] = 0;
	char *slash = strrchr(exe, '/');
	if (slash) *slash = 0;
	snprintf(core_config.libdir, sizeof core_config.libdir, "%.511s", given && *given ? given : exe);
	core_job.libdir = core_config.libdir;
}

/* -- the process around us ------------------------------------------------------------------------------- */

/* What the application and its children inherit. */
static void set_stack_limit(rlim_t cur)
{
	struct rlimit rl;
	getrlimit(RLIMIT_STACK, &rl);
	rl.rlim_cur = cur != RLIM_INFINITY && cur > BY_STACK_LIMIT ? BY_STACK_LIMIT : cur;
	setrlimit(RLIMIT_STACK, &rl);
}

/* A process with the legacy layout has its libraries at 0x2aaa..., where the arena is, and one with an
 * unlimited stack at 0x1455...: it starts itself again with another. Afterwards the application has what the
 * user has set. */
static void check_layout(char **argv)
{
	struct rlimit rl;
	const char *was = getenv("BYSSUS_LAYOUT");
	unsigned long persona = (unsigned long)personality(0xffffffff), limit = 0;
	getrlimit(RLIMIT_STACK, &rl);
	if (was && sscanf(was, "%lx,%lu", &persona, &limit) == 2) rl.rlim_cur = limit;
	if ((uint64_t)&errno >= BY_ARENA_HI && (uint64_t)check_layout >= BY_ARENA_HI) {
		set_stack_limit(rl.rlim_cur);
		personality(persona);
		return;
	}
	if (was)
		core_die("the kernel puts libraries at %p, where the application has to be%s", (void *)&errno,
			 (uint64_t)&errno > 0x2a0000000000 ? ": vm.legacy_va_layout must be 0" : "");
	char now[48];
	snprintf(now, sizeof now, "%lx,%lu", persona, (unsigned long)rl.rlim_cur);
	setenv("BYSSUS_LAYOUT", now, 1);
	if (rl.rlim_cur > 64UL << 20) rl.rlim_cur = 64UL << 20;
	setrlimit(RLIMIT_STACK, &rl);
	personality(persona & ~(unsigned long)ADDR_COMPAT_LAYOUT);
	execv("/proc/self/exe", argv);
	core_die("cannot start again with another address layout: %s", strerror(errno));
}

/* A heap for each thread would reserve 64 MiB of the address space that the application may be limited to.
 * What is small each thread has for itself in any case (tcache). */
static void use_one_heap(void) { mallopt(M_ARENA_MAX, 1); }

/* Our descriptors lie above all that the application is likely to use, and never in its way. */
static void place_descriptors(void)
{
	struct rlimit rl;
	getrlimit(RLIMIT_NOFILE, &rl);
	int base = rl.rlim_cur <= 8192 ? 8192 : 65536;
	if (rl.rlim_max < (rlim_t)base + 1024)
		base = rl.rlim_max > 4096 ? (int)rl.rlim_max - 1024 : (int)rl.rlim_max / 4 * 3;
	core_config.fd_base = base;
	core_config.stderr_fd = high_fd((int)syscall(SYS_fcntl, 2, F_DUPFD_CLOEXEC, 0));
	limits_start();
	const char *pmi = getenv("PMI_FD");
	if (!pmi || atoi(pmi) >= base) return;
	int fd = high_fd(atoi(pmi));
	char s[16];
	snprintf(s, sizeof s, "%d", fd);
	if (fd >= base) setenv("PMI_FD", s, 1);
}

/* What the application's library for datasets asks its libmpi for (rank/mpi/face/clients.c): no variable says
 * it, because the application's children would have that as well. */
static void tell_clients(void)
{
	const char *path = getenv("BYSSUS_CLIENTS");
	snprintf(BY_CTLP->clients, sizeof BY_CTLP->clients, "%s", path ? path : "");
}

static void usage(void) __attribute__((noreturn));
static void usage(void)
{
	static const char text[] =
		"usage: byssus-rank -- application [arguments...]\n"
		"       byssus-rank --restart DIRECTORY [-- application [arguments...]]\n";
	_exit(write(2, text, sizeof text - 1) < 0 ? ABI_EXIT_INTERNAL : ABI_EXIT_REFUSED);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--processor")) {
		cpu_print();
		return 0;
	}
	if (argc < 3) usage();
	use_one_heap();
	check_layout(argv);
	read_environment();
	find_libdir();
	stack_keep_environment();
	if (!core_mark_rank()) core_die("cannot mark the process: %s", strerror(errno));
	page_map();
	inherited_start();
	place_descriptors();
	exec_prepare(environ);
	cross_start();
	tell_clients();
	if (!strcmp(argv[1], "--restart"))
		restart(argv[2], argc > 4 && !strcmp(argv[3], "--") ? argv + 4 : argv + argc);
	if (!strcmp(argv[1], "--exec") && argc > 3) start_application(argv[2], argv + 3);
	if (strcmp(argv[1], "--")) usage();
	start_application(NULL, argv + 2);
}
