// How rows become 8-bit integers with one scale: against numpy, at the edges of the format.
#include "kernels/w8.h"
#include "kernels/base/file.h"
#include "kernels/dtype.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

// Every row of the golden file, bit by bit; its padding and what is behind the scale are zero there as well.
static void rows_equal_numpy(void **state) {
    (void)state;
    Error error = {0};
    char *golden;
    size_t size, at = 0;
    int n_rows = 0;
    assert_int_equal(file_read("tests/golden/w8.bin", 1 << 20, &golden, &size, &error), STATUS_OK);
    for (; at < size; n_rows++) {
        int32_t cols;
        memcpy(&cols, golden + at, sizeof cols);
        at += sizeof cols;
        float *x = malloc((size_t)cols * sizeof *x), scale;
        memcpy(x, golden + at, (size_t)cols * sizeof *x);
        at += (size_t)cols * sizeof *x;
        size_t bytes = (size_t)dtype_row_bytes(DTYPE_W8, cols);
        char *row = calloc(1, bytes);
        scale = w8_quantize_row(x, cols, (int8_t *)row);
        if (isnan(scale)) {
            float expected;
            memcpy(&expected, golden + at + w8_scale_offset(cols), sizeof expected);
            assert_true(isnan(expected));
            scale = expected; // any NaN will do
        }
        memcpy(row + w8_scale_offset(cols), &scale, sizeof scale);
        assert_memory_equal(row, golden + at, bytes);
        at += bytes;
        free(row);
        free(x);
    }
    assert_int_equal(at, size);
    assert_int_equal(n_rows, 31);
    free(golden);
}

static void a_nan_is_seen_wherever_it_stands(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++) {
        float x[5] = {1, -2, 3, -4, 5};
        int8_t q[5];
        x[i] = NAN;
        assert_true(isnan(w8_quantize_row(x, 5, q)));
        for (int j = 0; j < 5; j++) assert_int_equal(q[j], 0);
    }
}

static void rows_are_as_long_as_the_format_says(void **state) {
    (void)state;
    assert_string_equal(dtype_name(DTYPE_W8), "w8");
    assert_int_equal(dtype_block_size(DTYPE_W8), 1);
    assert_int_equal(dtype_alignment(DTYPE_W8), 16);
    assert_int_equal(dtype_row_bytes(DTYPE_W8, 0), 16);
    assert_int_equal(dtype_row_bytes(DTYPE_W8, 1), 32);
    assert_int_equal(dtype_row_bytes(DTYPE_W8, 16), 32);
    assert_int_equal(dtype_row_bytes(DTYPE_W8, 17), 48);
    assert_int_equal(dtype_row_bytes(DTYPE_W8, 4096), 4112);
    assert_int_equal(dtype_row_bytes(DTYPE_W8, -1), -1);
    // The longest sum of the largest products is still an int32, a longer one is not.
    assert_true((int64_t)W8_MAX_COLS * 127 * 127 <= INT32_MAX);
    assert_true(((int64_t)W8_MAX_COLS + 1) * 127 * 127 > INT32_MAX);
    assert_true(dtype_row_bytes(DTYPE_W8, W8_MAX_COLS) > 0);
    assert_int_equal(dtype_row_bytes(DTYPE_W8, W8_MAX_COLS + 1), -1);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_equal_numpy),
        cmocka_unit_test(a_nan_is_seen_wherever_it_stands),
        cmocka_unit_test(rows_are_as_long_as_the_format_says),
    };
    return test_main("w8", argc, argv, tests);
}
