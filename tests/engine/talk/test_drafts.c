// Drafts: where a text stood before, and how many tokens of what followed there are worth a step.
#include "engine/talk/drafts/drafts.h"

#include "engine/talk/drafts/lookup.h"
#include "tests/support/kernels/random.h"
#include "tests/support/test.h"

// ---- where a text stood before -----------------------------------------------------------------------------------

static int64_t plain_find(const int32_t *text, int64_t n, int *match) {
    int64_t best = 0;
    int seen = 0;
    *match = 0;
    for (int64_t place = n - 1; place >= LOOKUP_LEAST && seen < LOOKUP_PLACES; place--) {
        int m = 0;
        while (m < place && m < LOOKUP_MOST && text[place - 1 - m] == text[n - 1 - m]) m++;
        if (m < LOOKUP_LEAST) continue;
        if (m > *match) best = place, *match = m;
        if (*match == LOOKUP_MOST) break;
        seen++;
    }
    return best;
}

static void the_longest_match_is_found_and_the_newest_of_those(void **state) {
    (void)state;
    enum { N = 600 };
    Error error;
    Lookup *lookup;
    int32_t text[N];
    int found = 0;
    assert_int_equal(lookup_open(N, &lookup, &error), STATUS_OK);
    for (int words = 2; words <= 12; words++) {
        uint64_t seed = (uint64_t)words;
        for (int i = 0; i < N; i++) text[i] = (int32_t)(seeded_bits(&seed) % (uint64_t)words);
        lookup_clear(lookup);
        for (int64_t n = 0; n <= N; n += 1 + n % 3) { // several are new at times
            int match, plain;
            const int64_t place = lookup_find(lookup, text, n, &match),
                          expected = plain_find(text, n, &plain);
            assert_int_equal(place, expected);
            assert_int_equal(match, plain);
            found += place > 0;
        }
    }
    assert_true(found > 1000);
    lookup_close(lookup);
}

// ---- how many are worth it ------------------------------------------------------------------------------------------

static const DraftCosts COSTS = {
    1, {1, 1.5, 1.5, 1.5, 1.6, 1.6, 1.6, 1.6, 1.7, 1.7, 1.7, 1.8, 1.8, 1.8, 1.9, 1.9}, false};

typedef struct Course {
    double cost; // of all steps
    int tokens, guessed, right;
} Course;

// A reply that is text [n] from `from` on, whatever is guessed.
static Course follow(const int32_t *text, int64_t from, int64_t n, int most) {
    Error error;
    Drafts *drafts;
    Course course = {0};
    assert_int_equal(drafts_open(n, &drafts, &error), STATUS_OK);
    drafts_begin(drafts, &COSTS, most);
    for (int64_t at = from; at < n;) {
        const DraftPlan plan = drafts_plan(drafts, text, at, 1, (int)(n - at - 1));
        int right = 0;
        while (right < plan.n && plan.ids[right] == text[at + right]) right++;
        drafts_drawn(drafts, text + at, right + 1);
        assert_in_range(plan.n, 0, most);
        assert_true(at + plan.n < n);
        course.cost += COSTS.of[plan.n];
        course.guessed += plan.n, course.right += right;
        at += right + 1;
    }
    course.tokens = (int)(n - from);
    drafts_close(drafts);
    return course;
}

static void a_text_said_again_takes_few_steps(void **state) {
    (void)state;
    enum { HALF = 400 };
    int32_t text[2 * HALF];
    uint64_t seed = 7;
    for (int i = 0; i < HALF; i++) text[i] = text[HALF + i] = (int32_t)(seeded_bits(&seed) % 5000);
    Course c = follow(text, HALF + 3, sizeof text / sizeof *text, 7);
    assert_true(c.cost < 0.3 * c.tokens);
    assert_true(c.right > 0.9 * c.guessed);
    assert_int_equal(follow(text, HALF, sizeof text / sizeof *text, 0).guessed, 0);
}

static void a_text_like_no_other_has_none(void **state) {
    (void)state;
    int32_t text[2000];
    for (int i = 0; i < 2000; i++) text[i] = i;
    assert_int_equal(follow(text, 100, 2000, 15).guessed, 0);
}

// The worst there is: places that look alike, and go on otherwise each time.
static void who_is_wrong_each_time_stops_soon(void **state) {
    (void)state;
    enum { N = 4000 };
    int32_t text[N];
    uint64_t seed = 3;
    for (int length = LOOKUP_LEAST; length <= 40; length += 5) {
        for (int i = 0; i < N; i++)
            text[i] =
                i % (length + 4) < length ? i % (length + 4) : 100 + (int32_t)(seeded_bits(&seed) % 100000);
        // What is alike is said again and again, rightly so; what comes behind it is never right.
        Course c = follow(text, N / 2, N, 7);
        assert_true(c.cost < 1.02 * c.tokens);
    }
    for (int i = 0; i < N; i++) text[i] = (int32_t)(seeded_bits(&seed) % 6); // nothing can be told of it
    Course c = follow(text, N / 2, N, 7);
    assert_true(c.cost < 1.02 * c.tokens);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_match_is_found_and_the_newest_of_those),
        cmocka_unit_test(a_text_said_again_takes_few_steps),
        cmocka_unit_test(a_text_like_no_other_has_none),
        cmocka_unit_test(who_is_wrong_each_time_stops_soon),
    };
    return test_main("drafts", argc, argv, tests);
}
