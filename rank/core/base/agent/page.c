/* page.c: the page that this rank shares with its agent: what the rank is doing, for how long, what it has
 * done.
 *
 * Context: page_map at start and restart, page_share there and when the application begins the MPI;
 * core_page is ANY_FS, core_phase any lower thread. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "core/base/agent/agent.h"

static struct abi_page own_page, *page = &own_page, *shared;
static char path[256];

struct abi_page *core_page(void) { return page; }

void core_phase(unsigned phase)
{
	struct abi_page *p = core_page();
	if (p == shared && place_is_others()) return;
	p->phase_since_ns = now_ns();
	__atomic_store_n(&p->phase, phase, __ATOMIC_RELEASE);
}

/* What this program takes by itself: asked for before the MPI and the application are loaded. */
static uint64_t resident(void)
{
	char *s = slurp("/proc/thread-self/statm", NULL);
	unsigned long pages = 0;
	if (!s || sscanf(s, "%*u %lu", &pages) != 1) pages = 0;
	free(s);
	return pages * PAGE;
}

/* But for the word that settles whose the page is. */
static void begin(struct abi_page *p)
{
	const struct abi_page fresh = { .magic = ABI_MAGIC,
					.version = ABI_VERSION,
					.pid = (uint32_t)core_self.pid,
					.rank = (uint32_t)core_job.rank,
					.phase_since_ns = now_ns(),
					.resident_added = resident() };
	memcpy(p, &fresh, offsetof(struct abi_page, claimed));
}

const char *page_path(void) { return path; }

/* Who is below the launcher's process writes to a page of its own. */
void page_map(void)
{
	if (core_config.rundir) {
		snprintf(path, sizeof path, "%s/page.%d", core_config.rundir, core_job.rank);
		int fd = open(path, O_RDWR | O_CLOEXEC);
		void *p = fd < 0 ? MAP_FAILED
				 : mmap(NULL, ABI_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (fd >= 0) close(fd);
		if (p != MAP_FAILED) place_at(shared = p);
		else path[0] = 0;
	}
	if (shared && (!core_config.below || place_is_mine())) page = shared;
	begin(page);
}

void page_share(void)
{
	if (!shared) return;
	begin(shared);
	page = shared;
	core_phase(ABI_PHASE_RUN);
}
