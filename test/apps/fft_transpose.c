/* test_doc: the transposition of a distributed FFT: a number-theoretic transform (exact, modulo a prime) along rows, a
 * global transpose by Alltoall, the transform along the other dimension, and all the way back; what comes out must be
 * what went in. */
#include "app.h"

enum { LOG = 6, N = 1 << LOG };               /* N x N values; the number of ranks divides N */
static const uint64_t P = 998244353, G = 3;

static uint64_t power(uint64_t b, uint64_t e)
{
	uint64_t r = 1;

	for (b %= P; e; e >>= 1, b = b * b % P)
		if (e & 1)
			r = r * b % P;
	return r;
}

static void transform(uint64_t *v, int inverse)
{
	for (unsigned i = 1, j = 0; i < N; i++) {
		unsigned bit = N >> 1;
		for (; j & bit; bit >>= 1)
			j ^= bit;
		j ^= bit;
		if (i < j) {
			uint64_t t = v[i];
			v[i] = v[j], v[j] = t;
		}
	}
	for (int len = 2; len <= N; len <<= 1) {
		uint64_t w = power(G, (P - 1) / (uint64_t)len);
		if (inverse)
			w = power(w, P - 2);
		for (int i = 0; i < N; i += len) {
			uint64_t f = 1;
			for (int k = 0; k < len / 2; k++, f = f * w % P) {
				uint64_t x = v[i + k], y = v[i + k + len / 2] * f % P;
				v[i + k] = (x + y) % P, v[i + k + len / 2] = (x + P - y) % P;
			}
		}
	}
	for (int i = 0; inverse && i < N; i++)
		v[i] = v[i] * power(N, P - 2) % P;
}

/* Rows here become columns: each rank sends the square block that belongs to each other. */
static void transpose(const struct app *a, uint64_t *v, uint64_t *send, uint64_t *recv)
{
	int rows = N / a->size;

	for (int r = 0; r < a->size; r++)
		for (int i = 0; i < rows; i++)
			for (int j = 0; j < rows; j++)
				send[(r * rows + j) * rows + i] = v[i * N + r * rows + j];
	MPI_Alltoall(send, rows * rows, MPI_UINT64_T, recv, rows * rows, MPI_UINT64_T, MPI_COMM_WORLD);
	for (int r = 0; r < a->size; r++)
		for (int j = 0; j < rows; j++)
			for (int i = 0; i < rows; i++)
				v[j * N + r * rows + i] = recv[(r * rows + j) * rows + i];
}

static void pass(const struct app *a, uint64_t *v, uint64_t *s, uint64_t *r, int inverse)
{
	for (int i = 0; i < N / a->size; i++)
		transform(v + i * N, inverse);
	transpose(a, v, s, r);
}

int main(int argc, char **argv)
{
	uint64_t *v, *s, *r;
	struct app a;
	size_t mine;

	app_begin(&a, argc, argv);
	CHECK(&a, N % a.size == 0, "%d ranks do not divide %d", a.size, N);
	mine = (size_t)(N / a.size) * N * sizeof *v;
	v = (uint64_t *)app_alloc(&a, mine), s = (uint64_t *)app_alloc(&a, mine), r = (uint64_t *)app_alloc(&a, mine);
	for (long iter = 0; iter < a.iters; iter++) {
		uint64_t key = mix3(a.seed, (uint64_t)iter, (uint64_t)a.rank), h;
		app_progress(&a, iter);
		for (size_t i = 0; i < mine / sizeof *v; i++)
			v[i] = mix(key + i) % P;
		pass(&a, v, s, r, 0);
		pass(&a, v, s, r, 0);
		h = hash_bytes(v, mine);
		app_compute(&a, a.pace);
		pass(&a, v, s, r, 1);
		pass(&a, v, s, r, 1);
		for (size_t i = 0; i < mine / sizeof *v; i++)
			CHECK(&a, v[i] == mix(key + i) % P, "element %zu did not come back", i);
		app_result(&a, iter, "fft", h);
	}
	free(v), free(s), free(r);
	return app_end(&a);
}
