// Several processes that hold a model together (kernels/hosts): how rank 0's engine comes to its backend, and what another
// rank has in its place.
//
// They hold rank 0's model, to the byte: what the files say besides tensors, and which tensors there are, is compared in full
// before anything is loaded; of the tensors, all bytes that a rank uses (its layers, and what all layers share) with those
// of rank 0's files, while they are loaded. What a rank does not use may differ: it changes nothing. The price is that rank 0
// reads the others' layers too, at every start. Processes of one host that have the same files open compare those instead.
#include "engine/engine_internal.h"

#include "engine/backend.h"
#include "engine/model/model_hash.h"
#include "engine/model/weight_sums.h"
#include "engine/model/weights/conversion.h"
#include "kernels/base/clock.h"
#include "kernels/base/text/format.h"
#include "kernels/hosts/hosts.h"
#include "kernels/hosts/part.h"
#include "kernels/part_weights.h"
#include "kernels/hosts/serve.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static Status meet(const EngineOptions *options, const Model *model, World **world, Error *error) {
    const EngineWorld *w = &options->world;
    if (!w->join || !*w->join)
        return error_set(error, STATUS_USAGE,
                         "rank %d of %d: where rank 0 is has to be said: --join HOST:PORT", w->rank, w->size);
    const ModelFacts facts = model_facts(model);
    const WorldOptions o = {
        .size = w->size,
        .rank = w->rank,
        .address = w->join,
        .key = w->key ? w->key : "",
        .model = {{"what their files say of it (config.json, metadata)", facts.says},
                  {"names, types or shapes of their tensors", facts.tensors},
                  {"weights", facts.samples}},
        .seconds = w->seconds,
        .interrupt = options->interrupt,
        .tell = w->tell,
        .tell_context = w->tell_context,
        .lost = w->lost,
    };
    return world_open(&o, world, error);
}

// ---- rank 0 -------------------------------------------------------------------------------------------------

Status ranks_meet(Engine *engine, const EngineOptions *options, Error *error) {
    const EngineWorld *w = &options->world;
    if (w->size <= 1 || options->plans_only) return STATUS_OK;
    Status status = part_check(&engine->model->shape, w->size, error);
    if (!status) status = meet(options, engine->model, &engine->world, error);
    engine->part.is_last = false;
    engine->part.n = part_first(engine->model->shape.n_layers, w->size, 1);
    return status;
}

static Status open_own(const void *context, const BackendOptions *options, Backend **backend, Error *error) {
    return backend_open(context, options, backend, error);
}

// ---- files that differ --------------------------------------------------------------------------------------

// Where the ranks' files are compared, rank 0's part of it.
struct RanksFiles {
    Engine *engine;
    EngineWorld world; // tell
    const atomic_int *interrupt;
};

static Status begin_files(void *context, int first, int n, bool is_last, Error *error) {
    struct RanksFiles *f = context;
    const WeightPart part = {first, n, is_last};
    Status status = f->engine->sums ? STATUS_OK : weight_sums_open(f->engine->model, &f->engine->sums, error);
    if (!status) weight_sums_want(f->engine->sums, &part);
    return status;
}

static Status start_files(void *context, Error *error) {
    const struct RanksFiles *f = context;
    return f->engine->sums ? weight_sums_begin(f->engine->sums, INT_MAX, error) : STATUS_OK;
}

// It is told once if it takes long.
static Status await_sums(const struct RanksFiles *f, Error *error) {
    enum { TURN_MS = 100 };
    static const double LONG = 3; // seconds
    const double since = clock_seconds();
    WeightSums *sums = f->engine->sums;
    for (bool told = false; !weight_sums_wait(sums, TURN_MS);) {
        char left[FORMAT_ROOM], words[200];
        if (f->interrupt && *f->interrupt)
            return error_set(error, STATUS_INTERRUPTED, "loading was interrupted");
        if (told || clock_seconds() - since < LONG || !f->world.tell) continue;
        told = true;
        format_bytes((double)weight_sums_left(sums), left);
        snprintf(words, sizeof words, "comparing the other ranks' files with those here: %s to read", left);
        f->world.tell(f->world.tell_context, words);
    }
    return STATUS_OK;
}

static Status compare_files(void *context, int first, int n, bool is_last, const void *others, size_t bytes,
                            Error *error) {
    const struct RanksFiles *f = context;
    const Checkpoint *c = f->engine->model->checkpoint;
    const WeightPart part = {first, n, is_last};
    uint64_t *its = malloc(bytes + 1);
    if (!its) return error_set(error, STATUS_MEMORY, "no memory for sums");
    memcpy(its, others, bytes); // which lie as they came
    Status status = await_sums(f, error);
    const int64_t differs =
        status ? -1 : weight_sums_differ(f->engine->sums, &part, its, (int64_t)(bytes / sizeof *its));
    free(its);
    if (status || differs < 0) return status;
    return error_set(
        error, STATUS_FILE,
        "its model file is another one than rank 0's: %s has other bytes. Every byte that a rank "
        "uses has to be that of rank 0's files: copy them anew",
        checkpoint_tensor(c, differs)->name);
}

void ranks_close(Engine *engine) {
    weight_sums_close(engine->sums);
    free(engine->files);
    engine->sums = NULL, engine->files = NULL;
}

Status ranks_open(Engine *engine, const Ops *ops, const EngineOptions *options, const BackendOptions *backend,
                  Backend **out, Error *error) {
    const Model *model = engine->model;
    const bool compares = model->checkpoint && !options->random_weights;
    if (!engine->files) engine->files = malloc(sizeof *engine->files);
    if (!engine->files) return error_set(error, STATUS_MEMORY, "no memory for several ranks");
    *engine->files = (struct RanksFiles){engine, options->world, options->interrupt};
    const HostsOptions hosts = {
        .world = engine->world,
        .what = {.n_rows = engine->n_rows,
                 .weights = (int32_t)options->weights,
                 .head = (int32_t)options->head,
                 .fp8 = (int32_t)model->shape.fp8_inputs,
                 .context_size = options->context_size > 0 ? options->context_size : model->context_length},
        .head = &model->head,
        .open = open_own,
        .context = ops,
        .files = {.context = engine->files,
                  .files = model_files(model),
                  .begin = compares ? begin_files : NULL,
                  .start = start_files,
                  .compare = compare_files},
        .interrupt = options->interrupt,
    };
    return hosts_open(&hosts, backend, out, error);
}

// ---- the others ---------------------------------------------------------------------------------------------

// A rank's own: an engine without sessions, of which only model, backend and weights are used.
typedef struct Serving {
    Engine engine;
    EngineOptions options;
    DecoderShape shape; // of its layers
    bool is_planned;
} Serving;

// Once: what the weights are held in does not change when rank 0 opens again.
static Status plan(Serving *s, const WireOpen *what, Error *error) {
    Model *model = s->engine.model;
    if (s->is_planned) return STATUS_OK;
    if (what->weights < WEIGHTS_OWN || what->weights > WEIGHTS_INT4 || what->head < WEIGHTS_OWN ||
        what->head > WEIGHTS_INT4)
        return error_set(error, STATUS_USAGE, "weights of a kind that there is not");
    model->shape.fp8_inputs = (Fp8Inputs)what->fp8;
    Status status = model_reach_context(model, what->context_size, error);
    if (!status) status = conversion_plan(model, (WeightType)what->weights, (WeightType)what->head, error);
    s->is_planned = !status;
    return status;
}

// The device that was asked for; with "auto" the GPU if it can be opened, else the CPU.
static Status open_device(const EngineOptions *o, BackendOptions *options, Backend **backend, Error *error) {
    const Ops *cuda = o->cuda;
    DeviceKind kind;
    options->device = o->device ? o->device : "auto";
    Status status = backend_device_kind(options->device, &kind, error);
    if (status) return status;
    if (kind == DEVICE_CPU) return ops_cpu()->open(options, backend, error);
    status = cuda ? STATUS_OK : backend_cuda_ops(&cuda, error);
    if (kind == DEVICE_AUTO) options->device = "cuda";
    if (!status) status = backend_open(cuda, options, backend, error);
    if (!status || kind == DEVICE_CUDA) return status;
    options->device = "cpu";
    return ops_cpu()->open(options, backend, error);
}

static Status open_part(ServePart *part, const WireOpen *what, Error *error) {
    Serving *s = part->context;
    Engine *engine = &s->engine;
    Model *model = engine->model;
    if (what->first < 1 || what->n > model->shape.n_layers - what->first)
        return error_set(error, STATUS_USAGE, "layers %d to %d of %d", what->first, what->first + what->n - 1,
                         model->shape.n_layers);
    Status status = plan(s, what, error);
    if (status) return status;
    engine->part = (EnginePart){what->first, what->n, false, what->is_last != 0};
    s->shape = part_shape(&model->shape, what->n);
    s->options.random_weights = what->random_weights != 0;
    BackendOptions options = {.n_threads = s->options.n_threads,
                              .shape = &s->shape,
                              .max_tokens = what->max_tokens,
                              .max_logits = what->max_logits,
                              .random_weights = what->random_weights != 0,
                              .layers = model->layers + what->first};
    status = open_device(&s->options, &options, &engine->backend, error);
    if (status) {
        engine->backend = NULL;
        return status;
    }
    const HeadWeights head = part_weights_head(&model->head, true);
    part->backend = engine->backend;
    part->shape = &s->shape;
    part->files = model_files(model);
    part->weights =
        part_weights_bytes(engine->backend, options.layers, what->n, what->is_last ? &head : NULL);
    return STATUS_OK;
}

// Sums are made beside the loading, of the same bytes.
static Status sum_part(Serving *s, ServePart *part, Error *error) {
    enum { TURN_MS = 100 };
    while (!weight_sums_wait(s->engine.sums, TURN_MS))
        if (s->options.interrupt && *s->options.interrupt)
            return error_set(error, STATUS_INTERRUPTED, "loading was interrupted");
    part->sums = weight_sums_values(s->engine.sums, &part->n_sums);
    return STATUS_OK;
}

static Status load_part(ServePart *part, bool sums, Error *error) {
    Serving *s = part->context;
    Engine *engine = &s->engine;
    const WeightPart own = {engine->part.first, engine->part.n, engine->part.is_last};
    Status status = STATUS_OK;
    weight_sums_close(engine->sums);
    engine->sums = NULL;
    if (sums) status = weight_sums_open(engine->model, &engine->sums, error);
    if (!status && sums) weight_sums_want(engine->sums, &own);
    if (!status && sums) status = weight_sums_begin(engine->sums, own.first, error);
    if (!status) status = loading_run(engine, &s->options, error);
    weight_sums_reach(engine->sums, INT_MAX);
    if (!status && sums) status = sum_part(s, part, error);
    if (status) return status;
    part->layers = engine->forward.layers + engine->part.first;
    part->head = engine->forward.head;
    return STATUS_OK;
}

static void close_part(ServePart *part) {
    Serving *s = part->context;
    Engine *engine = &s->engine;
    if (engine->backend) engine->backend->ops->close(engine->backend);
    free(engine->forward.layers);
    engine->backend = NULL;
    engine->forward = (Forward){0};
    part->backend = NULL, part->layers = NULL, part->head = NULL;
}

static const int *windows_of(const ServePart *part) {
    const Engine *engine = &((const Serving *)part->context)->engine;
    return engine->model->attention_windows + engine->part.first;
}

static Status pass_part(const void *context, const PassBuffers *buffers, Error *error) {
    const ServePart *part = context;
    const PassBuffers own = {part->x, buffers->q, buffers->g, buffers->logits};
    const Pass pass = {.backend = part->backend,
                       .shape = part->shape,
                       .head = part->head,
                       .layers = part->layers,
                       .kv = part->kv,
                       .attention_windows = windows_of(part),
                       .n_tokens = part->n_tokens,
                       .goes_on = true};
    return forward_pass_in(&pass, &own, error);
}

Status engine_serve(Model *model, const EngineOptions *options, Error *error) {
    static const ServeOps OPS = {open_part, load_part, close_part, pass_part, windows_of};
    World *world = NULL;
    Serving *s = calloc(1, sizeof *s);
    Status status = s ? STATUS_OK : error_set(error, STATUS_MEMORY, "no memory to serve");
    if (!status) {
        s->engine.model = model;
        s->options = *options;
        s->options.progress = (Progress){0};
        status = meet(options, model, &world, error);
    }
    if (!status) status = serve(world, &OPS, s, error);
    world_close(world);
    if (s) weight_sums_close(s->engine.sums);
    free(s);
    model_close(model);
    return status;
}
