/* unfinished.c: files with a name that the application is writing forward when all ranks stand.
 *
 * Such a file is cut to its length when the job goes back, and written on. That is right for one that has
 * only grown since. One that was closed, and begun anew under its name or renamed, has the first part of
 * another step by then, or is not there at all: so programs write their results and their own restart files.
 * Hence
 *
 *   opened since the image before    its content belongs to the image, as that of one that is read and
 *                                    written in place (inplace.c), up to MOST bytes of this rank together
 *   open for longer                  a log, most likely: a checksum of what is in front of the offset tells
 *                                    at the restart whether it is still so, which is said if not
 *
 * Opened anew is told by inode, birth and the moment of opening, which the trap of open counts (written.c).
 * Context: the carrier while the application's threads stand still; restart, one thread. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "core/base/agent/agent.h"
#include "core/calls/calls.h"
#include "core/files/fds.h"

enum { MOST = 64 << 20, TAIL = 64 << 10 };
/* In the image, behind the files that are closed; followed by its path. sum: CRC-32C of the last TAIL bytes
 * in front of end. */
struct part_rec { int64_t fd; uint64_t end, sum, inode, birth, npath; };

struct opened { uint64_t key, birth, moment; };
static struct buf before;                       /* struct opened, at the image before */
static uint64_t taken;                          /* bytes of this attempt */

static bool forward(const struct fd_rec *r)
{
	return r->kind == FD_FILE && (r->flags & (O_ACCMODE | O_PATH)) == O_WRONLY && r->same < 0;
}

static struct opened opened_by(const struct fd_rec *r)
{
	struct statx st = { 0 };
	if (statx(r->fd, "", AT_EMPTY_PATH, STATX_BTIME, &st)) core_debug("fd %d: statx", r->fd);
	return (struct opened){ r->key, file_birth(&st), written_moment(r->fd) };
}

void unfinished_begin(void) { taken = 0; }

/* None with locks: record locks end when this process closes any descriptor of the file, as the one that
 * reads it would. */
bool unfinished_young(const struct fd_rec *r, uint64_t size)
{
	if (!core_config.save_files || !forward(r) || (r->flags & O_APPEND) || r->in_flight || r->nlocks)
		return false;
	struct opened o = opened_by(r);
	for (size_t i = 0; i < before.n / sizeof o; i++)
		if (!memcmp(before.p + i * sizeof o, &o, sizeof o)) return false;
	if (size > MOST - taken || !shared_can_be_read(r->fd)) return false;
	taken += size;
	return true;
}

static void sum(int dir_fd, const char *path, uint64_t end, uint32_t *crc, bool *read_all)
{
	static char tail[TAIL];
	uint64_t n = end < TAIL ? end : TAIL;
	int fd = openat(dir_fd, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	*read_all = fd >= 0 && pread(fd, tail, n, (off_t)(end - n)) == (ssize_t)n;
	*crc = *read_all ? crc32c(0, tail, n) : 0;
	if (fd >= 0) close(fd);
}

static bool add_part(const struct fd_rec *r, struct buf *out)
{
	char p[64];
	bool read_all;
	uint32_t crc;
	uint64_t end = r->flags & O_APPEND || r->offset > r->x[0] ? r->x[0] : r->offset;
	if (!end || (r->x[4] & (FILE_IN_PLACE | FILE_FOREIGN))) return false;
	snprintf(p, sizeof p, "/proc/thread-self/fd/%d", r->fd);
	sum(AT_FDCWD, p, end, &crc, &read_all);
	if (!read_all) return false;
	struct part_rec k = { r->fd, end, crc, r->x[2], r->x[3], r->npath };
	buf_add(out, &k, sizeof k);
	buf_add(out, (void *)r->path, r->npath);
	buf_add(out, NULL, (8 - r->npath % 8) % 8);
	return true;
}

/* On a thread with a table of its own. */
void unfinished_save(const struct fd_rec *recs, size_t nrecs, struct buf *out)
{
	struct buf parts = { 0 };
	uint64_t n = 0;
	before.n = 0;
	for (size_t i = 0; i < nrecs; i++) {
		if (!forward(&recs[i])) continue;
		struct opened o = opened_by(&recs[i]);
		buf_add(&before, &o, sizeof o);
		n += add_part(&recs[i], &parts);
	}
	buf_u64(out, n);
	buf_add(out, parts.p, parts.n);
	out->bad |= parts.bad;
	before.bad = false;                     /* then some are young once more */
	buf_free(&parts);
}

static void check(const struct part_rec *k, const char *path)
{
	struct statx st;
	uint32_t crc;
	bool read_all;
	if (statx(AT_FDCWD, path, 0, STATX_BASIC_STATS | STATX_BTIME, &st) || !S_ISREG(st.stx_mode)) return;
	if (file_is_another(&st, k->inode, k->birth) || st.stx_size < k->end) return;   /* files.c says so */
	sum(AT_FDCWD, path, k->end, &crc, &read_all);
	if (read_all && crc != k->sum)
		core_say("fd %ld, %s: has been written anew since the checkpoint: of its first %lu bytes, "
			 "which it had then, some are of a later step",
			 k->fd, path, k->end);
}

/* An older image has none. */
void unfinished_check(struct reader *list)
{
	uint64_t n = list->at < list->n ? read_u64(list) : 0;
	for (uint64_t i = 0; i < n; i++) {
		struct part_rec k;
		read_bytes(list, &k, sizeof k);
		const char *path = read_ref(list, k.npath);
		if (list->bad || !k.npath || k.npath > PATH_MAX || path[k.npath - 1])
			core_damaged("image: descriptors: the section is damaged");
		check(&k, path);
	}
}
