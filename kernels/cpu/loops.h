// The inner loops of the CPU backend, in two sets with one meaning: plain ones to read and to compare with,
// and fast ones for what the machine has. Everything above them (threads, shapes, residuals) is shared.
#ifndef PALAVER_KERNELS_CPU_LOOPS_H
#define PALAVER_KERNELS_CPU_LOOPS_H

#include "kernels/cpu/quant.h"
#include "kernels/ops.h"

// Rows of activations in every form that a product may want. The quantised form is there only if
// `quantized` says so; q, scale, sum and sums as in QuantRow, row after row.
typedef struct Activations {
    int64_t n, cols;
    const float *x; // [n, cols]
    bool quantized;
    const int8_t *q;     // [n, cols]
    const float *scale;  // [n, cols/32]
    const float *sum;    // [n, cols/32]
    const int16_t *sums; // [n, cols/16]
} Activations;

// Rows [first, end) of y = W·x, or of y += W·x, for every row of activations: y[t*y_stride + r].
typedef struct Product {
    const Matrix *w;
    const Activations *x;
    int64_t first, end;
    float *y;
    int64_t y_stride;
    bool add;
} Product;

// Consecutive tokens of one sequence and consecutive query heads that share one KV head.
typedef struct AttendTile {
    const float *q; // the first token's first head; row stride q_stride, heads head_dim apart
    float *y;       // likewise; may be q
    int64_t q_stride;
    int n_tokens, n_heads, head_dim;
    const int32_t *positions; // [n_tokens]
    const KvLayer *kv;
    int kv_head, window;
    int first_slot, n_slots;
    const int32_t *slot_positions; // of the whole cache
    float scale;
} AttendTile;

typedef struct Loops {
    const char *name;
    // Whether quantised weights are multiplied with quantised activations, or with the floats.
    bool quantized_activations;
    // y [n] = x / sqrt(mean(x²) + eps) · w; y may be x
    void (*rms_norm)(const float *x, const float *w, int64_t n, float eps, float *y);
    // y [n] = (x − mean(x)) / sqrt(variance(x) + eps) · w + b (NULL: none); y may be x
    void (*layer_norm)(const float *x, const float *w, const float *b, int64_t n, float eps, float *y);
    void (*quantize)(const float *x, int64_t n, const QuantRow *out);
    // g [n] = activation(g) · u, or without u (NULL) activation(g)
    void (*activate)(Activation activation, float *g, const float *u, int64_t n);
    void (*to_half)(const float *x, int64_t n, uint16_t *half);
    // scratch: product_scratch(cols) bytes of the thread's own, 64-byte aligned
    void (*product)(const Product *product, void *scratch);
    int64_t (*product_scratch)(int64_t cols);
    int attend_rows; // rows of a tile to aim at: tokens times heads
    void (*attend)(const AttendTile *tile, void *scratch);
    int64_t (*attend_scratch)(int n_rows, int head_dim);
} Loops;

// Plain loops in float32. Quantised weights are dequantised: this is what the fast loops approximate.
const Loops *loops_reference(void);

// AVX2 with FMA and F16C: only for machines that have them. NULL where the compiler had none.
const Loops *loops_avx2(void);

// Whether slot position `slot` is seen from position p: see StepSequence.
static inline bool slot_visible(int32_t slot, int32_t p, int window) {
    return slot >= 0 && slot <= p && (window <= 0 || p - slot < window);
}

#endif
