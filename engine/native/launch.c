/* The entries from Python: a packed description of one run, and a whole plan. */
#include "runtime.c"

/* `run` is {kernel, dims, chunks, buffers …}, addresses as integers. */
void gm_start(const int64_t *run) {
    gm_run((gm_kernel)(intptr_t)run[0], (void **)(intptr_t)(run + 3), (const int64_t *)(intptr_t)run[1], run[2]);
}

/* A plan: waves of launches that do not depend on each other, so that their chunks are one run's.
 * Buffers are {base, offset in bytes}; each run has its own bases, and plans are only read. */
typedef struct {
    gm_kernel kernel;
    const int64_t *dims;
    int64_t chunks, first_chunk, first_buffer; /* first_chunk: of its wave */
} gm_plan_launch;

typedef struct {
    int64_t base, offset;
} gm_plan_buffer;

enum { GM_SERIAL = 0, GM_PARALLEL = 1, GM_CHECK = 2 };

typedef struct {
    int64_t kind, first, end; /* launches [first, end); of a check: {buffer, words} */
    int64_t chunks;
} gm_plan_wave;

typedef struct {
    const gm_plan_wave *waves;
    const gm_plan_launch *launches;
    const gm_plan_buffer *buffers;
    int64_t wave_count, buffer_count;
} gm_plan;

/* One chunk of a wave: bufs {first launch, resolved buffers}, dims {launches}. */
static void gm_wave_chunk(void **bufs, const int64_t *dims, int64_t chunk) {
    const gm_plan_launch *launch = bufs[0];
    int64_t low = 0, high = dims[0];
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (launch[middle].first_chunk <= chunk) low = middle;
        else high = middle;
    }
    launch += low;
    launch->kernel((void **)bufs[1] + launch->first_buffer, launch->dims, chunk - launch->first_chunk);
}

static void gm_run_wave(const gm_plan *plan, const gm_plan_wave *wave, void **buffers) {
    const gm_plan_launch *launch = plan->launches + wave->first, *end = plan->launches + wave->end;
    if (wave->kind == GM_PARALLEL && end - launch > 1) {
        void *bufs[2] = {(void *)launch, buffers};
        const int64_t dims[1] = {end - launch};
        gm_run(gm_wave_chunk, bufs, dims, wave->chunks);
    } else if (wave->kind == GM_PARALLEL) {
        gm_run(launch->kernel, buffers + launch->first_buffer, launch->dims, launch->chunks);
    } else {
        for (; launch < end; launch++)
            for (int64_t chunk = 0; chunk < launch->chunks; chunk++)
                launch->kernel(buffers + launch->first_buffer, launch->dims, chunk);
    }
}

/* Runs the waves in order; `bases[0]` is null, `bases[1]` has room for the plan's buffers at its start. Ends at a
 * check that finds a word not negative. `times`, if there, takes each wave's start and the end, in ns.
 * Returns the number of the check's wave, or -1. */
int64_t gm_run_plan(const gm_plan *plan, char *const *bases, int64_t *times) {
    void **buffers = (void **)bases[1];
    for (int64_t k = 0; k < plan->buffer_count; k++)
        buffers[k] = bases[plan->buffers[k].base] + plan->buffers[k].offset;
    int64_t refused = -1;
    fp_word before = fp_get();
    fp_set(FP_DEFAULT);
    for (int64_t w = 0; w < plan->wave_count && refused < 0; w++) {
        const gm_plan_wave *wave = plan->waves + w;
        if (times) times[w] = now_ns();
        if (wave->kind != GM_CHECK) {
            gm_run_wave(plan, wave, buffers);
            continue;
        }
        const int64_t *words = buffers[wave->first];
        for (int64_t i = 0; i < wave->end; i++)
            if (words[i] >= 0) refused = w;
    }
    fp_set(before);
    if (times) times[plan->wave_count] = now_ns();
    return refused;
}
