// The loop detector: what is told of, and what is not.
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "app/watch/repetition.h"

// How many bytes of `text`, so many times, were said before it was noticed; 0: it was not.
static size_t noticed_after(const char *text, int times, size_t piece) {
    Repetition repetition = {0};
    size_t said = 0, n = strlen(text);
    for (int i = 0; i < times; i++)
        for (size_t at = 0; at < n; at += piece) {
            size_t size = n - at < piece ? n - at : piece;
            said += size;
            if (repetition_found(&repetition, text + at, size)) return said;
        }
    return 0;
}

static void test_what_repeats(void **state) {
    (void)state;
    static const char sentence[] = "The capital of France is Paris, and the capital of Italy is Rome.\n";
    for (size_t piece = 1; piece < 9; piece++) assert_in_range(noticed_after(sentence, 50, piece), 380, 600);
    assert_true(noticed_after(" yes", 1000, 4) > 0);
    char paragraph[601];
    for (int i = 0; i < 600; i++) paragraph[i] = (char)('a' + (i * 7 + i / 26) % 26);
    paragraph[600] = 0;
    assert_in_range(noticed_after(paragraph, 20, 5), 3600, 4300);
}

static void test_what_does_not(void **state) {
    (void)state;
    Repetition repetition = {0};
    char line[80];
    for (int i = 0; i < 2000; i++) { // a numbered list is none
        int n = snprintf(line, sizeof line, "%d. The same words, but another number.\n", i);
        assert_false(repetition_found(&repetition, line, (size_t)n));
    }
    assert_int_equal(noticed_after("-", 300, 1), 0);    // a rule
    assert_int_equal(noticed_after("|---", 120, 4), 0); // of a table
    static const char sentence[] = "The capital of France is Paris, and the capital of Italy is Rome.\n";
    assert_int_equal(noticed_after(sentence, 4, 5), 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_repeats),
        cmocka_unit_test(test_what_does_not),
    };
    return test_main("repetition", argc, argv, tests);
}
