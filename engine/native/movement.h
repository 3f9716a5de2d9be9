/* Kernels that move elements, by element size: copies between layouts, blocked transposes, gathers, iota. */
#ifndef GM_MOVEMENT_H
#define GM_MOVEMENT_H

#include "strided.h"

enum { GM_TILE = 32 };

/* gm_copy_B       bufs {to, from}, dims {elements, chunk size, layout of two operands: from, to}
 * gm_transpose_B  bufs {to, from}; the last axis of `to` has stride 1, the one before it stride 1 in `from`.
 *                 dims {strips in all, strips a chunk, columns j, rows i, to's stride of i, from's of j,
 *                       layout of the outer axes}; a strip is GM_TILE rows of one outer index
 * gm_gather_B     bufs {out, x, offsets}, dims {positions, chunk size, row length, x's stride in a row};
 *                 an offset GM_NOWHERE gives a row of zeros */

#define GM_MOVEMENT(B)                                                                                         \
    void gm_copy_##B(void **bufs, const int64_t *dims, int64_t chunk) {                                        \
        const int64_t *layout = dims + 2, rank = layout[0], *shape = layout + 1;                               \
        const int64_t *from = shape + rank + 1, *to = from + rank + 1;                                         \
        int64_t i = chunk * dims[1], end = gm_end(dims[0], dims[1], chunk), last = rank - 1;                   \
        gm_place source = gm_find(rank, shape, from, i), target = gm_find(rank, shape, to, i);                 \
        while (i < end) {                                                                                      \
            int64_t count = shape[last] - source.index[last];                                                  \
            if (count > end - i) count = end - i;                                                              \
            gm_row_##B((gm_##B *)bufs[0] + target.offset, to[last], (gm_##B *)bufs[1] + source.offset,         \
                       from[last], count);                                                                     \
            gm_advance(&source, rank, shape, from, count);                                                     \
            gm_advance(&target, rank, shape, to, count);                                                       \
            i += count;                                                                                        \
        }                                                                                                      \
    }                                                                                                          \
    static void gm_strip_##B(gm_##B *to, const gm_##B *from, int64_t rows, int64_t columns, int64_t to_row,    \
                             int64_t from_column) {                                                            \
        for (int64_t j0 = 0; j0 < columns; j0 += GM_TILE) {                                                    \
            int64_t j1 = j0 + GM_TILE < columns ? j0 + GM_TILE : columns;                                      \
            for (int64_t i = 0; i < rows; i++) {                                                               \
                gm_##B *d = to + i * to_row;                                                                   \
                const gm_##B *s = from + i + j0 * from_column;                                                 \
                for (int64_t j = j0; j < j1; j++, s += from_column) d[j] = *s;                                 \
            }                                                                                                  \
        }                                                                                                      \
    }                                                                                                          \
    void gm_transpose_##B(void **bufs, const int64_t *dims, int64_t chunk) {                                   \
        const int64_t columns = dims[2], rows = dims[3], strips = (rows + GM_TILE - 1) / GM_TILE;              \
        const int64_t *layout = dims + 6, rank = layout[0], *shape = layout + 1;                               \
        const int64_t *from = shape + rank + 1, *to = from + rank + 1;                                         \
        for (int64_t u = chunk * dims[1]; u < gm_end(dims[0], dims[1], chunk); u++) {                          \
            int64_t i = u % strips * GM_TILE, outer = u / strips;                                              \
            gm_strip_##B((gm_##B *)bufs[0] + gm_find(rank, shape, to, outer).offset + i * dims[4],             \
                         (gm_##B *)bufs[1] + gm_find(rank, shape, from, outer).offset + i,                     \
                         rows - i < GM_TILE ? rows - i : GM_TILE, columns, dims[4], dims[5]);                  \
        }                                                                                                      \
    }                                                                                                          \
    void gm_gather_##B(void **bufs, const int64_t *dims, int64_t chunk) {                                      \
        const int64_t *offsets = bufs[2], length = dims[2], stride = dims[3];                                  \
        const gm_##B *x = bufs[1], zero = 0;                                                                   \
        for (int64_t i = chunk * dims[1]; i < gm_end(dims[0], dims[1], chunk); i++) {                          \
            gm_##B *row = (gm_##B *)bufs[0] + i * length;                                                      \
            if (length == 1) *row = offsets[i] == GM_NOWHERE ? 0 : x[offsets[i]];                              \
            else if (offsets[i] == GM_NOWHERE) gm_row_##B(row, 1, &zero, 0, length);                           \
            else gm_row_##B(row, 1, x + offsets[i], stride, length);                                           \
        }                                                                                                      \
    }
GM_MOVEMENT(1)
GM_MOVEMENT(2)
GM_MOVEMENT(4)
GM_MOVEMENT(8)

/* bufs {out}, dims {elements}: 0, 1, 2, … */
#define GM_IOTA(S, T)                                                                                          \
    void gm_iota_##S(void **bufs, const int64_t *dims, int64_t chunk) {                                        \
        for (int64_t i = 0; i < dims[0]; i++) ((T *)bufs[0])[i] = (T)i;                                        \
    }
GM_IOTA(i32, int32_t)
GM_IOTA(u32, uint32_t)
GM_IOTA(i64, int64_t)
GM_IOTA(f32, float)
GM_IOTA(f64, double)

#endif
