/* noted.c: calls that make what nobody can see afterwards are noted when they are made
 * (internal/tools/ledger/x86_64.txt says which).
 *
 * The kernel performs such a call from BY_NOTED, as it would have from the application: under its signal
 * mask, where the thread can be stopped. The code there counts in the note that the call has come back, and
 * whether it has succeeded. So notes lie at a fixed address, in the control block; they are in no image, for
 * what they are about is not either. A note belongs to one call, option and thread, and to one object where
 * the call asks for objects. Only its thread takes it back for another, when nothing has come of it. The last
 * one is for all that has no room. Of a rank that becomes another program the next one is told. Context:
 * ANY_FS, in the SIGSYS handler; noted_start at start. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include "core/calls/calls.h"

_Static_assert(offsetof(struct note, back) == BY_NOTE_BACK && offsetof(struct note, done) == BY_NOTE_DONE &&
	       offsetof(struct note, result) == BY_NOTE_RESULT, "layout.h");

static bool asks_for_object(long nr) { return nr == SYS_shmget || nr == SYS_semget || nr == SYS_msgget; }

/* One that may not be looked at is there. */
bool noted_object_there(const struct note *n)
{
	static const struct {
		int get, ctl;
	} all[] = { { SYS_shmget, SYS_shmctl }, { SYS_semget, SYS_semctl }, { SYS_msgget, SYS_msgctl } };
	union { struct shmid_ds shm; struct semid_ds sem; struct msqid_ds msg; } ds;
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
		if (n->nr != all[i].get) continue;
		long r = n->nr == SYS_semget ? raw(SYS_semctl, n->result, 0, IPC_STAT, &ds)
					     : raw(all[i].ctl, n->result, IPC_STAT, &ds);
		return r != -EINVAL && r != -EIDRM;
	}
	return true;
}

static bool nothing_came(const struct note *n)
{
	return n->back == n->begun && (!n->done || (asks_for_object(n->nr) && !noted_object_there(n)));
}

/* The note for this, or one that may become it. */
static struct note *find(long nr, uint32_t option, int tid)
{
	/* objects without a key are others each time */
	for (struct note *n = NOTES; n < NOTES + NNOTES - 1; n++)
		if (n->state == NOTE_THERE && n->nr == nr && n->option == option && n->tid == tid &&
		    (!asks_for_object(nr) || option))
			return n;
	for (struct note *n = NOTES; n < NOTES + NNOTES - 1; n++) {
		uint32_t is = n->state;
		bool take = is == NOTE_FREE || (is == NOTE_THERE && n->tid == tid && nothing_came(n));
		if (take && __atomic_compare_exchange_n(&n->state, &is, NOTE_TAKEN, 0, __ATOMIC_SEQ_CST,
							__ATOMIC_SEQ_CST))
			return n;
	}
	return NULL;
}

struct note *noted_begin(long nr, uint32_t option, const uint64_t *x)
{
	int tid = (int)raw(SYS_gettid);
	if (asks_for_object(nr)) option = (uint32_t)x[0];       /* its key */
	struct note *n = find(nr, option, tid);
	if (!n) {
		n = NOTES + NNOTES - 1;
		n->nr = NOTE_OF_MANY;
		n->tid = tid;
		n->state = NOTE_THERE;
	} else if (n->state == NOTE_TAKEN) {
		*n = (struct note){ .state = NOTE_TAKEN, .nr = (int32_t)nr, .option = option, .tid = tid };
		__atomic_store_n(&n->state, NOTE_THERE, __ATOMIC_RELEASE);
	}
	n->value = (uint32_t)x[1];
	__atomic_fetch_add(&n->begun, 1, __ATOMIC_SEQ_CST);
	return n;
}

void noted_not_begun(struct note *n) { __atomic_fetch_sub(&n->begun, 1, __ATOMIC_SEQ_CST); }

bool noted_made(int nr)
{
	for (struct note *n = NOTES; n < NOTES + NNOTES; n++)
		if (n->state == NOTE_THERE && (n->nr == nr || n->nr == NOTE_OF_MANY) &&
		    (n->done || n->back != n->begun))
			return true;
	return false;
}

/* -- across an exec -------------------------------------------------------------------------------------- */

enum { NDIGITS = 8, NNUMBERS = 5, HEAD = sizeof "BYSSUS_NOTED=" - 1 };
static char told[HEAD + NNOTES * NNUMBERS * NDIGITS + 1] = "BYSSUS_NOTED=";

/* What belongs to the memory of the program, or to how it calls, ends with it. */
static bool outlives_exec(const struct note *n)
{
	enum { SET_MM = 35, SET_DISPATCH = 59, MAP_SHADOW_STACK = 453 };
	if (n->nr == SYS_prctl) return n->option != SET_MM && n->option != SET_DISPATCH;
	return n->nr != SYS_uselib && n->nr != MAP_SHADOW_STACK;
}

void noted_tell(void)
{
	char *at = told + HEAD;
	for (const struct note *n = NOTES; n < NOTES + NNOTES; n++) {
		const uint32_t v[NNUMBERS] = { (uint32_t)n->nr, n->option, (uint32_t)n->tid,
					       (uint32_t)n->result, n->value };
		if (n->state != NOTE_THERE || nothing_came(n) || !outlives_exec(n)) continue;
		for (int i = 0; i < NNUMBERS; i++)
			for (int shift = 4 * (NDIGITS - 1); shift >= 0; shift -= 4)
				*at++ = "0123456789abcdef"[v[i] >> shift & 15];
	}
	*at = 0;
}

void noted_start(void)
{
	const char *s = getenv("BYSSUS_NOTED");
	uint32_t v[NNUMBERS];
	struct note *n = NOTES;
	for (; s && n < NOTES + NNOTES &&
	       sscanf(s, "%8x%8x%8x%8x%8x", &v[0], &v[1], &v[2], &v[3], &v[4]) == NNUMBERS;
	     s += NNUMBERS * NDIGITS)
		*n++ = (struct note){ NOTE_THERE,    (int32_t)v[0], v[1], (int32_t)v[2], 1, 1, 1,
				      (int32_t)v[3], v[4],	    0 };
	exec_keep(told);
}
