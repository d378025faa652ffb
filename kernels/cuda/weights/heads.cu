// The matrices of attention: queries, keys and values as one linear layer where their formats are one, or those of latents.
#include "kernels/cuda/weights/layout.cuh"

// Rows of a layer's queries, and of its keys and of its values: 0 where these are another layer's.
struct HeadRows {
    int64_t q, k, v;
};
static HeadRows rows_of(const DecoderShape *s, const LayerWeights *h) {
    const LayerHeads heads = layer_heads(s, h->index);
    const DeltaRule *d = &s->delta;
    const int64_t keys = (int64_t)d->n_key_heads * d->key_dim;
    if (heads.recurs) return HeadRows{keys, keys, delta_width(d)};
    const int64_t kv = heads.lender == h->index || !s->heads_of_layers ? layer_key_rows(&heads) : 0;
    return HeadRows{(int64_t)s->n_heads * heads.head_dim, kv, kv};
}

// ---- layout ------------------------------------------------------------------------------------------------------

// What of queries has the layer's input.
static const Matrix *first_of(const DecoderShape *s, const LayerWeights *h) {
    return s->latent.q_rank > 0 ? &h->q_down : &h->wq;
}

static void lay_out_latent(const DecoderShape *s, const LayerWeights *h, Layer *layer, Arena *a) {
    const Matrix *first = first_of(s, h);
    const int64_t n = first->rows, kv = s->head_dim;
    layer->qkv = Linear{{}, 1, (int)(n + kv), s->hidden_size};
    if (format_of(first->type) == format_of(h->wk.type)) {
        layer->qkv.part[0] = a->weight(first, n + kv);
    } else {
        layer->qkv.n_parts = 2;
        layer->qkv.part[0] = a->weight(first, n);
        layer->qkv.part[1] = a->weight(&h->wk, kv);
    }
    if (s->latent.q_rank > 0)
        layer->q_up = Linear{{a->weight(&h->wq, h->wq.rows)}, 1, (int)h->wq.rows, (int)h->wq.cols};
    layer->k_up = a->weight(&h->k_up, h->k_up.rows);
    layer->v_up = a->weight(&h->v_up, h->v_up.rows);
}

void heads_lay_out(const DecoderShape *s, const LayerWeights *h, Layer *layer, Arena *a) {
    if (s->latent.rank > 0) return lay_out_latent(s, h, layer, a);
    const HeadRows rows = rows_of(s, h);
    const int64_t all = rows.q + rows.k + rows.v;
    if (h->bq.data || h->bk.data || h->bv.data) layer->b_qkv = (float *)a->take((size_t)all * 4);
    Format fq = format_of(h->wq.type), fk = format_of(h->wk.type), fv = format_of(h->wv.type);
    layer->qkv = Linear{{}, 1, (int)all, s->hidden_size};
    if (rows.k == 0 || (fq == fk && fk == fv)) {
        layer->qkv.part[0] = a->weight(&h->wq, all);
    } else {
        layer->qkv.n_parts = 3;
        layer->qkv.part[0] = a->weight(&h->wq, rows.q);
        layer->qkv.part[1] = a->weight(&h->wk, rows.k);
        layer->qkv.part[2] = a->weight(&h->wv, rows.v);
    }
}

// ---- upload ------------------------------------------------------------------------------------------------------

static Status upload_latent(CudaBackend *cuda, const LayerWeights *h, const Layer *layer, Error *error) {
    const Matrix *first = first_of(cuda->shape, h);
    const Weight *part = layer->qkv.part;
    const bool merged = layer->qkv.n_parts == 1;
    Status status = upload_rows(cuda, first, &part[0], 0, 1, error);
    if (!status)
        status = upload_rows(cuda, &h->wk, &part[merged ? 0 : 1], merged ? first->rows : 0, 1, error);
    if (!status && layer->q_up.rows) status = upload_rows(cuda, &h->wq, &layer->q_up.part[0], 0, 1, error);
    if (!status) status = upload_rows(cuda, &h->k_up, &layer->k_up, 0, 1, error);
    return status ? status : upload_rows(cuda, &h->v_up, &layer->v_up, 0, 1, error);
}

Status heads_upload(CudaBackend *cuda, const LayerWeights *h, const Layer *layer, Error *error) {
    const DecoderShape *s = cuda->shape;
    if (s->latent.rank > 0) return upload_latent(cuda, h, layer, error);
    const HeadRows rows = rows_of(s, h);
    const Matrix *biases[] = {&h->bq, &h->bk, &h->bv};
    int64_t sizes[] = {rows.q, rows.k, rows.v};
    Status status = STATUS_OK;
    if (layer->b_qkv)
        status =
            upload_vectors(cuda, VectorList{biases, sizes, rows.k > 0 ? 3 : 1, 1}, 0, layer->b_qkv, error);

    const Weight *part = layer->qkv.part;
    bool merged = layer->qkv.n_parts == 1;
    if (!status) status = upload_rows(cuda, &h->wq, &part[0], 0, 1, error);
    if (status || rows.k == 0) return status;
    status = upload_rows(cuda, &h->wk, &part[merged ? 0 : 1], merged ? rows.q : 0, 1, error);
    return status ? status
                  : upload_rows(cuda, &h->wv, &part[merged ? 0 : 2], merged ? rows.q + rows.k : 0, 1, error);
}

// ---- what there has to be ----------------------------------------------------------------------------------------

// q, k and v are of W8 together, for they have one input.
static Status check_w8(const DecoderShape *s, const LayerWeights *h, Error *error) {
    if (s->latent.rank > 0) {
        const DType first = first_of(s, h)->type;
        if ((first == DTYPE_W8) == (h->wk.type == DTYPE_W8)) return STATUS_OK;
        return error_set(error, STATUS_UNSUPPORTED, "cuda: wk is %s beside %s: both or none may be w8",
                         dtype_name(h->wk.type), dtype_name(first));
    }
    if (!h->wk.data) return STATUS_OK;
    int n = (h->wq.type == DTYPE_W8) + (h->wk.type == DTYPE_W8) + (h->wv.type == DTYPE_W8);
    if (n == 0 || n == 3) return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED,
                     "cuda: wq is %s, wk %s and wv %s: all of them or none may be w8", dtype_name(h->wq.type),
                     dtype_name(h->wk.type), dtype_name(h->wv.type));
}

static Status check_plain(const char *name, const Matrix *m, int64_t rows, int64_t cols, Error *error) {
    if (m->data && m->type > DTYPE_BF16)
        return error_set(error, STATUS_UNSUPPORTED, "cuda: %s is %s", name, dtype_name(m->type));
    return layout_check_matrix(name, m, rows, cols, error);
}

static Status check_latent(const DecoderShape *s, const LayerWeights *h, Error *error) {
    const Latent *l = &s->latent;
    const int64_t hidden = s->hidden_size, heads = s->n_heads;
    Status status =
        layout_check_matrix("wq", &h->wq, decoder_query_width(s), l->q_rank > 0 ? l->q_rank : hidden, error);
    if (!status && l->q_rank > 0)
        status = layout_check_matrix("q_down", &h->q_down, l->q_rank, hidden, error);
    if (!status) status = layout_check_matrix("wk", &h->wk, s->head_dim, hidden, error);
    if (!status) status = check_plain("k_up", &h->k_up, heads * l->rank, l->plain_dim, error);
    return status ? status : check_plain("v_up", &h->v_up, heads * l->value_dim, l->rank, error);
}

Status heads_check(const DecoderShape *s, const LayerWeights *h, Error *error) {
    Status status = check_w8(s, h, error);
    if (status) return status;
    if (s->latent.rank > 0) return check_latent(s, h, error);
    const HeadRows rows = rows_of(s, h);
    const int64_t hidden = s->hidden_size;
    status = layout_check_matrix("wq", &h->wq, rows.q, hidden, error);
    if (status || rows.k == 0) return status;
    status = layout_check_matrix("wk", &h->wk, rows.k, hidden, error);
    return status ? status : layout_check_matrix("wv", &h->wv, rows.v, hidden, error);
}
