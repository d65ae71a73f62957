/* timed.c: waits until a moment of a clock that goes on from an image: the kernel is told the moment by its
 * own clock (clocks.c). Trapped after a restart only, and by those who are about to sleep.
 *
 * A thread waits with the moment in its frame at BY_PASS; a stop takes it out again (trap_unpass), since it
 * is another one after the next restart. Of a timer the kernel keeps the moment: what is left of it is in the
 * image. Context: SIGSYS handler, any FS, all signals blocked. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <time.h>
#include <unistd.h>
#include "core/arena/arena.h"
#include "core/calls/calls.h"

/* -- whose clock: the kernel tells in /proc only ------------------------------------------------------ */

struct lines { long fd; int n, at; char buf[128]; };

static ANY_FS int next_char(struct lines *l)
{
	if (l->at == l->n) {
		l->n = (int)raw(SYS_read, l->fd, l->buf, sizeof l->buf);
		l->at = 0;
	}
	return l->n > 0 ? l->buf[l->at++] : -1;
}

/* The line's first 31 bytes; false: there are no more. */
static ANY_FS bool next_line(struct lines *l, char *line)
{
	int n = 0, c = next_char(l);
	if (c < 0) return false;
	for (; c >= 0 && c != '\n'; c = next_char(l))
		if (n < 31) line[n++] = (char)c;
	line[n] = 0;
	return true;
}

/* The number behind a word at the start of a line; false: it begins otherwise. */
static ANY_FS bool number(const char *line, const char *word, long *value)
{
	while (*word)
		if (*line++ != *word++) return false;
	while (*line == ' ' || *line == '\t') line++;
	bool minus = *line == '-';
	*value = 0;
	for (line += minus; *line >= '0' && *line <= '9'; line++) *value = *value * 10 + (*line - '0');
	if (minus) *value = -*value;
	return true;
}

/* Of a timerfd's file the only clock, of the list of timers that of one. -1: none that goes on. */
static ANY_FS int clock_in(const char *path, long timer)
{
	struct lines l = { .fd = raw_open(path, O_RDONLY | O_CLOEXEC) };
	char line[32];
	long id = -1, value, clock = -1;
	if (l.fd < 0) return -1;
	while (clock < 0 && next_line(&l, line)) {
		if (number(line, "ID:", &value)) id = value;
		else if (number(line, "clockid:", &value) ||
			 (number(line, "ClockID:", &value) && id == timer))
			clock = value;
	}
	raw(SYS_close, l.fd);
	return (int)clock;
}

static ANY_FS int clock_of(long nr, uint64_t which)
{
	char path[48] = "/proc/thread-self/fdinfo/", digits[12];
	int n = 0, at = 25;
	if (nr == SYS_timer_settime) return clock_in("/proc/self/timers", (long)(int)which);
	do digits[n++] = (char)('0' + which % 10); while ((which /= 10) && n < 11);
	while (n) path[at++] = digits[--n];
	path[at] = 0;
	return clock_in(path, -1);
}

long timed_settime(long nr, const uint64_t *x)
{
	const struct itimerspec *given = (const struct itimerspec *)x[2];
	struct itimerspec it = *given;
	if ((x[1] & TIMER_ABSTIME) && (it.it_value.tv_sec || it.it_value.tv_nsec))
		clocks_there_to_here(clock_of(nr, (uint32_t)x[0]), &it.it_value);
	return raw(nr, x[0], x[1], &it, x[3]);
}

/* -- waits ------------------------------------------------------------------------------------------- */

void timed_frame(uint64_t *frame, greg_t *g, int reg, int clock)
{
	struct timespec *t = (struct timespec *)&frame[BY_PASS_TIME];
	*t = *(const struct timespec *)g[reg];
	clocks_there_to_here(clock, t);
	frame[BY_PASS_KEPT] = (uint64_t)g[reg];
	frame[BY_PASS_REG] = (uint64_t)reg + 1;
	g[reg] = (greg_t)t;
}
