// Profiles: every op of a step is counted once a layer, the times add up, and what is computed stays the same.
#include "tests/support/program.h"
#include "tests/support/test.h"
#include "engine/engine.h"
#include "engine/model/model.h"
#include "kernels/ops.h"
#include "engine/profile.h"

#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 64, N = 40, CHUNK = 16 };

static void counts_every_op(void **state) {
    (void)state;
    Error error = {0};
    Engine *engine;
    Session *session;
    EngineOptions options = {.model = BABBLER,
                             .device = "cpu",
                             .n_threads = 1,
                             .context_size = CONTEXT,
                             .cache = cache_options(DTYPE_F32),
                             .chunk = CHUNK};
    if (engine_open(&options, &engine, &error)) fail_msg("%s", error.message);
    if (session_open(engine, &session, &error)) fail_msg("%s", error.message);
    const Model *model = engine_model(engine);
    size_t vocab = (size_t)model->shape.vocab_size;
    float *plain = malloc(vocab * sizeof *plain), *profiled = malloc(vocab * sizeof *profiled);
    int32_t ids[N], id;
    for (int i = 0; i < N; i++) ids[i] = (i * 37 + 5) % (int)vocab;
    assert_int_equal(session_sync(session, ids, N, NULL, &error), STATUS_OK);
    assert_int_equal(session_logits(session, plain, &error), STATUS_OK);

    Profile *profile = calloc(1, sizeof *profile);
    engine_set_profile(engine, profile);
    ids[0]++; // nothing of it is cached
    assert_int_equal(session_sync(session, ids, N, NULL, &error), STATUS_OK);
    int64_t steps = (N + CHUNK - 1) / CHUNK;
    double total = 0;
    for (int op = 0; op < PROFILE_N_OPS; op++) {
        bool in_layer = op >= PROFILE_QKV && op <= PROFILE_DOWN;
        // Nobody asks for logits of the prompt's first pieces: in the last layer they leave their keys and values.
        int64_t skipped = op >= PROFILE_ATTEND ? steps - 1 : 0;
        int64_t calls = op == PROFILE_LOGITS   ? 1
                        : op == PROFILE_SAMPLE ? 0
                        : in_layer             ? steps * model->shape.n_layers - skipped
                                               : steps;
        assert_int_equal(profile->calls[op], calls);
        assert_true(profile->seconds[op] >= 0);
        total += profile->seconds[op];
    }
    assert_true(total > 0);
    SampleParams params = {.top_p = 1, .typical_p = 1};
    assert_int_equal(session_sample(session, &params, &id, &error), STATUS_OK);
    assert_int_equal(profile->calls[PROFILE_SAMPLE], 1);

    ids[0]--;
    assert_int_equal(session_sync(session, ids, N, NULL, &error), STATUS_OK);
    assert_int_equal(session_logits(session, profiled, &error), STATUS_OK);
    assert_memory_equal(plain, profiled, vocab * sizeof *plain);
    int64_t calls = profile->calls[PROFILE_QKV];
    engine_set_profile(engine, NULL);
    ids[0]++;
    assert_int_equal(session_sync(session, ids, N, NULL, &error), STATUS_OK);
    assert_int_equal(profile->calls[PROFILE_QKV], calls);
    free(profile);
    free(plain);
    free(profiled);
    session_close(session);
    engine_close(engine);
}

// More ops than there are stamps are added up on the way.
static void outlasts_the_stamps(void **state) {
    (void)state;
    Error error = {0};
    Backend *backend;
    double inv_freq[4] = {1, 0.1, 0.01, 0.001};
    DecoderShape shape = {.n_layers = 1,
                          .hidden_size = 8,
                          .n_heads = 1,
                          .n_kv_heads = 1,
                          .head_dim = 8,
                          .intermediate_size = 8,
                          .vocab_size = 8,
                          .norm_eps = 1e-5f,
                          .embedding_scale = 1,
                          .attention_scale = 1,
                          .rope = {ROPE_HALF_SPLIT, 8, inv_freq, 1, 1}};
    BackendOptions options = {
        .device = "cpu", .n_threads = 1, .shape = &shape, .max_tokens = 1, .max_logits = 1};
    assert_int_equal(ops_cpu()->open(&options, &backend, &error), STATUS_OK);
    assert_int_equal(ops_cpu()->stamp(backend, OPS_MAX_STAMPS, &error), STATUS_USAGE);
    assert_int_equal(ops_cpu()->stamp(backend, -1, &error), STATUS_USAGE);
    Profile *profile = calloc(1, sizeof *profile);
    assert_int_equal(profile_begin(profile, backend, &error), STATUS_OK);
    for (int i = 0; i < 2 * OPS_MAX_STAMPS; i++)
        assert_int_equal(profile_mark(profile, backend, i % 2 ? PROFILE_OUT : PROFILE_DOWN, &error),
                         STATUS_OK);
    assert_int_equal(profile_end(profile, backend, &error), STATUS_OK);
    assert_int_equal(profile->calls[PROFILE_OUT], OPS_MAX_STAMPS);
    assert_int_equal(profile->calls[PROFILE_DOWN], OPS_MAX_STAMPS);
    free(profile);
    backend->ops->close(backend);
}

static void bench_prints_it(void **state) {
    (void)state;
    Run run;
    program_run(&run, "bench|" BABBLER "|--device|cpu|--prefill|20|--decode|4|--profile", "");
    expect_status(&run, 0);
    expect_out(&run, "prefill of 20 tokens, op by op");
    expect_out(&run, "  gate_up ");
    expect_out(&run, " TFLOP/s\n");
    expect_out(&run, "a token at 1 tokens, op by op");
    expect_out(&run, "  sample ");
    program_free(&run);
    program_run(&run, "bench|" BABBLER "|--device|cpu|--prefill|20|--decode|4", "");
    expect_status(&run, 0);
    assert_null(strstr(run.out, "op by op"));
    assert_null(strstr(run.out, "parallel"));
    program_free(&run);
}

static void bench_takes_many_at_once(void **state) {
    (void)state;
    Run run;
    program_run(&run, "bench|" BABBLER "|--device|cpu|--prefill|200|--decode|4|--parallel|3|--shared|150",
                "");
    expect_status(&run, 0);
    expect_out(&run, "parallel  3 conversations, 200 tokens in, 4 out each\n");
    expect_out(&run, "tok/s; 300 of them were cached\n"); // the first reads the 150 in, the others do not
    program_free(&run);
    program_run(&run, "bench|" BABBLER "|--device|cpu|--prefill|20|--decode|4|--parallel|3|--shared|21", "");
    expect_status(&run, 2);
    expect_err(&run, "--shared 21: the prompts have 20 tokens");
    program_free(&run);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_every_op),
        cmocka_unit_test(outlasts_the_stamps),
        cmocka_unit_test_setup_teardown(bench_prints_it, program_set_up, program_tear_down),
        cmocka_unit_test_setup_teardown(bench_takes_many_at_once, program_set_up, program_tear_down),
    };
    return test_main("profile", argc, argv, tests);
}
