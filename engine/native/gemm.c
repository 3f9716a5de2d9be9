/* The prebuilt dot kernels, one per element type, with the number of chunks each is cut in. */
#include "gemm.h"

#define DOT(S, COUNT)                                                                                          \
    void gm_dot_##S(void **bufs, const int64_t *dims, int64_t chunk) { gm_chunk_##S(bufs, dims, chunk); }      \
    int64_t gm_dot_##S##_chunks(const int64_t *dims) { return COUNT((const gm_dot *)dims); }
DOT(f32, gm_dot_chunk_count)
DOT(f64, gm_dot_chunk_count)
DOT(bf16, gm_row_chunk_count)
DOT(i32, gm_row_chunk_count)
DOT(u32, gm_row_chunk_count)
DOT(i64, gm_row_chunk_count)
