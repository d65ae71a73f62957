/* cpu.c: what an image needs of the machine: processor features, extended state, page size.
 *
 * The application has chosen its code paths by these features and holds registers in this state; a machine
 * that lacks one of them cannot go on with it. Context: ordinary lower code. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include "core/threads/threads.h"

/* Names of the features that programs dispatch on; others are told as leaf and bit. */
static const struct { int reg, bit; const char *name;
} names[] = {
	{ ABI_CPUID1ECX, 0, "sse3" },
	{ ABI_CPUID1ECX, 1, "pclmulqdq" },
	{ ABI_CPUID1ECX, 9, "ssse3" },
	{ ABI_CPUID1ECX, 12, "fma" },
	{ ABI_CPUID1ECX, 19, "sse4.1" },
	{ ABI_CPUID1ECX, 20, "sse4.2" },
	{ ABI_CPUID1ECX, 22, "movbe" },
	{ ABI_CPUID1ECX, 23, "popcnt" },
	{ ABI_CPUID1ECX, 25, "aes" },
	{ ABI_CPUID1ECX, 28, "avx" },
	{ ABI_CPUID1ECX, 29, "f16c" },
	{ ABI_CPUID1ECX, 30, "rdrand" },
	{ ABI_CPUID7EBX, 3, "bmi1" },
	{ ABI_CPUID7EBX, 5, "avx2" },
	{ ABI_CPUID7EBX, 8, "bmi2" },
	{ ABI_CPUID7EBX, 16, "avx512f" },
	{ ABI_CPUID7EBX, 17, "avx512dq" },
	{ ABI_CPUID7EBX, 19, "adx" },
	{ ABI_CPUID7EBX, 21, "avx512ifma" },
	{ ABI_CPUID7EBX, 28, "avx512cd" },
	{ ABI_CPUID7EBX, 29, "sha" },
	{ ABI_CPUID7EBX, 30, "avx512bw" },
	{ ABI_CPUID7EBX, 31, "avx512vl" },
	{ ABI_CPUID7ECX, 1, "avx512vbmi" },
	{ ABI_CPUID7ECX, 6, "avx512vbmi2" },
	{ ABI_CPUID7ECX, 8, "gfni" },
	{ ABI_CPUID7ECX, 9, "vaes" },
	{ ABI_CPUID7ECX, 10, "vpclmulqdq" },
	{ ABI_CPUID7ECX, 11, "avx512vnni" },
	{ ABI_CPUID7ECX, 12, "avx512bitalg" },
	{ ABI_CPUID7ECX, 14, "avx512vpopcntdq" },
	{ ABI_CPUID7EDX, 22, "amx-bf16" },
	{ ABI_CPUID7EDX, 23, "avx512fp16" },
	{ ABI_CPUID7EDX, 24, "amx-tile" },
	{ ABI_CPUID7EDX, 25, "amx-int8" },
	{ ABI_CPUID71EAX, 4, "avxvnni" },
	{ ABI_CPUID71EAX, 5, "avx512bf16" },
	{ ABI_CPUIDX1ECX, 5, "lzcnt" },
	{ ABI_CPUIDX1ECX, 16, "fma4" },
	{ ABI_CPUIDD1EAX, 0, "xsaveopt" },
	{ ABI_CPUIDD1EAX, 1, "xsavec" },
};
static const char *const reg_names[] = { "1.ecx",   "1.edx",	 "7.ebx",	   "7.ecx",	    "7.edx",
					 "7.1.eax", "0xd.1.eax", "0x80000001.ecx", "0x80000001.edx" };

/* Bits that tell of the system rather than of instructions: never compared. */
static const uint32_t ignored[ABI_NCPUID] = {
	[ABI_CPUID1ECX] = 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5 | 1u << 6 | 1u << 7 | 1u << 8 | 1u << 10 |
			  1u << 11 | 1u << 14 | 1u << 15 | 1u << 17 | 1u << 18 | 1u << 21 | 1u << 24 |
			  1u << 31,
	[ABI_CPUID1EDX] = ~(1u << 0 | 1u << 4 | 1u << 8 | 1u << 15 | 1u << 19 | 1u << 23 | 1u << 24 |
			    1u << 25 | 1u << 26),
	[ABI_CPUID7EBX] = 1u << 1 | 1u << 2 | 1u << 6 | 1u << 7 | 1u << 10 | 1u << 12 | 1u << 13 | 1u << 15 |
			  1u << 20 | 1u << 22 | 1u << 25,
	[ABI_CPUID7ECX] = 1u << 2 | 1u << 3 | 1u << 4 | 1u << 7 | 1u << 13 | 1u << 16 | 0x1fu << 17 |
			  1u << 23 | 1u << 24 | 1u << 29 | 1u << 30 | 1u << 31,
	[ABI_CPUID7EDX] =
		~(1u << 2 | 1u << 3 | 1u << 4 | 1u << 8 | 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25),
	[ABI_CPUID71EAX] = ~(1u << 4 | 1u << 5 | 1u << 21 | 1u << 23),
	[ABI_CPUIDD1EAX] = ~3u,
	[ABI_CPUIDX1ECX] =
		~(1u << 0 | 1u << 5 | 1u << 6 | 1u << 7 | 1u << 8 | 1u << 11 | 1u << 16 | 1u << 21),
	[ABI_CPUIDX1EDX] = ~(1u << 22 | 1u << 27 | 1u << 29 | 1u << 30 | 1u << 31),
};

enum { LEGACY_SIZE = 576, ON_REQUEST = 1 << 18 };       /* XSAVE's area without extensions; AMX tiles */
static const char *const state_names[32] = { [2] = "AVX",
					     [3] = "MPX bounds",
					     [4] = "MPX configuration",
					     [5] = "AVX-512 masks",
					     [6] = "AVX-512 upper halves",
					     [7] = "AVX-512 upper registers",
					     [9] = "protection keys",
					     [17] = "AMX configuration",
					     [18] = "AMX tiles",
					     [19] = "APX registers" };

static uint64_t xcr0(uint32_t leaf1_ecx)
{
	uint32_t lo, hi;
	if (!(leaf1_ecx & bit_OSXSAVE)) return 3;
	__asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
	return (uint64_t)hi << 32 | lo;
}

/* Where the kernel's signal frames have each component: the standard format, which differs between makers.
 * Components that a process has to ask for are not in every frame, and lie last. */
static void describe_layout(struct abi_image_header *h)
{
	uint32_t size, offset, flags, d;
	for (unsigned i = 2; i < 32; i++) {
		if (!(h->xcr0 >> i & 1) || !__get_cpuid_count(0xd, i, &size, &offset, &flags, &d)) continue;
		h->xsave_layout[2 * i] = offset;
		h->xsave_layout[2 * i + 1] = size;
		if (!(ON_REQUEST >> i & 1) && offset + size > h->xsave_size) h->xsave_size = offset + size;
	}
	if (h->xcr0 > 3 && h->xsave_size < LEGACY_SIZE) h->xsave_size = LEGACY_SIZE;
}

void cpu_describe(struct abi_image_header *h)
{
	uint32_t a, b, c, d, *r = h->cpuid;
	if (__get_cpuid(1, &a, &b, &c, &d)) r[ABI_CPUID1ECX] = c, r[ABI_CPUID1EDX] = d;
	if (__get_cpuid_count(7, 0, &a, &b, &c, &d))
		r[ABI_CPUID7EBX] = b, r[ABI_CPUID7ECX] = c, r[ABI_CPUID7EDX] = d;
	if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) r[ABI_CPUID71EAX] = a;
	if (__get_cpuid_count(0xd, 1, &a, &b, &c, &d)) r[ABI_CPUIDD1EAX] = a;
	if (__get_cpuid(0x80000001, &a, &b, &c, &d)) r[ABI_CPUIDX1ECX] = c, r[ABI_CPUIDX1EDX] = d;
	h->xcr0 = xcr0(r[ABI_CPUID1ECX]);
	h->hwcap = getauxval(AT_HWCAP);
	h->hwcap2 = getauxval(AT_HWCAP2);
	h->page_size = PAGE;
	describe_layout(h);
}

static const char *feature_name(int reg, int bit, char *buf, size_t n)
{
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (names[i].reg == reg && names[i].bit == bit) return names[i].name;
	snprintf(buf, n, "cpuid %s bit %d", reg_names[reg], bit);
	return buf;
}

static void check_layout(const char *path, const struct abi_image_header *h,
			 const struct abi_image_header *here)
{
	for (unsigned i = 2; i < 32; i++) {
		const uint32_t *was = &h->xsave_layout[2 * i], *is = &here->xsave_layout[2 * i];
		if (!was[1] || (was[0] == is[0] && was[1] == is[1])) continue;
		core_die("%s: has processor state %u (%s) at offset %u, %u bytes; this processor keeps it at "
			 "offset %u, %u bytes: registers could not be "
			 "brought back",
			 path, i, state_names[i] ? state_names[i] : "unknown", was[0], was[1], is[0], is[1]);
	}
}

/* Whoever compares two machines need not know what counts: what is printed here must be printed there. */
void cpu_print(void)
{
	struct abi_image_header here = { 0 };
	char one[64];
	cpu_describe(&here);
	for (int r = 0; r <= ABI_CPUIDX1EDX; r++)
		for (int bit = 0; bit < 32; bit++)
			if ((here.cpuid[r] & ~ignored[r]) >> bit & 1)
				puts(feature_name(r, bit, one, sizeof one));
	for (unsigned i = 2; i < 32; i++) {
		const uint32_t *at = &here.xsave_layout[2 * i];
		const char *name = state_names[i] ? state_names[i] : "unknown";
		if (at[1]) printf("state %u (%s) at offset %u, %u bytes\n", i, name, at[0], at[1]);
	}
	printf("pages of %u bytes\n", here.page_size);
	if (here.hwcap2 & RAW_HWCAP2_FSGSBASE) puts("fsgsbase");
}

/* -- signal frames --------------------------------------------------------------------------------------- */

/* What the kernel writes into the legacy area's unused bytes, and at the end. */
struct frame_state { uint32_t magic, all_size; uint64_t features; uint32_t size, pad[7]; };
enum { FRAME_STATE = 464, FEATURES_IN_USE = 512, FRAME_MAGIC = 0x46505853, FRAME_END = 0x46505845 };

static const struct frame_state *state_of(uint64_t uc)
{
	const char *fp = uc ? (const char *)((const ucontext_t *)uc)->uc_mcontext.fpregs : NULL;
	return fp ? (const struct frame_state *)(fp + FRAME_STATE) : NULL;
}

static uint64_t own_xcr0;                       /* of this processor */
static uint64_t largest, largest_asked;  /* frame, without (0: not known yet) and with what is asked for */

static void know_this_processor(void)
{
	struct abi_image_header h = { 0 };
	if (largest) return;
	cpu_describe(&h);
	own_xcr0 = h.xcr0;
	largest = largest_asked = h.xsave_size ? h.xsave_size : 1;
	for (unsigned i = 2; i < 32; i++) {
		uint64_t end = (uint64_t)h.xsave_layout[2 * i] + h.xsave_layout[2 * i + 1];
		if (end > largest_asked) largest_asked = end;
	}
}

static bool has_asked(const struct frame_state *s) { return s->features & own_xcr0 & ON_REQUEST; }

/* NULL, or why a thread cannot go on from this frame with all of its registers: the kernel would take the
 * oldest part of them, say nothing, and clear the rest. */
const char *cpu_frame_wrong(uint64_t uc)
{
	static char why[200];
	const struct frame_state *s = state_of(uc);
	know_this_processor();
	if (own_xcr0 <= 3) return NULL;                 /* there are no others */
	if (!s || s->magic != FRAME_MAGIC || s->size < LEGACY_SIZE || s->size > s->all_size)
		return "its frame has no extended state";
	uint64_t in_use;
	uint32_t end;
	memcpy(&in_use, (const char *)s - FRAME_STATE + FEATURES_IN_USE, sizeof in_use);
	memcpy(&end, (const char *)s - FRAME_STATE + s->size, sizeof end);
	if (end != FRAME_END) return "the extended state in its frame has no end";
	if (in_use & ~own_xcr0) {
		snprintf(why, sizeof why, "its frame has processor state %#lx, this kernel keeps %#lx",
			 in_use, own_xcr0);
		return why;
	}
	uint64_t takes = has_asked(s) ? largest_asked : largest;
	if (s->size <= takes) return NULL;
	snprintf(why, sizeof why, "its frame has %u bytes of processor state, this kernel takes %lu", s->size,
		 takes);
	return why;
}

/* A thread that has used what must be asked for (AMX tiles) has larger frames. The kernel takes one back only
 * from a thread that has used it too: loading zeros is use enough. */
void cpu_frame_prepare(uint64_t uc)
{
	static const struct {
		char legacy[FEATURES_IN_USE];
		uint64_t in_use, rest[7];
		char state[16384];
	} zeros __attribute__((aligned(64))) = { .in_use = ON_REQUEST };
	const struct frame_state *s = state_of(uc);
	if (own_xcr0 <= 3 || !s || !has_asked(s)) return;
	__asm__ volatile("xrstor64 %0" : : "m"(zeros), "a"((uint32_t)ON_REQUEST), "d"(0) : "memory");
}

void cpu_check(const char *path, const struct abi_image_header *h)
{
	struct abi_image_header here = { 0 };
	char list[512] = "", one[64];
	cpu_describe(&here);
	if (h->page_size != here.page_size)
		core_die("%s: page size %u, this machine has %u", path, h->page_size, here.page_size);
	for (int r = 0; r <= ABI_CPUIDX1EDX; r++)
		for (int bit = 0; bit < 32; bit++) {
			if (!((h->cpuid[r] & ~here.cpuid[r] & ~ignored[r]) >> bit & 1)) continue;
			size_t k = strlen(list);
			snprintf(list + k, sizeof list - k, "%s%s", k ? ", " : "",
				 feature_name(r, bit, one, sizeof one));
		}
	if (*list) core_die("%s: needs a processor with %s, which this one lacks", path, list);
	if (h->xcr0 & ~here.xcr0)
		core_die("%s: needs processor state %#lx, this kernel keeps %#lx", path, h->xcr0, here.xcr0);
	check_layout(path, h, &here);
	if (h->hwcap2 & ~here.hwcap2 & RAW_HWCAP2_FSGSBASE)
		core_die("%s: needs a kernel with fsgsbase (Linux 5.9), which this one lacks", path);
}
