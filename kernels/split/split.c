// The ops of a backend of two sides: each is the op of the side where its layer runs, with x brought there.
#include "kernels/split/split_internal.h"

#include "kernels/base/clock.h"

#include <stdio.h>

// ---- about both -------------------------------------------------------------------------------------------

static void split_describe(const Backend *backend, char *text, size_t size) {
    const Split *s = (const Split *)backend;
    const Backend *one = s->sides[SPLIT_FIRST], *two = s->sides[SPLIT_SECOND];
    char how[SPLIT_SIDES][128];
    one->ops->describe(one, how[SPLIT_FIRST], sizeof how[0]);
    two->ops->describe(two, how[SPLIT_SECOND], sizeof how[0]);
    snprintf(text, size, "%s%s %d of %d layers, %s %d (%s; %s)", s->device, s->experts ? ", experts of" : "",
             s->n_layers - s->border, s->n_layers, one->ops->name, s->border, how[SPLIT_SECOND],
             how[SPLIT_FIRST]);
}

// Of the second side, as scratch: the first is the host's, which is planned beside it.
static void split_memory(const Backend *backend, int64_t *total, int64_t *available) {
    const Backend *two = split_side(backend, SPLIT_SECOND);
    two->ops->memory(two, total, available);
}

static int64_t split_scratch_bytes(const Backend *backend, int n_rows, int n_slots) {
    const Backend *two = split_side(backend, SPLIT_SECOND);
    return two->ops->scratch_bytes(two, n_rows, n_slots);
}

// ---- a step -----------------------------------------------------------------------------------------------

SplitTimes split_times(const Backend *backend) {
    return ((const Split *)backend)->times;
}

void split_time_begin(Split *s) {
    s->counted = clock_seconds();
    s->spent = (SplitTimes){{0}};
}

void split_time_spent(Split *s, int side) {
    const double now = clock_seconds();
    s->spent.seconds[side] += now - s->counted;
    s->counted = now;
}

void split_waited(Split *s) {
    if (s->counted == 0) return;
    split_time_spent(s, SPLIT_SECOND);
    if (s->n_tokens == 1) s->times = s->spent;
    s->counted = 0;
}

Status split_cross(Split *s, int side, const void *x, Error *error) {
    const int from = s->x_side;
    if (from == side || s->x_shared) return STATUS_OK;
    const size_t bytes = (size_t)s->n_tokens * (size_t)s->shapes[side].hidden_size * sizeof *s->staging;
    Status status =
        split_ops(s, from)->read(s->sides[from], s->staging, split_memory_at(s, from, x), bytes, error);
    if (!status)
        status =
            split_ops(s, side)->write(s->sides[side], split_memory_at(s, side, x), s->staging, bytes, error);
    if (status) return status;
    s->x_shared = true;
    split_time_spent(s, from);
    return STATUS_OK;
}

Step split_step_at(const Split *s, int side, const Step *step) {
    Step own = *step;
    own.slot_positions = split_memory_at(s, side, step->slot_positions);
    return own;
}

// Both sides know the step, each with its own record of positions. `kv` speaks of the cache's type and strides.
static Status split_begin(Backend *backend, const Step *step, const KvLayer *kv, Error *error) {
    Split *s = split_of(backend);
    split_time_begin(s);
    Status status = split_visit_settle(s, error);
    if (!status) status = split_visit_begin(s, step, error);
    for (int side = 0; side < SPLIT_SIDES && !status; side++) {
        const Step own = split_step_at(s, side, step);
        status = split_ops(s, side)->begin(s->sides[side], &own, kv, error);
    }
    if (!status) s->n_tokens = step->n_tokens;
    return status;
}

// Whether the ops of a layer, or with the border's those behind all layers, are to do nothing, in the part of the step
// that is in hand.
static bool is_left_out(const Split *s, int layer) {
    return s->part != PART_BOTH && (layer < s->border) != (s->part == PART_FIRST);
}

// The layer in hand as the side knows it where it runs.
static Layer *own_layer(const Split *s, const Layer *layer) {
    return s->visits && !layer->experts ? s->visiting.guest : layer->own;
}
static KvLayer own_kv(const Split *s, const KvLayer *kv) {
    return s->visits && !s->experts ? split_guest_kv(s, kv) : split_kv_at(s, s->side, kv);
}

static Status split_embed(Backend *backend, const Head *head, void *x, Error *error) {
    Split *s = split_of(backend);
    if (is_left_out(s, 0)) return STATUS_OK;
    split_x_changes(s, SPLIT_FIRST);
    return split_ops(s, SPLIT_FIRST)
        ->embed(s->sides[SPLIT_FIRST], head->own[SPLIT_FIRST], split_memory_at(s, SPLIT_FIRST, x), error);
}

// The layer's first op begins: where it runs, and x is there.
static Status enter_layer(Split *s, const Layer *layer, const void *x, Error *error) {
    s->left_out = is_left_out(s, layer->index);
    s->visits = layer->guest >= 0 && s->part == PART_BOTH && s->visiting.now;
    s->side = s->visits ? SPLIT_SECOND : layer->side;
    return s->left_out ? STATUS_OK : split_cross(s, s->side, x, error);
}

static Status split_qkv(Backend *backend, const Layer *layer, const void *x, const KvLayer *kv, void *q,
                        Error *error) {
    Split *s = split_of(backend);
    Status status = enter_layer(s, layer, x, error);
    const int side = s->side;
    if (s->left_out) return STATUS_OK;
    if (!status && s->visits && !layer->experts) status = split_visit_enter(s, layer, kv, error);
    if (status) return status;
    const KvLayer own = own_kv(s, kv);
    return split_ops(s, side)->qkv(s->sides[side], own_layer(s, layer), split_activations_at(s, side, x),
                                   &own, split_activations_at(s, side, q), error);
}

// Where qkv() of the layer was.
static Status split_attend(Backend *backend, const void *q, const KvLayer *kv, int window, void *y,
                           Error *error) {
    Split *s = split_of(backend);
    const int side = s->side;
    if (s->left_out) return STATUS_OK;
    const KvLayer own = own_kv(s, kv);
    s->kv_in_hand = kv;
    return split_ops(s, side)->attend(s->sides[side], split_activations_at(s, side, q), &own, window,
                                      split_activations_at(s, side, y), error);
}

static Status split_out(Backend *backend, const Layer *layer, const void *y, void *x, Error *error) {
    Split *s = split_of(backend);
    const int side = s->side;
    if (s->left_out) return STATUS_OK;
    split_x_changes(s, side);
    return split_ops(s, side)->out(s->sides[side], own_layer(s, layer), split_activations_at(s, side, y),
                                   split_activations_at(s, side, x), error);
}

static Status split_gate_up(Backend *backend, const Layer *layer, const void *x, void *g, Error *error) {
    Split *s = split_of(backend);
    if (layer_heads(&s->shapes[SPLIT_SECOND], layer->index).no_mixer) {
        const Status status = enter_layer(s, layer, x, error);
        if (status) return status;
    }
    const int side = s->side;
    if (s->left_out) return STATUS_OK;
    if (layer->experts) return split_experts_gate_up(s, layer, x, g, error);
    return split_ops(s, side)->gate_up(s->sides[side], own_layer(s, layer), split_activations_at(s, side, x),
                                       split_activations_at(s, side, g), error);
}

static Status split_down(Backend *backend, const Layer *layer, const void *g, void *x, Error *error) {
    Split *s = split_of(backend);
    const int side = s->side;
    if (s->left_out) return STATUS_OK;
    if (layer->experts) return split_experts_down(s, layer, g, x, error);
    split_x_changes(s, side);
    Status status =
        split_ops(s, side)->down(s->sides[side], own_layer(s, layer), split_activations_at(s, side, g),
                                 split_activations_at(s, side, x), error);
    return status || !s->visits ? status : split_visit_leave(s, layer, s->kv_in_hand, error);
}

static Status split_logits(Backend *backend, const Head *head, const void *x, const LogitRows *rows,
                           float *logits, Error *error) {
    Split *s = split_of(backend);
    if (is_left_out(s, s->border)) return STATUS_OK;
    Status status = split_cross(s, SPLIT_SECOND, x, error);
    if (status) return status;
    return split_ops(s, SPLIT_SECOND)
        ->logits(s->sides[SPLIT_SECOND], head->own[SPLIT_SECOND], split_activations_at(s, SPLIT_SECOND, x),
                 rows, split_activations_at(s, SPLIT_SECOND, logits), error);
}

static Status split_sample(Backend *backend, const float *logits, int n_rows, const SampleParams *params,
                           int32_t *ids, Error *error) {
    Split *s = split_of(backend);
    Status status = split_ops(s, SPLIT_SECOND)
                        ->sample(s->sides[SPLIT_SECOND], split_memory_at(s, SPLIT_SECOND, logits), n_rows,
                                 params, ids, error);
    split_waited(s);
    return status;
}

// q and g are where the layer in hand attends.
static Status split_read_floats(Backend *backend, const void *activations, int64_t n, float *host,
                                Error *error) {
    Split *s = split_of(backend);
    const int side = s->side;
    return split_ops(s, side)->read_floats(s->sides[side], split_memory_at(s, side, activations), n, host,
                                           error);
}

// ---- profiles -----------------------------------------------------------------------------------------------

// The second side's clock is for both: where the first is the CPU, its ops are done when they return.
static Status split_stamp(Backend *backend, int i, Error *error) {
    Split *s = split_of(backend);
    return split_ops(s, SPLIT_SECOND)->stamp(s->sides[SPLIT_SECOND], i, error);
}

static Status split_stamp_seconds(Backend *backend, int n, double *seconds, Error *error) {
    Split *s = split_of(backend);
    return split_ops(s, SPLIT_SECOND)->stamp_seconds(s->sides[SPLIT_SECOND], n, seconds, error);
}

static Status split_softmax_counts(Backend *backend, SoftmaxCounts *counts, Error *error) {
    Split *s = split_of(backend);
    *counts = (SoftmaxCounts){0};
    Status status = STATUS_OK;
    for (int side = 0; side < SPLIT_SIDES && !status; side++) {
        SoftmaxCounts own;
        status = split_ops(s, side)->softmax_counts(s->sides[side], &own, error);
        if (!status) counts->parts += own.parts, counts->again += own.again;
    }
    return status;
}

// One side after the other; of a mixture of experts of which only these lie on the host the bytes are theirs in the main.
static double split_step_seconds(const Backend *backend, double bytes, int n) {
    const Split *s = (const Split *)backend;
    double seconds = 0;
    for (int i = 0; i < SPLIT_SIDES; i++) {
        const Backend *side = s->sides[i];
        const int layers = i == SPLIT_FIRST ? s->border : s->n_layers - s->border;
        if (!side->ops->step_seconds) return bytes; // any n alike: nothing is gained, and nothing guessed
        seconds += side->ops->step_seconds(side, bytes * layers / s->n_layers, n);
    }
    return seconds;
}

const Ops SPLIT_OPS = {
    .name = "split",
    .activation_bytes = sizeof(float),
    .chunk = 512, // as the CPU's
    .w8 = true,
    .close = split_close,
    .describe = split_describe,
    .memory = split_memory,
    .scratch_bytes = split_scratch_bytes,
    .alloc = split_memory_alloc,
    .alloc_layers = split_memory_alloc_layers,
    .free = split_memory_free,
    .write = split_memory_write,
    .read = split_memory_read,
    .read_floats = split_read_floats,
    .load_layer = split_load_layer,
    .load_head = split_load_head,
    .begin = split_begin,
    .embed = split_embed,
    .qkv = split_qkv,
    .attend = split_attend,
    .out = split_out,
    .gate_up = split_gate_up,
    .down = split_down,
    .logits = split_logits,
    .cache_attention = split_cache_attention,
    .copy_slots = split_copy_slots,
    .shift_keys = split_shift_keys,
    .decode = split_decode,
    .sample = split_sample,
    .stamp = split_stamp,
    .stamp_seconds = split_stamp_seconds,
    .softmax_counts = split_softmax_counts,
    .step_seconds = split_step_seconds,
};
