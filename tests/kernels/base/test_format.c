// Figures as people write and read them.
#include "tests/support/test.h"
#include "kernels/base/text/format.h"

static void expect(const char *text, int64_t bytes) {
    int64_t read = -1;
    if (!format_read_bytes(text, &read)) fail_msg("%s is refused", text);
    assert_int_equal(read, bytes);
}

static void test_amounts(void **state) {
    (void)state;
    expect("off", 0);
    expect("0", 0);
    expect("300", 300);
    expect("2 GB", 2000000000);
    expect("1.5gb", 1500000000);
    expect("20  kB", 20000);
    expect("7 B", 7);
    static const char *const wrong[] = {"",       " ",   "GB",  "-1 GB", "2 GiB",
                                        "2 GB x", "1e3", "nan", "inf",   "9999999 TB"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int64_t bytes;
        if (format_read_bytes(wrong[i], &bytes)) fail_msg("\"%s\" is taken", wrong[i]);
    }
}

static void test_figures(void **state) {
    (void)state;
    char text[FORMAT_ROOM];
    format_bytes(94e6, text);
    assert_string_equal(text, "94 MB");
    format_bytes(1.23e9, text);
    assert_string_equal(text, "1.2 GB");
    format_count(134515008, text);
    assert_string_equal(text, "135M");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_amounts), cmocka_unit_test(test_figures)};
    return test_main("figures", argc, argv, tests);
}
