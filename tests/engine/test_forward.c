// The forward pass against Hugging Face transformers in float32, on small random models of every family
// (tests/golden/make_models.py, make_architectures.py, make_experts.py), and against itself: prefill(n+1) is prefill(n)
// and one step of decoding.
#include "tests/support/test.h"
#include "tests/support/model/golden_model.h"
#include "engine/model/model.h"

#include <stdlib.h>
#include <string.h>

// How many rows are within what we see everywhere, of [n, vocab] each.
static int close_rows(const float *a, const GoldenCase *c) {
    int close = 0;
    for (int i = 0; i < c->n - c->from; i++) {
        size_t at = (size_t)i * (size_t)c->vocab;
        if (golden_distance(a + at, c->expected + at, (size_t)c->vocab) <= 1e-5) close++;
    }
    return close;
}

static Engine *open_engine(const char *root, const char *name, const char *device) {
    Engine *engine = NULL;
    Error error = {0};
    if (golden_model_open(root, name, device, DTYPE_F32, &engine, &error)) fail_msg("%s", error.message);
    return engine;
}

static void check_case(const char *root, const char *name, const GoldenCase *c, const char *device,
                       double tolerance) {
    size_t count = (size_t)(c->n - c->from) * (size_t)c->vocab;
    float *logits = malloc(count * sizeof *logits);
    Error error = {0};
    Engine *engine = open_engine(root, name, device);
    for (int step = 1; step <= GOLDEN_MAX_IDS; step = step * 8 - 1) { // 1, 7, 55
        memset(logits, 0xff, count * sizeof *logits);
        if (golden_model_evaluate(engine, c, step, logits, &error)) fail_msg("%s", error.message);
        double distance = golden_distance(logits, c->expected, count);
        if (!(distance <= tolerance))
            fail_msg("%s, %s, %s, steps of %d: relative error %g", name, c->name, device, step, distance);
        assert_in_range(close_rows(logits, c), (c->n - c->from) / 2, c->n - c->from);
        if (step == 55) print_message("%s, %s, %s: relative error %.1e\n", name, c->name, device, distance);
    }
    engine_close(engine);
    free(logits);
}

static void check_model(const char *root, const char *name, const char *golden_of, const char *device,
                        double tolerance) {
    GoldenSet set;
    Error error = {0};
    if (golden_model_read(root, golden_of, &set, &error)) fail_msg("%s", error.message);
    assert_in_range(set.n, 1, GOLDEN_MAX_CASES);
    for (int i = 0; i < set.n; i++) check_case(root, name, &set.cases[i], device, tolerance);
    golden_model_free(&set);
}

// One test for each model, so that each runs by name. 16-bit weights are exact in both programs (test_fixed.c has
// those of "cpu"); 1e-4 is what
// we promise, 1e-6 what we see.
#define ROOT_TEST(root, test, name, golden_of)                                                               \
    static void test(void **state) {                                                                         \
        (void)state;                                                                                         \
        check_model(root, name, golden_of, "cpu:reference", 1e-5);                                           \
        check_model(root, name, golden_of, "cpu:exact", 1e-5);                                               \
    }
#define MODEL_TEST(test, name, golden_of) ROOT_TEST(GOLDEN_MODELS, test, name, golden_of)
#define ARCHITECTURE_TEST(test, name, golden_of) ROOT_TEST(GOLDEN_ARCHITECTURES, test, name, golden_of)
MODEL_TEST(llama, "llama", "llama")
MODEL_TEST(llama_linear_untied_gqa, "llama-linear", "llama-linear")
MODEL_TEST(llama3_scaling, "llama3", "llama3")
MODEL_TEST(llama_yarn, "llama-yarn", "llama-yarn")
MODEL_TEST(llama_sharded, "llama-sharded", "llama-sharded")
MODEL_TEST(llama_f16, "llama-f16", "llama-f16")
MODEL_TEST(llama_bf16, "llama-bf16", "llama-bf16")
MODEL_TEST(mistral_window, "mistral", "mistral")
MODEL_TEST(mistral_bf16, "mistral-bf16", "mistral-bf16")
MODEL_TEST(qwen2_bf16, "qwen2-bf16", "qwen2-bf16")
MODEL_TEST(qwen3_bf16, "qwen3-bf16", "qwen3-bf16")
MODEL_TEST(qwen2_bias, "qwen2", "qwen2")
MODEL_TEST(qwen3_qk_norm, "qwen3", "qwen3")
MODEL_TEST(llama3_gguf, "llama3.gguf", "llama3")
MODEL_TEST(qwen2_gguf, "qwen2.gguf", "qwen2")
ARCHITECTURE_TEST(gptj, "gptj", "gptj")
ARCHITECTURE_TEST(gpt_neox, "gpt_neox", "gpt_neox")
ARCHITECTURE_TEST(gpt_neox_gguf, "gpt_neox.gguf", "gpt_neox")
ARCHITECTURE_TEST(gpt_neox_sequential, "gpt_neox-sequential", "gpt_neox-sequential")
ARCHITECTURE_TEST(opt, "opt", "opt")
ARCHITECTURE_TEST(bloom, "bloom", "bloom")
ARCHITECTURE_TEST(bloom_gguf, "bloom.gguf", "bloom")
ARCHITECTURE_TEST(mpt, "mpt", "mpt")
ARCHITECTURE_TEST(mpt_gguf, "mpt.gguf", "mpt")
ARCHITECTURE_TEST(phi3_longrope, "phi3", "phi3")
ARCHITECTURE_TEST(phi3_longrope_gguf, "phi3.gguf", "phi3")
ARCHITECTURE_TEST(llama_dynamic_ntk, "llama-dynamic", "llama-dynamic")

#define EXPERTS_TEST(test, name, golden_of) ROOT_TEST(GOLDEN_EXPERTS, test, name, golden_of)
EXPERTS_TEST(mixtral, "mixtral", "mixtral")
EXPERTS_TEST(mixtral_packed, "mixtral-packed", "mixtral-packed")
EXPERTS_TEST(mixtral_gguf, "mixtral.gguf", "mixtral")
EXPERTS_TEST(qwen3_moe, "qwen3_moe", "qwen3_moe")
EXPERTS_TEST(qwen3_moe_gguf, "qwen3_moe.gguf", "qwen3_moe")
EXPERTS_TEST(qwen2_moe, "qwen2_moe", "qwen2_moe")
EXPERTS_TEST(qwen2_moe_gguf, "qwen2_moe.gguf", "qwen2_moe")
EXPERTS_TEST(olmoe, "olmoe", "olmoe")
EXPERTS_TEST(olmoe_gguf, "olmoe.gguf", "olmoe")
EXPERTS_TEST(granitemoe, "granitemoe", "granitemoe")
EXPERTS_TEST(granitemoe_gguf, "granitemoe.gguf", "granitemoe")
EXPERTS_TEST(granitemoeshared, "granitemoeshared", "granitemoeshared")
EXPERTS_TEST(granitemoeshared_gguf, "granitemoeshared.gguf", "granitemoeshared")
EXPERTS_TEST(glm4_moe, "glm4_moe", "glm4_moe")
EXPERTS_TEST(ernie4_5_moe, "ernie4_5_moe", "ernie4_5_moe")
EXPERTS_TEST(gpt_oss, "gpt_oss", "gpt_oss")
EXPERTS_TEST(gpt_oss_gguf, "gpt_oss.gguf", "gpt_oss")
EXPERTS_TEST(glm4_moe_gguf, "glm4_moe.gguf", "glm4_moe")
EXPERTS_TEST(ernie4_5_moe_gguf, "ernie4_5_moe.gguf", "ernie4_5_moe")
EXPERTS_TEST(phimoe, "phimoe", "phimoe")
EXPERTS_TEST(llama4, "llama4", "llama4")
EXPERTS_TEST(llama4_usual, "llama4-usual", "llama4-usual")
EXPERTS_TEST(llama4_usual_gguf, "llama4-usual.gguf", "llama4-usual")

// Fast loops round what enters a matrix of blocks to 8 bits. With these sharp random weights that moves the logits by
// 2%, at most 5%, and transformers' by the same where the same is done to it: most positions then agree within 1e-6. In
// the few where a value lies at the edge between two integers, the two programs round it apart.
static void every_block_type(void **state) {
    (void)state;
    char backend[128];
    Engine *engine = open_engine(GOLDEN_MODELS, "quants.gguf", "cpu");
    engine_describe_backend(engine, backend, sizeof backend);
    engine_close(engine);
    bool fast = strstr(backend, "AVX2") || strstr(backend, "NEON");
    check_model(GOLDEN_MODELS, "quants.gguf", "quants", "cpu:reference", 1e-5);
    check_model(GOLDEN_MODELS, "quants.gguf", fast ? "quants-int8" : "quants", "cpu:exact", 0.05);
    check_model(GOLDEN_MODELS, "few-bits.gguf", "few-bits", "cpu:reference", 1e-5);
    check_model(GOLDEN_MODELS, "few-bits.gguf", fast ? "few-bits-int8" : "few-bits", "cpu:exact", 0.05);
}

// A context that reaches beyond what a model has learned is refused, not read beyond.
static void learned_positions_end(void **state) {
    (void)state;
    Model *model;
    Engine *engine;
    Error error = {0};
    if (model_open(GOLDEN_ARCHITECTURES "/opt", &model, &error)) fail_msg("%s", error.message);
    EngineOptions options = {
        .device = "cpu", .n_threads = 1, .context_size = 129, .cache = cache_options(DTYPE_F32)};
    assert_int_equal(engine_open_model(model, &options, &engine, &error), STATUS_USAGE);
    assert_string_equal(error.message, "a context of 129 tokens: the model has learned only 128 positions");
    assert_null(engine);
    if (model_open(GOLDEN_ARCHITECTURES "/opt", &model, &error)) fail_msg("%s", error.message);
    options.context_size = 0;
    if (engine_open_model(model, &options, &engine, &error)) fail_msg("%s", error.message);
    assert_int_equal(engine_context_size(engine), 128);
    engine_close(engine);
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
        cmocka_unit_test(mistral_bf16),
        cmocka_unit_test(qwen2_bf16),
        cmocka_unit_test(qwen3_bf16),
        cmocka_unit_test(qwen2_bias),
        cmocka_unit_test(qwen3_qk_norm),
        cmocka_unit_test(llama3_gguf),
        cmocka_unit_test(qwen2_gguf),
        cmocka_unit_test(gptj),
        cmocka_unit_test(gpt_neox),
        cmocka_unit_test(gpt_neox_gguf),
        cmocka_unit_test(gpt_neox_sequential),
        cmocka_unit_test(opt),
        cmocka_unit_test(bloom),
        cmocka_unit_test(bloom_gguf),
        cmocka_unit_test(mpt),
        cmocka_unit_test(mpt_gguf),
        cmocka_unit_test(phi3_longrope),
        cmocka_unit_test(phi3_longrope_gguf),
        cmocka_unit_test(llama_dynamic_ntk),
        cmocka_unit_test(mixtral),
        cmocka_unit_test(mixtral_packed),
        cmocka_unit_test(mixtral_gguf),
        cmocka_unit_test(qwen3_moe),
        cmocka_unit_test(qwen3_moe_gguf),
        cmocka_unit_test(qwen2_moe),
        cmocka_unit_test(qwen2_moe_gguf),
        cmocka_unit_test(olmoe),
        cmocka_unit_test(olmoe_gguf),
        cmocka_unit_test(granitemoe),
        cmocka_unit_test(granitemoe_gguf),
        cmocka_unit_test(granitemoeshared),
        cmocka_unit_test(granitemoeshared_gguf),
        cmocka_unit_test(glm4_moe),
        cmocka_unit_test(ernie4_5_moe),
        cmocka_unit_test(gpt_oss),
        cmocka_unit_test(gpt_oss_gguf),
        cmocka_unit_test(glm4_moe_gguf),
        cmocka_unit_test(ernie4_5_moe_gguf),
        cmocka_unit_test(phimoe),
        cmocka_unit_test(llama4),
        cmocka_unit_test(llama4_usual),
        cmocka_unit_test(llama4_usual_gguf),
        cmocka_unit_test(learned_positions_end),
        cmocka_unit_test(every_block_type),
    };
    return test_main("forward", argc, argv, tests);
}
