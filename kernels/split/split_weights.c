// Weights of a split: whose they are, what they take, and their loading.
#include "kernels/split/split_internal.h"

#include <stdlib.h>

static int side_of(const Split *s, int layer) {
    return layer < s->border ? SPLIT_FIRST : SPLIT_SECOND;
}

// Each side has the whole head's form, and of the large matrices only its own: the first multiplies by no output, the
// second looks up no embedding. The one that is missing is the other once more, of the same size; held once.
static HeadWeights head_of(const HeadWeights *head, int side) {
    HeadWeights own = *head;
    if (side == SPLIT_FIRST)
        own.output = head->embedding;
    else if (head->output.type != DTYPE_W8) // which no element can be looked up in
        own.embedding = head->output;
    return own;
}

// Of a struct that begins with nothing but matrices.
static int64_t matrices_bytes(const void *weights, size_t size) {
    const Matrix *m = weights;
    int64_t bytes = 0;
    for (size_t i = 0; i < size / sizeof *m; i++)
        if (m[i].data) bytes += m[i].rows * dtype_row_bytes(m[i].type, m[i].cols);
    return bytes;
}

void split_weight_bytes(const Backend *backend, const LayerWeights *layers, const HeadWeights *head,
                        int64_t bytes[SPLIT_SIDES]) {
    const Split *s = (const Split *)backend;
    for (int side = 0; side < SPLIT_SIDES; side++) {
        const Backend *b = s->sides[side];
        HeadWeights own = head_of(head, side);
        const int first = side == SPLIT_FIRST ? 0 : s->border, n = s->shapes[side].n_layers;
        if (b->ops->weight_bytes) {
            bytes[side] = b->ops->weight_bytes(b, layers + first, &own);
            continue;
        }
        if (own.output.data == own.embedding.data) own.output = (Matrix){0};
        bytes[side] = matrices_bytes(&own, sizeof own);
        for (int l = first; l < first + n; l++) bytes[side] += matrices_bytes(&layers[l], sizeof layers[l]);
    }
}

Status split_load_layer(Backend *backend, const LayerWeights *host, Layer **out, Error *error) {
    Split *s = split_of(backend);
    *out = NULL;
    Layer *layer = calloc(1, sizeof *layer);
    if (!layer) return error_set(error, STATUS_MEMORY, "split: no memory for a layer");
    layer->side = side_of(s, host->index), layer->index = host->index;
    Status status = split_ops(s, layer->side)->load_layer(s->sides[layer->side], host, &layer->own, error);
    if (!status && layer->side == SPLIT_FIRST) status = split_visit_note(s, layer, error);
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
        const HeadWeights own = head_of(host, side);
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
