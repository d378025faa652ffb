// What a model sees after tokens left its cache: against a forward pass over the whole stream in which every query has
// the visibility and the distances that it had (C9), for every kind of positions, cache and policy.
#include "tests/support/engine/sessions.h"
#include "tests/support/test.h"
#include "engine/engine_internal.h"
#include "tests/support/model/golden_model.h"
#include "tests/support/kernels/oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 40, STREAM = 200, KEEP = 4 };

static const struct {
    const char *root, *name;
} MODELS[] = {
    {GOLDEN_MODELS, "llama"},           {GOLDEN_MODELS, "llama-linear"},
    {GOLDEN_MODELS, "llama3"},          {GOLDEN_MODELS, "llama-yarn"},
    {GOLDEN_MODELS, "mistral"},         {GOLDEN_MODELS, "qwen2"},
    {GOLDEN_MODELS, "qwen3"},           {GOLDEN_MODELS, "qwen2.gguf"}, // interleaved
    {GOLDEN_ARCHITECTURES, "gptj"},                                    // interleaved, partial
    {GOLDEN_ARCHITECTURES, "gpt_neox"}, {GOLDEN_ARCHITECTURES, "gpt_neox-sequential"},
    {GOLDEN_ARCHITECTURES, "bloom"},                               // ALiBi
    {GOLDEN_ARCHITECTURES, "mpt"},      {GOLDEN_DENSE, "gemma2"},  // capped, windows in some layers
    {GOLDEN_DENSE, "gemma3"},           {GOLDEN_DENSE, "olmo3"},   // frequencies by layer; norms of rows
    {GOLDEN_DENSE, "cohere2"},          {GOLDEN_DENSE, "smollm3"}, // layers that turn nothing
    {GOLDEN_DENSE, "granite"},          {GOLDEN_DENSE, "glm4"},    // scaled; interleaved, partial
    {GOLDEN_DENSE, "nemotron"},         {GOLDEN_DENSE, "exaone4"},
    {GOLDEN_DENSE, "apertus"},     // by LLaMA 3's scheme, or by GGUF's divisors
    {GOLDEN_DENSE, "ministral3"},  // sharper far away
    {GOLDEN_ARCHITECTURES, "opt"}, // learned
};
enum { N_MODELS = sizeof MODELS / sizeof *MODELS };

static Engine *open_engine_of(const char *root, const char *name, const CacheOptions *cache, int window,
                              int chunk) {
    char path[200];
    const EngineOptions options = {
        .device = "cpu:reference", .n_threads = 1, .context_size = window, .cache = *cache, .chunk = chunk};
    snprintf(path, sizeof path, "%s/%s", root, name);
    return sessions_engine(path, &options);
}

static Engine *open_engine(const char *root, const char *name, const CacheOptions *cache, int chunk) {
    return open_engine_of(root, name, cache, WINDOW, chunk);
}

static int vocab_of(const Engine *engine) {
    return engine_model(engine)->shape.vocab_size;
}

static void make_ids(int32_t *ids, int n, int vocab) {
    for (int i = 0; i < n; i++) ids[i] = (i * 7919 + i * i * 31 + 13) % vocab;
}

static OverflowSettings settings_of(OverflowPolicy policy, int64_t discard) {
    return (OverflowSettings){.policy = policy, .keep = KEEP, .discard = discard};
}

// Streams ids [n] in pieces; logits [n, vocab].
static void stream(Session *session, const int32_t *ids, int n, int piece, const OverflowSettings *settings,
                   int vocab, float *logits) {
    Error error = {0};
    for (int at = 0; at < n; at += piece) {
        int m = n - at < piece ? n - at : piece;
        if (session_stream(session, ids + at, m, settings, logits + (size_t)at * (size_t)vocab, &error))
            fail_msg("%s", error.message);
    }
}

// How many tokens had left when each token of a stream was evaluated.
static void history(int n, int64_t discard, int32_t *gone) {
    int length = 0, left = 0;
    for (int i = 0; i < n; i++, length++) {
        if (length == WINDOW) length -= (int)discard, left += (int)discard;
        gone[i] = left;
    }
}

static void the_oracle_says_what_transformers_say(void **state) {
    (void)state;
    static const int32_t nothing[GOLDEN_MAX_IDS];
    for (int m = 0; m < N_MODELS; m++) {
        GoldenSet set;
        Error error = {0};
        char folder[64];
        snprintf(folder, sizeof folder, "%.*s", (int)strcspn(MODELS[m].name, "."), MODELS[m].name);
        if (golden_model_read(MODELS[m].root, folder, &set, &error)) fail_msg("%s", error.message);
        CacheOptions cache = cache_options(DTYPE_F32);
        Engine *engine = open_engine(MODELS[m].root, MODELS[m].name, &cache, 0);
        int compared = 0;
        for (int i = 0; i < set.n; i++) {
            const GoldenCase *c = &set.cases[i];
            if (c->positions[c->n - 1] != c->n - 1) continue; // far from the beginning: not a stream
            size_t count = (size_t)(c->n - c->from) * (size_t)c->vocab;
            float *logits = malloc(count * sizeof *logits);
            oracle_logits(engine_model(engine), &(OracleStream){c->ids, nothing, c->n, 0}, c->from, logits);
            double distance = golden_distance(logits, c->expected, count);
            if (!(distance <= 1e-5)) fail_msg("%s: relative error %g", MODELS[m].name, distance);
            compared++;
            free(logits);
        }
        assert_in_range(compared, 1, GOLDEN_MAX_CASES);
        golden_model_free(&set);
        engine_close(engine);
    }
}

// One model, one cache, one way of evicting, whatever pieces the tokens come in.
static double distance_to_oracle(const char *root, const char *name, const CacheOptions *cache,
                                 OverflowPolicy policy, int64_t discard) {
    int32_t ids[STREAM], gone[STREAM];
    double worst = 0;
    history(STREAM, discard, gone);
    for (int piece = 1; piece <= STREAM; piece = 6 * piece + 1) { // 1, 7, 43
        Engine *engine = open_engine(root, name, cache, 16);
        Session *session = sessions_open(engine);
        int vocab = vocab_of(engine);
        size_t count = (size_t)STREAM * (size_t)vocab;
        float *logits = malloc(count * sizeof *logits), *expected = malloc(count * sizeof *expected);
        OverflowSettings settings = settings_of(policy, discard);
        make_ids(ids, STREAM, vocab);
        stream(session, ids, STREAM, piece, &settings, vocab, logits);
        oracle_logits(engine_model(engine), &(OracleStream){ids, gone, STREAM, KEEP}, 0, expected);
        worst = fmax(worst, golden_distance(logits, expected, count));
        free(logits);
        free(expected);
        session_close(session);
        engine_close(engine);
    }
    return worst;
}

static void check_shift(OverflowPolicy policy, double tolerance) {
    for (int m = 0; m < N_MODELS - 1; m++) { // all but OPT
        static const int64_t discards[] = {1, 5, (WINDOW - KEEP) / 2, WINDOW - KEEP};
        CacheOptions cache = cache_options(DTYPE_F32);
        cache.paged = m % 2;
        cache.page_size = 3 + m;
        double distance = distance_to_oracle(MODELS[m].root, MODELS[m].name, &cache, policy, discards[m % 4]);
        print_message("%s, discard %d: relative error %.1e\n", MODELS[m].name, (int)discards[m % 4],
                      distance);
        if (!(distance <= tolerance)) fail_msg("%s: relative error %g", MODELS[m].name, distance);
    }
}

static void shift_is_the_oracle(void **state) {
    (void)state;
    check_shift(OVERFLOW_SHIFT, 1e-5);
}

static void shift_in_place_is_the_oracle(void **state) {
    (void)state;
    check_shift(OVERFLOW_SHIFT_INPLACE, 1e-4);
}

// How far the logits of a one-layer model, streamed over a cache of `type`, are from those over float32 by two
// rotations: mean relative error of the last hundred tokens.
static double drift(DType type, OverflowPolicy policy, int64_t discard, const float *exact, float *logits) {
    enum { WIDE = 256, LONG = 700, LAST = 100 };
    static int32_t ids[LONG];
    CacheOptions cache = cache_options(type);
    Engine *engine = open_engine_of(GOLDEN_MODELS, "llama-linear", &cache, WIDE, 64);
    Session *session = sessions_open(engine);
    size_t vocab = (size_t)vocab_of(engine);
    OverflowSettings settings = settings_of(policy, discard);
    float *all = malloc(LONG * vocab * sizeof *all);
    make_ids(ids, LONG, (int)vocab);
    stream(session, ids, LONG, 64, &settings, (int)vocab, all);
    memcpy(logits, all + (LONG - LAST) * vocab, LAST * vocab * sizeof *all);
    double sum = 0;
    for (size_t i = 0; exact && i < LAST; i++)
        sum += golden_distance(logits + i * vocab, exact + i * vocab, vocab);
    free(all);
    session_close(session);
    engine_close(engine);
    return sum / LAST;
}

// Every turn in place rounds a key once more: with discard = 1 up to 252 times here, with half of the context twice.
// Two rotations of the query round nothing, however often.
static void only_keys_in_place_drift(void **state) {
    (void)state;
    static const DType types[] = {DTYPE_F16, DTYPE_INT8, DTYPE_INT4};
    float *exact = malloc(100 * 128 * sizeof *exact), *logits = malloc(100 * 128 * sizeof *logits);
    double shift[2], in_place[2];
    for (int i = 0; i < 3; i++) {
        for (int often = 0; often < 2; often++) {
            int64_t discard = often ? 1 : 126;
            drift(DTYPE_F32, OVERFLOW_SHIFT, discard, NULL, exact);
            shift[often] = drift(types[i], OVERFLOW_SHIFT, discard, exact, logits);
            in_place[often] = drift(types[i], OVERFLOW_SHIFT_INPLACE, discard, exact, logits);
            print_message("%s, discard %d: shift %.1e, shift-inplace %.1e\n", dtype_name(types[i]),
                          (int)discard, shift[often], in_place[often]);
        }
        assert_true(shift[1] <= 1.5 * shift[0]);
        assert_true(in_place[0] <= 2 * shift[0]);
        assert_true(in_place[1] > 5 * shift[1]);
    }
    free(exact);
    free(logits);
}

// A cache in its four layouts, in pages or not: not a bit differs.
static void layouts_and_pages_change_no_bit(void **state) {
    (void)state;
    int32_t ids[STREAM];
    float *first = NULL;
    for (int i = 0; i < 8; i++) {
        CacheOptions cache = cache_options(i < 4 ? DTYPE_F16 : DTYPE_INT8);
        cache.group = 4;
        cache.layout = i % 4;
        cache.paged = i % 2;
        cache.page_size = 1 + 5 * i;
        Engine *engine = open_engine(GOLDEN_MODELS, "llama", &cache, 16);
        Session *session = sessions_open(engine);
        int vocab = vocab_of(engine);
        size_t bytes = (size_t)STREAM * (size_t)vocab * sizeof(float);
        float *logits = malloc(bytes);
        OverflowSettings settings = settings_of(OVERFLOW_SHIFT, 5);
        make_ids(ids, STREAM, vocab);
        stream(session, ids, STREAM, 7, &settings, vocab, logits);
        if (i % 4) assert_memory_equal(logits, first, bytes);
        if (i == 4) assert_memory_not_equal(logits, first, bytes);
        if (i % 4 == 0) {
            free(first);
            first = logits;
        } else {
            free(logits);
        }
        session_close(session);
        engine_close(engine);
    }
    free(first);
}

// The logits after the last token of a log that was just streamed, and of the same log read anew.
static double shifted_against_fresh(const char *root, const char *name, OverflowPolicy policy,
                                    int64_t *cached) {
    int32_t ids[STREAM], log[WINDOW];
    Error error = {0};
    CacheOptions cache = cache_options(DTYPE_F32);
    cache.n_sequences = 2;
    Engine *engine = open_engine(root, name, &cache, 16);
    Session *session = sessions_open(engine), *fresh = sessions_open(engine);
    int vocab = vocab_of(engine);
    float *a = malloc((size_t)STREAM * (size_t)vocab * sizeof *a), *b = malloc((size_t)vocab * sizeof *b);
    OverflowSettings settings = settings_of(policy, 9);
    make_ids(ids, STREAM, vocab);
    stream(session, ids, STREAM, 11, &settings, vocab, a);
    int64_t n = session_length(session);
    memcpy(log, session_tokens(session), (size_t)n * sizeof *log);
    assert_memory_equal(log, ids, KEEP * sizeof *log); // the first, then the newest
    assert_memory_equal(log + KEEP, ids + STREAM - (n - KEEP), (size_t)(n - KEEP) * sizeof *log);
    assert_int_equal(session_sync(fresh, log, n, NULL, &error), STATUS_OK);
    assert_int_equal(session_logits(fresh, b, &error), STATUS_OK);
    double distance = golden_distance(a + (size_t)(STREAM - 1) * (size_t)vocab, b, (size_t)vocab);
    assert_int_equal(session_evict(session, KEEP, 2, policy, &error), STATUS_OK);
    *cached = session_cached(session);
    assert_int_equal(session_length(session), n - 2);
    free(a);
    free(b);
    session_close(session);
    session_close(fresh);
    engine_close(engine);
    return distance;
}

// With one layer the cached states had seen nothing but their own tokens: shifting is reading again. With more they
// had seen what left, by design.
static void with_one_layer_shift_is_reading_again(void **state) {
    (void)state;
    int64_t cached;
    assert_true(shifted_against_fresh(GOLDEN_MODELS, "llama-linear", OVERFLOW_SHIFT, &cached) <= 1e-5);
    assert_true(shifted_against_fresh(GOLDEN_MODELS, "llama", OVERFLOW_SHIFT, &cached) > 1e-3);
    assert_in_range(cached, KEEP + 1, WINDOW);
}

static void reading_again_is_reading_again(void **state) {
    (void)state;
    int64_t cached;
    for (int m = 0; m < N_MODELS; m++) {
        double distance = shifted_against_fresh(MODELS[m].root, MODELS[m].name, OVERFLOW_REEVALUATE, &cached);
        if (!(distance <= 1e-5)) fail_msg("%s: relative error %g", MODELS[m].name, distance);
        assert_int_equal(cached, KEEP);
    }
}

static void learned_positions_read_again(void **state) {
    (void)state;
    int64_t cached;
    assert_true(shifted_against_fresh(GOLDEN_ARCHITECTURES, "opt", OVERFLOW_SHIFT, &cached) <= 1e-5);
    assert_int_equal(cached, KEEP);
    assert_true(shifted_against_fresh(GOLDEN_ARCHITECTURES, "opt", OVERFLOW_SHIFT_INPLACE, &cached) <= 1e-5);
    CacheOptions cache = cache_options(DTYPE_F32);
    Engine *engine = open_engine(GOLDEN_ARCHITECTURES, "opt", &cache, 16);
    assert_non_null(strstr(engine_cannot_shift(engine), "learned"));
    engine_close(engine);
    engine = open_engine(GOLDEN_ARCHITECTURES, "bloom", &cache, 16);
    assert_null(engine_cannot_shift(engine));
    engine_close(engine);
}

// Until the context is full, a policy is not there.
static void until_it_is_full_not_a_bit_differs(void **state) {
    (void)state;
    int32_t ids[WINDOW];
    Error error = {0};
    CacheOptions cache = cache_options(DTYPE_F16);
    float *plain = NULL;
    for (int policy = OVERFLOW_REEVALUATE; policy <= OVERFLOW_STOP; policy++) {
        Engine *engine = open_engine(GOLDEN_MODELS, "llama", &cache, 16);
        Session *session = sessions_open(engine);
        int vocab = vocab_of(engine);
        size_t bytes = (size_t)WINDOW * (size_t)vocab * sizeof(float);
        float *logits = malloc(bytes);
        OverflowSettings settings = settings_of((OverflowPolicy)policy, 5);
        make_ids(ids, WINDOW, vocab);
        if (!plain) {
            plain = malloc(bytes);
            assert_int_equal(session_logits_of(session, ids, WINDOW, 0, plain, &error), STATUS_OK);
            session_close(session);
            session = sessions_open(engine);
        }
        stream(session, ids, WINDOW, 16, &settings, vocab, logits);
        assert_memory_equal(logits, plain, bytes);
        free(logits);
        session_close(session);
        engine_close(engine);
    }
    free(plain);
}

static void stop_refuses_with_figures(void **state) {
    (void)state;
    int32_t ids[WINDOW + 1];
    Error error = {0};
    CacheOptions cache = cache_options(DTYPE_F32);
    Engine *engine = open_engine(GOLDEN_MODELS, "llama", &cache, 16);
    Session *session = sessions_open(engine);
    OverflowSettings settings = settings_of(OVERFLOW_STOP, 0);
    make_ids(ids, WINDOW + 1, vocab_of(engine));
    assert_int_equal(session_stream(session, ids, WINDOW + 1, &settings, NULL, &error), STATUS_CONTEXT);
    assert_non_null(strstr(error.message, "40"));
    assert_int_equal(session_length(session), WINDOW);
    settings = settings_of(OVERFLOW_SHIFT, 0);
    assert_int_equal(session_make_room(session, &settings, WINDOW - KEEP + 1, &error), STATUS_CONTEXT);
    assert_int_equal(session_make_room(session, &settings, WINDOW - KEEP, &error), STATUS_OK);
    assert_int_equal(session_length(session), KEEP);
    assert_int_equal(session_evict(session, 2, 3, OVERFLOW_SHIFT, &error), STATUS_USAGE);
    session_close(session);
    engine_close(engine);
}

// Positions grow with every shift; where they come to their end, what is left is read once, and it goes on.
static void positions_come_to_their_end(void **state) {
    (void)state;
    int32_t ids[STREAM];
    Error error = {0};
    CacheOptions cache = cache_options(DTYPE_F32);
    Engine *engine = open_engine(GOLDEN_MODELS, "llama-linear", &cache, 16); // one layer: the same numbers
    Session *session = sessions_open(engine);
    int vocab = vocab_of(engine), begun_anew = 0;
    float a[512], b[512];
    OverflowSettings settings = settings_of(OVERFLOW_SHIFT, 5);
    make_ids(ids, STREAM, vocab);
    engine->cache.position_limit = 2 * WINDOW;
    for (int i = 0; i < STREAM; i++) {
        int64_t length = session_length(session);
        assert_int_equal(session_stream(session, ids + i, 1, &settings, a, &error), STATUS_OK);
        if (length == WINDOW && session_sinks(session) < 0) begun_anew++;
        for (int slot = 0; slot < WINDOW; slot++)
            assert_true(engine->cache.slot_positions[slot] < engine->cache.position_limit);
    }
    assert_int_equal(begun_anew, (STREAM - WINDOW) / 5 / 9); // every ninth time
    int32_t log[WINDOW];
    int64_t n = session_length(session);
    memcpy(log, session_tokens(session), (size_t)n * sizeof *log);
    session_close(session);
    session = sessions_open(engine);
    assert_int_equal(session_sync(session, log, n, NULL, &error), STATUS_OK);
    assert_int_equal(session_logits(session, b, &error), STATUS_OK);
    assert_true(golden_distance(a, b, (size_t)vocab) <= 1e-5);
    session_close(session);
    engine_close(engine);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_oracle_says_what_transformers_say),
        cmocka_unit_test(shift_is_the_oracle),
        cmocka_unit_test(shift_in_place_is_the_oracle),
        cmocka_unit_test(only_keys_in_place_drift),
        cmocka_unit_test(layouts_and_pages_change_no_bit),
        cmocka_unit_test(with_one_layer_shift_is_reading_again),
        cmocka_unit_test(reading_again_is_reading_again),
        cmocka_unit_test(learned_positions_read_again),
        cmocka_unit_test(until_it_is_full_not_a_bit_differs),
        cmocka_unit_test(stop_refuses_with_figures),
        cmocka_unit_test(positions_come_to_their_end),
    };
    return test_main("shift", argc, argv, tests);
}
