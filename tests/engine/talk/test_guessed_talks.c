// What is guessed of a reply shows in nothing but in how many steps it takes.
#include "engine/talk/drafts/drafts.h"

#include "engine/engine_internal.h"
#include "engine/grammar/grammar.h"
#include "tests/support/ahead.h"
#include "tests/support/talk/talk.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

typedef struct Way {
    OverflowPolicy policy;
    bool paged, steps_ahead;
    SamplerSettings sampler;
    Grammar *grammar; // NULL: none
} Way;

typedef struct Told {
    char text[65536];
    int32_t log[256];
    int64_t n;
    uint64_t position;
    int64_t guessed, right;
    int free_pages;
} Told;

// Where steps of several tokens cost next to nothing much is guessed, rightly or not.
static double cost_next_to_nothing(const Backend *backend, double bytes, int n) {
    (void)backend, (void)bytes;
    return 1 + 0.001 * n;
}

static double cost_nothing(const Backend *backend, double bytes, int n) {
    (void)backend, (void)bytes, (void)n;
    return 1e-6;
}

static void make_steps_cheap(Engine *engine) {
    static Ops ops;
    ops = *engine->backend->ops;
    ops.step_seconds = cost_next_to_nothing;
    engine->backend->ops = &ops;
}

static void make_free(Engine *engine) {
    static Ops ops;
    ops = *engine->backend->ops;
    ops.step_seconds = cost_nothing;
    engine->backend->ops = &ops;
}

// The same model, in other weights: it mostly says the same, or in its own, always.
static Engine *open_guesser(WeightType weights, int context_size) {
    Error error;
    Engine *engine;
    const EngineOptions options = {.model = "tests/golden/babbler",
                                   .device = "cpu",
                                   .n_threads = 1,
                                   .weights = weights,
                                   .context_size = context_size,
                                   .cache = cache_options(DTYPE_F32)};
    if (engine_open(&options, &engine, &error)) fail_msg("%s", error.message);
    make_free(engine);
    return engine;
}

// A talk of several turns, with everything that ends one.
static void talk(const Way *way, int drafts, Engine *guesser, Told *told) {
    CacheOptions cache = cache_options(DTYPE_F32);
    cache.paged = way->paged, cache.page_size = 16, cache.n_sequences = 2;
    if (!way->paged) cache.n_sequences = 1;
    Talk *t = talk_open(192, &cache);
    if (way->steps_ahead) ahead_install(t->engine, true);
    make_steps_cheap(t->engine);
    ConversationSettings *settings = conversation_settings(t->c);
    settings->overflow.policy = way->policy;
    settings->sampler = way->sampler;
    settings->drafts = drafts;
    settings->grammar = way->grammar;
    Error refused;
    if (conversation_set_guesser(t->c, guesser, &refused)) fail_msg("%s", refused.message);
    *told = (Told){0};
    for (int turn = 0; turn < 14; turn++) {
        Error error;
        ReplyReport report;
        const char *stops[] = {"e", "th"};
        settings->stop = stops, settings->n_stop = turn % 3 == 1 ? 2 : 0;
        settings->max_tokens = turn % 4 == 2 ? 90 : turn == 5 ? 1 : 30;
        t->stop = 0;
        t->stop_after = turn % 4 == 3 ? 5 : 0;
        if (turn % 5 == 4) conversation_truncate(t->c, conversation_length(t->c) - 2);
        talk_append(t->c, CHAT_USER, turn % 2 ? "And then what came of it?" : "Tell me more.");
        Status status = talk_reply(t, false, &report, &error);
        told->guessed += report.n_guessed, told->right += report.n_right;
        const size_t used = strlen(told->text);
        snprintf(told->text + used, sizeof told->text - used, "[%d %d %lld %lld %lld %s]", status,
                 report.finish, (long long)report.cached, (long long)report.used, (long long)report.n_reply,
                 t->text);
    }
    told->n = session_length(conversation_session(t->c));
    told->position = settings->position;
    told->free_pages = t->engine->cache.n_free;
    memcpy(told->log, session_tokens(conversation_session(t->c)), (size_t)told->n * sizeof *told->log);
    talk_close(t);
}

static void assert_told_alike(const Told *a, const Told *b) {
    assert_string_equal(a->text, b->text);
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->position, b->position);
    assert_memory_equal(a->log, b->log, (size_t)b->n * sizeof *b->log);
}

enum { SAMPLERS = 4 };

// Some with few tokens, for by itself the model repeats nothing.
static void make_samplers(bool few, SamplerSettings samplers[SAMPLERS]) {
    static const SamplerBias biases[] = {{100, 1000}, {101, 1000}, {102, 998}};
    for (int i = 0; i < SAMPLERS; i++)
        samplers[i] = (SamplerSettings){.top_p = 1,
                                        .typical_p = 1,
                                        .repeat_penalty = 1,
                                        .dry_base = 1.75f,
                                        .dry_allowed = 2,
                                        .logit_bias = biases,
                                        .n_logit_bias = few ? 3 : 0};
    samplers[1].temperature = 0.3f, samplers[1].top_k = 4;
    samplers[2].repeat_penalty = 1.02f, samplers[2].repeat_last = 20, samplers[2].presence_penalty = 0.05f;
    samplers[2].dry_multiplier = 0.01f, samplers[2].temperature = 0.1f;
    samplers[3].ignore_eos = true;
}

static void a_talk_is_the_same_to_the_byte(void **state) {
    (void)state;
    static Told alone, guessed;
    SamplerSettings samplers[SAMPLERS];
    int64_t right = 0, steps_ahead_right = 0;
    make_samplers(true, samplers);
    for (int policy = OVERFLOW_REEVALUATE; policy <= OVERFLOW_STOP; policy++)
        for (int k = 0; k < 2 * SAMPLERS; k++) {
            const Way way = {(OverflowPolicy)policy, (k + policy) % 2 == 0, k >= SAMPLERS,
                             samplers[k % SAMPLERS], NULL};
            talk(&way, 0, NULL, &alone);
            assert_int_equal(alone.guessed, 0);
            const int drafts[] = {1, 7, 15};
            for (int i = 0; i < 3; i++) {
                talk(&way, drafts[i], NULL, &guessed);
                assert_told_alike(&guessed, &alone);
                right += guessed.right;
                if (way.steps_ahead) steps_ahead_right += guessed.right;
            }
        }
    assert_true(right > 500);
    assert_true(steps_ahead_right > 100);
}

static void whatever_another_model_guesses(void **state) {
    (void)state;
    static Told alone, guessed;
    static const WeightType weights[] = {WEIGHTS_OWN, WEIGHTS_INT4};
    SamplerSettings samplers[SAMPLERS];
    int64_t right[2] = {0}, all[2] = {0};
    make_samplers(false, samplers);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2 * SAMPLERS; k++) {
            // Its context may end sooner than the conversation's, which then goes on without it.
            Engine *guesser = open_guesser(weights[i], k % 3 == 2 ? 64 : 192);
            const Way way = {(OverflowPolicy)(k % 4), k % 2 == 0, k >= SAMPLERS, samplers[k % SAMPLERS],
                             NULL};
            talk(&way, 0, guesser, &alone);
            assert_int_equal(alone.guessed, 0);
            talk(&way, k % 2 ? 3 : 9, guesser, &guessed);
            assert_told_alike(&guessed, &alone);
            right[i] += guessed.right, all[i] += guessed.guessed;
            engine_close(guesser);
        }
    assert_true(right[0] > 1000);
    assert_true((double)right[0] > 0.6 * (double)all[0]); // what stays behind a shift it has read again
    assert_true(right[1] > 100);
    assert_true(right[1] < all[1]);
}

// What is guessed may not fit, and what comes behind it has rules of its own.
static void whatever_a_grammar_allows(void **state) {
    (void)state;
    static Told alone, guessed;
    static const char *const PATTERNS[] = {"([ab]{2} ){3,40}", "(x|yy)*z", "\\[(\"[a-c]+\",){2,9}\"\"\\]"};
    SamplerSettings samplers[SAMPLERS];
    int64_t right = 0;
    make_samplers(false, samplers);
    for (size_t i = 0; i < sizeof PATTERNS / sizeof *PATTERNS; i++)
        for (int k = 0; k < 6; k++) {
            Way way = {(OverflowPolicy)(k % 4), k % 2 == 0, k >= 3, samplers[k % 3], NULL};
            Error error;
            if (grammar_compile(GRAMMAR_REGEX, PATTERNS[i], strlen(PATTERNS[i]), &way.grammar, &error))
                fail_msg("%s", error.message);
            Engine *guesser = k % 3 == 0 ? open_guesser(WEIGHTS_INT4, 192) : NULL;
            talk(&way, 0, guesser, &alone);
            talk(&way, k % 2 ? 3 : 15, guesser, &guessed);
            assert_told_alike(&guessed, &alone);
            right += guessed.right;
            engine_close(guesser);
            grammar_close(way.grammar);
        }
    assert_true(right > 200);
}

// Interrupts at the token after so many more.
typedef struct Interrupts {
    Talk *talk;
    int left;
} Interrupts;

static void interrupt_in_time(void *user, int32_t id) {
    Interrupts *in = user;
    (void)id;
    if (--in->left == 0) in->talk->stop = 1;
}

// An interrupt that comes with what ends the reply, as from Ctrl-C or a reader that has left, comes too late.
static void an_end_is_an_end(void **state) {
    (void)state;
    static const char PATTERN[] = "q{60}z";
    static const char *const STOPS[] = {"qqqqqqqqqq"};
    CacheOptions cache = cache_options(DTYPE_F32);
    int ends = 0;
    for (int k = 0; k < 30; k++) {
        const int stop_after = 1 + k / 2;
        ReplyReport reports[2];
        char texts[2][256];
        for (int i = 0; i < 2; i++) {
            Error error;
            Grammar *grammar;
            Talk *t = talk_open(192, &cache);
            make_steps_cheap(t->engine);
            ConversationSettings *settings = conversation_settings(t->c);
            assert_int_equal(grammar_compile(GRAMMAR_REGEX, PATTERN, strlen(PATTERN), &grammar, &error),
                             STATUS_OK);
            settings->grammar = grammar, settings->drafts = i ? 15 : 0;
            settings->stop = STOPS, settings->n_stop = k % 2;
            settings->max_tokens = k % 2 ? 60 : 13;
            Interrupts interrupts = {t, stop_after};
            const ConversationEvents events = {.user = &interrupts, .token = interrupt_in_time};
            talk_append(t->c, CHAT_USER, "qqqqqqqqqqqqqqqqqqqq");
            assert_int_equal(conversation_reply(t->c, false, &events, &reports[i], &error), STATUS_OK);
            snprintf(texts[i], sizeof texts[i], "%.200s",
                     conversation_message(t->c, conversation_length(t->c) - 1)->text);
            talk_close(t);
            grammar_close(grammar);
        }
        assert_int_equal(reports[0].finish, reports[1].finish);
        assert_int_equal(reports[0].n_reply, reports[1].n_reply);
        assert_string_equal(texts[0], texts[1]);
        assert_in_range(reports[1].n_right, 0, reports[1].n_reply - 1);
        ends += reports[0].finish == FINISH_STOP || reports[0].finish == FINISH_LENGTH;
    }
    assert_in_range(ends, 4, 26);
}

static void who_has_other_tokens_cannot_guess(void **state) {
    (void)state;
    Error error;
    Engine *other;
    CacheOptions cache = cache_options(DTYPE_F32);
    Talk *t = talk_open(64, &cache);
    const EngineOptions options = {
        .model = "assets/parley-9m", .device = "cpu", .n_threads = 1, .context_size = 64, .cache = cache};
    if (engine_open(&options, &other, &error)) fail_msg("%s", error.message);
    assert_int_equal(conversation_set_guesser(t->c, other, &error), STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.message, "it cannot guess: it has"));
    engine_close(other);
    talk_close(t);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_talk_is_the_same_to_the_byte),    cmocka_unit_test(whatever_another_model_guesses),
        cmocka_unit_test(whatever_a_grammar_allows),         cmocka_unit_test(an_end_is_an_end),
        cmocka_unit_test(who_has_other_tokens_cannot_guess),
    };
    return test_main("guessed_talks", argc, argv, tests);
}
