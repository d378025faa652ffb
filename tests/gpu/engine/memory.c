#include "tests/gpu/engine/engine_tests.h"
#include "engine/batch.h"
#include "engine/model/shape/model_shape.h"
#include "engine/session/session_step.h"
#include "tests/gpu/model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t GB = 1000000000;
enum { ROWS = 32 };

// A small backend, kept open: it owns what takes all memory away, and tells what is free.
typedef struct Probe {
    TestModel model;
    Backend *backend;
    const Ops *ops;
} Probe;

static void expect(Report *report, const char *what, bool ok, const Error *error) {
    if (!ok) printf("FAILED %s: status %d, %s\n", what, (int)error->status, error->message);
    report("memory", what, !ok, 0);
}

static Status probe_open(Probe *p, const Ops *cuda, Error *error) {
    Case c = {"memory", DTYPE_F16, 64, 1, 1, 64, 64, 64, .n_tokens = 1, .kv = DTYPE_F16};
    model_fill(&p->model, &c, 3);
    BackendOptions options = {.device = "cuda", .shape = &p->model.shape, .max_tokens = 1, .max_logits = 1};
    p->ops = cuda;
    return cuda->open(&options, &p->backend, error);
}

static int64_t probe_free(const Probe *p) {
    int64_t total, available;
    p->ops->memory(p->backend, &total, &available);
    return available;
}

// Takes memory until `left` bytes are free.
static void *hog(const Probe *p, int64_t left, Error *error) {
    void *memory = NULL;
    p->ops->alloc(p->backend, (size_t)(probe_free(p) - left), &memory, error);
    return memory;
}

static Status open_golden(const char *root, const char *device, int context, Engine **engine, Error *error) {
    char path[400];
    Model *model = NULL;
    *engine = NULL;
    snprintf(path, sizeof path, "%s/llama", root);
    Status status = model_open(path, &model, error);
    if (status) return status;
    EngineOptions options = {
        .device = device, .context_size = context, .cache = cache_options(DTYPE_F16), .chunk = 64};
    return engine_open_model(model, &options, engine, error);
}

// A context of 6.4 GB with 4 GB free: refused with figures where the GPU was asked for, else the CPU takes it and says
// why; one of 3.2 GB fits once, and its session goes on after a second engine did not fit.
static void test_too_large(const Probe *p, const char *root, Report *report) {
    Error error = {0};
    Engine *engine, *second;
    Session *session = NULL;
    void *all = NULL;
    Status status = p->ops->alloc(p->backend, (size_t)1 << 50, &all, &error);
    expect(report, "an absurd allocation", status == STATUS_MEMORY && strstr(error.message, "bytes"), &error);
    all = hog(p, 4 * GB, &error);
    expect(report, "taking nearly all", all != NULL, &error);
    status = open_golden(root, "cuda", 1 << 24, &engine, &error);
    expect(report, "a context too large",
           status == STATUS_MEMORY && strstr(error.message, " is free") && !engine, &error);
    status = open_golden(root, "auto", 1 << 24, &engine, &error);
    char how[200] = "";
    if (!status) engine_describe_backend(engine, how, sizeof how);
    expect(report, "the CPU instead",
           !status && !strncmp(how, "cpu", 3) && strstr(engine_backend_note(engine), " is free"), &error);
    engine_close(engine);

    status = open_golden(root, "cuda", 1 << 23, &engine, &error);
    if (!status) status = session_open(engine, &session, &error);
    expect(report, "a context that fits", !status, &error);
    if (!status) {
        int32_t ids[] = {1, 5, 9, 13}, id = -1;
        SampleParams params = {.top_p = 1, .typical_p = 1};
        status = open_golden(root, "cuda", 1 << 23, &second, &error);
        expect(report, "a second engine", status == STATUS_MEMORY && !second, &error);
        status = session_sync(session, ids, 4, NULL, &error);
        if (!status) status = session_sample(session, &params, &id, &error);
        if (!status) status = session_sample(session, &params, &id, &error);
        expect(report, "the first engine goes on", !status && id >= 0, &error);
    }
    session_close(session);
    engine_close(engine);
    if (all) p->ops->free(p->backend, all);
}

// A prompt and a few tokens in one conversation.
static Status talk(Engine *engine, const int32_t *ids, int n, Error *error) {
    SampleParams params = {.temperature = 1, .top_p = 0.9f, .typical_p = 1, .top_k = 40};
    Session *session = NULL;
    int32_t id;
    Status status = session_open(engine, &session, error);
    if (!status) status = session_sync(session, ids, n, NULL, error);
    for (int i = 0; i < 4 && !status; i++) status = session_sample(session, &params, &id, error);
    session_close(session);
    return status;
}

// The same in many at once, all with the same prompt.
static Status talk_together(Engine *engine, const int32_t *ids, int n, int n_rows, Error *error) {
    Session *sessions[ROWS] = {NULL};
    SampleParams params[ROWS];
    int32_t drawn[ROWS];
    int64_t read;
    Batch *batch = NULL;
    Status status = batch_open(engine, NULL, &batch, error);
    for (int i = 0; i < n_rows && !status; i++) {
        params[i] = (SampleParams){.temperature = 1, .top_p = 0.9f, .typical_p = 1, .top_k = 40};
        status = session_open(engine, &sessions[i], error);
        if (status) break;
        session_set_independent(sessions[i]);
        status = session_set(sessions[i], ids, n, error);
        while (!status && session_pending(sessions[i]) > 0)
            status = batch_read(batch, sessions[i], INT64_MAX, &read, error);
        if (!status) status = batch_draw(batch, &params[i], &drawn[i], error);
    }
    for (int step = 0; step < 4 && !status; step++) {
        for (int i = 0; i < n_rows; i++)
            if (drawn[i] != BATCH_JOINED) session_push(sessions[i], drawn[i]);
        status = batch_decode(batch, sessions, n_rows, params, drawn, error);
    }
    for (int i = 0; i < n_rows; i++) session_close(sessions[i]);
    batch_close(batch);
    return status;
}

// What engine_memory() says against what the card has less, with everything in use.
static void test_plan(const Probe *p, const char *shape, DType type, int n_rows, Report *report) {
    enum { PROMPT = 1500, CONTEXT = 4096 };
    Error error = {0};
    Model *model = NULL;
    Engine *engine = NULL;
    int32_t *ids = malloc(PROMPT * sizeof *ids);
    for (int i = 0; i < PROMPT; i++) ids[i] = i * 17 % 32000;
    EngineOptions options = {.device = "cuda",
                             .context_size = CONTEXT,
                             .cache = cache_options(DTYPE_F16),
                             .n_rows = n_rows,
                             .random_weights = true};
    if (n_rows > 1)
        options.cache.paged = true, options.cache.page_size = 64, options.cache.n_sequences = n_rows;
    int64_t before = probe_free(p);
    Status status = model_of_shape(shape, type, type, &model, &error);
    if (!status) status = engine_open_model(model, &options, &engine, &error);
    if (!status)
        status = n_rows > 1 ? talk_together(engine, ids, PROMPT, n_rows, &error)
                            : talk(engine, ids, PROMPT, &error);
    char what[64];
    snprintf(what, sizeof what, "plan of %s %s, %d rows", shape, dtype_name(type), n_rows);
    if (status) {
        expect(report, what, false, &error);
    } else {
        EngineMemory m = engine_memory(engine);
        double planned = (double)(m.weights + m.cache + m.scratch), taken = (double)(before - probe_free(p));
        printf("%s: %.1f MB planned, %.1f MB taken\n", what, planned / 1e6, taken / 1e6);
        report("memory", what, fabs(taken - planned) / taken, 0.03);
    }
    engine_close(engine);
    free(ids);
}

void test_memory(const Ops *cuda, const char *root, Report *report) {
    Probe probe = {0};
    Error error = {0};
    if (probe_open(&probe, cuda, &error)) {
        expect(report, "open", false, &error);
        return;
    }
    test_too_large(&probe, root, report);
    test_plan(&probe, "tinyllama-1.1b", DTYPE_F16, 1, report);
    test_plan(&probe, "tinyllama-1.1b", DTYPE_F16, ROWS, report);
    test_plan(&probe, "tinyllama-1.1b", DTYPE_Q4_0, 1, report);
    test_plan(&probe, "tinyllama-1.1b", DTYPE_Q5_1, 1, report);
    int64_t free_before = probe_free(&probe);
    test_plan(&probe, "tinyllama-1.1b", DTYPE_Q6_K, 1, report);
    report("memory", "all is given back", (double)llabs(probe_free(&probe) - free_before), 8 << 20);
    cuda->close(probe.backend);
    model_free(&probe.model);
}
