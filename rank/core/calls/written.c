/* written.c: which files the application has opened for writing: of one that is closed again the kernel does
 * not tell.
 *
 * A log that a program opens, appends to and closes at each step is closed at most checkpoints, and would be
 * there twice after going back. So files are noted when they are opened (filter.c traps that), by device,
 * inode and name; files.c takes their sizes when all ranks stand. Those that were opened longest ago make
 * room for others. Not noted are files that are emptied when they are opened. What children open is their own
 * affair. Context: ANY_FS, in the SIGSYS handler; the rest while the application's threads stand still, or
 * restart. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include "core/calls/calls.h"

static struct written files[NWRITTEN];
static uint64_t moments, since_ns;              /* the image that this process goes on from; 0: none */
enum { NOPENED = 1024 };
static uint32_t opened[NOPENED], nopened;        /* by descriptor: the moment of its opening */
static volatile uint32_t busy;

/* Its holder runs with all signals blocked, and waits for nothing. */
static ANY_FS void take(void)
{
	while (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE)) __builtin_ia32_pause();
}
static ANY_FS void give(void) { __atomic_store_n(&busy, 0, __ATOMIC_RELEASE); }

static ANY_FS struct written *place_for(uint64_t dev, uint64_t inode)
{
	struct written *oldest = files;
	for (struct written *w = files; w < files + NWRITTEN; w++) {
		if (w->used && w->dev == dev && w->inode == inode) return w;
		if (w->used < oldest->used) oldest = w;
	}
	*oldest = (struct written){ .dev = dev, .inode = inode };
	return oldest;
}

static ANY_FS bool path_of(int fd, char *out)
{
	char p[32] = "/proc/self/fd/", digits[12];
	int n = 0, k = 14;
	do digits[n++] = (char)('0' + fd % 10); while (fd /= 10);
	while (n) p[k++] = digits[--n];
	long len = raw(SYS_readlink, p, out, PATH_MAX - 1);
	out[len > 0 ? len : 0] = 0;
	return len > 0 && *out == '/';
}

/* After going back, one that is written for the first time, and has been written since the image was made,
 * may have been written so by the job. */
static ANY_FS bool is_late(const struct stat *st)
{
	uint64_t changed = (uint64_t)st->st_mtim.tv_sec * 1000000000UL + (uint64_t)st->st_mtim.tv_nsec;
	return since_ns && st->st_size && changed > since_ns;
}

static ANY_FS void note(int fd, bool at_end)
{
	struct stat st;
	if (raw(SYS_fstat, fd, &st) || !S_ISREG(st.st_mode) || !st.st_nlink) return;
	take();
	struct written *w = place_for(st.st_dev, st.st_ino);
	if (!w->used && at_end && is_late(&st)) w->flags |= WRITTEN_LATE;
	if (at_end) w->flags |= WRITTEN_AT_END;
	w->used = path_of(fd, w->path) ? ++moments : 0;
	give();
}

/* Only a call that opens a regular file, which waits for nobody, is made here. */
ANY_FS long written_open(long nr, const uint64_t *x, bool *made)
{
	long dir = nr == SYS_open ? AT_FDCWD : (long)(int)x[0];
	uint64_t path = nr == SYS_open ? x[0] : x[1];
	uint64_t flags = nr == SYS_open ? x[1] : nr == SYS_openat ? x[2] : ((struct open_how *)x[2])->flags;
	struct stat st;
	bool there = !raw(SYS_newfstatat, dir, path, &st, 0), at_end = flags & O_APPEND;
	*made = false;
	if (core_is_rank() != 1 || !(flags & (O_ACCMODE | O_APPEND)) || (there && !S_ISREG(st.st_mode)))
		return 0;
	long fd = raw(nr, x[0], x[1], x[2], x[3]);
	if (fd >= 0 && fd < NOPENED) opened[fd] = __atomic_add_fetch(&nopened, 1, __ATOMIC_RELAXED);
	if (fd >= 0 && !(flags & O_PATH) && (at_end || !(flags & O_TRUNC))) note((int)fd, at_end);
	*made = true;
	return fd;
}

struct written *written_at(unsigned i) { return &files[i]; }

uint32_t written_moment(int fd) { return fd < NOPENED ? opened[fd] : 0; }

void written_again(const struct written *w, uint64_t image_ns)
{
	since_ns = image_ns;
	if (!w) return;
	struct written *at = place_for(w->dev, w->inode);
	*at = *w;
	at->used = ++moments;
}
