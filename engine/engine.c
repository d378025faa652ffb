#include "engine/engine_internal.h"

#include "engine/backend.h"
#include "engine/key_study.h"
#include "engine/files/tokenizer_source.h"
#include "kernels/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOGITS_ROWS = 16 }; // rows of logits computed at once where many are wanted (perplexity)

static bool report(const EngineOptions *options, const char *what, int64_t done, int64_t total) {
    return !options->progress.step || options->progress.step(options->progress.user, what, done, total);
}

static int64_t matrix_bytes(const Matrix *m) {
    return m->data ? m->rows * dtype_row_bytes(m->type, m->cols) : 0;
}

// Reads the pages of a mapped matrix that the CPU uses as it is, so that the first reply does not wait for the disk.
// Returns its bytes.
static int64_t read_in(const Engine *engine, const Matrix *m) {
    const volatile char *bytes = m->data;
    int64_t n = matrix_bytes(m);
    for (int64_t i = 0; engine->backend->ops == ops_cpu() && i < n; i += 4096) (void)bytes[i];
    return n;
}

static Status load_weights(Engine *engine, const EngineOptions *options, Error *error) {
    const Ops *ops = engine->backend->ops;
    Model *model = engine->model;
    int n_layers = model->shape.n_layers;
    engine->forward.layers = calloc((size_t)n_layers, sizeof(Layer *));
    if (!engine->forward.layers) return error_set(error, STATUS_MEMORY, "no memory for %d layers", n_layers);

    Status status = ops->load_head(engine->backend, &model->head, &engine->forward.head, error);
    int64_t done = read_in(engine, &model->head.embedding) + read_in(engine, &model->head.positions);
    if (!model->tied_head) done += read_in(engine, &model->head.output);
    for (int l = 0; l < n_layers && !status; l++) {
        const LayerWeights *w = &model->layers[l];
        if (!report(options, "loading", done, model->weight_bytes))
            return error_set(error, STATUS_INTERRUPTED, "loading was interrupted");
        status = ops->load_layer(engine->backend, w, &engine->forward.layers[l], error);
        const Matrix *large[] = {&w->wq, &w->wk, &w->wv, &w->wo, &w->w_gate, &w->w_up, &w->w_down};
        for (int i = 0; i < 7; i++) done += read_in(engine, large[i]);
        if (status) error_prefix(error, "layer %d: ", l);
    }
    if (!status && !report(options, "loading", model->weight_bytes, model->weight_bytes))
        return error_set(error, STATUS_INTERRUPTED, "loading was interrupted");
    return status;
}

static void close_backend(Engine *engine) {
    if (!engine->backend) return;
    forward_close(&engine->forward);
    kv_cache_close(&engine->cache);
    engine->backend->ops->close(engine->backend);
    free(engine->forward.layers);
    engine->forward = (Forward){0};
    engine->backend = NULL;
}

// Everything but the tokenizer on one backend: device, memory, weights. What fails leaves nothing behind.
static Status open_backend(Engine *engine, const Ops *ops, const char *device, const EngineOptions *options,
                           Error *error) {
    int chunk = options->chunk > 0 ? options->chunk : ops->chunk;
    int logits = engine->n_rows > LOGITS_ROWS ? engine->n_rows : LOGITS_ROWS;
    if (chunk < engine->n_rows) chunk = engine->n_rows;
    BackendOptions backend = {
        .device = device,
        .n_threads = options->n_threads,
        .shape = &engine->model->shape,
        .max_tokens = chunk,
        .max_logits = logits,
        .random_weights = options->random_weights,
    };
    Status status = ops->open(&backend, &engine->backend, error);
    if (status) {
        engine->backend = NULL;
        return status;
    }
    status = memory_plan(engine, options, &backend, error);
    engine->forward = (Forward){
        .backend = engine->backend, .model = engine->model, .max_tokens = chunk, .max_logits = logits};
    if (!status) status = forward_open(&engine->forward, error);
    double start = clock_seconds();
    if (!status) status = load_weights(engine, options, error);
    engine->load_seconds = clock_seconds() - start;
    if (!status)
        status = kv_cache_open(engine->backend, &engine->cache_options, &engine->model->shape,
                               engine->context_size, &engine->cache, error);
    if (!status) status = key_study_open(&engine->forward, options->random_weights, &engine->cache, error);
    if (status) close_backend(engine);
    return status;
}

// The device that was asked for; with "auto" the GPU if it can take the model, else the CPU, and why.
static Status choose_backend(Engine *engine, const EngineOptions *options, Error *error) {
    const char *device = options->device ? options->device : "auto";
    DeviceKind kind;
    Status status = backend_device_kind(device, &kind, error);
    if (status) return status;
    if (kind == DEVICE_CPU && options->random_weights)
        return error_set(error, STATUS_UNSUPPORTED, "made-up weights need a GPU, not device \"%s\"", device);
    if (kind == DEVICE_CPU) return open_backend(engine, ops_cpu(), device, options, error);
    const Ops *cuda;
    Error why = {0};
    status = backend_cuda_ops(&cuda, &why);
    if (!status) status = open_backend(engine, cuda, kind == DEVICE_AUTO ? "cuda" : device, options, &why);
    if (!status) return STATUS_OK;
    if (kind == DEVICE_CUDA || status == STATUS_INTERRUPTED || status == STATUS_FATAL)
        return error_set(error, status, "%s", why.message);
    if (options->random_weights)
        return error_set(error, STATUS_UNSUPPORTED, "made-up weights need a GPU: %s", why.message);
    memcpy(engine->backend_note, why.message, sizeof why.message);
    return open_backend(engine, ops_cpu(), "cpu", options, error);
}

Status engine_open_model(Model *model, const EngineOptions *options, Engine **out, Error *error) {
    *out = NULL;
    Engine *engine = calloc(1, sizeof *engine);
    if (!engine) {
        model_close(model);
        return error_set(error, STATUS_MEMORY, "no memory for the engine");
    }
    engine->model = model;
    engine->n_rows = options->n_rows > 1 ? options->n_rows : 1;
    Status status = model_reach_context(
        model, options->context_size > 0 ? options->context_size : model->context_length, error);
    if (!status) status = choose_backend(engine, options, error);
    if (status)
        engine_close(engine);
    else
        *out = engine;
    return status;
}

Status engine_open(const EngineOptions *options, Engine **out, Error *error) {
    *out = NULL;
    Model *model = NULL;
    Tokenizer *tokenizer = NULL;
    char *jinja_template = NULL;
    Status status = model_open(options->model, &model, error);
    // Words before weights: what is wrong with them is known at once.
    if (!status) status = tokenizer_open_for(model->checkpoint, &tokenizer, error);
    if (!status) status = checkpoint_chat_template(model->checkpoint, &jinja_template, error);
    if (!status && tokenizer_size(tokenizer) > model->shape.vocab_size)
        status = error_set(error, STATUS_FILE, "%s: the tokenizer has %lld pieces, the model only %d",
                           options->model, (long long)tokenizer_size(tokenizer), model->shape.vocab_size);
    if (!status) {
        status = engine_open_model(model, options, out, error);
        model = NULL;
    }
    if (status) {
        free(jinja_template);
        tokenizer_close(tokenizer);
        model_close(model);
        return status;
    }
    tokenizer_set_interrupt(tokenizer, options->interrupt);
    (*out)->tokenizer = tokenizer;
    (*out)->jinja_template = jinja_template;
    return STATUS_OK;
}

void engine_close(Engine *engine) {
    if (!engine) return;
    close_backend(engine);
    free(engine->jinja_template);
    tokenizer_close(engine->tokenizer);
    model_close(engine->model);
    free(engine);
}

Status engine_check_files(const Engine *engine, Error *error) {
    bool in_place = engine->backend->ops == ops_cpu() && engine->model->checkpoint;
    return in_place ? checkpoint_check_files(engine->model->checkpoint, error) : STATUS_OK;
}

const Model *engine_model(const Engine *engine) {
    return engine->model;
}
const Tokenizer *engine_tokenizer(const Engine *engine) {
    return engine->tokenizer;
}
const char *engine_jinja_template(const Engine *engine) {
    return engine->jinja_template;
}
EngineMemory engine_memory(const Engine *engine) {
    return engine->memory;
}
double engine_load_seconds(const Engine *engine) {
    return engine->load_seconds;
}
int engine_context_size(const Engine *engine) {
    return engine->context_size;
}
int64_t engine_token_bytes(const Engine *engine) {
    return kv_cache_bytes(&engine->cache.layout) / engine->cache.layout.n_slots;
}
int engine_chunk(const Engine *engine) {
    return engine->forward.max_tokens;
}
int engine_rows(const Engine *engine) {
    return engine->n_rows;
}
int engine_full_sessions(const Engine *engine) {
    return engine->cache_options.n_sequences;
}
DType engine_cache_type(const Engine *engine) {
    return engine->cache.layout.type;
}
void engine_set_profile(Engine *engine, Profile *profile) {
    engine->forward.profile = profile;
}
const char *engine_backend_note(const Engine *engine) {
    return engine->backend_note;
}
const char *engine_cannot_shift(const Engine *engine) {
    const Model *model = engine->model;
    if (model->shape.n_positions > 0) return "its positions are learned, each by itself";
    if (model_rope_set(model, engine->context_size) > 0)
        return "its rotary frequencies go by the length of the text";
    return NULL;
}
void engine_describe_backend(const Engine *engine, char *text, size_t size) {
    char how[256];
    engine->backend->ops->describe(engine->backend, how, sizeof how);
    snprintf(text, size, "%s: %s", engine->backend->ops->name, how);
}
