/* Walks over strided arrays: how kernels that run along a flat, dense result read operands of any layout.
 *
 * A layout in `dims` is: rank (at most GM_MAX_RANK), shape, then for each operand its kind and its strides in
 * elements. The host collapses axes first, so ranks are small and rows long. */
#ifndef GM_STRIDED_H
#define GM_STRIDED_H

#include "vec.h"

enum { GM_MAX_RANK = 8, GM_BLOCK = 1024 };
enum { GM_LONG_ROW = 4096 }; /* bytes from which memcpy knows better */
/* Dense: element i of the result reads element i. Repeated: every block reads what the first block reads, so it is
 * staged once. The host sees to it that blocks are whole numbers of periods. */
enum { GM_DENSE = 0, GM_REPEATED = 1, GM_STRIDED = 2 };

#define GM_NOWHERE INT64_MIN /* the offset of a position that reads zero and writes nothing */

typedef struct {
    int64_t index[GM_MAX_RANK];
    int64_t offset; /* of the element at `index` */
} gm_place;

/* Element `start`, in row-major order, of an array of that shape and strides. */
VEC_FN gm_place gm_find(int64_t rank, const int64_t *shape, const int64_t *strides, int64_t start) {
    gm_place at = {{0}, 0};
    for (int64_t axis = rank - 1; axis >= 0 && start > 0; axis--) {
        at.index[axis] = start % shape[axis];
        start /= shape[axis];
        at.offset += at.index[axis] * strides[axis];
    }
    return at;
}

/* Moves on by `count` elements, which stay in the row or end it. */
VEC_FN void gm_advance(gm_place *at, int64_t rank, const int64_t *shape, const int64_t *strides, int64_t count) {
    int64_t axis = rank - 1;
    at->index[axis] += count;
    at->offset += count * strides[axis];
    while (axis > 0 && at->index[axis] == shape[axis]) {
        at->offset += strides[axis - 1] - shape[axis] * strides[axis];
        at->index[axis] = 0;
        at->index[--axis]++;
    }
}

/* gm_row_B(d, ds, s, ss, n)   copies n elements of B bytes, from stride ss to stride ds
 * gm_stage_B(base, layout, operand, first, start, n, scratch)
 *     n elements of an operand from flat position `start`, next to each other: in place where they are so
 *     already, else copied to scratch. `first` is where this chunk began: what is repeated is copied there only. */
#define GM_ACCESS(B, T, V, LANES, AT)                                                                          \
    VEC_FN void gm_row_##B(T *d, int64_t ds, const T *s, int64_t ss, int64_t n) {                              \
        if (ds == 1 && ss == 1 && n * B >= GM_LONG_ROW) {                                                      \
            __builtin_memcpy(d, s, (uint64_t)n * B);                                                           \
        } else if (ds == 1 && ss == 1 && n >= LANES) {                                                         \
            for (int64_t i = 0; i + LANES < n; i += LANES) *(AT *)(d + i) = *(const AT *)(s + i);              \
            *(AT *)(d + n - LANES) = *(const AT *)(s + n - LANES);                                             \
        } else if (ds == 1 && ss == 0 && n >= LANES) {                                                         \
            V v = *s - (V){0};                                                                                 \
            for (int64_t i = 0; i + LANES < n; i += LANES) *(AT *)(d + i) = v;                                 \
            *(AT *)(d + n - LANES) = v;                                                                        \
        } else {                                                                                               \
            for (int64_t i = 0; i < n; i++) d[i * ds] = s[i * ss];                                             \
        }                                                                                                      \
    }                                                                                                          \
    static __attribute__((noinline, unused)) const T *gm_stage_##B(                                            \
        const T *base, const int64_t *layout, int64_t operand, int64_t first, int64_t start, int64_t n,        \
        T *scratch) {                                                                                          \
        int64_t rank = layout[0];                                                                              \
        const int64_t *shape = layout + 1, *kind = shape + rank + operand * (rank + 1), *strides = kind + 1;   \
        if (*kind == GM_DENSE) return base + start;                                                            \
        if (*kind == GM_REPEATED && start != first) return scratch;                                            \
        gm_place at = gm_find(rank, shape, strides, start);                                                    \
        int64_t row = shape[rank - 1], stride = strides[rank - 1];                                             \
        if (*kind == GM_STRIDED && stride == 1 && row - at.index[rank - 1] >= n) return base + at.offset;      \
        for (int64_t done = 0; done < n;) {                                                                    \
            int64_t count = row - at.index[rank - 1];                                                          \
            if (count > n - done) count = n - done;                                                            \
            gm_row_##B(scratch + done, 1, base + at.offset, stride, count);                                    \
            gm_advance(&at, rank, shape, strides, count);                                                      \
            done += count;                                                                                     \
        }                                                                                                      \
        return scratch;                                                                                        \
    }

/* Elements are moved as bits, whatever their type. */
typedef uint8_t gm_1 __attribute__((may_alias));
typedef uint16_t gm_2 __attribute__((may_alias));
typedef uint32_t gm_4 __attribute__((may_alias));
typedef uint64_t gm_8 __attribute__((may_alias));
typedef uint8_t gm_v1 __attribute__((vector_size(VB)));
typedef uint16_t gm_v2 __attribute__((vector_size(VB)));
typedef uint8_t gm_v1_at __attribute__((vector_size(VB), aligned(1), may_alias));
typedef uint16_t gm_v2_at __attribute__((vector_size(VB), aligned(2), may_alias));
GM_ACCESS(1, gm_1, gm_v1, VB, gm_v1_at)
GM_ACCESS(2, gm_2, gm_v2, VB / 2, gm_v2_at)
GM_ACCESS(4, gm_4, vu32, LF, vu32_at)
GM_ACCESS(8, gm_8, vu64, LD, vu64_at)

/* Where chunk `chunk` of `n` elements ends, chunks being `size` long. */
VEC_FN int64_t gm_end(int64_t n, int64_t size, int64_t chunk) {
    return (chunk + 1) * size < n ? (chunk + 1) * size : n;
}

#endif
