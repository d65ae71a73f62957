/* grow.c: what a rank occupies, and whether long use makes it grow.
 *
 * grow [mmap PAIRS] [comm PAIRS] [request COUNT]: after a little of each kind of work prints
 * "resident RANK KIB MAPPINGS", then does the work that was asked for and prints
 * "grown RANK WORK KIB MAPPINGS": the difference to before.
 * Context: an ordinary MPI program, 2 ranks; it knows nothing of Byssus. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct usage { long kib, mappings; };

/* What the kernel accounts to this process; no allocation in between changes it. */
static struct usage usage(void)
{
	struct usage u = {0, 0};
	char line[4096];
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "Rss: %ld", &u.kib) == 1)
			break;
	if (f)
		fclose(f);
	f = fopen("/proc/self/maps", "r");
	while (f && fgets(line, sizeof line, f))
		u.mappings++;
	if (f)
		fclose(f);
	return u;
}

/* Maps and unmaps regions of changing sizes, a window of them alive at a time. */
static void mmap_work(long n)
{
	enum { WINDOW = 16 };
	static struct { char *p; size_t len; } w[WINDOW];
	unsigned seed = 12345;
	for (long i = 0; i < n + WINDOW; i++) {
		int k = (int)(i % WINDOW);
		if (w[k].p)
			munmap(w[k].p, w[k].len);
		w[k].p = NULL;
		if (i >= n)
			continue;
		seed = seed * 1664525u + 1013904223u;
		w[k].len = 4096 * (1 + (seed >> 16) % 64);
		w[k].p = mmap(NULL, w[k].len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (w[k].p == MAP_FAILED) {
			perror("grow: mmap");
			MPI_Abort(MPI_COMM_WORLD, 3);
		}
		w[k].p[0] = 1;
	}
}

static void comm_work(long n)
{
	for (long i = 0; i < n; i++) {
		MPI_Comm c;
		MPI_Comm_dup(MPI_COMM_WORLD, &c);
		MPI_Comm_free(&c);
	}
}

static void request_work(long n)
{
	enum { WAVE = 10 };
	int rank, out[WAVE] = {0}, in[WAVE];
	MPI_Request req[2 * WAVE];
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (long i = 0; i < n; i += 2 * WAVE) {
		for (int k = 0; k < WAVE; k++)
			MPI_Irecv(&in[k], 1, MPI_INT, 1 - rank, k, MPI_COMM_WORLD, &req[k]);
		for (int k = 0; k < WAVE; k++)
			MPI_Isend(&out[k], 1, MPI_INT, 1 - rank, k, MPI_COMM_WORLD, &req[WAVE + k]);
		MPI_Waitall(2 * WAVE, req, MPI_STATUSES_IGNORE);
	}
}

static void work(const char *name, long n)
{
	if (!strcmp(name, "mmap"))
		mmap_work(n);
	else if (!strcmp(name, "comm"))
		comm_work(n);
	else
		request_work(n);
}

int main(int argc, char **argv)
{
	int rank;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	mmap_work(1000);
	comm_work(100);
	request_work(10000);
	usage();
	struct usage u = usage();
	printf("resident %d %ld %ld\n", rank, u.kib, u.mappings);
	for (int i = 1; i + 1 < argc; i += 2) {
		MPI_Barrier(MPI_COMM_WORLD);
		u = usage();
		work(argv[i], atol(argv[i + 1]));
		MPI_Barrier(MPI_COMM_WORLD);
		struct usage v = usage();
		printf("grown %d %s %ld %ld\n", rank, argv[i], v.kib - u.kib, v.mappings - u.mappings);
		fflush(stdout);
	}
	MPI_Finalize();
	return 0;
}
