// The int32 sums of W8's GEMMs are the CPU's, bit by bit, whichever kernel adds them up: x += W·y with activations that
// are integers times 2^-7 and whose largest is 127 of them, so that quantising gives these integers back, and with
// scales of W that are powers of two, so that x shows the sums.
#include "kernels/w8.h"
#include "tests/gpu/model/side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 300 };

// Saturated integers, alternately, in every third row; else any. Every fifth row of W is zeros.
static void fill_weights(const Matrix *m, uint64_t *state) {
    int64_t bytes = dtype_row_bytes(DTYPE_W8, m->cols);
    for (int64_t r = 0; r < m->rows; r++) {
        int8_t *row = (int8_t *)m->data + r * bytes; // the model's own memory
        float scale = r % 5 == 4 ? 0 : 0x1p-9f;
        for (int64_t i = 0; i < m->cols; i++)
            row[i] = (int8_t)(scale == 0 ? 0 : r % 3 == 2 ? 127 : (int)(random_bits(state) % 255) - 127);
        memcpy(row + w8_scale_offset(m->cols), &scale, sizeof scale);
    }
}

// Rows of the second kind have every product with a saturated row of W at its largest; every seventh is zeros.
static void fill_activations(float *y, int n, int cols, uint64_t *state) {
    for (int t = 0; t < n; t++)
        for (int i = 0; i < cols; i++) {
            int q = t % 7 == 6 ? 0 : t % 3 == 1 || i == 0 ? 127 : (int)(random_bits(state) % 255) - 127;
            y[(int64_t)t * cols + i] = (float)q * 0x1p-7f;
        }
}

static void begin(Side *s, const Step *step) {
    Step mine = *step;
    Error error;
    mine.slot_positions = s->slot_positions;
    must(s->ops->begin(s->backend, &mine, s->kv, &error), &error);
}

// x += W·y by one op on both sides, from the same x.
static void compare_sums(Side sides[2], const Case *c, int n, bool down) {
    const int cols = down ? c->intermediate : c->n_heads * c->head_dim;
    const int64_t n_x = (int64_t)n * c->hidden, n_y = (int64_t)n * cols;
    float *y = malloc((size_t)n_y * sizeof *y), *x[2], *zeros = calloc((size_t)n_x, sizeof *zeros);
    uint64_t state = (uint64_t)n * 31 + (uint64_t)cols;
    Error error;
    fill_activations(y, n, cols, &state);
    for (int i = 0; i < 2; i++) {
        Side *s = &sides[i];
        put(s, s->x, DTYPE_F32, zeros, n_x);
        put(s, down ? s->g : s->q, s->operand, y, n_y);
        must(down ? s->ops->down(s->backend, s->layers[0], s->g, s->x, &error)
                  : s->ops->out(s->backend, s->layers[0], s->q, s->x, &error),
             &error);
        x[i] = get(s, s->x, DTYPE_F32, n_x);
    }
    int64_t wrong = 0;
    for (int64_t i = 0; i < n_x; i++) wrong += memcmp(&x[0][i], &x[1][i], sizeof(float)) != 0;
    char what[60];
    snprintf(what, sizeof what, "%s of %d rows", down ? "down" : "out", n);
    report(c->name, what, (double)wrong, 0);
    for (int i = 0; i < 2; i++) free(x[i]);
    free(zeros);
    free(y);
}

void test_w8_sums(const Ops *cuda) {
    static const int ROWS[] = {1, 2, 7, 8, 9, 16, 17, 63, 64, 65, 127, 128, 129, MOST};
    static const Case CASES[] = {
        {"w8 sums [256, 128]", DTYPE_W8, 256, 2, 2, 64, 256, 33, .n_tokens = MOST, .kv = DTYPE_F16},
        {"w8 sums [264, 136]", DTYPE_W8, 264, 17, 17, 8, 1000, 33, .n_tokens = MOST, .kv = DTYPE_F16},
        {"w8 sums [136, 1032]", DTYPE_W8, 136, 129, 129, 8, 4104, 33, .n_tokens = MOST, .kv = DTYPE_F16},
        {"w8 sums [8, 16]", DTYPE_W8, 8, 2, 2, 8, 40, 33, .n_tokens = MOST, .kv = DTYPE_F16},
    };
    for (size_t k = 0; k < sizeof CASES / sizeof *CASES; k++) {
        const Case *c = &CASES[k];
        TestModel model;
        Side sides[2];
        uint64_t state = 5;
        model_fill(&model, c, 1234);
        fill_weights(&model.layers[0].wo, &state);
        fill_weights(&model.layers[0].w_down, &state);
        side_open(&sides[0], ops_cpu(), "cpu:reference", c, &model, MOST);
        side_open(&sides[1], cuda, "cuda", c, &model, MOST);
        int32_t ids[MOST], positions[MOST], slots[MOST], page = 0;
        for (int i = 0; i < MOST; i++) ids[i] = 0, positions[i] = slots[i] = i;
        for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
            int n = ROWS[i];
            const StepSequence sequence = {0, n, n, &page, 0, 0, 0, 0, false, 0, {0}, -1, -1};
            const Step step = {n, 1, ids, positions, slots, &sequence, MOST, NULL, STEP_ANY};
            for (int s = 0; s < 2; s++) begin(&sides[s], &step);
            for (int down = 0; down < 2; down++) compare_sums(sides, c, n, down);
        }
        for (int s = 0; s < 2; s++) side_close(&sides[s]);
        model_free(&model);
    }
}
