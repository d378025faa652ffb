#include "tests/gpu/model/side.h"

#include "kernels/base/machine/threads.h"
#include "kernels/cpu/cache/kv.h"
#include "kernels/cpu/loops/quant.h"
#include "kernels/shards/shards.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int n_passed, n_failed;

void report(const char *name, const char *what, double error, double bound) {
    bool ok = error <= bound; // NaN is not
    if (ok)
        n_passed++;
    else
        n_failed++;
    if (!ok || getenv("VERBOSE"))
        printf("%s %-28s %-10s error %.2e, bound %.0e\n", ok ? "ok    " : "FAILED", name, what, error, bound);
}

int failures(void) {
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}

void must(Status status, const Error *error) {
    if (!status) return;
    printf("FAILED %s\n", error->message);
    exit(1);
}

double distance(const float *a, const float *b, int64_t n) {
    double difference = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)b[i] * b[i];
    }
    return size > 0 ? sqrt(difference / size) : sqrt(difference);
}

void *room(const Ops *ops, Backend *backend, size_t bytes) {
    void *memory;
    Error error;
    must(ops->alloc(backend, bytes + SENTINEL, &memory, &error), &error);
    uint8_t *poison = malloc(bytes + SENTINEL);
    memset(poison, 0xff, bytes + SENTINEL);
    must(ops->write(backend, memory, poison, bytes + SENTINEL, &error), &error);
    free(poison);
    return memory;
}

void check_sentinel(const char *name, const Ops *ops, Backend *backend, void *memory, size_t bytes) {
    uint8_t end[SENTINEL];
    Error error;
    must(ops->read(backend, end, (char *)memory + bytes, SENTINEL, &error), &error);
    int wrong = 0;
    for (int i = 0; i < SENTINEL; i++) wrong += end[i] != 0xff;
    if (wrong) report(name, "sentinel", NAN, 0);
}

// A made-up balance, the same for pairs of RoPE, and feedback, for all layers.
static void enter_rounding(Side *s, const Case *c, const Rope *rope) {
    const int64_t n_balance = (int64_t)c->n_kv_heads * c->head_dim,
                  n = n_balance + n_balance * (c->head_dim & -c->head_dim) / 4;
    float *host = malloc((size_t)n * sizeof *host);
    uint64_t seed = 23;
    Error error;
    for (int64_t i = 0; i < n; i++) {
        float x = random_normal(&seed);
        int d = (int)(i % c->head_dim), half = rope->rotary_dim / 2;
        host[i] = i < n_balance ? exp2f(x / 2) : x / 6;
        if (i >= n_balance || d >= rope->rotary_dim) continue;
        if (rope->kind == ROPE_INTERLEAVED && d % 2) host[i] = host[i - 1];
        if (rope->kind == ROPE_HALF_SPLIT && d >= half) host[i] = host[i - half];
    }
    s->rounding = room(s->ops, s->backend, (size_t)n * sizeof *host);
    must(s->ops->write(s->backend, s->rounding, host, (size_t)n * sizeof *host, &error), &error);
    for (int l = 0; l < TEST_LAYERS; l++) {
        s->kv[l].key_balance = s->rounding;
        s->kv[l].key_feedback = (float *)s->rounding + n_balance;
        s->kv[l].key_pairs = rope->kind;
    }
    free(host);
}

// Learned attention sinks of about the size of scores.
static void enter_sinks(Side *s, const Case *c) {
    const size_t n = TEST_LAYERS * (size_t)c->n_heads;
    float *scores = malloc(n * sizeof *scores);
    uint64_t state = 77;
    Error error;
    for (size_t i = 0; i < n; i++) scores[i] = 1 + 2 * random_normal(&state);
    must(s->ops->alloc(s->backend, n * sizeof *scores, &s->sink_scores, &error), &error);
    must(s->ops->write(s->backend, s->sink_scores, scores, n * sizeof *scores, &error), &error);
    for (int l = 0; l < TEST_LAYERS; l++)
        s->kv[l].sink_scores = (const float *)s->sink_scores + l * (int64_t)c->n_heads;
    free(scores);
}

// States of which nothing is known yet: NaN.
static void enter_states(Side *s, const Case *c) {
    const size_t floats = SIDE_STATES * (size_t)delta_state_floats(c->delta);
    s->states = room(s->ops, s->backend, TEST_LAYERS * floats * sizeof(float));
    for (int l = 0; l < TEST_LAYERS; l++)
        if (c->recurs >> l & 1)
            s->kv[l].recurs = true, s->kv[l].states = (float *)s->states + (size_t)l * floats;
}

// Of a cache: several cards have parts of it, and nothing behind.
static void *cache_room(const Side *s, int64_t bytes) {
    const KvLayout *l = &s->layout;
    const int64_t slots = l->layout == 3 ? l->n_slots : 1,
                  pieces = (int64_t)kv_layout_planes(l) * l->n_layers * l->n_kv_heads * (l->n_slots / slots);
    void *memory;
    Error error;
    if (!s->several) return room(s->ops, s->backend, (size_t)bytes);
    must(s->ops->alloc_layers(s->backend, (size_t)bytes, l->n_layers, (size_t)(bytes / pieces), &memory,
                              &error),
         &error);
    uint8_t *poison = malloc((size_t)bytes);
    memset(poison, 0xff, (size_t)bytes);
    must(s->ops->write(s->backend, memory, poison, (size_t)bytes, &error), &error);
    free(poison);
    return memory;
}

static int n_threads; // of the CPU's side; 0: as many as there are cores

void side_share_cores(int n_processes) {
    n_threads = n_processes > 1 ? threads_available() / n_processes : 0;
    if (n_processes > 1 && n_threads < 1) n_threads = 1;
}

// Tokens of the case's steps; and of the longest that its backend takes: tiles may bring what activations hold behind those of
// the step, here NaN.
static int step_tokens(const Case *c) {
    return c->n_tokens > 8 ? c->n_tokens : 8;
}
static int most_tokens(const Case *c) {
    return c->n_tokens > 64 ? (c->n_tokens + 255) / 256 * 256 : step_tokens(c);
}

static BackendOptions options_of(const Case *c, const TestModel *m, const char *device) {
    return (BackendOptions){.device = device,
                            .shape = &m->shape,
                            .layers = m->layers,
                            .n_threads = n_threads,
                            .max_tokens = most_tokens(c),
                            .max_logits = 9,
                            .dispatch = c->dispatch};
}

// What stands beside a backend that is open.
static void fill_side(Side *s, const Case *c, const TestModel *m, int n_slots) {
    const Ops *ops = s->ops;
    Error error;
    s->shape = &m->shape;
    s->operand = strcmp(ops->name, "cpu") == 0 || c->type == DTYPE_F32 ? DTYPE_F32
                 : c->type == DTYPE_BF16                               ? DTYPE_BF16
                                                                       : DTYPE_F16;
    for (int l = 0; l < TEST_LAYERS; l++)
        must(ops->load_layer(s->backend, &m->layers[l], &s->layers[l], &error), &error);
    must(ops->load_head(s->backend, &m->head, &s->head, &error), &error);
    const size_t a = ops->activation_bytes, n = (size_t)step_tokens(c), most = (size_t)most_tokens(c);
    s->sizes[0] = a * n * (size_t)c->hidden, s->sizes[1] = a * n * (size_t)decoder_pass_width(&m->shape);
    s->sizes[2] = a * n * (size_t)decoder_ffn_width(&m->shape), s->sizes[3] = 9 * 4 * (size_t)c->vocab;
    s->x = room(ops, s->backend, s->sizes[0] / n * most),
    s->q = room(ops, s->backend, s->sizes[1] / n * most);
    s->g = room(ops, s->backend, s->sizes[2] / n * most), s->logits = room(ops, s->backend, s->sizes[3]);
    s->layout = (KvLayout){.layout = c->layout_plus_1 ? c->layout_plus_1 - 1 : 3,
                           .n_layers = TEST_LAYERS,
                           .n_kv_heads = c->n_kv_heads,
                           .head_dim = c->head_dim,
                           .n_slots = n_slots,
                           .type = c->kv,
                           .group = c->group,
                           .scale_type = c->scale,
                           .one_plane = c->rank > 0};
    must(kv_layout_check(&s->layout, &error), &error);
    s->cache = cache_room(s, kv_layout_bytes(&s->layout));
    if (c->group) s->scale = cache_room(s, kv_layout_scale_bytes(&s->layout));
    for (int l = 0; l < TEST_LAYERS; l++) {
        s->kv[l] = kv_layout_layer(&s->layout, s->cache, s->scale, l);
        s->kv[l].rotate_keys = c->rotate;
        s->kv[l].rope = m->shape.rope.of_layers ? m->shape.rope.of_layers[l] : 0;
        if (!c->wide_kv) continue;
        s->kv[l].n_kv_heads = m->heads[l].n_kv_heads;
        s->kv[l].head_dim = m->heads[l].head_dim, s->kv[l].head_stride = m->heads[l].head_dim;
    }
    if (c->delta) enter_states(s, c);
    if (c->sinks) enter_sinks(s, c);
    if (c->feed_back) enter_rounding(s, c, &m->shape.rope);
    s->slot_positions = room(ops, s->backend, (size_t)n_slots * 4);
}

void side_open(Side *s, const Ops *ops, const char *device, const Case *c, const TestModel *m, int n_slots) {
    Error error;
    *s = (Side){.ops = ops};
    const BackendOptions options = options_of(c, m, device);
    must(ops->open(&options, &s->backend, &error), &error);
    fill_side(s, c, m, n_slots);
}

bool side_open_cards(Side *s, const Ops *ops, const char *devices, const Case *c, const TestModel *m,
                     int n_slots) {
    Error error;
    const BackendOptions options = options_of(c, m, devices);
    *s = (Side){.several = true};
    Status status = shards_open(ops, &options, &s->backend, &error);
    if (status == STATUS_UNSUPPORTED) return false;
    must(status, &error);
    s->ops = s->backend->ops;
    fill_side(s, c, m, n_slots);
    return true;
}

Pass side_pass(const Side *s, const Step *step, const int *windows) {
    return (Pass){.backend = s->backend,
                  .shape = s->shape,
                  .head = s->head,
                  .layers = s->layers,
                  .kv = s->kv,
                  .attention_windows = windows,
                  .buffers = {s->x, s->q, s->g, s->logits},
                  .n_tokens = step->n_tokens};
}

DecodeStep side_decode(const Side *s, const Step *step, const Pass *pass) {
    return (DecodeStep){.step = step,
                        .head = s->head,
                        .layers = s->layers,
                        .kv = s->kv,
                        .windows = pass->attention_windows,
                        .logits = s->logits,
                        .pass = forward_pass_in,
                        .context = pass};
}

void side_close(Side *s) {
    void *memory[] = {s->x,     s->q,     s->g,        s->logits,      s->slot_positions,
                      s->cache, s->scale, s->rounding, s->sink_scores, s->states};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (memory[i]) s->ops->free(s->backend, memory[i]);
    s->ops->close(s->backend);
}

float *get(Side *s, const void *memory, DType type, int64_t n) {
    Error error;
    size_t size = type == DTYPE_F32 ? 4 : 2;
    char *raw = malloc((size_t)n * size + 1);
    float *values = malloc((size_t)n * 4 + 4);
    must(s->ops->read(s->backend, raw, memory, (size_t)n * size, &error), &error);
    quant_load(type, raw, 0, n, values);
    free(raw);
    return values;
}

void put(Side *s, void *memory, DType type, const float *values, int64_t n) {
    Error error;
    uint16_t *halves = malloc((size_t)n * 2 + 2);
    for (int64_t i = 0; i < n && type != DTYPE_F32; i++)
        halves[i] = type == DTYPE_F16 ? quant_to_half(values[i]) : quant_to_bfloat(values[i]);
    must(s->ops->write(s->backend, memory, type == DTYPE_F32 ? (const void *)values : halves,
                       (size_t)n * (type == DTYPE_F32 ? 4 : 2), &error),
         &error);
    free(halves);
}

// ---- caches ------------------------------------------------------------------------------------------------------

void *get_cache(Side *s, void **scale) {
    Error error;
    size_t bytes = (size_t)kv_layout_bytes(&s->layout), scales = (size_t)kv_layout_scale_bytes(&s->layout);
    void *memory = malloc(bytes + 1);
    must(s->ops->read(s->backend, memory, s->cache, bytes, &error), &error);
    *scale = malloc(scales + 1);
    if (s->scale) must(s->ops->read(s->backend, *scale, s->scale, scales, &error), &error);
    return memory;
}

void put_cache(Side *s, const void *memory, const void *scale) {
    Error error;
    must(s->ops->write(s->backend, s->cache, memory, (size_t)kv_layout_bytes(&s->layout), &error), &error);
    if (s->scale)
        must(s->ops->write(s->backend, s->scale, scale, (size_t)kv_layout_scale_bytes(&s->layout), &error),
             &error);
}

void fill_caches(Side *a, Side *b, const int32_t *positions, uint64_t seed) {
    void *scale, *memory = get_cache(a, &scale);
    float *row = malloc((size_t)a->layout.head_dim * sizeof *row);
    for (int l = 0; l < TEST_LAYERS; l++) {
        KvLayer kv = kv_layout_layer(&a->layout, memory, scale, l);
        for (int64_t slot = 0; slot < a->layout.n_slots; slot++)
            for (int i = 0; i < 2 * a->layout.n_kv_heads && positions[slot] >= 0; i++) {
                for (int d = 0; d < a->layout.head_dim; d++) row[d] = random_normal(&seed);
                kv_store(loops_reference(), &kv,
                         &(KvRow){i % 2 ? KV_VALUES : KV_KEYS, slot, i / 2, a->layout.head_dim}, row);
            }
    }
    put_cache(a, memory, scale);
    put_cache(b, memory, scale);
    free(row);
    free(memory);
    free(scale);
}

float *cache_floats(Side *s, int layer, bool keys, const int32_t *positions, int64_t *n) {
    void *scale, *memory = get_cache(s, &scale);
    const KvLayout *l = &s->layout;
    KvLayer kv = kv_layout_layer(l, memory, scale, layer);
    float *values = malloc((size_t)(l->n_kv_heads * l->n_slots * l->head_dim) * sizeof *values + 4);
    *n = 0;
    for (int h = 0; h < l->n_kv_heads; h++)
        for (int64_t slot = 0; slot < l->n_slots; slot++) {
            if (positions[slot] < 0) continue;
            kv_load(&kv, keys ? KV_KEYS : KV_VALUES, slot, h, l->head_dim, values + *n);
            *n += l->head_dim;
        }
    free(memory);
    free(scale);
    return values;
}

void copy_cache(Side *a, Side *b) {
    void *scale, *memory = get_cache(a, &scale);
    put_cache(b, memory, scale);
    free(memory);
    free(scale);
}
