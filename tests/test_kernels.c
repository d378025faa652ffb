// The CPU backend: block formats against golden data, loops against each other, ops against formulas.
#include "tests/test.h"
#include "kernels/cpu/quant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- element types ---------------------------------------------------------------------------------------

static void *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    void *bytes = malloc(*size);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

// Every type's values equal the gguf package's, bit by bit, at every alignment.
static void dequantize_equals_gguf(void **state) {
    (void)state;
    size_t size, at = 0;
    unsigned seen = 0;
    char *golden = read_file("tests/golden/kernels_dequant.bin", &size);
    while (at < size) {
        int32_t head[3]; // type, elements, bytes
        memcpy(head, golden + at, sizeof head);
        at += sizeof head;
        assert_int_equal(dtype_row_bytes(head[0], head[1]), head[2]);
        char *row = malloc((size_t)head[2] + 1);
        memcpy(row + 1, golden + at, (size_t)head[2]);
        at += (size_t)head[2];
        float *values = malloc((size_t)head[1] * sizeof *values);
        dequantize(head[0], row + 1, 0, head[1], values);
        for (int i = 0; i < head[1]; i++)
            if (memcmp(&values[i], golden + at + (size_t)i * 4, 4) != 0) {
                float expected;
                memcpy(&expected, golden + at + (size_t)i * 4, 4);
                fail_msg("%s, element %d: %a, expected %a", dtype_name(head[0]), i, values[i], expected);
            }
        at += (size_t)head[1] * 4;
        seen |= 1u << head[0];
        free(values);
        free(row);
    }
    assert_int_equal(seen, (1u << DTYPE_COUNT) - 1);
    free(golden);
}

static void halves_round_trip(void **state) {
    (void)state;
    for (unsigned h = 0; h < 0x10000; h++) {
        float value = half_to_float((uint16_t)h);
        if (isnan(value))
            assert_true(isnan(half_to_float(float_to_half(value))));
        else
            assert_int_equal(float_to_half(value), h);
    }
    assert_int_equal(float_to_half(65519.996f), 0x7bff);
    assert_int_equal(float_to_half(65520), 0x7c00);
    assert_int_equal(float_to_half(1 + 0x1p-11f), 0x3c00); // halfway: to even
    assert_int_equal(float_to_half(1 + 0x3p-11f), 0x3c02);
    assert_int_equal(float_to_half(0x1p-25f), 0);
    assert_int_equal(float_to_half(0x1.8p-24f), 2);
    assert_int_equal(float_to_half(-0x1.002p-25f), 0x8001);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dequantize_equals_gguf),
        cmocka_unit_test(halves_round_trip),
    };
    return test_main("kernels", argc, argv, tests);
}
