// Every CUDA op against the CPU's plain loops, over a table of shapes around the edges of tiles, chunks and warps, then
// the whole engine (engine_tests.h):
//
//   test-gpu PLUGIN [--golden FOLDER] [--model FILE] [NAME]
//
// NAME: cases whose name has it, or one of sample, golden, text, memory, fault. Inputs are the CPU's at every op, so that
// errors do not add up; outputs are poisoned and have sentinels behind them. One closing line: N passed, N failed.
#include "engine/backend.h"
#include "kernels/cpu/quant.h"
#include "tests/golden_model.h"
#include "tests/gpu/engine_tests.h"
#include "tests/gpu/model.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SENTINEL = 256 };

static int n_passed, n_failed;

static void report(const char *name, const char *what, double error, double bound) {
    bool ok = error <= bound; // NaN is not
    if (ok)
        n_passed++;
    else
        n_failed++;
    if (!ok || getenv("VERBOSE"))
        printf("%s %-28s %-10s error %.2e, bound %.0e\n", ok ? "ok    " : "FAILED", name, what, error, bound);
}

static void must(Status status, const Error *error) {
    if (!status) return;
    printf("FAILED %s\n", error->message);
    exit(1);
}

// ‖a − b‖ / ‖b‖
static double distance(const float *a, const float *b, int64_t n) {
    double difference = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)b[i] * b[i];
    }
    return size > 0 ? sqrt(difference / size) : sqrt(difference);
}

// One backend with a model and a cache on it.
typedef struct Side {
    const Ops *ops;
    Backend *backend;
    DType operand;
    Layer *layers[TEST_LAYERS];
    Head *head;
    void *x, *q, *g;
    float *logits;
    KvLayer kv[TEST_LAYERS];
    int32_t *slot_positions;
    size_t sizes[4];
} Side;

static void *room(Side *s, size_t bytes) {
    void *memory;
    Error error;
    must(s->ops->alloc(s->backend, bytes + SENTINEL, &memory, &error), &error);
    uint8_t *poison = malloc(bytes + SENTINEL);
    memset(poison, 0xff, bytes + SENTINEL);
    must(s->ops->write(s->backend, memory, poison, bytes + SENTINEL, &error), &error);
    free(poison);
    return memory;
}

static void check_sentinel(const char *name, Side *s, void *memory, size_t bytes) {
    uint8_t end[SENTINEL];
    Error error;
    must(s->ops->read(s->backend, end, (char *)memory + bytes, SENTINEL, &error), &error);
    int wrong = 0;
    for (int i = 0; i < SENTINEL; i++) wrong += end[i] != 0xff;
    if (wrong) report(name, "sentinel", NAN, 0);
}

static void side_open(Side *s, const Ops *ops, const char *device, const Case *c, const TestModel *m,
                      int n_slots) {
    Error error;
    s->ops = ops;
    s->operand = strcmp(ops->name, "cpu") == 0 || c->type == DTYPE_F32 ? DTYPE_F32
                 : c->type == DTYPE_BF16                               ? DTYPE_BF16
                                                                       : DTYPE_F16;
    int most = c->n_tokens > 8 ? c->n_tokens : 8;
    BackendOptions options = {.device = device, .shape = &m->shape, .max_tokens = most, .max_logits = 4};
    must(ops->open(&options, &s->backend, &error), &error);
    for (int l = 0; l < TEST_LAYERS; l++)
        must(ops->load_layer(s->backend, &m->layers[l], &s->layers[l], &error), &error);
    must(ops->load_head(s->backend, &m->head, &s->head, &error), &error);
    size_t a = ops->activation_bytes, n = (size_t)most;
    s->sizes[0] = a * n * (size_t)c->hidden, s->sizes[1] = a * n * (size_t)(c->n_heads * c->head_dim);
    s->sizes[2] = a * n * (size_t)c->intermediate, s->sizes[3] = 4 * 4 * (size_t)c->vocab;
    s->x = room(s, s->sizes[0]), s->q = room(s, s->sizes[1]), s->g = room(s, s->sizes[2]);
    s->logits = room(s, s->sizes[3]);
    size_t plane = (size_t)c->n_kv_heads * (size_t)n_slots * (size_t)c->head_dim;
    for (int l = 0; l < TEST_LAYERS; l++)
        s->kv[l] = (KvLayer){.type = c->kv,
                             .k = room(s, plane * (c->kv == DTYPE_F16 ? 2 : 4)),
                             .v = room(s, plane * (c->kv == DTYPE_F16 ? 2 : 4)),
                             .slot_stride = c->head_dim,
                             .head_stride = (int64_t)n_slots * c->head_dim};
    s->slot_positions = room(s, (size_t)n_slots * 4);
}

static void side_close(Side *s) {
    void *memory[] = {s->x,       s->q,       s->g,       s->logits, s->slot_positions,
                      s->kv[0].k, s->kv[0].v, s->kv[1].k, s->kv[1].v};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) s->ops->free(s->backend, memory[i]);
    s->ops->close(s->backend);
}

// n activations of `type` as floats, and back.
static float *get(Side *s, const void *memory, DType type, int64_t n) {
    Error error;
    size_t size = type == DTYPE_F32 ? 4 : 2;
    char *raw = malloc((size_t)n * size + 1);
    float *values = malloc((size_t)n * 4 + 4);
    must(s->ops->read(s->backend, raw, memory, (size_t)n * size, &error), &error);
    dequantize(type, raw, 0, n, values);
    free(raw);
    return values;
}

static void put(Side *s, void *memory, DType type, const float *values, int64_t n) {
    Error error;
    uint16_t *halves = malloc((size_t)n * 2 + 2);
    for (int64_t i = 0; i < n && type != DTYPE_F32; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], 4);
        halves[i] = type == DTYPE_F16 ? float_to_half(values[i])
                                      : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
    must(s->ops->write(s->backend, memory, type == DTYPE_F32 ? (const void *)values : halves,
                       (size_t)n * (type == DTYPE_F32 ? 4 : 2), &error),
         &error);
    free(halves);
}

typedef struct Run {
    const Case *c;
    Side cpu, cuda;
    int n_slots;
    double bound; // of one op in the operand type
} Run;

// Compares what both sides hold at the same place, then gives the CUDA side the CPU's values.
static void compare(Run *r, const char *what, void *cpu, void *cuda, DType type, int64_t n, double bound) {
    float *right = get(&r->cpu, cpu, DTYPE_F32, n), *ours = get(&r->cuda, cuda, type, n);
    report(r->c->name, what, distance(ours, right, n), bound);
    put(&r->cuda, cuda, type, right, n);
    free(right);
    free(ours);
}

// The same random past in both caches, with a gap at every ninth slot.
static void fill_cache(Run *r, int32_t *positions, uint64_t seed) {
    const Case *c = r->c;
    int64_t plane = (int64_t)c->n_kv_heads * r->n_slots * c->head_dim;
    float *values = malloc((size_t)plane * 4);
    for (int l = 0; l < TEST_LAYERS; l++)
        for (int which = 0; which < 2; which++) {
            for (int64_t i = 0; i < plane; i++) values[i] = random_normal(&seed);
            put(&r->cpu, which ? r->cpu.kv[l].v : r->cpu.kv[l].k, c->kv, values, plane);
            put(&r->cuda, which ? r->cuda.kv[l].v : r->cuda.kv[l].k, c->kv, values, plane);
        }
    free(values);
    for (int i = 0, position = 0; i < r->n_slots; i++)
        positions[i] = i < c->past && i % 9 != 4 ? position++ : -1;
    Error error;
    must(r->cpu.ops->write(r->cpu.backend, r->cpu.slot_positions, positions, (size_t)r->n_slots * 4, &error),
         &error);
    must(r->cuda.ops->write(r->cuda.backend, r->cuda.slot_positions, positions, (size_t)r->n_slots * 4,
                            &error),
         &error);
}

static void compare_cache(Run *r, int l) {
    int64_t plane = (int64_t)r->c->n_kv_heads * r->n_slots * r->c->head_dim;
    for (int which = 0; which < 2; which++) {
        float *right = get(&r->cpu, which ? r->cpu.kv[l].v : r->cpu.kv[l].k, r->c->kv, plane);
        float *ours = get(&r->cuda, which ? r->cuda.kv[l].v : r->cuda.kv[l].k, r->c->kv, plane);
        report(r->c->name, which ? "values" : "keys", distance(ours, right, plane), r->bound);
        put(&r->cuda, which ? r->cuda.kv[l].v : r->cuda.kv[l].k, r->c->kv, right, plane);
        free(right);
        free(ours);
    }
}

static void compare_gate_up(Run *r, int l) {
    Side *a = &r->cpu, *b = &r->cuda;
    Error error;
    must(a->ops->gate_up(a->backend, a->layers[l], a->x, a->g, &error), &error);
    must(b->ops->gate_up(b->backend, b->layers[l], b->x, b->g, &error), &error);
    compare(r, "gate_up", a->g, b->g, b->operand, (int64_t)r->c->n_tokens * r->c->intermediate, 2 * r->bound);
}

static void test_ops(Run *r, const Step *steps[2]) {
    const Case *c = r->c;
    Side *a = &r->cpu, *b = &r->cuda;
    Error error;
    int64_t n = c->n_tokens;
    must(a->ops->begin(a->backend, steps[0], &error), &error);
    must(b->ops->begin(b->backend, steps[1], &error), &error);
    must(a->ops->embed(a->backend, a->head, a->x, &error), &error);
    must(b->ops->embed(b->backend, b->head, b->x, &error), &error);
    compare(r, "embed", a->x, b->x, DTYPE_F32, n * c->hidden, 1e-3);
    for (int l = 0; l < TEST_LAYERS; l++) {
        must(a->ops->qkv(a->backend, a->layers[l], a->x, &a->kv[l], a->q, &error), &error);
        must(b->ops->qkv(b->backend, b->layers[l], b->x, &b->kv[l], b->q, &error), &error);
        compare(r, "qkv", a->q, b->q, b->operand, n * c->n_heads * c->head_dim, r->bound);
        compare_cache(r, l);
        must(a->ops->attend(a->backend, a->q, &a->kv[l], l ? 0 : c->window, a->q, &error), &error);
        must(b->ops->attend(b->backend, b->q, &b->kv[l], l ? 0 : c->window, b->q, &error), &error);
        compare(r, "attend", a->q, b->q, b->operand, n * c->n_heads * c->head_dim, r->bound);
        if (c->parallel) compare_gate_up(r, l);
        must(a->ops->out(a->backend, a->layers[l], a->q, a->x, &error), &error);
        must(b->ops->out(b->backend, b->layers[l], b->q, b->x, &error), &error);
        compare(r, "out", a->x, b->x, DTYPE_F32, n * c->hidden, r->bound);
        if (!c->parallel) compare_gate_up(r, l);
        must(a->ops->down(a->backend, a->layers[l], a->g, a->x, &error), &error);
        must(b->ops->down(b->backend, b->layers[l], b->g, b->x, &error), &error);
        compare(r, "down", a->x, b->x, DTYPE_F32, n * c->hidden, r->bound);
    }
    int32_t rows[] = {c->n_tokens - 1, 0, c->n_tokens / 2};
    must(a->ops->logits(a->backend, a->head, a->x, rows, 3, a->logits, &error), &error);
    must(b->ops->logits(b->backend, b->head, b->x, rows, 3, b->logits, &error), &error);
    compare(r, "logits", a->logits, b->logits, DTYPE_F32, 3 * (int64_t)c->vocab, r->bound);
    check_sentinel(c->name, b, b->x, b->sizes[0]);
    check_sentinel(c->name, b, b->q, b->sizes[1]);
    check_sentinel(c->name, b, b->g, b->sizes[2]);
    check_sentinel(c->name, b, b->logits, b->sizes[3]);
}

// One token at a time through decode(), against the CPU's ops; the keys and values it leaves too.
static void test_decode(Run *r, int slot, int position) {
    const Case *c = r->c;
    Side *a = &r->cpu, *b = &r->cuda;
    Error error = {0};
    if (!b->ops->decode) return;
    for (int i = 0; i < 3; i++, slot++, position++) {
        int32_t id = (i * 37 + 11) % c->vocab, slots = slot, positions = position;
        const int32_t page = 0;
        StepSequence sequence = {0, 1, r->n_slots, &page, 0, 0};
        Step step = {1, 1, &id, &positions, &slots, &sequence, 1 << 30, a->slot_positions};
        must(a->ops->begin(a->backend, &step, &error), &error);
        must(a->ops->embed(a->backend, a->head, a->x, &error), &error);
        for (int l = 0; l < TEST_LAYERS; l++) {
            must(a->ops->qkv(a->backend, a->layers[l], a->x, &a->kv[l], a->q, &error), &error);
            must(a->ops->attend(a->backend, a->q, &a->kv[l], l ? 0 : c->window, a->q, &error), &error);
            must(a->ops->out(a->backend, a->layers[l], a->q, a->x, &error), &error);
            must(a->ops->gate_up(a->backend, a->layers[l], a->x, a->g, &error), &error);
            must(a->ops->down(a->backend, a->layers[l], a->g, a->x, &error), &error);
        }
        int32_t row = 0;
        must(a->ops->logits(a->backend, a->head, a->x, &row, 1, a->logits, &error), &error);

        int windows[TEST_LAYERS] = {c->window, 0};
        step.slot_positions = b->slot_positions;
        DecodeStep decode = {&step, b->head, (const Layer *const *)b->layers, b->kv, windows, b->logits};
        Status status = b->ops->decode(b->backend, &decode, &error);
        if (status == STATUS_UNSUPPORTED) return;
        must(status, &error);
        // Quantised weights meet activations of 8 bits here.
        double bound = dtype_is_quantized(c->type) ? 6e-2 : c->kv == DTYPE_F16 ? 4e-3 : 1e-4;
        compare(r, "decode", a->logits, b->logits, DTYPE_F32, c->vocab, bound);
        check_sentinel(c->name, b, b->logits, b->sizes[3]);
        double saved = r->bound;
        r->bound = bound;
        for (int l = 0; l < TEST_LAYERS; l++) compare_cache(r, l);
        r->bound = saved;
    }
}

static void test_case(const Ops *cuda, const Case *c) {
    TestModel model;
    model_fill(&model, c, 1234);
    Run r = {.c = c, .n_slots = c->past + c->n_tokens + 4};
    r.bound = c->type == DTYPE_F32    ? (c->kv == DTYPE_F32 ? 1e-4 : 2e-3)
              : c->type == DTYPE_BF16 ? 1.2e-2
                                      : 3e-3;
    side_open(&r.cpu, ops_cpu(), "cpu:reference", c, &model, r.n_slots);
    side_open(&r.cuda, cuda, "cuda", c, &model, r.n_slots);
    int32_t *positions = malloc((size_t)r.n_slots * 4);
    fill_cache(&r, positions, 99);

    int n = c->n_tokens, past = 0;
    for (int i = 0; i < c->past; i++) past += positions[i] >= 0;
    int32_t *ids = malloc((size_t)n * 12), *at = ids + n, *slots = at + n;
    for (int i = 0; i < n; i++) ids[i] = (i * 7919 + 3) % c->vocab, at[i] = past + i, slots[i] = c->past + i;
    const int32_t first[] = {0}, later[] = {r.n_slots / 2};
    StepSequence sequences[2] = {{0, n, r.n_slots, first, 0, 0}};
    int n_sequences = 1;
    if (n > 2) { // two sequences: the second sees the later slots only
        sequences[0].n_tokens = n / 3;
        sequences[1] = (StepSequence){n / 3, n - n / 3, r.n_slots - r.n_slots / 2, later, 0, 0};
        n_sequences = 2;
    }
    Step step = {n, n_sequences, ids, at, slots, sequences, 1 << 30, r.cpu.slot_positions}, other = step;
    other.slot_positions = r.cuda.slot_positions;
    test_ops(&r, (const Step *[2]){&step, &other});
    test_decode(&r, c->past + n, past + n);

    side_close(&r.cpu);
    side_close(&r.cuda);
    model_free(&model);
    free(ids);
    free(positions);
}

static const Case CASES[] = {
#define F16KV .kv = DTYPE_F16
    {"f32 small", DTYPE_F32, 64, 4, 2, 16, 96, 257, .past = 5, .n_tokens = 3, .kv = DTYPE_F32},
    {"f32 small one token", DTYPE_F32, 128, 2, 2, 64, 200, 100, .past = 0, .n_tokens = 1, .kv = DTYPE_F32},
    {"f32 cache f16", DTYPE_F32, 256, 4, 4, 64, 512, 301, .past = 40, .n_tokens = 9, F16KV},
    {"f16 small 64x3", DTYPE_F16, 192, 3, 1, 64, 512, 1001, .past = 70, .n_tokens = 15, F16KV},
    {"f16 smollm2", DTYPE_F16, 576, 9, 3, 64, 1536, 4099, .tied = true, .past = 1024, .n_tokens = 64, F16KV},
    {"f16 head 80", DTYPE_F16, 320, 4, 2, 80, 640, 515, .past = 100, .n_tokens = 33, F16KV},
    {"f16 head 96 interleaved", DTYPE_F16, 384, 4, 4, 96, 768, 515, .interleaved = true, .past = 129,
     .n_tokens = 65, F16KV},
    {"f16 head 128 qwen3", DTYPE_F16, 512, 8, 2, 128, 1024, 515, .qk_norm = true, .past = 200, .n_tokens = 7,
     F16KV},
    {"f16 head 256 gemma", DTYPE_F16, 512, 4, 1, 256, 1024, 515, .gelu = true, .tied = true, .past = 90,
     .n_tokens = 31, .window = 40, F16KV},
    {"bf16 llama2", DTYPE_BF16, 1024, 8, 8, 128, 2752, 2000, .past = 1000, .n_tokens = 130, F16KV},
    {"bf16 llama3", DTYPE_BF16, 1024, 32, 8, 128, 3584, 2000, .past = 2048, .n_tokens = 17, F16KV},
    {"bf16 tinyllama", DTYPE_BF16, 2048, 32, 4, 64, 5632, 3000, .past = 600, .n_tokens = 2, F16KV},
    {"bf16 qwen2", DTYPE_BF16, 896, 14, 2, 64, 4864, 3000, .bias = true, .past = 333, .n_tokens = 63, F16KV},
    {"bf16 mistral window", DTYPE_BF16, 512, 8, 2, 64, 1024, 777, .window = 64, .past = 700, .n_tokens = 100,
     F16KV},
    {"bf16 partial rope", DTYPE_BF16, 512, 8, 8, 64, 1024, 777, .rotary_dim = 32, .out_bias = true,
     .past = 30, .n_tokens = 8, F16KV},
    {"bf16 long", DTYPE_BF16, 256, 4, 2, 64, 512, 300, .past = 20000, .n_tokens = 5, F16KV},
    {"bf16 many heads", DTYPE_BF16, 1024, 128, 128, 8, 512, 300, .past = 50, .n_tokens = 6, F16KV},
    {"bf16 small empty past", DTYPE_BF16, 512, 8, 8, 64, 1024, 777, .past = 0, .n_tokens = 1, F16KV},
    {"q8_0", DTYPE_Q8_0, 4096, 32, 32, 128, 1024, 999, .past = 65, .n_tokens = 16, F16KV},
    {"q4_0", DTYPE_Q4_0, 1024, 8, 8, 128, 4128, 999, .past = 65, .n_tokens = 16, F16KV},
    {"q4_1", DTYPE_Q4_1, 576, 9, 3, 64, 1536, 999, .past = 65, .n_tokens = 16, F16KV},
    {"q5_0", DTYPE_Q5_0, 576, 9, 3, 64, 1536, 999, .past = 65, .n_tokens = 16, F16KV},
    {"q5_1", DTYPE_Q5_1, 576, 9, 3, 64, 1536, 999, .past = 65, .n_tokens = 16, F16KV},
    {"q4_k with q6_k", DTYPE_Q4_K, 1024, 8, 2, 128, 2816, 999, .v_type = DTYPE_Q6_K, .down_type = DTYPE_Q6_K,
     .past = 65, .n_tokens = 16, F16KV},
    {"q5_k", DTYPE_Q5_K, 512, 8, 2, 64, 1024, 999, .past = 65, .n_tokens = 16, F16KV},
    {"q6_k", DTYPE_Q6_K, 512, 8, 2, 64, 1024, 999, .past = 65, .n_tokens = 16, F16KV},
#define BEYOND .layer_norm = true, .no_gate = true
    {"f32 gpt-j", DTYPE_F32, 256, 4, 4, 64, 1024, 301, .interleaved = true, .rotary_dim = 32, BEYOND,
     .activation = ACTIVATION_GELU_TANH, .ffn_bias = true, .output_bias = true, .parallel = true, .past = 30,
     .n_tokens = 9, .kv = DTYPE_F32},
    {"f16 gpt-neox", DTYPE_F16, 1024, 16, 16, 64, 4096, 515, .rotary_dim = 16, BEYOND,
     .activation = ACTIVATION_GELU, .bias = true, .out_bias = true, .ffn_bias = true, .parallel = true,
     .past = 70, .n_tokens = 33, F16KV},
    {"bf16 bloom's ends", DTYPE_BF16, 512, 8, 8, 64, 2048, 777, .no_rope = true, BEYOND,
     .activation = ACTIVATION_GELU_TANH, .bias = true, .out_bias = true, .ffn_bias = true,
     .embedding_norm = true, .tied = true, .past = 20, .n_tokens = 17, F16KV},
    {"f32 opt", DTYPE_F32, 768, 12, 12, 64, 3072, 515, .no_rope = true, BEYOND, .activation = ACTIVATION_RELU,
     .bias = true, .out_bias = true, .ffn_bias = true, .learned = true, .tied = true, .past = 40,
     .n_tokens = 8, .kv = DTYPE_F32},
    {"q8_0 gated with biases", DTYPE_Q8_0, 512, 8, 2, 64, 1056, 300, .ffn_bias = true, .learned = true,
     .past = 3, .n_tokens = 1, F16KV},
    {"q8_0 small", DTYPE_Q8_0, 32, 1, 1, 32, 64, 33, .past = 3, .n_tokens = 2, F16KV},
};

typedef struct Wish {
    const char *plugin, *golden, *model, *only;
} Wish;

static bool wanted(const Wish *w, const char *name) {
    return !w->only || !strcmp(w->only, name);
}

static void read_wishes(int argc, char **argv, Wish *w) {
    *w = (Wish){.plugin = "./libpalaver-cuda.so"};
    for (int i = 1; i < argc; i++) {
        if (i == 1 && argv[i][0] != '-')
            w->plugin = argv[i];
        else if (!strcmp(argv[i], "--golden") && i + 1 < argc)
            w->golden = argv[++i];
        else if (!strcmp(argv[i], "--model") && i + 1 < argc)
            w->model = argv[++i];
        else
            w->only = argv[i];
    }
    // In the tree, or in a bundle.
    if (!w->golden) w->golden = access(GOLDEN, R_OK) ? "golden" : GOLDEN;
}

static void test_engine(const Ops *cuda, const Wish *w) {
    const Ops *beside;
    Error error;
    if (!wanted(w, "golden") && !wanted(w, "memory") && !wanted(w, "text") && !wanted(w, "fault")) return;
    if (backend_cuda_ops(&beside, &error) || beside != cuda) {
        printf("FAILED the engine: %s is not the plug-in beside this program\n", w->plugin);
        return report("engine", "plug-in", NAN, 0);
    }
    if (wanted(w, "golden")) test_golden_logits(w->golden, report);
    char models[400];
    snprintf(models, sizeof models, "%s/models", w->golden);
    if (wanted(w, "memory")) test_memory(cuda, models, report);
    if (wanted(w, "text") && w->model) test_greedy_text(w->model, report);
    if (wanted(w, "fault")) test_fault(w->plugin, report);
}

int main(int argc, char **argv) {
    Wish w;
    read_wishes(argc, argv, &w);
    void *library = dlopen(w.plugin, RTLD_NOW | RTLD_LOCAL);
    OpsPlugin plugin = NULL;
    if (library) *(void **)&plugin = dlsym(library, "palaver_cuda_ops");
    const Ops *cuda = plugin ? plugin(OPS_ABI) : NULL;
    if (!cuda) {
        printf("%s: %s\n", w.plugin, library ? "no plug-in of this version" : dlerror());
        return 1;
    }
    if (w.only && !strcmp(w.only, "--fault-child")) return fault_child(cuda);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        if (!w.only || strstr(CASES[i].name, w.only)) {
            test_case(cuda, &CASES[i]);
            fflush(stdout);
        }
    if (wanted(&w, "sample")) test_sampling(cuda, report);
    test_engine(cuda, &w);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
