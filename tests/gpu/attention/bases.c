// Attention relative to bases of the heads, against the same card's with running maxima, which others compare with the
// CPU's: bases that fit, that are 40 and 300 powers of two off, and keys so large that one split, some or all fall
// back.
#include "tests/gpu/attention/bases.h"

#include "kernels/cpu/cache/kv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static SoftmaxCounts seen; // of all comparisons

// Bases of the heads, from -reach to reach, in memory of the side; to free.
static void *new_bases(Side *s, float reach) {
    const int n = s->shape->n_heads;
    float *host = malloc((size_t)n * sizeof *host);
    Error error;
    for (int h = 0; h < n; h++) host[h] = n > 1 ? reach * (2 * (float)h / (float)(n - 1) - 1) : reach;
    void *memory = room(s->ops, s->backend, (size_t)n * sizeof *host);
    must(s->ops->write(s->backend, memory, host, (size_t)n * sizeof *host, &error), &error);
    free(host);
    return memory;
}

static SoftmaxCounts counts_of(Side *s) {
    SoftmaxCounts counts;
    Error error;
    must(s->ops->softmax_counts(s->backend, &counts, &error), &error);
    return counts;
}

static void count(Side *s, const SoftmaxCounts *before) {
    SoftmaxCounts now = counts_of(s);
    seen.parts += now.parts - before->parts, seen.again += now.again - before->again;
}

// Gives every so-manieth slot that holds a position a key of 200 times the size, from slot `first` on.
static void plant(Side *s, int layer, const int32_t *positions, int first, int every) {
    void *scale, *memory = get_cache(s, &scale);
    KvLayer kv = kv_layout_layer(&s->layout, memory, scale, layer);
    float *row = malloc((size_t)s->layout.head_dim * sizeof *row);
    uint64_t seed = 77;
    for (int64_t slot = first; slot < s->layout.n_slots; slot += every)
        for (int h = 0; h < s->layout.n_kv_heads && positions[slot] >= 0; h++) {
            for (int d = 0; d < s->layout.head_dim; d++) row[d] = 200 * random_normal(&seed);
            kv_store(loops_reference(), &kv, &(KvRow){KV_KEYS, slot, h, s->layout.head_dim}, row);
        }
    put_cache(s, memory, scale);
    free(row);
    free(memory);
    free(scale);
}

static float *attend(const BasesCase *c, const float *q, int64_t n) {
    Side *s = c->side;
    Error error;
    put(s, s->q, s->operand, q, n);
    must(s->ops->attend(s->backend, s->q, &s->kv[c->layer], c->window, s->q, &error), &error);
    return get(s, s->q, s->operand, n);
}

static const float REACHES[] = {0, 40, 300};

void compare_bases(const BasesCase *c) {
    Side *s = c->side;
    const int n_slots = (int)s->layout.n_slots, first = n_slots / 3;
    const int plants[][2] = {{n_slots, 1}, {first, n_slots}, {first, 700}, {0, 9}};
    const int64_t n = (int64_t)c->n_tokens * s->shape->n_heads * s->shape->head_dim;
    float *q = get(s, s->q, s->operand, n);
    KvLayer *kv = &s->kv[c->layer];
    for (int p = 0; p < 4; p++) {
        plant(s, c->layer, c->positions, plants[p][0], plants[p][1]);
        float *right = attend(c, q, n);
        for (int i = 0; i < 3; i++) {
            const SoftmaxCounts before = counts_of(s);
            void *bases = new_bases(s, REACHES[i]);
            kv->score_bases = bases;
            float *ours = attend(c, q, n);
            kv->score_bases = NULL;
            report(c->name, "attend by bases", distance(ours, right, n),
                   s->operand == DTYPE_BF16 ? 4e-3 : 2e-3);
            count(s, &before);
            s->ops->free(s->backend, bases);
            free(ours);
        }
        free(right);
    }
    put(s, s->q, s->operand, q, n);
    free(q);
}

void compare_decode_bases(Side *s, const DecodeStep *step, const char *name, double bound) {
    const int64_t n = s->shape->vocab_size;
    Error error;
    float *right = get(s, s->logits, DTYPE_F32, n);
    for (int i = 0; i < 3; i++) {
        const SoftmaxCounts before = counts_of(s);
        void *bases = new_bases(s, REACHES[i]);
        for (int l = 0; l < TEST_LAYERS; l++) s->kv[l].score_bases = bases;
        must(s->ops->decode(s->backend, step, &error), &error);
        for (int l = 0; l < TEST_LAYERS; l++) s->kv[l].score_bases = NULL;
        float *ours = get(s, s->logits, DTYPE_F32, n);
        report(name, "decode by bases", distance(ours, right, n), bound);
        count(s, &before);
        s->ops->free(s->backend, bases);
        free(ours);
    }
    put(s, s->logits, DTYPE_F32, right, n);
    free(right);
}

void report_bases(void) {
    printf("by bases: %lld parts, %lld taken again\n", (long long)seen.parts, (long long)seen.again);
    report("all", "parts by bases", seen.parts > 0 && seen.again > 0 && seen.again < seen.parts ? 0 : NAN, 0);
}
