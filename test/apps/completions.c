/* test_doc: sends and receives, short ones that are complete at once and long ones, are completed in every way there is,
 * in arrays with null and inactive requests, with statuses and without, and with errors. */
#include "app.h"

enum { K = 6, N = 2 * K + 2, MAX = 70000, WAYS = 12 };

static const int sizes[K] = { 0, 8, 200, 4000, 20000, MAX };

struct ring {
	struct app *a;
	int left, right;
	long iter;
	unsigned char *out[K], *in[K];
	MPI_Request req[N];             /* K receives, K sends, a null one, an inactive one */
	MPI_Status st[N];
	int seen[N];                    /* st is filled in */
};

static uint64_t key(const struct ring *g, int sender, int way, int k)
{
	return mix4(g->a->seed, (uint64_t)sender, (uint64_t)(g->iter * WAYS + way), (uint64_t)k);
}

static void start(struct ring *g, int way)
{
	for (int k = 0; k < K; k++) {
		memset(g->in[k], 0, (size_t)sizes[k]);
		MPI_Irecv(g->in[k], MAX, MPI_BYTE, k % 2 ? g->left : MPI_ANY_SOURCE, way * K + k, MPI_COMM_WORLD, &g->req[k]);
	}
	app_compute(g->a, (long)(key(g, g->a->rank, way, 99) % 500));
	for (int k = 0; k < K; k++) {
		fill(g->out[k], (size_t)sizes[k], key(g, g->a->rank, way, k));
		MPI_Isend(g->out[k], sizes[k], MPI_BYTE, g->right, way * K + k, MPI_COMM_WORLD, &g->req[K + k]);
	}
	g->req[2 * K] = MPI_REQUEST_NULL;
	memset(g->seen, 0, sizeof g->seen);
}

/* One or more of the array, until none is active. */
static void some_of(struct ring *g, int way)
{
	int index[N], n, flag;
	MPI_Status st[N];

	for (int left = 2 * K; left > 0;) {
		n = 1;
		if (way == 4)
			MPI_Waitany(N, g->req, &index[0], &st[0]);
		else if (way == 5)
			do MPI_Testany(N, g->req, &index[0], &flag, &st[0]);
			while (!flag);
		else if (way == 6)
			MPI_Waitsome(N, g->req, &n, index, st);
		else
			do MPI_Testsome(N, g->req, &n, index, st);
			while (n == 0);
		CHECK(g->a, n > 0 && n <= left, "way %d: %d complete of %d", way, n, left);
		for (int i = 0; i < n; i++) {
			CHECK(g->a, index[i] >= 0 && index[i] < 2 * K && !g->seen[index[i]], "way %d: index %d", way, index[i]);
			g->st[index[i]] = st[i];
			g->seen[index[i]] = 1;
		}
		left -= n;
	}
}

static void one_by_one(struct ring *g, int way)
{
	int flag;

	for (int i = 0; i < N; i++) {
		MPI_Status *st = way % 2 ? &g->st[i] : MPI_STATUS_IGNORE;
		g->seen[i] = way % 2 && i < 2 * K;
		if (way == 8 && i >= K && i < 2 * K && sizes[i - K] < 100) {
			MPI_Request_free(&g->req[i]);   /* gone with the buffer untouched until the barrier */
			continue;
		}
		if (way == 9)
			do MPI_Request_get_status(g->req[i], &flag, st);
			while (!flag);
		if (way == 1 || way == 8)
			MPI_Wait(&g->req[i], st);
		else
			do MPI_Test(&g->req[i], &flag, way == 9 ? MPI_STATUS_IGNORE : st);
			while (!flag);
	}
}

static void complete(struct ring *g, int way)
{
	int flag;

	switch (way) {
	case 0:
		MPI_Waitall(N, g->req, MPI_STATUSES_IGNORE);
		break;
	case 2:
		MPI_Waitall(N, g->req, g->st);
		break;
	case 3:
		do MPI_Testall(N, g->req, &flag, g->st);
		while (!flag);
		break;
	case 10:        /* the receives first: then the sends alone, none of which may be real */
		MPI_Waitall(K, g->req, g->st);
		MPI_Waitall(N - K, g->req + K, MPI_STATUSES_IGNORE);
		break;
	case 11:
		for (int k = 0; k < K; k++)
			MPI_Sendrecv(g->out[k], sizes[k], MPI_BYTE, g->right, 1000 + k, g->in[k], MAX, MPI_BYTE,
				     k % 2 ? MPI_ANY_SOURCE : g->left, 1000 + k, MPI_COMM_WORLD, &g->st[k]);
		break;
	case 4: case 5: case 6: case 7:
		some_of(g, way);
		return;
	default:
		one_by_one(g, way);
		return;
	}
	for (int i = 0; i < 2 * K; i++)
		g->seen[i] = way != 0 && (way == 2 || way == 3 || i < K);
}

static uint64_t check(struct ring *g, int way)
{
	uint64_t h = 0;

	for (int i = 0; i < 2 * K; i++)
		CHECK(g->a, g->req[i] == MPI_REQUEST_NULL, "way %d: request %d is not null", way, i);
	CHECK(g->a, g->req[2 * K + 1] != MPI_REQUEST_NULL, "way %d: the inactive request is null", way);
	for (int k = 0; k < K; k++) {
		long at = wrong(g->in[k], (size_t)sizes[k], key(g, g->left, way, k));
		CHECK(g->a, at < 0, "way %d: %d bytes: wrong at %ld", way, sizes[k], at);
		h = mix2(h, hash_bytes(g->in[k], (size_t)sizes[k]));
		if (!g->seen[k])
			continue;
		int n;
		MPI_Get_count(&g->st[k], MPI_BYTE, &n);
		CHECK(g->a, g->st[k].MPI_SOURCE == g->left && n == sizes[k], "way %d: status of %d bytes from %d", way, n, g->st[k].MPI_SOURCE);
	}
	return h;
}

static int class_of(int code)
{
	int class;

	MPI_Error_class(code, &class);
	return class;
}

/* Messages that are longer than their receive: the error comes from whatever completes it. */
static void truncated(struct ring *g)
{
	MPI_Request r[3];
	MPI_Status st[3];
	char x[200] = { 0 }, y[100], z[200];
	int flag = 0, code[5];

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	for (int i = 0; i < 4; i++)
		MPI_Isend(x, 200, MPI_BYTE, g->right, 500 + i, MPI_COMM_WORLD, &g->req[i]);
	code[0] = MPI_Recv(y, 100, MPI_BYTE, g->left, 500, MPI_COMM_WORLD, &st[0]);
	MPI_Irecv(y, 100, MPI_BYTE, MPI_ANY_SOURCE, 501, MPI_COMM_WORLD, &r[0]);
	code[1] = MPI_Wait(&r[0], MPI_STATUS_IGNORE);
	MPI_Irecv(y, 100, MPI_BYTE, g->left, 502, MPI_COMM_WORLD, &r[0]);
	do code[2] = MPI_Test(&r[0], &flag, &st[0]);
	while (!flag && code[2] == MPI_SUCCESS);
	code[3] = MPI_Sendrecv(x, 200, MPI_BYTE, g->right, 504, y, 100, MPI_BYTE, g->left, 504, MPI_COMM_WORLD, &st[0]);
	for (int i = 0; i < 4; i++)
		CHECK(g->a, class_of(code[i]) == MPI_ERR_TRUNCATE, "call %d: error class %d", i, class_of(code[i]));
	MPI_Irecv(z, 200, MPI_BYTE, g->left, 505, MPI_COMM_WORLD, &r[0]);
	MPI_Irecv(y, 100, MPI_BYTE, g->left, 503, MPI_COMM_WORLD, &r[1]);
	MPI_Isend(x, 200, MPI_BYTE, g->right, 505, MPI_COMM_WORLD, &r[2]);
	code[4] = MPI_Waitall(3, r, st);
	CHECK(g->a, class_of(code[4]) == MPI_ERR_IN_STATUS, "Waitall: error class %d", class_of(code[4]));
	for (int i = 0; i < 3; i++) {
		int err = class_of(st[i].MPI_ERROR);
		if (err == MPI_ERR_PENDING)
			err = class_of(MPI_Wait(&r[i], MPI_STATUS_IGNORE));
		CHECK(g->a, err == (i == 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS), "Waitall: request %d has error class %d", i, err);
	}
	MPI_Waitall(4, g->req, MPI_STATUSES_IGNORE);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv)
{
	struct app a;
	struct ring g = { .a = &a };
	uint64_t h = 0;

	app_begin(&a, argc, argv);
	g.left = (a.rank + a.size - 1) % a.size;
	g.right = (a.rank + 1) % a.size;
	for (int k = 0; k < K; k++) {
		g.out[k] = (unsigned char *)malloc(MAX);
		g.in[k] = (unsigned char *)malloc(MAX);
	}
	MPI_Send_init(g.out[0], 1, MPI_BYTE, g.right, 7, MPI_COMM_WORLD, &g.req[2 * K + 1]);
	for (g.iter = 0; g.iter < a.iters; g.iter++) {
		app_progress(&a, g.iter);
		for (int way = 0; way < WAYS; way++) {
			if (way != 11)
				start(&g, way);
			else
				for (int k = 0; k < K; k++)
					fill(g.out[k], (size_t)sizes[k], key(&g, a.rank, way, k));
			complete(&g, way);
			h = mix2(h, check(&g, way));
			MPI_Barrier(MPI_COMM_WORLD);
		}
		truncated(&g);
		app_compute(&a, a.pace);
		app_result(&a, g.iter, "completions", h);
	}
	MPI_Request_free(&g.req[2 * K + 1]);
	return app_end(&a);
}
