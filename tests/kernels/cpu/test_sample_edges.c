// Sampling at its edges: ties, the last random number, cold and hot, infinities, errors; and what /top shows.
#include "tests/support/test.h"
#include "tests/support/kernels/sample_reference.h"
#include "kernels/sample_math.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// u = 1 falls on the last token that is left, of this row's own set.
static void the_last_number_takes_the_last_token(void **state) {
    Fixture *f = *state;
    SampleParams params = plain_params();
    params.seed = 1;
    params.position = 27392119; // u is exactly 1, see philox_equals_curand
    f->logits[0] = logf(0.1f), f->logits[1] = logf(0.3f), f->logits[2] = logf(0.6f);
    assert_int_equal(draw(f, 3, &params), 0);
    params.top_p = 0.7f;
    assert_int_equal(draw(f, 3, &params), 1);
    params.top_p = 0.5f;
    assert_int_equal(draw(f, 3, &params), 2);
    for (int i = 0; i < 1000; i++) f->logits[i] = 1; // all equal: the last by id
    params.top_p = 1;
    assert_int_equal(draw(f, 1000, &params), 999);
    params.top_k = 40;
    assert_int_equal(draw(f, 1000, &params), 39);
    params.top_p = 0.5f;
    assert_int_equal(draw(f, 1000, &params), 19);
    f->logits[700] = 60; // the others weigh nothing beside it
    params.top_p = 1;
    assert_int_equal(draw(f, 1000, &params), 700);
}

static void greedy_takes_the_lowest_of_equals(void **state) {
    Fixture *f = *state;
    SampleParams params = plain_params();
    params.temperature = 0;
    params.typical_p = 0.2f;
    for (int i = 0; i < 500; i++) f->logits[i] = -3;
    f->logits[130] = f->logits[70] = f->logits[499] = 2;
    assert_int_equal(draw(f, 500, &params), 70);
    f->logits[70] = -0.0f, f->logits[130] = 0, f->logits[499] = 0;
    assert_int_equal(draw(f, 500, &params), 70);
    f->logits[0] = f->logits[70] = -INFINITY;
    assert_int_equal(draw(f, 500, &params), 130);
    LogitAdjustment a[] = {{130, 1, INFINITY}, {499, 1, 5}, {4, 1.5f, 0}, {0, 1, -9}};
    params.adjustments = a;
    params.n_adjustments = 3;
    assert_int_equal(draw(f, 500, &params), 1);
    params.n_adjustments = 4; // −∞ stays −∞
    assert_int_equal(draw(f, 500, &params), 1);
}

static void cold_is_greedy_at_last(void **state) {
    Fixture *f = *state;
    static const float cold[] = {1e-3f, 1e-6f, 1e-20f, FLT_MIN, 0x1p-149f};
    for (int i = 0; i < 200; i++) {
        int n = 1 + random_below(f, 300);
        random_row(f, n);
        f->logits[random_below(f, n)] = 30;
        SampleParams params = plain_params();
        params.position = random_bits(f);
        params.top_k = random_below(f, 2) ? 40 : 0;
        for (int k = 0; k < 5; k++) {
            params.temperature = cold[k];
            int32_t id = draw(f, n, &params);
            params.temperature = 0;
            assert_int_equal(id, draw(f, n, &params));
        }
    }
    // equals stay equal, however cold
    SampleParams params = plain_params();
    params.temperature = FLT_MIN;
    f->logits[0] = f->logits[1] = 3, f->logits[2] = 2.999999f;
    int counts[3] = {0};
    for (int i = 0; i < 1000; i++, params.position++) counts[draw(f, 3, &params)]++;
    assert_int_equal(counts[2], 0);
    assert_in_range(counts[0], 400, 600);
}

static void hot_is_uniform_at_last(void **state) {
    Fixture *f = *state;
    SampleParams params = plain_params();
    params.temperature = FLT_MAX;
    int counts[4] = {0};
    f->logits[0] = -FLT_MAX / 1e10f, f->logits[1] = 50, f->logits[2] = 0, f->logits[3] = -INFINITY;
    for (int i = 0; i < 3000; i++, params.position++) counts[draw(f, 4, &params)]++;
    for (int i = 0; i < 3; i++) assert_in_range(counts[i], 850, 1150);
    assert_int_equal(counts[3], 0);
}

static void min_p_of_one_keeps_the_largest(void **state) {
    Fixture *f = *state;
    for (int i = 0; i < 300; i++) f->logits[i] = -(float)i;
    f->logits[200] = 0;
    for (int k = 0; k < 2; k++) {
        int counts[300] = {0};
        SampleParams params = plain_params();
        params.min_p = 1;
        params.top_k = 40 * k;
        for (int i = 0; i < 100; i++, params.position++) counts[draw(f, 300, &params)]++;
        assert_int_equal(counts[0] + counts[200], 100);
        assert_in_range(counts[0], 30, 70);
    }
}

static void infinite_logits(void **state) {
    Fixture *f = *state;
    SampleParams params = plain_params();
    int counts[200] = {0};
    for (int i = 0; i < 200; i++) f->logits[i] = i % 2 ? FLT_MAX : -FLT_MAX;
    f->logits[50] = f->logits[150] = INFINITY;
    for (int i = 0; i < 1000; i++) {
        params = plain_params();
        params.position = (uint64_t)i;
        random_params(f, &params, 200);
        params.top_k = i % 2 ? 40 : 0;
        params.top_p = params.typical_p = 1;
        counts[draw(f, 200, &params)]++;
    }
    assert_int_equal(counts[50] + counts[150], 1000);
    assert_in_range(counts[150], 350, 500); // greedy takes 50
    LogitAdjustment a[] = {{50, 1, INFINITY}, {150, 2, 1e30f}};
    params.adjustments = a;
    params.n_adjustments = 2;
    for (int i = 0; i < 20; i++, params.position++) assert_int_equal(draw(f, 200, &params), 150);
    f->logits[150] = 0;
    params.temperature = 1;
    for (int i = 0; i < 20; i++, params.position++) assert_int_equal(draw(f, 200, &params) % 2, 1);
}

static void expect(Fixture *f, int n, const SampleParams *params, Status want, const char *part) {
    Error error = {0};
    int32_t id = -7;
    assert_int_equal(sample_logits(f->logits, n, f->scratch, params, &id, &error), want);
    if (!strstr(error.message, part)) fail_msg("'%s' is not in '%s'", part, error.message);
    int32_t instead = want != STATUS_DEVICE ? -7 : strstr(part, "none") ? SAMPLE_NOTHING : SAMPLE_NAN;
    assert_int_equal(id, instead);
}

static void not_a_number_is_an_error(void **state) {
    Fixture *f = *state;
    static const int places[] = {0, 1, 63, 64, 100, 149};
    static const float temperatures[] = {0, 1};
    for (int i = 0; i < 24; i++) {
        for (int k = 0; k < 150; k++) f->logits[k] = 1;
        int place = places[i % 6];
        char part[30];
        f->logits[place] = i / 6 % 2 ? NAN : -NAN;
        if (place < 100) f->logits[149] = NAN; // the first is told
        snprintf(part, sizeof part, "token %d is not a number", place);
        SampleParams params = plain_params();
        params.temperature = temperatures[i / 12];
        LogitAdjustment ban = {place, 1, INFINITY};
        params.adjustments = &ban;
        params.n_adjustments = i % 2;
        expect(f, 150, &params, STATUS_DEVICE, part);
    }
}

static void nothing_left_is_an_error(void **state) {
    Fixture *f = *state;
    LogitAdjustment a[] = {{1, 1, INFINITY}};
    for (int i = 0; i < 3; i++) f->logits[i] = -INFINITY;
    SampleParams params = plain_params();
    expect(f, 3, &params, STATUS_DEVICE, "none of 3 tokens");
    f->logits[1] = 5;
    assert_int_equal(draw(f, 3, &params), 1);
    params.adjustments = a;
    params.n_adjustments = 1;
    expect(f, 3, &params, STATUS_DEVICE, "none of 3 tokens");
    params.temperature = 0;
    expect(f, 3, &params, STATUS_DEVICE, "none of 3 tokens");
}

// Only tokens whose bit is set can be drawn, whatever adjustments say; with the draws that the row would give with the
// others' logits at −∞.
static void only_what_is_allowed(void **state) {
    Fixture *f = *state;
    enum { N = 200 };
    uint32_t allowed[(N + 31) / 32] = {0};
    LogitAdjustment a[] = {{3, 1, -9}, {70, 1, -1}};
    float masked[N];
    for (int i = 0; i < N; i++) {
        bool may = i % 7 == 0 || i == N - 1;
        f->logits[i] = (float)(i * 37 % 101) / 20 + (may ? 0 : 3);
        masked[i] = may ? f->logits[i] : -INFINITY;
        allowed[i / 32] |= (uint32_t)may << (i % 32);
    }
    f->logits[8] = INFINITY;
    SampleParams params = plain_params(), plain = params;
    plain.adjustments = params.adjustments = a;
    params.n_adjustments = 2;
    for (int i = 0; i < 60; i++) {
        float row[N];
        params.position = plain.position = (uint64_t)i;
        params.temperature = plain.temperature = i % 5 ? 0.9f : 0;
        params.top_k = plain.top_k = i % 3 ? 0 : 9;
        params.allowed = allowed;
        int32_t drawn = draw(f, N, &params);
        assert_true(drawn % 7 == 0 || drawn == N - 1);
        memcpy(row, f->logits, sizeof row);
        memcpy(f->logits, masked, sizeof masked);
        f->logits[70] += 1;
        assert_int_equal(draw(f, N, &plain), drawn);
        memcpy(f->logits, row, sizeof row);
    }
    memset(allowed, 0, sizeof allowed);
    expect(f, N, &params, STATUS_DEVICE, "none of 200 tokens");
    allowed[N / 32] = 1u << 7;
    assert_int_equal(draw(f, N, &params), N - 1);
}

static void wrong_parameters_are_errors(void **state) {
    Fixture *f = *state;
    SampleParams params = plain_params();
    f->logits[0] = f->logits[1] = 0;
    expect(f, 0, &params, STATUS_USAGE, "a row of 0 logits");
    expect(f, MAX_VOCAB + 1, &params, STATUS_USAGE, "fit the scratch");
    static const float wrong[] = {-0.1f, NAN, INFINITY};
    for (int i = 0; i < 3; i++) {
        params = plain_params(), params.temperature = wrong[i];
        expect(f, 2, &params, STATUS_USAGE, "temperature");
        params = plain_params(), params.top_p = wrong[i];
        expect(f, 2, &params, STATUS_USAGE, "top_p");
        params = plain_params(), params.typical_p = wrong[i];
        expect(f, 2, &params, STATUS_USAGE, "typical_p");
        params = plain_params(), params.min_p = wrong[i];
        expect(f, 2, &params, STATUS_USAGE, "min_p");
    }
    params = plain_params(), params.top_k = -1;
    expect(f, 2, &params, STATUS_USAGE, "top_k");
    LogitAdjustment a[] = {{2, 1, 0},   {-1, 1, 0},  {0, 0, 0},       {0, -1, 0},
                           {0, NAN, 0}, {0, 1, NAN}, {0, INFINITY, 0}};
    for (size_t i = 0; i < sizeof a / sizeof *a; i++) {
        params = plain_params(), params.adjustments = &a[i], params.n_adjustments = 1;
        expect(f, 2, &params, STATUS_USAGE, "adjust");
    }
    Error error;
    SampleScratch *scratch;
    assert_int_equal(sample_scratch_open(0, &scratch, &error), STATUS_UNSUPPORTED);
    assert_int_equal(sample_scratch_open(SAMPLE_MAX_VOCAB + 1, &scratch, &error), STATUS_UNSUPPORTED);
    assert_null(scratch);
}

// Neither an earlier row nor the room in the scratch shows in the result; the row is left as it was.
static void same_inputs_same_token(void **state) {
    Fixture *f = *state;
    enum { N = 3000 };
    static float row[N];
    for (int i = 0; i < 40; i++) {
        random_row(f, N);
        memcpy(row, f->logits, sizeof row);
        SampleParams params = plain_params();
        random_params(f, &params, N);
        params.seed = random_bits(f), params.position = random_bits(f);
        int32_t id = draw(f, N, &params), other;
        assert_memory_equal(row, f->logits, sizeof row);
        random_row(f, 20000);
        draw(f, 20000, &params);
        SampleScratch *tight;
        Error error;
        assert_int_equal(sample_scratch_open(N, &tight, &error), STATUS_OK);
        assert_int_equal(sample_logits(row, N, tight, &params, &other, &error), STATUS_OK);
        assert_int_equal(id, other);
        sample_scratch_close(tight);
    }
}

static void candidates_tell_both_probabilities(void **state) {
    Fixture *f = *state;
    SampleCandidate c[4];
    Error error;
    int count;
    f->logits[0] = logf(0.1f), f->logits[1] = logf(0.6f), f->logits[2] = logf(0.3f), f->logits[3] = -INFINITY;
    SampleParams params = plain_params();
    params.top_p = 0.7f;
    assert_int_equal(sample_candidates(&(SampleRow){f->logits, 4, f->scratch}, &params, 4, c, &count, &error),
                     STATUS_OK);
    assert_int_equal(count, 3);
    static const int ids[] = {1, 2, 0};
    static const double raw[] = {0.6, 0.3, 0.1}, final[] = {2.0 / 3, 1.0 / 3, 0};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(c[i].id, ids[i]);
        assert_true(fabs(c[i].raw - raw[i]) < 1e-6 && fabs(c[i].final - final[i]) < 1e-6);
    }
    params.temperature = 0;
    assert_int_equal(sample_candidates(&(SampleRow){f->logits, 4, f->scratch}, &params, 2, c, &count, &error),
                     STATUS_OK);
    assert_int_equal(count, 2);
    assert_true(c[0].final == 1 && c[1].final == 0);
    f->logits[0] = INFINITY;
    assert_int_equal(sample_candidates(&(SampleRow){f->logits, 4, f->scratch}, &params, 4, c, &count, &error),
                     STATUS_OK);
    assert_true(count == 1 && c[0].id == 0 && c[0].raw == 1 && c[0].final == 1);
    assert_int_equal(sample_candidates(&(SampleRow){f->logits, 4, f->scratch}, &params, 0, c, &count, &error),
                     STATUS_USAGE);
}

#define test(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        test(the_last_number_takes_the_last_token),
        test(greedy_takes_the_lowest_of_equals),
        test(cold_is_greedy_at_last),
        test(hot_is_uniform_at_last),
        test(min_p_of_one_keeps_the_largest),
        test(infinite_logits),
        test(not_a_number_is_an_error),
        test(nothing_left_is_an_error),
        test(only_what_is_allowed),
        test(wrong_parameters_are_errors),
        test(same_inputs_same_token),
        test(candidates_tell_both_probabilities),
    };
    return test_main("sample_edges", argc, argv, tests);
}
