// PALAVER_CUDA_LIMITS: how it is read, and what of it a card takes (kernels/cuda/limits.h). No GPU is asked.
#include "tests/support/test.h"
#include "kernels/cuda/limits.h"

#include <string.h>

static const Card HOPPER = {90, 132, 232448}, AMPERE = {80, 108, 166912};

static void limits_are_read(void **state) {
    (void)state;
    Error error;
    CardLimits l;
    assert_int_equal(limits_read(NULL, &l, &error), STATUS_OK);
    assert_true(l.compute == 0 && l.n_sms == 0 && l.shared == 0 && l.memory == 0);
    assert_int_equal(limits_read("", &l, &error), STATUS_OK);
    assert_int_equal(limits_read("compute=86,smem=99k,sms=46,memory=8G", &l, &error), STATUS_OK);
    assert_true(l.compute == 86 && l.n_sms == 46 && l.shared == 101376 && l.memory == (int64_t)8 << 30);
    assert_int_equal(limits_read("memory=500M,smem=101376", &l, &error), STATUS_OK);
    assert_true(l.compute == 0 && l.n_sms == 0 && l.shared == 101376 && l.memory == (int64_t)500 << 20);
}

static void other_words_are_errors(void **state) {
    (void)state;
    static const char *const WRONG[] = {"compute",
                                        "compute=",
                                        "compute=8.6",
                                        "sms=46k",
                                        "sms=0",
                                        "smem=k",
                                        "smem=-1",
                                        "smem=99K",
                                        "memory=8GB",
                                        "memory= 8G",
                                        "computes=86",
                                        ",",
                                        "sms=46,",
                                        ",sms=46",
                                        "sms=46,,compute=86",
                                        "sms=46,sms=46",
                                        "compute=99999",
                                        "sms=46 ",
                                        "memory=99999999999G",
                                        "=5",
                                        "sms=4294967297"};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        Error error;
        CardLimits l;
        assert_int_equal(limits_read(WRONG[i], &l, &error), STATUS_USAGE);
        assert_non_null(strstr(error.message, "PALAVER_CUDA_LIMITS"));
    }
}

static void a_card_becomes_a_smaller_one(void **state) {
    (void)state;
    Error error;
    CardLimits l = {0};
    Card card = HOPPER;
    assert_int_equal(limits_apply(&l, &card, &error), STATUS_OK);
    assert_memory_equal(&card, &HOPPER, sizeof card);
    assert_int_equal(limits_read("compute=86,smem=99k,sms=46", &l, &error), STATUS_OK);
    card.compute = 80; // code for 8.0, on Hopper
    assert_int_equal(limits_apply(&l, &card, &error), STATUS_OK);
    assert_true(card.compute == 86 && card.n_sms == 46 && card.shared_limit == 101376);
    assert_false(dispatch_features(&card)->overlap || dispatch_features(&card)->wgmma);
    card = HOPPER, l = (CardLimits){.compute = 90, .n_sms = 46};
    assert_int_equal(limits_apply(&l, &card, &error), STATUS_OK);
    assert_true(card.compute == 90 && card.n_sms == 46);
}

// It lacks the portable kernels: they would compute nothing, without a word.
static void code_for_hopper_is_no_other(void **state) {
    (void)state;
    static const int OTHERS[] = {80, 86, 89, 100, 120};
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++) {
        Error error;
        Card card = HOPPER;
        CardLimits l = {.compute = OTHERS[i]};
        assert_int_equal(limits_apply(&l, &card, &error), STATUS_USAGE);
        assert_non_null(strstr(error.message, "CUDA_ARCH='-gencode arch=compute_80,code=sm_90'"));
        assert_memory_equal(&card, &HOPPER, sizeof card);
    }
}

static void a_card_never_becomes_a_larger_one(void **state) {
    (void)state;
    static const CardLimits LARGER[] = {
        {.compute = 90}, {.compute = 120}, {.compute = 75}, {.n_sms = 109}, {.shared = 166913}};
    for (size_t i = 0; i < sizeof LARGER / sizeof *LARGER; i++) {
        Error error;
        Card card = AMPERE;
        assert_int_equal(limits_apply(&LARGER[i], &card, &error), STATUS_USAGE);
    }
}

static void features_go_by_the_table(void **state) {
    (void)state;
    static const struct {
        int compute;
        bool overlap, wgmma;
    } CASES[] = {{80, false, false}, {86, false, false}, {87, false, false}, {89, false, false},
                 {90, true, true},   {100, true, false}, {103, true, false}, {110, true, false},
                 {120, true, false}, {121, true, false}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Card card = {CASES[i].compute, 46, 101376};
        assert_true(dispatch_features(&card)->overlap == CASES[i].overlap);
        assert_true(dispatch_features(&card)->wgmma == CASES[i].wgmma);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_read),
        cmocka_unit_test(other_words_are_errors),
        cmocka_unit_test(a_card_becomes_a_smaller_one),
        cmocka_unit_test(code_for_hopper_is_no_other),
        cmocka_unit_test(a_card_never_becomes_a_larger_one),
        cmocka_unit_test(features_go_by_the_table),
    };
    return test_main("limits", argc, argv, tests);
}
