/* bytes.c: reads back what was written as a row of bytes; files as numbers; texts that were cut.
 *
 * Context: any thread, any FS: plain computing. */
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include "core/base/raw/raw.h"

int core_fsgsbase;                              /* of raw.h */

const void *read_ref(struct reader *r, size_t n)
{
	size_t padded = (n + 7) & ~(size_t)7;
	if (r->bad || padded < n || padded > r->n - r->at) {
		r->bad = true;
		return NULL;
	}
	const void *p = r->p + r->at;
	r->at += padded;
	return p;
}

void read_bytes(struct reader *r, void *out, size_t n)
{
	const void *p = read_ref(r, n);
	if (p) memcpy(out, p, n);
	else memset(out, 0, n);
}

uint64_t read_u64(struct reader *r)
{
	uint64_t v = 0;
	read_bytes(r, &v, sizeof v);
	return v;
}

const char *read_str(struct reader *r)
{
	uint64_t n = read_u64(r);
	const char *s = read_ref(r, n);
	return s && n && !s[n - 1] ? s : (r->bad = true, "");
}

void core_ellipsis(char *s, size_t n, int whole)
{
	if (whole >= (int)n) memcpy(s + n - 4, "...", 4);
}

uint64_t inode_key_of(unsigned maj, unsigned min, uint64_t inode)
{
	return inode ^ (uint64_t)maj << 52 ^ (uint64_t)min << 44;
}
uint64_t inode_key(const struct stat *st)
{
	return inode_key_of(major(st->st_dev), minor(st->st_dev), st->st_ino);
}
