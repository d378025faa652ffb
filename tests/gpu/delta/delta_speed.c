// How fast layers that recur are.
#include "tests/gpu/delta/delta.h"
#include "tests/gpu/model/side.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Seconds of a qkv() of n_rows sequences of n tokens each, over an input so short that its GEMMs take little.
static double measure(Side *s, int n_rows, int n) {
    enum { ROUNDS = 50, MOST_ROWS = 64, MOST = 1024 };
    static int32_t zeros[MOST], slots[MOST];
    static StepSequence sequences[MOST_ROWS];
    Error error;
    double start = 0;
    int32_t zero = 0;
    for (int i = 0; i < n_rows * n; i++) slots[i] = i;
    for (int i = 0; i < n_rows; i++)
        sequences[i] = (StepSequence){.first_token = i * n,
                                      .n_tokens = n,
                                      .n_slots = MOST,
                                      .pages = &zero,
                                      .state_from = 2 * i,
                                      .state_to = 2 * i + 1};
    const Step step = {n_rows * n,
                       n_rows,
                       zeros,
                       zeros,
                       slots,
                       sequences,
                       MOST,
                       s->slot_positions,
                       n == 1        ? STEP_DECODING
                       : n_rows == 1 ? STEP_ANY
                                     : STEP_READING};
    must(s->ops->begin(s->backend, &step, &s->kv[1], &error), &error);
    for (int i = -3; i < ROUNDS; i++) {
        must(s->ops->qkv(s->backend, s->layers[0], s->x, &s->kv[0], s->q, &error), &error);
        if (i >= -1 && i < ROUNDS - 1) continue;
        must(s->ops->read(s->backend, zeros, s->slot_positions, 4, &error), &error);
        zeros[0] = 0;
        if (i < 0) start = seconds();
    }
    return (seconds() - start) / ROUNDS;
}

void delta_speed(const Ops *ops) {
    static const int ROWS[][2] = {{1, 1},  {2, 1},   {4, 1},    {16, 1},  {64, 1},
                                  {1, 32}, {1, 128}, {1, 1024}, {4, 256}, {16, 64}};
    static const DeltaRule RULES[] = {{16, 32, 128, 128, 4, false, false, 3e-3f, 0, 0},
                                      {16, 48, 128, 128, 4, true, false, 3e-3f, 0, 0},
                                      {16, 16, 128, 128, 4, true, false, 3e-3f, 0, 0},
                                      {1, 64, 128, 64, 4, false, true, 3e-3f, 0, 0}};
    for (size_t r = 0; r < sizeof RULES / sizeof *RULES; r++) {
        const DeltaRule *d = &RULES[r];
        const Case c = {"speed",          DTYPE_BF16,      64,         4,          2, 64, 64, 64,
                        .n_tokens = 1024, .kv = DTYPE_F16, .delta = d, .recurs = 1};
        TestModel model;
        Side s;
        Error error;
        const size_t floats = 128 * (size_t)delta_state_floats(d);
        void *states;
        model_fill(&model, &c, 1);
        side_open(&s, ops, "cuda", &c, &model, 1024);
        must(ops->alloc(s.backend, floats * sizeof(float), &states, &error), &error);
        s.kv[0].states = states;
        void *x = calloc(1, s.sizes[0]);
        must(ops->write(s.backend, s.x, x, s.sizes[0], &error), &error);
        for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
            const int n_rows = ROWS[i][0], n = ROWS[i][1];
            const double time = measure(&s, n_rows, n),
                         bytes = 2 * 4e-9 * n_rows * (double)delta_width(d) * d->key_dim;
            printf("%2d heads of %d by %d over %2d, %2d x %4d tokens: %8.1f us, %6.3f us a token, %5.0f GB/s "
                   "of states\n",
                   d->n_value_heads, d->key_dim, d->value_dim, d->n_key_heads, n_rows, n, time * 1e6,
                   time * 1e6 / n, bytes / time);
        }
        free(x);
        ops->free(s.backend, states);
        side_close(&s);
        model_free(&model);
    }
}
