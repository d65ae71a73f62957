/* file.c: a member's part of a snapshot: one file, with a table of its regions and their bytes. The file lies
 * in memory that the agent's node has for it; checksums and redundancy are the agents'. Context: see state.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "state.h"

#define MAGIC 0x50414e5359420001 /* "\1\0BYSNAP": version 1 */
#define PAGE 4096

/* The file begins with a head and an entry for each region; from the next page on lie their bytes, each
 * region's at the beginning of a page. */
struct head { uint64_t magic, tag; uint32_t member, members; uint64_t regions; };

static uint64_t up(uint64_t n) { return (n + PAGE - 1) / PAGE * PAGE; }

bool snap_lay_out(struct bys_description *d)
{
	d->table = calloc(d->n, sizeof *d->table);
	uint64_t at = up(sizeof(struct head) + d->n * sizeof *d->table);
	for (size_t i = 0; d->table && i < d->n; i++) {
		d->table[i] = (struct snap_entry){d->regions[i].id, d->regions[i].bytes, at};
		at += up(d->regions[i].bytes);
	}
	return d->table != NULL;
}

/* Writes or reads all of n bytes. 0: done; else errno, or EIO at the end of the file. */
static int all(int fd, void *at, uint64_t n, uint64_t from, bool write)
{
	for (char *p = at; n; ) {
		size_t piece = n > 1UL << 30 ? 1UL << 30 : n;
		ssize_t done = write ? pwrite(fd, p, piece, (off_t)from)
				     : pread(fd, p, piece, (off_t)from);
		if (done < 0 && errno == EINTR) continue;
		if (done <= 0) return done ? errno : EIO;
		p += done, from += (uint64_t)done, n -= (uint64_t)done;
	}
	return 0;
}

static bool path_of(char *path, const char *dir, uint32_t member)
{
	return snprintf(path, DIRECTORY, "%s/member-%u", dir, member) < DIRECTORY;
}

static uint64_t end_of(const struct bys_description *d)
{
	return d->table[d->n - 1].at + d->table[d->n - 1].bytes;
}

static int too_long(struct bys_description *d, const char *dir)
{
	return snap_because(d, BYS_ESYS, "%s: a path that is too long", dir);
}

/* Opens the file of the next snapshot in a directory, which is made. */
static int open_next(struct bys_description *d, const char *dir, char *path)
{
	if (!path_of(path, dir, d->member)) return too_long(d, dir);
	int made = mkdir(dir, 0700) ? errno : 0;
	if (made == ENOENT)
		return snap_because(d, BYS_EFAILED,
				    "%s: its directory is gone, as when the program was restored from a "
				    "checkpoint of its processes: bys_commit begins another", dir);
	if (made && made != EEXIST) return snap_because(d, BYS_ESYS, "%s: %s", dir, strerror(made));
	d->file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (d->file < 0) return snap_because(d, BYS_ESYS, "%s: %s", path, strerror(errno));
	return BYS_OK;
}

/* Writes of a region that is watched what the file does not have: stale pages, and what is no whole page. */
static int write_stale(struct bys_description *d, size_t i)
{
	const struct snap_watched *w = &d->track.of[i];
	char *at = d->regions[i].at;
	uint64_t bytes = d->regions[i].bytes, base = d->table[i].at;
	uint64_t head = w->at - (uint64_t)at, tail = head + w->pages * PAGE, from, to = 0;
	int failed = all(d->file, at, head, base, true);
	while (!failed && snap_track_run(d, i, d->slot, &from, &to)) {
		uint64_t begin = head + from * PAGE;
		failed = all(d->file, at + begin, (to - from) * PAGE, base + begin, true);
	}
	return failed ? failed : all(d->file, at + tail, bytes - tail, base + tail, true);
}

/* Writes those regions that are handed over, or the others. */
static int write_regions(struct bys_description *d, bool handed)
{
	int failed = 0;
	for (size_t i = 0; i < d->n && !failed; i++) {
		bool mine = d->hand && snap_capture(&d->regions[i]) == BYS_HANDOVER;
		if (mine != handed) continue;
		failed = d->slot && d->track.of[i].on ? write_stale(d, i)
			 : all(d->file, d->regions[i].at, d->regions[i].bytes, d->table[i].at, true);
	}
	return failed;
}

/* Ends the writing of a file. Returns errno. */
static int complete(struct bys_description *d, int failed)
{
	if (!failed && ftruncate(d->file, (off_t)end_of(d))) failed = errno;
	if (!failed && d->slot) snap_track_filled(d, d->slot, d->file);
	if (close(d->file) && !failed) failed = errno;
	d->file = -1;
	return failed;
}

int snap_write_handed(struct bys_description *d) { return complete(d, write_regions(d, true)); }

int snap_unwritten(struct bys_description *d, int failed)
{
	bool full = failed == ENOSPC || failed == EDQUOT;
	return snap_because(d, full ? BYS_EROOM : BYS_ESYS, "%s/member-%u: %s", d->dir, d->member,
			    strerror(failed));
}

int snap_write(struct bys_description *d, const char *dir, uint64_t tag)
{
	char path[DIRECTORY];
	struct head h = {MAGIC, tag, d->member, d->members, d->n};
	int result = open_next(d, dir, path);
	if (result != BYS_OK) return result;
	snap_track_look(d);
	d->slot = snap_track_slot(d, d->file);
	int failed = all(d->file, &h, sizeof h, 0, true);
	if (!failed) failed = all(d->file, d->table, d->n * sizeof *d->table, sizeof h, true);
	if (!failed) failed = write_regions(d, false);
	if (!failed && d->hand) return snap_hand_over(d), BYS_OK;
	failed = complete(d, failed);
	return failed ? snap_unwritten(d, failed) : BYS_OK;
}

void snap_warm(struct bys_description *d, const char *dir)
{
	char path[DIRECTORY];
	struct stat st;
	char why[sizeof d->why];
	memcpy(why, d->why, sizeof why);
	if (open_next(d, dir, path) == BYS_OK) {
		bool whole = !fstat(d->file, &st) && (uint64_t)st.st_blocks * 512 >= end_of(d);
		if (!whole) (void)!fallocate(d->file, 0, 0, (off_t)end_of(d)); /* else bys_start says why */
		close(d->file);
	}
	memcpy(d->why, why, sizeof why);
}

/* Whether the file's table is that of the regions. */
static int compare(struct bys_description *d, int fd, const char *path, const struct head *h)
{
	unsigned long regions = h->regions;
	if (regions != d->n)
		return snap_because(d, BYS_EDIFFER, "member %u: found %zu regions, wanted the snapshot's %lu",
				    d->member, d->n, regions);
	for (size_t i = 0; i < d->n; i++) {
		struct snap_entry e = {0};
		int failed = all(fd, &e, sizeof e, sizeof *h + i * sizeof e, false);
		if (failed) return snap_because(d, BYS_ESYS, "%s: %s", path, strerror(failed));
		if (e.id != d->regions[i].id || e.bytes != d->regions[i].bytes)
			return snap_because(d, BYS_EDIFFER,
					    "member %u: found region %u of %lu bytes, wanted the snapshot's "
					    "%lu of %lu",
					    d->member, d->regions[i].id, (unsigned long)d->regions[i].bytes,
					    (unsigned long)e.id, (unsigned long)e.bytes);
	}
	return BYS_OK;
}

/* Opens the member's file, and reads its head. */
static int open_member(struct bys_description *d, const char *dir, char *path, struct head *h, int *fd)
{
	if (!path_of(path, dir, d->member)) return too_long(d, dir);
	*fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (*fd < 0) return snap_because(d, BYS_ESYS, "%s: %s", path, strerror(errno));
	int failed = all(*fd, h, sizeof *h, 0, false), result = BYS_OK;
	if (failed) result = snap_because(d, BYS_ESYS, "%s: %s", path, strerror(failed));
	else if (h->magic != MAGIC || h->member != d->member)
		result = snap_because(d, BYS_ESYS, "%s: is no part of member %u", path, d->member);
	if (result != BYS_OK) close(*fd);
	return result;
}

int snap_read(struct bys_description *d, const char *dir, uint64_t *tag)
{
	char path[DIRECTORY];
	struct head h = {0};
	int fd, result = open_member(d, dir, path, &h, &fd);
	if (result != BYS_OK) return result;
	result = compare(d, fd, path, &h);
	for (size_t i = 0; i < d->n && result == BYS_OK; i++) {
		if (d->regions[i].capture & BYS_LEAVE) continue;
		int failed = all(fd, d->regions[i].at, d->regions[i].bytes, d->table[i].at, false);
		if (failed) result = snap_because(d, BYS_ESYS, "%s: %s", path, strerror(failed));
	}
	close(fd);
	*tag = h.tag;
	return result;
}

int snap_look(struct bys_description *d, const char *dir, const struct snap_sight *s)
{
	char path[DIRECTORY];
	struct head h = {0};
	int fd, result = open_member(d, dir, path, &h, &fd);
	if (result != BYS_OK) return result;
	for (size_t i = 0; i < *s->n && i < h.regions && result == BYS_OK; i++) {
		struct snap_entry e = {0};
		int failed = all(fd, &e, sizeof e, sizeof h + i * sizeof e, false);
		if (failed) result = snap_because(d, BYS_ESYS, "%s: %s", path, strerror(failed));
		s->regions[i] = (bys_region){.id = (uint32_t)e.id, .bytes = e.bytes};
	}
	close(fd);
	if (result != BYS_OK) return result;
	*s->n = h.regions;
	if (s->tag) *s->tag = h.tag;
	return BYS_OK;
}
