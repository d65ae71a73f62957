/* guard.c: a library that is loaded into what a program starts that Byssus cannot lead (a static one): MPI
 * may not begin there.
 *
 * Such a process is no rank. Without its launcher's words, or beside the job, it would compute for itself and
 * end with code 0. So its first call of MPI ends it, by name. It has the application's own C library, and
 * nothing else of Byssus; exec.c puts it into LD_PRELOAD, and the name of the program that cannot be led into
 * BYSSUS_UNLED. Context: an ordinary library of a foreign process; any thread. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((noreturn)) static void refuse(void)
{
	char self[4096];
	const char *unled = getenv("BYSSUS_UNLED");
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	self[n > 0 ? n : 0] = 0;
	fprintf(stderr,
		"byssus: %s calls MPI, and is started below %s, which Byssus cannot lead (a static program, "
		"one with rights of its own, or one of another architecture): it would be no rank of the "
		"job\n",
		self, unled ? unled : "another program");
	fflush(stderr);
	_exit(125);
}

/* What begins MPI: in C, as Fortran compilers write it, and behind a profiling library. */
#define REFUSED(name) \
	int name(void); \
	int name(void) { refuse(); }

REFUSED(MPI_Init)
REFUSED(MPI_Init_thread)
REFUSED(MPI_Session_init)
REFUSED(PMPI_Init)
REFUSED(PMPI_Init_thread)
REFUSED(PMPI_Session_init)
REFUSED(mpi_init_)
REFUSED(mpi_init_thread_)
REFUSED(pmpi_init_)
REFUSED(pmpi_init_thread_)
