/* mpi.c: finds the MPI library of this process by its symbols, and which ABI it has. Context: see mpi.h.
 * Functions are taken by their PMPI names, so that a tool's wrappers see the program's calls alone. The
 * values are those of mpispec/abi, and of the MPI 5 ABI. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include "mpi.h"

/* Libraries that a program may have loaded for itself alone (Python does), by the names that they are
 * loaded under. */
static const char *const names[] = {
	"libmpi.so.40", "libmpich.so.12", "libmpi.so.12", "libmpi_abi.so.0", "libmpi_cray.so.12",
};

static void *function(void *library, const char *name)
{
	char profiled[64];
	snprintf(profiled, sizeof profiled, "P%s", name);
	void *at = dlsym(library, profiled);
	return at ? at : dlsym(library, name);
}

/* Returns what dlsym takes; NULL with *found false: there is none. RTLD_DEFAULT is a null pointer itself. */
static void *library(bool *found)
{
	*found = true;
	if (function(RTLD_DEFAULT, "MPI_Initialized"))
		return RTLD_DEFAULT;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		void *at = dlopen(names[i], RTLD_NOLOAD | RTLD_LAZY);
		if (at && function(at, "MPI_Initialized"))
			return at;
	}
	*found = false;
	return NULL;
}

/* Handles of the ABI. MPICH from 4.3 on and Open MPI from 6 on have MPI_Abi_get_version in the libraries of
 * their own ABIs as well, where it says -1. */
static const char *handles(struct mpi *m, void *lib)
{
	int major = -1, minor = -1;
	int (*version)(int *, int *) = function(lib, "MPI_Abi_get_version");
	m->world = (uintptr_t)dlsym(lib, "ompi_mpi_comm_world");
	if (m->world) {
		m->integer = (uintptr_t)dlsym(lib, "ompi_mpi_int");
		m->byte = (uintptr_t)dlsym(lib, "ompi_mpi_byte");
		m->min = (uintptr_t)dlsym(lib, "ompi_mpi_op_min");
		return m->integer && m->byte && m->min ? "Open MPI" : NULL;
	}
	if (version && !version(&major, &minor) && major >= 1) {
		m->world = 0x101, m->integer = 0x209, m->byte = 0x247, m->min = 0x22;
		return "MPI 5";
	}
	m->world = 0x44000000, m->integer = 0x4c000405, m->byte = 0x4c00010d, m->min = 0x58000002;
	return "MPICH";
}

const char *mpi_find(struct mpi *m)
{
	bool found;
	if (m->abi)
		return NULL;
	void *lib = library(&found);
	if (!found)
		return "this process has loaded no MPI library (one that is linked statically is not found)";
	const char *(*agent)(void) = dlsym(lib, "byssus_clients");
	m->agent = agent ? agent() : NULL;
	m->initialized = function(lib, "MPI_Initialized");
	m->finalized = function(lib, "MPI_Finalized");
	m->abort = function(lib, "MPI_Abort");
	m->finalize = function(lib, "MPI_Finalize");
	m->rank = function(lib, "MPI_Comm_rank");
	m->size = function(lib, "MPI_Comm_size");
	m->dup = function(lib, "MPI_Comm_dup");
	m->split = function(lib, "MPI_Comm_split");
	m->free = function(lib, "MPI_Comm_free");
	m->barrier = function(lib, "MPI_Barrier");
	m->bcast = function(lib, "MPI_Bcast");
	m->gather = function(lib, "MPI_Gather");
	m->allreduce = function(lib, "MPI_Allreduce");
	if (!m->finalized || !m->abort || !m->finalize || !m->rank || !m->size || !m->dup || !m->split ||
	    !m->free || !m->barrier || !m->bcast || !m->gather || !m->allreduce)
		return "the MPI library of this process lacks functions of MPI 2";
	m->abi = handles(m, lib);
	return m->abi ? NULL : "the MPI library of this process lacks handles of Open MPI's ABI";
}

bool mpi_runs(const struct mpi *m)
{
	int begun = 0, over = 0;
	return m->abi && !m->initialized(&begun) && begun && !m->finalized(&over) && !over;
}
