/* The names that the op table's C text uses beyond vec.h and kmath.h: one-line functions over vectors. */
#ifndef GM_ELEMENTWISE_H
#define GM_ELEMENTWISE_H

#include "strided.h"

#define GM_FN(NAME, R, A, EXPR)                                                                                \
    VEC_FN R NAME(A x) { return EXPR; }

/* sign: -1, 0 or 1; a float zero keeps its sign and NaN stays NaN. abs wraps at the least integer. */
GM_FN(sign_f32, vf32, vf32, sel_f32((vi32)((x < 0.0f) | (x > 0.0f)), copysign_f32(set1_f32(1.0f), x), x))
GM_FN(sign_f64, vf64, vf64, sel_f64((vi64)((x < 0.0) | (x > 0.0)), copysign_f64(set1_f64(1.0), x), x))
GM_FN(sign_i32, vi32, vi32, (x < 0) - (x > 0))
GM_FN(sign_i64, vi64, vi64, (vi64)(x < 0) - (vi64)(x > 0))
GM_FN(sign_u32, vu32, vu32, (vu32)(-(x > 0u)))
GM_FN(abs_i32, vi32, vi32, (x ^ (x >> 31)) - (x >> 31))
GM_FN(abs_i64, vi64, vi64, (x ^ (x >> 63)) - (x >> 63))
GM_FN(abs_u32, vu32, vu32, x)
VEC_FN vi32 sel_b8(vi32 m, vi32 a, vi32 b) { return sel_i32(m, a, b); }

/* cvt_FROM_TO, beside those of vec.h. A bool is a mask, of 4-byte lanes or, beside 8-byte elements, of theirs. */
GM_FN(cvt_i32_u32, vu32, vi32, (vu32)x)
GM_FN(cvt_u32_i32, vi32, vu32, (vi32)x)
GM_FN(cvt_f32_f32, vf32, vf32, x) /* to or from bfloat16, which is loaded as float32 and rounded when stored */
GM_FN(cvt_f32_b8, vi32, vf32, x != 0.0f)
GM_FN(cvt_f64_b8, vi64, vf64, (vi64)(x != 0.0))
GM_FN(cvt_i32_b8, vi32, vi32, x != 0)
GM_FN(cvt_u32_b8, vi32, vu32, x != 0u)
GM_FN(cvt_i64_b8, vi64, vi64, (vi64)(x != 0))
GM_FN(cvt_b8_f32, vf32, vi32, cvt_i32_f32(x & 1))
GM_FN(cvt_b8_f64, vf64, vi64, cvt_i64_f64(x & 1))
GM_FN(cvt_b8_i32, vi32, vi32, x & 1)
GM_FN(cvt_b8_u32, vu32, vi32, (vu32)(x & 1))
GM_FN(cvt_b8_i64, vi64, vi64, x & 1)

/* bits_FROM_TO: the same bits; a float's NaN becomes the one NaN first, so its payload is never seen. */
GM_FN(bits_f32_i32, vi32, vf32, sel_i32(x == x, (vi32)x, set1_i32(0x7fc00000)))
GM_FN(bits_f32_u32, vu32, vf32, sel_u32(x == x, (vu32)x, set1_u32(0x7fc00000u)))
GM_FN(bits_f64_i64, vi64, vf64, sel_i64((vi64)(x == x), (vi64)x, set1_i64(0x7ff8000000000000)))

#endif
