// What follows from measured times: the best way, and the row of a table that comes closest to it everywhere.
#include "tests/support/test.h"
#include "engine/tuning/tuning.h"

static const LinearShape SHAPE = {12288, 4096, DTYPE_Q4_0};
enum { COUNTS = 8 };
static const int ROWS[COUNTS] = {1, 2, 4, 5, 8, 16, 64, 128};

// Microseconds of GEMV (0: none), flat and library for each of ROWS.
static DispatchRow row_beyond(const double times[COUNTS][3], int beyond) {
    TuningTimes all[COUNTS];
    for (int i = 0; i < COUNTS; i++)
        all[i] = (TuningTimes){.seconds = {0, 1e-6 * times[i][0], 1e-6 * times[i][1], 1e-6 * times[i][2]}};
    return tuning_row(&SHAPE, ROWS, all, COUNTS, beyond);
}

static DispatchRow row_of(const double times[COUNTS][3]) {
    return row_beyond(times, 0);
}

static void points_are_where_another_way_is_faster(void **state) {
    (void)state;
    static const double TIMES[COUNTS][3] = {{10, 20, 50}, {15, 20, 50}, {30, 20, 50}, {0, 20, 50},
                                            {0, 21, 50},  {0, 30, 50},  {0, 60, 52},  {0, 99, 60}};
    DispatchRow row = row_of(TIMES);
    assert_int_equal(row.n_out, 12288);
    assert_int_equal(row.n_in, 4096);
    assert_int_equal(row.type, DTYPE_Q4_0);
    assert_in_range(row.flat_from, 3, 4); // nothing was measured between
    assert_int_equal(row.library_from, 64);
}

static void a_way_that_is_never_best_gets_no_rows(void **state) {
    (void)state;
    static const double LIBRARY[COUNTS][3] = {{10, 9, 8}, {10, 9, 8}, {10, 9, 8}, {0, 9, 8},
                                              {0, 9, 8},  {0, 9, 8},  {0, 9, 8},  {0, 9, 8}};
    static const double FLAT[COUNTS][3] = {{10, 9, 18}, {10, 9, 18}, {10, 9, 18}, {0, 9, 18},
                                           {0, 9, 18},  {0, 9, 18},  {0, 9, 18},  {0, 9, 18}};
    static const double NO_FLAT[COUNTS][3] = {{10, 0, 18}, {10, 0, 18}, {20, 0, 18}, {0, 0, 18},
                                              {0, 0, 18},  {0, 0, 18},  {0, 0, 18},  {0, 0, 18}};
    DispatchRow row = row_of(LIBRARY);
    assert_int_equal(row.flat_from, 1);
    assert_int_equal(row.library_from, 1);
    row = row_of(FLAT);
    assert_int_equal(row.flat_from, 1);
    assert_int_equal(row.library_from, 129);
    assert_int_equal(row_beyond(FLAT, 193).library_from,
                     193); // as the built-in table has it, where nothing was measured
    assert_int_equal(row_beyond(FLAT, 65).library_from, 129);
    assert_int_equal(row_beyond(LIBRARY, 193).library_from, 1);
    row = row_of(NO_FLAT); // float32
    assert_in_range(row.flat_from, 3, 4);
    assert_in_range(row.library_from, row.flat_from, 4);
}

// Times that cross more than once: what is lost in all is least.
static void disorder_costs_least(void **state) {
    (void)state;
    static const double TIMES[COUNTS][3] = {{10, 11, 50}, {15, 14, 50}, {14, 30, 50}, {0, 20, 50},
                                            {0, 21, 20},  {0, 30, 50},  {0, 60, 52},  {0, 99, 60}};
    DispatchRow row = row_of(TIMES);
    assert_int_equal(row.flat_from, 5);
    assert_int_equal(row.library_from, 64);
}

static void excess_is_over_the_best(void **state) {
    (void)state;
    TuningTimes t = {.seconds = {0, 0, 2, 3}, .choice = LINEAR_LIBRARY};
    assert_int_equal(tuning_best(&t), LINEAR_FLAT);
    assert_true(tuning_excess(&t, LINEAR_LIBRARY) == 1.5);
    assert_true(tuning_excess(&t, LINEAR_FLAT) == 1);
    t.seconds[LINEAR_GEMV] = 1;
    assert_int_equal(tuning_best(&t), LINEAR_GEMV);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_are_where_another_way_is_faster),
        cmocka_unit_test(a_way_that_is_never_best_gets_no_rows),
        cmocka_unit_test(disorder_costs_least),
        cmocka_unit_test(excess_is_over_the_best),
    };
    return test_main("tuning", argc, argv, tests);
}
