// Models of 16-bit floats by "cpu", whose linear layers are multiplied in integers (kernels/cpu/loops/fixed.h): how far
// logits are from those of transformers in float32, and that they are the same bits in steps of any size.
#include "engine/engine_internal.h"
#include "engine/model/model.h"
#include "tests/support/model/golden_model.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

static Error error;

static float *logits_of(Engine *engine, const GoldenCase *c, int step) {
    float *logits = calloc((size_t)(c->n - c->from) * (size_t)c->vocab, sizeof *logits);
    if (golden_model_evaluate(engine, c, step, logits, &error)) fail_msg("%s", error.message);
    return logits;
}

// Returns whether products in integers show at all.
static bool check_model(const char *root, const char *name) {
    GoldenSet set;
    Engine *engine;
    bool shows = false;
    if (golden_model_read(root, name, &set, &error)) fail_msg("%s", error.message);
    if (golden_model_open(root, name, "cpu", DTYPE_F32, &engine, &error)) fail_msg("%s", error.message);
    for (int i = 0; i < set.n; i++) {
        const GoldenCase *c = &set.cases[i];
        const size_t n = (size_t)(c->n - c->from) * (size_t)c->vocab;
        float *whole = logits_of(engine, c, c->n), *cut = logits_of(engine, c, 7),
              *single = logits_of(engine, c, 1);
        const double distance = golden_distance(whole, c->expected, n);
        if (!(distance <= golden_fixed_bound(c)))
            fail_msg("%s/%s, %s: %g, allowed is %g", root, name, c->name, distance, golden_fixed_bound(c));
        assert_memory_equal(cut, whole, n * sizeof *whole);
        assert_memory_equal(single, whole, n * sizeof *whole);
        shows |= distance > 1e-5;
        print_message("%s/%s, %s: %.1e, with 16-bit floats %.1e\n", root, name, c->name, distance,
                      c->half_error);
        free(whole), free(cut), free(single);
    }
    engine_close(engine);
    golden_model_free(&set);
    return shows;
}

static void near_transformers(void **state) {
    (void)state;
    static const char *const MODELS[][2] = {
        {GOLDEN_MODELS, "llama-bf16"},  {GOLDEN_MODELS, "llama-f16"},   {GOLDEN_MODELS, "mistral-bf16"},
        {GOLDEN_MODELS, "qwen2-bf16"},  {GOLDEN_MODELS, "qwen3-bf16"},  {GOLDEN_ARCHITECTURES, "opt"},
        {GOLDEN_DENSE, "gemma"},        {GOLDEN_DENSE, "gemma2"},       {GOLDEN_DENSE, "gemma3"},
        {GOLDEN_DENSE, "gemma4"},       {GOLDEN_DENSE, "gemma4-e"},     {GOLDEN_DENSE, "chatglm-1"},
        {GOLDEN_DENSE, "falcon-7b"},    {GOLDEN_EXPERTS, "mixtral"},    {GOLDEN_EXPERTS, "llama4"},
        {GOLDEN_LATENT, "deepseek_v3"}, {GOLDEN_LATENT, "deepseek_v2"}, {GOLDEN_DENSE, "apertus"},
    };
    int n = 0;
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) n += check_model(MODELS[i][0], MODELS[i][1]);
    assert_true(n > 5);
}

// Exact products on demand: as near as the plain loops are.
static void exact_on_demand(void **state) {
    (void)state;
    GoldenSet set;
    Engine *engine;
    if (golden_model_read(GOLDEN_MODELS, "llama-bf16", &set, &error)) fail_msg("%s", error.message);
    if (golden_model_open(GOLDEN_MODELS, "llama-bf16", "cpu:exact", DTYPE_F32, &engine, &error))
        fail_msg("%s", error.message);
    const GoldenCase *c = &set.cases[0];
    float *logits = logits_of(engine, c, 7);
    assert_true(golden_distance(logits, c->expected, (size_t)(c->n - c->from) * (size_t)c->vocab) <= 1e-5);
    free(logits);
    engine_close(engine);
    golden_model_free(&set);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(near_transformers),
                                       cmocka_unit_test(exact_on_demand)};
    return test_main("fixed", argc, argv, tests);
}
