/* test_doc: has told the kernel that its arguments lie elsewhere, as /proc/self/cmdline shows; that is for ever. */
#include "held.h"
#include <sys/prctl.h>
#include <linux/prctl.h>

/* Fields of /proc/self/stat, counted as in proc(5). */
enum { STARTCODE = 26, ENDCODE = 27, STARTSTACK = 28, START_DATA = 45, END_DATA = 46, START_BRK = 47, ENV_START = 50, ENV_END = 51, NFIELDS = 52 };
static char *words;                             /* the kernel shows only anonymous memory */

/* What a program asks for may be answered by somebody else than the kernel. */
static unsigned long end_of_heap(void)
{
	char line[256];
	unsigned long end = 0;
	FILE *f = fopen("/proc/self/maps", "r");
	while (f && fgets(line, sizeof line, f))
		if (strstr(line, "[heap]")) sscanf(line, "%*x-%lx", &end);
	if (f) fclose(f);
	return end;
}

static void hold(void)
{
	unsigned long f[NFIELDS + 1] = { 0 };
	char text[2048] = "", *at = text;
	int fd = open("/proc/self/stat", O_RDONLY);
	words = strdup("other words");
	must(fd >= 0 && read(fd, text, sizeof text - 1) > 0 && close(fd) == 0 && (at = strrchr(text, ')')) != NULL, "stat");
	at += 4;                                        /* behind the third field, a letter */
	for (int i = 4; i <= NFIELDS; i++) f[i] = strtoul(at, &at, 10);
	struct prctl_mm_map m = {
		.start_code = f[STARTCODE], .end_code = f[ENDCODE], .start_data = f[START_DATA], .end_data = f[END_DATA],
		.start_brk = f[START_BRK], .brk = end_of_heap(), .start_stack = f[STARTSTACK],
		.arg_start = (unsigned long)words, .arg_end = (unsigned long)words + 12,
		.env_start = f[ENV_START], .env_end = f[ENV_END], .exe_fd = -1u,
	};
	if (prctl(PR_SET_MM, PR_SET_MM_MAP, &m, sizeof m, 0)) lacks("rights over what /proc shows");
	wants_here("has called prctl(PR_SET_MM): what /proc shows of its memory: cannot be saved");
}

static int let_go(void)
{
	char s[32] = "";
	int fd = open("/proc/self/cmdline", O_RDONLY);
	must(read(fd, s, sizeof s) == 12 && !strcmp(s, "other words") && close(fd) == 0, "cmdline");
	return 0;
}
