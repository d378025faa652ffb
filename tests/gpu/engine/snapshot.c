// Snapshots on the GPU: what comes back from a file gives the logits that the cache it was made of gives, to the bit,
// for each kind of cache and after shifts; and how fast 2,653 tokens of an 8B model come back.
#include "engine/session/snapshot.h"
#include "engine/model/shape/model_shape.h"
#include "kernels/base/clock.h"
#include "tests/gpu/engine/engine_tests.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONTEXT = 128, READ = 90, MORE = 9, WORDS = 5, TALK = 2653 };

typedef struct Side {
    Engine *engine;
    Session *session;
} Side;

static Status side_open(const char *model, CacheOptions cache, Side *side, Error *error) {
    Model *opened;
    EngineOptions options = {.device = "cuda", .context_size = CONTEXT, .cache = cache, .chunk = 32};
    *side = (Side){0};
    Status status = model_open(model, &opened, error);
    if (!status) status = engine_open_model(opened, &options, &side->engine, error);
    return status ? status : session_open(side->engine, &side->session, error);
}

static void side_close(Side *side) {
    session_close(side->session);
    engine_close(side->engine);
}

static Status keep(const Side *side, const char *path, Error *error) {
    Snapshot *snapshot = NULL;
    Status status = snapshot_take(side->session, WORDS, &snapshot, error);
    if (!status) status = snapshot_write(snapshot, path, NULL, error);
    snapshot_free(snapshot);
    return status;
}

// How many of the logits behind MORE further tokens differ.
static Status compare(const Side *before, const Side *after, double *differ, Error *error) {
    const size_t vocab = (size_t)engine_model(before->engine)->shape.vocab_size;
    float *logits = malloc(2 * vocab * sizeof *logits);
    int32_t ids[CONTEXT + MORE];
    const int64_t n = session_length(before->session);
    if (!logits) return error_set(error, STATUS_MEMORY, "no memory for logits");
    memcpy(ids, session_tokens(before->session), (size_t)n * sizeof *ids);
    for (int i = 0; i < MORE; i++) ids[n + i] = (7 * i + 3) % 90;
    Status status = session_sync(before->session, ids, n + MORE, NULL, error);
    if (!status) status = session_sync(after->session, ids, n + MORE, NULL, error);
    if (!status) status = session_logits(before->session, logits, error);
    if (!status) status = session_logits(after->session, logits + vocab, error);
    *differ = 0;
    for (size_t i = 0; i < vocab && !status; i++)
        *differ += memcmp(&logits[i], &logits[vocab + i], sizeof *logits) != 0;
    free(logits);
    return status;
}

static double test_one(const char *model, CacheOptions cache, OverflowPolicy policy, Error *error) {
    char path[] = "/tmp/palaver-snapshot-XXXXXX";
    int32_t ids[3 * CONTEXT];
    Side before, after = {0};
    SnapshotRestored restored = {0};
    double differ = NAN;
    const OverflowSettings settings = {.policy = policy, .keep = 4, .discard = 0.5};
    const int n = policy == OVERFLOW_STOP ? READ : 3 * CONTEXT;
    for (int i = 0; i < n; i++) ids[i] = (11 * i + i / 7) % 90;
    int file = mkstemp(path);
    if (file < 0) return NAN;
    close(file);
    Status status = side_open(model, cache, &before, error);
    if (!status) status = session_stream(before.session, ids, n, &settings, NULL, error);
    if (!status && session_length(before.session) > CONTEXT - MORE)
        status = session_make_room(before.session, &settings, MORE, error);
    if (!status) status = keep(&before, path, error);
    if (!status) status = side_open(model, cache, &after, error);
    if (!status) status = snapshot_restore(after.session, WORDS, path, &restored, error);
    if (!status && restored.n_tokens == session_cached(before.session))
        status = compare(&before, &after, &differ, error);
    side_close(&before);
    side_close(&after);
    unlink(path);
    return status ? NAN : differ;
}

void test_snapshots(const char *root, Report *report) {
    static const DType types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_INT8, DTYPE_INT4};
    static const OverflowPolicy policies[] = {OVERFLOW_STOP, OVERFLOW_SHIFT, OVERFLOW_SHIFT_INPLACE};
    char model[400], name[100];
    snprintf(model, sizeof model, "%s/models/qwen3", root);
    for (int i = 0; i < 5 * 3 * 2; i++) {
        Error error = {0};
        CacheOptions cache = cache_options(types[i / 6]);
        cache.layout = i % 4;
        cache.paged = i % 2;
        snprintf(name, sizeof name, "snapshot, %s, %s%s", dtype_name(cache.type),
                 overflow_policy_name(policies[i / 2 % 3]), cache.paged ? ", paged" : "");
        double differ = test_one(model, cache, policies[i / 2 % 3], &error);
        report(name, *error.message ? error.message : "logits that differ", differ, 0);
    }
}

// ---- speed ------------------------------------------------------------------------------------------------------

static Status time_one(CacheOptions cache, Error *error) {
    Model *model;
    Side before = {0};
    Snapshot *snapshot = NULL;
    SnapshotRestored restored;
    EngineOptions options = {.device = "cuda", .context_size = 8192, .cache = cache, .random_weights = true};
    const char *path = "/tmp/palaver-snapshot-speed";
    int32_t ids[TALK];
    for (int i = 0; i < TALK; i++) ids[i] = i % 32000;
    Status status = model_of_shape("llama3.1-8b", DTYPE_F16, DTYPE_F16, &model, error);
    if (!status) status = engine_open_model(model, &options, &before.engine, error);
    if (!status) status = session_open(before.engine, &before.session, error);
    if (!status) status = session_sync(before.session, ids, TALK, NULL, error);
    for (int i = 0; i < 3 && !status; i++) {
        double start = clock_seconds();
        snapshot_free(snapshot);
        status = snapshot_take(before.session, WORDS, &snapshot, error);
        double taken = clock_seconds();
        if (!status) status = snapshot_write(snapshot, path, NULL, error);
        double written = clock_seconds();
        session_close(before.session);
        if (!status) status = session_open(before.engine, &before.session, error);
        if (!status) status = snapshot_restore(before.session, WORDS, path, &restored, error);
        double back = clock_seconds() - written;
        if (!status)
            printf("%s: %lld tokens, %.0f MB: taken in %.0f ms, written in %.0f ms, restored in %.0f ms "
                   "(%.1f GB/s)\n",
                   dtype_name(cache.type), (long long)restored.n_tokens,
                   (double)snapshot_bytes(snapshot) / 1e6, 1e3 * (taken - start), 1e3 * (written - taken),
                   1e3 * back, (double)snapshot_bytes(snapshot) / 1e9 / back);
    }
    snapshot_free(snapshot);
    side_close(&before);
    unlink(path);
    return status;
}

void snapshot_speed(void) {
    static const DType types[] = {DTYPE_F16, DTYPE_INT8};
    for (int i = 0; i < 2; i++) {
        Error error = {0};
        CacheOptions cache = cache_options(types[i]);
        cache.paged = true;
        if (time_one(cache, &error)) printf("snapshot-speed: %s\n", error.message);
    }
}
