/* tids.c: process and thread numbers after a restart: the application's and the kernel's.
 *
 * The kernel gives new numbers. The application keeps the old ones, which are in its mutexes and thread
 * descriptors: what hands one to the kernel, or gets one from it, asks the map here. Context: tids_begin and
 * tids_add at a restart, on the only thread; tids_path uses libc; the rest is ANY_FS. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "core/arena/arena.h"

struct vmap { int32_t vtid, tid; };
static struct vmap *map;
static volatile uint32_t nmap;

/* Room for n threads; the first is the process itself. */
void tids_begin(unsigned n)
{
	map = calloc(n, sizeof *map);
	if (!map) core_die("no memory");
}

void tids_add(int vtid, int tid)
{
	map[nmap] = (struct vmap){ vtid, tid };
	nmap++;
}

int tids_new(int vtid)
{
	for (uint32_t i = 0, n = nmap; i < n; i++)
		if (map[i].vtid == vtid) return map[i].tid;
	return vtid;
}

int tids_vtid(int tid)
{
	for (uint32_t i = 0, n = nmap; i < n; i++)
		if (map[i].tid == tid) return map[i].vtid;
	return tid;
}

/* The thread ends; the kernel may give its number to another. The process keeps its own. */
void tids_forget(int tid)
{
	for (uint32_t i = 1, n = nmap; i < n; i++)
		if (map[i].tid == tid) map[i] = (struct vmap){ -1, -1 };
}

bool tids_is_own(int tid) { return raw(SYS_tgkill, core_self.pid, tid, 0) == 0; }

static int translated(int tid, bool save) { return save ? tids_vtid(tid) : tids_new(tid); }

int tids_path(const char *path, char *out, size_t n, bool save)
{
	int pid, task, at = 0, behind = 0;
	if (sscanf(path, "/proc/%d%n", &pid, &at) != 1 || (path[at] && path[at] != '/')) return 0;
	if (save && !tids_is_own(pid)) return -1;
	if (sscanf(path + at, "/task/%d%n", &task, &behind) == 1)
		snprintf(out, n, "/proc/%d/task/%d%s", translated(pid, save), translated(task, save),
			 path + at + behind);
	else
		snprintf(out, n, "/proc/%d%s", translated(pid, save), path + at);
	return 1;
}

/* Clocks of the processor time of a thread (CPU_OF_THREAD) or process have the complement of its number above
 * three bits; 0 is the caller's. CPU_FILE: the number of a descriptor. */
enum { CPU_OF_THREAD = 4, CPU_SCHED = 2, CPU_FILE = 3, CPU_KIND = 7 };

/* Whose clock it is; 0: the caller's, or no clock of this kind. */
static int owner_of(int id) { return id >= 0 || (id & CPU_KIND) == CPU_FILE ? 0 : ~(id >> 3); }
static int clock_of(int tid, int kind) { return (int)((uint32_t)~tid << 3) | kind; }

int tids_clock_new(int id)
{
	int tid = core_is_rank() == 1 ? owner_of(id) : 0;
	return tid ? clock_of(tids_new(tid), id & CPU_KIND) : id;
}

int tids_clock_saved(int id)
{
	int tid = owner_of(id);
	return tid ? clock_of(tids_vtid(tid), id & CPU_KIND) : id;
}

/* The kernel would not tell afterwards whose clock "the caller's" is. */
int tids_timer_clock(int id)
{
	bool callers = id == CLOCK_THREAD_CPUTIME_ID ||
		       (id < 0 && !~(id >> 3) && (id & CPU_OF_THREAD) && (id & CPU_KIND) != CPU_KIND);
	int kind = id < 0 ? id & CPU_KIND : CPU_OF_THREAD | CPU_SCHED;
	return callers ? clock_of((int)raw(SYS_gettid), kind) : tids_clock_new(id);
}
