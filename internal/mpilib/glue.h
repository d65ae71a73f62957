/* glue.h: what package mpilib calls: the library, found at run time, and a ring of receives for batches.
 *
 * Context: called by Go on one thread at a time; nothing here calls back into Go. */
#ifndef BYSSUS_GO_GLUE_H
#define BYSSUS_GO_GLUE_H
#include "driver.h"

/* Finds the library: one that the process has already, else the named file. NULL, or a sentence. */
const char *real_load(const char *file);
const char *real_name(void);

/* All return 0, or a neutral error class. */
int real_init(int *provided);
int real_finalize(void);
void real_abort(int code);
int real_world(int *rank, int *size);
int real_bcast(void *buf, int n, int root);
int real_least(long mine, long *least);
void real_error(int class, char *text);          /* room for NX_MAX_ERROR_STRING */
void real_rest(int microseconds);                /* 0: yields */

enum { REAL_BATCH = 16 << 10 };                  /* the longest message of the ring */

/* One turn: a batch to be sent, if the ring takes it, and one that has come. */
struct real_turn {
	int32_t to, n, looks;                    /* n = 0: nothing to send */
	int32_t sent, from, tag, got;            /* got < 0: nothing came */
	const void *out;
	void *in;                                /* room for REAL_BATCH bytes */
	int32_t out_tag;
};

int real_open(void);
int real_turn(struct real_turn *t);
int real_close(void);                            /* sends all, cancels the receives */

/* Long messages, apart from the ring. */
int real_isend(const void *buf, int n, int to, int tag, rh_t *request);
int real_irecv(void *buf, int n, int from, int tag, rh_t *request);
int real_test(rh_t *request, int *flag);
#endif
