// Ops of a step: each on all ranks at once, or, where a rank's decode() asks for them through the engine's own loop, on that
// rank alone.
#include "kernels/shards/shards_internal.h"

#include <stdlib.h>

// Whose decode() this thread is in the middle of.
static _Thread_local const Shards *inside;
static _Thread_local int inside_rank;

Status shards_run(Shards *s, CrewTask task, void *context, Error *error) {
    return inside == s ? task(context, inside_rank, error) : shards_run_in_turn(s, task, context, error);
}

// What an op is given; which of it, the op knows.
typedef struct Call {
    Shards *s;
    const Layer *layer;
    const Head *head;
    const KvLayer *kv;
    int window;
    const void *in;
    void *out;
    const LogitRows *rows;
    const Step *step;
    const NarrowRows *narrowed;
    bool of_down;
} Call;

static void *at(const Call *c, int rank, const void *memory) {
    return shards_memory_at(c->s, rank, memory);
}

static Step step_at(const Shards *s, int rank, const Step *step) {
    Step own = *step;
    own.slot_positions = shards_memory_at(s, rank, step->slot_positions);
    return own;
}

// ---- begin, embed -----------------------------------------------------------------------------------------

// What an op that failed has left in the parts must not be added up by the next step.
static Status settle(void *context, int rank, Error *error) {
    const Shards *s = context;
    const Rank *r = &s->ranks[rank];
    const size_t bytes = shards_part_bytes(s);
    void *zeros = calloc(1, bytes);
    if (!zeros) return error_set(error, STATUS_MEMORY, "no memory for a step");
    Status status = r->backend->ops->write(r->backend, r->part, zeros, bytes, error);
    if (!status && r->sums) status = r->backend->ops->write(r->backend, r->sums, zeros, bytes, error);
    if (!status && r->squares)
        status = r->backend->ops->write(r->backend, r->squares, zeros, shards_squares_bytes(s), error);
    free(zeros);
    return status;
}

static Status settled(Shards *s, Error *error) {
    Status status = s->unsettled ? shards_run_in_turn(s, settle, s, error) : STATUS_OK;
    if (!status) s->unsettled = false;
    return status;
}

static Status begin(void *context, int rank, Error *error) {
    const Call *c = context;
    Backend *b = c->s->ranks[rank].backend;
    const Step step = step_at(c->s, rank, c->step);
    if (!c->kv) return b->ops->begin(b, &step, NULL, error);
    const KvLayer kv = shards_kv_at(c->s, rank, c->kv);
    return b->ops->begin(b, &step, &kv, error);
}

Status shards_begin(Backend *backend, const Step *step, const KvLayer *kv, Error *error) {
    Shards *s = shards_of(backend);
    Call call = {.s = s, .step = step, .kv = kv};
    Status status = settled(s, error);
    return status ? status : shards_run(s, begin, &call, error);
}

static Status embed(void *context, int rank, Error *error) {
    const Call *c = context;
    Backend *b = c->s->ranks[rank].backend;
    return b->ops->embed(b, c->head->own[rank], at(c, rank, c->out), error);
}

Status shards_embed(Backend *backend, const Head *head, void *x, Error *error) {
    Call call = {.s = shards_of(backend), .head = head, .out = x};
    return shards_run(call.s, embed, &call, error);
}

// ---- a layer ----------------------------------------------------------------------------------------------

static Status qkv(void *context, int rank, Error *error) {
    const Call *c = context;
    Backend *b = c->s->ranks[rank].backend;
    const KvLayer kv = shards_kv_at(c->s, rank, c->kv);
    return b->ops->qkv(b, c->layer->own[rank], at(c, rank, c->in), &kv, at(c, rank, c->out), error);
}

// Of queries and keys. `squares`: where the rank's own are, before they are added up, and all ranks', behind that.
static ShardRows rows_at(const Shards *s, int rank, float *squares) {
    const DecoderShape *whole = s->whole;
    const Shard *own = &s->ranks[rank].shard,
                *before =
                    rank > 0 ? &s->ranks[rank - 1].shard : NULL; // KV heads that several have are neighbours'
    const int counted = before ? before->first_kv_head + before->n_kv_heads - own->first_kv_head : 0;
    return (ShardRows){squares, whole->n_heads * whole->head_dim, whole->n_kv_heads * whole->head_dim,
                       counted};
}

static Status row_products(void *context, int rank, Error *error) {
    const Call *c = context;
    const Rank *r = &c->s->ranks[rank];
    const KvLayer kv = shards_kv_at(c->s, rank, c->kv);
    const ShardRows rows = rows_at(c->s, rank, r->part);
    return r->backend->ops->shards->row_products(r->backend, c->layer->own[rank], at(c, rank, c->in), &kv,
                                                 &rows, at(c, rank, c->out), error);
}

static Status sum_squares(void *context, int rank, Error *error) {
    const Call *c = context;
    const Shards *s = c->s;
    Backend *b = s->ranks[rank].backend;
    void *parts[SHARDS_MOST], *squares[SHARDS_MOST];
    for (int i = 0; i < s->n; i++) parts[i] = s->ranks[i].part, squares[i] = s->ranks[i].squares;
    return b->ops->shards->sum(b, &(ShardSum){SHARD_SQUARES, parts, squares}, error);
}

static Status norm_rows(void *context, int rank, Error *error) {
    const Call *c = context;
    const Rank *r = &c->s->ranks[rank];
    const KvLayer kv = shards_kv_at(c->s, rank, c->kv);
    const ShardRows rows = rows_at(c->s, rank, r->squares);
    return r->backend->ops->shards->norm_rows(r->backend, c->layer->own[rank], &kv, &rows,
                                              at(c, rank, c->out), error);
}

Status shards_qkv(Backend *backend, const Layer *layer, const void *x, const KvLayer *kv, void *q,
                  Error *error) {
    Call call = {.s = shards_of(backend), .layer = layer, .in = x, .kv = kv, .out = q};
    if (!layer->norms_rows) return shards_run(call.s, qkv, &call, error);
    Status status = shards_run(call.s, row_products, &call, error);
    if (!status) status = shards_run(call.s, sum_squares, &call, error);
    if (!status) status = shards_run(call.s, norm_rows, &call, error);
    if (status) call.s->unsettled = true;
    return status;
}

static Status narrow(void *context, int rank, Error *error) {
    const Call *c = context;
    Backend *b = c->s->ranks[rank].backend;
    const Step step = step_at(c->s, rank, c->step);
    const NarrowRows rows = {c->narrowed->tokens, at(c, rank, c->narrowed->x), at(c, rank, c->narrowed->q)};
    const KvLayer kv = shards_kv_at(c->s, rank, c->kv);
    return b->ops->narrow(b, &step, &rows, &kv, error);
}

Status shards_narrow(Backend *backend, const Step *step, const NarrowRows *rows, const KvLayer *kv,
                     Error *error) {
    Call call = {.s = shards_of(backend), .step = step, .narrowed = rows, .kv = kv};
    return shards_run(call.s, narrow, &call, error);
}

static Status attend(void *context, int rank, Error *error) {
    const Call *c = context;
    Backend *b = c->s->ranks[rank].backend;
    const KvLayer kv = shards_kv_at(c->s, rank, c->kv);
    return b->ops->attend(b, at(c, rank, c->in), &kv, c->window, at(c, rank, c->out), error);
}

Status shards_attend(Backend *backend, const void *q, const KvLayer *kv, int window, void *y, Error *error) {
    Call call = {.s = shards_of(backend), .in = q, .kv = kv, .window = window, .out = y};
    return shards_run(call.s, attend, &call, error);
}

static Status gate_up(void *context, int rank, Error *error) {
    const Call *c = context;
    Backend *b = c->s->ranks[rank].backend;
    return b->ops->gate_up(b, c->layer->own[rank], at(c, rank, c->in), at(c, rank, c->out), error);
}

Status shards_gate_up(Backend *backend, const Layer *layer, const void *x, void *g, Error *error) {
    Call call = {.s = shards_of(backend), .layer = layer, .in = x, .out = g};
    return shards_run(call.s, gate_up, &call, error);
}

static Status out(void *context, int rank, Error *error) {
    const Call *c = context;
    const Rank *r = &c->s->ranks[rank];
    return r->backend->ops->out(r->backend, c->layer->own[rank], at(c, rank, c->in), r->part, error);
}

static Status down(void *context, int rank, Error *error) {
    const Call *c = context;
    const Rank *r = &c->s->ranks[rank];
    return r->backend->ops->down(r->backend, c->layer->own[rank], at(c, rank, c->in), r->part, error);
}

static Status sum(void *context, int rank, Error *error) {
    const Call *c = context;
    const Shards *s = c->s;
    Backend *b = s->ranks[rank].backend;
    const bool normed = c->layer->normed[c->of_down];
    void *parts[SHARDS_MOST], *x[SHARDS_MOST];
    for (int i = 0; i < s->n; i++) {
        parts[i] = s->ranks[i].part;
        x[i] = normed ? s->ranks[i].sums : inside == s && i != rank ? NULL : at(c, i, c->out);
    }
    return b->ops->shards->sum(b, &(ShardSum){s->whole->hidden_size, parts, x}, error);
}

static Status add_normed(void *context, int rank, Error *error) {
    const Call *c = context;
    const Rank *r = &c->s->ranks[rank];
    Backend *b = r->backend;
    return b->ops->shards->add_normed(b, c->layer->own[rank], c->of_down, r->sums, at(c, rank, c->out),
                                      error);
}

// Shares first on all ranks, then their sum: no card waits for one that could not do its share.
static Status add_shares(Call *c, CrewTask share, Error *error) {
    Status status = shards_run(c->s, share, c, error);
    if (!status) status = shards_run(c->s, sum, c, error);
    if (!status && c->layer->normed[c->of_down]) status = shards_run(c->s, add_normed, c, error);
    if (status) c->s->unsettled = true;
    return status;
}

Status shards_out(Backend *backend, const Layer *layer, const void *y, void *x, Error *error) {
    Call call = {.s = shards_of(backend), .layer = layer, .in = y, .out = x};
    return add_shares(&call, out, error);
}

Status shards_down(Backend *backend, const Layer *layer, const void *g, void *x, Error *error) {
    Call call = {.s = shards_of(backend), .layer = layer, .in = g, .out = x, .of_down = true};
    return add_shares(&call, down, error);
}

// ---- logits -----------------------------------------------------------------------------------------------

static Status logits(void *context, int rank, Error *error) {
    const Call *c = context;
    const Rank *r = &c->s->ranks[rank];
    return r->backend->ops->logits(r->backend, c->head->own[rank], at(c, rank, c->in), c->rows, r->logits,
                                   error);
}

static Status gather(void *context, int rank, Error *error) {
    const Call *c = context;
    const Rank *r = &c->s->ranks[rank];
    const ShardGather all = {.first = c->s->first_rows,
                             .part = r->logits,
                             .whole = at(c, rank, c->out),
                             .n_rows = c->rows->n,
                             .in_order = c->rows->tokens == NULL};
    return r->backend->ops->shards->gather(r->backend, &all, error);
}

Status shards_logits(Backend *backend, const Head *head, const void *x, const LogitRows *rows,
                     float *out_logits, Error *error) {
    Call call = {.s = shards_of(backend), .head = head, .in = x, .rows = rows, .out = out_logits};
    if (rows->n > call.s->max_logits)
        return error_set(error, STATUS_USAGE, "logits: %d rows, at most %d at once", rows->n,
                         call.s->max_logits);
    Status status = shards_run(call.s, logits, &call, error);
    return status ? status : shards_run(call.s, gather, &call, error);
}

// ---- a step at once ---------------------------------------------------------------------------------------

typedef struct Decoding {
    Shards *s;
    const DecodeStep *step;
    bool did[SHARDS_MOST]; // whether the rank took it
} Decoding;

static Status decode(void *context, int rank, Error *error) {
    Decoding *d = context;
    Shards *s = d->s;
    const Rank *r = &s->ranks[rank];
    const Step step = step_at(s, rank, d->step->step);
    DecodeStep own = *d->step;
    own.step = &step;
    own.head = d->step->head->own[rank];
    for (int l = 0; l < s->whole->n_layers; l++) r->layers[l] = d->step->layers[l]->own[rank];
    own.layers = r->layers;
    own.kv = r->kv;
    own.logits = shards_memory_at(s, rank, d->step->logits);
    own.buffers = NULL; // which are addresses of all; a rank that asks for none has its own
    const ShardGather all = {s->first_rows, r->logits, own.logits, step.n_tokens, false};
    own.gather = &all;
    inside = s, inside_rank = rank;
    Status status = r->backend->ops->decode(r->backend, &own, error);
    inside = NULL;
    d->did[rank] = !status;
    return status;
}

Status shards_decode(Backend *backend, const DecodeStep *step, Error *error) {
    Shards *s = shards_of(backend);
    Decoding decoding = {.s = s, .step = step};
    if (step->x) return STATUS_UNSUPPORTED; // made elsewhere: not with several cards
    Status status = settled(s, error);
    if (status) return status;
    shards_take_kv(s, step->kv, s->whole->n_layers);
    status = shards_run_in_turn(s, decode, &decoding, error);
    if (status && status != STATUS_UNSUPPORTED) s->unsettled = true;
    for (int i = 0; i < s->n && status == STATUS_UNSUPPORTED; i++)
        if (decoding.did[i])
            return error_set(error, STATUS_DEVICE, "card %d of %d took a step that another cannot", i, s->n);
    return status;
}
