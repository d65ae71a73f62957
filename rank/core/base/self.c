/* self.c: who this process is: its numbers, its job, what the environment asks of it.
 *
 * Context: the variables are written at start and restart, by one thread; core_is_rank is ANY_FS. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>
#include "core/base/base.h"

struct core_job core_job;
struct core_config core_config;
struct core_self core_self;
static volatile int *rank_pid;                  /* in a page that a forked child finds zeroed */

int core_is_rank(void)
{
	int pid = *rank_pid;
	if (!pid) return 0;
	return pid == (int)raw(SYS_getpid) ? 1 : -1;
}

bool core_mark_rank(void)
{
	rank_pid = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (rank_pid == MAP_FAILED || madvise((void *)rank_pid, PAGE, MADV_WIPEONFORK)) return false;
	core_self.pid = core_self.main_tid = core_self.mpi_tid = *rank_pid = getpid();
	return true;
}
