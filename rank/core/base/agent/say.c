/* say.c: what a rank says to the user, on standard error.
 *
 * Context: ordinary lower code, any lower thread. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>
#include "core/base/agent/agent.h"

int core_stderr = 2;

static void say(const char *fmt, va_list ap)
{
	char line[8192];
	int n = core_job.nranks > 1 ? snprintf(line, sizeof line, "byssus: rank %d: ", core_job.rank)
				    : snprintf(line, sizeof line, "byssus: ");
	int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
	size_t len = (size_t)n + (m < 0 ? 0 : (size_t)m);
	if (len > sizeof line - 2) {
		core_ellipsis(line, sizeof line - 1, (int)len);
		len = sizeof line - 2;
	}
	if (line[len - 1] != '\n') line[len++] = '\n';
	for (size_t at = 0; at < len; ) {
		ssize_t k = write(core_stderr, line + at, len - at);
		if (k <= 0) break;
		at += (size_t)k;
	}
}

void core_say(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
}

void core_debug(const char *fmt, ...)
{
	va_list ap;
	if (!core_job.verbose) return;
	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
}
