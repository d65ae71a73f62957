/* test_doc: a checkpoint holds rank 0 in front of a collective that is complete, of which it must not hear yet, while rank 1, for
 * which the checkpoint waits, is in a long Ibcast that comes about only if rank 0's MPI goes on working.
 *
 *   --completion HOW     as in calls.h: how rank 0 asks for the complete one */
#include "calls.h"

enum { LONG = 1 << 20 };

int main(int argc, char **argv)
{
	static uint64_t data[LONG], sum[LONG];
	const char *name = app_option(&argc, argv, "--completion", "wait");
	MPI_Comm other, third;
	MPI_Request q[3];
	struct app a;
	int how = 0;

	while (how < CALL_COMPLETIONS && strcmp(call_completions[how], name) != 0) how++;
	app_begin(&a, argc, argv);
	CHECK(&a, how < CALL_COMPLETIONS && a.size == 2, "%s with %d ranks", name, a.size);
	MPI_Comm_dup(MPI_COMM_WORLD, &other);
	MPI_Comm_dup(MPI_COMM_WORLD, &third);
	if (a.rank == 1) fill(data, sizeof data, a.seed);
	for (int i = 0; i < LONG; i++) sum[i] = (uint64_t)(i + a.rank);
	MPI_Ibarrier(other, &q[0]);
	if (a.rank == 1) app_moment(&a);
	MPI_Ibcast(data, LONG, MPI_UINT64_T, 1, MPI_COMM_WORLD, &q[1]);
	if (a.rank == 1) MPI_Wait(&q[1], MPI_STATUS_IGNORE);
	MPI_Iallreduce(MPI_IN_PLACE, sum, LONG, MPI_UINT64_T, MPI_SUM, third, &q[2]); /* input too long to be kept: rank 1 must come */
	if (a.rank == 0) app_moment(&a);
	call_complete(1, &q[0], how);
	MPI_Waitall(3, q, MPI_STATUSES_IGNORE);
	CHECK(&a, wrong(data, sizeof data, a.seed) < 0, "data of the Ibcast");
	for (int i = 0; i < LONG; i++) CHECK(&a, sum[i] == (uint64_t)(2 * i + 1), "element %d of the Iallreduce", i);
	MPI_Comm_free(&other);
	MPI_Comm_free(&third);
	app_result(&a, 0, "held", hash_bytes(data, sizeof data) ^ hash_bytes(sum, sizeof sum));
	app_stay(&a);
	return app_end(&a);
}
