/* track.c: which pages of regions have been written to since files of snapshots were filled, so that
 * bys_start copies those alone (BYS_TRACK). The kernel says so: userfaultfd with asynchronous write
 * protection, and PAGEMAP_SCAN, which tells what was written to and protects it again, in one step
 * (Linux 6.7). Where anything is not as it should be, all counts as written. Context: see state.h; nothing
 * is allocated after the beginning. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "state.h"

enum { PAGE = 4096, BITS = 64 };

/* What linux/userfaultfd.h and linux/fs.h say since 6.7. */
enum { USER_MODE_ONLY = 1, WP_UNPOPULATED = 1 << 13, WP_ASYNC = 1 << 15 };
enum { SCAN_PROTECT = 1, SCAN_ONLY_ASYNC = 2, WRITTEN = 1 << 1, PRESENT = 1 << 3 };
struct scan {
	uint64_t size, flags, start, end, walk_end, found, nfound, max_pages, inverted, all, any, tell;
};
struct found { uint64_t start, end, categories; };
#define SCAN _IOWR('f', 16, struct scan)

/* Of a region more of whose pages are written than one in ONE_IN, the next RESTS snapshots copy all: the
 * first write to a page that is watched costs more than copying it. */
enum { ONE_IN = 8, RESTS = 8 };

static uint64_t up(uint64_t at) { return (at + PAGE - 1) / PAGE * PAGE; }

static void mark(uint64_t *map, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; ) {
		uint64_t first = i % BITS, n = BITS - first < to - i ? BITS - first : to - i;
		map[i / BITS] |= (n == BITS ? ~0UL : (1UL << n) - 1) << first;
		i += n;
	}
}

static void stale(struct snap_tracking *t, uint64_t from, uint64_t to)
{
	for (int i = 0; i < SNAP_SLOTS; i++) mark(t->slots[i].stale, from, to);
}

static int register_with(int fd, uint64_t at, uint64_t bytes)
{
	struct uffdio_register r = {.range = {at, bytes}, .mode = UFFDIO_REGISTER_MODE_WP};
	return ioctl(fd, UFFDIO_REGISTER, &r);
}

/* Whether a region has whole pages that no other one has that is watched: what one looks at is protected
 * again, and the other would not see it. */
static bool alone(const struct bys_description *d, size_t i)
{
	const struct snap_watched *of = d->track.of, *w = &of[i];
	for (size_t k = 0; k < i; k++)
		if (of[k].on && of[k].at < w->at + w->pages * PAGE && w->at < of[k].at + of[k].pages * PAGE)
			return false;
	return w->pages > 0;
}

/* Whether nobody else has this memory: what other processes write to shared memory is not seen. */
static bool private(const struct snap_watched *w)
{
	uint64_t from, to, seen = 0, end = w->at + w->pages * PAGE;
	char *line = NULL, access[5];
	size_t room = 0;
	FILE *maps = fopen("/proc/self/maps", "re");
	if (!maps) return false;
	while (seen < w->pages * PAGE && getline(&line, &room, maps) > 0) {
		if (sscanf(line, "%lx-%lx %4s", &from, &to, access) != 3 || access[3] != 'p') continue;
		from = from < w->at ? w->at : from, to = to < end ? to : end;
		if (from < to) seen += to - from;
	}
	free(line);
	fclose(maps);
	return seen == w->pages * PAGE;
}

static bool open_both(struct snap_tracking *t)
{
	struct uffdio_api api = {.api = UFFD_API, .features = WP_ASYNC | WP_UNPOPULATED};
	t->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	t->faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | USER_MODE_ONLY);
	return t->pagemap >= 0 && t->faults >= 0 && !ioctl(t->faults, UFFDIO_API, &api);
}

void snap_track_begin(struct bys_description *d)
{
	struct snap_tracking *t = &d->track;
	*t = (struct snap_tracking){.pagemap = -1, .faults = -1};
	bool wanted = false;
	for (size_t i = 0; i < d->n; i++) wanted |= snap_capture(&d->regions[i]) == BYS_TRACK;
	if (!wanted || snap_checkpointed(d)) return;
	t->of = calloc(d->n, sizeof *t->of);
	for (size_t i = 0; t->of && i < d->n; i++) {
		struct snap_watched *w = &t->of[i];
		uint64_t from = (uint64_t)d->regions[i].at, end = from + d->regions[i].bytes;
		w->at = up(from), w->bit = t->pages;
		w->pages = end / PAGE * PAGE > w->at ? (end - w->at) / PAGE : 0;
		if (snap_capture(&d->regions[i]) == BYS_TRACK) t->pages += w->pages;
	}
	size_t words = (size_t)(t->pages + BITS - 1) / BITS;
	uint64_t *maps = words ? calloc(SNAP_SLOTS * words, sizeof *maps) : NULL;
	if (!t->of || !maps || !open_both(t)) {
		free(maps);
		snap_track_end(d);
		return;
	}
	for (size_t i = 0; i < SNAP_SLOTS; i++) t->slots[i].stale = maps + i * words;
	for (size_t i = 0; i < d->n; i++) {
		struct snap_watched *w = &t->of[i];
		w->on = snap_capture(&d->regions[i]) == BYS_TRACK && alone(d, i) && private(w) &&
			!register_with(t->faults, w->at, w->pages * PAGE);
	}
}

void snap_track_end(struct bys_description *d)
{
	struct snap_tracking *t = &d->track;
	free(t->slots[0].stale), free(t->of);
	if (t->pagemap >= 0) close(t->pagemap);
	if (t->faults >= 0) close(t->faults); /* nothing is protected any more */
	*t = (struct snap_tracking){.pagemap = -1, .faults = -1};
}

/* Protects what has been written to, or is not there: what has no page may have got another content as well
 * (madvise). Adds it to what is stale. Returns how many pages that are, all of them after an error. */
static uint64_t scan(struct snap_tracking *t, struct snap_watched *w)
{
	struct found found[256];
	struct scan s = {.size = sizeof s, .flags = SCAN_PROTECT | SCAN_ONLY_ASYNC, .start = w->at,
			 .end = w->at + w->pages * PAGE, .found = (uint64_t)found, .nfound = 256,
			 .inverted = PRESENT, .any = WRITTEN | PRESENT, .tell = WRITTEN | PRESENT};
	uint64_t pages = 0;
	while (s.start < s.end) {
		int n = ioctl(t->pagemap, SCAN, &s);
		if (n < 0 && errno == EINTR) continue;
		if (n < 0 || s.walk_end <= s.start) { /* it is no longer the memory that was registered */
			w->on = false;
			break;
		}
		for (int i = 0; i < n; i++) {
			uint64_t from = (found[i].start - w->at) / PAGE, to = (found[i].end - w->at) / PAGE;
			stale(t, w->bit + from, w->bit + to);
			pages += to - from;
		}
		s.start = s.walk_end;
	}
	if (w->on) return pages;
	stale(t, w->bit, w->bit + w->pages);
	return w->pages;
}

void snap_track_look(struct bys_description *d)
{
	for (size_t i = 0; d->track.of && i < d->n; i++) {
		struct snap_watched *w = &d->track.of[i];
		if (!w->on) continue;
		if (w->rest && --w->rest) { /* nobody looks, and all of it may have changed */
			stale(&d->track, w->bit, w->bit + w->pages);
			continue;
		}
		/* After a rest that is what has been written to since it began, which says nothing of how
		 * much is from one snapshot to the next. */
		if (scan(&d->track, w) > w->pages / ONE_IN && w->looked) w->rest = RESTS;
		w->looked = !w->rest;
	}
}

/* What a file is as long as nobody but us has written to it. */
static bool same(const struct snap_slot *s, const struct stat *st)
{
	return s->filled && s->dev == st->st_dev && s->ino == st->st_ino && s->size == st->st_size &&
	       s->at.tv_sec == st->st_mtim.tv_sec && s->at.tv_nsec == st->st_mtim.tv_nsec;
}

struct snap_slot *snap_track_slot(struct bys_description *d, int fd)
{
	struct snap_tracking *t = &d->track;
	struct stat st;
	if (!t->of) return NULL;
	struct snap_slot *s = NULL;
	for (int i = 0; i < SNAP_SLOTS && !s && !fstat(fd, &st); i++)
		if (same(&t->slots[i], &st)) s = &t->slots[i];
	if (!s) {
		s = &t->slots[t->turn++ % SNAP_SLOTS];
		mark(s->stale, 0, t->pages);
	}
	s->filled = false;
	return s;
}

void snap_track_filled(struct bys_description *d, struct snap_slot *s, int fd)
{
	struct stat st;
	if (fstat(fd, &st)) return;
	memset(s->stale, 0, (size_t)(d->track.pages + BITS - 1) / BITS * sizeof *s->stale);
	s->dev = st.st_dev, s->ino = st.st_ino, s->size = st.st_size, s->at = st.st_mtim, s->filled = true;
}

bool snap_track_run(const struct bys_description *d, size_t region, const struct snap_slot *s, uint64_t *from,
		    uint64_t *to)
{
	const struct snap_watched *w = &d->track.of[region];
	uint64_t i = *to, end = w->pages;
#define STALE(i) (s->stale[(w->bit + (i)) / BITS] >> (w->bit + (i)) % BITS & 1)
	while (i < end && !STALE(i))
		i += (w->bit + i) % BITS == 0 && !s->stale[(w->bit + i) / BITS] ? BITS : 1;
	if (i >= end) return false;
	*from = i;
	while (i < end && STALE(i)) i++;
#undef STALE
	*to = i;
	return true;
}
