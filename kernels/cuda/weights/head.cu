// What is no layer's on the device: embeddings, the last norm, the matrix of logits, in one allocation.
#include "kernels/cuda/weights/layout.cuh"

#include <stdlib.h>
#include <string.h>

enum { HEAD_VECTORS = 6 };

static void vectors_of_head(const DecoderShape *s, const HeadWeights *h, Head *head,
                            Vector out[HEAD_VECTORS]) {
    int64_t hidden = s->hidden_size;
    float offset = s->norm_offset, scale = s->logit_scale != 0 ? s->logit_scale : 1;
    const Vector all[HEAD_VECTORS] = {
        {"norm", &h->norm, hidden, s->last_norm_whole ? 0 : offset, scale, true, &head->norm.weight},
        {"norm_bias", &h->norm_bias, hidden, 0, scale, false, &head->norm.bias},
        {"embedding_norm", &h->embedding_norm, hidden, offset, 1, false, &head->embedding_norm.weight},
        {"embedding_norm_bias", &h->embedding_norm_bias, hidden, 0, 1, false, &head->embedding_norm.bias},
        {"token_norm", &h->token_norm, s->token_size, offset, 1, s->token_size > 0, &head->token_norm},
        {"output_bias", &h->output_bias, decoder_output_rows(s), 0, 1, false, &head->output_bias},
    };
    memcpy(out, all, sizeof all);
}

// Whether one matrix is for both; a part of it (kernels/shards) is held once more.
static bool is_tied(const HeadWeights *h) {
    return h->output.data == h->embedding.data && h->output.rows == h->embedding.rows;
}

static void lay_out_head(const DecoderShape *s, const HeadWeights *h, Head *head, Arena *a) {
    Vector vectors[HEAD_VECTORS];
    vectors_of_head(s, h, head, vectors);
    vectors_lay_out(vectors, HEAD_VECTORS, a);
    if (h->positions.data) head->positions = a->weight(&h->positions, s->n_positions);
    head->embedding = a->weight(&h->embedding, s->vocab_size);
    head->token_projection = a->linear(&h->token_projection);
    if (h->token_embedding.data) head->token_embedding = a->weight(&h->token_embedding, s->vocab_size);
    const int rows = decoder_output_rows(s);
    head->output =
        Linear{{is_tied(h) ? head->embedding : a->weight(&h->output, rows)}, 1, rows, s->hidden_size};
}

static Status upload_head(CudaBackend *cuda, const HeadWeights *h, Head *head, Error *error) {
    Status status = upload_begin(cuda, error);
    if (status) return status;
    Vector vectors[HEAD_VECTORS];
    vectors_of_head(cuda->shape, h, head, vectors);
    status = vectors_upload(cuda, vectors, HEAD_VECTORS, error);
    if (!status && h->positions.data)
        status = upload_rows(cuda, &h->positions, &head->positions, 0, 1, error);
    if (!status) status = upload_rows(cuda, &h->embedding, &head->embedding, 0, 1, error);
    if (!status && h->token_embedding.data)
        status = upload_rows(cuda, &h->token_embedding, &head->token_embedding, 0, 1, error);
    if (!status && h->token_projection.data)
        status = upload_rows(cuda, &h->token_projection, &head->token_projection.part[0], 0, 1, error);
    if (!status && !is_tied(h)) status = upload_rows(cuda, &h->output, &head->output.part[0], 0, 1, error);
    return status;
}

static Status check_head(const DecoderShape *s, const HeadWeights *h, Head *head, Error *error) {
    Vector vectors[HEAD_VECTORS];
    vectors_of_head(s, h, head, vectors);
    Status status = vectors_check(vectors, HEAD_VECTORS, error);
    if (!status)
        status = layout_check_matrix("embedding", &h->embedding, s->vocab_size, s->hidden_size, error);
    if (!status)
        status = layout_check_matrix("output", &h->output, decoder_output_rows(s), s->hidden_size, error);
    const int64_t of_layers = (int64_t)s->n_layers * s->token_size;
    if (!status && s->token_size)
        status = layout_check_matrix("token_embedding", &h->token_embedding, s->vocab_size, of_layers, error);
    if (!status && s->token_size)
        status =
            layout_check_matrix("token_projection", &h->token_projection, of_layers, s->hidden_size, error);
    if (!status && s->n_positions > 0)
        status = layout_check_matrix("positions", &h->positions, s->n_positions, s->hidden_size, error);
    return status;
}

size_t head_bytes(const DecoderShape *shape, const HeadWeights *host) {
    Head head = {};
    Arena arena = {};
    lay_out_head(shape, host, &head, &arena);
    return arena.used;
}

Status cuda_load_head(Backend *backend, const HeadWeights *host, Head **out, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    const DecoderShape *s = cuda->shape;
    *out = NULL;
    Head *head = (Head *)calloc(1, sizeof *head);
    if (!head) return error_set(error, STATUS_MEMORY, "no memory for the head");
    Arena arena = {};
    Status status = check_head(s, host, head, error);
    if (!status) {
        lay_out_head(s, host, head, &arena);
        status = cuda_check(device_allocate(&cuda->device, &head->memory, arena.used), error,
                            "%zu bytes for the head", arena.used);
    }
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
    settle_operand(cuda, host->output.type == DTYPE_BF16 ? DTYPE_BF16 : DTYPE_F16, true);
    head->next = cuda->heads;
    cuda->heads = head;
    *out = head;
    return STATUS_OK;
}
