/* exp, log, expm1, log1p, sin, cos, tanh, erf, pow, atan2 of float32 lanes, each within 1.5 ulp.
 *
 * Every function is one straight line of IEEE operations for all lanes, specials included, so its bits are the
 * same on every target. Names: k is an integer exponent, x = 2^k m; r a reduced argument; z a square.
 * Numbers in brackets: Abramowitz & Stegun, Handbook of Mathematical Functions. */
#ifndef GRADMILL_KMATH_F32_H
#define GRADMILL_KMATH_F32_H

#include "kmath_poly.h"
#include "kmath_reduce.h"

#define K_INF_F32 __builtin_inff()
#define K_NAN_F32 __builtin_nanf("")

/* ---- exp, expm1: e^x = 2^n e^r with n = rint(x / ln 2), r = x - n ln 2 [4.2.1] ------------------------- */

typedef struct {
    vf32 n, p;
} k_power_f32;

/* e^x = 2^n (1 + p) */
VEC_FN k_power_f32 k_powers_f32(vf32 x) {
    vf32 n = rint_f32(x * 0x1.715476p+0f);
    vf32 r = fma_f32(n, set1_f32(-K_LN2_HIGH_F32), x);
    r = fma_f32(n, set1_f32(-K_LN2_LOW_F32), r);
    return (k_power_f32){n, fma_f32(r * r, k_poly_exp_f32(r), r)};
}

/* e^x where |x| < 174 */
VEC_FN vf32 k_exp_core_f32(vf32 x) {
    k_power_f32 e = k_powers_f32(x);
    return scale_f32(1.0f + e.p, e.n);
}

/* Limits beyond which the result is infinite or zero anyway. */
VEC_FN vf32 k_exp_f32(vf32 x) {
    return k_exp_core_f32(more_f32(set1_f32(-105.0f), less_f32(set1_f32(89.0f), x)));
}

/* e^x - 1 = 2 (2^(n-1) (e^r - 1) + (2^(n-1) - 1/2)), halved so that n = 128 does not overflow. The rounding
 * of r is carried in `low`, since doubling the small e^r - 1 would double it. For n = 0 nothing is scaled. */
VEC_FN vf32 k_expm1_f32(vf32 x) {
    vf32 y = more_f32(set1_f32(-20.0f), less_f32(set1_f32(89.0f), x));
    vf32 n = rint_f32(y * 0x1.715476p+0f);
    vf32 a = fma_f32(n, set1_f32(-K_LN2_HIGH_F32), y);
    vf32 r = fma_f32(n, set1_f32(-K_LN2_LOW_F32), a);
    vf32 low = fma_f32(n, set1_f32(-K_LN2_LOW_F32), a - r);
    vf32 rest = fma_f32(r * r, k_poly_exp_f32(r), low);
    vf32 half = scale_f32(set1_f32(0.5f), n);
    vf32 scaled = 2.0f * fma_f32(half, rest, fma_f32(half, r, half - 0.5f));
    return copysign_f32(sel_f32(n == 0.0f, r + rest, scaled), x);
}

/* ---- log, log1p: x = 2^k (1 + f) with 1 + f in [2/3, 4/3) [4.1.24] ---------------------------- */

typedef struct {
    vf32 k, m;
} k_unpacked_f32;

/* Of positive normal numbers; the integer is the bits of 2/3, where m begins. */
VEC_FN k_unpacked_f32 k_unpack_f32(vf32 x) {
    vi32 k = ((vi32)x - 0x3f2aaaab) >> 23;
    return (k_unpacked_f32){cvt_i32_f32(k), (vf32)((vi32)x - (k << 23))};
}

/* k ln 2 + log(1 + f) + low */
VEC_FN vf32 k_log_core_f32(vf32 k, vf32 f, vf32 low) {
    vf32 rest = fma_f32(f * f, k_poly_log_f32(f), fma_f32(k, set1_f32(K_LN2_LOW_F32), low));
    return fma_f32(k, set1_f32(K_LN2_HIGH_F32), f + rest);
}

VEC_FN vf32 k_log_f32(vf32 x) {
    vi32 tiny = x < 0x1p-126f;
    k_unpacked_f32 s = k_unpack_f32(sel_f32(tiny, x * 0x1p24f, x));
    vf32 k = s.k - sel_f32(tiny, set1_f32(24.0f), set1_f32(0.0f));
    vf32 y = k_log_core_f32(k, s.m - 1.0f, set1_f32(0.0f));
    vf32 special = sel_f32(x == 0.0f, set1_f32(-K_INF_F32), sel_f32(x < 0.0f, set1_f32(K_NAN_F32), x));
    return sel_f32((x > 0.0f) & (x < K_INF_F32), y, special);
}

/* u + c = 1 + x exactly, u rounded. The share of c in log(u + c) is c/u = c 2^-k (1 - f + …); for k = 0,
 * f = x has no error at all. 2^-k matters only while c does, hence the limit on k. */
VEC_FN vf32 k_log1p_f32(vf32 x) {
    vf32 u = 1.0f + x;
    vf32 back = u - 1.0f;
    vf32 c = (1.0f - (u - back)) + (x - back);
    k_unpacked_f32 s = k_unpack_f32(u);
    vf32 low = scale_f32(c, -less_f32(s.k, set1_f32(100.0f)));
    vi32 whole = s.k == 0.0f;
    vf32 f = sel_f32(whole, x, s.m - 1.0f);
    low = sel_f32(whole, set1_f32(0.0f), fma_f32(low, -f, low));
    vf32 y = copysign_f32(k_log_core_f32(s.k, f, low), x);
    vf32 special = sel_f32(x == -1.0f, set1_f32(-K_INF_F32), sel_f32(x < -1.0f, set1_f32(K_NAN_F32), x));
    return sel_f32((x > -1.0f) & (x < K_INF_F32), y, special);
}

/* ---- sin, cos: x = n pi/2 + r + low with |r| <= pi/4 [4.3.44] ------------------------------------------ */

/* sin (shift 0) or cos (shift 1) of x. The first step of the reduction is exact (x and n pi/2 are multiples
 * of 2^-24 and nearly cancel); the second keeps its error. Beyond 2^17, where n has too many digits, lanes go
 * through Payne and Hanek's reduction one by one. */
VEC_FN vf32 k_sine_f32(vf32 x, int shift) {
    vf32 turns = rint_f32(x * 0x1.45f306p-1f);
    vf32 a = fma_f32(turns, set1_f32(-K_PIO2_1_F32), x);
    vf32 b = turns * -K_PIO2_2_F32, b_low = fma_f32(turns, set1_f32(-K_PIO2_2_F32), -b);
    vf32 r = a + b, from_b = r - a;
    vf32 low = (a - (r - from_b)) + (b - from_b) + b_low;
    low = fma_f32(turns, set1_f32(-K_PIO2_3_F32), low);
    vi32 n = __builtin_convertvector(turns, vi32);
    vi32 large = abs_f32(x) > 0x1p17f;
    if (__builtin_expect(any_i32(large), 0)) {
        k_angle_f32 angle = k_reduce_large_f32(x, large, (k_angle_f32){r, low, n});
        r = angle.r, low = angle.low, n = angle.n;
    }
    n += shift;
    vf32 z = r * r;
    vf32 sine = r + fma_f32(r * z, k_poly_sin_f32(z), low);
    vf32 head = fma_f32(z, set1_f32(-0.5f), set1_f32(1.0f));
    vf32 lost = fma_f32(z, set1_f32(-0.5f), 1.0f - head);
    vf32 cosine = head + fma_f32(z * z, k_poly_cos_f32(z), fma_f32(r, -low, lost));
    vf32 y = sel_f32((n & 1) != 0, cosine, sine);
    return (vf32)((vi32)y ^ ((n & 2) << 30));
}

VEC_FN vf32 k_sin_f32(vf32 x) { return sel_f32(x == 0.0f, x, k_sine_f32(x, 0)); }
VEC_FN vf32 k_cos_f32(vf32 x) { return k_sine_f32(x, 1); }

/* ---- tanh: 1 - 2 / (e^2|x| + 1) [4.5.63], or a polynomial where that would cancel ----------------------- */
VEC_FN vf32 k_tanh_f32(vf32 x) {
    vf32 a = abs_f32(x), z = x * x;
    k_power_f32 e = k_powers_f32(less_f32(set1_f32(20.0f), a + a));
    vf32 power = scale_f32(set1_f32(1.0f), e.n);
    vf32 large = 1.0f - 2.0f / fma_f32(power, e.p, power + 1.0f);
    vf32 small = fma_f32(a * z, k_poly_tanh_f32(z), a);
    return copysign_f32(sel_f32(a < 0.55f, small, large), x);
}

/* ---- erf: s + s p(s^2), or 1 - e^p(s - 1) with the polynomial of log erfc ----------------------------- */
VEC_FN vf32 k_erf_f32(vf32 x) {
    vf32 a = abs_f32(x);
    vf32 small = fma_f32(a, k_poly_erf_small_f32(a * a), a);
    vf32 large = 1.0f - k_exp_core_f32(k_poly_erf_tail_f32(less_f32(set1_f32(4.0f), a) - 1.0f));
    return copysign_f32(sel_f32(a < 1.0f, small, large), x);
}

/* ---- pow, atan2: through float64, so that only the last rounding shows ---------------------------------- */

/* a^y = e^(y log a) for a >= 0, |y| <= 2^40. With s = f/(2+f), log(1+f) = 2 s + s^3 p(s^2). */
VEC_FN vf64 k_pow_short_f64(vf64 a, vf64 y) {
    vi64 k = ((vi64)a - 0x3fe6a09e667f3bcd) >> 52;
    vf64 f = (vf64)((vi64)a - (k << 52)) - 1.0;
    vf64 s = f / (2.0 + f);
    vf64 z = s * s;
    vf64 exponent = (vf64)(k + 0x4338000000000000) - 0x1.8p52;
    vf64 t = y * fma_f64(exponent, set1_f64(0x1.62e42fefa39efp-1),
                         fma_f64(s * z, k_poly_log_short_f64(z), s + s));
    t = more_f64(set1_f64(-200.0), less_f64(set1_f64(200.0), t));
    vf64 n = rint_f64(t * 0x1.71547652b82fep+0);
    vf64 r = fma_f64(n, set1_f64(-0x1.62e42fefa39efp-1), t);
    return scale_f64(1.0 + fma_f64(r * r, k_poly_exp_short_f64(r), r), n);
}

/* All the special cases of C99's pow (F.9.4.4): 1 for y = 0 and for a base of 1, NaN for a negative base and
 * a y that is no integer, the base's sign for an odd y. */
VEC_FN vf32 k_pow_f32(vf32 x, vf32 y) {
    vf32 a = abs_f32(x), limited = more_f32(set1_f32(-0x1p40f), less_f32(set1_f32(0x1p40f), y));
    vf32 p = narrow_f64(k_pow_short_f64(wide_low_f32(a), wide_low_f32(limited)),
                        k_pow_short_f64(wide_high_f32(a), wide_high_f32(limited)));
    vi32 whole = rint_f32(y) == y, odd = whole & (rint_f32(y * 0.5f) != y * 0.5f);
    vf32 edge = sel_f32((a < 1.0f) == (y < 0.0f), set1_f32(K_INF_F32), set1_f32(0.0f));
    p = sel_f32((a == 0.0f) | (a == K_INF_F32), edge, p);
    p = (vf32)((vi32)p | ((vi32)x & odd & INT32_MIN));
    p = sel_f32((x < 0.0f) & (a < K_INF_F32) & ~whole, set1_f32(K_NAN_F32), p);
    p = sel_f32((x != x) | (y != y), x + y, p);
    vi32 one = (x == 1.0f) | (y == 0.0f) | ((a == 1.0f) & (abs_f32(y) == K_INF_F32));
    return sel_f32(one, set1_f32(1.0f), p);
}

/* The angle of (x, y) from its octant: atan of the smaller over the larger, then reflections [4.4.5]. */
VEC_FN vf64 k_atan2_short_f64(vf64 y, vf64 x) {
    vf64 ax = abs_f64(x), ay = abs_f64(y);
    vi64 steep = (vi64)(ay > ax);
    vf64 low = sel_f64(steep, ax, ay), high = sel_f64(steep, ay, ax);
    vf64 q = low / high;
    q = sel_f64((vi64)(low == high), sel_f64((vi64)(high == 0.0), set1_f64(0.0), set1_f64(1.0)), q);
    vf64 z = q * q;
    vf64 angle = fma_f64(q * z, k_poly_atan_short_f64(z), q);
    angle = sel_f64(steep, 2.0 * K_PIO4_1_F64 - angle, angle);
    vi64 left = (vi64)x >> 63;
    angle = sel_f64(left, 4.0 * K_PIO4_1_F64 - angle, angle);
    return copysign_f64(angle, y);
}

VEC_FN vf32 k_atan2_f32(vf32 y, vf32 x) {
    return narrow_f64(k_atan2_short_f64(wide_low_f32(y), wide_low_f32(x)),
                      k_atan2_short_f64(wide_high_f32(y), wide_high_f32(x)));
}

#endif
