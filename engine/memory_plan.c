// The memory plan: what weights, cache and scratch take of a device, counted before anything is allocated, and how long a
// context fits beside them. Declared in engine.h (what is printed) and engine_internal.h.
#include "engine/engine_internal.h"

#include "kernels/base/format.h"

enum {
    SPARED_SHARE = 16,         // of the memory that is left, where the cache could take all
    SMALLEST_CONTEXT = 512,    // below this a fitted context is refused rather than cut further
    LARGEST_CONTEXT = 1 << 24, // slots and positions stay far from overflow
};

// Of the context windows that are wanted as many as fit in `left` bytes, of which a part stays free for what a device
// takes by the way; one is there anyway. *layout becomes theirs.
static Status fit_windows(Engine *engine, int wanted, int64_t left, KvLayout *layout, Error *error) {
    int64_t fit = (left - left / SPARED_SHARE) / kv_cache_bytes(layout), most = INT32_MAX / layout->n_slots;
    if (fit > most) fit = most;
    if (fit > wanted) fit = wanted;
    engine->cache_options.n_sequences = fit > 1 ? (int)fit : 1;
    return kv_cache_layout(&engine->cache_options, &engine->model->shape, engine->context_size, layout,
                           error);
}

// Bytes that are left for a cache of sequences of `size` tokens: what is free without weights, scratch, and what a
// cache of its type takes besides.
static int64_t left_for_cache(Engine *engine, const BackendOptions *backend, int64_t size) {
    const Ops *ops = engine->backend->ops;
    const DecoderShape *shape = &engine->model->shape;
    EngineMemory *m = &engine->memory;
    m->scratch = ops->scratch_bytes(engine->backend, engine->n_rows, (int)size) +
                 forward_bytes(shape, ops->activation_bytes, backend->max_tokens, backend->max_logits);
    int64_t left = m->available - m->weights - m->scratch;
    if (calibration_is_wanted(shape, engine->cache_options.type, &engine->calibration))
        left -= calibration_result_bytes(shape, engine->cache_options.type, &engine->calibration) +
                calibration_bytes(shape);
    return left;
}

Status memory_plan(Engine *engine, const EngineOptions *options, const BackendOptions *backend,
                   Error *error) {
    const Ops *ops = engine->backend->ops;
    const DecoderShape *shape = &engine->model->shape;
    EngineMemory *m = &engine->memory;
    int64_t total = 0;
    ops->memory(engine->backend, &total, &m->available);
    m->weights = ops->weight_bytes
                     ? ops->weight_bytes(engine->backend, engine->model->layers, &engine->model->head)
                     : model_weight_bytes(engine->model);

    char need[FORMAT_ROOM], have[FORMAT_ROOM], fixed[FORMAT_ROOM];
    int64_t wanted = options->context_size > 0 ? options->context_size : engine->model->context_length;
    if (wanted > LARGEST_CONTEXT) wanted = LARGEST_CONTEXT;
    if (shape->n_positions > 0 && wanted > shape->n_positions)
        return error_set(error, STATUS_USAGE,
                         "a context of %lld tokens: the model has learned only %d positions",
                         (long long)wanted, shape->n_positions);
    if (engine->model->context_ends && wanted > engine->model->context_length)
        return error_set(
            error, STATUS_USAGE,
            "a context of %lld tokens: beyond %lld a %s model computes otherwise, which palaver cannot",
            (long long)wanted, (long long)engine->model->context_length, engine->model->architecture);
    const int64_t calibrated = calibration_result_bytes(shape, options->cache.type, &engine->calibration);
    KvLayout layout;
    engine->cache_options = options->cache;
    if (engine->n_rows > 1) engine->cache_options.n_sequences = 1; // the others once the size is settled
    int64_t size = wanted, left = left_for_cache(engine, backend, size);
    Status status = kv_cache_layout(&engine->cache_options, shape, (int)size, &layout, error);
    while (!status && options->context_size <= 0 && size > SMALLEST_CONTEXT &&
           kv_cache_bytes(&layout) > left) {
        size = size / 2 > SMALLEST_CONTEXT ? size / 2 : SMALLEST_CONTEXT;
        left = left_for_cache(engine, backend, size);
        status = kv_cache_layout(&engine->cache_options, shape, (int)size, &layout, error);
    }
    if (status) return status;
    engine->context_size = (int)size;
    if (engine->n_rows > 1) status = fit_windows(engine, options->cache.n_sequences, left, &layout, error);
    if (status) return status;
    m->cache = kv_cache_bytes(&layout) + calibrated;
    if (kv_cache_bytes(&layout) <= left) return STATUS_OK;
    format_bytes((double)(m->weights + m->scratch + m->cache), need);
    format_bytes((double)m->available, have);
    format_bytes((double)m->weights, fixed);
    return error_set(
        error, STATUS_MEMORY,
        "%s is needed (weights %s, context of %d tokens), %s is free; use a smaller --context, a smaller "
        "or more strongly quantised model, or close other programs",
        need, fixed, engine->context_size, have);
}
