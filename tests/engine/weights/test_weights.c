// Models whose linear layers are converted while they are loaded: logits against a LLaMA in float64 with the same
// rounding (tests/golden/make_weights.py), memory, what stays as it is, and what is refused.
#include "engine/engine_internal.h"
#include "engine/model/weights/conversion.h"
#include "tests/support/model/golden_model.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUANTS GOLDEN_MODELS "/quants.gguf"
#define GOLDEN_WEIGHTS GOLDEN "/weights"

static Error error;

static EngineOptions options_of(const char *device, WeightType weights, WeightType head) {
    return (EngineOptions){.device = device,
                           .weights = weights,
                           .head = head,
                           .n_threads = 2,
                           .context_size = 128,
                           .cache = cache_options(DTYPE_F32),
                           .chunk = 64};
}

static Status open_with(const char *path, const EngineOptions *options, Engine **engine) {
    Model *model;
    if (model_open(path, &model, &error)) fail_msg("%s", error.message);
    return engine_open_model(model, options, engine, &error);
}

static Engine *open_ok(const char *path, const EngineOptions *options) {
    Engine *engine = NULL;
    if (open_with(path, options, &engine)) fail_msg("%s", error.message);
    return engine;
}

// ---- logits ----------------------------------------------------------------------------------------------------

// How many of the rows are within 1e-5.
static int close_rows(const float *logits, const GoldenCase *c) {
    int n = 0;
    for (int i = 0; i < c->n - c->from; i++) {
        size_t at = (size_t)i * (size_t)c->vocab;
        n += golden_distance(logits + at, c->expected + at, (size_t)c->vocab) <= 1e-5;
    }
    return n;
}

// Where activations are rounded to integers, a value at the edge between two may be rounded apart, and what follows
// with it: then the rows before it and most others have to be right.
static void check_logits(const char *name, const char *device, WeightType weights, WeightType head) {
    GoldenSet set;
    if (golden_model_read(GOLDEN_WEIGHTS, name, &set, &error)) fail_msg("%s", error.message);
    const GoldenCase *c = &set.cases[0];
    const size_t count = (size_t)(c->n - c->from) * (size_t)c->vocab;
    float *logits = malloc(count * sizeof *logits);
    EngineOptions options = options_of(device, weights, head);
    Engine *engine = open_ok(QUANTS, &options);
    for (int step = 1; step <= GOLDEN_MAX_IDS; step = step * 8 - 1) { // 1, 7, 55
        if (golden_model_evaluate(engine, c, step, logits, &error)) fail_msg("%s", error.message);
        double distance = golden_distance(logits, c->expected, count);
        print_message("%s, %s, steps of %d: relative error %.1e, %d of %d rows close\n", name, device, step,
                      distance, close_rows(logits, c), c->n - c->from);
        assert_true(distance <= (weights == WEIGHTS_INT8 ? 0.05 : 1e-5));
        assert_in_range(close_rows(logits, c), (c->n - c->from) / 2, c->n - c->from);
    }
    engine_close(engine);
    free(logits);
    golden_model_free(&set);
}

static void f16_logits(void **state) {
    (void)state;
    check_logits("f16", "cpu:reference", WEIGHTS_F16, WEIGHTS_OWN);
}
static void bf16_logits(void **state) {
    (void)state;
    check_logits("bf16", "cpu:reference", WEIGHTS_BF16, WEIGHTS_OWN);
}
static void int4_logits(void **state) {
    (void)state;
    check_logits("int4", "cpu:reference", WEIGHTS_INT4, WEIGHTS_OWN);
}
static void int8_logits(void **state) {
    (void)state;
    check_logits("int8", "cpu:reference", WEIGHTS_INT8, WEIGHTS_OWN);
    check_logits("int8-head", "cpu:reference", WEIGHTS_INT8, WEIGHTS_INT8);
    check_logits("int8-head", "cpu", WEIGHTS_INT8, WEIGHTS_INT8);
}

// Experts lie in pieces, shared ones and routers beside them.
static void experts_are_converted(void **state) {
    (void)state;
    static const char *const NAMES[] = {"mixtral", "mixtral-packed", "qwen2_moe.gguf"};
    for (int i = 0; i < 3; i++) {
        char path[128];
        GoldenSet set;
        snprintf(path, sizeof path, "%s/%s", GOLDEN_EXPERTS, NAMES[i]);
        if (golden_model_read(GOLDEN_EXPERTS, i < 2 ? NAMES[i] : "qwen2_moe", &set, &error))
            fail_msg("%s", error.message);
        const GoldenCase *c = &set.cases[0];
        const size_t count = (size_t)(c->n - c->from) * (size_t)c->vocab;
        float *logits = malloc(count * sizeof *logits);
        EngineOptions options = options_of("cpu", WEIGHTS_F16, WEIGHTS_OWN);
        Engine *engine = open_ok(path, &options);
        if (golden_model_evaluate(engine, c, 7, logits, &error)) fail_msg("%s", error.message);
        double distance = golden_distance(logits, c->expected, count);
        assert_true(distance > 1e-6 && distance < 5e-3);
        engine_close(engine);
        options.weights = WEIGHTS_INT4; // rows of 48
        assert_int_equal(open_with(path, &options, &engine), STATUS_UNSUPPORTED);
        free(logits);
        golden_model_free(&set);
    }
}

// ---- memory ----------------------------------------------------------------------------------------------------

// Bytes of a model of which nothing is known but its matrices.
static int64_t bytes_with(const Model *model, DType type) {
    int64_t more = 0;
    for (int l = 0; l < model->shape.n_layers; l++) {
        const LayerWeights *w = &model->layers[l];
        const Matrix *all[] = {&w->wq, &w->wk, &w->wv, &w->wo, &w->w_gate, &w->w_up, &w->w_down};
        for (int i = 0; i < 7; i++)
            if (all[i]->data)
                more += all[i]->rows *
                        (dtype_row_bytes(type, all[i]->cols) - dtype_row_bytes(all[i]->type, all[i]->cols));
    }
    return model->weight_bytes + more;
}

// What inspect says before is what the plan counts; names, types and the fingerprint's bytes are told apart.
static void the_plan_counts_what_is_held(void **state) {
    (void)state;
    static const DType types[] = {0, DTYPE_F16, DTYPE_BF16, DTYPE_W8, DTYPE_Q4_0};
    Model *model;
    if (model_open(QUANTS, &model, &error)) fail_msg("%s", error.message);
    for (WeightType weights = WEIGHTS_F16; weights <= WEIGHTS_INT4; weights++) {
        EngineOptions options = options_of("cpu", weights, WEIGHTS_OWN);
        Engine *engine = open_ok(QUANTS, &options);
        const Model *held = engine_model(engine);
        int64_t expected = bytes_with(model, types[weights]);
        assert_int_equal(conversion_bytes(model, weights, WEIGHTS_OWN), expected);
        assert_int_equal(engine_memory(engine).weights, expected);
        assert_int_equal(model_weight_bytes(held), expected);
        assert_int_equal(held->weight_bytes, model->weight_bytes);
        assert_int_equal(engine_weight_bytes(engine, WEIGHTS_OWN), model->weight_bytes);
        assert_int_equal(model_main_type(held), types[weights]);
        assert_string_equal(conversion_weights_name(held), conversion_name(weights));
        for (int l = 0; l < held->shape.n_layers; l++) {
            assert_int_equal(held->layers[l].w_down.type, types[weights]);
            assert_ptr_equal(held->layers[l].attn_norm.data, held->file_layers[l].attn_norm.data);
        }
        assert_int_equal(held->head.output.type, model->head.output.type);
        assert_int_equal(held->head.embedding.type, model->head.embedding.type);
        engine_close(engine);
    }
    model_close(model);
}

// A tied head in 8 bits is a matrix of its own beside the embedding.
static void a_tied_head_is_added(void **state) {
    (void)state;
    EngineOptions options = options_of("cpu", WEIGHTS_OWN, WEIGHTS_INT8);
    Engine *engine = open_ok(GOLDEN_MODELS "/llama", &options);
    const Model *model = engine_model(engine);
    assert_true(model->tied_head);
    assert_int_equal(engine_memory(engine).weights,
                     model->weight_bytes +
                         model->shape.vocab_size * dtype_row_bytes(DTYPE_W8, model->shape.hidden_size));
    assert_int_equal(model->head.embedding.type, DTYPE_F32);
    assert_string_equal(conversion_weights_name(model), "f32");
    engine_close(engine);
}

// Matrices that have the type already stay where the file has them.
static void what_has_the_type_stays(void **state) {
    (void)state;
    EngineOptions options = options_of("cpu", WEIGHTS_BF16, WEIGHTS_OWN);
    Engine *engine = open_ok(GOLDEN_MODELS "/llama-bf16", &options);
    const Model *model = engine_model(engine);
    assert_int_equal(model->converted_bytes, 0);
    for (int l = 0; l < model->shape.n_layers; l++) {
        assert_null(model->converted[l]);
        assert_ptr_equal(model->layers[l].wq.data, model->file_layers[l].wq.data);
    }
    engine_close(engine);
}

// ---- every architecture ----------------------------------------------------------------------------------------

// Rows in another order, q, k and v in one tensor, layer norms, biases, no gate: both sets of loops come to the same,
// within what the rounding of activations at an edge does.
static void every_architecture(void **state) {
    (void)state;
    static const char *const names[] = {"gptj", "gpt_neox",           "opt", "bloom", "mpt",
                                        "phi3", "gpt_neox-sequential"};
    enum { N = 12 };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        GoldenSet set;
        if (golden_model_read(GOLDEN_ARCHITECTURES, names[i], &set, &error)) fail_msg("%s", error.message);
        const GoldenCase *c = &set.cases[0];
        size_t count = (size_t)(c->n - c->from) * (size_t)c->vocab;
        char path[200];
        snprintf(path, sizeof path, GOLDEN_ARCHITECTURES "/%s", names[i]);
        float *logits[2];
        for (int d = 0; d < 2; d++) {
            EngineOptions options = options_of(d ? "cpu" : "cpu:reference", WEIGHTS_INT8, WEIGHTS_INT8);
            Engine *engine = open_ok(path, &options);
            logits[d] = malloc(count * sizeof(float));
            if (golden_model_evaluate(engine, c, N, logits[d], &error)) fail_msg("%s", error.message);
            engine_close(engine);
        }
        double apart = golden_distance(logits[0], logits[1], count),
               lost = golden_distance(logits[0], c->expected, count);
        print_message("%s: %.1e between the loops, %.1e from float32\n", names[i], apart, lost);
        assert_true(apart <= 0.05);
        assert_true(lost > 1e-4 && lost <= 0.5);
        free(logits[0]), free(logits[1]);
        golden_model_free(&set);
    }
}

// ---- what is refused -----------------------------------------------------------------------------------------------

static void rows_that_do_not_suit_are_named(void **state) {
    (void)state;
    Engine *engine;
    EngineOptions options = options_of("cpu", WEIGHTS_INT4, WEIGHTS_OWN);
    assert_int_equal(open_with(GOLDEN_MODELS "/llama", &options, &engine), STATUS_UNSUPPORTED);
    assert_string_equal(error.message,
                        "model.layers.0.self_attn.q_proj.weight: rows of 48 cannot be held as int4 "
                        "(multiples of 32 can); weights = \"own\" leaves them as they are");
    assert_null(engine);
}

// A model of its own in which a value is far too large.
static Status open_with_value(float value, WeightType weights, Engine **engine) {
    Model *model;
    if (model_open(GOLDEN_MODELS "/llama", &model, &error)) fail_msg("%s", error.message);
    Matrix *m = &model->layers[1].w_up;
    const size_t n = (size_t)(m->rows * m->cols);
    float *copy = malloc(n * sizeof *copy);
    memcpy(copy, m->data, n * sizeof *copy);
    copy[5 * m->cols + 3] = value;
    m->data = copy;
    EngineOptions options = options_of("cpu", weights, WEIGHTS_OWN);
    Status status = engine_open_model(model, &options, engine, &error);
    if (!status) engine_close(*engine);
    free(copy);
    return status;
}

static void values_without_a_place_are_named(void **state) {
    (void)state;
    Engine *engine;
    assert_int_equal(open_with_value(1e5f, WEIGHTS_BF16, &engine), STATUS_OK);
    assert_int_equal(open_with_value(1e5f, WEIGHTS_INT8, &engine), STATUS_OK);
    assert_int_equal(open_with_value(1e5f, WEIGHTS_F16, &engine), STATUS_UNSUPPORTED);
    assert_string_equal(error.message,
                        "layer 1: a linear layer: row 5 holds 100000, which has no place in f16; take "
                        "weights = \"own\" or \"bf16\"");
    assert_null(engine);
    assert_int_equal(open_with_value(NAN, WEIGHTS_INT8, &engine), STATUS_UNSUPPORTED);
    assert_string_equal(error.message,
                        "layer 1: a linear layer: row 5 holds nan, which has no place in int8; take weights "
                        "= \"own\"");
}

// Stops when it is asked for the n-th time.
static bool stop_at(void *user, const char *what, int64_t done, int64_t total) {
    int *left = user;
    assert_string_equal(what, "loading");
    assert_in_range(done, 0, total);
    return (*left)-- > 0;
}

static void loading_can_be_interrupted(void **state) {
    (void)state;
    EngineOptions options = options_of("cpu", WEIGHTS_INT8, WEIGHTS_INT8);
    Status status = STATUS_INTERRUPTED;
    int n = 0;
    for (; status == STATUS_INTERRUPTED; n++) {
        Engine *engine;
        int left = n;
        options.progress = (Progress){stop_at, &left};
        status = open_with(QUANTS, &options, &engine);
        if (status == STATUS_INTERRUPTED) assert_null(engine);
        if (!status) engine_close(engine);
    }
    assert_int_equal(status, STATUS_OK);
    // Three layers are measured; then the head, three layers of seven matrices, the end.
    assert_int_equal(n - 1, 3 + 1 + 3 * (1 + 7) + 1);
}

// A backend without kernels for it says so, before anything is converted.
static void a_backend_without_kernels_says_so(void **state) {
    (void)state;
    Model *model;
    if (model_open(QUANTS, &model, &error)) fail_msg("%s", error.message);
    assert_false(conversion_needs(model, DTYPE_W8));
    assert_int_equal(conversion_plan(model, WEIGHTS_OWN, WEIGHTS_INT8, &error), STATUS_OK);
    assert_true(conversion_needs(model, DTYPE_W8));
    assert_true(conversion_awaits(&model->head.output));
    model_close(model);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_logits),
        cmocka_unit_test(bf16_logits),
        cmocka_unit_test(int4_logits),
        cmocka_unit_test(int8_logits),
        cmocka_unit_test(experts_are_converted),
        cmocka_unit_test(the_plan_counts_what_is_held),
        cmocka_unit_test(a_tied_head_is_added),
        cmocka_unit_test(what_has_the_type_stays),
        cmocka_unit_test(every_architecture),
        cmocka_unit_test(rows_that_do_not_suit_are_named),
        cmocka_unit_test(values_without_a_place_are_named),
        cmocka_unit_test(loading_can_be_interrupted),
        cmocka_unit_test(a_backend_without_kernels_says_so),
    };
    return test_main("weights", argc, argv, tests);
}
