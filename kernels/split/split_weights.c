// Weights of a split: whose they are, what they take, and their loading.
#include "kernels/split/split_internal.h"

#include "kernels/part_weights.h"

#include <stddef.h>
#include <stdlib.h>

static int side_of(const Split *s, int layer) {
    return layer < split_second_first(s) ? SPLIT_FIRST : SPLIT_SECOND;
}

// Whether the layer lies on both sides.
static bool is_in_two(const Split *s, const LayerWeights *w) {
    return s->experts && w->index < s->border && w->router.data;
}

// Whether what the shared expert gives is just added to x, so that it can be a dense layer's feed-forward part.
static bool shared_is_dense(const Split *s, const LayerWeights *w) {
    return w->shared_up.data && !w->shared_router.data && !s->shapes[SPLIT_FIRST].experts.beside &&
           !w->ffn_post_norm.data && (w->x_scale == 0 || w->x_scale == 1);
}

// What a layer has for attention, or in its place.
#define WHERE(name) offsetof(LayerWeights, name)
static const size_t OF_ATTENTION[] = {WHERE(attn_norm),
                                      WHERE(attn_norm_bias),
                                      WHERE(wq),
                                      WHERE(bq),
                                      WHERE(wk),
                                      WHERE(bk),
                                      WHERE(wv),
                                      WHERE(bv),
                                      WHERE(q_norm),
                                      WHERE(k_norm),
                                      WHERE(v_norm),
                                      WHERE(wo),
                                      WHERE(bo),
                                      WHERE(attn_post_norm),
                                      WHERE(q_down),
                                      WHERE(q_down_norm),
                                      WHERE(latent_norm),
                                      WHERE(k_up),
                                      WHERE(v_up),
                                      WHERE(conv),
                                      WHERE(conv_bias),
                                      WHERE(attn_gate),
                                      WHERE(attn_gate_bias),
                                      WHERE(w_beta),
                                      WHERE(w_decay),
                                      WHERE(decay_rate),
                                      WHERE(decay_bias),
                                      WHERE(state_norm),
                                      WHERE(skip)};
enum { N_OF_ATTENTION = sizeof OF_ATTENTION / sizeof *OF_ATTENTION };

static Matrix *matrix_at(LayerWeights *w, size_t where) {
    return (Matrix *)(void *)((char *)w + where);
}

// The feed-forward part, but for a shared expert that lies with attention.
static LayerWeights experts_of(const Split *s, const LayerWeights *w) {
    static const Matrix none = {0};
    LayerWeights part = *w;
    for (int i = 0; i < N_OF_ATTENTION; i++) *matrix_at(&part, OF_ATTENTION[i]) = none;
    if (shared_is_dense(s, w)) part.shared_gate = part.shared_up = part.shared_down = none;
    part.part = LAYER_EXPERTS;
    return part;
}

// Attention, and that shared expert.
static LayerWeights without_experts(const Split *s, const LayerWeights *w) {
    LayerWeights part = {.index = w->index, .part = LAYER_WITHOUT_EXPERTS}, whole = *w;
    for (int i = 0; i < N_OF_ATTENTION; i++)
        *matrix_at(&part, OF_ATTENTION[i]) = *matrix_at(&whole, OF_ATTENTION[i]);
    if (!shared_is_dense(s, w)) return part;
    part.ffn_norm = w->ffn_norm, part.ffn_norm_bias = w->ffn_norm_bias;
    part.w_gate = w->shared_gate, part.w_up = w->shared_up, part.w_down = w->shared_down;
    return part;
}

LayerWeights split_part_of(const Split *s, const LayerWeights *w, int side) {
    if (is_in_two(s, w)) return side == SPLIT_FIRST ? experts_of(s, w) : without_experts(s, w);
    return side_of(s, w->index) == side ? *w : (LayerWeights){.index = w->index};
}

void split_weight_bytes(Backend *backend, const LayerWeights *layers, const HeadWeights *head,
                        int64_t bytes[SPLIT_SIDES]) {
    Split *s = split_of(backend);
    for (int side = 0; side < SPLIT_SIDES; side++) {
        const Backend *b = s->sides[side];
        const HeadWeights own = part_weights_head(head, side == SPLIT_SECOND);
        int n = 0;
        for (int l = 0; l < s->n_layers; l++) {
            const LayerWeights part = split_part_of(s, &layers[l], side);
            if (part.wq.data || part.w_up.data) s->parts[n++] = part;
        }
        const int runs = s->shapes[side].n_layers;
        s->shapes[side].n_layers = n; // what it is told of
        bytes[side] = part_weights_bytes(b, s->parts, n, &own);
        s->shapes[side].n_layers = runs;
    }
}

Status split_load_layer(Backend *backend, const LayerWeights *host, Layer **out, Error *error) {
    Split *s = split_of(backend);
    *out = NULL;
    Layer *layer = calloc(1, sizeof *layer);
    if (!layer) return error_set(error, STATUS_MEMORY, "split: no memory for a layer");
    layer->side = side_of(s, host->index), layer->index = host->index;
    const LayerWeights own = split_part_of(s, host, layer->side),
                       experts = split_part_of(s, host, SPLIT_FIRST);
    Status status = split_ops(s, layer->side)->load_layer(s->sides[layer->side], &own, &layer->own, error);
    if (!status && is_in_two(s, host)) {
        layer->rests = own.w_up.data != NULL;
        status =
            split_ops(s, SPLIT_FIRST)->load_layer(s->sides[SPLIT_FIRST], &experts, &layer->experts, error);
    }
    if (!status) status = split_visit_note(s, layer, error);
    if (status) {
        free(layer);
        return status;
    }
    layer->next = s->layers;
    s->layers = *out = layer;
    return STATUS_OK;
}

Status split_load_head(Backend *backend, const HeadWeights *host, Head **out, Error *error) {
    Split *s = split_of(backend);
    Status status = STATUS_OK;
    *out = NULL;
    Head *head = calloc(1, sizeof *head);
    if (!head) return error_set(error, STATUS_MEMORY, "split: no memory for the head");
    for (int side = 0; side < SPLIT_SIDES && !status; side++) {
        const HeadWeights own = part_weights_head(host, side == SPLIT_SECOND);
        status = split_ops(s, side)->load_head(s->sides[side], &own, &head->own[side], error);
    }
    if (status) { // what the first side took goes when it is closed
        free(head);
        return status;
    }
    head->next = s->heads;
    s->heads = *out = head;
    return STATUS_OK;
}
