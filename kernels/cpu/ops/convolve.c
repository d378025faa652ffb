// qkv() of a layer that convolves: the three products, what a token leaves in the cache, and the taps over it and over what
// the tokens before it have left. A part of the work is one head's elements of all tokens, which look at no others.
#include "kernels/cpu/cache/kv.h"
#include "kernels/cpu/cpu.h"

typedef struct Convolve {
    CpuBackend *cpu;
    const Layer *layer;
    const KvLayer *kv;
    Activations h;
    float *y;
    int head_dim, n_kv_heads;
} Convolve;

static void project(const Convolve *c, const Matrix *w, const float *bias, int64_t first, float *rows,
                    int thread) {
    const Gemm gemm = {
        .w = w, .x = &c->h, .first = first, .end = first + c->head_dim, .y = rows, .y_stride = w->rows};
    c->cpu->loops->gemm(&gemm, cpu_thread_scratch(c->cpu, thread));
    cpu_add_bias(&gemm, bias);
}

// The first half of a token's heads lie as keys, the others as values.
static KvRow place_of(const Convolve *c, int64_t slot, int head) {
    const bool second = head >= c->n_kv_heads;
    return (KvRow){second ? KV_VALUES : KV_KEYS, slot, second ? head - c->n_kv_heads : head, c->head_dim};
}

// y = y·(bias + Σ conv·p), of the cache as it is stored, the token's own included; sum and row: scratch.
static void take_taps(const Convolve *c, const StepSequence *s, int t, int head, float *sum, float *row) {
    const int taps = c->cpu->shape->convolution.taps, dim = c->head_dim;
    const int64_t first = (int64_t)head * dim;
    const float *conv = c->layer->conv + first * taps;
    float *y = c->y + (s->first_token + t) * c->layer->weights.wq.rows + first;
    for (int d = 0; d < dim; d++) sum[d] = c->layer->conv_bias ? c->layer->conv_bias[first + d] : 0;
    for (int back = 0; back < taps; back++) {
        const int32_t slot = sequence_slot_before(s, c->cpu->slots, t, back);
        if (slot < 0) break; // nor is there any before
        const KvRow place = place_of(c, slot, head);
        kv_load(c->kv, place.plane, place.slot, place.head, dim, row);
        for (int d = 0; d < dim; d++) sum[d] += conv[(int64_t)d * taps + taps - 1 - back] * row[d];
    }
    for (int d = 0; d < dim; d++) y[d] *= sum[d];
}

static void convolve_head(void *context, int64_t head, int thread) {
    const Convolve *c = context;
    const LayerWeights *w = &c->layer->weights;
    const int64_t width = w->wq.rows, first = head * c->head_dim;
    float *k = c->cpu->k, *v = c->cpu->v;
    project(c, &w->wq, c->layer->bq, first, c->y, thread);
    project(c, &w->wk, c->layer->bk, first, k, thread);
    project(c, &w->wv, c->layer->bv, first, v, thread);
    for (int64_t t = 0; t < c->cpu->n_tokens; t++) {
        float *p = k + t * width + first;
        const float *other = v + t * width + first;
        for (int d = 0; d < c->head_dim; d++) p[d] *= other[d];
        const KvRow place = place_of(c, c->cpu->slots[t], (int)head);
        kv_store(c->cpu->loops, c->kv, &place, p);
    }
    for (int i = 0; i < c->cpu->n_sequences; i++)
        for (int t = 0; t < c->cpu->sequences[i].n_tokens; t++) {
            const int64_t at = (c->cpu->sequences[i].first_token + t) * width + first;
            take_taps(c, &c->cpu->sequences[i], t, (int)head, k + at, v + at);
        }
}

Status cpu_convolve(CpuBackend *cpu, const Layer *layer, const float *x, const KvLayer *kv, float *y,
                    Error *error) {
    const LayerWeights *w = &layer->weights;
    const Matrix *matrices[] = {&w->wq, &w->wk, &w->wv};
    if (!layer->conv) return error_set(error, STATUS_DEVICE, "qkv: a layer that convolves, without taps");
    Convolve c = {.cpu = cpu,
                  .layer = layer,
                  .kv = kv,
                  .y = y,
                  .head_dim = kv_layer_head_dim(cpu->shape, kv),
                  .n_kv_heads = kv_layer_heads(cpu->shape, kv)};
    c.h = cpu_normed(cpu, &(NormedRows){x, NULL, cpu->n_tokens, layer->attn_norm, false}, matrices, 3);
    threads_run(cpu->threads, cpu->shape->n_heads, convolve_head, &c);
    return STATUS_OK;
}
