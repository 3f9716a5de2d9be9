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
#elif VB == 32
#define RANDOM_ZIP_LOW 0, 4, 1, 5
#define RANDOM_ZIP_HIGH 2, 6, 3, 7
#else
#define RANDOM_ZIP_LOW 0, 2
#define RANDOM_ZIP_HIGH 1, 3
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
