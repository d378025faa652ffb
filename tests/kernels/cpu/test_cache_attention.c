// cache_attention() on the CPU against tests/golden/cache_attention.bin (see make_cache_attention.py), in every layout
// and mode, among sentinels and NaN; and against itself, cut and batched otherwise.
#include "kernels/cache_attention.h"
#include "kernels/cpu/loops/quant.h"
#include "tests/support/files.h"
#include "tests/support/kernels/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BATCHES = 4, MAX_KEYS = 100, SLOTS = 260, N_FIELDS = 17 };
static const char *const DEVICES[] = {"cpu", "cpu:reference"};

// ---- golden data ----------------------------------------------------------------------------------------

typedef struct Golden {
    CacheAttention a; // its attributes
    int64_t batches;  // own seqlens and kvlens
    int64_t seqlens[MAX_BATCHES], kvlens[MAX_BATCHES], n_queries, n_keys, width, kv_width;
    const float *query, *keys, *values, *mask, *output;
    const uint32_t *bits, *scales; // [n_keys, 2, kv_heads, head_dim (/ quant_group)]
} Golden;

static const void *take(const uint8_t **at, int64_t n) {
    const void *numbers = *at;
    *at += 4 * n;
    return numbers;
}

static Golden next_golden(const uint8_t **at) {
    const int32_t *f = take(at, N_FIELDS);
    Golden g = {.a = {.num_heads = f[0],
                      .head_dim = f[1],
                      .num_kv_heads = f[2],
                      .is_causal = f[3],
                      .is_alibi = f[4],
                      .num_layer = f[5],
                      .layer_idx = f[6],
                      .quant_bit = f[7],
                      .quant_group = f[8],
                      .page_size = f[9],
                      .type = f[10],
                      .cache_type = f[11],
                      .scale_type = f[12],
                      .decoding_batches = f[14],
                      .mask_dims = f[15],
                      .mask_columns = f[16]},
                .batches = f[13]};
    const int32_t *seqlens = take(at, g.batches), *kvlens = take(at, g.batches);
    for (int b = 0; b < g.batches; b++) {
        g.n_queries += g.seqlens[b] = seqlens[b];
        g.n_keys += g.kvlens[b] = kvlens[b];
    }
    int heads = f[2] ? f[2] : f[0];
    g.width = (int64_t)f[0] * f[1], g.kv_width = (int64_t)heads * f[1];
    g.query = take(at, g.n_queries * g.width);
    g.keys = take(at, g.n_keys * g.kv_width);
    g.values = take(at, g.n_keys * g.kv_width);
    g.mask = take(at, f[15] ? (f[15] == 3 ? f[0] : 1) * g.n_queries * f[16] : 0);
    g.output = take(at, g.n_queries * g.width);
    g.bits = take(at, 2 * g.n_keys * g.kv_width);
    g.scales = take(at, f[7] ? 2 * g.n_keys * g.kv_width / f[8] : 0);
    return g;
}

// Calls `check` with every record.
static void for_each_golden(void (*check)(const Golden *golden)) {
    Bytes file = bytes_of_file("tests/golden/cache_attention.bin");
    const uint8_t *at = file.data;
    int n = 0;
    for (; at < file.data + file.size; n++) {
        Golden g = next_golden(&at);
        check(&g);
    }
    assert_int_equal(n, 9);
    assert_ptr_equal(at, file.data + file.size);
    bytes_free(&file);
}

// ---- a cache and its operator ---------------------------------------------------------------------------

// Where sequences lie: sequence b's index j in slot slots[b][j]; the operator's own memory.
typedef struct Place {
    CacheAttention a;
    int64_t cachestarts[MAX_BATCHES * MAX_KEYS];
    int32_t slots[MAX_BATCHES][MAX_KEYS];
    int64_t cache_bytes, scale_bytes;
} Place;

// Every byte is 0xff: NaN in floats and scales.
static void *filled(int64_t bytes) {
    return memset(malloc((size_t)bytes + 1), 0xff, (size_t)bytes + 1);
}

static Place *new_place(const Golden *g, int layout, int mode) {
    Place *p = calloc(1, sizeof *p);
    int64_t page_size = mode ? g->a.page_size : MAX_KEYS;
    p->a = g->a;
    p->a.cache_layout = layout, p->a.cache_mode = mode, p->a.max_tokens = SLOTS, p->a.max_pages = MAX_KEYS;
    p->a.cachestarts = p->cachestarts;
    int64_t next = SLOTS; // pages from the end, taken in turns, with a slot between
    for (int64_t b = 0; mode == 0 && b < g->batches; b++) {
        p->cachestarts[b] = next -= g->kvlens[b] + 1;
        for (int64_t j = 0; j < g->kvlens[b]; j++) p->slots[b][j] = (int32_t)(next + j);
    }
    for (int64_t page = 0; mode == 1 && page < MAX_KEYS; page++)
        for (int64_t b = 0; b < g->batches; b++) {
            if (page * page_size >= g->kvlens[b]) {
                p->cachestarts[b * MAX_KEYS + page] = -7; // never looked at
                continue;
            }
            p->cachestarts[b * MAX_KEYS + page] = next -= page_size + 1;
            for (int64_t j = 0; j < page_size; j++) p->slots[b][page * page_size + j] = (int32_t)(next + j);
        }
    assert_true(next >= 0);
    KvLayout l = cache_attention_layout(&p->a);
    p->cache_bytes = kv_layout_bytes(&l), p->scale_bytes = kv_layout_scale_bytes(&l);
    p->a.cache = filled(p->cache_bytes);
    p->a.scale = g->a.quant_bit ? filled(p->scale_bytes) : NULL;
    return p;
}

static void free_place(Place *p) {
    free(p->a.cache), free(p->a.scale), free(p);
}

// n numbers in a type, in memory of exactly their size.
static void *in_type(DType type, const float *x, int64_t n) {
    int64_t size = dtype_block_bytes(type);
    char *memory = malloc((size_t)(n * size) + 1);
    for (int64_t i = 0; i < n; i++) {
        uint16_t bits = type == DTYPE_F16 ? quant_to_half(x[i]) : quant_to_bfloat(x[i]);
        memcpy(memory + i * size, type == DTYPE_F32 ? (const void *)&x[i] : &bits, (size_t)size);
    }
    return memory;
}

// Tokens [from[b], to[b]) of sequences [first, end), which see what lies before them; their queries are the rows of
// `query`, in order. Returns the output in the operator's type.
typedef struct Call {
    int first, end;
    const int64_t *from, *to; // [batches]
    const float *query;
    bool masked;
} Call;

static void *run(Backend *backend, const Golden *g, const Place *p, const Call *c) {
    CacheAttention a = p->a;
    int64_t seqstarts[MAX_BATCHES + 1] = {0}, kvstarts[MAX_BATCHES + 1] = {0}, start_pos[MAX_BATCHES],
                                    key = 0;
    float *keys = calloc((size_t)(g->n_keys * g->kv_width + 1), 4),
          *values = calloc((size_t)(g->n_keys * g->kv_width + 1), 4);
    a.batches = c->end - c->first;
    a.decoding_batches = 0;
    for (int b = 0; b < g->batches; key += g->kvlens[b++]) {
        int i = b - c->first;
        if (b < c->first || b >= c->end) continue;
        int64_t n = c->to[b] - c->from[b], at = seqstarts[i];
        seqstarts[i + 1] = at + n, kvstarts[i + 1] = kvstarts[i] + c->to[b], start_pos[i] = c->from[b];
        memcpy(keys + at * g->kv_width, g->keys + (key + c->from[b]) * g->kv_width,
               (size_t)(n * g->kv_width) * 4);
        memcpy(values + at * g->kv_width, g->values + (key + c->from[b]) * g->kv_width,
               (size_t)(n * g->kv_width) * 4);
        if (n == 1 && b < g->a.decoding_batches && a.decoding_batches == i) a.decoding_batches++;
        a.max_seqlen = n > a.max_seqlen ? n : a.max_seqlen;
        a.max_kvlen = c->to[b] > a.max_kvlen ? c->to[b] : a.max_kvlen;
    }
    int64_t n = seqstarts[a.batches];
    a.seqstarts = seqstarts, a.kvstarts = kvstarts, a.start_pos = start_pos;
    a.cachestarts = p->cachestarts + c->first * (a.cache_mode ? MAX_KEYS : 1);
    void *query = in_type(a.type, c->query, n * g->width), *k = in_type(a.type, keys, n * g->kv_width);
    void *v = in_type(a.type, values, n * g->kv_width),
         *output = filled(n * g->width * dtype_block_bytes(a.type));
    void *mask = NULL;
    if (c->masked && a.mask_dims)
        mask = in_type(a.type, g->mask, (a.mask_dims == 3 ? a.num_heads : 1) * g->n_queries * a.mask_columns);
    a.query = query, a.current_key = k, a.current_value = v, a.attn_mask = mask, a.attn_output = output;
    Error error = {0};
    assert_ok(backend->ops->cache_attention(backend, &a, &error), &error);
    free(query), free(k), free(v), free(mask), free(keys), free(values);
    return output;
}

// What is in the cache before the golden step: stored with any queries.
static void store_past(Backend *backend, const Golden *g, const Place *p) {
    int64_t zero[MAX_BATCHES] = {0}, past[MAX_BATCHES] = {0}, n = 0;
    for (int b = 0; b < g->batches; b++) n += past[b] = g->kvlens[b] - g->seqlens[b];
    float *query = random_floats(5, n * g->width + 1);
    free(run(backend, g, p, &(Call){0, (int)g->batches, zero, past, query, false}));
    free(query);
}

static void *run_golden_step(Backend *backend, const Golden *g, const Place *p) {
    int64_t past[MAX_BATCHES] = {0};
    for (int b = 0; b < g->batches; b++) past[b] = g->kvlens[b] - g->seqlens[b];
    return run(backend, g, p, &(Call){0, (int)g->batches, past, g->kvlens, g->query, true});
}

// ---- results and bytes --------------------------------------------------------------------------------------

static void check_output(const Golden *g, const void *output) {
    float *y = malloc((size_t)(g->n_queries * g->width + 1) * sizeof *y);
    double relative = g->a.type == DTYPE_F32 ? 1e-5 : g->a.type == DTYPE_F16 ? 6e-4 : 5e-3;
    quant_load(g->a.type, output, 0, g->n_queries * g->width, y);
    for (int64_t i = 0; i < g->n_queries * g->width; i++)
        assert_near("output", i, y[i], g->output[i], relative * fabsf(g->output[i]) + 1e-5);
    free(y);
}

// The index of an element as the seed's table of layouts says it; n: elements of a head.
static int64_t index_of(const Place *p, int64_t heads, int64_t n, int64_t slot, int64_t plane, int64_t head,
                        int64_t d) {
    int64_t layers = p->a.num_layer, layer = p->a.layer_idx;
    if (p->a.cache_layout == 0) return (((slot * layers + layer) * 2 + plane) * heads + head) * n + d;
    if (p->a.cache_layout == 1) return (((layer * SLOTS + slot) * 2 + plane) * heads + head) * n + d;
    if (p->a.cache_layout == 2) return (((layer * 2 + plane) * SLOTS + slot) * heads + head) * n + d;
    return (((layer * 2 + plane) * heads + head) * SLOTS + slot) * n + d;
}

// Writes what is expected into a copy that was sentinels only: int8, int4, or floats of 2 or 4 bytes.
static void put(uint8_t *bytes, int bits, int64_t index, uint32_t value) {
    if (bits == 4)
        bytes[index / 2] = (uint8_t)(index % 2 ? (bytes[index / 2] & 15) | value << 4
                                               : (bytes[index / 2] & 240) | (value & 15));
    else
        memcpy(bytes + index * (bits / 8), &value, (size_t)bits / 8); // little-endian
}

// The whole memory: what was stored, and sentinels everywhere else.
static void check_memory(const Golden *g, const Place *p) {
    uint8_t *cache = filled(p->cache_bytes), *scale = filled(p->scale_bytes);
    int64_t dim = g->a.head_dim, heads = g->kv_width / dim,
            groups = g->a.quant_bit ? dim / g->a.quant_group : 0, at = 0;
    int bits = g->a.quant_bit ? g->a.quant_bit : (int)dtype_block_bytes(g->a.cache_type) * 8;
    int scale_bits = (int)dtype_block_bytes(g->a.scale_type) * 8;
    for (int b = 0; b < g->batches; b++)
        for (int64_t j = 0; j < g->kvlens[b]; j++, at++)
            for (int64_t row = 0; row < 2 * heads; row++) {
                int64_t from = at * 2 * heads + row;
                for (int64_t d = 0; d < dim; d++)
                    put(cache, bits, index_of(p, heads, dim, p->slots[b][j], row / heads, row % heads, d),
                        g->bits[from * dim + d]);
                for (int64_t d = 0; d < groups; d++)
                    put(scale, scale_bits,
                        index_of(p, heads, groups, p->slots[b][j], row / heads, row % heads, d),
                        g->scales[from * groups + d]);
            }
    assert_memory_equal(p->a.cache, cache, (size_t)p->cache_bytes);
    if (p->a.scale) assert_memory_equal(p->a.scale, scale, (size_t)p->scale_bytes);
    free(cache), free(scale);
}

static void check_places(const Golden *g) {
    DecoderShape shape = any_shape();
    size_t bytes = (size_t)(g->n_queries * g->width * dtype_block_bytes(g->a.type));
    for (int device = 0; device < 2; device++) {
        Backend *backend = open_cpu(DEVICES[device], 2, &shape, 1);
        void *first = NULL;
        for (int i = 0; i < 8; i++) {
            Place *p = new_place(g, i % 4, i / 4);
            store_past(backend, g, p);
            void *output = run_golden_step(backend, g, p);
            check_output(g, output);
            check_memory(g, p);
            if (first) assert_memory_equal(output, first, bytes);
            free(first);
            first = output;
            free_place(p);
        }
        free(first);
        backend->ops->close(backend);
    }
}

static void equals_golden_data_in_every_layout_and_mode(void **state) {
    (void)state;
    for_each_golden(check_places);
}

// ---- other steps ----------------------------------------------------------------------------------------

// All tokens at once give the bits that the golden step gives after its past; not where queries see what follows.
static void check_whole(const Golden *g) {
    if (!g->a.is_causal || g->a.mask_dims) return;
    DecoderShape shape = any_shape();
    int64_t size = dtype_block_bytes(g->a.type), query = 0, key = 0, zero[MAX_BATCHES] = {0};
    for (int device = 0; device < 2; device++) {
        Backend *backend = open_cpu(DEVICES[device], 1 + device, &shape, 1);
        Place *p = new_place(g, 1, 1), *whole = new_place(g, 1, 1);
        float *all = random_floats(9, g->n_keys * g->width);
        query = key = 0;
        for (int b = 0; b < g->batches; query += g->seqlens[b], key += g->kvlens[b], b++)
            memcpy(all + (key + g->kvlens[b] - g->seqlens[b]) * g->width, g->query + query * g->width,
                   (size_t)(g->seqlens[b] * g->width) * sizeof *all);
        store_past(backend, g, p);
        char *output = run_golden_step(backend, g, p);
        char *expected = run(backend, g, whole, &(Call){0, (int)g->batches, zero, g->kvlens, all, false});
        query = key = 0;
        for (int b = 0; b < g->batches; query += g->seqlens[b], key += g->kvlens[b], b++)
            assert_memory_equal(output + query * g->width * size,
                                expected + (key + g->kvlens[b] - g->seqlens[b]) * g->width * size,
                                (size_t)(g->seqlens[b] * g->width * size));
        assert_memory_equal(p->a.cache, whole->a.cache, (size_t)p->cache_bytes);
        free(output), free(expected), free(all);
        free_place(p), free_place(whole);
        backend->ops->close(backend);
    }
}

static void a_whole_prompt_equals_its_chunks(void **state) {
    (void)state;
    for_each_golden(check_whole);
}

// A sequence alone gives the bits that it gives among others.
static void check_alone(const Golden *g) {
    if (g->a.mask_dims) return;
    DecoderShape shape = any_shape();
    Backend *backend = open_cpu("cpu", 3, &shape, 1);
    Place *p = new_place(g, 2, 0);
    store_past(backend, g, p);
    char *output = run_golden_step(backend, g, p);
    int64_t past[MAX_BATCHES] = {0}, query = 0, row = g->width * dtype_block_bytes(g->a.type);
    for (int b = 0; b < g->batches; b++) past[b] = g->kvlens[b] - g->seqlens[b];
    for (int b = 0; b < g->batches; query += g->seqlens[b++]) {
        void *alone =
            run(backend, g, p, &(Call){b, b + 1, past, g->kvlens, g->query + query * g->width, false});
        assert_memory_equal(alone, output + query * row, (size_t)(g->seqlens[b] * row));
        free(alone);
    }
    free(output);
    free_place(p);
    backend->ops->close(backend);
}

static void a_sequence_does_not_depend_on_others(void **state) {
    (void)state;
    for_each_golden(check_alone);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_golden_data_in_every_layout_and_mode),
        cmocka_unit_test(a_whole_prompt_equals_its_chunks),
        cmocka_unit_test(a_sequence_does_not_depend_on_others),
    };
    return test_main("cache_attention", argc, argv, tests);
}
