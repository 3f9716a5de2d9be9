/* The entry from Python: one packed description of a run, so that a call has one argument. */
#include "runtime.c"

/* `run` is {kernel, dims, chunks, buffers …}, addresses as integers. */
void gm_start(const int64_t *run) {
    gm_run((gm_kernel)(intptr_t)run[0], (void **)(intptr_t)(run + 3), (const int64_t *)(intptr_t)run[1], run[2]);
}
