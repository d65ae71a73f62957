/* libs.c: identity of the files that an image maps again instead of containing them.
 *
 * A file is the same when its size and either its time of change or, for ELF files, its build id are those of
 * the checkpoint: then it may lie on another machine. Context: ordinary lower code. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/memory/memory.h"

/* build_id: length in byte 23, 0: none */
struct identity { uint64_t size, mtime_ns; uint8_t build_id[24]; };

static void build_id(int fd, struct identity *id)
{
	Elf64_Ehdr h;
	Elf64_Phdr p;
	char note[1024];
	if (pread(fd, &h, sizeof h, 0) != sizeof h || memcmp(h.e_ident, ELFMAG, SELFMAG)) return;
	for (int i = 0; i < h.e_phnum; i++) {
		if (pread(fd, &p, sizeof p, (off_t)(h.e_phoff + (uint64_t)i * sizeof p)) != sizeof p ||
		    p.p_type != PT_NOTE)
			continue;
		ssize_t n = pread(fd, note, p.p_filesz < sizeof note ? p.p_filesz : sizeof note,
				  (off_t)p.p_offset);
		for (ssize_t at = 0; at + (ssize_t)sizeof(Elf64_Nhdr) <= n; ) {
			const Elf64_Nhdr *x = (const void *)(note + at);
			ssize_t name = at + (ssize_t)sizeof *x, desc = name + ((x->n_namesz + 3) & ~3u),
				end = desc + ((x->n_descsz + 3) & ~3u);
			if (end > n || end <= at) break;
			if (x->n_type == NT_GNU_BUILD_ID && x->n_namesz == 4 &&
			    !memcmp(note + name, "GNU", 4) && x->n_descsz <= 20) {
				memcpy(id->build_id, note + desc, x->n_descsz);
				id->build_id[23] = (uint8_t)x->n_descsz;
				return;
			}
			at = end;
		}
	}
}

static bool identify(const char *path, struct identity *id)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	*id = (struct identity){ 0 };
	if (fd < 0) return false;
	bool ok = fstat(fd, &st) == 0;
	id->size = (uint64_t)st.st_size;
	id->mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000UL + (uint64_t)st.st_mtim.tv_nsec;
	if (ok) build_id(fd, id);
	close(fd);
	return ok;
}

static bool named_before(const struct vma_list *l, size_t i)
{
	for (size_t k = i; k-- > 0; )
		if (l->v[k].kind == ABI_VMA_FILE_PRIVATE && l->v[k].inode_key == l->v[i].inode_key)
			return true;
	return false;
}

void libs_save(const struct vma_list *l, struct buf *b)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct abi_vma *v = &l->v[i];
		struct identity id;
		const char *path = l->strings.p + v->name;
		if (v->kind != ABI_VMA_FILE_PRIVATE || (v->vmflags & VMF_WHOLE) || named_before(l, i) ||
		    !identify(path, &id))
			continue;
		buf_str(b, path);
		buf_add(b, &id, sizeof id);
	}
}

void libs_check(struct reader *r)
{
	while (r->at < r->n && !r->bad) {
		const char *path = read_str(r);
		struct identity was, now;
		read_bytes(r, &was, sizeof was);
		if (r->bad) break;
		if (!identify(path, &now))
			core_die("%s: was mapped at the checkpoint, and now: %s", path, strerror(errno));
		if (now.size != was.size)
			core_die("%s: has changed since the checkpoint: %lu bytes, want %lu", path, now.size,
				 was.size);
		if (now.mtime_ns == was.mtime_ns ||
		    (was.build_id[23] && !memcmp(now.build_id, was.build_id, sizeof was.build_id)))
			continue;
		core_die("%s: has changed since the checkpoint: another time of change, and not the same "
			 "build",
			 path);
	}
	if (r->bad) core_die("image: list of libraries: the section is damaged");
}
