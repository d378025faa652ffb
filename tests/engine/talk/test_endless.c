// A conversation that goes on for ever in a small context, in every policy: it never fails, keeps its system prompt,
// and the model sees the template over what is left.
#include "tests/support/talk/talk.h"
#include "tests/support/test.h"
#include "engine/engine_internal.h"

#include <stdio.h>
#include <string.h>

enum { CONTEXT = 512, TURNS = 100 };

static const char SYSTEM[] = "You are a small model that babbles.";

typedef struct Endless {
    OverflowPolicy policy;
    bool by_token, paged;
    double discard;    // fraction
    bool long_replies; // that overflow by themselves
} Endless;

static Talk *begin(const Endless *e) {
    Error error = {0};
    CacheOptions cache = cache_options(DTYPE_F32);
    cache.paged = e->paged;
    cache.page_size = 32;
    Talk *t = talk_open(CONTEXT, &cache);
    OverflowSettings *o = &conversation_settings(t->c)->overflow;
    o->policy = e->policy;
    o->by_token = e->by_token;
    o->discard = e->discard;
    if (conversation_set_system(t->c, SYSTEM, &error)) fail_msg("%s", error.message);
    return t;
}

// Every page is somebody's or free, and no more is held than there is.
static void check_memory(const Talk *t) {
    const KvCache *cache = &t->engine->cache;
    int taken = 0;
    for (int i = 0; i < cache->n_pages; i++) taken += cache->references[i] > 0;
    assert_int_equal(taken + cache->n_free, cache->n_pages);
    assert_in_range(cache->n_branches, 0, cache->n_pages);
}

// What a whole conversation came to.
typedef struct Sum {
    int overflows;
    int64_t evicted, evaluated, most_used;
} Sum;

static Sum talk_for_long(const Endless *e) {
    Talk *t = begin(e);
    Sum sum = {0};
    for (int turn = 0; turn < TURNS; turn++) {
        char text[64];
        snprintf(text, sizeof text, "Story %d", turn);
        bool wordy = e->long_replies && turn == TURNS / 2;
        conversation_settings(t->c)->max_tokens = wordy ? CONTEXT + CONTEXT / 4 : 12;
        conversation_settings(t->c)->sampler.ignore_eos = wordy;
        int before = t->n_overflows;
        ReplyReport r = talk_say(t, text);
        assert_true(r.used <= CONTEXT + 1);
        if (r.used > sum.most_used) sum.most_used = r.used;
        talk_check_log(t);
        check_memory(t);
        if (t->n_overflows == before) continue;
        sum.overflows += t->n_overflows - before;
        sum.evicted += t->last.n_evicted;
        sum.evaluated += t->last.n_evaluated;
        assert_true(t->last.n_evicted > 0);
        assert_true(t->last.n_cached > 0);
    }
    assert_int_equal(talk_turns(t), TURNS); // all still there for the person
    assert_false(conversation_message(t->c, 0)->evicted);
    assert_string_equal(conversation_message(t->c, 0)->text, SYSTEM);
    assert_true(conversation_message(t->c, 1)->evicted);
    assert_true(sum.most_used > CONTEXT / 2);
    print_message("%s%s%s: %d overflows, %lld tokens left, %lld read again\n",
                  overflow_policy_name(e->policy), e->by_token ? " by token" : "", e->paged ? ", paged" : "",
                  sum.overflows, (long long)sum.evicted, (long long)sum.evaluated);
    KvCache *cache = &t->engine->cache;
    conversation_close(t->c);
    t->c = NULL;
    while (kv_branch_drop(cache)) continue;
    assert_int_equal(cache->n_free, cache->n_pages); // nothing leaked
    talk_close(t);
    return sum;
}

static void reading_again(void **state) {
    (void)state;
    Sum sum = talk_for_long(&(Endless){.policy = OVERFLOW_REEVALUATE, .paged = true, .long_replies = true});
    assert_in_range(sum.overflows, 5, TURNS / 4);
    assert_true(sum.evaluated > sum.overflows * CONTEXT / 8); // the half that stays
}

static void shifting(void **state) {
    (void)state;
    Sum sum = talk_for_long(&(Endless){.policy = OVERFLOW_SHIFT});
    assert_in_range(sum.overflows, 5, TURNS / 4);
    assert_int_equal(sum.evaluated, 0);
    talk_for_long(&(Endless){.policy = OVERFLOW_SHIFT, .paged = true, .long_replies = true});
}

static void shifting_in_place(void **state) {
    (void)state;
    Sum sum = talk_for_long(&(Endless){.policy = OVERFLOW_SHIFT_INPLACE, .paged = true});
    assert_in_range(sum.overflows, 5, TURNS / 4);
    assert_int_equal(sum.evaluated, 0);
}

static void by_token(void **state) {
    (void)state;
    Sum sum = talk_for_long(&(Endless){.policy = OVERFLOW_SHIFT, .by_token = true, .discard = 0.05});
    assert_in_range(sum.overflows, TURNS / 4, TURNS); // little leaves, often
    assert_true(sum.evaluated < sum.overflows * CONTEXT / 2);
    sum = talk_for_long(&(Endless){.policy = OVERFLOW_SHIFT, .by_token = true, .discard = 0.5});
    assert_in_range(sum.overflows, 5, TURNS / 4);
    assert_int_equal(sum.evaluated, 0); // in one piece
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading_again),
        cmocka_unit_test(shifting),
        cmocka_unit_test(shifting_in_place),
        cmocka_unit_test(by_token),
    };
    return test_main("endless", argc, argv, tests);
}
