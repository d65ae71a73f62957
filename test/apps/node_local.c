/* test_doc: what the ranks of a node have under a name that is the same on every node is another object on each: memory
 * of shm_open that the ranks of a node share (--what memory), or that the first of them alone has (alone), or the first
 * one's scratch file in /tmp (file).
 *
 * Each rank finds its slot as it has written it last, and writes it anew; those that have the object find the slots of
 * the node's ranks in it. */
#define _GNU_SOURCE
#include "app.h"
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { BLOCK = 4096 };

struct local {
	MPI_Comm node;
	int rank, size;                         /* in it */
	int *world;                             /* its ranks' numbers among all */
	bool memory, alone;
	char name[64], path[80];
	int fd;
	uint8_t *map;
};

static void find_node(struct app *a, struct local *l)
{
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, a->rank, MPI_INFO_NULL, &l->node);
	MPI_Comm_rank(l->node, &l->rank);
	MPI_Comm_size(l->node, &l->size);
	l->world = app_alloc(a, (size_t)l->size * sizeof *l->world);
	MPI_Allgather(&a->rank, 1, MPI_INT, l->world, 1, MPI_INT, l->node);
}

static bool has(const struct local *l) { return l->rank == 0 || !l->alone; }

static void open_object(struct app *a, struct local *l)
{
	int how = O_RDWR | (l->rank == 0 ? O_CREAT | O_EXCL : 0);
	size_t size = (size_t)l->size * BLOCK;

	l->fd = l->memory ? shm_open(l->name, how, 0600) : open(l->path, how, 0600);
	CHECK(a, l->fd >= 0, "%s: %s", l->name, strerror(errno));
	CHECK(a, l->rank > 0 || ftruncate(l->fd, (off_t)size) == 0, "%s: %s", l->name, strerror(errno));
	if (!l->memory)
		return;
	l->map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, l->fd, 0);
	CHECK(a, l->map != MAP_FAILED, "mmap: %s", strerror(errno));
	close(l->fd);
}

static uint64_t key_of(const struct app *a, long iter, int rank) { return mix3(a->seed, (uint64_t)iter, (uint64_t)rank); }

/* The slot of a rank of the node holds what that rank wrote in iteration `iter`. */
static void check_slot(struct app *a, struct local *l, long iter, int rank)
{
	uint8_t b[BLOCK];
	off_t at = (off_t)rank * BLOCK;

	if (!l->memory)
		CHECK(a, pread(l->fd, b, BLOCK, at) == BLOCK, "pread: %s", strerror(errno));
	CHECK(a, wrong(l->memory ? l->map + at : b, BLOCK, key_of(a, iter, l->world[rank])) < 0,
	      "iteration %ld: %s: slot of rank %d", iter, l->name, l->world[rank]);
}

static void writes(struct app *a, struct local *l, long iter)
{
	uint8_t b[BLOCK];
	off_t at = (off_t)l->rank * BLOCK;

	if (iter > 0)
		check_slot(a, l, iter - 1, l->rank);
	fill(b, BLOCK, key_of(a, iter, a->rank));
	if (l->memory)
		memcpy(l->map + at, b, BLOCK);
	else
		CHECK(a, pwrite(l->fd, b, BLOCK, at) == BLOCK, "pwrite: %s", strerror(errno));
}

static void reads(struct app *a, struct local *l, long iter)
{
	for (int i = 0; i < (l->alone ? 1 : l->size); i++)
		check_slot(a, l, iter, i);
}

int main(int argc, char **argv)
{
	const char *what = app_option(&argc, argv, "--what", "memory");
	struct local l = { .memory = strcmp(what, "file") != 0, .alone = strcmp(what, "memory") != 0 };
	int creator = (int)getpid();
	struct app a;

	app_begin(&a, argc, argv);
	MPI_Bcast(&creator, 1, MPI_INT, 0, MPI_COMM_WORLD);
	snprintf(l.name, sizeof l.name, "/byssus-local.%d", creator);
	snprintf(l.path, sizeof l.path, "/tmp%s", l.name);
	find_node(&a, &l);
	if (l.rank == 0)
		open_object(&a, &l);
	MPI_Barrier(MPI_COMM_WORLD);
	if (l.rank > 0 && has(&l))
		open_object(&a, &l);
	for (long iter = 0; iter < a.iters; iter++) {
		app_progress(&a, iter);
		if (has(&l))
			writes(&a, &l, iter);
		MPI_Barrier(l.node);
		app_compute(&a, a.pace);
		if (has(&l))
			reads(&a, &l, iter);
		MPI_Barrier(MPI_COMM_WORLD);
		app_result(&a, iter, "local", key_of(&a, iter, a.rank));
	}
	app_stay(&a);
	if (has(&l))
		reads(&a, &l, a.iters - 1);
	MPI_Barrier(MPI_COMM_WORLD);
	if (l.rank == 0)
		l.memory ? shm_unlink(l.name) : unlink(l.path);
	return app_end(&a);
}
