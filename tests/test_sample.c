// Sampling of one row: Philox against known numbers, each filter and the draw against a plain reference in
// double precision that sorts everything, chi-square tests, extremes and errors.
#include "tests/test.h"
#include "kernels/cpu/sample.h"
#include "kernels/cpu/select.h"
#include "kernels/sample_math.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VOCAB = 50000 };

typedef struct Fixture {
    SampleScratch *scratch;
    float *logits;
    SampleCandidate *candidates;
    struct Token *tokens;
    uint64_t random; // position in the stream of the test's own numbers
} Fixture;

// ---- the reference
// -------------------------------------------------------------------------------------------

typedef struct Token {
    int32_t id;
    double logit, p, rank;
} Token;

static int by_logit(const void *a, const void *b) {
    const Token *x = a, *y = b;
    return x->logit != y->logit ? (x->logit < y->logit ? 1 : -1) : (x->id > y->id) - (x->id < y->id);
}

static int by_rank(const void *a, const void *b) {
    const Token *x = a, *y = b;
    return x->rank != y->rank ? (x->rank > y->rank ? 1 : -1) : by_logit(a, b);
}

static void softmax(Token *t, int n, double temperature) {
    double max = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++) max = fmax(max, t[i].logit);
    for (int i = 0; i < n; i++) sum += t[i].p = t[i].logit == max ? 1 : exp((t[i].logit - max) / temperature);
    for (int i = 0; i < n; i++) t[i].p /= sum;
}

// The first tokens that have mass >= p. *doubtful if rounding could have it otherwise.
static int prefix(const Token *t, int n, double p, bool *doubtful) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += t[i].p;
        if (fabs(sum - p) < 1e-6) *doubtful = true;
        if (sum >= p) return i + 1;
    }
    return n;
}

static int reference_typical(Token *t, int n, double fraction, bool *doubtful) {
    double entropy = 0;
    softmax(t, n, 1);
    for (int i = 0; i < n; i++) entropy -= t[i].p > 0 ? t[i].p * log(t[i].p) : 0;
    for (int i = 0; i < n; i++) t[i].rank = t[i].p > 1e-12 ? fabs(-log(t[i].p) - entropy) : INFINITY;
    qsort(t, (size_t)n, sizeof *t, by_rank);
    int kept = prefix(t, n, fraction, doubtful);
    for (int i = 1; i < n && i <= kept; i++) // nearly equal ranks on both sides of the mean
        if (t[i].logit != t[i - 1].logit && fabs(t[i].rank - t[i - 1].rank) < 1e-5) *doubtful = true;
    qsort(t, (size_t)kept, sizeof *t, by_logit);
    return kept;
}

// Fills t with the tokens that are left, in order, and their probabilities at the draw. Returns how many, or
// -1 if rounding decides about a token.
static int reference(const float *logits, int n_vocab, const SampleParams *params, Token *t) {
    bool doubtful = false;
    int n = 0;
    for (int i = 0; i < n_vocab; i++) {
        float l = logits[i];
        for (int a = 0; a < params->n_adjustments; a++) {
            LogitAdjustment x = params->adjustments[a];
            if (x.id == i) l = (l > 0 ? l / x.divide : l * x.divide) - x.subtract;
        }
        if (l > -INFINITY) t[n++] = (Token){.id = i, .logit = (double)l};
    }
    qsort(t, (size_t)n, sizeof *t, by_logit);
    if (params->temperature == 0) {
        t[0].p = 1;
        return 1;
    }
    if (params->top_k > 0 && params->top_k < n) n = params->top_k;
    if (params->typical_p < 1) n = reference_typical(t, n, (double)params->typical_p, &doubtful);
    softmax(t, n, 1);
    if (params->top_p < 1) n = prefix(t, n, (double)params->top_p, &doubtful);
    softmax(t, n, 1);
    int kept = 0;
    while (kept < n && t[kept].p >= (double)params->min_p * t[0].p) kept++;
    for (int i = 0; i < n; i++)
        if (fabs(t[i].p / t[0].p - (double)params->min_p) < 1e-6 * (double)params->min_p) doubtful = true;
    softmax(t, kept, (double)params->temperature);
    return doubtful ? -1 : kept;
}

// ---- random rows
// -----------------------------------------------------------------------------------------------

static uint32_t random_bits(Fixture *f) {
    return philox_bits(20260731, 7, f->random++);
}
static double random_unit(Fixture *f) {
    return (random_bits(f) + 0.5) * 0x1p-32;
}
static int random_below(Fixture *f, int n) {
    return (int)(random_unit(f) * n);
}

static double random_normal(Fixture *f) {
    double u = random_unit(f), v = random_unit(f);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

// Rows of many kinds: smooth, with ties, peaked, nearly flat, with −∞.
static void random_row(Fixture *f, int n) {
    int kind = random_below(f, 5);
    double spread = kind == 3 ? 0.01 : 0.5 + 4 * random_unit(f);
    for (int i = 0; i < n; i++) {
        double l = spread * random_normal(f);
        if (kind == 1) l = rint(l * 2) / 2;
        f->logits[i] = kind == 4 && random_below(f, 3) ? -INFINITY : (float)l;
    }
    if (kind == 2)
        for (int i = 0; i < 5; i++) f->logits[random_below(f, n)] += (float)(4 + 4 * random_unit(f));
    f->logits[random_below(f, n)] = 1; // one is finite
}

static SampleParams plain_params(void) {
    return (SampleParams){.temperature = 1, .top_p = 1, .typical_p = 1};
}

static int32_t draw(Fixture *f, int n, const SampleParams *params) {
    Error error = {0};
    int32_t id = -1;
    Status status = sample_logits(f->logits, n, f->scratch, params, &id, &error);
    if (status != STATUS_OK) fail_msg("%s", error.message);
    return id;
}

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
    Status status = sample_candidates(f->logits, n, f->scratch, params, n, f->candidates, &count, &error);
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
static void vary_all(Fixture *f, SampleParams *params, int n) {
    vary_temperature(f, params, n);
    if (random_below(f, 3)) params->top_k = 1 + random_below(f, n < 100 ? n : 100);
    if (random_below(f, 3)) params->top_p = (float)(0.5 + 0.5 * random_unit(f));
    if (random_below(f, 3)) params->typical_p = (float)(0.5 + 0.5 * random_unit(f));
    if (random_below(f, 3)) params->min_p = (float)(0.2 * random_unit(f));
    if (!random_below(f, 8)) params->temperature = 0;
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
    compare_many(*state, vary_all);
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
        vary_all(f, &params, n);
        params.adjustments = a;
        params.n_adjustments = n_adjustments;
        f->logits[n - 1] = 2;
        compare(f, n, &params);
    }
}

// ---- known numbers
// ---------------------------------------------------------------------------------------------

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

// ---- distributions
// -----------------------------------------------------------------------------------------------

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

// ---- edges
// -----------------------------------------------------------------------------------------------------------

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

static void infinite_logits(void **state) {
    Fixture *f = *state;
    SampleParams params = plain_params();
    int counts[200] = {0};
    for (int i = 0; i < 200; i++) f->logits[i] = i % 2 ? FLT_MAX : -FLT_MAX;
    f->logits[50] = f->logits[150] = INFINITY;
    for (int i = 0; i < 1000; i++) {
        params = plain_params();
        params.position = (uint64_t)i;
        vary_all(f, &params, 200);
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
    assert_int_equal(id, -7);
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
        vary_all(f, &params, N);
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
    assert_int_equal(sample_candidates(f->logits, 4, f->scratch, &params, 4, c, &count, &error), STATUS_OK);
    assert_int_equal(count, 3);
    static const int ids[] = {1, 2, 0};
    static const double raw[] = {0.6, 0.3, 0.1}, final[] = {2.0 / 3, 1.0 / 3, 0};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(c[i].id, ids[i]);
        assert_true(fabs(c[i].raw - raw[i]) < 1e-6 && fabs(c[i].final - final[i]) < 1e-6);
    }
    params.temperature = 0;
    assert_int_equal(sample_candidates(f->logits, 4, f->scratch, &params, 2, c, &count, &error), STATUS_OK);
    assert_int_equal(count, 2);
    assert_true(c[0].final == 1 && c[1].final == 0);
    assert_int_equal(sample_candidates(f->logits, 4, f->scratch, &params, 0, c, &count, &error),
                     STATUS_USAGE);
}

static int set_up(void **state) {
    Fixture *f = calloc(1, sizeof *f);
    Error error;
    *state = f;
    if (!f || sample_scratch_open(MAX_VOCAB, &f->scratch, &error) != STATUS_OK) return -1;
    f->logits = malloc(MAX_VOCAB * sizeof *f->logits);
    f->candidates = malloc(MAX_VOCAB * sizeof *f->candidates);
    f->tokens = malloc(MAX_VOCAB * sizeof *f->tokens);
    return f->logits && f->candidates && f->tokens ? 0 : -1;
}

static int tear_down(void **state) {
    Fixture *f = *state;
    sample_scratch_close(f->scratch);
    free(f->logits);
    free(f->candidates);
    free(f->tokens);
    free(f);
    return 0;
}

#define test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        test(philox_known_answers),
        test(philox_equals_curand),
        test(weights_are_powers_of_two),
        test(keys_are_in_the_order_of_logits),
        test(selection_finds_the_place),
        test(no_filter_is_softmax),
        test(top_k_as_the_reference),
        test(top_p_as_the_reference),
        test(min_p_as_the_reference),
        test(typical_p_as_the_reference),
        test(temperature_as_the_reference),
        test(whole_chain_as_the_reference),
        test(adjustments_as_the_reference),
        test(top_p_renormalises),
        test(top_p_is_chi_square),
        test(whole_chain_is_chi_square),
        test(draws_are_independent),
        test(the_last_number_takes_the_last_token),
        test(greedy_takes_the_lowest_of_equals),
        test(cold_is_greedy_at_last),
        test(hot_is_uniform_at_last),
        test(infinite_logits),
        test(not_a_number_is_an_error),
        test(nothing_left_is_an_error),
        test(wrong_parameters_are_errors),
        test(same_inputs_same_token),
        test(candidates_tell_both_probabilities),
    };
    return test_main("sample", argc, argv, tests);
}
