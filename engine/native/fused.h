/* What printed fused kernels use beside the op table's text: partial vectors and the fixed tree of reduce.h, taken
 * apart so that the elements combined are computed on the way. */
#ifndef GM_FUSED_H
#define GM_FUSED_H

#include "elementwise.h"
#include "kmath.h"
#include "reduce.h"

/* head_T(v, m, rest): the first m lanes of v, `rest` in the others. */
VEC_FN vf32 head_f32(vf32 v, int64_t m, float rest) {
    vi32 lane;
    for (int i = 0; i < LF; i++) lane[i] = i;
    return sel_f32(lane < (int32_t)m, v, set1_f32(rest));
}
VEC_FN vf64 head_f64(vf64 v, int64_t m, double rest) {
    vi64 lane;
    for (int i = 0; i < LD; i++) lane[i] = i;
    return sel_f64((vi64)(lane < m), v, set1_f64(rest));
}

/* fold_T(op, lanes): the 64 lanes of a block, halved down to one, in every lane of the result.
 * A counter holds the results of blocks: count_T adds block number `block`, total_T folds what is left. */
#define GM_TREE_PARTS(S, V, T, L, FOLD)                                                                        \
    typedef struct {                                                                                           \
        V node[GM_NODES];                                                                                      \
        int64_t count;                                                                                         \
    } gm_counter_##S;                                                                                          \
    VEC_FN V fold_##S(int op, V *lane) {                                                                       \
        for (int half = GM_LANES / L / 2; half > 0; half /= 2)                                                 \
            for (int i = 0; i < half; i++) lane[i] = gm_combine_##S(op, lane[i], lane[i + half]);              \
        V v = lane[0];                                                                                         \
        FOLD(GM_FOLD_STEP_##S)                                                                                 \
        return set1_##S(v[0]);                                                                                 \
    }                                                                                                          \
    VEC_FN void count_##S(int op, gm_counter_##S *counter, int64_t block, V v) {                               \
        for (; block & 1; block >>= 1) v = gm_combine_##S(op, counter->node[--counter->count], v);             \
        counter->node[counter->count++] = v;                                                                   \
    }                                                                                                          \
    VEC_FN V total_##S(int op, const gm_counter_##S *counter) {                                                \
        V v = counter->node[counter->count - 1];                                                               \
        for (int64_t i = counter->count - 1; i > 0; i--) v = gm_combine_##S(op, counter->node[i - 1], v);      \
        return v;                                                                                              \
    }
#define GM_FOLD_STEP_f32(h) v = gm_combine_f32(op, v, down_f32(v, h));
#define GM_FOLD_STEP_f64(h) v = gm_combine_f64(op, v, down_f64(v, h));
GM_TREE_PARTS(f32, vf32, float, LF, GM_FOLD_f32)
GM_TREE_PARTS(f64, vf64, double, LD, GM_FOLD_f64)

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
