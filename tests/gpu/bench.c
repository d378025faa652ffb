// The decoder's speed with made-up weights of a named shape, through the ops as the engine calls them:
// bench-gpu PLUGIN SHAPE WEIGHTS [depth…], and prefill with a depth of "p1024".
#include "kernels/ops.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct Named {
    const char *name;
    int layers, hidden, heads, kv_heads, head_dim, intermediate, vocab;
    bool tied;
} Named;

static const Named SHAPES[] = {
    {"llama2-7b", 32, 4096, 32, 32, 128, 11008, 32000, false},
    {"llama3.1-8b", 32, 4096, 32, 8, 128, 14336, 128256, false},
    {"tinyllama-1.1b", 22, 2048, 32, 4, 64, 5632, 32000, false},
    {"smollm2-135m", 30, 576, 9, 3, 64, 1536, 49152, true},
};

enum { CHUNK = 1024, TOKENS = 96, WARM = 24 };

typedef struct Bench {
    const Ops *ops;
    Backend *backend;
    DecoderShape shape;
    Layer **layers;
    Head *head;
    KvLayer *kv;
    int *windows;
    int n_slots;
    int32_t *slot_positions;
    void *x, *q, *g;
    float *logits;
    double weight_bytes;
} Bench;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(Status status, const Error *error) {
    if (!status) return;
    printf("bench-gpu: %s\n", error->message);
    exit(1);
}

static Matrix made_up(Bench *b, DType type, int64_t rows, int64_t cols) {
    static const char SOMETHING[1];
    b->weight_bytes += rows > 1 ? (double)rows * (double)dtype_row_bytes(type, cols) : 0;
    return (Matrix){type, rows, cols, SOMETHING};
}

static void open_model(Bench *b, const Named *n, DType type) {
    Error error;
    DecoderShape *s = &b->shape;
    double *inv_freq = calloc((size_t)n->head_dim, sizeof *inv_freq);
    for (int i = 0; i < n->head_dim / 2; i++) inv_freq[i] = pow(10000, -2.0 * i / n->head_dim);
    *s = (DecoderShape){.n_layers = n->layers,
                        .hidden_size = n->hidden,
                        .n_heads = n->heads,
                        .n_kv_heads = n->kv_heads,
                        .head_dim = n->head_dim,
                        .intermediate_size = n->intermediate,
                        .vocab_size = n->vocab,
                        .norm_eps = 1e-5f,
                        .embedding_scale = 1,
                        .attention_scale = 1 / sqrtf((float)n->head_dim),
                        .rope = {.rotary_dim = n->head_dim, .inv_freq = inv_freq, .magnitude = 1}};
    BackendOptions options = {
        .device = "cuda", .shape = s, .max_tokens = CHUNK, .max_logits = 1, .random_weights = true};
    must(b->ops->open(&options, &b->backend, &error), &error);
    b->layers = calloc((size_t)n->layers, sizeof *b->layers);
    b->windows = calloc((size_t)n->layers, sizeof *b->windows);
    int64_t q = (int64_t)n->heads * n->head_dim, kv = (int64_t)n->kv_heads * n->head_dim;
    for (int l = 0; l < n->layers; l++) {
        LayerWeights w = {.attn_norm = made_up(b, DTYPE_F32, 1, n->hidden),
                          .ffn_norm = made_up(b, DTYPE_F32, 1, n->hidden),
                          .wq = made_up(b, type, q, n->hidden),
                          .wk = made_up(b, type, kv, n->hidden),
                          .wv = made_up(b, type, kv, n->hidden),
                          .wo = made_up(b, type, n->hidden, q),
                          .w_gate = made_up(b, type, n->intermediate, n->hidden),
                          .w_up = made_up(b, type, n->intermediate, n->hidden),
                          .w_down = made_up(b, type, n->hidden, n->intermediate)};
        must(b->ops->load_layer(b->backend, &w, &b->layers[l], &error), &error);
    }
    HeadWeights h = {.norm = made_up(b, DTYPE_F32, 1, n->hidden),
                     .output = made_up(b, type, n->vocab, n->hidden)};
    double counted = b->weight_bytes;
    h.embedding = made_up(b, type, n->vocab, n->hidden);
    b->weight_bytes = counted;
    static const char OTHER[1];
    if (!n->tied) h.embedding.data = OTHER + 1;
    must(b->ops->load_head(b->backend, &h, &b->head, &error), &error);
}

static void open_cache(Bench *b, int n_slots) {
    Error error;
    const DecoderShape *s = &b->shape;
    b->n_slots = n_slots;
    size_t plane = (size_t)s->n_kv_heads * (size_t)n_slots * (size_t)s->head_dim * 2;
    b->kv = calloc((size_t)s->n_layers, sizeof *b->kv);
    for (int l = 0; l < s->n_layers; l++) {
        b->kv[l] = (KvLayer){
            .type = DTYPE_F16, .slot_stride = s->head_dim, .head_stride = (int64_t)n_slots * s->head_dim};
        must(b->ops->alloc(b->backend, plane, &b->kv[l].k, &error), &error);
        must(b->ops->alloc(b->backend, plane, &b->kv[l].v, &error), &error);
    }
    void *memory;
    must(b->ops->alloc(b->backend, (size_t)n_slots * 4, &memory, &error), &error);
    b->slot_positions = memory;
    must(b->ops->alloc(b->backend, (size_t)CHUNK * (size_t)s->hidden_size * 4, &b->x, &error), &error);
    must(b->ops->alloc(b->backend, (size_t)CHUNK * (size_t)(s->n_heads * s->head_dim) * 4, &b->q, &error),
         &error);
    must(b->ops->alloc(b->backend, (size_t)CHUNK * (size_t)s->intermediate_size * 4, &b->g, &error), &error);
    must(b->ops->alloc(b->backend, (size_t)s->vocab_size * 4, &memory, &error), &error);
    b->logits = memory;
}

static void empty_cache(Bench *b) {
    Error error;
    int32_t *empty = malloc((size_t)b->n_slots * 4);
    memset(empty, 0xff, (size_t)b->n_slots * 4);
    must(b->ops->write(b->backend, b->slot_positions, empty, (size_t)b->n_slots * 4, &error), &error);
    free(empty);
}

// Evaluates n tokens from position `first` on by the ops, chunk by chunk; seconds, the last token's logits included.
static double prefill(Bench *b, int first, int n) {
    Error error;
    const Ops *o = b->ops;
    int32_t ids[CHUNK], positions[CHUNK], slots[CHUNK];
    double start = now();
    for (int done = 0; done < n;) {
        int m = n - done < CHUNK ? n - done : CHUNK;
        for (int i = 0; i < m; i++) {
            positions[i] = slots[i] = first + done + i;
            ids[i] = (positions[i] * 7919 + 5) % b->shape.vocab_size;
        }
        StepSequence all = {0, m, 0, first + done + m};
        Step step = {m, 1, ids, positions, slots, &all, b->slot_positions};
        must(o->begin(b->backend, &step, &error), &error);
        must(o->embed(b->backend, b->head, b->x, &error), &error);
        for (int l = 0; l < b->shape.n_layers; l++) {
            must(o->qkv(b->backend, b->layers[l], b->x, &b->kv[l], b->q, &error), &error);
            must(o->attend(b->backend, b->q, &b->kv[l], 0, b->q, &error), &error);
            must(o->out(b->backend, b->layers[l], b->q, b->x, &error), &error);
            must(o->gate_up(b->backend, b->layers[l], b->x, b->g, &error), &error);
            must(o->down(b->backend, b->layers[l], b->g, b->x, &error), &error);
        }
        done += m;
        int32_t last = m - 1;
        if (done == n) must(o->logits(b->backend, b->head, b->x, &last, 1, b->logits, &error), &error);
    }
    float first_logit;
    must(o->read(b->backend, &first_logit, b->logits, sizeof first_logit, &error), &error);
    return now() - start;
}

static int ascending(const void *a, const void *b) {
    return *(const double *)a < *(const double *)b ? -1 : 1;
}

static void bench_decode(Bench *b, int depth) {
    Error error;
    double seconds[TOKENS], sampling = 0;
    empty_cache(b);
    if (depth > 0) prefill(b, 0, depth);
    int32_t id = 1;
    SampleParams params = {
        .temperature = 0.8f, .top_p = 0.95f, .min_p = 0.05f, .typical_p = 1, .top_k = 40, .seed = 1};
    for (int i = 0; i < TOKENS; i++) {
        double start = now();
        int32_t at = depth + i;
        StepSequence all = {0, 1, 0, at + 1};
        Step step = {1, 1, &id, &at, &at, &all, b->slot_positions};
        DecodeStep decode = {&step, b->head, (const Layer *const *)b->layers, b->kv, b->windows, b->logits};
        must(b->ops->decode(b->backend, &decode, &error), &error);
        params.position = (uint64_t)i;
        must(b->ops->sample(b->backend, b->logits, &params, &id, &error), &error);
        seconds[i] = now() - start;
    }
    for (int i = 0; i < 20; i++) {
        double start = now();
        must(b->ops->sample(b->backend, b->logits, &params, &id, &error), &error);
        sampling += now() - start;
    }
    qsort(seconds + WARM, TOKENS - WARM, sizeof *seconds, ascending);
    double median = seconds[WARM + (TOKENS - WARM) / 2];
    double kv = 4.0 * b->shape.n_layers * b->shape.n_kv_heads * b->shape.head_dim * (depth + TOKENS / 2.0);
    double rate = (b->weight_bytes + kv) / median / 1e9;
    printf("  depth %6d: %.3f ms a token, %.0f GB/s, %.1f%% of 4,554; best %.3f; sample alone %.1f us\n",
           depth, median * 1e3, rate, rate / 45.54, seconds[WARM] * 1e3, sampling / 20 * 1e6);
    fflush(stdout);
}

static void bench_prefill(Bench *b, int n) {
    double best = INFINITY;
    for (int i = 0; i < 6; i++) {
        empty_cache(b);
        double seconds = prefill(b, 0, n);
        if (seconds < best) best = seconds;
    }
    printf("  prefill %d: %.2f ms, %.0f tokens/s\n", n, best * 1e3, n / best);
    fflush(stdout);
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        printf("%s\n", dlerror());
        return 1;
    }
    OpsPlugin plugin;
    *(void **)&plugin = dlsym(library, "palaver_cuda_ops");
    Bench b = {.ops = plugin(OPS_ABI)};
    const Named *named = NULL;
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++)
        if (!strcmp(SHAPES[i].name, argv[2])) named = &SHAPES[i];
    DType type = DTYPE_F32;
    while (type < DTYPE_COUNT && strcmp(dtype_name(type), argv[3])) type++;
    if (!named || type == DTYPE_COUNT) return 2;
    open_model(&b, named, type);
    int most = CHUNK;
    for (int i = 4; i < argc; i++)
        most = atoi(argv[i] + (argv[i][0] == 'p')) > most ? atoi(argv[i] + (argv[i][0] == 'p')) : most;
    open_cache(&b, most + TOKENS + 8);
    printf("%s %s, %.2f GB of weights\n", argv[2], argv[3], b.weight_bytes / 1e9);
    for (int i = 4; i < argc; i++)
        if (argv[i][0] == 'p')
            bench_prefill(&b, atoi(argv[i] + 1));
        else
            bench_decode(&b, atoi(argv[i]));
    b.ops->close(b.backend);
    return 0;
}
