/* arrival.h: what stands in front of collectives that synchronise (arrival.c), as inline code: nothing but
 * two questions where calls go straight to the real MPI. Context: as traffic.h. */
#ifndef BYSSUS_ARRIVAL_H
#define BYSSUS_ARRIVAL_H
#include "../agree/agree.h"

enum { ARRIVAL_WINDOW = 64 };                   /* calls */

long arrival_wait(struct vcomm *c, const char *function);      /* 0, or as arrival below */

/* 0: the collective may be entered; else what the call returns (BY_AGAIN: it is made again). */
static inline long arrival(struct vcomm *c, const char *function)
{
	return likely(c->straight && c->calls % ARRIVAL_WINDOW) ? 0 : arrival_wait(c, function);
}

/* The same in front of one in which all others wait for a root. */
long arrival_led_wait(struct vcomm *c, int root, const char *function);

static inline long arrival_led(struct vcomm *c, int root, const char *function)
{
	bool straight = c->led_straight && c->led;
	return likely(straight) ? 0 : arrival_led_wait(c, root, function);
}

static inline void arrival_led_over(struct vcomm *c)
{
	c->led--;                       /* a window has begun in front of its first call */
	c->arrival = 0;
}

/* The collective has been entered: the next call is another one. */
static inline void arrival_over(struct vcomm *c)
{
	c->calls++;
	c->arrival = 0;
}
#endif
