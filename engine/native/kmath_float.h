/* The elementary functions of one float format; kmath_f32.h and kmath_f64.h define the format and include this.
 *
 * Every function is a line of IEEE operations on all lanes, so its bits are the same on every target. Branches
 * ask only whether some lane needs a rare repair, which leaves the other lanes as they are.
 * Names: n, k are integers, x = 2^k m; r is a reduced argument, z a square, low what the rounding of another
 * value left. Numbers in brackets: Abramowitz & Stegun, Handbook of Mathematical Functions.
 *
 * F(name) is name_f32 or name_f64; REAL, WORD and UNSIGNED are the vectors of its lanes. */

#define K_PASTE(name, lane) name##_##lane
#define K_EXPAND(name, lane) K_PASTE(name, lane)
#define F(name) K_EXPAND(name, LANE)
#define S(x) F(set1)(x)

/* ---- exp, expm1, tanh: e^x = 2^n e^r with n = rint(x / ln 2), r = x - n ln 2 [4.2.1] -------------------- */

typedef struct {
    REAL n, p;
} F(k_power);

/* e^x = 2^n (1 + p) */
VEC_FN F(k_power) F(k_powers)(REAL x) {
    REAL n = F(rint)(x * K_LOG2E);
    REAL r = F(fma)(n, S(-F(K_LN2_HIGH)), x);
    r = F(fma)(n, S(-F(K_LN2_LOW)), r);
    return (F(k_power)){n, F(fma)(r * r, F(k_poly_exp)(r), r)};
}

/* e^x for x so small that n is within the range of scale */
VEC_FN REAL F(k_exp_core)(REAL x) {
    F(k_power) e = F(k_powers)(x);
    return F(scale)(1.0f + e.p, e.n);
}

/* Beyond the limits the result is infinite or zero anyway. */
VEC_FN REAL F(k_exp)(REAL x) {
    return F(k_exp_core)(F(more)(S(K_EXP_LOW), F(less)(S(K_EXP_HIGH), x)));
}

/* e^x - 1 = 2 (2^(n-1) p + (2^(n-1) - 1/2)): halved so that the largest n does not overflow. p is r + rest, and
 * the rounding of r is carried in rest, since doubling the small p would double it too. */
VEC_FN REAL F(k_expm1)(REAL x) {
    REAL y = F(more)(S(K_EXPM1_LOW), F(less)(S(K_EXP_HIGH), x));
    REAL n = F(rint)(y * K_LOG2E);
    REAL a = F(fma)(n, S(-F(K_LN2_HIGH)), y);
    REAL r = F(fma)(n, S(-F(K_LN2_LOW)), a);
    REAL low = F(fma)(n, S(-F(K_LN2_LOW)), a - r);
    REAL rest = F(fma)(r * r, F(k_poly_exp)(r), low);
    REAL half = F(scale)(S(0.5f), n);
    REAL scaled = 2.0f * F(fma)(half, rest, F(fma)(half, r, half - 0.5f));
    return F(copysign)(F(sel)((WORD)(n == 0.0f), r + rest, scaled), x);
}

/* 1 - 2 / (e^2|x| + 1) [4.5.63], or s + s^3 p(s^2) where that would cancel */
VEC_FN REAL F(k_tanh)(REAL x) {
    REAL a = F(abs)(x), z = x * x;
    F(k_power) e = F(k_powers)(F(less)(S(K_TANH_HIGH), a + a));
    REAL power = F(scale)(S(1.0f), e.n);
    REAL large = 1.0f - 2.0f / F(fma)(power, e.p, power + 1.0f);
    REAL small = F(fma)(a * z, F(k_poly_tanh)(z), a);
    return F(copysign)(F(sel)((WORD)(a < S(K_TANH_SEAM)), small, large), x);
}

/* ---- erf: s + s p(s^2), or 1 - e^p(s - 1) with the polynomial of log erfc -------------------------------- */
VEC_FN REAL F(k_erf)(REAL x) {
    REAL a = F(abs)(x);
    REAL small = F(fma)(a, F(k_poly_erf_small)(a * a), a);
    REAL tail = F(k_poly_erf_tail)(F(less)(S(K_ERF_HIGH), a) - 1.0f);
    REAL large = 1.0f - F(k_exp_core)(tail);
    return F(copysign)(F(sel)((WORD)(a < 1.0f), small, large), x);
}

/* ---- log, log1p: x = 2^k (1 + f) [4.1.24] ---------------------------------------------------------------- */

typedef struct {
    REAL k, m, inverse; /* inverse = 2^-k, unless k is the greatest exponent */
} F(k_unpacked);

/* Of positive normal numbers. */
VEC_FN F(k_unpacked) F(k_unpack)(REAL x) {
    WORD k = ((WORD)x - K_BITS_OF_LEAST_M) >> K_FRACTION, shifted = k << K_FRACTION;
    return (F(k_unpacked)){F(k_whole)(k), (REAL)((WORD)x - shifted), (REAL)(K_BITS_OF_ONE - shifted)};
}

/* Lanes outside [least normal, limit): zeros, negative numbers, denormals and NaN among them. */
VEC_FN WORD F(k_outside)(REAL x, REAL limit) {
    const UNSIGNED least = (UNSIGNED)S(K_LEAST_NORMAL);
    return (WORD)((UNSIGNED)x - least >= (UNSIGNED)limit - least);
}

VEC_FN REAL F(k_log)(REAL x) {
    int some = __builtin_expect(ANY(F(k_outside)(x, S(K_INFINITY))), 0);
    REAL y = x, shift = S(0.0f);
    if (some) {
        WORD tiny = (WORD)(x < S(K_LEAST_NORMAL));
        y = F(sel)(tiny, x * K_TINY_SCALE, x);
        shift = F(sel)(tiny, S(K_TINY_SHIFT), shift);
    }
    F(k_unpacked) u = F(k_unpack)(y);
    y = F(k_log_core)(u.k - shift, u.m - 1.0f, S(0.0f));
    if (some) {
        y = F(sel)((WORD)(x == 0.0f), S(-K_INFINITY), y);
        y = F(sel)((WORD)(x < 0.0f), S(K_NAN), y);
        y = F(sel)((WORD)(x < S(K_INFINITY)), y, x);
    }
    return y;
}

/* f + low = 2^-k x + (2^-k - 1), with low = 0 for k = 0. Only k, which is free near its seams, is taken from the
 * rounded 1 + x. Large x are scaled so that 2^-k is a normal number. */
VEC_FN REAL F(k_log1p)(REAL x) {
    REAL u = 1.0f + x, y = x, shift = S(0.0f);
    int some = __builtin_expect(ANY(F(k_outside)(u, S(K_LARGE))), 0);
    if (some) {
        WORD large = (WORD)(x > S(K_LARGE / 2));
        y = F(sel)(large, x * K_LARGE_SCALE, x);
        u = F(sel)(large, y, u);
        shift = F(sel)(large, S(K_LARGE_SHIFT), shift);
    }
    F(k_unpacked) s = F(k_unpack)(u);
    REAL start = s.inverse - 1.0f, f = F(fma)(y, s.inverse, start);
    REAL low = F(fma)(y, s.inverse, start - f);
    y = F(copysign)(F(k_log_core)(s.k + shift, f, low), x);
    if (some) {
        y = F(sel)((WORD)(x == -1.0f), S(-K_INFINITY), y);
        y = F(sel)((WORD)(x < -1.0f), S(K_NAN), y);
        y = F(sel)((WORD)(x < S(K_INFINITY)), y, x);
    }
    return y;
}

/* ---- sin, cos: x = n pi/2 + r + low with |r| <= pi/4 [4.3.44] -------------------------------------------- */

/* sin (shift 0) or cos (shift 1) of n pi/2 + r + low */
VEC_FN REAL F(k_sine_of)(REAL r, REAL low, WORD n, int shift) {
    REAL z = r * r;
    REAL sine = r + F(fma)(r * z, F(k_poly_sin)(z), low);
    REAL head = F(fma)(z, S(-0.5f), S(1.0f));
    REAL lost = F(fma)(z, S(-0.5f), 1.0f - head);
    REAL cosine = head + F(fma)(z * z, F(k_poly_cos)(z), F(fma)(r, -low, lost));
    n += shift;
    REAL y = F(sel)((WORD)((n & 1) != 0), cosine, sine);
    return (REAL)((WORD)y ^ ((n & 2) << (8 * sizeof(LANE_SCALAR) - 2)));
}

/* y with the lanes of `large` replaced. */
static __attribute__((noinline, unused)) REAL F(k_sine_large)(REAL x, WORD large, REAL y, int shift) {
    F(k_angle) angle = F(k_reduce_large)(x, large, (F(k_angle)){S(0.0f), S(0.0f), (WORD){0}});
    return F(sel)(large, F(k_sine_of)(angle.r, angle.low, angle.n, shift), y);
}

/* sin (shift 0) or cos (shift 1) of x. The first step of the reduction is exact, x and n pi/2 being multiples of
 * one small power of two that nearly cancel; the second is a product and a sum with their errors (D. E. Knuth,
 * The Art of Computer Programming, 4.2.2 theorem B). Beyond 2^17, where n has too many digits, lanes go through
 * Payne and Hanek's reduction one by one. Nothing before that branches, so that the sine and the cosine of one x
 * share all but their signs. */
VEC_FN REAL F(k_sine)(REAL x, int shift) {
    REAL turns = F(rint)(x * K_TWO_OVER_PI);
    REAL a = F(fma)(turns, S(-F(K_PIO2_1)), x);
    REAL b = turns * -F(K_PIO2_2), b_low = F(fma)(turns, S(-F(K_PIO2_2)), -b);
    REAL r = a + b, from_b = r - a;
    REAL low = (a - (r - from_b)) + (b - from_b) + b_low;
    low = F(fma)(turns, S(-F(K_PIO2_3)), low);
    WORD n = (WORD)(turns + K_WHOLE); /* the low bits are those of the integer */
    REAL y = F(k_sine_of)(r, low, n, shift);
    WORD large = (WORD)(F(abs)(x) > 0x1p17f);
    return __builtin_expect(ANY(large), 0) ? F(k_sine_large)(x, large, y, shift) : y;
}

VEC_FN REAL F(k_sin)(REAL x) { return F(sel)((WORD)(x == 0.0f), x, F(k_sine)(x, 0)); }
VEC_FN REAL F(k_cos)(REAL x) { return F(k_sine)(x, 1); }

/* ---- atan2 ----------------------------------------------------------------------------------------------- */

typedef struct {
    REAL high, low;
} F(k_pair);

/* high + low = a + b exactly, for |a| >= |b| or a = 0 (T. J. Dekker, 1971). */
VEC_FN F(k_pair) F(k_sum)(REAL a, REAL b) {
    REAL high = a + b;
    return (F(k_pair)){high, b - (high - a)};
}

/* With low <= high the smaller and larger magnitude: above tan(pi/8), atan(low/high) = pi/4 + atan q with
 * q = (low - high)/(low + high) [4.4.34], else q = low/high. Every octant is then m pi/4 +- atan q. Both
 * magnitudes are first brought to where sums and reciprocals are normal. */
VEC_FN REAL F(k_atan2)(REAL y, REAL x) {
    REAL ax = F(abs)(x), ay = F(abs)(y);
    WORD steep = (WORD)(ay > ax);
    REAL low = F(sel)(steep, ax, ay), high = F(sel)(steep, ay, ax);
    if (__builtin_expect(ANY((WORD)((high < S(K_ATAN_LEAST)) | ~(high <= S(K_ATAN_MOST)))), 0)) {
        WORD endless = (WORD)(high == S(K_INFINITY));
        low = F(sel)(endless, F(sel)((WORD)(low == S(K_INFINITY)), S(1.0f), low * 0.0f), low);
        high = F(sel)(endless | (WORD)(high == 0.0f), S(1.0f), high);
        REAL scale = F(sel)((WORD)(high > S(K_ATAN_MOST)), S(K_ATAN_DOWN), S(1.0f));
        scale = F(sel)((WORD)(high < S(K_ATAN_LEAST)), S(K_ATAN_UP), scale);
        low *= scale, high *= scale;
    }
    WORD middle = (WORD)(low > S(K_TAN_EIGHTH) * high);
    REAL step = (REAL)((WORD)high & middle);
    REAL top = low - step;
    REAL top_low = low - (top + step);
    F(k_pair) bottom = F(k_sum)(high, (REAL)((WORD)low & middle));
    REAL inverse = 1.0f / bottom.high;
    REAL q = top * inverse;
    REAL q_low = (F(fma)(-q, bottom.low, top_low) + F(fma)(-q, bottom.high, top)) * inverse;
    REAL z = q * q;
    REAL part = F(fma)(q * z, F(k_poly_atan)(z), q_low);

    WORD left = (WORD)x >> (8 * sizeof(LANE_SCALAR) - 1);
    REAL m = (REAL)((WORD)S(1.0f) & middle);
    m = F(sel)(steep, 2.0f - m, m);
    m = F(sel)(left, 4.0f - m, m);
    WORD flip = (steep ^ left) & K_SIGN;
    q = (REAL)((WORD)q ^ flip), part = (REAL)((WORD)part ^ flip);
    REAL whole = m * F(K_PIO4_1);
    REAL whole_low = F(fma)(m, S(F(K_PIO4_2)), F(fma)(m, S(F(K_PIO4_1)), -whole));
    F(k_pair) base = F(k_sum)(whole, q);
    REAL angle = base.high + ((part + whole_low) + base.low);
    return F(copysign)(F(sel)((WORD)(x == x), angle, x), y);
}

/* ---- pow: what is common to both formats ------------------------------------------------------------------ */

/* The lanes that e^(y log |x|) does not settle: x not positive and normal, or y not finite. */
VEC_FN WORD F(k_pow_is_special)(REAL x, REAL y) {
    return F(k_outside)(x, S(K_INFINITY)) | ~(WORD)(F(abs)(y) < S(K_INFINITY));
}

/* All the special cases of C99's pow (F.9.4.4), given p = |x|^y of finite operands: 1 for y = 0 and for a base
 * of 1, NaN for a negative base and a y that is no integer, the base's sign for an odd y. */
VEC_FN REAL F(k_pow_special)(REAL x, REAL y, REAL p) {
    REAL a = F(abs)(x);
    WORD endless = (WORD)(F(abs)(y) == S(K_INFINITY));
    WORD grows = (WORD)((a < 1.0f) == (y < 0.0f));
    p = F(sel)((WORD)((a == 0.0f) | (a == S(K_INFINITY))) | endless, F(sel)(grows, S(K_INFINITY), S(0.0f)), p);
    WORD whole = (WORD)(F(rint)(y) == y), odd = whole & (WORD)(F(rint)(y * 0.5f) != y * 0.5f);
    p = (REAL)((WORD)p | ((WORD)x & odd & K_SIGN));
    p = F(sel)((WORD)((x < 0.0f) & (a < S(K_INFINITY))) & ~whole, S(K_NAN), p);
    p = F(sel)((WORD)((x != x) | (y != y)), x + y, p);
    return F(sel)((WORD)((x == 1.0f) | (y == 0.0f)) | ((WORD)(a == 1.0f) & endless), S(1.0f), p);
}

#undef K_PASTE
#undef K_EXPAND
#undef F
#undef S
