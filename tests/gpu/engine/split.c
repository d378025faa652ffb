// A model of which a part lies on the card, the rest on the CPU: at every border the logits are Hugging Face
// transformers' as they are of one backend; the cache on both sides goes along with whatever is done with a talk; and
// what the memory plan says is what is taken, on a card that is too small for the whole.
#include "engine/batch.h"
#include "engine/engine_internal.h"
#include "engine/model/shape/model_shape.h"
#include "engine/session/session_step.h"
#include "engine/session/snapshot.h"
#include "kernels/split/split.h"
#include "tests/gpu/engine/engine_tests.h"
#include "tests/support/model/golden_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONTEXT = 96, STREAM = 3 * CONTEXT, ROWS = 3, DRAWS = 12, WORDS = 5 };
// How a number of layers says that all of the model is on the card but the experts of the others.
enum { EXPERTS = 1000 };

// Quantised weights meet activations of 8 bits, on the CPU also in prompts: 5.2% with these sharp random weights.
static const double QUANTIZED_BOUND = 0.06;

static void failed(Report *report, const char *name, const char *what, const Error *error) {
    printf("FAILED %s: %s: %s\n", name, what, error->message);
    report(name, what, NAN, 0);
}

// device_layers 0 on "cpu": one backend.
static Status open_at(const char *path, int device_layers, const EngineOptions *like, Engine **engine,
                      Error *error) {
    Model *model = NULL;
    EngineOptions options = *like;
    options.device = device_layers ? "cuda" : "cpu";
    options.device_layers = device_layers < EXPERTS ? device_layers : DEVICE_LAYERS_FIT;
    options.expert_layers = device_layers < EXPERTS ? DEVICE_LAYERS_FIT : device_layers - EXPERTS;
    options.n_threads = 2;
    *engine = NULL;
    Status status = model_open(path, &model, error);
    return status ? status : engine_open_model(model, &options, engine, error);
}

static int layers_of(const char *path) {
    Model *model = NULL;
    Error error;
    if (model_open(path, &model, &error)) return 0;
    const int n = model->shape.n_layers;
    model_close(model);
    return n;
}

static bool has_experts(const char *path) {
    Model *model = NULL;
    Error error;
    if (model_open(path, &model, &error)) return false;
    const int n = model->shape.experts.n;
    model_close(model);
    return n > 0;
}

static DType main_type_of(const char *path) {
    Model *model = NULL;
    Error error;
    if (model_open(path, &model, &error)) return DTYPE_F32;
    const DType type = model_main_type(model);
    model_close(model);
    return type;
}

// ---- logits -------------------------------------------------------------------------------------------------

static void test_case(Engine *engine, const char *name, const GoldenCase *c, double bound, bool visits,
                      Report *report) {
    static const int STEPS[] = {1, 7, 64};
    const size_t count = (size_t)(c->n - c->from) * (size_t)c->vocab;
    float *logits = malloc(count * sizeof *logits);
    Error error;
    const bool experts = split_has_experts(engine->backend); // which the first layers may lack
    if (!split_set_visits(engine->backend, visits ? 2 : 0) && !experts)
        report(name, "no layers can visit", NAN, 0);
    for (int i = 0; i < 3; i++) {
        char what[100];
        snprintf(what, sizeof what, "%s by %d, cpu %s%d of %d layers%s, %s", c->name, STEPS[i],
                 experts ? "experts of " : "", split_border(engine->backend), engine->model->shape.n_layers,
                 visits ? ", visiting" : "", dtype_name(engine_cache_type(engine)));
        memset(logits, 0xff, count * sizeof *logits);
        Status status = golden_model_evaluate(engine, c, STEPS[i], logits, &error);
        if (status) printf("FAILED %s: %s\n", name, error.message);
        report(name, what, status ? NAN : golden_distance(logits, c->expected, count), bound);
    }
    free(logits);
}

static void test_borders(const char *path, const GoldenSet *set, DType cache, bool experts, Report *report) {
    const EngineOptions options = {
        .context_size = 2 * GOLDEN_MAX_IDS, .cache = cache_options(cache), .chunk = GOLDEN_MAX_IDS};
    Error error;
    const int n = layers_of(path);
    if (n < 2) report(path, "layers to split", NAN, 0);
    for (int on_device = experts ? EXPERTS : 1; on_device < n + (experts ? EXPERTS : 0); on_device++) {
        Engine *engine = NULL;
        if (open_at(path, on_device, &options, &engine, &error)) {
            failed(report, path, "open", &error);
            return;
        }
        const bool exact = model_main_type(engine_model(engine)) == DTYPE_F32 && cache == DTYPE_F32;
        for (int i = 0; i < 2 * set->n; i++) {
            const GoldenCase *c = &set->cases[i / 2];
            const double bound = exact ? 1e-4 : isnan(c->half_error) ? QUANTIZED_BOUND : c->half_error;
            test_case(engine, path, c, bound, i % 2, report);
        }
        engine_close(engine);
    }
}

static void test_models(const char *root, Report *report) {
    static const char *const MODELS[][3] = {
        {"models", "llama", "llama"},
        {"models", "llama-f16", "llama-f16"},
        {"models", "qwen2-bf16", "qwen2-bf16"},
        {"models", "mistral", "mistral"},
        {"models", "qwen3", "qwen3"},
        {"models", "quants.gguf", "quants"},
        {"models", "few-bits.gguf", "few-bits"},
        {"architectures", "gptj", "gptj"},
        {"architectures", "opt", "opt"},
        {"architectures", "bloom", "bloom"},
        {"architectures", "mpt", "mpt"},
        {"architectures", "phi3.gguf", "phi3"},
        {"dense", "gemma3", "gemma3"},
        {"dense", "gemma2.gguf", "gemma2"},
        {"dense", "apertus", "apertus"},
        {"dense", "apertus.gguf", "apertus"},
        {"experts", "mixtral", "mixtral"},
        {"experts", "gpt_oss.gguf", "gpt_oss"},
        {"experts", "llama4", "llama4"},
        {"experts", "qwen3_moe", "qwen3_moe"},
        {"experts", "qwen2_moe", "qwen2_moe"},
        {"experts", "glm4_moe.gguf", "glm4_moe"},
        {"latent", "deepseek_v2", "deepseek_v2"},
        {"latent", "deepseek_v3", "deepseek_v3"},
    };
    static const DType TYPES[] = {DTYPE_F32, DTYPE_F16};
    for (size_t i = 0; i <= sizeof MODELS / sizeof *MODELS; i++) {
        const bool own = i == sizeof MODELS / sizeof *MODELS; // the one that comes with palaver
        char folder[400], path[600];
        GoldenSet set;
        Error error;
        snprintf(folder, sizeof folder, "%s/%s", root, own ? "" : MODELS[i][0]);
        snprintf(path, sizeof path, "%s/%s", folder, own ? "" : MODELS[i][1]);
        if (own) snprintf(path, sizeof path, "assets/parley-9m");
        if (golden_model_read(folder, own ? "parley" : MODELS[i][2], &set, &error))
            failed(report, path, "golden logits", &error);
        else
            for (int t = 0; t < 4; t++)
                if (t < 2 || has_experts(path)) test_borders(path, &set, TYPES[t % 2], t >= 2, report);
        golden_model_free(&set);
    }
}

// ---- a talk ---------------------------------------------------------------------------------------------------

// What a talk leaves on one engine: logits of every token past the context, then after undoing, going back, and more.
typedef struct Talk {
    float *stream; // [STREAM, vocab]
    float *last;   // [TALK_TURNS, vocab]
} Talk;
enum { TALK_TURNS = 4 };

static Status sync_to(Session *s, int64_t keep, int more, float *logits, Error *error) {
    int32_t ids[2 * CONTEXT];
    memcpy(ids, session_tokens(s), (size_t)keep * sizeof *ids);
    for (int i = 0; i < more; i++) ids[keep + i] = (i * 31 + 7) % 90;
    Status status = session_sync(s, ids, keep + more, NULL, error);
    return status ? status : session_logits(s, logits, error);
}

// Past the context by a policy; undo, say something else, undo that, evict in the middle and say more.
static Status talk(Engine *engine, OverflowPolicy policy, Talk *t, Error *error) {
    const size_t vocab = (size_t)engine_model(engine)->shape.vocab_size;
    const OverflowSettings settings = {.policy = policy, .keep = 4, .low_water = 0.5};
    int32_t ids[STREAM];
    Session *s = NULL;
    for (int i = 0; i < STREAM; i++) ids[i] = (i * 13 + i / 5) % 90;
    Status status = session_open(engine, &s, error);
    if (!status) status = session_stream(s, ids, STREAM, &settings, t->stream, error);
    if (!status) status = sync_to(s, session_length(s) - 9, 5, t->last, error);
    if (!status) status = sync_to(s, session_length(s) - 12, 9, t->last + vocab, error);
    if (!status) status = session_evict(s, 4, 6, policy, error);
    if (!status) status = session_logits(s, t->last + 2 * vocab, error);
    if (!status) status = sync_to(s, session_length(s), 3, t->last + 3 * vocab, error);
    session_close(s);
    return status;
}

static void test_talks(const char *path, bool experts, Report *report) {
    static const OverflowPolicy POLICIES[] = {OVERFLOW_SHIFT, OVERFLOW_SHIFT_INPLACE, OVERFLOW_REEVALUATE};
    static const struct {
        DType type;
        double bound;
    } CACHES[] = {{DTYPE_F32, 1e-4}, {DTYPE_F16, 5e-3}, {DTYPE_INT8, 3e-2}};
    // With weights of 16 bits the card rounds what it multiplies, whole and split apart: each is as far from float32 as
    // half_error of parley-9m's golden logits says, and the talks twice as far from each other at most.
    const double rounded = main_type_of(path) == DTYPE_F32 ? 0 : 2 * 0.012;
    const int n_layers = layers_of(path);
    for (int i = 0; i < 9; i++) {
        EngineOptions options = {
            .context_size = CONTEXT, .cache = cache_options(CACHES[i % 3].type), .chunk = 16};
        options.cache.layout = 1 + i / 3;
        options.cache.paged = i % 2;
        options.cache.page_size = 16, options.cache.n_sequences = 2;
        Talk talks[2];
        Error error = {0};
        Status status = STATUS_OK;
        size_t vocab = 0;
        for (int split = 0; split < 2 && !status; split++) {
            Engine *engine = NULL;
            const int on_card = experts ? EXPERTS + i % n_layers : 1 + i % (n_layers - 1);
            status = open_at(path, split * on_card, &options, &engine, &error);
            vocab = status ? 1 : (size_t)engine_model(engine)->shape.vocab_size;
            talks[split] =
                (Talk){calloc(STREAM * vocab, sizeof(float)), calloc(TALK_TURNS * vocab, sizeof(float))};
            if (!status && split) split_set_visits(engine->backend, i % 5);
            if (!status) status = talk(engine, POLICIES[i / 3], &talks[split], &error);
            engine_close(engine);
        }
        char what[80];
        snprintf(what, sizeof what, "a talk by %s, %s, layout %d", overflow_policy_name(POLICIES[i / 3]),
                 dtype_name(options.cache.type), options.cache.layout);
        if (status) {
            failed(report, path, what, &error);
            continue;
        }
        report(path, what, golden_distance(talks[1].stream, talks[0].stream, STREAM * vocab),
               CACHES[i % 3].bound + rounded);
        report(path, what, golden_distance(talks[1].last, talks[0].last, TALK_TURNS * vocab),
               CACHES[i % 3].bound + rounded);
        for (int split = 0; split < 2; split++) free(talks[split].stream), free(talks[split].last);
    }
}

// ---- going on with a snapshot ------------------------------------------------------------------------------------

static Status keep(const Session *session, const char *path, Error *error) {
    Snapshot *snapshot = NULL;
    Status status = snapshot_take(session, WORDS, &snapshot, error);
    if (!status) status = snapshot_write(snapshot, path, NULL, error);
    snapshot_free(snapshot);
    return status;
}

// What comes back gives the logits, to the bit, of what was there.
static double resume(const char *path, int on_device, OverflowPolicy policy, Error *error) {
    char file[] = "/tmp/palaver-split-XXXXXX";
    const EngineOptions options = {.context_size = CONTEXT, .cache = cache_options(DTYPE_INT8), .chunk = 16};
    const OverflowSettings settings = {.policy = policy, .keep = 4, .low_water = 0.5};
    int32_t ids[STREAM];
    float *logits[2] = {NULL, NULL};
    Engine *engines[2] = {NULL, NULL};
    Session *sessions[2] = {NULL, NULL};
    SnapshotRestored restored = {0};
    double differ = NAN;
    for (int i = 0; i < STREAM; i++) ids[i] = (11 * i + i / 7) % 90;
    const int descriptor = mkstemp(file);
    if (descriptor >= 0) close(descriptor);
    Status status = STATUS_OK;
    for (int i = 0; i < 2 && !status; i++) {
        status = open_at(path, on_device, &options, &engines[i], error);
        if (!status)
            split_set_visits(engines[i]->backend, 4); // not as measured, which may differ between the two
        if (!status) status = session_open(engines[i], &sessions[i], error);
        if (!status) logits[i] = calloc((size_t)engine_model(engines[i])->shape.vocab_size, sizeof(float));
    }
    if (!status)
        status =
            session_stream(sessions[0], ids, policy == OVERFLOW_STOP ? 70 : STREAM, &settings, NULL, error);
    if (!status && policy != OVERFLOW_STOP) status = session_make_room(sessions[0], &settings, 9, error);
    if (!status) status = keep(sessions[0], file, error);
    if (!status) status = snapshot_restore(sessions[1], WORDS, file, &restored, error);
    for (int i = 0; i < 2 && !status; i++)
        status = sync_to(sessions[i], session_length(sessions[i]), 6, logits[i], error);
    if (!status && restored.n_tokens > 0)
        differ =
            memcmp(logits[0], logits[1], (size_t)engine_model(engines[0])->shape.vocab_size * sizeof(float));
    for (int i = 0; i < 2; i++) {
        session_close(sessions[i]);
        engine_close(engines[i]);
        free(logits[i]);
    }
    unlink(file);
    return differ;
}

static void test_resuming(const char *path, bool experts, Report *report) {
    static const OverflowPolicy POLICIES[] = {OVERFLOW_STOP, OVERFLOW_SHIFT, OVERFLOW_SHIFT_INPLACE};
    const int n = layers_of(path);
    if (n < 2) report(path, "layers to divide", NAN, 0);
    for (int i = 0; i < 3 && n > 1; i++) {
        Error error = {0};
        const int on_card = experts ? EXPERTS + i % n : 1 + 2 * i % (n - 1);
        const double differ = resume(path, on_card, POLICIES[i], &error);
        if (*error.message) printf("resuming: %s\n", error.message);
        report(path, "what comes back of a talk on two backends", differ, 0);
    }
}

// ---- many at once ----------------------------------------------------------------------------------------------

static Status draw_many(const char *path, int on_device, int32_t tokens[ROWS][DRAWS], Error *error) {
    EngineOptions options = {
        .context_size = CONTEXT, .cache = cache_options(DTYPE_F32), .chunk = 16, .n_rows = ROWS};
    options.cache.paged = true, options.cache.page_size = 8, options.cache.n_sequences = ROWS;
    Engine *engine = NULL;
    Batch *batch = NULL;
    Session *sessions[ROWS] = {NULL};
    SampleParams params[ROWS];
    int32_t drawn[ROWS], ids[30];
    int64_t n;
    Status status = open_at(path, on_device, &options, &engine, error);
    if (!status) status = batch_open(engine, NULL, &batch, error);
    for (int i = 0; i < ROWS && !status; i++) {
        for (int t = 0; t < 30; t++) ids[t] = (i * 31 + t * 17) % 90;
        params[i] = (SampleParams){.top_p = 1, .typical_p = 1};
        status = session_open(engine, &sessions[i], error);
        if (status) break;
        session_set_independent(sessions[i]);
        status = session_set(sessions[i], ids, 20 + i, error);
        while (!status && session_pending(sessions[i]) > 0)
            status = batch_read(batch, sessions[i], 7, &n, error);
        if (!status) status = batch_draw(batch, &params[i], &drawn[i], error);
    }
    for (int t = 0; t < DRAWS && !status; t++) {
        for (int i = 0; i < ROWS; i++) {
            tokens[i][t] = drawn[i];
            session_push(sessions[i], drawn[i]);
        }
        status = batch_decode(batch, sessions, ROWS, params, drawn, error);
    }
    batch_close(batch);
    for (int i = 0; i < ROWS; i++) session_close(sessions[i]);
    engine_close(engine);
    return status;
}

static void test_many(const char *path, int on_card, Report *report) {
    int32_t tokens[2][ROWS][DRAWS];
    Error error;
    Status status = draw_many(path, 0, tokens[0], &error);
    if (!status) status = draw_many(path, on_card, tokens[1], &error);
    if (status)
        failed(report, path, "rows", &error);
    else
        report(path, "rows draw other tokens", memcmp(tokens[0], tokens[1], sizeof tokens[0]), 0);
}

// ---- a card that is too small ----------------------------------------------------------------------------------

// With so many MB of the card: as many layers as fit are there, and no more is taken than that.
static void test_small_card(int megabytes, int least, int most, Report *report) {
    static const char VARIABLE[] = "PALAVER_CUDA_LIMITS";
    const char *before = getenv(VARIABLE);
    char kept[200] = "", limits[300], what[100];
    Model *model = NULL;
    Engine *engine = NULL;
    Session *s = NULL;
    Error error = {0};
    int64_t total = 0, left = -1;
    int32_t ids[700];
    SampleParams params = {.temperature = 1, .top_p = 0.9f, .typical_p = 1};
    if (before) snprintf(kept, sizeof kept, "%s", before);
    const char *memory = strstr(kept, ",memory="); // which may stand there once
    snprintf(limits, sizeof limits, "%.*s%smemory=%dM", memory ? (int)(memory - kept) : (int)strlen(kept),
             kept, *kept ? "," : "", megabytes);
    setenv(VARIABLE, limits, 1);
    for (int i = 0; i < 700; i++) ids[i] = i * 17 % 32000;
    const EngineOptions options = {.device = "cuda",
                                   .device_layers = DEVICE_LAYERS_FIT,
                                   .expert_layers = DEVICE_LAYERS_FIT,
                                   .context_size = 1024,
                                   .cache = cache_options(DTYPE_F16),
                                   .random_weights = true};
    Status status = model_of_shape("tinyllama-1.1b", DTYPE_Q8_0, DTYPE_Q8_0, &model, &error);
    if (!status) status = engine_open_model(model, &options, &engine, &error);
    const EngineMemory m = engine ? engine_memory(engine) : (EngineMemory){0};
    const int on_device = m.n_layers - m.host_layers;
    snprintf(what, sizeof what, "%d MB: %d of %d layers", megabytes, on_device, m.n_layers);
    printf("a card of %s%s%s\n", what, status ? ", " : "", status ? error.message : "");
    if (most == 0) {
        report("a card too small", "is refused",
               !(status == STATUS_MEMORY && strstr(error.message, " is needed (weights ")), 0);
    } else {
        if (!status) status = session_open(engine, &s, &error);
        if (!status) status = session_sync(s, ids, 700, NULL, &error);
        for (int i = 0; i < 4 && !status; i++) status = session_sample(s, &params, &ids[0], &error);
        Backend *card = engine ? split_side(engine->backend, SPLIT_SECOND) : NULL;
        if (card) card->ops->memory(card, &total, &left);
        report(what, *error.message ? error.message : "a talk", status != STATUS_OK, 0);
        report(what, "layers on it", !(on_device >= least && on_device <= most), 0);
        report(what, "memory left", !(left >= 0 && left < (int64_t)megabytes << 20), 0);
    }
    session_close(s);
    engine_close(engine);
    before ? setenv(VARIABLE, kept, 1) : unsetenv(VARIABLE);
}

void test_splits(const char *root, Report *report) {
    char path[400];
    test_models(root, report);
    test_talks("assets/parley-9m", false, report);
    snprintf(path, sizeof path, "%s/models/qwen3", root);
    test_talks(path, false, report);
    test_resuming(path, false, report);
    test_resuming("assets/parley-9m", false, report);
    test_many("assets/parley-9m", 1, report);
    snprintf(path, sizeof path, "%s/experts/mixtral", root);
    test_many(path, 1, report);
    test_many(path, EXPERTS, report);
    test_resuming(path, true, report);
    test_talks(path, true, report);
}

void test_small_cards(Report *report) {
    test_small_card(900, 8, 18, report);
    test_small_card(600, 1, 12, report);
    test_small_card(300, 0, 0, report);
}
