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

enum { GM_SERIAL = 0, GM_PARALLEL = 1, GM_CHECK = 2, GM_LOOP = 3, GM_COND = 4 };

typedef struct {
    int64_t kind, first, end; /* launches [first, end); a check: {buffer, words}; what is nested: {buffer, gm_loop *} */
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

/* Loops and conditions run plans within the plan. Their first buffer holds the bases of these, and then: */
typedef struct {
    int64_t turn, refused; /* the wave of the nested plan at which it ended */
    unsigned char stop;
} gm_nested;

/* A body's bases are null, its arena, the turn, carries, constants; next carries, slices and the stop flag. The
 * loop's buffers: bases, the body's arena, the number of turns taken; the count of turns if there is one; constants;
 * {initial or null for zeros, result, spare} of each carry; stacks. `bytes` are those of carries, then of slices. */
typedef struct {
    const gm_plan *body;
    int64_t limit, counted, stops, carries, constants, slices;
    int64_t bytes[];
} gm_loop;

typedef struct {
    const gm_plan *then, *otherwise;
    int64_t operands; /* and results. The buffers: bases, arena, predicate, operands and results */
} gm_cond;

static int64_t gm_run_waves(const gm_plan *plan, char *const *bases, int64_t *times);

/* The loop's results lie where they belong when the last turn writes there; only after an early stop, or none, they
 * may have to be copied. */
static int64_t gm_run_loop(const gm_loop *loop, void **buffers) {
    const int64_t carries = loop->carries;
    char **bases = buffers[0], **carry = bases + 3, **constant = carry + carries, **next = constant + loop->constants;
    char **slice = next + carries, **stop = slice + loop->slices;
    gm_nested *own = (gm_nested *)(stop + loop->stops);
    int64_t *taken = buffers[2], turns = loop->limit;
    const int64_t *bytes = loop->bytes, *slice_bytes = bytes + carries;
    void **rest = buffers + 3;
    if (loop->counted) {
        int64_t count = *(int64_t *)*rest++;
        if (count < turns) turns = count;
        if (turns < 0) turns = 0;
    }
    bases[0] = NULL, bases[1] = buffers[1], bases[2] = (char *)&own->turn;
    for (int64_t k = 0; k < loop->constants; k++) constant[k] = *rest++;
    void **values = rest, **stacks = rest + 3 * carries;
    for (int64_t k = 0; k < carries; k++) {
        carry[k] = values[3 * k];
        if (carry[k]) continue;
        carry[k] = values[3 * k + 1 + turns % 2];
        __builtin_memset(carry[k], 0, (size_t)bytes[k]);
    }
    if (loop->stops) *stop = (char *)&own->stop;
    own->stop = 0;
    int64_t turn = 0, refused = -1;
    while (turn < turns && !own->stop) {
        own->turn = turn;
        for (int64_t k = 0; k < carries; k++) next[k] = values[3 * k + 1 + (turns - 1 - turn) % 2];
        for (int64_t k = 0; k < loop->slices; k++) slice[k] = (char *)stacks[k] + turn * slice_bytes[k];
        refused = own->refused = gm_run_waves(loop->body, bases, NULL);
        if (refused >= 0) return refused;
        for (int64_t k = 0; k < carries; k++) carry[k] = next[k];
        turn++;
    }
    *taken = turn;
    for (int64_t k = 0; k < carries; k++)
        if (carry[k] != values[3 * k + 1]) __builtin_memcpy(values[3 * k + 1], carry[k], (size_t)bytes[k]);
    for (int64_t k = 0; k < loop->slices; k++)
        __builtin_memset((char *)stacks[k] + turn * slice_bytes[k], 0, (size_t)((loop->limit - turn) * slice_bytes[k]));
    return -1;
}

static int64_t gm_run_cond(const gm_cond *cond, void **buffers) {
    char **bases = buffers[0];
    gm_nested *own = (gm_nested *)(bases + 2 + cond->operands);
    bases[0] = NULL, bases[1] = buffers[1];
    for (int64_t k = 0; k < cond->operands; k++) bases[2 + k] = buffers[3 + k];
    own->turn = *(unsigned char *)buffers[2] ? 0 : 1; /* which branch */
    return own->refused = gm_run_waves(own->turn ? cond->otherwise : cond->then, bases, NULL);
}

static int64_t gm_run_waves(const gm_plan *plan, char *const *bases, int64_t *times) {
    void **buffers = (void **)bases[1];
    for (int64_t k = 0; k < plan->buffer_count; k++)
        buffers[k] = bases[plan->buffers[k].base] + plan->buffers[k].offset;
    int64_t refused = -1;
    for (int64_t w = 0; w < plan->wave_count && refused < 0; w++) {
        const gm_plan_wave *wave = plan->waves + w;
        void **own = buffers + wave->first;
        if (times) times[w] = now_ns();
        if (wave->kind == GM_CHECK) {
            const int64_t *words = *own;
            for (int64_t i = 0; i < wave->end; i++)
                if (words[i] >= 0) refused = w;
        } else if (wave->kind == GM_LOOP) {
            if (gm_run_loop((const gm_loop *)(intptr_t)wave->end, own) >= 0) refused = w;
        } else if (wave->kind == GM_COND) {
            if (gm_run_cond((const gm_cond *)(intptr_t)wave->end, own) >= 0) refused = w;
        } else {
            gm_run_wave(plan, wave, buffers);
        }
    }
    if (times) times[plan->wave_count] = now_ns();
    return refused;
}

/* Runs the waves in order; `bases[0]` is null, `bases[1]` has room for the plan's buffers at its start. Ends at a
 * check that finds a word not negative. `times`, if there, takes each wave's start and the end, in ns.
 * Returns the number of the wave of the check, or of what is nested and has ended at one; or -1. */
int64_t gm_run_plan(const gm_plan *plan, char *const *bases, int64_t *times) {
    fp_word before = fp_get();
    fp_set(FP_DEFAULT);
    int64_t refused = gm_run_waves(plan, bases, times);
    fp_set(before);
    return refused;
}
