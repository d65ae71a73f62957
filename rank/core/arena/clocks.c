/* clocks.c: clocks that only go forward. This machine counts them since it came up, at another moment than
 * the one that the image was made on: the application reads on from where they were. Its timers, restored
 * with the time that was left, and waits until a moment (timed.c) go by that; so the clocks are set before
 * any of them.
 *
 * Context: as marked; clocks_save and clocks_restore are ordinary code on the only thread that runs. */
#define _GNU_SOURCE
#include <time.h>
#include "core/arena/arena.h"

enum { N = 3, SECOND = 1000000000 };
static const int kept[N] = { CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME };
static int64_t shifts[N];               /* nanoseconds that are added to what the kernel says */

static ANY_FS int64_t shift_of(int clock)
{
	switch (clock) {
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_COARSE: return shifts[0];
	case CLOCK_MONOTONIC_RAW: return shifts[1];
	case CLOCK_BOOTTIME:
	case CLOCK_BOOTTIME_ALARM: return shifts[2];
	default: return 0;
	}
}

static ANY_FS void add(struct timespec *t, int64_t ns)
{
	t->tv_sec += ns / SECOND;
	t->tv_nsec += ns % SECOND;
	if (t->tv_nsec >= SECOND) {
		t->tv_sec++;
		t->tv_nsec -= SECOND;
	} else if (t->tv_nsec < 0) {
		t->tv_sec--;
		t->tv_nsec += SECOND;
	}
}

void clocks_here_to_there(int clock, struct timespec *t)
{
	int64_t ns = shift_of(clock);
	if (ns) add(t, ns);
}

/* What is no moment stays none. One that was before this machine came up is over. */
void clocks_there_to_here(int clock, struct timespec *t)
{
	int64_t ns = shift_of(clock);
	if (!ns || t->tv_sec < 0 || t->tv_nsec < 0 || t->tv_nsec >= SECOND) return;
	add(t, -ns);
	if (t->tv_sec < 0) *t = (struct timespec){ 0, 1 };
}

static int64_t now_of(int clock)
{
	struct timespec t = { 0 };
	clock_gettime(clock, &t);
	return t.tv_sec * SECOND + t.tv_nsec;
}

void clocks_save(struct buf *b)
{
	for (int i = 0; i < N; i++) buf_u64(b, (uint64_t)(now_of(kept[i]) + shifts[i]));
}

void clocks_restore(struct reader *r)
{
	for (int i = 0; i < N; i++) shifts[i] = (int64_t)read_u64(r) - now_of(kept[i]);
	BY_CTLP->clock_shift_ns = shifts[0];
}
