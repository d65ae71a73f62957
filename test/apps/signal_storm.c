/* test_doc: a thread sends signals to the main thread, one after the other, while that calls MPI: in, out, inside, and in
 * callbacks. The handler, which also runs on top of itself and enters MPI's library, must find its own thread:
 * descriptor, static, dynamic and specific data, errno, pointer guard (a jump), the number of the thread in a mutex. */
#include "app.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

enum { MAGIC = 0x5eed };

/* Each waits for its own handler, but nests on those of the others. */
static const int signals[] = { SIGUSR2, SIGURG, SIGWINCH };
enum { SIGNALS = sizeof signals / sizeof *signals };

static pthread_t main_thread;
static pthread_key_t key;
static pthread_mutex_t owned;
static volatile long handled, calls;
static volatile sig_atomic_t wrong_thread, enter, end;
static __thread volatile uint64_t tls_word;

/* What belongs to the thread, wherever it has been interrupted. */
static int mine(void)
{
	jmp_buf back;

	errno = EXDEV;
	if (setjmp(back) == 0)
		longjmp(back, 1);
	int twice = pthread_mutex_lock(&owned);          /* error checking: this thread holds it */
	return pthread_equal(pthread_self(), main_thread) && pthread_getspecific(key) == (void *)&key &&
	       tls_word == MAGIC && errno == EXDEV && twice == EDEADLK;
}

static void on_signal(int sig)
{
	int saved = errno;

	(void)sig;
	if (!mine())
		wrong_thread++;
	if (enter) {
		int yes = 0;
		MPI_Initialized(&yes);          /* one of the calls that may come at any time */
		if (!yes || !mine())
			wrong_thread++;
	}
	handled++;
	errno = saved;
}

static void add(void *in, void *inout, int *n, MPI_Datatype *type)
{
	(void)type;
	if (!mine())
		wrong_thread++;
	for (int i = 0; i < *n; i++)
		((uint64_t *)inout)[i] += ((uint64_t *)in)[i];
	calls++;
}

static void *sender(void *arg)
{
	struct timespec pause = { 0, 20000 };

	for (unsigned n = 0; !end; n++) {
		pthread_kill(main_thread, signals[n % SIGNALS]);
		nanosleep(&pause, NULL);                 /* the ranks may have to share processors */
	}
	return arg;
}

static void storm(struct app *a, MPI_Op op, uint64_t *in, uint64_t *out)
{
	int right = (a->rank + 1) % a->size, left = (a->rank + a->size - 1) % a->size;

	for (int i = 0; i < 10; i++) {
		uint64_t give = mix2(*in, (uint64_t)i), got = 0;
		MPI_Sendrecv(&give, 1, MPI_UINT64_T, right, 5, &got, 1, MPI_UINT64_T, left, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Allreduce(&got, out, 1, MPI_UINT64_T, op, MPI_COMM_WORLD);
		*in = mix2(got, *out);
	}
	for (int i = 0, yes; i < 20000; i++)             /* little else than going in and out */
		MPI_Initialized(&yes);
}

int main(int argc, char **argv)
{
	struct app a;
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	pthread_mutexattr_t checking;
	pthread_t t;
	MPI_Op op;

	app_begin(&a, argc, argv);
	main_thread = pthread_self();
	tls_word = MAGIC;
	pthread_key_create(&key, NULL);
	pthread_setspecific(key, (void *)&key);
	pthread_mutexattr_init(&checking);
	pthread_mutexattr_settype(&checking, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&owned, &checking);
	pthread_mutex_lock(&owned);
	MPI_Op_create(add, 1, &op);
	for (int i = 0; i < SIGNALS; i++)
		sigaction(signals[i], &sa, NULL);
	CHECK(&a, pthread_create(&t, NULL, sender, NULL) == 0, "pthread_create");
	uint64_t value = mix2(a.seed, (uint64_t)a.rank), sum = 0;
	for (long iter = 0; iter < a.iters; iter++) {
		long before = handled;
		app_progress(&a, iter);
		enter = iter % 2;
		storm(&a, op, &value, &sum);
		app_compute(&a, a.pace);
		while (handled < before + 10)
			app_compute(&a, 100);
		CHECK(&a, !wrong_thread, "%d times another thread's data, %ld signals", (int)wrong_thread, handled);
		app_result(&a, iter, "signal_storm", mix2(value, sum));
	}
	end = 1;
	pthread_join(t, NULL);
	long all = calls;         /* of a number of ranks that is no power of two some leave the work to others */
	MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	CHECK(&a, all > 0, "the operation was never called");
	MPI_Op_free(&op);
	return app_end(&a);
}
