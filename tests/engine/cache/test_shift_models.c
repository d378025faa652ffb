// Shifting on real structures: every way that positions enter attention, after tokens left the middle of the context.
//
// One layer of a model is taken: its keys and values depend on token and position alone, so what is left gives the same
// logits whether it was shifted, in either way, or read again (requirement C9; with more layers they differ by design).
// As a negative control the same tokens are read again at the places they had: that must differ.
#include "engine/engine_internal.h"
#include "tests/support/model/golden_model.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 17, KEEP = 3, DISCARD = 5 };

typedef struct Stream {
    Engine *engine;
    KvCache cache;
    int n_layers; // that the model's files have
    int vocab;
} Stream;

static Stream open_stream(const char *root, const char *name, const char *device) {
    char path[256];
    Error error = {0};
    Model *model;
    Stream s = {0};
    snprintf(path, sizeof path, "%s/%s", root, name);
    if (model_open(path, &model, &error)) fail_msg("%s", error.message);
    s.n_layers = model->shape.n_layers;
    s.vocab = model->shape.vocab_size;
    model->shape.n_layers = 1;
    CacheOptions cache = cache_options(DTYPE_F32);
    EngineOptions options = {
        .device = device, .n_threads = 1, .context_size = 64, .cache = cache, .chunk = WINDOW};
    if (engine_open_model(model, &options, &s.engine, &error)) fail_msg("%s", error.message);
    if (kv_cache_open(s.engine->backend, &cache, &model->shape, WINDOW, &s.cache, &error))
        fail_msg("%s", error.message);
    return s;
}

static void close_stream(Stream *s) {
    kv_cache_close(&s->cache);
    s->engine->model->shape.n_layers = s->n_layers;
    engine_close(s->engine);
}

// Reads n more tokens, at `places` or (NULL) where the sequence has them; the last one's logits [vocab].
static void feed(Stream *s, KvSequence *sequence, const int32_t *ids, const int32_t *places, int n,
                 float *logits) {
    int32_t slots[WINDOW], positions[WINDOW], last = n - 1;
    Error error = {0};
    if (kv_sequence_extend(&s->cache, sequence, n, slots, positions, &error)) fail_msg("%s", error.message);
    StepSequence view = kv_sequence_step(&s->cache, sequence, n);
    Step step = {.n_tokens = n,
                 .n_sequences = 1,
                 .ids = ids,
                 .positions = places != NULL ? places : positions,
                 .slots = slots,
                 .sequences = &view,
                 .page_size = s->cache.page_size,
                 .slot_positions = s->cache.slot_positions};
    if (forward_step(&s->engine->forward, &step, &s->cache, NULL, &error)) fail_msg("%s", error.message);
    if (forward_logits(&s->engine->forward, &last, 1, &error)) fail_msg("%s", error.message);
    memcpy(logits, s->engine->forward.logits, (size_t)s->vocab * sizeof *logits); // the CPU's memory is ours
}

// What a log gives that is read at once, its tokens after the kept ones `hole` positions further on.
static void read_again(Stream *s, const int32_t *ids, int n, int hole, float *logits) {
    int32_t places[WINDOW];
    KvSequence sequence = {0};
    for (int i = 0; i < n; i++) places[i] = i < KEEP ? i : i + hole;
    feed(s, &sequence, ids, places, n, logits);
    kv_sequence_free(&s->cache, &sequence);
}

// A text of n tokens through the small context, two and then three tokens at a time. Returns the largest distance from
// reading what is left again; *control: the largest from reading it at its old places.
static double stream_text(Stream *s, const int32_t *ids, int n, bool in_place, double *control) {
    KvSequence sequence = {0};
    Stream again = *s; // a pool of its own, for a second sequence beside the first
    int32_t log[WINDOW];
    int length = 0, gone = 0;
    double worst = 0;
    float *logits = malloc((size_t)s->vocab * sizeof *logits),
          *expected = malloc((size_t)s->vocab * sizeof *expected);
    Error error = {0};
    const CacheOptions options = cache_options(DTYPE_F32);
    if (kv_cache_open(s->engine->backend, &options, &s->engine->model->shape, WINDOW, &again.cache, &error))
        fail_msg("%s", error.message);
    *control = 0;
    for (int at = 0, take = 2; at + take <= n; at += take, take = 5 - take) {
        if (length + take > WINDOW) {
            if (kv_sequence_evict(&s->cache, &sequence, KEEP, DISCARD, in_place, &error))
                fail_msg("%s", error.message);
            memmove(log + KEEP, log + KEEP + DISCARD, (size_t)(length - KEEP - DISCARD) * sizeof *log);
            length -= DISCARD, gone += DISCARD;
        }
        memcpy(log + length, ids + at, (size_t)take * sizeof *log);
        length += take;
        feed(s, &sequence, ids + at, NULL, take, logits);
        if (gone == 0) continue;
        read_again(&again, log, length, 0, expected);
        worst = fmax(worst, golden_distance(logits, expected, (size_t)s->vocab));
        read_again(&again, log, length, gone, expected);
        *control = fmax(*control, golden_distance(logits, expected, (size_t)s->vocab));
    }
    assert_true(gone >= 4 * DISCARD);
    kv_cache_close(&again.cache);
    kv_sequence_free(&s->cache, &sequence);
    free(logits), free(expected);
    return worst;
}

static void check_model(const char *root, const char *name, const char *golden_of, bool sees_the_kept) {
    static const char *const DEVICES[] = {"cpu:reference", "cpu"};
    GoldenSet set;
    Error error = {0};
    if (golden_model_read(root, golden_of, &set, &error)) fail_msg("%s", error.message);
    for (int i = 0; i < 4; i++) {
        const char *device = DEVICES[i / 2];
        bool in_place = i % 2;
        double control;
        Stream s = open_stream(root, name, device);
        assert_null(engine_cannot_shift(s.engine));
        double worst = stream_text(&s, set.cases[0].ids, set.cases[0].n, in_place, &control);
        print_message("%s, %s, %s: %.1e, unshifted %.1e\n", name, device, in_place ? "in place" : "shift",
                      worst, control);
        if (!(worst <= 1e-5)) fail_msg("%s, %s: %g from reading again", name, device, worst);
        if (sees_the_kept && !(control >= 1e-2)) fail_msg("%s: the control is as close as %g", name, control);
        close_stream(&s);
    }
    golden_model_free(&set);
}

#define SHIFT_TEST(root, test, name, golden_of, sees_the_kept)                                               \
    static void test(void **state) {                                                                         \
        (void)state;                                                                                         \
        check_model(root, name, golden_of, sees_the_kept);                                                   \
    }
SHIFT_TEST(GOLDEN_MODELS, llama, "llama", "llama", true)
SHIFT_TEST(GOLDEN_MODELS, linear_scaling, "llama-linear", "llama-linear", true)
SHIFT_TEST(GOLDEN_MODELS, llama3_scaling, "llama3", "llama3", true)
SHIFT_TEST(GOLDEN_MODELS, interleaved, "llama3.gguf", "llama3", true)
SHIFT_TEST(GOLDEN_MODELS, yarn, "llama-yarn", "llama-yarn", true)
SHIFT_TEST(GOLDEN_MODELS, sliding_window, "mistral", "mistral", false) // of 7 tokens
SHIFT_TEST(GOLDEN_MODELS, qk_norm, "qwen3", "qwen3", true)
SHIFT_TEST(GOLDEN_ARCHITECTURES, gptj_interleaved_part, "gptj", "gptj", true)
SHIFT_TEST(GOLDEN_ARCHITECTURES, gpt_neox_half_split_part, "gpt_neox", "gpt_neox", true)
SHIFT_TEST(GOLDEN_ARCHITECTURES, gpt_neox_linear_part, "gpt_neox-sequential", "gpt_neox-sequential", true)
SHIFT_TEST(GOLDEN_ARCHITECTURES, bloom_alibi, "bloom", "bloom", true)
SHIFT_TEST(GOLDEN_ARCHITECTURES, mpt_alibi, "mpt", "mpt", true)

SHIFT_TEST(GOLDEN_EXPERTS, mixtral, "mixtral", "mixtral", true)
SHIFT_TEST(GOLDEN_EXPERTS, qwen2_moe, "qwen2_moe", "qwen2_moe", true)
SHIFT_TEST(GOLDEN_EXPERTS, gpt_oss_learned_sinks, "gpt_oss", "gpt_oss", false) // a window of 8 tokens
SHIFT_TEST(GOLDEN_LATENT, deepseek_v2_latent, "deepseek_v2", "deepseek_v2", true)
SHIFT_TEST(GOLDEN_LATENT, deepseek_v3_latent, "deepseek_v3-packed", "deepseek_v3-packed", true) // half-split

SHIFT_TEST(GOLDEN_EXPERTS, phimoe, "phimoe", "phimoe", false) // a window of 32 tokens
SHIFT_TEST(GOLDEN_DENSE, norms_of_heads, "cohere-plus", "cohere-plus", true)
SHIFT_TEST(GOLDEN_DENSE, norms_of_heads_side_by_side, "stablelm-12b", "stablelm-12b", true)

static void learned_positions_cannot(void **state) {
    (void)state;
    Stream s = open_stream(GOLDEN_ARCHITECTURES, "opt", "cpu");
    assert_string_equal(engine_cannot_shift(s.engine), "its positions are learned, each by itself");
    close_stream(&s);
}

static void chunks_cannot(void **state) {
    (void)state;
    Stream s = open_stream(GOLDEN_EXPERTS, "llama4", "cpu");
    assert_string_equal(engine_cannot_shift(s.engine), "its layers see chunks of the text");
    close_stream(&s);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama),
        cmocka_unit_test(linear_scaling),
        cmocka_unit_test(llama3_scaling),
        cmocka_unit_test(interleaved),
        cmocka_unit_test(yarn),
        cmocka_unit_test(sliding_window),
        cmocka_unit_test(qk_norm),
        cmocka_unit_test(gptj_interleaved_part),
        cmocka_unit_test(gpt_neox_half_split_part),
        cmocka_unit_test(gpt_neox_linear_part),
        cmocka_unit_test(bloom_alibi),
        cmocka_unit_test(mpt_alibi),
        cmocka_unit_test(mixtral),
        cmocka_unit_test(qwen2_moe),
        cmocka_unit_test(gpt_oss_learned_sinks),
        cmocka_unit_test(deepseek_v2_latent),
        cmocka_unit_test(deepseek_v3_latent),
        cmocka_unit_test(phimoe),
        cmocka_unit_test(norms_of_heads),
        cmocka_unit_test(norms_of_heads_side_by_side),
        cmocka_unit_test(learned_positions_cannot),
        cmocka_unit_test(chunks_cannot),
    };
    return test_main("shift models", argc, argv, tests);
}
