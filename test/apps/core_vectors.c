/* test_doc: the vector registers of every thread, as wide as the processor has them, are after a restart what they were.
 *
 * Each thread fills its registers, and looks at them again and again in one piece of assembly, in which no call, no
 * store and no reload of them happens. One thread does so in a signal handler, on top of other values. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NTHREADS = 3 };
static volatile int stop, wrong;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Spins `n` times with registers filled from `in`, then writes them to `out`. */
__attribute__((target("avx512f,avx512bw,avx512dq"))) static void hold_zmm(const uint64_t *in, uint64_t *out, long n)
{
#define LOAD(i) "vmovdqu64 64*" #i "(%0), %%zmm" #i "\n\t"
#define STORE(i) "vmovdqu64 %%zmm" #i ", 64*" #i "(%1)\n\t"
#define ALL(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13) M(14) M(15) M(16) M(17) M(18) M(19) M(20) \
	M(21) M(22) M(23) M(24) M(25) M(26) M(27) M(28) M(29) M(30) M(31)
#define KLOAD(i) "kmovq 2048+8*" #i "(%0), %%k" #i "\n\t"
#define KSTORE(i) "kmovq %%k" #i ", 2048+8*" #i "(%1)\n\t"
#define KALL(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)
	__asm__ volatile(ALL(LOAD) KALL(KLOAD) "1: pause\n\tdec %2\n\tjnz 1b\n\t" ALL(STORE) KALL(KSTORE) "vzeroupper"
		: "+r"(in), "+r"(out), "+r"(n) : : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
		"xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25",
		"xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k1", "k2", "k3", "k4", "k5", "k6", "k7");
}

__attribute__((target("avx"))) static void hold_ymm(const uint64_t *in, uint64_t *out, long n)
{
#define YLOAD(i) "vmovdqu 64*" #i "(%0), %%ymm" #i "\n\t"
#define YSTORE(i) "vmovdqu %%ymm" #i ", 64*" #i "(%1)\n\t"
#define YALL(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13) M(14) M(15)
	__asm__ volatile(YALL(YLOAD) "1: pause\n\tdec %2\n\tjnz 1b\n\t" YALL(YSTORE) "vzeroupper"
		: "+r"(in), "+r"(out), "+r"(n) : : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
		"xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

static void hold(uint64_t seed, long n)
{
	uint64_t in[264], out[264];
	for (int i = 0; i < 264; i++) in[i] = seed = seed * 6364136223846793005u + 1442695040888963407u;
	memcpy(out, in, sizeof out);
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")) hold_zmm(in, out, n);
	else if (__builtin_cpu_supports("avx")) hold_ymm(in, out, n);
	for (int i = 0; i < 264; i++) {
		if (in[i] == out[i]) continue;
		wrong++;
		printf("wrong: seed %lx: word %d of register %d: found %lx, want %lx\n", (unsigned long)seed, i % 8, i / 8, (unsigned long)out[i], (unsigned long)in[i]);
		return;
	}
}

static void on_signal(int s) { hold((uint64_t)s * 77, 20000000); }

static void *thread(void *arg)
{
	uint64_t k = (uint64_t)arg;
	while (!stop) {
		hold(k++ * 1000003, 3000000);
		if (arg == (void *)2) raise(SIGUSR1);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	double until = now() + (argc > 1 ? atof(argv[1]) : 1);
	pthread_t t[NTHREADS];
	signal(SIGUSR1, on_signal);
	for (long i = 0; i < NTHREADS; i++) pthread_create(&t[i], NULL, thread, (void *)i);
	while (now() < until) hold(99, 1000000);
	stop = 1;
	for (int i = 0; i < NTHREADS; i++) pthread_join(t[i], NULL);
	printf("wrong %d\n", wrong);
	return wrong != 0;
}
