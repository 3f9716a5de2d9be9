/* Floor division, modulo and shifts of integer lanes, total: x // 0 = x mod 0 = 0, least // -1 = least, and a
 * shift count of the width or more (or a negative one) shifts everything out. */
#ifndef GRADMILL_KMATH_INT_H
#define GRADMILL_KMATH_INT_H

#include "vec.h"

/* 32-bit quotients are exact in float64: a fraction is at least 2^-31 away from the next integer. */
VEC_FN hi32 k_quotient_i32(hi32 a, hi32 b) {
    return cvt_f64_i32(floor_f64(cvt_i32_f64(a) / cvt_i32_f64(b)));
}
VEC_FN vi32 k_floordiv_i32(vi32 a, vi32 b) {
    vi32 q = join_i32(k_quotient_i32(low_i32(a), low_i32(b)), k_quotient_i32(high_i32(a), high_i32(b)));
    return sel_i32(b == -1, -a, q) & (b != 0);
}
VEC_FN hu32 k_quotient_u32(hu32 a, hu32 b) {
    return cvt_f64_u32(floor_f64(cvt_u32_f64(a) / cvt_u32_f64(b)));
}
VEC_FN vu32 k_floordiv_u32(vu32 a, vu32 b) {
    vu32 q = join_u32(k_quotient_u32(low_u32(a), low_u32(b)), k_quotient_u32(high_u32(a), high_u32(b)));
    return q & (vu32)(b != 0u);
}
VEC_FN vi64 k_floordiv_i64(vi64 a, vi64 b) {
    vi64 q;
    for (int i = 0; i < LD; i++) {
        int64_t x = a[i], y = b[i];
        if (y == 0 || y == -1)
            q[i] = y * x; /* 0 or -x, which wraps */
        else
            q[i] = x / y - (x % y != 0 && (x < 0) != (y < 0));
    }
    return q;
}

VEC_FN vi32 k_mod_i32(vi32 a, vi32 b) { return (a - k_floordiv_i32(a, b) * b) & (b != 0); }
VEC_FN vu32 k_mod_u32(vu32 a, vu32 b) { return (a - k_floordiv_u32(a, b) * b) & (vu32)(b != 0u); }
VEC_FN vi64 k_mod_i64(vi64 a, vi64 b) { return (a - k_floordiv_i64(a, b) * b) & (vi64)(b != 0); }

#define K_SHIFTS(S, V, M, U, WIDTH)                                                                            \
    VEC_FN V k_shl_##S(V a, V n) { return (a << (n & (WIDTH - 1))) & (V)(M)((U)n < (WIDTH + (U){0})); }
K_SHIFTS(i32, vi32, vi32, vu32, 32)
K_SHIFTS(u32, vu32, vi32, vu32, 32)
K_SHIFTS(i64, vi64, vi64, vu64, 64)

VEC_FN vi32 k_shr_i32(vi32 a, vi32 n) { return a >> sel_i32((vu32)n < 32u, n, set1_i32(31)); }
VEC_FN vi64 k_shr_i64(vi64 a, vi64 n) { return a >> sel_i64((vi64)((vu64)n < 64u), n, set1_i64(63)); }
VEC_FN vu32 k_shr_u32(vu32 a, vu32 n) { return (a >> (n & 31u)) & (vu32)(n < 32u); }

#endif
