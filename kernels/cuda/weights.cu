// Weights on the device: uploaded through pinned memory as the file has them, then taken apart into the forms of
// formats.cuh by a kernel.
#include "kernels/cuda/repack.cuh"

#include <stdlib.h>
#include <string.h>

enum { STAGE_BYTES = 32 << 20 };

// ---- upload ----------------------------------------------------------------------------------------------------

// Two pinned buffers and their copies on the device, used in turn.
struct Upload {
    CudaBackend *cuda;
    char *pinned, *device; // [2, STAGE_BYTES]
    cudaEvent_t done[2];
    int next;
};

void cuda_end_upload(CudaBackend *cuda) {
    Upload *u = cuda->upload;
    if (!u) return;
    cudaStreamSynchronize(cuda->stream);
    if (u->pinned) cudaFreeHost(u->pinned);
    if (u->device) cudaFree(u->device);
    for (int i = 0; i < 2; i++)
        if (u->done[i]) cudaEventDestroy(u->done[i]);
    free(u);
    cuda->upload = NULL;
}

// The buffers, kept from the first weight that is loaded to the first step.
static Status begin_upload(CudaBackend *cuda, Error *error) {
    if (cuda->upload) return STATUS_OK;
    Upload *u = cuda->upload = (Upload *)calloc(1, sizeof *u);
    if (!u) return error_set(error, STATUS_MEMORY, "no memory for loading");
    u->cuda = cuda;
    cudaError_t code = cudaMallocHost(&u->pinned, 2 * STAGE_BYTES);
    if (code == cudaSuccess) code = cudaMalloc(&u->device, 2 * STAGE_BYTES);
    for (int i = 0; i < 2 && code == cudaSuccess; i++)
        code = cudaEventCreateWithFlags(&u->done[i], cudaEventDisableTiming);
    Status status = cuda_check(code, error, "buffers for loading");
    if (status) cuda_end_upload(cuda);
    return status;
}

// Rows of `m` become rows first, first + stride, … of w.
static Status upload_rows(Upload *u, const Matrix *m, const Weight *w, int64_t first, int stride,
                          Error *error) {
    int64_t row = dtype_row_bytes(m->type, m->cols), at_once = STAGE_BYTES / row;
    if (at_once < 1) return error_set(error, STATUS_UNSUPPORTED, "rows of %lld elements", (long long)m->cols);
    cudaStream_t stream = u->cuda->stream;
    if (u->cuda->random_weights) {
        random_kernel<<<(unsigned)m->rows, 256, 0, stream>>>(*w, first, stride, (uint32_t)(uintptr_t)w->data);
        return CUDA_LAUNCHED(error, "making up [%lld, %lld]", (long long)m->rows, (long long)m->cols);
    }
    for (int64_t r = 0; r < m->rows; r += at_once) {
        int64_t n = m->rows - r < at_once ? m->rows - r : at_once;
        char *pinned = u->pinned + u->next * (int64_t)STAGE_BYTES,
             *device = u->device + u->next * (int64_t)STAGE_BYTES;
        cudaError_t code = cudaEventSynchronize(u->done[u->next]);
        memcpy(pinned, (const char *)m->data + r * row, (size_t)(n * row));
        char *target = w->data + (first + r * stride) * w->row_bytes;
        if (code == cudaSuccess && !format_quantized(w->format)) {
            code = cudaMemcpy2DAsync(target, (size_t)(w->row_bytes * stride), pinned, (size_t)row,
                                     (size_t)row, (size_t)n, cudaMemcpyHostToDevice, stream);
        } else if (code == cudaSuccess) {
            code = cudaMemcpyAsync(device, pinned, (size_t)(n * row), cudaMemcpyHostToDevice, stream);
            dim3 grid((unsigned)n, (unsigned)((m->cols / 32 + 63) / 64));
            repack_kernel<<<grid, 64, 0, stream>>>(m->type, (const uint8_t *)device, row, *w,
                                                   first + r * stride, stride);
            if (code == cudaSuccess) code = cudaGetLastError();
        }
        if (code == cudaSuccess) code = cudaEventRecord(u->done[u->next], stream);
        Status status = cuda_check(code, error, "loading [%lld, %lld] of %s", (long long)m->rows,
                                   (long long)m->cols, dtype_name(m->type));
        if (status) return status;
        u->next ^= 1;
    }
    return STATUS_OK;
}

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

static float element(const Matrix *m, int64_t i) {
    uint16_t half;
    float value;
    if (m->type == DTYPE_F32) {
        memcpy(&value, (const char *)m->data + i * 4, 4);
        return value;
    }
    memcpy(&half, (const char *)m->data + i * 2, 2);
    if (m->type == DTYPE_F16) return __half2float(__ushort_as_half(half));
    uint32_t bits = (uint32_t)half << 16;
    memcpy(&value, &bits, 4);
    return value;
}

// Writes `n` vectors (absent ones as zeros), one after the other, as float32 with `offset` added.
static Status upload_vectors(CudaBackend *cuda, const Matrix *const *vectors, const int64_t *sizes, int n,
                             float offset, float *target, Error *error) {
    int64_t total = 0, at = 0;
    for (int i = 0; i < n; i++) total += sizes[i];
    float *values = (float *)calloc((size_t)total, sizeof *values);
    if (!values) return error_set(error, STATUS_MEMORY, "no memory for a vector of %lld", (long long)total);
    Status status = STATUS_OK;
    for (int i = 0; i < n && !status; at += sizes[i++]) {
        const Matrix *v = vectors[i];
        if (v->data && v->type > DTYPE_BF16)
            status =
                error_set(error, STATUS_UNSUPPORTED, "cuda: a norm or bias of type %s", dtype_name(v->type));
        for (int64_t j = 0; v->data && !status && j < sizes[i]; j++)
            values[at + j] = cuda->random_weights ? 1 : element(v, j) + offset;
    }
    if (!status)
        status = cuda_check(
            cudaMemcpyAsync(target, values, (size_t)total * 4, cudaMemcpyHostToDevice, cuda->stream), error,
            "loading a vector");
    if (!status) status = cuda_check(cudaStreamSynchronize(cuda->stream), error, "loading a vector");
    free(values);
    return status;
}

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
    Status status = begin_upload(cuda, error);
    if (status) return status;
    Upload *u = cuda->upload;
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
    if (!status) status = upload_rows(u, &h->wq, &part[0], 0, 1, error);
    if (!status) status = upload_rows(u, &h->wk, &part[merged ? 0 : 1], merged ? q : 0, 1, error);
    if (!status) status = upload_rows(u, &h->wv, &part[merged ? 0 : 2], merged ? q + kv : 0, 1, error);
    if (!status) status = upload_rows(u, &h->wo, &layer->out.part[0], 0, 1, error);
    if (!status) status = upload_rows(u, &h->w_gate, &layer->gate_up.part[0], 0, 2, error);
    if (!status) status = upload_rows(u, &h->w_up, &layer->gate_up.part[0], 1, 2, error);
    if (!status) status = upload_rows(u, &h->w_down, &layer->down.part[0], 0, 1, error);
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
    Status status = begin_upload(cuda, error);
    if (status) return status;
    Upload *u = cuda->upload;
    status =
        upload_vector(cuda, &h->norm, cuda->shape->hidden_size, cuda->shape->norm_offset, head->norm, error);
    if (!status) status = upload_rows(u, &h->embedding, &head->embedding, 0, 1, error);
    if (!status && h->output.data != h->embedding.data)
        status = upload_rows(u, &h->output, &head->output.part[0], 0, 1, error);
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
