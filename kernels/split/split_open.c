// Two backends become one and part again: what both have to be, their shapes, the memory between them, the border.
#include "kernels/split/split_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

void split_close(Backend *backend) {
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
