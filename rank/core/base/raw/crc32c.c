/* crc32c.c: CRC-32C (Castagnoli) of memory: three interleaved streams of the crc32 instruction, or tables.
 *
 * The three partial sums are joined by multiplying with x^(8n) modulo the polynomial, a linear map kept as
 * four tables of 256 words. Context: any thread, any FS; the tables are made once, at first use, by whoever
 * comes first (all make the same tables). */
#include <cpuid.h>
#include <nmmintrin.h>
#include <string.h>
#include "core/base/raw/raw.h"

enum { LONG_BLOCK = 8192, SHORT_BLOCK = 256 };
#define POLY 0x82f63b78u
static uint32_t slow[8][256], shift_long[4][256], shift_short[4][256];
static volatile int made, have_instruction;

/* Applies to v the linear map of 32 columns. */
static ANY_FS uint32_t times(const uint32_t *m, uint32_t v)
{
	uint32_t r = 0;
	for (int i = 0; v; v >>= 1, i++)
		if (v & 1) r ^= m[i];
	return r;
}

/* The map that lets `len` zero bytes (a power of two) go through the register. */
static ANY_FS void zeros(uint32_t *out, size_t len)
{
	uint32_t m[32], sq[32];
	m[0] = POLY;
	for (int i = 1; i < 32; i++) m[i] = 1u << (i - 1);              /* one bit */
	for (size_t bits = 8 * len; bits > 1; bits >>= 1) {
		for (int i = 0; i < 32; i++) sq[i] = times(m, m[i]);
		memcpy(m, sq, sizeof m);
	}
	memcpy(out, m, sizeof m);
}

static ANY_FS void make_shift(uint32_t t[4][256], size_t len)
{
	uint32_t m[32];
	zeros(m, len);
	for (uint32_t b = 0; b < 256; b++)
		for (int k = 0; k < 4; k++) t[k][b] = times(m, b << (8 * k));
}

static ANY_FS void make(void)
{
	unsigned a, b, c = 0, d;
	for (uint32_t n = 0; n < 256; n++) {
		uint32_t v = n;
		for (int k = 0; k < 8; k++) v = v & 1 ? v >> 1 ^ POLY : v >> 1;
		slow[0][n] = v;
	}
	for (uint32_t n = 0; n < 256; n++)
		for (int k = 1; k < 8; k++) slow[k][n] = slow[0][slow[k - 1][n] & 255] ^ slow[k - 1][n] >> 8;
	make_shift(shift_long, LONG_BLOCK);
	make_shift(shift_short, SHORT_BLOCK);
	have_instruction = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2);
	__atomic_store_n(&made, 1, __ATOMIC_RELEASE);
}

static inline ANY_FS uint32_t shift(uint32_t t[4][256], uint32_t c)
{
	return t[0][c & 255] ^ t[1][c >> 8 & 255] ^ t[2][c >> 16 & 255] ^ t[3][c >> 24];
}

static inline ANY_FS uint64_t word(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof v);
	return v;
}

__attribute__((target("sse4.2")))
static inline ANY_FS uint64_t three(uint64_t c, const uint8_t *p, size_t block, uint32_t t[4][256])
{
	uint64_t c1 = 0, c2 = 0;
	for (const uint8_t *end = p + block; p < end; p += 8) {
		c = _mm_crc32_u64(c, word(p));
		c1 = _mm_crc32_u64(c1, word(p + block));
		c2 = _mm_crc32_u64(c2, word(p + 2 * block));
	}
	c = shift(t, (uint32_t)c) ^ c1;
	return shift(t, (uint32_t)c) ^ c2;
}

__attribute__((target("sse4.2")))
static ANY_FS uint32_t by_instruction(uint32_t crc, const uint8_t *p, size_t n)
{
	uint64_t c = crc;
	for (; n && ((uintptr_t)p & 7); n--) c = _mm_crc32_u8((uint32_t)c, *p++);
	for (; n >= 3 * LONG_BLOCK; n -= 3 * LONG_BLOCK, p += 3 * LONG_BLOCK)
		c = three(c, p, LONG_BLOCK, shift_long);
	for (; n >= 3 * SHORT_BLOCK; n -= 3 * SHORT_BLOCK, p += 3 * SHORT_BLOCK)
		c = three(c, p, SHORT_BLOCK, shift_short);
	for (; n >= 8; n -= 8, p += 8) c = _mm_crc32_u64(c, word(p));
	for (; n; n--) c = _mm_crc32_u8((uint32_t)c, *p++);
	return (uint32_t)c;
}

static ANY_FS uint32_t by_table(uint32_t c, const uint8_t *p, size_t n)
{
	for (; n >= 8; n -= 8, p += 8) {
		uint64_t v = word(p) ^ c;
		c = slow[7][v & 255] ^ slow[6][v >> 8 & 255] ^ slow[5][v >> 16 & 255] ^
		    slow[4][v >> 24 & 255] ^ slow[3][v >> 32 & 255] ^ slow[2][v >> 40 & 255] ^
		    slow[1][v >> 48 & 255] ^ slow[0][v >> 56];
	}
	for (; n; n--) c = slow[0][(c ^ *p++) & 255] ^ c >> 8;
	return c;
}

uint32_t crc32c(uint32_t crc, const void *p, size_t n)
{
	if (!__atomic_load_n(&made, __ATOMIC_ACQUIRE)) make();
	return ~(have_instruction ? by_instruction(~crc, p, n) : by_table(~crc, p, n));
}
