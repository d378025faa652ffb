// The three ways of a linear layer (kernels/dispatch_table.h), each forced by a table: all ops that have one against
// the CPU's, for every format, few rows, sizes that fill no chunk; and a row's bits, which do not tell how many rows
// there were.
#include "kernels/cpu/loops/quant.h"
#include "kernels/dispatch_table.h"
#include "tests/gpu/model/side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_N = 9, VOCAB = 301 };

static DispatchTable table_of(LinearWay way) {
    static const DType TYPES[] = {DTYPE_F32,   DTYPE_F16,  DTYPE_BF16, DTYPE_Q8_0, DTYPE_Q6_K,
                                  DTYPE_Q5_0,  DTYPE_Q5_1, DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_IQ4_NL,
                                  DTYPE_MXFP4, DTYPE_Q2_K, DTYPE_Q3_K, DTYPE_E4M3, DTYPE_NF4};
    DispatchTable table = {.n = sizeof TYPES / sizeof *TYPES};
    for (int i = 0; i < table.n; i++)
        table.rows[i] = (DispatchRow){.type = TYPES[i],
                                      .flat_from = way == LINEAR_GEMV ? DISPATCH_GEMV_MOST + 1 : 1,
                                      .library_from = way == LINEAR_LIBRARY ? 1 : DISPATCH_LAST_N};
    return table;
}

// One sequence of n tokens, from its beginning.
static void begin_rows(Side *s, int n) {
    int32_t ids[MOST_N], positions[MOST_N], slots[MOST_N], page = 0;
    StepSequence sequence = {.n_tokens = n, .n_slots = n, .pages = &page};
    for (int i = 0; i < n; i++) ids[i] = (i * 7919 + 3) % VOCAB, positions[i] = slots[i] = i;
    Step step = {n, 1, ids, positions, slots, &sequence, MOST_N, s->slot_positions, STEP_ANY};
    Error error;
    must(s->ops->begin(s->backend, &step, s->kv, &error), &error);
}

// Both sides have the same inputs at every op: n rows of x, of what attention gave, of what gate_up gave.
typedef struct Inputs {
    float *x, *q, *g;
} Inputs;

static void put_inputs(Side *s, const Case *c, const Inputs *in, int n) {
    put(s, s->x, DTYPE_F32, in->x, (int64_t)n * c->hidden);
    put(s, s->q, s->operand, in->q, (int64_t)n * c->n_heads * c->head_dim);
    put(s, s->g, s->operand, in->g, (int64_t)n * c->intermediate);
}

typedef enum Op { OP_QKV, OP_OUT, OP_GATE_UP, OP_DOWN, OP_LOGITS, N_OPS } Op;
static const char *const NAMES[N_OPS] = {"qkv", "out", "gate_up", "down", "logits"};

// What an op gives of the inputs; *count elements.
static float *result_of(Side *s, const Case *c, const Inputs *in, Op op, int n, int64_t *count) {
    const int64_t rows = n;
    const LogitRows all = {NULL, n};
    Error error;
    put_inputs(s, c, in, n);
    switch (op) {
    case OP_QKV:
        must(s->ops->qkv(s->backend, s->layers[0], s->x, &s->kv[0], s->q, &error), &error);
        return get(s, s->q, s->operand, *count = rows * c->n_heads * c->head_dim);
    case OP_OUT:
        must(s->ops->out(s->backend, s->layers[0], s->q, s->x, &error), &error);
        return get(s, s->x, DTYPE_F32, *count = rows * c->hidden);
    case OP_GATE_UP:
        must(s->ops->gate_up(s->backend, s->layers[0], s->x, s->g, &error), &error);
        return get(s, s->g, s->operand, *count = rows * c->intermediate);
    case OP_DOWN:
        must(s->ops->down(s->backend, s->layers[0], s->g, s->x, &error), &error);
        return get(s, s->x, DTYPE_F32, *count = rows * c->hidden);
    default:
        must(s->ops->logits(s->backend, s->head, s->x, &all, s->logits, &error), &error);
        return get(s, s->logits, DTYPE_F32, *count = rows * c->vocab);
    }
}

static void compare_ops(Side *cpu, Side *cuda, const Case *c, const Inputs *in, LinearWay way, int n) {
    static const char *const WAYS[] = {"", "GEMV", "flat", "library"};
    bool rounded =
        way == LINEAR_GEMV && n <= DISPATCH_GEMV_MOST && (quant_is_type(c->type) || c->type == DTYPE_NF4);
    double bound = rounded ? 1.5e-2 : c->type == DTYPE_F32 ? 1e-4 : c->type == DTYPE_BF16 ? 1.2e-2 : 3e-3;
    begin_rows(cpu, n);
    begin_rows(cuda, n);
    for (Op op = 0; op < N_OPS; op++) {
        int64_t count;
        char what[60];
        float *right = result_of(cpu, c, in, op, n, &count), *ours = result_of(cuda, c, in, op, n, &count);
        snprintf(what, sizeof what, "%s %s %d", NAMES[op], WAYS[way], n);
        report(c->name, what, distance(ours, right, count), op == OP_GATE_UP ? 2 * bound : bound);
        free(right);
        free(ours);
    }
    check_sentinel(c->name, cuda->ops, cuda->backend, cuda->x, cuda->sizes[0]);
    check_sentinel(c->name, cuda->ops, cuda->backend, cuda->q, cuda->sizes[1]);
    check_sentinel(c->name, cuda->ops, cuda->backend, cuda->g, cuda->sizes[2]);
}

// Rows 0 … n - 1 together and row 0 alone: the same bits of row 0.
static void compare_bits(Side *s, const Case *c, const Inputs *in) {
    for (Op op = 0; op < N_OPS; op++) {
        int64_t one, count;
        begin_rows(s, 1);
        float *alone = result_of(s, c, in, op, 1, &one);
        for (int n = 2; n <= DISPATCH_GEMV_MOST; n++) {
            begin_rows(s, n);
            float *together = result_of(s, c, in, op, n, &count);
            int differ = memcmp(alone, together, (size_t)one * sizeof *alone) != 0;
            report(c->name, NAMES[op], differ, 0);
            free(together);
        }
        free(alone);
    }
}

static float *normals(int64_t n, uint64_t *seed) {
    float *values = malloc((size_t)n * sizeof *values);
    for (int64_t i = 0; i < n; i++) values[i] = random_normal(seed);
    return values;
}

static void test_case(const Ops *ops, const Case *shape) {
    static const int ROWS[] = {1, 2, 3, 4, 5, 9};
    uint64_t seed = 5;
    TestModel model;
    Inputs in = {normals((int64_t)MOST_N * shape->hidden, &seed),
                 normals((int64_t)MOST_N * shape->n_heads * shape->head_dim, &seed),
                 normals((int64_t)MOST_N * shape->intermediate, &seed)};
    model_fill(&model, shape, 77);
    for (LinearWay way = LINEAR_GEMV; way < LINEAR_N_WAYS; way++) {
        DispatchTable table = table_of(way);
        Case c = *shape;
        Side cpu = {0}, cuda = {0};
        c.dispatch = &table;
        side_open(&cpu, ops_cpu(), "cpu:reference", &c, &model, MOST_N);
        side_open(&cuda, ops, "cuda", &c, &model, MOST_N);
        for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
            compare_ops(&cpu, &cuda, &c, &in, way, ROWS[i]);
        if (way == LINEAR_GEMV) compare_bits(&cuda, &c, &in);
        side_close(&cpu);
        side_close(&cuda);
    }
    model_free(&model);
    free(in.x);
    free(in.q);
    free(in.g);
}

void test_ways(const Ops *ops) {
    // Chunks of plain types are of 1,024 elements (float32: 512), of 8 bits 2,048, of 4 bits 4,096.
#define LAYER(hidden, heads, dim, intermediate)                                                              \
    hidden, heads, 1, dim, intermediate, VOCAB, .n_tokens = MOST_N, .kv = DTYPE_F16, .ffn_bias = true
    static const Case CASES[] = {
        {"ways f32", DTYPE_F32, LAYER(520, 3, 40, 1112), .bias = true},
        {"ways f16", DTYPE_F16, LAYER(1048, 3, 64, 2056), .output_bias = true},
        {"ways bf16", DTYPE_BF16, LAYER(1048, 2, 128, 3096), .bias = true, .out_bias = true},
        {"ways f16 without gate", DTYPE_F16, LAYER(264, 3, 64, 1032), .no_gate = true, .layer_norm = true,
         .activation = ACTIVATION_GELU},
        {"ways q8_0", DTYPE_Q8_0, LAYER(2080, 3, 64, 4128), .bias = true},
        {"ways q5_0", DTYPE_Q5_0, LAYER(96, 3, 32, 2016)},
        {"ways q6_k", DTYPE_Q6_K, LAYER(2304, 4, 64, 768), .output_bias = true},
        {"ways q5_1", DTYPE_Q5_1, LAYER(2080, 3, 64, 672)},
        {"ways q4_0", DTYPE_Q4_0, LAYER(4128, 3, 64, 8224)},
        {"ways q4_1", DTYPE_Q4_1, LAYER(4128, 3, 64, 96), .no_gate = true, .activation = ACTIVATION_RELU},
        {"ways q4_k with q6_k", DTYPE_Q4_K, LAYER(512, 4, 64, 1024), .v_type = DTYPE_Q6_K,
         .down_type = DTYPE_Q6_K},
        {"ways iq4_nl", DTYPE_IQ4_NL, LAYER(4128, 3, 64, 672), .bias = true},
        {"ways mxfp4 with q8_0", DTYPE_MXFP4, LAYER(96, 3, 64, 4128), .v_type = DTYPE_Q8_0},
        {"ways iq4_xs with q3_k", DTYPE_IQ4_XS, LAYER(2304, 4, 64, 4352), .v_type = DTYPE_Q3_K,
         .down_type = DTYPE_Q3_K},
        {"ways e4m3", DTYPE_E4M3, LAYER(2144, 3, 64, 4256), .bias = true},
        {"ways nf4", DTYPE_NF4, LAYER(4160, 3, 64, 704), .bias = true},
        {"ways small e4m3", DTYPE_E4M3, LAYER(96, 3, 32, 288), .output_bias = true},
        {"ways q3_k", DTYPE_Q3_K, LAYER(4352, 4, 64, 768), .output_bias = true},
        {"ways q2_k with q3_k", DTYPE_Q2_K, LAYER(512, 4, 64, 4352), .v_type = DTYPE_Q3_K, .no_gate = true,
         .activation = ACTIVATION_GELU},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) test_case(ops, &CASES[i]);
}
