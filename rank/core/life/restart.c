/* restart.c: leads a new process through a restart, to where the application goes on.
 *
 * Nothing of the application exists before all of the image's headers and tables have been checked, and
 * nothing of it runs, in any rank, before all ranks have everything that others can see of them: a lock that
 * is not there yet would let another rank in.
 * Context: the main thread of the lower half, all signals blocked; every error ends the process. */
#define _GNU_SOURCE
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/arena/arena.h"
#include "core/base/agent/agent.h"
#include "core/calls/calls.h"
#include "core/life/life.h"

static void go_on(const char *dir, uint32_t below) __attribute__((noreturn));
static void go_on(const char *dir, uint32_t below)
{
	char why[PATH_MAX + 512] = "";
	uint64_t all = ~0UL, t0 = now_ns();
	raw(SYS_rt_sigprocmask, SIG_SETMASK, &all, 0, 8);
	core_job.restarted = 1;
	limits_raise();
	inherited_input(wire_connect(below, image_header()->input));
	core_phase(ABI_PHASE_READING);
	image_check(dir, sections_all);
	cpu_check(image_path(), image_header());
	libs_check(image_section(ABI_SEC_LIBS));
	shared_restore(image_section(ABI_SEC_SHARED));
	files_check(*image_section(ABI_SEC_FDS), image_has_content, image_header()->created_unix_ns);
	shared_obtain();
	places_take(*image_section(ABI_SEC_FDS));
	image_begin_memory();
	start_restore(image_section(ABI_SEC_ALLOCATOR));
	image_start_readers();
	const char *wrong = core_client->start();
	if (wrong) core_die("%s", wrong);
	if (core_client->prepare(why, sizeof why)) core_die("the MPI cannot be started: %s", why);
	image_finish_memory();
	uint64_t t1 = now_ns();
	core_phase(ABI_PHASE_RESTORING);
	vdso_link();
	shown_again();
	low_again();
	threads_restore(image_section(ABI_SEC_THREADS));
	process_start();                /* before the application's umask is */
	process_restore(image_section(ABI_SEC_PROCESS));
	attributes_restore(image_section(ABI_SEC_ATTRIBUTES));
	fds_restore(image_section(ABI_SEC_FDS), image_section(ABI_SEC_FD_CONTENT));
	if (core_client->restore(why, sizeof why)) core_die("the MPI cannot be built anew: %s", why);
	core_fault(ABI_FAULT_RANK_REBUILT);
	filter_install(true);
	attributes_start();
	still_start();
	threads_start();
	trap_start();
	threads_revive();
	process_start_timers();
	shared_close();
	image_release();
	attributes_restore_group();
	fds_finish();
	helper_start();
	limits_lower();
	memory_restore_lock();
	attributes_restore_process();
	process_restore_limits();
	struct abi_restored told = { t1 - t0, now_ns() - t1, image_bytes() };
	shared_go_on();
	helper_listen();
	core_phase(ABI_PHASE_RUN);
	core_send(ABI_RESTORED, 0, &told, sizeof told);
	core_fault(ABI_FAULT_RANK_RESTORED);
	threads_release();
}

/* What the launcher has started runs again from its beginning; what is started below it as the rank was goes
 * on from the image. */
static void run_again(const char *dir, char **argv) __attribute__((noreturn));
static void run_again(const char *dir, char **argv)
{
	const struct abi_image_header *h = image_header();
	char number[32], *spec;
	if (!*argv)
		core_die("%s: is of a program that was started below another one: its command is not known",
			 image_path());
	snprintf(number, sizeof number, "%lu", (unsigned long)h->checkpoint);
	if (asprintf(&spec, "BYSSUS_RESTORE=%lx:%x:%s", h->below, h->below_nth, dir) < 0 ||
	    setenv("BYSSUS_RESTART", number, 1))
		core_die("no memory");
	exec_keep(spec);
	stack_keep_environment();
	start_application(NULL, argv);
}

void restart(const char *dir, char **argv)
{
	image_open(dir);
	if (image_is_below()) run_again(dir, argv);
	go_on(dir, ABI_BELOW_NOT);
}

void restart_below(const char *dir)
{
	image_open(dir);
	core_self.began.input = image_header()->below_input;
	if (!place_take())
		core_die("%s: its place has its rank already (pid %lu)", image_path(),
			 (unsigned long)core_page()->claimed);
	page_share();
	go_on(dir, ABI_BELOW_RESTORED);
}
