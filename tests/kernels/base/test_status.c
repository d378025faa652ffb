// Errors as values: messages, prefixes, truncation.
#include "tests/support/test.h"
#include "kernels/base/status.h"

#include <string.h>

static void set_fills_and_returns(void **state) {
    (void)state;
    Error e;
    assert_int_equal(error_set(&e, STATUS_FILE, "%s: %d", "a", 7), STATUS_FILE);
    assert_int_equal(e.status, STATUS_FILE);
    assert_string_equal(e.message, "a: 7");
    assert_int_equal(error_set(NULL, STATUS_USAGE, "nobody listens"), STATUS_USAGE);
}

static void prefix_keeps_the_status(void **state) {
    (void)state;
    Error e;
    error_set(&e, STATUS_MEMORY, "needs 3 GB");
    assert_int_equal(error_prefix(&e, "model %s: ", "m.gguf"), STATUS_MEMORY);
    assert_string_equal(e.message, "model m.gguf: needs 3 GB");
}

static void a_failure_that_nobody_listens_to_stays_one(void **state) {
    (void)state;
    assert_int_not_equal(error_prefix(NULL, "model: "), STATUS_OK);
}

static void long_messages_are_cut(void **state) {
    (void)state;
    Error e;
    char text[3000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    error_set(&e, STATUS_USAGE, "%s", text);
    assert_int_equal(strlen(e.message), sizeof e.message - 1);
    error_prefix(&e, "%s", text);
    assert_int_equal(strlen(e.message), sizeof e.message - 1);
    memset(text, '\033', sizeof text - 1); // nor does a spelling end in its middle
    error_set(&e, STATUS_USAGE, "xx%s", text);
    assert_int_equal(strlen(e.message), 2 + (sizeof e.message - 3) / 4 * 4);
}

static void control_characters_are_spelled(void **state) {
    (void)state;
    Error e;
    error_set(&e, STATUS_FILE, "piece '%s'", "a\nb\x1b[2J\xc2\x9b\x7f\u00e9");
    assert_string_equal(e.message, "piece 'a\\x0ab\\x1b[2J\\u009b\\x7f\u00e9'");
    error_prefix(&e, "%s: ", "x\ry"); // what is spelled already stays so
    assert_string_equal(e.message, "x\\x0dy: piece 'a\\x0ab\\x1b[2J\\u009b\\x7f\u00e9'");
}

static void bytes_of_no_character_do_not_reach_a_terminal(void **state) {
    (void)state;
    Error e;
    error_set(&e, STATUS_FILE, "piece '%s'",
              "a\x9b"
              "2J\xff\xe2\x82z\u202ey\xc3\xa9");
    assert_string_equal(e.message, "piece 'a\\x9b2J\\xff\\xe2\\x82z\\u202ey\u00e9'");
    error_prefix(&e, "%s: ", "\xf0\x9f\x98");
    assert_string_equal(e.message, "\\xf0\\x9f\\x98: piece 'a\\x9b2J\\xff\\xe2\\x82z\\u202ey\u00e9'");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_fills_and_returns),
        cmocka_unit_test(prefix_keeps_the_status),
        cmocka_unit_test(a_failure_that_nobody_listens_to_stays_one),
        cmocka_unit_test(long_messages_are_cut),
        cmocka_unit_test(control_characters_are_spelled),
        cmocka_unit_test(bytes_of_no_character_do_not_reach_a_terminal),
    };
    return test_main("status", argc, argv, tests);
}
