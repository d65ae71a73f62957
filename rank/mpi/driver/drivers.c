/* drivers.c: chooses the driver of the real MPI library by what the library says of itself.
 *
 * MPI_Get_library_version may be called before MPI_Init and names the implementation, whatever its file is
 * called. Context: lower half, at start. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "driver.h"

/* What the version string of each family says. Derivatives of MPICH share its ABI. */
static const struct {
	const char *says;
	const char *(*load)(void *libmpi, const struct nx_driver **found);
} families[] = {
	{ "Open MPI", nx_driver_load_openmpi },
	{ "MPICH", nx_driver_load_mpich },
	{ "MVAPICH", nx_driver_load_mpich },
	{ "Intel(R) MPI", nx_driver_load_mpich },
};

const char *nx_driver_load(void *libmpi)
{
	static char version[NX_MAX_LIBRARY_VERSION_STRING], why[256];
	int (*get_version)(char *, int *) = NULL;
	void *f = dlsym(libmpi, "PMPI_Get_library_version");
	int length = 0;
	if (!f) return "the library has no PMPI_Get_library_version: it is no MPI, or older than MPI-3.0";
	memcpy(&get_version, &f, sizeof f);
	if (get_version(version, &length) != 0) return "the MPI library does not tell its version";
	for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
		if (strstr(version, families[i].says)) return families[i].load(libmpi, &drv);
	version[strcspn(version, "\n")] = 0;
	snprintf(why, sizeof why, "no driver for the MPI library \"%.160s\"", version);
	return why;
}
