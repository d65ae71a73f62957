/* files.c: files with a name, which are not part of an image: what is noted of them when all ranks stand, and
 * what they must be at a restart.
 *
 *   shorter than at the checkpoint        bytes are missing: refused (with --policy drop: said)
 *   longer, and written at its end        cut: what the job wrote since it will write again; by one rank for
 * all the same, but others write to it      not cut, and said: what they wrote is not ours to take away
 *   another file under the same name      not cut, and said
 *   one file for what were two            refused, where one rank writes to it (the agent tells)
 *   read and written in place             whatever it is now: its content is in an image (inplace.c)
 *   begun since the image before          the same (unfinished.c)
 *   closed, and appended to before        cut, as if it were open; shorter, or gone: said
 *   closed, and written otherwise before  as it is now; that it has grown is said
 * Others are seen when they have the file open at the checkpoint (the agent looks) or at the restart (a lease
 * tells). Context: helper thread while all ranks stand; restart, before this process has opened any of the
 * files. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "core/base/agent/agent.h"
#include "core/calls/calls.h"
#include "core/files/fds.h"

uint64_t file_birth(const struct statx *st)
{
	return st->stx_mask & STATX_BTIME
		       ? (uint64_t)st->stx_btime.tv_sec * 1000000000UL + st->stx_btime.tv_nsec
		       : 0;
}

bool file_is_another(const struct statx *st, uint64_t inode, uint64_t birth)
{
	return st->stx_ino != inode || (file_birth(st) && birth && file_birth(st) != birth);
}

static bool writes(const struct fd_rec *r) { return (r->flags & O_ACCMODE) != O_RDONLY; }

/* File systems that are one machine's own: others may give one file another number on each. */
static bool is_local(int fd)
{
	static const unsigned long own[] = { TMPFS_MAGIC, RAMFS_MAGIC, EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,
					     BTRFS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, F2FS_SUPER_MAGIC,
					     0x2fc12fc1 /* ZFS */, 0xca451a4e /* bcachefs */ };
	struct statfs fs;
	if (fstatfs(fd, &fs)) return false;
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		if ((unsigned long)fs.f_type == own[i]) return true;
	return false;
}

/* A number that is another after each start of a machine. */
static uint64_t machine(void)
{
	static uint64_t known;
	char text[64] = "";
	uint64_t h = 0xcbf29ce484222325UL;      /* FNV-1a */
	if (known) return known;
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof text - 1) <= 0) core_debug("boot_id: %s", strerror(errno));
	if (fd >= 0) close(fd);
	for (const char *c = text; *c; c++) h = (h ^ (unsigned char)*c) * 0x100000001b3UL;
	return known = h;
}

void file_settle(struct fd_rec *r)
{
	struct statx st;
	bool others;
	if (statx(r->fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &st)) return;
	r->x[0] = st.stx_size;
	if (r->kind != FD_FILE) return;
	uint32_t flags = shared_flags(r->key, &others);
	r->x[1] = writes(r) && ((r->flags & O_APPEND) || r->offset >= r->x[0] || (flags & ABI_OBJECT_END));
	r->x[2] = st.stx_ino;
	r->x[3] = file_birth(&st);
	r->x[5] = is_local(r->fd) ? machine() ^ r->key : 0;
	r->x[4] = (others ? FILE_OF_ANOTHER : 0) | (flags & ABI_SHARE_FOREIGN ? FILE_FOREIGN : 0) |
		  (inplace_is(r->key) ? FILE_IN_PLACE : 0);
}

/* A lease for reading is granted when nobody has the file open for writing. Without the right to leases
 * nobody is seen. */
static bool written_by_others(const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0) return false;
	fcntl(fd, F_SETSIG, SIGURG);            /* should it be broken meanwhile: a signal that is ignored */
	bool others = fcntl(fd, F_SETLEASE, F_RDLCK) && errno == EAGAIN;
	if (!others) fcntl(fd, F_SETLEASE, F_UNLCK);
	close(fd);
	return others;
}

static void shorter(const struct fd_rec *r, const char *path, uint64_t size, bool (*in_image)(uint64_t key))
{
	if (in_image(r->key)) return;          /* memory with a name: it is filled again */
	if (!core_config.policy_drop)
		core_die("fd %d, %s: has %lu bytes, had %lu at the checkpoint: what is missing cannot be "
			 "brought back",
			 r->fd, path, size, r->x[0]);
	core_say("fd %d, %s: has %lu bytes, had %lu at the checkpoint", r->fd, path, size, r->x[0]);
}

static void check(const struct fd_rec *r, const char *path, bool (*in_image)(uint64_t key))
{
	struct statx st;
	if (r->kind != FD_FILE || (r->flags & O_PATH) || (r->x[4] & FILE_IN_PLACE) ||
	    !strncmp(path, "/proc/", 6) || !strncmp(path, "/sys/", 5))
		return;
	if ((r->x[4] & FILE_FOREIGN) && (r->flags & O_ACCMODE) == O_RDWR && !(r->flags & O_APPEND))
		core_say("fd %d, %s: other programs write to it: it is as they and this job have left it",
			 r->fd, path);
	/* opening tells */
	if (statx(AT_FDCWD, path, 0, STATX_BASIC_STATS | STATX_BTIME, &st) || !S_ISREG(st.stx_mode)) return;
	bool another = file_is_another(&st, r->x[2], r->x[3]);
	if (st.stx_size < r->x[0]) shorter(r, path, st.stx_size, in_image);
	if (another)
		core_say("fd %d, %s: is another file than at the checkpoint: it is not cut to the %lu bytes "
			 "that that one had",
			 r->fd, path, r->x[0]);
	if (another || !r->x[1] || st.stx_size <= r->x[0] || (r->x[4] & FILE_OF_ANOTHER)) return;
	if ((r->x[4] & FILE_FOREIGN) || written_by_others(path))
		core_say("fd %d, %s: other programs write to it: it is not cut to the %lu bytes that it had",
			 r->fd, path, r->x[0]);
	else if (truncate(path, (off_t)r->x[0]))
		core_die("fd %d, %s: cannot be cut to its length at the checkpoint: %s", r->fd, path,
			 strerror(errno));
}

void file_claim(const struct fd_rec *r, const char *path, int fd)
{
	struct stat st;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || !is_local(fd)) return;
	struct abi_claim c = { .dev = st.st_dev,
			       .inode = st.st_ino,
			       .was = r->x[5] ? r->x[5] : r->x[2],
			       .birth = r->x[3],
			       .flags = writes(r) ? ABI_CLAIM_WRITES : 0 };
	wire_claim(&c, path);
}

/* -- files that are closed (written.c) ------------------------------------------------------------------- */

/* In the image, behind the records of descriptors; followed by its path. */
struct closed_rec { uint64_t size, inode, birth, flags, npath; };
enum { CLOSED_OPEN = 1U << 31 };                /* it is open, and so has a record of its own */

static bool look(const char *path, struct statx *st)
{
	return !statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME, st) &&
	       S_ISREG(st->stx_mode);
}

static uint64_t device_of(const struct statx *st) { return makedev(st->stx_dev_major, st->stx_dev_minor); }

static void say_late(struct written *w)
{
	if (w->flags & WRITTEN_LATE)
		core_say("%s: was not open for appending before the checkpoint that the job has gone back "
			 "to, and had been written since: what the job has appended to it may be there twice",
			 w->path);
	w->flags &= ~(uint32_t)WRITTEN_LATE;
}

/* One that has another name by now, or none, is not looked at any more. */
void closed_settle(struct buf *b, bool (*is_written)(uint64_t key))
{
	uint64_t n = 0;
	b->n = 0;
	b->bad = false;                         /* memory has not sufficed at the checkpoint before */
	buf_u64(b, n);
	for (unsigned i = 0; i < NWRITTEN; i++) {
		struct written *w = written_at(i);
		struct statx st;
		if (!w->used) continue;
		if (!look(w->path, &st) || st.stx_ino != w->inode || device_of(&st) != w->dev) {
			w->used = 0;
			continue;
		}
		say_late(w);
		uint64_t key = inode_key_of(st.stx_dev_major, st.stx_dev_minor, st.stx_ino);
		struct closed_rec r = { .size = st.stx_size,
					.inode = w->inode,
					.birth = file_birth(&st),
					.flags = w->flags | (is_written(key) ? CLOSED_OPEN : 0),
					.npath = strlen(w->path) + 1 };
		buf_add(b, &r, sizeof r);
		buf_add(b, w->path, r.npath);
		buf_add(b, NULL, (8 - r.npath % 8) % 8);
		n++;
	}
	if (!b->bad) memcpy(b->p, &n, sizeof n);
}

static void cut(const char *path, uint64_t size, uint64_t had)
{
	struct statx st;
	bool others = written_by_others(path);
	/* one of those may have been a rank that cuts it, too */
	if (others && look(path, &st) && st.stx_size <= had) return;
	if (others)
		core_say("%s: other programs write to it: it is not cut to the %lu bytes that it had at the "
			 "checkpoint",
			 path, had);
	else if (truncate(path, (off_t)had))
		core_say("%s: has %lu bytes, and cannot be cut to the %lu that it had at the checkpoint: %s",
			 path, size, had, strerror(errno));
	else core_debug("%s: cut from %lu to %lu bytes", path, size, had);
}

static void changed(const char *path, uint64_t size, const struct closed_rec *r)
{
	bool at_end = r->flags & WRITTEN_AT_END;
	if (size > r->size && at_end) cut(path, size, r->size);
	else if (size > r->size)
		core_say("%s: was closed at the checkpoint and had %lu bytes; has %lu now, as the job has "
			 "left it",
			 path, r->size, size);
	else if (size < r->size && at_end)
		core_say("%s: has %lu bytes, had %lu at the checkpoint", path, size, r->size);
}

/* Before any rank goes on. */
static void check_closed(const struct closed_rec *r, const char *path, uint64_t image_ns)
{
	struct statx st;
	bool there = look(path, &st), at_end = (r->flags & WRITTEN_AT_END) && !(r->flags & CLOSED_OPEN);
	bool another = there && file_is_another(&st, r->inode, r->birth);
	if (at_end && another)
		core_say("%s: is another file than at the checkpoint: it is not cut to the %lu bytes that "
			 "that one had",
			 path, r->size);
	if (at_end && !there) core_say("%s: had %lu bytes at the checkpoint, and is gone", path, r->size);
	if (!there || another) return;
	if (!(r->flags & CLOSED_OPEN)) changed(path, st.stx_size, r);
	struct written w = { .dev = device_of(&st),
			     .inode = st.stx_ino,
			     .flags = (uint32_t)r->flags & WRITTEN_AT_END };
	memcpy(w.path, path, r->npath);
	written_again(&w, image_ns);
}

static void check_all_closed(struct reader *list, uint64_t image_ns)
{
	uint64_t n = list->at < list->n ? read_u64(list) : 0;   /* an older image has none */
	written_again(NULL, image_ns);
	for (uint64_t i = 0; i < n; i++) {
		struct closed_rec r;
		read_bytes(list, &r, sizeof r);
		const char *path = read_ref(list, r.npath);
		if (list->bad || !r.npath || r.npath > PATH_MAX || path[r.npath - 1])
			core_damaged("image: descriptors: the section is damaged");
		check_closed(&r, path, image_ns);
	}
}

/* The records are looked at again when they are restored, which says what is wrong with them. */
void files_check(struct reader fds, bool (*in_image)(uint64_t key), uint64_t image_ns)
{
	uint64_t n = read_u64(&fds);
	for (uint64_t i = 0; i < n && !fds.bad; i++) {
		struct fd_rec r;
		read_bytes(&fds, &r, sizeof r);
		const char *path = read_ref(&fds, r.npath);
		read_ref(&fds, r.nextra);
		read_ref(&fds, r.nlocks);
		if (!fds.bad && r.npath && !path[r.npath - 1]) check(&r, path, in_image);
	}
	if (!fds.bad) check_all_closed(&fds, image_ns);
	if (!fds.bad) unfinished_check(&fds);
}
