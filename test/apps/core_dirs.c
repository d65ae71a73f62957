/* test_doc: directories that are open stay where they are: at their beginning, in the middle, at the end, rewound, sought; on ext4, tmpfs
 * and what DIRS names, with few entries and with many. */
#define _GNU_SOURCE
#include <dirent.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include "ask.h"

enum { MANY = 400, FEW = 3, MOMENTS = 3 };
static char seen[MANY];

/* Of an entry that the test has made its number, else -1. */
static int number_of(const struct dirent *e)
{
	int n = -1;
	return sscanf(e->d_name, "entry-with-a-long-name-%d", &n) == 1 && n >= 0 && n < MANY ? n : -1;
}

/* How many of the entries come from here to the end, and none twice. */
static int rest(DIR *d)
{
	int n = 0;
	for (struct dirent *e; (errno = 0, e = readdir(d)); ) {
		int k = number_of(e);
		if (k < 0) continue;
		expect(!seen[k], "an entry comes twice");
		seen[k] = 1;
		n++;
	}
	expect(errno == 0, "readdir");
	return n;
}

static int all_of(DIR *d)
{
	memset(seen, 0, sizeof seen);
	return rest(d);
}

static int some(DIR *d, int wanted)
{
	int n = 0;
	memset(seen, 0, sizeof seen);
	for (struct dirent *e; n < wanted && (e = readdir(d)); )
		if (number_of(e) >= 0) seen[number_of(e)] = 1, n++;
	return n;
}

/* Without the C library's buffer: to the end, and how many bytes are there. */
static long read_raw(int fd)
{
	char b[512];
	long all = 0, k;
	while ((k = syscall(SYS_getdents64, fd, b, sizeof b)) > 0) all += k;
	expect(k == 0, "getdents64");
	return all;
}

static DIR *opened(void)
{
	DIR *d = opendir(".");
	if (!d) perror("wrong: opendir"), exit(1);
	return d;
}

static void make(int n)
{
	char name[64];
	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof name, "entry-with-a-long-name-%03d", i);
		expect(close(open(name, O_CREAT | O_WRONLY, 0600)) == 0, name);
	}
}

static void remove_all(const char *dir)
{
	char name[64];
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof name, "entry-with-a-long-name-%03d", i);
		unlink(name);
	}
	unlink("more");
	expect(chdir("/") == 0 && rmdir(dir) == 0, dir);
}

static void positions(const char *file, int n)
{
	DIR *end = opened(), *begin = opened(), *middle = opened(), *rewound = opened(), *sought = opened();
	int raw = open(".", O_RDONLY | O_DIRECTORY), half = n / 2;
	expect(all_of(end) == n && all_of(rewound) == n, "entries");
	rewinddir(rewound);
	some(sought, half);
	long place = telldir(sought), size = read_raw(raw);
	struct dirent *e = readdir(sought);
	int there = e ? number_of(e) : -2;
	rest(sought);
	for (int i = 0; i < MOMENTS; i++) {
		rewinddir(begin), rewinddir(middle);
		expect(some(middle, half) == half, "the first half");
		char first[MANY];
		memcpy(first, seen, sizeof seen);
		off_t at = lseek(raw, 0, SEEK_CUR);
		moment(file);
		expect(lseek(raw, 0, SEEK_CUR) == at && read_raw(raw) == 0, "the end");
		expect(lseek(raw, 0, SEEK_SET) == 0 && read_raw(raw) == size, "from the beginning again");
		expect(i == 1 || readdir(end) == NULL, "the end of a stream");
		rewinddir(end);
		expect(all_of(end) == n, "a stream that stood at its end, rewound");
		expect(all_of(begin) == n && all_of(rewound) == n, "a stream at its beginning");
		rewinddir(rewound);
		memcpy(seen, first, sizeof seen);
		expect(rest(middle) == n - half, "the other half");
		seekdir(sought, place);
		e = readdir(sought);
		expect(e && number_of(e) == there, "a place that was told before");
		memset(seen, 0, sizeof seen), rest(sought);
	}
	expect(close(open("more", O_CREAT | O_WRONLY, 0600)) == 0, "more");
	rewinddir(end);
	int more = 0;
	while ((e = readdir(end))) more += !strcmp(e->d_name, "more");
	expect(more == 1, "a new entry");
	closedir(end), closedir(begin), closedir(middle), closedir(rewound), closedir(sought), close(raw);
}

int main(int argc, char **argv)
{
	const char *file = argc > 1 ? argv[1] : NULL, *where = getenv("DIRS");
	char list[4096], dir[4200];
	setvbuf(stdout, NULL, _IOLBF, 0);
	snprintf(list, sizeof list, "%s", where ? where : "/tmp:/dev/shm");
	for (char *base = strtok(list, ":"); base; base = strtok(NULL, ":"))
		for (int n = FEW; n <= MANY; n += MANY - FEW) {
			snprintf(dir, sizeof dir, "%s/core_dirs.XXXXXX", base);
			expect(mkdtemp(dir) && chdir(dir) == 0, dir);
			make(n);
			positions(file, n);
			remove_all(dir);
		}
	printf("wrong %d\n", wrong);
	return wrong != 0;
}
