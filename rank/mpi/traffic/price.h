/* price.h: what an arrival wait (arrival.h) is held to cost, learnt from windows of calls. Pure.
 *
 * A window's shortest wait is what the wait costs, or more when all of them were disturbed: so the price
 * falls at once to what was seen, and rises by a part of the way. Windows without waits tell nothing: the
 * price fades, so that waits are tried again, the sooner the less was missing. Below PRICE_FADE nanoseconds
 * it stays as it is: that is too high only in loops tighter than 26 us, where nobody waits for long and
 * trying would cost most. */
#ifndef BYSSUS_PRICE_H
#define BYSSUS_PRICE_H
#include <stdbool.h>
#include <stdint.h>

enum {
	PRICE_SHARE = 200,      /* an arrival wait may cost one part in so many of the interval of calls */
	PRICE_RISE = 8,
	PRICE_FADE = 128,
};
#define PRICE_UNSEEN UINT64_MAX

/* price: before, 0: not known. seen: the shortest wait of all members in the window, or PRICE_UNSEEN. In
 * nanoseconds. */
static inline uint64_t price_learn(uint64_t price, uint64_t seen)
{
	if (seen == PRICE_UNSEEN)
		return price - price / PRICE_FADE;
	return !price || seen < price ? seen : price + (seen - price) / PRICE_RISE;
}

static inline bool price_too_high(uint64_t price, uint64_t interval)
{
	return price * PRICE_SHARE >= interval;
}
#endif
