/* The prebuilt dot kernels, one per element type, with the number of chunks each is cut in. */
#include "gemm.h"

#define DOT(S, T, COUNT)                                                                                       \
    void gm_dot_##S(void **bufs, const int64_t *dims, int64_t chunk) { gm_chunk_##S(bufs, dims, chunk); }      \
    int64_t gm_dot_##S##_chunks(const int64_t *dims) { return COUNT((const gm_dot *)dims, sizeof(T)); }
DOT(f32, float, gm_dot_chunk_count)
DOT(f64, double, gm_dot_chunk_count)
DOT(bf16, uint16_t, gm_row_chunk_count)
DOT(i32, int32_t, gm_row_chunk_count)
DOT(u32, uint32_t, gm_row_chunk_count)
DOT(i64, int64_t, gm_row_chunk_count)
