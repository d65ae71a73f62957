/* cpu.c: what an image needs of the machine: processor features, extended state, page size.
 *
 * The application has chosen its code paths by these features and holds registers in this state; a machine that lacks
 * one of them cannot go on with it. Context: ordinary lower code. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include "internal.h"

/* Names of the features that programs dispatch on; others are told as leaf and bit. */
static const struct { int reg, bit; const char *name; } names[] = {
	{ ABI_CPUID1ECX, 0, "sse3" }, { ABI_CPUID1ECX, 1, "pclmulqdq" }, { ABI_CPUID1ECX, 9, "ssse3" }, { ABI_CPUID1ECX, 12, "fma" },
	{ ABI_CPUID1ECX, 19, "sse4.1" }, { ABI_CPUID1ECX, 20, "sse4.2" }, { ABI_CPUID1ECX, 22, "movbe" }, { ABI_CPUID1ECX, 23, "popcnt" },
	{ ABI_CPUID1ECX, 25, "aes" }, { ABI_CPUID1ECX, 28, "avx" }, { ABI_CPUID1ECX, 29, "f16c" }, { ABI_CPUID1ECX, 30, "rdrand" },
	{ ABI_CPUID7EBX, 3, "bmi1" }, { ABI_CPUID7EBX, 5, "avx2" }, { ABI_CPUID7EBX, 8, "bmi2" }, { ABI_CPUID7EBX, 16, "avx512f" },
	{ ABI_CPUID7EBX, 17, "avx512dq" }, { ABI_CPUID7EBX, 19, "adx" }, { ABI_CPUID7EBX, 21, "avx512ifma" }, { ABI_CPUID7EBX, 28, "avx512cd" },
	{ ABI_CPUID7EBX, 29, "sha" }, { ABI_CPUID7EBX, 30, "avx512bw" }, { ABI_CPUID7EBX, 31, "avx512vl" }, { ABI_CPUID7ECX, 1, "avx512vbmi" },
	{ ABI_CPUID7ECX, 6, "avx512vbmi2" }, { ABI_CPUID7ECX, 8, "gfni" }, { ABI_CPUID7ECX, 9, "vaes" }, { ABI_CPUID7ECX, 10, "vpclmulqdq" },
	{ ABI_CPUID7ECX, 11, "avx512vnni" }, { ABI_CPUID7ECX, 12, "avx512bitalg" }, { ABI_CPUID7ECX, 14, "avx512vpopcntdq" },
	{ ABI_CPUID7EDX, 22, "amx-bf16" }, { ABI_CPUID7EDX, 23, "avx512fp16" }, { ABI_CPUID7EDX, 24, "amx-tile" }, { ABI_CPUID7EDX, 25, "amx-int8" },
	{ ABI_CPUID71EAX, 4, "avxvnni" }, { ABI_CPUID71EAX, 5, "avx512bf16" }, { ABI_CPUIDX1ECX, 5, "lzcnt" }, { ABI_CPUIDX1ECX, 16, "fma4" },
	{ ABI_CPUIDD1EAX, 0, "xsaveopt" }, { ABI_CPUIDD1EAX, 1, "xsavec" },
};
static const char *const reg_names[] = { "1.ecx", "1.edx", "7.ebx", "7.ecx", "7.edx", "7.1.eax", "0xd.1.eax", "0x80000001.ecx", "0x80000001.edx" };

/* Bits that tell of the system rather than of instructions: never compared. */
static const uint32_t ignored[ABI_NCPUID] = {
	[ABI_CPUID1ECX] = 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5 | 1u << 6 | 1u << 7 | 1u << 8 | 1u << 10 | 1u << 11 | 1u << 14 | 1u << 15 |
		1u << 17 | 1u << 18 | 1u << 21 | 1u << 24 | 1u << 31,
	[ABI_CPUID1EDX] = ~(1u << 0 | 1u << 4 | 1u << 8 | 1u << 15 | 1u << 19 | 1u << 23 | 1u << 24 | 1u << 25 | 1u << 26),
	[ABI_CPUID7EBX] = 1u << 1 | 1u << 2 | 1u << 6 | 1u << 7 | 1u << 10 | 1u << 12 | 1u << 13 | 1u << 15 | 1u << 20 | 1u << 22 | 1u << 25,
	[ABI_CPUID7ECX] = 1u << 2 | 1u << 3 | 1u << 4 | 1u << 7 | 1u << 13 | 1u << 16 | 0x1fu << 17 | 1u << 23 | 1u << 24 | 1u << 29 | 1u << 30 | 1u << 31,
	[ABI_CPUID7EDX] = ~(1u << 2 | 1u << 3 | 1u << 4 | 1u << 8 | 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25),
	[ABI_CPUID71EAX] = ~(1u << 4 | 1u << 5 | 1u << 21 | 1u << 23),
	[ABI_CPUIDD1EAX] = ~3u,
	[ABI_CPUIDX1ECX] = ~(1u << 0 | 1u << 5 | 1u << 6 | 1u << 7 | 1u << 8 | 1u << 11 | 1u << 16 | 1u << 21),
	[ABI_CPUIDX1EDX] = ~(1u << 22 | 1u << 27 | 1u << 29 | 1u << 30 | 1u << 31),
};

static uint64_t xcr0(uint32_t leaf1_ecx)
{
	uint32_t lo, hi;
	if (!(leaf1_ecx & bit_OSXSAVE)) return 3;
	__asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
	return (uint64_t)hi << 32 | lo;
}

void cpu_describe(struct abi_image_header *h)
{
	uint32_t a, b, c, d, *r = h->cpuid;
	if (__get_cpuid(1, &a, &b, &c, &d)) r[ABI_CPUID1ECX] = c, r[ABI_CPUID1EDX] = d;
	if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) r[ABI_CPUID7EBX] = b, r[ABI_CPUID7ECX] = c, r[ABI_CPUID7EDX] = d;
	if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) r[ABI_CPUID71EAX] = a;
	if (__get_cpuid_count(0xd, 1, &a, &b, &c, &d)) r[ABI_CPUIDD1EAX] = a;
	if (__get_cpuid(0x80000001, &a, &b, &c, &d)) r[ABI_CPUIDX1ECX] = c, r[ABI_CPUIDX1EDX] = d;
	h->xcr0 = xcr0(r[ABI_CPUID1ECX]);
	h->hwcap = getauxval(AT_HWCAP);
	h->hwcap2 = getauxval(AT_HWCAP2);
	h->page_size = PAGE;
}

static const char *feature_name(int reg, int bit, char *buf, size_t n)
{
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (names[i].reg == reg && names[i].bit == bit) return names[i].name;
	snprintf(buf, n, "cpuid %s bit %d", reg_names[reg], bit);
	return buf;
}

void cpu_check(const char *path, const struct abi_image_header *h)
{
	struct abi_image_header here = { 0 };
	char list[512] = "", one[64];
	cpu_describe(&here);
	if (h->page_size != here.page_size) core_die("%s: page size %u, this machine has %u", path, h->page_size, here.page_size);
	for (int r = 0; r <= ABI_CPUIDX1EDX; r++)
		for (int bit = 0; bit < 32; bit++) {
			if (!((h->cpuid[r] & ~here.cpuid[r] & ~ignored[r]) >> bit & 1)) continue;
			size_t k = strlen(list);
			snprintf(list + k, sizeof list - k, "%s%s", k ? ", " : "", feature_name(r, bit, one, sizeof one));
		}
	if (*list) core_die("%s: needs a processor with %s, which this one lacks", path, list);
	if (h->xcr0 & ~here.xcr0) core_die("%s: needs processor state %#lx, this kernel keeps %#lx", path, h->xcr0, here.xcr0);
	if ((h->hwcap2 & 2) && !(here.hwcap2 & 2)) core_die("%s: needs a kernel with fsgsbase (Linux 5.9), which this one lacks", path);
}
