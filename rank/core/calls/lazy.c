/* lazy.c: after a lazy restart, memory that is mapped from the image and that the application drops or
 * enlarges.
 *
 * Anonymous memory that has been dropped reads as zeros; a private mapping of a file reads as the file again,
 * here as the memory was at the checkpoint. What is added to anonymous memory reads as zeros; what is added
 * to a mapping of a file is what comes next there. So where the kernel says that a mapping is the image's, it
 * is made anonymous before. Context: lazy_maps at a restart; the rest is ANY_FS, in the SIGSYS handler, all
 * signals blocked. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/sysmacros.h>
#include "core/arena/arena.h"
#include "core/calls/calls.h"

enum { MADV_DONTNEED_LOCKED_ = 24, START = 0, END, PERMS, OFFSET, MAJOR, MINOR, INODE, NAME };

/* A line of /proc/self/maps as it comes: the fields before the name. */
struct line { uint64_t v[NAME]; int field, prot; bool shared; };

static volatile uint32_t lock;

/* The files of the image, if memory is mapped from them. */
enum { MAX_FILES = ABI_MAX_PARTS };
static struct { dev_t dev; ino_t inode; } files[MAX_FILES];
static unsigned nfiles;

void lazy_maps(dev_t dev, ino_t inode)
{
	if (nfiles == MAX_FILES) core_die("image: more than %d files", MAX_FILES);
	files[nfiles].dev = dev;
	files[nfiles++].inode = inode;
}

bool lazy_is_image(unsigned major, unsigned minor, uint64_t inode)
{
	for (unsigned i = 0; i < nfiles; i++)
		if (files[i].inode == inode && files[i].dev == makedev(major, minor)) return true;
	return false;
}

static void perms_char(struct line *l, char c)
{
	if (c == 'r') l->prot |= PROT_READ;
	if (c == 'w') l->prot |= PROT_WRITE;
	if (c == 'x') l->prot |= PROT_EXEC;
	if (c == 's') l->shared = true;
}

static unsigned digit(char c) { return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10); }

/* True when the line has ended. */
static bool add_char(struct line *l, char c)
{
	if (c == '\n') return true;
	if (l->field >= NAME) return false;
	bool between = (l->field == START && c == '-') || (l->field == MAJOR && c == ':') || c == ' ';
	if (between) l->field++;
	else if (l->field == PERMS) perms_char(l, c);
	else l->v[l->field] = l->v[l->field] * (l->field == INODE ? 10 : 16) + digit(c);
	return false;
}

static bool failed(long r) { return r < 0 && r > -4096; }

static long anonymous(uint64_t lo, uint64_t n, int prot)
{
	long r = raw(SYS_mmap, lo, n, prot, MAP_PRIVATE | MAP_ANONYMOUS | (lo ? MAP_FIXED : 0), -1, 0);
	return lo && !failed(r) ? 0 : r;
}

/* [lo, lo + n) becomes anonymous in place, so that it merges with its neighbours: mremap wants one mapping.
 */
static long copy(uint64_t lo, uint64_t n, int prot)
{
	long p = anonymous(0, n, PROT_READ | PROT_WRITE), r;
	if (failed(p)) return p;
	r = prot & PROT_READ ? 0 : raw(SYS_mprotect, lo, n, PROT_READ);
	if (!r) memcpy((void *)p, (void *)lo, n);
	if (!r) r = anonymous(lo, n, PROT_READ | PROT_WRITE);
	if (!r) memcpy((void *)lo, (void *)p, n);
	if (!r) r = raw(SYS_mprotect, lo, n, prot);
	raw(SYS_munmap, p, n);
	return r;
}

/* Where a line is of the image, its part of [from, to) becomes anonymous, empty or with its content. */
static long own(const struct line *l, uint64_t from, uint64_t to, bool keep)
{
	uint64_t lo = l->v[START] > from ? l->v[START] : from, hi = l->v[END] < to ? l->v[END] : to;
	if (lo >= hi || l->shared ||
	    !lazy_is_image((unsigned)l->v[MAJOR], (unsigned)l->v[MINOR], l->v[INODE]))
		return 0;
	return keep ? copy(lo, hi - lo, l->prot) : anonymous(lo, hi - lo, l->prot);
}

static long own_all(uint64_t from, uint64_t to, bool keep)
{
	char text[1024];
	struct line l = { 0 };
	long fd = raw(SYS_open, "/proc/thread-self/maps", O_RDONLY | O_CLOEXEC), n, r = 0;
	if (fd < 0) return fd;
	while (!r && (n = raw(SYS_read, fd, text, sizeof text)) > 0)
		for (long i = 0; i < n && !r; i++) {
			if (!add_char(&l, text[i])) continue;
			r = own(&l, from, to, keep);
			l = (struct line){ 0 };
		}
	raw(SYS_close, fd);
	return r;
}

static long own_range(uint64_t addr, uint64_t len, bool keep)
{
	if ((addr & (PAGE - 1)) || addr >= BY_ARENA_HI || len > BY_ARENA_HI - addr) return 0;
	raw_lock(&lock);
	long r = own_all(addr, addr + PAGE_UP(len), keep);
	raw_unlock(&lock);
	return r;
}

static bool drops(int advice)
{
	return advice == MADV_DONTNEED || advice == MADV_DONTNEED_LOCKED_ || advice == MADV_FREE;
}

long lazy_madvise(uint64_t addr, uint64_t len, int advice)
{
	long r = drops(advice) ? own_range(addr, len, false) : 0;
	return r < 0 ? r : raw(SYS_madvise, addr, len, advice);
}

/* This process, by a descriptor or by what stands for oneself. Kernels that do not tell do not let a process
 * drop memory so. */
static bool is_self(int pidfd)
{
	enum { SELF_THREAD = -10000, SELF = -10001 };
	static const unsigned long GET_INFO = 0xc040ff0b;
	struct { uint64_t mask, cgroup; uint32_t pid, tgid, rest[10]; } info = { 0 };
	_Static_assert(sizeof info == 64, "PIDFD_GET_INFO");
	return pidfd == SELF || pidfd == SELF_THREAD ||
	       (raw(SYS_ioctl, pidfd, GET_INFO, &info) == 0 && (int)info.tgid == core_self.pid);
}

long lazy_process_madvise(int pidfd, const struct iovec *v, uint64_t n, int advice, uint64_t flags)
{
	enum { MOST = 1024 };
	for (uint64_t i = 0; drops(advice) && n <= MOST && is_self(pidfd) && i < n; i++)
		own_range((uint64_t)v[i].iov_base, v[i].iov_len, false);
	return raw(SYS_process_madvise, pidfd, v, n, advice, flags);
}

long lazy_mremap(uint64_t old, uint64_t oldlen, uint64_t newlen, long flags, uint64_t to)
{
	bool whole = newlen > oldlen || (flags & MREMAP_FIXED);         /* else it only loses its end */
	long r = core_config.lazy && whole ? own_range(old, oldlen, true) : 0;
	return r < 0 ? r : space_mremap(old, oldlen, newlen, flags, to);
}
