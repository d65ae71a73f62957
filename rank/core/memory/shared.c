/* shared.c: what this rank shares with other ranks: files, and memory without a name.
 *
 * At a checkpoint the rank reports what others might have too (OBJECTS), and is told what they do have
 * (SHARED). One rank answers for each object: it alone saves the content, makes the object anew at a restart
 * and gives it to the others through the agent. An object that no rank can save as a whole is saved by
 * everyone, as far as each has mapped it. Ranks that share something wait for each other: after their images,
 * and at a restart before they open anything and before they seal it. All ranks wait for each other before
 * they go on after a restart, since a rank can find by name what another one has alone. Context: helper
 * thread while the application's threads stand still; restart, one thread, before anything is mapped. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "core/base/agent/agent.h"
#include "core/memory/memory.h"

enum { PART = 1024 };
/* In the image, followed by its path. */
struct shared_rec { uint64_t dev, inode, key, size; uint32_t flags, owner; uint64_t npath; };
static struct { struct buf objects, shares; bool hold; } now;   /* struct object; struct abi_share */

/* -- at a checkpoint ------------------------------------------------------------------------------------- */

static struct object *object(size_t i) { return (struct object *)now.objects.p + i; }
static size_t nobjects(void) { return now.objects.n / sizeof(struct object); }
size_t shared_nobjects(void) { return nobjects(); }
const struct object *shared_object_of(size_t i) { return object(i); }
static const struct abi_share *share(size_t i) { return (const struct abi_share *)now.shares.p + i; }
static size_t nshares(void) { return now.shares.n / sizeof(struct abi_share); }
static uint64_t key_of(const struct abi_share *s)
{
	return inode_key_of(major(s->dev), minor(s->dev), s->inode);
}

void shared_begin(void)
{
	for (size_t i = 0; i < nobjects(); i++) free((char *)object(i)->path);
	now.objects.n = now.shares.n = 0;
	now.hold = false;
}

void shared_add(const struct object *o)
{
	struct object mine = *o;
	mine.path = core_strdup(o->path);
	if (!mine.path) return;
	buf_add(&now.objects, &mine, sizeof mine);
}

/* Mappings that go on where the one before them ended count as one. */
static uint64_t mapped_from_start(const struct object *o)
{
	uint64_t end = o->size;
	for (bool grown = true; grown; ) {
		grown = false;
		for (size_t i = 0; i < nobjects(); i++) {
			const struct object *x = object(i);
			if (x->fd >= 0 || x->key != o->key || x->offset > end || x->size <= end) continue;
			end = x->size;
			grown = true;
		}
	}
	return end;
}

struct reopening { int fd; bool readable; };

static void open_again(void *p)
{
	struct reopening *l = p;
	char path[64];
	snprintf(path, sizeof path, "/proc/thread-self/fd/%d", l->fd);
	int in = open(path, O_RDONLY | O_CLOEXEC);
	if (in >= 0) close(in);
	l->readable = in >= 0;
}

bool shared_can_be_read(int fd)
{
	struct reopening l = { fd, false };
	own_table_run(open_again, &l);
	return l.readable;
}

void shared_report(uint64_t epoch)
{
	struct abi_object part[PART];
	size_t n = 0;
	for (size_t i = 0; i < nobjects(); i++) {
		const struct object *o = object(i);
		struct abi_object *p = &part[n++];
		*p = (struct abi_object){
			.dev = o->dev, .inode = o->inode, .size = o->size, .flags = o->flags, .fd = o->fd
		};
		bool content = o->flags & (ABI_OBJECT_NAMELESS | ABI_OBJECT_MEMORY);
		if (o->flags & ABI_OBJECT_IN_PLACE) p->flags |= ABI_OBJECT_WHOLE;
		if (content && o->fd < 0 && o->offset == 0) {
			p->flags |= ABI_OBJECT_FRONT;
			p->size = mapped_from_start(o);
		}
		if ((o->flags & ABI_OBJECT_NAMELESS) && o->fd >= 0) p->flags |= ABI_OBJECT_WHOLE;
		if (n < PART && i + 1 < nobjects()) continue;
		core_send(ABI_OBJECTS, epoch, part, n * sizeof *part);
		n = 0;
	}
}

void shared_told(const void *body, size_t n)
{
	const struct abi_shared_head *h = body;
	if (n < sizeof *h) return;
	now.hold = h->flags & ABI_SHARED_HOLD;
	n -= sizeof *h;
	buf_add(&now.shares, h + 1, n - n % sizeof(struct abi_share));
}

bool shared_hold(void) { return now.hold; }

uint32_t shared_flags(uint64_t key, bool *others)
{
	for (size_t i = 0; i < nshares(); i++) {
		if (key_of(share(i)) != key) continue;
		*others = share(i)->owner != (uint32_t)core_job.rank;
		return share(i)->flags;
	}
	*others = false;
	return 0;
}

/* Memory with a name that strangers have and the job only reads. */
static bool theirs(uint32_t flags)
{
	return (flags & (ABI_OBJECT_MEMORY | ABI_OBJECT_WRITES | ABI_SHARE_FOREIGN)) ==
	       (ABI_OBJECT_MEMORY | ABI_SHARE_FOREIGN);
}

bool shared_is_saved(uint64_t key)
{
	bool others;
	uint32_t flags = shared_flags(key, &others);
	return !theirs(flags) && (!others || (flags & ABI_SHARE_EVERYONE));
}

/* What the object is called here, and how large it is while nobody changes it. */
static const char *path_and_size(const struct abi_share *s, uint64_t *size)
{
	const char *path = NULL;
	struct stat st;
	for (size_t i = 0; i < nobjects(); i++) {
		const struct object *o = object(i);
		if (o->dev != s->dev || o->inode != s->inode) continue;
		if (!path) path = o->path;
		if (o->fd >= 0 && fstat(o->fd, &st) == 0) *size = (uint64_t)st.st_size;
		if ((o->flags & ABI_OBJECT_MEMORY) && stat(o->path, &st) == 0) *size = (uint64_t)st.st_size;
	}
	return path;
}

void shared_save(struct buf *b)
{
	struct buf list = { 0 };
	uint64_t n = 0;
	for (size_t i = 0; i < nshares(); i++) {
		const struct abi_share *s = share(i);
		struct shared_rec r = { .dev = s->dev,
					.inode = s->inode,
					.key = key_of(s),
					.size = s->size,
					.flags = s->flags,
					.owner = s->owner };
		const char *path = path_and_size(s, &r.size);
		uint32_t in_place = s->flags & ABI_SHARE_FOREIGN ? 0 : ABI_OBJECT_IN_PLACE;
		if (!path || !(s->flags & (ABI_OBJECT_NAMELESS | ABI_OBJECT_MEMORY | in_place))) continue;
		r.npath = strlen(path) + 1;
		buf_add(&list, &r, sizeof r);
		buf_add(&list, path, r.npath);
		buf_add(&list, NULL, (8 - r.npath % 8) % 8);
		n++;
	}
	buf_u64(b, now.hold);
	buf_u64(b, n);
	buf_add(b, list.p, list.n);
	buf_free(&list);
}

/* -- at a restart ---------------------------------------------------------------------------------------- */

static struct known { uint64_t key; int fd; bool sized; } *known;
static size_t nknown;
static struct reader recs;                      /* of the image: nrecs of struct shared_rec */
static uint64_t nrecs;
static bool together;                           /* other ranks are waited for */
static struct buf claimed;                      /* keys */

static bool starts(const char *s, const char *head) { return !strncmp(s, head, strlen(head)); }

/* A file without a name, in the directory where it was if that is possible; else a memory file. */
static int make(const char *path)
{
	char dir[4200], name[240];
	const char *slash = strrchr(path, '/'), *base = starts(path, "/memfd:") ? path + 7
							: slash			? slash + 1
										: path;
	snprintf(dir, sizeof dir, "%.*s", slash && slash > path ? (int)(slash - path) : 1, path);
	if (!starts(path, "/memfd:") && !starts(path, "/dev/zero")) {
		int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
		if (fd >= 0) return fd;
	}
	snprintf(name, sizeof name, "%.*s", (int)strcspn(base, " "), base);
	return memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

static void remember(uint64_t key, int fd, bool sized)
{
	struct known *k = realloc(known, (nknown + 1) * sizeof *k);
	if (!k) core_die("no memory for the list of shared objects");
	known = k;
	known[nknown++] = (struct known){ key, fd, sized };
}

int shared_known(uint64_t key)
{
	for (size_t i = 0; i < nknown; i++)
		if (known[i].key == key) return known[i].fd;
	return -1;
}

/* size: that it has at least; what several ranks have has its size already. */
int shared_object(uint64_t key, const char *name, uint64_t size)
{
	struct stat st;
	size_t i = 0;
	while (i < nknown && known[i].key != key) i++;
	if (i == nknown) {
		int fd = make(name);
		if (fd < 0) core_die("%s: cannot be made again: %s", name, strerror(errno));
		remember(key, fd, false);
	}
	int fd = known[i].fd;
	if (!known[i].sized &&
	    (fstat(fd, &st) || ((uint64_t)st.st_size < size && ftruncate(fd, (off_t)size))))
		core_die("%s: cannot be made %lu bytes long: %s", name, size, strerror(errno));
	return fd;
}

/* This rank answers for the object. */
static void provide(const struct shared_rec *s, const char *path)
{
	bool nameless = s->flags & ABI_OBJECT_NAMELESS;
	int fd = nameless ? make(path) : inplace_make(path, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)s->size))
		core_die("%s: cannot be made again with %lu bytes: %s", path, s->size, strerror(errno));
	if (nameless) {
		remember(s->key, fd, true);
		wire_hand(ABI_HAND_GIVE, s->owner, s->dev, s->inode, fd);
	} else {
		close(fd);
	}
}

static void obtain(const struct shared_rec *s, const char *path)
{
	int fd = wire_hand(ABI_HAND_WANT, s->owner, s->dev, s->inode, -1);
	if (fd < 0) core_die("%s: rank %u did not hand it over", path, s->owner);
	remember(s->key, fd, true);
}

/* The next of the image's records. */
static const char *next(struct reader *r, struct shared_rec *s)
{
	read_bytes(r, s, sizeof *s);
	const char *path = read_ref(r, s->npath);
	if (r->bad || !s->npath || path[s->npath - 1])
		core_die("image: what ranks share: the section is damaged");
	return path;
}

static void each(struct reader r, uint64_t n, bool mine)
{
	for (uint64_t i = 0; i < n; i++) {
		struct shared_rec s;
		const char *path = next(&r, &s);
		bool owner = s.owner == (uint32_t)core_job.rank;
		if (theirs(s.flags)) continue;
		if (mine && owner) provide(&s, path);
		if (!mine && !owner && (s.flags & ABI_OBJECT_NAMELESS)) obtain(&s, path);
	}
}

/* What the image tells of an object that others have too; without that it is this rank's alone. */
static struct shared_rec recorded(uint64_t key)
{
	struct shared_rec s = { 0 };
	struct reader r = recs;
	for (uint64_t i = 0; i < nrecs; i++) {
		next(&r, &s);
		if (s.key == key) return s;
	}
	return (struct shared_rec){ .owner = (uint32_t)core_job.rank };
}

bool shared_theirs(uint64_t key) { return theirs(recorded(key).flags); }

void shared_claim(uint64_t key, const char *path, int fd)
{
	struct stat st;
	for (size_t i = 0; i < claimed.n / sizeof key; i++)
		if (!memcmp(claimed.p + i * sizeof key, &key, sizeof key)) return;
	if (fstat(fd, &st)) core_die("%s: %s", path, strerror(errno));
	struct abi_claim c = { .dev = st.st_dev,
			       .inode = st.st_ino,
			       .was = key,
			       .owner = recorded(key).owner,
			       .flags = ABI_CLAIM_MEMORY | ABI_CLAIM_WRITES };
	wire_claim(&c, path);
	buf_u64(&claimed, key);
}

void shared_restore(struct reader *r)
{
	together = read_u64(r) != 0;
	nrecs = read_u64(r);
	recs = *r;
	if (r->bad) core_die("image: what ranks share: the section is damaged");
	each(recs, nrecs, true);
}

void shared_obtain(void)
{
	if (together) wire_hand(ABI_HAND_HERE, 0, ABI_MEETING_CUT, 0, -1);
	each(recs, nrecs, false);
}

void shared_done(void)
{
	if (together) wire_hand(ABI_HAND_HERE, 0, ABI_MEETING_FILLED, 0, -1);
}

void shared_go_on(void)
{
	if (wire.sock >= 0) wire_hand(ABI_HAND_HERE, 0, ABI_MEETING_RESTORED, 0, -1);
}

void shared_close(void)
{
	for (size_t i = 0; i < nknown; i++) close(known[i].fd);
	nknown = 0;
	buf_free(&claimed);
}
