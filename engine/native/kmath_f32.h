/* The elementary functions of float32 lanes, each within 1.5 ulp: the format's constants, its logarithm, and pow
 * through float64. */
#ifndef GRADMILL_KMATH_F32_H
#define GRADMILL_KMATH_F32_H

#include "kmath_poly.h"
#include "kmath_reduce.h"

VEC_FN vf32 k_whole_f32(vi32 k) { return cvt_i32_f32(k); }

/* k ln 2 + log(1 + f) + low for |f| <= 1/3 */
VEC_FN vf32 k_log_core_f32(vf32 k, vf32 f, vf32 low) {
    vf32 rest = fma_f32(f * f, k_poly_log_f32(f), fma_f32(k, set1_f32(K_LN2_LOW_f32), low));
    return fma_f32(k, set1_f32(K_LN2_HIGH_f32), f + rest);
}

#define LANE f32
#define LANE_SCALAR float
#define REAL vf32
#define WORD vi32
#define UNSIGNED vu32
#define ANY any_i32
#define K_SIGN INT32_MIN
#define K_FRACTION 23
#define K_BITS_OF_ONE 0x3f800000
#define K_BITS_OF_LEAST_M 0x3f2aaaab /* 2/3 */
#define K_INFINITY __builtin_inff()
#define K_NAN __builtin_nanf("")
#define K_LEAST_NORMAL 0x1p-126f
#define K_WHOLE 0x1.8p23f
#define K_LOG2E 0x1.715476p+0f
#define K_TWO_OVER_PI 0x1.45f306p-1f
#define K_EXP_LOW -105.0f
#define K_EXP_HIGH 89.0f
#define K_EXPM1_LOW -20.0f
#define K_TANH_HIGH 20.0f
#define K_TANH_SEAM 0.55f
#define K_ERF_HIGH 4.0f
#define K_TINY_SCALE 0x1p24f
#define K_TINY_SHIFT 24.0f
#define K_LARGE 0x1p100f
#define K_LARGE_SCALE 0x1p-64f
#define K_LARGE_SHIFT 64.0f
#define K_TAN_EIGHTH 0x1.a8279ap-2f
#define K_ATAN_LEAST 0x1p-60f
#define K_ATAN_MOST 0x1p96f
#define K_ATAN_UP 0x1p80f
#define K_ATAN_DOWN 0x1p-32f
#include "kmath_float.h"
#include "kmath_undef.h"

/* a^y = e^(y log a) of positive a. With s = f/(2+f), log(1+f) = 2 s + s^3 p(s^2) [4.1.27]. */
VEC_FN vf64 k_pow_short_f64(vf64 a, vf64 y) {
    vi64 k = ((vi64)a - 0x3fe6a09e667f3bcd) >> 52;
    vf64 f = (vf64)((vi64)a - (k << 52)) - 1.0;
    vf64 s = f / (2.0 + f);
    vf64 z = s * s;
    vf64 log_m = fma_f64(s * z, k_poly_log_short_f64(z), s + s);
    vf64 t = y * fma_f64((vf64)(k + 0x4338000000000000) - 0x1.8p52, set1_f64(0x1.62e42fefa39efp-1), log_m);
    t = more_f64(set1_f64(-200.0), less_f64(set1_f64(200.0), t));
    vf64 n = rint_f64(t * 0x1.71547652b82fep+0);
    vf64 r = fma_f64(n, set1_f64(-0x1.62e42fefa39efp-1), t);
    return scale_f64(1.0 + fma_f64(r * r, k_poly_exp_short_f64(r), r), n);
}

/* Only the last rounding shows. */
VEC_FN vf32 k_pow_f32(vf32 x, vf32 y) {
    vf32 a = abs_f32(x);
    vf32 p = narrow_f64(k_pow_short_f64(wide_low_f32(a), wide_low_f32(y)),
                        k_pow_short_f64(wide_high_f32(a), wide_high_f32(y)));
    return __builtin_expect(any_i32(k_pow_is_special_f32(x, y)), 0) ? k_pow_special_f32(x, y, p) : p;
}

#endif
