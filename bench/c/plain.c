/* plain.c: the yardstick of checkpoints and restarts: plain writes and reads of the same bytes.
 *
 * plain write FILE MEBIBYTES   fills memory, waits for a line on stdin, writes it to FILE, prints nanoseconds
 * plain read FILE              waits for a line on stdin, reads FILE into fresh memory, prints nanoseconds
 * Context: an ordinary process, started twice at a time so that two write or read side by side. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PIECE (4 << 20)

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static char *fresh(size_t len)
{
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		fail("plain: mmap");
	return p;
}

static void wait_for_line(void)
{
	printf("ready\n");
	fflush(stdout);
	while (getchar() != '\n')
		;
}

static void move(int fd, char *p, size_t len, int writing)
{
	while (len > 0) {
		size_t piece = len < PIECE ? len : PIECE;
		ssize_t n = writing ? write(fd, p, piece) : read(fd, p, piece);
		if (n <= 0)
			fail(writing ? "plain: write" : "plain: read");
		p += n;
		len -= (size_t)n;
	}
}

int main(int argc, char **argv)
{
	int writing = argc == 4 && !strcmp(argv[1], "write");
	if (!writing && !(argc == 3 && !strcmp(argv[1], "read"))) {
		fprintf(stderr, "usage: plain write FILE MEBIBYTES | plain read FILE\n");
		return 2;
	}
	size_t len = 0;
	char *p = NULL;
	if (writing) {
		len = strtoull(argv[3], NULL, 10) << 20;
		p = fresh(len);
		for (size_t i = 0; i < len; i += 8)
			*(uint64_t *)(p + i) = i * 0x9e3779b97f4a7c15u;
	}
	wait_for_line();
	uint64_t t = now();
	int fd = open(argv[2], writing ? O_WRONLY | O_CREAT | O_EXCL : O_RDONLY, 0600);
	if (fd < 0)
		fail(argv[2]);
	if (!writing) {
		struct stat st;
		if (fstat(fd, &st) != 0)
			fail(argv[2]);
		len = (size_t)st.st_size;
		p = fresh(len);
	}
	move(fd, p, len, writing);
	close(fd);
	printf("%lu\n", (unsigned long)(now() - t));
	return 0;
}
