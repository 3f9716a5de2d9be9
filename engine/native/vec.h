/* Vectors of the target's native width, and the few operations that plain GNU C vectors lack.
 *
 * The one file with builtins for a target's instructions. Everything else in the engine's C is written with the
 * types below, ordinary operators (+ - * / & | ^ ~ << >> and comparisons, all lane by lane) and these functions,
 * so one source gives the same bits with AVX-512, AVX2, NEON, gcc and clang, at any optimisation level.
 *
 *   VB               bytes in a vector: 64 (AVX-512), 32 (AVX2) or 16;  LF = VB/4 lanes, LD = VB/8 lanes
 *   vf32 vi32 vu32   vectors of LF lanes;   vf64 vi64 vu64   vectors of LD lanes
 *   hf32 hi32 hu32   half a vector: LD lanes of 4 bytes, the partners of vf64 and vi64 in conversions
 *   masks            vi32 or vi64, each lane 0 or -1, as comparisons yield them
 *
 * A cast between vector types, (vi32)x, keeps the bits; cvt_* functions convert values.
 * Suffixes name the lane type: f32 f64 i32 i64 u32 u64. */
#ifndef GRADMILL_VEC_H
#define GRADMILL_VEC_H

#include <stdint.h>

#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define VB 64
#elif defined(__AVX2__) && defined(__FMA__)
#define VB 32
#elif defined(__FMA__) || defined(__aarch64__) || defined(__FP_FAST_FMA)
#define VB 16
#else
#error "the exactness contract needs a hardware fused multiply-add; use the reference device on this target"
#endif

#define LF (VB / 4)
#define LD (VB / 8)

#ifdef __has_builtin
#define VEC_HAS(builtin) __has_builtin(builtin)
#else
#define VEC_HAS(builtin) 0
#endif
#if defined(__x86_64__) && !VEC_HAS(__builtin_elementwise_fma)
#define VEC_X86 1 /* gcc, and clang before 17: instructions are called by name */
#else
#define VEC_X86 0
#endif
#if VEC_X86 && !defined(__clang__)
#define VEC_GCC_X86 1 /* names that clang lacks, since it finds these instructions by itself */
#else
#define VEC_GCC_X86 0
#endif

#define VEC_FN static inline __attribute__((always_inline, unused))
#define VEC_TYPE(name, scalar, bytes) typedef scalar name __attribute__((vector_size(bytes)))

VEC_TYPE(vf32, float, VB);
VEC_TYPE(vi32, int32_t, VB);
VEC_TYPE(vu32, uint32_t, VB);
VEC_TYPE(vf64, double, VB);
VEC_TYPE(vi64, int64_t, VB);
VEC_TYPE(vu64, uint64_t, VB);
VEC_TYPE(hf32, float, VB / 2);
VEC_TYPE(hi32, int32_t, VB / 2);
VEC_TYPE(hu32, uint32_t, VB / 2);

/* ---- loads, stores, broadcast ----------------------------------------------------------------------
 * ld_T(p)      a vector from LF or LD consecutive elements, no alignment needed
 * ldn_T(p,n)   the first n elements (0 <= n <= lanes); the other lanes are zero and memory is not touched
 * lds_T(p,s)   elements p[0], p[s], p[2s] …;   ldsn_T(p,s,n) the first n of them, zeros after
 * st_T(p,v), stn_T(p,v,n), sts_T(p,s,v), stsn_T(p,s,v,n) likewise
 * set1_T(x)    x in every lane. x - 0 keeps every value, so compilers fold it into a broadcast operand. */
#define VEC_MEMORY(S, T, V, L)                                                                                 \
    typedef T V##_at __attribute__((vector_size(L * sizeof(T)), aligned(sizeof(T)), may_alias));               \
    VEC_FN V ld_##S(const T *p) { return *(const V##_at *)p; }                                                 \
    VEC_FN void st_##S(T *p, V v) { *(V##_at *)p = v; }                                                        \
    VEC_FN V ldsn_##S(const T *p, int64_t stride, int64_t n) {                                                 \
        T lane[L] = {0};                                                                                       \
        for (int64_t i = 0; i < n; i++) lane[i] = p[i * stride];                                               \
        return ld_##S(lane);                                                                                   \
    }                                                                                                          \
    VEC_FN V lds_##S(const T *p, int64_t stride) { return ldsn_##S(p, stride, L); }                            \
    VEC_FN void stsn_##S(T *p, int64_t stride, V v, int64_t n) {                                               \
        T lane[L];                                                                                             \
        st_##S(lane, v);                                                                                       \
        for (int64_t i = 0; i < n; i++) p[i * stride] = lane[i];                                               \
    }                                                                                                          \
    VEC_FN void sts_##S(T *p, int64_t stride, V v) { stsn_##S(p, stride, v, L); }                              \
    VEC_FN V set1_##S(T x) { return x - (V){0}; }

VEC_MEMORY(f32, float, vf32, LF)
VEC_MEMORY(i32, int32_t, vi32, LF)
VEC_MEMORY(u32, uint32_t, vu32, LF)
VEC_MEMORY(f64, double, vf64, LD)
VEC_MEMORY(i64, int64_t, vi64, LD)
VEC_MEMORY(u64, uint64_t, vu64, LD)

/* The first `bytes` of v, a multiple of 4: in pieces of powers of two, where calls would cost more. */
VEC_FN void store_first(void *p, vu64 v, int64_t bytes) {
#if VB == 64
    __builtin_memcpy(p, &v, (uint64_t)bytes);
#else
    typedef uint64_t pair __attribute__((vector_size(16)));
    char *at = p;
    if (bytes & VB) {
        __builtin_memcpy(at, &v, VB);
        return;
    }
    pair part = {v[0], v[1]};
#if VB == 32
    if (bytes & 16) {
        __builtin_memcpy(at, &part, 16);
        at += 16, part = (pair){v[2], v[3]};
    }
#endif
    uint64_t word = part[0];
    if (bytes & 8) {
        __builtin_memcpy(at, &word, 8);
        at += 8, word = part[1];
    }
    uint32_t half = (uint32_t)word;
    if (bytes & 4) __builtin_memcpy(at, &half, 4);
#endif
}

#define VEC_FIRST(S, T, V)                                                                                     \
    VEC_FN V ldn_##S(const T *p, int64_t n) {                                                                  \
        V v = {0};                                                                                             \
        __builtin_memcpy(&v, p, (uint64_t)n * sizeof(T));                                                      \
        return v;                                                                                              \
    }                                                                                                          \
    VEC_FN void stn_##S(T *p, V v, int64_t n) { store_first(p, (vu64)v, n * (int64_t)sizeof(T)); }
/* AVX2 loads under a mask as fast as others; storing so is slow on some processors. */
#define VEC_FIRST_LOADED(S, T, V, M, AS, LOAD)                                                                 \
    VEC_FN V ldn_##S(const T *p, int64_t n) {                                                                  \
        return (V)LOAD((const void *)p, (AS)ld_##M((const void *)(vec_mask + VB - n * (int64_t)sizeof(T))));   \
    }                                                                                                          \
    VEC_FN void stn_##S(T *p, V v, int64_t n) { store_first(p, (vu64)v, n * (int64_t)sizeof(T)); }
#define VEC_FIRST_MASKED(S, T, V, AS, LOAD, STORE)                                                             \
    VEC_FN V ldn_##S(const T *p, int64_t n) { return (V)LOAD((const void *)p, (AS){0}, (1u << n) - 1); }       \
    VEC_FN void stn_##S(T *p, V v, int64_t n) { STORE((void *)p, (AS)v, (1u << n) - 1); }
#if VEC_GCC_X86 && VB == 64
typedef long long vll_ __attribute__((vector_size(VB)));
VEC_FIRST_MASKED(f32, float, vf32, vf32, __builtin_ia32_loadups512_mask, __builtin_ia32_storeups512_mask)
VEC_FIRST_MASKED(i32, int32_t, vi32, vi32, __builtin_ia32_loaddqusi512_mask, __builtin_ia32_storedqusi512_mask)
VEC_FIRST_MASKED(u32, uint32_t, vu32, vi32, __builtin_ia32_loaddqusi512_mask, __builtin_ia32_storedqusi512_mask)
VEC_FIRST_MASKED(f64, double, vf64, vf64, __builtin_ia32_loadupd512_mask, __builtin_ia32_storeupd512_mask)
VEC_FIRST_MASKED(i64, int64_t, vi64, vll_, __builtin_ia32_loaddqudi512_mask, __builtin_ia32_storedqudi512_mask)
VEC_FIRST_MASKED(u64, uint64_t, vu64, vll_, __builtin_ia32_loaddqudi512_mask, __builtin_ia32_storedqudi512_mask)
#elif VEC_GCC_X86 && VB == 32
typedef long long vll_ __attribute__((vector_size(VB)));
#define VEC_BYTES_8(x) x, x, x, x, x, x, x, x
#define VEC_BYTES(x) VEC_BYTES_8(x), VEC_BYTES_8(x), VEC_BYTES_8(x), VEC_BYTES_8(x)
static const char vec_mask[2 * VB] = {VEC_BYTES(-1), VEC_BYTES(0)};
VEC_FIRST_LOADED(f32, float, vf32, i32, vi32, __builtin_ia32_maskloadps256)
VEC_FIRST_LOADED(i32, int32_t, vi32, i32, vi32, __builtin_ia32_maskloadd256)
VEC_FIRST_LOADED(u32, uint32_t, vu32, i32, vi32, __builtin_ia32_maskloadd256)
VEC_FIRST_LOADED(f64, double, vf64, i64, vll_, __builtin_ia32_maskloadpd256)
VEC_FIRST_LOADED(i64, int64_t, vi64, i64, vll_, __builtin_ia32_maskloadq256)
VEC_FIRST_LOADED(u64, uint64_t, vu64, i64, vll_, __builtin_ia32_maskloadq256)
#else
VEC_FIRST(f32, float, vf32)
VEC_FIRST(i32, int32_t, vi32)
VEC_FIRST(u32, uint32_t, vu32)
VEC_FIRST(f64, double, vf64)
VEC_FIRST(i64, int64_t, vi64)
VEC_FIRST(u64, uint64_t, vu64)
#endif

/* ahead(p): asks for what lies at p, which need not be memory, to be brought into the caches. */
VEC_FN void ahead(const void *p) { __builtin_prefetch(p); }

/* stream_T(p, v): st_T past the caches where p is aligned; after a kernel's last one, stream_end() makes them visible
 * to other threads. */
#define VEC_STREAM(S, T, V, STORE)                                                                             \
    VEC_FN void stream_##S(T *p, V v) {                                                                        \
        if ((uintptr_t)p % VB) st_##S(p, v);                                                                   \
        else STORE;                                                                                            \
    }
#if VEC_GCC_X86 && VB == 64
VEC_STREAM(f32, float, vf32, __builtin_ia32_movntps512(p, v))
VEC_STREAM(f64, double, vf64, __builtin_ia32_movntpd512(p, v))
#elif VEC_GCC_X86 && VB == 32
VEC_STREAM(f32, float, vf32, __builtin_ia32_movntps256(p, v))
VEC_STREAM(f64, double, vf64, __builtin_ia32_movntpd256(p, v))
#elif VEC_HAS(__builtin_nontemporal_store)
VEC_STREAM(f32, float, vf32, __builtin_nontemporal_store(v, (vf32 *)p))
VEC_STREAM(f64, double, vf64, __builtin_nontemporal_store(v, (vf64 *)p))
#else
VEC_STREAM(f32, float, vf32, st_f32(p, v))
VEC_STREAM(f64, double, vf64, st_f64(p, v))
#endif
#if defined(__x86_64__) || defined(__i386__)
VEC_FN void stream_end(void) { __builtin_ia32_sfence(); }
#else
VEC_FN void stream_end(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
#endif

/* hold_T(v): v, in a register from here on. gcc would rather load a vector again at each of its uses. */
#if defined(__x86_64__) || defined(__i386__)
#define VEC_HOLD(S, V)                                                                                         \
    VEC_FN V hold_##S(V v) {                                                                                   \
        __asm__("" : "+v"(v));                                                                                 \
        return v;                                                                                              \
    }
#else
#define VEC_HOLD(S, V)                                                                                         \
    VEC_FN V hold_##S(V v) { return v; }
#endif
VEC_HOLD(f32, vf32)
VEC_HOLD(f64, vf64)

/* ---- select, sign bits ----------------------------------------------------------------------------
 * sel_T(m,a,b)   a where the mask m is set, else b
 * abs, neg, copysign act on the sign bit alone, NaN included */
#define VEC_SELECT(S, V, M)                                                                                    \
    VEC_FN V sel_##S(M m, V a, V b) { return (V)(((M)a & m) | ((M)b & ~m)); }
VEC_SELECT(f32, vf32, vi32)
VEC_SELECT(i32, vi32, vi32)
VEC_SELECT(u32, vu32, vi32)
VEC_SELECT(f64, vf64, vi64)
VEC_SELECT(i64, vi64, vi64)
VEC_SELECT(u64, vu64, vi64)

#define VEC_SIGN(S, V, M, SIGN)                                                                                \
    VEC_FN V abs_##S(V x) { return (V)((M)x & ~SIGN); }                                                        \
    VEC_FN V neg_##S(V x) { return (V)((M)x ^ SIGN); }                                                         \
    VEC_FN V copysign_##S(V x, V sign) { return (V)(((M)x & ~SIGN) | ((M)sign & SIGN)); }
VEC_SIGN(f32, vf32, vi32, INT32_MIN)
VEC_SIGN(f64, vf64, vi64, INT64_MIN)

/* ---- fma, sqrt, floor, trunc, rint: correctly rounded, one instruction each where the target has it ------- */
#define VEC_LANES_1(NAME, V, L, EXPR)                                                                          \
    VEC_FN V NAME(V a) {                                                                                       \
        V r;                                                                                                   \
        for (int i = 0; i < L; i++) r[i] = EXPR;                                                               \
        return r;                                                                                              \
    }
#define VEC_FN_1(NAME, V, EXPR)                                                                                \
    VEC_FN V NAME(V a) { return (V)EXPR; }
#define VEC_FN_3(NAME, V, EXPR)                                                                                \
    VEC_FN V NAME(V a, V b, V c) { return (V)EXPR; }

#define VEC_FLOOR 0x9 /* the rounding-control byte of vrndscale and roundps: toward minus infinity, quiet */
#define VEC_TRUNC 0xb /* toward zero, quiet */
#define VEC_RINT 0x8  /* to nearest, ties to even, quiet */
#define VEC_CURRENT 4 /* embedded rounding: the mode of the control word */

#if VEC_X86 && VB == 64
VEC_FN_3(fma_f32, vf32, __builtin_ia32_vfmaddps512_mask(a, b, c, -1, VEC_CURRENT))
VEC_FN_3(fma_f64, vf64, __builtin_ia32_vfmaddpd512_mask(a, b, c, -1, VEC_CURRENT))
#if VEC_GCC_X86
VEC_FN_1(sqrt_f32, vf32, __builtin_ia32_sqrtps512_mask(a, a, -1, VEC_CURRENT))
VEC_FN_1(sqrt_f64, vf64, __builtin_ia32_sqrtpd512_mask(a, a, -1, VEC_CURRENT))
#else
VEC_FN_1(sqrt_f32, vf32, __builtin_ia32_sqrtps512(a, VEC_CURRENT))
VEC_FN_1(sqrt_f64, vf64, __builtin_ia32_sqrtpd512(a, VEC_CURRENT))
#endif
VEC_FN_1(floor_f32, vf32, __builtin_ia32_rndscaleps_mask(a, VEC_FLOOR, a, -1, VEC_CURRENT))
VEC_FN_1(floor_f64, vf64, __builtin_ia32_rndscalepd_mask(a, VEC_FLOOR, a, -1, VEC_CURRENT))
VEC_FN_1(trunc_f32, vf32, __builtin_ia32_rndscaleps_mask(a, VEC_TRUNC, a, -1, VEC_CURRENT))
VEC_FN_1(rint_f32, vf32, __builtin_ia32_rndscaleps_mask(a, VEC_RINT, a, -1, VEC_CURRENT))
VEC_FN_1(trunc_f64, vf64, __builtin_ia32_rndscalepd_mask(a, VEC_TRUNC, a, -1, VEC_CURRENT))
VEC_FN_1(rint_f64, vf64, __builtin_ia32_rndscalepd_mask(a, VEC_RINT, a, -1, VEC_CURRENT))
#elif VEC_X86 && VB == 32
VEC_FN_3(fma_f32, vf32, __builtin_ia32_vfmaddps256(a, b, c))
VEC_FN_3(fma_f64, vf64, __builtin_ia32_vfmaddpd256(a, b, c))
VEC_FN_1(sqrt_f32, vf32, __builtin_ia32_sqrtps256(a))
VEC_FN_1(sqrt_f64, vf64, __builtin_ia32_sqrtpd256(a))
VEC_FN_1(floor_f32, vf32, __builtin_ia32_roundps256(a, VEC_FLOOR))
VEC_FN_1(floor_f64, vf64, __builtin_ia32_roundpd256(a, VEC_FLOOR))
VEC_FN_1(trunc_f32, vf32, __builtin_ia32_roundps256(a, VEC_TRUNC))
VEC_FN_1(rint_f32, vf32, __builtin_ia32_roundps256(a, VEC_RINT))
VEC_FN_1(trunc_f64, vf64, __builtin_ia32_roundpd256(a, VEC_TRUNC))
VEC_FN_1(rint_f64, vf64, __builtin_ia32_roundpd256(a, VEC_RINT))
#elif VEC_X86
VEC_FN_3(fma_f32, vf32, __builtin_ia32_vfmaddps(a, b, c))
VEC_FN_3(fma_f64, vf64, __builtin_ia32_vfmaddpd(a, b, c))
VEC_FN_1(sqrt_f32, vf32, __builtin_ia32_sqrtps(a))
VEC_FN_1(sqrt_f64, vf64, __builtin_ia32_sqrtpd(a))
VEC_FN_1(floor_f32, vf32, __builtin_ia32_roundps(a, VEC_FLOOR))
VEC_FN_1(floor_f64, vf64, __builtin_ia32_roundpd(a, VEC_FLOOR))
VEC_FN_1(trunc_f32, vf32, __builtin_ia32_roundps(a, VEC_TRUNC))
VEC_FN_1(rint_f32, vf32, __builtin_ia32_roundps(a, VEC_RINT))
VEC_FN_1(trunc_f64, vf64, __builtin_ia32_roundpd(a, VEC_TRUNC))
VEC_FN_1(rint_f64, vf64, __builtin_ia32_roundpd(a, VEC_RINT))
#else
#if VEC_HAS(__builtin_elementwise_fma)
VEC_FN_3(fma_f32, vf32, __builtin_elementwise_fma(a, b, c))
VEC_FN_3(fma_f64, vf64, __builtin_elementwise_fma(a, b, c))
#elif defined(__aarch64__) && !defined(__clang__)
VEC_FN_3(fma_f32, vf32, __builtin_aarch64_fmav4sf(a, b, c))
VEC_FN_3(fma_f64, vf64, __builtin_aarch64_fmav2df(a, b, c))
#else
VEC_FN vf32 fma_f32(vf32 a, vf32 b, vf32 c) {
    vf32 r;
    for (int i = 0; i < LF; i++) r[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return r;
}
VEC_FN vf64 fma_f64(vf64 a, vf64 b, vf64 c) {
    vf64 r;
    for (int i = 0; i < LD; i++) r[i] = __builtin_fma(a[i], b[i], c[i]);
    return r;
}
#endif
#if VEC_HAS(__builtin_elementwise_sqrt)
VEC_FN_1(sqrt_f32, vf32, __builtin_elementwise_sqrt(a))
VEC_FN_1(sqrt_f64, vf64, __builtin_elementwise_sqrt(a))
#else
VEC_LANES_1(sqrt_f32, vf32, LF, __builtin_sqrtf(a[i]))
VEC_LANES_1(sqrt_f64, vf64, LD, __builtin_sqrt(a[i]))
#endif
#if VEC_HAS(__builtin_elementwise_floor) && VEC_HAS(__builtin_elementwise_rint)
VEC_FN_1(floor_f32, vf32, __builtin_elementwise_floor(a))
VEC_FN_1(floor_f64, vf64, __builtin_elementwise_floor(a))
VEC_FN_1(trunc_f32, vf32, __builtin_elementwise_trunc(a))
VEC_FN_1(rint_f32, vf32, __builtin_elementwise_rint(a))
VEC_FN_1(trunc_f64, vf64, __builtin_elementwise_trunc(a))
VEC_FN_1(rint_f64, vf64, __builtin_elementwise_rint(a))
#else
VEC_LANES_1(floor_f32, vf32, LF, __builtin_floorf(a[i]))
VEC_LANES_1(floor_f64, vf64, LD, __builtin_floor(a[i]))
VEC_LANES_1(trunc_f32, vf32, LF, __builtin_truncf(a[i]))
VEC_LANES_1(trunc_f64, vf64, LD, __builtin_trunc(a[i]))
VEC_LANES_1(rint_f32, vf32, LF, __builtin_rintf(a[i]))
VEC_LANES_1(rint_f64, vf64, LD, __builtin_rint(a[i]))
#endif
#endif

/* ---- max, min ------------------------------------------------------------------------------------
 * less_T(a,b) is a < b ? a : b and more_T(a,b) is a > b ? a : b: the second operand when one is NaN or both
 * are zeros; hence less(bound, x) limits x and keeps NaN.
 * min_T, max_T: NaN if either operand is NaN, and -0 < +0 (IEEE 754-2019 minimum and maximum). The union of
 * the bits of less in both orders is the minimum in every case: equal values give themselves, two zeros give
 * -0 unless both are +0, and a NaN's exponent and fraction survive. Maximum is -minimum(-a, -b). */
#define VEC_FN_2(NAME, V, EXPR)                                                                                \
    VEC_FN V NAME(V a, V b) { return (V)EXPR; }
#if VEC_GCC_X86 && VB == 64
VEC_FN_2(less_f32, vf32, __builtin_ia32_minps512_mask(a, b, a, -1, VEC_CURRENT))
VEC_FN_2(less_f64, vf64, __builtin_ia32_minpd512_mask(a, b, a, -1, VEC_CURRENT))
VEC_FN_2(more_f32, vf32, __builtin_ia32_maxps512_mask(a, b, a, -1, VEC_CURRENT))
VEC_FN_2(more_f64, vf64, __builtin_ia32_maxpd512_mask(a, b, a, -1, VEC_CURRENT))
#elif VEC_GCC_X86 && VB == 32
VEC_FN_2(less_f32, vf32, __builtin_ia32_minps256(a, b))
VEC_FN_2(less_f64, vf64, __builtin_ia32_minpd256(a, b))
VEC_FN_2(more_f32, vf32, __builtin_ia32_maxps256(a, b))
VEC_FN_2(more_f64, vf64, __builtin_ia32_maxpd256(a, b))
#else
VEC_FN_2(less_f32, vf32, sel_f32(a < b, a, b))
VEC_FN_2(less_f64, vf64, sel_f64((vi64)(a < b), a, b))
VEC_FN_2(more_f32, vf32, sel_f32(a > b, a, b))
VEC_FN_2(more_f64, vf64, sel_f64((vi64)(a > b), a, b))
#endif
#define VEC_MINMAX_FLOAT(S, V, M)                                                                              \
    VEC_FN V min_##S(V a, V b) { return (V)((M)less_##S(a, b) | (M)less_##S(b, a)); }                          \
    VEC_FN V max_##S(V a, V b) { return neg_##S(min_##S(neg_##S(a), neg_##S(b))); }
VEC_MINMAX_FLOAT(f32, vf32, vi32)
VEC_MINMAX_FLOAT(f64, vf64, vi64)

#define VEC_MINMAX_INT(S, V, M)                                                                                \
    VEC_FN V min_##S(V a, V b) { return sel_##S((M)(a < b), a, b); }                                           \
    VEC_FN V max_##S(V a, V b) { return sel_##S((M)(a > b), a, b); }
VEC_MINMAX_INT(i32, vi32, vi32)
VEC_MINMAX_INT(u32, vu32, vi32)
VEC_MINMAX_INT(i64, vi64, vi64)
VEC_MINMAX_INT(u64, vu64, vi64)

/* The same for one element. */
VEC_FN float fma1_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
VEC_FN double fma1_f64(double a, double b, double c) { return __builtin_fma(a, b, c); }
#define VEC_MINMAX_ONE(S, T)                                                                                   \
    VEC_FN T min1_##S(T a, T b) { return min_##S(set1_##S(a), set1_##S(b))[0]; }                               \
    VEC_FN T max1_##S(T a, T b) { return max_##S(set1_##S(a), set1_##S(b))[0]; }
VEC_MINMAX_ONE(f32, float)
VEC_MINMAX_ONE(f64, double)

/* any_T(m): whether some lane of a mask is set. */
#if VEC_GCC_X86 && VB == 64
VEC_FN int any_i32(vi32 m) { return __builtin_ia32_cvtd2mask512(m) != 0; }
#elif VEC_GCC_X86 && VB == 32
VEC_FN int any_i32(vi32 m) { return __builtin_ia32_movmskps256((vf32)m) != 0; }
#elif VEC_GCC_X86
VEC_FN int any_i32(vi32 m) { return __builtin_ia32_movmskps((vf32)m) != 0; }
#elif VEC_HAS(__builtin_reduce_or)
VEC_FN int any_i32(vi32 m) { return __builtin_reduce_or(m) != 0; }
#else
VEC_FN int any_i32(vi32 m) {
    int32_t some = 0;
    for (int i = 0; i < LF; i++) some |= m[i];
    return some != 0;
}
#endif
VEC_FN int any_i64(vi64 m) { return any_i32((vi32)m); }

/* scale_T(x,n): x 2^n, rounded once, for an integer n and x either in [1/2, 2] or not shrunk; |n| <= 252 in
 * float32, 2044 in float64. Without the instruction the power is taken in two halves, the first product being
 * exact: n + 1.5 2^52 + bias holds the biased exponent in its low bits, which the shift moves into place. */
#if VEC_GCC_X86 && VB == 64
VEC_FN vf32 scale_f32(vf32 x, vf32 n) { return __builtin_ia32_scalefps512_mask(x, n, x, -1, VEC_CURRENT); }
VEC_FN vf64 scale_f64(vf64 x, vf64 n) { return __builtin_ia32_scalefpd512_mask(x, n, x, -1, VEC_CURRENT); }
#else
VEC_FN vf32 scale_f32(vf32 x, vf32 n) {
    vf32 half = rint_f32(n * 0.5f);
    vf32 first = (vf32)((vi32)(half + (0x1.8p23f + 127)) << 23);
    vf32 second = (vf32)((vi32)((n - half) + (0x1.8p23f + 127)) << 23);
    return x * first * second;
}
VEC_FN vf64 scale_f64(vf64 x, vf64 n) {
    vf64 half = rint_f64(n * 0.5);
    vf64 first = (vf64)((vi64)(half + (0x1.8p52 + 1023)) << 52);
    vf64 second = (vf64)((vi64)((n - half) + (0x1.8p52 + 1023)) << 52);
    return x * first * second;
}
#endif

/* ---- halves ------------------------------------------------------------------------------------- */
#if VB == 64
#define VEC_LOW 0, 1, 2, 3, 4, 5, 6, 7
#define VEC_HIGH 8, 9, 10, 11, 12, 13, 14, 15
#elif VB == 32
#define VEC_LOW 0, 1, 2, 3
#define VEC_HIGH 4, 5, 6, 7
#else
#define VEC_LOW 0, 1
#define VEC_HIGH 2, 3
#endif
#define VEC_HALVES(S, V, H)                                                                                    \
    VEC_FN H low_##S(V v) { return __builtin_shufflevector(v, v, VEC_LOW); }                                   \
    VEC_FN H high_##S(V v) { return __builtin_shufflevector(v, v, VEC_HIGH); }                                 \
    VEC_FN V join_##S(H low, H high) { return __builtin_shufflevector(low, high, VEC_LOW, VEC_HIGH); }
VEC_HALVES(f32, vf32, hf32)
VEC_HALVES(i32, vi32, hi32)
VEC_HALVES(u32, vu32, hu32)

/* ---- lanes beside each other ---------------------------------------------------------------------
 * down_T(v, h)        lane i holds lane i + h (modulo the number of lanes); h is a literal
 * zip_low_T, zip_high_T(a, b)   a0 b0 a1 b1 … of the lower, of the upper halves */
#define VEC_DOWN_2(h) (h) % 2, (1 + (h)) % 2
#define VEC_DOWN_4(h) (h) % 4, (1 + (h)) % 4, (2 + (h)) % 4, (3 + (h)) % 4
#define VEC_DOWN_8(h)                                                                                          \
    (h) % 8, (1 + (h)) % 8, (2 + (h)) % 8, (3 + (h)) % 8, (4 + (h)) % 8, (5 + (h)) % 8, (6 + (h)) % 8, (7 + (h)) % 8
#define VEC_DOWN_16(h)                                                                                         \
    (h) % 16, (1 + (h)) % 16, (2 + (h)) % 16, (3 + (h)) % 16, (4 + (h)) % 16, (5 + (h)) % 16, (6 + (h)) % 16,  \
        (7 + (h)) % 16, (8 + (h)) % 16, (9 + (h)) % 16, (10 + (h)) % 16, (11 + (h)) % 16, (12 + (h)) % 16,     \
        (13 + (h)) % 16, (14 + (h)) % 16, (15 + (h)) % 16
#define VEC_ZIP_2(s) s, 2 + s
#define VEC_ZIP_4(s) 2 * s, 4 + 2 * s, 1 + 2 * s, 5 + 2 * s
#define VEC_ZIP_8(s) 4 * s, 8 + 4 * s, 1 + 4 * s, 9 + 4 * s, 2 + 4 * s, 10 + 4 * s, 3 + 4 * s, 11 + 4 * s
#define VEC_ZIP_16(s)                                                                                          \
    8 * s, 16 + 8 * s, 1 + 8 * s, 17 + 8 * s, 2 + 8 * s, 18 + 8 * s, 3 + 8 * s, 19 + 8 * s, 4 + 8 * s,         \
        20 + 8 * s, 5 + 8 * s, 21 + 8 * s, 6 + 8 * s, 22 + 8 * s, 7 + 8 * s, 23 + 8 * s
#if VB == 64
#define VEC_LANES_F(list, x) list##_16(x)
#define VEC_LANES_D(list, x) list##_8(x)
#elif VB == 32
#define VEC_LANES_F(list, x) list##_8(x)
#define VEC_LANES_D(list, x) list##_4(x)
#else
#define VEC_LANES_F(list, x) list##_4(x)
#define VEC_LANES_D(list, x) list##_2(x)
#endif
#define down_f32(v, h) __builtin_shufflevector(v, v, VEC_LANES_F(VEC_DOWN, h))
#define down_f64(v, h) __builtin_shufflevector(v, v, VEC_LANES_D(VEC_DOWN, h))
VEC_FN vf32 zip_low_f32(vf32 a, vf32 b) { return __builtin_shufflevector(a, b, VEC_LANES_F(VEC_ZIP, 0)); }
VEC_FN vf32 zip_high_f32(vf32 a, vf32 b) { return __builtin_shufflevector(a, b, VEC_LANES_F(VEC_ZIP, 1)); }
VEC_FN vf64 zip_low_f64(vf64 a, vf64 b) { return __builtin_shufflevector(a, b, VEC_LANES_D(VEC_ZIP, 0)); }
VEC_FN vf64 zip_high_f64(vf64 a, vf64 b) { return __builtin_shufflevector(a, b, VEC_LANES_D(VEC_ZIP, 1)); }

/* ---- conversions --------------------------------------------------------------------------------
 * cvt_FROM_TO. Float to integer truncates, saturates, and sends NaN to 0. Integer to float and float64 to
 * float32 round to nearest even; integer narrowing keeps the low bits. 4-byte partners of 8-byte lanes are
 * half vectors; wide functions on whole vectors take or give two: low lanes first. */
#define VEC_CONVERT(FROM, TO, A, B)                                                                            \
    VEC_FN B cvt_##FROM##_##TO(A x) { return __builtin_convertvector(x, B); }
VEC_CONVERT(i32, f32, vi32, vf32)
VEC_CONVERT(u32, f32, vu32, vf32)
VEC_CONVERT(i64, f64, vi64, vf64)
#if VEC_GCC_X86 && VB == 64 /* gcc 12 splits these conversions in two */
VEC_FN vf64 cvt_f32_f64(hf32 x) { return __builtin_ia32_cvtps2pd512_mask(x, (vf64){0}, -1, VEC_CURRENT); }
VEC_FN hf32 cvt_f64_f32(vf64 x) { return __builtin_ia32_cvtpd2ps512_mask(x, (hf32){0}, -1, VEC_CURRENT); }
#elif VEC_GCC_X86 && VB == 32
VEC_FN vf64 cvt_f32_f64(hf32 x) { return __builtin_ia32_cvtps2pd256(x); }
VEC_FN hf32 cvt_f64_f32(vf64 x) { return __builtin_ia32_cvtpd2ps256(x); }
#else
VEC_CONVERT(f32, f64, hf32, vf64)
VEC_CONVERT(f64, f32, vf64, hf32)
#endif
VEC_CONVERT(i64, f32, vi64, hf32)
VEC_CONVERT(i64, i32, vi64, hi32)
VEC_CONVERT(i64, u32, vi64, hu32)
#if VEC_GCC_X86 && VB == 32 /* gcc 12 splits these, too */
VEC_FN vi64 cvt_i32_i64(hi32 x) { return (vi64)__builtin_ia32_pmovsxdq256(x); }
VEC_FN vi64 cvt_u32_i64(hu32 x) { return (vi64)__builtin_ia32_pmovzxdq256((hi32)x); }
#else
VEC_CONVERT(i32, i64, hi32, vi64)
VEC_CONVERT(u32, i64, hu32, vi64)
#endif
VEC_CONVERT(i32, f64, hi32, vf64)
#if VEC_GCC_X86 && VB == 64
VEC_FN vf64 cvt_u32_f64(hu32 x) { return __builtin_ia32_cvtudq2pd512_mask((hi32)x, (vf64){0}, -1); }
#else /* the double 2^52 + x holds x in its low bits */
VEC_FN vf64 cvt_u32_f64(hu32 x) { return (vf64)((vu64)cvt_u32_i64(x) | 0x4330000000000000u) - 0x1p52; }
#endif

/* Operands are brought into range first: outside it the hardware's answer differs between targets. Where
 * the largest integer is no float, the clamp stops at the float below and the last select mends it. */
VEC_FN vi32 cvt_f32_i32(vf32 x) {
    vf32 y = (vf32)((vi32)x & (x == x));
    y = sel_f32(y < -0x1p31f, set1_f32(-0x1p31f), y);
    vi32 beyond = x >= 0x1p31f;
    y = sel_f32(beyond, set1_f32(0x1.fffffep30f), y);
    return sel_i32(beyond, set1_i32(INT32_MAX), __builtin_convertvector(y, vi32));
}
VEC_FN vu32 cvt_f32_u32(vf32 x) {
    vf32 y = (vf32)((vi32)x & (x > 0.0f));
    vi32 beyond = x >= 0x1p32f;
    y = sel_f32(beyond, set1_f32(0x1.fffffep31f), y);
    return sel_u32(beyond, set1_u32(UINT32_MAX), __builtin_convertvector(y, vu32));
}
VEC_FN vi64 cvt_f64_i64(vf64 x) {
    vf64 y = (vf64)((vi64)x & (vi64)(x == x));
    y = sel_f64((vi64)(y < -0x1p63), set1_f64(-0x1p63), y);
    vi64 beyond = (vi64)(x >= 0x1p63);
    y = sel_f64(beyond, set1_f64(0x1.fffffffffffffp62), y);
    return sel_i64(beyond, set1_i64(INT64_MAX), __builtin_convertvector(y, vi64));
}
VEC_FN hi32 cvt_f64_i32(vf64 x) {
    vf64 y = (vf64)((vi64)x & (vi64)(x == x));
    y = sel_f64((vi64)(y < -0x1p31), set1_f64(-0x1p31), y);
    y = sel_f64((vi64)(y > 0x1.fffffffcp30), set1_f64(0x1.fffffffcp30), y);
    return __builtin_convertvector(y, hi32);
}
VEC_FN hu32 cvt_f64_u32(vf64 x) {
    vf64 y = (vf64)((vi64)x & (vi64)(x > 0.0));
    y = sel_f64((vi64)(y > 0x1.fffffffep31), set1_f64(0x1.fffffffep31), y);
    return __builtin_convertvector(y, hu32);
}
VEC_FN vi64 cvt_f32_i64(hf32 x) { return cvt_f64_i64(cvt_f32_f64(x)); }

VEC_FN vf64 wide_low_f32(vf32 x) { return cvt_f32_f64(low_f32(x)); }
VEC_FN vf64 wide_high_f32(vf32 x) { return cvt_f32_f64(high_f32(x)); }
VEC_FN vf32 narrow_f64(vf64 low, vf64 high) { return join_f32(cvt_f64_f32(low), cvt_f64_f32(high)); }

/* Half vectors in memory: LD elements of 4 bytes, beside a vf64 or vi64. ldh_ ldhn_ sth_ sthn_ */
#define VEC_HALF_MEMORY(S, T, H)                                                                               \
    typedef T H##_at __attribute__((vector_size(VB / 2), aligned(4), may_alias));                              \
    VEC_FN H ldh_##S(const T *p) { return *(const H##_at *)p; }                                                \
    VEC_FN void sth_##S(T *p, H v) { *(H##_at *)p = v; }                                                       \
    VEC_FN H ldhn_##S(const T *p, int64_t n) {                                                                 \
        H v = {0};                                                                                             \
        __builtin_memcpy(&v, p, (uint64_t)n * 4);                                                              \
        return v;                                                                                              \
    }                                                                                                          \
    VEC_FN void sthn_##S(T *p, H v, int64_t n) { __builtin_memcpy(p, &v, (uint64_t)n * 4); }
VEC_HALF_MEMORY(f32, float, hf32)
VEC_HALF_MEMORY(i32, int32_t, hi32)
VEC_HALF_MEMORY(u32, uint32_t, hu32)

/* ---- bool and bfloat16 in memory: 1 and 2 bytes an element -------------------------------------------
 * A stored bool is 0 or 1; loaded, it is a mask of 4-byte (m32) or 8-byte (m64) lanes. A bfloat16 is the
 * upper half of a float32: loading is exact, storing rounds to nearest even, and every NaN becomes 0x7fc0. */
typedef uint8_t v8m32 __attribute__((vector_size(LF), aligned(1), may_alias));
typedef uint8_t v8m64 __attribute__((vector_size(LD), aligned(1), may_alias));
typedef uint16_t v16f32 __attribute__((vector_size(2 * LF), aligned(2), may_alias));

VEC_FN vi32 ld_m32(const uint8_t *p) { return __builtin_convertvector(*(const v8m32 *)p, vi32) != 0; }
VEC_FN vi64 ld_m64(const uint8_t *p) { return (vi64)(__builtin_convertvector(*(const v8m64 *)p, vi64) != 0); }
VEC_FN void st_m32(uint8_t *p, vi32 m) { *(v8m32 *)p = __builtin_convertvector(m & 1, v8m32); }
VEC_FN void st_m64(uint8_t *p, vi64 m) { *(v8m64 *)p = __builtin_convertvector(m & 1, v8m64); }

VEC_FN vu32 bf16_bits(vf32 x) {
    vu32 bits = (vu32)x;
    vu32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return sel_u32(x == x, rounded, set1_u32(0x7fc0u));
}
VEC_FN vf32 round_bf16(vf32 x) { return (vf32)(bf16_bits(x) << 16); }
VEC_FN vf32 ld_bf16(const uint16_t *p) {
    return (vf32)(__builtin_convertvector(*(const v16f32 *)p, vu32) << 16);
}
VEC_FN void st_bf16(uint16_t *p, vf32 x) { *(v16f32 *)p = __builtin_convertvector(bf16_bits(x), v16f32); }

#define VEC_PARTIAL(S, T, V, L)                                                                                \
    VEC_FN V ldn_##S(const T *p, int64_t n) {                                                                  \
        T lane[L] = {0};                                                                                       \
        __builtin_memcpy(lane, p, (uint64_t)n * sizeof(T));                                                    \
        return ld_##S(lane);                                                                                   \
    }                                                                                                          \
    VEC_FN void stn_##S(T *p, V v, int64_t n) {                                                                \
        T lane[L];                                                                                             \
        st_##S(lane, v);                                                                                       \
        __builtin_memcpy(p, lane, (uint64_t)n * sizeof(T));                                                    \
    }                                                                                                          \
    VEC_FN V ldsn_##S(const T *p, int64_t stride, int64_t n) {                                                 \
        T lane[L] = {0};                                                                                       \
        for (int64_t i = 0; i < n; i++) lane[i] = p[i * stride];                                               \
        return ld_##S(lane);                                                                                   \
    }                                                                                                          \
    VEC_FN void stsn_##S(T *p, int64_t stride, V v, int64_t n) {                                               \
        T lane[L];                                                                                             \
        st_##S(lane, v);                                                                                       \
        for (int64_t i = 0; i < n; i++) p[i * stride] = lane[i];                                               \
    }
VEC_PARTIAL(m32, uint8_t, vi32, LF)
VEC_PARTIAL(m64, uint8_t, vi64, LD)
VEC_PARTIAL(bf16, uint16_t, vf32, LF)

/* ---- widening multiply: the 64-bit product of the low 32 bits of each 64-bit lane, one instruction -- */
VEC_FN vu64 mulwide_u32(vu64 a, vu64 b) {
#if VEC_GCC_X86 && VB == 64
    typedef long long vll __attribute__((vector_size(VB)));
    return (vu64)__builtin_ia32_pmuludq512_mask((vi32)a, (vi32)b, (vll){0}, -1);
#elif VEC_GCC_X86 && VB == 32
    return (vu64)__builtin_ia32_pmuludq256((vi32)a, (vi32)b);
#elif VEC_GCC_X86
    return (vu64)__builtin_ia32_pmuludq128((vi32)a, (vi32)b);
#else
    return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

#endif
