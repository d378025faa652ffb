// Which CUDA kernel runs, as a table: kernels/cuda/dispatch.h. Expectations are written by hand from what each kernel
// can do and what was measured (kernels/cuda/NOTES.md); no GPU is asked. GEMMs and attention have files of their own.
#include "tests/support/kernels/dispatch_cases.h"
#include "tests/support/test.h"

// ---- steps -------------------------------------------------------------------------------------------------

static const DecoderShape SEVEN_B = {.n_layers = 32,
                                     .hidden_size = 4096,
                                     .n_heads = 32,
                                     .n_kv_heads = 8,
                                     .head_dim = 128,
                                     .intermediate_size = 14336};

static void steps_take_the_path_of_their_kind(void **state) {
    (void)state;
    static const struct {
        StepKind kind;
        int n_tokens, n_sequences;
        bool has_code;
        const Card *card;
        StepPath path;
    } CASES[] = {
        {STEP_ANY, 1, 1, true, &HOPPER, STEP_PATH_PERSISTENT},
        {STEP_ANY, 1, 1, false, &HOPPER, STEP_PATH_GRAPH},
        {STEP_ANY, 1, 1, true, &AMPERE, STEP_PATH_PERSISTENT},
        {STEP_ANY, 1, 1, true, &ADA, STEP_PATH_PERSISTENT},
        {STEP_DECODING, 1, 1, true, &HOPPER, STEP_PATH_GRAPH},
        {STEP_DECODING, 64, 64, true, &HOPPER, STEP_PATH_GRAPH},
        {STEP_DECODING, 65, 65, true, &HOPPER, STEP_PATH_OPS},
        {STEP_ANY, 8, 8, true, &HOPPER, STEP_PATH_GRAPH},
        {STEP_ANY, 8, 1, true, &HOPPER, STEP_PATH_OPS},
        {STEP_READING, 1, 1, true, &HOPPER, STEP_PATH_OPS},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        StepCase c = {CASES[i].kind, CASES[i].n_tokens, CASES[i].n_sequences, 64,
                      &SEVEN_B,      CASES[i].has_code};
        assert_int_equal(dispatch_step(CASES[i].card, &c), CASES[i].path);
    }
    DecoderShape odd = SEVEN_B; // what the persistent kernel cannot lay out
    StepCase c = {STEP_ANY, 1, 1, 64, &odd, true};
    odd.head_dim = 20;
    assert_int_equal(dispatch_step(&HOPPER, &c), STEP_PATH_GRAPH);
    odd.head_dim = 128, odd.n_kv_heads = 1; // 32 heads of 128 share a key: 4,096 elements
    assert_int_equal(dispatch_step(&HOPPER, &c), STEP_PATH_GRAPH);
    odd = SEVEN_B, odd.latent.rank = 64;
    assert_int_equal(dispatch_step(&HOPPER, &c), STEP_PATH_GRAPH);
    odd = SEVEN_B, odd.hidden_size = 4098;
    assert_int_equal(dispatch_step(&HOPPER, &c), STEP_PATH_GRAPH);
}

static void decoding_kernels_go_by_head_and_length(void **state) {
    (void)state;
    static const int LANES[][2] = {{4, 0},    {8, 8},    {64, 8},   {72, 16},
                                   {128, 16}, {136, 32}, {256, 32}, {264, 0}};
    for (size_t i = 0; i < sizeof LANES / sizeof *LANES; i++)
        assert_int_equal(dispatch_decode_lanes(LANES[i][0]), LANES[i][1]);
    static const int HEADS[][4] = {{1, 8, 100000, 1}, {2, 32, 10, 2}, {4, 8, 4096, 1}, {4, 8, 4097, 4},
                                   {8, 8, 10, 2},     {4, 16, 10, 2}, {4, 16, 5000, 4}};
    for (size_t i = 0; i < sizeof HEADS / sizeof *HEADS; i++)
        assert_int_equal(dispatch_decode_heads(HEADS[i][0], HEADS[i][1], HEADS[i][2]), HEADS[i][3]);
}

// ---- experts -------------------------------------------------------------------------------------------------

// Of 32 experts, four a token: the way of a step of so many tokens, where there are flat GEMMs or not.
static ExpertsWay way_of(StepKind kind, StepKind gemms, int n_tokens, bool flat, bool unpacked) {
    const ExpertsStep step = {kind, gemms, 4 * n_tokens, 32, n_tokens, flat, unpacked};
    return dispatch_experts(&step);
}

// Rows that decode and prompts that are read take one way each, however many they are, and what a graph has is not the host's
// to wait for.
static void experts_by_kind(void **state) {
    (void)state;
    const StepKind any = STEP_ANY, decoding = STEP_DECODING, reading = STEP_READING;
    for (int flat = 0; flat < 2; flat++)
        for (int n = 1; n <= 512; n *= 2) {
            assert_int_equal(way_of(decoding, decoding, n, flat, true), flat ? EXPERTS_FLAT : EXPERTS_ROWS);
            assert_int_equal(way_of(reading, reading, n, flat, true), EXPERTS_GROUPED);
            if (!flat) assert_int_equal(way_of(decoding, any, n, false, true), EXPERTS_ROWS);
        }
    for (int flat = 0; flat < 2; flat++) assert_int_equal(way_of(any, any, 1, flat, true), EXPERTS_ROWS);
    assert_int_equal(way_of(decoding, any, 1, true, true), EXPERTS_ROWS);
    assert_int_equal(way_of(decoding, any, 2, true, true), EXPERTS_FLAT);
    assert_int_equal(way_of(any, any, 2, true, false), EXPERTS_FLAT);
    assert_int_equal(way_of(any, any, 4, false, false), EXPERTS_ROWS);
    assert_int_equal(way_of(any, any, 5, false, false), EXPERTS_GROUPED);
    assert_int_equal(way_of(any, any, 128, true, false), EXPERTS_FLAT);
    assert_int_equal(way_of(any, any, 129, true, false), EXPERTS_GROUPED);
    assert_int_equal(way_of(any, any, 512, true, true), EXPERTS_FLAT);
    assert_int_equal(way_of(any, any, 513, true, true), EXPERTS_GROUPED);
    static const struct {
        int n_pairs, n, pairs;
    } TILES[] = {{1, 128, 8},    {128, 128, 8}, {129, 128, 16}, {256, 128, 16},
                 {257, 128, 32}, {128, 32, 32}, {129, 32, 64},  {100000, 32, 64}};
    for (size_t i = 0; i < sizeof TILES / sizeof *TILES; i++)
        assert_int_equal(dispatch_expert_pairs(TILES[i].n_pairs, TILES[i].n), TILES[i].pairs);
}

// Tiles of all experts by mma: weights of the operand's type, and quantised ones beside f16, on cards without wgmma.
static void experts_in_tiles(void **state) {
    (void)state;
    const ExpertsCase plain = {DTYPE_BF16, FORMAT_BF16, FORMAT_BF16, 2048, 768};
    const ExpertsCase quantised = {DTYPE_F16, FORMAT_Q4M, FORMAT_Q6, 2048, 768};
    static const Card *const CARDS[] = {&HOPPER, &PORTABLE, &AMPERE, &ADA};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(dispatch_experts_by_mma(CARDS[i], &plain), i > 0);
        assert_int_equal(dispatch_experts_by_mma(CARDS[i], &quantised), i > 0);
        ExpertsCase c = quantised;
        c.operand = DTYPE_BF16; // it unpacks to halves
        assert_false(dispatch_experts_by_mma(CARDS[i], &c));
        c = plain, c.down = FORMAT_F16;
        assert_false(dispatch_experts_by_mma(CARDS[i], &c));
        c = plain, c.size = 772; // copies are of eight columns
        assert_false(dispatch_experts_by_mma(CARDS[i], &c));
        c = plain, c.operand = DTYPE_F32, c.gate_up = c.down = FORMAT_F32;
        assert_false(dispatch_experts_by_mma(CARDS[i], &c));
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_take_the_path_of_their_kind),
        cmocka_unit_test(decoding_kernels_go_by_head_and_length),
        cmocka_unit_test(experts_by_kind),
        cmocka_unit_test(experts_in_tiles),
    };
    return test_main("dispatch", argc, argv, tests);
}
