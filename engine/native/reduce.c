/* The prebuilt reductions and scans. */
#include "reduce.h"

#define KERNEL(NAME, CHUNK)                                                                                    \
    void NAME(void **bufs, const int64_t *dims, int64_t chunk) { CHUNK(bufs, dims, chunk); }

#define REDUCE(KIND, S) KERNEL(gm_reduce_##KIND##_##S, gm_chunk_##KIND##_##S)
#define REDUCE_FLOAT(S) REDUCE(sum, S) REDUCE(prod, S) REDUCE(max, S) REDUCE(min, S)
REDUCE_FLOAT(f32)
REDUCE_FLOAT(f64)
REDUCE_FLOAT(bf16)
REDUCE_FLOAT(i64)
REDUCE(max, i32)
REDUCE(min, i32)
REDUCE(max, u32)
REDUCE(min, u32)
REDUCE(any, b8)
REDUCE(all, b8)

#define ARGREDUCE(S)                                                                                           \
    KERNEL(gm_argreduce_max_##S, gm_chunk_argmax_##S) KERNEL(gm_argreduce_min_##S, gm_chunk_argmin_##S)
ARGREDUCE(f32)
ARGREDUCE(f64)
ARGREDUCE(bf16)
ARGREDUCE(i32)
ARGREDUCE(u32)
ARGREDUCE(i64)

#define SCAN(KIND, S) KERNEL(gm_scan_##KIND##_##S, gm_chunk_scan_##KIND##_##S)
#define SCANS(S) SCAN(sum, S) SCAN(prod, S) SCAN(max, S)
SCANS(f32)
SCANS(f64)
SCANS(bf16)
SCANS(i64)
SCAN(max, i32)
SCAN(max, u32)

/* Chunks of a reduce or argreduce, and of a scan, over those dims. */
int64_t gm_reduce_chunks(const int64_t *dims) { return gm_reduction_chunks(dims); }
int64_t gm_scan_chunks(const int64_t *dims) { return gm_scan_chunk_count(dims); }
