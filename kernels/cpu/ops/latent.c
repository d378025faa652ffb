// qkv and out of layers with a latent (ops.h, Latent). The products of heads with matrices of their own are a part of
// the work each.
#include "kernels/cpu/cache/kv.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loops/rope.h"
#include "kernels/temperature.h"

#include <string.h>

// A step of one layer.
typedef struct Heads {
    CpuBackend *cpu;
    const Layer *layer;
    const KvLayer *kv;
    const float *from; // what attention gave
    float *q;
} Heads;

static void turn_row(const Heads *c, int64_t token, float *row) {
    const Rope *rope = &c->cpu->shape->rope;
    if (c->kv->rope < 0) return;
    const int64_t angles = cpu_angles(c->cpu, c->kv) + token * (rope->rotary_dim / 2);
    rope_turn(rope, c->cpu->cos + angles, c->cpu->sin + angles, row);
}

// The row that a token leaves in the cache, from wk's [latent | rotary part] in cpu->v.
static void store_token(void *context, int64_t token, int thread) {
    const Heads *c = context;
    const DecoderShape *s = c->cpu->shape;
    const int rank = s->latent.rank, rotary = s->rope.rotary_dim;
    const float *from = c->cpu->v + token * s->head_dim;
    float *row = c->cpu->k + token * s->head_dim;
    (void)thread;
    memcpy(row, from + rank, (size_t)rotary * sizeof *row);
    c->cpu->loops->rms_norm(from, c->layer->latent_norm, rank, s->latent.norm_eps, row + rotary);
    turn_row(c, token, row);
    kv_store(c->cpu->loops, c->kv, &(KvRow){KV_KEYS, c->cpu->slots[token], 0, s->head_dim}, row);
}

// What makes queries sharper can multiply what they are made of.
static void norm_query(void *context, int64_t token, int thread) {
    const Heads *c = context;
    const Latent *l = &c->cpu->shape->latent;
    float *row = c->cpu->q_down + token * l->q_rank;
    (void)thread;
    c->cpu->loops->rms_norm(row, c->layer->q_down_norm, l->q_rank, l->norm_eps, row);
    if (!layer_is_tempered(c->cpu->shape, c->kv)) return;
    for (int i = 0; i < l->q_rank; i++) row[i] *= c->cpu->temperatures[token];
}

// `n` elements of a head of every token, `stride` apart, one below the other for a product.
static Activations gather(const CpuBackend *cpu, const float *from, int64_t stride, int64_t n, float *to) {
    for (int64_t t = 0; t < cpu->n_tokens; t++) memcpy(to + t * n, from + t * stride, (size_t)n * sizeof *to);
    return (Activations){.n = cpu->n_tokens, .cols = n, .x = to};
}

// A head's query, from [plain part | rotary part] in cpu->expanded.
static void absorb_head(void *context, int64_t head, int thread) {
    const Heads *c = context;
    CpuBackend *cpu = c->cpu;
    const DecoderShape *s = cpu->shape;
    const int64_t rank = s->latent.rank, plain = s->latent.plain_dim, rotary = s->rope.rotary_dim,
                  width = decoder_query_width(s), stride = (int64_t)s->n_heads * s->head_dim;
    const float *from = cpu->expanded + head * (plain + rotary);
    float *q = c->q + head * s->head_dim;
    const Activations x =
        gather(cpu, from, width, plain, cpu->of_heads + head * cpu->max_tokens * cpu->of_heads_width);
    for (int64_t t = 0; t < cpu->n_tokens; t++) {
        memcpy(q + t * stride, from + t * width + plain, (size_t)rotary * sizeof *q);
        turn_row(c, t, q + t * stride);
    }
    Gemm gemm = {.w = &c->layer->weights.k_up,
                 .x = &x,
                 .first = head * rank,
                 .end = (head + 1) * rank,
                 .y = q + rotary - head * rank, // within q: a head is longer than the rank
                 .y_stride = stride};
    cpu->loops->gemm(&gemm, cpu_thread_scratch(cpu, thread));
}

Status cpu_latent_qkv(CpuBackend *cpu, const Layer *layer, const float *x, const KvLayer *kv, float *q) {
    const LayerWeights *w = &layer->weights;
    const bool low = w->q_down.data != NULL;
    const Matrix *matrices[] = {low ? &w->q_down : &w->wq, &w->wk}, *second = &w->wq;
    Heads c = {.cpu = cpu, .layer = layer, .kv = kv, .q = q};
    Activations h =
        cpu_normed(cpu, &(NormedRows){x, NULL, cpu->n_tokens, layer->attn_norm, false}, matrices, 2);
    cpu_multiply(cpu, &w->wk, &h, cpu->v);
    threads_run(cpu->threads, cpu->n_tokens, store_token, &c);
    if (low) {
        cpu_multiply(cpu, &w->q_down, &h, cpu->q_down);
        threads_run(cpu->threads, cpu->n_tokens, norm_query, &c);
        h = cpu_activations(cpu, cpu->q_down, cpu->n_tokens, w->wq.cols, &second, 1);
    }
    cpu_multiply(cpu, &w->wq, &h, cpu->expanded);
    threads_run(cpu->threads, cpu->shape->n_heads, absorb_head, &c);
    return STATUS_OK;
}

// A head's values, from the latents that attention gave.
static void expand_head(void *context, int64_t head, int thread) {
    const Heads *c = context;
    CpuBackend *cpu = c->cpu;
    const DecoderShape *s = cpu->shape;
    const int64_t values = s->latent.value_dim;
    const float *from = c->from + head * s->head_dim + s->rope.rotary_dim;
    const Activations x = gather(cpu, from, (int64_t)s->n_heads * s->head_dim, s->latent.rank,
                                 cpu->of_heads + head * cpu->max_tokens * cpu->of_heads_width);
    Gemm gemm = {.w = &c->layer->weights.v_up,
                 .x = &x,
                 .first = head * values,
                 .end = (head + 1) * values,
                 .y = cpu->expanded,
                 .y_stride = decoder_attended_width(s)};
    cpu->loops->gemm(&gemm, cpu_thread_scratch(cpu, thread));
}

const float *cpu_latent_values(CpuBackend *cpu, const Layer *layer, const float *y) {
    Heads c = {.cpu = cpu, .layer = layer, .from = y};
    threads_run(cpu->threads, cpu->shape->n_heads, expand_head, &c);
    return cpu->expanded;
}
