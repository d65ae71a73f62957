/* drain.c: messages that a checkpoint has drained (rank/mpi/traffic/drain.c) by themselves, over an MPI whose
 * calls fail where they are told to.
 *
 * Whatever fails, a message is where it can be found: in the real MPI, in the list, or with whom it was
 * handed to; nobody else finds it meanwhile, the order stays, and no request and no datatype of the real MPI
 * is left. It ends with 0, or says what is wrong. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include "../../../rank/mpi/pending/pending.c"
#include "../../../rank/mpi/traffic/drain.c"

static void must(int ok, const char *what)
{
	if (ok) return;
	printf("wrong: %s\n", what);
	exit(1);
}

/* -- an MPI ---------------------------------------------------------------------------------------------- */

static struct nx_driver mpi;
const struct nx_driver *drv = &mpi;
static int calls, failing;                      /* the call that fails, from 1; 0: none */
static int types, requests, cancelled, arrived; /* that there are; messages that iprobe finds */
static int64_t length;                          /* of what arrives */
static struct { void *to; size_t n; int state; } posted;        /* 1: posted, 2: matched, 3: cancelled */

static int fails(void) { return ++calls == failing ? NX_ERR_NO_MEM : 0; }

static int make(rh_t *t)
{
	int e = fails();
	if (!e) *t = (rh_t)(100 + types++);
	return e;
}
static int contiguous(int n, rh_t old, rh_t *t) { return (void)n, (void)old, make(t); }
static int structure(int n, const int *lengths, const nx_aint *at, const rh_t *old, rh_t *t)
{
	(void)n, (void)lengths, (void)at, (void)old;
	return make(t);
}
static int commit(rh_t t) { return (void)t, fails(); }
static int type_free(rh_t *t) { return *t = 0, types--, 0; }

static int irecv(void *buf, int n, rh_t t, int from, int tag, rh_t comm, rh_t *q)
{
	(void)t, (void)from, (void)tag, (void)comm;
	int e = fails();
	if (e) return e;
	posted = (__typeof__(posted)){ buf, (size_t)n, 1 };
	requests++;
	*q = 1;
	return 0;
}

static int isend(const void *buf, int n, rh_t t, int to, int tag, rh_t comm, rh_t *q)
{
	(void)t, (void)to, (void)tag, (void)comm;
	int e = fails();
	if (e) return e;
	must(posted.state == 1, "sent to nobody");
	memcpy(posted.to, buf, (size_t)n);
	posted.state = 2;
	requests++;
	*q = 2;
	return 0;
}

static int cancel(rh_t q)
{
	must(q == 1 && posted.state == 1, "cancelled what is not posted");
	posted.state = 3;
	cancelled++;
	return 0;
}

static int test(rh_t *q, int *flag, nx_status *st)
{
	must(*q == 1 || *q == 2, "tests no request");
	must(*q == 2 || posted.state > 1, "waits for a message that does not come");
	if (st) st->source = st->tag = 77;
	requests--;
	*q = 0;
	*flag = 1;
	return 0;
}

static int iprobe(int from, int tag, rh_t comm, int *flag, nx_status *st)
{
	(void)from, (void)tag, (void)comm;
	*flag = arrived > 0;
	if (*flag) *st = (nx_status){ .source = 1, .tag = 5, .bytes = length };
	return 0;
}

static int recv(void *buf, int n, rh_t t, int from, int tag, rh_t comm, nx_status *st)
{
	(void)t, (void)from, (void)tag, (void)comm, (void)st;
	int e = fails();
	if (!e && length < INT_MAX) memset(buf, 'x', (size_t)n);
	arrived -= !e;
	return e;
}

static int mrecv(void *buf, int n, rh_t t, rh_t *message, nx_status *st)
{
	int e = recv(buf, n, t, 0, 0, 0, st);
	*message = 0;
	return e;
}

/* -- the other rooms ------------------------------------------------------------------------------------- */

rh_t own_self, own_world, *real_comm, *real_message, *real_request, *real_type;
static jmp_buf died;

void core_die(const char *fmt, ...)
{
	char text[300];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	must(strstr(text, " is lost, since the MPI could not receive it") != NULL, text);
	longjmp(died, 1);
}
void nx_lock(void) {}
void nx_unlock(void) {}

static void *newest;                            /* of what was allocated */
void *nx_malloc(size_t n)
{
	if (length <= INT_MAX) return newest = malloc(n);
	newest = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return newest == MAP_FAILED ? NULL : newest;
}
void nx_free(void *p)
{
	if (length <= INT_MAX) free(p);
	else munmap(p, sizeof(struct vdrained) + (size_t)length);
}
static uint32_t posted_high;                    /* one past the last request */
uint32_t nx_high(enum nx_kind k)
{
	return k == NX_K_MESSAGE ? NX_DYNAMIC + 1 : k == NX_K_REQUEST ? posted_high : 0;
}
bool core_fault_fails(enum abi_fault f) { return (void)f, false; }
int core_cancelled(void) { return 0; }
void core_stop_here(void) {}
void core_checkpoint_failed(const char *why) { (void)why; }
void agree_settle_all(void) {}
bool agree_settles(const struct vcomm *c, uint64_t number) { return (void)c, (void)number, true; }
int request_poll(struct vrequest *r, int *flag, nx_status *st) { return (void)r, (void)st, *flag = 1, 0; }
void wait_step_slow(unsigned spins) { (void)spins; }
int sync_acknowledge(const struct vdrained *d) { return (void)d, 0; }
bool sync_acks_gone(void) { return true; }
uint64_t sync_acks_sent(int world) { return (void)world, 0; }
uint64_t sync_acks_taken(int world) { return (void)world, 0; }
int sync_begin(const uint64_t *mine, const uint64_t *theirs, int step)
{
	return (void)mine, (void)theirs, (void)step, 0;
}
void sync_conclude(void) {}
int sync_converse(bool *all) { return *all = true, 0; }
void sync_count_notes(uint64_t *counts, int step) { (void)counts, (void)step; }
bool sync_in_talks(void) { return false; }
void sync_received(const struct vmessage *m, struct vcomm *c) { (void)m, (void)c; }
int sync_take_acks(void) { return 0; }

/* -- the tests ------------------------------------------------------------------------------------------- */

static struct vcomm *c;
static struct vmessage *matched;
static nx_t type;

static void *saved(uint64_t at, size_t n)
{
	void *p = mmap((void *)(at & ~4095UL), n, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	must(p != MAP_FAILED, "memory at its place");
	return (void *)at;
}

static void begin(void)
{
	mpi = (struct nx_driver){ .type_contiguous = contiguous, .type_create_struct = structure,
				  .type_commit = commit, .type_free = type_free, .irecv = irecv,
				  .isend = isend, .cancel = cancel, .test = test, .iprobe = iprobe,
				  .recv = recv, .mrecv = mrecv };
	enum { TABLE = 1 << 20 };
	saved(NX_TABLE(NX_K_COMM), TABLE);
	saved(NX_TABLE(NX_K_TYPE), TABLE);
	saved(NX_TABLE(NX_K_MESSAGE), TABLE);
	saved(NX_TABLE(NX_K_REQUEST), TABLE);
	saved(NX_TABLE(NX_REGION_STATE), TABLE);
	real_comm = calloc(TABLE, sizeof(rh_t));
	real_type = calloc(TABLE, sizeof(rh_t));
	real_message = calloc(TABLE, sizeof(rh_t));
	real_request = calloc(TABLE, sizeof(rh_t));
	c = NX_COMM(NX_COMM_WORLD);
	c->handle = NX_COMM_WORLD;
	c->size = 4;
	c->peer = calloc(4, sizeof *c->peer);
	type = NX_DYNAMIC;
	*NX_TYPE(type) = (struct vtype){ .handle = type, .size = 1, .contiguous = 0 };
	matched = NX_MESSAGE(NX_DYNAMIC);
	*matched = (struct vmessage){ .handle = NX_DYNAMIC, .comm = NX_COMM_WORLD, .source = 1, .tag = 5 };
}

static struct vdrained *take(int source, int tag)
{
	struct vdrained *d = NULL;
	return drained_match(c, source, tag, true, &d) ? d : NULL;
}

/* Three messages of one sender: what was taken is found by nobody, and where it was when it comes back. */
static void test_take(void)
{
	struct vdrained *m[3];
	for (int i = 0; i < 3; i++) {
		append(c, m[i] = held_new(c, 1, i, 4));
		memcpy(m[i]->data, &(int){ 0x41414141 + i }, 4);
	}
	must(take(1, 1) == m[1], "the one with the tag");
	must(!take(1, 1) && take(NX_ANY_SOURCE, NX_ANY_TAG) == m[0], "nobody finds what was taken");
	must(take(1, NX_ANY_TAG) == m[2] && !take(NX_ANY_SOURCE, NX_ANY_TAG), "the last one");
	for (int i = 3; i-- > 0;) drained_back(m[i]);
	for (int i = 0; i < 3; i++) must(take(1, NX_ANY_TAG) == m[i], "their order");
	drained_remove(c, m[2]);
	drained_back(m[0]);
	drained_back(m[1]);
	must(c->drained_tail == m[1] && m[2]->source == 1, "the list's end");
	append(c, m[2]);
	for (int i = 0; i < 3; i++) {
		must(take(1, NX_ANY_TAG) == m[i], "their order again");
		drained_remove(c, m[i]);
		nx_free(m[i]);
	}
	must(!c->drained, "an empty list");
}

/* Each call of a delivery by way of the real MPI fails: the message stays, nothing is left in the MPI. */
static void test_deliver(void)
{
	for (failing = 1; failing <= 3; failing++) {
		char buf[8] = "........";
		int e = -1;
		nx_status st = { 0 };
		append(c, held_new(c, 2, 9, 4));
		memcpy(c->drained->data, "abcd", 4);
		struct vdrained *d = take(2, 9);
		calls = 0;
		bool done = drained_deliver(d, buf, 8, type, &st, &e);
		must(done == (failing == 3) && (e != 0) == !done, "what a delivery says");
		must(!requests && cancelled == (failing == 2), "what a failed delivery leaves");
		must(!memcmp(buf, done ? "abcd...." : "........", 8), "the buffer");
		must(!done || (st.source == 2 && st.tag == 9 && st.bytes == 4), "the status");
		cancelled = 0;
		drained_back(d);
		must(take(2, 9) == d, "it is there to be received");
		drained_remove(c, d);
		nx_free(d);
	}
}

/* Each call of taking one off the network fails. */
static void test_taking(int64_t bytes, int before, bool probed)
{
	length = bytes;
	for (failing = 1; failing <= before + 2; failing++) {
		volatile bool dead = false;
		volatile int e = 0;
		calls = 0;
		arrived = probed;
		matched->bytes = bytes;
		RMSG(matched->handle) = 1;
		c->peer[1].taken = 0;
		if (setjmp(died)) dead = true;
		else e = probed ? drain_comm(c) : drain_matched();
		must(dead == (failing == before + 1), "it dies where nobody knows of the message any more");
		if (dead) {
			types = 0;
			nx_free(newest);
			continue;
		}
		must(!types, "types are left");
		must((e != 0) == (failing <= before), "what a drain says");
		must(c->peer[1].taken == !e, "what is counted");
		if (e) {
			must(!c->drained && !matched->held, "what nobody has received");
			must(arrived == probed && (probed || RMSG(matched->handle) == 1), "it is where it was");
			continue;
		}
		struct vdrained *d = probed ? take(1, 5) : matched->held;
		must(d && d->bytes == bytes, "what was taken");
		if (probed) drained_remove(c, d);
		nx_free(d);
		matched->held = NULL;
	}
	length = 0;
}

/* One of a kind that says nothing: its completion is no message, and after a restart it has no real one. */
static void test_kind(void)
{
	enum { NEW = PENDING_KINDS - 1, OLD = 7 };
	static const struct pending_kind nothing;
	char why[100] = "";
	pending_enter(NEW, &nothing);
	struct vrequest *r = NX_REQUEST(NX_DYNAMIC);
	*r = (struct vrequest){ .handle = NX_DYNAMIC, .kind = NEW, .flags = NX_RF_ACTIVE,
				.comm = NX_COMM_WORLD, .peer = 1 };
	c->peer[1].taken = 0;
	request_completed(r, NULL);
	must(!c->peer[1].taken, "what is counted of no message");
	RREQ(r->handle) = OLD;
	posted_high = NX_DYNAMIC + 1;
	must(!pending_repost_all(why, sizeof why) && !RREQ(r->handle), "the real request of another process");
	posted_high = 0;
}

static const struct pending_kind sent = { .must_complete = true }, receive = { .repost = p2p_repost_all };

int main(void)
{
	pending_enter(NX_RQ_SEND, &sent);
	pending_enter(NX_RQ_RECV, &receive);
	pending_enter(NX_RQ_MRECV, &sent);
	begin();
	test_take();
	test_deliver();
	for (int probed = 0; probed < 2; probed++) {
		test_taking(100, 0, probed);
		test_taking((int64_t)INT_MAX + 100, 4, probed);
	}
	test_kind();
	free(c->peer);
	free(real_comm);
	free(real_type);
	free(real_message);
	free(real_request);
	puts("messages are where they can be found");
	return 0;
}
