/* The thread pool that runs kernels: a kernel does one chunk of its work, and which chunk is which depends
 * on sizes only, so results do not depend on the number of threads. */
#ifndef GM_RUNTIME_H
#define GM_RUNTIME_H

#include <stdint.h>

typedef void (*gm_kernel)(void **bufs, const int64_t *dims, int64_t chunk);

/* Threads that take part in a run, the caller included. At least 1; the default is 1. */
void gm_pool_set(int threads);
int gm_pool_threads(void);

/* Runs chunks 0 … chunks-1 of `f` and returns when all are done. Rounding is to nearest and denormals are
 * kept while it runs, whatever the caller's control word says. May be called from any thread, also from
 * inside a kernel: where the workers are busy, the caller does its chunks alone. */
void gm_run(gm_kernel f, void **bufs, const int64_t *dims, int64_t chunks);

#endif
