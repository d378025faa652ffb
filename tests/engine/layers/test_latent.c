// Latent attention (tests/golden/make_latent.py): logits and greedy text as transformers has them, from both kinds of
// files, what one token leaves in the cache, and what such a cache is refused as.
#include "engine/cache/kv_cache.h"
#include "engine/engine_internal.h"
#include "tests/support/files.h"
#include "tests/support/model/golden_check.h"
#include "tests/support/engine/sessions.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Error error;

static Engine *open_engine(const char *name, const char *device, int n_threads, DType cache) {
    return golden_check_open(GOLDEN_LATENT, name, device, n_threads, cache);
}

// ---- as transformers ---------------------------------------------------------------------------------------

static void check_model(const char *name, const char *golden_of) {
    static const char *const DEVICES[] = {"cpu:reference", "cpu", NULL};
    golden_check_model(GOLDEN_LATENT, name, golden_of, DEVICES);
}

#define MODEL_TEST(test, name, golden_of)                                                                    \
    static void test(void **state) {                                                                         \
        (void)state;                                                                                         \
        check_model(name, golden_of);                                                                        \
    }
MODEL_TEST(deepseek_v2, "deepseek_v2", "deepseek_v2")
MODEL_TEST(deepseek_v2_gguf, "deepseek_v2.gguf", "deepseek_v2")
MODEL_TEST(deepseek_v3, "deepseek_v3", "deepseek_v3")
MODEL_TEST(deepseek_v3_packed, "deepseek_v3-packed", "deepseek_v3-packed")
MODEL_TEST(deepseek_v3_gguf, "deepseek_v3.gguf", "deepseek_v3")
MODEL_TEST(kimi_k2, "kimi_k2", "kimi_k2")
MODEL_TEST(kimi_k2_gguf, "kimi_k2.gguf", "kimi_k2")
MODEL_TEST(glm4_moe_lite, "glm4_moe_lite", "glm4_moe_lite")
MODEL_TEST(glm4_moe_lite_gguf, "glm4_moe_lite.gguf", "glm4_moe_lite")
MODEL_TEST(minicpm3, "minicpm3", "minicpm3")
MODEL_TEST(minicpm3_gguf, "minicpm3.gguf", "minicpm3")

// Blocks that expand latents are held in 16 bits, whose rounding is all that shows.
static void of_blocks(void **state) {
    (void)state;
    GoldenSet set;
    if (golden_model_read(GOLDEN_LATENT, "deepseek_v3-q8_0", &set, &error)) fail_msg("%s", error.message);
    const GoldenCase *c = &set.cases[0];
    const size_t count = (size_t)c->n * (size_t)c->vocab;
    float *logits = malloc(count * sizeof *logits);
    Engine *engine = open_engine("deepseek_v3-q8_0.gguf", "cpu", 1, DTYPE_F32);
    assert_int_equal(engine->model->layers[0].k_up.type, DTYPE_F16);
    if (golden_model_evaluate(engine, c, 7, logits, &error)) fail_msg("%s", error.message);
    const double distance = golden_distance(logits, c->expected, count);
    print_message("deepseek_v3-q8_0.gguf: relative error %.1e\n", distance);
    assert_true(distance <= 1e-3);
    engine_close(engine);
    free(logits);
    golden_model_free(&set);
}

// Caches in 16 bits move logits by no more than transformers in 16 bits does.
static void in_16_bits(void **state) {
    (void)state;
    static const DType CACHES[] = {DTYPE_F16, DTYPE_BF16};
    GoldenSet set;
    if (golden_model_read(GOLDEN_LATENT, "deepseek_v3", &set, &error)) fail_msg("%s", error.message);
    const GoldenCase *c = &set.cases[0];
    const size_t count = (size_t)c->n * (size_t)c->vocab;
    float *logits = malloc(count * sizeof *logits);
    for (int i = 0; i < 2; i++) {
        Engine *engine = open_engine("deepseek_v3", "cpu", 1, CACHES[i]);
        if (golden_model_evaluate(engine, c, 7, logits, &error)) fail_msg("%s", error.message);
        const double distance = golden_distance(logits, c->expected, count);
        if (!(distance <= 2 * c->half_error)) fail_msg("%s: %g", dtype_name(CACHES[i]), distance);
        engine_close(engine);
    }
    free(logits);
    golden_model_free(&set);
}

// The low rank of queries is converted as other matrices are; those of heads stay as they are.
static void converted_weights(void **state) {
    (void)state;
    GoldenSet set;
    Model *model;
    Engine *engine;
    if (golden_model_read(GOLDEN_LATENT, "deepseek_v3", &set, &error)) fail_msg("%s", error.message);
    const GoldenCase *c = &set.cases[0];
    const size_t count = (size_t)c->n * (size_t)c->vocab;
    float *logits = malloc(count * sizeof *logits);
    if (model_open(GOLDEN_LATENT "/deepseek_v3", &model, &error)) fail_msg("%s", error.message);
    EngineOptions options = {.device = "cpu",
                             .n_threads = 2,
                             .context_size = 64,
                             .cache = cache_options(DTYPE_F32),
                             .weights = WEIGHTS_F16,
                             .chunk = 64};
    if (engine_open_model(model, &options, &engine, &error)) fail_msg("%s", error.message);
    assert_int_equal(engine->model->layers[0].q_down.type, DTYPE_F16);
    assert_int_equal(engine->model->layers[0].wq.type, DTYPE_F16);
    assert_int_equal(engine->model->layers[0].k_up.type, DTYPE_F32);
    if (golden_model_evaluate(engine, c, 7, logits, &error)) fail_msg("%s", error.message);
    const double distance = golden_distance(logits, c->expected, count);
    assert_true(distance > 1e-6 && distance < 5e-3);
    engine_close(engine);
    free(logits);
    golden_model_free(&set);
}

// ---- bits ----------------------------------------------------------------------------------------------------

static void threads_do_not_show(void **state) {
    (void)state;
    GoldenSet set;
    if (golden_model_read(GOLDEN_LATENT, "deepseek_v3", &set, &error)) fail_msg("%s", error.message);
    const GoldenCase *c = &set.cases[0];
    const size_t count = (size_t)c->n * (size_t)c->vocab;
    float *logits[2];
    for (int i = 0; i < 2; i++) {
        Engine *engine = open_engine("deepseek_v3", "cpu", i ? 3 : 1, DTYPE_F32);
        logits[i] = malloc(count * sizeof *logits[i]);
        if (golden_model_evaluate(engine, c, 64, logits[i], &error)) fail_msg("%s", error.message);
        engine_close(engine);
    }
    assert_memory_equal(logits[0], logits[1], count * sizeof *logits[0]);
    free(logits[0]), free(logits[1]);
    golden_model_free(&set);
}

// ---- the cache -----------------------------------------------------------------------------------------------

// A token leaves its latent and the turned part of its key, once for all heads.
static void a_row_for_all_heads(void **state) {
    (void)state;
    Engine *engine = open_engine("deepseek_v2", "cpu", 1, DTYPE_F16);
    const KvCache *cache = &engine->cache;
    const DecoderShape *s = &engine->model->shape;
    assert_int_equal(s->head_dim, 40 + 8);
    assert_int_equal(s->n_kv_heads, 1);
    for (int layout = 0; layout < 4; layout++) {
        KvLayout l = cache->layout;
        l.layout = layout;
        assert_int_equal(kv_layout_bytes(&l), l.n_slots * s->n_layers * 48 * 2);
        char memory[1];
        for (int i = 0; i < s->n_layers; i++) {
            const KvLayer kv = kv_layout_layer(&l, memory, NULL, i);
            assert_ptr_equal(kv.k, kv.v);
            assert_int_equal((char *)kv.k - memory, (layout ? l.n_slots : 1) * i * 48 * 2);
            assert_int_equal(kv.slot_stride, layout ? 48 : s->n_layers * 48);
        }
    }
    engine_close(engine);
}

static Engine *open_laid_out(int layout, bool paged) {
    EngineOptions options = {
        .device = "cpu", .n_threads = 1, .context_size = 64, .cache = cache_options(DTYPE_F16), .chunk = 16};
    options.cache.layout = layout, options.cache.paged = paged, options.cache.page_size = 16;
    return sessions_engine(GOLDEN_LATENT "/deepseek_v2", &options);
}

// What was cached comes back from a file: what follows it is the same, bit by bit.
static void caches_come_back(void **state) {
    (void)state;
    char *folder = folder_new(), path[4096];
    int32_t ids[40];
    snprintf(path, sizeof path, "%s/talk.kv", folder);
    for (int i = 0; i < 40; i++) ids[i] = (i * 37 + 5) % 128;
    for (int i = 0; i < 8; i++) {
        Engine *engines[2] = {open_laid_out(i / 2, i % 2), open_laid_out(i / 2, i % 2)};
        sessions_come_back(engines, ids, 33, 40, path);
        for (int k = 0; k < 2; k++) engine_close(engines[k]);
    }
    folder_remove(folder);
}

static void quantised_caches_are_refused(void **state) {
    (void)state;
    static const DType TYPES[] = {DTYPE_INT8, DTYPE_INT4};
    for (int i = 0; i < 2; i++) {
        Model *model;
        Engine *engine;
        char expected[128];
        if (model_open(GOLDEN_LATENT "/glm4_moe_lite", &model, &error)) fail_msg("%s", error.message);
        EngineOptions options = {
            .device = "cpu", .n_threads = 1, .context_size = 64, .cache = cache_options(TYPES[i])};
        assert_int_equal(engine_open_model(model, &options, &engine, &error), STATUS_USAGE);
        snprintf(expected, sizeof expected, "a cache of type %s: one of latents is kept in f16 or f32",
                 dtype_name(TYPES[i]));
        assert_non_null(strstr(error.message, expected));
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deepseek_v2),
        cmocka_unit_test(deepseek_v2_gguf),
        cmocka_unit_test(deepseek_v3),
        cmocka_unit_test(deepseek_v3_packed),
        cmocka_unit_test(kimi_k2),
        cmocka_unit_test(kimi_k2_gguf),
        cmocka_unit_test(deepseek_v3_gguf),
        cmocka_unit_test(glm4_moe_lite),
        cmocka_unit_test(glm4_moe_lite_gguf),
        cmocka_unit_test(minicpm3),
        cmocka_unit_test(minicpm3_gguf),
        cmocka_unit_test(of_blocks),
        cmocka_unit_test(in_16_bits),
        cmocka_unit_test(converted_weights),
        cmocka_unit_test(threads_do_not_show),
        cmocka_unit_test(a_row_for_all_heads),
        cmocka_unit_test(caches_come_back),
        cmocka_unit_test(quantised_caches_are_refused),
    };
    return test_main("latent", argc, argv, tests);
}
