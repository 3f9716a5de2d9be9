/* What printed fused kernels use beside the op table's text: partial vectors and the fixed tree of reduce.h, taken
 * apart so that the elements combined are computed on the way. */
#ifndef GM_FUSED_H
#define GM_FUSED_H

#include "elementwise.h"
#include "kmath.h"
#include "random.h"
#include "reduce.h"

/* Products and kernels that work on a block of them: see gemm.h. */
typedef void (*gm_rows)(void **bufs, const int64_t *d, int64_t chunk, int64_t r0, int64_t r1, int64_t c0,
                        int64_t c1);
typedef void (*gm_fused_dot)(void **bufs, const int64_t *d, int64_t chunk, gm_rows rows);
typedef void (*gm_products)(void **bufs, const int64_t *d, int64_t first, int64_t end);

/* What only the parts of a chain read lies on the stack, unit u at the same place as all others. `place` is
 * {offset in `own`, bytes a unit or 0: in a buffer of its own}; parts count from unit 0. */
enum { GM_OWN_BYTES = 1 << 18 };
VEC_FN void *gm_own(char *own, void *buffer, const int64_t *place, int64_t u) {
    return place[1] == 0 ? buffer : (void *)((uintptr_t)own + (uintptr_t)(place[0] - u * place[1]));
}

enum { GM_STREAM = 1 << 21 }; /* elements: results of as many are of no use in a cache */

/* head_T(v, m, rest): the first m lanes of v, `rest` in the others. */
static const int32_t gm_lane_numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static const int64_t gm_wide_numbers[8] = {0, 1, 2, 3, 4, 5, 6, 7};
VEC_FN vf32 head_f32(vf32 v, int64_t m, float rest) {
    return sel_f32(ld_i32(gm_lane_numbers) < (int32_t)m, v, set1_f32(rest));
}
VEC_FN vf64 head_f64(vf64 v, int64_t m, double rest) {
    return sel_f64((vi64)(ld_i64(gm_wide_numbers) < m), v, set1_f64(rest));
}

/* The 64 lanes of a tree are vectors in registers, named a0, a1, a2 …: a compiler keeps no array there.
 *   GM_EACH_T(F)          F(0) F(1) …, a line for each vector
 *   GM_START_T(a, x)      declares them, x in every lane
 *   GM_TAKE_T(op, a, k, v)  takes v into vector number k
 *   fold_T(op, GM_LIST_T(a))  the lanes halved down to one, in every lane of the result
 * A counter holds the results of blocks: count_T adds block number `block`, total_T folds what is left. */
#define GM_LIST_4(a) a##0, a##1, a##2, a##3
#define GM_LIST_8(a) GM_LIST_4(a), a##4, a##5, a##6, a##7
#define GM_LIST_16(a) GM_LIST_8(a), a##8, a##9, a##10, a##11, a##12, a##13, a##14, a##15
#define GM_LIST_32(a)                                                                                          \
    GM_LIST_16(a), a##16, a##17, a##18, a##19, a##20, a##21, a##22, a##23, a##24, a##25, a##26, a##27, a##28,  \
        a##29, a##30, a##31
#define GM_START_4(a, x) a##0 = x, a##1 = x, a##2 = x, a##3 = x
#define GM_START_8(a, x) GM_START_4(a, x), a##4 = x, a##5 = x, a##6 = x, a##7 = x
#define GM_START_16(a, x)                                                                                      \
    GM_START_8(a, x), a##8 = x, a##9 = x, a##10 = x, a##11 = x, a##12 = x, a##13 = x, a##14 = x, a##15 = x
#define GM_START_32(a, x)                                                                                      \
    GM_START_16(a, x), a##16 = x, a##17 = x, a##18 = x, a##19 = x, a##20 = x, a##21 = x, a##22 = x, a##23 = x, \
        a##24 = x, a##25 = x, a##26 = x, a##27 = x, a##28 = x, a##29 = x, a##30 = x, a##31 = x
#define GM_TAKE_1(S, op, a, k, v, i)                                                                           \
    if (k == i) a##i = gm_combine_##S(op, a##i, v);
#define GM_TAKE_2(S, op, a, k, v, i, j) GM_TAKE_1(S, op, a, k, v, i) GM_TAKE_1(S, op, a, k, v, j)
#define GM_TAKE_4(S, op, a, k, v) GM_TAKE_2(S, op, a, k, v, 0, 1) GM_TAKE_2(S, op, a, k, v, 2, 3)
#define GM_TAKE_8(S, op, a, k, v)                                                                              \
    GM_TAKE_4(S, op, a, k, v) GM_TAKE_2(S, op, a, k, v, 4, 5) GM_TAKE_2(S, op, a, k, v, 6, 7)
#define GM_TAKE_16(S, op, a, k, v)                                                                             \
    GM_TAKE_8(S, op, a, k, v)                                                                                  \
    GM_TAKE_2(S, op, a, k, v, 8, 9)                                                                            \
    GM_TAKE_2(S, op, a, k, v, 10, 11) GM_TAKE_2(S, op, a, k, v, 12, 13) GM_TAKE_2(S, op, a, k, v, 14, 15)
#define GM_TAKE_32(S, op, a, k, v)                                                                             \
    GM_TAKE_16(S, op, a, k, v)                                                                                 \
    GM_TAKE_2(S, op, a, k, v, 16, 17)                                                                          \
    GM_TAKE_2(S, op, a, k, v, 18, 19) GM_TAKE_2(S, op, a, k, v, 20, 21) GM_TAKE_2(S, op, a, k, v, 22, 23)      \
    GM_TAKE_2(S, op, a, k, v, 24, 25) GM_TAKE_2(S, op, a, k, v, 26, 27) GM_TAKE_2(S, op, a, k, v, 28, 29)      \
    GM_TAKE_2(S, op, a, k, v, 30, 31)
/* Where a step has two vectors of 8-byte lanes, GM_AT(a, GM_PART0_##i) and GM_AT(a, GM_PART1_##i) are those of step
 * number i, a literal; gm_left is how many of the `lanes` elements from `at` on are among the first m. */
#define GM_AT_(a, k) a##k
#define GM_AT(a, k) GM_AT_(a, k)
#define GM_PART0_0 0
#define GM_PART1_0 1
#define GM_PART0_1 2
#define GM_PART1_1 3
#define GM_PART0_2 4
#define GM_PART1_2 5
#define GM_PART0_3 6
#define GM_PART1_3 7
#define GM_PART0_4 8
#define GM_PART1_4 9
#define GM_PART0_5 10
#define GM_PART1_5 11
#define GM_PART0_6 12
#define GM_PART1_6 13
#define GM_PART0_7 14
#define GM_PART1_7 15
#define GM_PART0_8 16
#define GM_PART1_8 17
#define GM_PART0_9 18
#define GM_PART1_9 19
#define GM_PART0_10 20
#define GM_PART1_10 21
#define GM_PART0_11 22
#define GM_PART1_11 23
#define GM_PART0_12 24
#define GM_PART1_12 25
#define GM_PART0_13 26
#define GM_PART1_13 27
#define GM_PART0_14 28
#define GM_PART1_14 29
#define GM_PART0_15 30
#define GM_PART1_15 31
VEC_FN int64_t gm_left(int64_t m, int64_t at, int64_t lanes) {
    return m <= at ? 0 : m - at < lanes ? m - at : lanes;
}

/* gm_count_T(from, step): from, from + step, from + 2 step … */
VEC_FN vi64 gm_count_i64(int64_t from, int64_t step) { return ld_i64(gm_wide_numbers) * step + from; }
VEC_FN vf64 gm_count_f64(int64_t from, int64_t step) { return cvt_i64_f64(gm_count_i64(from, step)); }
VEC_FN vi32 gm_count_i32(int64_t from, int64_t step) {
    return ld_i32(gm_lane_numbers) * (int32_t)step + (int32_t)from;
}
VEC_FN vu32 gm_count_u32(int64_t from, int64_t step) { return (vu32)gm_count_i32(from, step); }
VEC_FN vf32 gm_count_f32(int64_t from, int64_t step) { return cvt_u32_f32(gm_count_u32(from, step)); }

/* gm_row(i, rows): the row that i picks, brought into range. gm_turns(n, most): of a loop that is to take n. */
VEC_FN int64_t gm_row(int64_t i, int64_t rows) { return i < 0 ? 0 : i < rows ? i : rows - 1; }
VEC_FN int64_t gm_turns(int64_t n, int64_t most) { return n < 0 ? 0 : n < most ? n : most; }
VEC_FN int32_t gm_left_i32(int64_t m) { return m < 64 ? (int32_t)m : 64; }
VEC_FN int64_t gm_left_i64(int64_t m) { return m; }

#define GM_EACH_f32(F) GM_VECTORS_f32(GM_EACH)(F)
#define GM_EACH_f64(F) GM_VECTORS_f64(GM_EACH)(F)
#define GM_LIST_f32(a) GM_VECTORS_f32(GM_LIST)(a)
#define GM_LIST_f64(a) GM_VECTORS_f64(GM_LIST)(a)
#define GM_START_f32(a, x) vf32 GM_VECTORS_f32(GM_START)(a, set1_f32(x))
#define GM_START_f64(a, x) vf64 GM_VECTORS_f64(GM_START)(a, set1_f64(x))
#define GM_TAKE_f32(op, a, k, v) GM_VECTORS_f32(GM_TAKE)(f32, op, a, k, v)
#define GM_TAKE_f64(op, a, k, v) GM_VECTORS_f64(GM_TAKE)(f64, op, a, k, v)

#define GM_LANE_f32(i) , vf32 v##i
#define GM_LANE_f64(i) , vf64 v##i
#define GM_ITEM(i) , a[i]
#define GM_HALVE_f32(i, j) v##i = gm_combine_f32(op, v##i, v##j);
#define GM_HALVE_f64(i, j) v##i = gm_combine_f64(op, v##i, v##j);
#define GM_FOLD_STEP_f32(h) v0 = gm_combine_f32(op, v0, down_f32(v0, h));
#define GM_FOLD_STEP_f64(h) v0 = gm_combine_f64(op, v0, down_f64(v0, h));
#define GM_TREE_PARTS(S, V)                                                                                    \
    typedef struct {                                                                                           \
        V node[GM_NODES];                                                                                      \
        int64_t count;                                                                                         \
    } gm_counter_##S;                                                                                          \
    VEC_FN V fold_##S(int op GM_EACH_##S(GM_LANE_##S)) {                                                       \
        GM_VECTORS_##S(GM_HALVE)(GM_HALVE_##S) GM_FOLD_##S(GM_FOLD_STEP_##S) return set1_##S(v0[0]);           \
    }                                                                                                          \
    VEC_FN V gm_fold_##S(int op, const V *a) { return fold_##S(op GM_EACH_##S(GM_ITEM)); }                     \
    VEC_FN void count_##S(int op, gm_counter_##S *counter, int64_t block, V v) {                               \
        if (block == 0) counter->count = 0;                                                                    \
        for (; block & 1; block >>= 1) v = gm_combine_##S(op, counter->node[--counter->count], v);             \
        counter->node[counter->count++] = v;                                                                   \
    }                                                                                                          \
    VEC_FN V total_##S(int op, const gm_counter_##S *counter) {                                                \
        V v = counter->node[counter->count - 1];                                                               \
        for (int64_t i = counter->count - 1; i > 0; i--) v = gm_combine_##S(op, counter->node[i - 1], v);      \
        return v;                                                                                              \
    }
#define GM_TOTAL(S, T, V)                                                                                      \
    VEC_FN void gm_total_##S(int op, const T *blocks, int64_t n, T *out) {                                     \
        gm_counter_##S counter;                                                                                \
        for (int64_t b = 0; b * GM_TREE_BLOCK < n; b++) count_##S(op, &counter, b, set1_##S(blocks[b]));       \
        T empty = op == GM_SUM ? 0 : gm_neutral_##S(op);                                                       \
        *out = n ? total_##S(op, &counter)[0] : empty;                                                         \
    }
GM_TREE_PARTS(f32, vf32)
GM_TREE_PARTS(f64, vf64)
GM_TOTAL(f32, float, vf32)
GM_TOTAL(f64, double, vf64)

/* ldw_T(p, stride, j, low, high, fill): elements j, j + 1 … of a row that is in memory from `low` to before `high`
 * only; the others are `fill`. */
#define GM_WINDOW(S, T, V, L)                                                                                  \
    VEC_FN V ldw_##S(const T *p, int64_t stride, int64_t j, int64_t low, int64_t high, V fill) {               \
        if (j >= low && j + L <= high) return stride == 1 ? ld_##S(p + j) : ldsn_##S(p + j * stride, stride, L); \
        if (j + L <= low || j >= high) return fill;                                                            \
        T lane[L];                                                                                             \
        st_##S(lane, fill);                                                                                    \
        for (int64_t i = 0; i < L; i++)                                                                        \
            if (j + i >= low && j + i < high) lane[i] = p[(j + i) * stride];                                   \
        return ld_##S(lane);                                                                                   \
    }
GM_WINDOW(f32, float, vf32, LF)
GM_WINDOW(i32, int32_t, vi32, LF)
GM_WINDOW(u32, uint32_t, vu32, LF)
GM_WINDOW(m32, uint8_t, vi32, LF)
GM_WINDOW(f64, double, vf64, LD)
GM_WINDOW(i64, int64_t, vi64, LD)
GM_WINDOW(m64, uint8_t, vi64, LD)

/* Reductions over rows, collected by lanes: row r of a block goes to lane r mod 64.
 * gm_collect_T takes a vector of a row into its lane's row, whose first it may be. gm_finish_T combines what all
 * lanes of all blocks have collected, for 64 columns from c0 on: lanes[block][lane][n] to out[n]. */
#define GM_COLLECT(S, T, V, L)                                                                                 \
    VEC_FN void gm_collect_##S(int op, int first, T *p, V v) {                                                 \
        st_##S(p, first ? v : gm_combine_##S(op, ld_##S(p), v));                                               \
    }                                                                                                          \
    VEC_FN void gm_collectn_##S(int op, int first, T *p, V v, int64_t m) {                                     \
        stn_##S(p, first ? v : gm_combine_##S(op, ldn_##S(p, m), v), m);                                       \
    }                                                                                                          \
    VEC_FN void gm_finish_##S(int op, const T *lanes, int64_t rows, int64_t n, int64_t c0, T *out) {           \
        const int64_t width = rows < GM_LANES ? rows : GM_LANES, end = c0 + 64 < n ? c0 + 64 : n;              \
        for (int64_t c = c0; c < end; c += L) {                                                                \
            const int64_t m = end - c;                                                                         \
            V node[GM_NODES], lane[GM_LANES], total = set1_##S(op == GM_SUM ? 0 : gm_neutral_##S(op));         \
            int64_t count = 0;                                                                                 \
            for (int64_t block = 0; block * GM_TREE_BLOCK < rows; block++) {                                   \
                const int64_t left = rows - block * GM_TREE_BLOCK, have = left < width ? left : width;         \
                const T *p = lanes + block * width * n + c;                                                    \
                for (int64_t i = 0; i < have; i++) lane[i] = m >= L ? ld_##S(p + i * n) : ldn_##S(p + i * n, m); \
                for (int64_t h = GM_LANES / 2; h > 0; h /= 2)                                                  \
                    for (int64_t i = 0; i < h && i + h < have; i++)                                            \
                        lane[i] = gm_combine_##S(op, lane[i], lane[i + h]);                                    \
                total = lane[0];                                                                               \
                for (int64_t bits = block; bits & 1; bits >>= 1)                                               \
                    total = gm_combine_##S(op, node[--count], total);                                          \
                node[count++] = total;                                                                         \
            }                                                                                                  \
            for (int64_t i = count - 1; i > 0; i--) total = gm_combine_##S(op, node[i - 1], total);            \
            if (m >= L) st_##S(out + c, total);                                                                \
            else stn_##S(out + c, total, m);                                                                   \
        }                                                                                                      \
    }
GM_COLLECT(f32, float, vf32, LF)
GM_COLLECT(f64, double, vf64, LD)

#endif
