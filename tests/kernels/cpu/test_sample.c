// Each filter, the draw and the whole chain against the plain reference, and chi-square tests of what is drawn.
#include "tests/support/test.h"
#include "tests/support/kernels/sample_reference.h"
#include "kernels/sample_math.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static int32_t token_at(const Token *t, int n, double u) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += t[i].p;
        if (fabs(sum - u) < 1e-6) return -1; // rounding decides
        if (sum >= u) return t[i].id;
    }
    return t[n - 1].id;
}

// Returns false if the row says nothing because rounding decides.
static bool compare(Fixture *f, int n, SampleParams *params) {
    Error error = {0};
    int count, kept = reference(f->logits, n, params, f->tokens);
    if (kept < 0) return false;
    Status status =
        sample_candidates(&(SampleRow){f->logits, n, f->scratch}, params, n, f->candidates, &count, &error);
    if (status != STATUS_OK) fail_msg("%s", error.message);
    assert_in_range(kept, 1, count);
    int k = 0;
    double sum = 0;
    for (int i = 0; i < count; i++) {
        bool left = k < kept && f->tokens[k].id == f->candidates[i].id;
        double want = left ? f->tokens[k++].p : 0, got = f->candidates[i].final;
        if (!(fabs(got - want) <= 1e-12 + 3e-7 * want) || (got > 0 && !left))
            fail_msg("token %d of %d: probability %.12g, not %.12g", f->candidates[i].id, n, got, want);
        sum += got;
    }
    assert_int_equal(k, kept);
    assert_true(fabs(sum - 1) < 1e-9);
    for (int i = 0; i < 8; i++) {
        params->position = random_bits(f);
        double u = (double)sample_uniform(params->seed, params->conversation, params->position);
        int32_t want = params->temperature == 0 ? f->tokens[0].id : token_at(f->tokens, kept, u);
        if (want >= 0) assert_int_equal(draw(f, n, params), want);
    }
    return true;
}

static void compare_many(Fixture *f, void (*vary)(Fixture *f, SampleParams *params, int n)) {
    int told = 0, rows = 0;
    static const int sizes[] = {1, 2, 3, 16, 17, 63, 64, 65, 200, 1000, 5000, MAX_VOCAB};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (int i = 0; i < (sizes[s] > 1000 ? 3 : 30); i++, rows++) {
            SampleParams params = plain_params();
            params.seed = random_bits(f);
            params.conversation = random_bits(f);
            random_row(f, sizes[s]);
            vary(f, &params, sizes[s]);
            told += compare(f, sizes[s], &params);
        }
    }
    assert_in_range(told, rows * 7 / 10, rows);
}

static void vary_nothing(Fixture *f, SampleParams *params, int n) {
    (void)f, (void)params, (void)n;
}
static void vary_top_k(Fixture *f, SampleParams *params, int n) {
    params->top_k = random_below(f, n + 2);
}
static void vary_top_p(Fixture *f, SampleParams *params, int n) {
    (void)n;
    params->top_p = (float)random_unit(f);
}
static void vary_min_p(Fixture *f, SampleParams *params, int n) {
    (void)n;
    params->min_p = (float)pow(random_unit(f), 3);
}
static void vary_typical(Fixture *f, SampleParams *params, int n) {
    (void)n;
    params->typical_p = (float)random_unit(f);
}
static void vary_temperature(Fixture *f, SampleParams *params, int n) {
    (void)n;
    params->temperature = (float)(4 * random_unit(f));
}
static void no_filter_is_softmax(void **state) {
    compare_many(*state, vary_nothing);
}
static void top_k_as_the_reference(void **state) {
    compare_many(*state, vary_top_k);
}
static void top_p_as_the_reference(void **state) {
    compare_many(*state, vary_top_p);
}
static void min_p_as_the_reference(void **state) {
    compare_many(*state, vary_min_p);
}
static void typical_p_as_the_reference(void **state) {
    compare_many(*state, vary_typical);
}
static void temperature_as_the_reference(void **state) {
    compare_many(*state, vary_temperature);
}
static void whole_chain_as_the_reference(void **state) {
    compare_many(*state, random_params);
}

static void adjustments_as_the_reference(void **state) {
    Fixture *f = *state;
    for (int i = 0; i < 200; i++) {
        LogitAdjustment a[40];
        int n = 20 + random_below(f, 300), n_adjustments = random_below(f, 20);
        random_row(f, n);
        for (int k = 0; k < n_adjustments; k++) {
            a[k] =
                (LogitAdjustment){k * n / 20, (float)(0.5 + random_unit(f)), (float)(3 * random_normal(f))};
            if (!random_below(f, 4)) a[k].subtract = INFINITY;
        }
        SampleParams params = plain_params();
        random_params(f, &params, n);
        params.adjustments = a;
        params.n_adjustments = n_adjustments;
        f->logits[n - 1] = 2;
        compare(f, n, &params);
    }
}

// ---- distributions -------------------------------------------------------------------------------------

// Pearson's statistic of n_draws draws at consecutive positions against the reference; every draw must be
// possible.
static double chi_square(Fixture *f, int n_vocab, SampleParams *params, int n_draws, int *kept) {
    int *counts = calloc((size_t)n_vocab, sizeof *counts);
    assert_non_null(counts);
    *kept = reference(f->logits, n_vocab, params, f->tokens);
    assert_true(*kept > 1);
    for (int i = 0; i < n_draws; i++) {
        params->position = (uint64_t)i;
        counts[draw(f, n_vocab, params)]++;
    }
    double sum = 0;
    int seen = 0;
    for (int i = 0; i < *kept; i++) {
        double want = f->tokens[i].p * n_draws;
        assert_true(want > 5);
        sum += (counts[f->tokens[i].id] - want) * (counts[f->tokens[i].id] - want) / want;
        seen += counts[f->tokens[i].id];
    }
    assert_int_equal(seen, n_draws);
    free(counts);
    return sum;
}

// The value that chi-square with `df` degrees of freedom exceeds once in 10,000 (Wilson and Hilferty, 1931,
// within 1% for df >= 3; z = 3.719).
static double critical(int df) {
    double v = 2.0 / (9.0 * df);
    return df * pow(1 - v + 3.719 * sqrt(v), 3);
}

// Draws must not favour the token at the edge of the nucleus, nor starve it: .6 and .3 of .6, .3, .1 become
// 2/3, 1/3.
static void top_p_renormalises(void **state) {
    Fixture *f = *state;
    f->logits[0] = logf(0.3f), f->logits[1] = logf(0.1f), f->logits[2] = logf(0.6f);
    SampleParams params = plain_params();
    params.top_p = 0.7f;
    params.seed = 99;
    int kept;
    double statistic = chi_square(f, 3, &params, 200000, &kept);
    assert_int_equal(kept, 2);
    assert_true(fabs(f->tokens[0].p - 2.0 / 3) < 1e-6 && f->tokens[0].id == 2);
    assert_true(statistic < 15.137); // 1 degree of freedom, once in 10,000
    // the same count with u·p instead of u: 6/7 and 1/7, which the test would notice
    assert_true(200000 * (1 / 7.0 - 1 / 3.0) * (1 / 7.0 - 1 / 3.0) / (1 / 3.0) > 15.137);
}

static void top_p_is_chi_square(void **state) {
    Fixture *f = *state;
    SampleParams params = plain_params();
    for (int i = 0; i < 60; i++) f->logits[i * 7 % 60] = 3 - 0.1f * (float)i;
    params.top_p = 0.8f;
    params.seed = 5;
    params.conversation = 3;
    int kept;
    double statistic = chi_square(f, 60, &params, 150000, &kept);
    assert_in_range(kept, 10, 30);
    assert_true(statistic < critical(kept - 1));
}

static void whole_chain_is_chi_square(void **state) {
    Fixture *f = *state;
    LogitAdjustment a[] = {{3, 1.3f, 0}, {17, 1, -1.5f}, {21, 1, INFINITY}, {30, 1.2f, 0.7f}};
    SampleParams params = {
        .temperature = 1.3f, .top_p = 0.9f, .min_p = 0.03f, .typical_p = 0.95f, .top_k = 30};
    params.adjustments = a;
    params.n_adjustments = 4;
    for (uint64_t seed = 0; seed < 3; seed++) {
        for (int i = 0; i < 100; i++) f->logits[i] = (float)random_normal(f) * 1.5f;
        params.seed = seed;
        params.conversation = 77;
        int kept;
        double statistic = chi_square(f, 100, &params, 120000, &kept);
        assert_in_range(kept, 5, 30);
        assert_true(statistic < critical(kept - 1));
    }
}

// Consecutive positions, conversations and seeds are independent draws: pairs of them fill a 4 × 4 table
// evenly.
static void draws_are_independent(void **state) {
    Fixture *f = *state;
    for (int i = 0; i < 4; i++) f->logits[i] = 0;
    for (int axis = 0; axis < 3; axis++) {
        int counts[16] = {0}, last = 0, n = 100000;
        for (int i = 0; i <= n; i++) {
            SampleParams params = plain_params();
            *(axis == 0 ? &params.position : axis == 1 ? &params.conversation : &params.seed) = (uint64_t)i;
            int id = draw(f, 4, &params);
            if (i > 0) counts[4 * last + id]++;
            last = id;
        }
        double sum = 0;
        for (int i = 0; i < 16; i++) sum += (counts[i] - n / 16.0) * (counts[i] - n / 16.0) / (n / 16.0);
        assert_true(sum < critical(15));
    }
}

#define test(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        test(no_filter_is_softmax),         test(top_k_as_the_reference),
        test(top_p_as_the_reference),       test(min_p_as_the_reference),
        test(typical_p_as_the_reference),   test(temperature_as_the_reference),
        test(whole_chain_as_the_reference), test(adjustments_as_the_reference),
        test(top_p_renormalises),           test(top_p_is_chi_square),
        test(whole_chain_is_chi_square),    test(draws_are_independent),
    };
    return test_main("sample", argc, argv, tests);
}
