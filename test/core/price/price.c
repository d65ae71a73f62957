/* price.c: what an arrival wait is held to cost (rank/mpi/traffic/price.h), on made-up windows.
 *
 * price SEED: windows that were disturbed do not take the waits away from a loop that can afford them; a loop that cannot has them
 * for a few windows only; what it costs to try again is bounded. It ends with 0, or says what is wrong. */
#include <stdio.h>
#include <stdlib.h>
#include "../../../rank/mpi/traffic/price.h"

enum { CALLS = 64, WINDOWS = 40000 };

static uint64_t seed;

static double chance(void)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (double)(seed >> 11) / (double)(1ULL << 53);
}

static void fail(const char *what, double found, double most)
{
	fprintf(stderr, "%s: found %g, at most %g wanted\n", what, found, most);
	exit(1);
}

/* A loop of collectives in its windows. */
struct loop {
	double interval, cost;                  /* nanoseconds: of calls without waits, and of a wait */
	uint64_t price;
	bool straight;                          /* the present window has no waits */
	long waits;                             /* windows that had them */
};

/* seen: the shortest wait, if the window has any. */
static void window(struct loop *l, double seen)
{
	if (!l->straight)
		l->waits++;
	l->price = price_learn(l->price, l->straight ? PRICE_UNSEEN : (uint64_t)seen);
	l->straight = price_too_high(l->price, (uint64_t)(l->interval + (l->straight ? 0 : l->cost)));
}

/* One window in ten is disturbed, all of its waits, so that the shortest seems up to eight times as long. */
static double disturbed(const struct loop *l)
{
	return l->cost * (chance() < 0.1 ? 1 + 7 * chance() : 1 + 0.2 * chance());
}

static void affordable(double cost, double share)
{
	struct loop l = { .interval = cost / share, .cost = cost };

	for (int i = 0; i < WINDOWS; i++)
		window(&l, disturbed(&l));
	double without = 1 - (double)l.waits / WINDOWS;
	printf("cost %5.0f ns, %.4f of the interval: %.4f of the windows without waits\n", cost, share, without);
	if (without > 0.01)
		fail("windows without waits", without, 0.01);
}

static void dear(double cost, double interval)
{
	struct loop l = { .interval = interval, .cost = cost };

	for (int i = 0; i < WINDOWS; i++)
		window(&l, disturbed(&l));
	double price = (double)(l.waits - 1) * cost / (WINDOWS * interval), most = 0.5 / PRICE_SHARE;
	printf("cost %5.0f ns, interval %8.0f ns: %.5f of the time after the first window\n", cost, interval, price);
	if (price > most)
		fail("share of the time in waits", price, most);
}

/* What it costs changes, and back: the number of windows until that is known. */
static int until(struct loop *l, bool straight, double seen)
{
	for (int i = 0; i < WINDOWS; i++, window(l, seen))
		if (l->straight == straight)
			return i;
	return WINDOWS;
}

int main(int argc, char **argv)
{
	seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	for (double cost = 1000; cost <= 32000; cost *= 2) {
		affordable(cost, 0.0005);
		affordable(cost, 0.0015);
		for (double interval = 500; interval < cost * PRICE_SHARE; interval *= 3)
			dear(cost, interval);
	}
	struct loop l = { .interval = 2e6, .cost = 4000 };
	window(&l, 4000);
	int rise = until(&l, true, 40000), fall = until(&l, false, 4000);
	printf("%d windows to notice a rise, %d a fall\n", rise, fall);
	if (rise < 1 || rise > 4)
		fail("windows that notice a rise", rise, 4);
	if (fall > 64)
		fail("windows that notice a fall", fall, 64);
	l.interval = 2e3;
	l.straight = false;
	until(&l, true, 4000);
	l.interval = 2e6;                       /* the loop is slow from now on */
	if (until(&l, false, 4000) > 1)
		fail("windows until a slow loop has waits", 2, 1);
	return 0;
}
