/* One pool per process. Each thread has a share of neighbouring chunks, the same part of every run, so that
 * what it wrote is still in its caches when it reads it; who is through with its own takes from the others'.
 * So a run never waits for a thread that has not started: it waits only for chunks that are being executed.
 * Idle workers and a waiting caller spin for a bounded time and then sleep. */
#define _GNU_SOURCE
#include "runtime.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

enum { MAX_THREADS = 256, SPIN_NS = 20000, PAUSES_PER_CLOCK = 32 };

/* ---- floating-point control word ---- */

#if defined(__x86_64__) || defined(__i386__)
typedef uint32_t fp_word;
enum { FP_DEFAULT = 0x1f80 }; /* all exceptions masked, nearest, no flush to zero, no denormals-are-zero */
static fp_word fp_get(void) {
    fp_word w;
    __asm__ volatile("stmxcsr %0" : "=m"(w));
    return w;
}
static void fp_set(fp_word w) { __asm__ volatile("ldmxcsr %0" : : "m"(w) : "memory"); }
static void pause_cpu(void) { __asm__ volatile("pause"); }
#elif defined(__aarch64__)
typedef uint64_t fp_word;
enum { FP_DEFAULT = 0 };
static fp_word fp_get(void) {
    fp_word w;
    __asm__ volatile("mrs %0, fpcr" : "=r"(w));
    return w;
}
static void fp_set(fp_word w) { __asm__ volatile("msr fpcr, %0" : : "r"(w) : "memory"); }
static void pause_cpu(void) { __asm__ volatile("yield"); }
#else
#error "the floating-point control word of this target is not known: add fp_get, fp_set and pause_cpu"
#endif

/* ---- sleeping on a word: futex on Linux, a condition variable elsewhere ---- */

typedef _Atomic uint32_t word;

#if defined(__linux__) && !defined(GM_NO_FUTEX)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

static void word_wait(word *w, uint32_t seen) { syscall(SYS_futex, w, FUTEX_WAIT_PRIVATE, seen, 0, 0, 0); }
static void word_wake(word *w, int n) { syscall(SYS_futex, w, FUTEX_WAKE_PRIVATE, n, 0, 0, 0); }
static void word_reset(void) {}
#else
static pthread_mutex_t word_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t word_changed = PTHREAD_COND_INITIALIZER;

static void word_wait(word *w, uint32_t seen) {
    pthread_mutex_lock(&word_lock);
    while (atomic_load(w) == seen) pthread_cond_wait(&word_changed, &word_lock);
    pthread_mutex_unlock(&word_lock);
}
static void word_wake(word *w, int n) {
    (void)w, (void)n;
    pthread_mutex_lock(&word_lock);
    pthread_cond_broadcast(&word_changed);
    pthread_mutex_unlock(&word_lock);
}
static void word_reset(void) {
    pthread_mutex_init(&word_lock, 0);
    pthread_cond_init(&word_changed, 0);
}
#endif

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Spins while *w == seen, at most SPIN_NS; true when it changed. */
static int spin_until_change(word *w, uint32_t seen) {
    int64_t end = now_ns() + SPIN_NS;
    do {
        for (int i = 0; i < PAUSES_PER_CLOCK; i++) {
            if (atomic_load_explicit(w, memory_order_acquire) != seen) return 1;
            pause_cpu();
        }
    } while (now_ns() < end);
    return 0;
}

/* ---- the pool ---- */

typedef struct {
    _Alignas(128) _Atomic int64_t left; /* chunks not claimed yet */
} gm_share;

static struct {
    atomic_flag owned;   /* one run at a time has the workers */
    atomic_int threads;  /* wanted, the caller included */
    int started;         /* workers that exist; changed only by the owner */
    word epoch;          /* grows with each run: what idle workers wait on */
    word finished;       /* grows when a worker ends the last chunk: what the caller waits on */
    atomic_int sleepers; /* workers asleep on epoch */
    atomic_int waiting;  /* the caller is asleep on finished */
    /* The current run. The fields are written while nothing is left, when no claim can succeed, and stay as
     * they are until done == chunks; so whoever has claimed a chunk may read them. */
    gm_share shares[MAX_THREADS];
    atomic_int parties; /* shares */
    _Alignas(128) _Atomic int64_t done;
    gm_kernel f;
    void **bufs;
    const int64_t *dims;
    int64_t chunks;
} pool = {.owned = ATOMIC_FLAG_INIT, .threads = 1};

/* The chunk at which the share of thread `index` begins. */
static int64_t share_start(int64_t chunks, int parties, int index) { return (chunks * index + parties - 1) / parties; }

/* Claims one chunk of a share and runs it: 0 when there was none, 2 when it was the last to end, else 1. */
static int run_one_of(int index) {
    _Atomic int64_t *left = &pool.shares[index].left;
    if (atomic_load_explicit(left, memory_order_relaxed) <= 0) return 0;
    int64_t behind = atomic_fetch_sub_explicit(left, 1, memory_order_acq_rel);
    if (behind <= 0) return 0;
    int64_t chunks = pool.chunks;
    int parties = atomic_load_explicit(&pool.parties, memory_order_relaxed);
    pool.f(pool.bufs, pool.dims, share_start(chunks, parties, index + 1) - behind);
    return atomic_fetch_add(&pool.done, 1) + 1 == chunks ? 2 : 1;
}

/* The same of the own share, or else of another's. */
static int run_one_chunk(int index) {
    int parties = atomic_load_explicit(&pool.parties, memory_order_relaxed), ended = 0;
    for (int k = 0; k < parties && !ended; k++) ended = run_one_of((index + k) % parties);
    return ended;
}

static void *worker(void *argument) {
    int index = (int)(intptr_t)argument;
    fp_set(FP_DEFAULT);
    for (;;) {
        uint32_t epoch = atomic_load(&pool.epoch);
        int ended = 0;
        int wanted = index < atomic_load_explicit(&pool.threads, memory_order_relaxed);
        while (wanted && (ended = run_one_chunk(index)) == 1) {
        }
        if (ended == 2) {
            atomic_fetch_add(&pool.finished, 1);
            if (atomic_load(&pool.waiting)) word_wake(&pool.finished, 1);
        }
        if (spin_until_change(&pool.epoch, epoch)) continue;
        atomic_fetch_add(&pool.sleepers, 1);
        word_wait(&pool.epoch, epoch);
        atomic_fetch_sub(&pool.sleepers, 1);
    }
    return 0;
}

/* After fork the child has one thread and perhaps half a run of another: it starts from nothing. */
static void reset_in_child(void) {
    word_reset();
    pool.started = 0;
    for (int k = 0; k < MAX_THREADS; k++) atomic_store(&pool.shares[k].left, 0);
    atomic_store(&pool.sleepers, 0);
    atomic_store(&pool.waiting, 0);
    atomic_flag_clear(&pool.owned);
}

static void watch_fork(void) { pthread_atfork(0, 0, reset_in_child); }

/* Starts missing workers, with all signals blocked: they belong to the threads that were there before. */
static void start_workers(int wanted) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_fork);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool.started < wanted) {
        pthread_t thread;
        if (pthread_create(&thread, 0, worker, (void *)(intptr_t)(pool.started + 1))) break; /* fewer will do */
        pthread_detach(thread);
        pool.started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, 0);
}

static void wait_for_last_chunk(void) {
    for (;;) {
        uint32_t seen = atomic_load(&pool.finished);
        if (atomic_load(&pool.done) == pool.chunks) return;
        if (spin_until_change(&pool.finished, seen)) continue;
        atomic_store(&pool.waiting, 1);
        if (atomic_load(&pool.done) != pool.chunks) word_wait(&pool.finished, seen);
        atomic_store(&pool.waiting, 0);
    }
}

static void run_with_workers(gm_kernel f, void **bufs, const int64_t *dims, int64_t chunks, int workers) {
    if (pool.started < workers) start_workers(workers);
    pool.f = f, pool.bufs = bufs, pool.dims = dims, pool.chunks = chunks;
    const int parties = workers + 1;
    atomic_store(&pool.parties, parties);
    atomic_store(&pool.done, 0);
    for (int k = 0; k < parties; k++)
        atomic_store(&pool.shares[k].left, share_start(chunks, parties, k + 1) - share_start(chunks, parties, k));
    atomic_fetch_add(&pool.epoch, 1);
    if (atomic_load(&pool.sleepers))
        word_wake(&pool.epoch, pool.started > workers || chunks > workers ? INT_MAX : (int)chunks - 1);
    while (run_one_chunk(0)) {
    }
    wait_for_last_chunk();
}

void gm_run(gm_kernel f, void **bufs, const int64_t *dims, int64_t chunks) {
    fp_word before = fp_get();
    fp_set(FP_DEFAULT);
    int workers = atomic_load_explicit(&pool.threads, memory_order_relaxed) - 1;
    if (chunks > 1 && workers > 0 && !atomic_flag_test_and_set_explicit(&pool.owned, memory_order_acquire)) {
        run_with_workers(f, bufs, dims, chunks, workers);
        atomic_flag_clear_explicit(&pool.owned, memory_order_release);
    } else {
        for (int64_t chunk = 0; chunk < chunks; chunk++) f(bufs, dims, chunk);
    }
    fp_set(before);
}

void gm_pool_set(int threads) {
    atomic_store(&pool.threads, threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads);
}

int gm_pool_threads(void) { return atomic_load(&pool.threads); }
