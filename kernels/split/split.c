#include "kernels/split/split_internal.h"

#include "kernels/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- opening ----------------------------------------------------------------------------------------------

// Memory that the second side reaches without help, if it has any such.
static Status take_staging(Split *s, const BackendOptions *options, Error *error) {
    const size_t bytes =
        (size_t)options->max_tokens * (size_t)options->shape->hidden_size * sizeof *s->staging;
    Backend *two = s->sides[SPLIT_SECOND];
    const VisitOps *visits = two->ops->visits;
    void *memory = NULL;
    Error none;
    s->staging_pinned = visits && !visits->alloc_host(two, bytes, &memory, &none);
    s->staging = s->staging_pinned ? memory : malloc(bytes);
    return s->staging ? STATUS_OK : error_set(error, STATUS_MEMORY, "split: no memory to open");
}

static void free_staging(Split *s) {
    Backend *two = s->sides[SPLIT_SECOND];
    if (s->staging_pinned)
        two->ops->visits->free_host(two, s->staging);
    else
        free(s->staging);
}

static void split_close(Backend *backend) {
    if (!backend) return;
    Split *s = split_of(backend);
    while (s->n_areas > 0) split_memory_free(backend, s->areas[s->n_areas - 1].address);
    split_visit_close(s);
    free_staging(s);
    for (int side = 0; side < SPLIT_SIDES; side++)
        if (s->sides[side]) split_ops(s, side)->close(s->sides[side]);
    while (s->layers) {
        Layer *next = s->layers->next;
        free(s->layers);
        s->layers = next;
    }
    while (s->heads) {
        Head *next = s->heads->next;
        free(s->heads);
        s->heads = next;
    }
    free(s->areas);
    free(s->kv);
    free(s->parts);
    free(s->decode.layers);
    free(s->decode.kv);
    free(s);
}

static Status check_options(const SplitOptions *o, const BackendOptions *options, Error *error) {
    const DecoderShape *shape = options->shape;
    if (o->border < 1 || o->border >= shape->n_layers + o->experts)
        return error_set(error, STATUS_USAGE, "split: %d of %d layers on the first backend", o->border,
                         shape->n_layers);
    if (o->experts && shape->experts.n == 0)
        return error_set(error, STATUS_UNSUPPORTED, "split: the model has no experts that could lie apart");
    if ((shape->heads_of_layers && !o->experts) || shape->token_size)
        return error_set(error, STATUS_UNSUPPORTED,
                         "split: a model whose layers differ in more than their weights, recur, or have "
                         "embeddings of their "
                         "own, runs on one backend");
    for (int side = 0; side < SPLIT_SIDES; side++)
        if (o->ops[side]->activation_bytes != sizeof(float))
            return error_set(error, STATUS_UNSUPPORTED, "split: %s keeps x in %zu bytes", o->ops[side]->name,
                             o->ops[side]->activation_bytes);
    return STATUS_OK;
}

static Status open_side(Split *s, const SplitOptions *o, const BackendOptions *options, int side,
                        Error *error) {
    BackendOptions own = *options;
    s->shapes[side] = *options->shape;
    own.shape = &s->shapes[side];
    if (side == SPLIT_FIRST) own.device = o->first_device, own.dispatch = NULL;
    Status status = o->ops[side]->open(&own, &s->sides[side], error);
    if (status) s->sides[side] = NULL;
    return status;
}

// What a device is called in its own description, "cuda:0"; else by its table's name.
static void find_name(Split *s) {
    const Backend *two = s->sides[SPLIT_SECOND];
    const size_t n = strlen(two->ops->name);
    char how[256];
    two->ops->describe(two, how, sizeof how);
    const char *at = strstr(how, two->ops->name);
    const size_t digits = at && at[n] == ':' ? strspn(at + n + 1, "0123456789") : 0;
    snprintf(s->device, sizeof s->device, "%.*s", (int)(digits > 0 ? n + 1 + digits : n),
             digits > 0 ? at : two->ops->name);
}

static const Ops SPLIT_OPS; // the table below

Status split_open(const SplitOptions *o, const BackendOptions *options, Backend **out, Error *error) {
    const DecoderShape *shape = options->shape;
    *out = NULL;
    Status status = check_options(o, options, error);
    if (status) return status;
    Split *s = calloc(1, sizeof *s);
    if (!s) return error_set(error, STATUS_MEMORY, "split: no memory to open");
    s->base.ops = &SPLIT_OPS;
    s->n_layers = shape->n_layers;
    s->experts = o->experts;
    s->kv = calloc((size_t)shape->n_layers, sizeof *s->kv);
    s->parts = calloc((size_t)shape->n_layers, sizeof *s->parts);
    s->decode.layers = calloc((size_t)shape->n_layers, sizeof *s->decode.layers);
    s->decode.kv = calloc((size_t)shape->n_layers, sizeof *s->decode.kv);
    if (!s->kv || !s->parts || !s->decode.layers || !s->decode.kv)
        status = error_set(error, STATUS_MEMORY, "split: no memory to open");
    // The second first: what a card lacks is told before anything else is made.
    for (int side = SPLIT_SECOND; side >= SPLIT_FIRST && !status; side--)
        status = open_side(s, o, options, side, error);
    if (!status) status = take_staging(s, options, error);
    if (status) {
        split_close(&s->base);
        return status;
    }
    split_set_border(&s->base, o->border);
    find_name(s);
    *out = &s->base;
    return STATUS_OK;
}

Backend *split_side(const Backend *backend, int side) {
    return backend->ops == &SPLIT_OPS ? ((const Split *)backend)->sides[side] : NULL;
}

int split_border(const Backend *backend) {
    return ((const Split *)backend)->border;
}

bool split_has_experts(const Backend *backend) {
    return ((const Split *)backend)->experts;
}

void split_set_border(Backend *backend, int border) {
    Split *s = split_of(backend);
    s->border = border;
    if (s->shapes[SPLIT_SECOND].heads_of_layers) return; // whose numbers are of all layers
    s->shapes[SPLIT_FIRST].n_layers = border;
    s->shapes[SPLIT_SECOND].n_layers = s->n_layers - border; // that it runs by itself
}

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

static const Ops SPLIT_OPS = {
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
