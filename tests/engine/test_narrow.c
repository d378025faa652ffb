// The last layer is for the tokens alone that logits are asked of: which steps that can be, and that nothing else changes
// by it, in every architecture, for pieces of prompts, after evictions and over several cards.
#include "engine/engine.h"
#include "engine/engine_internal.h"
#include "engine/narrow.h"
#include "engine/session/session_step.h"
#include "tests/support/kernels/fake_cards.h"
#include "tests/support/model/golden_model.h"
#include "tests/support/kernels/random.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static Error error;

// ---- steps ------------------------------------------------------------------------------------------------

static const int32_t NUMBERS[8] = {0, 1, 2, 3, 4, 5, 6, 7};

// Whether of two sequences, of five tokens and of three behind them, the tokens can be taken.
static bool narrows(int32_t n_prefix, const int32_t *tokens, int n, Narrowed *narrowed) {
    static StepSequence sequences[2];
    sequences[0] = (StepSequence){.first_token = 0, .n_tokens = 5, .n_slots = 5, .n_prefix = n_prefix};
    sequences[1] = (StepSequence){.first_token = 5, .n_tokens = 3, .n_slots = 9, .n_evicted = 2};
    const Step step = {.n_tokens = 8,
                       .n_sequences = 2,
                       .ids = NUMBERS,
                       .positions = NUMBERS,
                       .slots = NUMBERS,
                       .sequences = sequences,
                       .kind = STEP_READING};
    return narrow_step(&step, &(LogitRows){tokens, n}, narrowed);
}

static void steps_are_narrowed_to_last_tokens(void **state) {
    (void)state;
    Narrowed n;
    assert_true(narrows(0, (int32_t[]){4, 6, 7}, 3, &n));
    assert_int_equal(n.step.n_tokens, 3);
    assert_int_equal(n.step.n_sequences, 2);
    assert_int_equal(n.step.kind, STEP_READING);
    const int32_t right[] = {4, 6, 7};
    assert_memory_equal(n.step.ids, right, sizeof right);
    assert_memory_equal(n.step.positions, right, sizeof right);
    assert_memory_equal(n.step.slots, right, sizeof right);
    assert_int_equal(n.step.sequences[0].n_tokens, 1);
    assert_int_equal(n.step.sequences[0].n_slots, 5);
    assert_int_equal(n.step.sequences[1].first_token, 1);
    assert_int_equal(n.step.sequences[1].n_tokens, 2);
    assert_int_equal(n.step.sequences[1].n_slots, 9);
    assert_int_equal(n.step.sequences[1].n_evicted, 2);
}

static void a_sequence_that_is_not_asked_is_left_out(void **state) {
    (void)state;
    Narrowed n;
    assert_true(narrows(0, (int32_t[]){7}, 1, &n));
    assert_int_equal(n.step.n_sequences, 1);
    assert_int_equal(n.step.sequences[0].first_token, 0);
    assert_int_equal(n.step.sequences[0].n_slots, 9);
    assert_true(narrows(0, NULL, 0, &n));
    assert_int_equal(n.step.n_tokens, 0);
}

static void others_stay_as_they_are(void **state) {
    (void)state;
    Narrowed n;
    assert_false(narrows(0, NUMBERS, 8, &n));           // all
    assert_false(narrows(0, (int32_t[]){3}, 1, &n));    // not the last one
    assert_false(narrows(0, (int32_t[]){2, 4}, 2, &n)); // one is missing
    assert_false(narrows(0, (int32_t[]){4, 8}, 2, &n)); // beyond the step
    assert_false(narrows(0, (int32_t[]){7, 4}, 2, &n)); // not rising
    assert_false(narrows(5, (int32_t[]){4}, 1, &n));    // of a prefix seen both ways
    assert_true(narrows(4, (int32_t[]){4}, 1, &n));     // behind it
    static int32_t many[2 * NARROW_MOST];
    static StepSequence one = {.n_tokens = 2 * NARROW_MOST, .n_slots = 2 * NARROW_MOST};
    for (int i = 0; i < 2 * NARROW_MOST; i++) many[i] = i;
    const Step step = {2 * NARROW_MOST, 1, many, many, many, &one, 1, NULL, STEP_ANY};
    assert_true(narrow_step(&step, &(LogitRows){many + NARROW_MOST, NARROW_MOST}, &n));
    assert_false(narrow_step(&step, &(LogitRows){many + NARROW_MOST - 1, NARROW_MOST + 1}, &n));
}

// Llama-2-7B: 1,023 tokens fewer, each of 4,096 x (4,096 + 3 x 11,008) multiplications.
static void what_is_saved_is_counted(void **state) {
    (void)state;
    const DecoderShape shape = {
        .hidden_size = 4096, .n_heads = 32, .head_dim = 128, .intermediate_size = 11008};
    assert_true(narrow_saves(&shape, 1023) == 1023.0 * 4096 * (4096 + 3 * 11008));
    assert_true(narrow_saves(&shape, 0) == 0);
}

// ---- logits -----------------------------------------------------------------------------------------------

enum { CONTEXT = 64, CHUNK = 16, PROMPT = 43, MORE = 7 };

static int n_narrowed, n_rows;
static double narrow_from;
static const Ops *plain;

static Status count_narrow(Backend *backend, const Step *step, const NarrowRows *rows, const KvLayer *kv,
                           Error *e) {
    n_narrowed++;
    n_rows += step->n_tokens;
    return plain->narrow(backend, step, rows, kv, e);
}

// The engine's ops with their narrow() counted, or without it.
static const Ops *ops_that(bool narrow, const Ops *ops) {
    static Ops wrapped;
    plain = ops;
    wrapped = *ops;
    wrapped.narrow = narrow ? count_narrow : NULL;
    wrapped.narrow_from = narrow_from;
    return &wrapped;
}

typedef struct Run {
    const char *model, *device;
    bool narrow, paged;
    DType cache;
} Run;

// The logits behind a prompt in pieces, behind what follows it after an eviction (where the model allows one), and the
// prompt's last three in one step: [3 + 2, vocab].
static float *logits_of(const Run *run, size_t *n) {
    static FakeCards fakes;
    Engine *engine;
    Session *session;
    EngineOptions options = {.device = run->device,
                             .cuda = fake_cards(&fakes),
                             .n_threads = 2,
                             .context_size = CONTEXT,
                             .chunk = CHUNK,
                             .cache = cache_options(run->cache)};
    options.cache.paged = run->paged, options.cache.page_size = 8;
    Model *model;
    assert_ok(model_open(run->model, &model, &error), &error);
    assert_ok(engine_open_model(model, &options, &engine, &error), &error);
    engine->backend->ops = ops_that(run->narrow, engine->backend->ops);
    assert_ok(session_open(engine, &session, &error), &error);
    const size_t vocab = (size_t)engine_model(engine)->shape.vocab_size;
    float *logits = calloc(5 * vocab, sizeof *logits);
    int32_t ids[CONTEXT];
    for (int i = 0; i < CONTEXT; i++) ids[i] = (i * 37 + 5) % (int)vocab;
    assert_ok(session_sync(session, ids, PROMPT, NULL, &error), &error);
    assert_ok(session_logits(session, logits, &error), &error);
    const OverflowSettings shift = {.policy = OVERFLOW_SHIFT, .keep = 4};
    if (!session_make_room(session, &shift, CONTEXT - PROMPT + MORE, &error))
        for (int i = 0; i < MORE; i++) session_push(session, ids[i]);
    assert_ok(session_logits(session, logits + vocab, &error), &error);
    assert_ok(session_logits_of(session, ids, PROMPT, PROMPT - 3, logits + 2 * vocab, &error), &error);
    session_close(session);
    engine_close(engine);
    *n = 5 * vocab;
    return logits;
}

// With a step of all rows as it is without.
static void check(const char *model, const char *device, bool paged, DType cache) {
    size_t n, same;
    Run run = {model, device, false, paged, cache};
    float *whole = logits_of(&run, &n);
    run.narrow = true;
    float *narrowed = logits_of(&run, &same);
    assert_int_equal(n, same);
    if (memcmp(whole, narrowed, n * sizeof *whole) != 0) fail_msg("%s on %s: other logits", model, device);
    free(whole);
    free(narrowed);
}

static int check_folder(const char *root) {
    DIR *folder = opendir(root);
    int n = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char model[512], config[600];
        snprintf(model, sizeof model, "%s/%s", root, entry->d_name);
        snprintf(config, sizeof config, "%s/config.json", model);
        if (access(config, R_OK)) continue; // a GGUF is the same model again
        check(model, "cpu", n % 2 == 0, n % 3 == 0 ? DTYPE_F32 : DTYPE_F16);
        n++;
    }
    closedir(folder);
    return n;
}

static void every_architecture_gives_what_it_gives_without(void **state) {
    (void)state;
    static const char *const ROOTS[] = {GOLDEN_MODELS, GOLDEN_ARCHITECTURES, GOLDEN_DENSE, GOLDEN_EXPERTS,
                                        GOLDEN_LATENT};
    int n = 0;
    n_narrowed = n_rows = 0;
    for (size_t i = 0; i < sizeof ROOTS / sizeof *ROOTS; i++) n += check_folder(ROOTS[i]);
    assert_true(n > 60);
    assert_true(n_narrowed >= 2 * n - 4); // but for per-layer embeddings
    assert_int_equal(n_rows, n_narrowed);
}

// Layers that recur, the last one or others; a last layer without a mixer, and one beside another, of which none is left out.
static void layers_of_other_kinds_give_it_too(void **state) {
    (void)state;
    n_narrowed = n_rows = 0;
    assert_true(check_folder(GOLDEN_DELTA) + check_folder(GOLDEN_STATE_SPACE) > 14);
    assert_true(n_narrowed > 20);
    n_narrowed = 0;
    check(GOLDEN_STATE_SPACE "/nemotron_h-moe", "cpu", false, DTYPE_F32);
    assert_true(n_narrowed > 0);
    n_narrowed = 0;
    check(GOLDEN_STATE_SPACE "/falcon_h1", "cpu", false, DTYPE_F32);
    assert_int_equal(n_narrowed, 0);
}

// A backend that wants more to be saved than there is in a small model.
static void a_backend_says_from_when_on(void **state) {
    (void)state;
    n_narrowed = 0;
    narrow_from = 1e12;
    check(GOLDEN_MODELS "/llama", "cpu", false, DTYPE_F32);
    assert_int_equal(n_narrowed, 0);
    narrow_from = 1;
    check(GOLDEN_MODELS "/llama", "cpu", false, DTYPE_F32);
    assert_true(n_narrowed > 0);
    narrow_from = 0;
}

static void several_cards_do_as_well(void **state) {
    (void)state;
    static const char *const MODELS[] = {GOLDEN_MODELS "/llama",    GOLDEN_MODELS "/qwen2",
                                         GOLDEN_DENSE "/falcon-7b", GOLDEN_DENSE "/gemma2",
                                         GOLDEN_EXPERTS "/mixtral", GOLDEN_LATENT "/deepseek_v2"};
    n_narrowed = 0;
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++)
        check(MODELS[i], "cuda:0,1", false, DTYPE_F32);
    assert_true(n_narrowed >= 2 * (int)(sizeof MODELS / sizeof *MODELS));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_narrowed_to_last_tokens),
        cmocka_unit_test(a_sequence_that_is_not_asked_is_left_out),
        cmocka_unit_test(others_stay_as_they_are),
        cmocka_unit_test(what_is_saved_is_counted),
        cmocka_unit_test(every_architecture_gives_what_it_gives_without),
        cmocka_unit_test(layers_of_other_kinds_give_it_too),
        cmocka_unit_test(a_backend_says_from_when_on),
        cmocka_unit_test(several_cards_do_as_well),
    };
    return test_main("narrow", argc, argv, tests);
}
