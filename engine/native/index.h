/* Indices of gather and scatter, brought into range and turned into offsets, and the scatter itself. */
#ifndef GM_INDEX_H
#define GM_INDEX_H

#include "strided.h"

enum { GM_CLAMP = 0, GM_WRAP = 1, GM_ZERO = 2, GM_MIRROR = 3, GM_CHECKED = 4 };
enum { GM_I32 = 0, GM_U32 = 1, GM_I64 = 2 };

/* -1 for an index that reads and writes nothing. Mirrored indices run 0 1 2 2 1 0 0 1 … */
static inline int64_t gm_in_range(int64_t i, int64_t size, int64_t mode) {
    if (i >= 0 && i < size) return i;
    if (size == 0 || mode == GM_ZERO || mode == GM_CHECKED) return -1;
    if (mode == GM_CLAMP) return i < 0 ? 0 : size - 1;
    int64_t period = mode == GM_MIRROR ? 2 * size : size, within = i % period;
    if (within < 0) within += period;
    return within < size ? within : period - 1 - within;
}

/* bufs {offsets, errors, index 0, index 1, …}
 * dims {positions, chunk size, indices, mode, then for each index: element type, axis size, stride; layout}
 * offsets[p] = sum of index times stride, or GM_NOWHERE; errors[chunk] = the chunk's first position with an index
 * out of range, or -1. */
void gm_offsets(void **bufs, const int64_t *dims, int64_t chunk) {
    const int64_t indices = dims[2], mode = dims[3], *layout = dims + 4 + 3 * indices;
    int64_t *offsets = bufs[0], first = chunk * dims[1], end = gm_end(dims[0], dims[1], chunk), error = -1;
    gm_8 scratch[GM_BLOCK];
    for (int64_t i = first; i < end; i += GM_BLOCK) {
        const int64_t n = end - i < GM_BLOCK ? end - i : GM_BLOCK;
        for (int64_t k = 0; k < indices; k++) {
            const int64_t type = dims[4 + 3 * k], size = dims[5 + 3 * k], stride = dims[6 + 3 * k];
            const void *p = type == GM_I64 ? (const void *)gm_stage_8(bufs[2 + k], layout, k, i, i, n, scratch)
                                           : gm_stage_4(bufs[2 + k], layout, k, i, i, n, (gm_4 *)scratch);
            for (int64_t j = 0; j < n; j++) {
                int64_t raw = type == GM_I64 ? (int64_t)((const gm_8 *)p)[j]
                              : type == GM_I32 ? (int32_t)((const gm_4 *)p)[j]
                                               : (int64_t)((const gm_4 *)p)[j];
                int64_t index = gm_in_range(raw, size, mode);
                int64_t before = k == 0 ? 0 : offsets[i + j];
                offsets[i + j] = index < 0 || before == GM_NOWHERE ? GM_NOWHERE : before + index * stride;
            }
        }
        for (int64_t j = 0; error < 0 && j < n; j++)
            if (offsets[i + j] == GM_NOWHERE) error = i + j;
    }
    ((int64_t *)bufs[1])[chunk] = error;
}

/* GM_SCATTER(GM_AS_type, vector expression, scalar expression of old a and new b) defines the kernel `scatter`:
 * out[offset + c] = expression(out[offset + c], values[p, c]) for each position p in order.
 * bufs {out, values, offsets}
 * dims {positions, row length, columns a tile, tiles along a row, offsets a tile}
 * A chunk owns a tile of the destination, some columns of some rows, and walks all positions: per destination the
 * order is that of the positions, and no two chunks write the same element. */
#define GM_AS_u8 uint8_t, gm_v1, VB, u8
#define GM_AS_u16 uint16_t, gm_v2, VB / 2, u16
#define GM_AS_u32 uint32_t, vu32, LF, u32
#define GM_AS_u64 uint64_t, vu64, LD, u64
#define GM_AS_f32 float, vf32, LF, f32
#define GM_AS_f64 double, vf64, LD, f64
#define GM_AS_i32 int32_t, vi32, LF, i32
#define GM_AS_i64 int64_t, vi64, LD, i64
#define GM_SCATTER(...) GM_SCATTER_OF(__VA_ARGS__)
#define GM_SCATTER_OF(T, V, LANES, S, VECTOR, SCALAR)                                                          \
    void scatter(void **bufs, const int64_t *dims, int64_t chunk) {                                            \
        const int64_t length = dims[1], from = chunk % dims[3] * dims[2], low = chunk / dims[3] * dims[4];     \
        const int64_t to = from + dims[2] < length ? from + dims[2] : length, *offsets = bufs[2];              \
        for (int64_t p = 0; p < dims[0]; p++) {                                                                \
            if (offsets[p] < low || offsets[p] >= low + dims[4]) continue;                                     \
            T *out = (T *)bufs[0] + offsets[p];                                                                \
            const T *values = (const T *)bufs[1] + p * length;                                                 \
            int64_t c = from;                                                                                  \
            for (; c + LANES <= to; c += LANES) {                                                              \
                V a = ld_##S(out + c), b = ld_##S(values + c);                                                 \
                st_##S(out + c, VECTOR);                                                                       \
            }                                                                                                  \
            for (; c < to; c++) {                                                                              \
                T a = out[c], b = values[c];                                                                   \
                out[c] = SCALAR;                                                                               \
            }                                                                                                  \
        }                                                                                                      \
    }

VEC_FN gm_v1 ld_u8(const uint8_t *p) { return *(const gm_v1_at *)p; }
VEC_FN void st_u8(uint8_t *p, gm_v1 v) { *(gm_v1_at *)p = v; }
VEC_FN gm_v2 ld_u16(const uint16_t *p) { return *(const gm_v2_at *)p; }
VEC_FN void st_u16(uint16_t *p, gm_v2 v) { *(gm_v2_at *)p = v; }

#endif
