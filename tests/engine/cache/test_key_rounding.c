// How int4 keys are rounded: what the formulas give for sizes that are all the same, that differ, that are no numbers,
// and that the error of dot products gets smaller.
#include "engine/cache/key_rounding.h"
#include "kernels/cpu/cache/kv.h"
#include "tests/support/kernels/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIM = 128, SIZE = 128, FEEDBACK = DIM * SIZE / 4, KEYS = 400 };

static DecoderShape shape_of(RopeKind kind, int rotary_dim) {
    return (DecoderShape){.n_layers = 1,
                          .n_heads = 1,
                          .n_kv_heads = 1,
                          .head_dim = DIM,
                          .rope = {.kind = kind, .rotary_dim = rotary_dim}};
}

// Mean squares that span three decades, most where `falling` says.
static void fill_sizes(const DecoderShape *s, bool falling, double *sizes) {
    for (int d = 0; d < DIM; d++) {
        int pair = s->rope.kind == ROPE_INTERLEAVED ? d / 2 : d % (DIM / 2);
        int steps = falling ? DIM / 2 - pair : pair;
        sizes[d] = pow(10, 6.0 * steps / DIM);
    }
}

static float gauss(uint64_t *seed) {
    float sum = 0;
    for (int i = 0; i < 12; i++) sum += random_float(seed);
    return sum / 2;
}

// Mean square of q·(key − key as stored).
static double dot_error(const KvLayer *kv, const double *keys, const double *queries) {
    uint64_t seed = 11;
    double sum = 0;
    for (int n = 0; n < KEYS; n++) {
        float key[DIM], row[DIM];
        double error = 0;
        for (int d = 0; d < DIM; d++) key[d] = row[d] = gauss(&seed) * (float)sqrt(keys[d]);
        kv_store(loops_reference(), kv, &(KvRow){KV_KEYS, 0, 0, DIM}, row);
        kv_load_key(kv, 0, 0, DIM, row);
        for (int d = 0; d < DIM; d++) error += (double)(gauss(&seed) * (key[d] - row[d])) * sqrt(queries[d]);
        sum += error * error / KEYS;
    }
    return sum;
}

static void errors_of_dot_products_get_smaller(void **state) {
    (void)state;
    static float balance[DIM], feedback[FEEDBACK];
    for (int i = 0; i < 8; i++) {
        const DecoderShape s = shape_of(i % 2 ? ROPE_INTERLEAVED : ROPE_HALF_SPLIT, DIM);
        double keys[DIM], queries[DIM];
        uint8_t bytes[DIM];
        float scales[DIM];
        fill_sizes(&s, i / 2 % 2, keys);
        fill_sizes(&s, i / 4 % 2, queries);
        KvLayer kv = {.type = DTYPE_INT4,
                      .k = bytes,
                      .v = bytes,
                      .slot_stride = DIM,
                      .head_stride = DIM,
                      .group = 16,
                      .k_scale = scales,
                      .v_scale = scales,
                      .rotate_keys = true};
        double plain = dot_error(&kv, keys, queries);
        key_rounding_of_head(&s, keys, queries, balance, feedback);
        kv.key_balance = balance, kv.key_feedback = feedback, kv.key_pairs = s.rope.kind;
        double better = dot_error(&kv, keys, queries);
        if (!(better < 0.5 * plain)) fail_msg("case %d: %g, plain %g", i, better, plain);
    }
}

static void pairs_have_one_balance(void **state) {
    (void)state;
    static float balance[DIM], feedback[FEEDBACK];
    for (int i = 0; i < 4; i++) {
        const DecoderShape s = shape_of(i % 2 ? ROPE_INTERLEAVED : ROPE_HALF_SPLIT, i / 2 ? DIM : 20);
        double sizes[DIM];
        uint64_t seed = 3;
        for (int d = 0; d < DIM; d++) sizes[d] = 2 + (double)random_float(&seed);
        key_rounding_of_head(&s, sizes, sizes, balance, feedback);
        for (int d = 0; d < s.rope.rotary_dim; d++) {
            int half = s.rope.rotary_dim / 2, other = i % 2 ? d ^ 1 : d < half ? d + half : d - half;
            assert_true(balance[d] == balance[other] && balance[d] > 0);
        }
        assert_true(balance[DIM - 1] != balance[DIM - 2] || i >= 2);
    }
}

// Also where sizes are no positive numbers: a layer whose keys are zero, or overflow, is rounded as without.
static void equal_sizes_round_plainly(void **state) {
    (void)state;
    static float balance[DIM], feedback[FEEDBACK];
    static const double BAD[] = {1, 7, 0, -1, NAN, INFINITY};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        const DecoderShape s = shape_of(ROPE_HALF_SPLIT, DIM);
        double sizes[DIM];
        for (int d = 0; d < DIM; d++) sizes[d] = i < 2 ? BAD[i] : d + 1;
        if (i >= 2) sizes[5] = sizes[5 + DIM / 2] = BAD[i];
        memset(feedback, 0xff, sizeof feedback);
        key_rounding_of_head(&s, sizes, sizes, balance, feedback);
        for (int d = 0; d < DIM; d++) assert_near("balance", d, (double)balance[d], 1, 1e-6);
        for (int j = 0; j < FEEDBACK; j++) assert_near("feedback", j, (double)feedback[j], 0, 1e-6);
    }
}

static void some_heads_do_without(void **state) {
    (void)state;
    DecoderShape s = shape_of(ROPE_HALF_SPLIT, 2);
    assert_int_equal(key_rounding_bytes(&s), 4 * (DIM + FEEDBACK));
    s.head_dim = 6;
    assert_int_equal(key_rounding_bytes(&s), 0);
    s.head_dim = 512;
    assert_false(key_rounding_suits(s.head_dim));
    assert_true(key_rounding_suits(80));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_of_dot_products_get_smaller),
        cmocka_unit_test(pairs_have_one_balance),
        cmocka_unit_test(equal_sizes_round_plainly),
        cmocka_unit_test(some_heads_do_without),
    };
    return test_main("key_rounding", argc, argv, tests);
}
