/* end.c: how a rank ends when it cannot go on: the user and the agent hear why.
 *
 * Context: ordinary lower code, any lower thread. core_die, core_exit_message and core_damaged are for
 * start and restart only; core_refuse also [upper stack]. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "core/base/agent/agent.h"

static void end_with(uint16_t type, int code, const char *fmt, va_list ap) __attribute__((noreturn));
static void end_with(uint16_t type, int code, const char *fmt, va_list ap)
{
	char s[8192];                           /* two paths */
	core_ellipsis(s, sizeof s, vsnprintf(s, sizeof s, fmt, ap));
	core_say("%s", s);
	wire_failed(type, s);
	_exit(code);
}

void core_die(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	end_with(ABI_FAILED, ABI_EXIT_INTERNAL, fmt, ap);
}

void core_exit_message(int code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	end_with(ABI_FAILED, code, fmt, ap);
}

void core_damaged(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	end_with(ABI_DAMAGED, ABI_EXIT_INTERNAL, fmt, ap);
}

/* The code of the process may not reach the launcher: the agent ends the job. */
void core_refuse(const char *fmt, ...)
{
	char s[4096];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(s, sizeof s, fmt, ap);
	va_end(ap);
	wire_send(ABI_REFUSED, 0, s, strlen(s), NULL, 0);
	if (wire.sock < 0) core_say("%s", s);
	if (core_is_rank() == 1) {
		core_page()->exit_code = ABI_EXIT_REFUSED;
		core_phase(ABI_PHASE_ENDED);
	}
	_exit(ABI_EXIT_REFUSED);
}
