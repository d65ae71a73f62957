/* test_doc: derived datatypes (contiguous, vector, hvector, indexed, hindexed, indexed_block, struct, subarray,
 * darray, resized, dup, nested) live over the whole run and made anew; messages are in flight while ranks compute,
 * and are received by strided types, whose gaps must stay untouched; Pack and Unpack; Get_elements.
 *
 * Which bytes a type covers is learned once by MPI_Pack of a buffer that numbers its own bytes, and compared in
 * every iteration: a type that came back different is seen even when both sides changed alike. */
#include "app.h"

enum { KINDS = 12, SPAN = 4096, COUNT = 3, TAG = 40 };

struct kind {
	const char *name;
	MPI_Datatype type;
	int size;                 /* bytes in one element */
	MPI_Aint lb, extent;
	uint64_t layout;          /* hash of which bytes COUNT elements cover, in which order */
};

static MPI_Datatype make(const struct app *a, int k)
{
	int lens[3] = { 3, 1, 2 }, displs[3] = { 8, 0, 5 }, sizes[2] = { 6, 7 }, sub[2] = { 3, 4 }, starts[2] = { 2, 1 };
	int gsizes[2] = { 8, 6 }, distribs[2] = { MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC };
	int dargs[2] = { MPI_DISTRIBUTE_DFLT_DARG, 2 }, psizes[2] = { 2, 1 };
	MPI_Aint bytes[3] = { 96, 0, 41 }, at[3] = { 0, 24, 32 };
	MPI_Datatype t = MPI_DATATYPE_NULL, u, v, basic[3] = { MPI_INT, MPI_DOUBLE, MPI_CHAR };

	switch (k) {
	case 0: MPI_Type_contiguous(5, MPI_INT, &t); break;
	case 1: MPI_Type_vector(4, 2, 5, MPI_INT, &t); break;
	case 2: MPI_Type_create_hvector(3, 2, 37, MPI_SHORT, &t); break;
	case 3: MPI_Type_indexed(3, lens, displs, MPI_DOUBLE, &t); break;
	case 4: MPI_Type_create_hindexed(3, lens, bytes, MPI_INT, &t); break;
	case 5: MPI_Type_create_indexed_block(3, 2, displs, MPI_FLOAT, &t); break;
	case 6: MPI_Type_create_struct(3, lens, at, basic, &t); break;
	case 7: MPI_Type_create_subarray(2, sizes, sub, starts, MPI_ORDER_C, MPI_INT, &t); break;
	case 8: MPI_Type_create_darray(2, a->rank % 2, 2, gsizes, distribs, dargs, psizes, MPI_ORDER_FORTRAN, MPI_INT, &t);
		break;
	case 9:
		MPI_Type_vector(2, 1, 3, MPI_INT, &u);
		MPI_Type_create_resized(u, -4, 40, &t);
		MPI_Type_free(&u);
		break;
	case 10: /* nested: inner types are freed, the outer one goes on */
		MPI_Type_vector(2, 1, 2, MPI_SHORT, &u);
		MPI_Type_create_struct(2, lens, at, (MPI_Datatype[2]){ u, MPI_INT }, &v);
		MPI_Type_create_resized(v, 0, 64, &t);
		MPI_Type_free(&u);
		MPI_Type_free(&v);
		break;
	default:
		MPI_Type_vector(3, 3, 4, MPI_BYTE, &u);
		MPI_Type_dup(u, &t);
		MPI_Type_free(&u);
		break;
	}
	MPI_Type_commit(&t);
	return t;
}

/* Packs COUNT elements of a buffer whose 16-bit words are their own positions, and hashes what comes out. */
static uint64_t layout(const struct app *a, MPI_Datatype type)
{
	uint8_t low[2 * SPAN], high[2 * SPAN], out[2 * SPAN];
	int at = 0, size;

	for (int i = 0; i < 2 * SPAN; i++)
		low[i] = (uint8_t)i, high[i] = (uint8_t)(i >> 8);
	MPI_Type_size(type, &size);
	CHECK(a, size * COUNT <= SPAN / 2, "type of %d bytes is too large for this test", size);
	MPI_Pack(low + SPAN, COUNT, type, out, sizeof out, &at, MPI_COMM_WORLD);
	MPI_Pack(high + SPAN, COUNT, type, out, sizeof out, &at, MPI_COMM_WORLD);
	CHECK(a, at == 2 * COUNT * size, "Pack wrote %d bytes, want %d", at, 2 * COUNT * size);
	return hash_bytes(out, (size_t)at);
}

static void describe(struct app *a, struct kind *k, int i)
{
	static const char *names[KINDS] = { "contiguous", "vector", "hvector", "indexed", "hindexed", "indexed_block",
		"struct", "subarray", "darray", "resized", "nested", "dup" };

	k->name = names[i];
	k->type = make(a, i);
	MPI_Type_size(k->type, &k->size);
	MPI_Type_get_extent(k->type, &k->lb, &k->extent);
	k->layout = layout(a, k->type);
}

static void unchanged(struct app *a, const struct kind *k)
{
	MPI_Aint lb, extent;
	int size;

	MPI_Type_size(k->type, &size);
	MPI_Type_get_extent(k->type, &lb, &extent);
	CHECK(a, size == k->size, "%s: size %d, want %d", k->name, size, k->size);
	CHECK(a, lb == k->lb && extent == k->extent, "%s: extent %ld at %ld, want %ld at %ld", k->name, (long)extent, (long)lb,
	      (long)k->extent, (long)k->lb);
	CHECK(a, layout(a, k->type) == k->layout, "%s: covers other bytes than before", k->name);
}

/* Sends COUNT elements packed to the right, computes while they are under way, receives them by type from the left. */
static uint64_t exchange(struct app *a, struct kind *k, long iter, int i)
{
	int right = (a->rank + 1) % a->size, left = (a->rank + a->size - 1) % a->size, at = 0, n, elements;
	size_t bytes = (size_t)(COUNT * k->size);
	uint8_t packed[SPAN], into[2 * SPAN], back[SPAN], gaps[2 * SPAN];
	uint64_t key = mix3(a->seed, (uint64_t)iter, (uint64_t)i), h;
	MPI_Request rq;
	MPI_Status st;

	fill(packed, bytes, key + (uint64_t)a->rank);
	memset(into, 0xa5, sizeof into);
	MPI_Isend(packed, (int)bytes, MPI_PACKED, right, TAG + i, MPI_COMM_WORLD, &rq);
	app_compute(a, a->pace / KINDS);
	MPI_Recv(into + SPAN, COUNT + 1, k->type, left, TAG + i, MPI_COMM_WORLD, &st);
	MPI_Get_count(&st, k->type, &n);
	MPI_Get_elements(&st, MPI_BYTE, &elements);
	CHECK(a, n == COUNT, "%s: received %d elements, want %d", k->name, n, COUNT);
	CHECK(a, elements == (int)bytes, "%s: received %d bytes, want %zu", k->name, elements, bytes);
	MPI_Pack(into + SPAN, COUNT, k->type, back, sizeof back, &at, MPI_COMM_WORLD);
	CHECK(a, wrong(back, bytes, key + (uint64_t)left) < 0, "%s: data", k->name);
	h = hash_bytes(into, sizeof into);
	memset(gaps, 0xa5, sizeof gaps);
	at = 0;
	MPI_Unpack(back, (int)bytes, &at, gaps + SPAN, COUNT, k->type, MPI_COMM_WORLD);
	CHECK(a, memcmp(gaps, into, sizeof gaps) == 0, "%s: bytes outside the type were written", k->name);
	MPI_Wait(&rq, MPI_STATUS_IGNORE);
	return h;
}

/* Sends by the strided type, receives packed: the other direction. */
static uint64_t send_strided(struct app *a, struct kind *k, long iter, int i)
{
	int right = (a->rank + 1) % a->size, left = (a->rank + a->size - 1) % a->size, at = 0;
	uint8_t from[2 * SPAN], want[SPAN], packed[SPAN];
	uint64_t key = mix3(a->seed + 1, (uint64_t)iter, (uint64_t)i);
	MPI_Datatype theirs = k->type;
	MPI_Request rq;
	MPI_Status st;

	if (i == 8)                       /* each rank's darray covers other bytes: compare with one's own only */
		right = left = a->rank;
	fill(from, sizeof from, key + (uint64_t)a->rank);
	MPI_Irecv(packed, SPAN, MPI_PACKED, left, TAG + 100 + i, MPI_COMM_WORLD, &rq);
	MPI_Ssend(from + SPAN, COUNT, k->type, right, TAG + 100 + i, MPI_COMM_WORLD);
	MPI_Wait(&rq, &st);
	fill(from, sizeof from, key + (uint64_t)left);
	MPI_Pack(from + SPAN, COUNT, theirs, want, sizeof want, &at, MPI_COMM_WORLD);
	CHECK(a, memcmp(want, packed, (size_t)at) == 0, "%s: data sent by the type", k->name);
	return hash_bytes(packed, (size_t)at);
}

/* A type of more bytes than an int can say. */
static MPI_Datatype huge(void)
{
	MPI_Datatype chunk, t;

	MPI_Type_contiguous(1 << 20, MPI_BYTE, &chunk);
	MPI_Type_contiguous(5000, chunk, &t);
	MPI_Type_free(&chunk);
	return t;
}

static void huge_unchanged(const struct app *a, MPI_Datatype t)
{
	MPI_Count bytes;
	int size;

	MPI_Type_size_x(t, &bytes);
	MPI_Type_size(t, &size);
	CHECK(a, bytes == (MPI_Count)5000 << 20 && size == MPI_UNDEFINED, "huge type: %lld bytes, size %d", (long long)bytes, size);
	MPI_Type_get_extent_x(t, &bytes, &bytes);
	CHECK(a, bytes == (MPI_Count)5000 << 20, "huge type: extent %lld", (long long)bytes);
}

int main(int argc, char **argv)
{
	struct kind kinds[KINDS];
	struct app a;

	app_begin(&a, argc, argv);
	MPI_Datatype large = huge();
	for (int i = 0; i < KINDS; i++)
		describe(&a, &kinds[i], i);
	for (long iter = 0; iter < a.iters; iter++) {
		uint64_t sum = 0;
		int renew = (int)(mix2(a.seed, (uint64_t)iter) % KINDS);
		app_progress(&a, iter);
		huge_unchanged(&a, large);
		for (int i = 0; i < KINDS; i++) {
			unchanged(&a, &kinds[i]);
			sum = mix3(sum, exchange(&a, &kinds[i], iter, i), send_strided(&a, &kinds[i], iter, i));
		}
		MPI_Type_free(&kinds[renew].type);
		kinds[renew].type = make(&a, renew);
		app_result(&a, iter, "types", sum);
	}
	for (int i = 0; i < KINDS; i++)
		MPI_Type_free(&kinds[i].type);
	MPI_Type_free(&large);
	return app_end(&a);
}
