/* exp, log, expm1, log1p, sin, cos, tanh, erf, pow, atan2 of float64 lanes, each within 2 ulp.
 *
 * The same formulas as for float32, with more terms. Where one double is not enough, `low` holds what the
 * rounding of its partner left. */
#ifndef GRADMILL_KMATH_F64_H
#define GRADMILL_KMATH_F64_H

#include "kmath_poly.h"
#include "kmath_reduce.h"

#define K_INF_F64 __builtin_inf()
#define K_NAN_F64 __builtin_nan("")
#define K_LOG2E_F64 0x1.71547652b82fep+0

/* ---- exp, expm1 ----------------------------------------------------------------------------------------- */

typedef struct {
    vf64 n, p;
} k_power_f64;

/* e^(x + low) = 2^n (1 + p) */
VEC_FN k_power_f64 k_powers_f64(vf64 x, vf64 low) {
    vf64 n = rint_f64(x * K_LOG2E_F64);
    vf64 r = fma_f64(n, set1_f64(-K_LN2_HIGH_F64), x);
    r += fma_f64(n, set1_f64(-K_LN2_LOW_F64), low);
    return (k_power_f64){n, fma_f64(r * r, k_poly_exp_f64(r), r)};
}

/* e^(x + low) where |x| < 1400 */
VEC_FN vf64 k_exp_core_f64(vf64 x, vf64 low) {
    k_power_f64 e = k_powers_f64(x, low);
    return scale_f64(1.0 + e.p, e.n);
}

VEC_FN vf64 k_exp_f64(vf64 x) {
    return k_exp_core_f64(more_f64(set1_f64(-746.0), less_f64(set1_f64(710.0), x)), set1_f64(0.0));
}

VEC_FN vf64 k_expm1_f64(vf64 x) {
    vf64 y = more_f64(set1_f64(-40.0), less_f64(set1_f64(710.0), x));
    vf64 n = rint_f64(y * K_LOG2E_F64);
    vf64 a = fma_f64(n, set1_f64(-K_LN2_HIGH_F64), y);
    vf64 r = fma_f64(n, set1_f64(-K_LN2_LOW_F64), a);
    vf64 low = fma_f64(n, set1_f64(-K_LN2_LOW_F64), a - r);
    vf64 rest = fma_f64(r * r, k_poly_exp_f64(r), low);
    vf64 half = scale_f64(set1_f64(0.5), n);
    vf64 scaled = 2.0 * fma_f64(half, rest, fma_f64(half, r, half - 0.5));
    return copysign_f64(sel_f64((vi64)(n == 0.0), r + rest, scaled), x);
}

/* ---- log, log1p: with 1 + f in [1/sqrt 2, sqrt 2) and s = f/(2+f), log(1+f) = 2 s + s^3 p(s^2) [4.1.27] -- */

typedef struct {
    vf64 k, m;
} k_unpacked_f64;

/* Of positive normal numbers; the integer is the bits of sqrt(1/2), where m begins. */
VEC_FN k_unpacked_f64 k_unpack_f64(vf64 x) {
    vi64 k = ((vi64)x - 0x3fe6a09e667f3bcd) >> 52;
    vf64 m = (vf64)((vi64)x - (k << 52));
    return (k_unpacked_f64){(vf64)(k + 0x4338000000000000) - 0x1.8p52, m};
}

/* k ln 2 + log(1 + f) + low. As 2 s = f - s f = f - (h - s h) with h = f^2/2, f itself enters unrounded. */
VEC_FN vf64 k_log_core_f64(vf64 k, vf64 f, vf64 low) {
    vf64 s = f / (2.0 + f), z = s * s, h = 0.5 * f * f;
    vf64 rest = fma_f64(s, fma_f64(z, k_poly_log_f64(z), h), fma_f64(k, set1_f64(K_LN2_LOW_F64), low));
    return fma_f64(k, set1_f64(K_LN2_HIGH_F64), f - (h - rest));
}

VEC_FN vf64 k_log_f64(vf64 x) {
    vi64 tiny = (vi64)(x < 0x1p-1022);
    k_unpacked_f64 s = k_unpack_f64(sel_f64(tiny, x * 0x1p54, x));
    vf64 k = s.k - sel_f64(tiny, set1_f64(54.0), set1_f64(0.0));
    vf64 y = k_log_core_f64(k, s.m - 1.0, set1_f64(0.0));
    vf64 special = sel_f64((vi64)(x < 0.0), set1_f64(K_NAN_F64), x);
    special = sel_f64((vi64)(x == 0.0), set1_f64(-K_INF_F64), special);
    return sel_f64((vi64)((x > 0.0) & (x < K_INF_F64)), y, special);
}

VEC_FN vf64 k_log1p_f64(vf64 x) {
    vf64 u = 1.0 + x;
    vf64 back = u - 1.0;
    vf64 c = (1.0 - (u - back)) + (x - back);
    k_unpacked_f64 s = k_unpack_f64(u);
    vf64 low = scale_f64(c, -less_f64(s.k, set1_f64(100.0)));
    vi64 whole = (vi64)(s.k == 0.0);
    vf64 f = sel_f64(whole, x, s.m - 1.0);
    low = sel_f64(whole, set1_f64(0.0), fma_f64(low, -f, low));
    vf64 y = copysign_f64(k_log_core_f64(s.k, f, low), x);
    vf64 special = sel_f64((vi64)(x < -1.0), set1_f64(K_NAN_F64), x);
    special = sel_f64((vi64)(x == -1.0), set1_f64(-K_INF_F64), special);
    return sel_f64((vi64)((x > -1.0) & (x < K_INF_F64)), y, special);
}

/* ---- sin, cos ------------------------------------------------------------------------------------------- */
VEC_FN vf64 k_sine_f64(vf64 x, int shift) {
    vf64 turns = rint_f64(x * 0x1.45f306dc9c883p-1);
    vf64 a = fma_f64(turns, set1_f64(-K_PIO2_1_F64), x);
    vf64 b = turns * -K_PIO2_2_F64, b_low = fma_f64(turns, set1_f64(-K_PIO2_2_F64), -b);
    vf64 r = a + b, from_b = r - a;
    vf64 low = (a - (r - from_b)) + (b - from_b) + b_low;
    low = fma_f64(turns, set1_f64(-K_PIO2_3_F64), low);
    vi64 n = (vi64)(turns + 0x1.8p52); /* the low bits are those of the integer */
    vi64 large = (vi64)(abs_f64(x) > 0x1p17);
    if (__builtin_expect(any_i64(large), 0)) {
        k_angle_f64 angle = k_reduce_large_f64(x, large, (k_angle_f64){r, low, n});
        r = angle.r, low = angle.low, n = angle.n;
    }
    n += shift;
    vf64 z = r * r;
    vf64 sine = r + fma_f64(r * z, k_poly_sin_f64(z), low);
    vf64 head = fma_f64(z, set1_f64(-0.5), set1_f64(1.0));
    vf64 lost = fma_f64(z, set1_f64(-0.5), 1.0 - head);
    vf64 cosine = head + fma_f64(z * z, k_poly_cos_f64(z), fma_f64(r, -low, lost));
    vf64 y = sel_f64((vi64)((n & 1) != 0), cosine, sine);
    return (vf64)((vi64)y ^ ((n & 2) << 62));
}

VEC_FN vf64 k_sin_f64(vf64 x) { return sel_f64((vi64)(x == 0.0), x, k_sine_f64(x, 0)); }
VEC_FN vf64 k_cos_f64(vf64 x) { return k_sine_f64(x, 1); }

/* ---- tanh, erf ------------------------------------------------------------------------------------------ */
VEC_FN vf64 k_tanh_f64(vf64 x) {
    vf64 a = abs_f64(x), z = x * x;
    k_power_f64 e = k_powers_f64(less_f64(set1_f64(40.0), a + a), set1_f64(0.0));
    vf64 power = scale_f64(set1_f64(1.0), e.n);
    vf64 large = 1.0 - 2.0 / fma_f64(power, e.p, power + 1.0);
    vf64 small = fma_f64(a * z, k_poly_tanh_f64(z), a);
    return copysign_f64(sel_f64((vi64)(a < 0.55), small, large), x);
}

VEC_FN vf64 k_erf_f64(vf64 x) {
    vf64 a = abs_f64(x);
    vf64 small = fma_f64(a, k_poly_erf_small_f64(a * a), a);
    vf64 tail = k_poly_erf_tail_f64(less_f64(set1_f64(6.0), a) - 1.0);
    vf64 large = 1.0 - k_exp_core_f64(tail, set1_f64(0.0));
    return copysign_f64(sel_f64((vi64)(a < 1.0), small, large), x);
}

/* ---- pow: e^(y log a), the logarithm to 2^-64 as a sum of two doubles ------------------------------------ */

typedef struct {
    vf64 high, low;
} k_pair_f64;

/* high + low = a + b exactly, for |a| >= |b| (T. J. Dekker, 1971). */
VEC_FN k_pair_f64 k_sum_f64(vf64 a, vf64 b) {
    vf64 high = a + b;
    return (k_pair_f64){high, b - (high - a)};
}

/* log of positive a. s = f/(2+f) and the first two terms 2 s + (2/3 + z p(z)) s^3 are carried in pairs. */
VEC_FN k_pair_f64 k_log_pair_f64(vf64 a) {
    vi64 tiny = (vi64)(a < 0x1p-1022);
    k_unpacked_f64 u = k_unpack_f64(sel_f64(tiny, a * 0x1p54, a));
    vf64 k = u.k - sel_f64(tiny, set1_f64(54.0), set1_f64(0.0));

    vf64 f = u.m - 1.0, inverse = 1.0 / (2.0 + f);
    k_pair_f64 d = k_sum_f64(set1_f64(2.0), f);
    vf64 s = f * inverse;
    vf64 s_low = fma_f64(-s, d.low, fma_f64(-s, d.high, f)) * inverse;
    vf64 z = s * s;
    vf64 z_low = fma_f64(s, s, -z) + 2.0 * s * s_low;
    vf64 cube = s * z;
    vf64 cube_low = fma_f64(s, z, -cube) + fma_f64(s, z_low, s_low * z);
    k_pair_f64 c = k_sum_f64(set1_f64(K_TWO_THIRDS_1_F64), z * k_poly_log_pow_f64(z));
    c.low += K_TWO_THIRDS_2_F64;
    vf64 term = cube * c.high;
    vf64 term_low = fma_f64(cube, c.high, -term) + fma_f64(cube, c.low, cube_low * c.high);

    k_pair_f64 m = k_sum_f64(s + s, term);
    k_pair_f64 whole = k_sum_f64(k * K_LN2_HIGH_F64, m.high);
    vf64 low = fma_f64(k, set1_f64(K_LN2_LOW_F64), m.low + (2.0 * s_low + term_low));
    return k_sum_f64(whole.high, whole.low + low);
}

VEC_FN vf64 k_pow_f64(vf64 x, vf64 y) {
    vf64 a = abs_f64(x), limited = more_f64(set1_f64(-0x1p66), less_f64(set1_f64(0x1p66), y));
    k_pair_f64 l = k_log_pair_f64(a);
    vf64 t = limited * l.high;
    vf64 t_low = fma_f64(limited, l.low, fma_f64(limited, l.high, -t));
    vi64 far = (vi64)(abs_f64(t) > 750.0);
    t_low = sel_f64(far, set1_f64(0.0), t_low);
    vf64 p = k_exp_core_f64(more_f64(set1_f64(-750.0), less_f64(set1_f64(750.0), t)), t_low);

    vi64 whole = (vi64)(rint_f64(y) == y), odd = whole & (vi64)(rint_f64(y * 0.5) != y * 0.5);
    vf64 edge = sel_f64((vi64)((a < 1.0) == (y < 0.0)), set1_f64(K_INF_F64), set1_f64(0.0));
    p = sel_f64((vi64)((a == 0.0) | (a == K_INF_F64)), edge, p);
    p = (vf64)((vi64)p | ((vi64)x & odd & INT64_MIN));
    p = sel_f64((vi64)((x < 0.0) & (a < K_INF_F64)) & ~whole, set1_f64(K_NAN_F64), p);
    p = sel_f64((vi64)((x != x) | (y != y)), x + y, p);
    vi64 one = (vi64)((x == 1.0) | (y == 0.0) | ((a == 1.0) & (abs_f64(y) == K_INF_F64)));
    return sel_f64(one, set1_f64(1.0), p);
}

/* ---- atan2 ---------------------------------------------------------------------------------------------- */

/* With low <= high the smaller and larger magnitude: above tan(pi/8), atan(low/high) = pi/4 + atan q with
 * q = (low - high)/(low + high) [4.4.34], else q = low/high. Every octant is then m pi/4 +- atan q. Both
 * magnitudes are first brought to where sums and reciprocals are normal. */
VEC_FN vf64 k_atan2_f64(vf64 y, vf64 x) {
    vf64 ax = abs_f64(x), ay = abs_f64(y);
    vi64 steep = (vi64)(ay > ax);
    vf64 low = sel_f64(steep, ax, ay), high = sel_f64(steep, ay, ax);
    vi64 endless = (vi64)(high == K_INF_F64);
    low = sel_f64(endless, sel_f64((vi64)(low == K_INF_F64), set1_f64(1.0), low * 0.0), low);
    high = sel_f64(endless | (vi64)(high == 0.0), set1_f64(1.0), high);
    vf64 scale = sel_f64((vi64)(high > 0x1p900), set1_f64(0x1p-200), set1_f64(1.0));
    scale = sel_f64((vi64)(high < 0x1p-700), set1_f64(0x1p400), scale);
    low *= scale, high *= scale;

    vi64 middle = (vi64)(low > 0x1.a827999fcef32p-2 * high);
    vf64 step = sel_f64(middle, high, set1_f64(0.0)), other = sel_f64(middle, low, set1_f64(0.0));
    vf64 top = low - step;
    vf64 top_low = low - (top + step);
    k_pair_f64 bottom = k_sum_f64(high, other);
    vf64 inverse = 1.0 / bottom.high;
    vf64 q = top * inverse;
    vf64 q_low = (fma_f64(-q, bottom.low, top_low) + fma_f64(-q, bottom.high, top)) * inverse;
    vf64 z = q * q;
    vf64 part = fma_f64(q * z, k_poly_atan_f64(z), q_low);

    vf64 m = sel_f64(middle, set1_f64(1.0), set1_f64(0.0));
    m = sel_f64(steep, 2.0 - m, m);
    vi64 left = (vi64)x >> 63;
    m = sel_f64(left, 4.0 - m, m);
    vi64 flip = (steep ^ left) & INT64_MIN;
    q = (vf64)((vi64)q ^ flip), part = (vf64)((vi64)part ^ flip);
    vf64 whole = m * K_PIO4_1_F64;
    vf64 whole_low = fma_f64(m, set1_f64(K_PIO4_2_F64), fma_f64(m, set1_f64(K_PIO4_1_F64), -whole));
    vf64 base = whole + q;
    vf64 base_low = (whole - base) + q; /* |whole| >= |q|, or whole = 0 and base = q */
    vf64 angle = base + ((part + whole_low) + base_low);
    angle = sel_f64((vi64)((x != x) | (y != y)), x + y, angle);
    return copysign_f64(angle, y);
}

#endif
