// Attention on the CPU against its formula in double precision: head sizes, groups, windows, ragged sequences,
// scattered slots with holes that hold NaN, threads.
#include "kernels/cpu/loops/quant.h"
#include "tests/support/kernels/random.h"

#include <math.h>
#include <stdlib.h>

typedef struct AttendCase {
    int head_dim, n_heads, n_kv_heads, window;
    DType type;
} AttendCase;

#define CACHE_SLOTS 330

// Two sequences, the second alone in its slots: history in shuffled slots with holes, then this step's
// tokens.
static const StepSequence SEQUENCES[] = {{0, 19, 150, ONE_PAGE(3), 0, 0, 0, 0, false, 0, {0}, -1, -1},
                                         {19, 1, 1, ONE_PAGE(153), 0, 0, 0, 0, false, 0, {0}, -1, -1},
                                         {20, 4, 170, ONE_PAGE(160), 0, 0, 0, 0, false, 0, {0}, -1, -1}};
#define STEP_TOKENS 24

typedef struct AttendData {
    int32_t ids[STEP_TOKENS], positions[STEP_TOKENS], slots[STEP_TOKENS], held[CACHE_SLOTS];
    KvLayer kv;
    int64_t elements;
} AttendData;

static void set_kv(KvLayer *kv, void *values, int64_t i, float value) {
    if (kv->type == DTYPE_F16)
        ((uint16_t *)values)[i] = quant_to_half(value);
    else
        ((float *)values)[i] = value;
}

static float get_kv(const KvLayer *kv, const void *values, int64_t i) {
    return kv->type == DTYPE_F16 ? quant_from_half(((const uint16_t *)values)[i])
                                 : ((const float *)values)[i];
}

// Slots that hold no token are NaN.
static AttendData attend_data(const AttendCase *c, uint64_t seed) {
    AttendData d;
    d.kv = (KvLayer){.type = c->type,
                     .slot_stride = c->n_kv_heads * (c->head_dim + 3) + 5,
                     .head_stride = c->head_dim + 3};
    d.elements = CACHE_SLOTS * d.kv.slot_stride;
    d.kv.k = malloc((size_t)d.elements * 4);
    d.kv.v = malloc((size_t)d.elements * 4);
    for (int64_t i = 0; i < d.elements; i++) set_kv(&d.kv, d.kv.k, i, NAN), set_kv(&d.kv, d.kv.v, i, NAN);
    for (int s = 0; s < CACHE_SLOTS; s++) d.held[s] = -1;
    for (int i = 0; i < 3; i++) {
        const StepSequence *sequence = &SEQUENCES[i];
        int32_t order[CACHE_SLOTS] = {0};
        int n = sequence->n_slots;
        for (int s = 0; s < n; s++) order[s] = sequence->pages[0] + s;
        for (int s = n - 1; s > 0;
             s--) { // shuffle all but a stretch at the start, so that blocks are seen whole
            int other = (int)(seeded_bits(&seed) % (uint64_t)(s + 1));
            if (s < 100 || other < 100) continue;
            int32_t swap = order[s];
            order[s] = order[other], order[other] = swap;
        }
        int used = n > 1 ? n - 7 : 1; // seven holes
        for (int s = 0; s < used; s++) {
            d.held[order[s]] = s;
            for (int64_t e = 0; e < c->n_kv_heads; e++)
                for (int j = 0; j < c->head_dim; j++) {
                    int64_t at = order[s] * d.kv.slot_stride + e * d.kv.head_stride + j;
                    set_kv(&d.kv, d.kv.k, at, 2 * random_float(&seed));
                    set_kv(&d.kv, d.kv.v, at, random_float(&seed));
                }
        }
        for (int t = 0; t < sequence->n_tokens; t++) {
            int position = used - sequence->n_tokens + t;
            d.ids[sequence->first_token + t] = 0;
            d.positions[sequence->first_token + t] = position;
            d.slots[sequence->first_token + t] = order[position];
        }
    }
    return d;
}

static void expected_attend(const AttendCase *c, const AttendData *d, const float *q, int t, int h,
                            double *y) {
    const StepSequence *sequence = SEQUENCES;
    while (t >= sequence->first_token + sequence->n_tokens) sequence++;
    double total = 0;
    for (int j = 0; j < c->head_dim; j++) y[j] = 0;
    for (int s = sequence->pages[0]; s < sequence->pages[0] + sequence->n_slots; s++) {
        if (d->held[s] < 0 || d->held[s] > d->positions[t]) continue;
        if (c->window > 0 && d->positions[t] - d->held[s] >= c->window) continue;
        int64_t at = s * d->kv.slot_stride + h * c->n_kv_heads / c->n_heads * d->kv.head_stride;
        double score = 0;
        for (int j = 0; j < c->head_dim; j++) score += (double)q[j] * get_kv(&d->kv, d->kv.k, at + j);
        double weight = exp(score * 0.125);
        total += weight;
        for (int j = 0; j < c->head_dim; j++) y[j] += weight * get_kv(&d->kv, d->kv.v, at + j);
    }
    for (int j = 0; j < c->head_dim; j++) y[j] /= total;
}

static DecoderShape attend_shape(const AttendCase *c) {
    return (DecoderShape){.n_layers = 1,
                          .hidden_size = 8,
                          .n_heads = c->n_heads,
                          .n_kv_heads = c->n_kv_heads,
                          .head_dim = c->head_dim,
                          .intermediate_size = 8,
                          .vocab_size = 1,
                          .norm_eps = 1e-5f,
                          .embedding_scale = 1,
                          .attention_scale = 0.125f};
}

static void check_attend(const char *device, int n_threads, const AttendCase *c) {
    AttendData d = attend_data(c, 11);
    DecoderShape shape = attend_shape(c);
    Backend *backend = open_cpu(device, n_threads, &shape, STEP_TOKENS);
    Error error = {0};
    Step step = {STEP_TOKENS, 3, d.ids, d.positions, d.slots, SEQUENCES, 1 << 30, d.held, STEP_ANY};
    int64_t width = c->n_heads * c->head_dim, n = STEP_TOKENS * width;
    float *q = random_floats(12, n), *y = malloc((size_t)(n + 16) * sizeof *y);
    double *expected = malloc((size_t)c->head_dim * sizeof *expected);
    for (int64_t i = 0; i < n + 16; i++) y[i] = GUARD;
    assert_ok(backend->ops->begin(backend, &step, NULL, &error), &error);
    assert_ok(backend->ops->attend(backend, q, &d.kv, c->window, y + 8, &error), &error);
    for (int i = 0; i < 8; i++) assert_true(y[i] == GUARD && y[n + 8 + i] == GUARD);
    for (int t = 0; t < STEP_TOKENS; t++)
        for (int h = 0; h < c->n_heads; h++) {
            expected_attend(c, &d, q + t * width + h * c->head_dim, t, h, expected);
            for (int j = 0; j < c->head_dim; j++)
                assert_near(device, t * width + h * c->head_dim + j, y[8 + t * width + h * c->head_dim + j],
                            expected[j], 2e-6);
        }
    assert_ok(backend->ops->attend(backend, q, &d.kv, c->window, q, &error), &error);
    assert_memory_equal(q, y + 8, (size_t)n * sizeof *q); // in place
    backend->ops->close(backend);
    free(q), free(y), free(expected), free(d.kv.k), free(d.kv.v);
}

static void attend_equals_its_formula(void **state) {
    (void)state;
    static const AttendCase CASES[] = {
        {64, 9, 3, 0, DTYPE_F16},    {64, 9, 3, 0, DTYPE_F32},  {80, 4, 4, 0, DTYPE_F16},
        {96, 6, 2, 20, DTYPE_F16},   {128, 8, 1, 0, DTYPE_F16}, {128, 8, 2, 64, DTYPE_F32},
        {256, 4, 1, 100, DTYPE_F16}, {20, 5, 1, 1, DTYPE_F16},  {12, 2, 2, 0, DTYPE_F32},
        {16, 60, 1, 3, DTYPE_F32},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        for (int n_threads = 1; n_threads <= 3; n_threads++) {
            check_attend("cpu", n_threads, &CASES[i]);
            if (n_threads == 1) check_attend("cpu:reference", n_threads, &CASES[i]);
        }
}

// A token alone gives the same bits as the token among others, however many threads there are: a tile of many rows turns
// its keys, and goes through wider registers than one of a few where the machine has them.
static void check_alone(const AttendCase *c) {
    AttendData d = attend_data(c, 21);
    DecoderShape shape = attend_shape(c);
    Error error = {0};
    const int64_t width = c->n_heads * c->head_dim;
    float *q = random_floats(22, STEP_TOKENS * width), *all = random_floats(23, STEP_TOKENS * width),
          *one = random_floats(24, width);
    Backend *backend = open_cpu("cpu", 2, &shape, STEP_TOKENS);
    Step step = {STEP_TOKENS, 3, d.ids, d.positions, d.slots, SEQUENCES, 1 << 30, d.held, STEP_ANY};
    assert_ok(backend->ops->begin(backend, &step, NULL, &error), &error);
    assert_ok(backend->ops->attend(backend, q, &d.kv, c->window, all, &error), &error);
    for (int t = 0; t < SEQUENCES[0].n_tokens; t++) {
        StepSequence alone = {0,  1, SEQUENCES[0].n_slots, SEQUENCES[0].pages, 0, 0, 0, 0, false, 0, {0},
                              -1, -1};
        step = (Step){1, 1, d.ids + t, d.positions + t, d.slots + t, &alone, 1 << 30, d.held, STEP_ANY};
        assert_ok(backend->ops->begin(backend, &step, NULL, &error), &error);
        assert_ok(backend->ops->attend(backend, q + t * width, &d.kv, c->window, one, &error), &error);
        assert_memory_equal(one, all + t * width, (size_t)width * sizeof *one);
    }
    backend->ops->close(backend);
    free(q), free(all), free(one), free(d.kv.k), free(d.kv.v);
}

static void attend_does_not_depend_on_the_step(void **state) {
    (void)state;
    static const AttendCase CASES[] = {
        {64, 9, 3, 0, DTYPE_F16}, {64, 9, 3, 30, DTYPE_F16}, {64, 3, 3, 0, DTYPE_F32},
        {80, 4, 4, 0, DTYPE_F16}, {96, 6, 2, 70, DTYPE_F16}, {128, 2, 1, 0, DTYPE_F16},
        {72, 5, 1, 0, DTYPE_F32},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) check_alone(&CASES[i]);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attend_equals_its_formula),
        cmocka_unit_test(attend_does_not_depend_on_the_step),
    };
    return test_main("attend", argc, argv, tests);
}
