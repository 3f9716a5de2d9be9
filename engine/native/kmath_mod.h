/* Modulo and floor division of float lanes, with Python's and NumPy's rules: x mod y has the sign of y and
 * x // y is the integer with x = (x // y) y + x mod y; 5.3 mod inf = 5.3, -1 mod inf = inf. Remainders are
 * exact, so the only rounding in mod is the last addition of y. */
#ifndef GRADMILL_KMATH_MOD_H
#define GRADMILL_KMATH_MOD_H

#include "vec.h"

/* STEP is a power of two small enough that a quotient below it is at most one too large once truncated, and
 * a - q c is then a multiple of c's last bit no larger than c, hence exact.
 *
 * k_remainder_far: long division, from c = b STEP^i near a back to b. */
#define K_FLOAT_MOD(S, V, M, STEP, INF, NAN)                                                                   \
    VEC_FN V k_remainder_step_##S(V a, V c) {                                                                  \
        V r = fma_##S(-trunc_##S(a / c), c, a);                                                                \
        return sel_##S((M)(r < 0), r + c, r);                                                                  \
    }                                                                                                          \
    static __attribute__((noinline, unused)) V k_remainder_far_##S(V a, V b) {                                 \
        V c = b;                                                                                               \
        for (M more = (M)(c * STEP <= a); any_##M(more); more = (M)(c * STEP <= a))                            \
            c = sel_##S(more, c * STEP, c);                                                                    \
        for (M more = (M)(c > b); any_##M(more); more = (M)(c > b)) {                                          \
            a = k_remainder_step_##S(a, c);                                                                    \
            c = sel_##S(more, c * (1 / STEP), c);                                                              \
        }                                                                                                      \
        return k_remainder_step_##S(a, b);                                                                     \
    }                                                                                                          \
    /* C's fmod: x - trunc(x/y) y exactly, with the sign of x. */                                              \
    VEC_FN V k_fmod_##S(V x, V y) {                                                                            \
        V a = abs_##S(x), b = abs_##S(y);                                                                      \
        M finite = (M)((a < INF) & (b < INF) & (b > 0));                                                       \
        V u = sel_##S(finite, a, set1_##S(0)), v = sel_##S(finite, b, set1_##S(1)), r;                         \
        if (__builtin_expect(any_##M((M)(u >= v * STEP)), 0))                                                  \
            r = k_remainder_far_##S(u, v);                                                                     \
        else                                                                                                   \
            r = k_remainder_step_##S(u, v);                                                                    \
        r = sel_##S((M)((a < INF) & (b == INF)), a, r);                                                        \
        r = sel_##S((M)((a < INF) & (b > 0)), r, set1_##S(NAN));                                               \
        return copysign_##S(r, x);                                                                             \
    }                                                                                                          \
    VEC_FN V k_mod_##S(V x, V y) {                                                                             \
        V r = k_fmod_##S(x, y);                                                                                \
        r = sel_##S((M)((r != 0) & ((r < 0) != (y < 0))), r + y, r);                                           \
        return sel_##S((M)(r == 0), copysign_##S(r, y), r);                                                    \
    }                                                                                                          \
    VEC_FN V k_floordiv_##S(V x, V y) {                                                                        \
        V r = k_fmod_##S(x, y);                                                                                \
        V q = (x - r) / y; /* an integer but for its rounding */                                               \
        q = sel_##S((M)((r != 0) & ((r < 0) != (y < 0))), q - 1, q);                                           \
        V f = floor_##S(q);                                                                                    \
        f = sel_##S((M)(q - f > 0.5f), f + 1, f);                                                              \
        f = sel_##S((M)(q == 0), copysign_##S(set1_##S(0), x / y), f);                                         \
        return sel_##S((M)(y == 0), x / y, f);                                                                 \
    }

#define any_vi32 any_i32
#define any_vi64 any_i64
K_FLOAT_MOD(f32, vf32, vi32, 0x1p22f, __builtin_inff(), __builtin_nanf(""))
K_FLOAT_MOD(f64, vf64, vi64, 0x1p51, __builtin_inf(), __builtin_nan(""))
#undef any_vi32
#undef any_vi64

#endif
