// What looks back at the conversation, by cases worked out by hand and by plain counting.
#include "tests/support/test.h"
#include "engine/talk/sampler.h"
#include "kernels/philox.h"
#include "kernels/ops.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { VOCAB = 100 };

static uint64_t random_position;
static int random_below(int n) {
    return (int)((uint64_t)philox_bits(20261121, 1, random_position++) * (uint64_t)n >> 32);
}

static Sampler *open_sampler(void) {
    Sampler *s;
    Error error;
    random_position = 0;
    assert_int_equal(sampler_open(VOCAB, &s, &error), STATUS_OK);
    return s;
}

static SamplerSettings quiet(void) {
    SamplerSettings s = sampler_default_settings();
    s.repeat_last = -1;
    return s;
}

static void configure(Sampler *s, const SamplerSettings *settings) {
    Error error = {0};
    if (sampler_configure(s, settings, 1, 2, &error) != STATUS_OK) fail_msg("%s", error.message);
}

// The adjustment of a token, {id, 1, 0} if it has none.
static LogitAdjustment find(const SampleParams *p, int32_t id) {
    LogitAdjustment found = {id, 1, 0};
    int n = 0;
    for (int i = 0; i < p->n_adjustments; i++)
        if (p->adjustments[i].id == id) found = p->adjustments[i], n++;
    assert_true(n <= 1);
    return found;
}

static void expect(const SampleParams *p, int32_t id, double divide, double subtract) {
    LogitAdjustment a = find(p, id);
    if (!(fabs((double)a.divide - divide) < 1e-5) || !(fabs((double)a.subtract - subtract) < 1e-5))
        fail_msg("token %d: / %g - %g, not / %g - %g", id, a.divide, a.subtract, divide, subtract);
}

static void defaults_pass_through(void **state) {
    (void)state;
    Sampler *s = open_sampler();
    SampleParams p;
    sampler_params(s, NULL, 0, 12, &p);
    assert_true(p.temperature == 0.8f && p.top_p == 0.95f && p.min_p == 0.05f && p.typical_p == 1 &&
                p.top_k == 40);
    assert_true(p.seed == 0 && p.conversation == 0 && p.position == 12 && p.n_adjustments == 0);
    SamplerSettings settings = sampler_default_settings();
    assert_true(settings.repeat_penalty == 1 && settings.repeat_last == 64 && settings.dry_base == 1.75f);
    assert_true(settings.dry_allowed == 2 && settings.dry_multiplier == 0 && !settings.ignore_eos);
    settings.temperature = 0;
    Error error;
    assert_int_equal(sampler_configure(s, &settings, 1ull << 63, 9, &error), STATUS_OK);
    static const int32_t history[] = {1, 2, 3, 1, 2, 3};
    sampler_params(s, history, 6, 1ull << 40, &p);
    assert_true(p.temperature == 0 && p.seed == 1ull << 63 && p.conversation == 9 &&
                p.position == 1ull << 40);
    assert_int_equal(p.n_adjustments, 0);
    sampler_close(s);
}

static void penalties_by_hand(void **state) {
    (void)state;
    Sampler *s = open_sampler();
    SamplerSettings settings = quiet();
    settings.repeat_penalty = 1.2f, settings.frequency_penalty = 0.5f, settings.presence_penalty = 0.25f;
    configure(s, &settings);
    static const int32_t history[] = {5, 7, 5, 9, 5};
    SampleParams p;
    sampler_params(s, history, 5, 0, &p);
    assert_int_equal(p.n_adjustments, 3);
    expect(&p, 5, 1.2, 3 * 0.5 + 0.25);
    expect(&p, 7, 1.2, 0.75);
    expect(&p, 9, 1.2, 0.75);
    settings.repeat_last = 2;
    configure(s, &settings);
    sampler_params(s, history, 5, 0, &p);
    assert_int_equal(p.n_adjustments, 2);
    expect(&p, 5, 1.2, 0.75);
    expect(&p, 9, 1.2, 0.75);
    settings.repeat_last = 0;
    configure(s, &settings);
    sampler_params(s, history, 5, 0, &p);
    assert_int_equal(p.n_adjustments, 0);
    settings.repeat_last = 6, settings.repeat_penalty = 1, settings.presence_penalty = 0;
    configure(s, &settings);
    sampler_params(s, history, 5, 0, &p);
    expect(&p, 5, 1, 1.5);
    expect(&p, 7, 1, 0.5);
    sampler_close(s);
}

static void penalties_by_counting(void **state) {
    (void)state;
    Sampler *s = open_sampler();
    SamplerSettings settings = quiet();
    settings.repeat_penalty = 1.1f, settings.frequency_penalty = 0.25f, settings.presence_penalty = -1;
    int32_t history[300];
    for (int i = 0; i < 300; i++) history[i] = random_below(VOCAB);
    for (int n = 0; n <= 300; n += 1 + random_below(9)) {
        settings.repeat_last = random_below(3) ? random_below(320) : -1;
        configure(s, &settings);
        SampleParams p;
        sampler_params(s, history, n, 0, &p);
        for (int32_t id = 0; id < VOCAB; id++) {
            int count = 0;
            for (int i = 0; i < n; i++)
                count += history[i] == id && (settings.repeat_last < 0 || i >= n - settings.repeat_last);
            expect(&p, id, count ? 1.1 : 1, count ? 0.25 * count - 1 : 0);
        }
    }
    sampler_close(s);
}

static void bias_and_bans(void **state) {
    (void)state;
    Sampler *s = open_sampler();
    static const SamplerBias bias[] = {{3, 2.5f}, {4, -INFINITY}, {9, 1}, {3, 0.5f}, {11, 6}};
    SamplerSettings settings = quiet();
    settings.logit_bias = bias, settings.n_logit_bias = 5;
    settings.presence_penalty = 2;
    settings.ignore_eos = true;
    sampler_mark(s, 11, SAMPLER_END);
    sampler_mark(s, 12, SAMPLER_END);
    sampler_mark(s, 12, SAMPLER_END);
    sampler_mark(s, 12, SAMPLER_BREAKER);
    sampler_mark(s, -1, SAMPLER_END);
    sampler_mark(s, VOCAB, SAMPLER_END);
    configure(s, &settings);
    static const int32_t history[] = {3, -1, VOCAB, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 2; i++) { // nothing is left over from the first time
        SampleParams p;
        sampler_params(s, history, 5, 0, &p);
        assert_int_equal(p.n_adjustments, 5);
        expect(&p, 3, 1, 2 - 2.5 - 0.5);
        expect(&p, 9, 1, -1);
        for (int k = 0; k < 3; k++) assert_true(find(&p, (int32_t[]){4, 11, 12}[k]).subtract == INFINITY);
    }
    sampler_close(s);
}

static void dry_settings(Sampler *s, float multiplier, float base, int allowed) {
    SamplerSettings settings = quiet();
    settings.dry_multiplier = multiplier, settings.dry_base = base, settings.dry_allowed = allowed;
    configure(s, &settings);
}

static void dry_by_hand(void **state) {
    (void)state;
    Sampler *s = open_sampler();
    SampleParams p;
    dry_settings(s, 0.8f, 2, 2);
    // 1 2 3 4 … 1 2 3: 4 would make it four of a kind
    static const int32_t a[] = {1, 2, 3, 4, 8, 1, 2, 3};
    sampler_params(s, a, 8, 0, &p);
    assert_int_equal(p.n_adjustments, 1);
    expect(&p, 4, 1, 0.8 * 2);
    // only 3 is repeated, or 2 3: less than allowed, and just allowed
    static const int32_t b[] = {1, 3, 4, 8, 2, 3};
    sampler_params(s, b, 6, 0, &p);
    assert_int_equal(p.n_adjustments, 0);
    static const int32_t c[] = {2, 3, 4, 8, 2, 3};
    sampler_params(s, c, 6, 0, &p);
    assert_int_equal(p.n_adjustments, 1);
    expect(&p, 4, 1, 0.8);
    // the longest of several counts, each next token has its own
    static const int32_t d[] = {2, 3, 4, 1, 2, 3, 4, 2, 3, 5, 9, 1, 2, 3};
    sampler_params(s, d, 14, 0, &p);
    assert_int_equal(p.n_adjustments, 2);
    expect(&p, 4, 1, 0.8 * 2);
    expect(&p, 5, 1, 0.8);
    // a token again and again: matches overlap
    static const int32_t e[] = {7, 7, 7, 7, 7};
    sampler_params(s, e, 5, 0, &p);
    assert_int_equal(p.n_adjustments, 1);
    expect(&p, 7, 1, 0.8 * 4);
    // breakers: 2 within the repetition, 3 as its end, 4 as what would come next
    sampler_mark(s, 2, SAMPLER_BREAKER);
    sampler_params(s, a, 8, 0, &p);
    assert_int_equal(p.n_adjustments, 0); // only 3 is left
    sampler_close(s);
    s = open_sampler();
    dry_settings(s, 0.8f, 2, 2);
    sampler_mark(s, 4, SAMPLER_BREAKER);
    sampler_params(s, a, 8, 0, &p);
    assert_int_equal(p.n_adjustments, 0);
    sampler_params(s, d, 14, 0, &p);
    assert_int_equal(p.n_adjustments, 1);
    sampler_mark(s, 3, SAMPLER_BREAKER);
    sampler_params(s, d, 14, 0, &p);
    assert_int_equal(p.n_adjustments, 0);
    sampler_close(s);
}

// For every earlier place compare backwards, as long as it goes.
static void dry_reference(const int32_t *x, int n, int breaker, int *lengths) {
    for (int i = 0; i < VOCAB; i++) lengths[i] = 0;
    for (int i = 0; i + 1 < n; i++) {
        int m = 0;
        while (m <= i && m < 64 && x[i - m] == x[n - 1 - m] && x[i - m] != breaker) m++;
        if (x[i + 1] != breaker && m > lengths[x[i + 1]]) lengths[x[i + 1]] = m;
    }
}

static void dry_by_comparing(void **state) {
    (void)state;
    enum { N = 400 };
    Sampler *s = open_sampler();
    sampler_mark(s, 0, SAMPLER_BREAKER);
    for (int round = 0; round < 400; round++) {
        int32_t x[N];
        int n = 1 + random_below(N), letters = 1 + random_below(6), period = 1 + random_below(90);
        int allowed = 1 + random_below(4), lengths[VOCAB];
        for (int i = 0; i < n; i++) // noise, and periodic texts with few mistakes and few breakers
            x[i] = round % 4 && i >= period && random_below(60) ? x[i - period] : 1 + random_below(letters);
        for (int i = 0; i < n; i++)
            if (round % 3 == 0 && !random_below(40)) x[i] = 0;
        dry_settings(s, 1, 1.1f, allowed);
        SampleParams p;
        sampler_params(s, x, n, 0, &p);
        dry_reference(x, n, 0, lengths);
        for (int32_t id = 0; id < VOCAB; id++) {
            double want = lengths[id] >= allowed ? pow((double)1.1f, lengths[id] - allowed) : 0;
            assert_true(fabs((double)find(&p, id).subtract - want) < 1e-4 * (1 + want));
        }
    }
    dry_settings(s, 1000, 1000, 1); // 1000^64 is no float
    int32_t same[100];
    for (int i = 0; i < 100; i++) same[i] = 1;
    SampleParams p;
    sampler_params(s, same, 100, 0, &p);
    assert_true(find(&p, 1).subtract == FLT_MAX);
    sampler_close(s);
}

static void refuse(Sampler *s, const SamplerSettings *settings, const char *part) {
    Error error = {0};
    assert_int_equal(sampler_configure(s, settings, 5, 6, &error), STATUS_USAGE);
    if (!strstr(error.message, part)) fail_msg("'%s' is not in '%s'", part, error.message);
    SampleParams p;
    sampler_params(s, NULL, 0, 0, &p); // as it was
    assert_true(p.temperature == 0.8f && p.seed == 0);
}

static void wrong_settings_are_refused(void **state) {
    (void)state;
    Sampler *s = open_sampler();
    SamplerSettings bad;
#define REFUSE(field, value) (bad = quiet(), bad.field = (value), refuse(s, &bad, "sampling." #field))
    REFUSE(temperature, -1);
    REFUSE(temperature, NAN);
    REFUSE(temperature, INFINITY);
    REFUSE(top_p, 1.1f);
    REFUSE(top_k, -1);
    REFUSE(min_p, -0.1f);
    REFUSE(typical_p, NAN);
    REFUSE(repeat_penalty, 0);
    REFUSE(repeat_last, -2);
    REFUSE(frequency_penalty, NAN);
    REFUSE(presence_penalty, INFINITY);
    REFUSE(dry_multiplier, -1);
    REFUSE(dry_base, 0.5f);
    REFUSE(dry_allowed, 0);
    SamplerBias bias[] = {{VOCAB, 0}, {-1, 0}, {0, NAN}, {0, INFINITY}};
    for (int i = 0; i < 4; i++) {
        bad = quiet(), bad.logit_bias = &bias[i], bad.n_logit_bias = 1;
        refuse(s, &bad, "sampling.logit_bias");
    }
    Error error;
    Sampler *none;
    assert_int_equal(sampler_open(0, &none, &error), STATUS_USAGE);
    assert_null(none);
    sampler_close(NULL);
    sampler_close(s);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_pass_through),
        cmocka_unit_test(penalties_by_hand),
        cmocka_unit_test(penalties_by_counting),
        cmocka_unit_test(bias_and_bans),
        cmocka_unit_test(dry_by_hand),
        cmocka_unit_test(dry_by_comparing),
        cmocka_unit_test(wrong_settings_are_refused),
    };
    return test_main("sampler", argc, argv, tests);
}
