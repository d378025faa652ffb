// Which CUDA kernel attends, as a table: dispatch_attend() of kernels/cuda/dispatch.h, by hand as in test_dispatch.c.
#include "tests/support/kernels/dispatch_cases.h"
#include "tests/support/test.h"

static AttendCase attend(DType cache, int few_tokens) {
    return (AttendCase){.few_tokens = few_tokens,
                        .operand = DTYPE_BF16,
                        .cache = cache,
                        .n_sequences = 1,
                        .n_tokens = 512,
                        .group = 8,
                        .head_dim = 128,
                        .tile_rows = 128,
                        .in_order = true,
                        .n_slots = 8192,
                        .page_size = 1024,
                        .octets = true,
                        .whole_pieces = true,
                        .scale_group = cache == DTYPE_INT8 || cache == DTYPE_INT4 ? 32 : 0,
                        .halves_bytes = 128 << 20,
                        .halves_want = 16 << 20,
                        .split_shared = 80000,
                        .n_splits = 66};
}

static void check_attend(const Card *card, AttendCase c, AttendKernel kernel, int line) {
    if (dispatch_attend(card, &c) != kernel)
        fail_msg("line %d: %s, expected %s", line, dispatch_attend_name(dispatch_attend(card, &c)),
                 dispatch_attend_name(kernel));
}
// A case but for one thing.
#define CHECK_ATTEND(card, base, change, kernel)                                                             \
    do {                                                                                                     \
        AttendCase c = base;                                                                                 \
        change;                                                                                              \
        check_attend(card, c, kernel, __LINE__);                                                             \
    } while (0)

static void tiles_of_an_f16_cache(void **state) {
    (void)state;
    const AttendCase half = attend(DTYPE_F16, 0);
    CHECK_ATTEND(&HOPPER, half, , ATTEND_WGMMA);
    CHECK_ATTEND(&AMPERE, half, , ATTEND_TILE_F16);
    CHECK_ATTEND(&PORTABLE, half, , ATTEND_TILE_F16);
    CHECK_ATTEND(&HOPPER, half, c.operand = DTYPE_F32, ATTEND_PLAIN);
    CHECK_ATTEND(&HOPPER, half, c.masked = true, ATTEND_PLAIN);
    CHECK_ATTEND(&HOPPER, half, c.capped = true, ATTEND_TILE_ANY);
    CHECK_ATTEND(&HOPPER, half, c.alibi = true, ATTEND_TILE_ANY);
    CHECK_ATTEND(&HOPPER, half, c.evicted = true, ATTEND_TILE_F16);
    CHECK_ATTEND(&HOPPER, half, c.window = -7, ATTEND_TILE_F16);
    CHECK_ATTEND(&HOPPER, half, c.head_dim = 96, ATTEND_TILE_F16);
    CHECK_ATTEND(&HOPPER, half, c.head_dim = 72, ATTEND_PLAIN);
    CHECK_ATTEND(&HOPPER, half, c.page_size = 16, ATTEND_TILE_F16);
    CHECK_ATTEND(&HOPPER, half, c.tile_rows = 129, ATTEND_PLAIN);
    CHECK_ATTEND(&HOPPER, half, c.octets = false, ATTEND_PLAIN);
    // No room for the list of tiles, and then not for the units either.
    CHECK_ATTEND(&HOPPER, half, c.n_slots = 1000000, ATTEND_TILE_F16);
    CHECK_ATTEND(&HOPPER, half, c.n_slots = 12000000, ATTEND_PLAIN);
    // A piece of a prompt whose cut must not show.
    CHECK_ATTEND(&HOPPER, half, c.kind = STEP_READING, ATTEND_WGMMA);
    CHECK_ATTEND(&HOPPER, half, (c.kind = STEP_READING, c.window = 4096), ATTEND_TILE_F16);
    CHECK_ATTEND(&HOPPER, half, (c.kind = STEP_READING, c.in_order = false), ATTEND_TILE_F16);
    CHECK_ATTEND(&HOPPER, half, c.window = 4096, ATTEND_WGMMA);
    CHECK_ATTEND(&ADA, half, , ATTEND_TILE_F16);
    CHECK_ATTEND(&ADA, half, c.head_dim = 256, ATTEND_TILE_F16);
    CHECK_ATTEND(&AMPERE, half, c.head_dim = 256, ATTEND_TILE_F16);
    CHECK_ATTEND(&ADA, half, c.n_slots = 1000000, ATTEND_TILE_F16);
    CHECK_ATTEND(&ADA, half, c.n_slots = 3000000, ATTEND_PLAIN); // no room for what its units are
}

// One row for all heads, of few tokens and of many; shorter ones are heads like others, whose values are their keys.
static void tiles_of_latents(void **state) {
    (void)state;
    for (int few = 0; few < 3; few++) {
        AttendCase row = attend(few ? DTYPE_F16 : DTYPE_BF16, few * 8);
        row.latent = true, row.head_dim = 576, row.tile_rows = 16;
        CHECK_ATTEND(&HOPPER, row, , ATTEND_WIDE);
        CHECK_ATTEND(&AMPERE, row, , ATTEND_WIDE);
        CHECK_ATTEND(&ADA, row, , ATTEND_WIDE); // 16 rows of queries and 32 keys: 98.5 KB
        CHECK_ATTEND(&HOPPER, row, c.page_size = 24, ATTEND_WIDE);
        CHECK_ATTEND(&HOPPER, row, c.evicted = true, ATTEND_WIDE);
        CHECK_ATTEND(&HOPPER, row, c.kind = STEP_READING, ATTEND_WIDE);
        CHECK_ATTEND(&HOPPER, row, c.tile_rows = 128, ATTEND_WIDE);
        CHECK_ATTEND(&HOPPER, row, c.operand = DTYPE_F32, ATTEND_PLAIN);
        CHECK_ATTEND(&HOPPER, row, c.cache = DTYPE_F32, ATTEND_PLAIN);
        CHECK_ATTEND(&HOPPER, row, c.whole_pieces = false, ATTEND_PLAIN);
        CHECK_ATTEND(&HOPPER, row, c.capped = true, ATTEND_PLAIN);
        CHECK_ATTEND(&HOPPER, row, c.latent = false, ATTEND_PLAIN);
        CHECK_ATTEND(&HOPPER, row, c.sinks = true, ATTEND_PLAIN);
        CHECK_ATTEND(&HOPPER, row, c.head_dim = 320, ATTEND_PLAIN);
        CHECK_ATTEND(&HOPPER, row, c.head_dim = 128, few ? ATTEND_SPLIT : ATTEND_HALVES);
    }
}

// Gemma 4's, of few tokens and of many, over caches of any type.
static void tiles_of_heads_of_512(void **state) {
    (void)state;
    static const DType TYPES[] = {DTYPE_F16, DTYPE_BF16, DTYPE_F32, DTYPE_INT8, DTYPE_INT4};
    for (int i = 0; i < 15; i++) {
        AttendCase head = attend(TYPES[i / 3], i % 3 * 8);
        const bool half = i < 6;
        head.head_dim = 512, head.tile_rows = 512;
        const AttendKernel whole =
            i == 0 ? ATTEND_WIDE_WGMMA : ATTEND_WIDE; // of many tokens over a cache in f16
        CHECK_ATTEND(&HOPPER, head, , whole);
        CHECK_ATTEND(&HOPPER, head, c.window = 90, whole);
        CHECK_ATTEND(&HOPPER, head, c.window = -90, ATTEND_WIDE);
        CHECK_ATTEND(&HOPPER, head, c.page_size = 32, ATTEND_WIDE);
        CHECK_ATTEND(&HOPPER, head, c.group = 65, ATTEND_WIDE);
        CHECK_ATTEND(&HOPPER, head, c.n_slots = 1000000, ATTEND_WIDE);
        CHECK_ATTEND(&AMPERE, head, , ATTEND_WIDE);
        CHECK_ATTEND(&ADA, head, , ATTEND_WIDE);
        CHECK_ATTEND(&HOPPER, head, (c.evicted = true, c.window = 90), ATTEND_WIDE);
        CHECK_ATTEND(&HOPPER, head, c.kind = STEP_READING, whole);
        CHECK_ATTEND(&HOPPER, head, c.whole_pieces = false, half ? ATTEND_PLAIN : ATTEND_WIDE);
        CHECK_ATTEND(&HOPPER, head, c.octets = false, half ? ATTEND_WIDE : ATTEND_PLAIN);
        CHECK_ATTEND(&HOPPER, head, c.operand = DTYPE_F32, ATTEND_PLAIN);
        CHECK_ATTEND(&HOPPER, head, c.alibi = true, ATTEND_PLAIN);
        CHECK_ATTEND(&HOPPER, head, c.capped = true, ATTEND_PLAIN);
        CHECK_ATTEND(&HOPPER, head, c.sinks = true, ATTEND_PLAIN);
        CHECK_ATTEND(&HOPPER, head, c.latent = true, ATTEND_PLAIN);
    }
}

static void tiles_of_other_caches(void **state) {
    (void)state;
    const AttendCase other = attend(DTYPE_INT8, 0);
    CHECK_ATTEND(&HOPPER, other, , ATTEND_HALVES);
    CHECK_ATTEND(&AMPERE, other, , ATTEND_TILE_ANY);
    CHECK_ATTEND(&HOPPER, other, c.kind = STEP_READING, ATTEND_TILE_ANY);
    CHECK_ATTEND(&HOPPER, other, c.n_tokens = 63, ATTEND_TILE_ANY);
    CHECK_ATTEND(&HOPPER, other, c.n_sequences = 2, ATTEND_TILE_ANY);
    CHECK_ATTEND(&HOPPER, other, c.evicted = true, ATTEND_TILE_ANY);
    CHECK_ATTEND(&HOPPER, other, c.alibi = true, ATTEND_TILE_ANY);
    CHECK_ATTEND(&HOPPER, other, c.halves_want = c.halves_bytes + 1, ATTEND_TILE_ANY);
    CHECK_ATTEND(&HOPPER, other, c.page_size = 16, ATTEND_HALVES); // what it becomes is one page
    CHECK_ATTEND(&HOPPER, attend(DTYPE_BF16, 0), , ATTEND_HALVES);
}

static void tiles_of_one_token(void **state) {
    (void)state;
    static const DType TYPES[] = {DTYPE_F16, DTYPE_BF16, DTYPE_F32, DTYPE_INT8, DTYPE_INT4};
    for (int i = 0; i < 5; i++) {
        const AttendCase one = attend(TYPES[i], 1);
        CHECK_ATTEND(&HOPPER, one, , ATTEND_SPLIT);
        CHECK_ATTEND(&AMPERE, one, , ATTEND_SPLIT);
        CHECK_ATTEND(&HOPPER, one, c.evicted = c.alibi = true, ATTEND_SPLIT);
        CHECK_ATTEND(&HOPPER, one, c.masked = true, ATTEND_PLAIN);
        CHECK_ATTEND(&HOPPER, one, c.capped = true, ATTEND_SPLIT);
        CHECK_ATTEND(&HOPPER, one, c.operand = DTYPE_F32, ATTEND_PLAIN);
        CHECK_ATTEND(&HOPPER, one, c.page_size = 48, ATTEND_PLAIN);
        CHECK_ATTEND(&HOPPER, one, c.page_size = 1u << 31, ATTEND_SPLIT);
        CHECK_ATTEND(&HOPPER, one, c.whole_pieces = false, ATTEND_PLAIN);
        CHECK_ATTEND(&HOPPER, one, c.head_dim = 72, ATTEND_PLAIN);
        CHECK_ATTEND(&HOPPER, one, c.head_dim = 256, TYPES[i] == DTYPE_F32 ? ATTEND_PLAIN : ATTEND_SPLIT);
        CHECK_ATTEND(&HOPPER, one, c.head_dim = 272, ATTEND_PLAIN);
        CHECK_ATTEND(&ADA, one, c.split_shared = 120000, ATTEND_PLAIN);
        CHECK_ATTEND(&HOPPER, one, c.n_splits = 65536, ATTEND_PLAIN);
        bool integers = TYPES[i] == DTYPE_INT8 || TYPES[i] == DTYPE_INT4;
        CHECK_ATTEND(&HOPPER, one, c.scale_group = 24, integers ? ATTEND_PLAIN : ATTEND_SPLIT);
        CHECK_ATTEND(&HOPPER, one, c.scale_group = 4, integers ? ATTEND_PLAIN : ATTEND_SPLIT);
    }
}

// What has no kernel of splits goes by tiles of many tokens.
static void tiles_of_few_tokens(void **state) {
    (void)state;
    const AttendCase half = attend(DTYPE_F16, 16), integers = attend(DTYPE_INT4, 32);
    CHECK_ATTEND(&HOPPER, half, , ATTEND_SPLIT);
    CHECK_ATTEND(&AMPERE, half, , ATTEND_SPLIT);
    CHECK_ATTEND(&HOPPER, half, c.evicted = c.alibi = true, ATTEND_SPLIT);
    CHECK_ATTEND(&HOPPER, half, c.operand = DTYPE_F32, ATTEND_PLAIN);
    CHECK_ATTEND(&HOPPER, half, c.masked = true, ATTEND_PLAIN);
    CHECK_ATTEND(&HOPPER, half, c.page_size = 48, ATTEND_TILE_F16);
    CHECK_ATTEND(&HOPPER, half, c.whole_pieces = false, ATTEND_WGMMA);
    CHECK_ATTEND(&HOPPER, integers, , ATTEND_SPLIT);
    CHECK_ATTEND(&HOPPER, integers, (c.scale_group = 4, c.n_tokens = 32), ATTEND_TILE_ANY);
}

// 8 KV heads on 132 multiprocessors.
static void splits_are_of_the_step_alone(void **state) {
    (void)state;
    static const struct {
        SplitCase c;
        int slots;
    } CASES[] = {
        // One token among nobody: four blocks a multiprocessor are 528, 66 for each KV head.
        {{STEP_ANY, DTYPE_F16, 8, 1, 4, false, 8192, 8192, false, false, 0}, 128},    // 8192 / 66 = 125
        {{STEP_ANY, DTYPE_F16, 8, 1, 4, false, 65536, 65536, false, false, 0}, 1024}, // 993
        {{STEP_ANY, DTYPE_F16, 8, 1, 4, false, 262144, 262144, false, false, 0},
         2048}, // two rounds: 262144 / 132 = 1986
        {{STEP_ANY, DTYPE_INT4, 8, 1, 4, false, 262144, 262144, false, false, 0},
         4032}, // but not of int4: 3972
        {{STEP_ANY, DTYPE_F16, 8, 1, 2, false, 65536, 65536, false, false, 0},
         2048}, // two blocks each: 65536 / 33 = 1986
        {{STEP_ANY, DTYPE_F16, 8, 1, 0, false, 65536, 65536, false, false, 0},
         1024}, // plain kernel: as if there were four
        {{STEP_ANY, DTYPE_F16, 8, 1, 4, false, 100, 100, false, false, 0}, 128},
        {{STEP_ANY, DTYPE_F16, 8, 1, 4, false, 8192, 64 * 8192, false, false, 0},
         4032}, // 64 rows: 524288 / 132 = 3972
        // A short prompt before a flat GEMM: one block a multiprocessor, 4 splits of 32 KV heads, but of long caches.
        {{STEP_ANY, DTYPE_F16, 32, 1, 2, true, 1040, 1040, false, false, 0}, 320},  // 1040 / 4 = 260
        {{STEP_ANY, DTYPE_F16, 32, 1, 2, false, 1040, 1040, false, false, 0}, 192}, // 1040 / 8 = 130
        {{STEP_ANY, DTYPE_F16, 32, 2, 2, true, 1056, 1056, false, false, 0},
         320}, // two blocks share a head's rows: 1056 / 4 = 264
        {{STEP_ANY, DTYPE_F16, 32, 1, 2, true, 8192, 8192, false, false, 0}, 1024},
        // A row among others: a quarter of the multiprocessors, four splits, or as many as 1,024 indexes each make.
        {{STEP_DECODING, DTYPE_F16, 8, 1, 4, false, 2048, 0, false, false, 0}, 512},
        {{STEP_DECODING, DTYPE_F16, 8, 1, 1, false, 2048, 0, false, false, 0}, 512},
        {{STEP_DECODING, DTYPE_INT4, 8, 1, 0, false, 2048, 777, false, false, 0}, 512},
        {{STEP_DECODING, DTYPE_F16, 8, 1, 4, false, 65536, 0, false, false, 0}, 1024},
        {{STEP_DECODING, DTYPE_F16, 8, 1, 4, false, 1 << 20, 0, false, false, 0},
         4160}, // at most 256 of a tile
        // Rows for all heads: a block a multiprocessor.
        {{STEP_ANY, DTYPE_F16, 1, 1, 1, false, 1024, 1024, true, false, 0}, 64},
        {{STEP_ANY, DTYPE_F16, 1, 1, 1, false, 32768, 32768, true, false, 0}, 256}, // 32768 / 132 = 249
        {{STEP_DECODING, DTYPE_F16, 1, 2, 1, false, 2048, 0, true, false, 0}, 128}, // 16 splits
        // Four splits of 32 heads in one round, and in two.
        {{STEP_ANY, DTYPE_F16, 32, 1, 1, true, 16384, 16384, false, true, 0}, 4096},
        {{STEP_ANY, DTYPE_F16, 32, 1, 1, true, 16384, 16384, false, false, 0}, 2048},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        if (dispatch_split_slots(&HOPPER, &CASES[i].c) != CASES[i].slots)
            fail_msg("case %zu: %d, expected %d", i, dispatch_split_slots(&HOPPER, &CASES[i].c),
                     CASES[i].slots);
}

// 64 rows of queries at once.
static void rows_by_wgmma(void **state) {
    (void)state;
    static const struct {
        SplitRowsCase c;
        bool by_wgmma;
    } CASES[] = {
        {{DTYPE_F16, 32, 128, 16, 16, false, false}, true},
        {{DTYPE_F16, 32, 64, 9, 9, false, false}, true},
        {{DTYPE_F16, 32, 128, 8, 8, false, false}, false},  // mma.sync has these as one tile
        {{DTYPE_F16, 32, 128, 1, 16, false, false}, false}, // a row among others
        {{DTYPE_F16, 8, 128, 32, 128, false, false}, true},
        {{DTYPE_F16, 1, 128, 9, 9, false, false}, true},
        {{DTYPE_F16, 71, 64, 64, 64, false, false}, true},
        {{DTYPE_BF16, 32, 128, 16, 16, false, false}, false},
        {{DTYPE_INT8, 32, 128, 16, 16, false, false}, false},
        {{DTYPE_F16, 32, 256, 16, 16, false, false}, false},
        {{DTYPE_F16, 32, 96, 16, 16, false, false}, false},
        {{DTYPE_F16, 32, 128, 16, 16, true, false}, false},
        {{DTYPE_F16, 32, 128, 16, 16, false, true}, false},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        assert_true(!dispatch_splits_by_wgmma(&AMPERE, &CASES[i].c));
        if (dispatch_splits_by_wgmma(&HOPPER, &CASES[i].c) != CASES[i].by_wgmma)
            fail_msg("case %zu: %d", i, !CASES[i].by_wgmma);
    }
}

// Tokens up to which 64 rows are a block's in a step, and splits of the tiles of more.
static void tokens_by_wgmma(void **state) {
    (void)state;
    const SplitRowsCase of_8b = {DTYPE_F16, 8, 128, 32, 128, false, false},
                        of_7b = {DTYPE_F16, 32, 128, 128, 128, false, false},
                        of_71_heads = {DTYPE_F16, 71,    64,   128,
                                       128,       false, false}, // a tile: more than one round
        of_bf16 = {DTYPE_BF16, 8, 128, 32, 128, false, false};
    assert_int_equal(dispatch_few_tokens(&HOPPER, &of_8b, 0), 128);
    assert_int_equal(dispatch_few_tokens(&HOPPER, &of_7b, 8192), 128);
    assert_int_equal(dispatch_few_tokens(&HOPPER, &of_7b, 8193), 64);
    assert_int_equal(dispatch_few_tokens(&HOPPER, &of_71_heads, 0), 64);
    assert_int_equal(dispatch_few_tokens(&HOPPER, &of_bf16, 0), 64);
    assert_int_equal(dispatch_few_tokens(&AMPERE, &of_8b, 0), 64);

    assert_int_equal(dispatch_tile_splits(&HOPPER, STEP_ANY, 64, 16384), 2);
    assert_int_equal(dispatch_tile_splits(&HOPPER, STEP_ANY, 67, 16384), 1);
    assert_int_equal(dispatch_tile_splits(&HOPPER, STEP_ANY, 8, 4096 + 130), 4); // of 1,024 slots at least
    assert_int_equal(dispatch_tile_splits(&HOPPER, STEP_ANY, 8, 2047), 1);
    assert_int_equal(dispatch_tile_splits(&HOPPER, STEP_ANY, 200, 16384), 1);
    assert_int_equal(dispatch_tile_splits(&HOPPER, STEP_READING, 8, 16384), 1);
    assert_int_equal(dispatch_most_tile_splits(&AMPERE), 0);

    // Of one sequence: 128 tokens of an 8B are 64 blocks, 65 are 40.
    SplitCase c = {STEP_ANY, DTYPE_F16, 8, 2, 1, false, 4096, 4 * 4096, false, true, 8};
    assert_int_equal(dispatch_split_slots(&HOPPER, &c), 2048);
    c.row_blocks = 5;
    assert_int_equal(dispatch_split_slots(&HOPPER, &c), 1408); // 4096 / 3 = 1366
    c.row_blocks = 17;
    assert_int_equal(dispatch_split_slots(&HOPPER, &c), 4096);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_of_an_f16_cache),
        cmocka_unit_test(tiles_of_latents),
        cmocka_unit_test(tiles_of_heads_of_512),
        cmocka_unit_test(tiles_of_other_caches),
        cmocka_unit_test(tiles_of_one_token),
        cmocka_unit_test(tiles_of_few_tokens),
        cmocka_unit_test(splits_are_of_the_step_alone),
        cmocka_unit_test(rows_by_wgmma),
        cmocka_unit_test(tokens_by_wgmma),
    };
    return test_main("dispatch_attention", argc, argv, tests);
}
