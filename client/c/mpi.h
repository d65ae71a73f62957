/* mpi.h: the MPI library of this process, whichever it is, found when the program runs. Context: inside
 * other people's processes; no mpi.h, and no MPI library that ours would be linked to. Handles go through
 * integers as wide as a pointer: where an ABI has int, the library looks at the lower half of the register.
 * */
#ifndef BYSSUS_CLIENT_MPI_H
#define BYSSUS_CLIENT_MPI_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mpi {
	const char *abi; /* its name; NULL: not found yet */
	uintptr_t world, integer, byte, min;
	const char *agent; /* where the agent listens, from a library that is ours; else NULL */
	int (*initialized)(int *);
	int (*finalized)(int *);
	int (*abort)(uintptr_t comm, int code);
	int (*finalize)(void);
	int (*rank)(uintptr_t comm, int *);
	int (*size)(uintptr_t comm, int *);
	int (*dup)(uintptr_t comm, void *made);
	int (*split)(uintptr_t comm, int color, int key, void *made);
	int (*free)(void *comm);
	int (*barrier)(uintptr_t comm);
	int (*bcast)(void *, int n, uintptr_t type, int root, uintptr_t comm);
	int (*gather)(const void *, int n, uintptr_t type, void *all, int each, uintptr_t types, int root,
		      uintptr_t comm);
	int (*allreduce)(const void *, void *, int n, uintptr_t type, uintptr_t op, uintptr_t comm);
};

/* Finds the library and its ABI. NULL: found; else a sentence that says what is missing. */
const char *mpi_find(struct mpi *);

/* Whether MPI has been initialised, and not finalised. */
bool mpi_runs(const struct mpi *);
#endif
