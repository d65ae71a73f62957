/* revive.c: the threads' records in the image, and threads made again after a restart.
 *
 * The kernel gives them new numbers, which go into the map of tids.c.
 * Context: restart, on the lower half's main thread; thread_revived runs on the new thread with the
 * application's FS on a small lower stack. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include "core/arena/arena.h"
#include "core/cross/cross.h"
#include "core/threads/switch.h"

enum { REVIVE_STACK = 16384 };
static struct thread_rec *saved;
static unsigned nsaved;
static volatile uint32_t go, ready;

/* -- in the image ---------------------------------------------------------------------------------------- */

void threads_save(struct buf *b)
{
	unsigned n = threads_count();
	struct thread_rec *here = threads_by_tid((int)raw(SYS_gettid));
	if (here) pending_take(here->tid, &here->pending);
	buf_u64(b, n);
	buf_u64(b, (uint64_t)tids_vtid(core_self.main_tid));
	for (unsigned i = 0; i < n; i++) {
		struct thread_rec r = *threads_rec(i);
		struct pending_set p = r.pending;
		uint64_t blocked = threads_blocked(&r);
		r.pending.n = pending_kept(&p, blocked);
		r.flags = (r.tid == core_self.main_tid ? REC_MAIN : 0) |
			  (r.tid == core_self.mpi_tid ? REC_CARRIER : 0);
		r.pending.info = NULL;
		buf_add(b, &r, sizeof r);
		pending_save(b, &p, blocked);
	}
}

void threads_restore(struct reader *r)
{
	nsaved = (unsigned)read_u64(r);
	int pid = (int)read_u64(r);
	if (r->bad || nsaved > r->n / sizeof *saved) core_die("image: threads: the section is damaged");
	saved = calloc(nsaved + 1, sizeof *saved);
	if (!saved) core_die("no memory");
	tids_begin(nsaved + 1);
	tids_add(pid, core_self.main_tid);
	for (unsigned i = 0; i < nsaved; i++) {
		read_bytes(r, &saved[i], sizeof saved[i]);
		saved[i].pending.info = (siginfo_t *)read_ref(r, saved[i].pending.n * sizeof(siginfo_t));
		if (r->bad) core_die("image: threads: the section is damaged");
		const char *wrong = cpu_frame_wrong(saved[i].uc);
		if (wrong)
			core_die("image: thread %d cannot go on with its registers: %s", saved[i].vtid,
				 wrong);
	}
}

/* -- back to life ---------------------------------------------------------------------------------------- */

void thread_revived(struct thread_rec *r)
{
	if (r->robust < BY_ARENA_HI) raw(SYS_set_robust_list, r->robust, r->robust_len);
	raw(SYS_prctl, PR_SET_NAME, r->name);
	attributes_apply_here(r->vtid);
	low_thread();
	__atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
	futex_wake(&ready, 1);
	cpu_frame_prepare(r->uc);
	while (!go) futex_wait(&go, 0);
	pending_put(core_self.pid, (int)raw(SYS_gettid), &r->pending);
	by_sigreturn(r->uc);
}

static int revive(struct thread_rec *r, char *stack, unsigned i)
{
	long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
		     CLONE_SETTLS;
	int *address = (int *)r->tid_address;
	if (address) flags |= CLONE_CHILD_CLEARTID;
	long tid = by_clone(flags, stack + REVIVE_STACK, NULL, address, r->fs, r);
	if (tid < 0) core_die("cannot make thread %u of %u again: %s", i + 1, nsaved, strerror((int)-tid));
	tids_add(r->vtid, (int)tid);
	return (int)tid;
}

void threads_revive(void)
{
	unsigned others = 0;
	char *stacks = mmap(NULL, (size_t)REVIVE_STACK * (nsaved + 1), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (stacks == MAP_FAILED) core_die("no memory for %u threads", nsaved);
	for (unsigned i = 0; i < nsaved; i++) {
		struct thread_rec *r = &saved[i];
		if (r->flags & REC_MAIN) {
			if (r->flags & REC_CARRIER) core_self.mpi_tid = core_self.main_tid;
			continue;
		}
		int tid = revive(r, stacks + (size_t)i * REVIVE_STACK, i);
		if (r->flags & REC_CARRIER) core_self.mpi_tid = tid;
		others++;
	}
	for (uint32_t n; (n = ready) < others; ) futex_wait(&ready, n);
}

void threads_release(void)
{
	struct thread_rec *main_ = NULL;
	for (unsigned i = 0; i < nsaved; i++)
		if (saved[i].flags & REC_MAIN) main_ = &saved[i];
	__atomic_store_n(&go, 1, __ATOMIC_SEQ_CST);
	futex_wake(&go, 1 << 30);
	if (!main_) raw(SYS_exit, 0);                   /* it had ended before the checkpoint */
	raw(SYS_set_tid_address, main_->tid_address);
	if (main_->robust < BY_ARENA_HI) raw(SYS_set_robust_list, main_->robust, main_->robust_len);
	raw(SYS_prctl, PR_SET_NAME, main_->name);
	pending_put(core_self.pid, core_self.main_tid, &main_->pending);
	cpu_frame_prepare(main_->uc);
	fs_write(main_->fs);
	window_restored();
	by_sigreturn(main_->uc);
}
