/* program.c: which file is the program? By its name, as execvp finds it, and through the interpreters of
 * scripts.
 *
 * Context: start-up, lower FS; ends the process with the shell's exit codes when there is none. */
#define _GNU_SOURCE
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/base/agent/agent.h"
#include "core/load/load.h"

size_t count_strings(char **v)
{
	size_t n = 0;
	while (v[n]) n++;
	return n;
}

/* As execvp finds it; ends the process with the shell's exit codes when it does not. */
void program_find(const char *name, char *out, size_t n)
{
	const char *path = getenv("PATH");
	if (!*name) core_exit_message(ABI_EXIT_NOT_FOUND, "the name of the application is empty");
	snprintf(out, n, "%s", name);
	if (strchr(name, '/')) return;
	bool found = false;
	for (const char *p = path ? path : "/usr/local/bin:/usr/bin:/bin"; p;
	     p = strchr(p, ':') ? strchr(p, ':') + 1 : NULL) {
		int k = (int)strcspn(p, ":");
		char one[PATH_MAX];
		snprintf(one, sizeof one, "%.*s%s%s", k, p, k ? "/" : "./", name);
		if (!access(one, X_OK)) {
			snprintf(out, n, "%s", one);
			return;
		}
		if (!found && !access(one, F_OK)) {
			found = true;
			snprintf(out, n, "%s", one);
		}
	}
	if (!found) core_exit_message(ABI_EXIT_NOT_FOUND, "%s: not found in PATH", name);
}

/* Replaces a script by its interpreter, as the kernel does. Returns the new argument vector. */
char **program_interpreters(char **argv, char *path, size_t n)
{
	char interp[512], arg[512];
	for (int depth = 0; elf_interpreter(path, interp, sizeof interp, arg, sizeof arg); depth++) {
		if (depth == 4) core_exit_message(ABI_EXIT_NOT_EXEC, "%s: too many interpreters", path);
		if (access(path, X_OK)) return argv;            /* elf_check says it */
		size_t argc = count_strings(argv), k = 0;
		char **v = calloc(argc + 3, sizeof *v);
		if (!v) core_die("no memory");
		v[k++] = strdup(interp);
		if (*arg) v[k++] = strdup(arg);
		v[k++] = strdup(path);
		memcpy(v + k, argv + 1, argc * sizeof *v);
		if (access(interp, F_OK))
			core_exit_message(ABI_EXIT_NOT_FOUND, "%s: its interpreter %s is not there", path,
					  interp);
		snprintf(path, n, "%s", interp);
		argv = v;
	}
	return argv;
}
