/* hand.c: regions that a program hands over (BYS_HANDOVER): a thread of ours copies them while the program
 * computes, and bys_commit waits for it. Context: see state.h; the thread calls nothing but
 * snap_write_handed, and has all signals blocked, so that none of the program's handlers runs on it. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "state.h"

enum { PAGE = 4096 };

enum work { NONE, ASKED, DONE, OVER };

struct snap_hand {
	pthread_t thread;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t changed;
	enum work work;
	int failed; /* errno; 0: it is copied */
};

static void *copier(void *arg)
{
	struct bys_description *d = arg;
	struct snap_hand *h = d->hand;
	pthread_mutex_lock(&h->lock);
	while (h->work != OVER) {
		if (h->work == ASKED) {
			pthread_mutex_unlock(&h->lock);
			int failed = snap_write_handed(d);
			pthread_mutex_lock(&h->lock);
			h->failed = failed, h->work = DONE;
			pthread_cond_broadcast(&h->changed);
			continue;
		}
		pthread_cond_wait(&h->changed, &h->lock);
	}
	pthread_mutex_unlock(&h->lock);
	return NULL;
}

static bool start_thread(struct bys_description *d)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int failed = pthread_create(&d->hand->thread, NULL, copier, d);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return !failed;
}

void snap_hand_begin(struct bys_description *d)
{
	bool wanted = false;
	for (size_t i = 0; i < d->n; i++) wanted |= snap_capture(&d->regions[i]) == BYS_HANDOVER;
	if (!wanted || d->hand || snap_checkpointed(d)) return;
	pthread_condattr_t monotonic;
	struct snap_hand *h = calloc(1, sizeof *h);
	if (!h || pthread_condattr_init(&monotonic)) return free(h);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	d->hand = h;
	if (!start_thread(d)) free(h), d->hand = NULL; /* bys_start copies */
}

void snap_hand_end(struct bys_description *d)
{
	struct snap_hand *h = d->hand;
	if (!h) return;
	int failed;
	snap_hand_wait(d, NULL, &failed);
	pthread_mutex_lock(&h->lock);
	h->work = OVER;
	pthread_cond_broadcast(&h->changed);
	pthread_mutex_unlock(&h->lock);
	pthread_join(h->thread, NULL);
	free(h);
	d->hand = NULL;
}

/* With BYSSUS_HANDOVER_GUARD whoever writes to what is handed over gets a SIGSEGV where he does. */
static void protect(const struct bys_description *d, int how)
{
	const char *guard = getenv("BYSSUS_HANDOVER_GUARD");
	if (!guard || !*guard) return;
	for (size_t i = 0; i < d->n; i++) {
		if (snap_capture(&d->regions[i]) != BYS_HANDOVER) continue;
		uintptr_t from = ((uintptr_t)d->regions[i].at + PAGE - 1) / PAGE * PAGE;
		uintptr_t to = ((uintptr_t)d->regions[i].at + d->regions[i].bytes) / PAGE * PAGE;
		if (from < to) mprotect((void *)from, to - from, how);
	}
}

void snap_hand_over(struct bys_description *d)
{
	protect(d, PROT_READ);
	pthread_mutex_lock(&d->hand->lock);
	d->hand->work = ASKED;
	pthread_cond_broadcast(&d->hand->changed);
	pthread_mutex_unlock(&d->hand->lock);
}

bool snap_hand_wait(struct bys_description *d, const struct timespec *end, int *failed)
{
	struct snap_hand *h = d->hand;
	*failed = 0;
	if (!h) return true;
	pthread_mutex_lock(&h->lock);
	int late = 0;
	while (h->work == ASKED && !late)
		late = end ? pthread_cond_timedwait(&h->changed, &h->lock, end)
			   : pthread_cond_wait(&h->changed, &h->lock);
	bool done = h->work != ASKED;
	if (h->work == DONE) *failed = h->failed, h->work = NONE;
	pthread_mutex_unlock(&h->lock);
	return done;
}

void snap_hand_back(const struct bys_description *d) { protect(d, PROT_READ | PROT_WRITE); }
