/* The elementary functions of float64 lanes, each within 2 ulp: the format's constants, its logarithm, and pow. */
#ifndef GRADMILL_KMATH_F64_H
#define GRADMILL_KMATH_F64_H

#include "kmath_poly.h"
#include "kmath_reduce.h"

/* The double 1.5 2^52 + k holds k in its low bits. */
VEC_FN vf64 k_whole_f64(vi64 k) { return (vf64)(k + 0x4338000000000000) - 0x1.8p52; }

/* k ln 2 + log(1 + f) + low for 1 + f in [1/sqrt 2, sqrt 2). With s = f/(2+f), log(1+f) = 2 s + s^3 p(s^2) [4.1.27],
 * and 2 s = f - s f = f - (h - s h) with h = f^2/2, so that f itself enters unrounded. */
VEC_FN vf64 k_log_core_f64(vf64 k, vf64 f, vf64 low) {
    vf64 s = f / (2.0 + f), z = s * s, h = 0.5 * f * f;
    vf64 rest = fma_f64(s, fma_f64(z, k_poly_log_f64(z), h), fma_f64(k, set1_f64(K_LN2_LOW_f64), low));
    return fma_f64(k, set1_f64(K_LN2_HIGH_f64), f - (h - rest));
}

#define LANE f64
#define LANE_SCALAR double
#define REAL vf64
#define WORD vi64
#define UNSIGNED vu64
#define ANY any_i64
#define K_SIGN INT64_MIN
#define K_FRACTION 52
#define K_BITS_OF_ONE 0x3ff0000000000000
#define K_BITS_OF_LEAST_M 0x3fe6a09e667f3bcd /* 1/sqrt 2 */
#define K_INFINITY __builtin_inf()
#define K_NAN __builtin_nan("")
#define K_LEAST_NORMAL 0x1p-1022
#define K_WHOLE 0x1.8p52
#define K_LOG2E 0x1.71547652b82fep+0
#define K_TWO_OVER_PI 0x1.45f306dc9c883p-1
#define K_EXP_LOW -746.0
#define K_EXP_HIGH 710.0
#define K_EXPM1_LOW -40.0
#define K_TANH_HIGH 40.0
#define K_TANH_SEAM 0.55
#define K_ERF_HIGH 6.0
#define K_TINY_SCALE 0x1p54
#define K_TINY_SHIFT 54.0
#define K_LARGE 0x1p700
#define K_LARGE_SCALE 0x1p-512
#define K_LARGE_SHIFT 512.0
#define K_TAN_EIGHTH 0x1.a827999fcef32p-2
#define K_ATAN_LEAST 0x1p-700
#define K_ATAN_MOST 0x1p900
#define K_ATAN_UP 0x1p400
#define K_ATAN_DOWN 0x1p-200
#include "kmath_float.h"
#include "kmath_undef.h"

/* log of a positive normal number, 2^k (1 + f), to 2^-64: s = f/(2+f) and the first two terms of the series,
 * 2 s + (2/3 + z p(z)) s^3, are carried in pairs. */
VEC_FN k_pair_f64 k_log_pair_f64(vf64 k, vf64 f) {
    vf64 inverse = 1.0 / (2.0 + f);
    k_pair_f64 d = k_sum_f64(set1_f64(2.0), f);
    vf64 s = f * inverse;
    vf64 s_low = fma_f64(-s, d.low, fma_f64(-s, d.high, f)) * inverse;
    vf64 z = s * s;
    vf64 z_low = fma_f64(s, s, -z) + 2.0 * s * s_low;
    vf64 cube = s * z;
    vf64 cube_low = fma_f64(s, z, -cube) + fma_f64(s, z_low, s_low * z);
    k_pair_f64 c = k_sum_f64(set1_f64(K_TWO_THIRDS_1_f64), z * k_poly_log_pow_f64(z));
    c.low += K_TWO_THIRDS_2_f64;
    vf64 term = cube * c.high;
    vf64 term_low = fma_f64(cube, c.high, -term) + fma_f64(cube, c.low, cube_low * c.high);

    k_pair_f64 m = k_sum_f64(s + s, term);
    k_pair_f64 whole = k_sum_f64(k * K_LN2_HIGH_f64, m.high);
    vf64 low = fma_f64(k, set1_f64(K_LN2_LOW_f64), m.low + (2.0 * s_low + term_low));
    return k_sum_f64(whole.high, whole.low + low);
}

/* e^(y log |x|) = e^(t + t_low) = e^t (1 + t_low). Denormal x are scaled first; beyond the limits of t the result is
 * infinite or zero. */
VEC_FN vf64 k_pow_f64(vf64 x, vf64 y) {
    vf64 a = abs_f64(x), shift = set1_f64(0.0);
    int some = __builtin_expect(any_i64(k_pow_is_special_f64(x, y)), 0);
    if (some) {
        vi64 tiny = (vi64)(a < 0x1p-1022);
        a = sel_f64(tiny, a * 0x1p54, a);
        shift = sel_f64(tiny, set1_f64(54.0), shift);
    }
    k_unpacked_f64 u = k_unpack_f64(a);
    k_pair_f64 l = k_log_pair_f64(u.k - shift, u.m - 1.0);
    vf64 t = y * l.high;
    vf64 t_low = fma_f64(y, l.low, fma_f64(y, l.high, -t));
    t_low = (vf64)((vi64)t_low & (vi64)(abs_f64(t) < 750.0));
    k_power_f64 e = k_powers_f64(more_f64(set1_f64(-750.0), less_f64(set1_f64(750.0), t)));
    vf64 p = scale_f64(1.0 + (e.p + fma_f64(e.p, t_low, t_low)), e.n);
    return some ? k_pow_special_f64(x, y, p) : p;
}

#endif
