/* x mod pi/2 for large x (M. H. Payne and R. N. Hanek, Radian reduction for trigonometric functions, SIGNUM
 * Newsletter 18, 1983): only the bits of 2/pi that matter are multiplied, in integers, hence exactly. */
#ifndef GRADMILL_KMATH_REDUCE_H
#define GRADMILL_KMATH_REDUCE_H

#include "kmath_poly.h"

typedef struct {
    double r, low; /* |r| <= pi/4, and what r's rounding left */
    int n;         /* x = n pi/2 + r + low, modulo 2 pi */
} k_angle;

typedef struct {
    vf32 r, low;
    vi32 n;
} k_angle_f32;

typedef struct {
    vf64 r, low;
    vi64 n;
} k_angle_f64;

VEC_FN double k_from_bits(uint64_t bits) {
    double x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

/* hi:lo 2^-128 as a double and the next 53 bits; 2^-64 < value < 1. */
VEC_FN void k_fraction(uint64_t hi, uint64_t lo, double *head, double *tail) {
    int zeros = hi ? __builtin_clzll(hi) : 64;
    if (zeros == 64)
        hi = lo, lo = 0;
    else if (zeros)
        hi = hi << zeros | lo >> (64 - zeros), lo <<= zeros;
    double unit = k_from_bits((uint64_t)(1023 - 64 - zeros) << 52); /* weight of the last bit of hi */
    *head = (double)(int64_t)(hi >> 11) * (unit * 0x1p11);
    *tail = ((double)(int64_t)(hi & 0x7ff) + (double)(int64_t)(lo >> 11) * 0x1p-53) * unit;
}

/* Of finite |x| > 2^17. |x| = m 2^e with a 53-bit integer m. Bits of 2/pi whose product with |x| is a multiple
 * of 4 are skipped; the next 192 bits w give m w 2^-190 = |x| 2/pi (mod 4) with an error below 2^-137, and no
 * double is within 2^-62 of a multiple of pi/2. */
static __attribute__((noinline, unused)) k_angle k_payne_hanek(double x) {
    uint64_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    int first = (int)(bits >> 52 & 0x7ff) - 1075 - 2 + 64; /* the table begins with 64 bits of zeros */
    uint64_t m = (bits & 0xfffffffffffffu) | 0x10000000000000u, w[3];
    for (int i = 0; i < 3; i++) {
        const uint64_t *word = k_two_over_pi + first / 64 + i;
        w[i] = first % 64 ? word[0] << first % 64 | word[1] >> (64 - first % 64) : word[0];
    }
    unsigned __int128 p = (unsigned __int128)m * w[2];
    uint64_t p0 = (uint64_t)p;
    p = (unsigned __int128)m * w[1] + (uint64_t)(p >> 64);
    uint64_t p1 = (uint64_t)p, p2 = m * w[0] + (uint64_t)(p >> 64);

    int n = (int)(p2 >> 62);
    uint64_t hi = p2 << 2 | p1 >> 62, lo = p1 << 2 | p0 >> 62;
    int up = (int)(hi >> 63); /* a fraction of a half or more counts from the next multiple */
    if (up) {
        n++;
        lo = -lo;
        hi = ~hi + (lo == 0);
    }
    double head, tail;
    k_fraction(hi, lo, &head, &tail);
    double r = head * K_PIO2_1_f64;
    double low = fma1_f64(head, K_PIO2_1_f64, -r) + (head * K_PIO2_2_f64 + tail * K_PIO2_1_f64);
    int negative = (int)(bits >> 63);
    if (negative) n = -n;
    return up != negative ? (k_angle){-r, -low, n} : (k_angle){r, low, n};
}

/* The angles of `near`, with the lanes of `large` replaced; infinities and NaN give NaN. */
static __attribute__((noinline, unused)) k_angle_f64 k_reduce_large_f64(vf64 x, vi64 large, k_angle_f64 near) {
    for (int i = 0; i < LD; i++) {
        if (!large[i]) continue;
        k_angle a = __builtin_isfinite(x[i]) ? k_payne_hanek(x[i]) : (k_angle){__builtin_nan(""), 0.0, 0};
        near.r[i] = a.r, near.low[i] = a.low, near.n[i] = a.n;
    }
    return near;
}

static __attribute__((noinline, unused)) k_angle_f32 k_reduce_large_f32(vf32 x, vi32 large, k_angle_f32 near) {
    for (int i = 0; i < LF; i++) {
        if (!large[i]) continue;
        k_angle a = __builtin_isfinite(x[i]) ? k_payne_hanek((double)x[i]) : (k_angle){__builtin_nan(""), 0.0, 0};
        float r = (float)a.r;
        near.r[i] = r, near.low[i] = (float)((a.r - (double)r) + a.low), near.n[i] = a.n;
    }
    return near;
}

#endif
