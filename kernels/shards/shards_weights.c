// Weights of shards: what each rank is given of a layer. Rows lie together in a file and are taken where they are; columns
// are put together here, one layer's at a time, so that of those, too, a rank reads no more than its own.
#include "kernels/shards/shards_internal.h"
#include "kernels/w8.h"

#include <stdlib.h>
#include <string.h>

enum { COPIES_MOST = 8 }; // for one layer

// ---- what can be cut --------------------------------------------------------------------------------------

static Status check_layer(const LayerWeights *w, Error *error) {
    const char *what = w->x_scale != 0 && w->x_scale != 1 ? "scales of whole layers"
                       : w->wo.order || w->w_down.order   ? "columns in an order of their own"
                                                          : NULL;
    if (!what) return STATUS_OK;
    return error_set(
        error, STATUS_UNSUPPORTED,
        "several cards: models with %s cannot be cut for them yet; take one card (--device cuda:0)", what);
}

Status shards_check_layers(Shards *s, const BackendOptions *options, Error *error) {
    Status status = STATUS_OK;
    for (int l = 0; options->layers && l < options->shape->n_layers && !status; l++) {
        const LayerWeights *w = &options->layers[l];
        status = check_layer(w, error);
        if (w->attn_post_norm.data || w->ffn_post_norm.data) s->norms_behind = true;
        if (layer_norms_rows(options->shape, w)) s->norms_rows = true;
    }
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

// What a rank is given of a layer, while it is put together: copies are freed when the rank has taken it.
typedef struct Cutting {
    const Shard *shard;
    bool made_up; // the data means nothing, and none of it is copied
    void *copies[COPIES_MOST];
    int n_copies;
} Cutting;

static void *copy_of(Cutting *c, int64_t n, int64_t bytes, Error *error) {
    void *copy = calloc((size_t)n, (size_t)bytes); // what fills a row up stays zero
    if (copy)
        c->copies[c->n_copies++] = copy;
    else
        error_set(error, STATUS_MEMORY, "no memory for a part of a matrix");
    return copy;
}

// Columns [first, first + n) of a matrix, which may be of experts, as a matrix of its own.
static Status columns_of(Cutting *c, const Matrix *m, int64_t first, int64_t n, Matrix *own, Error *error) {
    *own = *m;
    if (!m->data) return STATUS_OK;
    own->cols = n;
    const int64_t from = dtype_row_bytes(m->type, m->cols), to = dtype_row_bytes(m->type, n),
                  block = dtype_block_size(m->type), end = first + n;
    if (to < 0 || first % block != 0 || (end % block != 0 && end != m->cols))
        return error_set(
            error, STATUS_UNSUPPORTED,
            "several cards: columns %lld to %lld of %lld cannot be cut out of %s; take another number "
            "of cards",
            (long long)first, (long long)end, (long long)m->cols, dtype_name(m->type));
    if (c->made_up) return STATUS_OK;
    char *rows = copy_of(c, m->rows, to, error);
    if (!rows) return STATUS_MEMORY;
    const bool w8 = m->type == DTYPE_W8;
    const size_t bytes = (size_t)(w8 ? n : to);
    const int64_t offset = first / block * dtype_block_bytes(m->type);
    const int n_pieces = m->pieces ? m->n_pieces : 1;
    for (int64_t r = 0; r < m->rows; r++) {
        const int64_t each = m->rows / n_pieces;
        const char *row =
            (m->pieces ? (const char *)m->pieces[r / each] : (const char *)m->data) + r % each * from;
        memcpy(rows + r * to, row + offset, bytes);
        if (w8) // a row's scale stands behind it
            memcpy(rows + r * to + w8_scale_offset(n), row + w8_scale_offset(m->cols), W8_ALIGNMENT);
    }
    own->data = rows;
    own->pieces = NULL, own->n_pieces = 0;
    return STATUS_OK;
}

// Rows [first, first + n) of every expert, where they are.
static Status rows_of_experts(Cutting *c, const Matrix *m, int n_experts, int64_t first, int64_t n,
                              Matrix *own, Error *error) {
    *own = *m;
    if (!m->data) return STATUS_OK;
    own->rows = n_experts * n;
    if (c->made_up) return STATUS_OK;
    const void **pieces = copy_of(c, n_experts, sizeof *pieces, error);
    if (!pieces) return STATUS_MEMORY;
    for (int e = 0; e < n_experts; e++) {
        const Matrix all = matrix_of_expert(m, e, n_experts);
        pieces[e] = rows_of(&all, first, n).data;
    }
    own->data = pieces[0], own->pieces = pieces, own->n_pieces = n_experts;
    return STATUS_OK;
}

// The same of their biases, one expert's behind the other's.
static Status elements_of_experts(Cutting *c, const Matrix *m, int n_experts, int64_t first, int64_t n,
                                  Matrix *own, Error *error) {
    Matrix rows = *m;
    rows.rows = n_experts, rows.cols = m->cols / n_experts;
    Status status = columns_of(c, &rows, first, n, own, error);
    own->rows = m->rows, own->cols = n_experts * n;
    return status;
}

static Status cut_experts(Cutting *c, const Experts *e, const LayerWeights *host, LayerWeights *own,
                          Error *error) {
    const int64_t first = c->shard->first_of_expert, n = c->shard->n_of_expert,
                  shared = c->shard->first_of_shared, n_shared = c->shard->n_of_shared;
    own->shared_gate = rows_of(&host->shared_gate, shared, n_shared);
    own->shared_up = rows_of(&host->shared_up, shared, n_shared);
    Status status = rows_of_experts(c, &host->w_gate, e->n, first, n, &own->w_gate, error);
    if (!status) status = rows_of_experts(c, &host->w_up, e->n, first, n, &own->w_up, error);
    if (!status) status = elements_of_experts(c, &host->b_gate, e->n, first, n, &own->b_gate, error);
    if (!status) status = elements_of_experts(c, &host->b_up, e->n, first, n, &own->b_up, error);
    if (!status) status = columns_of(c, &host->w_down, first, n, &own->w_down, error);
    return status ? status : columns_of(c, &host->shared_down, shared, n_shared, &own->shared_down, error);
}

static Status cut_dense(Cutting *c, const LayerWeights *host, LayerWeights *own, Error *error) {
    const int64_t first = c->shard->first_column, n = c->shard->n_columns;
    own->w_gate = rows_of(&host->w_gate, first, n), own->b_gate = elements_of(&host->b_gate, first, n);
    own->w_up = rows_of(&host->w_up, first, n), own->b_up = elements_of(&host->b_up, first, n);
    return columns_of(c, &host->w_down, first, n, &own->w_down, error);
}

// Rows of q, k, v and gates, and columns of out, that are of a rank's heads.
static Status cut_heads(const DecoderShape *s, Cutting *c, const LayerWeights *host, LayerWeights *own,
                        Error *error) {
    const Shard *shard = c->shard;
    const int64_t first = shard->first_head, n = shard->n_heads,
                  of_query = decoder_query_width(s) / s->n_heads,
                  attended = decoder_attended_width(s) / s->n_heads, kv = shard->first_kv_head * s->head_dim,
                  n_kv = shard->n_kv_heads * s->head_dim;
    own->wq = rows_of(&host->wq, first * of_query, n * of_query);
    own->bq = elements_of(&host->bq, first * of_query, n * of_query);
    own->wk = rows_of(&host->wk, kv, n_kv), own->bk = elements_of(&host->bk, kv, n_kv);
    own->wv = rows_of(&host->wv, kv, n_kv), own->bv = elements_of(&host->bv, kv, n_kv);
    if (layer_norms_rows(s, host)) {
        own->q_norm = elements_of(&host->q_norm, first * s->head_dim, n * s->head_dim);
        own->k_norm = elements_of(&host->k_norm, kv, n_kv);
        own->norms_rows = true;
    }
    const int64_t gates = host->attn_gate.rows / s->n_heads;
    own->attn_gate = rows_of(&host->attn_gate, first * gates, n * gates);
    own->attn_gate_bias = elements_of(&host->attn_gate_bias, first * gates, n * gates);
    own->k_up = rows_of(&host->k_up, first * s->latent.rank, n * s->latent.rank);
    own->v_up = rows_of(&host->v_up, first * s->latent.value_dim, n * s->latent.value_dim);
    return columns_of(c, &host->wo, first * attended, n * attended, &own->wo, error);
}

static Status cut_layer(const Shards *s, int rank, Cutting *c, const LayerWeights *host, LayerWeights *own,
                        Error *error) {
    *own = *host;
    Status status = cut_heads(s->whole, c, host, own, error);
    if (!status)
        status = host->router.data ? cut_experts(c, &s->whole->experts, host, own, error)
                                   : cut_dense(c, host, own, error);
    if (rank > 0) own->bo = own->b_down = (Matrix){0}; // which are added once
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

static Status take(const Rank *r, size_t bytes, float **memory, Error *error) {
    void *taken = NULL;
    Status status = *memory ? STATUS_OK : r->backend->ops->alloc(r->backend, bytes, &taken, error);
    if (taken) *memory = taken;
    return status;
}

// What all add, once a layer has a norm for it.
static Status take_sums(Shards *s, int rank, const LayerWeights *w, Error *error) {
    Rank *r = &s->ranks[rank];
    Status status = STATUS_OK;
    if (w->attn_post_norm.data || w->ffn_post_norm.data)
        status = take(r, shards_part_bytes(s), &r->sums, error);
    if (!status && layer_norms_rows(s->whole, w))
        status = take(r, shards_squares_bytes(s), &r->squares, error);
    return status;
}

static Status load_layer(void *context, int rank, Error *error) {
    const Loading *l = context;
    Rank *r = &l->s->ranks[rank];
    Cutting c = {.shard = &r->shard, .made_up = l->s->random_weights};
    LayerWeights own;
    Status status = take_sums(l->s, rank, l->layer, error);
    if (!status) status = cut_layer(l->s, rank, &c, l->layer, &own, error);
    if (!status) status = r->backend->ops->load_layer(r->backend, &own, &l->layers[rank], error);
    while (c.n_copies > 0) free(c.copies[--c.n_copies]);
    return status;
}

Status shards_load_layer(Backend *backend, const LayerWeights *host, Layer **out, Error *error) {
    Shards *s = shards_of(backend);
    *out = NULL;
    Status status = check_layer(host, error);
    if (status) return status;
    Layer *layer = calloc(1, sizeof *layer);
    if (!layer) return error_set(error, STATUS_MEMORY, "no memory for a layer");
    Loading loading = {.s = s, .layer = host, .layers = layer->own};
    status = shards_run_in_turn(s, load_layer, &loading, error);
    if (status) { // what some ranks took goes when they are closed
        free(layer);
        return status;
    }
    layer->normed[0] = host->attn_post_norm.data != NULL, layer->normed[1] = host->ffn_post_norm.data != NULL;
    layer->norms_rows = layer_norms_rows(s->whole, host);
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
    Status status = shards_run_in_turn(s, load_head, &loading, error);
    if (status) {
        free(head);
        return status;
    }
    head->next = s->heads;
    s->heads = *out = head;
    return STATUS_OK;
}

int64_t shards_rank_weight_bytes(const Shards *s, int rank, const LayerWeights *layers,
                                 const HeadWeights *head) {
    const Rank *r = &s->ranks[rank];
    const size_t n = (size_t)s->whole->n_layers;
    const HeadWeights part = cut_head(s, rank, head);
    Cutting sizes = {.shard = &r->shard, .made_up = true};
    Error later; // what cannot be cut is told when it is loaded
    LayerWeights *own = malloc(n * sizeof *own);
    for (size_t l = 0; own && l < n; l++) cut_layer(s, rank, &sizes, &layers[l], &own[l], &later);
    const int64_t bytes = own ? r->backend->ops->weight_bytes(r->backend, own, &part) : 0;
    free(own);
    return bytes;
}
