// The forward pass against Hugging Face transformers in float32, on small random models of every family
// (tests/golden/make_models.py), and against itself: prefill(n+1) is prefill(n) and one step of decoding.
#include "tests/test.h"
#include "engine/engine_internal.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN "tests/golden/models/"
enum { MAX_IDS = 64 };

typedef struct Case {
    const char *name, *logits_file;
    int n, from, vocab;
    int32_t ids[MAX_IDS], positions[MAX_IDS];
    float *expected; // [n - from, vocab]
} Case;

static Engine *open_engine(const char *name, const char *device, int chunk) {
    char path[256];
    Error error = {0};
    Model *model = NULL;
    Engine *engine = NULL;
    snprintf(path, sizeof path, GOLDEN "%s", name);
    if (model_open(path, &model, &error)) fail_msg("%s", error.message);
    EngineOptions options = {
        .device = device, .n_threads = 2, .context_size = 128, .cache_type = DTYPE_F32, .chunk = chunk};
    if (engine_open_model(model, &options, &engine, &error)) fail_msg("%s", error.message);
    return engine;
}

static void read_ints(const json_t *array, int32_t *out, int n) {
    for (int i = 0; i < n; i++) out[i] = (int32_t)json_integer_value(json_array_get(array, (size_t)i));
}

static void read_case(const char *folder, const json_t *golden, const json_t *json, Case *c) {
    const json_t *ids = json_object_get(json, "ids");
    *c = (Case){.name = json_string_value(json_object_get(json, "name")),
                .logits_file = json_string_value(json_object_get(json, "logits")),
                .n = (int)json_array_size(ids),
                .from = (int)json_integer_value(json_object_get(json, "from")),
                .vocab = (int)json_integer_value(json_object_get(golden, "vocab_size"))};
    assert_in_range(c->n, 1, MAX_IDS);
    read_ints(ids, c->ids, c->n);
    read_ints(json_object_get(json, "positions"), c->positions, c->n);
    size_t count = (size_t)(c->n - c->from) * (size_t)c->vocab;
    c->expected = malloc(count * sizeof *c->expected);
    char path[300];
    snprintf(path, sizeof path, GOLDEN "%s/%s", folder, c->logits_file);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(c->expected, sizeof *c->expected, count, file), count);
    fclose(file);
}

// Evaluates a case in steps of `step` tokens at its own positions; logits of [from, n) to the host.
static void evaluate(Engine *engine, const Case *c, int step, float *logits) {
    Error error = {0};
    KvCache cache;
    const Ops *ops = engine->backend->ops;
    if (kv_cache_open(engine->backend, &engine->model->shape, engine->cache_type, 128, &cache, &error))
        fail_msg("%s", error.message);
    for (int first = 0; first < c->n; first += step) {
        int n = c->n - first < step ? c->n - first : step;
        int32_t slots[MAX_IDS];
        if (kv_cache_take(&cache, n, slots, &error)) fail_msg("%s", error.message);
        StepSequence all = {0, n, 0, cache.n_used};
        Step s = {.n_tokens = n,
                  .n_sequences = 1,
                  .ids = c->ids + first,
                  .positions = c->positions + first,
                  .slots = slots,
                  .sequences = &all,
                  .slot_positions = cache.slot_positions};
        if (forward_step(&engine->forward, &s, &cache, NULL, &error)) fail_msg("%s", error.message);
        for (int i = 0; i < n; i++) {
            if (first + i < c->from) continue;
            int32_t row = i;
            if (forward_logits(&engine->forward, &row, 1, &error)) fail_msg("%s", error.message);
            ops->read(engine->backend, logits + (size_t)(first + i - c->from) * (size_t)c->vocab,
                      engine->forward.logits, (size_t)c->vocab * sizeof(float), &error);
        }
    }
    kv_cache_close(engine->backend, &cache);
}

// Largest difference over the largest expected value; NaN gives infinity.
static double relative_error(const float *a, const float *b, size_t n) {
    double worst = 0, scale = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d < INFINITY)) return INFINITY;
        if (d > worst) worst = d;
        if (fabs((double)b[i]) > scale) scale = fabs((double)b[i]);
    }
    return worst / scale;
}

// How many rows are within what we see everywhere, of [n, vocab] each.
static int close_rows(const float *a, const Case *c) {
    int close = 0;
    for (int i = 0; i < c->n - c->from; i++) {
        size_t at = (size_t)i * (size_t)c->vocab;
        if (relative_error(a + at, c->expected + at, (size_t)c->vocab) <= 1e-5) close++;
    }
    return close;
}

static void check_model(const char *name, const char *golden_of, const char *device, double tolerance) {
    char path[256];
    json_error_t json_error;
    snprintf(path, sizeof path, GOLDEN "%s/golden.json", golden_of);
    json_t *golden = json_load_file(path, 0, &json_error), *json;
    assert_non_null(golden);
    size_t i;
    json_array_foreach(json_object_get(golden, "cases"), i, json) {
        Case c;
        read_case(golden_of, golden, json, &c);
        size_t count = (size_t)(c.n - c.from) * (size_t)c.vocab;
        float *logits = malloc(count * sizeof *logits);
        Engine *engine = open_engine(name, device, 64);
        for (int step = 1; step <= MAX_IDS; step = step * 8 - 1) { // 1, 7, 55
            memset(logits, 0xff, count * sizeof *logits);
            evaluate(engine, &c, step, logits);
            double error = relative_error(logits, c.expected, count);
            if (!(error <= tolerance))
                fail_msg("%s, %s, %s, steps of %d: relative error %g", name, c.name, device, step, error);
            assert_in_range(close_rows(logits, &c), (c.n - c.from) / 2, c.n - c.from);
            if (step == 55) print_message("%s, %s, %s: relative error %.1e\n", name, c.name, device, error);
        }
        engine_close(engine);
        free(logits);
        free(c.expected);
    }
    json_decref(golden);
}

// One test for each model, so that each runs by name. 16-bit weights are exact in both programs; 1e-4 is what
// we promise, 1e-6 what we see.
#define MODEL_TEST(test, name, golden_of)                                                                    \
    static void test(void **state) {                                                                         \
        (void)state;                                                                                         \
        check_model(name, golden_of, "cpu:reference", 1e-5);                                                 \
        check_model(name, golden_of, "cpu", 1e-5);                                                           \
    }
MODEL_TEST(llama, "llama", "llama")
MODEL_TEST(llama_linear_untied_gqa, "llama-linear", "llama-linear")
MODEL_TEST(llama3_scaling, "llama3", "llama3")
MODEL_TEST(llama_yarn, "llama-yarn", "llama-yarn")
MODEL_TEST(llama_sharded, "llama-sharded", "llama-sharded")
MODEL_TEST(llama_f16, "llama-f16", "llama-f16")
MODEL_TEST(llama_bf16, "llama-bf16", "llama-bf16")
MODEL_TEST(mistral_window, "mistral", "mistral")
MODEL_TEST(qwen2_bias, "qwen2", "qwen2")
MODEL_TEST(qwen3_qk_norm, "qwen3", "qwen3")
MODEL_TEST(llama3_gguf, "llama3.gguf", "llama3")
MODEL_TEST(qwen2_gguf, "qwen2.gguf", "qwen2")

// Fast loops round what enters a matrix of blocks to 8 bits. With these sharp random weights that moves the logits by
// 2%, at most 5%, and transformers' by the same where the same is done to it: most positions then agree within 1e-6. In
// the few where a value lies at the edge between two integers, the two programs round it apart.
static void every_block_type(void **state) {
    (void)state;
    char backend[128];
    check_model("quants.gguf", "quants", "cpu:reference", 1e-5);
    Engine *engine = open_engine("quants.gguf", "cpu", 64);
    engine_describe_backend(engine, backend, sizeof backend);
    engine_close(engine);
    check_model("quants.gguf", strstr(backend, "AVX2") != NULL ? "quants-int8" : "quants", "cpu", 0.05);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama),
        cmocka_unit_test(llama_linear_untied_gqa),
        cmocka_unit_test(llama3_scaling),
        cmocka_unit_test(llama_yarn),
        cmocka_unit_test(llama_sharded),
        cmocka_unit_test(llama_f16),
        cmocka_unit_test(llama_bf16),
        cmocka_unit_test(mistral_window),
        cmocka_unit_test(qwen2_bias),
        cmocka_unit_test(qwen3_qk_norm),
        cmocka_unit_test(llama3_gguf),
        cmocka_unit_test(qwen2_gguf),
        cmocka_unit_test(every_block_type),
    };
    return test_main("forward", argc, argv, tests);
}
