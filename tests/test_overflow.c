// What leaves when the context is full: whole turns, oldest first, never the kept prefix, never the last turn.
#include "tests/test.h"
#include "engine/overflow.h"

static const OverflowSettings half = {
    .policy = OVERFLOW_REEVALUATE, .keep = OVERFLOW_KEEP_SYSTEM, .low_water = 0.5};

// system 20, then turns of user 10 + reply 30
static int talk(OverflowSpan *spans, int turns) {
    int n = 0;
    spans[n++] = (OverflowSpan){.n_tokens = 20, .is_system = true};
    for (int i = 0; i < turns; i++) {
        spans[n++] = (OverflowSpan){.n_tokens = 10, .is_user = true};
        spans[n++] = (OverflowSpan){.n_tokens = 30};
    }
    return n;
}

static void nothing_leaves_while_it_fits(void **state) {
    (void)state;
    OverflowSpan spans[64];
    int n = talk(spans, 5); // 220 tokens
    OverflowPlan plan = overflow_plan(&half, spans, n, 240, 20);
    assert_true(plan.fits);
    assert_int_equal(plan.n_messages, 0);
    plan = overflow_plan(&half, spans, n, 240, 21);
    assert_true(plan.fits);
    assert_true(plan.n_messages > 0);
}

static void oldest_turns_leave_until_low_water(void **state) {
    (void)state;
    OverflowSpan spans[64];
    int n = talk(spans, 5);
    OverflowPlan plan = overflow_plan(&half, spans, n, 240, 40); // down to 120 or less: 3 turns of 40 leave
    assert_int_equal(plan.n_turns, 3);
    assert_int_equal(plan.n_messages, 6);
    assert_int_equal(plan.n_tokens, 120);
    assert_true(plan.fits);
}

static void the_last_turn_stays(void **state) {
    (void)state;
    OverflowSpan spans[64];
    int n = talk(spans, 3);
    OverflowPlan plan = overflow_plan(&half, spans, n, 60, 20);
    assert_int_equal(plan.n_turns, 2);
    assert_int_equal(plan.n_messages, 4);
    assert_false(plan.fits); // 20 + 40 + 20 > 60
    n = talk(spans, 1);
    plan = overflow_plan(&half, spans, n, 60, 20);
    assert_int_equal(plan.n_messages, 0);
    assert_false(plan.fits);
}

static void stop_discards_nothing(void **state) {
    (void)state;
    OverflowSpan spans[64];
    OverflowSettings stop = {.policy = OVERFLOW_STOP, .keep = OVERFLOW_KEEP_SYSTEM, .low_water = 0.5};
    int n = talk(spans, 5);
    OverflowPlan plan = overflow_plan(&stop, spans, n, 220, 10);
    assert_false(plan.fits);
    assert_int_equal(plan.n_messages, 0);
    plan = overflow_plan(&stop, spans, n, 230, 10);
    assert_true(plan.fits);
}

static void discard_asks_for_at_least_so_much(void **state) {
    (void)state;
    OverflowSpan spans[64];
    int n = talk(spans, 5);
    OverflowSettings s = {
        .policy = OVERFLOW_REEVALUATE, .keep = OVERFLOW_KEEP_SYSTEM, .low_water = 1, .discard = 41};
    OverflowPlan plan = overflow_plan(&s, spans, n, 230, 20); // one turn would do; 41 tokens are two
    assert_int_equal(plan.n_turns, 2);
    s.discard = 0;
    s.discard_fraction = 0.75; // of the 200 tokens that are not kept: 150, four turns
    plan = overflow_plan(&s, spans, n, 230, 20);
    assert_int_equal(plan.n_turns, 4);
    s.discard_fraction = 0.5; // 100: 80 and 120 are as near, so fewer leave
    plan = overflow_plan(&s, spans, n, 230, 20);
    assert_int_equal(plan.n_turns, 2);
    s.discard_fraction = 0;
    plan = overflow_plan(&s, spans, n, 230, 20);
    assert_int_equal(plan.n_turns, 1);
}

static void odd_histories(void **state) {
    (void)state;
    assert_true(overflow_plan(&half, NULL, 0, 10, 10).fits);
    assert_false(overflow_plan(&half, NULL, 0, 10, 11).fits);
    // Replies before any user message leave with the first piece; two user messages in a row are two turns.
    OverflowSpan spans[] = {
        {.n_tokens = 50}, {.n_tokens = 50, .is_user = true}, {.n_tokens = 50, .is_user = true}};
    OverflowPlan plan = overflow_plan(&half, spans, 3, 120, 10);
    assert_int_equal(plan.n_messages, 2);
    assert_true(plan.fits);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_leaves_while_it_fits),
        cmocka_unit_test(oldest_turns_leave_until_low_water),
        cmocka_unit_test(the_last_turn_stays),
        cmocka_unit_test(stop_discards_nothing),
        cmocka_unit_test(discard_asks_for_at_least_so_much),
        cmocka_unit_test(odd_histories),
    };
    return test_main("overflow", argc, argv, tests);
}
