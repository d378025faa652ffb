#include "engine/forward.h"

// A single token in one go, where the backend can: the same ops, fused further. STATUS_UNSUPPORTED: not this one.
static Status decode(Forward *f, const Step *step, const KvCache *cache, Error *error) {
    const Ops *ops = f->backend->ops;
    if (!ops->decode || step->n_tokens != 1 || step->n_sequences != 1) return STATUS_UNSUPPORTED;
    DecodeStep all = {
        .step = step,
        .head = f->head,
        .layers = (const Layer *const *)f->layers,
        .kv = cache->layers,
        .windows = f->model->windows,
        .logits = f->logits,
    };
    Status status = ops->decode(f->backend, &all, error);
    f->has_logits = status == STATUS_OK;
    return status;
}

Status forward_step(Forward *f, const Step *step, const KvCache *cache,
                    const volatile sig_atomic_t *interrupt, Error *error) {
    const Ops *ops = f->backend->ops;
    Backend *b = f->backend;
    const bool parallel = f->model->shape.parallel_residual;
    f->has_logits = false;
    Status s = decode(f, step, cache, error);
    if (s != STATUS_UNSUPPORTED) return s;
    s = ops->begin(b, step, error);
    if (!s) s = ops->embed(b, f->head, f->x, error);
    for (int l = 0; l < f->model->shape.n_layers && !s; l++) {
        const Layer *layer = f->layers[l];
        const KvLayer *kv = &cache->layers[l];
        if (interrupt && *interrupt) return error_set(error, STATUS_INTERRUPTED, "interrupted");
        s = ops->qkv(b, layer, f->x, kv, f->q, error);
        if (!s) s = ops->attend(b, f->q, kv, f->model->windows[l], f->q, error);
        if (!s && parallel) s = ops->gate_up(b, layer, f->x, f->g, error);
        if (!s) s = ops->out(b, layer, f->q, f->x, error);
        if (!s && !parallel) s = ops->gate_up(b, layer, f->x, f->g, error);
        if (!s) s = ops->down(b, layer, f->g, f->x, error);
        if (s) error_prefix(error, "layer %d: ", l);
    }
    return s;
}

Status forward_logits(Forward *f, const int32_t *tokens, int n_rows, Error *error) {
    if (f->has_logits) return STATUS_OK;
    return f->backend->ops->logits(f->backend, f->head, f->x, tokens, n_rows, f->logits, error);
}

// ---- memory ------------------------------------------------------------------------------------------------

static int64_t x_bytes(const DecoderShape *s, size_t size, int n) {
    return (int64_t)size * n * s->hidden_size;
}
static int64_t q_bytes(const DecoderShape *s, size_t size, int n) {
    return (int64_t)size * n * s->n_heads * s->head_dim;
}
static int64_t g_bytes(const DecoderShape *s, size_t size, int n) {
    return (int64_t)size * n * s->intermediate_size;
}
static int64_t logits_bytes(const DecoderShape *s, int n) {
    return (int64_t)sizeof(float) * n * s->vocab_size;
}

int64_t forward_bytes(const DecoderShape *shape, size_t activation_bytes, int max_tokens, int max_logits) {
    return x_bytes(shape, activation_bytes, max_tokens) + q_bytes(shape, activation_bytes, max_tokens) +
           g_bytes(shape, activation_bytes, max_tokens) + logits_bytes(shape, max_logits);
}

Status forward_open(Forward *f, Error *error) {
    const Ops *ops = f->backend->ops;
    const DecoderShape *shape = &f->model->shape;
    void *logits = NULL;
    Status s =
        ops->alloc(f->backend, (size_t)x_bytes(shape, ops->activation_bytes, f->max_tokens), &f->x, error);
    if (!s)
        s = ops->alloc(f->backend, (size_t)q_bytes(shape, ops->activation_bytes, f->max_tokens), &f->q,
                       error);
    if (!s)
        s = ops->alloc(f->backend, (size_t)g_bytes(shape, ops->activation_bytes, f->max_tokens), &f->g,
                       error);
    if (!s) s = ops->alloc(f->backend, (size_t)logits_bytes(shape, f->max_logits), &logits, error);
    f->logits = logits;
    if (s) forward_close(f);
    return s;
}

void forward_close(Forward *f) {
    void *memory[] = {f->x, f->q, f->g, f->logits};
    for (int i = 0; i < 4; i++)
        if (memory[i]) f->backend->ops->free(f->backend, memory[i]);
    f->x = f->q = f->g = NULL;
    f->logits = NULL;
}
