/* inplace.c: files that the application reads and writes in place. Their content belongs to the checkpoint: a
 * program that adds to a number in a file would add to its own later result when it goes back.
 *
 * A file is one when it is open for reading and writing and not for appending, or mapped shared and writable,
 * and has a name; so is one whose writing has begun since the image before (unfinished.c). One rank saves it
 * for all that have it. What strangers have open for writing is theirs as well, and is left alone. Context:
 * the carrier while the application's threads stand still; restart, before there are other threads. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/memory/memory.h"

bool inplace_open(int flags)
{
	return core_config.save_files && (flags & O_ACCMODE) == O_RDWR && !(flags & (O_APPEND | O_PATH));
}

bool inplace_mapped(const struct abi_vma *v)
{
	return core_config.save_files && v->kind == ABI_VMA_FILE_SHARED && !(v->vmflags & VMF_TMPFS) &&
	       (v->prot & PROT_WRITE);
}

bool inplace_is(uint64_t key)
{
	bool others;
	uint32_t flags = shared_flags(key, &others);
	for (size_t i = 0; i < shared_nobjects(); i++)
		if (shared_object_of(i)->key == key) flags |= shared_object_of(i)->flags;
	return (flags & ABI_OBJECT_IN_PLACE) && !(flags & ABI_SHARE_FOREIGN);
}

/* -- at a checkpoint ------------------------------------------------------------------------------------- */

static bool listed(const struct content_list *l, uint64_t key)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->c[i].key == key) return true;
	return false;
}

static void add(struct content_list *l, const struct content *c)
{
	struct content *more = core_realloc(l->c, (l->n + 1) * sizeof *l->c);
	if (!more && c->ours) close(c->fd);
	if (!more) return;
	l->c = more;
	l->c[l->n++] = *c;
}

/* A database of sqlite is rolled back when a file with this name is beside it (sqlite.org/fileformat.html,
 * 3.1): so that file must be what it was, or not be there. */
static bool journal_of(const char *path, char *name, size_t n)
{
	return snprintf(name, n, "%s-journal", path) < (int)n;
}

/* Through the application's own descriptor. Where it has none it has no record locks on the file either,
 * which closing ours would end. */
static void take(struct content_list *l, const struct object *o)
{
	struct stat st;
	bool theirs = o->fd >= 0 && !(o->flags & ABI_OBJECT_UNFINISHED);
	int fd = theirs ? o->fd : open(o->path, O_RDONLY | O_CLOEXEC);
	bool right = fd >= 0 && fstat(fd, &st) == 0 && inode_key(&st) == o->key;
	if (!right && !l->unread) l->unread = o->path, l->error = fd < 0 ? errno : ESTALE;
	if (!right && fd >= 0 && !theirs) close(fd);
	if (!right) return;
	add(l, &(struct content){ .key = o->key,
				  .size = (uint64_t)st.st_size,
				  .mode = st.st_mode & 07777,
				  .fd = fd,
				  .ours = !theirs,
				  .journal = o->flags & ABI_OBJECT_UNFINISHED,
				  .path = o->path });
}

/* One that the application has open is in the list already. */
static void take_journal(struct content_list *l, size_t i)
{
	char name[4300];
	char *path;
	struct stat st;
	if (l->c[i].journal || !journal_of(l->c[i].path, name, sizeof name)) return;
	int fd = open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0) return;
	l->c[i].journal = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
	if (!l->c[i].journal || listed(l, inode_key(&st)) || !(path = core_strdup(name))) {
		close(fd);
		return;
	}
	add(l, &(struct content){ .key = inode_key(&st),
				  .size = (uint64_t)st.st_size,
				  .mode = st.st_mode & 07777,
				  .fd = fd,
				  .ours = true,
				  .path = path });
}

void inplace_list(struct content_list *l)
{
	*l = (struct content_list){ 0 };
	for (int mapped = 0; mapped < 2; mapped++)
		for (size_t i = 0; i < shared_nobjects(); i++) {
			const struct object *o = shared_object_of(i);
			if (!(o->flags & ABI_OBJECT_IN_PLACE) || (o->fd < 0) != mapped) continue;
			if (!listed(l, o->key) && shared_is_saved(o->key) && inplace_is(o->key)) take(l, o);
		}
	l->named = l->n;
	for (size_t i = 0; i < l->named; i++) take_journal(l, i);
	uint64_t at = ABI_CONTENT_LO;
	for (size_t i = 0; i < l->n; i++) {
		l->c[i].start = at;
		l->c[i].end = at + PAGE_UP(l->c[i].size ? l->c[i].size : 1);
		at = l->c[i].end + PAGE;
	}
}

void inplace_free(struct content_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->c[i].ours) close(l->c[i].fd);
	for (size_t i = l->named; i < l->n; i++) free((char *)l->c[i].path);
	free(l->c);
	*l = (struct content_list){ 0 };
}

/* -- holes ----------------------------------------------------------------------------------------------- */

struct seeking { const struct content *c; uint32_t index; struct run_list *out; };

static void add_run(struct seeking *s, uint64_t from, uint64_t to)
{
	struct run_list *l = s->out;
	if (l->n == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 256;
		struct run *more = core_realloc(l->r, cap * sizeof *more);
		if (!more) l->bad = true;
		if (!more) return;
		l->r = more;
		l->cap = cap;
	}
	l->r[l->n++] = (struct run){ s->c->start + from, s->c->start + to, s->index, RUN_CONTENT };
}

/* On a thread with a table of its own: a seek must not move the application's offset, nor a close end its
 * locks. Where the file cannot be opened once more all of it is read. */
static void seek(void *p)
{
	struct seeking *s = p;
	char path[64];
	uint64_t size = s->c->size, done = 0;
	snprintf(path, sizeof path, "/proc/thread-self/fd/%d", s->c->fd);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	while (done < size) {
		off_t data = fd < 0 ? (off_t)done : lseek(fd, (off_t)done, SEEK_DATA);
		if (data < 0 && errno == ENXIO) break;
		if (data < 0) data = (off_t)done;
		off_t hole = fd < 0 ? (off_t)size : lseek(fd, data, SEEK_HOLE);
		if (hole <= data || (uint64_t)hole > size) hole = (off_t)size;
		uint64_t from = (uint64_t)data & ~(PAGE - 1UL), to = PAGE_UP((uint64_t)hole);
		if (from < done) from = done;
		if (to > from) add_run(s, from, to);
		done = to;
	}
	if (fd >= 0) close(fd);
}

void inplace_runs(const struct content_list *l, struct run_list *out)
{
	for (size_t i = 0; i < l->n; i++) {
		struct seeking s = { &l->c[i], (uint32_t)i, out };
		if (l->c[i].size && own_table_run(seek, &s)) add_run(&s, 0, PAGE_UP(l->c[i].size));
	}
}

/* -- at a restart ---------------------------------------------------------------------------------------- */

/* Of a node that has never had the file: its directories are made too. */
static void make_directories(const char *path)
{
	char dir[4200];
	snprintf(dir, sizeof dir, "%s", path);
	for (char *s = dir + 1; (s = strchr(s, '/')); *s++ = '/') {
		*s = 0;
		if (mkdir(dir, 0700) && errno != EEXIST && errno != EROFS && errno != EACCES)
			core_debug("%s: %s", dir, strerror(errno));
	}
}

int inplace_make(const char *path, uint32_t mode)
{
	struct stat st;
	int how = O_RDWR | O_CREAT | O_NOCTTY | O_NONBLOCK | O_CLOEXEC, fd = open(path, how, (mode_t)mode);
	if (fd < 0 && errno == ENOENT) {
		make_directories(path);
		fd = open(path, how, (mode_t)mode);
	}
	if (fd < 0 || fstat(fd, &st))
		core_die("%s: was read and written in place, and cannot be brought back: %s", path,
			 strerror(errno));
	if (!S_ISREG(st.st_mode))
		core_die("%s: was a file that was read and written in place, and is another thing now", path);
	return fd;
}

void inplace_no_journal(const char *path)
{
	char name[4300];
	if (journal_of(path, name, sizeof name) && unlink(name) == 0)
		core_debug("%s: is of after the checkpoint, and removed", name);
}
