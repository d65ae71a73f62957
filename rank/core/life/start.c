/* start.c: a fresh start of the application, and the part of an image that says where in the arena it is.
 *
 * Context: the only thread, lower FS. */
#define _GNU_SOURCE
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include "core/arena/arena.h"
#include "core/base/agent/agent.h"
#include "core/calls/calls.h"
#include "core/cross/cross.h"
#include "core/life/life.h"
#include "core/load/load.h"

/* -- in the image ---------------------------------------------------------------------------------------- */

void start_save(struct buf *b)
{
	buf_add(b, &space, sizeof space);
	buf_u64(b, BY_CTLP->app_entry);
	stack_save(b);
	buf_str(b, core_self.exe);
	buf_str(b, core_job.face);
	clocks_save(b);
	buf_u64(b, now_ns() + (uint64_t)BY_CTLP->wtime_shift_ns);     /* MPI_Wtime, which goes on from here */
	buf_u64(b, (uint64_t)personality(0xffffffff));                /* of children */
	shown_save(b);
	low_save(b);
	window_save(b);
}

void start_restore(struct reader *r)
{
	read_bytes(r, &space, sizeof space);
	BY_CTLP->app_entry = read_u64(r);
	stack_restore(r);
	snprintf(core_self.exe, sizeof core_self.exe, "%s", read_str(r));
	core_job.face = strdup(read_str(r));
	clocks_restore(r);
	BY_CTLP->wtime_shift_ns = (int64_t)(read_u64(r) - now_ns());
	personality((unsigned long)read_u64(r));
	shown_restore(r);
	low_restore(r);
	window_restore(r);
	if (r->bad) core_die("image: address space: the section is damaged");
}

/* A script is known by its own name. */
static void name_process(const char *path)
{
	const char *base = strrchr(path, '/');
	prctl(PR_SET_NAME, base ? base + 1 : path);
}

/* Between the program and its heap. */
enum { GAP = 0x1000000, GAP_FIXED = 0x100000 };

void start_application(const char *program, char **argv)
{
	char path[PATH_MAX], name[PATH_MAX], *full;
	struct elf_image app, ld;
	if (program) snprintf(path, sizeof path, "%s", program);
	else program_find(argv[0], path, sizeof path);
	memcpy(name, path, sizeof name);
	argv = program_interpreters(argv, path, sizeof path);
	elf_check(path);
	full = realpath(path, NULL);
	snprintf(core_self.exe, sizeof core_self.exe, "%s", full ? full : path);
	free(full);
	place_program(argv);
	if (core_config.below && place_restores()) restart_below(place_restores());
	const char *face = face_for(core_self.exe);
	core_job.face = strdup(face);
	inherited_input(wire_connect(ABI_BELOW_NOT, 0));
	const char *wrong = core_client->start();
	if (wrong) core_die("%s", wrong);
	elf_map(core_self.exe, BY_APP, &app);
	elf_map(app.interp, BY_LDSO, &ld);
	low_start(&app);
	vdso_map();
	vdso_link();
	space.brk_lo = space.brk_now = space.brk_mapped = app.end + (app.bias ? GAP : GAP_FIXED);
	BY_CTLP->app_entry = app.entry;
	uint64_t sp = stack_build(argv, name, face, &app, &ld);
	name_process(name);
	signals_start();
	threads_start();        /* before trap_start: our signal may wait since before an exec, and would end
				 * the process */
	trap_start();
	limits_lower();
	helper_start();
	helper_listen(); /* not before: a checkpoint may be asked for at once, and stops threads by signal */
	filter_install(false);
	process_start();
	attributes_start();
	still_start();
	core_phase(ABI_PHASE_RUN);
	fs_write(0);
	by_enter(sp, ld.entry);
}
