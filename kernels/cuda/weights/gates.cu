// Gates behind attention, and what layers that recur have beside queries, keys and values: one linear layer of each where
// formats allow it.
#include "kernels/cuda/weights/layout.cuh"

#include <string.h>

static bool recurs(const DecoderShape *s, const LayerWeights *h) {
    return layer_heads(s, h->index).recurs;
}

// Rows of attn_gate: of what goes into wo.
static int64_t gate_rows(const DecoderShape *s, const LayerWeights *h) {
    return recurs(s, h) ? delta_width(&s->delta) : (int64_t)s->n_heads * layer_heads(s, h->index).head_dim;
}

// Whether w_beta and w_decay lie behind attn_gate, one matrix. E4M3 may have its inputs rounded, which a matrix that lacks
// blocks of 128 rows of its own would change.
static bool lie_together(const LayerWeights *h) {
    const Format format = format_of(h->attn_gate.type);
    return format != FORMAT_E4M3 && format == format_of(h->w_beta.type) &&
           format == format_of(h->w_decay.type);
}

// ---- layout ------------------------------------------------------------------------------------------------------

void gates_lay_out(const DecoderShape *s, const LayerWeights *h, Layer *layer, Arena *a) {
    const int64_t rows = gate_rows(s, h), heads = s->delta.n_value_heads;
    const int cols = s->hidden_size;
    layer->recurs = recurs(s, h);
    if (!h->attn_gate.data) return;
    const bool together = layer->recurs && lie_together(h);
    const int64_t all = rows + (together ? 2 * heads : 0);
    layer->attn_gate = Linear{{a->weight(&h->attn_gate, all)}, 1, (int)all, cols};
    layer->attn_gate.input_scale = h->attn_gate.input_scale;
    if (!layer->recurs || together) return;
    layer->rates = Linear{{}, 1, (int)(2 * heads), cols};
    if (format_of(h->w_beta.type) == format_of(h->w_decay.type)) {
        layer->rates.part[0] = a->weight(&h->w_beta, 2 * heads);
    } else {
        layer->rates.n_parts = 2;
        layer->rates.part[0] = a->weight(&h->w_beta, heads);
        layer->rates.part[1] = a->weight(&h->w_decay, heads);
    }
}

// ---- upload ------------------------------------------------------------------------------------------------------

Status gates_upload(CudaBackend *cuda, const LayerWeights *h, const Layer *layer, Error *error) {
    if (!layer->attn_gate.rows) return STATUS_OK;
    const int64_t rows = gate_rows(cuda->shape, h), heads = cuda->shape->delta.n_value_heads;
    Status status = upload_rows(cuda, &h->attn_gate, &layer->attn_gate.part[0], 0, 1, error);
    if (status || !layer->recurs) return status;
    const bool together = layer->rates.rows == 0, apart = layer->rates.n_parts == 2;
    const Weight *beta = together ? &layer->attn_gate.part[0] : &layer->rates.part[0],
                 *decay = apart ? &layer->rates.part[1] : beta;
    const int64_t first = together ? rows : 0;
    status = upload_rows(cuda, &h->w_beta, beta, first, 1, error);
    return status ? status : upload_rows(cuda, &h->w_decay, decay, apart ? 0 : first + heads, 1, error);
}

// ---- what there has to be ----------------------------------------------------------------------------------------

// Matrices of one input have one order (Matrix.order).
static bool same_order(const Matrix *a, const Matrix *b) {
    if (!a->order || !b->order) return a->order == b->order;
    return a->cols == b->cols && !memcmp(a->order, b->order, (size_t)a->cols * sizeof *a->order);
}

static Status check_rates(const DecoderShape *s, const LayerWeights *h, Error *error) {
    const int64_t heads = s->delta.n_value_heads, hidden = s->hidden_size;
    Status status = layout_check_matrix("w_beta", &h->w_beta, heads, hidden, error);
    if (!status) status = layout_check_matrix("w_decay", &h->w_decay, heads, hidden, error);
    if (status) return status;
    if (!same_order(&h->w_beta, &h->wq) || !same_order(&h->w_decay, &h->wq))
        return error_set(error, STATUS_UNSUPPORTED, "cuda: w_beta or w_decay in another order than wq");
    // Products of both lie side by side, and those of the second are to begin where GEMMs can store them.
    const Format beta = format_of(h->w_beta.type), decay = format_of(h->w_decay.type);
    if (beta != decay && (heads % 8 || beta == FORMAT_W8 || decay == FORMAT_W8))
        return error_set(error, STATUS_UNSUPPORTED, "cuda: w_beta is %s and w_decay %s, of %lld heads",
                         dtype_name(h->w_beta.type), dtype_name(h->w_decay.type), (long long)heads);
    return STATUS_OK;
}

Status gates_check(const DecoderShape *s, const LayerWeights *h, Error *error) {
    const LayerHeads own = layer_heads(s, h->index);
    if (!own.recurs && !h->attn_gate.data) return STATUS_OK;
    if (s->latent.rank > 0 || own.convolves)
        return error_set(error, STATUS_UNSUPPORTED, "cuda: attn_gate behind %s",
                         own.convolves ? "a convolution" : "latents");
    const Matrix *never[] = {&h->attn_gate_bias, &h->bq,     &h->bk,     &h->bv,
                             &h->q_norm,         &h->k_norm, &h->v_norm, &h->conv_bias};
    for (const Matrix *m : never)
        if (own.recurs && m->data)
            return error_set(error, STATUS_UNSUPPORTED,
                             "cuda: biases, or norms of queries, keys or values, in a layer that recurs");
    Status status = layout_check_matrix("attn_gate", &h->attn_gate, gate_rows(s, h), s->hidden_size, error);
    if (!status && !same_order(&h->attn_gate, &h->wq))
        status = error_set(error, STATUS_UNSUPPORTED, "cuda: attn_gate in another order than wq");
    return status || !own.recurs ? status : check_rates(s, h, error);
}
