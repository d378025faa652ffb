// Weights that are made up for measuring are of sane sizes in every type: through fifty layers nothing overflows 16 bits.
#include "kernels/cpu/loops/quant.h"
#include "kernels/cpu/weights/made_up.h"
#include "tests/support/kernels/random.h"
#include "tests/support/test.h"

#include <math.h>

enum { ROWS = 64, COLS = 2048 };

static void sizes_are_sane_in_every_type(void **state) {
    (void)state;
    static float row[COLS];
    Threads *threads;
    Error error;
    MadeUp *made = NULL;
    int n_types = 0;
    assert_ok(threads_open(1, &threads, &error), &error);
    for (DType type = DTYPE_F32; type < DTYPE_COUNT; type++) {
        Matrix m = {.type = type, .rows = ROWS, .cols = COLS, .data = row};
        if (type > DTYPE_BF16 && !quant_is_type(type)) continue;
        assert_ok(made_up_matrices(&m, 1, threads, &made, &error), &error);
        double squares = 0, most = 0;
        for (int64_t r = 0; r < ROWS; r++) {
            const char *data = (const char *)m.data + r * dtype_row_bytes(type, COLS);
            quant_load(type, data, 0, COLS, row);
            for (int i = 0; i < COLS; i++) {
                squares += (double)row[i] * (double)row[i];
                most = fmax(most, fabs((double)row[i]));
            }
        }
        const double usual = sqrt(squares / (ROWS * COLS));
        if (!(usual > 1e-4 && usual < 0.6 && most < 2))
            fail_msg("%s: %g, the largest %g", dtype_name(type), usual, most);
        n_types++;
    }
    assert_true(n_types > 12);
    made_up_free(made);
    threads_close(threads);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes_are_sane_in_every_type)};
    return test_main("made_up", argc, argv, tests);
}
