/* The product for one element type, included with
 *   GM_T  element type    GM_S  its suffix in vec.h    GM_V  its vector type    GM_L  lanes of that vector
 *   GM_LANES_OF  the macro of vec.h that picks a list with that many entries
 *   GM_TAG  the suffix of all names defined here, so that a file can hold several instances
 *
 * A tile is up to GM_ROWS rows by up to GM_VECTORS vectors of the output, held in registers while k runs
 * through a panel; thin products (at most GM_THIN rows) use wider tiles, so that b is streamed once in
 * long pieces. A tile reads a element by element, so any strides of a serve as they are; b must come in
 * vectors. */

#define GM_NAME(x) GM_PASTE(x, GM_TAG)
#define GM_OP(x) GM_PASTE(x, GM_S)

#include "gemm_pack.h"

/* ---- the tiles ---- */

typedef void GM_NAME(gm_tile)(int64_t k, const GM_T *a, int64_t a_row, int64_t a_col, const GM_T *b,
                              int64_t b_row, GM_T *c, int64_t c_row, int64_t columns, int first);

#define GM_ZERO(i, j) GM_V c##i##_##j = {0};
#define GM_LOAD(i, j) GM_V b##j = GM_OP(hold)(GM_OP(ld)(b + j * GM_L));
#define GM_FMA(i, j) c##i##_##j = GM_OP(fma)(GM_OP(set1)(GM_A_##i), b##j, c##i##_##j);
#define GM_SPILL(i, j) GM_OP(st)(part + (i * width + j * GM_L), c##i##_##j);
#define GM_START(i, j) GM_OP(st)(c + i * c_row + j * GM_L, c##i##_##j + (GM_V){0});
#define GM_ADD(i, j) GM_OP(st)(c + i * c_row + j * GM_L, GM_OP(ld)(c + i * c_row + j * GM_L) + c##i##_##j);

/* The end of a tile: its accumulators to or onto c. */
#define GM_LAND(R, C)                                                                                          \
    if (columns < width) {                                                                                     \
        GM_T part[R * width];                                                                                  \
        GM_ROWS_##R(GM_COLUMNS_##C, GM_SPILL);                                                                 \
        for (int i = 0; i < R; i++)                                                                            \
            for (int64_t j = 0; j < columns; j++)                                                              \
                c[i * c_row + j] = (first ? (GM_T)0 : c[i * c_row + j]) + part[i * width + j];                 \
    } else if (first) {                                                                                        \
        GM_ROWS_##R(GM_COLUMNS_##C, GM_START);                                                                 \
    } else {                                                                                                   \
        GM_ROWS_##R(GM_COLUMNS_##C, GM_ADD);                                                                   \
    }

#define GM_TILE(R, C)                                                                                          \
    static void GM_NAME(gm_tile_##R##x##C)(int64_t k, const GM_T *a, int64_t a_row, int64_t a_col,             \
                                           const GM_T *b, int64_t b_row, GM_T *c, int64_t c_row,               \
                                           int64_t columns, int first) {                                       \
        enum { width = C * GM_L };                                                                             \
        const GM_T *a_fifth = a + 5 * a_row, *a_tenth = a + 10 * a_row;                                        \
        const int64_t a_row2 = 2 * a_row, a_row3 = 3 * a_row, a_row4 = 4 * a_row;                              \
        (void)a_row2, (void)a_row3, (void)a_row4;                                                              \
        GM_ROWS_##R(GM_COLUMNS_##C, GM_ZERO);                                                                  \
        for (int64_t i = 0; i < k; i++, a += a_col, a_fifth += a_col, a_tenth += a_col, b += b_row) {          \
            GM_COLUMNS_##C(0, GM_LOAD);                                                                        \
            GM_ROWS_##R(GM_COLUMNS_##C, GM_FMA);                                                               \
        }                                                                                                      \
        GM_LAND(R, C)                                                                                          \
    }
GM_EVERY_TILE(GM_TILE)

#define GM_ENTRY(R, C) [C][R] = GM_NAME(gm_tile_##R##x##C),
static GM_NAME(gm_tile) *const GM_NAME(gm_tiles)[GM_WIDEST + 1][GM_ROWS + 1] = {GM_EVERY_TILE(GM_ENTRY)};

/* The same for one vector of columns along whose memory k runs: blocks of b are turned in registers. Lanes
 * beyond `columns` repeat the last column. */
#define GM_PLACE(i) const int64_t at##i = gm_min(i, columns - 1) * b_col;
#define GM_FETCH(i) GM_V a##i = GM_OP(ld)(b + at##i);
#define GM_STEP(R, j)                                                                                          \
    {                                                                                                          \
        const GM_V b0 = e##j;                                                                                  \
        GM_ROWS_##R(GM_COLUMNS_1, GM_FMA);                                                                     \
        a += a_col, a_fifth += a_col;                                                                          \
    }
#define GM_STEP_1(j) GM_STEP(1, j)
#define GM_STEP_2(j) GM_STEP(2, j)
#define GM_STEP_3(j) GM_STEP(3, j)
#define GM_STEP_4(j) GM_STEP(4, j)
#define GM_STEP_5(j) GM_STEP(5, j)
#define GM_STEP_6(j) GM_STEP(6, j)
#define GM_STEP_7(j) GM_STEP(7, j)
#define GM_STEP_8(j) GM_STEP(8, j)
#define GM_TURNED_TILE(R)                                                                                      \
    static void GM_NAME(gm_turned_##R)(int64_t k, const GM_T *a, int64_t a_row, int64_t a_col, const GM_T *b,  \
                                       int64_t b_col, GM_T *c, int64_t c_row, int64_t columns, int first) {    \
        enum { width = GM_L };                                                                                 \
        const GM_T *a_fifth = a + 5 * a_row;                                                                   \
        const int64_t a_row2 = 2 * a_row, a_row3 = 3 * a_row, a_row4 = 4 * a_row;                              \
        (void)a_row2, (void)a_row3, (void)a_row4;                                                              \
        GM_LANES_OF(GM_LIST, GM_PLACE)                                                                         \
        GM_ROWS_##R(GM_COLUMNS_1, GM_ZERO);                                                                    \
        int64_t i = 0;                                                                                         \
        for (; i + GM_L <= k; i += GM_L, b += GM_L) {                                                          \
            GM_LANES_OF(GM_LIST, GM_FETCH)                                                                     \
            GM_LANES_OF(GM_TURN, GM_ZIP)                                                                       \
            GM_LANES_OF(GM_LIST, GM_STEP_##R)                                                                  \
        }                                                                                                      \
        for (; i < k; i++, b++, a += a_col, a_fifth += a_col) {                                                \
            const GM_V b0 = GM_OP(ldsn)(b, b_col, gm_min(columns, GM_L));                                      \
            GM_ROWS_##R(GM_COLUMNS_1, GM_FMA);                                                                 \
        }                                                                                                      \
        GM_LAND(R, 1)                                                                                          \
    }
GM_EVERY_TURNED(GM_TURNED_TILE)

#define GM_TURNED_ENTRY(R) [R] = GM_NAME(gm_turned_##R),
static GM_NAME(gm_tile) *const GM_NAME(gm_turned_tiles)[GM_TURNED + 1] = {GM_EVERY_TURNED(GM_TURNED_ENTRY)};

#undef GM_PLACE
#undef GM_FETCH
#undef GM_STEP
#undef GM_STEP_1
#undef GM_STEP_2
#undef GM_STEP_3
#undef GM_STEP_4
#undef GM_STEP_5
#undef GM_STEP_6
#undef GM_STEP_7
#undef GM_STEP_8
#undef GM_TURNED_TILE
#undef GM_TURNED_ENTRY
#undef GM_ZIP
#undef GM_LAND
#undef GM_ZERO
#undef GM_LOAD
#undef GM_FMA
#undef GM_SPILL
#undef GM_START
#undef GM_ADD
#undef GM_TILE
#undef GM_ENTRY

/* ---- one block of the output ---- */

/* Rows of a that lie a power of two apart share cache sets: 14 of them, read side by side, would evict
 * each other. Then they are copied to rows that do not. */
static void GM_NAME(gm_spread)(GM_T *strip, const GM_T *a, int64_t a_row, int64_t rows, int64_t k) {
    for (int64_t i = 0; i < rows; i++)
        __builtin_memcpy(strip + i * GM_STRIP_ROW, a + i * a_row, (uint64_t)k * sizeof(GM_T));
}

/* Tiles [tile, end) of an a that lies along columns, each one's columns one after the other; `there` are the rows
 * that a has from the first tile on. */
static void GM_NAME(gm_gather)(GM_T *strips, const GM_T *a, int64_t a_col, int64_t rows, int64_t there,
                               int64_t tiles, int64_t tile, int64_t end, int64_t k) {
    for (; tile < end; tile++, strips += GM_PANEL * GM_STRIP_COLUMN)
        for (int64_t row = gm_tile_row(rows, tiles, tile), j = 0; j < GM_ROWS; j += GM_L) {
            const GM_T *from = a + row + j;
            int64_t n = there - row - j;
            for (int64_t i = 0; i < k; i++)
                GM_OP(st)(strips + i * GM_STRIP_COLUMN + j,
                          n >= GM_L ? GM_OP(ld)(from + i * a_col) : GM_OP(ldn)(from + i * a_col, gm_max(n, 0)));
        }
}

/* Packs what tiles of a block cannot read in place: every tile, or only a partial last one. */
static void GM_NAME(gm_pack_block)(GM_T *slab, const gm_dot *d, const GM_T *b, int64_t rows,
                                   int64_t columns, int64_t k, int in_place) {
    enum { usual = GM_VECTORS * GM_L };
    int64_t j = 0;
    if (d->b_col == 1 && rows > GM_THIN && !in_place) {
        j = columns / usual * usual;
        GM_NAME(gm_pack_rows)(slab, b, d->b_row, j, k);
        slab += j * k;
    }
    for (int64_t width; j < columns; j += width) {
        width = gm_tile_vectors(rows, columns - j, GM_L) * GM_L;
        if (in_place && j + width <= columns) continue;
        GM_NAME(gm_pack)(slab, b + j * d->b_col, d->b_row, d->b_col, gm_min(width, columns - j), width, k);
        slab += width * k;
    }
}

static void GM_NAME(gm_finish)(const gm_epilogue *after, int64_t row, int64_t rows, int64_t column,
                               int64_t columns) {
    row += after->row, column += after->column;
    after->run(after->bufs, after->dims, after->chunk, row, row + rows, column, column + columns);
}

/* Adds one panel of k to a block of c, or starts it; `after`, if there, takes each row of tiles, from `column`
 * of its block on. */
static void GM_NAME(gm_panel)(const gm_dot *d, GM_T *c, const GM_T *a, const GM_T *b, int64_t rows,
                              int64_t there, int64_t columns, int64_t k, int first, const gm_epilogue *after,
                              int64_t column) {
    static _Thread_local _Alignas(64) GM_T slabs[GM_PANEL * GM_SLAB_BYTES / sizeof(GM_T)];
    enum { strip_size = GM_PANEL * GM_STRIP_COLUMN };
    _Alignas(64) GM_T strips[GM_STRIPS * strip_size]; /* or one of rows */
    int b_in_place = gm_b_in_place(d, rows, sizeof(GM_T));
    int copied = gm_a_copied(d, columns, sizeof(GM_T)), along = copied && d->a_col != 1;
    int64_t a_row = along ? 1 : copied ? GM_STRIP_ROW : d->a_row, a_col = along ? GM_STRIP_COLUMN : d->a_col;
    GM_NAME(gm_pack_block)(slabs, d, b, rows, columns, k, b_in_place);
    const int64_t tiles = gm_ceil_div(rows, GM_ROWS);
    for (int64_t tile = 0; tile < tiles; tile++) {
        int64_t i = gm_tile_row(rows, tiles, tile), height = gm_tile_row(rows, tiles, tile + 1) - i;
        const GM_T *a_tile = a + i * d->a_row, *slab = slabs;
        if (along && tile % GM_STRIPS == 0)
            GM_NAME(gm_gather)(strips, a, d->a_col, rows, there, tiles, tile, gm_min(tile + GM_STRIPS, tiles), k);
        if (copied && !along) GM_NAME(gm_spread)(strips, a_tile, d->a_row, height, k);
        if (copied) a_tile = along ? strips + tile % GM_STRIPS * strip_size : strips;
        for (int64_t j = 0, width; j < columns; j += width) {
            int64_t vectors = gm_tile_vectors(rows, columns - j, GM_L), n = columns - j;
            width = vectors * GM_L;
            int in_place = b_in_place && n >= width;
            GM_NAME(gm_tiles)[vectors][height](k, a_tile, a_row, a_col,
                                               in_place ? b + j : slab, in_place ? d->b_row : width,
                                               c + i * d->n + j, d->n, gm_min(n, width), first);
            if (!in_place) slab += width * k;
        }
        if (after) GM_NAME(gm_finish)(after, i, height, column, columns);
    }
}

/* `there` are the rows that a has from here on. */
static void GM_NAME(gm_block)(const gm_dot *d, GM_T *c, const GM_T *a, const GM_T *b, int64_t rows,
                              int64_t there, int64_t columns, const gm_epilogue *after) {
    enum { most = GM_SLAB_BYTES / sizeof(GM_T) / (GM_WIDEST * GM_L) * (GM_WIDEST * GM_L) };
    if (gm_is_turned(d, rows))
        for (int64_t j = 0; j < columns; j += GM_L) /* one strip after the other, each along its memory */
            for (int64_t k = 0; k < d->k; k += GM_PANEL)
                GM_NAME(gm_turned_tiles)[rows](gm_min(GM_PANEL, d->k - k), a + k * d->a_col, d->a_row, d->a_col,
                                               b + k + j * d->b_col, d->b_col, c + j, d->n,
                                               gm_min(GM_L, columns - j), k == 0);
    const int late = gm_is_turned(d, rows) || d->k == 0 || (d->whole_rows && columns > most);
    if (d->k == 0)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++) c[i * d->n + j] = 0;
    for (int64_t j = 0; j < columns && !gm_is_turned(d, rows); j += most)
        for (int64_t k = 0; k < d->k; k += GM_PANEL)
            GM_NAME(gm_panel)(d, c + j, a + k * d->a_col, b + k * d->b_row + j * d->b_col, rows,
                              there, gm_min(most, columns - j), gm_min(GM_PANEL, d->k - k), k == 0,
                              late || k + GM_PANEL < d->k ? 0 : after, j);
    if (after && late) GM_NAME(gm_finish)(after, 0, rows, 0, columns);
}

/* One chunk, and its epilogue `run` where there is one: bufs = {out, a, b, the epilogue's …}, dims = a gm_dot
 * and the epilogue's. */
static inline void GM_NAME(gm_chunk_then)(void **bufs, const int64_t *dims, int64_t chunk, gm_rows run) {
    enum { words = sizeof(gm_dot) / sizeof(int64_t) };
    gm_dot turned;
    const gm_dot *d = gm_oriented((const gm_dot *)dims, &turned);
    const int is_turned = d == &turned;
    const GM_T *a = bufs[1 + is_turned], *b = bufs[2 - is_turned];
    gm_cut cut = gm_cut_of(d, sizeof(GM_T));
    int64_t column_chunk = chunk % cut.column_chunks, row_chunk = chunk / cut.column_chunks % cut.row_chunks;
    int64_t first = chunk / cut.column_chunks / cut.row_chunks * cut.per_chunk, rows, columns;
    int64_t row = gm_part(d->m, cut.row_chunks, gm_row_grain(d->m), row_chunk, &rows);
    int64_t column = gm_part(d->n, cut.column_chunks, GM_VECTORS * GM_L, column_chunk, &columns);
    gm_epilogue after = {run, bufs + 3, dims + words, chunk, 0, column};
    for (int64_t i = first; i < gm_min(first + cut.per_chunk, cut.batches); i++) {
        int64_t a_offset, b_offset;
        gm_batch_offsets(d, i, &a_offset, &b_offset);
        after.row = i * d->m + row;
        GM_NAME(gm_block)(d, (GM_T *)bufs[0] + after.row * d->n + column, a + a_offset + row * d->a_row,
                          b + b_offset + column * d->b_col, rows, d->m - row, columns, run && !is_turned ? &after : 0);
        if (run && is_turned)
            run(after.bufs, after.dims, chunk, i * d->n + column, i * d->n + column + columns, 0, 1);
    }
}

/* The kernel: bufs = {out, a, b}, dims = a gm_dot. */
static inline void GM_NAME(gm_chunk)(void **bufs, const int64_t *dims, int64_t chunk) {
    GM_NAME(gm_chunk_then)(bufs, dims, chunk, 0);
}

/* Products [first, end) of a batch, whole: a part of a longer kernel. */
static inline void GM_NAME(gm_products)(void **bufs, const int64_t *dims, int64_t first, int64_t end) {
    gm_dot turned;
    const gm_dot *d = gm_oriented((const gm_dot *)dims, &turned);
    const GM_T *a = bufs[1 + (d == &turned)], *b = bufs[2 - (d == &turned)];
    for (int64_t i = first; i < end; i++) {
        int64_t a_offset, b_offset;
        gm_batch_offsets(d, i, &a_offset, &b_offset);
        GM_NAME(gm_block)(d, (GM_T *)bufs[0] + i * d->m * d->n, a + a_offset, b + b_offset, d->m, d->m, d->n, 0);
    }
}

#undef GM_T
#undef GM_S
#undef GM_V
#undef GM_L
#undef GM_LANES_OF
#undef GM_TAG
#undef GM_NAME
#undef GM_OP
