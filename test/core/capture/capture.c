/* capture.c: how libbyssus takes the bytes of regions for a snapshot, by itself: without agents. Regions of all kinds of
 * capture lie at odd places of memory of all kinds. They are written to in all ways that there are; their snapshots go to
 * files by turns, which are spared, replaced, cut or changed meanwhile. What each file has afterwards must be what the
 * regions had.
 *
 *   capture STEPS SEED */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../../../client/snap/state.h"

enum { PAGE = 4096, REGIONS = 9 };

static uint64_t seed;

static uint64_t draw(uint64_t below)
{
	seed += 0x9e3779b97f4a7c15;
	uint64_t x = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return (x ^ x >> 31) % below;
}

static void check(bool ok, const char *what)
{
	if (ok) return;
	fprintf(stderr, "capture: %s: errno %d\n", what, errno);
	exit(1);
}

int snap_because(struct bys_description *d, int result, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(d->why, sizeof d->why, format, args);
	va_end(args);
	return result;
}

/* -- memory of all kinds --------------------------------------------------------------------------------- */

static char initialized[40 * PAGE + 100] = {1}, zeros[30 * PAGE];

static void memory(bys_region *r)
{
	char *anonymous = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = memfd_create("shared", MFD_CLOEXEC);
	check(fd >= 0 && !ftruncate(fd, 50 * PAGE), "memfd");
	char *shared = mmap(NULL, 50 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	char *heap = malloc(100 * PAGE), *huge = aligned_alloc(2 << 20, 4 << 20);
	check(anonymous != MAP_FAILED && shared != MAP_FAILED && heap && huge, "memory");
	madvise(huge, 4 << 20, MADV_HUGEPAGE);
	bys_region all[REGIONS] = {
		{1, BYS_TRACK, anonymous, 64 * PAGE}, {2, BYS_TRACK, shared + 17, 49 * PAGE},
		{3, BYS_TRACK, initialized + 5, sizeof initialized - 5}, {4, BYS_TRACK, zeros, sizeof zeros},
		{5, BYS_TRACK, heap + 4000, 90 * PAGE}, {6, BYS_TRACK, huge, 4 << 20},
		{7, BYS_HANDOVER, malloc(1 << 20), 1 << 20}, {8, BYS_COPY, malloc(PAGE), PAGE},
		{9, BYS_TRACK, heap + 20 * PAGE, 5 * PAGE}, /* within another */
	};
	memcpy(r, all, sizeof all);
}

/* -- ways to write --------------------------------------------------------------------------------------- */

struct stretch { char *at; size_t n; uint64_t seed; };

static void fill(char *at, size_t n, uint64_t with)
{
	for (size_t i = 0; i < n; i++) at[i] = (char)(with * 31 + i);
}

static void *fill_it(void *arg)
{
	struct stretch *s = arg;
	return fill(s->at, s->n, s->seed), NULL;
}

/* Another process writes: the child by a call of the kernel's, its parent's memory. */
static void by_child(struct stretch s)
{
	pid_t parent = getpid(), child = fork();
	check(child >= 0, "fork");
	if (!child) {
		char b[PAGE];
		size_t n = s.n < PAGE ? s.n : PAGE;
		fill(b, n, s.seed);
		struct iovec from = {b, n}, to = {s.at, n};
		fill(s.at, s.n, ~s.seed); /* its own memory, unless that is shared */
		_exit(process_vm_writev(parent, &from, 1, &to, 1, 0) < 0 && errno != EPERM);
	}
	int status;
	check(waitpid(child, &status, 0) == child && !status, "child");
}

static void by_pipe(struct stretch s)
{
	int p[2];
	char b[PAGE];
	size_t n = s.n < PAGE ? s.n : PAGE;
	fill(b, n, s.seed);
	check(!pipe(p) && write(p[1], b, n) == (ssize_t)n && read(p[0], s.at, n) == (ssize_t)n, "pipe");
	close(p[0]), close(p[1]);
}

/* Pages that are given back have another content: zeros, or what the file has. */
static void away(struct stretch s)
{
	char *from = (char *)(((uintptr_t)s.at + PAGE - 1) / PAGE * PAGE);
	size_t n = from < s.at + s.n ? (size_t)(s.at + s.n - from) / PAGE * PAGE : 0;
	if (n) madvise(from, n, draw(2) ? MADV_DONTNEED : MADV_FREE), madvise(from, n, MADV_DONTNEED);
}

/* New memory in the place of old. */
static void replaced(struct stretch s)
{
	char *from = (char *)(((uintptr_t)s.at + PAGE - 1) / PAGE * PAGE);
	if (from + PAGE > s.at + s.n) return;
	check(mmap(from, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == from, "mmap");
	fill(from, PAGE / 2, s.seed);
}

static void change(const bys_region *r, bool roughly)
{
	struct stretch s = {.n = 1 + draw(draw(3) ? 50 : r->bytes / 4 + 1), .seed = draw(1UL << 40)};
	if (s.n > r->bytes) s.n = r->bytes;
	s.at = (char *)r->at + draw(r->bytes - s.n + 1);
	pthread_t thread;
	switch (draw(8)) {
	case 0: by_child(s); break;
	case 1: by_pipe(s); break;
	case 2: away(s); break;
	case 3: check(!pthread_create(&thread, NULL, fill_it, &s) && !pthread_join(thread, NULL), "thread"); break;
	case 4: mprotect(r->at, 0, PROT_READ), fill(s.at, s.n, s.seed); break;
	case 5:
		if (roughly) replaced(s);
		break;
	default: fill(s.at, s.n, s.seed);
	}
}

/* -- files that come by turns ---------------------------------------------------------------------------- */

/* What may have become of a file before it is written over: most often, nothing but that its first page is zeros, as
 * agents leave it, with the time that it had. */
static void before(const char *path)
{
	int fd = open(path, O_RDWR);
	struct stat st;
	if (fd < 0 || fstat(fd, &st)) return;
	switch (draw(12)) {
	case 0: unlink(path); break;
	case 1: check(!ftruncate(fd, st.st_size / 2), "cut"); break;
	case 2: check(pwrite(fd, "damaged", 7, st.st_size / 3) == 7, "damage"); break;
	default: {
		char page[PAGE] = {0};
		struct timespec times[2] = {{0, UTIME_OMIT}, st.st_mtim};
		check(pwrite(fd, page, PAGE, 0) == PAGE && !futimens(fd, times), "first page");
	}
	}
	close(fd);
}

/* What a look says of a file: as many regions as there is room for, and how many there are. */
static void looked(struct bys_description *d, const bys_region *r, const char *dir, uint64_t tag)
{
	uint64_t found = 0;
	size_t room = draw(REGIONS + 3), n = room;
	bys_region *seen = calloc(room + 1, sizeof *seen); /* the last one stays as it is */
	struct snap_sight s = {seen, &n, &found};
	check(snap_look(d, dir, &s) == BYS_OK && n == REGIONS && found == tag, "look");
	for (size_t i = 0; i < room && i < REGIONS; i++)
		check(seen[i].id == r[i].id && seen[i].bytes == r[i].bytes && !seen[i].at, "what a look says");
	check(!seen[room].bytes, "more than there is room for");
	free(seen);
	d->member++;
	check(snap_look(d, dir, &s) == BYS_ESYS, "a look at what is not there");
	d->member--;
}

static void compare(struct bys_description *d, const bys_region *r, const char *dir, uint64_t tag)
{
	char *was[REGIONS];
	uint64_t found;
	for (int i = 0; i < REGIONS; i++) was[i] = memcpy(malloc(r[i].bytes), r[i].at, r[i].bytes);
	bys_region *own = d->regions, to[REGIONS];
	uint64_t left = draw(2) * REGIONS + draw(REGIONS); /* which region is left as it is; of one in two none */
	for (int i = 0; i < REGIONS; i++) to[i] = (bys_region){r[i].id, 0, calloc(1, r[i].bytes), r[i].bytes};
	if (left < REGIONS) to[left].capture = BYS_LEAVE, memcpy(to[left].at, was[left], r[left].bytes), ((char *)to[left].at)[0] ^= 1;
	d->regions = to;
	check(snap_read(d, dir, &found) == BYS_OK && found == tag, "read");
	d->regions = own;
	if (left < REGIONS) ((char *)to[left].at)[0] ^= 1;
	for (int i = 0; i < REGIONS; i++) {
		for (size_t k = 0; memcmp(was[i], to[i].at, r[i].bytes) && k < r[i].bytes; k++)
			if (was[i][k] != ((char *)to[i].at)[k]) {
				fprintf(stderr, "capture: snapshot %lu: region %u: byte %zu of %lu: found %d, wanted %d\n",
					(unsigned long)tag, r[i].id, k, (unsigned long)r[i].bytes, ((char *)to[i].at)[k], was[i][k]);
				exit(1);
			}
		free(was[i]), free(to[i].at);
	}
}

static void take(struct bys_description *d, uint64_t tag)
{
	int failed;
	check(snap_write(d, d->dir, tag) == BYS_OK, d->why);
	check(snap_hand_wait(d, NULL, &failed) && !failed, "handed over");
}

/* -- what is handed over is guarded ---------------------------------------------------------------------- */

static sigjmp_buf out;

static void caught(int signal) { siglongjmp(out, signal); }

static void guarded(struct bys_description *d, const bys_region *r, uint64_t tag)
{
	int failed;
	char *at = (char *)r->at + r->bytes / 2;
	setenv("BYSSUS_HANDOVER_GUARD", "1", 1);
	check(snap_write(d, d->dir, tag) == BYS_OK, d->why);
	struct sigaction before_it, mine = {.sa_handler = caught};
	sigaction(SIGSEGV, &mine, &before_it);
	if (!sigsetjmp(out, 1)) {
		*(volatile char *)at = 1;
		check(false, "a write to what is handed over");
	}
	sigaction(SIGSEGV, &before_it, NULL);
	check(snap_hand_wait(d, NULL, &failed) && !failed, "handed over");
	snap_hand_back(d);
	*(volatile char *)at = 1;
	unsetenv("BYSSUS_HANDOVER_GUARD");
}

int main(int argc, char **argv)
{
	check(argc == 3, "STEPS and SEED");
	long steps = atol(argv[1]), copied = 0;
	seed = strtoull(argv[2], NULL, 10);
	char root[] = "/dev/shm/capture.XXXXXX", path[DIRECTORY + 20];
	check(mkdtemp(root), "a directory");
	bys_region r[REGIONS];
	memory(r);
	struct bys_description *d = calloc(1, sizeof *d);
	d->regions = r, d->n = REGIONS, d->members = 1, d->file = d->track.pagemap = d->track.faults = -1;
	check(snap_lay_out(d), "table");
	snap_track_begin(d);
	snap_hand_begin(d);
	for (int i = 0; i < REGIONS; i++) fill(r[i].at, r[i].bytes, (uint64_t)i);
	fprintf(stderr, "watched: %s\n", d->track.of ? "yes" : "no, this kernel does not");
	for (long step = 0; step < steps; step++) {
		for (uint64_t k = draw(6); k > 0; k--) change(&r[draw(REGIONS)], step > steps / 2 && !draw(20));
		snprintf(d->dir, sizeof d->dir, "%s/%ld", root, step % 2);
		snprintf(path, sizeof path, "%s/member-0", d->dir);
		before(path);
		if (draw(2)) snap_warm(d, d->dir);
		take(d, (uint64_t)step);
		compare(d, r, d->dir, (uint64_t)step);
		looked(d, r, d->dir, (uint64_t)step);
		for (int i = 0; i < REGIONS && d->track.of; i++) copied += d->track.of[i].on && !d->track.of[i].rest;
	}
	if (d->hand) guarded(d, &r[6], (uint64_t)steps);
	check(!d->track.of || copied > steps, "snapshots of which regions were watched");
	check(!d->track.of || (d->track.of[8].on == false && d->track.of[0].pages == 64), "what is watched");
	snap_hand_end(d);
	snap_track_end(d);
	execlp("rm", "rm", "-rf", root, (char *)NULL);
	return 1;
}
