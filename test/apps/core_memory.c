/* test_doc: private, shared, file, guard, grown, moved and locked memory keeps content, protection and sharing. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int wrong;
static sigjmp_buf back;
static void expect(int ok, const char *what)
{
	if (ok) return;
	wrong++;
	printf("wrong: %s: %s\n", what, strerror(errno));
}
static void on_fault(int s) { siglongjmp(back, s); }
static int fault(volatile char *p, int write)
{
	int s = sigsetjmp(back, 1);
	if (s) return s;
	if (write) *p = 1;
	else (void)*p;
	return 0;
}
static unsigned long deep(int n)
{
	volatile char frame[4000];
	memset((char *)frame, n, sizeof frame);
	unsigned long r = n ? deep(n - 1) : 0;
	return r + (unsigned char)frame[n % 4000];
}
static void pause_here(void)
{
	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	do clock_gettime(CLOCK_MONOTONIC, &b); while ((double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9 < 0.04);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 25;
	const size_t P = 4096, M = 1 << 20;
	char name[] = "/tmp/core_memory.XXXXXX", shm[64];
	int fd = mkstemp(name), rw = PROT_READ | PROT_WRITE;
	for (int i = 0; i < 1000; i++) expect(write(fd, "0123456789", 10) == 10, "write");
	signal(SIGSEGV, on_fault);
	signal(SIGBUS, on_fault);
	char *anon = mmap(NULL, 8 * M, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *guard = mmap(NULL, 4 * P, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *ro = mmap(NULL, 2 * P, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *priv = mmap(NULL, 4 * P, rw, MAP_PRIVATE, fd, 0);         /* the file ends in its third page */
	char *shf = mmap(NULL, 2 * P, rw, MAP_SHARED, fd, 0);
	char *sha = mmap(NULL, M, rw, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	snprintf(shm, sizeof shm, "/dev/shm/core_memory.%d", (int)getpid());
	int sfd = open(shm, O_RDWR | O_CREAT, 0600);
	expect(ftruncate(sfd, (off_t)M) == 0, "ftruncate");
	char *s1 = mmap(NULL, M, rw, MAP_SHARED, sfd, 0), *s2 = mmap(NULL, M, PROT_READ, MAP_SHARED, sfd, 0);
	int mfd = memfd_create("two", 0);
	expect(ftruncate(mfd, (off_t)M) == 0, "ftruncate");
	char *m1 = mmap(NULL, M, rw, MAP_SHARED, mfd, 0), *m2 = mmap(NULL, M / 2, rw, MAP_SHARED, mfd, (off_t)(M / 2));
	close(mfd);
	char *low = mmap((void *)0x70000000, P, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	printf("hint %s\n", low == (void *)0x70000000 ? "honoured" : "ignored");
	for (size_t i = 0; i < 8 * M; i += 3 * P) anon[i] = (char)(i / P);
	memset(anon + 4 * M, 0, M);                                    /* touched, all zeros */
	memset(guard, 7, 4 * P);
	mprotect(guard + P, P, PROT_NONE);
	memset(ro, 9, 2 * P);
	mprotect(ro, P, PROT_READ);
	priv[5] = 'X';
	priv[P + 5] = 'Y';
	sha[12345] = 42;
	s1[777] = 43;
	m1[M / 2 + 9] = 44;
	low[1] = 45;
	madvise(anon, 8 * M, MADV_DONTDUMP);
	char *moved = mremap(mmap(NULL, M, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), M, 32 * M, MREMAP_MAYMOVE);
	moved[31 * M] = 46;
	char *brk0 = sbrk(0);
	unsigned long h = 0;
	for (int i = 0; i < rounds; i++) {
		h = h * 31 + deep(100 + 10 * i);
		expect(sbrk(50000) != (void *)-1, "sbrk");
		brk0[50000 * i + 100] = (char)i;
		sha[i] = (char)i;
		anon[5 * P + (size_t)i] = (char)i;
		pause_here();
	}
	for (size_t i = 0; i < 8 * M; i += 3 * P) expect(anon[i] == (char)(i / P) || i / P == 5 || (i >= 4 * M && i < 5 * M), "anon");
	expect(fault(guard + P, 0) == SIGSEGV && guard[0] == 7 && guard[2 * P] == 7, "guard page");
	mprotect(guard + P, P, PROT_READ);
	expect(guard[P] == 7, "content behind the guard");
	expect(fault(ro, 1) == SIGSEGV && ro[0] == 9 && fault(ro + P, 1) == 0, "read-only page");
	expect(priv[5] == 'X' && priv[P + 5] == 'Y' && priv[6] == '6' && fault(priv + 3 * P, 0) == SIGBUS, "private file");
	shf[3] = 'Z';
	char c;
	expect(pread(fd, &c, 1, 3) == 1 && c == 'Z', "shared file");
	expect(sha[12345] == 42 && sha[7] == 7, "shared anonymous");
	s1[778] = 50;
	expect(s2[777] == 43 && s2[778] == 50, "shared memory seen twice");
	m2[10] = 51;
	expect(m2[9] == 44 && m1[M / 2 + 10] == 51, "memory file seen twice");
	expect(low[1] == 45 && moved[31 * M] == 46, "hinted and moved");
	pid_t pid = fork();
	if (pid == 0) {
		sha[100] = 99;
		_exit(0);
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) ;
	expect(sha[100] == 99, "shared with a child");
	printf("deep %lx wrong %d\n", h, wrong);
	unlink(name);
	unlink(shm);
	return wrong != 0;
}
