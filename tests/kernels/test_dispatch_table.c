// The table that says which of three ways a linear layer goes by its rows: dispatch_linear() and dispatch_gemm() of
// kernels/cuda/dispatch.h, at the numbers of rows at which it changes its mind. No GPU is asked.
#include "tests/support/kernels/dispatch_cases.h"
#include "tests/support/test.h"

// M1 = 3, M2 = 20 for the matrix of dispatch_cases_gemm(), another for any other in bf16, a third for q4_0.
static const DispatchTable TABLE = {
    3, {{6144, 4096, DTYPE_BF16, 3, 20}, {0, 0, DTYPE_BF16, 1, 7}, {0, 0, DTYPE_Q4_0, 5, 5}}};

static void a_table_says_from_how_many_rows_on(void **state) {
    (void)state;
    static const struct {
        int n;
        GemmKernel heads, store, add;
    } CASES[] = {
        {1, GEMM_SEPARATE, GEMM_GEMV, GEMM_GEMV},        // a GEMV has no epilogue for heads
        {2, GEMM_SEPARATE, GEMM_GEMV, GEMM_GEMV},        // M1 - 1
        {3, GEMM_FLAT, GEMM_FLAT, GEMM_FLAT},            // M1
        {19, GEMM_FLAT, GEMM_FLAT, GEMM_FLAT},           // M2 - 1
        {20, GEMM_SEPARATE, GEMM_LIBRARY, GEMM_LIBRARY}, // M2
        {4096, GEMM_TILE, GEMM_LIBRARY, GEMM_LIBRARY},   // tiles belong to what begins with M2
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        GemmCase c = dispatch_cases_gemm(STEP_ANY, EPILOGUE_HEADS, CASES[i].n);
        c.table = &TABLE;
        assert_int_equal(dispatch_gemm(&HOPPER, &c), CASES[i].heads);
        c.epilogue = EPILOGUE_STORE;
        assert_int_equal(dispatch_gemm(&HOPPER, &c), CASES[i].store);
        c.epilogue = EPILOGUE_ADD;
        assert_int_equal(dispatch_gemm(&HOPPER, &c), CASES[i].add);
        c.kind = STEP_DECODING; // whose rows must not show in each other: one kernel for every number
        assert_int_equal(dispatch_gemm(&HOPPER, &c), GEMM_FLAT);
        c.kind = STEP_READING;
        assert_int_equal(dispatch_gemm(&HOPPER, &c), GEMM_TILE);
    }
}

static void a_table_goes_by_shape_and_type(void **state) {
    (void)state;
    GemmCase c = dispatch_cases_gemm(STEP_ANY, EPILOGUE_STORE, 2);
    c.table = &TABLE;
    assert_int_equal(dispatch_linear(&AMPERE, &c), LINEAR_GEMV);
    c.rows = 6145; // any other in bf16: M1 = 1, M2 = 7
    assert_int_equal(dispatch_linear(&AMPERE, &c), LINEAR_FLAT);
    c.n = 7;
    assert_int_equal(dispatch_linear(&AMPERE, &c), LINEAR_LIBRARY);
    c.format = FORMAT_Q4, c.operand = DTYPE_F16, c.n = 4; // M1 = M2 = 5: no flat ones
    assert_int_equal(dispatch_linear(&AMPERE, &c), LINEAR_GEMV);
    c.n = 5;
    assert_int_equal(dispatch_linear(&AMPERE, &c), LINEAR_LIBRARY);
    c.format = FORMAT_Q8, c.n = 1; // no row: the built-in table's
    GemmCase built_in = c;
    built_in.table = NULL;
    for (; c.n < 200; c.n++, built_in.n++)
        assert_int_equal(dispatch_linear(&AMPERE, &c), dispatch_linear(&AMPERE, &built_in));
}

static void a_way_without_a_kernel_gives_way(void **state) {
    (void)state;
    GemmCase c = dispatch_cases_gemm(STEP_ANY, EPILOGUE_STORE, 4);
    c.format = FORMAT_Q4, c.operand = DTYPE_F16, c.table = &TABLE;
    c.cols = 28672; // four rows in 8 bits do not fit into the shared memory of a 4090's block
    assert_int_equal(dispatch_linear(&HOPPER, &c), LINEAR_GEMV);
    assert_int_equal(dispatch_linear(&ADA, &c), LINEAR_FLAT);
    c.n = 2;
    assert_int_equal(dispatch_linear(&ADA, &c), LINEAR_GEMV);
    c = dispatch_cases_gemm(STEP_ANY, EPILOGUE_STORE, 2), c.table = &TABLE;
    c.cols = 4100, c.rows = 6144; // no pieces of 16 bytes
    c.table = &(DispatchTable){1, {{0, 0, DTYPE_BF16, 3, 20}}};
    assert_int_equal(dispatch_linear(&HOPPER, &c), LINEAR_FLAT);
    c = dispatch_cases_gemm(STEP_ANY, EPILOGUE_FLOAT, 64), c.table = &TABLE;
    assert_int_equal(dispatch_linear(&HOPPER, &c), LINEAR_LIBRARY);
    c.counted = true; // which would write all rows
    assert_int_equal(dispatch_linear(&HOPPER, &c), LINEAR_FLAT);
    c = dispatch_cases_gemm(STEP_ANY, EPILOGUE_STORE, 8); // float32: tensor cores have none
    c.operand = DTYPE_F32, c.format = FORMAT_F32;
    assert_int_equal(dispatch_linear(&HOPPER, &c), LINEAR_LIBRARY);
    c.n = 4;
    assert_int_equal(dispatch_linear(&HOPPER, &c), LINEAR_GEMV);
}

static void what_is_measured_goes_the_way_it_is_told(void **state) {
    (void)state;
    GemmCase c = dispatch_cases_gemm(STEP_ANY, EPILOGUE_STORE, 4);
    for (c.way = LINEAR_GEMV; c.way < LINEAR_N_WAYS; c.way++)
        assert_int_equal(dispatch_linear(&HOPPER, &c), c.way);
    c.n = 5, c.way = LINEAR_GEMV;
    assert_int_equal(dispatch_linear(&HOPPER, &c), LINEAR_BY_TABLE);
}

// Every class has a row for every format, and M1 <= M2 within what kernels can.
static void built_in_tables_are_whole(void **state) {
    (void)state;
    const Card *cards[] = {&HOPPER, &AMPERE};
    for (int i = 0; i < 2; i++)
        for (Format format = FORMAT_F32; format < FORMAT_W8; format++) {
            const DispatchTable *table = dispatch_built_in(cards[i]);
            int rows = 0;
            for (int r = 0; r < table->n; r++) {
                const DispatchRow *row = &table->rows[r];
                if (row->type != dispatch_type(format)) continue;
                assert_int_equal(dispatch_type(format_of(row->type)), row->type);
                assert_in_range(row->flat_from, 1, GEMV_MOST + 1);
                assert_in_range(row->library_from, row->flat_from, DISPATCH_LAST_N);
                rows++;
            }
            assert_int_equal(rows, 1);
        }
    assert_ptr_equal(dispatch_built_in(&PORTABLE), dispatch_built_in(&AMPERE));
    assert_int_equal(dispatch_library_from(&HOPPER, DTYPE_Q4_0), 65);
    assert_int_equal(dispatch_library_from(&AMPERE, DTYPE_Q6_K), 257);
    assert_int_equal(dispatch_library_from(&AMPERE, DTYPE_COUNT), 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_says_from_how_many_rows_on),
        cmocka_unit_test(a_table_goes_by_shape_and_type),
        cmocka_unit_test(a_way_without_a_kernel_gives_way),
        cmocka_unit_test(what_is_measured_goes_the_way_it_is_told),
        cmocka_unit_test(built_in_tables_are_whole),
    };
    return test_main("dispatch_table", argc, argv, tests);
}
