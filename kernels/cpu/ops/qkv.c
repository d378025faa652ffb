// Norm, the three GEMMs, biases, QK norm, RoPE, and the store into the cache. A part of the work is one
// head, so a head's GEMM, norm and turn happen while it is in its core's cache.
#include "kernels/cpu/cache/kv.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loops/rope.h"
#include "kernels/temperature.h"

typedef struct Qkv {
    CpuBackend *cpu;
    const Layer *layer;
    const KvLayer *kv;
    Activations h;
    float *q;
    bool by_row; // norms of q and k are of whole rows
    int head_dim, n_kv_heads;
    Rope rope; // as the layer has it
} Qkv;

// One head of all tokens: its rows of a projection and what is done with them.
typedef struct HeadPart {
    const Matrix *w;
    const float *bias, *norm; // norm: of each head, or of all heads one after the other; NULL: none
    int head;
    float *rows; // [n_tokens, w->rows]
} HeadPart;

static void norm_head(const Qkv *c, const HeadPart *p, float *row) {
    const DecoderShape *s = c->cpu->shape;
    const Loops *loops = c->cpu->loops;
    if (s->head_layer_norms)
        loops->layer_norm(row, p->norm + (int64_t)p->head * c->head_dim, NULL, c->head_dim, s->norm_eps, row);
    else
        loops->rms_norm(row, p->norm, c->head_dim, s->norm_eps, row);
}

static void project(const Qkv *c, const HeadPart *p, int thread) {
    int head_dim = c->head_dim;
    int64_t first = (int64_t)p->head * head_dim;
    Gemm gemm = {
        .w = p->w, .x = &c->h, .first = first, .end = first + head_dim, .y = p->rows, .y_stride = p->w->rows};
    c->cpu->loops->gemm(&gemm, cpu_thread_scratch(c->cpu, thread));
    for (int64_t t = 0; t < c->cpu->n_tokens; t++) {
        float *row = p->rows + t * p->w->rows + first;
        for (int d = 0; p->bias && d < head_dim; d++) row[d] += p->bias[first + d];
        if (p->norm && !c->by_row && !c->cpu->shape->norms_turned) norm_head(c, p, row);
    }
}

static void turn(const Qkv *c, const HeadPart *p) {
    const int64_t pairs = c->cpu->shape->rope.rotary_dim / 2; // of a table's rows
    if (c->kv->rope < 0) return;
    for (int64_t t = 0; t < c->cpu->n_tokens; t++) {
        int64_t angles = cpu_angles(c->cpu, c->kv) + t * pairs;
        rope_turn(&c->rope, c->cpu->cos + angles, c->cpu->sin + angles,
                  p->rows + t * p->w->rows + (int64_t)p->head * c->head_dim);
    }
}

static void store(const Qkv *c, const HeadPart *p, KvPlane plane) {
    int head_dim = c->head_dim;
    for (int64_t t = 0; t < c->cpu->n_tokens; t++)
        kv_store(c->cpu->loops, c->kv, &(KvRow){plane, c->cpu->slots[t], p->head, head_dim},
                 p->rows + t * p->w->rows + (int64_t)p->head * head_dim);
}

static void sharpen(const Qkv *c, const HeadPart *p) {
    const int head_dim = c->head_dim;
    for (int64_t t = 0; t < c->cpu->n_tokens; t++) {
        float *row = p->rows + t * p->w->rows + (int64_t)p->head * head_dim;
        for (int d = 0; d < head_dim; d++) row[d] *= c->cpu->temperatures[t];
    }
}

static void norm_turned(const Qkv *c, const HeadPart *p) {
    const int head_dim = c->head_dim;
    for (int64_t t = 0; t < c->cpu->n_tokens; t++) {
        float *row = p->rows + t * p->w->rows + (int64_t)p->head * head_dim;
        norm_head(c, p, row);
    }
}

// What is left to do for a head of q or k once it is normed.
static void finish(const Qkv *c, const HeadPart *p) {
    turn(c, p);
    if (c->cpu->shape->norms_turned && p->norm) norm_turned(c, p);
    if (p->rows == c->q && layer_is_tempered(c->cpu->shape, c->kv)) sharpen(c, p);
    if (p->rows == c->cpu->k) store(c, p, KV_KEYS);
}

static HeadPart part_of(const Qkv *c, int64_t part) {
    const LayerWeights *w = &c->layer->weights;
    int n_heads = c->cpu->shape->n_heads;
    return part < n_heads
               ? (HeadPart){&w->wq, c->layer->bq, c->layer->q_norm, (int)part, c->q}
               : (HeadPart){&w->wk, c->layer->bk, c->layer->k_norm, (int)part - n_heads, c->cpu->k};
}

static void qkv_head(void *context, int64_t part, int thread) {
    const Qkv *c = context;
    const LayerWeights *w = &c->layer->weights;
    int n_heads = c->cpu->shape->n_heads, n_kv_heads = c->n_kv_heads;
    if (part < n_heads + n_kv_heads) {
        HeadPart p = part_of(c, part);
        project(c, &p, thread);
        if (!c->by_row) finish(c, &p);
    } else {
        HeadPart p = {&w->wv, c->layer->bv, c->layer->v_norm, (int)part - n_heads - n_kv_heads, c->cpu->v};
        project(c, &p, thread);
        store(c, &p, KV_VALUES);
    }
}

static void norm_rows(void *context, int64_t token, int thread) {
    const Qkv *c = context;
    const Loops *loops = c->cpu->loops;
    const int64_t q = c->layer->weights.wq.rows, k = c->layer->weights.wk.rows;
    const float eps = c->cpu->shape->norm_eps;
    float *queries = c->q + token * q, *keys = c->cpu->k + token * k;
    (void)thread;
    if (c->layer->q_norm) loops->rms_norm(queries, c->layer->q_norm, q, eps, queries);
    if (c->layer->k_norm) loops->rms_norm(keys, c->layer->k_norm, k, eps, keys);
}

static void finish_head(void *context, int64_t part, int thread) {
    const Qkv *c = context;
    HeadPart p = part_of(c, part);
    (void)thread;
    finish(c, &p);
}

static Qkv qkv_of(CpuBackend *cpu, const Layer *layer, const KvLayer *kv, void *q) {
    return (Qkv){.cpu = cpu,
                 .layer = layer,
                 .kv = kv,
                 .q = q,
                 .by_row = layer->row_norms,
                 .head_dim = kv_layer_head_dim(cpu->shape, kv),
                 .n_kv_heads = kv->borrowed ? 0 : kv_layer_heads(cpu->shape, kv),
                 .rope = rope_of_table(&cpu->shape->rope, kv->rope)};
}

void cpu_qkv_products(CpuBackend *cpu, const Layer *layer, const void *x, const KvLayer *kv, void *q) {
    const LayerWeights *w = &layer->weights;
    const Matrix *matrices[] = {&w->wq, &w->wk, &w->wv, &w->attn_gate};
    Qkv c = qkv_of(cpu, layer, kv, q);
    c.h = cpu_normed(cpu, &(NormedRows){x, NULL, cpu->n_tokens, layer->attn_norm, false}, matrices, 4);
    threads_run(cpu->threads, cpu->shape->n_heads + 2 * (int64_t)c.n_kv_heads, qkv_head, &c);
    cpu_make_gates(cpu, layer, &c.h);
}

void cpu_qkv_finish(CpuBackend *cpu, const Layer *layer, const KvLayer *kv, void *q) {
    Qkv c = qkv_of(cpu, layer, kv, q);
    threads_run(cpu->threads, cpu->shape->n_heads + (int64_t)c.n_kv_heads, finish_head, &c);
}

Status cpu_qkv(Backend *backend, const Layer *layer, const void *x, const KvLayer *kv, void *q,
               Error *error) {
    CpuBackend *cpu = cpu_backend(backend);
    cpu->gated = 0;
    if (kv->recurs) return cpu_delta(cpu, layer, x, kv, q, error);
    if (kv_layer_check(kv, kv_layer_head_dim(cpu->shape, kv), error)) return error_prefix(error, "qkv: ");
    if (cpu->shape->latent.rank > 0) return cpu_latent_qkv(cpu, layer, x, kv, q);
    if (kv->convolves) return cpu_convolve(cpu, layer, x, kv, q, error);
    cpu_qkv_products(cpu, layer, x, kv, q);
    if (!layer->row_norms) return STATUS_OK;
    Qkv c = qkv_of(cpu, layer, kv, q);
    threads_run(cpu->threads, cpu->n_tokens, norm_rows, &c);
    cpu_qkv_finish(cpu, layer, kv, q);
    return STATUS_OK;
}
