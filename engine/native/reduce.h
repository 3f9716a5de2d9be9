/* Reductions and scans with a fixed order of operations, so that their bits depend on the length alone.
 *
 * The tree of n elements: blocks of 4096; in a block, lane l combines elements l, l + 64, l + 128, … in
 * that order; then lane l takes in lane l + h for h = 32, 16, … 1, where both exist; blocks are combined
 * as a binary counter counts: two neighbours of equal size become one as soon as both are there, and at
 * the end what is left is folded from the last to the first. Lanes without elements are left out; only an
 * empty sum is +0.0 and an empty product 1. max and min yield NaN where there is one and order -0 before
 * +0. bfloat16 works in float32 and rounds once.
 *
 * A scan runs as one chain inside blocks of 1024; each later block then combines the last result of the
 * block before it with its own chain.
 *
 * Layouts in `dims` are those of strided.h, with a rank of at least 1. */
#ifndef GM_REDUCE_H
#define GM_REDUCE_H

#include "strided.h"

enum { GM_TREE_BLOCK = 4096, GM_LANES = 64, GM_SCAN_BLOCK = 1024, GM_NODES = 56 };
enum { GM_ROWS_AHEAD = 8 }; /* whose part of a strip is fetched: steps of a row are not foreseen, and 8 fit a set of L1 */
enum { GM_REDUCE_WORK = 32768, GM_SCAN_WORK = 16384 };

/* One operand's layout: {rank, shape, kind, strides}. */
typedef struct {
    const int64_t *layout, *shape, *strides;
    int64_t rank, kind, size, inner_stride;
} gm_axes;

VEC_FN gm_axes gm_axes_of(const int64_t *layout) {
    gm_axes axes = {.layout = layout, .shape = layout + 1, .rank = layout[0], .size = 1};
    axes.kind = axes.shape[axes.rank];
    axes.strides = axes.shape + axes.rank + 1;
    axes.inner_stride = axes.strides[axes.rank - 1];
    for (int64_t i = 0; i < axes.rank; i++) axes.size *= axes.shape[i];
    return axes;
}

/* ---- reduce ----
 * bufs {out, x}; dims {layout of the axes that stay, layout of the axes reduced, flattened row-major}.
 * out is dense; out[i] reduces the elements x[offset of i among the first + offset of j among the second]. */

typedef struct {
    gm_axes kept, reduced;
    int64_t per_chunk; /* outputs a chunk */
    int by_columns;    /* neighbouring outputs read neighbouring elements: one vector holds several outputs */
} gm_reduction;

VEC_FN gm_reduction gm_reduction_of(const int64_t *dims) {
    gm_reduction r = {.kept = gm_axes_of(dims)};
    r.reduced = gm_axes_of(r.kept.strides + r.kept.rank);
    r.by_columns = r.kept.inner_stride == 1 && r.kept.shape[r.kept.rank - 1] > 1 &&
                   r.reduced.inner_stride != 1 && r.reduced.size > 0;
    int64_t outputs = GM_REDUCE_WORK / (r.reduced.size < 1 ? 1 : r.reduced.size);
    r.per_chunk = (outputs + GM_LANES - 1) / GM_LANES * GM_LANES;
    if (!r.by_columns || r.per_chunk == 0) r.per_chunk = outputs < 1 ? 1 : outputs;
    return r;
}

VEC_FN int64_t gm_reduction_chunks(const int64_t *dims) {
    gm_reduction r = gm_reduction_of(dims);
    return (r.kept.size + r.per_chunk - 1) / r.per_chunk;
}

#define GM_EACH_2(F) F(0) F(1)
#define GM_EACH_4(F) GM_EACH_2(F) F(2) F(3)
#define GM_EACH_8(F) GM_EACH_4(F) F(4) F(5) F(6) F(7)
#define GM_EACH_16(F) GM_EACH_8(F) F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15)
#define GM_EACH_32(F)                                                                                          \
    GM_EACH_16(F) F(16) F(17) F(18) F(19) F(20) F(21) F(22) F(23)                                              \
    F(24) F(25) F(26) F(27) F(28) F(29) F(30) F(31)

/* The 64 lanes as vectors, and the halvings between whole vectors and inside one. */
#define GM_HALVE_2(F) F(0, 1)
#define GM_HALVE_4(F) F(0, 2) F(1, 3) GM_HALVE_2(F)
#define GM_HALVE_8(F) F(0, 4) F(1, 5) F(2, 6) F(3, 7) GM_HALVE_4(F)
#define GM_HALVE_16(F) F(0, 8) F(1, 9) F(2, 10) F(3, 11) F(4, 12) F(5, 13) F(6, 14) F(7, 15) GM_HALVE_8(F)
#define GM_HALVE_32(F)                                                                                         \
    F(0, 16) F(1, 17) F(2, 18) F(3, 19) F(4, 20) F(5, 21) F(6, 22) F(7, 23) F(8, 24) F(9, 25) F(10, 26)        \
    F(11, 27) F(12, 28) F(13, 29) F(14, 30) F(15, 31) GM_HALVE_16(F)
#if VB == 64
#define GM_FOLD_f32(F) F(8) F(4) F(2) F(1)
#define GM_FOLD_f64(F) F(4) F(2) F(1)
#define GM_VECTORS_f32(M) M##_4
#define GM_VECTORS_f64(M) M##_8
#elif VB == 32
#define GM_FOLD_f32(F) F(4) F(2) F(1)
#define GM_FOLD_f64(F) F(2) F(1)
#define GM_VECTORS_f32(M) M##_8
#define GM_VECTORS_f64(M) M##_16
#else
#define GM_FOLD_f32(F) F(2) F(1)
#define GM_FOLD_f64(F) F(1)
#define GM_VECTORS_f32(M) M##_16
#define GM_VECTORS_f64(M) M##_32
#endif

#define GM_UNROLL _Pragma("GCC unroll 4")

enum { GM_SUM, GM_PROD, GM_MAX, GM_MIN };

#define GM_PASTE_(x, s) x##_##s
#define GM_PASTE(x, s) GM_PASTE_(x, s)

#define GM_T float
#define GM_S f32
#define GM_B 4
#define GM_W float
#define GM_WS f32
#define GM_V vf32
#define GM_L LF
#define GM_MINUS_ZERO -0.0f
#define GM_ONE 1
#define GM_MINUS_INFINITY -__builtin_inff()
#define GM_INFINITY __builtin_inff()
#include "reduce_tree.h"

#define GM_T double
#define GM_S f64
#define GM_B 8
#define GM_W double
#define GM_WS f64
#define GM_V vf64
#define GM_L LD
#define GM_MINUS_ZERO -0.0
#define GM_ONE 1
#define GM_MINUS_INFINITY -__builtin_inf()
#define GM_INFINITY __builtin_inf()
#include "reduce_tree.h"

#define GM_T uint16_t
#define GM_S bf16
#define GM_B 2
#define GM_W float
#define GM_WS f32
#define GM_V vf32
#define GM_L LF
#define GM_MINUS_ZERO 0x8000
#define GM_ONE 0x3f80
#define GM_MINUS_INFINITY 0xff80
#define GM_INFINITY 0x7f80
#include "reduce_tree.h"

/* Integers and bools, where any order gives the same: one pass in row-major order. STOP ends it early. */
#define GM_EXACT_REDUCE(KIND, S, T, START, EXPR, STOP)                                                         \
    VEC_FN void gm_chunk_##KIND##_##S(void **bufs, const int64_t *dims, int64_t chunk) {                       \
        gm_reduction r = gm_reduction_of(dims);                                                                \
        int64_t first = chunk * r.per_chunk, last = gm_end(r.kept.size, r.per_chunk, chunk);                   \
        for (int64_t i = first; i < last; i++) {                                                               \
            const T *x = (const T *)bufs[1] + gm_find(r.kept.rank, r.kept.shape, r.kept.strides, i).offset;    \
            int64_t row = r.reduced.shape[r.reduced.rank - 1], rows = row ? r.reduced.size / row : 0;          \
            T a = START;                                                                                       \
            gm_place at = {{0}, 0};                                                                            \
            for (int64_t j = 0; j < rows; j++) {                                                               \
                for (int64_t k = 0; k < row && !(STOP); k++) {                                                 \
                    T b = x[at.offset + k * r.reduced.inner_stride];                                           \
                    a = EXPR;                                                                                  \
                }                                                                                              \
                gm_advance(&at, r.reduced.rank, r.reduced.shape, r.reduced.strides, row);                      \
            }                                                                                                  \
            ((T *)bufs[0])[i] = a;                                                                             \
        }                                                                                                      \
    }
GM_EXACT_REDUCE(sum, i64, int64_t, 0, a + b, 0)
GM_EXACT_REDUCE(prod, i64, int64_t, 1, a * b, 0)
#define GM_EXACT_EXTREMES(S, T, LEAST, GREATEST)                                                               \
    GM_EXACT_REDUCE(max, S, T, LEAST, a > b ? a : b, 0)                                                        \
    GM_EXACT_REDUCE(min, S, T, GREATEST, a < b ? a : b, 0)
GM_EXACT_EXTREMES(i32, int32_t, INT32_MIN, INT32_MAX)
GM_EXACT_EXTREMES(u32, uint32_t, 0, UINT32_MAX)
GM_EXACT_EXTREMES(i64, int64_t, INT64_MIN, INT64_MAX)
GM_EXACT_REDUCE(any, b8, uint8_t, 0, a | b, a)
GM_EXACT_REDUCE(all, b8, uint8_t, 1, a & b, !a)

/* ---- argreduce: dims as for reduce; out int64 ----
 * The first position of the largest or smallest; of a NaN where there is one. Zeros of either sign are
 * equal. */
#define GM_ARGREDUCE(KIND, S, T, W, READ, BETTER)                                                              \
    VEC_FN void gm_chunk_arg##KIND##_##S(void **bufs, const int64_t *dims, int64_t chunk) {                    \
        gm_reduction r = gm_reduction_of(dims);                                                                \
        int64_t first = chunk * r.per_chunk, last = gm_end(r.kept.size, r.per_chunk, chunk);                   \
        for (int64_t i = first; i < last; i++) {                                                               \
            const T *x = (const T *)bufs[1] + gm_find(r.kept.rank, r.kept.shape, r.kept.strides, i).offset;    \
            int64_t best = 0, row = r.reduced.shape[r.reduced.rank - 1];                                       \
            W a = READ(x[0]);                                                                                  \
            gm_place at = {{0}, 0};                                                                            \
            for (int64_t j = 0; j < r.reduced.size; j += row) {                                                \
                for (int64_t k = 0; k < row && a == a; k++) {                                                  \
                    W b = READ(x[at.offset + k * r.reduced.inner_stride]);                                     \
                    if (b BETTER a || b != b) a = b, best = j + k;                                             \
                }                                                                                              \
                gm_advance(&at, r.reduced.rank, r.reduced.shape, r.reduced.strides, row);                      \
            }                                                                                                  \
            ((int64_t *)bufs[0])[i] = best;                                                                    \
        }                                                                                                      \
    }
#define GM_AS_IS(x) (x)
#define GM_WIDEN(x) ld1_bf16(&(x))
VEC_FN float ld1_bf16(const uint16_t *p) { return ldn_bf16(p, 1)[0]; }
#define GM_ARGREDUCES(S, T, W, READ)                                                                           \
    GM_ARGREDUCE(max, S, T, W, READ, >)                                                                        \
    GM_ARGREDUCE(min, S, T, W, READ, <)
GM_ARGREDUCES(f32, float, float, GM_AS_IS)
GM_ARGREDUCES(f64, double, double, GM_AS_IS)
GM_ARGREDUCES(bf16, uint16_t, float, GM_WIDEN)
GM_ARGREDUCES(i32, int32_t, int32_t, GM_AS_IS)
GM_ARGREDUCES(u32, uint32_t, uint32_t, GM_AS_IS)
GM_ARGREDUCES(i64, int64_t, int64_t, GM_AS_IS)

/* ---- scan ----
 * bufs {out, x}; dims {n, stride of x, stride of out, layout of the other axes with two operands: x, out}.
 * A reverse scan has negative strides and pointers at the last element. */
VEC_FN int64_t gm_scan_rows_a_chunk(const int64_t *dims) {
    int64_t rows = dims[0] < GM_SCAN_WORK ? GM_SCAN_WORK / (dims[0] < 1 ? 1 : dims[0]) : 1;
    int along_rows = dims[1] == 1 || dims[1] == -1;
    return along_rows ? rows : (rows + GM_LANES - 1) / GM_LANES * GM_LANES;
}

VEC_FN int64_t gm_scan_rows(const int64_t *dims) {
    int64_t rows = 1;
    for (int64_t i = 0; i < dims[3]; i++) rows *= dims[4 + i];
    return rows;
}

VEC_FN int64_t gm_scan_chunk_count(const int64_t *dims) {
    int64_t a_chunk = gm_scan_rows_a_chunk(dims);
    return dims[0] == 0 ? 0 : (gm_scan_rows(dims) + a_chunk - 1) / a_chunk;
}

/* One scan: WIDE neighbouring columns from x, or a single row where a and b are no vectors. */
#define GM_SCAN_CHAINS(NAME, T, W, WIDE, READ, WRITE, EXPR)                                                    \
    VEC_FN void NAME(T *out, const T *x, int64_t n, int64_t out_stride, int64_t x_stride) {                    \
        W carry[WIDE] = {0}, chain[WIDE] = {0};                                                                \
        for (int64_t j = 0; j < n; j++, x += x_stride, out += out_stride) {                                    \
            int first = j % GM_SCAN_BLOCK == 0, last = j % GM_SCAN_BLOCK == GM_SCAN_BLOCK - 1;                 \
            GM_UNROLL for (int c = 0; c < WIDE; c++) {                                                         \
                W a = chain[c], b = READ(x, c);                                                                \
                chain[c] = first ? b : (EXPR);                                                                 \
                a = carry[c], b = chain[c];                                                                    \
                W result = j < GM_SCAN_BLOCK ? b : (EXPR);                                                     \
                WRITE(out, c, result);                                                                         \
                if (last) carry[c] = result;                                                                   \
            }                                                                                                  \
        }                                                                                                      \
    }

/* STRIP scans `wide` neighbouring columns at once where the layouts have them, ROW one row. */
#define GM_SCAN_CHUNK(KIND, S, T, wide, STRIP, ROW)                                                            \
    VEC_FN void gm_chunk_scan_##KIND##_##S(void **bufs, const int64_t *dims, int64_t chunk) {                  \
        const int64_t n = dims[0], x_stride = dims[1], out_stride = dims[2], rank = dims[3];                   \
        const int64_t *shape = dims + 4, *x_strides = shape + rank + 1, *out_strides = x_strides + rank + 1;   \
        int64_t a_chunk = gm_scan_rows_a_chunk(dims), last = gm_end(gm_scan_rows(dims), a_chunk, chunk);       \
        int side_by_side = x_strides[rank - 1] == 1 && out_strides[rank - 1] == 1;                             \
        int64_t columns = side_by_side ? shape[rank - 1] : 1;                                                  \
        for (int64_t i = chunk * a_chunk, count = 1; i < last; i += count) {                                   \
            const T *x = (const T *)bufs[1] + gm_find(rank, shape, x_strides, i).offset;                       \
            T *out = (T *)bufs[0] + gm_find(rank, shape, out_strides, i).offset;                               \
            count = i % columns + wide <= columns && i + wide <= last ? wide : 1;                              \
            if (count == 1) ROW(out, x, n, out_stride, x_stride);                                              \
            else STRIP(out, x, n, out_stride, x_stride);                                                       \
        }                                                                                                      \
    }

#define GM_SCAN_NARROW(KIND, S, T, W, READ, WRITE, EXPR)                                                       \
    GM_SCAN_CHAINS(gm_scan_row_##KIND##_##S, T, W, 1, READ, WRITE, EXPR)                                       \
    GM_SCAN_CHUNK(KIND, S, T, 1, gm_scan_row_##KIND##_##S, gm_scan_row_##KIND##_##S)
#define GM_SCAN_WIDE(KIND, S, T, V, L, READ, WRITE, EXPR, ROW_EXPR)                                            \
    GM_SCAN_CHAINS(gm_scan_strip_##KIND##_##S, T, V, 4, READ, WRITE, EXPR)                                     \
    GM_SCAN_CHAINS(gm_scan_row_##KIND##_##S, T, T, 1, GM_READ, GM_WRITE, ROW_EXPR)                             \
    GM_SCAN_CHUNK(KIND, S, T, 4 * L, gm_scan_strip_##KIND##_##S, gm_scan_row_##KIND##_##S)

#define GM_READ(p, c) (*(p))
#define GM_WRITE(p, c, v) (*(p) = (v))
#define GM_READ_f32(p, c) ld_f32(p + c * LF)
#define GM_WRITE_f32(p, c, v) st_f32(p + c * LF, v)
#define GM_READ_f64(p, c) ld_f64(p + c * LD)
#define GM_WRITE_f64(p, c, v) st_f64(p + c * LD, v)
#define GM_READ_bf16(p, c) GM_WIDEN(*(p))
#define GM_WRITE_bf16(p, c, v) stn_bf16(p, set1_f32(v), 1)
#define GM_SCANS_WIDE(S, T, V, L)                                                                              \
    GM_SCAN_WIDE(sum, S, T, V, L, GM_READ_##S, GM_WRITE_##S, a + b, a + b)                                     \
    GM_SCAN_WIDE(prod, S, T, V, L, GM_READ_##S, GM_WRITE_##S, a *b, a *b)                                      \
    GM_SCAN_WIDE(max, S, T, V, L, GM_READ_##S, GM_WRITE_##S, max_##S(a, b), max1_##S(a, b))
#define GM_SCANS_NARROW(S, T, W, READ, WRITE, MAX)                                                             \
    GM_SCAN_NARROW(sum, S, T, W, READ, WRITE, a + b)                                                           \
    GM_SCAN_NARROW(prod, S, T, W, READ, WRITE, a *b)                                                           \
    GM_SCAN_NARROW(max, S, T, W, READ, WRITE, MAX)
GM_SCANS_WIDE(f32, float, vf32, LF)
GM_SCANS_WIDE(f64, double, vf64, LD)
GM_SCANS_NARROW(bf16, uint16_t, float, GM_READ_bf16, GM_WRITE_bf16, max1_f32(a, b))
GM_SCANS_NARROW(i64, int64_t, int64_t, GM_READ, GM_WRITE, a > b ? a : b)
GM_SCAN_NARROW(max, i32, int32_t, int32_t, GM_READ, GM_WRITE, a > b ? a : b)
GM_SCAN_NARROW(max, u32, uint32_t, uint32_t, GM_READ, GM_WRITE, a > b ? a : b)

#endif
