/* test_doc: much memory (--mib, of each rank), all of which is different and changes by and by; every step sums over all ranks what
 * it has changed. */
#include "app.h"

enum { STRIPES = 64 };

static void begin(const struct app *a, uint64_t *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		words[i] = mix3(a->seed, (uint64_t)a->rank, i);
}

/* Changes one word in so many, and returns their sum. */
static uint64_t change(uint64_t *words, size_t n, long iter, uint64_t with)
{
	uint64_t sum = 0;

	for (size_t i = (size_t)iter % STRIPES; i < n; i += STRIPES)
		sum += words[i] = words[i] * 6364136223846793005ULL + with;
	return sum;
}

int main(int argc, char **argv)
{
	size_t n = (size_t)atol(app_option(&argc, argv, "--mib", "8")) << 17;
	uint64_t all = 1;
	struct app a;

	app_begin(&a, argc, argv);
	uint64_t *words = app_alloc(&a, n * sizeof *words);
	begin(&a, words, n);
	for (long iter = 0; iter < a.iters; iter++) {
		uint64_t mine = change(words, n, iter, all);
		app_progress(&a, iter);
		MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
		app_result(&a, iter, "large", all);
		app_compute(&a, a.pace);
	}
	app_stay(&a);
	a.sum = mix2(a.sum, hash_bytes(words, n * sizeof *words));
	return app_end(&a);
}
