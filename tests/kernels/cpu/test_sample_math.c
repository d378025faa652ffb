// The numbers below sampling: Philox against known ones, weights, the order of tokens, weighted selection.
#include "tests/support/test.h"
#include "tests/support/kernels/sample_reference.h"
#include "kernels/cpu/sample/select.h"
#include "kernels/sample_math.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

// Random123's tests/kat_vectors, lines "philox4x32 10".
static void philox_known_answers(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        PhiloxCounter counter;
        memcpy(counter.word, known[i].counter, sizeof counter.word);
        counter = philox4x32_10(counter, known[i].key[0], known[i].key[1]);
        assert_memory_equal(counter.word, known[i].want, sizeof counter.word);
    }
}

// cuRAND 10.4.0 (CUDA 13.0): curand() and curand_uniform() after curand_init(seed, subsequence, offset,
// &state), from curand_kernel.h compiled for the host (its __device__ defined away).
static void philox_equals_curand(void **state) {
    (void)state;
    static const struct {
        uint64_t seed, subsequence, offset;
        uint32_t bits;
        float uniform;
    } known[] = {
        {0x0, 0x0, 0x0, 0x6627e8d5, 0x1.989fa4p-2f},
        {0x4d2, 0x0, 0x0, 0x2090b348, 0x1.04859ap-3f},
        {0x4d2, 0x0, 0x4, 0x9eeede35, 0x1.3dddbcp-1f},
        {0x4d2, 0x0, 0x7, 0x147edd50, 0x1.47edd4p-4f},
        {0x4d2, 0x5, 0x190, 0x3e39a5e2, 0x1.f1cd3p-3f},
        {0xdeadbeefcafebabe, 0x123456789abcdef0, 0x261d950c84, 0x1cee5d08, 0x1.cee5dp-4f},
        {0xffffffffffffffff, 0xffffffffffffffff, 0xfffffffffffffffc, 0x8c5f4338, 0x1.18be86p-1f},
        {0x2a, 0x1, 0x0, 0x02933769, 0x1.499bb4p-7f},
        {0x2a, 0x1, 0xfa0, 0x8215356a, 0x1.042a6ap-1f},
        {0x7, 0x3, 0x400000, 0x7561ec5c, 0x1.d587b2p-2f},
        {0x1, 0x0, 4 * 27392119, 0xffffffe4, 1},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_int_equal(philox_bits(known[i].seed, known[i].subsequence, known[i].offset), known[i].bits);
        assert_true(philox_uniform(known[i].seed, known[i].subsequence, known[i].offset) == known[i].uniform);
    }
    assert_true(sample_uniform(7, 3, 0x100000) == 0x1.d587b2p-2f);
}

static void weights_are_powers_of_two(void **state) {
    (void)state;
    uint64_t last = UINT64_MAX;
    assert_true(sample_weight(0) == (uint64_t)1 << 42);
    assert_true(sample_weight((uint32_t)42 << SAMPLE_DISTANCE_BITS) == 1);
    assert_true(sample_weight((uint32_t)44 << SAMPLE_DISTANCE_BITS) == 0);
    assert_true(sample_weight(SAMPLE_DISTANCE_LIMIT) == 0);
    for (uint32_t d = 0; d < SAMPLE_DISTANCE_LIMIT; d += 16411) {
        double want = exp2(42 - d * 0x1p-25);
        assert_true(fabs((double)sample_weight(d) - want) <= 0.5 + 3e-9 * want);
        assert_true(sample_weight(d) <= last);
        last = sample_weight(d);
    }
}

static void keys_are_in_the_order_of_logits(void **state) {
    (void)state;
    static const float up[] = {-INFINITY, -FLT_MAX,  -1, -FLT_MIN, -0x1p-149f,
                               0,         0x1p-149f, 1,  FLT_MAX,  INFINITY};
    int n = sizeof up / sizeof *up;
    for (int i = 0; i < n; i++) {
        assert_true(sample_logit(sample_key(up[i])) == up[i]);
        assert_int_equal(sample_order_id(sample_order(sample_key(up[i]), i)), i);
        assert_int_equal(sample_order_key(sample_order(sample_key(up[i]), i)), sample_key(up[i]));
        for (int k = 0; k < i; k++)
            assert_true(sample_order(sample_key(up[k]), k) < sample_order(sample_key(up[i]), i));
    }
    assert_int_equal(sample_key(-0.0f), sample_key(0));
    assert_true(sample_order(5, 1) > sample_order(5, 2));
}

static void selection_finds_the_place(void **state) {
    Fixture *f = *state;
    Candidate c[300];
    for (int i = 0; i < 3000; i++) {
        int n = 1 + random_below(f, 300);
        uint64_t total = 0, sum = 0;
        for (int k = 0; k < n; k++) {
            uint64_t order = (uint64_t)random_below(f, 9) << 32 | (uint32_t)(k * 7 % 300);
            c[k] = (Candidate){order, (uint64_t)random_below(f, 4), (uint32_t)random_below(f, i % 3 ? 1 : 5)};
            if (i % 5 == 0) c[k].order = (uint64_t)(i % 2 ? k : n - k); // in order of arrival, or against it
            total += c[k].weight;
        }
        if (total == 0) continue;
        uint64_t target = 1 + (uint64_t)(random_unit(f) * (double)total);
        int place = select_mass(c, n, target);
        assert_in_range(place, 1, n);
        Candidate at = c[place - 1];
        for (int k = 0; k < n; k++) {
            bool before = c[k].rank != at.rank ? c[k].rank < at.rank : c[k].order > at.order;
            assert_int_equal(before, k < place - 1);
            if (k < place - 1) sum += c[k].weight;
        }
        assert_true(sum < target && target <= sum + at.weight);
    }
}

#define test(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        test(philox_known_answers),      test(philox_equals_curand),
        test(weights_are_powers_of_two), test(keys_are_in_the_order_of_logits),
        test(selection_finds_the_place),
    };
    return test_main("sample_math", argc, argv, tests);
}
