// A layer that recurs on the CPU, beside its formula in double: texts in one step, in pieces and token by token, beside
// others; and what a gate makes of attention.
#include "tests/support/kernels/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HIDDEN = 24, TEXT = 13, N_TEXTS = 2, ROOM = 16, N_STATES = 8, N_WEIGHTS = 24 };

typedef struct DeltaCase {
    const char *name;
    DeltaRule rule;
} DeltaCase;

static const DeltaCase CASES[] = {
    {"as many heads of both", {2, 2, 8, 8, 4, false, false, 1e-3f, 0, 0}},
    {"two of values for a key", {3, 6, 8, 5, 4, false, false, 1e-3f, 0, 0}},
    {"in turns", {3, 6, 8, 16, 4, true, false, 1e-3f, 0, 0}},
    {"four of values for a key", {1, 4, 24, 8, 2, false, false, 1e-3f, 0, 0}},
    {"only the token itself", {2, 2, 4, 12, 1, false, false, 1e-3f, 0, 0}},
    {"eight taps", {2, 4, 16, 32, 8, true, false, 1e-3f, 0, 0}},
    {"a state space", {2, 6, 16, 8, 4, false, true, 1e-3f, 0, 0}},
    {"a state space of one group", {1, 5, 24, 12, 3, false, true, 1e-3f, 0, 0}},
    {"a state space with a least step, scaled", {2, 4, 16, 8, 4, false, true, 1e-3f, 0.9f, 0.7f}},
};

// A layer, with everything that it is given.
typedef struct Side {
    DecoderShape shape;
    LayerHeads heads;
    LayerWeights weights;
    TestMatrix memory[N_WEIGHTS];
    int n_memory;
    Backend *backend;
    Layer *layer;
    KvLayer kv;
    int32_t slot_positions[N_TEXTS * ROOM];
} Side;

static Matrix make(Side *s, int64_t rows, int64_t cols) {
    s->memory[s->n_memory] = random_matrix(DTYPE_F32, rows, cols, 900 + (uint64_t)s->n_memory);
    return s->memory[s->n_memory++].matrix;
}

static Side *open_side(const DeltaCase *c, const char *device) {
    Side *s = calloc(1, sizeof *s);
    Error error;
    const DeltaRule *r = &c->rule;
    s->heads = (LayerHeads){.n_kv_heads = 1, .head_dim = 8, .recurs = true};
    s->shape = any_shape();
    s->shape.n_layers = 1, s->shape.hidden_size = HIDDEN, s->shape.norm_eps = 1e-6f, s->shape.norm_offset = 1;
    s->shape.heads_of_layers = &s->heads, s->shape.delta = *r;
    LayerWeights *w = &s->weights;
    w->attn_norm = make(s, 1, HIDDEN);
    w->wq = make(s, r->n_key_heads * r->key_dim, HIDDEN),
    w->wk = make(s, r->n_key_heads * r->key_dim, HIDDEN);
    w->wv = make(s, delta_width(r), HIDDEN), w->attn_gate = make(s, delta_width(r), HIDDEN);
    w->w_decay = make(s, r->n_value_heads, HIDDEN);
    if (r->adds) {
        w->conv_bias = make(s, 1, delta_channels(r)), w->skip = make(s, 1, r->n_value_heads);
    } else {
        w->w_beta = make(s, r->n_value_heads, HIDDEN);
    }
    w->conv = make(s, 1, delta_channels(r) * r->taps);
    w->decay_rate = make(s, 1, r->n_value_heads), w->decay_bias = make(s, 1, r->n_value_heads);
    for (int i = 0; i < r->n_value_heads; i++) { // a rate is above 0
        float *rate = (float *)(void *)(s->memory[s->n_memory - 2].memory + 1) + i, value;
        memcpy(&value, rate, sizeof value);
        value = 0.05f + fabsf(value) / 4;
        memcpy(rate, &value, sizeof value);
    }
    w->state_norm = make(s, 1, r->adds ? delta_width(r) : r->value_dim);
    w->wo = make(s, HIDDEN, delta_width(r));
    w->w_up = make(s, 16, HIDDEN), w->w_down = make(s, HIDDEN, 16);
    s->shape.intermediate_size = 16;
    s->backend = open_cpu(device, 2, &s->shape, N_TEXTS * TEXT);
    assert_ok(s->backend->ops->load_layer(s->backend, w, &s->layer, &error), &error);
    s->kv = (KvLayer){.type = DTYPE_F32, .rope = -1, .recurs = true};
    s->kv.states = calloc((size_t)(N_STATES * delta_state_floats(r)), sizeof(float));
    for (int64_t i = 0; i < N_STATES * delta_state_floats(r); i++)
        s->kv.states[i] = NAN; // nobody may look there
    for (int i = 0; i < N_TEXTS * ROOM; i++) s->slot_positions[i] = -1;
    return s;
}

static void close_side(Side *s) {
    s->backend->ops->close(s->backend);
    for (int i = 0; i < s->n_memory; i++) free(s->memory[i].memory);
    free(s->kv.states);
    free(s);
}

// ---- the formula -------------------------------------------------------------------------------------------------

static void product(const Matrix *m, const double *h, double *y) {
    for (int64_t r = 0; r < m->rows; r++) {
        float *row = matrix_row(m, r);
        y[r] = 0;
        for (int64_t i = 0; i < m->cols; i++) y[r] += row[i] * h[i];
        free(row);
    }
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static void to_length(double *row, int n, double length) {
    double sum = 1e-6;
    for (int i = 0; i < n; i++) sum += row[i] * row[i];
    for (int i = 0; i < n; i++) row[i] *= length / sqrt(sum);
}

// y [TEXT, delta_width()] of one text x [TEXT, HIDDEN].
static void expect(const Side *s, const float *x, double *y) {
    const DeltaRule *r = &s->shape.delta;
    const LayerWeights *w = &s->weights;
    const int keys = r->n_key_heads * r->key_dim, values = (int)delta_width(r),
              channels = (int)delta_channels(r), each = r->n_value_heads / r->n_key_heads;
    double *c = calloc(TEXT * (size_t)channels, sizeof *c), *mixed = calloc((size_t)channels, sizeof *mixed),
           *gate = calloc((size_t)values, sizeof *gate),
           *rates = calloc(2 * (size_t)r->n_value_heads, sizeof *rates),
           *state = calloc((size_t)values * (size_t)r->key_dim, sizeof *state), h[HIDDEN];
    float *norm = matrix_row(&w->attn_norm, 0), *conv = matrix_row(&w->conv, 0),
          *rate = matrix_row(&w->decay_rate, 0), *bias = matrix_row(&w->decay_bias, 0),
          *state_norm = matrix_row(&w->state_norm, 0),
          *conv_bias = r->adds ? matrix_row(&w->conv_bias, 0) : NULL,
          *skip = r->adds ? matrix_row(&w->skip, 0) : NULL;
    for (int t = 0; t < TEXT; t++) {
        double sum = 0, *own = c + t * channels;
        for (int i = 0; i < HIDDEN; i++) sum += (double)x[t * HIDDEN + i] * x[t * HIDDEN + i];
        for (int i = 0; i < HIDDEN; i++)
            h[i] = x[t * HIDDEN + i] / sqrt(sum / HIDDEN + 1e-6) * (1.0 + norm[i]);
        product(&w->wq, h, own), product(&w->wk, h, own + keys), product(&w->wv, h, own + 2 * keys);
        product(&w->attn_gate, h, gate), product(&w->w_decay, h, rates + r->n_value_heads);
        if (!r->adds) product(&w->w_beta, h, rates);
        for (int i = 0; i < channels; i++) {
            mixed[i] = r->adds ? conv_bias[i] : 0;
            for (int j = 0; j < r->taps; j++)
                if (t - (r->taps - 1) + j >= 0)
                    mixed[i] += conv[i * r->taps + j] * c[(t - (r->taps - 1) + j) * channels + i];
            mixed[i] *= sigmoid(mixed[i]);
        }
        for (int k = 0; k < r->n_key_heads && !r->adds; k++)
            to_length(mixed + k * r->key_dim, r->key_dim, 1 / sqrt(r->key_dim)),
                to_length(mixed + keys + k * r->key_dim, r->key_dim, 1);
        for (int head = 0; head < r->n_value_heads; head++) {
            const int key_head = r->keys_alternate ? head % r->n_key_heads : head / each;
            const double *q = mixed + key_head * r->key_dim, *k = mixed + keys + key_head * r->key_dim,
                         *v = mixed + 2 * keys + head * r->value_dim;
            const double softplus = log1p(exp(rates[r->n_value_heads + head] + bias[head])),
                         step = r->adds ? fmax(softplus, (double)r->least_step) : softplus,
                         beta = r->adds ? step : sigmoid(rates[head]), decay = exp(-rate[head] * step);
            double *S = state + head * r->key_dim * r->value_dim, *out = y + t * values + head * r->value_dim,
                   squares = 0;
            for (int j = 0; j < r->value_dim; j++) {
                double told = 0;
                out[j] = 0;
                for (int i = 0; i < r->key_dim; i++) told += k[i] * (S[i * r->value_dim + j] *= decay);
                if (r->adds) told = 0;
                for (int i = 0; i < r->key_dim; i++) {
                    S[i * r->value_dim + j] += k[i] * beta * (v[j] - told);
                    out[j] += q[i] * S[i * r->value_dim + j];
                }
                squares += out[j] * out[j];
            }
            for (int j = 0; j < r->value_dim; j++) {
                const double z = gate[head * r->value_dim + j], silu = z * sigmoid(z);
                if (r->adds)
                    out[j] = (out[j] + skip[head] * v[j]) * silu;
                else
                    out[j] = out[j] / sqrt(squares / r->value_dim + r->norm_eps) * state_norm[j] * silu;
            }
        }
        for (int group = 0, n = values / r->n_key_heads; group < r->n_key_heads && r->adds; group++) {
            double *out = y + t * values + group * n, squares = 0;
            for (int i = 0; i < n; i++) squares += out[i] * out[i];
            const double scale = r->scale != 0 ? (double)r->scale : 1;
            for (int i = 0; i < n; i++)
                out[i] *= scale * state_norm[group * n + i] / sqrt(squares / n + r->norm_eps);
        }
    }
    free(c), free(mixed), free(gate), free(rates), free(state);
    free(norm), free(conv), free(rate), free(bias), free(state_norm), free(conv_bias), free(skip);
}

// ---- steps -------------------------------------------------------------------------------------------------------

// The next n[i] tokens of text i, from state to state; `y` [N_TEXTS, TEXT, width] gets what comes of them.
static void run_step(Side *s, const float *x, const int done[N_TEXTS], const int n[N_TEXTS], int turn,
                     float *y) {
    const int64_t width = delta_width(&s->shape.delta);
    int32_t ids[N_TEXTS * TEXT] = {0}, positions[N_TEXTS * TEXT], slots[N_TEXTS * TEXT];
    StepSequence sequences[N_TEXTS];
    int n_sequences = 0, n_tokens = 0;
    Error error;
    float *rows = malloc(N_TEXTS * TEXT * HIDDEN * sizeof *rows),
          *q = malloc(N_TEXTS * TEXT * (size_t)decoder_pass_width(&s->shape) * sizeof *q);
    const int32_t pages[N_TEXTS] = {0, ROOM};
    for (int i = 0; i < N_TEXTS; i++) {
        if (n[i] == 0) continue;
        // Each text has three states, of which the one before the last is not looked at any more.
        sequences[n_sequences++] = (StepSequence){.first_token = n_tokens,
                                                  .n_tokens = n[i],
                                                  .n_slots = done[i] + n[i],
                                                  .pages = &pages[i],
                                                  .state_from = done[i] ? 4 * i + (turn + 2) % 3 : -1,
                                                  .state_to = 4 * i + turn % 3};
        for (int t = done[i]; t < done[i] + n[i]; t++, n_tokens++) {
            positions[n_tokens] = t, slots[n_tokens] = i * ROOM + t;
            memcpy(rows + n_tokens * HIDDEN, x + (i * TEXT + t) * HIDDEN, HIDDEN * sizeof *rows);
        }
    }
    const Step step = {n_tokens, n_sequences,       ids,     positions, slots, sequences,
                       ROOM,     s->slot_positions, STEP_ANY};
    assert_ok(s->backend->ops->begin(s->backend, &step, &s->kv, &error), &error);
    assert_ok(s->backend->ops->qkv(s->backend, s->layer, rows, &s->kv, q, &error), &error);
    assert_ok(s->backend->ops->attend(s->backend, q, &s->kv, 0, q, &error), &error);
    for (int i = 0, at = 0; i < N_TEXTS; i++) {
        memcpy(y + (i * TEXT + done[i]) * width, q + at * width, (size_t)(n[i] * width) * sizeof *y);
        at += n[i];
    }
    free(rows), free(q);
}

// All of both texts, in pieces of at most `most` tokens, of which the second text's are others than the first's. Returns the
// turn of the last step of the first text.
static void run_texts(Side *s, const float *x, int most, float *y) {
    int done[N_TEXTS] = {0};
    uint64_t seed = 5 + (uint64_t)most;
    for (int turn = 0; done[0] < TEXT || done[1] < TEXT; turn++) {
        int n[N_TEXTS];
        for (int i = 0; i < N_TEXTS; i++) {
            n[i] = most >= TEXT ? TEXT : 1 + (int)(seeded_bits(&seed) % (uint64_t)most);
            if (n[i] > TEXT - done[i]) n[i] = TEXT - done[i];
        }
        run_step(s, x, done, n, turn, y);
        for (int i = 0; i < N_TEXTS; i++) done[i] += n[i];
    }
}

static void each_step_gives_what_the_formula_says(void **state) {
    (void)state;
    static const char *const DEVICES[] = {"cpu:reference", "cpu"};
    float *x = random_floats(77, N_TEXTS * TEXT * HIDDEN);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        for (size_t d = 0; d < 2; d++) {
            const int64_t width = delta_width(&CASES[i].rule), n = N_TEXTS * TEXT * width;
            float *y = malloc((size_t)n * sizeof *y), *pieces = malloc((size_t)n * sizeof *pieces);
            double *expected = malloc((size_t)n * sizeof *expected);
            Side *s = open_side(&CASES[i], DEVICES[d]);
            for (int text = 0; text < N_TEXTS; text++)
                expect(s, x + text * TEXT * HIDDEN, expected + text * TEXT * width);
            run_texts(s, x, TEXT, y);
            for (int64_t k = 0; k < n; k++) assert_near(CASES[i].name, k, y[k], expected[k], 2e-4);
            for (int most = 1; most < 6; most++) {
                run_texts(s, x, most, pieces);
                assert_memory_equal(pieces, y, (size_t)n * sizeof *y); // bit by bit
            }
            close_side(s);
            free(y), free(pieces), free(expected);
        }
    free(x);
}

static void states_that_are_taken_are_refused(void **state) {
    (void)state;
    Side *s = open_side(&CASES[0], "cpu");
    Error error;
    static const int32_t WRONG[][4] = {
        {0, 0, 1, 2}, {0, 1, 1, 2}, {0, 1, 2, 1}, {-1, -1, 0, 1}, {-2, 1, 0, 2}};
    const int32_t ids[2] = {0}, positions[2] = {0}, slots[2] = {0, ROOM}, pages[2] = {0, ROOM};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        StepSequence both[2] = {{.first_token = 0, .n_tokens = 1, .n_slots = 1, .pages = &pages[0]},
                                {.first_token = 1, .n_tokens = 1, .n_slots = 1, .pages = &pages[1]}};
        for (int k = 0; k < 2; k++)
            both[k].state_from = WRONG[i][2 * k], both[k].state_to = WRONG[i][2 * k + 1];
        const Step step = {2, 2, ids, positions, slots, both, ROOM, s->slot_positions, STEP_ANY};
        assert_int_equal(s->backend->ops->begin(s->backend, &step, &s->kv, &error), STATUS_DEVICE);
        assert_non_null(strstr(error.message, "goes on from state"));
    }
    close_side(s);
}

// ---- a gate behind attention ---------------------------------------------------------------------------------------

static void attention_is_multiplied_with_its_gate(void **state) {
    (void)state;
    enum { N = 5, HEADS = 2, DIM = 8, WIDTH = HEADS * DIM };
    const LayerHeads heads = {.n_kv_heads = 1, .head_dim = DIM};
    DecoderShape shape = any_shape();
    shape.n_layers = 1, shape.hidden_size = HIDDEN, shape.n_heads = HEADS, shape.n_kv_heads = 1,
    shape.head_dim = DIM;
    shape.intermediate_size = 16, shape.attention_scale = 0.3f, shape.norm_eps = 1e-6f,
    shape.heads_of_layers = &heads;
    TestMatrix made[9];
    static const int ROWS[9] = {1, WIDTH, DIM, DIM, WIDTH, 1, HIDDEN, 16, HIDDEN},
                     COLS[9] = {HIDDEN, HIDDEN, HIDDEN, HIDDEN, HIDDEN, WIDTH, WIDTH, HIDDEN, 16};
    for (int i = 0; i < 9; i++) made[i] = random_matrix(DTYPE_F32, ROWS[i], COLS[i], 40 + (uint64_t)i);
    float *x = random_floats(3, N * HIDDEN), y[2][N * WIDTH], k[N * DIM], v[N * DIM];
    for (int gated = 0; gated < 2; gated++) {
        LayerWeights w = {.attn_norm = made[0].matrix,
                          .wq = made[1].matrix,
                          .wk = made[2].matrix,
                          .wv = made[3].matrix,
                          .wo = made[6].matrix,
                          .w_up = made[7].matrix,
                          .w_down = made[8].matrix};
        if (gated) w.attn_gate = made[4].matrix, w.attn_gate_bias = made[5].matrix;
        Backend *backend = open_cpu("cpu", 2, &shape, N);
        Layer *layer;
        Error error;
        assert_ok(backend->ops->load_layer(backend, &w, &layer, &error), &error);
        const KvLayer kv = {.type = DTYPE_F32,
                            .k = k,
                            .v = v,
                            .slot_stride = DIM,
                            .head_stride = DIM,
                            .rope = -1,
                            .n_kv_heads = 1,
                            .head_dim = DIM};
        int32_t positions[N], slot_positions[N], ids[N] = {0};
        for (int i = 0; i < N; i++) positions[i] = i, slot_positions[i] = -1;
        const StepSequence all = {
            .n_tokens = N, .n_slots = N, .pages = ONE_PAGE(0), .state_from = -1, .state_to = -1};
        const Step step = {N, 1, ids, positions, positions, &all, N, slot_positions, STEP_ANY};
        assert_ok(backend->ops->begin(backend, &step, &kv, &error), &error);
        assert_ok(backend->ops->qkv(backend, layer, x, &kv, y[gated], &error), &error);
        assert_ok(backend->ops->attend(backend, y[gated], &kv, 0, y[gated], &error), &error);
        backend->ops->close(backend);
    }
    float *norm = matrix_row(&made[0].matrix, 0), *bias = matrix_row(&made[5].matrix, 0);
    for (int t = 0; t < N; t++) {
        double sum = 0, h[HIDDEN], gate[WIDTH];
        for (int i = 0; i < HIDDEN; i++) sum += (double)x[t * HIDDEN + i] * x[t * HIDDEN + i];
        for (int i = 0; i < HIDDEN; i++) h[i] = x[t * HIDDEN + i] / sqrt(sum / HIDDEN + 1e-6) * norm[i];
        product(&made[4].matrix, h, gate);
        for (int i = 0; i < WIDTH; i++)
            assert_near("gated", t * WIDTH + i, y[1][t * WIDTH + i],
                        y[0][t * WIDTH + i] * sigmoid(gate[i] + bias[i]), 1e-5);
    }
    for (int i = 0; i < 9; i++) free(made[i].memory);
    free(x), free(norm), free(bias);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_step_gives_what_the_formula_says),
        cmocka_unit_test(states_that_are_taken_are_refused),
        cmocka_unit_test(attention_is_multiplied_with_its_gate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
