// A backend that takes a token in one go (Ops.decode) may call the engine's own loop in memory of its own, as the CUDA
// backend does to capture it: the logits are those of the ops one by one, and nobody waits for what is being captured.
#include "tests/support/kernels/random.h"
#include "tests/support/program.h"
#include "tests/support/test.h"
#include "engine/engine.h"
#include "engine/engine_internal.h"

#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 64, PROMPT = 12, TOKENS = 6 };

static const Ops *plain;
static int n_decoded, n_read;
static bool capturing;

static Status read_outside(Backend *backend, void *host, const void *memory, size_t bytes, Error *error) {
    assert_false(capturing);
    n_read++;
    return plain->read(backend, host, memory, bytes, error);
}

static bool hear(void *user, const char *what, int64_t done, int64_t total) {
    (void)user, (void)what;
    return done <= total;
}

// Decodes by the loop it is given, and leaves the engine's own x, q and g alone.
static Status decode_by_pass(Backend *backend, const DecodeStep *t, Error *error) {
    static char x[1 << 16], q[1 << 16], g[1 << 16];
    const PassBuffers buffers = {x, q, g, t->logits};
    if (t->step->kind == STEP_READING) return STATUS_UNSUPPORTED;
    n_decoded++;
    Status status = plain->begin(backend, t->step, t->kv, error);
    capturing = true;
    if (!status) status = t->pass(t->context, &buffers, error);
    capturing = false;
    return status;
}

// The logits behind each of TOKENS tokens after a prompt, [TOKENS, vocab].
static float *logits_of(const Ops *(*wrap)(const Ops *ops), size_t *n) {
    Error error = {0};
    Engine *engine;
    Session *session;
    EngineOptions options = {.model = BABBLER,
                             .device = "cpu",
                             .n_threads = 1,
                             .context_size = CONTEXT,
                             .chunk = PROMPT - 1, // the prompt's last piece is a token
                             .cache = cache_options(DTYPE_F32)};
    if (engine_open(&options, &engine, &error)) fail_msg("%s", error.message);
    if (session_open(engine, &session, &error)) fail_msg("%s", error.message);
    engine->backend->ops = wrap(engine->backend->ops);
    session_set_progress(session, (Progress){hear, NULL});
    size_t vocab = (size_t)engine_model(engine)->shape.vocab_size;
    float *logits = malloc(TOKENS * vocab * sizeof *logits);
    int32_t ids[PROMPT + TOKENS];
    for (int i = 0; i < PROMPT + TOKENS; i++) ids[i] = (i * 37 + 5) % (int)vocab;
    assert_ok(session_sync(session, ids, PROMPT, NULL, &error), &error);
    for (int i = 0; i < TOKENS; i++) {
        assert_ok(session_sync(session, ids, PROMPT + i + 1, NULL, &error), &error);
        assert_ok(session_logits(session, logits + (size_t)i * vocab, &error), &error);
    }
    *n = TOKENS * vocab;
    session_close(session);
    engine_close(engine);
    return logits;
}

static const Ops *as_they_are(const Ops *ops) {
    return ops;
}

static const Ops *with_decode(const Ops *ops) {
    static Ops wrapped;
    plain = ops;
    wrapped = *ops;
    wrapped.decode = decode_by_pass;
    wrapped.read = read_outside;
    return &wrapped;
}

static void a_pass_in_other_memory_gives_the_same_logits(void **state) {
    (void)state;
    size_t n, same_n;
    float *right = logits_of(as_they_are, &n), *passed = logits_of(with_decode, &same_n);
    assert_true(n_decoded > TOKENS);
    assert_true(n_read > 0);
    assert_int_equal(n, same_n);
    assert_memory_equal(right, passed, n * sizeof *right);
    free(right);
    free(passed);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pass_in_other_memory_gives_the_same_logits),
    };
    return test_main("pass", argc, argv, tests);
}
