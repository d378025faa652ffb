// Takes layers over: matrices by reference into the mapped file, vectors as float32.
#include "kernels/cpu/cpu.h"

#include <stdlib.h>

typedef struct Expected {
    const char *name;
    const Matrix *matrix;
    int64_t rows, cols; // rows 1: a vector
    bool optional;
    float offset;   // added to a vector's elements
    float **vector; // where a vector's float32 copy goes; NULL for matrices
} Expected;

static Status check(const Expected *e, Error *error) {
    const Matrix *m = e->matrix;
    if (m->data == NULL) {
        if (e->optional) return STATUS_OK;
        return error_set(error, STATUS_FILE, "%s is missing", e->name);
    }
    if (m->rows != e->rows || m->cols != e->cols)
        return error_set(error, STATUS_FILE, "%s: expected [%lld, %lld], file has [%lld, %lld]", e->name,
                         (long long)e->rows, (long long)e->cols, (long long)m->rows, (long long)m->cols);
    if ((unsigned)m->type >= DTYPE_COUNT || dtype_row_bytes(m->type, m->cols) < 0)
        return error_set(error, STATUS_UNSUPPORTED, "%s: the cpu backend has no code for rows of %lld %s",
                         e->name, (long long)m->cols, dtype_name(m->type));
    return STATUS_OK;
}

// Checks all and converts the vectors, which become one allocation (*vectors).
static Status take_over(const Expected *expected, int n, float **vectors, Error *error) {
    int64_t total = 0;
    for (int i = 0; i < n; i++) {
        Status status = check(&expected[i], error);
        if (status != STATUS_OK) return status;
        if (expected[i].vector && expected[i].matrix->data) total += expected[i].cols;
    }
    float *next = malloc((size_t)(total ? total : 1) * sizeof *next);
    if (next == NULL)
        return error_set(error, STATUS_MEMORY, "not enough memory for a layer's norms and biases");
    *vectors = next;
    for (int i = 0; i < n; i++) {
        const Expected *e = &expected[i];
        if (e->vector == NULL || e->matrix->data == NULL) continue;
        dequantize(e->matrix->type, e->matrix->data, 0, e->cols, next);
        for (int64_t j = 0; j < e->cols; j++) next[j] += e->offset;
        *e->vector = next;
        next += e->cols;
    }
    return STATUS_OK;
}

Status cpu_load_layer(Backend *backend, const LayerWeights *host, Layer **out, Error *error) {
    CpuBackend *cpu = cpu_backend(backend);
    const DecoderShape *s = cpu->shape;
    Layer *layer = calloc(1, sizeof *layer);
    if (layer == NULL) return error_set(error, STATUS_MEMORY, "not enough memory for a layer");
    layer->weights = *host;
    const LayerWeights *w = &layer->weights;
    int64_t hidden = s->hidden_size, wide = s->intermediate_size;
    int64_t q_width = (int64_t)s->n_heads * s->head_dim, kv_width = (int64_t)s->n_kv_heads * s->head_dim;
    const Expected expected[] = {
        {"attn_norm", &w->attn_norm, 1, hidden, false, s->norm_offset, &layer->attn_norm},
        {"wq", &w->wq, q_width, hidden, false, 0, NULL},
        {"bq", &w->bq, 1, q_width, true, 0, &layer->bq},
        {"wk", &w->wk, kv_width, hidden, false, 0, NULL},
        {"bk", &w->bk, 1, kv_width, true, 0, &layer->bk},
        {"wv", &w->wv, kv_width, hidden, false, 0, NULL},
        {"bv", &w->bv, 1, kv_width, true, 0, &layer->bv},
        {"q_norm", &w->q_norm, 1, s->head_dim, true, s->norm_offset, &layer->q_norm},
        {"k_norm", &w->k_norm, 1, s->head_dim, true, s->norm_offset, &layer->k_norm},
        {"wo", &w->wo, hidden, q_width, false, 0, NULL},
        {"bo", &w->bo, 1, hidden, true, 0, &layer->bo},
        {"ffn_norm", &w->ffn_norm, 1, hidden, false, s->norm_offset, &layer->ffn_norm},
        {"w_gate", &w->w_gate, wide, hidden, false, 0, NULL},
        {"w_up", &w->w_up, wide, hidden, false, 0, NULL},
        {"w_down", &w->w_down, hidden, wide, false, 0, NULL},
    };
    Status status = take_over(expected, sizeof expected / sizeof *expected, &layer->vectors, error);
    if (status != STATUS_OK) {
        free(layer);
        return status;
    }
    layer->next = cpu->layers;
    cpu->layers = layer;
    *out = layer;
    return STATUS_OK;
}

Status cpu_load_head(Backend *backend, const HeadWeights *host, Head **out, Error *error) {
    CpuBackend *cpu = cpu_backend(backend);
    const DecoderShape *s = cpu->shape;
    Head *head = calloc(1, sizeof *head);
    if (head == NULL) return error_set(error, STATUS_MEMORY, "not enough memory for the head");
    head->weights = *host;
    const Expected expected[] = {
        {"embedding", &head->weights.embedding, s->vocab_size, s->hidden_size, false, 0, NULL},
        {"norm", &head->weights.norm, 1, s->hidden_size, false, s->norm_offset, &head->norm},
        {"output", &head->weights.output, s->vocab_size, s->hidden_size, false, 0, NULL},
    };
    Status status = take_over(expected, sizeof expected / sizeof *expected, &head->vectors, error);
    if (status != STATUS_OK) {
        free(head);
        return status;
    }
    head->next = cpu->heads;
    cpu->heads = head;
    *out = head;
    return STATUS_OK;
}

void cpu_free_weights(CpuBackend *cpu) {
    while (cpu->layers != NULL) {
        Layer *layer = cpu->layers;
        cpu->layers = layer->next;
        free(layer->vectors);
        free(layer);
    }
    while (cpu->heads != NULL) {
        Head *head = cpu->heads;
        cpu->heads = head->next;
        free(head->vectors);
        free(head);
    }
}
