// The memory plan: what weights, cache and scratch take of a device, counted before anything is allocated, and how long a
// context fits beside them. Declared in engine.h (what is printed) and engine_internal.h.
#include "engine/engine_internal.h"

#include "kernels/base/text/format.h"
#include "kernels/shards/shard_ops.h"
#include "kernels/shards/shards.h"
#include "kernels/split/split.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    SPARED_SHARE = 16,         // of the memory that is left, where the cache could take all
    SMALLEST_CONTEXT = 512,    // below this a fitted context is refused rather than cut further
    LARGEST_CONTEXT = 1 << 24, // slots and positions stay far from overflow
    SPARED_OF_DEVICE =
        32, // the share of a device's memory that layers leave for what its driver takes by the way
    BESIDE_CONTEXT = 4096, // where layers go to the CPU for want of room, and no context was asked for
    NAMED_CONTEXT = 64,    // a context that is named as one that fits is a multiple of this
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

// Bytes of scratch for sequences of `size` tokens, activations included.
static int64_t scratch_of(const Engine *engine, const Backend *on, const BackendOptions *backend,
                          int64_t size) {
    return on->ops->scratch_bytes(on, engine->n_rows, (int)size) +
           forward_bytes(&engine->model->shape, on->ops->activation_bytes, backend->max_tokens,
                         backend->max_logits);
}

// Bytes that are left for a cache of sequences of `size` tokens: what is free without weights, scratch, and what a
// cache of its type takes besides. Of a backend of two, what the scarcer side has room for, in proportion.
static int64_t left_for_cache(Engine *engine, const BackendOptions *backend, int64_t size) {
    const DecoderShape *shape = &engine->model->shape;
    const Backend *host = split_side(engine->backend, SPLIT_FIRST);
    EngineMemory *m = &engine->memory;
    m->scratch = scratch_of(engine, engine->backend, backend, size);
    int64_t besides = 0;
    if (calibration_is_wanted(shape, engine->cache_options.type, &engine->calibration))
        besides = calibration_result_bytes(shape, engine->cache_options.type, &engine->calibration) +
                  calibration_bytes(shape);
    if (!host) return m->available - m->weights - m->scratch - besides;
    m->host_scratch = scratch_of(engine, host, backend, size);
    const int64_t room = split_visit_room(engine->backend, engine->model->layers); // with a cache's layer
    const bool all_cached = split_has_experts(engine->backend);                    // by the device
    const int device_parts = all_cached ? m->n_layers : m->n_layers - m->host_layers + (room > 0);
    m->scratch += room;
    besides += size * (int64_t)sizeof(int32_t) + trial_bytes(shape); // both sides keep all positions
    const int64_t spared = engine->fits_layers ? m->available / SPARED_OF_DEVICE : 0,
                  of_device = m->available - m->weights - m->scratch - besides - spared,
                  of_host = m->host_available - m->host_weights - m->host_scratch - besides;
    const int64_t by_device = of_device / device_parts * m->n_layers,
                  by_host = !all_cached   ? of_host / m->host_layers * m->n_layers
                            : of_host < 0 ? of_host
                                          : by_device;
    engine->host_is_scarce = by_host < by_device;
    return by_device < by_host ? by_device : by_host;
}

static bool is_host(const Backend *b) {
    return strcmp(b->ops->name, ops_cpu()->name) == 0;
}

// Of the host's memory, that another engine will come to touch.
static int64_t promised(const Engine *other) {
    if (!other || !is_host(other->backend)) return 0;
    return other->memory.weights + other->memory.cache + other->memory.scratch;
}

// What is free, and what weights take of it.
static void count_weights(Engine *engine, const Engine *beside) {
    Backend *b = engine->backend, *host = split_side(b, SPLIT_FIRST);
    const Model *model = engine->model;
    EngineMemory *m = &engine->memory;
    int64_t total = 0, bytes[SPLIT_SIDES];
    *m = (EngineMemory){.n_layers = model->shape.n_layers};
    b->ops->memory(b, &total, &m->available);
    if (is_host(b)) m->available -= promised(beside);
    if (!host) {
        m->weights = b->ops->weight_bytes ? b->ops->weight_bytes(b, model->layers, &model->head)
                                          : model_weight_bytes(model);
        return;
    }
    m->host_layers = split_border(b), m->only_experts = split_has_experts(b);
    host->ops->memory(host, &total, &m->host_available);
    m->host_available -= promised(beside);
    split_weight_bytes(b, model->layers, &model->head, bytes);
    m->host_weights = bytes[SPLIT_FIRST], m->weights = bytes[SPLIT_SECOND];
}

// ---- a context that would fit ---------------------------------------------------------------------------

typedef bool FitsFunction(Engine *engine, const BackendOptions *backend, int size);

// The longest context below the planned one that fits; 0: not even the shortest does.
static int longest_context(Engine *engine, const BackendOptions *backend, FitsFunction *fits) {
    int most = 0, beyond = engine->context_size / NAMED_CONTEXT + 1; // in multiples
    while (beyond - most > 1) {
        const int middle = most + (beyond - most) / 2;
        if (fits(engine, backend, middle * NAMED_CONTEXT))
            most = middle;
        else
            beyond = middle;
    }
    return most * NAMED_CONTEXT;
}

// With a part to spare, for what is free now may not all be free at the next start.
static bool is_planned(Engine *engine, const BackendOptions *backend, int size) {
    const EngineMemory planned = engine->memory;
    const bool host_is_scarce = engine->host_is_scarce;
    const int64_t left = left_for_cache(engine, backend, size);
    KvLayout layout;
    engine->memory = planned, engine->host_is_scarce = host_is_scarce;
    return !kv_cache_layout(&engine->cache_options, &engine->model->shape, size, &layout, NULL) &&
           kv_cache_bytes(&layout) <= left - left / SPARED_SHARE;
}

// Likewise.
static bool is_allocated(Engine *engine, const BackendOptions *backend, int size) {
    KvCache cache;
    Error ignored;
    (void)backend;
    const Status status = kv_cache_open(engine->backend, &engine->cache_options, &engine->model->shape,
                                        size + size / SPARED_SHARE, &cache, &ignored);
    if (!status) kv_cache_close(&cache);
    return !status;
}

Status memory_plan_refused(Engine *engine, Error *error) {
    const Error why = *error;
    const int smaller = longest_context(engine, NULL, is_allocated);
    if (!smaller) return why.status;
    return error_set(error, why.status, "%s; use --context %d, which fits", why.message, smaller);
}

static Status too_large(Engine *engine, const BackendOptions *backend, Error *error) {
    const EngineMemory *m = &engine->memory;
    const int on_device = m->n_layers - m->host_layers,
              smaller = longest_context(engine, backend, is_planned);
    const int64_t of_device = m->cache - m->host_cache;
    char need[FORMAT_ROOM], have[FORMAT_ROOM], fixed[FORMAT_ROOM], host_need[FORMAT_ROOM],
        host_have[FORMAT_ROOM], fitting[48] = "";
    format_bytes((double)(m->weights + m->scratch + of_device), need);
    format_bytes((double)m->available, have);
    format_bytes((double)m->weights, fixed);
    if (smaller) snprintf(fitting, sizeof fitting, "--context %d, which fits, ", smaller);
    if (!m->host_layers)
        return error_set(
            error, STATUS_MEMORY,
            "%s is needed (weights %s, context of %d tokens), %s is free; use %sa smaller or more "
            "strongly quantised model, or close other programs",
            need, fixed, engine->context_size, have, fitting);
    format_bytes((double)(m->host_weights + m->host_scratch + m->host_cache), host_need);
    format_bytes((double)m->host_available, host_have);
    return error_set(error, STATUS_MEMORY,
                     "with %s%d of %d layers on the device %s is needed there, %s is free, and %s of memory, "
                     "%s is free (context of %d tokens); use %sfewer --%s-layers, or a smaller model",
                     m->only_experts ? "experts of " : "", on_device, m->n_layers, need, have, host_need,
                     host_have, engine->context_size, fitting, m->only_experts ? "expert" : "gpu");
}

// What of the plan each of several cards takes.
static void plan_cards(Engine *engine) {
    EngineMemory *m = &engine->memory;
    const Model *model = engine->model;
    const ShardNeeds needs = {.layers = model->layers,
                              .head = &model->head,
                              .n_rows = engine->n_rows,
                              .n_slots = engine->context_size,
                              .cache = m->cache};
    ShardMemory cards[SHARDS_MOST];
    static_assert((int)SHARDS_MOST == (int)ENGINE_CARDS_MOST, "every card is told of");
    m->n_cards = shards_count(engine->backend);
    if (m->n_cards > 0) shards_memory_plan(engine->backend, &needs, cards);
    for (int i = 0; i < m->n_cards; i++) {
        const ShardMemory *from = &cards[i];
        EngineCard *to = &m->cards[i];
        *to = (EngineCard){"", from->weights, from->cache, from->scratch, from->available};
        memcpy(to->name, from->name, sizeof to->name);
    }
}

// For the layers where they are now.
static Status plan_placed(Engine *engine, const EngineOptions *options, const BackendOptions *backend,
                          Error *error) {
    const DecoderShape *shape = &engine->model->shape;
    EngineMemory *m = &engine->memory;
    const bool fits_context = options->context_size <= 0 && !engine->fits_layers;
    count_weights(engine, options->beside);
    int64_t wanted = options->context_size > 0 ? options->context_size : engine->model->context_length;
    if (wanted > LARGEST_CONTEXT) wanted = LARGEST_CONTEXT;
    if (engine->fits_layers && options->context_size <= 0 && wanted > BESIDE_CONTEXT) wanted = BESIDE_CONTEXT;
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
    while (!status && fits_context && size > SMALLEST_CONTEXT && kv_cache_bytes(&layout) > left) {
        size = size / 2 > SMALLEST_CONTEXT ? size / 2 : SMALLEST_CONTEXT;
        left = left_for_cache(engine, backend, size);
        status = kv_cache_layout(&engine->cache_options, shape, (int)size, &layout, error);
    }
    if (status) return status;
    engine->context_size = (int)size;
    if (engine->n_rows > 1) status = fit_windows(engine, options->cache.n_sequences, left, &layout, error);
    if (status) return status;
    m->cache = kv_cache_bytes(&layout) + calibrated;
    m->host_cache = m->only_experts ? 0 : m->cache / m->n_layers * m->host_layers;
    if (m->host_layers && !m->only_experts && split_visit_room(engine->backend, engine->model->layers))
        m->scratch += m->cache / m->n_layers;
    plan_cards(engine);
    return kv_cache_bytes(&layout) <= left ? STATUS_OK : too_large(engine, backend, error);
}

Status memory_plan(Engine *engine, const EngineOptions *options, const BackendOptions *backend,
                   Error *error) {
    const Backend *b = engine->backend;
    const bool divided = split_side(b, SPLIT_FIRST) && !split_has_experts(b); // also its cache
    if (divided && options->cache.layout == 0)
        return error_set(
            error, STATUS_USAGE,
            "[cache] layout 0 has all layers in one slot: they cannot lie on two backends; take 1, 2 or 3");
    Status status = plan_placed(engine, options, backend, error);
    const int most = engine->memory.n_layers - !engine->memory.only_experts;
    for (int border = 2; engine->fits_layers && status == STATUS_MEMORY && border <= most; border++) {
        split_set_border(engine->backend, border);
        status = plan_placed(engine, options, backend, error);
    }
    return status;
}
