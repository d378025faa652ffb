// What messages quote: how many columns, whole characters, and that it is always UTF-8.
#include "kernels/base/text/quote.h"
#include "kernels/base/status.h"
#include "kernels/base/text/utf8.h"
#include "tests/support/test.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

static void repeat(char *text, const char *part, int n) {
    *text = 0;
    for (int i = 0; i < n; i++) strcat(text, part);
}

// `part`, n times, is quoted as `kept` of it, and an ellipsis unless that is all.
static void expect_quote(const char *part, int n, int kept) {
    char text[2000], wanted[2000];
    repeat(text, part, n);
    repeat(wanted, part, kept);
    if (kept < n) strcat(wanted, "…");
    assert_string_equal(quote(text).text, wanted);
}

static void test_columns(void **state) {
    (void)state;
    assert_string_equal(quote("").text, "");
    expect_quote("y", 80, 80);
    expect_quote("y", 81, 79);
    expect_quote("y", 1900, 79);
    expect_quote("é", 80, 80);
    expect_quote("é", 81, 79);
    expect_quote("日", 40, 40);
    expect_quote("日", 41, 39); // the 40th would leave no column for the ellipsis
    expect_quote("e\xCC\x81", 80, 80);
    expect_quote("e\xCC\x81", 81, 79);
    expect_quote("😀", 41, 39);
    assert_string_equal(quote_bytes("whole and more", 5).text, "whole");
}

static void test_what_is_no_text(void **state) {
    (void)state;
    assert_string_equal(quote("a\xFFz").text, "a\\xffz");
    assert_string_equal(quote("a\xE2\x82").text, "a\\xe2\\x82");
    assert_string_equal(quote("a\nb\t\033c\xC2\x9B\u202E").text, "a\\x0ab\\x09\\x1bc\\u009b\\u202e");
    char bells[101] = "", wanted[100] = "";
    repeat(bells, "\a", 21);
    repeat(wanted, "\\x07", 19); // a spelling is not cut
    assert_string_equal(quote(bells).text, strcat(wanted, "…"));
    char marks[1500] = "e";
    for (int i = 0; i < 700; i++) strcat(marks, "\xCC\x81"); // take no column, but bytes
    Quote q = quote(marks);
    assert_true(strlen(q.text) < QUOTE_ROOM);
    assert_int_equal(utf8_valid_run(q.text, strlen(q.text)), strlen(q.text));
    assert_non_null(strstr(q.text, "…"));
    uint32_t numbers = 5;
    for (int i = 0; i < 20000; i++) {
        char text[300];
        size_t n = (numbers = numbers * 1664525u + 1013904223u) >> 24;
        for (size_t k = 0; k < n; k++)
            text[k] = (char)((numbers = numbers * 1664525u + 1013904223u) >> (k % 3 ? 24 : 25));
        q = quote_bytes(text, n);
        assert_int_equal(utf8_valid_run(q.text, strlen(q.text)), strlen(q.text));
    }
}

// A message that is too long ends with a whole character, too.
static void test_messages_that_are_cut(void **state) {
    (void)state;
    char many[2000];
    repeat(many, "é", 900);
    for (int i = 0; i < 2; i++) {
        Error error;
        error_set(&error, STATUS_FILE, i ? "x%s" : "%s", many);
        assert_int_equal(utf8_valid_run(error.message, strlen(error.message)), strlen(error.message));
        assert_in_range(strlen(error.message), 998, 999);
        error_prefix(&error, "y");
        assert_int_equal(utf8_valid_run(error.message, strlen(error.message)), strlen(error.message));
    }
}

int main(int argc, char **argv) {
    setlocale(LC_CTYPE, "C.UTF-8");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_what_is_no_text),
        cmocka_unit_test(test_messages_that_are_cut),
    };
    return test_main("quote", argc, argv, tests);
}
