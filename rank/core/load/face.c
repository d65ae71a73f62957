/* face.c: which MPI does the application expect? Follows DT_NEEDED through all libraries, as ld.so will.
 *
 * The search is ld.so's in short: RPATH, LD_LIBRARY_PATH, RUNPATH, the cache, the default directories. A
 * library that is not found is passed over: ld.so will complain about it in its own words. Context: start-up,
 * on the lower half's FS. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/load/load.h"

static const struct { const char *soname, *face; } known[] = {
	{ "libmpich.so.12", "mpich" }, { "libmpi.so.12", "mpich" }, { "libmpi.so.40", "openmpi" },
};
struct search { char **seen; size_t n; char *cache; size_t cache_len; const char *found; };

static bool in_path(const char *path, const char *origin, const char *soname, char *out, size_t n)
{
	while (path && *path) {
		size_t k = strcspn(path, ":");
		char dir[2048];
		if (!strncmp(path, "$ORIGIN", 7) || !strncmp(path, "${ORIGIN}", 9)) {
			size_t skip = path[1] == '{' ? 9 : 7;
			snprintf(dir, sizeof dir, "%s%.*s", origin, (int)(k - skip), path + skip);
		} else {
			snprintf(dir, sizeof dir, "%.*s", (int)k, path);
		}
		snprintf(out, n, "%s/%s", *dir ? dir : ".", soname);
		if (!access(out, R_OK)) return true;
		path += k + (path[k] == ':');
	}
	return false;
}

/* /etc/ld.so.cache in its present format: magic, count, then records of key and value as offsets of strings.
 */
static bool in_cache(struct search *s, const char *soname, char *out, size_t n)
{
	static const char magic[] = "glibc-ld.so.cache1.1";
	struct record { int32_t flags; uint32_t key, value, osversion; uint64_t hwcap; };
	enum { COUNT = sizeof magic - 1, RECORDS = 48, KIND = 0xff00, X86_64 = 0x300 };
	const char *m = s->cache ? memmem(s->cache, s->cache_len, magic, sizeof magic - 1) : NULL;
	uint32_t count;
	if (!m || (size_t)(m - s->cache) + RECORDS > s->cache_len) return false;
	size_t left = s->cache_len - (size_t)(m - s->cache);
	memcpy(&count, m + COUNT, sizeof count);
	if (count > (left - RECORDS) / sizeof(struct record)) return false;
	for (uint32_t i = 0; i < count; i++) {
		struct record r;
		memcpy(&r, m + RECORDS + i * sizeof r, sizeof r);
		if (r.key >= left || r.value >= left || strcmp(m + r.key, soname)) continue;
		if ((r.flags & KIND) != X86_64) continue;
		snprintf(out, n, "%s", m + r.value);
		return true;
	}
	return false;
}

static bool locate(struct search *s, const struct elf_needs *by, const char *origin, const char *soname,
		   char *out, size_t n)
{
	if (strchr(soname, '/')) return snprintf(out, n, "%s", soname) > 0;
	return (!*by->runpath && in_path(by->rpath, origin, soname, out, n)) ||
	       in_path(getenv("LD_LIBRARY_PATH"), origin, soname, out, n) ||
	       in_path(by->runpath, origin, soname, out, n) || in_cache(s, soname, out, n) ||
	       in_path("/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:/lib64:/usr/lib64:/lib:/usr/lib",
		       origin, soname, out, n);
}

static bool seen(struct search *s, const char *soname)
{
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->seen[i], soname)) return true;
	char **p = realloc(s->seen, (s->n + 1) * sizeof *p);
	if (!p) core_die("no memory");
	s->seen = p;
	s->seen[s->n++] = strdup(soname);
	return false;
}

static void visit(struct search *s, const char *path)
{
	struct elf_needs need;
	char origin[4096], lib[4096];
	if (!elf_needs(path, &need)) return;
	snprintf(origin, sizeof origin, "%s", path);
	char *slash = strrchr(origin, '/');
	if (slash) *slash = 0;
	for (size_t i = 0; i < need.n && !s->found; i++)
		for (size_t k = 0; k < sizeof known / sizeof *known; k++)
			if (!strcmp(need.soname[i], known[k].soname)) s->found = known[k].face;
	for (size_t i = 0; i < need.n && !s->found; i++)
		if (!seen(s, need.soname[i]) && locate(s, &need, origin, need.soname[i], lib, sizeof lib))
			visit(s, lib);
	elf_needs_free(&need);
}

const char *face_for(const char *app)
{
	const char *given = getenv("BYSSUS_FACE");
	struct search s = { 0 };
	if (given && *given) return given;
	s.cache = slurp("/etc/ld.so.cache", &s.cache_len);
	visit(&s, app);
	for (size_t i = 0; i < s.n; i++) free(s.seen[i]);
	free(s.seen);
	free(s.cache);
	return s.found ? s.found : "";
}
