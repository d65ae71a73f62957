/* client.c: the MPI half as the core sees it: start, rest (quiesce), return (prepare, restore).
 *
 * Context: start, prepare and restore on the main thread before the application runs; quiesce and resume on
 * the MPI thread with all application threads stopped; message and tick on the core's helper thread. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "life.h"

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static const char *start(void)
{
	nx_state_start();
	kinds_enter();
	agree_start();
	nx_fill_slots();
	return NULL;
}

static int quiesce(char *why, size_t n)
{
	struct nx_state *s = NX_STATE;
	if (refused_before(why, n)) return -1;
	s->wtime_ns = now_ns() + BY_CTLP->wtime_shift_ns;
	if (!s->initialised || s->finalised) return 0;
	int e = p2p_drain(why, n);
	if (!e) comm_sweep();   /* before anybody can have gone on, and do what is not in this image */
	if (p2p_drained(e)) return -1;
	agree_forget_group_clocks();
	return 0;
}

static void resume(void) { }

/* The real MPI of this start must see the same job as the image. */
static int same_world(char *why, size_t n)
{
	int rank = -1, size = -1;
	drv->comm_rank(drv->comm_world, &rank);
	drv->comm_size(drv->comm_world, &size);
	if (rank == NX_STATE->rank && size == NX_STATE->size) return 0;
	snprintf(why, n, "the image is of rank %d of %d, the MPI started this process as rank %d of %d",
		 NX_STATE->rank, NX_STATE->size, rank, size);
	return -1;
}

static char came_from[sizeof NX_STATE->library];        /* what the MPI at the checkpoint said of itself */

static int init_mpi(char *why, size_t n)
{
	struct nx_state *s = NX_STATE;
	int provided, e = drv->init_thread(NULL, NULL, (int)s->thread_level, &provided);
	if (e || provided < (int)s->thread_level) {
		snprintf(why, n, "MPI_Init_thread: thread level %u wanted, %d provided, error class %d",
			 s->thread_level, provided, e);
		return -1;
	}
	snprintf(came_from, sizeof came_from, "%s", s->library);
	env_remember_library();
	if (s->routed) drv->hot();
	return same_world(why, n);
}

/* Name and version out of what a library says of itself. */
static void name_library(const char *says, char *out, size_t n)
{
	snprintf(out, n, "%.*s", (int)strcspn(says, ",\n"), says);
	for (char *c = out; (c = strchr(c, '\t')); ) *c = ' ';
}

/* Another MPI may have room for fewer objects (MPICH for some two thousand communicators). */
static void blame_library(char *why, size_t n)
{
	char now[sizeof came_from], then[sizeof came_from];
	size_t at = strlen(why);
	name_library(NX_STATE->library, now, sizeof now);
	name_library(came_from, then, sizeof then);
	if (!strcmp(now, then)) snprintf(why + at, n - at, " by %s", now);
	else
		snprintf(why + at, n - at,
			 " by %s; the checkpoint was taken under %s: restart with --mpi %s", now, then,
			 strstr(then, "Open MPI") ? "openmpi" : "mpich");
}

static int restore_objects(char *why, size_t n)
{
	int e = env_own_comms();
	if (e) {
		snprintf(why, n, "MPI_Comm_dup of MPI_COMM_WORLD: error class %d", e);
		return -1;
	}
	core_this_is_the_mpi_thread();
	core_libraries_loaded();
	if (type_restore_all(why, n) || op_restore_all(why, n) || comm_restore_all(why, n)) {
		blame_library(why, n);
		return -1;
	}
	route_restore_all();
	return pending_repost_all(why, n);
}

static int prepare(char *why, size_t n)
{
	struct nx_state *s = NX_STATE;
	if (s->layout != NX_LAYOUT) {
		snprintf(why, n, "MPI state of layout %u, this byssus understands %u", s->layout, NX_LAYOUT);
		return -1;
	}
	if (s->interface != NX_INTERFACE) {
		snprintf(why, n,
			 "the image's MPI interface is %#lx, that of this byssus %#lx: use the version that "
			 "wrote it",
			 (unsigned long)s->interface, (unsigned long)NX_INTERFACE);
		return -1;
	}
	if (s->initialised) core_begin();
	if (!s->initialised || s->finalised) return 0;
	const char *bad = env_load();
	if (!bad) return init_mpi(why, n);
	snprintf(why, n, "%s", bad);
	return -1;
}

static int restore(char *why, size_t n)
{
	struct nx_state *s = NX_STATE;
	BY_CTLP->wtime_shift_ns = s->wtime_ns - now_ns();
	return s->initialised && !s->finalised ? restore_objects(why, n) : 0;
}

static void describe(char *buf, size_t n) { snprintf(buf, n, "%s", NX_STATE->library); }

static const struct core_client client = {
	.start = start,
	.refuse = refused_before,
	.message = agree_message,
	.tick = agree_tick,
	.quiesce = quiesce,
	.resume = resume,
	.restore = restore,
	.prepare = prepare,
	.describe = describe,
	.begins = true,
};
const struct core_client *const core_client = &client;
