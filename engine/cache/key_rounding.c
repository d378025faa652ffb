#include "engine/cache/key_rounding.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DAMPING 0.02 // share of the mean that is added to every query's mean square

bool key_rounding_suits(int head_dim) {
    return head_dim % 4 == 0 && (head_dim & -head_dim) <= 256;
}

int64_t key_rounding_floats(int head_dim) {
    return head_dim + (int64_t)head_dim * (head_dim & -head_dim) / 4;
}

int64_t key_rounding_bytes(const DecoderShape *s) {
    if (!key_rounding_suits(s->head_dim)) return 0;
    return (int64_t)sizeof(float) * s->n_layers * s->n_kv_heads * key_rounding_floats(s->head_dim);
}

// The element that RoPE turns element d with; d itself where it turns none.
static int mate(const Rope *rope, int d) {
    int half = rope->rotary_dim / 2;
    if (d >= rope->rotary_dim) return d;
    if (rope->kind == ROPE_INTERLEAVED) return d ^ 1;
    return d < half ? d + half : d - half;
}

// sizes [n] = mean squares, those of a pair the same; all 1 if any is no positive number.
static void pair_sizes(const DecoderShape *s, const double *squares, double *sizes) {
    double least = INFINITY, sum = 0;
    for (int d = 0; d < s->head_dim; d++) {
        sizes[d] = (squares[d] + squares[mate(&s->rope, d)]) / 2;
        least = fmin(least, sizes[d]);
        sum += sizes[d];
    }
    for (int d = 0; d < s->head_dim; d++)
        if (!(least > 0) || !isfinite(sum)) sizes[d] = 1;
}

// The feedback [n, n] of a row of n elements that were turned by the Hadamard matrix, where the error of element k
// before it was turned weighs weights[k]. The errors' sum is eᵀ·M·e with M = H·diag(weights)·H; with M⁻¹ = L·D·Lᵀ, L of
// unit diagonal, the best that element j's rounding can pass on to element i > j is −L[i][j].
static void row_feedback(const double *weights, int n, float *feedback) {
    double inverse[128] = {0}, *l = calloc((size_t)n * (size_t)n, sizeof *l);
    for (int x = 0; x < n; x++) // M⁻¹[i][j] = inverse[i xor j]
        for (int k = 0; k < n; k++)
            inverse[x] += (__builtin_popcount((unsigned)(x & k)) % 2 ? -1 : 1) / weights[k];
    for (int j = 0; j < n && l; j++) {
        for (int i = j; i < n; i++) {
            double sum = inverse[i ^ j];
            for (int k = 0; k < j; k++) sum -= l[i * n + k] * l[j * n + k] * l[k * n + k];
            l[i * n + j] = i == j ? sum : sum / l[j * n + j]; // the diagonal holds D
        }
        for (int i = j + 1; i < n; i++) feedback[j * n + i] = (float)-l[i * n + j];
    }
    free(l);
}

void key_rounding_of_head(const DecoderShape *s, const double *keys, const double *queries, float *balance,
                          float *feedback) {
    const int dim = s->head_dim, size = dim & -dim, half = size / 2;
    const bool interleaved = s->rope.kind == ROPE_INTERLEAVED;
    double *sizes = calloc(2 * (size_t)dim, sizeof *sizes), logs = 0, sum = 0;
    memset(feedback, 0, (size_t)dim * (size_t)half / 2 * sizeof *feedback);
    for (int d = 0; d < dim; d++) balance[d] = 1;
    if (!sizes) return; // plain rounding
    double *weights = sizes + dim;
    pair_sizes(s, keys, sizes);
    for (int d = 0; d < dim; d++) logs += log(sizes[d]) / dim;
    for (int d = 0; d < dim; d++) balance[d] = (float)exp((log(sizes[d]) - logs) / 4);
    pair_sizes(s, queries, weights);
    for (int d = 0; d < dim; d++) sum += weights[d] *= (double)balance[d] * (double)balance[d];
    for (int block = 0; block < dim; block += size, feedback += (ptrdiff_t)half * half) {
        double row[128]; // both rows of a block have the same
        for (int k = 0; k < half; k++) {
            const double *first = weights + block + (interleaved ? 2 * k : k);
            row[k] = (first[0] + first[interleaved ? 1 : half]) / 2 + DAMPING * sum / dim;
        }
        row_feedback(row, half, feedback);
    }
    free(sizes);
}
