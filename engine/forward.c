#include "engine/forward.h"

// What an op gave, once the profile, if there is one, has noted it.
static Status done(const Pass *p, ProfileOp op, Status status, Error *error) {
    return status || !p->profile ? status : profile_mark(p->profile, p->backend, op, error);
}

// Whether it is the layer, the last one, that only some of the step's tokens go through.
static bool narrows(const Pass *p, int l) {
    return p->narrowed && l == p->shape->n_layers - 1;
}

static Status narrow(const Pass *p, const KvLayer *kv, Error *error) {
    const NarrowRows rows = {p->narrowed->tokens, p->buffers.x, p->buffers.q};
    return p->backend->ops->narrow(p->backend, &p->narrowed->step, &rows, kv, error);
}

// Whether the step ends in the layer, which nobody wants more of than its keys.
static bool ends(const Pass *p, int l) {
    return narrows(p, l) && p->narrowed->step.n_tokens == 0;
}

// What the layer's mixer makes of x, in q.
static Status mix(const Pass *p, int l, void *q, Error *error) {
    const Ops *ops = p->backend->ops;
    Backend *b = p->backend;
    const KvLayer *kv = &p->kv[l];
    const bool mixes = !layer_heads(p->shape, l).no_mixer;
    Status s = STATUS_OK;
    if (mixes) s = done(p, PROFILE_QKV, ops->qkv(b, p->layers[l], p->buffers.x, kv, q, error), error);
    if (!s && mixes && p->tap && p->tap->take) s = p->tap->take(p->tap->context, l, q, p->n_tokens, error);
    if (s || ends(p, l)) return s;
    if (narrows(p, l)) s = narrow(p, kv, error);
    if (!s && mixes)
        s = done(p, PROFILE_ATTEND, ops->attend(b, q, kv, p->attention_windows[l], q, error), error);
    return s;
}

static Status pass_layer(const Pass *p, int l, Error *error) {
    const Ops *ops = p->backend->ops;
    Backend *b = p->backend;
    const PassBuffers *at = &p->buffers;
    const Layer *layer = p->layers[l];
    const LayerHeads heads = layer_heads(p->shape, l);
    const bool parallel = p->shape->parallel_residual, mixes = !heads.no_mixer, feeds = !heads.no_ffn;
    void *mixed = heads.beside ? at->g : at->q; // beside another layer it was made with that one's
    Status s = heads.beside ? STATUS_OK : mix(p, l, mixed, error);
    if (!s && ends(p, l)) return STATUS_OK;
    if (!s && layer_has_beside(p->shape, l)) s = mix(p, l + 1, at->g, error);
    if (!s && feeds && parallel)
        s = done(p, PROFILE_GATE_UP, ops->gate_up(b, layer, at->x, at->g, error), error);
    if (!s && mixes) s = done(p, PROFILE_OUT, ops->out(b, layer, mixed, at->x, error), error);
    if (!s && feeds && !parallel)
        s = done(p, PROFILE_GATE_UP, ops->gate_up(b, layer, at->x, at->g, error), error);
    if (!s && feeds && p->tap && p->tap->take_ffn)
        s = p->tap->take_ffn(p->tap->context, l, at->g, p->n_tokens, error);
    if (!s && feeds) s = done(p, PROFILE_DOWN, ops->down(b, layer, at->g, at->x, error), error);
    return s ? error_prefix(error, "layer %d: ", layer_of_files(p->shape, l)) : STATUS_OK;
}

Status forward_pass(const Pass *p, Error *error) {
    const Ops *ops = p->backend->ops;
    Status s = STATUS_OK;
    if (!p->goes_on) s = done(p, PROFILE_EMBED, ops->embed(p->backend, p->head, p->buffers.x, error), error);
    for (int l = 0; l < p->shape->n_layers && !s; l++) {
        if (p->interrupt && *p->interrupt) return error_set(error, STATUS_INTERRUPTED, "interrupted");
        s = pass_layer(p, l, error);
        if (!s && p->watch) p->watch->layer(p->watch->user, l + 1, p->shape->n_layers);
    }
    return s;
}

Status forward_pass_in(const void *pass, const PassBuffers *buffers, Error *error) {
    Pass p = *(const Pass *)pass;
    p.buffers = *buffers;
    Status s = forward_pass(&p, error);
    const LogitRows rows = {NULL, p.n_tokens};
    return s ? s : p.backend->ops->logits(p.backend, p.head, p.buffers.x, &rows, p.buffers.logits, error);
}

// One token for each sequence in one go, where the backend can: the same ops, fused further. STATUS_UNSUPPORTED: not
// this one.
static Status decode(Forward *f, const Step *step, const int32_t *drawn, const Pass *pass, Error *error) {
    const Ops *ops = f->backend->ops;
    if (f->profile || f->tap || !ops->decode || step->kind == STEP_READING ||
        step->n_tokens != step->n_sequences || step->n_sequences > f->max_logits)
        return STATUS_UNSUPPORTED;
    DecodeStep all = {
        .step = step,
        .head = f->head,
        .layers = f->layers,
        .kv = pass->kv,
        .windows = f->model->attention_windows,
        .logits = pass->buffers.logits,
        .pass = forward_pass_in,
        .context = pass,
        .drawn = drawn,
        .buffers = &pass->buffers,
    };
    return ops->decode(f->backend, &all, error);
}

Pass forward_pass_of(const Forward *f, const Step *step, const KvCache *cache, const atomic_int *interrupt) {
    return (Pass){
        .backend = f->backend,
        .shape = &f->model->shape,
        .head = f->head,
        .layers = f->layers,
        .kv = cache->layers,
        .attention_windows = f->model->attention_windows,
        .buffers = {f->x, f->q, f->g, f->logits},
        .n_tokens = step->n_tokens,
        .profile = f->profile,
        .tap = f->tap,
        .interrupt = interrupt,
    };
}

// Few rows have inputs as decoding has: of quantised weights in 8 bits on a GPU, which a prompt's last token may have as the
// tokens behind it do; but of weights in FP8 in 16 bits, where the makers round them: those stay as a prompt's.
static bool may_narrow(const Forward *f, const Step *step, const LogitRows *wanted) {
    const DecoderShape *s = &f->model->shape;
    const Ops *ops = f->backend->ops;
    if (!ops->narrow || f->tap || s->token_size > 0 || layer_heads(s, s->n_layers - 1).beside) return false;
    return wanted->n == 0 || (s->fp8_inputs == FP8_INPUTS_KEPT &&
                              narrow_saves(s, step->n_tokens - wanted->n) >= ops->narrow_from);
}

Status forward_step(Forward *f, const Step *step, const LogitRows *wanted, const KvCache *cache,
                    const atomic_int *interrupt, Error *error) {
    Backend *b = f->backend;
    Pass pass = forward_pass_of(f, step, cache, interrupt);
    Narrowed narrowed;
    f->current = f->logits;
    f->n_narrowed = -1;
    const KvLayer *kv = kv_layer_attending(cache->layers, f->model->shape.n_layers);
    Status s = decode(f, step, NULL, &pass, error);
    f->has_logits = !s;
    if (s != STATUS_UNSUPPORTED) return s;
    pass.watch = f->watch; // not before: a step that is being captured must not be waited for
    if (wanted && may_narrow(f, step, wanted) && narrow_step(step, wanted, &narrowed)) {
        pass.narrowed = &narrowed;
        f->n_narrowed = wanted->n;
    }
    s = f->profile ? profile_begin(f->profile, b, error) : STATUS_OK;
    if (!s) s = done(&pass, PROFILE_BEGIN, b->ops->begin(b, step, kv, error), error);
    if (!s) s = forward_pass(&pass, error);
    if (!s && f->profile) s = profile_end(f->profile, b, error);
    if (f->profile) f->profile->narrowed = f->n_narrowed > 0;
    return s;
}

// Pieces for each stage cost it (stages - 1) / pieces of the time, in which it has nothing to do; small ones cost more where
// weights are read anew for each.
int forward_piece(const Forward *f, int64_t left) {
    enum { PIECES = 4, SMALLEST = 4 }; // for each stage; this part of the largest
    if (f->stages > 1 && !f->model->seen_both_ways) {
        const int64_t least = f->max_tokens < SMALLEST ? 1 : f->max_tokens / SMALLEST,
                      piece = (left / (PIECES * f->stages) + least - 1) / least * least,
                      n = piece < least ? least : piece;
        if (n < left) return (int)(n < f->max_tokens ? n : f->max_tokens);
    }
    return (int)(left < f->max_tokens ? left : f->max_tokens);
}

Status forward_settle(Forward *f, Error *error) {
    float arrived;
    if (f->stages <= 1) return STATUS_OK;
    return f->backend->ops->read(f->backend, &arrived, f->x, sizeof arrived, error);
}

bool forward_draws_ahead(const Forward *f) {
    const Ops *ops = f->backend->ops;
    return ops->sample_begin && ops->decode && !f->profile && !f->tap && f->max_logits > 1;
}

float *forward_row(const Forward *f, int row) {
    return f->logits + (int64_t)row * f->model->shape.vocab_size;
}

float *forward_other_row(const Forward *f) {
    return forward_row(f, f->current == f->logits);
}

Status forward_step_ahead(Forward *f, const Step *step, const int32_t *drawn, const KvCache *cache,
                          float *logits, Error *error) {
    Pass pass = forward_pass_of(f, step, cache, NULL);
    pass.buffers.logits = logits;
    return decode(f, step, drawn, &pass, error);
}

Status forward_logits(Forward *f, const int32_t *tokens, int n_rows, Error *error) {
    if (f->has_logits) return STATUS_OK;
    Backend *b = f->backend;
    if (f->n_narrowed >= 0 && n_rows != f->n_narrowed)
        return error_set(error, STATUS_USAGE, "logits: %d rows of a step that was narrowed to %d", n_rows,
                         f->n_narrowed);
    const LogitRows rows = {f->n_narrowed >= 0 ? NULL : tokens, n_rows};
    Status s = f->profile ? profile_begin(f->profile, b, error) : STATUS_OK;
    if (!s) s = b->ops->logits(b, f->head, f->x, &rows, f->current, error);
    if (!s && f->profile) s = profile_mark(f->profile, b, PROFILE_LOGITS, error);
    if (!s && f->profile) s = profile_end(f->profile, b, error);
    return s;
}

Status forward_sample(Forward *f, int n_rows, const SampleParams *params, int32_t *ids, Error *error) {
    Backend *b = f->backend;
    Status s = f->profile ? profile_begin(f->profile, b, error) : STATUS_OK;
    if (!s) s = b->ops->sample(b, f->current, n_rows, params, ids, error);
    if (!s && f->profile) s = profile_mark(f->profile, b, PROFILE_SAMPLE, error);
    if (!s && f->profile) s = profile_end(f->profile, b, error);
    return s;
}

Status forward_sample_begin(Forward *f, int n_rows, const SampleParams *params, Error *error) {
    return f->backend->ops->sample_begin(f->backend, f->current, n_rows, params, error);
}

Status forward_sample_end(Forward *f, int32_t *ids, Error *error) {
    return f->backend->ops->sample_end(f->backend, ids, error);
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
    return (int64_t)size * n * decoder_pass_width(s);
}
static int64_t g_bytes(const DecoderShape *s, size_t size, int n) {
    return (int64_t)size * n * decoder_ffn_width(s);
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
    f->logits = f->current = logits;
    if (s) forward_close(f);
    return s;
}

void forward_close(Forward *f) {
    void *memory[] = {f->x, f->q, f->g, f->logits};
    for (int i = 0; i < 4; i++)
        if (memory[i]) f->backend->ops->free(f->backend, memory[i]);
    f->x = f->q = f->g = NULL;
    f->logits = f->current = NULL;
}
