// What a query sees of a cache, on the CPU: pages of any size, the four layouts, every cache type, ALiBi, windows, and
// the view after positions were evicted. Against formulas in double precision, in which the sinks' keys are
// turned instead of the queries; and against itself: where the same content lies changes no bit.
#include "kernels/alibi.h"
#include "kernels/cpu/cache/kv.h"
#include "kernels/kv_layout.h"
#include "tests/support/kernels/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define INDEXES 230 // of the sequence, of which the last TOKENS are the step's
#define TOKENS 8
#define SLOTS 1600
#define HOLES 5 // indexes that hold nothing

typedef struct ViewCase {
    int head_dim, n_heads, n_kv_heads;
    DType type;
    int rotary_dim, window, n_sinks, n_evicted;
    int group;
    DType scale_type;
    bool rotate_keys, balance_keys;
    RopeKind rope;
    bool alibi;
} ViewCase;

static const ViewCase CASES[] = {
    {64, 9, 3, DTYPE_F16, .rotary_dim = 64},
    {64, 9, 3, DTYPE_F16, 64, 0, 70, .n_evicted = 900},
    {40, 2, 2, DTYPE_BF16, 12, 0, 64, 1, .rope = ROPE_INTERLEAVED},
    {20, 4, 1, DTYPE_F32, 20, 30, 10, .n_evicted = 100000},
    {32, 8, 1, DTYPE_F32, 32, 500, 129, 333, .rope = ROPE_INTERLEAVED},
    {16, 6, 6, DTYPE_F32, 0, 0, 0, 0, .alibi = true},
    {24, 12, 2, DTYPE_F16, 0, 0, 7, 50, .alibi = true},
    {64, 8, 8, DTYPE_F32, 0, 90, 0, 0, .alibi = true},
    {64, 6, 2, DTYPE_INT8, 64, 0, 0, 0, 32, .scale_type = DTYPE_F16},
    {96, 2, 2, DTYPE_INT8, 96, 0, 40, 77, 24, DTYPE_F32, .rotate_keys = true},
    {128, 7, 1, DTYPE_INT4, 128, 0, 65, 2000, 64, DTYPE_F16, .rotate_keys = true, .balance_keys = true},
    {48, 3, 3, DTYPE_INT4, 48, 100, 0, 0, 8, .scale_type = DTYPE_F32},
    {36, 4, 2, DTYPE_INT4, 10, 0, 0, 0, 6, DTYPE_F16, .rotate_keys = true, .balance_keys = true},
    {80, 4, 2, DTYPE_INT4, 32, 0, 64, 321, 16, DTYPE_F16, true, true, .rope = ROPE_INTERLEAVED},
    {28, 2, 2, DTYPE_INT8, 28, 0, 0, 0, 2, .scale_type = DTYPE_F32},
};
#define N_CASES (sizeof CASES / sizeof *CASES)

// ---- the content ----------------------------------------------------------------------------------------

// What a sequence holds, wherever it lies: index i has position at[i] (-1: none), keys and values [kv head, d].
typedef struct Content {
    const ViewCase *c;
    int32_t at[INDEXES];
    float *keys, *values; // [INDEXES, n_kv_heads, head_dim]
    float *q;             // [TOKENS, n_heads, head_dim]
    double inv_freq[64];
} Content;

// Positions that were evicted are still held by some indexes; these and holes are NaN.
static Content new_content(const ViewCase *c) {
    Content content = {.c = c};
    int64_t row = (int64_t)c->n_kv_heads * c->head_dim;
    content.keys = random_floats(31, INDEXES * row);
    content.values = random_floats(32, INDEXES * row);
    content.q = random_floats(33, (int64_t)TOKENS * c->n_heads * c->head_dim);
    for (int i = 0; i < c->rotary_dim / 2; i++) content.inv_freq[i] = pow(10000, -2.0 * i / c->rotary_dim);
    for (int i = 0; i < INDEXES; i++) {
        content.at[i] = i < c->n_sinks ? i : i + c->n_evicted;
        if (c->n_evicted && i >= 150 && i < 160)
            content.at[i] = c->n_sinks + (i - 150) % c->n_evicted; // stale
        if (i >= 200 && i < 200 + HOLES) content.at[i] = -1;
        bool evicted = content.at[i] < 0 || (i >= c->n_sinks && content.at[i] < c->n_sinks + c->n_evicted);
        for (int64_t j = 0; evicted && j < row; j++)
            content.keys[i * row + j] = content.values[i * row + j] = NAN;
    }
    return content;
}

static void free_content(Content *content) {
    free(content->keys), free(content->values), free(content->q);
}

// ---- a place for it -------------------------------------------------------------------------------------

typedef struct Place {
    int layout, page_size; // page_size 0: one page
    int32_t pages[INDEXES], held[SLOTS];
    int32_t slots[INDEXES]; // of each index
    void *cache, *scale;
    float *balance, *feedback;
    KvLayer kv;
} Place;

static void *filled(int64_t bytes) {
    return memset(malloc((size_t)bytes + 1), 0xff, (size_t)bytes + 1); // NaN in every float type
}

// Lays the content out in shuffled pages of layer 1 of 3.
static Place *new_place(const Content *content, int layout, int page_size) {
    const ViewCase *c = content->c;
    Place *p = calloc(1, sizeof *p);
    p->layout = layout, p->page_size = page_size ? page_size : 1 << 30;
    KvLayout l = {.layout = layout,
                  .n_layers = 3,
                  .n_kv_heads = c->n_kv_heads,
                  .head_dim = c->head_dim,
                  .n_slots = SLOTS,
                  .type = c->type,
                  .group = c->group,
                  .scale_type = c->scale_type};
    Error error;
    assert_ok(kv_layout_check(&l, &error), &error);
    p->cache = filled(kv_layout_bytes(&l));
    p->scale = filled(kv_layout_scale_bytes(&l));
    p->kv = kv_layout_layer(&l, p->cache, p->scale, 1);
    p->kv.rotate_keys = c->rotate_keys;
    if (c->balance_keys) {
        const Rope rope = {.kind = c->rope, .rotary_dim = c->rotary_dim};
        random_rounding(&rope, c->n_kv_heads, c->head_dim, &p->balance, &p->feedback);
        p->kv.key_balance = p->balance, p->kv.key_feedback = p->feedback, p->kv.key_pairs = c->rope;
    }
    for (int s = 0; s < SLOTS; s++) p->held[s] = -1;
    int n = (INDEXES - 1) / p->page_size + 1, space = n > 1 ? SLOTS / n : 0;
    for (int i = 0; i < n; i++) p->pages[i] = n > 1 ? (n - 1 - i + n / 3) % n * space : 17;
    float *row = malloc((size_t)c->head_dim * sizeof *row);
    for (int i = 0; i < INDEXES; i++) {
        int32_t slot = p->slots[i] = p->pages[i / p->page_size] + i % p->page_size;
        p->held[slot] = content->at[i];
        for (int h = 0; h < c->n_kv_heads; h++)
            for (KvPlane plane = KV_KEYS; plane <= KV_VALUES; plane++) {
                const float *from = plane == KV_KEYS ? content->keys : content->values;
                memcpy(row, from + ((int64_t)i * c->n_kv_heads + h) * c->head_dim,
                       (size_t)c->head_dim * sizeof *row);
                kv_store(loops_reference(), &p->kv, &(KvRow){plane, slot, h, c->head_dim}, row);
            }
    }
    free(row);
    return p;
}

static void free_place(Place *p) {
    free(p->cache), free(p->scale), free(p->balance), free(p->feedback), free(p);
}

static DecoderShape shape_of(const Content *content) {
    const ViewCase *c = content->c;
    return (DecoderShape){.n_layers = 3,
                          .hidden_size = 8,
                          .n_heads = c->n_heads,
                          .n_kv_heads = c->n_kv_heads,
                          .head_dim = c->head_dim,
                          .intermediate_size = 8,
                          .vocab_size = 1,
                          .norm_eps = 1e-5f,
                          .embedding_scale = 1,
                          .attention_scale = 0.3f,
                          .alibi = c->alibi,
                          .rope = {c->rope, c->rotary_dim, content->inv_freq, 1.7, 1}};
}

// Attention of tokens [first, first + n) of the step, in place.
static void attend(Backend *b, const Content *content, Place *p, int first, int n, float *y) {
    const ViewCase *c = content->c;
    int64_t width = (int64_t)c->n_heads * c->head_dim;
    int32_t ids[TOKENS] = {0};
    int begin = INDEXES - TOKENS + first;
    StepSequence sequence = {0,     n, begin + n, p->pages, c->n_sinks, c->n_evicted, 0, 0,
                             false, 0, {0},       -1,       -1};
    Step step = {n,       1,       ids, content->at + begin, p->slots + begin, &sequence, p->page_size,
                 p->held, STEP_ANY};
    Error error = {0};
    assert_ok(b->ops->begin(b, &step, NULL, &error), &error);
    memcpy(y, content->q + first * width, (size_t)(n * width) * sizeof *y);
    assert_ok(b->ops->attend(b, y, &p->kv, c->window, y, &error), &error);
}

// ---- formulas -------------------------------------------------------------------------------------------

// x turned by `by` positions in double.
static void turn(const Content *content, double by, double *x) {
    const ViewCase *c = content->c;
    for (int i = 0; i < c->rotary_dim / 2; i++) {
        bool split = c->rope == ROPE_HALF_SPLIT;
        double *a = x + (split ? i : 2 * i), *b = x + (split ? i + c->rotary_dim / 2 : 2 * i + 1), first = *a;
        double angle = by * content->inv_freq[i];
        *a = first * cos(angle) - *b * sin(angle);
        *b = first * sin(angle) + *b * cos(angle);
    }
}

// The key of an index as attention sees it: as it is stored, turned back from the Hadamard matrix (its own inverse) and
// out of balance, and moved n_evicted positions on where it belongs to the sinks.
static void seen_key(const Content *content, const Place *p, int index, int kv_head, double *key) {
    const ViewCase *c = content->c;
    float row[128];
    kv_load(&p->kv, KV_KEYS, p->slots[index], kv_head, c->head_dim, row);
    int size = c->head_dim & -c->head_dim;
    for (int d = 0; d < c->head_dim; d++) {
        key[d] = c->rotate_keys ? 0 : row[d];
        for (int e = 0; c->rotate_keys && e < size;
             e++) { // Sylvester: the sign is the parity of the common bits
            int sign = __builtin_popcount((unsigned)(d % size & e)) % 2 ? -1 : 1;
            key[d] += sign * row[d / size * size + e] / sqrt(size);
        }
        if (c->balance_keys) key[d] *= p->balance[kv_head * c->head_dim + d];
    }
    if (c->n_evicted && index < c->n_sinks) turn(content, c->n_evicted, key);
}

static void expected_row(const Content *content, const Place *p, int token, int head, double *y) {
    const ViewCase *c = content->c;
    const float *q = content->q + ((int64_t)token * c->n_heads + head) * c->head_dim;
    int kv_head = head * c->n_kv_heads / c->n_heads, n = INDEXES - TOKENS + token + 1;
    double key[128] = {0}, total = 0;
    float value[128];
    memset(y, 0, (size_t)c->head_dim * sizeof *y);
    for (int i = 0; i < n; i++) {
        int32_t at = content->at[i];
        bool is_sink = c->n_evicted && i < c->n_sinks;
        int distance = content->at[n - 1] - (is_sink ? c->n_evicted : 0) - at;
        if (at < 0 || distance < 0 || (c->window && distance >= c->window)) continue;
        if (!is_sink && c->n_evicted && at >= c->n_sinks && at < c->n_sinks + c->n_evicted) continue;
        seen_key(content, p, i, kv_head, key);
        kv_load(&p->kv, KV_VALUES, p->slots[i], kv_head, c->head_dim, value);
        double score = 0;
        for (int d = 0; d < c->head_dim; d++) score += q[d] * key[d];
        double weight = exp(score * 0.3f - (c->alibi ? alibi_slope(head, c->n_heads) * (double)distance : 0));
        total += weight;
        for (int d = 0; d < c->head_dim; d++) y[d] += weight * value[d];
    }
    for (int d = 0; d < c->head_dim; d++) y[d] /= total;
}

static void check_rows(const char *device, int64_t number, const Content *content, const Place *p,
                       const float *y) {
    const ViewCase *c = content->c;
    double expected[128];
    for (int row = 0; row < TOKENS * c->n_heads; row++) {
        expected_row(content, p, row / c->n_heads, row % c->n_heads, expected);
        for (int j = 0; j < c->head_dim; j++)
            assert_near(device, number * 1000000 + row * c->head_dim + j, y[row * c->head_dim + j],
                        expected[j], 3e-6);
    }
}

// With running maxima, and with bases for the heads from far below to far above their scores.
static void queries_see_what_the_formula_says(void **state) {
    (void)state;
    static const char *const DEVICES[] = {"cpu", "cpu:reference"};
    static const float FROM_TO[][2] = {{0, 0}, {-40, 40}, {-200, 200}};
    for (size_t i = 0; i < N_CASES; i++) {
        Content content = new_content(&CASES[i]);
        const ViewCase *c = content.c;
        DecoderShape shape = shape_of(&content);
        Place *p = new_place(&content, 3, i % 2 ? 16 : 0);
        float *y = malloc((size_t)(TOKENS * c->n_heads * c->head_dim) * sizeof *y), bases[64];
        for (int d = 0; d < 2; d++) {
            Backend *b = open_cpu(DEVICES[d], 2, &shape, TOKENS);
            for (int way = 0; way < 4; way++) {
                SoftmaxCounts counts;
                for (int h = 0; way && h < c->n_heads; h++)
                    bases[h] = FROM_TO[way - 1][0] + (FROM_TO[way - 1][1] - FROM_TO[way - 1][0]) * (float)h /
                                                         (float)(c->n_heads - 1);
                p->kv.score_bases = way ? bases : NULL;
                attend(b, &content, p, 0, TOKENS, y);
                check_rows(DEVICES[d], (int64_t)i * 4 + way, &content, p, y);
                assert_ok(b->ops->softmax_counts(b, &counts, NULL), NULL);
                assert_true(way ? counts.parts > 0 : counts.parts == 0);
                if (way < 3 && !c->alibi) assert_int_equal(counts.again, 0);
                if (way == 3) assert_true(counts.again > 0 && counts.again < counts.parts);
            }
            b->ops->close(b);
        }
        free(y);
        free_place(p);
        free_content(&content);
    }
}

// Any layout and page size, any number of threads, all tokens at once or in two steps: the same bits.
static void where_it_lies_changes_no_bit(void **state) {
    (void)state;
    static const int PAGES[] = {0, 1, 3, 16, 64, 100, 128};
    static const char *const DEVICES[] = {"cpu", "cpu:reference"};
    for (size_t i = 0; i < 2 * N_CASES; i++) {
        Content content = new_content(&CASES[i % N_CASES]);
        const ViewCase *c = content.c;
        DecoderShape shape = shape_of(&content);
        int64_t width = (int64_t)c->n_heads * c->head_dim;
        size_t bytes = (size_t)(TOKENS * width) * sizeof(float);
        float *first = malloc(bytes), *y = malloc(bytes);
        for (int at = 0; at < 7; at += i < N_CASES ? 1 : 3) { // the plain loops are slow
            Backend *b = open_cpu(DEVICES[i / N_CASES], 1 + at % 3, &shape, TOKENS);
            Place *p = new_place(&content, (at + (int)i) % 4, PAGES[at]);
            attend(b, &content, p, 0, TOKENS, at ? y : first);
            if (at) assert_memory_equal(y, first, bytes);
            attend(b, &content, p, 0, at + 1, y);
            for (int t = at + 1; t < TOKENS; t += 2)
                attend(b, &content, p, t, t + 2 > TOKENS ? 1 : 2, y + t * width);
            assert_memory_equal(y, first, bytes);
            free_place(p);
            b->ops->close(b);
        }
        free(first), free(y);
        free_content(&content);
    }
}

static void swap_rows(float *rows, int64_t width, int i, int j) {
    for (int64_t d = 0; d < width; d++) {
        float other = rows[i * width + d];
        rows[i * width + d] = rows[j * width + d], rows[j * width + d] = other;
    }
}

// Indexes in any order, as in a ring, give the same up to the order of sums.
static void any_order_of_indexes_gives_the_same(void **state) {
    (void)state;
    for (size_t i = 0; i < N_CASES; i++) {
        Content content = new_content(&CASES[i]);
        const ViewCase *c = content.c;
        DecoderShape shape = shape_of(&content);
        int64_t width = (int64_t)c->n_heads * c->head_dim, kv_width = (int64_t)c->n_kv_heads * c->head_dim;
        float *before = malloc((size_t)(TOKENS * width) * 4), *after = malloc((size_t)(TOKENS * width) * 4);
        Backend *b = open_cpu("cpu", 2, &shape, TOKENS);
        Place *p = new_place(&content, 0, 0);
        attend(b, &content, p, 0, TOKENS, before);
        free_place(p);
        uint64_t seed = 5;
        for (int last = INDEXES - TOKENS - 1; last > c->n_sinks; last--) {
            int other = c->n_sinks + (int)(seeded_bits(&seed) % (uint64_t)(last + 1 - c->n_sinks));
            int32_t at = content.at[last];
            content.at[last] = content.at[other], content.at[other] = at;
            swap_rows(content.keys, kv_width, last, other);
            swap_rows(content.values, kv_width, last, other);
        }
        p = new_place(&content, 0, 0);
        attend(b, &content, p, 0, TOKENS, after);
        for (int64_t j = 0; j < TOKENS * width; j++) assert_near("permuted", j, after[j], before[j], 2e-6);
        free(before), free(after);
        free_place(p);
        free_content(&content);
        b->ops->close(b);
    }
}

// A query that sees nothing gives zeros, and page tables may be gone when begin() has returned.
static void an_empty_view_gives_zeros(void **state) {
    (void)state;
    const ViewCase c = {
        .head_dim = 16, .n_heads = 2, .n_kv_heads = 1, .type = DTYPE_F32, .n_sinks = 300, .n_evicted = 400};
    Content content = new_content(&c);
    DecoderShape shape = shape_of(&content);
    Place *p = new_place(&content, 0, 7);
    Backend *b = open_cpu("cpu", 1, &shape, TOKENS);
    int32_t zero = 0, position = 350, held[SLOTS];
    int32_t *pages = malloc(sizeof p->pages);
    memcpy(pages, p->pages, sizeof p->pages);
    memset(held, -1, sizeof held);
    StepSequence sequence = {0, 1, 100, pages, c.n_sinks, c.n_evicted, 0, 0, false, 0, {0}, -1, -1};
    Step step = {1, 1, &zero, &position, &p->slots[99], &sequence, 7, held, STEP_ANY};
    Error error = {0};
    float y[32];
    for (int i = 0; i < 32; i++) y[i] = 1;
    assert_ok(b->ops->begin(b, &step, NULL, &error), &error); // 350 is evicted itself
    memset(pages, 0x7f, sizeof p->pages);
    free(pages);
    assert_ok(b->ops->attend(b, content.q, &p->kv, 0, y, &error), &error);
    for (int i = 0; i < 32; i++) assert_true(y[i] == 0);
    b->ops->close(b);
    free_place(p);
    free_content(&content);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queries_see_what_the_formula_says),
        cmocka_unit_test(where_it_lies_changes_no_bit),
        cmocka_unit_test(any_order_of_indexes_gives_the_same),
        cmocka_unit_test(an_empty_view_gives_zeros),
    };
    return test_main("attend_view", argc, argv, tests);
}
