// SmoothQuant of int8 layers (engine/smoothing.h): a channel that is planted thousands of times larger than the others
// costs a model in int8 little, and models without one are what they were.
#include "engine/engine_internal.h"
#include "engine/model/model.h"
#include "engine/smoothing.h"
#include "kernels/dtype.h"
#include "tests/support/kernels/random.h"
#include "tests/support/model/golden_model.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNEL = 5 };
static const float LARGER = 4096;

static Error error;

static Model *open_golden(const char *name) {
    Model *model;
    char path[200];
    snprintf(path, sizeof path, GOLDEN_MODELS "/%s", name);
    assert_ok(model_open(path, &model, &error), &error);
    return model;
}

// A copy of a float32 matrix, freed with *kept.
static float *own_copy(Matrix *m, float **kept) {
    const size_t bytes = (size_t)(m->rows * m->cols) * sizeof(float);
    assert_int_equal(m->type, DTYPE_F32);
    *kept = malloc(bytes);
    memcpy(*kept, m->data, bytes);
    m->data = *kept;
    return *kept;
}

// A channel of layer 1 becomes so much larger, and what it is multiplied with smaller: the model is the same.
static void plant(Model *model, float *kept[2]) {
    LayerWeights *w = &model->layers[1];
    float *up = own_copy(&w->w_up, &kept[0]), *down = own_copy(&w->w_down, &kept[1]);
    for (int64_t i = 0; i < w->w_up.cols; i++) up[CHANNEL * w->w_up.cols + i] *= LARGER;
    for (int64_t r = 0; r < w->w_down.rows; r++) down[r * w->w_down.cols + CHANNEL] /= LARGER;
}

static Engine *open_as(Model *model, WeightType weights) {
    Engine *engine;
    const EngineOptions options = {.device = "cpu",
                                   .n_threads = 1,
                                   .context_size = 128,
                                   .cache = cache_options(DTYPE_F32),
                                   .weights = weights};
    assert_ok(engine_open_model(model, &options, &engine, &error), &error);
    return engine;
}

// How far int8 is from float32 on a model with that channel; not measured: as if nobody had looked.
static double lost(bool measured) {
    GoldenSet set;
    float *kept[2];
    assert_ok(golden_model_read(GOLDEN_MODELS, "llama", &set, &error), &error);
    const GoldenCase *c = &set.cases[0];
    const size_t n = (size_t)(c->n - c->from) * (size_t)c->vocab;
    float *logits = calloc(n, sizeof *logits);
    Model *model = open_golden("llama");
    plant(model, kept);
    if (!measured) model->smoothing = calloc((size_t)model->shape.n_layers, sizeof *model->smoothing);
    Engine *engine = open_as(model, WEIGHTS_INT8);
    assert_non_null(model->smoothing);
    assert_null(model->smoothing[0]);
    assert_int_equal(model->smoothing[1] != NULL, measured);
    const float *scales = model->smoothing[1];
    for (int64_t i = 0; scales && i < model->shape.intermediate_size; i++) {
        int exponent;
        assert_true(frexpf(scales[i], &exponent) == 0.5f); // a power of two
        assert_true(i == CHANNEL || scales[i] < scales[CHANNEL]);
    }
    assert_ok(golden_model_evaluate(engine, c, 7, logits, &error), &error);
    const double distance = golden_distance(logits, c->expected, n);
    engine_close(engine);
    free(kept[0]), free(kept[1]);
    free(logits);
    golden_model_free(&set);
    return distance;
}

static void a_channel_costs_little(void **state) {
    (void)state;
    const double as_it_is = lost(false), smoothed = lost(true);
    if (!(smoothed < 0.6 * as_it_is)) fail_msg("%g as it is, %g smoothed", as_it_is, smoothed);
}

static void what_has_none_is_left_alone(void **state) {
    (void)state;
    Model *model = open_golden("llama");
    Engine *engine = open_as(model, WEIGHTS_INT8);
    assert_non_null(model->smoothing);
    for (int l = 0; l < model->shape.n_layers; l++) assert_null(model->smoothing[l]);
    engine_close(engine);
    static const WeightType TYPES[] = {WEIGHTS_OWN, WEIGHTS_F16, WEIGHTS_BF16};
    for (int i = 0; i < 3; i++) { // which have no scale for a whole token
        model = open_golden("llama");
        engine = open_as(model, TYPES[i]);
        assert_null(model->smoothing);
        engine_close(engine);
    }
}

static bool stop(void *user, const char *what, int64_t done, int64_t total) {
    (void)user, (void)what, (void)done, (void)total;
    return false;
}

static void it_can_be_interrupted(void **state) {
    (void)state;
    Engine *engine = NULL;
    const EngineOptions options = {.device = "cpu",
                                   .n_threads = 1,
                                   .context_size = 128,
                                   .cache = cache_options(DTYPE_F32),
                                   .weights = WEIGHTS_INT8,
                                   .progress = {.step = stop}};
    assert_int_equal(engine_open_model(open_golden("llama"), &options, &engine, &error), STATUS_INTERRUPTED);
    assert_string_equal(error.message, "loading was interrupted");
    assert_null(engine);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_channel_costs_little),
        cmocka_unit_test(what_has_none_is_left_alone),
        cmocka_unit_test(it_can_be_interrupted),
    };
    return test_main("smoothing", argc, argv, tests);
}
