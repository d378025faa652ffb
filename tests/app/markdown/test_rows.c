// The rows of a reply in Markdown as it streams: they end between words, what turns out otherwise leaves what a single
// drawing would, and nothing is lost where a block is taller, deeper or wider than the window.
#include "tests/support/terminal/drawn.h"
#include "tests/support/test.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Stream {
    Markdown *m;
    Vt vt;
    char sent[4096];
} Stream;

static Stream stream; // its screen is large

static void begin(int width, int height, bool raw) {
    MarkdownOptions options = drawn_options(width, raw);
    options.height = height;
    stream.m = markdown_open(&options);
    stream.sent[0] = 0;
    vt_init(&stream.vt, DRAWN_ROWS, width);
}

static void take(Text *out) {
    drawn_feed(&stream.vt, out);
    snprintf(stream.sent, sizeof stream.sent, "%s", out->size ? out->bytes : "");
    text_free(out);
}

static void push(const char *text) {
    Text out = {0};
    assert_true(markdown_push(stream.m, text, strlen(text), &out));
    take(&out);
}

static void end(void) {
    Text out = {0};
    assert_true(markdown_end(stream.m, &out));
    take(&out);
    markdown_close(stream.m);
}

static void expect_row(int row, const char *wanted) {
    char line[1300];
    vt_row(&stream.vt, row, line, sizeof line);
    assert_string_equal(line, wanted);
}

static void expect_sent(const char *part) {
    if (!strstr(stream.sent, part)) fail_msg("not sent: %s in %s", part, stream.sent);
}

static void expect_rows(const char *const *rows) {
    for (int row = 0; rows[row]; row++) expect_row(row, rows[row]);
}

static void test_a_word_that_grows_moves_down(void **state) {
    (void)state;
    for (int raw = 0; raw < 2; raw++) {
        begin(20, 24, raw);
        push("one two three fo");
        expect_row(0, "one two three fo");
        push("urteen");
        expect_row(0, "one two three");
        expect_row(1, "fourteen");
        push(" 日本語日本語日");
        expect_row(1, "fourteen 日本語日本");
        expect_row(2, "語日");
        push(" 0123456789012345678901234567890"); // longer than a row: broken where that is full
        expect_row(3, "01234567890123456789");
        expect_row(4, "01234567890");
        push(" end");
        expect_row(4, "01234567890 end");
        end();
        assert_int_equal(stream.vt.row, 5);
    }
}

// A word that fills a row, and then goes on.
static void test_a_full_row(void **state) {
    (void)state;
    begin(10, 24, false);
    push("abc defghi");
    expect_row(0, "abc defghi");
    push("j");
    expect_row(0, "abc");
    expect_row(1, "defghij");
    push(" kl");
    push("\n\nnext");
    expect_row(1, "defghij kl");
    expect_row(3, "next");
    end();
}

static void test_what_turns_out_otherwise(void **state) {
    (void)state;
    begin(40, 24, false);
    push("a **bold");
    expect_row(0, "a bold"); // the marks count as if they were closed
    push("\n\n");
    expect_row(0, "a **bold"); // they are not
    push("| a | b |\n");
    push("|---|--");
    expect_row(2, "| a | b |");
    push("-|\n| long cell | x |\n");
    expect_row(2, "a         │ b");
    expect_row(4, "long cell │ x");
    push("\nTitle\n");
    expect_row(6, "Title");
    push("---\n[text](http://a");
    expect_row(8, "[text");
    push(".b) end");
    expect_row(8, "text end");
    end();
}

static void test_raw_text_stays_as_it_is(void **state) {
    (void)state;
    begin(40, 24, true);
    push("# **a**\n\n  - `b`\tc  d\n");
    expect_row(0, "# **a**");
    expect_row(2, "  - `b` c  d");
    assert_int_equal(stream.vt.row, 3); // the newline is there as soon as it came
    end();
    assert_int_equal(stream.vt.row, 3);
}

// A paragraph that is taller than the window: what has left it is not touched, and nothing of the rest is lost.
static void test_tall_paragraphs(void **state) {
    (void)state;
    for (int height = 3; height < 12; height += 4) {
        char word[40], seen[DRAWN_SEEN];
        begin(30, height, false);
        for (int i = 0; i < 300; i++) {
            snprintf(word, sizeof word, i % 7 == 3 ? "**w%d " : i % 7 == 5 ? "w%d** " : "w%d ", i);
            push(word);
        }
        end();
        drawn_seen(&stream.vt, false, seen);
        const char *at = seen;
        for (int i = 0; i < 300; i++) {
            size_t n = (size_t)snprintf(word, sizeof word, "w%d", i);
            if (strncmp(at, word, n) != 0) fail_msg("height %d, word %d: %.60s", height, i, at);
            at += n + (at[n] == ' ');
        }
        assert_string_equal(at, "");
    }
}

// What lies deeper than half of the window is not indented further: a level is a row, not a column of letters.
static void test_deep_blocks(void **state) {
    (void)state;
    char line[200], wanted[60];
    begin(40, 24, false);
    for (int level = 0; level < 24; level++) {
        snprintf(line, sizeof line, "%*s- level %d of them\n", 2 * level, "", level);
        push(line);
    }
    for (int i = 0; i < 2; i++) push(i ? "deep quote\n\nend" : "\n> > > > > > > > > > > > > > > > > > > > ");
    end();
    for (int level = 0; level < 24; level++) {
        static const char *const bullets[] = {"•", "◦", "▪"};
        snprintf(wanted, sizeof wanted, "%*s%s level %d of them", 2 * (level < 9 ? level : 9), "",
                 bullets[level < 2 ? level : 2], level);
        expect_row(level, wanted);
    }
    expect_row(25, "│ │ │ │ │ │ │ │ │ │ deep quote");
    expect_row(27, "end");
}

static void test_numbers_stay_as_they_are_written(void **state) {
    (void)state;
    begin(40, 24, false);
    push("4. four\n7. seven\n   1) one\n   1) one again\n12. twelve\n\n    more\n\n3. three\n007. a name\n");
    end();
    expect_rows((const char *const[]){"4. four", "7. seven", "   1) one", "   1) one again", "12. twelve", "",
                                      "    more", "", "3. three", "007. a name", "", NULL});
}

// More columns than a row has room for: a line's last ones stand below its first ones, and no cell is broken.
static void test_tables_of_many_columns(void **state) {
    (void)state;
    begin(20, 24, false);
    push("| one | two | three | four | five |\n|---|---|---|---|---|\n| 1 | 2 | 3 | 4 | 5 |\n| a | b | c | d "
         "| e |\n");
    end();
    expect_row(0, "one │ two │ three");
    expect_row(1, "  four │ five");
    expect_row(2, "────┼─────┼──────");
    expect_row(3, "1   │ 2   │ 3");
    expect_row(4, "  4    │ 5");
    expect_row(5, "────┼─────┼──────");
    expect_row(6, "a   │ b   │ c");
    expect_row(7, "  d    │ e");
    expect_row(8, "");
}

// More cells than the table has columns: none is lost.
static void test_cells_without_a_column(void **state) {
    (void)state;
    begin(40, 24, false);
    push("| a | b |\n|---|---|\n| 1 | 2 | 3 | 4 |\n| 5 |\n");
    end();
    expect_row(0, "a │ b");
    expect_row(2, "1 │ 2 | 3 | 4");
    expect_row(3, "5 │");
}

// Something else is said in the middle of a reply: it stands between, and nothing comes twice.
static void test_parts(void **state) {
    (void)state;
    begin(40, 24, false);
    push("- one *two");
    Text out = {0};
    assert_true(markdown_part(stream.m, &out));
    assert_true(text_add(&out, "[notice]\n", 9));
    take(&out);
    push(" three* four\n- five\n\n```c\nint x;");
    expect_row(0, "• one two");
    expect_row(1, "[notice]");
    assert_true(markdown_part(stream.m, &out));
    take(&out);
    push(" // y\n```\n");
    end();
    char seen[DRAWN_SEEN];
    drawn_seen(&stream.vt, false, seen);
    assert_string_equal(seen, "one two [notice] three four five c int x; // y");
}

// What is said, or happens, in the middle of a reply does not end what is open there.
static void part(const char *notice) {
    Text out = {0};
    assert_true(markdown_part(stream.m, &out));
    assert_true(text_add(&out, notice, strlen(notice)));
    take(&out);
}

static void test_a_table_goes_on_as_one(void **state) {
    (void)state;
    begin(40, 24, false);
    push("| a | b |\n|---|--:|\n| 1 | 2 |\n| 3");
    part("[notice]\n");
    push(" | *4* |\n| five | 6 |\n");
    part("[another]\n");
    push("\nend");
    end();
    expect_rows((const char *const[]){"a │ b", "──┼──", "1 │ 2", "[notice]", "a    │ b", "─────┼──",
                                      "3    │ 4", "five │ 6", "[another]", "", "end", "", NULL});
    // Under its head the line is missing yet.
    begin(40, 24, false);
    push("| a | b |\n|--");
    part("[notice]\n");
    push("-|---|\n| 1 | 2 |");
    end();
    expect_rows((const char *const[]){"| a | b |", "[notice]", "a │ b", "──┼──", "1 │ 2", "", NULL});
    // The window is narrower than what stands there.
    Text out = {0};
    begin(40, 24, false);
    push("| word after word | b |\n|---|---|\n| 1 | 2 |\n");
    markdown_resize(stream.m, 12, 24, &out);
    take(&out);
    vt_resize(&stream.vt, DRAWN_ROWS, 12);
    push("| 3 | 4 |\n");
    end();
    expect_row(3, "word     │ b");
}

static void test_what_is_open_goes_on(void **state) {
    (void)state;
    begin(60, 24, false);
    push("A **bold");
    part("[notice]\n");
    push(" word**, `some");
    part("[notice]\n");
    push(" __code__` and [a");
    part("[notice]\n");
    push(" link](http://a.b) end");
    expect_sent("\033]8;;http://a.b");
    part("[notice]\n");
    push("\n\n> quoted");
    part("[notice]\n");
    push(" *on*\n");
    part("[notice]\n");
    push("\nTitle");
    part("[notice]\n");
    push("\n---\nend");
    end();
    expect_rows((const char *const[]){"A bold",   "[notice]", "word, some", "[notice]", "__code__ and [a",
                                      "[notice]", "link end", "[notice]",   "",         "│ quoted",
                                      "[notice]", "│ on",     "[notice]",   "",         "Title",
                                      "[notice]", "",         "end",        "",         NULL});
}

static void test_no_row_before_what_goes_on(void **state) {
    (void)state;
    static const char *const before[] = {"One.", "| a |\n|---|\n| 1 |\n", "- One\n- Two", "# One",
                                         "```\none\n```"};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        begin(40, 24, false);
        assert_true(markdown_go_on(stream.m, before[i], strlen(before[i])));
        push("\n\nThree.\n\nFour.");
        end();
        expect_rows((const char *const[]){"Three.", "", "Four.", "", NULL});
    }
}

static void test_another_width(void **state) {
    (void)state;
    Text out = {0};
    begin(20, 24, false);
    push("one two three four fi");
    markdown_resize(stream.m, 40, 24, &out);
    vt_resize(&stream.vt, DRAWN_ROWS, 40);
    take(&out);
    push("ve six");
    expect_row(0, "one two three four five six");
    markdown_resize(stream.m, 10, 24,
                    &out); // what stands there is wider: it stays, and the rest goes on below
    take(&out);
    vt_resize(&stream.vt, DRAWN_ROWS, 10);
    push(" seven eight");
    expect_row(1, "seven");
    expect_row(2, "eight");
    end();
}

static void test_styles_and_links(void **state) {
    (void)state;
    begin(80, 24, false);
    push("# T");
    expect_sent("\033[0;35;1mT\033[0m");
    push("\n```python\ndef f(): return 'a' # b\n");
    expect_sent("\033[0;34mdef");
    expect_sent("\033[0;34mreturn");
    expect_sent("\033[0;32m'a'");
    expect_sent("\033[0;2m# b");
    push("```\n[x](http://a/ü\"b)");
    expect_sent("\033]8;;http://a/%C3%BC\"b\033\\");
    expect_sent("\033]8;;\033\\");
    push(" ***y***");
    expect_sent("1;3m");
    end();
    MarkdownOptions options = drawn_options(80, false);
    options.theme.links = false; // the address is told
    stream.m = markdown_open(&options);
    vt_init(&stream.vt, DRAWN_ROWS, 80);
    push("see [x](http://a) and <http://b>");
    end();
    expect_row(0, "see x (http://a) and http://b");
}

// A theme in which code looks like all else: it is told by its marks, and by where it stands.
static void test_code_without_a_look(void **state) {
    (void)state;
    MarkdownOptions options = drawn_options(24, false);
    options.theme.inks[INK_CODE] = "";
    stream.m = markdown_open(&options);
    vt_init(&stream.vt, DRAWN_ROWS, 24);
    push("a `b` and ``c`d");
    expect_row(0, "a `b` and ``c`d");
    push("`` [`e`](f)\n\n```c d\nint");
    expect_row(0, "a `b` and ``c`d`` `e`");
    expect_row(3, "  int");
    push(" of_many_letters_and_more;\n\n\tx\n```\n- one\n  ```\n  two\n  ```\n\n| `g` | h |\n|---|---|\n\n   "
         " three\n");
    end();
    // The rows of a line that is wider are copied as one.
    expect_rows((const char *const[]){"a `b` and ``c`d`` `e`", "", "c", "  int of_many_letters_an", "d_more;",
                                      "", "        x", "", "• one", "", "    two", "", "`g` │ h", "────┼──",
                                      "", "  three", "", NULL});
    begin(24, 24, false);
    push("a `b`\n\n~~~ python\nx\n~~~\n```\ny\n```\n");
    end();
    expect_rows((const char *const[]){"a b", "", "python", "x", "", "y", "", NULL});
}

// Nothing that a terminal obeys comes out of a text that has none.
static void test_entities_are_harmless(void **state) {
    (void)state;
    begin(80, 24, false);
    push("a&#27;[31m&#x9b;&#x202e;&#7; &#0; [x](&#27;]0;t&#7;)\n");
    for (const char *c = stream.sent; *c; c++) assert_true(*c != '\a' && (unsigned char)*c != 0x9b);
    assert_null(strstr(stream.sent, "\033[31m"));
    assert_null(strstr(stream.sent, "\u202e"));
    assert_null(strstr(stream.sent, "\033]0"));
    end();
}

// A text without an end, or with marks only, is shown in time.
static void test_hostile_texts(void **state) {
    (void)state;
    static const char *const signs[] = {"*a ",  "[",  "`",   "> ",  "|a",  "a",    "- ",
                                        "_b* ", "$a", "$$a", "\\a", "\\(", "\\[ ", "$$\n"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        begin(80, 24, false);
        for (int k = 0; k < 400; k++) {
            char piece[200] = "";
            while (strlen(piece) < 100) strcat(piece, signs[i]);
            push(piece);
        }
        end();
    }
}

int main(int argc, char **argv) {
    setlocale(LC_CTYPE, "C.UTF-8");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_word_that_grows_moves_down),
        cmocka_unit_test(test_a_full_row),
        cmocka_unit_test(test_what_turns_out_otherwise),
        cmocka_unit_test(test_raw_text_stays_as_it_is),
        cmocka_unit_test(test_tall_paragraphs),
        cmocka_unit_test(test_deep_blocks),
        cmocka_unit_test(test_numbers_stay_as_they_are_written),
        cmocka_unit_test(test_tables_of_many_columns),
        cmocka_unit_test(test_cells_without_a_column),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_a_table_goes_on_as_one),
        cmocka_unit_test(test_what_is_open_goes_on),
        cmocka_unit_test(test_no_row_before_what_goes_on),
        cmocka_unit_test(test_another_width),
        cmocka_unit_test(test_styles_and_links),
        cmocka_unit_test(test_code_without_a_look),
        cmocka_unit_test(test_entities_are_harmless),
        cmocka_unit_test(test_hostile_texts),
    };
    return test_main("rows", argc, argv, tests);
}
