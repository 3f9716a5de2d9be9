/* Counter-based random bits: Philox 4x32 with ten rounds (J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw,
 * Parallel random numbers: as easy as 1, 2, 3, SC 2011; multipliers and key increments are the paper's).
 *
 * Word i of a stream is word i mod 4 of block i / 4, and a block is a bijection of its counter
 * (block low, block high, ordinal, turn) under the key, so any part can be made alone, in any order. */
#ifndef GRADMILL_RANDOM_H
#define GRADMILL_RANDOM_H

#include "vec.h"

enum { RANDOM_ROUNDS = 10, RANDOM_BATCH = 8 * LD }; /* words made at a time */

#if VB == 64
#define RANDOM_ZIP_LOW 0, 8, 1, 9, 2, 10, 3, 11
#define RANDOM_ZIP_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#define RANDOM_EVEN_ODD 0, 17, 2, 19, 4, 21, 6, 23, 8, 25, 10, 27, 12, 29, 14, 31
#elif VB == 32
#define RANDOM_ZIP_LOW 0, 4, 1, 5
#define RANDOM_ZIP_HIGH 2, 6, 3, 7
#define RANDOM_EVEN_ODD 0, 9, 2, 11, 4, 13, 6, 15
#else
#define RANDOM_ZIP_LOW 0, 2
#define RANDOM_ZIP_HIGH 1, 3
#define RANDOM_EVEN_ODD 0, 5, 2, 7
#endif

typedef struct {
    vu64 word[4]; /* one 32-bit word of LD blocks each, in the low halves of the lanes */
} random_blocks;

/* What multiplications leave in the upper halves is ignored by the next and cut off at the end. */
VEC_FN random_blocks random_round(random_blocks c, vu64 k0, vu64 k1) {
    vu64 p0 = mulwide_u32(c.word[0], set1_u64(0xd2511f53u)), p1 = mulwide_u32(c.word[2], set1_u64(0xcd9e8d57u));
    return (random_blocks){{(p1 >> 32) ^ c.word[1] ^ k0, p1, (p0 >> 32) ^ c.word[3] ^ k1, p0}};
}

VEC_FN void random_store(uint32_t *out, random_blocks c) {
    vu64 first = (c.word[0] & 0xffffffffu) | c.word[1] << 32;
    vu64 second = (c.word[2] & 0xffffffffu) | c.word[3] << 32;
    st_u32(out, (vu32)__builtin_shufflevector(first, second, RANDOM_ZIP_LOW));
    st_u32(out + LF, (vu32)__builtin_shufflevector(first, second, RANDOM_ZIP_HIGH));
}

/* RANDOM_BATCH words, from `block` on: two independent chains of rounds keep the multiplier busy. */
VEC_FN void random_batch(uint32_t *out, uint64_t block, const uint32_t *key, uint32_t ordinal, uint32_t turn) {
    static const uint64_t number[] = {0, 1, 2, 3, 4, 5, 6, 7};
    vu64 at = ld_u64(number) + block, next = at + LD;
    random_blocks a = {{at, at >> 32, set1_u64(ordinal), set1_u64(turn)}};
    random_blocks b = {{next, next >> 32, set1_u64(ordinal), set1_u64(turn)}};
    vu64 k0 = set1_u64(key[0]), k1 = set1_u64(key[1]);
    for (int round = 0; round < RANDOM_ROUNDS; round++) {
        a = random_round(a, k0, k1);
        b = random_round(b, k0, k1);
        k0 += 0x9e3779b9u, k1 += 0xbb67ae85u;
    }
    random_store(out, a);
    random_store(out + RANDOM_BATCH / 2, b);
}

/* Words of LF blocks, one block a lane. Even and odd lanes are two chains of rounds. Of key, ordinal and turn every
 * lane has the same. */
typedef struct {
    vu32 word[4];
} random_lanes;

static const uint64_t random_numbers[] = {0, 2, 4, 6, 8, 10, 12, 14};

/* What is added to the two halves of the key before each round but the first. */
#define RANDOM_LANES(x) {x, x, x, x, x, x, x, x}
#define RANDOM_KEYS(round) {RANDOM_LANES(round * 0x9e3779b9u), RANDOM_LANES(round * 0xbb67ae85u)}
static const uint64_t random_keys[RANDOM_ROUNDS - 1][2][8] = {
    RANDOM_KEYS(1), RANDOM_KEYS(2), RANDOM_KEYS(3), RANDOM_KEYS(4), RANDOM_KEYS(5),
    RANDOM_KEYS(6), RANDOM_KEYS(7), RANDOM_KEYS(8), RANDOM_KEYS(9)};

VEC_FN random_lanes random_some(vu64 even, vu64 odd, vu32 key0, vu32 key1, vu32 ordinal, vu32 turn) {
    random_blocks a = {{even, even >> 32, (vu64)ordinal, (vu64)turn}};
    random_blocks b = {{odd, odd >> 32, (vu64)ordinal, (vu64)turn}};
    const uint64_t(*keys)[2][8] = random_keys;
    a = random_round(a, (vu64)key0, (vu64)key1);
    b = random_round(b, (vu64)key0, (vu64)key1);
    /* gcc would build each constant anew in three instructions if it knew that these are constants */
    __asm__("" : "+r"(keys));
    _Pragma("GCC unroll 10") for (int round = 1; round < RANDOM_ROUNDS; round++) {
        vu64 k0 = (vu64)key0 + ld_u64(keys[round - 1][0]), k1 = (vu64)key1 + ld_u64(keys[round - 1][1]);
        a = random_round(a, k0, k1);
        b = random_round(b, k0, k1);
    }
    random_lanes r;
    _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++)
        r.word[k] = __builtin_shufflevector((vu32)a.word[k], (vu32)(b.word[k] << 32), RANDOM_EVEN_ODD);
    return r;
}

/* random_of: all words of blocks at, at + step …; random_each: words at, at + step …; random_row: words at, at + 1 … */
VEC_FN random_lanes random_of(int64_t at, int64_t step, vu32 key0, vu32 key1, vu32 ordinal, vu32 turn) {
    vu64 even = ld_u64(random_numbers) * (uint64_t)step + (uint64_t)at;
    return random_some(even, even + (uint64_t)step, key0, key1, ordinal, turn);
}

VEC_FN vu32 random_each(int64_t at, int64_t step, vu32 key0, vu32 key1, vu32 ordinal, vu32 turn) {
    vu64 even = ld_u64(random_numbers) * (uint64_t)step + (uint64_t)at, odd = even + (uint64_t)step;
    random_lanes r = random_some(even >> 2, odd >> 2, key0, key1, ordinal, turn);
    vu32 which = (vu32)((even & 3) | (odd & 3) << 32);
    vu32 low = sel_u32((vi32)(which == 0), r.word[0], r.word[1]);
    return sel_u32((vi32)(which < 2), low, sel_u32((vi32)(which == 2), r.word[2], r.word[3]));
}

VEC_FN vu32 random_row(int64_t at, int64_t step, vu32 key0, vu32 key1, vu32 ordinal, vu32 turn) {
    (void)step;
    vu64 block = (ld_u64(random_numbers) >> 1) + (uint64_t)at / 4, k0 = (vu64)key0, k1 = (vu64)key1;
    random_blocks a = {{block, block >> 32, (vu64)ordinal, (vu64)turn}};
    for (int round = 0; round < RANDOM_ROUNDS; round++) {
        a = random_round(a, k0, k1);
        k0 += 0x9e3779b9u, k1 += 0xbb67ae85u;
    }
    uint32_t words[RANDOM_BATCH / 2];
    random_store(words, a);
    return ld_u32(words + at % 4);
}

/* Words first … first + count - 1 of the stream (key[2], ordinal, turn). */
static __attribute__((unused)) void random_words(uint32_t *out, int64_t first, int64_t count,
                                                 const uint32_t *key, uint32_t ordinal, uint32_t turn) {
    while (count > 0) {
        int64_t skip = first % 4, n = RANDOM_BATCH - skip < count ? RANDOM_BATCH - skip : count;
        uint64_t block = (uint64_t)first / 4;
        if (n == RANDOM_BATCH) {
            random_batch(out, block, key, ordinal, turn);
        } else {
            uint32_t words[RANDOM_BATCH];
            random_batch(words, block, key, ordinal, turn);
            __builtin_memcpy(out, words + skip, (uint64_t)n * sizeof *out);
        }
        out += n, first += n, count -= n;
    }
}

#endif
