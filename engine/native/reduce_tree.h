/* The fixed tree of reduce.h for one element type, along rows and along columns. Included by reduce.h with
 *   GM_T  element type in memory    GM_S  its suffix     GM_B  its bytes    GM_ONE, … values as stored
 *   GM_W  type worked in            GM_WS its suffix     GM_V  its vector   GM_L  lanes of that vector
 * The functions take the operation as a constant and are inlined into one kernel an operation. */

#define GM_NAME(x) GM_PASTE(x, GM_S)
#define GM_WORK(x) GM_PASTE(x, GM_WS)
#define GM_OVER(list) GM_PASTE(GM_VECTORS, GM_WS)(list)

VEC_FN GM_V GM_NAME(gm_combine)(int operation, GM_V a, GM_V b) {
    if (operation == GM_SUM) return a + b;
    if (operation == GM_PROD) return a * b;
    return operation == GM_MAX ? GM_WORK(max)(a, b) : GM_WORK(min)(a, b);
}

VEC_FN GM_W GM_NAME(gm_combine1)(int operation, GM_W a, GM_W b) {
    return GM_NAME(gm_combine)(operation, GM_WORK(set1)(a), GM_WORK(set1)(b))[0];
}

/* What changes nothing when it is combined, not even a zero's sign. */
VEC_FN GM_W GM_NAME(gm_neutral)(int operation) {
    return operation == GM_SUM    ? (GM_W)-0.0f
           : operation == GM_PROD ? (GM_W)1
           : operation == GM_MAX  ? -(GM_W)__builtin_inff()
                                  : (GM_W)__builtin_inff();
}

/* The first n < GM_L elements at x; the other lanes hold what changes nothing. */
VEC_FN GM_V GM_NAME(gm_partial)(int operation, const GM_T *x, int64_t n) {
    static const GM_T neutral[] = {GM_MINUS_ZERO, GM_ONE, GM_MINUS_INFINITY, GM_INFINITY};
    GM_T lanes[GM_L];
    for (int i = 0; i < GM_L; i++) lanes[i] = neutral[operation];
    __builtin_memcpy(lanes, x, (uint64_t)n * GM_B);
    return GM_NAME(ld)(lanes);
}

/* A block of 1 to 4096 neighbours. A partial last vector is read first: a call among the lanes would cost
 * them their registers. */
VEC_FN GM_W GM_NAME(gm_tree_block)(int operation, const GM_T *x, int64_t n) {
    const GM_T *tail = x + n / GM_LANES * GM_LANES;
    int64_t rest = n % GM_LANES, partial = n % GM_L;
    GM_V last = {0};
    if (partial) last = GM_NAME(gm_partial)(operation, x + n - partial, partial);
#define GM_NOTHING(i) GM_V v##i = GM_WORK(set1)(GM_NAME(gm_neutral)(operation));
#define GM_START(i) v##i = GM_NAME(ld)(x + i * GM_L);
#define GM_TAKE(i) v##i = GM_NAME(gm_combine)(operation, v##i, GM_NAME(ld)(x + i * GM_L));
#define GM_TAKE_REST(i)                                                                                        \
    if (rest >= (i + 1) * GM_L) v##i = GM_NAME(gm_combine)(operation, v##i, GM_NAME(ld)(tail + i * GM_L));     \
    else if (rest > i * GM_L)                                                                                  \
        v##i = GM_NAME(gm_combine)(operation, v##i, last);
#define GM_HALVE(i, j) v##i = GM_NAME(gm_combine)(operation, v##i, v##j);
#define GM_FOLD(h) v0 = GM_NAME(gm_combine)(operation, v0, GM_WORK(down)(v0, h));
    GM_OVER(GM_EACH)(GM_NOTHING)
    if (n >= GM_LANES) {
        GM_OVER(GM_EACH)(GM_START)
    }
    for (x += GM_LANES; x < tail; x += GM_LANES) {
        GM_OVER(GM_EACH)(GM_TAKE)
    }
    if (rest) {
        GM_OVER(GM_EACH)(GM_TAKE_REST)
    }
    GM_OVER(GM_HALVE)(GM_HALVE)
    GM_PASTE(GM_FOLD, GM_WS)(GM_FOLD)
    return v0[0];
}

/* The n elements of a layout. */
VEC_FN GM_W GM_NAME(gm_tree)(int operation, const GM_T *x, const gm_axes *axes) {
    GM_W nodes[GM_NODES];
    GM_T scratch[GM_TREE_BLOCK];
    int64_t n = axes->size, count = 0;
    if (n == 0) return operation == GM_SUM ? 0 : GM_NAME(gm_neutral)(operation);
    int dense = axes->kind == GM_DENSE || (axes->rank == 1 && axes->inner_stride == 1);
    if (dense && n <= GM_TREE_BLOCK) return GM_NAME(gm_tree_block)(operation, x, n);
    for (int64_t block = 0; block * GM_TREE_BLOCK < n; block++) {
        int64_t start = block * GM_TREE_BLOCK, length = gm_end(n, GM_TREE_BLOCK, block) - start;
        const void *p = x + start;
        if (!dense)
            p = GM_PASTE(gm_stage, GM_B)((const void *)x, axes->layout, 0, start, start, length,
                                         (void *)scratch);
        nodes[count++] = GM_NAME(gm_tree_block)(operation, p, length);
        for (int64_t bits = block; bits & 1; bits >>= 1, count--)
            nodes[count - 2] = GM_NAME(gm_combine1)(operation, nodes[count - 2], nodes[count - 1]);
    }
    for (; count > 1; count--)
        nodes[count - 2] = GM_NAME(gm_combine1)(operation, nodes[count - 2], nodes[count - 1]);
    return nodes[0];
}

/* Each of `vectors` vectors at `into` takes in its partner at `from`. */
VEC_FN void GM_NAME(gm_merge)(int operation, int vectors, GM_V *into, const GM_V *from) {
    GM_UNROLL for (int c = 0; c < vectors; c++) into[c] = GM_NAME(gm_combine)(operation, into[c], from[c]);
}

/* `vectors` vectors of neighbouring columns, each reduced over the rows of a layout: out[c] from x[offset
 * + c]. */
VEC_FN void GM_NAME(gm_strip)(int operation, int vectors, const GM_T *x, const gm_axes *axes, GM_T *out) {
    GM_V lanes[GM_LANES * vectors], nodes[GM_NODES * vectors];
    gm_place at = {{0}, 0};
    int64_t n = axes->size, count = 0, further = GM_ROWS_AHEAD * axes->inner_stride;
    for (int64_t block = 0; block * GM_TREE_BLOCK < n; block++) {
        int64_t length = gm_end(n, GM_TREE_BLOCK, block) - block * GM_TREE_BLOCK;
        for (int64_t row = 0; row < length; row++) {
            const GM_T *p = x + at.offset;
            GM_V *lane = lanes + row % GM_LANES * vectors;
            GM_UNROLL for (int c = 0; c < vectors; c++) ahead(p + c * GM_L + further);
            if (row < GM_LANES) {
                GM_UNROLL for (int c = 0; c < vectors; c++) lane[c] = GM_NAME(ld)(p + c * GM_L);
            } else {
                GM_UNROLL for (int c = 0; c < vectors; c++)
                    lane[c] = GM_NAME(gm_combine)(operation, lane[c], GM_NAME(ld)(p + c * GM_L));
            }
            if (axes->rank == 1) at.offset += axes->inner_stride;
            else gm_advance(&at, axes->rank, axes->shape, axes->strides, 1);
        }
        for (int64_t h = GM_LANES / 2; h > 0; h /= 2)
            for (int64_t i = 0; i < h && i + h < length; i++)
                GM_NAME(gm_merge)(operation, vectors, lanes + i * vectors, lanes + (i + h) * vectors);
        for (int c = 0; c < vectors; c++) nodes[count * vectors + c] = lanes[c];
        count++;
        for (int64_t bits = block; bits & 1; bits >>= 1, count--)
            GM_NAME(gm_merge)(operation, vectors, nodes + (count - 2) * vectors, nodes + (count - 1) * vectors);
    }
    for (; count > 1; count--)
        GM_NAME(gm_merge)(operation, vectors, nodes + (count - 2) * vectors, nodes + (count - 1) * vectors);
    for (int c = 0; c < vectors; c++) GM_NAME(st)(out + c * GM_L, nodes[c]);
}

/* `columns` neighbouring columns: strips as wide as fit; the last is moved back over columns done already,
 * which computes them again alike. */
VEC_FN void GM_NAME(gm_columns)(int operation, const GM_T *x, int64_t columns, const gm_axes *axes, GM_T *out) {
    enum { wide = 4 };
    int64_t j = 0;
    for (; j + wide * GM_L <= columns; j += wide * GM_L)
        GM_NAME(gm_strip)(operation, wide, x + j, axes, out + j);
    while (j < columns) {
        if (columns < GM_L) {
            GM_NAME(stn)(out + j, GM_WORK(set1)(GM_NAME(gm_tree)(operation, x + j, axes)), 1);
            j++;
            continue;
        }
        if (j + GM_L > columns) j = columns - GM_L;
        GM_NAME(gm_strip)(operation, 1, x + j, axes, out + j);
        j += GM_L;
    }
}

VEC_FN void GM_NAME(gm_reduce_chunk)(int operation, void **bufs, const int64_t *dims, int64_t chunk) {
    gm_reduction r = gm_reduction_of(dims);
    int64_t i = chunk * r.per_chunk, end = gm_end(r.kept.size, r.per_chunk, chunk), inner = r.kept.rank - 1;
    GM_T *out = bufs[0];
    gm_place at = gm_find(r.kept.rank, r.kept.shape, r.kept.strides, i);
    for (int64_t count = 1; i < end; i += count) {
        const GM_T *x = (const GM_T *)bufs[1] + at.offset;
        if (r.by_columns) {
            count = r.kept.shape[inner] - at.index[inner];
            if (count > end - i) count = end - i;
            GM_NAME(gm_columns)(operation, x, count, &r.reduced, out + i);
        } else {
            GM_NAME(stn)(out + i, GM_WORK(set1)(GM_NAME(gm_tree)(operation, x, &r.reduced)), 1);
        }
        gm_advance(&at, r.kept.rank, r.kept.shape, r.kept.strides, count);
    }
}

VEC_FN void GM_NAME(gm_chunk_sum)(void **bufs, const int64_t *dims, int64_t chunk) {
    GM_NAME(gm_reduce_chunk)(GM_SUM, bufs, dims, chunk);
}
VEC_FN void GM_NAME(gm_chunk_prod)(void **bufs, const int64_t *dims, int64_t chunk) {
    GM_NAME(gm_reduce_chunk)(GM_PROD, bufs, dims, chunk);
}
VEC_FN void GM_NAME(gm_chunk_max)(void **bufs, const int64_t *dims, int64_t chunk) {
    GM_NAME(gm_reduce_chunk)(GM_MAX, bufs, dims, chunk);
}
VEC_FN void GM_NAME(gm_chunk_min)(void **bufs, const int64_t *dims, int64_t chunk) {
    GM_NAME(gm_reduce_chunk)(GM_MIN, bufs, dims, chunk);
}

#undef GM_NOTHING
#undef GM_START
#undef GM_TAKE_REST
#undef GM_TAKE
#undef GM_HALVE
#undef GM_FOLD
#undef GM_OVER
#undef GM_WORK
#undef GM_NAME
#undef GM_T
#undef GM_S
#undef GM_B
#undef GM_W
#undef GM_WS
#undef GM_V
#undef GM_L
#undef GM_MINUS_ZERO
#undef GM_ONE
#undef GM_MINUS_INFINITY
#undef GM_INFINITY
