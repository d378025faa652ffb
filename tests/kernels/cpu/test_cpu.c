// The CPU backend around its ops: opening, memory, weights it refuses, steps it refuses.
#include "kernels/cpu/loops/loops.h"
#include "tests/support/kernels/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double INV_FREQ[] = {1, 0.1};

static DecoderShape small_shape(void) {
    return (DecoderShape){.n_layers = 1,
                          .hidden_size = 8,
                          .n_heads = 2,
                          .n_kv_heads = 1,
                          .head_dim = 4,
                          .intermediate_size = 16,
                          .vocab_size = 10,
                          .norm_eps = 1e-5f,
                          .embedding_scale = 1,
                          .attention_scale = 0.5f,
                          .rope = {ROPE_HALF_SPLIT, 4, INV_FREQ, 1}};
}

// ---- opening and memory -------------------------------------------------------------------------------

static void opens_and_describes_itself(void **state) {
    (void)state;
    DecoderShape shape = small_shape();
    char text[64];
    int64_t total = 0, available = 0;
    Backend *b = open_cpu("cpu:reference", 1, &shape, 4);
    b->ops->describe(b, text, sizeof text);
    assert_string_equal(text, "1 thread, reference loops");
    b->ops->memory(b, &total, &available);
    assert_true(available > 0 && available <= total);
    b->ops->close(b);
    b = open_cpu("cpu", 3, &shape, 4);
    b->ops->describe(b, text, sizeof text);
    assert_memory_equal(text, "3 threads, ", 11);
    b->ops->close(b);
    ops_cpu()->close(NULL);
}

static void refuses_impossible_options(void **state) {
    (void)state;
    DecoderShape good = small_shape(), bad[6];
    for (int i = 0; i < 6; i++) bad[i] = good;
    bad[0].n_kv_heads = 0;
    bad[1].n_heads = 3, bad[1].n_kv_heads = 2;
    bad[2].rope.rotary_dim = 6;
    bad[3].rope.rotary_dim = 3;
    bad[4].hidden_size = -1;
    bad[5].intermediate_size = 0;
    Backend *b = NULL;
    Error error;
    for (int i = 0; i < 6; i++) {
        BackendOptions options = {
            .device = "cpu", .n_threads = 1, .shape = &bad[i], .max_tokens = 4, .max_logits = 1};
        assert_int_equal(ops_cpu()->open(&options, &b, &error), STATUS_UNSUPPORTED);
    }
    BackendOptions options = {
        .device = "cpu:fast", .n_threads = 1, .shape = &good, .max_tokens = 4, .max_logits = 1};
    assert_int_equal(ops_cpu()->open(&options, &b, &error), STATUS_USAGE);
    options = (BackendOptions){
        .device = "cpu", .n_threads = 100000, .shape = &good, .max_tokens = 4, .max_logits = 1};
    assert_int_equal(ops_cpu()->open(&options, &b, &error), STATUS_USAGE);
    options =
        (BackendOptions){.device = "cpu", .n_threads = 1, .shape = &good, .max_tokens = 0, .max_logits = 1};
    assert_int_equal(ops_cpu()->open(&options, &b, &error), STATUS_USAGE);
    good.hidden_size = good.intermediate_size = good.head_dim = 1 << 30;
    options = (BackendOptions){
        .device = "cpu", .n_threads = 1, .shape = &good, .max_tokens = 1 << 30, .max_logits = 1};
    assert_int_equal(ops_cpu()->open(&options, &b, &error), STATUS_MEMORY);
}

static void memory_is_aligned_and_zeroed(void **state) {
    (void)state;
    DecoderShape shape = small_shape();
    Backend *b = open_cpu("cpu", 1, &shape, 4);
    Error error;
    for (size_t bytes = 0; bytes < 300; bytes += 7) {
        unsigned char *memory;
        unsigned char copy[300];
        assert_ok(b->ops->alloc(b, bytes, (void **)&memory, &error), &error);
        assert_int_equal((uintptr_t)memory % 64, 0);
        for (size_t i = 0; i < bytes; i++) assert_int_equal(memory[i], 0);
        memset(copy, 7, sizeof copy);
        assert_ok(b->ops->write(b, memory, copy, bytes, &error), &error);
        memset(copy, 0, sizeof copy);
        assert_ok(b->ops->read(b, copy, memory, bytes, &error), &error);
        for (size_t i = 0; i < bytes; i++) assert_int_equal(copy[i], 7);
        b->ops->free(b, memory);
    }
    b->ops->free(b, NULL);
    b->ops->close(b);
}

// ---- weights ------------------------------------------------------------------------------------------

static void refuses_weights_of_another_shape(void **state) {
    (void)state;
    DecoderShape shape = small_shape();
    static const float ZEROS[160];
    const Matrix square = {.rows = 8, .cols = 8, .data = ZEROS},
                 narrow = {.rows = 4, .cols = 8, .data = ZEROS},
                 vector = {.rows = 1, .cols = 8, .data = ZEROS};
    LayerWeights good = {.attn_norm = vector,
                         .wq = square,
                         .wk = narrow,
                         .wv = narrow,
                         .wo = square,
                         .ffn_norm = vector,
                         .w_gate = {DTYPE_F32, 16, 8, ZEROS},
                         .w_up = {DTYPE_F32, 16, 8, ZEROS},
                         .w_down = {DTYPE_F32, 8, 16, ZEROS}};
    Backend *b = open_cpu("cpu", 1, &shape, 4);
    Layer *layer;
    Error error;
    assert_ok(b->ops->load_layer(b, &good, &layer, &error), &error);

    LayerWeights bad = good;
    bad.wk.data = NULL;
    assert_int_equal(b->ops->load_layer(b, &bad, &layer, &error), STATUS_FILE);
    assert_string_equal(error.message, "wk is missing");
    bad = good;
    bad.w_down.cols = 8;
    assert_int_equal(b->ops->load_layer(b, &bad, &layer, &error), STATUS_FILE);
    assert_string_equal(error.message, "w_down: expected [8, 16], file has [8, 8]");
    bad = good;
    bad.wq.type = DTYPE_Q4_0; // rows of 8 are no blocks of 32
    assert_int_equal(b->ops->load_layer(b, &bad, &layer, &error), STATUS_UNSUPPORTED);
    assert_string_equal(error.message, "wq: the cpu backend has no code for rows of 8 q4_0");
    bad = good;
    bad.attn_norm.type = (DType)99;
    assert_int_equal(b->ops->load_layer(b, &bad, &layer, &error), STATUS_UNSUPPORTED);

    // What the shape does not have is refused rather than left out.
    bad = good;
    bad.ffn_norm_bias = vector;
    assert_int_equal(b->ops->load_layer(b, &bad, &layer, &error), STATUS_UNSUPPORTED);
    assert_string_equal(error.message, "ffn_norm_bias: a decoder of this shape has none");
    bad = good;
    bad.w_gate.data = NULL;
    bad.b_gate = (Matrix){.rows = 1, .cols = 16, .data = ZEROS};
    assert_int_equal(b->ops->load_layer(b, &bad, &layer, &error), STATUS_UNSUPPORTED);
    assert_string_equal(error.message, "b_gate: a decoder of this shape has none");

    Head *head;
    HeadWeights weights = {
        .embedding = {DTYPE_F32, 10, 8, ZEROS}, .norm = vector, .output = {DTYPE_F32, 11, 8, ZEROS}};
    assert_int_equal(b->ops->load_head(b, &weights, &head, &error), STATUS_FILE);
    assert_string_equal(error.message, "output: expected [10, 8], file has [11, 8]");
    weights.output.rows = 10;
    weights.positions = square;
    assert_int_equal(b->ops->load_head(b, &weights, &head, &error), STATUS_UNSUPPORTED);
    assert_string_equal(error.message, "positions: a decoder of this shape has none");
    shape.n_positions = 9;
    assert_int_equal(b->ops->load_head(b, &weights, &head, &error), STATUS_FILE);
    assert_string_equal(error.message, "positions: expected [9, 8], file has [8, 8]");
    b->ops->close(b);
}

// ---- steps --------------------------------------------------------------------------------------------

#define TWO_PAGES(a, b) ((const int32_t[]){a, b})

typedef struct StepCase {
    const char *why;
    int n_tokens, n_sequences;
    int32_t ids[3], positions[3], slots[3];
    StepSequence sequences[2];
} StepCase;

static const StepCase BAD_STEPS[] = {
    {"0 tokens", 0, 1, {0}, {0}, {0}, {{0, 0, 8, ONE_PAGE(0), 0, 0, 0, 0, false, 0, {0}, -1, -1}}},
    {"5 tokens", 5, 1, {0}, {0}, {0}, {{0, 5, 8, ONE_PAGE(0), 0, 0, 0, 0, false, 0, {0}, -1, -1}}},
    {"has id 10", 2, 1, {9, 10}, {0, 1}, {0, 1}, {{0, 2, 8, ONE_PAGE(0), 0, 0, 0, 0, false, 0, {0}, -1, -1}}},
    {"has id -1", 1, 1, {-1}, {0}, {0}, {{0, 1, 8, ONE_PAGE(0), 0, 0, 0, 0, false, 0, {0}, -1, -1}}},
    {"has position -1", 1, 1, {0}, {-1}, {0}, {{0, 1, 8, ONE_PAGE(0), 0, 0, 0, 0, false, 0, {0}, -1, -1}}},
    {"position 50, the model has learned only 50",
     1,
     1,
     {0},
     {50},
     {0},
     {{0, 1, 8, ONE_PAGE(0), 0, 0, 0, 0, false, 0, {0}, -1, -1}}},
    {"0 sequences", 1, 0, {0}, {0}, {0}, {{0, 1, 8, ONE_PAGE(0), 0, 0, 0, 0, false, 0, {0}, -1, -1}}},
    {"cover 1 of 2", 2, 1, {0}, {0, 1}, {0, 1}, {{0, 1, 8, ONE_PAGE(0), 0, 0, 0, 0, false, 0, {0}, -1, -1}}},
    {"expected from 1",
     2,
     2,
     {0},
     {0, 1},
     {0, 1},
     {{0, 1, 8, ONE_PAGE(0), 0, 0, 0, 0, false, 0, {0}, -1, -1},
      {0, 1, 8, ONE_PAGE(0), 0, 0, 0, 0, false, 0, {0}, -1, -1}}},
    {"has 2 tokens from 1",
     2,
     2,
     {0},
     {0, 1},
     {0, 1},
     {{0, 1, 8, ONE_PAGE(0), 0, 0, 0, 0, false, 0, {0}, -1, -1},
      {1, 2, 8, ONE_PAGE(0), 0, 0, 0, 0, false, 0, {0}, -1, -1}}},
    {"slot 8 of token 1",
     2,
     1,
     {0},
     {0, 1},
     {0, 8},
     {{0, 2, 8, ONE_PAGE(0), 0, 0, 0, 0, false, 0, {0}, -1, -1}}},
    {"slot 1 of token 0", 1, 1, {0}, {0}, {1}, {{0, 1, 2, ONE_PAGE(2), 0, 0, 0, 0, false, 0, {0}, -1, -1}}},
    {"sees 0 slots", 1, 1, {0}, {0}, {0}, {{0, 1, 0, ONE_PAGE(0), 0, 0, 0, 0, false, 0, {0}, -1, -1}}},
    {"sees 1073741824 slots",
     1,
     1,
     {0},
     {0},
     {5},
     {{0, 1, 1 << 30, ONE_PAGE(INT32_MAX - 5), 0, 0, 0, 0, false, 0, {0}, -1, -1}}},
    {"of these 1 from slot -3 on",
     1,
     1,
     {0},
     {0},
     {5},
     {{0, 1, (1 << 30) + 1, TWO_PAGES(5, -3), 0, 0, 0, 0, false, 0, {0}, -1, -1}}},
    {"has 1 sinks, the next -1 tokens are evicted",
     1,
     1,
     {0},
     {0},
     {5},
     {{0, 1, 8, ONE_PAGE(0), 1, -1, 0, 0, false, 0, {0}, -1, -1}}},
    {"has -1 sinks, the next 1 tokens are",
     1,
     1,
     {0},
     {0},
     {5},
     {{0, 1, 8, ONE_PAGE(0), -1, 1, 0, 0, false, 0, {0}, -1, -1}}},
    {"has set 1 of 0 sets of frequencies",
     1,
     1,
     {0},
     {0},
     {5},
     {{0, 1, 8, ONE_PAGE(0), 0, 0, 1, 0, false, 0, {0}, -1, -1}}},
    {"has 2 sinks, the next 2147483646",
     1,
     1,
     {0},
     {0},
     {5},
     {{0, 1, 8, ONE_PAGE(0), 2, INT32_MAX - 1, 0, 0, false, 0, {0}, -1, -1}}},
    {"has 2 of the 3 tokens that see each other, 0 were",
     2,
     1,
     {0},
     {0, 1},
     {0, 1},
     {{0, 2, 8, ONE_PAGE(0), 0, 0, 0, 3, false, 0, {0}, -1, -1}}},
    {"has 1 of the 2 tokens that see each other, 0 were",
     2,
     1,
     {0},
     {1, 2},
     {1, 2},
     {{0, 2, 8, ONE_PAGE(0), 0, 0, 0, 2, false, 0, {0}, -1, -1}}},
    {"has 2 of the 2 tokens that see each other, 1 were",
     2,
     1,
     {0},
     {0, 1},
     {0, 1},
     {{0, 2, 8, ONE_PAGE(0), 0, 1, 0, 2, false, 0, {0}, -1, -1}}},
    {"index 1 of sequence 0, which is said to be in order, holds position 2",
     2,
     1,
     {0},
     {0, 2},
     {0, 1},
     {{0, 2, 2, ONE_PAGE(0), 0, 0, 0, 0, true, 0, {0}, -1, -1}}},
    {"two tokens go to slot 4",
     3,
     1,
     {0},
     {0, 1, 2},
     {4, 5, 4},
     {{0, 3, 8, ONE_PAGE(0), 0, 0, 0, 0, false, 0, {0}, -1, -1}}},
    {"two tokens go to slot 4",
     2,
     2,
     {0},
     {0, 1},
     {4, 4},
     {{0, 1, 8, ONE_PAGE(0), 0, 0, 0, 0, false, 0, {0}, -1, -1},
      {1, 1, 1, ONE_PAGE(4), 0, 0, 0, 0, false, 0, {0}, -1, -1}}},
};

// A step of the wrong kind for its tokens.
static void refuses_other_kinds_of_steps(void **state) {
    (void)state;
    DecoderShape shape = small_shape();
    Backend *b = open_cpu("cpu", 1, &shape, 4);
    StepSequence both = {0, 2, 8, ONE_PAGE(0), 0, 0, 0, 0, false, 0, {0}, -1, -1},
                 each[] = {{0, 1, 8, ONE_PAGE(0), 0, 0, 0, 0, false, 0, {0}, -1, -1},
                           {1, 1, 8, ONE_PAGE(0), 0, 0, 0, 0, false, 0, {0}, -1, -1}};
    int32_t held[8] = {0}, two[] = {0, 1};
    Error error = {0};
    Step step = {2, 1, two, two, two, &both, 1 << 30, held, STEP_DECODING};
    assert_int_equal(b->ops->begin(b, &step, NULL, &error), STATUS_DEVICE);
    assert_non_null(strstr(error.message, "decoding 2 tokens of 1 sequence"));
    step.kind = STEP_READING;
    assert_int_equal(b->ops->begin(b, &step, NULL, &error), STATUS_OK);
    step.n_sequences = 2, step.sequences = each;
    assert_int_equal(b->ops->begin(b, &step, NULL, &error), STATUS_OK);
    step.kind = STEP_DECODING;
    assert_int_equal(b->ops->begin(b, &step, NULL, &error), STATUS_OK);
    b->ops->close(b);
}

static void refuses_bad_steps_and_changes_nothing(void **state) {
    (void)state;
    DecoderShape shape = small_shape();
    shape.n_positions = 50;
    Backend *b = open_cpu("cpu", 1, &shape, 4);
    for (size_t i = 0; i < sizeof BAD_STEPS / sizeof *BAD_STEPS; i++) {
        const StepCase *c = &BAD_STEPS[i];
        int32_t held[8] = {-1, 3, -1, 5, 9, -1, 7, 8}, before[8];
        memcpy(before, held, sizeof held);
        Step step = {c->n_tokens,  c->n_sequences, c->ids, c->positions, c->slots,
                     c->sequences, 1 << 30,        held,   STEP_ANY};
        Error error = {0};
        assert_int_equal(b->ops->begin(b, &step, NULL, &error), STATUS_DEVICE);
        if (strstr(error.message, c->why) == NULL)
            fail_msg("expected \"%s\" in \"%s\"", c->why, error.message);
        assert_memory_equal(held, before, sizeof held);
    }
    b->ops->close(b);
}

static void refuses_rows_and_caches_it_cannot_serve(void **state) {
    (void)state;
    DecoderShape shape = small_shape();
    Backend *b = open_cpu("cpu", 1, &shape, 4);
    static float zeros[80];
    const Matrix table = {.rows = 10, .cols = 8, .data = zeros};
    HeadWeights weights = {.embedding = table, .norm = {DTYPE_F32, 1, 8, zeros}, .output = table};
    Head *head;
    Error error;
    assert_ok(b->ops->load_head(b, &weights, &head, &error), &error);
    int32_t held[1] = {-1}, zero = 0, one = 1;
    StepSequence sequence = {0, 1, 1, ONE_PAGE(0), 0, 0, 0, 0, false, 0, {0}, -1, -1};
    Step step = {1, 1, &zero, &zero, &zero, &sequence, 1 << 30, held, STEP_ANY};
    float x[8] = {0}, logits[50];
    assert_ok(b->ops->begin(b, &step, NULL, &error), &error);
    assert_ok(b->ops->logits(b, head, x, &(LogitRows){&zero, 1}, logits, &error), &error);
    assert_int_equal(b->ops->logits(b, head, x, &(LogitRows){&one, 1}, logits, &error), STATUS_DEVICE);
    assert_int_equal(b->ops->logits(b, head, x, &(LogitRows){&zero, 5}, logits, &error), STATUS_DEVICE);
    KvLayer kv = {.type = DTYPE_Q8_0, .k = zeros, .v = zeros, .slot_stride = 4, .head_stride = 4};
    assert_int_equal(b->ops->attend(b, x, &kv, 0, x, &error), STATUS_UNSUPPORTED);
    b->ops->close(b);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_and_describes_itself),
        cmocka_unit_test(refuses_impossible_options),
        cmocka_unit_test(memory_is_aligned_and_zeroed),
        cmocka_unit_test(refuses_weights_of_another_shape),
        cmocka_unit_test(refuses_bad_steps_and_changes_nothing),
        cmocka_unit_test(refuses_other_kinds_of_steps),
        cmocka_unit_test(refuses_rows_and_caches_it_cannot_serve),
    };
    return test_main("cpu", argc, argv, tests);
}
