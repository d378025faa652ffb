#include "tests/support/engine/sessions.h"

#include "engine/engine_internal.h"
#include "engine/session/session_step.h"
#include "engine/session/snapshot.h"
#include "tests/support/kernels/random.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS = 7 }; // what the snapshots' owner is known by

Engine *sessions_engine(const char *path, const EngineOptions *options) {
    Error error = {0};
    Model *model = NULL;
    Engine *engine = NULL;
    if (model_open(path, &model, &error) || engine_open_model(model, options, &engine, &error))
        fail_msg("%s: %s", path, error.message);
    return engine;
}

Engine *sessions_engine_of_pages(const char *path, int context, int sequences) {
    EngineOptions options = {.device = "cpu",
                             .n_threads = 1,
                             .context_size = context,
                             .cache = cache_options(DTYPE_F32),
                             .chunk = 7,
                             .n_rows = sequences};
    options.cache.paged = true;
    options.cache.page_size = 8;
    options.cache.n_sequences = sequences;
    return sessions_engine(path, &options);
}

Session *sessions_open(Engine *engine) {
    Error error = {0};
    Session *session = NULL;
    if (session_open(engine, &session, &error)) fail_msg("%s", error.message);
    return session;
}

int64_t sessions_sync(Session *session, const int32_t *ids, int64_t n) {
    Error error = {0};
    SyncReport report;
    if (session_sync(session, ids, n, &report, &error)) fail_msg("%s", error.message);
    assert_int_equal(report.cached + report.evaluated, n);
    return report.cached;
}

void sessions_logits(Session *session, float *logits) {
    Error error = {0};
    if (session_logits(session, logits, &error)) fail_msg("%s", error.message);
}

static void keep(Session *session, const char *path) {
    Error error = {0};
    Snapshot *snapshot = NULL;
    if (snapshot_take(session, WORDS, &snapshot, &error) || snapshot_write(snapshot, path, NULL, &error))
        fail_msg("%s", error.message);
    snapshot_free(snapshot);
}

void sessions_come_back(Engine *const engines[2], const int32_t *ids, int64_t n_kept, int64_t n,
                        const char *path) {
    Error error = {0};
    SnapshotRestored restored;
    const size_t size = (size_t)engine_model(engines[0])->shape.vocab_size * sizeof(float);
    float *logits[2] = {malloc(size), malloc(size)};
    Session *sessions[2] = {sessions_open(engines[0]), sessions_open(engines[1])};
    (void)sessions_sync(sessions[0], ids, n_kept);
    keep(sessions[0], path);
    if (snapshot_restore(sessions[1], WORDS, path, &restored, &error)) fail_msg("%s", error.message);
    assert_int_equal(restored.n_tokens, n_kept);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sessions_sync(sessions[i], ids, n), n_kept);
        sessions_logits(sessions[i], logits[i]);
        session_close(sessions[i]);
    }
    assert_memory_equal(logits[0], logits[1], size);
    free(logits[0]), free(logits[1]);
}

void sessions_refuse(Engine *engine, const char *path, const char *part) {
    Error error = {0};
    SnapshotRestored restored;
    Session *session = sessions_open(engine);
    assert_int_equal(snapshot_restore(session, WORDS, path, &restored, &error), STATUS_FILE);
    if (!strstr(error.message, part)) fail_msg("'%s' is not in: %s", part, error.message);
    session_close(session);
}

// ---- tokens that are guessed ----------------------------------------------------------------------------------------

void sessions_guess(Engine *engine, const char *what) {
    enum { DRAWS = 60, PROMPT = 7, GUESSES = 8 };
    const int vocab = engine_model(engine)->shape.vocab_size;
    const size_t bytes = (size_t)vocab * sizeof(float);
    SampleParams params[DRAWS + GUESSES];
    int32_t prompt[PROMPT], alone[DRAWS], ids[GUESSES + 1];
    float *logits[2] = {malloc(bytes), malloc(bytes)};
    uint64_t seed = 11;
    Error error;
    for (int i = 0; i < PROMPT; i++) prompt[i] = (i * 37 + 5) % vocab;
    for (int i = 0; i < DRAWS + GUESSES; i++)
        params[i] = (SampleParams){
            .temperature = 1, .top_p = 0.9f, .typical_p = 1, .seed = 4, .position = (uint64_t)i};
    Session *s = sessions_open(engine);
    sessions_sync(s, prompt, PROMPT);
    for (int i = 0; i < DRAWS; i++) assert_ok(session_sample(s, &params[i], &alone[i], &error), &error);
    sessions_logits(s, logits[0]);
    session_close(s);

    s = sessions_open(engine);
    sessions_sync(s, prompt, PROMPT);
    for (int at = 0; at < DRAWS;) { // drawn so far
        int n = at > 0 ? (int)(seeded_bits(&seed) % (GUESSES + 1)) : 0, n_drawn = 1;
        assert_true(at == 0 || session_decodes(s));
        if (n > session_most_drafts(s)) n = session_most_drafts(s);
        if (n > DRAWS - at - 1) n = DRAWS - at - 1;
        for (int i = 0; i < n; i++)
            session_guess(s, i, seeded_bits(&seed) % 6 ? alone[at + i] : (alone[at + i] + 1) % vocab);
        Status status = n > 0 ? session_draw_guessed(s, n, &params[at], ids, &n_drawn, &error)
                              : session_draw(s, &params[at], ids, &error);
        if (status) fail_msg("%s: %s", what, error.message);
        if (memcmp(ids, alone + at, (size_t)n_drawn * sizeof *ids) != 0) fail_msg("%s: token %d", what, at);
        session_push(s, ids[n_drawn - 1]);
        at += n_drawn;
        assert_int_equal(session_length(s), PROMPT + at);
    }
    sessions_logits(s, logits[1]);
    if (memcmp(logits[0], logits[1], bytes) != 0) fail_msg("%s: logits", what);
    session_close(s);
    free(logits[0]);
    free(logits[1]);
}
