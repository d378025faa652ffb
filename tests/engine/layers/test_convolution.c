// Layers that convolve (tests/golden/make_convolution.py) against Hugging Face transformers in float32: the logits of a text
// read at once, in pieces and token by token, from both kinds of files, and the tokens that it goes on with.
#include "tests/support/test.h"
#include "tests/support/model/golden_check.h"
#include "tests/support/engine/sessions.h"
#include "engine/engine_internal.h"
#include "engine/session/session_step.h"

#include <stdlib.h>
#include <string.h>

static void lfm2(void **state) {
    (void)state;
    golden_check_model(GOLDEN_CONVOLUTION, "lfm2", "lfm2", GOLDEN_LOOPS);
}
static void lfm2_gguf(void **state) {
    (void)state;
    golden_check_model(GOLDEN_CONVOLUTION, "lfm2.gguf", "lfm2", GOLDEN_LOOPS + 1);
}
static void lfm2_gguf_with_qkv_in_one(void **state) {
    (void)state;
    golden_check_model(GOLDEN_CONVOLUTION, "lfm2-fused.gguf", "lfm2", GOLDEN_LOOPS + 1);
}
// Taps over four tokens with biases, in the words of the makers' own files.
static void lfm2_in_its_makers_words(void **state) {
    (void)state;
    golden_check_model(GOLDEN_CONVOLUTION, "lfm2-own", "lfm2-own", GOLDEN_LOOPS);
}
static void lfm2_moe(void **state) {
    (void)state;
    golden_check_model(GOLDEN_CONVOLUTION, "lfm2_moe", "lfm2_moe", GOLDEN_LOOPS);
}
static void lfm2_moe_gguf(void **state) {
    (void)state;
    golden_check_model(GOLDEN_CONVOLUTION, "lfm2_moe.gguf", "lfm2_moe", GOLDEN_LOOPS + 1);
}
static void lfm2_moe_apart(void **state) {
    (void)state;
    golden_check_model(GOLDEN_CONVOLUTION, "lfm2_moe-apart", "lfm2_moe-apart", GOLDEN_LOOPS);
}

// Nothing but convolutions: what a text goes on with depends on its last REACH tokens alone, wherever these lie.
static void lfm2_without_attention(void **state) {
    (void)state;
    golden_check_model(GOLDEN_CONVOLUTION, "lfm2-short", "lfm2-short", GOLDEN_LOOPS);
}

// ---- tokens that leave ---------------------------------------------------------------------------------------------

enum { REACH = 9, WINDOW = 24, KEEP = 3, DISCARD = 5, TEXT = 200 };

// Reads n more tokens of the sequence; the last one's logits [vocab].
static void feed(Engine *engine, KvCache *cache, KvSequence *sequence, const int32_t *ids, int n,
                 float *logits) {
    int32_t slots[WINDOW], positions[WINDOW], last = n - 1;
    Error error = {0};
    if (kv_sequence_extend(cache, sequence, n, slots, positions, &error)) fail_msg("%s", error.message);
    const StepSequence view = kv_sequence_step(cache, sequence, n);
    const Step step = {.n_tokens = n,
                       .n_sequences = 1,
                       .ids = ids,
                       .positions = positions,
                       .slots = slots,
                       .sequences = &view,
                       .page_size = cache->page_size,
                       .slot_positions = cache->slot_positions};
    if (forward_step(&engine->forward, &step, NULL, cache, NULL, &error)) fail_msg("%s", error.message);
    if (forward_logits(&engine->forward, &last, 1, &error)) fail_msg("%s", error.message);
    memcpy(logits, engine->forward.logits, (size_t)engine->model->shape.vocab_size * sizeof *logits);
}

static void open_cache(Engine *engine, bool paged, KvCache *cache) {
    CacheOptions options = cache_options(DTYPE_F32);
    options.paged = paged, options.page_size = 4;
    Error error = {0};
    if (kv_cache_open(engine->backend, &options, &engine->model->shape, WINDOW, cache, &error))
        fail_msg("%s", error.message);
}

// A text of two, three and one tokens at a time through a small window, from whose middle tokens leave again and again.
static void text_through_a_window(bool paged, bool in_place) {
    Engine *engine = golden_check_open(GOLDEN_CONVOLUTION, "lfm2-short", "cpu:exact", 0, DTYPE_F32);
    const size_t vocab = (size_t)engine->model->shape.vocab_size;
    float *logits = calloc(2 * vocab, sizeof *logits), *alone = logits + vocab;
    KvCache cache, other;
    KvSequence sequence = {0};
    Error error = {0};
    int32_t ids[TEXT];
    int evicted = 0;
    open_cache(engine, paged, &cache), open_cache(engine, false, &other);
    for (int i = 0; i < TEXT; i++) ids[i] = (i * 7919 + i * i) % 50 + 4;
    for (int i = 0, n = 2; i + n <= TEXT; i += n, n = n % 3 + 1) {
        if (sequence.length + n > WINDOW) {
            assert_true(kv_sequence_can_evict(&cache, &sequence, KEEP, DISCARD, in_place));
            if (kv_sequence_evict(&cache, &sequence, KEEP, DISCARD, in_place, &error))
                fail_msg("%s", error.message);
            evicted++;
        }
        feed(engine, &cache, &sequence, ids + i, n, logits);
        KvSequence fresh = {0};
        const int from = i + n < REACH ? 0 : i + n - REACH;
        feed(engine, &other, &fresh, ids + from, i + n - from, alone);
        kv_sequence_free(&other, &fresh);
        assert_true(golden_distance(logits, alone, vocab) < 1e-6);
    }
    assert_true(evicted > 30);
    kv_sequence_free(&cache, &sequence);
    kv_cache_close(&cache), kv_cache_close(&other);
    free(logits);
    engine_close(engine);
}

static void tokens_leave(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) text_through_a_window(i & 1, i & 2);
}

// ---- sessions --------------------------------------------------------------------------------------------------------

static Engine *open_engine(bool paged) {
    Error error = {0};
    Engine *engine = NULL;
    Model *model = NULL;
    EngineOptions options = {.device = "cpu:exact",
                             .n_threads = 1,
                             .context_size = 96,
                             .cache = cache_options(DTYPE_F32),
                             .chunk = 7};
    options.cache.paged = paged, options.cache.page_size = 8, options.cache.n_sequences = 3;
    if (model_open(GOLDEN_CONVOLUTION "/lfm2-own", &model, &error)) fail_msg("%s", error.message);
    if (engine_open_model(model, &options, &engine, &error)) fail_msg("%s", error.message);
    return engine;
}

static void sync_to(Session *session, const int32_t *ids, int n) {
    Error error = {0};
    SyncReport report;
    if (session_sync(session, ids, n, &report, &error)) fail_msg("%s", error.message);
}

// Two talks that begin alike go back and other ways, again and again: what is cached of them, shared or put aside, gives what
// reading everything again does.
static void sessions_go_other_ways(void **state) {
    (void)state;
    enum { MOST = 90, TURNS = 120, VOCAB = 56 };
    for (int paged = 0; paged < 2; paged++) {
        Engine *engine = open_engine(paged), *other = open_engine(false);
        Session *sessions[] = {sessions_open(engine), sessions_open(engine)}, *fresh = sessions_open(other);
        int32_t ids[2][MOST] = {{0}};
        int length[2] = {0, 0};
        uint32_t random = 7;
        for (int i = 0; i < TURNS; i++) {
            random = random * 1664525 + 1013904223;
            const int s = (int)(random >> 28 & 1), back = (int)(random >> 20 & 63),
                      further = (int)(random >> 12 & 15) + 1;
            int kept = length[s] > back ? length[s] - back : 0;
            if (i % 11 == 10) { // as the other one's beginning
                memcpy(ids[s], ids[1 - s], sizeof ids[s]);
                kept = length[1 - s] / 2;
            }
            length[s] = kept + further < MOST ? kept + further : MOST;
            for (int k = kept; k < length[s]; k++)
                ids[s][k] = (int32_t)((random >> 8) + (uint32_t)(k * 7919)) % 50 + 4;
            float now[VOCAB], again[VOCAB];
            sync_to(sessions[s], ids[s], length[s]);
            sessions_logits(sessions[s], now);
            session_clear(fresh);
            sync_to(fresh, ids[s], length[s]);
            sessions_logits(fresh, again);
            if (!(golden_distance(now, again, VOCAB) < 1e-5))
                fail_msg("turn %d: %g", i, golden_distance(now, again, VOCAB));
        }
        session_close(sessions[0]), session_close(sessions[1]), session_close(fresh);
        engine_close(engine), engine_close(other);
    }
}

// ---- caches of fewer bits --------------------------------------------------------------------------------------------

static void in_fewer_bits(void **state) {
    (void)state;
    static const char *const NAMES[] = {"lfm2", "lfm2-own"}; // with experts a small difference chooses others
    static const DType TYPES[] = {DTYPE_F16, DTYPE_BF16, DTYPE_INT8, DTYPE_INT4};
    static const double BOUNDS[] = {0.005, 0.04, 0.06, 1};
    for (int i = 0; i < 8; i++)
        golden_check_cache(GOLDEN_CONVOLUTION, NAMES[i / 4], TYPES[i % 4], BOUNDS[i % 4]);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lfm2),
        cmocka_unit_test(lfm2_gguf),
        cmocka_unit_test(lfm2_gguf_with_qkv_in_one),
        cmocka_unit_test(lfm2_moe),
        cmocka_unit_test(lfm2_moe_gguf),
        cmocka_unit_test(lfm2_moe_apart),
        cmocka_unit_test(lfm2_in_its_makers_words),
        cmocka_unit_test(lfm2_without_attention),
        cmocka_unit_test(tokens_leave),
        cmocka_unit_test(sessions_go_other_ways),
        cmocka_unit_test(in_fewer_bits),
    };
    return test_main("convolution", argc, argv, tests);
}
