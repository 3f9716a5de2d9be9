/* Matrix product for one element type, included by gemm.h with
 *   GM_T  element type    GM_S  its suffix in vec.h    GM_V  its vector type    GM_L  lanes of that vector
 *
 * A tile is up to GM_ROWS rows by up to GM_VECTORS vectors of the output, held in registers while k runs through a
 * panel; thin products (at most GM_THIN rows) use wider tiles, so that b is streamed once in long pieces. The rows of
 * a that a tile needs are packed k-major; b is read in place where its rows are contiguous, else packed in slabs as
 * wide as a tile. */

#define GM_NAME(x) GM_PASTE(x, GM_S)

/* ---- the tiles ---- */

typedef void GM_NAME(gm_tile)(int64_t k, const GM_T *a, const GM_T *b, int64_t b_row, GM_T *c, int64_t c_row,
                              int64_t columns, int first);

#ifndef GM_TILE
#define GM_ZERO(i, j) GM_V c##i##_##j = {0};
#define GM_LOAD(i, j) GM_V b##j = GM_NAME(ld)(b + j * GM_L);
#define GM_FMA(i, j) c##i##_##j = GM_NAME(fma)(GM_NAME(set1)(a[i]), b##j, c##i##_##j);
#define GM_SPILL(i, j) GM_NAME(st)(part + (i * width + j * GM_L), c##i##_##j);
#define GM_START(i, j) GM_NAME(st)(c + i * c_row + j * GM_L, c##i##_##j + (GM_V){0});
#define GM_ADD(i, j) GM_NAME(st)(c + i * c_row + j * GM_L, GM_NAME(ld)(c + i * c_row + j * GM_L) + c##i##_##j);

#define GM_TILE(R, C)                                                                                          \
    static void GM_NAME(gm_tile_##R##x##C)(int64_t k, const GM_T *a, const GM_T *b, int64_t b_row, GM_T *c,    \
                                           int64_t c_row, int64_t columns, int first) {                        \
        enum { width = C * GM_L };                                                                             \
        GM_ROWS_##R(GM_COLUMNS_##C, GM_ZERO);                                                                  \
        for (int64_t i = 0; i < k; i++, a += R, b += b_row) {                                                  \
            GM_COLUMNS_##C(0, GM_LOAD);                                                                        \
            GM_ROWS_##R(GM_COLUMNS_##C, GM_FMA);                                                               \
        }                                                                                                      \
        if (columns < width) {                                                                                 \
            GM_T part[R * width];                                                                              \
            GM_ROWS_##R(GM_COLUMNS_##C, GM_SPILL);                                                             \
            for (int i = 0; i < R; i++)                                                                        \
                for (int64_t j = 0; j < columns; j++)                                                          \
                    c[i * c_row + j] = (first ? (GM_T)0 : c[i * c_row + j]) + part[i * width + j];             \
        } else if (first) {                                                                                    \
            GM_ROWS_##R(GM_COLUMNS_##C, GM_START);                                                             \
        } else {                                                                                               \
            GM_ROWS_##R(GM_COLUMNS_##C, GM_ADD);                                                               \
        }                                                                                                      \
    }
#define GM_ENTRY(R, C) [C][R] = GM_NAME(gm_tile_##R##x##C),
#endif

GM_EVERY_TILE(GM_TILE)

static GM_NAME(gm_tile) *const GM_NAME(gm_tiles)[GM_WIDEST + 1][GM_ROWS + 1] = {GM_EVERY_TILE(GM_ENTRY)};

/* ---- packing ---- */

/* dst[k][i] = a[i, k] for `rows` rows. */
static void GM_NAME(gm_pack_a)(GM_T *dst, const GM_T *a, int64_t a_row, int64_t a_col, int64_t rows, int64_t k) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < k; j++) dst[j * rows + i] = a[i * a_row + j * a_col];
}

/* dst[k][j] = b[k, j] for `columns` columns, and zeros up to `width`. */
static void GM_NAME(gm_pack_b)(GM_T *dst, const GM_T *b, int64_t b_row, int64_t b_col, int64_t columns, int64_t width,
                               int64_t k) {
    for (int64_t i = 0; i < k; i++, dst += width, b += b_row) {
        int64_t j = 0;
        if (b_col == 1)
            for (; j + GM_L <= columns; j += GM_L) GM_NAME(st)(dst + j, GM_NAME(ld)(b + j));
        for (; j < columns; j++) dst[j] = b[j * b_col];
        for (; j < width; j++) dst[j] = 0;
    }
}

/* ---- one block of the output ---- */

/* Packs what cannot be read in place: where rows of b are contiguous only a partial last tile, else every tile. */
static void GM_NAME(gm_pack_slabs)(GM_T *slabs, const gm_dot *d, const GM_T *b, int64_t rows, int64_t columns,
                                   int64_t k) {
    for (int64_t j = 0, width; j < columns; j += width) {
        width = gm_tile_vectors(rows, columns - j, GM_L) * GM_L;
        if (d->b_col == 1 && j + width <= columns) continue;
        GM_NAME(gm_pack_b)(slabs, b + j * d->b_col, d->b_row, d->b_col, gm_min(width, columns - j), width, k);
        slabs += width * k;
    }
}

/* Adds one panel of k to a block of c, or starts it. */
static void GM_NAME(gm_panel)(const gm_dot *d, GM_T *c, const GM_T *a, const GM_T *b, int64_t rows, int64_t columns,
                              int64_t k, int first) {
    static _Thread_local _Alignas(64) GM_T slabs[GM_PANEL * GM_SLAB_BYTES / sizeof(GM_T)];
    _Alignas(64) GM_T strip[GM_PANEL * GM_ROWS];
    GM_NAME(gm_pack_slabs)(slabs, d, b, rows, columns, k);
    for (int64_t i = 0, height; i < rows; i += height) {
        height = gm_ceil_div(rows - i, gm_ceil_div(rows - i, GM_ROWS));
        const GM_T *strip_a = a + i * d->a_row;
        if (height > 1 || d->a_col != 1) {
            GM_NAME(gm_pack_a)(strip, strip_a, d->a_row, d->a_col, height, k);
            strip_a = strip;
        }
        const GM_T *slab = slabs;
        for (int64_t j = 0, width; j < columns; j += width) {
            int64_t vectors = gm_tile_vectors(rows, columns - j, GM_L), n = columns - j;
            width = vectors * GM_L;
            int in_place = d->b_col == 1 && n >= width;
            GM_NAME(gm_tiles)[vectors][height](k, strip_a, in_place ? b + j : slab, in_place ? d->b_row : width,
                                               c + i * d->n + j, d->n, gm_min(n, width), first);
            if (!in_place) slab += width * k;
        }
    }
}

static void GM_NAME(gm_block)(const gm_dot *d, GM_T *c, const GM_T *a, const GM_T *b, int64_t rows, int64_t columns) {
    enum { most = GM_SLAB_BYTES / sizeof(GM_T) / (GM_WIDEST * GM_L) * (GM_WIDEST * GM_L) };
    if (d->k == 0)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++) c[i * d->n + j] = 0;
    for (int64_t j = 0; j < columns; j += most)
        for (int64_t k = 0; k < d->k; k += GM_PANEL)
            GM_NAME(gm_panel)(d, c + j, a + k * d->a_col, b + k * d->b_row + j * d->b_col, rows,
                              gm_min(most, columns - j), gm_min(GM_PANEL, d->k - k), k == 0);
}

/* The kernel: bufs = {out, a, b}, dims = a gm_dot. */
static inline void GM_NAME(gm_chunk)(void **bufs, const int64_t *dims, int64_t chunk) {
    const gm_dot *d = (const gm_dot *)dims;
    gm_cut cut = gm_cut_of(d);
    int64_t column_chunk = chunk % cut.column_chunks, row_chunk = chunk / cut.column_chunks % cut.row_chunks;
    int64_t first = chunk / cut.column_chunks / cut.row_chunks * cut.per_chunk, rows, columns;
    int64_t row = gm_part(d->m, cut.row_chunks, GM_ROWS, row_chunk, &rows);
    int64_t column = gm_part(d->n, cut.column_chunks, GM_VECTORS * GM_L, column_chunk, &columns);
    for (int64_t i = first; i < gm_min(first + cut.per_chunk, cut.batches); i++) {
        int64_t a, b;
        gm_batch_offsets(d, i, &a, &b);
        GM_NAME(gm_block)(d, (GM_T *)bufs[0] + i * d->m * d->n + row * d->n + column,
                          (const GM_T *)bufs[1] + a + row * d->a_row,
                          (const GM_T *)bufs[2] + b + column * d->b_col, rows, columns);
    }
}

#undef GM_T
#undef GM_S
#undef GM_V
#undef GM_L
#undef GM_NAME
