// One token of one head of a gated delta rule: the loop itself, which each set of loops compiles for its machine.
#ifndef PALAVER_KERNELS_CPU_LOOPS_RECUR_H
#define PALAVER_KERNELS_CPU_LOOPS_RECUR_H

#include "kernels/cpu/loops/loops.h"

static inline void recur_token(const RecurToken *t) {
    const int n = t->value_dim;
    float *restrict sum = t->delta, *restrict y = t->y;
    const float *restrict v = t->v;
    for (int j = 0; j < n; j++) sum[j] = y[j] = 0;
    for (int i = 0; i < t->key_dim && !t->adds; i++) {
        const float *restrict row = t->state + (int64_t)i * n;
        const float k = t->k[i];
        for (int j = 0; j < n; j++) sum[j] += k * row[j];
    }
    for (int j = 0; j < n; j++) sum[j] = t->beta * (v[j] - t->decay * sum[j]);
    for (int i = 0; i < t->key_dim; i++) {
        float *restrict row = t->state + (int64_t)i * n;
        const float k = t->k[i], q = t->q[i], decay = t->decay;
        for (int j = 0; j < n; j++) {
            row[j] = decay * row[j] + k * sum[j];
            y[j] += q * row[j];
        }
    }
}

#endif
