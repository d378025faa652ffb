// Which CUDA kernel multiplies, as a table: kernels/cuda/dispatch.h, by hand as in test_dispatch.c.
#include "tests/support/kernels/dispatch_cases.h"
#include "tests/support/test.h"

static void gemms_take_the_kernel_of_their_kind(void **state) {
    (void)state;
    static const struct {
        StepKind kind;
        GemmEpilogue epilogue;
        int n;
        const Card *card;
        GemmKernel kernel;
    } CASES[] = {
        {STEP_DECODING, EPILOGUE_HEADS, 8, &HOPPER, GEMM_FLAT},
        {STEP_DECODING, EPILOGUE_HEADS, 8, &AMPERE, GEMM_FLAT},
        {STEP_DECODING, EPILOGUE_HEADS, 8, &PORTABLE, GEMM_FLAT},
        {STEP_DECODING, EPILOGUE_STORE, 8, &AMPERE, GEMM_FLAT},
        {STEP_DECODING, EPILOGUE_GATED, 200, &ADA, GEMM_FLAT},
        {STEP_DECODING, EPILOGUE_ACTIVATE, 1, &HOPPER, GEMM_FLAT},
        {STEP_DECODING, EPILOGUE_ADD, 64, &HOPPER, GEMM_FLAT},
        {STEP_DECODING, EPILOGUE_FLOAT, 64, &HOPPER, GEMM_FLAT},
        {STEP_ANY, EPILOGUE_HEADS, 4096, &HOPPER, GEMM_TILE},
        {STEP_ANY, EPILOGUE_HEADS, 4096, &AMPERE, GEMM_SEPARATE},
        {STEP_ANY, EPILOGUE_HEADS, 200, &HOPPER, GEMM_SEPARATE}, // tiles would be nearly empty
        {STEP_READING, EPILOGUE_HEADS, 16, &HOPPER,
         GEMM_TILE}, // but of a piece of a prompt nobody may see how long it is
        {STEP_ANY, EPILOGUE_GATED, 4096, &HOPPER, GEMM_TILE},
        {STEP_ANY, EPILOGUE_GATED, 200, &HOPPER, GEMM_SEPARATE},
        {STEP_READING, EPILOGUE_GATED, 16, &HOPPER, GEMM_TILE},
        {STEP_READING, EPILOGUE_GATED, 16, &ADA, GEMM_SEPARATE},
        {STEP_ANY, EPILOGUE_ACTIVATE, 4096, &HOPPER, GEMM_SEPARATE},
        {STEP_ANY, EPILOGUE_STORE, 4096, &HOPPER, GEMM_LIBRARY},
        {STEP_ANY, EPILOGUE_ADD, 4096, &HOPPER, GEMM_LIBRARY},
        {STEP_READING, EPILOGUE_ADD, 16, &HOPPER, GEMM_TILE},
        {STEP_READING, EPILOGUE_ADD, 16, &AMPERE, GEMM_LIBRARY},
        {STEP_READING, EPILOGUE_STORE, 16, &HOPPER, GEMM_LIBRARY},
        {STEP_READING, EPILOGUE_FLOAT, 1, &HOPPER, GEMM_FLAT},
        {STEP_READING, EPILOGUE_SUMS, 16, &HOPPER, GEMM_LIBRARY},
        {STEP_ANY, EPILOGUE_SUMS, 200, &AMPERE, GEMM_LIBRARY},
        {STEP_DECODING, EPILOGUE_SUMS, 8, &AMPERE, GEMM_FLAT},
        {STEP_ANY, EPILOGUE_FLOAT, 200, &HOPPER, GEMM_LIBRARY},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        GemmCase c = dispatch_cases_gemm(CASES[i].kind, CASES[i].epilogue, CASES[i].n);
        if (dispatch_gemm(CASES[i].card, &c) != CASES[i].kernel)
            fail_msg("case %zu: %s, expected %s", i, dispatch_gemm_name(dispatch_gemm(CASES[i].card, &c)),
                     dispatch_gemm_name(CASES[i].kernel));
    }
}

static void quantised_weights_are_unpacked_on_hopper(void **state) {
    (void)state;
    static const struct {
        StepKind kind;
        GemmEpilogue epilogue;
        const Card *card;
        GemmKernel kernel;
    } CASES[] = {
        {STEP_ANY, EPILOGUE_HEADS, &HOPPER, GEMM_UNPACK},
        {STEP_READING, EPILOGUE_HEADS, &HOPPER, GEMM_UNPACK},
        {STEP_ANY, EPILOGUE_GATED, &HOPPER, GEMM_UNPACK},
        {STEP_ANY, EPILOGUE_ACTIVATE, &HOPPER, GEMM_SEPARATE},
        {STEP_ANY, EPILOGUE_STORE, &HOPPER, GEMM_UNPACK},
        {STEP_READING, EPILOGUE_STORE, &HOPPER, GEMM_UNPACK},
        {STEP_READING, EPILOGUE_ADD, &HOPPER, GEMM_UNPACK},
        {STEP_ANY, EPILOGUE_FLOAT, &HOPPER, GEMM_UNPACK},
        {STEP_READING, EPILOGUE_FLOAT, &HOPPER, GEMM_FLAT},
        {STEP_ANY, EPILOGUE_STORE, &AMPERE, GEMM_LIBRARY},
        {STEP_ANY, EPILOGUE_HEADS, &PORTABLE, GEMM_SEPARATE},
        {STEP_DECODING, EPILOGUE_STORE, &HOPPER, GEMM_FLAT},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        for (int n = 200; n < 5000; n *= 2) {
            GemmCase c = dispatch_cases_gemm(CASES[i].kind, CASES[i].epilogue, n);
            c.operand = DTYPE_F16, c.format = FORMAT_Q4M, c.quantised = true;
            assert_int_equal(dispatch_gemm(CASES[i].card, &c), CASES[i].kernel);
        }
    GemmCase mixed = dispatch_cases_gemm(STEP_ANY, EPILOGUE_STORE, 512);
    mixed.operand = DTYPE_F16, mixed.format = FORMAT_Q4, mixed.n_parts = 3;
    assert_int_equal(dispatch_gemm(&HOPPER, &mixed), GEMM_LIBRARY);
    mixed = dispatch_cases_gemm(STEP_ANY, EPILOGUE_GATED, 512);
    mixed.operand = DTYPE_F16, mixed.quantised = true, mixed.activation = ACTIVATION_GELU;
    assert_int_equal(dispatch_gemm(&HOPPER, &mixed), GEMM_SEPARATE);
    // Rounds of 66 clusters: 22,016 rows at 1,024 are 344 tiles of 256, five rounds and 14; at 128, two and 40 of 128.
    // Of kind ANY clusters share out the columns of few tiles of 128.
    static const struct {
        StepKind kind;
        int n, rows, cols, tokens;
        bool shared;
    } TILES[] = {
        {STEP_ANY, 1024, 22016, 4096, 256, false},    {STEP_ANY, 1024, 4096, 11008, 256, false},
        {STEP_READING, 128, 4096, 11008, 128, false}, {STEP_READING, 256, 4096, 11008, 128, false},
        {STEP_ANY, 65, 12288, 4096, 128, true},       {STEP_ANY, 128, 4096, 11008, 128, true},
        {STEP_ANY, 128, 22016, 4096, 128, true},      {STEP_ANY, 256, 22016, 4096, 256, false},
        {STEP_ANY, 256, 4096, 11008, 128, true},      {STEP_ANY, 257, 4096, 11008, 128, true},
        {STEP_ANY, 65, 512, 1024, 128, false},        {STEP_ANY, 65, 512, 8192, 128, true},
    };
    for (size_t i = 0; i < sizeof TILES / sizeof *TILES; i++) {
        const UnpackTiles tiles =
            dispatch_unpack(&HOPPER, TILES[i].kind, TILES[i].n, TILES[i].rows, TILES[i].cols);
        assert_int_equal(tiles.tokens, TILES[i].tokens);
        assert_int_equal(tiles.shared, TILES[i].shared);
    }
    assert_int_equal(dispatch_unpack_runs(16, 4096), 64);
    assert_int_equal(dispatch_unpack_runs(2, 96), 1);
}

// Quantised weights would be expanded first; floats of 32 bits and weights of another type have no fast flat kernel.
static void short_steps_read_quantised_weights_once(void **state) {
    (void)state;
    for (int n = 1; n <= 256; n++) {
        GemmCase c = dispatch_cases_gemm(STEP_ANY, EPILOGUE_STORE, n);
        c.operand = DTYPE_F16, c.format = FORMAT_Q4, c.quantised = true;
        const GemmKernel hopper = n < 2     ? GEMM_GEMV
                                  : n <= 64 ? GEMM_FLAT
                                            : GEMM_UNPACK,
                         others = n < 3      ? GEMM_GEMV
                                  : n <= 192 ? GEMM_FLAT
                                             : GEMM_LIBRARY;
        assert_int_equal(dispatch_gemm(&HOPPER, &c), hopper);
        assert_int_equal(dispatch_gemm(&AMPERE, &c), others);
        assert_int_equal(dispatch_gemm(&PORTABLE, &c), others);
        c.plain = true, c.quantised = false; // a matrix beside that no tensor cores take
        assert_int_equal(dispatch_gemm(&AMPERE, &c), n < 3 ? GEMM_GEMV : GEMM_LIBRARY);
        c.plain = false, c.quantised = true;
        c.operand = DTYPE_BF16; // no tensor cores take them so
        assert_int_equal(dispatch_gemm(&HOPPER, &c), n <= GEMV_MOST ? GEMM_GEMV : GEMM_LIBRARY);
        c = dispatch_cases_gemm(STEP_READING, EPILOGUE_STORE, n); // no prompt shows how long its pieces are
        assert_int_equal(dispatch_gemm(&HOPPER, &c), GEMM_LIBRARY);
    }
}

static void epilogues_in_registers_want_plain_heads_and_gates(void **state) {
    (void)state;
    for (int decoding = 0; decoding < 2; decoding++) {
        StepKind kind = decoding ? STEP_DECODING : STEP_ANY;
        const GemmCase plain = dispatch_cases_gemm(kind, EPILOGUE_HEADS, 4096);
        GemmCase c[] = {plain, plain, plain, plain, plain};
        c[0].plain_heads = false, c[1].biased = true, c[2].head_dim = 96, c[3].operand = DTYPE_F32;
        c[4].format = FORMAT_Q8, c[4].quantised = true, c[4].operand = DTYPE_F16;
        for (int i = 0; i < 4; i++) assert_int_equal(dispatch_gemm(&HOPPER, &c[i]), GEMM_SEPARATE);
        // Prompts' tiles unpack quantised weights on their way.
        assert_int_equal(dispatch_gemm(&HOPPER, &c[4]), decoding ? GEMM_FLAT : GEMM_UNPACK);
    }
    GemmCase c = dispatch_cases_gemm(STEP_DECODING, EPILOGUE_HEADS, 8);
    c.n_parts = 3;
    assert_int_equal(dispatch_gemm(&HOPPER, &c), GEMM_SEPARATE);
    c = dispatch_cases_gemm(STEP_ANY, EPILOGUE_HEADS, 4096), c.octets = false;
    assert_int_equal(dispatch_gemm(&HOPPER, &c), GEMM_SEPARATE);
    c = dispatch_cases_gemm(STEP_READING, EPILOGUE_ADD, 16), c.rows = 6148;
    assert_int_equal(dispatch_gemm(&HOPPER, &c), GEMM_LIBRARY);
    c = dispatch_cases_gemm(STEP_ANY, EPILOGUE_GATED, 4096), c.biased = true;
    assert_int_equal(dispatch_gemm(&HOPPER, &c), GEMM_SEPARATE);
    c = dispatch_cases_gemm(STEP_ANY, EPILOGUE_GATED, 4096), c.activation = ACTIVATION_GELU_TANH;
    assert_int_equal(dispatch_gemm(&HOPPER, &c), GEMM_TILE);
    c.activation = ACTIVATION_GELU;
    assert_int_equal(dispatch_gemm(&HOPPER, &c), GEMM_SEPARATE);
}

// Its numbers are a layer's own, which only a kernel behind the GEMM has.
static void xielu_is_separate_everywhere(void **state) {
    (void)state;
    static const Card *const CARDS[] = {&HOPPER, &PORTABLE, &AMPERE, &ADA};
    static const Format FORMATS[] = {FORMAT_BF16, FORMAT_Q4, FORMAT_Q6, FORMAT_W8, FORMAT_E4M3, FORMAT_F32};
    for (size_t i = 0; i < sizeof CARDS / sizeof *CARDS; i++)
        for (size_t j = 0; j < sizeof FORMATS / sizeof *FORMATS; j++)
            for (int kind = STEP_ANY; kind <= STEP_READING; kind++)
                for (int n = 1; n < 5000; n *= 3) {
                    GemmCase c = dispatch_cases_gemm((StepKind)kind, EPILOGUE_ACTIVATE, n);
                    c.format = FORMATS[j], c.quantised = FORMATS[j] >= FORMAT_Q8;
                    if (c.quantised) c.operand = DTYPE_F16;
                    c.activation = ACTIVATION_XIELU;
                    assert_int_equal(dispatch_gemm(CARDS[i], &c), GEMM_SEPARATE);
                    c.epilogue = EPILOGUE_STORE; // which is what comes before that kernel
                    assert_int_not_equal(dispatch_gemm(CARDS[i], &c), GEMM_SEPARATE);
                }
}

static void w8_takes_the_kernel_of_its_rows(void **state) {
    (void)state;
    static const struct {
        StepKind kind;
        GemmEpilogue epilogue;
        int n;
        GemmKernel hopper, ampere;
    } CASES[] = {
        {STEP_DECODING, EPILOGUE_HEADS, 8, GEMM_FLAT, GEMM_SEPARATE},
        {STEP_DECODING, EPILOGUE_GATED, 200, GEMM_TILE, GEMM_LIBRARY},
        {STEP_DECODING, EPILOGUE_ADD, 4, GEMM_FLAT, GEMM_FLAT},
        {STEP_ANY, EPILOGUE_HEADS, 64, GEMM_FLAT, GEMM_SEPARATE},
        {STEP_ANY, EPILOGUE_HEADS, 65, GEMM_TILE, GEMM_SEPARATE},
        {STEP_READING, EPILOGUE_HEADS, 1024, GEMM_TILE, GEMM_SEPARATE},
        {STEP_ANY, EPILOGUE_GATED, 64, GEMM_FLAT, GEMM_LIBRARY},
        {STEP_READING, EPILOGUE_GATED, 65, GEMM_TILE, GEMM_LIBRARY},
        {STEP_ANY, EPILOGUE_ADD, 65, GEMM_TILE, GEMM_LIBRARY},
        {STEP_ANY, EPILOGUE_STORE, 65, GEMM_TILE, GEMM_LIBRARY},
        {STEP_ANY, EPILOGUE_FLOAT, 1, GEMM_FLAT, GEMM_FLAT},
        {STEP_ANY, EPILOGUE_FLOAT, 65, GEMM_LIBRARY, GEMM_LIBRARY},
        {STEP_READING, EPILOGUE_ACTIVATE, 65, GEMM_LIBRARY, GEMM_LIBRARY},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        GemmCase c = dispatch_cases_gemm(CASES[i].kind, CASES[i].epilogue, CASES[i].n);
        c.format = FORMAT_W8;
        assert_int_equal(dispatch_gemm(&HOPPER, &c), CASES[i].hopper);
        assert_int_equal(dispatch_gemm(&AMPERE, &c), CASES[i].ampere);
    }
    GemmCase c = dispatch_cases_gemm(STEP_ANY, EPILOGUE_ADD, 65);
    c.format = FORMAT_W8, c.biased = true;
    assert_int_equal(dispatch_gemm(&HOPPER, &c), GEMM_LIBRARY);
    c.rows = 6148; // cuBLASLt's sums are taken in fours, tiles' results in eights
    assert_int_equal(dispatch_gemm(&HOPPER, &c), GEMM_FLAT);
    c = dispatch_cases_gemm(STEP_DECODING, EPILOGUE_FLOAT, 64), c.format = FORMAT_W8, c.counted = true;
    assert_int_equal(dispatch_gemm(&AMPERE, &c), GEMM_FLAT);
    c = dispatch_cases_gemm(STEP_ANY, EPILOGUE_HEADS, 65), c.format = FORMAT_W8, c.octets = false;
    assert_int_equal(dispatch_gemm(&HOPPER, &c), GEMM_SEPARATE);
    c = dispatch_cases_gemm(STEP_ANY, EPILOGUE_GATED, 65), c.format = FORMAT_W8,
    c.activation = ACTIVATION_GELU;
    assert_int_equal(dispatch_gemm(&HOPPER, &c), GEMM_LIBRARY);
    c.operand = DTYPE_F32;
    assert_int_equal(dispatch_gemm(&HOPPER, &c), GEMM_FLAT);
}

// Inputs are rounded where tiles multiply FP8 with FP8: of prompts, by Hopper.
static void fp8_rounds_what_tiles_take(void **state) {
    (void)state;
    static const struct {
        StepKind kind;
        GemmEpilogue epilogue;
        int n;
        bool rounds;
        GemmKernel rounded;
    } CASES[] = {
        {STEP_ANY, EPILOGUE_HEADS, 64, false, GEMM_TILE},
        {STEP_ANY, EPILOGUE_HEADS, 65, true, GEMM_TILE},
        {STEP_READING, EPILOGUE_HEADS, 1, true, GEMM_TILE},
        {STEP_DECODING, EPILOGUE_ADD, 200, false, GEMM_TILE},
        {STEP_READING, EPILOGUE_STORE, 1, true, GEMM_TILE},
        {STEP_READING, EPILOGUE_GATED, 7, true, GEMM_TILE},
        {STEP_READING, EPILOGUE_FLOAT, 7, false, GEMM_TILE},
        {STEP_ANY, EPILOGUE_ADD, 512, true, GEMM_TILE},
        {STEP_ANY, EPILOGUE_ACTIVATE, 512, true, GEMM_SEPARATE},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        GemmCase c = dispatch_cases_gemm(CASES[i].kind, CASES[i].epilogue, CASES[i].n);
        c.format = FORMAT_E4M3, c.quantised = true, c.operand = DTYPE_F16;
        assert_false(dispatch_fp8(&HOPPER, &c)); // nobody asks
        c.inputs = FP8_INPUTS_GROUPS;
        assert_int_equal(dispatch_fp8(&HOPPER, &c), CASES[i].rounds);
        assert_false(dispatch_fp8(&PORTABLE, &c));
        assert_false(dispatch_fp8(&ADA, &c));
        c.rounded = true;
        assert_int_equal(dispatch_gemm(&HOPPER, &c), CASES[i].rounded);
        c.cols = 4128; // no whole groups
        assert_false(dispatch_fp8(&HOPPER, &c));
    }
    GemmCase c = dispatch_cases_gemm(STEP_READING, EPILOGUE_HEADS, 65);
    c.format = FORMAT_E4M3, c.quantised = true, c.inputs = FP8_INPUTS_ROWS, c.rounded = true;
    c.octets = false;
    assert_int_equal(dispatch_gemm(&HOPPER, &c), GEMM_SEPARATE);
    c = dispatch_cases_gemm(STEP_READING, EPILOGUE_GATED, 65), c.rounded = true,
    c.activation = ACTIVATION_GELU;
    assert_int_equal(dispatch_gemm(&HOPPER, &c), GEMM_SEPARATE);
}

static void flat_kernels_go_by_format(void **state) {
    (void)state;
    static const struct {
        DType operand;
        Format format;
        FlatKernel hopper, other;
    } CASES[] = {
        {DTYPE_F16, FORMAT_F16, FLAT_WGMMA, FLAT_MMA},    {DTYPE_BF16, FORMAT_BF16, FLAT_WGMMA, FLAT_MMA},
        {DTYPE_F16, FORMAT_BF16, FLAT_PLAIN, FLAT_PLAIN}, {DTYPE_BF16, FORMAT_F16, FLAT_PLAIN, FLAT_PLAIN},
        {DTYPE_F16, FORMAT_F32, FLAT_PLAIN, FLAT_PLAIN},  {DTYPE_F32, FORMAT_F32, FLAT_PLAIN, FLAT_PLAIN},
        {DTYPE_F16, FORMAT_Q8, FLAT_WGMMA, FLAT_MMA},     {DTYPE_F16, FORMAT_Q8S, FLAT_WGMMA, FLAT_MMA},
        {DTYPE_F16, FORMAT_Q8M, FLAT_WGMMA, FLAT_MMA},    {DTYPE_F16, FORMAT_Q4, FLAT_WGMMA, FLAT_MMA},
        {DTYPE_F16, FORMAT_Q4M, FLAT_WGMMA, FLAT_MMA},    {DTYPE_BF16, FORMAT_Q4, FLAT_PLAIN, FLAT_PLAIN},
        {DTYPE_F32, FORMAT_Q4, FLAT_PLAIN, FLAT_PLAIN},   {DTYPE_F32, FORMAT_W8, FLAT_PLAIN, FLAT_PLAIN},
        {DTYPE_F16, FORMAT_W8, FLAT_WGMMA, FLAT_PLAIN},   {DTYPE_BF16, FORMAT_W8, FLAT_WGMMA, FLAT_PLAIN},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        assert_int_equal(dispatch_flat(&HOPPER, CASES[i].operand, CASES[i].format), CASES[i].hopper);
        assert_int_equal(dispatch_flat(&AMPERE, CASES[i].operand, CASES[i].format), CASES[i].other);
        assert_int_equal(dispatch_flat(&PORTABLE, CASES[i].operand, CASES[i].format), CASES[i].other);
    }
}

// On 66 clusters, rows of x in pairs of 128: 4096 are 16. In brackets: rounds of tiles times their columns.
static void tiles_are_as_wide_as_leaves_fewest_clusters_idle(void **state) {
    (void)state;
    // 24 tiles of 256 times 16 are 384, [6 · 256 = 1536]; 32 of 192: 512, [8 · 192 = 1536]: not less.
    assert_int_equal(dispatch_tile_columns(&HOPPER, EPILOGUE_GATED, 4096, 6144), 256);
    // 16 tiles of 256 times 4: [256]; 22 of 192: 88, [2 · 192]. One pair: 16 [256] against 22 [192].
    assert_int_equal(dispatch_tile_columns(&HOPPER, EPILOGUE_GATED, 1024, 4096), 256);
    assert_int_equal(dispatch_tile_columns(&HOPPER, EPILOGUE_GATED, 256, 4096), 192);
    // 128 where it takes less than four fifths: [128] against [256], and not [2 · 128] against [256].
    assert_int_equal(dispatch_tile_columns(&HOPPER, EPILOGUE_ADD, 256, 4096), 128);
    assert_int_equal(dispatch_tile_columns(&HOPPER, EPILOGUE_ADD, 1024, 4096), 256);
    assert_int_equal(dispatch_tile_columns(&HOPPER, EPILOGUE_HEADS, 256, 4096), 128);
}

static void heads_go_by_what_follows_the_product(void **state) {
    (void)state;
    static const struct {
        HeadsCase c;
        HeadsKernel kernel;
    } CASES[] = {
        {{STEP_ANY, 1, 64, true, false}, HEADS_WHOLE},
        {{STEP_DECODING, 1, 128, true, false}, HEADS_WHOLE},
        {{STEP_ANY, 1, 96, true, false}, HEADS_ANY},
        {{STEP_ANY, 64, 128, false, true}, HEADS_TOGETHER},
        {{STEP_ANY, 63, 128, false, true}, HEADS_ANY},
        {{STEP_ANY, 64, 128, false, false}, HEADS_ANY},
        {{STEP_DECODING, 64, 128, false, true}, HEADS_ANY},
        {{STEP_READING, 64, 32, false, true}, HEADS_TOGETHER},
        {{STEP_READING, 64, 80, false, true}, HEADS_ANY}, // blocks of 16 elements: too few for four tokens
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        assert_int_equal(dispatch_heads(&CASES[i].c), CASES[i].kernel);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemms_take_the_kernel_of_their_kind),
        cmocka_unit_test(quantised_weights_are_unpacked_on_hopper),
        cmocka_unit_test(short_steps_read_quantised_weights_once),
        cmocka_unit_test(epilogues_in_registers_want_plain_heads_and_gates),
        cmocka_unit_test(xielu_is_separate_everywhere),
        cmocka_unit_test(w8_takes_the_kernel_of_its_rows),
        cmocka_unit_test(fp8_rounds_what_tiles_take),
        cmocka_unit_test(flat_kernels_go_by_format),
        cmocka_unit_test(tiles_are_as_wide_as_leaves_fewest_clusters_idle),
        cmocka_unit_test(heads_go_by_what_follows_the_product),
    };
    return test_main("dispatch of GEMMs", argc, argv, tests);
}
