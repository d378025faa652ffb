// Weights on the device: laid out in one allocation a layer, brought there by upload.cu.
#include "kernels/cuda/upload.cuh"

#include <stdlib.h>
#include <string.h>

// ---- layout ------------------------------------------------------------------------------------------------------

// Memory that is first measured, then cut up: with base NULL, take() only counts.
struct Arena {
    char *base;
    size_t used;
    char *take(size_t bytes) {
        size_t at = used;
        used += (bytes + 255) / 256 * 256;
        return base ? base + at : NULL;
    }
    Weight weight(const Matrix *m, int64_t rows) {
        int format = format_of(m->type);
        int64_t row = format_row_bytes(format, (int)m->cols);
        return Weight{take((size_t)(rows * row)), row, (int)rows, (int)m->cols, format};
    }
};

static Status upload_vector(CudaBackend *cuda, const Matrix *v, int64_t size, float offset, float *target,
                            Error *error) {
    return upload_vectors(cuda, &v, &size, 1, offset, target, error);
}

static void lay_out_layer(const DecoderShape *s, const LayerWeights *h, Layer *layer, Arena *a) {
    int64_t hidden = s->hidden_size, q = (int64_t)s->n_heads * s->head_dim,
            kv = (int64_t)s->n_kv_heads * s->head_dim;
    layer->attn_norm = (float *)a->take((size_t)hidden * 4);
    layer->ffn_norm = (float *)a->take((size_t)hidden * 4);
    if (h->q_norm.data) layer->q_norm = (float *)a->take((size_t)s->head_dim * 4);
    if (h->k_norm.data) layer->k_norm = (float *)a->take((size_t)s->head_dim * 4);
    if (h->bq.data || h->bk.data || h->bv.data) layer->b_qkv = (float *)a->take((size_t)(q + 2 * kv) * 4);
    if (h->bo.data) layer->bo = (float *)a->take((size_t)hidden * 4);
    Format fq = format_of(h->wq.type), fk = format_of(h->wk.type), fv = format_of(h->wv.type);
    layer->qkv = Linear{{}, 1, (int)(q + 2 * kv), (int)hidden};
    if (fq == fk && fk == fv) {
        layer->qkv.part[0] = a->weight(&h->wq, q + 2 * kv);
    } else {
        layer->qkv.n_parts = 3;
        layer->qkv.part[0] = a->weight(&h->wq, q);
        layer->qkv.part[1] = a->weight(&h->wk, kv);
        layer->qkv.part[2] = a->weight(&h->wv, kv);
    }
    layer->out = Linear{{a->weight(&h->wo, hidden)}, 1, (int)hidden, (int)q};
    layer->gate_up = Linear{
        {a->weight(&h->w_gate, 2 * (int64_t)s->intermediate_size)}, 1, 2 * s->intermediate_size, (int)hidden};
    layer->down = Linear{{a->weight(&h->w_down, hidden)}, 1, (int)hidden, s->intermediate_size};
}

static Status upload_layer(CudaBackend *cuda, const LayerWeights *h, Layer *layer, Error *error) {
    const DecoderShape *s = cuda->shape;
    int64_t q = (int64_t)s->n_heads * s->head_dim, kv = (int64_t)s->n_kv_heads * s->head_dim;
    Status status = upload_begin(cuda, error);
    if (status) return status;
    status = upload_vector(cuda, &h->attn_norm, s->hidden_size, s->norm_offset, layer->attn_norm, error);
    if (!status)
        status = upload_vector(cuda, &h->ffn_norm, s->hidden_size, s->norm_offset, layer->ffn_norm, error);
    if (!status && layer->q_norm)
        status = upload_vector(cuda, &h->q_norm, s->head_dim, s->norm_offset, layer->q_norm, error);
    if (!status && layer->k_norm)
        status = upload_vector(cuda, &h->k_norm, s->head_dim, s->norm_offset, layer->k_norm, error);
    const Matrix *biases[] = {&h->bq, &h->bk, &h->bv};
    int64_t sizes[] = {q, kv, kv};
    if (!status && layer->b_qkv) status = upload_vectors(cuda, biases, sizes, 3, 0, layer->b_qkv, error);
    if (!status && layer->bo) status = upload_vector(cuda, &h->bo, s->hidden_size, 0, layer->bo, error);

    const Weight *part = layer->qkv.part;
    bool merged = layer->qkv.n_parts == 1;
    if (!status) status = upload_rows(cuda, &h->wq, &part[0], 0, 1, error);
    if (!status) status = upload_rows(cuda, &h->wk, &part[merged ? 0 : 1], merged ? q : 0, 1, error);
    if (!status) status = upload_rows(cuda, &h->wv, &part[merged ? 0 : 2], merged ? q + kv : 0, 1, error);
    if (!status) status = upload_rows(cuda, &h->wo, &layer->out.part[0], 0, 1, error);
    if (!status) status = upload_rows(cuda, &h->w_gate, &layer->gate_up.part[0], 0, 2, error);
    if (!status) status = upload_rows(cuda, &h->w_up, &layer->gate_up.part[0], 1, 2, error);
    if (!status) status = upload_rows(cuda, &h->w_down, &layer->down.part[0], 0, 1, error);
    return status;
}

// ---- the ops -----------------------------------------------------------------------------------------------------

static Status check_matrix(const char *name, const Matrix *m, int64_t rows, int64_t cols, Error *error) {
    if (!m->data) return error_set(error, STATUS_UNSUPPORTED, "cuda: %s is missing", name);
    if (m->rows != rows || m->cols != cols || m->cols % 8 || (m->type > DTYPE_BF16 && m->cols % 32))
        return error_set(error, STATUS_UNSUPPORTED, "cuda: %s: expected [%lld, %lld], got [%lld, %lld] %s",
                         name, (long long)rows, (long long)cols, (long long)m->rows, (long long)m->cols,
                         dtype_name(m->type));
    return STATUS_OK;
}

static Status check_layer(const DecoderShape *s, const LayerWeights *h, Error *error) {
    int64_t hidden = s->hidden_size, q = (int64_t)s->n_heads * s->head_dim,
            kv = (int64_t)s->n_kv_heads * s->head_dim;
    Status status = check_matrix("attn_norm", &h->attn_norm, 1, hidden, error);
    if (!status) status = check_matrix("ffn_norm", &h->ffn_norm, 1, hidden, error);
    if (!status) status = check_matrix("wq", &h->wq, q, hidden, error);
    if (!status) status = check_matrix("wk", &h->wk, kv, hidden, error);
    if (!status) status = check_matrix("wv", &h->wv, kv, hidden, error);
    if (!status) status = check_matrix("wo", &h->wo, hidden, q, error);
    if (!status) status = check_matrix("w_gate", &h->w_gate, s->intermediate_size, hidden, error);
    if (!status) status = check_matrix("w_up", &h->w_up, s->intermediate_size, hidden, error);
    if (!status) status = check_matrix("w_down", &h->w_down, hidden, s->intermediate_size, error);
    if (!status && format_of(h->w_gate.type) != format_of(h->w_up.type))
        return error_set(error, STATUS_UNSUPPORTED, "cuda: w_gate is %s and w_up %s",
                         dtype_name(h->w_gate.type), dtype_name(h->w_up.type));
    return status;
}

static void settle_operand(CudaBackend *cuda, DType type) {
    if (cuda->operand_known) return;
    cuda->operand = type == DTYPE_F32 || type == DTYPE_BF16 ? type : DTYPE_F16;
    cuda->operand_known = true;
}

Status cuda_load_layer(Backend *backend, const LayerWeights *host, Layer **out, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    *out = NULL;
    Status status = check_layer(cuda->shape, host, error);
    if (status) return status;
    Layer *layer = (Layer *)calloc(1, sizeof *layer);
    if (!layer) return error_set(error, STATUS_MEMORY, "no memory for a layer");
    Arena arena = {};
    lay_out_layer(cuda->shape, host, layer, &arena);
    status = cuda_check(cudaMalloc(&layer->memory, arena.used), error, "%zu bytes for a layer", arena.used);
    if (!status) {
        arena = Arena{layer->memory, 0};
        lay_out_layer(cuda->shape, host, layer, &arena);
        status = upload_layer(cuda, host, layer, error);
    }
    if (status) {
        if (layer->memory) cudaFree(layer->memory);
        free(layer);
        return status;
    }
    settle_operand(cuda, host->wq.type);
    layer->next = cuda->layers;
    cuda->layers = layer;
    *out = layer;
    return STATUS_OK;
}

static void lay_out_head(const DecoderShape *s, const HeadWeights *h, Head *head, Arena *a) {
    head->norm = (float *)a->take((size_t)s->hidden_size * 4);
    head->embedding = a->weight(&h->embedding, s->vocab_size);
    bool tied = h->output.data == h->embedding.data;
    head->output = Linear{
        {tied ? head->embedding : a->weight(&h->output, s->vocab_size)}, 1, s->vocab_size, s->hidden_size};
}

static Status upload_head(CudaBackend *cuda, const HeadWeights *h, const Head *head, Error *error) {
    Status status = upload_begin(cuda, error);
    if (status) return status;
    status =
        upload_vector(cuda, &h->norm, cuda->shape->hidden_size, cuda->shape->norm_offset, head->norm, error);
    if (!status) status = upload_rows(cuda, &h->embedding, &head->embedding, 0, 1, error);
    if (!status && h->output.data != h->embedding.data)
        status = upload_rows(cuda, &h->output, &head->output.part[0], 0, 1, error);
    return status;
}

Status cuda_load_head(Backend *backend, const HeadWeights *host, Head **out, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    const DecoderShape *s = cuda->shape;
    *out = NULL;
    Status status = check_matrix("embedding", &host->embedding, s->vocab_size, s->hidden_size, error);
    if (!status) status = check_matrix("output", &host->output, s->vocab_size, s->hidden_size, error);
    if (!status) status = check_matrix("output_norm", &host->norm, 1, s->hidden_size, error);
    if (status) return status;
    Head *head = (Head *)calloc(1, sizeof *head);
    if (!head) return error_set(error, STATUS_MEMORY, "no memory for the head");
    Arena arena = {};
    lay_out_head(s, host, head, &arena);
    status = cuda_check(cudaMalloc(&head->memory, arena.used), error, "%zu bytes for the head", arena.used);
    if (!status) {
        arena = Arena{head->memory, 0};
        lay_out_head(s, host, head, &arena);
        status = upload_head(cuda, host, head, error);
    }
    if (status) {
        if (head->memory) cudaFree(head->memory);
        free(head);
        return status;
    }
    head->next = cuda->heads;
    cuda->heads = head;
    *out = head;
    return STATUS_OK;
}

// What cudaMalloc takes for an allocation: large ones are whole pages of 2 MB.
static int64_t allocated_bytes(size_t bytes) {
    const size_t page = 2 << 20;
    return (int64_t)(bytes < page / 2 ? bytes : (bytes + page - 1) / page * page);
}

int64_t cuda_weight_bytes(const Backend *backend, const LayerWeights *layers, const HeadWeights *host) {
    const DecoderShape *s = ((const CudaBackend *)backend)->shape;
    Head head = {};
    Arena arena = {};
    lay_out_head(s, host, &head, &arena);
    int64_t bytes = allocated_bytes(arena.used);
    for (int l = 0; l < s->n_layers; l++) {
        Layer layer = {};
        arena = Arena{};
        lay_out_layer(s, &layers[l], &layer, &arena);
        bytes += allocated_bytes(arena.used);
    }
    return bytes;
}

void cuda_free_weights(CudaBackend *cuda) {
    cuda_end_upload(cuda);
    for (Layer *l = cuda->layers, *next; l; l = next) {
        next = l->next;
        cudaFree(l->memory);
        free(l);
    }
    for (Head *h = cuda->heads, *next; h; h = next) {
        next = h->next;
        cudaFree(h->memory);
        free(h);
    }
}
