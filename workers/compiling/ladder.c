/* A product of square float32 matrices, step by step: what a loop gains from its order, from blocking and from
 * vectors. Each rung has the bits that gemm.h defines: fma chains over panels of 384 k, added in order. */
#include "gemm.h"

enum { ROWS = 32, COLUMNS = 128, VECTORS = 4 };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Each element by itself: b is read down its columns. */
void ladder_naive(const float *a, const float *b, float *out, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            float total = 0;
            for (int64_t panel = 0; panel < n; panel += GM_PANEL) {
                float chain = 0;
                for (int64_t k = panel; k < least(panel + GM_PANEL, n); k++)
                    chain = __builtin_fmaf(a[i * n + k], b[k * n + j], chain);
                total += chain;
            }
            out[i * n + j] = total;
        }
}

/* Rows [i0, i1) and columns [j0, j1) of the output for one panel; j is the inner loop, so b is read along rows. */
static void block(const float *a, const float *b, float *out, int64_t n, int64_t panel, int64_t i0, int64_t i1,
                  int64_t j0, int64_t j1) {
    float chain[1024];
    for (int64_t i = i0; i < i1; i++)
        for (int64_t c0 = j0; c0 < j1; c0 += 1024) {
            int64_t width = least(1024, j1 - c0);
            for (int64_t j = 0; j < width; j++) chain[j] = 0;
            for (int64_t k = panel; k < least(panel + GM_PANEL, n); k++)
                for (int64_t j = 0; j < width; j++)
                    chain[j] = __builtin_fmaf(a[i * n + k], b[k * n + c0 + j], chain[j]);
            for (int64_t j = 0; j < width; j++) out[i * n + c0 + j] += chain[j];
        }
}

void ladder_order(const float *a, const float *b, float *out, int64_t n) {
    for (int64_t e = 0; e < n * n; e++) out[e] = 0;
    for (int64_t panel = 0; panel < n; panel += GM_PANEL) block(a, b, out, n, panel, 0, n, 0, n);
}

/* The part of b that a block needs stays in the cache for all of the block's rows. */
void ladder_blocked(const float *a, const float *b, float *out, int64_t n) {
    for (int64_t e = 0; e < n * n; e++) out[e] = 0;
    for (int64_t panel = 0; panel < n; panel += GM_PANEL)
        for (int64_t j0 = 0; j0 < n; j0 += COLUMNS)
            for (int64_t i0 = 0; i0 < n; i0 += ROWS)
                block(a, b, out, n, panel, i0, least(i0 + ROWS, n), j0, least(j0 + COLUMNS, n));
}

/* The same with the chains in registers: nothing else may write to out, so they stay there for a whole panel. */
void ladder_vectors(const float *restrict a, const float *restrict b, float *restrict out, int64_t n) {
    enum { WIDTH = VECTORS * LF };
    for (int64_t e = 0; e < n * n; e++) out[e] = 0;
    for (int64_t panel = 0; panel < n; panel += GM_PANEL)
        for (int64_t j0 = 0; j0 < n; j0 += WIDTH) {
            int64_t whole = least(WIDTH, n - j0);
            for (int64_t i = 0; i < n; i++) {
                vf32 chain[VECTORS] = {0};
                for (int64_t k = panel; k < least(panel + GM_PANEL, n); k++) {
                    vf32 x = set1_f32(a[i * n + k]);
                    for (int v = 0; v < VECTORS; v++) {
                        int64_t lanes = least(LF, whole - v * LF);
                        const float *at = b + k * n + j0 + v * LF;
                        if (lanes == LF) chain[v] = fma_f32(x, ld_f32(at), chain[v]);
                        else if (lanes > 0) chain[v] = fma_f32(x, ldn_f32(at, lanes), chain[v]);
                    }
                }
                for (int v = 0; v < VECTORS; v++) {
                    int64_t lanes = least(LF, whole - v * LF);
                    float *at = out + i * n + j0 + v * LF;
                    if (lanes > 0) stn_f32(at, ldn_f32(at, lanes) + chain[v], lanes);
                }
            }
        }
}
