/* Packing of b for one element type, included by gemm_tile.h: `width` columns k-major, so that a tile
 * reads its columns from one contiguous slab. */

#define GM_LOAD(i) GM_V a##i = i < rows ? GM_OP(ld)(src + i * stride) : (GM_V){0};
#define GM_ZIP(from, to, i, j, x, y)                                                                           \
    GM_V to##x = GM_OP(zip_low)(from##i, from##j), to##y = GM_OP(zip_high)(from##i, from##j);
#define GM_STORE(i) GM_OP(st)(dst + i * width, e##i);

/* GM_L columns of k-contiguous b become rows: columns are interleaved with those half a vector's lanes
 * away, log2(L) times. Columns from `rows` on count as zeros and are not read. */
static void GM_NAME(gm_turn)(GM_T *dst, int64_t width, const GM_T *src, int64_t stride, int64_t rows) {
    GM_LANES_OF(GM_LIST, GM_LOAD)
    GM_LANES_OF(GM_TURN, GM_ZIP)
    GM_LANES_OF(GM_LIST, GM_STORE)
}

/* dst[k][j] = b[k, j] for `columns` columns, and zeros up to `width`, a multiple of GM_L. */
static void GM_NAME(gm_pack)(GM_T *dst, const GM_T *b, int64_t b_row, int64_t b_col, int64_t columns,
                             int64_t width, int64_t k) {
    int64_t start = b_row == 1 ? k / GM_L * GM_L : 0;
    for (int64_t i = 0; i < start; i += GM_L)
        for (int64_t j = 0; j < columns; j += GM_L)
            GM_NAME(gm_turn)(dst + i * width + j, width, b + i + j * b_col, b_col, columns - j);
    for (int64_t i = start; i < k; i++) {
        const GM_T *row = b + i * b_row;
        GM_T *out = dst + i * width;
        int64_t j = 0;
        if (b_col == 1)
            for (; j + GM_L <= columns; j += GM_L) GM_OP(st)(out + j, GM_OP(ld)(row + j));
        for (; j < columns; j++) out[j] = row[j * b_col];
        for (; j < width; j++) out[j] = 0;
    }
}

/* The same for the whole tiles of contiguous rows, reading one row of b after the other: slabs side by
 * side. */
static void GM_NAME(gm_pack_rows)(GM_T *dst, const GM_T *b, int64_t b_row, int64_t columns, int64_t k) {
    enum { width = GM_VECTORS * GM_L };
    for (int64_t i = 0; i < k; i++, b += b_row, dst += width)
        for (int64_t j = 0; j < columns; j += width)
            for (int v = 0; v < width; v += GM_L) GM_OP(st)(dst + j * k + v, GM_OP(ld)(b + j + v));
}

#undef GM_LOAD
#undef GM_STORE
