/* faults.c: crash points for tests. BYSSUS_FAULT=name[:n][@rank] ends this process by SIGKILL at the n-th
 * pass; where something is to fail instead, it fails at the n-th pass, once.
 *
 * The points are the table ABI_FAULTS, shared with the Go side. Context: any lower code. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/base/base.h"

#define NAME(id, name) name,
static const char *const names[] = { ABI_FAULTS(NAME) };
#undef NAME
static volatile int armed = -1, passes;

void faults_start(const char *spec)
{
	if (!spec) return;
	size_t n = strcspn(spec, ":@");
	const char *count = strchr(spec, ':'), *at = strchr(spec, '@');
	if (at && atoi(at + 1) != core_job.rank) return;
	for (int i = 0; i < ABI_NFAULTS; i++)
		if (strlen(names[i]) == n && !strncmp(names[i], spec, n)) armed = i;
	passes = count ? atoi(count + 1) : 1;
}

bool core_fault_fails(enum abi_fault f)
{
	return __builtin_expect(armed == (int)f, 0) && __atomic_sub_fetch(&passes, 1, __ATOMIC_SEQ_CST) == 0;
}

void core_stop_here(void)
{
	raw(SYS_kill, raw(SYS_getpid), SIGSTOP);
}

void core_fault(enum abi_fault f)
{
	if (__builtin_expect(armed != (int)f, 1)) return;
	if (__atomic_sub_fetch(&passes, 1, __ATOMIC_SEQ_CST) == 0) raw(SYS_kill, raw(SYS_getpid), SIGKILL);
}
