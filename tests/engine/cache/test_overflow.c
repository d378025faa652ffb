// What leaves when the context is full: whole turns, oldest first, never the kept prefix, never the last turn.
#include "tests/support/test.h"
#include "engine/cache/overflow.h"

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
    s.discard = 0.75; // of the 200 tokens that are not kept: 150, four turns
    plan = overflow_plan(&s, spans, n, 230, 20);
    assert_int_equal(plan.n_turns, 4);
    s.discard = 0.5; // 100: 80 and 120 are as near, so fewer leave
    plan = overflow_plan(&s, spans, n, 230, 20);
    assert_int_equal(plan.n_turns, 2);
    s.discard = 0;
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

// By token the beginning of a reply leaves; by a shift not behind turns that leave whole, for that would be two pieces.
static void a_shift_takes_out_one_piece(void **state) {
    (void)state;
    static const struct {
        OverflowPolicy policy;
        int64_t discard, needed;
        int n_turns, reply;
        int64_t n_of_reply, n_tokens;
    } CASES[] = {{OVERFLOW_REEVALUATE, 60, 20, 1, 4, 20, 60}, // a turn of 40, and 20 of the next reply
                 {OVERFLOW_SHIFT, 60, 20, 1, 0, 0, 40},
                 {OVERFLOW_SHIFT_INPLACE, 60, 20, 1, 0, 0, 40},
                 {OVERFLOW_SHIFT, 60, 60, 2, 0, 0, 80}, // 50 have to leave
                 {OVERFLOW_SHIFT, 15, 20, 0, 2, 15, 15}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        OverflowSpan spans[64];
        int n = talk(spans, 5);
        for (int k = 2; k < n; k += 2) spans[k].n_text = 28;
        OverflowSettings s = {.policy = CASES[i].policy,
                              .keep = OVERFLOW_KEEP_SYSTEM,
                              .by_token = true,
                              .discard = CASES[i].discard};
        OverflowPlan plan = overflow_plan(&s, spans, n, 230, CASES[i].needed);
        assert_true(plan.fits);
        assert_int_equal(plan.n_turns, CASES[i].n_turns);
        assert_int_equal(plan.n_messages, 2 * CASES[i].n_turns);
        assert_int_equal(plan.reply, CASES[i].reply);
        assert_int_equal(plan.n_of_reply, CASES[i].n_of_reply);
        assert_int_equal(plan.n_tokens, CASES[i].n_tokens);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_leaves_while_it_fits),
        cmocka_unit_test(oldest_turns_leave_until_low_water),
        cmocka_unit_test(the_last_turn_stays),
        cmocka_unit_test(stop_discards_nothing),
        cmocka_unit_test(discard_asks_for_at_least_so_much),
        cmocka_unit_test(odd_histories),
        cmocka_unit_test(a_shift_takes_out_one_piece),
    };
    return test_main("overflow", argc, argv, tests);
}
