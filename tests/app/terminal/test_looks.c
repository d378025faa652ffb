// How the screen looks: words wrapped at the edge, Markdown, empty lines, themes; and where all of that is left out.
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/terminal/theme.h"
#include "tests/support/terminal/terminal.h"

static void expect_rows(Pty *pty, const char *const *rows) {
    for (int i = 0; rows[i]; i++) pty_expect_row(pty, i, rows[i]);
    pty_expect_exit(pty, 0);
    pty_end(pty);
}

static void notices_are_wrapped(void **state) {
    (void)state;
    const PtyOptions narrow = {.rows = 12, .cols = 30};
    static const char *const rows[] = {"one two three four five six",
                                       "seven",
                                       "/cmd [A]  what it does, told",
                                       "          at length",
                                       "012345678901234567890123456789",
                                       "0123",
                                       "日本語日本語日本語日本語日本語",
                                       "日本",
                                       "",
                                       "end",
                                       NULL};
    expect_rows(terminal_start_with(&narrow, "--wrap", "--space", "said", "one two three four five six seven",
                                    "/cmd [A]  what it does, told at length",
                                    "0123456789012345678901234567890123",
                                    "日本語日本語日本語日本語日本語日本", "-", "-", "end", NULL),
                rows);
    // In a list the rest stands under the words, also of what a star marks.
    static const char *const list[] = {"* a long name here  2026-11-30",
                                       "  the first question",
                                       "  another name, too  2026-11-30",
                                       "  the second question",
                                       "end",
                                       NULL};
    expect_rows(terminal_start_with(&(const PtyOptions){.rows = 12, .cols = 31}, "--wrap", "said",
                                    "* a long name here  2026-11-30 the first question",
                                    "  another name, too  2026-11-30 the second question", "end", NULL),
                list);
    // What stands before an error counts.
    static const char *const error[] = {"palaver: one two three four", "five six seven eight nine ten", "end",
                                        NULL};
    expect_rows(terminal_start_with(&narrow, "--wrap", "said",
                                    "!one two three four five six seven eight nine ten", "end", NULL),
                error);
    Pty *pty = terminal_start_with(&narrow, "--plain", "--wrap", "--space", "said",
                                   "one two three four five six seven", "-", "end", NULL);
    pty_expect(pty, "one two three four five six seven\r\nend\r\n");
    pty_end(pty);
}

static void replies_are_wrapped(void **state) {
    (void)state;
    const PtyOptions narrow = {.rows = 12, .cols = 20};
    static const char *const rows[] = {"# one **two** three", "fourteen", NULL};
    static const char *const drawn[] = {"one two three", "fourteen", "", "• item", NULL};
    expect_rows(terminal_start_with(&narrow, "--wrap", "reply", "# one **two** three four", "teen", NULL),
                rows);
    expect_rows(terminal_start_with(&narrow, "--markdown", "reply", "# one **two** three four",
                                    "teen\\n- item", NULL),
                drawn);
}

static void nothing_is_drawn_without_colours(void **state) {
    (void)state;
    static const char *const no_color[] = {"NO_COLOR=1", NULL}, *const dumb[] = {"TERM=dumb", NULL};
    Pty *pty =
        terminal_start_with(&(const PtyOptions){.env = no_color}, "--markdown", "reply", "**a** `b`", NULL);
    pty_expect(pty, "**a** `b`\r\n");
    pty_expect_exit(pty, 0);
    assert_null(strchr(pty_transcript(pty), '\033'));
    pty_end(pty);
    pty = terminal_start_with(&(const PtyOptions){.env = dumb}, "--markdown", "reply", "**a** `b`", NULL);
    pty_expect(pty, "**a** `b`\r\n");
    pty_expect_exit(pty, 0);
    assert_null(strchr(pty_transcript(pty), '\033'));
    pty_end(pty);
    char path[128], got[64] = "";
    snprintf(path, sizeof path, "%s/drawn", terminal_folder());
    pty = terminal_start_with(&(const PtyOptions){.stdout_path = path, .cols = 20}, "--markdown", "reply",
                              "**a** `b` and what is wider than the window", NULL);
    pty_expect_exit(pty, 0);
    pty_end(pty);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    got[fread(got, 1, sizeof got - 1, file)] = 0;
    fclose(file);
    assert_string_equal(got, "**a** `b` and what is wider than the window\n");
}

static void links_where_the_terminal_has_them(void **state) {
    (void)state;
    static const char *const knows[] = {"VTE_VERSION=7600", NULL}, *const unknown[] = {"VTE_VERSION",
                                                                                       "TERM_PROGRAM", NULL};
    Pty *pty =
        terminal_start_with(&(const PtyOptions){.env = knows}, "--markdown", "reply", "[x](http://a)", NULL);
    pty_expect(pty, "\033]8;;http://a\033\\x");
    pty_expect_exit(pty, 0);
    pty_end(pty);
    pty = terminal_start_with(&(const PtyOptions){.env = unknown}, "--markdown", "reply", "[x](http://a)",
                              NULL);
    pty_expect_screen(pty, "x (http://a)");
    pty_expect_exit(pty, 0);
    assert_null(strstr(pty_transcript(pty), "]8;;"));
    pty_end(pty);
}

static void themes_are_made_of_names(void **state) {
    (void)state;
    Theme theme;
    const char *own[THEME_N_PARTS] = {
        [THEME_CODE] = "bold bright-green", [THEME_LINK] = "normal", [THEME_ERROR] = "italic,red"};
    unsetenv("COLORFGBG");
    theme_make(THEME_DARK, own, &theme);
    assert_string_equal(theme.sgr[THEME_CODE], "1;92");
    assert_string_equal(theme.sgr[THEME_LINK], "");
    assert_string_equal(theme.sgr[THEME_ERROR], "3;31");
    assert_string_equal(theme.sgr[THEME_HEADING], "95");
    setenv("COLORFGBG", "0;15", 1);
    theme_make(THEME_AUTO, NULL, &theme);
    assert_string_equal(theme.sgr[THEME_WARNING], "31"); // yellow is not seen on white
    setenv("COLORFGBG", "15;0", 1);
    theme_make(THEME_AUTO, NULL, &theme);
    assert_string_equal(theme.sgr[THEME_WARNING], "93");
    unsetenv("COLORFGBG");
    assert_true(theme_accepts(""));
    assert_true(theme_accepts("dim underline bright-cyan"));
    assert_false(theme_accepts("pink"));
    assert_false(theme_accepts("bright-bold"));
    assert_false(theme_accepts(
        "bold bold bold bold bold bold bold bold bold bold bold bold bold bold bold bold bold"));
}

static int run(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notices_are_wrapped),
        cmocka_unit_test(replies_are_wrapped),
        cmocka_unit_test(nothing_is_drawn_without_colours),
        cmocka_unit_test(links_where_the_terminal_has_them),
        cmocka_unit_test(themes_are_made_of_names),
    };
    return test_main("looks", argc, argv, tests);
}

int main(int argc, char **argv) {
    return terminal_main(argc, argv, run);
}
