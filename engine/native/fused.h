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

#endif
