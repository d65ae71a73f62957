/* test_doc: point-to-point messages of 0 B to 8 MiB on several communicators, every third of them synchronous, received in
 * every way MPI has: wildcards, probes, matched probes, posted receives completed by Wait, Waitany, Waitsome, Test, Testall,
 * Testany, Testsome, receives out of order, Sendrecv, Sendrecv_replace, cancelled receives.
 *
 * Every message of a channel (communicator, source, destination) has a number, which is its tag; its length and
 * content follow from the channel and the number. Receivers may run ahead of their own need by messages that
 * wildcards matched early, so results are collected by the message's iteration. */
#include "app.h"

enum { MAXRANKS = 64, NCHANNELS = 5, RING = 4, AHEAD = 8, TAG_RING = 30000, TAG_NEVER = 30001 };

struct channel {
	MPI_Comm comm;
	int rank, size;
	const char *name;
	uint64_t id;
	size_t largest;
	int most;                        /* messages per pair and iteration: 1..most */
	int every;                       /* takes part in every n-th iteration; above 1: no large buffers posted ahead */
	long sent[MAXRANKS];             /* by destination */
	long need[MAXRANKS];             /* by source: messages of iterations up to this one */
	long got[MAXRANKS];              /* by source: received with wildcards, in order */
	uint64_t part[AHEAD];            /* by iteration modulo AHEAD: sum over its messages */
};

struct message { int src, dst; long n; size_t len; uint64_t key; };

static long plan(const struct app *a, const struct channel *c, int src, int dst, long iter)
{
	return 1 + (long)(mix4(a->seed ^ c->id, (uint64_t)src, (uint64_t)dst, (uint64_t)iter) % (uint64_t)c->most);
}

static struct message message(const struct app *a, const struct channel *c, int src, int dst, long n)
{
	struct message m = { src, dst, n, 0, mix4(a->seed + c->id, (uint64_t)src, (uint64_t)dst, (uint64_t)n) };
	uint64_t r = mix(m.key);
	unsigned bits = 0;

	while (((size_t)1 << bits) < c->largest)
		bits++;
	switch (r % 8) {
	case 0: m.len = 0; break;
	case 1: m.len = c->largest; break;
	default: m.len = (size_t)(mix(r) % (((size_t)2 << ((r >> 8) % bits)) + 1)); break;
	}
	if (m.len > c->largest)
		m.len = c->largest;
	return m;
}

static int tag_of(long n) { return (int)(n % 16384); }

/* Checks an arrived message against the channel's next expected number and books it to its iteration. */
static void arrived(struct app *a, struct channel *c, const MPI_Status *st, const void *buf, long n, long iter)
{
	int len, src = st->MPI_SOURCE;
	struct message m = message(a, c, src, c->rank, n);
	long it = iter, bad;

	MPI_Get_count(st, MPI_BYTE, &len);
	CHECK(a, st->MPI_TAG == tag_of(n), "%s: message %ld from %d has tag %d: overtaken or lost", c->name, n, src,
	      st->MPI_TAG);
	CHECK(a, (size_t)len == m.len, "%s: message %ld from %d has %d bytes, want %zu", c->name, n, src, len, m.len);
	bad = wrong(buf, m.len, m.key);
	CHECK(a, bad < 0, "%s: message %ld from %d (%zu bytes) differs at byte %ld", c->name, n, src, m.len, bad);
	for (long end = c->need[src]; n >= end; it++) {
		CHECK(a, it - iter < AHEAD - 1, "%s: message %ld from %d is too far ahead", c->name, n, src);
		end += plan(a, c, src, c->rank, it + 1);
	}
	c->part[it % AHEAD] += mix3((uint64_t)src, (uint64_t)n, hash_bytes(buf, m.len < 4096 ? m.len : 4096));
}

static void arrived_next(struct app *a, struct channel *c, const MPI_Status *st, const void *buf, long iter)
{
	CHECK(a, st->MPI_SOURCE >= 0 && st->MPI_SOURCE < c->size, "%s: status names source %d", c->name, st->MPI_SOURCE);
	arrived(a, c, st, buf, c->got[st->MPI_SOURCE]++, iter);
}

static long outstanding(const struct channel *c)
{
	long n = 0;

	for (int r = 0; r < c->size; r++)
		if (c->need[r] > c->got[r])
			n += c->need[r] - c->got[r];
	return n;
}

/* -- ways to receive ------------------------------------------------------------------------------------------- */

static void recv_wildcard(struct app *a, struct channel *c, char *buf, long iter)
{
	MPI_Status st;

	while (outstanding(c) > 0) {
		MPI_Recv(buf, (int)c->largest, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, c->comm, &st);
		arrived_next(a, c, &st, buf, iter);
	}
}

static void recv_probe(struct app *a, struct channel *c, char *buf, long iter, int busy)
{
	MPI_Status ps, st;
	int len, flag;

	while (outstanding(c) > 0) {
		if (busy)
			for (flag = 0; !flag; )
				MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, c->comm, &flag, &ps);
		else
			MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, c->comm, &ps);
		MPI_Get_count(&ps, MPI_BYTE, &len);
		MPI_Recv(buf, len, MPI_BYTE, ps.MPI_SOURCE, ps.MPI_TAG, c->comm, &st);
		CHECK(a, st.MPI_SOURCE == ps.MPI_SOURCE && st.MPI_TAG == ps.MPI_TAG, "%s: received what was not probed",
		      c->name);
		arrived_next(a, c, &st, buf, iter);
	}
}

static void recv_mprobe(struct app *a, struct channel *c, char *buf, long iter, int busy)
{
	MPI_Status ps, st;
	MPI_Message msg;
	MPI_Request rq;
	int len, flag;

	while (outstanding(c) > 0) {
		if (busy)
			for (flag = 0; !flag; )
				MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, c->comm, &flag, &msg, &ps);
		else
			MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, c->comm, &msg, &ps);
		MPI_Get_count(&ps, MPI_BYTE, &len);
		if (busy) {
			MPI_Imrecv(buf, len, MPI_BYTE, &msg, &rq);
			MPI_Wait(&rq, &st);
		} else
			MPI_Mrecv(buf, len, MPI_BYTE, &msg, &st);
		CHECK(a, msg == MPI_MESSAGE_NULL, "%s: message handle lives after Mrecv", c->name);
		arrived_next(a, c, &st, buf, iter);
	}
}

/* Completes n requests in a way chosen by how; done is called through arrived_* by the caller's index. */
static int complete_some(int how, int n, MPI_Request *rq, int *index, MPI_Status *st)
{
	int count = 0, flag = 0;

	switch (how) {
	case 0:
		MPI_Waitany(n, rq, &index[0], &st[0]);
		return index[0] == MPI_UNDEFINED ? 0 : 1;
	case 1:
		MPI_Waitsome(n, rq, &count, index, st);
		return count;
	case 2:
		while (!flag)
			MPI_Testall(n, rq, &flag, st);
		for (int i = 0; i < n; i++)
			index[i] = i;
		return n;
	case 3:
		while (!flag)
			MPI_Testany(n, rq, &index[0], &flag, &st[0]);
		return index[0] == MPI_UNDEFINED ? 0 : 1;
	case 4:
		while (count == 0)
			MPI_Testsome(n, rq, &count, index, st);
		return count;
	default:
		MPI_Waitall(n, rq, st);
		for (int i = 0; i < n; i++)
			index[i] = i;
		return n;
	}
}

/* Wildcard receives posted in a block. MPI matches them in the order of posting, so the i-th to be *posted* has
 * the earlier message of a source: messages are checked in posting order once all of the block are complete. */
static void recv_posted_any(struct app *a, struct channel *c, long iter, int how)
{
	long n;

	while ((n = outstanding(c)) > 0) {
		char *bufs = (char *)app_alloc(a, (size_t)n * c->largest);
		MPI_Request *rq = (MPI_Request *)app_alloc(a, (size_t)n * sizeof *rq);
		MPI_Status *st = (MPI_Status *)app_alloc(a, (size_t)n * sizeof *st);
		MPI_Status *all = (MPI_Status *)app_alloc(a, (size_t)n * sizeof *all);
		int *index = (int *)app_alloc(a, (size_t)n * sizeof *index);

		for (long i = 0; i < n; i++)
			MPI_Irecv(bufs + (size_t)i * c->largest, (int)c->largest, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG,
			          c->comm, &rq[i]);
		for (long left = n; left > 0; ) {
			int k = complete_some(how, (int)n, rq, index, st);
			CHECK(a, k > 0, "%s: nothing completed with %ld left", c->name, left);
			for (int i = 0; i < k; i++)
				all[index[i]] = st[i];
			left -= k;
		}
		for (long i = 0; i < n; i++) {
			CHECK(a, rq[i] == MPI_REQUEST_NULL, "%s: completed request is not null", c->name);
			arrived_next(a, c, &all[i], bufs + (size_t)i * c->largest, iter);
		}
		free(bufs), free(rq), free(st), free(all), free(index);
	}
}

/* Receives by source and tag, the latest message first: all others wait in the unexpected queue. */
static void recv_backwards(struct app *a, struct channel *c, char *buf, long iter, int posted)
{
	for (int src = 0; src < c->size; src++) {
		long first = c->got[src];
		for (long n = c->need[src] - 1; n >= first; n--) {
			MPI_Request rq;
			MPI_Status st;
			if (posted) {
				MPI_Irecv(buf, (int)c->largest, MPI_BYTE, src, tag_of(n), c->comm, &rq);
				for (int flag = 0; !flag; )
					MPI_Test(&rq, &flag, &st);
			} else
				MPI_Recv(buf, (int)c->largest, MPI_BYTE, src, tag_of(n), c->comm, &st);
			CHECK(a, st.MPI_SOURCE == src, "%s: source %d, want %d", c->name, st.MPI_SOURCE, src);
			arrived(a, c, &st, buf, n, iter);
		}
		if (c->need[src] > c->got[src])
			c->got[src] = c->need[src];
	}
}

static void receive(struct app *a, struct channel *c, char *buf, long iter)
{
	unsigned way = (unsigned)(mix4(a->seed, c->id, (uint64_t)iter, (uint64_t)c->rank) % (c->every > 1 ? 7 : 13));

	switch (way) {
	case 0: recv_wildcard(a, c, buf, iter); break;
	case 1: recv_probe(a, c, buf, iter, 0); break;
	case 2: recv_probe(a, c, buf, iter, 1); break;
	case 3: recv_mprobe(a, c, buf, iter, 0); break;
	case 4: recv_mprobe(a, c, buf, iter, 1); break;
	case 5: recv_backwards(a, c, buf, iter, 0); break;
	case 6: recv_backwards(a, c, buf, iter, 1); break;
	default: recv_posted_any(a, c, iter, (int)way - 7); break;
	}
}

/* -- one iteration ------------------------------------------------------------------------------------------------ */

/* Starts all sends of an iteration on a channel; returns their number. */
static int send_all(struct app *a, struct channel *c, long iter, MPI_Request *rq, char **bufs)
{
	int n = 0;

	for (int k = 0; k < c->size; k++) {
		int dst = (c->rank + k) % c->size;
		for (long i = plan(a, c, c->rank, dst, iter); i > 0; i--) {
			struct message m = message(a, c, c->rank, dst, c->sent[dst]++);
			bufs[n] = (char *)app_alloc(a, m.len);
			fill(bufs[n], m.len, m.key);
			int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *) = mix(m.key + 1) % 3 ? MPI_Isend : MPI_Issend;
			send(bufs[n], (int)m.len, MPI_BYTE, dst, tag_of(m.n), c->comm, &rq[n]);
			n++;
		}
	}
	return n;
}

static void channel_round(struct app *a, struct channel *c, char *buf, long iter)
{
	int most = c->size * c->most;
	MPI_Request *rq = (MPI_Request *)app_alloc(a, (size_t)most * sizeof *rq);
	char **bufs = (char **)app_alloc(a, (size_t)most * sizeof *bufs);
	int n = send_all(a, c, iter, rq, bufs);

	for (int src = 0; src < c->size; src++)
		c->need[src] += plan(a, c, src, c->rank, iter);
	if (mix3(a->seed, (uint64_t)iter, (uint64_t)a->rank) % 4 == 0)
		app_compute(a, a->pace / 4);
	receive(a, c, buf, iter);
	if (mix2((uint64_t)iter, c->id) % 2)
		MPI_Waitall(n, rq, MPI_STATUSES_IGNORE);
	else
		for (int i = 0; i < n; i++)
			MPI_Wait(&rq[i], MPI_STATUS_IGNORE);
	for (int i = 0; i < n; i++)
		free(bufs[i]);
	free(rq), free(bufs);
	app_result(a, iter, c->name, c->part[iter % AHEAD]);
	c->part[iter % AHEAD] = 0;
}

/* Sendrecv and Sendrecv_replace around a ring, and a receive that never matches and is cancelled. */
static void ring_round(struct app *a, struct channel *c, char *buf, long iter)
{
	int left = (c->rank + c->size - 1) % c->size, right = (c->rank + 1) % c->size, cancelled, len;
	size_t n = (size_t)(mix3(a->seed, (uint64_t)iter, c->id) % 20000);
	uint64_t key = mix3(a->seed, (uint64_t)iter, 77);
	char *out = (char *)app_alloc(a, n), never;
	MPI_Request rq;
	MPI_Status st;

	MPI_Irecv(&never, 1, MPI_BYTE, MPI_ANY_SOURCE, TAG_NEVER, c->comm, &rq);
	fill(out, n, key + (uint64_t)c->rank);
	MPI_Sendrecv(out, (int)n, MPI_BYTE, right, TAG_RING, buf, (int)n + 10, MPI_BYTE, left, TAG_RING, c->comm, &st);
	MPI_Get_count(&st, MPI_BYTE, &len);
	CHECK(a, len == (int)n && st.MPI_SOURCE == left, "%s: Sendrecv got %d bytes from %d", c->name, len, st.MPI_SOURCE);
	CHECK(a, wrong(buf, n, key + (uint64_t)left) < 0, "%s: Sendrecv data", c->name);
	MPI_Sendrecv_replace(out, (int)n, MPI_BYTE, left, TAG_RING, right, TAG_RING, c->comm, MPI_STATUS_IGNORE);
	CHECK(a, wrong(out, n, key + (uint64_t)right) < 0, "%s: Sendrecv_replace data", c->name);
	MPI_Cancel(&rq);
	MPI_Wait(&rq, &st);
	MPI_Test_cancelled(&st, &cancelled);
	CHECK(a, cancelled, "%s: receive was not cancelled", c->name);
	free(out);
}

static void open_channels(struct app *a, struct channel *c)
{
	MPI_Comm even;

	MPI_Comm_dup(MPI_COMM_WORLD, &c[0].comm);
	c[0].name = "small", c[0].largest = 4096, c[0].most = 4;
	MPI_Comm_split(MPI_COMM_WORLD, 0, -a->rank, &c[1].comm);
	c[1].name = "medium", c[1].largest = 150000, c[1].most = 2;
	MPI_Comm_split(MPI_COMM_WORLD, a->rank % 2, a->rank, &even);
	c[2].name = "half", c[2].largest = 1 << 16, c[2].most = 3, c[2].comm = even;
	MPI_Comm_dup(c[1].comm, &c[3].comm);
	c[3].name = "large", c[3].largest = 8 << 20, c[3].most = 1, c[3].every = 4;
	MPI_Comm_dup(c[0].comm, &c[RING].comm);
	c[RING].name = "ring";
	for (int i = 0; i < NCHANNELS; i++) {
		c[i].id = (uint64_t)i + 1;
		if (c[i].every == 0)
			c[i].every = 1;
		MPI_Comm_rank(c[i].comm, &c[i].rank);
		MPI_Comm_size(c[i].comm, &c[i].size);
	}
}

int main(int argc, char **argv)
{
	static struct channel channels[NCHANNELS];
	struct app a;
	char *buf;

	app_begin(&a, argc, argv);
	CHECK(&a, a.size <= MAXRANKS, "%d ranks, at most %d", a.size, MAXRANKS);
	open_channels(&a, channels);
	buf = (char *)app_alloc(&a, 8 << 20);
	for (long iter = 0; iter < a.iters; iter++) {
		app_progress(&a, iter);
		for (int i = 0; i < RING; i++)
			if (iter % channels[i].every == 0)
				channel_round(&a, &channels[i], buf, iter / channels[i].every);
		ring_round(&a, &channels[RING], buf, iter);
		app_compute(&a, a.pace);
	}
	for (int i = 0; i < NCHANNELS; i++)
		MPI_Comm_free(&channels[i].comm);
	free(buf);
	return app_end(&a);
}
