// Where an engine's layers run: on the device that was asked for, on several alike, on the CPU beside it, or on the CPU
// alone; and the opening of what runs them. Declared in engine_internal.h.
#include "engine/engine_internal.h"

#include "engine/backend.h"
#include "engine/batch.h"
#include "engine/model/weights/conversion.h"
#include "engine/loading/trial.h"
#include "engine/tuning/dispatch_file.h"
#include "engine/tuning/visits_file.h"
#include "kernels/base/clock.h"
#include "kernels/base/text/format.h"
#include "kernels/base/path.h"
#include "kernels/shards/shard_ops.h"
#include "kernels/shards/shards.h"
#include "kernels/split/split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOGITS_ROWS = 16 }; // rows of logits computed at once where many are wanted (perplexity)

// How much faster the CPU has to be than both together for a card to be left alone, by the times of a few tokens.
static const double SLOWER = 1.25;

void placement_close(Engine *engine) {
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

// Where the layers run. host_layers: of a backend of two, those of the CPU (0: of one), or whose experts are there.
typedef struct Placement {
    const Ops *ops;
    const char *device;
    int host_layers;
    bool only_experts;
} Placement;

static Status open_placement(const Placement *p, const BackendOptions *options, Backend **backend,
                             Error *error) {
    const SplitOptions split = {{ops_cpu(), p->ops}, "cpu", p->host_layers, p->only_experts};
    if (backend_names_several(p->device) && p->host_layers)
        return error_set(
            error, STATUS_UNSUPPORTED,
            "several cards (\"%s\") and layers on the CPU do not go together yet; take one card, or "
            "leave --gpu-layers and --expert-layers out",
            p->device);
    return p->host_layers ? split_open(&split, options, backend, error)
                          : backend_open(p->ops, options, backend, error);
}

// Backend and memory plan. What fails leaves the rest to open_backend().
static Status open_planned(Engine *engine, const Placement *place, const EngineOptions *options,
                           Error *error) {
    const Ops *ops = place->ops;
    int chunk = options->chunk > 0 ? options->chunk : ops->chunk;
    int logits = engine->n_rows + BATCH_PIECES; // batch_read_pieces() has rows of its own
    if (logits < LOGITS_ROWS) logits = LOGITS_ROWS;
    if (engine->model->seen_both_ways) // a prompt goes into one step, however long
        chunk = options->context_size > 0 ? options->context_size : (int)engine->model->context_length;
    if (chunk < engine->n_rows) chunk = engine->n_rows;
    BackendOptions backend = {
        .device = place->device,
        .n_threads = options->n_threads,
        .shape = &engine->model->shape,
        .max_tokens = chunk,
        .max_logits = logits,
        .random_weights = options->random_weights,
        .layers = engine->model->layers,
    };
    engine->trial = (SplitTimes){0};
    DispatchFile measured;
    bool is_measured = find_dispatch(engine, ops, place->device, &measured);
    if (is_measured) backend.dispatch = &measured.table;
    Status status = engine->world ? ranks_open(engine, ops, options, &backend, &engine->backend, error)
                                  : open_placement(place, &backend, &engine->backend, error);
    if (status) {
        engine->backend = NULL;
        return status;
    }
    engine->forward = (Forward){.backend = engine->backend,
                                .model = engine->model,
                                .max_tokens = chunk,
                                .max_logits = logits,
                                .stages = engine->world ? options->world.size : 1};
    tell_dispatch(engine, is_measured ? &measured : NULL);
    if (!ops->w8 && conversion_needs(engine->model, DTYPE_W8))
        return error_set(
            error, STATUS_UNSUPPORTED,
            "%s has no kernels for int8 weights; take weights and head = \"own\", or another device",
            ops->name);
    return memory_plan(engine, options, &backend, error);
}

// What two loads measure may differ a little, and with it how a short prompt is rounded: so the first one's counts.
static Status run_trial(Engine *engine, bool keeps, Error *error) {
    VisitsFile file = {0};
    Error ignored; // who has no cache folder measures every time
    int known = TRIAL_VISITS_UNKNOWN;
    keeps = keeps && !visits_file_of(engine->backend, engine->model, &file, &ignored);
    if (keeps && !visits_file_read(&file, &known)) known = TRIAL_VISITS_UNKNOWN;
    int from = known;
    Status status = trial_run(&engine->forward, &engine->trial, &from, error);
    if (!status && keeps && from != known && from != TRIAL_VISITS_UNKNOWN)
        (void)visits_file_write(&file, from, &ignored);
    return status;
}

static Status open_cache(Engine *engine, Error *error) {
    Status status = kv_cache_open(engine->backend, &engine->cache_options, &engine->model->shape,
                                  engine->context_size, &engine->cache, error);
    return status == STATUS_MEMORY && !engine->world ? memory_plan_refused(engine, error) : status;
}

// What was planned.
static Status load(Engine *engine, const EngineOptions *options, Error *error) {
    Status status = forward_open(&engine->forward, error);
    double start = clock_seconds();
    if (!status) status = loading_run(engine, options, error);
    engine->load_seconds = clock_seconds() - start;
    if (!status) status = open_cache(engine, error);
    if (!status) status = calibration_open(&engine->forward, &engine->calibration, &engine->cache, error);
    if (!status && split_side(engine->backend, SPLIT_FIRST))
        status = run_trial(engine, options->keeps_trials, error);
    return status == STATUS_MEMORY && !engine->world ? tell_taken(engine, error) : status;
}

// Everything but the tokenizer in one place: device, memory, weights. What fails leaves nothing behind.
static Status open_backend(Engine *engine, const Placement *place, const EngineOptions *options,
                           Error *error) {
    Status status = open_planned(engine, place, options, error);
    if (!status && !options->plans_only) status = load(engine, options, error);
    if (status) placement_close(engine);
    return status;
}

// As many layers on the device as fit, or experts of as many, the others on the CPU. Where less is to be had than was
// planned, with fewer.
static Status open_as_fit(Engine *engine, Placement two, const EngineOptions *options, Error *error) {
    const int n_layers = engine->model->shape.n_layers, most = n_layers - !two.only_experts;
    Status status = STATUS_MEMORY;
    engine->fits_layers = true;
    two.host_layers = 1;
    while (status == STATUS_MEMORY && two.host_layers <= most) {
        status = open_backend(engine, &two, options, error);
        const int tried = engine->memory.host_layers;
        two.host_layers = (tried > two.host_layers ? tried : two.host_layers) + 1 + n_layers / 8;
    }
    return status;
}

// Of a mixture of experts those leave the device first: a token takes few of them, of all the rest everything.
static Status open_fitting(Engine *engine, const Ops *ops, const char *device, const EngineOptions *options,
                           Error *error) {
    Placement two = {ops, device, 1, engine->model->shape.experts.n > 0};
    Status status = open_as_fit(engine, two, options, error);
    if (!two.only_experts || (status != STATUS_MEMORY && status != STATUS_UNSUPPORTED)) return status;
    two.only_experts = false;
    return engine->model->shape.n_layers < 2 ? status : open_as_fit(engine, two, options, error);
}

// What was asked for, but for what fits.
static Status place_as_asked(const Engine *engine, const EngineOptions *options, Placement *place,
                             Error *error) {
    const int n_layers = engine->model->shape.n_layers, wanted = options->device_layers,
              experts = options->expert_layers;
    const bool fits = wanted == DEVICE_LAYERS_FIT;
    if (!fits && experts > 0)
        return error_set(error, STATUS_USAGE,
                         "--gpu-layers places whole layers, --expert-layers experts alone: take one of them");
    if (wanted > 0 && wanted < n_layers) place->host_layers = n_layers - wanted;
    if (fits && experts != DEVICE_LAYERS_FIT && experts < n_layers)
        place->host_layers = n_layers - experts, place->only_experts = true;
    if (place->host_layers > 0 && engine->world)
        return error_set(error, STATUS_UNSUPPORTED,
                         "several hosts and layers on the CPU beside a card do not go together; leave "
                         "--gpu-layers and --expert-layers out");
    return STATUS_OK;
}

// On two cards or more: as few as have room. STATUS_MEMORY: all of them together have not, or there are no such.
static Status open_several(Engine *engine, const Ops *ops, const EngineOptions *options, Error *error) {
    ShardDevices all;
    Status status = STATUS_MEMORY;
    if (!ops->shards || ops->shards->devices("cuda:all", &all, error)) return STATUS_MEMORY;
    char device[sizeof all.names + SHARDS_MOST];
    size_t length = (size_t)snprintf(device, sizeof device, "%s", all.names[0]);
    for (int i = 1; i < all.n && (status == STATUS_MEMORY || status == STATUS_UNSUPPORTED); i++) {
        length +=
            (size_t)snprintf(device + length, sizeof device - length, ",%s", strchr(all.names[i], ':') + 1);
        status = open_backend(engine, &(Placement){ops, device, 0, false}, options, error);
    }
    return status == STATUS_UNSUPPORTED ? STATUS_MEMORY : status;
}

Status placement_open_on(Engine *engine, const Ops *ops, const char *wish, const EngineOptions *options,
                         Error *error) {
    const int n_layers = engine->model->shape.n_layers;
    const bool any = !strcmp(wish, "auto"), fits = options->device_layers == DEVICE_LAYERS_FIT &&
                                                   options->expert_layers == DEVICE_LAYERS_FIT;
    const char *device = any ? "cuda" : wish;
    Placement place = {ops, device, 0, false};
    Error of_two;
    engine->fits_layers = false;
    Status status = place_as_asked(engine, options, &place, error);
    if (!status) status = open_backend(engine, &place, options, error);
    if (status == STATUS_MEMORY && any && !place.host_layers) {
        status = open_several(engine, ops, options, &of_two);
        if (status && status != STATUS_MEMORY) *error = of_two;
    }
    if (status != STATUS_MEMORY || !fits || ops == ops_cpu() || engine->world ||
        (n_layers < 2 && engine->model->shape.experts.n == 0))
        return status;
    status = open_fitting(engine, ops, device, options, &of_two);
    // Where not one layer fits, or there is no splitting, what counts is what was said of the device alone.
    const bool never = status == STATUS_UNSUPPORTED || status == STATUS_USAGE;
    if (!never && (status != STATUS_MEMORY || engine->host_is_scarce)) *error = of_two;
    return never ? STATUS_MEMORY : status;
}

static Status open_cpu(Engine *engine, const EngineOptions *options, Error *error) {
    engine->fits_layers = false;
    return open_backend(engine, &(Placement){ops_cpu(), "cpu", 0, false}, options, error);
}

// Whether the CPU would be done with all layers well before both are with theirs, as far as tried. Its head is not
// counted, nor, where it has nothing but experts, the rest of its layers.
static bool is_slower(const Engine *engine) {
    const EngineMemory *m = &engine->memory;
    const double host = engine->trial.seconds[SPLIT_FIRST], device = engine->trial.seconds[SPLIT_SECOND];
    return m->host_layers > 0 && SLOWER * host / m->host_layers * m->n_layers < host + device;
}

// The CPU alone, if it has room for all of the model.
static Status leave_slow_device(Engine *engine, const Ops *ops, const EngineOptions *options, Error *error) {
    const SplitTimes times = engine->trial;
    const int host_layers = engine->memory.host_layers, n_layers = engine->memory.n_layers;
    placement_close(engine);
    Status status = open_cpu(engine, options, error);
    if (status == STATUS_MEMORY) return open_fitting(engine, ops, "cuda", options, error);
    engine->sees_better = true;
    snprintf(
        engine->backend_note, sizeof engine->backend_note,
        "it has room for %d of %d layers, and takes %.1f ms for them where the CPU takes %.1f for the others",
        n_layers - host_layers, n_layers, 1e3 * times.seconds[SPLIT_SECOND],
        1e3 * times.seconds[SPLIT_FIRST]);
    return status;
}

Status placement_open(Engine *engine, const EngineOptions *options, Error *error) {
    const char *device = options->device ? options->device : "auto";
    DeviceKind kind;
    Status status = backend_device_kind(device, &kind, error);
    if (status) return status;
    if (kind == DEVICE_CPU) return placement_open_on(engine, ops_cpu(), device, options, error);
    const Ops *cuda;
    Error why = {0};
    cuda = options->cuda;
    status = cuda ? STATUS_OK : backend_cuda_ops(&cuda, &why);
    if (!status) status = placement_open_on(engine, cuda, device, options, &why);
    if (!status && kind == DEVICE_AUTO && is_slower(engine))
        return leave_slow_device(engine, cuda, options, error);
    if (!status) return STATUS_OK;
    if (kind == DEVICE_CUDA || status == STATUS_INTERRUPTED || status == STATUS_FATAL)
        return error_set(error, status, "%s", why.message);
    memcpy(engine->backend_note, why.message, sizeof why.message);
    engine->sees_better = status != STATUS_DEVICE || backend_sees_gpu(cuda);
    return open_cpu(engine, options, error);
}
