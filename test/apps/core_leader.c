/* test_doc: the main thread has ended, another thread goes on. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int rounds = 40;

static void *work(void *arg)
{
	unsigned long x = 1;
	(void)arg;
	int pid = getpid();
	for (int r = 0; r < rounds; r++) {
		for (int k = 0; k < 5000000; k++) x = x * 6364136223846793005UL + 1;
		usleep(1000);
	}
	printf("%lx %s\n", x, pid == getpid() ? "same process" : "other process");
	exit(5);
}

int main(int argc, char **argv)
{
	pthread_t t;
	if (argc > 1) rounds = atoi(argv[1]);
	pthread_create(&t, NULL, work, NULL);
	pthread_exit(NULL);
}
