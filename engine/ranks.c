// Several processes that hold a model together (kernels/hosts): how rank 0's engine comes to its backend, and what another
// rank has in its place.
#include "engine/engine_internal.h"

#include "engine/backend.h"
#include "engine/model/model_hash.h"
#include "engine/model/weights/conversion.h"
#include "kernels/base/hash.h"
#include "kernels/hosts/hosts.h"
#include "kernels/hosts/part.h"
#include "kernels/part_weights.h"
#include "kernels/hosts/serve.h"

#include <stdlib.h>

static Status meet(const EngineOptions *options, const Model *model, World **world, Error *error) {
    const EngineWorld *w = &options->world;
    if (!w->join || !*w->join)
        return error_set(error, STATUS_USAGE,
                         "rank %d of %d: where rank 0 is has to be said: --join HOST:PORT", w->rank, w->size);
    const WorldOptions o = {
        .size = w->size,
        .rank = w->rank,
        .address = w->join,
        .key = w->key ? w->key : "",
        .model = {{"their files", hash_bytes(model_hash(model, HASH_START), &model->weight_bytes,
                                             sizeof model->weight_bytes)}},
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

Status ranks_open(Engine *engine, const Ops *ops, const EngineOptions *options, const BackendOptions *backend,
                  Backend **out, Error *error) {
    const Model *model = engine->model;
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
    part->weights =
        part_weights_bytes(engine->backend, options.layers, what->n, what->is_last ? &head : NULL);
    return STATUS_OK;
}

static Status load_part(ServePart *part, Error *error) {
    Serving *s = part->context;
    Engine *engine = &s->engine;
    Status status = loading_run(engine, &s->options, error);
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
    free(s);
    model_close(model);
    return status;
}
