/* info.c: info objects (MPI-4.1 chapter 10), entirely our own. Keys keep the order in which they were set.
 * Context: as objects.h. */
#include <stdio.h>
#include <string.h>
#include "objects.h"

static struct vinfo *info_of(nx_t h)
{
	struct vinfo *v = NX_INFO(h);
	return nx_live(h, v) ? v : NULL;
}

#define LIVE(v, h) \
	struct vinfo *v = info_of(h); \
	if (!v) FAIL(NX_COMM_WORLD, NX_ERR_INFO)

static int find(const struct vinfo *v, const char *key)
{
	for (int i = 0; i < v->n; i++)
		if (!strcmp(v->kv[2 * i], key)) return i;
	return -1;
}

static int grow(struct vinfo *v)
{
	if (v->n < v->cap) return 0;
	int cap = v->cap ? 2 * v->cap : 8;
	char **kv = nx_malloc(2 * (size_t)cap * sizeof *kv);
	if (!kv) return NX_ERR_NO_MEM;
	if (v->n) memcpy(kv, v->kv, 2 * (size_t)v->n * sizeof *kv);
	nx_free(v->kv);
	v->kv = kv;
	v->cap = cap;
	return 0;
}

static int set(struct vinfo *v, const char *key, const char *value)
{
	int i = find(v, key);
	char *s = nx_strdup(value);
	if (!s) return NX_ERR_NO_MEM;
	if (i >= 0) {
		nx_free(v->kv[2 * i + 1]);
		v->kv[2 * i + 1] = s;
		return 0;
	}
	int e = grow(v);
	char *k = e ? NULL : nx_strdup(key);
	if (!k) {
		nx_free(s);
		return NX_ERR_NO_MEM;
	}
	v->kv[2 * v->n] = k;
	v->kv[2 * v->n + 1] = s;
	v->n++;
	return 0;
}

nx_t info_new(void) { return nx_alloc(NX_K_INFO); }

nx_t info_dup(nx_t info)
{
	struct vinfo *v = info_of(info);
	nx_t h = v ? info_new() : 0;
	for (int i = 0; h && i < v->n; i++)
		if (set(NX_INFO(h), v->kv[2 * i], v->kv[2 * i + 1])) {
			info_release(h);
			return 0;
		}
	return h;
}

void info_release(nx_t info)
{
	struct vinfo *v = info_of(info);
	if (!v || info < NX_DYNAMIC) return;
	for (int i = 0; i < 2 * v->n; i++) nx_free(v->kv[i]);
	nx_free(v->kv);
	nx_release(NX_K_INFO, info);
}

int info_real(nx_t info, rh_t *real)
{
	const struct vinfo *v = info_of(info);
	*real = drv->info_null;
	if (info == NX_INFO_NULL) return 0;
	int e = v ? drv->info_create(real) : NX_ERR_INFO;
	for (int i = 0; !e && i < v->n; i++) e = drv->info_set(*real, v->kv[2 * i], v->kv[2 * i + 1]);
	return e;
}

int info_learn(nx_t info, rh_t real, const char *key)
{
	char value[NX_MAX_INFO_VAL + 1];
	int flag = 0, e = drv->info_get(real, key, NX_MAX_INFO_VAL, value, &flag);
	return e || !flag ? e : set(info_of(info), key, value);
}

long mid_info_create(nx_t *info)
{
	*info = info_new();
	RESULT(NX_COMM_WORLD, *info ? 0 : NX_ERR_NO_MEM);
}

/* The information that MPI_INFO_ENV would have; none is known here, which the standard allows. */
long mid_info_create_env(int argc, char **argv, nx_t *info)
{
	(void)argc, (void)argv;
	return mid_info_create(info);
}

long mid_info_set(nx_t info, const char *key, const char *value)
{
	LIVE(v, info);
	if (!*key || strlen(key) >= NX_MAX_INFO_KEY) FAIL(NX_COMM_WORLD, NX_ERR_INFO_KEY);
	if (strlen(value) >= NX_MAX_INFO_VAL) FAIL(NX_COMM_WORLD, NX_ERR_INFO_VALUE);
	RESULT(NX_COMM_WORLD, set(v, key, value));
}

long mid_info_delete(nx_t info, const char *key)
{
	LIVE(v, info);
	int i = find(v, key);
	if (i < 0) FAIL(NX_COMM_WORLD, NX_ERR_INFO_NOKEY);
	nx_free(v->kv[2 * i]);
	nx_free(v->kv[2 * i + 1]);
	memmove(v->kv + 2 * i, v->kv + 2 * i + 2, 2 * (size_t)(v->n - i - 1) * sizeof *v->kv);
	v->n--;
	return 0;
}

long mid_info_dup(nx_t info, nx_t *newinfo)
{
	if (!info_of(info)) FAIL(NX_COMM_WORLD, NX_ERR_INFO);
	*newinfo = info_dup(info);
	RESULT(NX_COMM_WORLD, *newinfo ? 0 : NX_ERR_NO_MEM);
}

long mid_info_free(nx_t *info)
{
	if (!info_of(*info) || *info < NX_DYNAMIC) FAIL(NX_COMM_WORLD, NX_ERR_INFO);
	info_release(*info);
	*info = NX_INFO_NULL;
	return 0;
}

/* valuelen excludes the final NUL, for which there is room. */
long mid_info_get(nx_t info, const char *key, int valuelen, char *value, int *flag)
{
	LIVE(v, info);
	int i = find(v, key);
	*flag = i >= 0;
	if (*flag) snprintf(value, (size_t)valuelen + 1, "%s", v->kv[2 * i + 1]);
	return 0;
}

/* buflen includes the NUL; on return it is what the whole value needs. */
long mid_info_get_string(nx_t info, const char *key, int *buflen, char *value, int *flag)
{
	LIVE(v, info);
	int i = find(v, key);
	*flag = i >= 0;
	if (!*flag) return 0;
	if (*buflen > 0) snprintf(value, (size_t)*buflen, "%s", v->kv[2 * i + 1]);
	*buflen = (int)strlen(v->kv[2 * i + 1]) + 1;
	return 0;
}

long mid_info_get_valuelen(nx_t info, const char *key, int *valuelen, int *flag)
{
	LIVE(v, info);
	int i = find(v, key);
	*flag = i >= 0;
	if (*flag) *valuelen = (int)strlen(v->kv[2 * i + 1]);
	return 0;
}

long mid_info_get_nkeys(nx_t info, int *nkeys)
{
	LIVE(v, info);
	*nkeys = v->n;
	return 0;
}

long mid_info_get_nthkey(nx_t info, int n, char *key, int key_max)
{
	LIVE(v, info);
	if (n < 0 || n >= v->n) FAIL(NX_COMM_WORLD, NX_ERR_ARG);
	snprintf(key, (size_t)key_max, "%s", v->kv[2 * n]);
	return 0;
}
