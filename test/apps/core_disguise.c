/* test_doc: what a program finds out about itself, by itself and through /proc, is what it would find natively: arguments,
 * environment and auxiliary vector lie behind each other, in constructors and in main, and /proc/self/cmdline, environ,
 * auxv, comm, exe and the stack in maps agree with them. */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
static const char *when = "in a constructor";

static void pause_here(double s)
{
	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	do clock_gettime(CLOCK_MONOTONIC, &b); while ((double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9 < s);
}

static size_t slurp(const char *path, char *out, size_t n)
{
	size_t k = 0;
	int fd = open(path, O_RDONLY);
	for (ssize_t m; fd >= 0 && (m = read(fd, out + k, n - 1 - k)) > 0; ) k += (size_t)m;
	if (fd >= 0) close(fd);
	out[k] = 0;
	return k;
}

/* As a runtime without a libc finds it: behind the environment. */
static void auxv_behind(char **env)
{
	static const unsigned long kinds[] = { AT_SYSINFO_EHDR, AT_PAGESZ, AT_PHDR, AT_ENTRY, AT_RANDOM, AT_EXECFN, AT_HWCAP2 };
	static unsigned long proc[512];
	int found = 0;
	char **e = env;
	while (*e) e++;
	for (unsigned long *a = (unsigned long *)(e + 1); a[0]; a += 2)
		for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
			if (a[0] == kinds[i] && getauxval(a[0]) == a[1]) found++;
	if (found != 7) printf("wrong: %s: %d of 7 behind the environment\n", when, found);
	size_t n = getenv("CONFINED") ? 0 : slurp("/proc/self/auxv", (char *)proc, sizeof proc) / 16;
	for (size_t i = 0; i < n && proc[2 * i]; i++)
		if (proc[2 * i] != AT_HWCAP && getauxval(proc[2 * i]) != proc[2 * i + 1])
			printf("wrong: %s: /proc/self/auxv: %lu is %lx, not %lx\n", when, proc[2 * i], proc[2 * i + 1], getauxval(proc[2 * i]));
}

__attribute__((constructor)) static void early(int argc, char **argv, char **env)
{
	if (argv[argc] || env != argv + argc + 1) printf("wrong: the environment is not behind the arguments\n");
	auxv_behind(env);
}

/* The strings lie behind each other too, and /proc shows where they are. */
static void strings(const char *file, char **v, char *text, size_t n)
{
	size_t at = 0;
	for (char **s = v; *s; s++) {
		if (s > v && *s != s[-1] + strlen(s[-1]) + 1) printf("wrong: %s: the strings do not lie behind each other\n", file);
		if (at + strlen(*s) >= n || strcmp(text + at, *s)) {
			printf("wrong: %s: %s instead of %s\n", file, at < n ? text + at : "nothing", *s);
			return;
		}
		at += strlen(*s) + 1;
	}
	while (at < n && !text[at]) at++;
	if (at != n) printf("wrong: %s: more than the program has: %s\n", file, text + at);
}

static int has_stack(const char *maps)
{
	const char *at = strstr(maps, "[stack]");
	while (at && at > maps && at[-1] != '\n') at--;
	unsigned long lo = 0, hi = 0, here = (unsigned long)&at;
	return at && sscanf(at, "%lx-%lx", &lo, &hi) == 2 && lo <= here && here < hi;
}

static void look(char **argv)
{
	static char text[1 << 18];
	size_t n = slurp("/proc/self/cmdline", text, sizeof text);
	strings("/proc/self/cmdline", argv, text, n);
	n = slurp("/proc/self/environ", text, sizeof text);
	if (!getenv("CONFINED")) strings("/proc/self/environ", environ, text, n);
	slurp("/proc/self/maps", text, sizeof text);
	if (!getenv("CONFINED") && !has_stack(text)) printf("wrong: the stack is not named in maps\n");
	slurp("/proc/self/comm", text, sizeof text);
	printf("comm %s", text);
	n = (size_t)readlink("/proc/self/exe", text, sizeof text);
	printf("exe %.*s, execfn %s\n", (int)n, text, (char *)getauxval(AT_EXECFN));
	auxv_behind(environ);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 4;
	when = "in main";
	for (char **e = environ; *e; e++)
		if (strstr(*e, "BYSSUS_LIBDIR") || !**e || !strncmp(*e, "LD_", 3)) printf("wrong: %s\n", *e);
	for (int i = 0; i < rounds; i++) {
		pause_here(0.2);
		look(argv);
		fflush(stdout);
	}
	if (getenv("CONFINED")) {               /* the test's agent has denied prctl(PR_SET_MM): cmdline is a copy */
		printf("title x\n");
		return 0;
	}
	strcpy(argv[0], "x");                   /* as setproctitle does: what ps shows changes */
	char text[64];
	slurp("/proc/self/cmdline", text, sizeof text);
	printf("title %s\n", text);
	return 0;
}
