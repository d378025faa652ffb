// Gates behind attention, and what layers that recur have beside queries, keys and values: one linear layer of each where
// formats allow it.
#include "kernels/cuda/dispatch_internal.h"
#include "kernels/cuda/gemm/gemm.cuh"
#include "kernels/cuda/weights/layout.cuh"

#include <string.h>

static bool recurs(const DecoderShape *s, const LayerWeights *h) {
    return layer_heads(s, h->index).recurs;
}

// Rows of attn_gate: of what goes into wo, or of heads.
static int64_t gate_rows(const DecoderShape *s, const LayerWeights *h) {
    return recurs(s, h) ? delta_width(&s->delta)
                        : (int64_t)s->n_heads * (s->head_gates ? 1 : layer_heads(s, h->index).head_dim);
}

// w_beta, unless the layer adds, and w_decay.
struct Rates {
    const Matrix *all[2];
    int n;
};
static Rates rates_of(const DecoderShape *s, const LayerWeights *h) {
    return s->delta.adds ? Rates{{&h->w_decay}, 1} : Rates{{&h->w_beta, &h->w_decay}, 2};
}

// Whether they lie behind attn_gate, one matrix. E4M3 may have its inputs rounded, which a matrix that lacks blocks of 128 rows of
// its own would change.
static bool lie_together(const LayerWeights *h, const Rates &rates) {
    const Format format = format_of(h->attn_gate.type);
    return format != FORMAT_E4M3 && format == format_of(rates.all[0]->type) &&
           format == format_of(rates.all[rates.n - 1]->type);
}

// ---- layout ------------------------------------------------------------------------------------------------------

void gates_lay_out(const DecoderShape *s, const LayerWeights *h, Layer *layer, Arena *a) {
    const int64_t rows = gate_rows(s, h), heads = s->delta.n_value_heads;
    const int cols = s->hidden_size;
    const Rates rates = rates_of(s, h);
    layer->recurs = recurs(s, h);
    if (!h->attn_gate.data) return;
    const bool together = layer->recurs && lie_together(h, rates);
    const int64_t all = rows + (together ? rates.n * heads : 0);
    layer->attn_gate = Linear{{a->weight(&h->attn_gate, all)}, 1, (int)all, cols};
    layer->attn_gate.input_scale = h->attn_gate.input_scale;
    if (!layer->recurs || together) return;
    const bool alike = format_of(rates.all[0]->type) == format_of(rates.all[rates.n - 1]->type);
    layer->rates = Linear{{}, alike ? 1 : rates.n, (int)(rates.n * heads), cols};
    for (int i = 0; i < layer->rates.n_parts; i++)
        layer->rates.part[i] = a->weight(rates.all[i], alike ? rates.n * heads : heads);
    // Room for either type of 16 bits: which it will be is not known yet.
    if (!format_quantized(layer->rates.part[0].format) && row_stride(FORMAT_F16, cols) == cols * 2)
        layer->rounded_rates = Linear{
            {a->weight_as(FORMAT_F16, rates.all[0], rates.n * heads)}, 1, (int)(rates.n * heads), cols};
}

// ---- upload ------------------------------------------------------------------------------------------------------

Status gates_upload(CudaBackend *cuda, const LayerWeights *h, const Layer *layer, Error *error) {
    if (!layer->attn_gate.rows) return STATUS_OK;
    const int64_t rows = gate_rows(cuda->shape, h), heads = cuda->shape->delta.n_value_heads;
    Status status = upload_rows(cuda, &h->attn_gate, &layer->attn_gate.part[0], 0, 1, error);
    if (status || !layer->recurs) return status;
    const Rates rates = rates_of(cuda->shape, h);
    const bool together = layer->rates.rows == 0, alike = layer->rates.n_parts == 1;
    for (int i = 0; i < rates.n && !status; i++) {
        const Weight *to = together ? &layer->attn_gate.part[0] : &layer->rates.part[alike ? 0 : i];
        const int64_t first = (together ? rows : 0) + (together || alike ? i * heads : 0);
        status = upload_rows(cuda, rates.all[i], to, first, 1, error);
    }
    return status;
}

void gates_round_rates(CudaBackend *cuda) {
    Error ignored; // what fails leaves the rates as they are
    for (Layer *l = cuda->layers; l; l = l->next) {
        Linear *to = &l->rounded_rates;
        if (to->rows == 0) continue;
        Weight *w = &to->part[0];
        bool fits = is_16_bit(cuda->operand) && l->rates.part[0].format != format_of_operand(cuda->operand);
        int rows = 0;
        for (int i = 0; i < l->rates.n_parts && fits; rows += l->rates.part[i++].rows) {
            const Weight *part = &l->rates.part[i];
            fits = !cuda_expand(cuda, WeightRows{part, 0, part->rows}, cuda->operand,
                                w->data + (int64_t)rows * w->row_bytes, &ignored);
        }
        w->format = format_of_operand(cuda->operand);
        if (!fits) to->rows = 0;
    }
}

// ---- what there has to be ----------------------------------------------------------------------------------------

// Matrices of one input have one order (Matrix.order).
static bool same_order(const Matrix *a, const Matrix *b) {
    if (!a->order || !b->order) return a->order == b->order;
    return a->cols == b->cols && !memcmp(a->order, b->order, (size_t)a->cols * sizeof *a->order);
}

static Status check_rates(const DecoderShape *s, const LayerWeights *h, Error *error) {
    const int64_t heads = s->delta.n_value_heads, hidden = s->hidden_size;
    const Rates rates = rates_of(s, h);
    Status status = layout_check_matrix("w_decay", &h->w_decay, heads, hidden, error);
    if (!status && rates.n == 2) status = layout_check_matrix("w_beta", &h->w_beta, heads, hidden, error);
    if (status) return status;
    for (int i = 0; i < rates.n; i++)
        if (!same_order(rates.all[i], &h->wq))
            return error_set(error, STATUS_UNSUPPORTED, "cuda: w_beta or w_decay in another order than wq");
    if (rates.n == 1) return STATUS_OK;
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
    const Matrix *never[] = {
        &h->attn_gate_bias, &h->bq,     &h->bk,     &h->bv,
        &h->q_norm,         &h->k_norm, &h->v_norm, s->delta.adds ? &h->w_beta : &h->conv_bias};
    for (const Matrix *m : never)
        if (own.recurs && m->data)
            return error_set(error, STATUS_UNSUPPORTED, "cuda: %s in a layer that recurs",
                             m == &h->w_beta ? "w_beta" : "biases, or norms of queries, keys or values,");
    Status status = layout_check_matrix("attn_gate", &h->attn_gate, gate_rows(s, h), s->hidden_size, error);
    if (!status && !same_order(&h->attn_gate, &h->wq))
        status = error_set(error, STATUS_UNSUPPORTED, "cuda: attn_gate in another order than wq");
    return status || !own.recurs ? status : check_rates(s, h, error);
}
