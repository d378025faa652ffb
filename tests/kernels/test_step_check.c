// What begin() refuses of a step, whatever the backend is: slots in pages, and states.
#include "kernels/step_check.h"
#include "tests/support/test.h"

#include <string.h>

enum { PAGE = 4, TOKENS = 6 };

// Two sequences of three tokens behind seven that are cached, in pages that do not follow each other.
typedef struct TwoTexts {
    DecoderShape shape;
    Step step;
    int32_t ids[TOKENS], positions[TOKENS], slots[TOKENS], pages[2][3];
    StepSequence sequences[2];
} TwoTexts;

static void make_texts(TwoTexts *t) {
    static const int32_t PAGES[2][3] = {{20, 4, 12}, {0, 16, 8}};
    *t = (TwoTexts){.shape = {.vocab_size = 9}};
    t->shape.delta.n_value_heads = 2;
    memcpy(t->pages, PAGES, sizeof PAGES);
    for (int i = 0; i < 2; i++) {
        t->sequences[i] = (StepSequence){.first_token = 3 * i,
                                         .n_tokens = 3,
                                         .n_slots = 10,
                                         .pages = t->pages[i],
                                         .state_from = 2 * i,
                                         .state_to = 2 * i + 1};
        for (int k = 0; k < 3; k++) {
            const int at = 7 + k, token = 3 * i + k;
            t->positions[token] = at, t->slots[token] = t->pages[i][at / PAGE] + at % PAGE;
        }
    }
    t->step = (Step){.n_tokens = TOKENS,
                     .n_sequences = 2,
                     .ids = t->ids,
                     .positions = t->positions,
                     .slots = t->slots,
                     .sequences = t->sequences,
                     .page_size = PAGE};
}

static void expect(const TwoTexts *t, const char *why) {
    Error error = {0};
    const Status status = step_check(&t->shape, TOKENS, &t->step, &error);
    assert_int_equal(status, why ? STATUS_DEVICE : STATUS_OK);
    if (why && !strstr(error.message, why)) fail_msg("expected \"%s\" in \"%s\"", why, error.message);
}

static void slots_among_pages(void **state) {
    (void)state;
    TwoTexts t;
    make_texts(&t);
    expect(&t, NULL);
    t.slots[0] = 20; // of its first page, where the search does not begin
    expect(&t, NULL);
    t.slots[0] = 16; // of the other's
    expect(&t, "slot 16 of token 0 is not among its sequence's 10 slots in 3 pages from 20 on");
    make_texts(&t);
    t.slots[5] = t.pages[1][2] + 2; // of its last page, and behind its slots
    expect(&t, "slot 10 of token 5");
    make_texts(&t);
    t.pages[1][1] = -1;
    expect(&t, "sequence 1 sees 10 slots, of these 4 from slot -1 on");
}

static void states_of_one_sequence_each(void **state) {
    (void)state;
    static const int32_t WRONG[][4] = {
        {0, 1, 2, 1}, {0, 0, 2, 3}, {0, 2, 2, 3}, {-2, 1, 2, 3}, {0, 1, 2, -1}};
    TwoTexts t;
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        make_texts(&t);
        for (int k = 0; k < 2; k++)
            t.sequences[k].state_from = WRONG[i][2 * k], t.sequences[k].state_to = WRONG[i][2 * k + 1];
        expect(&t, "which is taken");
        t.shape.delta.n_value_heads = 0; // nothing recurs
        expect(&t, NULL);
    }
    make_texts(&t);
    t.sequences[0].state_from = t.sequences[1].state_from = -1; // both begin
    expect(&t, NULL);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_among_pages),
        cmocka_unit_test(states_of_one_sequence_each),
    };
    return test_main("step_check", argc, argv, tests);
}
