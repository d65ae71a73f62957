/* glue.c: finds the MPI library of the process, and carries batches by a ring of receives that are posted
 * beforehand, the oldest of which is tested.
 *
 * Context: called by Go on one thread at a time (MPI_THREAD_SERIALIZED); may allocate, at opening. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "glue.h"

const struct nx_driver *drv;
struct real_noted real_noted;
static int (*error_string)(int, char *, int *);

static const struct {
	const char *says;
	const char *(*load)(void *libmpi, const struct nx_driver **found);
} families[] = {
	{ "Open MPI", nx_driver_load_openmpi },
	{ "MPICH", nx_driver_load_mpich },
	{ "MVAPICH", nx_driver_load_mpich },
	{ "Intel(R) MPI", nx_driver_load_mpich },
};

/* -- signals -------------------------------------------------------------------------------------------- */

/* As the kernel has it: UCX, below MPICH, keeps others from its own handlers by a sigaction of its own, and Go's panics
 * of nil pointers are signals that Go must see. */
struct kernel_action {
	void *handler;
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};
enum { SIGNALS = 64 };
static struct kernel_action before[SIGNALS + 1];

static void keep_handlers(void)
{
	for (int s = 1; s <= SIGNALS; s++) syscall(SYS_rt_sigaction, s, NULL, &before[s], sizeof before[s].mask);
}

/* The handlers that stood before the library came stand again; where there was none, the library's stays. */
static void return_handlers(void)
{
	struct kernel_action now;
	for (int s = 1; s <= SIGNALS; s++) {
		if (before[s].handler == (void *)SIG_DFL || before[s].handler == (void *)SIG_IGN) continue;
		if (syscall(SYS_rt_sigaction, s, NULL, &now, sizeof now.mask) == 0 && now.handler != before[s].handler)
			syscall(SYS_rt_sigaction, s, &before[s], NULL, sizeof before[s].mask);
	}
}

/* -- the library ---------------------------------------------------------------------------------------- */

const char *real_load(const char *file)
{
	static char version[NX_MAX_LIBRARY_VERSION_STRING], why[512];
	int (*get_version)(char *, int *) = NULL;
	int length = 0;
	void *one = dlopen("libmpi.so.40", RTLD_LAZY | RTLD_NOLOAD);
	void *other = dlopen("libmpich.so.12", RTLD_LAZY | RTLD_NOLOAD);
	if (one) dlclose(one);
	if (other) dlclose(other);
	keep_handlers();
	if (one && other)
		return "two MPI libraries are loaded, libmpi.so.40 and libmpich.so.12: what the program links with must be of one";
	void *lib = RTLD_DEFAULT, *f = dlsym(lib, "PMPI_Get_library_version");
	if (!f) {
		if (!*file) return "this process has no MPI library: its program has to be linked with one";
		if (!(lib = dlopen(file, RTLD_NOW | RTLD_GLOBAL))) {
			snprintf(why, sizeof why, "%s", dlerror());
			return why;
		}
		f = dlsym(lib, "PMPI_Get_library_version");
	}
	if (!f) return "the library has no PMPI_Get_library_version: it is no MPI, or older than MPI-3.0";
	memcpy(&get_version, &f, sizeof f);
	if (!(f = dlsym(lib, "PMPI_Error_string"))) return "the library has no PMPI_Error_string: it is no MPI";
	memcpy(&error_string, &f, sizeof f);
	if (get_version(version, &length) != 0) return "the MPI library does not tell its version";
	for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
		if (strstr(version, families[i].says)) return families[i].load(lib, &drv);
	version[strcspn(version, "\n")] = 0;
	snprintf(why, sizeof why, "no driver for the MPI library \"%.160s\"", version);
	return why;
}

/* What the ranks are those of: MPI_COMM_WORLD, or a duplicate of what a program has attached by. */
static rh_t base;
static int attached;

rh_t real_base(void) { return base; }

const char *real_name(void) { return drv ? drv->name : ""; }

int real_init(int *provided)
{
	/* With single copy, and between a rank and itself, Open MPI 4 receives a message that is longer than its buffer beyond
	 * that buffer, into whatever is there. Copying twice was no slower for up to 16 MiB where it was measured. Who sets
	 * these decides. */
	setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
	setenv("OMPI_MCA_btl_self_flags", "send", 0);
	int rc = drv->init_thread(NULL, NULL, NX_THREAD_SERIALIZED, provided);
	return_handlers();
	base = drv->comm_world;
	return rc ? rc : drv->comm_set_errhandler(base, drv->errh[NX_ERRH_RETURN]);
}

int real_attach(int comm)
{
	rh_t theirs;
	int rc = real_fortran_comm(comm, &theirs);
	if (!rc) rc = drv->comm_dup(theirs, &base);
	attached = rc == 0;
	return rc ? rc : drv->comm_set_errhandler(base, drv->errh[NX_ERRH_RETURN]);
}

int real_detach(void)
{
	attached = 0;
	return drv->comm_free(&base);
}

int real_state(int *state)
{
	int begun = 0, over = 0, rc = drv->initialized(&begun);
	if (!rc) rc = drv->finalized(&over);
	*state = over ? REAL_FINALIZED : !begun ? REAL_NEW : attached ? REAL_ATTACHED : REAL_INITIALIZED;
	return rc;
}

int real_finalize(void) { return drv->finalize(); }

void real_abort(int code)
{
	int over = 0;
	if (drv->finalized(&over) == 0 && !over) drv->abort(drv->comm_world, code);
}

int real_world(int *rank, int *size)
{
	int rc = drv->comm_rank(base, rank);
	return rc ? rc : drv->comm_size(base, size);
}

int real_bcast(void *buf, int n, int root)
{
	return drv->bcast(buf, n, drv->type[NX_TYPE_BYTE], root, base);
}

int real_least(long mine, long *least)
{
	return drv->allreduce(&mine, least, 1, drv->type[NX_TYPE_LONG], drv->op[NX_OP_MIN], base);
}

/* The text of the library's own code says more than that of its class: of MPICH, which function failed, its arguments and why. */
void real_error(int class, char *text)
{
	int length = 0;
	text[0] = 0;
	if (real_noted.class != class || error_string(real_noted.code, text, &length) != 0)
		drv->error_string(class, text, &length);
	real_noted = (struct real_noted){ 0, 0 };
}

void real_rest(int microseconds)
{
	struct timespec t = { 0, microseconds * 1000L };
	if (microseconds > 0)
		nanosleep(&t, NULL);
	else
		sched_yield();
}

/* -- the ring -------------------------------------------------------------------------------------------- */

static struct {
	rh_t batches, longs;                     /* communicators */
	rh_t receive[REAL_RECEIVES], send[REAL_SENDS + REAL_URGENT];
	int batch;                               /* bytes it has room for */
	int oldest;                              /* receive that was posted first */
	int next, next_urgent;                   /* send to be used next */
} ring;

int real_post(int i, char *memory)
{
	return drv->irecv(memory, ring.batch, drv->type[NX_TYPE_BYTE], NX_ANY_SOURCE, NX_ANY_TAG, ring.batches,
			  &ring.receive[i]);
}

int real_open(int batch)
{
	int rc = drv->comm_dup(base, &ring.batches);
	if (!rc) rc = drv->comm_dup(base, &ring.longs);
	ring.batch = batch;
	ring.oldest = ring.next = 0;
	ring.next_urgent = REAL_SENDS;
	for (int i = 0; i < REAL_SENDS + REAL_URGENT; i++) ring.send[i] = drv->request_null;
	return rc;
}

/* A short message is complete at once, mostly; else its memory is held until the send is used again. */
int real_ring_send(struct real_ring *r, int urgent, const char *out, int n, int to, int tag, int empty, char *fresh)
{
	int flag = 1, rc = 0, i = urgent ? ring.next_urgent : ring.next;
	rh_t *request = &ring.send[i];
	r->sent = 0;
	r->held = -1;
	if (*request != drv->request_null) rc = drv->test(request, &flag, NULL);
	if (!rc && flag) {
		rc = drv->isend(out, n, drv->type[NX_TYPE_BYTE], to, tag, ring.batches, request);
		r->sent = rc == 0;
	}
	if (!rc && empty >= 0) rc = real_post(empty, fresh);
	if (rc || !r->sent) return rc;
	rc = drv->test(request, &flag, NULL);
	if (rc || flag) return rc;
	r->held = i;
	if (urgent)
		ring.next_urgent = REAL_SENDS + (i + 1 - REAL_SENDS) % REAL_URGENT;
	else
		ring.next = (i + 1) % REAL_SENDS;
	return 0;
}

int real_ring_look(struct real_ring *r, int looks, int empty, char *fresh)
{
	int i = ring.oldest, rc = empty >= 0 ? real_post(empty, fresh) : 0;
	r->got = -1;
	for (; looks > 0 && !rc; looks--) {
		nx_status st;
		int flag;
		if ((rc = drv->test(&ring.receive[i], &flag, &st))) return rc;
		if (!flag) continue;
		r->got = i;
		r->n = (int32_t)st.bytes;
		r->from = st.source;
		r->tag = st.tag;
		ring.oldest = (i + 1) % REAL_RECEIVES;
		break;
	}
	return rc;
}

int real_close(void)
{
	int rc = 0;
	for (int i = 0; i < REAL_SENDS + REAL_URGENT && !rc; i++)
		if (ring.send[i] != drv->request_null) rc = drv->wait(&ring.send[i], NULL);
	for (int i = 0; i < REAL_RECEIVES && !rc; i++) {
		if (ring.receive[i] == drv->request_null) continue;   /* is not posted again */
		rc = drv->cancel(ring.receive[i]);
		if (!rc) rc = drv->wait(&ring.receive[i], NULL);
	}
	if (!rc) rc = drv->comm_free(&ring.batches);
	if (!rc) rc = drv->comm_free(&ring.longs);
	return rc;
}

int real_abandon(void)
{
	int rc = 0, done;
	for (int i = 0; i < REAL_RECEIVES && !rc; i++) {
		if (ring.receive[i] == drv->request_null) continue;
		rc = drv->cancel(ring.receive[i]);
		if (!rc) rc = drv->test(&ring.receive[i], &done, NULL);
	}
	return rc;
}

int real_isend(const void *buf, int n, int to, int tag, rh_t *request)
{
	return drv->isend(buf, n, drv->type[NX_TYPE_BYTE], to, tag, ring.longs, request);
}

int real_irecv(void *buf, int n, int from, int tag, rh_t *request)
{
	return drv->irecv(buf, n, drv->type[NX_TYPE_BYTE], from, tag, ring.longs, request);
}

int real_test(rh_t *request, int *flag) { return drv->test(request, flag, NULL); }
