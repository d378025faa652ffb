#include "engine/forward.h"

// One token for each sequence in one go, where the backend can: the same ops, fused further. STATUS_UNSUPPORTED: not
// this one.
static Status decode(Forward *f, const Step *step, const KvCache *cache, Error *error) {
    const Ops *ops = f->backend->ops;
    if (f->profile || f->tap || !ops->decode || step->kind == STEP_READING ||
        step->n_tokens != step->n_sequences || step->n_sequences > f->max_logits)
        return STATUS_UNSUPPORTED;
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

// What an op gave, once the profile, if there is one, has noted it.
static Status done(const Forward *f, ProfileOp op, Status status, Error *error) {
    return status || !f->profile ? status : profile_mark(f->profile, f->backend, op, error);
}

Status forward_step(Forward *f, const Step *step, const KvCache *cache, const atomic_int *interrupt,
                    Error *error) {
    const Ops *ops = f->backend->ops;
    Backend *b = f->backend;
    const bool parallel = f->model->shape.parallel_residual;
    f->has_logits = false;
    Status s = decode(f, step, cache, error);
    if (s != STATUS_UNSUPPORTED) return s;
    s = f->profile ? profile_begin(f->profile, b, error) : STATUS_OK;
    if (!s) s = done(f, PROFILE_BEGIN, ops->begin(b, step, error), error);
    if (!s) s = done(f, PROFILE_EMBED, ops->embed(b, f->head, f->x, error), error);
    for (int l = 0; l < f->model->shape.n_layers && !s; l++) {
        const Layer *layer = f->layers[l];
        const KvLayer *kv = &cache->layers[l];
        if (interrupt && *interrupt) return error_set(error, STATUS_INTERRUPTED, "interrupted");
        s = done(f, PROFILE_QKV, ops->qkv(b, layer, f->x, kv, f->q, error), error);
        if (!s && f->tap) s = f->tap->take(f->tap->context, l, f->q, step->n_tokens, error);
        if (!s)
            s = done(f, PROFILE_ATTEND, ops->attend(b, f->q, kv, f->model->windows[l], f->q, error), error);
        if (!s && parallel) s = done(f, PROFILE_GATE_UP, ops->gate_up(b, layer, f->x, f->g, error), error);
        if (!s) s = done(f, PROFILE_OUT, ops->out(b, layer, f->q, f->x, error), error);
        if (!s && !parallel) s = done(f, PROFILE_GATE_UP, ops->gate_up(b, layer, f->x, f->g, error), error);
        if (!s) s = done(f, PROFILE_DOWN, ops->down(b, layer, f->g, f->x, error), error);
        if (s) error_prefix(error, "layer %d: ", l);
    }
    if (!s && f->profile) s = profile_end(f->profile, b, error);
    return s;
}

Status forward_logits(Forward *f, const int32_t *tokens, int n_rows, Error *error) {
    if (f->has_logits) return STATUS_OK;
    Backend *b = f->backend;
    Status s = f->profile ? profile_begin(f->profile, b, error) : STATUS_OK;
    if (!s)
        s = done(f, PROFILE_LOGITS, b->ops->logits(b, f->head, f->x, tokens, n_rows, f->logits, error),
                 error);
    if (!s && f->profile) s = profile_end(f->profile, b, error);
    return s;
}

Status forward_sample(Forward *f, int n_rows, const SampleParams *params, int32_t *ids, Error *error) {
    Backend *b = f->backend;
    Status s = f->profile ? profile_begin(f->profile, b, error) : STATUS_OK;
    if (!s) s = done(f, PROFILE_SAMPLE, b->ops->sample(b, f->logits, n_rows, params, ids, error), error);
    if (!s && f->profile) s = profile_end(f->profile, b, error);
    return s;
}

Status forward_check_sampled(int32_t id, Error *error) {
    if (id >= 0) return STATUS_OK;
    return error_set(error, STATUS_DEVICE,
                     id == SAMPLE_NAN
                         ? "sample: a logit is not a number: the model or its file is damaged"
                         : "sample: no token is left to choose from: all are banned or impossible");
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
