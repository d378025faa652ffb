// Drafts: what is guessed of a reply shows in nothing but in how many steps it takes.
#include "engine/talk/drafts/drafts.h"

#include "engine/engine_internal.h"
#include "engine/grammar/grammar.h"
#include "engine/session/session_step.h"
#include "engine/talk/drafts/lookup.h"
#include "tests/support/ahead.h"
#include "tests/support/kernels/random.h"
#include "tests/support/model/sessions.h"
#include "tests/support/talk/talk.h"
#include "tests/support/test.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- where a text stood before -----------------------------------------------------------------------------------

static int64_t plain_find(const int32_t *text, int64_t n, int *match) {
    int64_t best = 0;
    int seen = 0;
    *match = 0;
    for (int64_t place = n - 1; place >= LOOKUP_LEAST && seen < LOOKUP_PLACES; place--) {
        int m = 0;
        while (m < place && m < LOOKUP_MOST && text[place - 1 - m] == text[n - 1 - m]) m++;
        if (m < LOOKUP_LEAST) continue;
        if (m > *match) best = place, *match = m;
        if (*match == LOOKUP_MOST) break;
        seen++;
    }
    return best;
}

static void the_longest_match_is_found_and_the_newest_of_those(void **state) {
    (void)state;
    enum { N = 600 };
    Error error;
    Lookup *lookup;
    int32_t text[N];
    int found = 0;
    assert_int_equal(lookup_open(N, &lookup, &error), STATUS_OK);
    for (int words = 2; words <= 12; words++) {
        uint64_t seed = (uint64_t)words;
        for (int i = 0; i < N; i++) text[i] = (int32_t)(seeded_bits(&seed) % (uint64_t)words);
        lookup_clear(lookup);
        for (int64_t n = 0; n <= N; n += 1 + n % 3) { // several are new at times
            int match, plain;
            const int64_t place = lookup_find(lookup, text, n, &match),
                          expected = plain_find(text, n, &plain);
            assert_int_equal(place, expected);
            assert_int_equal(match, plain);
            found += place > 0;
        }
    }
    assert_true(found > 1000);
    lookup_close(lookup);
}

// ---- how many are worth it ------------------------------------------------------------------------------------------

static const DraftCosts COSTS = {
    1, {1, 1.5, 1.5, 1.5, 1.6, 1.6, 1.6, 1.6, 1.7, 1.7, 1.7, 1.8, 1.8, 1.8, 1.9, 1.9}, false};

typedef struct Course {
    double cost; // of all steps
    int tokens, guessed, right;
} Course;

// A reply that is text [n] from `from` on, whatever is guessed.
static Course follow(const int32_t *text, int64_t from, int64_t n, int most) {
    Error error;
    Drafts *drafts;
    Course course = {0};
    assert_int_equal(drafts_open(n, &drafts, &error), STATUS_OK);
    drafts_begin(drafts, &COSTS, most);
    for (int64_t at = from; at < n;) {
        const DraftPlan plan = drafts_plan(drafts, text, at, 1, (int)(n - at - 1));
        int right = 0;
        while (right < plan.n && plan.ids[right] == text[at + right]) right++;
        drafts_drawn(drafts, text + at, right + 1);
        assert_in_range(plan.n, 0, most);
        assert_true(at + plan.n < n);
        course.cost += COSTS.of[plan.n];
        course.guessed += plan.n, course.right += right;
        at += right + 1;
    }
    course.tokens = (int)(n - from);
    drafts_close(drafts);
    return course;
}

static void a_text_said_again_takes_few_steps(void **state) {
    (void)state;
    enum { HALF = 400 };
    int32_t text[2 * HALF];
    uint64_t seed = 7;
    for (int i = 0; i < HALF; i++) text[i] = text[HALF + i] = (int32_t)(seeded_bits(&seed) % 5000);
    Course c = follow(text, HALF + 3, sizeof text / sizeof *text, 7);
    assert_true(c.cost < 0.3 * c.tokens);
    assert_true(c.right > 0.9 * c.guessed);
    assert_int_equal(follow(text, HALF, sizeof text / sizeof *text, 0).guessed, 0);
}

static void a_text_like_no_other_has_none(void **state) {
    (void)state;
    int32_t text[2000];
    for (int i = 0; i < 2000; i++) text[i] = i;
    assert_int_equal(follow(text, 100, 2000, 15).guessed, 0);
}

// The worst there is: places that look alike, and go on otherwise each time.
static void who_is_wrong_each_time_stops_soon(void **state) {
    (void)state;
    enum { N = 4000 };
    int32_t text[N];
    uint64_t seed = 3;
    for (int length = LOOKUP_LEAST; length <= 40; length += 5) {
        for (int i = 0; i < N; i++)
            text[i] =
                i % (length + 4) < length ? i % (length + 4) : 100 + (int32_t)(seeded_bits(&seed) % 100000);
        // What is alike is said again and again, rightly so; what comes behind it is never right.
        Course c = follow(text, N / 2, N, 7);
        assert_true(c.cost < 1.02 * c.tokens);
    }
    for (int i = 0; i < N; i++) text[i] = (int32_t)(seeded_bits(&seed) % 6); // nothing can be told of it
    Course c = follow(text, N / 2, N, 7);
    assert_true(c.cost < 1.02 * c.tokens);
}

// ---- sessions -----------------------------------------------------------------------------------------------------

enum { VOCAB = 384 };

static Engine *open_babbler(int context_size, int page_size) {
    Error error;
    Engine *engine;
    EngineOptions options = {.model = "tests/golden/babbler",
                             .device = "cpu",
                             .n_threads = 1,
                             .context_size = context_size,
                             .cache = cache_options(DTYPE_F32),
                             .chunk = 32};
    options.cache.paged = page_size > 0;
    if (page_size > 0) options.cache.page_size = page_size;
    if (engine_open(&options, &engine, &error)) fail_msg("%s", error.message);
    return engine;
}

// What is drawn one by one behind a prompt, and the logits behind the last of it.
static void draw_alone(Engine *engine, const int32_t *prompt, int n_prompt, const SampleParams *params, int n,
                       int32_t *ids, float *logits) {
    Error error;
    Session *s;
    assert_int_equal(session_open(engine, &s, &error), STATUS_OK);
    assert_int_equal(session_sync(s, prompt, n_prompt, NULL, &error), STATUS_OK);
    for (int i = 0; i < n; i++) assert_int_equal(session_sample(s, &params[i], &ids[i], &error), STATUS_OK);
    assert_int_equal(session_logits(s, logits, &error), STATUS_OK);
    session_close(s);
}

static void what_is_guessed_wrong_leaves_no_trace(void **state) {
    (void)state;
    enum { N = 12 };
    const int32_t prompt[] = {5, 9, 77, 31, 8};
    int32_t alone[N + 1], ids[N + 1];
    float logits[2][VOCAB];
    SampleParams params[N + 1];
    Error error;
    Engine *engine = open_babbler(64, 4);
    for (int i = 0; i <= N; i++)
        params[i] =
            (SampleParams){.temperature = 1, .top_p = 1, .typical_p = 1, .seed = 9, .position = (uint64_t)i};
    for (int right = 0; right < N; right++) { // guesses that are
        Session *s;
        int n_drawn;
        draw_alone(engine, prompt, 5, params, right + 2, alone, logits[0]);
        assert_int_equal(session_open(engine, &s, &error), STATUS_OK);
        assert_int_equal(session_sync(s, prompt, 5, NULL, &error), STATUS_OK);
        assert_int_equal(session_most_drafts(s), 0); // nothing is pending
        assert_int_equal(session_sample(s, &params[0], &ids[0], &error), STATUS_OK);
        assert_int_equal(session_most_drafts(s), SESSION_MOST_DRAFTS);
        int32_t guesses[N];
        for (int i = 0; i < N - 1; i++)
            guesses[i] = i < right ? alone[i + 1] : (alone[right + 1] + 1 + i) % VOCAB;
        for (int i = 0; i < N - 1; i++) session_guess(s, i, guesses[i]);
        assert_int_equal(session_draw_guessed(s, N - 1, params + 1, ids + 1, &n_drawn, &error), STATUS_OK);
        assert_int_equal(n_drawn, right + 1);
        assert_memory_equal(ids, alone, (size_t)(right + 2) * sizeof *ids);
        assert_int_equal(session_length(s), 6 + right);
        assert_int_equal(session_cached(s), 6 + right);
        session_push(s, ids[right + 1]);
        assert_int_equal(session_logits(s, logits[1], &error), STATUS_OK);
        assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
        session_cut(s, 6);
        assert_int_equal(session_length(s), 6);
        assert_int_equal(session_cached(s), 5);
        session_close(s);
        assert_int_equal(engine->cache.n_free, engine->cache.n_pages);
    }
    engine_close(engine);
}

// False: it guesses none.
static bool guess_with(const char *path, DType cache, int page_size) {
    EngineOptions options = {.device = "cpu",
                             .n_threads = 1,
                             .context_size = SESSIONS_GUESSED,
                             .cache = cache_options(cache),
                             .chunk = 32};
    options.cache.paged = page_size > 0;
    if (page_size > 0) options.cache.page_size = page_size;
    options.cache.n_sequences = 2;
    Engine *engine = sessions_engine(path, &options);
    const bool guesses = !engine_cannot_draft(engine);
    if (guesses) sessions_guess(engine, path);
    engine_close(engine);
    return guesses;
}

static void what_is_drawn_is_the_same_in_every_model(void **state) {
    (void)state;
    glob_t found;
    assert_int_equal(glob("tests/golden/{babbler,{models,dense,experts,latent,delta,state_space,convolution}/"
                          "*}/config.json",
                          GLOB_BRACE, NULL, &found),
                     0);
    int n_checked = 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char path[256];
        snprintf(path, sizeof path, "%.*s", (int)(strrchr(found.gl_pathv[i], '/') - found.gl_pathv[i]),
                 found.gl_pathv[i]);
        n_checked += guess_with(path, i % 2 ? DTYPE_F16 : DTYPE_F32, i % 3 ? 8 : 0);
    }
    globfree(&found);
    assert_true(n_checked > 70);
}

static void no_more_are_guessed_than_there_is_room_for(void **state) {
    (void)state;
    int32_t prompt[64], id;
    Error error;
    const SampleParams greedy = {.top_p = 1, .typical_p = 1};
    for (int i = 0; i < 64; i++) prompt[i] = i;
    for (int paged = 0; paged < 2; paged++) {
        Engine *engine = open_babbler(64, paged ? 8 : 0);
        for (int n = 40; n < 64; n++) {
            Session *s;
            assert_int_equal(session_open(engine, &s, &error), STATUS_OK);
            assert_int_equal(session_sync(s, prompt, n, NULL, &error), STATUS_OK);
            assert_int_equal(session_sample(s, &greedy, &id, &error), STATUS_OK);
            const int room = n < 63 ? 64 - n - 2 : 0;
            assert_int_equal(session_most_drafts(s), room < SESSION_MOST_DRAFTS ? room : SESSION_MOST_DRAFTS);
            session_close(s);
        }
        engine_close(engine);
    }
}

static void what_fails_leaves_the_log_as_it_was(void **state) {
    (void)state;
    const int32_t prompt[] = {1, 2, 3, 4}, guesses[] = {7, 8, 9};
    int32_t id, ids[4];
    int n_drawn;
    float logits[2][VOCAB];
    Error error;
    const SampleParams greedy[4] = {{.top_p = 1, .typical_p = 1},
                                    {.top_p = 1, .typical_p = 1},
                                    {.top_p = 1, .typical_p = 1},
                                    {.top_p = 1, .typical_p = 1}};
    Engine *engine = open_babbler(64, 8);
    Session *s;
    atomic_int stop = 0;
    ahead_install(engine, false);
    assert_int_equal(session_open(engine, &s, &error), STATUS_OK);
    session_set_interrupt(s, &stop);
    assert_int_equal(session_sync(s, prompt, 4, NULL, &error), STATUS_OK);
    assert_int_equal(session_sample(s, greedy, &id, &error), STATUS_OK);
    draw_alone(engine, prompt, 4, greedy, 1, ids, logits[0]);
    for (int i = 0; i < 3; i++) session_guess(s, i, guesses[i]);
    stop = 1;
    assert_int_equal(session_draw_guessed(s, 3, greedy, ids, &n_drawn, &error), STATUS_INTERRUPTED);
    assert_int_equal(n_drawn, 0);
    assert_int_equal(session_length(s), 5);
    assert_int_equal(session_cached(s), 4);
    stop = 0;
    ahead_fail_once();
    assert_int_equal(session_draw_guessed(s, 3, greedy, ids, &n_drawn, &error), STATUS_DEVICE);
    assert_non_null(strstr(error.message, "not a number"));
    assert_int_equal(session_length(s), 5);
    assert_true(session_cached(s) <= 5);
    assert_int_equal(session_logits(s, logits[1], &error), STATUS_OK);
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
    session_close(s);
    engine_close(engine);
}

// What was drawn before it is as good as drawn one by one.
static void what_fails_behind_right_guesses_comes_again(void **state) {
    (void)state;
    enum { N = 6 };
    const int32_t prompt[] = {1, 2, 3, 4};
    int32_t id, alone[N + 2], ids[N + 1];
    float logits[2][VOCAB];
    Error error;
    SampleParams params[N + 2];
    Engine *engine = open_babbler(64, 8);
    for (int i = 0; i < N + 2; i++) params[i] = (SampleParams){.top_p = 1, .typical_p = 1};
    ahead_install(engine, false);
    draw_alone(engine, prompt, 4, params, N + 2, alone, logits[0]);
    for (int row = 1; row <= N; row++) {
        Session *s;
        int n_drawn;
        assert_int_equal(session_open(engine, &s, &error), STATUS_OK);
        assert_int_equal(session_sync(s, prompt, 4, NULL, &error), STATUS_OK);
        assert_int_equal(session_sample(s, params, &id, &error), STATUS_OK);
        for (int i = 0; i < N; i++) session_guess(s, i, alone[i + 1]);
        ahead_fail_in_row(row);
        assert_int_equal(session_draw_guessed(s, N, params, ids, &n_drawn, &error), STATUS_OK);
        assert_int_equal(n_drawn, row);
        assert_memory_equal(ids, alone + 1, (size_t)row * sizeof *ids);
        assert_int_equal(session_length(s), 4 + row);
        assert_int_equal(session_cached(s), 4 + row);
        session_push(s, ids[row - 1]);
        for (int i = row + 1; i < N + 2; i++) {
            assert_int_equal(session_sample(s, params, &id, &error), STATUS_OK);
            assert_int_equal(id, alone[i]);
        }
        assert_int_equal(session_logits(s, logits[1], &error), STATUS_OK);
        assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
        session_close(s);
    }
    engine_close(engine);
}

// ---- talks ---------------------------------------------------------------------------------------------------------

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
        cmocka_unit_test(the_longest_match_is_found_and_the_newest_of_those),
        cmocka_unit_test(a_text_said_again_takes_few_steps),
        cmocka_unit_test(a_text_like_no_other_has_none),
        cmocka_unit_test(who_is_wrong_each_time_stops_soon),
        cmocka_unit_test(what_is_guessed_wrong_leaves_no_trace),
        cmocka_unit_test(what_is_drawn_is_the_same_in_every_model),
        cmocka_unit_test(no_more_are_guessed_than_there_is_room_for),
        cmocka_unit_test(what_fails_leaves_the_log_as_it_was),
        cmocka_unit_test(what_fails_behind_right_guesses_comes_again),
        cmocka_unit_test(a_talk_is_the_same_to_the_byte),
        cmocka_unit_test(whatever_another_model_guesses),
        cmocka_unit_test(whatever_a_grammar_allows),
        cmocka_unit_test(an_end_is_an_end),
        cmocka_unit_test(who_has_other_tokens_cannot_guess),
    };
    return test_main("drafts", argc, argv, tests);
}
