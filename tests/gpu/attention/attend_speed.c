// How fast attention reads a cache: test-gpu PLUGIN attend-speed prints microseconds and GB/s of keys, values and
// scales, by shape, type and group; and microseconds where weights are relative to bases.
#include "tests/gpu/model/side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

typedef struct Speed {
    int n_heads, n_kv_heads, head_dim, length, n_rows;
    DType type;
    int group;
    DType scale;
    int layout, page_size;
    int32_t n_evicted;
    bool by_bases; // instead of running maxima
} Speed;

// Layers enough that none is in the L2 when its turn comes again.
static double measure(const Ops *ops, Backend *backend, const Speed *c, const void *q, void *y,
                      double *bytes) {
    Error error;
    int n_slots = (c->length + 127) / 128 * 128 * c->n_rows;
    KvLayout l = {.layout = c->layout,
                  .n_layers = 1,
                  .n_kv_heads = c->n_kv_heads,
                  .head_dim = c->head_dim,
                  .n_slots = n_slots,
                  .type = c->type,
                  .group = c->group,
                  .scale_type = c->scale};
    must(kv_layout_check(&l, &error), &error);
    *bytes = (double)(kv_layout_bytes(&l) + kv_layout_scale_bytes(&l)) * c->length * c->n_rows / n_slots;
    l.n_layers = 1 + (int)(4e8 / *bytes);
    void *cache, *scale = NULL, *positions;
    must(ops->alloc(backend, (size_t)kv_layout_bytes(&l), &cache, &error), &error);
    if (c->group) must(ops->alloc(backend, (size_t)kv_layout_scale_bytes(&l), &scale, &error), &error);
    must(ops->alloc(backend, (size_t)n_slots * 4, &positions, &error), &error);
    int each = n_slots / c->n_rows, n_pages = (c->length + c->page_size - 1) / c->page_size;
    int32_t *at = malloc((size_t)n_slots * 4), *pages = malloc((size_t)(n_pages * c->n_rows) * 4), ids[64],
            slots[64], last[64];
    StepSequence sequences[64];
    for (int i = 0; i < n_slots; i++) at[i] = i % each + (i % each >= 64 ? c->n_evicted : 0);
    must(ops->write(backend, positions, at, (size_t)n_slots * 4, &error), &error);
    for (int r = 0; r < c->n_rows; r++) {
        for (int p = 0; p < n_pages; p++) pages[r * n_pages + p] = r * each + p * c->page_size;
        sequences[r] = (StepSequence){
            r, 1, c->length, pages + r * n_pages, 64, c->n_evicted, 0, 0, c->n_evicted == 0, 0, {0}, -1, -1};
        ids[r] = 0, slots[r] = r * each + c->length - 1, last[r] = c->length - 1 + c->n_evicted;
    }
    Step step = {c->n_rows, c->n_rows, ids, last, slots, sequences, c->page_size, positions, STEP_ANY};
    KvLayer first = kv_layout_layer(&l, cache, scale, 0);
    must(ops->begin(backend, &step, &first, &error), &error);
    void *bases; // of zeros, as scores are
    must(ops->alloc(backend, (size_t)c->n_heads * 4, &bases, &error), &error);
    double start = 0;
    int n = 0, rounds = 10 + (int)(2e10 / *bytes / l.n_layers);
    for (int round = -2; round < rounds; round++) {
        for (int i = 0; i < l.n_layers; i++, n++) {
            KvLayer kv = kv_layout_layer(&l, cache, scale, i);
            kv.score_bases = c->by_bases ? bases : NULL;
            must(ops->attend(backend, q, &kv, 0, y, &error), &error);
        }
        if (round != -1) continue;
        must(ops->read(backend, last, positions, 4, &error), &error);
        n = 0, start = seconds();
    }
    must(ops->read(backend, last, positions, 4, &error), &error);
    double each_call = (seconds() - start) / n;
    ops->free(backend, cache);
    if (scale) ops->free(backend, scale);
    ops->free(backend, positions);
    ops->free(backend, bases);
    free(at);
    free(pages);
    return each_call;
}

void attend_speed(const Ops *ops) {
    static const struct {
        DType type;
        int group;
    } TYPES[] = {{DTYPE_F16, 0},   {DTYPE_BF16, 0},  {DTYPE_F32, 0},   {DTYPE_INT8, 32},
                 {DTYPE_INT8, 16}, {DTYPE_INT4, 32}, {DTYPE_INT4, 16}, {DTYPE_INT4, 8}};
    static const Speed SHAPES[] = {
        {32, 32, 128, 1024, 1, .layout = 3, .page_size = 64},
        {32, 32, 128, 4096, 1, .layout = 3, .page_size = 64},
        {32, 32, 128, 16384, 1, .layout = 3, .page_size = 64},
        {32, 32, 128, 65536, 1, .layout = 3, .page_size = 64},
        {32, 32, 128, 65536, 1, .layout = 3, .page_size = 64, .n_evicted = 5000},
        {32, 32, 128, 65536, 1, .layout = 1, .page_size = 64},
        {32, 8, 128, 4096, 1, .layout = 3, .page_size = 64},
        {32, 8, 128, 16384, 1, .layout = 3, .page_size = 64},
        {32, 8, 128, 65536, 1, .layout = 3, .page_size = 64},
        {32, 4, 64, 65536, 1, .layout = 3, .page_size = 64},
        {32, 32, 128, 1024, 64, .layout = 3, .page_size = 64},
        {32, 8, 128, 1024, 64, .layout = 3, .page_size = 64},
    };
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        Case model_case = {.name = "speed",
                           .type = DTYPE_BF16,
                           .hidden = 64,
                           .n_heads = SHAPES[i].n_heads,
                           .n_kv_heads = SHAPES[i].n_kv_heads,
                           .head_dim = SHAPES[i].head_dim,
                           .intermediate = 64,
                           .vocab = 64,
                           .n_tokens = 64,
                           .kv = DTYPE_F16};
        TestModel model;
        Side side = {0};
        model_fill(&model, &model_case, 1);
        side_open(&side, ops, "cuda", &model_case, &model, 64);
        void *zeros = calloc(1, side.sizes[1]);
        Error error;
        must(ops->write(side.backend, side.q, zeros, side.sizes[1], &error), &error);
        free(zeros);
        for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++) {
            Speed c = SHAPES[i];
            c.type = TYPES[t].type, c.group = TYPES[t].group, c.scale = DTYPE_F16;
            double bytes, time = measure(ops, side.backend, &c, side.q, side.q, &bytes);
            c.by_bases = true;
            double other = measure(ops, side.backend, &c, side.q, side.q, &bytes);
            printf(
                "%2d heads over %2d of %d, %2d x %5d, layout %d%s  %-5s %2d %8.1f us  %7.1f MB %6.0f GB/s, "
                "by bases %8.1f us\n",
                c.n_heads, c.n_kv_heads, c.head_dim, c.n_rows, c.length, c.layout,
                c.n_evicted ? ", gone" : "", dtype_name(c.type), c.group, time * 1e6, bytes * 1e-6,
                bytes / time * 1e-9, other * 1e6);
            fflush(stdout);
        }
        side_close(&side);
        model_free(&model);
    }
}
