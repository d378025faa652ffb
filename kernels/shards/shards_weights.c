// Weights of shards: what each rank is given of a layer. Rows lie together in a file and are taken where they are; columns
// are put together here, one layer's at a time, so that of those, too, a rank reads no more than its own.
#include "kernels/shards/shards_internal.h"
#include "kernels/w8.h"

#include <stdlib.h>
#include <string.h>

// ---- what can be cut --------------------------------------------------------------------------------------

static Status check_layer(const DecoderShape *s, const LayerWeights *w, Error *error) {
    const char *what = w->attn_post_norm.data || w->ffn_post_norm.data ? "norms of what a layer's parts give"
                       : layer_norms_rows(s, w)             ? "norms of whole rows of queries and keys"
                       : w->x_scale != 0 && w->x_scale != 1 ? "scales of whole layers"
                       : w->wo.order || w->w_down.order     ? "columns in an order of their own"
                                                            : NULL;
    if (!what) return STATUS_OK;
    return error_set(
        error, STATUS_UNSUPPORTED,
        "several cards: models with %s cannot be cut for them yet; take one card (--device cuda:0)", what);
}

Status shards_check_layers(const BackendOptions *options, Error *error) {
    Status status = STATUS_OK;
    for (int l = 0; options->layers && l < options->shape->n_layers && !status; l++)
        status = check_layer(options->shape, &options->layers[l], error);
    return status;
}

// ---- cutting ----------------------------------------------------------------------------------------------

// Rows [first, first + n) of a matrix; of one that is absent, and of made-up ones, none of the data is looked at.
static Matrix rows_of(const Matrix *m, int64_t first, int64_t n) {
    Matrix own = *m;
    if (!m->data) return own;
    own.rows = n;
    own.data = (const char *)m->data + first * dtype_row_bytes(m->type, m->cols);
    return own;
}

// Elements [first, first + n) of a vector, which is of a plain type.
static Matrix elements_of(const Matrix *m, int64_t first, int64_t n) {
    Matrix own = *m;
    if (!m->data) return own;
    own.cols = n;
    own.data = (const char *)m->data + first * dtype_row_bytes(m->type, 1);
    return own;
}

// Columns [first, first + n) of a matrix as a matrix of its own. The memory is *copy, for the caller to free; `made_up`:
// the data means nothing, and there is no copy.
static Status columns_of(const Matrix *m, int64_t first, int64_t n, bool made_up, Matrix *own, void **copy,
                         Error *error) {
    *own = *m;
    own->cols = n;
    const int64_t from = dtype_row_bytes(m->type, m->cols), to = dtype_row_bytes(m->type, n),
                  block = dtype_block_size(m->type), end = first + n;
    if (to < 0 || first % block != 0 || (end % block != 0 && end != m->cols))
        return error_set(
            error, STATUS_UNSUPPORTED,
            "several cards: columns %lld to %lld of %lld cannot be cut out of %s; take another number "
            "of cards",
            (long long)first, (long long)end, (long long)m->cols, dtype_name(m->type));
    if (made_up) return STATUS_OK;
    char *rows = calloc((size_t)m->rows, (size_t)to); // what fills a row up stays zero
    if (!rows) return error_set(error, STATUS_MEMORY, "no memory for a part of a matrix");
    const bool w8 = m->type == DTYPE_W8;
    const size_t bytes = (size_t)(w8 ? n : to);
    const char *source = (const char *)m->data + first / block * dtype_block_bytes(m->type);
    for (int64_t r = 0; r < m->rows; r++) {
        memcpy(rows + r * to, source + r * from, bytes);
        if (w8) // a row's scale stands behind it
            memcpy(rows + r * to + w8_scale_offset(n),
                   (const char *)m->data + r * from + w8_scale_offset(m->cols), W8_ALIGNMENT);
    }
    own->data = *copy = rows;
    return STATUS_OK;
}

// What a rank is given of a layer; copies [2] are the caller's to free.
static Status cut_layer(const Shards *s, int rank, const LayerWeights *host, LayerWeights *own,
                        void *copies[2], Error *error) {
    const Shard *shard = &s->ranks[rank].shard;
    const int64_t dim = s->whole->head_dim, q = shard->first_head * dim, n_q = shard->n_heads * dim,
                  kv = shard->first_kv_head * dim, n_kv = shard->n_kv_heads * dim, g = shard->first_column,
                  n_g = shard->n_columns;
    *own = *host;
    own->wq = rows_of(&host->wq, q, n_q), own->bq = elements_of(&host->bq, q, n_q);
    own->wk = rows_of(&host->wk, kv, n_kv), own->bk = elements_of(&host->bk, kv, n_kv);
    own->wv = rows_of(&host->wv, kv, n_kv), own->bv = elements_of(&host->bv, kv, n_kv);
    own->w_gate = rows_of(&host->w_gate, g, n_g), own->b_gate = elements_of(&host->b_gate, g, n_g);
    own->w_up = rows_of(&host->w_up, g, n_g), own->b_up = elements_of(&host->b_up, g, n_g);
    if (rank > 0) own->bo = own->b_down = (Matrix){0}; // which are added once
    Status status = columns_of(&host->wo, q, n_q, s->random_weights, &own->wo, &copies[0], error);
    if (!status)
        status = columns_of(&host->w_down, g, n_g, s->random_weights, &own->w_down, &copies[1], error);
    return status;
}

// Every rank looks embeddings up for itself.
static HeadWeights cut_head(const Shards *s, int rank, const HeadWeights *host) {
    const Shard *shard = &s->ranks[rank].shard;
    HeadWeights own = *host;
    own.output = rows_of(&host->output, shard->first_row, shard->n_rows);
    own.output_bias = elements_of(&host->output_bias, shard->first_row, shard->n_rows);
    return own;
}

// ---- the ops ----------------------------------------------------------------------------------------------

typedef struct Loading {
    Shards *s;
    const LayerWeights *layer;
    const HeadWeights *head;
    Layer **layers; // [n_ranks]
    Head **heads;   // [n_ranks]
} Loading;

static Status load_layer(void *context, int rank, Error *error) {
    const Loading *l = context;
    Backend *b = l->s->ranks[rank].backend;
    LayerWeights own;
    void *copies[2] = {NULL, NULL};
    Status status = cut_layer(l->s, rank, l->layer, &own, copies, error);
    if (!status) status = b->ops->load_layer(b, &own, &l->layers[rank], error);
    free(copies[0]), free(copies[1]);
    return status;
}

Status shards_load_layer(Backend *backend, const LayerWeights *host, Layer **out, Error *error) {
    Shards *s = shards_of(backend);
    *out = NULL;
    Status status = check_layer(s->whole, host, error);
    if (status) return status;
    Layer *layer = calloc(1, sizeof *layer);
    if (!layer) return error_set(error, STATUS_MEMORY, "no memory for a layer");
    Loading loading = {.s = s, .layer = host, .layers = layer->own};
    status = crew_run(s->crew, load_layer, &loading, error);
    if (status) { // what some ranks took goes when they are closed
        free(layer);
        return status;
    }
    layer->next = s->layers;
    s->layers = *out = layer;
    return STATUS_OK;
}

static Status load_head(void *context, int rank, Error *error) {
    const Loading *l = context;
    Backend *b = l->s->ranks[rank].backend;
    const HeadWeights own = cut_head(l->s, rank, l->head);
    return b->ops->load_head(b, &own, &l->heads[rank], error);
}

Status shards_load_head(Backend *backend, const HeadWeights *host, Head **out, Error *error) {
    Shards *s = shards_of(backend);
    *out = NULL;
    Head *head = calloc(1, sizeof *head);
    if (!head) return error_set(error, STATUS_MEMORY, "no memory for the head");
    Loading loading = {.s = s, .head = host, .heads = head->own};
    Status status = crew_run(s->crew, load_head, &loading, error);
    if (status) {
        free(head);
        return status;
    }
    head->next = s->heads;
    s->heads = *out = head;
    return STATUS_OK;
}

// A matrix of so many columns, of which nothing but its size is asked.
static Matrix narrowed(const Matrix *m, int64_t cols) {
    Matrix own = *m;
    if (m->data) own.cols = cols;
    return own;
}

// Of the rank that has most.
int64_t shards_weight_bytes(const Backend *backend, const LayerWeights *layers, const HeadWeights *head) {
    const Shards *s = (const Shards *)backend;
    const size_t n = (size_t)s->whole->n_layers;
    int64_t most = 0;
    LayerWeights *own = malloc(n * sizeof *own);
    for (int rank = 0; own && rank < s->n; rank++) {
        const Rank *r = &s->ranks[rank];
        for (size_t l = 0; l < n; l++) {
            LayerWeights *w = &own[l];
            *w = layers[l];
            w->wq.rows = (int64_t)r->shard.n_heads * s->whole->head_dim;
            w->wo = narrowed(&w->wo, w->wq.rows);
            w->w_down = narrowed(&w->w_down, r->shard.n_columns);
        }
        const HeadWeights part = cut_head(s, rank, head);
        const int64_t bytes = r->backend->ops->weight_bytes(r->backend, own, &part);
        if (bytes > most) most = bytes;
    }
    free(own);
    return most;
}
