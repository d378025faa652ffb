#include "engine/engine_internal.h"

#include "engine/backend.h"
#include "engine/model/weight_sums.h"
#include "engine/model/weights/conversion.h"
#include "engine/smoothing.h"
#include "kernels/base/machine/memory.h"
#include "kernels/base/text/format.h"
#include "kernels/part_weights.h"

#include <stdlib.h>

enum { MEMORY_ALIGNMENT = 64, MOST_THREADS = 16 };

// One loading. A backend that uploads is done with a layer when load_layer() returns, so that one layer's room is
// enough for all; the CPU takes matrices by reference, and the model keeps what was converted.
typedef struct Loading {
    Engine *engine;
    const Progress *progress;
    Threads *threads;  // NULL: nothing is converted or made
    bool by_reference; // the layer in hand
    bool made_up;      // the files' are not looked at
    bool keeps;        // what was made for it stays: others, or it, are taken by reference
    void *room;        // of the largest layer, where the backend uploads
    int64_t done;      // bytes of the files
} Loading;

static Status report(const Loading *l, Error *error) {
    const Progress *p = l->progress;
    if (!p->step || p->step(p->user, "loading", l->done, l->engine->model->weight_bytes)) return STATUS_OK;
    return error_set(error, STATUS_INTERRUPTED, "loading was interrupted");
}

// Reads the pages of a mapped matrix that the CPU uses as it is, so that the first reply does not wait for the disk.
static void read_in(Loading *l, const Matrix *m) {
    const int n_pieces = m->pieces ? m->n_pieces : 1;
    const int64_t n = m->data ? m->rows * dtype_row_bytes(m->type, m->cols) : 0;
    for (int piece = 0; piece < n_pieces && l->by_reference && !l->made_up; piece++) {
        const volatile char *bytes = m->pieces ? m->pieces[piece] : m->data;
        for (int64_t i = 0; i < n / n_pieces; i += 4096) (void)bytes[i];
    }
    l->done += n;
}

// ---- converting ---------------------------------------------------------------------------------------

// What converting a layer (or, with index n_layers, the head's output) needs.
static int64_t room_of(const Model *model, int index) {
    Matrix held[CONVERSION_MATRICES], own[CONVERSION_MATRICES];
    int64_t bytes = 0;
    int n = conversion_matrices(model, index, held, own);
    for (int i = 0; i < n; i++) bytes += conversion_room(&held[i]);
    return bytes;
}

static Status take_memory(int64_t bytes, void **memory, Error *error) {
    char need[FORMAT_ROOM], have[FORMAT_ROOM];
    int64_t total, available;
    memory_available("", &total, &available);
    *memory = NULL;
    if (total == 0 || bytes <= available) *memory = aligned_alloc(MEMORY_ALIGNMENT, (size_t)bytes);
    if (*memory) return STATUS_OK;
    format_bytes((double)bytes, need);
    format_bytes((double)available, have);
    return error_set(error, STATUS_MEMORY, "converting a layer's weights needs %s of memory, %s is free",
                     need, have);
}

static Status begin_converting(Loading *l, int n_threads, Error *error) {
    const Model *model = l->engine->model;
    int64_t largest = 0;
    for (int i = 0; i <= model->shape.n_layers; i++) {
        int64_t room = room_of(model, i);
        largest = room > largest ? room : largest;
    }
    if (largest == 0 && !(model->checkpoint && checkpoint_is_quantized(model->checkpoint))) return STATUS_OK;
    if (n_threads <= 0) n_threads = threads_available();
    Status status = threads_open(n_threads < MOST_THREADS ? n_threads : MOST_THREADS, &l->threads, error);
    if (!status && largest > 0 && backend_uploads(l->engine->backend))
        status = take_memory(largest, &l->room, error);
    return status;
}

static void end_converting(Loading *l) {
    threads_close(l->threads);
    free(l->room);
}

// What a quantised folder holds in parts is made before it is read; `weights` are nothing but matrices.
static Status make(Loading *l, const void *weights, size_t bytes, Error *error) {
    const Checkpoint *checkpoint = l->engine->model->checkpoint;
    const Matrix *m = weights;
    Status status = STATUS_OK;
    for (size_t i = 0; i < bytes / sizeof *m && checkpoint && checkpoint_is_quantized(checkpoint); i++) {
        const int n_pieces = m[i].pieces ? m[i].n_pieces : 1;
        for (int piece = 0; piece < n_pieces && m[i].data && !status; piece++)
            status =
                checkpoint_make(checkpoint, m[i].pieces ? m[i].pieces[piece] : m[i].data, l->threads, error);
    }
    return status;
}

// Once the backend has it elsewhere.
static void drop(const Loading *l) {
    if (!l->keeps && l->engine->model->checkpoint) checkpoint_drop_made(l->engine->model->checkpoint);
}

// The matrices of a layer as the backend gets them.
static Status convert(Loading *l, int index, Matrix held[CONVERSION_MATRICES], Error *error) {
    Model *model = l->engine->model;
    Matrix own[CONVERSION_MATRICES];
    int n = conversion_matrices(model, index, held, own);
    int64_t bytes = room_of(model, index);
    Status status = STATUS_OK;
    if (bytes > 0 && l->by_reference) status = take_memory(bytes, &model->converted[index], error);
    char *memory = l->by_reference && bytes > 0 ? model->converted[index] : l->room;
    for (int i = 0; i < n && !status; i++) {
        if (!conversion_awaits(&held[i])) continue;
        int64_t room = conversion_room(&held[i]);
        status = report(l, error);
        if (!status)
            status = conversion_run(model, (ConversionPlace){index, i}, &held[i], l->threads, memory, error);
        memory += room;
        l->done += own[i].rows * dtype_row_bytes(own[i].type, own[i].cols);
    }
    return status;
}

// ---- in order -----------------------------------------------------------------------------------------

static Status load_head(Loading *l, Error *error) {
    Engine *engine = l->engine;
    const Model *model = engine->model;
    HeadWeights head = model->head;
    Matrix output[CONVERSION_MATRICES];
    if (!engine->part.is_first && !engine->part.is_last) return STATUS_OK;
    if (!engine->part.is_last) head = part_weights_head(&head, false);
    bool tied = head.output.data == head.embedding.data, converted = conversion_awaits(&head.output);
    l->by_reference = l->keeps; // of a backend of two, one has the embedding and the other the output
    Status status = make(l, &head, sizeof head, error);
    if (!status && model->file_layers && engine->part.is_last)
        status = make(l, &model->file_output, sizeof model->file_output, error);
    output[0] = head.output;
    if (!status && engine->part.is_last) status = convert(l, model->shape.n_layers, output, error);
    if (status) return status;
    if (model->tied_head) l->done = 0; // the embedding's bytes count once
    head.output = output[0];
    if (!engine->part.is_first) head = part_weights_head(&head, true);
    status = engine->backend->ops->load_head(engine->backend, &head, &engine->forward.head, error);
    read_in(l, &head.embedding);
    read_in(l, &head.positions);
    if (!tied && !converted) read_in(l, &head.output);
    drop(l);
    return status;
}

static Status load_layer(Loading *l, int index, Error *error) {
    Engine *engine = l->engine;
    const Model *model = engine->model;
    LayerWeights layer = model->layers[index];
    const LayerWeights *own = model->file_layers ? &model->file_layers[index] : &model->layers[index];
    Matrix held[CONVERSION_MATRICES];
    bool converted[CONVERSION_MATRICES];
    Status status = report(l, error);
    if (status) return status;
    if (index < engine->part.first || index >= engine->part.first + engine->part.n) // another process has it
        return engine->backend->ops->load_layer(engine->backend, &layer, &engine->forward.layers[index],
                                                error);
    if (!engine->part.is_first) weight_sums_reach(engine->sums, index);
    l->by_reference = backend_maps(engine->backend, index);
    conversion_matrices(model, index, held, (Matrix[CONVERSION_MATRICES]){0});
    for (int i = 0; i < CONVERSION_MATRICES; i++) converted[i] = conversion_awaits(&held[i]);
    status = make(l, own, sizeof *own, error);
    if (!status) status = convert(l, index, held, error);
    conversion_put(held, &layer);
    if (!status)
        status =
            engine->backend->ops->load_layer(engine->backend, &layer, &engine->forward.layers[index], error);
    for (int i = 0; i < CONVERSION_MATRICES && !status; i++)
        if (!converted[i]) read_in(l, &held[i]);
    drop(l);
    if (status && status != STATUS_INTERRUPTED)
        error_prefix(error, "layer %d: ", layer_of_files(&model->shape, index));
    return status;
}

Status loading_run(Engine *engine, const EngineOptions *options, Error *error) {
    const int n_layers = engine->model->shape.n_layers;
    Loading l = {.engine = engine,
                 .progress = &options->progress,
                 .keeps = backend_maps_any(engine->backend),
                 .made_up = options->random_weights};
    engine->forward.layers = calloc((size_t)n_layers, sizeof(Layer *));
    if (!engine->forward.layers) return error_set(error, STATUS_MEMORY, "no memory for %d layers", n_layers);
    const SmoothingOptions smoothing = {options->n_threads, &options->progress, options->keeps_trials};
    Status status = l.made_up ? STATUS_OK : smoothing_measure(engine->model, &smoothing, error);
    if (!status) status = begin_converting(&l, options->n_threads, error);
    if (!status) status = load_head(&l, error);
    const EnginePart *part = &engine->part;
    const int first = part->is_first ? 0 : part->first,
              end = part->is_first ? n_layers : part->first + part->n;
    for (int i = first; i < end && !status; i++) status = load_layer(&l, i, error);
    l.done = engine->model->weight_bytes;
    if (!status) status = report(&l, error);
    end_converting(&l);
    return status;
}
