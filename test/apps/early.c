/* test_doc: messages that a rank sends when it goes on after its image, while another has not left the end of the drain, and
 * has posted receives for some of them. */
#include "app.h"

enum { POSTED = 4, ALL = 8, LENGTH = 8 };   /* all of them fit between two ranks while the receiver stands still */

static uint64_t key(const struct app *a, int i) { return mix2(a->seed, (uint64_t)i); }

static void send_all(struct app *a)
{
	uint64_t data[LENGTH];

	app_moment(a);
	for (int i = 0; i < ALL; i++) {
		fill(data, sizeof data, key(a, i));
		MPI_Send(data, LENGTH, MPI_UINT64_T, 1, 0, MPI_COMM_WORLD);
	}
	if (a->until)
		close(app_open(a->until, ".sent", a->rank));
	app_stay(a);
}

static uint64_t receive_all(struct app *a)
{
	static uint64_t data[ALL][LENGTH];
	MPI_Request q[POSTED];
	uint64_t sum = 0;

	for (int i = 0; i < POSTED; i++)
		MPI_Irecv(data[i], LENGTH, MPI_UINT64_T, 0, 0, MPI_COMM_WORLD, &q[i]);
	if (a->until)
		app_ready(a);
	app_stay(a);
	MPI_Waitall(POSTED, q, MPI_STATUSES_IGNORE);
	for (int i = POSTED; i < ALL; i++)
		MPI_Recv(data[i], LENGTH, MPI_UINT64_T, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int i = 0; i < ALL; i++) {
		CHECK(a, wrong(data[i], sizeof data[i], key(a, i)) < 0, "message %d is another one", i);
		sum = mix2(sum, hash_bytes(data[i], sizeof data[i]));
	}
	return sum;
}

int main(int argc, char **argv)
{
	struct app a;
	uint64_t sum = 0;

	app_begin(&a, argc, argv);
	CHECK(&a, a.size == 2, "%d ranks, wanted 2", a.size);
	if (a.rank == 1)
		sum = receive_all(&a);
	else
		send_all(&a);
	app_result(&a, 0, "early", sum);
	return app_end(&a);
}
