/* test_doc: a process that has used up its descriptors: checkpoints and restarts work, it is told EMFILE as before, and the next number is the one it expects. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include "ask.h"

/* While a checkpoint is taken, a thread closes a descriptor and opens one: it must get that number, as nobody else opens any,
 * and then there is none left. */
static volatile int churning, idle, over, strange;
static void *churn(void *arg)
{
	int fd = *(int *)arg;
	while (!over) {
		idle = !churning;
		if (idle) {
			usleep(500);
			continue;
		}
		close(fd);
		int n = open("/dev/null", O_RDONLY), more = dup(0);
		if (n != fd || more >= 0 || errno != EMFILE) strange++;
		if (more >= 0 && more != fd) close(more);
		if (n >= 0 && n != fd) close(n);
		if (n != fd) dup2(0, fd);
	}
	return NULL;
}

/* All descriptors are in use before and after, and meanwhile. */
static void full_moment(const char *file)
{
	if (!file) return;
	close(10);
	int fd = open(file, O_WRONLY | O_CREAT, 0600);
	expect(fd == 10 && dup2(0, 10) == 10, file);
	idle = 0;
	churning = 1;
	while (access(file, F_OK) == 0) usleep(2000);
	churning = 0;
	while (!idle && !over) usleep(500);
}

static void use_up(int *last)
{
	for (int fd; (fd = dup(0)) >= 0; ) *last = fd;
	expect(errno == EMFILE, "EMFILE");
}

int main(int argc, char **argv)
{
	const char *file = argc > 1 ? argv[1] : NULL;
	struct rlimit rl, now;
	pthread_t t;
	int last = -1, s[2], e = eventfd(3, EFD_SEMAPHORE), p[2];
	setvbuf(stdout, NULL, _IOLBF, 0);
	getrlimit(RLIMIT_NOFILE, &rl);
	rl.rlim_cur = 300;
	expect(setrlimit(RLIMIT_NOFILE, &rl) == 0, "setrlimit");
	expect(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s) == 0 && pipe(p) == 0 && write(p[1], "piped", 5) == 5 && send(s[0], "", 0, 0) == 0 && send(s[0], "x", 1, 0) == 1, "pairs");
	use_up(&last);
	expect(last == 299, "last number");
	pthread_create(&t, NULL, churn, &last);
	for (int i = 0; i < 3; i++) {
		char *room = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		expect(room != MAP_FAILED, "mmap");
		if (i == 1) {                               /* descriptors above a limit that was lowered since */
			rl.rlim_cur = 40;
			expect(setrlimit(RLIMIT_NOFILE, &rl) == 0, "setrlimit");
			over = 1;
			pthread_join(t, NULL);
		}
		full_moment(file);
		expect(getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_cur == rl.rlim_cur, "limit");
		expect(dup(0) < 0 && errno == EMFILE, "EMFILE");
		expect(fcntl(299, F_GETFD) >= 0 && fcntl(0, F_DUPFD, 300) < 0 && errno == EINVAL, "numbers");
	}
	uint64_t v;
	char b[10];
	expect(read(e, &v, 8) == 8 && v == 1 && recv(s[1], b, 10, 0) == 0 && recv(s[1], b, 10, 0) == 1 && read(p[0], b, 10) == 5, "content");
	close(7);
	expect(dup(0) == 7, "lowest number");
	printf("strange numbers %d, wrong %d\n", strange, wrong);
	return wrong != 0;
}
