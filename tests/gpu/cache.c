// cache_attention(), copy_slots() and shift_keys() against the CPU's: caches bit by bit where integers or copies are in
// them, results by relative error.
#include "kernels/cache_attention.h"
#include "tests/gpu/model/side.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES = 3, LAYERS = 2, MAX_PAGES = 700 };

typedef struct AttentionCase {
    const char *name;
    DType type, cache;
    int heads, kv_heads, head_dim, bits, group;
    DType scale;
    int layout, mode, page_size;
    bool causal, alibi;
    int mask_dims;
    int queries[BATCHES], past[BATCHES]; // the first `decoding` have one query
    int decoding;
} AttentionCase;

static const AttentionCase ATTENTION[] = {
    {"op f32", DTYPE_F32, DTYPE_F32, 4, 2, 16, .causal = true, .queries = {3, 1, 7}, .past = {0, 5, 30}},
    {"op f32 paged int8", DTYPE_F32, 0, 6, 0, 24, 8, 8, DTYPE_F32, 1, 1, 7, true, .queries = {1, 9, 2},
     .past = {20, 0, 300}, .decoding = 1},
    {"op f32 paged int4 alibi", DTYPE_F32, 0, 12, 12, 32, 4, 8, DTYPE_F16, 2, 1, 1, true, true,
     .queries = {1, 1, 20}, .past = {90, 33, 11}, .decoding = 2},
    {"op f32 mask 2", DTYPE_F32, DTYPE_F16, 4, 4, 16, .layout = 3, .mode = 1, .page_size = 64, .mask_dims = 2,
     .queries = {5, 8, 2}, .past = {70, 0, 64}},
    {"op f16 mask 3", DTYPE_F16, DTYPE_F16, 4, 2, 64, .layout = 0, .causal = true, .mask_dims = 3,
     .queries = {5, 1, 12}, .past = {70, 6, 64}},
    {"op f16 int8", DTYPE_F16, 0, 8, 8, 128, 8, 8, DTYPE_F16, 3, 1, 128, true, .queries = {1, 140, 3},
     .past = {2000, 0, 64}, .decoding = 1},
    {"op f16 int4", DTYPE_F16, 0, 8, 2, 128, 4, 32, DTYPE_F16, 3, 0, 0, true, .queries = {1, 1, 1},
     .past = {5000, 1, 700}, .decoding = 3},
    {"op f16 int4 layout 1 alibi", DTYPE_F16, 0, 12, 4, 64, 4, 64, DTYPE_F32, 1, 1, 64, true, true,
     .queries = {1, 33, 1}, .past = {500, 1, 7}, .decoding = 1},
    {"op f16 int8 head 96", DTYPE_F16, 0, 4, 2, 96, 8, 32, DTYPE_F32, 1, 0, 0, true, .queries = {1, 1, 1},
     .past = {900, 3, 64}, .decoding = 3},
    {"op f16 int4 head 96", DTYPE_F16, 0, 4, 4, 96, 4, 8, DTYPE_F16, 3, 1, 64, true, .queries = {1, 1, 1},
     .past = {900, 3, 64}, .decoding = 3},
    {"op f16 int8 head 32", DTYPE_F16, 0, 4, 4, 32, 8, 32, DTYPE_F16, 3, 1, 64, true, .queries = {1, 1, 1},
     .past = {900, 3, 64}, .decoding = 3},
    {"op f16 int4 10 heads a KV head", DTYPE_F16, 0, 20, 2, 128, 4, 8, DTYPE_F16, 3, 1, 64, true,
     .queries = {1, 1, 1}, .past = {500, 3, 64}, .decoding = 3},
    {"op f16 int4 group 16", DTYPE_F16, 0, 8, 8, 128, 4, 16, DTYPE_F16, 3, 1, 64, true, .queries = {1, 1, 1},
     .past = {900, 3, 64}, .decoding = 3},
    {"op f16 int4 group 16, 8 heads a KV head", DTYPE_F16, 0, 16, 2, 128, 4, 16, DTYPE_F16, 3, 1, 64, true,
     .queries = {1, 1, 1}, .past = {900, 3, 64}, .decoding = 3},
    {"op f16 int4 group 32, 4 heads a KV head", DTYPE_F16, 0, 8, 2, 128, 4, 32, DTYPE_F16, 1, 1, 64, true,
     .queries = {1, 1, 1}, .past = {900, 31, 64}, .decoding = 3},
    {"op f16 int4 group 128", DTYPE_F16, 0, 8, 8, 128, 4, 128, DTYPE_F16, 3, 1, 64, true,
     .queries = {1, 1, 1}, .past = {900, 32, 64}, .decoding = 3},
    {"op f16 int4 head 64, 8 heads a KV head", DTYPE_F16, 0, 8, 1, 64, 4, 8, DTYPE_F16, 3, 1, 64, true,
     .queries = {1, 1, 1}, .past = {500, 3, 64}, .decoding = 3},
    {"op f16 int4 head 256", DTYPE_F16, 0, 4, 2, 256, 4, 8, DTYPE_F16, 3, 1, 64, true, .queries = {1, 1, 1},
     .past = {500, 3, 64}, .decoding = 3},
    {"op f16 int8 group 8, 4 heads a KV head", DTYPE_F16, 0, 8, 2, 128, 8, 8, DTYPE_F32, 3, 1, 64, true,
     .queries = {1, 1, 1}, .past = {500, 3, 64}, .decoding = 3},
    {"op bf16 int8 head 256", DTYPE_BF16, 0, 16, 2, 256, 8, 32, DTYPE_F16, 3, 1, 64, true,
     .queries = {1, 1, 1}, .past = {500, 3, 64}, .decoding = 3},
    {"op bf16 head 160", DTYPE_BF16, DTYPE_BF16, 4, 2, 160, .layout = 3, .causal = true, .queries = {1, 1, 1},
     .past = {300, 3, 64}},
    {"op bf16 all seen", DTYPE_BF16, DTYPE_BF16, 8, 2, 64, .layout = 2, .mode = 1, .page_size = 64,
     .queries = {30, 1, 64}, .past = {10, 500, 200}},
    {"op bf16 f32 cache", DTYPE_BF16, DTYPE_F32, 8, 8, 80, .layout = 1, .causal = true, .queries = {2, 1, 50},
     .past = {100, 300, 0}},
};

// Memory of a backend with the bytes of host memory.
static void *upload(const Ops *ops, Backend *backend, const void *host, size_t bytes) {
    Error error;
    void *memory = room(ops, backend, bytes);
    must(ops->write(backend, memory, host, bytes, &error), &error);
    return memory;
}

static size_t bytes_of(DType type, int64_t n) {
    return (size_t)dtype_row_bytes(type, n);
}

static void *random_values(Side *s, DType type, int64_t n, uint64_t *seed) {
    float *values = malloc((size_t)n * sizeof *values);
    for (int64_t i = 0; i < n; i++) values[i] = random_normal(seed);
    void *memory = room(s->ops, s->backend, bytes_of(type, n)), *host = malloc(bytes_of(type, n));
    Error error;
    put(s, memory, type, values, n);
    must(s->ops->read(s->backend, host, memory, bytes_of(type, n), &error), &error);
    s->ops->free(s->backend, memory);
    free(values);
    return host;
}

// Host arrays of a call, and what both sides do with it.
typedef struct Attention {
    const AttentionCase *c;
    CacheAttention a;
    int64_t seqstarts[BATCHES + 1], kvstarts[BATCHES + 1], start_pos[BATCHES],
        cachestarts[BATCHES * MAX_PAGES];
    KvLayout layout;
    int64_t n_q, n_kv, n_mask;
    void *q, *k, *v, *mask; // host
} Attention;

static void fill_tables(Attention *t) {
    const AttentionCase *c = t->c;
    int64_t slot = 3, most = 0;
    for (int b = 0; b < BATCHES; b++) {
        int64_t kv = c->queries[b] + c->past[b], size = c->mode ? c->page_size : kv;
        t->seqstarts[b + 1] = t->seqstarts[b] + c->queries[b];
        t->kvstarts[b + 1] = t->kvstarts[b] + kv;
        t->start_pos[b] = c->past[b];
        int64_t pages = c->mode ? (kv + size - 1) / size : 1;
        for (int64_t p = 0; p < pages; p++) // backwards
            t->cachestarts[c->mode ? b * MAX_PAGES + p : b] = slot + (pages - 1 - p) * size;
        slot += pages * size + 5;
        if (kv > most) most = kv;
    }
    t->a = (CacheAttention){.num_heads = c->heads,
                            .head_dim = c->head_dim,
                            .num_kv_heads = c->kv_heads,
                            .is_causal = c->causal,
                            .is_alibi = c->alibi,
                            .num_layer = LAYERS,
                            .layer_idx = 1,
                            .quant_bit = c->bits,
                            .quant_group = c->group,
                            .cache_mode = c->mode,
                            .cache_layout = c->layout,
                            .page_size = c->page_size,
                            .batches = BATCHES,
                            .decoding_batches = c->decoding,
                            .max_seqlen = 200,
                            .max_kvlen = most,
                            .seqstarts = t->seqstarts,
                            .kvstarts = t->kvstarts,
                            .cachestarts = t->cachestarts,
                            .start_pos = t->start_pos,
                            .max_pages = MAX_PAGES,
                            .max_tokens = slot,
                            .type = c->type,
                            .cache_type = c->cache,
                            .scale_type = c->scale,
                            .mask_dims = c->mask_dims,
                            .mask_columns = t->kvstarts[BATCHES] + 3};
}

static void fill_tensors(Attention *t, Side *s) {
    const AttentionCase *c = t->c;
    uint64_t seed = 5;
    int64_t tokens = t->seqstarts[BATCHES], kv_heads = c->kv_heads ? c->kv_heads : c->heads;
    t->n_q = tokens * c->heads * c->head_dim, t->n_kv = tokens * kv_heads * c->head_dim;
    t->n_mask = tokens * t->a.mask_columns * (c->mask_dims == 3 ? c->heads : 1);
    t->q = random_values(s, c->type, t->n_q, &seed);
    t->k = random_values(s, c->type, t->n_kv, &seed);
    t->v = random_values(s, c->type, t->n_kv, &seed);
    t->mask = random_values(s, c->type, t->n_mask, &seed);
    t->layout = (KvLayout){.layout = c->layout,
                           .n_layers = LAYERS,
                           .n_kv_heads = (int)kv_heads,
                           .head_dim = c->head_dim,
                           .n_slots = t->a.max_tokens,
                           .type = c->bits == 8   ? DTYPE_INT8
                                   : c->bits == 4 ? DTYPE_INT4
                                                  : c->cache,
                           .group = c->bits ? c->group : 0,
                           .scale_type = c->scale};
}

// The past of layer 1 in the cache's own bytes: everything else stays poisoned.
static void fill_past(const Attention *t, char *cache, char *scale) {
    uint64_t seed = 17;
    size_t n = (size_t)kv_layout_bytes(&t->layout), scales = (size_t)kv_layout_scale_bytes(&t->layout);
    for (size_t i = 0; i < n; i++) cache[i] = (char)(random_bits(&seed) % 120 + 1); // sane in every type
    for (size_t i = 0; i + 3 < n && t->layout.type == DTYPE_F32; i += 4) {
        float value = random_normal(&seed);
        memcpy(cache + i, &value, 4);
    }
    for (size_t i = 1; i < n && t->layout.type == DTYPE_F16; i += 2)
        cache[i] = (char)(0x38 + random_bits(&seed) % 6);
    for (size_t i = 1; i < n && t->layout.type == DTYPE_BF16; i += 2)
        cache[i] = (char)(0x3e + random_bits(&seed) % 2);
    for (size_t i = 0; i + 3 < scales && t->layout.scale_type == DTYPE_F32; i += 4) {
        float value = 0.01f + 0.01f * (float)(random_bits(&seed) % 4);
        memcpy(scale + i, &value, 4);
    }
    for (size_t i = 1; i < scales && t->layout.scale_type == DTYPE_F16; i += 2)
        scale[i - 1] = 0x11, scale[i] = (char)(0x20 + random_bits(&seed) % 4);
}

// Runs the call on one side; the result's floats, and the cache and scales afterwards, are the caller's.
static float *run_attention(Attention *t, Side *s, char **cache, char **scale) {
    Error error;
    CacheAttention a = t->a;
    size_t n = (size_t)kv_layout_bytes(&t->layout), scales = (size_t)kv_layout_scale_bytes(&t->layout);
    *cache = malloc(n), *scale = malloc(scales + 1);
    fill_past(t, *cache, *scale);
    a.query = upload(s->ops, s->backend, t->q, bytes_of(a.type, t->n_q));
    a.current_key = upload(s->ops, s->backend, t->k, bytes_of(a.type, t->n_kv));
    a.current_value = upload(s->ops, s->backend, t->v, bytes_of(a.type, t->n_kv));
    a.attn_mask = t->c->mask_dims ? upload(s->ops, s->backend, t->mask, bytes_of(a.type, t->n_mask)) : NULL;
    a.cache = upload(s->ops, s->backend, *cache, n);
    a.scale = a.quant_bit ? upload(s->ops, s->backend, *scale, scales) : NULL;
    a.attn_output = room(s->ops, s->backend, bytes_of(a.type, t->n_q));
    must(s->ops->cache_attention(s->backend, &a, &error), &error);
    float *result = get(s, a.attn_output, a.type, t->n_q);
    must(s->ops->read(s->backend, *cache, a.cache, n, &error), &error);
    if (a.scale) must(s->ops->read(s->backend, *scale, a.scale, scales, &error), &error);
    check_sentinel(t->c->name, s->ops, s->backend, a.attn_output, bytes_of(a.type, t->n_q));
    check_sentinel(t->c->name, s->ops, s->backend, a.cache, n);
    const void *memory[] = {a.query, a.current_key, a.current_value, a.attn_mask,
                            a.cache, a.scale,       a.attn_output};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (memory[i]) s->ops->free(s->backend, (void *)memory[i]);
    return result;
}

static void test_attention(const AttentionCase *c, Side *cpu, Side *cuda) {
    Attention t = {.c = c};
    Error error;
    fill_tables(&t);
    fill_tensors(&t, cpu);
    char *cache[2], *scale[2];
    float *right = run_attention(&t, cpu, &cache[0], &scale[0]),
          *ours = run_attention(&t, cuda, &cache[1], &scale[1]);
    double bound = c->type == DTYPE_F32 ? 1e-4 : c->type == DTYPE_BF16 ? 1.2e-2 : 3e-3;
    report(c->name, "attention", distance(ours, right, t.n_q), bound);
    bool same = memcmp(cache[0], cache[1], (size_t)kv_layout_bytes(&t.layout)) == 0 &&
                (!c->bits || memcmp(scale[0], scale[1], (size_t)kv_layout_scale_bytes(&t.layout)) == 0);
    report(c->name, "the cache's bytes", same ? 0 : 1, 0);
    CacheAttention broken = t.a; // no tensors at all
    report(c->name, "refusal", cuda->ops->cache_attention(cuda->backend, &broken, &error) != STATUS_USAGE, 0);
    for (int i = 0; i < 2; i++) free(cache[i]), free(scale[i]);
    free(right), free(ours), free(t.q), free(t.k), free(t.v), free(t.mask);
}

// ---- slots -------------------------------------------------------------------------------------------------------

static bool same_caches(Side *a, Side *b) {
    void *scale[2], *cache[2] = {get_cache(a, &scale[0]), get_cache(b, &scale[1])};
    int32_t *positions[2];
    size_t n = (size_t)a->layout.n_slots * 4;
    Error error;
    bool same = memcmp(cache[0], cache[1], (size_t)kv_layout_bytes(&a->layout)) == 0 &&
                memcmp(scale[0], scale[1], (size_t)kv_layout_scale_bytes(&a->layout)) == 0;
    for (int i = 0; i < 2; i++) {
        Side *s = i ? b : a;
        positions[i] = malloc(n);
        must(s->ops->read(s->backend, positions[i], s->slot_positions, n, &error), &error);
    }
    same = same && memcmp(positions[0], positions[1], n) == 0;
    for (int i = 0; i < 2; i++) free(scale[i]), free(cache[i]), free(positions[i]);
    return same;
}

static void test_slots(const Ops *cuda, const Case *c) {
    enum { SLOTS = 40, N = 7 };
    TestModel model;
    Side a = {0}, b = {0};
    Error error;
    int32_t positions[SLOTS], from[N], to[N];
    model_fill(&model, c, 3);
    side_open(&a, ops_cpu(), "cpu:reference", c, &model, SLOTS);
    side_open(&b, cuda, "cuda", c, &model, SLOTS);
    for (int i = 0; i < SLOTS; i++) positions[i] = 2000 + i * 3;
    for (int i = 0; i < N; i++) from[i] = i * 2, to[i] = SLOTS - 1 - i * 2;
    for (int i = 0; i < 2; i++) {
        Side *s = i ? &b : &a;
        must(s->ops->write(s->backend, s->slot_positions, positions, sizeof positions, &error), &error);
    }
    fill_caches(&a, &b, positions, 8);
    for (int i = 0; i < 2; i++) {
        Side *s = i ? &b : &a;
        must(s->ops->copy_slots(s->backend, &(CacheSlots){s->kv, TEST_LAYERS, s->slot_positions, from, N}, to,
                                &error),
             &error);
    }
    report(c->name, "copy_slots", !same_caches(&a, &b), 0);
    for (int i = 0; i < N; i++) to[i] = i * 2 + 1;
    for (int i = 0; i < 2; i++) { // of no layer: positions alone
        Side *s = i ? &b : &a;
        must(s->ops->copy_slots(s->backend, &(CacheSlots){s->kv, 0, s->slot_positions, from, N}, to, &error),
             &error);
    }
    report(c->name, "copy_slots of no layer", !same_caches(&a, &b), 0);
    for (int i = 0; i < 2; i++) {
        Side *s = i ? &b : &a;
        must(s->ops->shift_keys(s->backend, &(CacheSlots){s->kv, TEST_LAYERS, s->slot_positions, from, N},
                                -1000, &error),
             &error);
    }
    Status refused = b.ops->shift_keys(b.backend, &(CacheSlots){b.kv, TEST_LAYERS, b.slot_positions, from, N},
                                       -1000000, &error);
    report(c->name, "shift_keys beyond the beginning", refused == STATUS_DEVICE ? 0 : NAN, 0);
    double bound = c->kv == DTYPE_F32 ? 1e-5 : c->kv == DTYPE_INT4 ? 3e-2 : c->kv == DTYPE_BF16 ? 3e-3 : 1e-3;
    for (int l = 0; l < TEST_LAYERS; l++) {
        int64_t n;
        float *right = cache_floats(&a, l, true, positions, &n),
              *ours = cache_floats(&b, l, true, positions, &n);
        report(c->name, "shift_keys", distance(ours, right, n), c->kv == DTYPE_INT8 ? 5e-3 : bound);
        free(right);
        free(ours);
    }
    side_close(&a);
    side_close(&b);
    model_free(&model);
}

static const Case SLOT_CASES[] = {
    {"slots f16", DTYPE_F16, 64, 2, 2, 64, 64, 33, .n_tokens = 1, .kv = DTYPE_F16},
    {"slots f32 interleaved", DTYPE_F16, 64, 4, 2, 32, 64, 33, .interleaved = true, .rotary_dim = 16,
     .n_tokens = 1, .kv = DTYPE_F32, .layout_plus_1 = 1},
    {"slots bf16", DTYPE_F16, 64, 4, 2, 80, 64, 33, .n_tokens = 1, .kv = DTYPE_BF16, .layout_plus_1 = 2},
    {"slots int8 rotated", DTYPE_F16, 64, 4, 2, 96, 64, 33, .n_tokens = 1, .kv = DTYPE_INT8, .group = 32,
     .scale = DTYPE_F16, .rotate = true, .layout_plus_1 = 3},
    {"slots int8 fed back", DTYPE_F16, 64, 4, 2, 96, 64, 33, .n_tokens = 1, .kv = DTYPE_INT8, .group = 8,
     .scale = DTYPE_F16, .rotate = true, .feed_back = true},
    {"slots int4 fed back", DTYPE_F16, 64, 4, 2, 256, 64, 33, .n_tokens = 1, .kv = DTYPE_INT4, .group = 16,
     .scale = DTYPE_F16, .rotate = true, .feed_back = true},
    {"slots int4 fed back, interleaved", DTYPE_F16, 64, 4, 2, 64, 64, 33, .interleaved = true, .n_tokens = 1,
     .kv = DTYPE_INT4, .group = 32, .scale = DTYPE_F32, .rotate = true, .feed_back = true,
     .layout_plus_1 = 2},
    {"slots int4", DTYPE_F16, 64, 4, 2, 64, 64, 33, .n_tokens = 1, .kv = DTYPE_INT4, .group = 8,
     .scale = DTYPE_F32},
};

void test_caches(const Ops *cuda) {
    Case c = {"op", DTYPE_F32, 64, 2, 2, 16, 64, 33, .n_tokens = 1, .kv = DTYPE_F32};
    TestModel model;
    Side a = {0}, b = {0};
    model_fill(&model, &c, 4);
    side_open(&a, ops_cpu(), "cpu:reference", &c, &model, 1);
    side_open(&b, cuda, "cuda", &c, &model, 1);
    for (size_t i = 0; i < sizeof ATTENTION / sizeof *ATTENTION; i++) test_attention(&ATTENTION[i], &a, &b);
    side_close(&a);
    side_close(&b);
    model_free(&model);
    for (size_t i = 0; i < sizeof SLOT_CASES / sizeof *SLOT_CASES; i++) test_slots(cuda, &SLOT_CASES[i]);
}
