// The pool itself: its memory. Sequences take, share and give back its pages in kv_sequence.c (take_page, release_page),
// which drops branches (kv_branch.c) where none is free.
#include "engine/cache/kv_cache.h"

#include <stdlib.h>
#include <string.h>

enum {
    WHOLE_SLOTS = 0, // layouts: kernels/kv_layout.h
    WHOLE_ROWS = 2,
    HEADS_APART = 3,
    SLOT_ALIGNMENT = 64
}; // slots of a cache of one page come in such numbers, so that every layer is aligned

CacheOptions cache_options(DType type) {
    return (CacheOptions){.type = type, .layout = 3, .page_size = 64, .n_sequences = 1};
}

static int64_t page_size_of(const CacheOptions *o, int context_size) {
    return o->paged ? o->page_size
                    : ((int64_t)context_size + SLOT_ALIGNMENT - 1) / SLOT_ALIGNMENT * SLOT_ALIGNMENT;
}

// Of 4 bits in smaller groups: 5 bits an element with its share of a scale. MEASUREMENTS.md has what that costs.
static int group_of(const CacheOptions *o, int head_dim) {
    if (o->type != DTYPE_INT8 && o->type != DTYPE_INT4) return 0;
    if (o->group > 0) return o->group;
    int group = o->type == DTYPE_INT8 ? 32 : 16;
    while (group > 2 && head_dim % group != 0) group /= 2;
    return group;
}

// Those behind them borrow keys and values, and no layer that recurs or has no mixer has any.
static int own_layers(const DecoderShape *shape) {
    int n = shape->n_layers;
    while (shape->heads_of_layers && n > 1 && shape->heads_of_layers[n - 1].lender != n - 1) n--;
    return n - decoder_recurring(shape) - decoder_without_mixer(shape); // 0: none attends
}

// What divides the heads of all layers.
static int common_size(const DecoderShape *shape) {
    int size = shape->head_dim;
    for (int l = 0; shape->heads_of_layers && l < shape->n_layers; l++) {
        int other = shape->heads_of_layers[l].head_dim; // Euclid's
        while (other > 0) {
            const int rest = size % other;
            size = other, other = rest;
        }
    }
    return size;
}

Status kv_cache_layout(const CacheOptions *o, const DecoderShape *shape, int context_size, KvLayout *layout,
                       Error *error) {
    if (o->n_sequences < 1 || (o->paged && o->page_size < 1))
        return error_set(error, STATUS_USAGE, "a cache for %d sequences in pages of %d", o->n_sequences,
                         o->page_size);
    int64_t page = page_size_of(o, context_size), pages = (context_size + page - 1) / page;
    *layout = (KvLayout){
        // Where layers' heads differ, a slot has room for the widest: rows of all heads must then be whole.
        .layout = decoder_heads_differ(shape) ? WHOLE_ROWS : o->layout,
        .n_layers = own_layers(shape),
        .n_kv_heads = (int)((decoder_kv_width(shape) + shape->head_dim - 1) / shape->head_dim),
        .head_dim = shape->head_dim,
        .n_slots = pages * page * o->n_sequences,
        .type = o->type,
        .group = group_of(o, common_size(shape)),
        .scale_type = DTYPE_F16,
        .one_plane = shape->latent.rank > 0,
        .n_recurring = decoder_recurring(shape),
    };
    if (layout->n_recurring) {
        layout->n_states = kv_states_count(o->n_sequences);
        layout->state_floats = delta_state_floats(&shape->delta);
    }
    if (layout->n_slots > INT32_MAX)
        return error_set(error, STATUS_USAGE, "a cache of %lld slots; at most %d", (long long)layout->n_slots,
                         INT32_MAX);
    return kv_layout_check(layout, error);
}

int64_t kv_cache_bytes(const KvLayout *layout) {
    return kv_layout_bytes(layout) + kv_layout_scale_bytes(layout) +
           kv_layout_states_bytes(layout) * layout->n_recurring + layout->n_slots * (int64_t)sizeof(int32_t);
}

static Status open_host(KvCache *cache, const DecoderShape *shape, Error *error) {
    const int n_layers = shape->n_layers;
    const bool apart = cache->layout.n_recurring || decoder_without_mixer(shape);
    size_t n_pages = (size_t)cache->n_pages;
    cache->layers = calloc((size_t)n_layers, sizeof *cache->layers);
    if (apart) { // one more, for there may be none
        cache->apart = calloc((size_t)cache->layout.n_layers + 1, sizeof *cache->apart);
        if (!cache->apart)
            return error_set(error, STATUS_MEMORY, "no memory for the tables of %d layers",
                             cache->layout.n_layers);
    }
    if (cache->layout.n_recurring) {
        cache->state_references = calloc((size_t)cache->layout.n_states, sizeof *cache->state_references);
        if (!cache->state_references)
            return error_set(error, STATUS_MEMORY, "no memory for the tables of %d states",
                             cache->layout.n_states);
    }
    cache->references = calloc(n_pages, sizeof *cache->references);
    cache->free_pages = malloc(n_pages * sizeof *cache->free_pages);
    cache->copies = malloc(2 * (size_t)cache->page_size * sizeof *cache->copies);
    cache->branches = calloc(n_pages, sizeof *cache->branches);
    if (!cache->layers || !cache->references || !cache->free_pages || !cache->copies || !cache->branches)
        return error_set(error, STATUS_MEMORY, "no memory for the tables of %d pages", cache->n_pages);
    for (int i = 0; i < cache->n_pages; i++)
        cache->free_pages[i] = cache->n_pages - 1 - i; // the first goes first
    cache->n_free = cache->n_pages;
    return STATUS_OK;
}

// Memory in which the layers lie one behind the other, or, in the layout of whole slots, through each other.
static Status alloc_layers(const KvCache *cache, int64_t bytes, void **memory, Error *error) {
    const Ops *ops = cache->backend->ops;
    const KvLayout *l = &cache->layout;
    if (l->n_layers == 0) return STATUS_OK; // of no bytes
    const int n_parts = l->layout == WHOLE_SLOTS ? 1 : l->n_layers;
    // A head's piece: of one slot, or, where heads lie apart, of all.
    const int64_t slots = l->layout == HEADS_APART ? l->n_slots : 1,
                  pieces = (int64_t)kv_layout_planes(l) * l->n_layers * l->n_kv_heads * (l->n_slots / slots);
    if (!ops->alloc_layers) return ops->alloc(cache->backend, (size_t)bytes, memory, error);
    return ops->alloc_layers(cache->backend, (size_t)bytes, n_parts, (size_t)(bytes / pieces), memory, error);
}

static Status open_memory(KvCache *cache, Error *error) {
    const Ops *ops = cache->backend->ops;
    const KvLayout *layout = &cache->layout;
    Status status = alloc_layers(cache, kv_layout_bytes(layout), &cache->memory, error);
    if (!status && layout->group)
        status = alloc_layers(cache, kv_layout_scale_bytes(layout), &cache->scales, error);
    void *positions = NULL;
    if (!status)
        status = ops->alloc(cache->backend, (size_t)layout->n_slots * sizeof(int32_t), &positions, error);
    cache->slot_positions = positions;
    if (!status && layout->n_recurring)
        status = ops->alloc(cache->backend, (size_t)(kv_layout_states_bytes(layout) * layout->n_recurring),
                            &cache->states, error);
    return status;
}

// The layers' learned attention sinks, which stand beside what they attend to.
static Status open_sinks(KvCache *cache, const DecoderShape *shape, Error *error) {
    const Ops *ops = cache->backend->ops;
    const size_t bytes = (size_t)shape->n_layers * (size_t)shape->n_heads * sizeof(float);
    if (!shape->sink_scores) return STATUS_OK;
    Status status = ops->alloc(cache->backend, bytes, &cache->sink_scores, error);
    return status ? status : ops->write(cache->backend, cache->sink_scores, shape->sink_scores, bytes, error);
}

// A layer's own heads, one behind the other in the row of its slot.
static void take_heads(LayerHeads heads, KvLayer *kv) {
    kv->n_kv_heads = heads.n_kv_heads, kv->head_dim = heads.head_dim, kv->head_stride = heads.head_dim;
    kv->convolves = heads.convolves;
}

// One that has slots of its own, the i-th of these.
static KvLayer stored_layer(const KvCache *cache, const DecoderShape *shape, int layer, int i) {
    KvLayer kv = kv_layout_layer(&cache->layout, cache->memory, cache->scales, i);
    kv.rope = shape->rope.of_layers ? shape->rope.of_layers[layer] : 0;
    if (decoder_heads_differ(shape)) take_heads(shape->heads_of_layers[layer], &kv);
    kv.rotate_keys = cache->layout.type == DTYPE_INT4 && !kv.convolves;
    if (cache->sink_scores)
        kv.sink_scores = (const float *)cache->sink_scores + (int64_t)layer * shape->n_heads;
    return kv;
}

// Of one that has no slots.
static KvLayer slotless_layer(float *states) {
    return (KvLayer){.type = DTYPE_F32, .rope = -1, .recurs = true, .states = states};
}

// The i-th that recurs.
static KvLayer recurring_layer(const KvCache *cache, int i) {
    const KvLayout *l = &cache->layout;
    return slotless_layer((float *)cache->states + l->state_floats * l->n_states * i);
}

static void lay_out_layers(KvCache *cache, const DecoderShape *shape) {
    int n_stored = 0, n_recurring = 0;
    for (int l = 0; l < shape->n_layers; l++) {
        const LayerHeads heads = layer_heads(shape, l);
        KvLayer *kv = &cache->layers[l];
        if (heads.recurs) {
            *kv = recurring_layer(cache, n_recurring++);
        } else if (heads.no_mixer) {
            *kv = slotless_layer(NULL);
        } else if (heads.lender != l) {
            *kv = cache->layers[heads.lender];
            kv->borrowed = true;
        } else {
            *kv = stored_layer(cache, shape, l, n_stored);
            if (cache->apart) cache->apart[n_stored] = *kv;
            n_stored++;
        }
    }
}

Status kv_cache_open(Backend *backend, const CacheOptions *options, const DecoderShape *shape,
                     int context_size, KvCache *cache, Error *error) {
    *cache = (KvCache){.backend = backend,
                       .context_size = context_size,
                       .paged = options->paged,
                       .position_limit = INT32_MAX};
    Status status = kv_cache_layout(options, shape, context_size, &cache->layout, error);
    if (status) return status;
    cache->page_size = (int)page_size_of(options, context_size);
    cache->n_pages = (int)(cache->layout.n_slots / cache->page_size);
    cache->kept_marks = kv_states_kept(options->n_sequences);
    status = open_host(cache, shape, error);
    if (!status) status = open_memory(cache, error);
    if (!status) status = open_sinks(cache, shape, error);
    if (status) {
        kv_cache_close(cache);
        return error_prefix(error, "KV cache of %d tokens: ", context_size);
    }
    lay_out_layers(cache, shape);
    return STATUS_OK;
}

void kv_cache_close(KvCache *cache) {
    while (kv_branch_drop(cache)) continue;
    if (cache->memory) cache->backend->ops->free(cache->backend, cache->memory);
    if (cache->scales) cache->backend->ops->free(cache->backend, cache->scales);
    if (cache->key_rounding) cache->backend->ops->free(cache->backend, cache->key_rounding);
    if (cache->sink_scores) cache->backend->ops->free(cache->backend, cache->sink_scores);
    if (cache->score_bases) cache->backend->ops->free(cache->backend, cache->score_bases);
    if (cache->slot_positions) cache->backend->ops->free(cache->backend, cache->slot_positions);
    if (cache->states) cache->backend->ops->free(cache->backend, cache->states);
    free(cache->layers);
    free(cache->apart);
    free(cache->state_references);
    free(cache->references);
    free(cache->free_pages);
    free(cache->copies);
    free(cache->branches);
    *cache = (KvCache){0};
}
