#include "engine/grammar/vocabulary.h"
#include "engine/engine_internal.h"

#include "engine/backend.h"
#include "engine/calibration.h"
#include "engine/tuning/dispatch_file.h"
#include "engine/files/tokenizer_source.h"
#include "engine/model/conversion.h"
#include "kernels/base/clock.h"
#include "kernels/base/format.h"
#include "kernels/base/path.h"
#include "kernels/split/split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOGITS_ROWS = 16 }; // rows of logits computed at once where many are wanted (perplexity)

static void close_backend(Engine *engine) {
    if (!engine->backend) return;
    forward_close(&engine->forward);
    kv_cache_close(&engine->cache);
    engine->backend->ops->close(engine->backend);
    free(engine->forward.layers);
    engine->forward = (Forward){0};
    engine->backend = NULL;
}

// What `palaver tune` has measured of this card and model, if it has. A file that cannot be used is as good as none,
// but is told of. Returns whether *file is something to go by.
static bool find_dispatch(Engine *engine, const Ops *ops, const char *device, DispatchFile *file) {
    CardFacts card;
    char path[PATH_ROOM];
    bool missing = false;
    Error why;
    engine->dispatch = (EngineDispatch){0};
    if (!ops->tuning) return false;
    Status status = ops->tuning->card(device, &card, &why);
    if (status) return false; // opening will tell
    status = dispatch_file_path(&card, engine->model, path, &why);
    if (!status) status = dispatch_file_read(path, &card, file, &missing, &why);
    if (status)
        snprintf(engine->dispatch.note, sizeof engine->dispatch.note,
                 "%s: it is not used; palaver tune makes it anew", why.message);
    return !status && !missing;
}

static void tell_dispatch(Engine *engine, const DispatchFile *file) {
    EngineDispatch *to = &engine->dispatch;
    const Backend *b = engine->backend;
    if (file)
        snprintf(to->origin, sizeof to->origin, "measured %.10s", file->date),
            to->read_speed = file->read_speed;
    else if (b->ops->tuning)
        snprintf(to->origin, sizeof to->origin, "built in for %s", b->ops->tuning->built_in(b));
}

// What the plan has found room for was not to be had: if more is gone than palaver takes in all, others have it.
static Status tell_taken(const Engine *engine, Error *error) {
    const EngineMemory *m = &engine->memory;
    const int64_t need = m->weights + m->scratch + m->cache - m->host_cache;
    int64_t total, available;
    char had[FORMAT_ROOM], needed[FORMAT_ROOM];
    engine->backend->ops->memory(engine->backend, &total, &available);
    if (engine->backend->ops == ops_cpu() || m->available - available <= need) return STATUS_MEMORY;
    format_bytes((double)m->available, had);
    format_bytes((double)need, needed);
    return error_set(
        error, STATUS_MEMORY,
        "another program filled the GPU's memory while palaver loaded (%s is needed, %s was free): close "
        "it (nvidia-smi lists them), or use --device cpu",
        needed, had);
}

// Where the layers run. host_layers: of a backend of two, those of the CPU (0: of one).
typedef struct Placement {
    const Ops *ops;
    const char *device;
    int host_layers;
} Placement;

static Status open_placement(const Placement *p, const BackendOptions *options, Backend **backend,
                             Error *error) {
    const SplitOptions split = {{ops_cpu(), p->ops}, "cpu", p->host_layers};
    return p->host_layers ? split_open(&split, options, backend, error)
                          : p->ops->open(options, backend, error);
}

// Everything but the tokenizer in one place: device, memory, weights. What fails leaves nothing behind.
static Status open_backend(Engine *engine, const Placement *place, const EngineOptions *options,
                           Error *error) {
    const Ops *ops = place->ops;
    const char *device = place->device;
    int chunk = options->chunk > 0 ? options->chunk : ops->chunk;
    int logits = engine->n_rows + 1 > LOGITS_ROWS ? engine->n_rows + 1
                                                  : LOGITS_ROWS; // batch_read() has one of its own
    if (chunk < engine->n_rows) chunk = engine->n_rows;
    BackendOptions backend = {
        .device = device,
        .n_threads = options->n_threads,
        .shape = &engine->model->shape,
        .max_tokens = chunk,
        .max_logits = logits,
        .random_weights = options->random_weights,
    };
    DispatchFile measured;
    bool is_measured = find_dispatch(engine, ops, device, &measured);
    if (is_measured) backend.dispatch = &measured.table;
    Status status = open_placement(place, &backend, &engine->backend, error);
    if (status) {
        engine->backend = NULL;
        return status;
    }
    tell_dispatch(engine, is_measured ? &measured : NULL);
    if (!ops->w8 && conversion_needs(engine->model, DTYPE_W8))
        status = error_set(
            error, STATUS_UNSUPPORTED,
            "%s has no kernels for int8 weights; take weights and head = \"own\", or another device",
            ops->name);
    if (!status) status = memory_plan(engine, options, &backend, error);
    const bool planned = !status;
    engine->forward = (Forward){
        .backend = engine->backend, .model = engine->model, .max_tokens = chunk, .max_logits = logits};
    if (!status) status = forward_open(&engine->forward, error);
    double start = clock_seconds();
    if (!status) status = loading_run(engine, options, error);
    engine->load_seconds = clock_seconds() - start;
    if (!status)
        status = kv_cache_open(engine->backend, &engine->cache_options, &engine->model->shape,
                               engine->context_size, &engine->cache, error);
    if (!status) status = calibration_open(&engine->forward, &engine->calibration, &engine->cache, error);
    if (planned && status == STATUS_MEMORY) status = tell_taken(engine, error);
    if (status) close_backend(engine);
    return status;
}

// On a device and, as far as that was asked for or is needed, on the CPU beside it.
static Status open_beside(Engine *engine, const Ops *ops, const char *device, const EngineOptions *options,
                          Error *error) {
    const int n_layers = engine->model->shape.n_layers, wanted = options->device_layers;
    const bool some = wanted > 0 && wanted < n_layers;
    const Placement place = {ops, device, some ? n_layers - wanted : 0};
    engine->fits_layers = false;
    Status status = open_backend(engine, &place, options, error);
    if (status != STATUS_MEMORY || wanted != DEVICE_LAYERS_FIT || ops == ops_cpu() || n_layers < 2 ||
        options->random_weights)
        return status;
    Error of_two;
    const Placement two = {ops, device, 1};
    engine->fits_layers = true;
    status = open_backend(engine, &two, options, &of_two);
    if (status != STATUS_UNSUPPORTED && status != STATUS_USAGE)
        *error = of_two; // else what is said of the device alone
    return status == STATUS_UNSUPPORTED || status == STATUS_USAGE ? STATUS_MEMORY : status;
}

// The device that was asked for; with "auto" the GPU if it can take the model, else the CPU, and why.
static Status choose_backend(Engine *engine, const EngineOptions *options, Error *error) {
    const char *device = options->device ? options->device : "auto";
    DeviceKind kind;
    Status status = backend_device_kind(device, &kind, error);
    if (status) return status;
    if (kind == DEVICE_CPU && options->random_weights)
        return error_set(error, STATUS_UNSUPPORTED, "made-up weights need a GPU, not device \"%s\"", device);
    if (kind == DEVICE_CPU) return open_beside(engine, ops_cpu(), device, options, error);
    const Ops *cuda;
    Error why = {0};
    status = backend_cuda_ops(&cuda, &why);
    if (!status) status = open_beside(engine, cuda, kind == DEVICE_AUTO ? "cuda" : device, options, &why);
    if (!status) return STATUS_OK;
    if (kind == DEVICE_CUDA || status == STATUS_INTERRUPTED || status == STATUS_FATAL)
        return error_set(error, status, "%s", why.message);
    if (options->random_weights)
        return error_set(error, STATUS_UNSUPPORTED, "made-up weights need a GPU: %s", why.message);
    memcpy(engine->backend_note, why.message, sizeof why.message);
    engine->fits_layers = false;
    return open_backend(engine, &(Placement){ops_cpu(), "cpu", 0}, options, error);
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
    engine->no_steps_ahead = options->no_steps_ahead;
    engine->wants_unified = options->softmax == SOFTMAX_UNIFIED;
    // A bias that grows with the distance has no base.
    engine->calibration =
        (CalibrationWish){options->random_weights, engine->wants_unified && !model->shape.alibi};
    Status status = model_reach_context(
        model, options->context_size > 0 ? options->context_size : model->context_length, error);
    if (!status) status = conversion_plan(model, options->weights, options->head, error);
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
    vocabulary_close(engine->vocabulary);
    tokenizer_close(engine->tokenizer);
    model_close(engine->model);
    free(engine);
}

Status engine_check_files(const Engine *engine, Error *error) {
    bool in_place = backend_maps_any(engine->backend) && engine->model->checkpoint;
    return in_place ? checkpoint_check_files(engine->model->checkpoint, error) : STATUS_OK;
}

const Model *engine_model(const Engine *engine) {
    return engine->model;
}
Status engine_vocabulary(Engine *engine, Vocabulary **out, Error *error) {
    Status status = STATUS_OK;
    if (!engine->vocabulary)
        status =
            vocabulary_open(engine->tokenizer, engine->model->shape.vocab_size, &engine->vocabulary, error);
    *out = engine->vocabulary;
    return status;
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
int64_t engine_weight_bytes(const Engine *engine, WeightType weights) {
    return conversion_bytes(engine->model, weights, engine->model->head_weights);
}
DType engine_cache_type(const Engine *engine) {
    return engine->cache.layout.type;
}
void engine_set_profile(Engine *engine, Profile *profile) {
    engine->forward.profile = profile;
}
const EngineDispatch *engine_dispatch(const Engine *engine) {
    return &engine->dispatch;
}
const char *engine_backend_note(const Engine *engine) {
    return engine->backend_note;
}
const char *engine_cannot_shift(const Engine *engine) {
    const Model *model = engine->model;
    if (model->shape.n_positions > 0) return "its positions are learned, each by itself";
    if (model->shape.norms_turned) return "its keys are normed after they were turned";
    if (model->chunk > 0) return "its layers see chunks of the text";
    if (model_rope_set(model, engine->context_size) > 0)
        return "its rotary frequencies go by the length of the text";
    return NULL;
}
Status engine_describe_softmax(const Engine *engine, char *text, size_t size, Error *error) {
    int n_layers = engine->model->shape.n_layers, n_based = 0;
    SoftmaxCounts counts;
    Status status = engine->backend->ops->softmax_counts(engine->backend, &counts, error);
    if (status) return status;
    for (int l = 0; l < n_layers; l++) n_based += engine->cache.layers[l].score_bases != NULL;
    if (!engine->calibration.bases)
        snprintf(text, size, "running maxima%s",
                 engine->wants_unified ? ": a bias by distance has no base" : "");
    else
        snprintf(text, size, "%d of %d layers by bases%s; %lld of %lld parts taken again (%.2f%%)", n_based,
                 n_layers, n_based < n_layers ? ", the others' scores reach too far" : "",
                 (long long)counts.again, (long long)counts.parts,
                 counts.parts ? 100.0 * (double)counts.again / (double)counts.parts : 0.0);
    return STATUS_OK;
}
void engine_describe_backend(const Engine *engine, char *text, size_t size) {
    char how[256];
    const bool two = split_side(engine->backend, SPLIT_FIRST) != NULL; // which names both
    engine->backend->ops->describe(engine->backend, how, sizeof how);
    snprintf(text, size, "%s%s%s", two ? "" : engine->backend->ops->name, two ? "" : ": ", how);
}
