/* shown.c: what /proc says of this process, as far as it can be the application's: cmdline, environ, auxv,
 * the stack.
 *
 * `ps` and `top` show the application's name and arguments; a runtime that reads /proc/self/auxv finds the
 * stand-in vDSO there and not the kernel's, which will be another after a restart. The kernel keeps addresses
 * of the strings, and a copy of the vector; they are set by PR_SET_MM_MAP, which needs no privilege but may
 * be left out of a kernel or denied. Then the arguments alone are shown, by writing them over our own.
 * /proc/self/exe stays ours: the kernel does not let go of a file that is mapped; readlink is answered in
 * trap.c. Context: start-up and restart, lower FS; the application's stack is mapped and has its content. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include "core/load/load.h"

static struct shown shown;

/* Fields of /proc/self/stat, counted as in proc(5). */
enum {
	STARTCODE = 26,
	ENDCODE = 27,
	START_DATA = 45,
	END_DATA = 46,
	START_BRK = 47,
	ARG_START = 48,
	ARG_END = 49,
	NFIELDS = 52
};

static bool read_stat(uint64_t *field)
{
	char *text = slurp("/proc/self/stat", NULL), *at = text ? strrchr(text, ')') : NULL;
	int i = 3;
	for (at = at ? at + 3 : NULL; at && i < NFIELDS - 1; i++) {
		at = strchr(at, ' ');
		if (at) field[i + 1] = strtoull(++at, NULL, 10);
	}
	free(text);
	return i == NFIELDS - 1;
}

static bool tell_kernel(const uint64_t *f)
{
	struct prctl_mm_map m = {
		.start_code = f[STARTCODE],
		.end_code = f[ENDCODE],
		.start_data = f[START_DATA],
		.end_data = f[END_DATA],
		.start_brk = f[START_BRK],
		.brk = (uint64_t)raw(SYS_brk, 0),
		.start_stack = shown.stack,
		.arg_start = shown.arg,
		.arg_end = shown.arg_end,
		.env_start = shown.env,
		.env_end = shown.env_end,
		.auxv = (__u64 *)shown.auxv,
		.auxv_size = (uint32_t)(shown.nauxv * sizeof *shown.auxv),
		.exe_fd = (uint32_t)-1,
	};
	return prctl(PR_SET_MM, PR_SET_MM_MAP, &m, sizeof m, 0) == 0;
}

static void write_over(const uint64_t *f)
{
	size_t room = f[ARG_END] - f[ARG_START], n = shown.arg_end - shown.arg;
	if (f[ARG_START] < BY_ARENA_HI || f[ARG_END] <= f[ARG_START]) return;
	memset((void *)f[ARG_START], 0, room);
	memcpy((void *)f[ARG_START], (void *)shown.arg, n < room ? n : room - 1);
}

static void show(void)
{
	uint64_t f[NFIELDS] = { 0 };
	if (read_stat(f) && !tell_kernel(f)) write_over(f);
}

void shown_start(const struct shown *s)
{
	shown = *s;
	show();
}

void shown_save(struct buf *b) { buf_add(b, &shown, sizeof shown); }
void shown_restore(struct reader *r) { read_bytes(r, &shown, sizeof shown); }
void shown_again(void) { show(); }
