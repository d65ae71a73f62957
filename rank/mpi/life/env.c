/* env.c: start and end of MPI, inquiries about the environment (MPI-4.1 chapters 9 and 11).
 *
 * The real MPI is loaded and initialised when the application asks for it, with the thread level it asks for;
 * after a restart before the application runs on. MPI_Init and MPI_Finalize count as collectives on
 * MPI_COMM_WORLD. Context: as life.h. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/syscall.h>
#include "life.h"

/* Loads the real MPI. NULL, or why not. */
const char *env_load(void)
{
	static char why[PATH_MAX + 512];
	if (drv) return NULL;
	const char *lib = core_job.libmpi && *core_job.libmpi ? core_job.libmpi : "libmpi.so.40";
	void *h = dlopen(lib, RTLD_NOW | RTLD_GLOBAL);
	if (h) return nx_driver_load(h);
	snprintf(why, sizeof why, "cannot load the MPI library: %s", dlerror());
	return why;
}

void env_remember_library(void)
{
	char version[NX_MAX_LIBRARY_VERSION_STRING];
	int len = 0;
	if (drv->get_library_version(version, &len)) return;
	version[strcspn(version, "\n")] = 0;
	snprintf(NX_STATE->library, sizeof NX_STATE->library, "%.*s", (int)sizeof NX_STATE->library - 1,
		 version);
}

/* Communicators of our own: for messages between the middles, and from a rank to itself. */
int env_own_comms(void)
{
	int e = drv->comm_dup(drv->comm_world, &own_world);
	if (!e) e = drv->comm_dup(drv->comm_self, &own_self);
	if (!e) e = drv->comm_set_errhandler(own_world, drv->errh[NX_ERRH_RETURN]);
	if (!e) e = drv->comm_set_errhandler(own_self, drv->errh[NX_ERRH_RETURN]);
	if (!e) e = drain_start();
	if (!e) e = sync_start();
	return e;
}

static int begin(int required, int *provided)
{
	const char *why = env_load();
	if (why) {
		core_say("MPI_Init: %s", why);
		return NX_ERR_OTHER;
	}
	core_page()->where = ABI_WHERE_INIT;
	int e = drv->init_thread(NULL, NULL, required, provided);
	if (e) return e;
	struct nx_state *s = NX_STATE;
	s->thread_level = (uint32_t)*provided;
	s->multiple = *provided == NX_THREAD_MULTIPLE;
	s->routed = !s->multiple;
	if (s->routed) drv->hot();
	drv->comm_rank(drv->comm_world, &s->rank);
	drv->comm_size(drv->comm_world, &s->size);
	core_world(s->rank, s->size);
	type_start();
	op_start();
	comm_describe_world();
	attr_predefined();
	env_remember_library();
	s->main_thread = (int32_t)syscall(SYS_gettid) == getpid();
	core_this_is_the_mpi_thread();
	core_libraries_loaded();
	e = env_own_comms();
	s->initialised = !e;
	core_page()->where = ABI_WHERE_RUN;
	core_send(ABI_INIT, 0, s->library, strlen(s->library));
	return e;
}

long mid_init_thread(int *argc, char ***argv, int required, int *provided)
{
	(void)argc, (void)argv;
	if (NX_STATE->initialised) FAIL(NX_COMM_WORLD, NX_ERR_OTHER);
	core_begin();
	RESULT(NX_COMM_WORLD, GATED(NX_COMM(NX_COMM_WORLD), begin(required, provided)));
}

long mid_init(int *argc, char ***argv)
{
	int provided;
	return mid_init_thread(argc, argv, NX_THREAD_SINGLE, &provided);
}

/* All wait inside the MPI until the last has come: others may need this rank to receive what it has freed the
 * request of, and a library's own Finalize need not do that. */
static int end(void)
{
	struct nx_state *s = NX_STATE;
	while (!sync_acks_gone()) wait_step_slow(0);
	comm_end();
	drv->barrier(own_world);
	drv->comm_free(&own_world);
	drv->comm_free(&own_self);
	own_world = own_self = 0;
	finalize_begin();
	int e = drv->finalize();
	finalize_over();
	s->finalised = 1;
	s->routed = 0;
	route_forget(NX_COMM_NULL);
	NX_COMM(NX_COMM_WORLD)->handle = 0;
	NX_COMM(NX_COMM_SELF)->handle = 0;
	core_send(ABI_FINI, 0, s->library, strlen(s->library));
	return e;
}

long mid_finalize(void)
{
	struct nx_state *s = NX_STATE;
	if (!s->initialised || s->finalised) FAIL(NX_COMM_WORLD, NX_ERR_OTHER);
	long g = agree_finalize();
	if (g) return g;
	int e = attr_delete_all(NX_COMM_SELF, &NX_COMM(NX_COMM_SELF)->attrs);
	if (e) FAIL(NX_COMM_WORLD, e);
	p2p_finish_buffered();
	RESULT(NX_COMM_WORLD, GATED(NX_COMM(NX_COMM_WORLD), end()));
}

long mid_initialized(int *flag)
{
	*flag = (int)NX_STATE->initialised;
	return 0;
}

long mid_finalized(int *flag)
{
	*flag = (int)NX_STATE->finalised;
	return 0;
}

long mid_query_thread(int *provided)
{
	*provided = (int)NX_STATE->thread_level;
	return 0;
}

/* True on the thread that called MPI_Init; only the case that this was the process's first thread is known
 * exactly. */
long mid_is_thread_main(int *flag)
{
	*flag = ((int32_t)syscall(SYS_gettid) == getpid()) == NX_STATE->main_thread;
	return 0;
}

long mid_get_library_version(char *version, int version_max, int *resultlen)
{
	const char *why = env_load();
	char real[NX_MAX_LIBRARY_VERSION_STRING];
	int len = 0;
	if (why || drv->get_library_version(real, &len)) snprintf(real, sizeof real, "unknown");
	put_string(real, version, version_max, resultlen);
	return 0;
}

/* The host's name: the same answer from every implementation, and the right one after a move. */
long mid_get_processor_name(char *name, int name_max, int *resultlen)
{
	char host[NX_MAX_PROCESSOR_NAME] = "";
	if (gethostname(host, sizeof host)) FAIL(NX_COMM_WORLD, NX_ERR_OTHER);
	host[sizeof host - 1] = 0;
	put_string(host, name, name_max, resultlen);
	return 0;
}

/* Saved memory, like everything the application computes on. */
long mid_alloc_mem(nx_aint size, nx_t info, void **baseptr)
{
	(void)info;
	void *p = size >= 0 ? nx_malloc((size_t)size) : NULL;
	if (!p) FAIL(NX_COMM_WORLD, size < 0 ? NX_ERR_ARG : NX_ERR_NO_MEM);
	*baseptr = p;
	return 0;
}

long mid_free_mem(void *base)
{
	nx_free(base);
	return 0;
}
