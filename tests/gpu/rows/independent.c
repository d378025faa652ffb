// Results that do not depend on their neighbours: rows of decoding steps alone, together and in another order, as one
// graph and op by op; a prompt in one piece and in several. Bit by bit; and against the CPU.
#include "kernels/cpu/loops/quant.h"
#include "tests/gpu/model/side.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 64, MOST_ROWS = 64 };

// Sequences of different lengths, each with pages of its own, the newest token at the last index.
typedef struct Rows {
    const Case *c;
    Side side;
    float *logits; // device [MOST_ROWS, vocab]
    bool narrows;  // prompts are: the last layer is for the last token alone
    int n, pages_each, lengths[MOST_ROWS];
    int32_t *pages, ids[MOST_ROWS], positions[MOST_ROWS], slots[MOST_ROWS];
} Rows;

static int pages_of(const Case *c) {
    return (c->past + c->page_size) / c->page_size + 1;
}

static void rows_open(Rows *r, const Ops *ops, const char *device, const Case *c, const TestModel *model) {
    *r = (Rows){.c = c, .n = c->n_rows, .pages_each = pages_of(c)};
    int page = c->page_size, n_slots = r->n * r->pages_each * page;
    side_open(&r->side, ops, device, c, model, n_slots);
    r->logits = room(ops, r->side.backend, (size_t)MOST_ROWS * (size_t)c->vocab * sizeof(float));
    r->pages = calloc((size_t)r->n * (size_t)r->pages_each, sizeof *r->pages);
    for (int i = 0; i < r->n * r->pages_each; i++) // row i % n, in disorder
        r->pages[i % r->n * r->pages_each + i / r->n] = ((i ^ 1) < r->n * r->pages_each ? i ^ 1 : i) * page;
    for (int i = 0; i < r->n; i++) {
        r->lengths[i] = 1 + (int)((int64_t)(i * 29 % r->n) * c->past / r->n);
        int last = r->lengths[i] - 1;
        r->ids[i] = (i * 7919 + 3) % c->vocab, r->positions[i] = last;
        r->slots[i] = r->pages[i * r->pages_each + last / page] + last % page;
    }
}

static void rows_close(Rows *r) {
    r->side.ops->free(r->side.backend, r->logits);
    side_close(&r->side);
    free(r->pages);
}

static int n_slots_of(const Rows *r) {
    return r->n * r->pages_each * r->c->page_size;
}

// A past of random keys and values for both; slots beyond a sequence's end keep NaN.
static void fill_rows(Rows *a, Rows *b) {
    int32_t *positions = malloc((size_t)n_slots_of(a) * sizeof *positions);
    int page = a->c->page_size;
    for (int i = 0; i < n_slots_of(a); i++) positions[i] = -1;
    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < a->lengths[i] - 1; j++)
            positions[a->pages[i * a->pages_each + j / page] + j % page] = j;
    fill_caches(&a->side, &b->side, positions, 99);
    Error error;
    for (int i = 0; i < 2; i++) {
        Side *s = i ? &b->side : &a->side;
        must(s->ops->write(s->backend, s->slot_positions, positions, (size_t)n_slots_of(a) * 4, &error),
             &error);
    }
    free(positions);
}

static void run_ops(Rows *r, const Step *step) {
    Side *s = &r->side;
    const Ops *ops = s->ops;
    Error error;
    int32_t tokens[MOST_ROWS];
    const int windows[TEST_LAYERS] = {r->c->window, 0};
    Pass pass = side_pass(s, step, windows);
    int n = step->kind == STEP_READING ? 1 : step->n_tokens, most = 4; // rows of logits at once
    for (int i = 0; i < n; i++) tokens[i] = step->kind == STEP_READING ? step->n_tokens - 1 : i;
    Narrowed narrowed;
    const int32_t first = 0, *of = tokens;
    if (r->narrows && step->kind == STEP_READING && narrow_step(step, &(LogitRows){tokens, 1}, &narrowed))
        pass.narrowed = &narrowed, of = &first;
    must(ops->begin(s->backend, step, s->kv, &error), &error);
    must(forward_pass(&pass, &error), &error);
    for (int i = 0; i < n; i += most)
        must(ops->logits(s->backend, s->head, s->x, &(LogitRows){of + i, n - i < most ? n - i : most},
                         r->logits + (int64_t)i * r->c->vocab, &error),
             &error);
}

// How a step is asked for: at once, op by op, or at once before the host knows its first tokens, which are being drawn.
typedef enum How { AT_ONCE, BY_OPS, DRAWN } How;
enum { MOST_DRAWN = 4 };

// Draws the step's first tokens greedily, from rows of logits in which nothing else is possible, in disorder; the
// step then has other ids.
static void draw_ids(Rows *r, int32_t *ids, int n, int32_t *drawn) {
    Side *s = &r->side;
    int n_drawn = n < MOST_DRAWN ? n : MOST_DRAWN;
    int64_t vocab = r->c->vocab;
    Error error;
    SampleParams params[MOST_DRAWN];
    float *rows = malloc((size_t)(n_drawn * vocab) * sizeof *rows);
    for (int64_t i = 0; i < n_drawn * vocab; i++) rows[i] = -INFINITY;
    for (int i = 0; i < n; i++) drawn[i] = i < n_drawn ? n_drawn - 1 - i : -1;
    for (int i = 0; i < n_drawn; i++) {
        params[i] = (SampleParams){.top_p = 1, .typical_p = 1};
        rows[drawn[i] * vocab + ids[i]] = 1;
        ids[i] = 0;
    }
    must(s->ops->write(s->backend, s->logits, rows, (size_t)(n_drawn * vocab) * sizeof *rows, &error),
         &error);
    must(s->ops->sample_begin(s->backend, s->logits, n_drawn, params, &error), &error);
    free(rows);
}

// The rows `which` in one step; their logits [n, vocab]. Behind them nothing is written.
static float *run_rows(Rows *r, const int *which, int n, How how) {
    Side *s = &r->side;
    int32_t ids[MOST_ROWS], positions[MOST_ROWS], slots[MOST_ROWS];
    StepSequence sequences[MOST_ROWS];
    for (int i = 0; i < n; i++) {
        int row = which[i];
        ids[i] = r->ids[row], positions[i] = r->positions[row], slots[i] = r->slots[row];
        // All are in order, and some are said to be.
        sequences[i] = (StepSequence){
            i, 1, r->lengths[row], r->pages + row * r->pages_each, 0, 0, 0, 0, row % 3 != 1, 0, {0}, -1, -1};
    }
    Step step = {n, n, ids, positions, slots, sequences, r->c->page_size, s->slot_positions, STEP_DECODING};
    size_t size = (size_t)r->c->vocab * sizeof(float);
    float *poison = malloc(size * MOST_ROWS);
    memset(poison, 0xff, size * MOST_ROWS);
    Error error;
    must(s->ops->write(s->backend, r->logits, poison, size * MOST_ROWS, &error), &error);
    int windows[TEST_LAYERS] = {r->c->window, 0};
    const Pass pass = side_pass(s, &step, windows);
    DecodeStep decode = side_decode(s, &step, &pass);
    decode.logits = r->logits;
    int32_t drawn[MOST_ROWS];
    if (how == DRAWN) {
        draw_ids(r, ids, n, drawn);
        decode.drawn = drawn;
    }
    if (how == BY_OPS)
        run_ops(r, &step);
    else
        must(s->ops->decode(s->backend, &decode, &error), &error);
    if (how == DRAWN) must(s->ops->sample_end(s->backend, drawn, &error), &error);
    float *logits = malloc(size * MOST_ROWS);
    must(s->ops->read(s->backend, logits, r->logits, size * MOST_ROWS, &error), &error);
    report(r->c->name, "rows behind",
           memcmp(logits + (size_t)n * (size_t)r->c->vocab, poison, size * (size_t)(MOST_ROWS - n)) != 0, 0);
    free(poison);
    return logits;
}

static void compare_rows(Rows *r, const char *what, const float *alone, const int *which, int n, How how) {
    float *together = run_rows(r, which, n, how);
    int wrong = 0;
    for (int i = 0; i < n; i++)
        wrong += memcmp(together + (int64_t)i * r->c->vocab, alone + (int64_t)which[i] * r->c->vocab,
                        (size_t)r->c->vocab * sizeof(float)) != 0;
    report(r->c->name, what, wrong, 0);
    free(together);
}

// Of logits against the CPU's.
static double bound_of(const Case *c) {
    double bound = quant_is_type(c->type)  ? 1e-2
                   : c->type == DTYPE_W8   ? 6e-2 // every layer rounds 16 bits and float32 to other 8 bits
                   : c->type == DTYPE_BF16 ? 1.5e-2
                   : c->kv == DTYPE_F32    ? 1e-4
                                           : 4e-3;
    if (c->kv == DTYPE_INT8 || c->kv == DTYPE_INT4)
        bound += c->kv == DTYPE_INT8 ? 1e-2 : 6e-2; // of rounding a key elsewhere
    return bound;
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The distance of n rows of logits. Of many experts some are nearly as good as each other, and chosen by rounding, which
// changes a row: the distance of the row that three of four others are not beyond.
static double rows_distance(const Case *c, const float *a, const float *b, int n) {
    enum { MANY = 32 };
    double each[MOST_ROWS];
    if (c->n_experts < MANY) return distance(a, b, (int64_t)n * c->vocab);
    for (int i = 0; i < n; i++)
        each[i] = distance(a + (int64_t)i * c->vocab, b + (int64_t)i * c->vocab, c->vocab);
    qsort(each, (size_t)n, sizeof *each, by_size);
    return each[n * 3 / 4];
}

static void test_rows(const Ops *cuda, const Case *c, const TestModel *model) {
    Rows cpu, gpu;
    TestModel kept = *model; // of one that decodes, the GPU rounds no inputs to FP8
    kept.shape.fp8_inputs = FP8_INPUTS_KEPT;
    rows_open(&cpu, ops_cpu(), "cpu:reference", c, &kept);
    rows_open(&gpu, cuda, "cuda", c, model);
    fill_rows(&cpu, &gpu);
    int order[MOST_ROWS] = {0}, back[MOST_ROWS] = {0}, n = c->n_rows;
    for (int i = 0; i < n; i++) order[i] = i, back[i] = n - 1 - i;
    float *alone = malloc((size_t)n * (size_t)c->vocab * sizeof *alone);
    for (int i = 0; i < n; i++) {
        float *logits = run_rows(&gpu, &i, 1, AT_ONCE);
        memcpy(alone + (int64_t)i * c->vocab, logits, (size_t)c->vocab * sizeof *alone);
        free(logits);
    }
    float *right = run_rows(&cpu, order, n, BY_OPS);
    report(c->name, "decoded rows", rows_distance(c, alone, right, n), bound_of(c));
    free(right);
    rows_close(&cpu);
    compare_rows(&gpu, "all rows", alone, order, n, AT_ONCE);
    compare_rows(&gpu, "all rows, from behind", alone, back, n, AT_ONCE);
    compare_rows(&gpu, "two rows", alone, back, n < 2 ? n : 2, AT_ONCE);
    compare_rows(&gpu, "seven rows", alone, back + n / 3, n - n / 3 < 7 ? n - n / 3 : 7, AT_ONCE);
    compare_rows(&gpu, "op by op", alone, back, n, BY_OPS);
    compare_rows(&gpu, "while they are drawn", alone, back, n, DRAWN);
    compare_rows(&gpu, "one while it is drawn", alone, back, 1, DRAWN);
    free(alone);
    rows_close(&gpu);
}

// ---- prompts -------------------------------------------------------------------------------------------------

enum { PROMPT = 333, MOST_PROMPT = 700, CPU_HIDDEN = 512 /* of the largest model read by the CPU too */ };

static void empty_slots(Rows *r) {
    Error error;
    size_t bytes = (size_t)n_slots_of(r) * sizeof(int32_t);
    int32_t *none = malloc(bytes);
    memset(none, 0xff, bytes);
    must(r->side.ops->write(r->side.backend, r->side.slot_positions, none, bytes, &error), &error);
    free(none);
}

// Reads a prompt in pieces of the sizes given, 0 the rest; the last token's logits. With `turned` its tokens lie in a
// ring that has gone round, all of which is looked at. Else another sequence, of a page, was read before it, and is read
// again in front of each piece that leaves room for it in the step.
static float *read_prompt(Rows *r, const int *pieces, int turned) {
    Side *s = &r->side;
    int32_t ids[MOST_PROMPT + PAGE], positions[MOST_PROMPT + PAGE], slots[MOST_PROMPT + PAGE];
    int page = r->c->page_size, all = r->c->n_tokens, ring = ((all + page - 1) / page + 1) * page;
    for (int i = 0; i < all + page; i++) { // the other's behind the prompt's
        int index = i < all ? (i + turned) % ring : ring + i - all;
        ids[i] = (i * 104729 + 11) % r->c->vocab, positions[i] = i < all ? i : i - all;
        slots[i] = r->pages[index / page] + index % page;
    }
    empty_slots(r);
    const StepSequence other = {0, page, page, r->pages + ring / page, 0, 0, 0, 0, true, 0, {0}, -1, -1};
    if (!turned)
        run_ops(r, &(Step){page, 1, ids + all, positions + all, slots + all, &other, page, s->slot_positions,
                           STEP_READING});
    for (int first = 0, i = 0; first < all; i++) {
        int n = pieces[i] && pieces[i] < all - first ? pieces[i] : all - first,
            before = !turned && n + page <= all ? page : 0;
        const StepSequence sequences[] = {
            other, {before, n, turned ? ring : first + n, r->pages, 0, 0, 0, 0, !turned, 0, {0}, -1, -1}};
        int32_t tokens[3][MOST_PROMPT];
        const int32_t *arrays[] = {ids, positions, slots};
        for (int k = 0; k < 3; k++) {
            memcpy(tokens[k], arrays[k] + all, (size_t)before * sizeof(int32_t));
            memcpy(tokens[k] + before, arrays[k] + first, (size_t)n * sizeof(int32_t));
        }
        run_ops(r, &(Step){before + n, before ? 2 : 1, tokens[0], tokens[1], tokens[2],
                           before ? sequences : sequences + 1, page, s->slot_positions, STEP_READING});
        first += n;
    }
    return get(s, r->logits, DTYPE_F32, r->c->vocab);
}

static void test_prompt(const Ops *cuda, const Case *c, const TestModel *model, int turned) {
    static const int PIECES[][8] = {{0}, {0}, {1, 7, 64, 100, 0}, {332, 1}, {128, 128, 0}, {2, 2, 130, 0}};
    Rows r;
    rows_open(&r, cuda, "cuda", c, model);
    void *scale, *cache = NULL, *first_scale = NULL;
    float *whole = NULL;
    for (size_t i = 0; i < sizeof PIECES / sizeof *PIECES; i++) {
        r.narrows = i > 0 && cuda->narrow;
        float *logits = read_prompt(&r, PIECES[i], turned);
        void *memory = get_cache(&r.side, &scale);
        char what[60];
        snprintf(what, sizeof what, "a prompt from %d on%s", PIECES[i][0], turned ? ", in a ring" : "");
        if (!whole) {
            whole = logits, cache = memory, first_scale = scale;
            continue;
        }
        report(c->name, what, memcmp(logits, whole, (size_t)c->vocab * sizeof *whole) != 0, 0);
        report(c->name, "its cache", memcmp(memory, cache, (size_t)kv_layout_bytes(&r.side.layout)) != 0, 0);
        free(logits);
        free(memory);
        free(scale);
    }
    bool same_keys = c->kv != DTYPE_INT8 && c->kv != DTYPE_INT4; // those are rounded elsewhere
    if (!turned && same_keys && c->hidden <= CPU_HIDDEN) {
        Rows cpu;
        rows_open(&cpu, ops_cpu(), "cpu:reference", c, model);
        float *right = read_prompt(&cpu, PIECES[0], turned);
        report(c->name, "a prompt", distance(whole, right, c->vocab), bound_of(c));
        free(right);
        rows_close(&cpu);
    }
    free(whole);
    free(cache);
    free(first_scale);
    rows_close(&r);
}

// n_tokens: the most of a step, and a prompt's. past: of the longest sequence but one.
static const Case CASES[] = {
#define ROWS(rows, length) .n_tokens = PROMPT, .n_rows = (rows), .past = (length), .page_size = PAGE
    {"rows: small bf16", DTYPE_BF16, 256, 4, 2, 64, 320, 203, ROWS(5, 400), .kv = DTYPE_F16},
    {"rows: small q4_0", DTYPE_Q4_0, 256, 4, 2, 64, 352, 203, ROWS(9, 400), .kv = DTYPE_F16},
    {"rows: bf16 llama", DTYPE_BF16, 1024, 8, 8, 128, 2752, 2003, ROWS(64, 700), .kv = DTYPE_F16},
    {"rows: bf16 grouped", DTYPE_BF16, 2048, 32, 8, 64, 5632, 3000, ROWS(33, 900), .kv = DTYPE_F16,
     .bias = true, .out_bias = true},
    // Tiles of prompts of two widths, one for the whole and one for pieces.
    {"rows: bf16 long prompt", DTYPE_BF16, 4096, 32, 8, 128, 1024, 515, .n_tokens = MOST_PROMPT, .n_rows = 6,
     .past = 100, .page_size = PAGE, .kv = DTYPE_F16},
    {"rows: f16 smollm2", DTYPE_F16, 576, 9, 3, 64, 1536, 4099, ROWS(40, 3000), .kv = DTYPE_F16,
     .tied = true},
    {"rows: q8_0", DTYPE_Q8_0, 4096, 32, 32, 128, 1024, 999, ROWS(17, 300), .kv = DTYPE_F16},
    {"rows: q4_0", DTYPE_Q4_0, 1024, 8, 8, 128, 4128, 999, ROWS(33, 300), .kv = DTYPE_F16},
    {"rows: q4_1", DTYPE_Q4_1, 576, 9, 3, 64, 1536, 999, ROWS(8, 300), .kv = DTYPE_F16},
    {"rows: q5_1", DTYPE_Q5_1, 576, 9, 3, 64, 1536, 999, ROWS(16, 300), .kv = DTYPE_F16},
    {"rows: q4_k with q6_k", DTYPE_Q4_K, 1024, 8, 2, 128, 2816, 999, ROWS(32, 300), .v_type = DTYPE_Q6_K,
     .down_type = DTYPE_Q6_K, .kv = DTYPE_F16},
    {"rows: iq4_nl", DTYPE_IQ4_NL, 576, 9, 3, 64, 1536, 999, ROWS(33, 300), .kv = DTYPE_F16},
    {"rows: mxfp4", DTYPE_MXFP4, 1024, 8, 8, 128, 4128, 999, ROWS(8, 300), .kv = DTYPE_F16},
    {"rows: e4m3", DTYPE_E4M3, 1024, 8, 8, 128, 2784, 999, ROWS(33, 300), .kv = DTYPE_F16},
    {"rows: nf4", DTYPE_NF4, 1024, 8, 8, 128, 4160, 999, ROWS(33, 300), .kv = DTYPE_F16},
    {"rows: 64 of nf4", DTYPE_NF4, 320, 3, 1, 64, 4288, 203, ROWS(64, 100), .kv = DTYPE_F16},
    {"rows: fp8 by rows", DTYPE_E4M3, 1024, 8, 8, 128, 2816, 999, .fp8 = FP8_INPUTS_ROWS, ROWS(33, 300),
     .kv = DTYPE_F16},
    {"rows: fp8 by groups", DTYPE_E4M3, 1024, 8, 8, 128, 2816, 999, .fp8 = FP8_INPUTS_GROUPS, ROWS(33, 300),
     .kv = DTYPE_F16},
    {"rows: 64 of e4m3", DTYPE_E4M3, 352, 3, 1, 64, 2144, 203, ROWS(64, 100), .kv = DTYPE_F16},
    {"rows: q2_k with q3_k", DTYPE_Q2_K, 1024, 8, 2, 128, 2816, 999, ROWS(17, 300), .v_type = DTYPE_Q3_K,
     .down_type = DTYPE_Q3_K, .kv = DTYPE_F16},
    {"rows: w8", DTYPE_W8, 1024, 8, 8, 128, 2752, 2003, ROWS(64, 700), .kv = DTYPE_F16},
    {"rows: small w8", DTYPE_W8, 512, 8, 2, 64, 1064, 203, ROWS(9, 400), .kv = DTYPE_F16},
    {"rows: w8 with biases", DTYPE_W8, 896, 14, 2, 64, 4864, 515, ROWS(17, 300), .bias = true,
     .out_bias = true, .kv = DTYPE_F16},
    {"rows: 64 of q8_0", DTYPE_Q8_0, 352, 3, 1, 64, 2144, 203, ROWS(64, 100), .kv = DTYPE_F16},
    {"rows: 64 of q4_0", DTYPE_Q4_0, 352, 3, 1, 64, 4128, 203, ROWS(64, 100), .kv = DTYPE_F16},
    {"rows: 64 of q4_k and q6_k", DTYPE_Q4_K, 768, 4, 1, 64, 4352, 203, ROWS(64, 100), .v_type = DTYPE_Q6_K,
     .down_type = DTYPE_Q6_K, .kv = DTYPE_F16},
    {"rows: 64 of mxfp4", DTYPE_MXFP4, 352, 3, 1, 64, 4128, 203, ROWS(64, 100), .kv = DTYPE_F16},
    {"rows: 64 of q3_k and q2_k", DTYPE_Q3_K, 768, 4, 1, 64, 4352, 203, ROWS(64, 100), .v_type = DTYPE_Q2_K,
     .down_type = DTYPE_Q2_K, .kv = DTYPE_F16},
    {"rows: 64 of q5_0", DTYPE_Q5_0, 352, 3, 1, 64, 2144, 203, ROWS(64, 100), .kv = DTYPE_F16},
    {"rows: 64 of q5_1", DTYPE_Q5_1, 352, 3, 1, 64, 2144, 203, ROWS(64, 100), .kv = DTYPE_F16},
    {"rows: f32", DTYPE_F32, 256, 4, 2, 64, 512, 301, ROWS(12, 500), .kv = DTYPE_F32},
    {"rows: bf16 window, f32 cache", DTYPE_BF16, 512, 8, 2, 64, 1024, 777, ROWS(7, 500), .window = 100,
     .kv = DTYPE_F32},
    {"rows: bf16 window", DTYPE_BF16, 512, 8, 2, 64, 1024, 777, ROWS(7, 500), .window = 100, .kv = DTYPE_F16},
    {"rows: int8 cache", DTYPE_BF16, 512, 8, 2, 128, 1024, 777, ROWS(13, 1500), .kv = DTYPE_INT8, .group = 32,
     .scale = DTYPE_F16},
    {"rows: int4 cache", DTYPE_F16, 512, 8, 8, 64, 1024, 777, ROWS(13, 1500), .kv = DTYPE_INT4, .group = 32,
     .scale = DTYPE_F16, .rotate = true, .feed_back = true},
    {"rows: bf16 pages of 48", DTYPE_BF16, 512, 8, 2, 64, 1024, 777, .n_tokens = PROMPT, .n_rows = 9,
     .past = 300, .page_size = 48, .kv = DTYPE_F16},
    // A sequence of 16 in a page: what lies behind its last slot's last head is not to be read.
    {"rows: bf16 layout 2, two heads of 32", DTYPE_BF16, 256, 4, 2, 32, 512, 301, ROWS(8, 120),
     .kv = DTYPE_F16, .layout_plus_1 = 3},
    {"rows: f16 gpt-neox", DTYPE_F16, 1024, 16, 16, 64, 4096, 515, ROWS(19, 300), .rotary_dim = 16,
     .layer_norm = true, .no_gate = true, .activation = ACTIVATION_GELU, .bias = true, .out_bias = true,
     .ffn_bias = true, .parallel = true, .output_bias = true, .kv = DTYPE_F16},
    {"rows: q4_0 apertus", DTYPE_Q4_0, 1024, 16, 4, 64, 4096, 515, ROWS(19, 300), .qk_norm = true,
     .no_gate = true, .activation = ACTIVATION_XIELU, .kv = DTYPE_F16},
    {"rows: bf16 alibi", DTYPE_BF16, 256, 12, 12, 64, 512, 301, ROWS(6, 300), .no_rope = true, .alibi = true,
     .kv = DTYPE_F16},
    {"rows: bf16 deepseek-v2-lite", DTYPE_BF16, 256, 16, 1, 576, 512, 300, ROWS(11, 700), .rotary_dim = 64,
     .interleaved = true, .rank = 512, .plain = 128, .value = 128, .kv = DTYPE_F16},
    {"rows: f16 small latent", DTYPE_F16, 64, 3, 1, 48, 96, 257, ROWS(6, 200), .rotary_dim = 8, .rank = 40,
     .q_rank = 24, .plain = 16, .value = 24, .kv = DTYPE_F16},
#define EXPERTS(n, active) .n_experts = (n), .n_active = (active), .router = 1, .kv = DTYPE_F16
    {"rows: bf16 experts", DTYPE_BF16, 1024, 8, 2, 64, 328, 300, ROWS(40, 200), EXPERTS(60, 8)},
    {"rows: 64 of bf16 experts", DTYPE_BF16, 512, 8, 2, 64, 704, 300, ROWS(64, 100), EXPERTS(4, 2),
     .shared = 168, .routed = true},
    {"rows: q4_k with q6_k experts", DTYPE_Q4_K, 1024, 8, 2, 128, 768, 300, ROWS(33, 200), EXPERTS(32, 4),
     .down_type = DTYPE_Q6_K},
    {"rows: q8_0 experts", DTYPE_Q8_0, 544, 8, 2, 64, 1056, 300, ROWS(19, 200), EXPERTS(16, 3)},
    {"rows: 64 of q4_0 experts", DTYPE_Q4_0, 544, 4, 2, 64, 352, 300, ROWS(64, 100), EXPERTS(5, 3)},
    {"rows: 64 of mxfp4 experts with biases", DTYPE_MXFP4, 736, 8, 1, 64, 736, 300, ROWS(64, 100),
     EXPERTS(8, 4), .activation = ACTIVATION_CLAMPED_SWIGLU, .bias = true, .out_bias = true,
     .ffn_bias = true},
    // The router by each of its cuts, for experts by the lane and by eight and more of them.
    {"rows: 64 of bf16 experts of 128", DTYPE_BF16, 256, 4, 2, 64, 96, 300, .n_tokens = MOST_PROMPT,
     .n_rows = 64, .past = 100, .page_size = PAGE, EXPERTS(128, 8)},
    {"rows: 64 of f16 experts of 300, layer norm", DTYPE_F16, 256, 4, 2, 64, 32, 300, .n_tokens = MOST_PROMPT,
     .n_rows = 64, .past = 100, .page_size = PAGE, EXPERTS(300, 5), .layer_norm = true},
    {"rows: f32 experts", DTYPE_F32, 136, 4, 2, 32, 40, 257, ROWS(9, 100), .n_experts = 12, .n_active = 3,
     .router = 1, .kv = DTYPE_F32},
    {"rows: bf16 gated attention", DTYPE_BF16, 512, 4, 1, 256, 1056, 300, ROWS(10, 300), .gate = true,
     .qk_norm = true, .rotary_dim = 64, .kv = DTYPE_F16},
    {"rows: q4_k gated attention", DTYPE_Q4_K, 768, 8, 2, 64, 768, 300, ROWS(33, 300), .gate = true,
     .v_type = DTYPE_Q6_K, .kv = DTYPE_F16},
    {"rows: w8 gated attention", DTYPE_W8, 512, 8, 2, 64, 1064, 203, ROWS(9, 400), .gate = true,
     .kv = DTYPE_F16},
    {"rows: bf16 gated with biases", DTYPE_BF16, 512, 8, 2, 64, 1056, 300, ROWS(10, 100), .ffn_bias = true,
     .learned = true, .kv = DTYPE_F16},
};

void test_independent(const Ops *cuda, const char *only) {
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        if (only && strcmp(only, "rows") != 0 && !strstr(CASES[i].name, only)) continue;
        TestModel model;
        model_fill(&model, &CASES[i], 1234);
        test_rows(cuda, &CASES[i], &model);
        for (int turned = 0; turned <= 150; turned += 150) test_prompt(cuda, &CASES[i], &model, turned);
        model_free(&model);
        fflush(stdout);
    }
}
