/* dot: out[…, m, n] = Σ_k a[…, m, k] · b[…, k, n], each output defined bit for bit whatever the blocking,
 * packing, layout or number of threads:
 *
 *   total = +0.0
 *   for each panel of 384 consecutive k (the last may be shorter), in order:
 *       chain = +0.0;  for k of the panel, increasing: chain = fma(a[m, k], b[k, n], chain)
 *       total = total + chain
 *   out = total
 *
 * K = 0 gives +0.0, and a chain that ends in -0.0 gives +0.0, also where there is one panel only. bfloat16
 * is the same in float32, rounded once at the end; integers wrap.
 *
 * One chunk is one block of the output, or several whole small products; it packs what it needs, so chunks
 * share nothing. `dims` of the kernels is a gm_dot, `bufs` is {out, a, b}; out is contiguous. */
#ifndef GM_GEMM_H
#define GM_GEMM_H

#include "vec.h"

enum { GM_PANEL = 384, GM_MAX_BATCH = 6 };

/* Strides count elements and may be anything, 0 and negative included. All fields are int64_t: an array of
 * them in this order is a gm_dot. */
typedef struct {
    int64_t m, n, k;
    int64_t a_row, a_col; /* of a along m and along k */
    int64_t b_row, b_col; /* of b along k and along n */
    int64_t batch_rank;
    int64_t batch[GM_MAX_BATCH], a_batch[GM_MAX_BATCH], b_batch[GM_MAX_BATCH];
    int64_t whole_rows; /* whether an epilogue needs whole rows of the output */
} gm_dot;

/* An epilogue works on rows [r0, r1) and columns [c0, c1) of the output, all products' rows counted as one,
 * as soon as they are complete. Its buffers follow those of the product, its dims the gm_dot. */
typedef void (*gm_rows)(void **bufs, const int64_t *dims, int64_t chunk, int64_t r0, int64_t r1, int64_t c0,
                        int64_t c1);
typedef struct {
    gm_rows run;
    void **bufs;
    const int64_t *dims;
    int64_t chunk, row, column; /* where the block begins in the output */
} gm_epilogue;

/* ---- tile shapes: rows x vectors of accumulators that fit the registers beside the operands ---- */

#define GM_COLUMNS_1(i, F) F(i, 0)
#define GM_COLUMNS_2(i, F) GM_COLUMNS_1(i, F) F(i, 1)
#define GM_COLUMNS_3(i, F) GM_COLUMNS_2(i, F) F(i, 2)
#define GM_COLUMNS_4(i, F) GM_COLUMNS_3(i, F) F(i, 3)
#define GM_COLUMNS_6(i, F) GM_COLUMNS_4(i, F) F(i, 4) F(i, 5)
#define GM_COLUMNS_8(i, F) GM_COLUMNS_6(i, F) F(i, 6) F(i, 7)

#define GM_ROWS_1(C, F) C(0, F)
#define GM_ROWS_2(C, F) GM_ROWS_1(C, F) C(1, F)
#define GM_ROWS_3(C, F) GM_ROWS_2(C, F) C(2, F)
#define GM_ROWS_4(C, F) GM_ROWS_3(C, F) C(3, F)
#define GM_ROWS_5(C, F) GM_ROWS_4(C, F) C(4, F)
#define GM_ROWS_6(C, F) GM_ROWS_5(C, F) C(5, F)
#define GM_ROWS_7(C, F) GM_ROWS_6(C, F) C(6, F)
#define GM_ROWS_8(C, F) GM_ROWS_7(C, F) C(7, F)
#define GM_ROWS_9(C, F) GM_ROWS_8(C, F) C(8, F)
#define GM_ROWS_10(C, F) GM_ROWS_9(C, F) C(9, F)
#define GM_ROWS_11(C, F) GM_ROWS_10(C, F) C(10, F)
#define GM_ROWS_12(C, F) GM_ROWS_11(C, F) C(11, F)
#define GM_ROWS_13(C, F) GM_ROWS_12(C, F) C(12, F)
#define GM_ROWS_14(C, F) GM_ROWS_13(C, F) C(13, F)

/* Tiles that turn b: the first so many rows, one vector each. */
#define GM_EVERY_TURNED_4(F) F(1) F(2) F(3) F(4)
#define GM_EVERY_TURNED_8(F) GM_EVERY_TURNED_4(F) F(5) F(6) F(7) F(8)

#define GM_TILES_6(F, C) F(1, C) F(2, C) F(3, C) F(4, C) F(5, C) F(6, C)
#define GM_TILES_8(F, C) GM_TILES_6(F, C) F(7, C) F(8, C)
#define GM_TILES_14(F, C) GM_TILES_8(F, C) F(9, C) F(10, C) F(11, C) F(12, C) F(13, C) F(14, C)

/* GM_THIN_VECTORS: tiles of 1, 2, 3 and 4 rows that stream b in long rows. */
#if VB == 64
enum { GM_ROWS = 14, GM_VECTORS = 2 };
#define GM_EVERY_TILE(F) GM_TILES_14(F, 1) GM_TILES_14(F, 2) F(1, 8) F(2, 8) F(3, 6) F(4, 6)
#define GM_THIN_VECTORS 8, 8, 6, 6
#define GM_EVERY_TURNED GM_EVERY_TURNED_8
enum { GM_TURNED = 8 };
#elif VB == 32
enum { GM_ROWS = 6, GM_VECTORS = 2 };
#define GM_EVERY_TILE(F) GM_TILES_6(F, 1) GM_TILES_6(F, 2) F(1, 8) F(2, 6) F(3, 4) F(4, 3)
#define GM_THIN_VECTORS 8, 6, 4, 3
#define GM_EVERY_TURNED GM_EVERY_TURNED_4
enum { GM_TURNED = 4 };
#else
enum { GM_ROWS = 8, GM_VECTORS = 3 };
#define GM_EVERY_TILE(F) GM_TILES_8(F, 1) GM_TILES_8(F, 2) GM_TILES_8(F, 3) F(1, 8) F(2, 8) F(3, 6) F(4, 6)
#define GM_THIN_VECTORS 8, 8, 6, 6
#define GM_EVERY_TURNED GM_EVERY_TURNED_8
enum { GM_TURNED = 8 };
#endif
enum { GM_THIN = 4, GM_WIDEST = 8 };

/* Packed b of a block stays in the second-level cache: columns of a block times 4 bytes. A copied row of a
 * is longer than a panel, so that rows do not lie pages apart; a copied column of a tile has room for whole vectors. */
enum { GM_SLAB_BYTES = 1024, GM_STRIP_ROW = GM_PANEL + 16, GM_STRIP_COLUMN = (GM_ROWS + 7) / 8 * 8 };
enum { GM_STRIPS = 3 }; /* tiles whose columns are copied together */

/* Element i of a tile's column of a: three pointers and four strides reach all rows. */
#define GM_A_0 a[0]
#define GM_A_1 a[a_row]
#define GM_A_2 a[a_row2]
#define GM_A_3 a[a_row3]
#define GM_A_4 a[a_row4]
#define GM_A_5 a_fifth[0]
#define GM_A_6 a_fifth[a_row]
#define GM_A_7 a_fifth[a_row2]
#define GM_A_8 a_fifth[a_row3]
#define GM_A_9 a_fifth[a_row4]
#define GM_A_10 a_tenth[0]
#define GM_A_11 a_tenth[a_row]
#define GM_A_12 a_tenth[a_row2]
#define GM_A_13 a_tenth[a_row3]

/* GM_LIST: 0 … L-1. GM_TURN: the interleavings that transpose L vectors of L lanes, from names a… to e… */
#define GM_LIST_2(F) F(0) F(1)
#define GM_LIST_4(F) GM_LIST_2(F) F(2) F(3)
#define GM_LIST_8(F) GM_LIST_4(F) F(4) F(5) F(6) F(7)
#define GM_LIST_16(F) GM_LIST_8(F) F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15)
#define GM_ZIPS_2(F, s, t) F(s, t, 0, 1, 0, 1)
#define GM_ZIPS_4(F, s, t) F(s, t, 0, 2, 0, 1) F(s, t, 1, 3, 2, 3)
#define GM_ZIPS_8(F, s, t) F(s, t, 0, 4, 0, 1) F(s, t, 1, 5, 2, 3) F(s, t, 2, 6, 4, 5) F(s, t, 3, 7, 6, 7)
#define GM_ZIPS_16(F, s, t)                                                                                    \
    F(s, t, 0, 8, 0, 1) F(s, t, 1, 9, 2, 3) F(s, t, 2, 10, 4, 5) F(s, t, 3, 11, 6, 7)                          \
    F(s, t, 4, 12, 8, 9) F(s, t, 5, 13, 10, 11) F(s, t, 6, 14, 12, 13) F(s, t, 7, 15, 14, 15)
#define GM_TURN_2(F) GM_ZIPS_2(F, a, e)
#define GM_TURN_4(F) GM_ZIPS_4(F, a, b) GM_ZIPS_4(F, b, e)
#define GM_TURN_8(F) GM_ZIPS_8(F, a, b) GM_ZIPS_8(F, b, c) GM_ZIPS_8(F, c, e)
#define GM_TURN_16(F) GM_ZIPS_16(F, a, b) GM_ZIPS_16(F, b, c) GM_ZIPS_16(F, c, d) GM_ZIPS_16(F, d, e)

static inline int64_t gm_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t gm_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t gm_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Vectors of the next tile, for a block of `rows` rows with `columns` columns left. Only the last can be
 * partial. */
static inline int64_t gm_tile_vectors(int64_t rows, int64_t columns, int64_t lanes) {
    static const int8_t thin[GM_THIN + 1] = {0, GM_THIN_VECTORS};
    if (rows <= GM_THIN && columns >= thin[rows] * lanes) return thin[rows];
    return gm_min(GM_VECTORS, gm_ceil_div(columns, lanes));
}

/* Where a tile begins in a block of `rows` rows: `tiles` tiles are as high as can be alike, the first ones higher. */
static inline int64_t gm_tile_row(int64_t rows, int64_t tiles, int64_t tile) {
    return tile * (rows / tiles) + gm_min(tile, rows % tiles);
}

/* ---- how the work is cut: from sizes only ---- */

/* Higher tiles read b less often, so that more of it may lie in the second-level cache, and fewer of them pay for
 * packing. Both were measured. */
enum { GM_PAGE = 4096, GM_CACHE = VB == 64 ? 1 << 20 : 1 << 17, GM_FEW_TILES = 12 };

/* Whether tiles read b where it is. Its rows must be contiguous; packing pays where many rows use it again
 * and it is too big for its cache, or its rows are pages apart, so that they share few cache sets. */
static inline int gm_b_in_place(const gm_dot *d, int64_t rows, int64_t size) {
    if (d->b_col != 1 || rows <= 2 * GM_ROWS) return d->b_col == 1;
    return d->b_row * size % GM_PAGE != 0 && (d->m <= GM_FEW_TILES * GM_ROWS || d->n * d->k * size <= GM_CACHE);
}

/* Whether tiles turn b in registers: k runs along its memory, and the few rows read it once anyway. */
static inline int gm_is_turned(const gm_dot *d, int64_t rows) {
    return d->b_row == 1 && d->b_col != 1 && rows <= GM_TURNED;
}

/* Whether a tile's part of a is copied, where enough tiles use it: because its rows are pages apart, or because it
 * lies along columns. Then each step of k reads another line of a besides one of b; small tiles are done before both
 * have come from the second-level cache. */
static inline int gm_a_copied(const gm_dot *d, int64_t columns, int64_t size) {
    if (d->m <= GM_THIN || columns <= 64) return 0;
    if (d->a_col == 1) return d->a_row != 0 && d->a_row * size % GM_PAGE == 0;
    return VB < 64 && d->a_row == 1 && d->k > 64;
}

/* The product as it is computed: one with a single column is turned into one with a single row. */
static inline const gm_dot *gm_oriented(const gm_dot *d, gm_dot *turned) {
    if (d->n != 1 || d->m == 1) return d;
    *turned = (gm_dot){1, d->m, d->k, d->b_col, d->b_row, d->a_col, d->a_row, d->batch_rank, {0}, {0}, {0}, 0};
    for (int64_t i = 0; i < d->batch_rank; i++) {
        turned->batch[i] = d->batch[i];
        turned->a_batch[i] = d->b_batch[i];
        turned->b_batch[i] = d->a_batch[i];
    }
    return turned;
}

enum { GM_CHUNK_WORK = 1 << 19, GM_MANY_CHUNKS = 32, GM_CHUNK_COLUMNS = 128, GM_LEAST_COLUMNS = 64 };
/* Least rows of a chunk, in tiles; more where each chunk packs b for itself. */
enum { GM_CHUNK_TILES = 3, GM_PACKING_TILES = VB == 64 ? 16 : 32 };

typedef struct {
    int64_t batches, row_chunks, column_chunks; /* products in all, and the cuts of each */
    int64_t per_chunk;                          /* whole products in a chunk, where none is cut */
} gm_cut;

/* Where chunks are few, a power of two of them: two or four threads finish together. */
static inline int64_t gm_few_chunks(int64_t chunks) {
    return chunks < 4 ? gm_min(chunks, 2) : chunks < 8 ? 4 : chunks;
}

static inline gm_cut gm_cut_of(const gm_dot *d, int64_t size) {
    gm_cut cut = {1, 1, 1, 1};
    for (int64_t i = 0; i < d->batch_rank; i++) cut.batches *= d->batch[i];
    int64_t work = d->m * d->n * gm_max(d->k, 1);
    if (work <= GM_CHUNK_WORK / 2) {
        cut.per_chunk = GM_CHUNK_WORK / 2 / gm_max(work, 1);
        return cut;
    }
    int64_t wanted = gm_min(gm_max(gm_ceil_div(work, GM_CHUNK_WORK), 2), GM_MANY_CHUNKS);
    int64_t tiles = gm_b_in_place(d, d->m, size) ? GM_CHUNK_TILES : GM_PACKING_TILES;
    cut.row_chunks = gm_few_chunks(gm_min(wanted, gm_ceil_div(d->m, tiles * GM_ROWS)));
    if (cut.row_chunks == 1 && d->m > GM_ROWS && d->b_col == 1) cut.row_chunks = 2; /* so a thread keeps its rows */
    if (!d->whole_rows) {
        int64_t columns = gm_min(gm_ceil_div(wanted, cut.row_chunks), gm_ceil_div(d->n, GM_CHUNK_COLUMNS));
        cut.column_chunks = gm_few_chunks(cut.row_chunks * columns) / cut.row_chunks;
    }
    if (cut.row_chunks * cut.column_chunks == 1 && !d->whole_rows && d->n >= 2 * GM_LEAST_COLUMNS)
        cut.column_chunks = 2;
    return cut;
}

/* Number of chunks of a product of elements of `size` bytes; 0 when it has none. */
static inline int64_t gm_dot_chunk_count(const gm_dot *d, int64_t size) {
    gm_dot turned;
    gm_cut cut = gm_cut_of(gm_oriented(d, &turned), size);
    if (cut.batches * d->m * d->n == 0) return 0;
    return gm_ceil_div(cut.batches, cut.per_chunk) * cut.row_chunks * cut.column_chunks;
}

/* Offsets of product number `index` in a and b. */
static inline void gm_batch_offsets(const gm_dot *d, int64_t index, int64_t *a, int64_t *b) {
    *a = *b = 0;
    for (int64_t i = d->batch_rank; i-- > 0; index /= d->batch[i]) {
        *a += index % d->batch[i] * d->a_batch[i];
        *b += index % d->batch[i] * d->b_batch[i];
    }
}

/* Where rows are cut: few of them evenly, many at whole tiles. */
static inline int64_t gm_row_grain(int64_t rows) { return rows > 4 * GM_ROWS ? GM_ROWS : 1; }

/* Part `index` of `size` cut in `parts` at multiples of `grain`: its start and its length, which may be 0. */
static inline int64_t gm_part(int64_t size, int64_t parts, int64_t grain, int64_t index, int64_t *length) {
    int64_t grains = gm_ceil_div(size, grain);
    int64_t start = gm_min(grains * index / parts * grain, size);
    *length = gm_min(grains * (index + 1) / parts * grain, size) - start;
    return start;
}

#define GM_PASTE_(x, s) x##_##s
#define GM_PASTE(x, s) GM_PASTE_(x, s)

#define GM_T float
#define GM_S f32
#define GM_TAG f32
#define GM_V vf32
#define GM_L LF
#define GM_LANES_OF VEC_LANES_F
#include "gemm_tile.h"

#define GM_T double
#define GM_S f64
#define GM_TAG f64
#define GM_V vf64
#define GM_L LD
#define GM_LANES_OF VEC_LANES_D
#include "gemm_tile.h"

/* ---- bfloat16 and integers: correct, and as fast as plain loops are ---- */

/* Rows of the output are the chunks. */
static inline int64_t gm_row_chunk_count(const gm_dot *d, int64_t size) {
    (void)size;
    int64_t rows = d->m;
    for (int64_t i = 0; i < d->batch_rank; i++) rows *= d->batch[i];
    return d->n == 0 ? 0 : rows;
}

static inline void gm_chunk_bf16(void **bufs, const int64_t *dims, int64_t chunk) {
    const gm_dot *d = (const gm_dot *)dims;
    int64_t a_offset, b_offset;
    gm_batch_offsets(d, chunk / d->m, &a_offset, &b_offset);
    uint16_t *out = (uint16_t *)bufs[0] + chunk * d->n;
    const uint16_t *a = (const uint16_t *)bufs[1] + a_offset + chunk % d->m * d->a_row;
    const uint16_t *b = (const uint16_t *)bufs[2] + b_offset;
    for (int64_t j = 0; j < d->n; j += LF) {
        int64_t lanes = gm_min(LF, d->n - j);
        vf32 total = {0};
        for (int64_t k0 = 0; k0 < d->k; k0 += GM_PANEL) {
            vf32 chain = {0};
            for (int64_t k = k0; k < gm_min(k0 + GM_PANEL, d->k); k++)
                chain = fma_f32(ldsn_bf16(a + k * d->a_col, 0, LF),
                                ldsn_bf16(b + k * d->b_row + j * d->b_col, d->b_col, lanes), chain);
            total = total + chain;
        }
        stn_bf16(out + j, total, lanes);
    }
}

#define GM_INTEGER_DOT(S, T)                                                                                   \
    static inline void gm_chunk_##S(void **bufs, const int64_t *dims, int64_t chunk) {                         \
        const gm_dot *d = (const gm_dot *)dims;                                                                \
        int64_t a_offset, b_offset;                                                                            \
        gm_batch_offsets(d, chunk / d->m, &a_offset, &b_offset);                                               \
        T *out = (T *)bufs[0] + chunk * d->n;                                                                  \
        const T *a = (const T *)bufs[1] + a_offset + chunk % d->m * d->a_row;                                  \
        const T *b = (const T *)bufs[2] + b_offset;                                                            \
        for (int64_t j = 0; j < d->n; j++) out[j] = 0;                                                         \
        for (int64_t k = 0; k < d->k; k++)                                                                     \
            for (int64_t j = 0; j < d->n; j++) out[j] += a[k * d->a_col] * b[k * d->b_row + j * d->b_col];     \
    }
GM_INTEGER_DOT(i32, uint32_t)
GM_INTEGER_DOT(u32, uint32_t)
GM_INTEGER_DOT(i64, uint64_t)

#endif
