// What a model writes is what is shown, where its signs are no Markdown: products, powers, mathematics, paths; in whole,
// in pieces, and where a reply that was cut goes on.
#include "tests/support/terminal/drawn.h"
#include "tests/support/test.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

static uint32_t numbers = 7;

typedef struct Case {
    const char *text, *seen; // NULL: what is seen is the text
} Case;

static void pack(char *text) {
    char *to = text;
    for (; *text; text++)
        if (!strchr(" \n", *text)) *to++ = *text;
    *to = 0;
}

// Of what is cut anywhere and goes on the end is seen.
static void check_cuts(const Case *it, const char *seen, const MarkdownOptions *options) {
    static Vt vt;
    char rest[DRAWN_SEEN], whole[DRAWN_SEEN];
    snprintf(whole, sizeof whole, "%s", seen);
    pack(whole);
    for (size_t cut = 0; cut < strlen(it->text); cut++) {
        if (((unsigned char)it->text[cut] & 0xC0) == 0x80) continue;
        drawn_rest(&vt, it->text, cut, options, 3, &numbers);
        drawn_seen(&vt, true, rest);
        size_t n = strlen(rest), all = strlen(whole);
        if (n > all || strcmp(whole + all - n, rest) != 0)
            fail_msg("cut at %zu: %s\n%s", cut, it->text, rest);
    }
}

static void check(const Case *cases, size_t n) {
    static Vt vt;
    for (const Case *it = cases; it < cases + n; it++) {
        char seen[DRAWN_SEEN];
        MarkdownOptions options = drawn_options(120, false);
        for (uint32_t most = 0; most < 8; most++) {
            drawn_show(&vt, it->text, &options, most, &numbers);
            drawn_seen(&vt, false, seen);
            assert_string_equal(seen, it->seen ? it->seen : it->text);
        }
        check_cuts(it, seen, &options);
    }
}

#define CHECK(...) check((const Case[]){__VA_ARGS__}, sizeof((const Case[]){__VA_ARGS__}) / sizeof(Case))

static void test_stars(void **state) {
    (void)state;
    CHECK({"2*3*4 = 24", NULL}, {"a*b*c, x*y and α*β*γ", NULL}, {"*note: 2*3 is 6*", "note: 2*3 is 6"},
          {"x**2 + y**2 = r**2", NULL}, {"2**3**4", NULL},
          {"snake_case_name and _it_", "snake_case_name and it"},
          {"**N**orth **A**tlantic, un**believ**able", "North Atlantic, unbelievable"},
          {"a **2**x speedup", "a 2x speedup"}, {"これは*強調*です、**太字**も", "これは強調です、太字も"},
          {"*one* (*two*) and ***three***", "one (two) and three"});
}

static void test_mathematics(void **state) {
    (void)state;
    CHECK({"so $a_i * b_j * c_k$ is $\\{x\\}$", NULL},
          {"$2\\*x$, **$_y_$** and $n$th", "$2\\*x$, $_y_$ and $n$th"},
          {"\\(x_1 * y_1 * z\\) and \\[ a \\\\ b\\_c \\]", NULL}, {"$$E = m*c*c \\, \\_ $$", NULL},
          {"When\n\n\\[\nx\n= 2 \\\\[2pt]\n- y\n+ [a](b)\n# z\n\\]\n\n**end**",
           "When \\[ x = 2 \\\\[2pt] - y + [a](b) # z \\] end"},
          {"- so\n  $$\n  1. *a* + b\n  > c\n  $$\n- *b*", "so $$ 1. *a* + b > c $$ b"},
          {"$$\n*never closed*\n\n- *a*", "$$ never closed a"}, {"\\[\nx \\_ y", "[ x _ y"},
          {"\\(x *y*", "(x y"});
    // And what is none.
    CHECK(
        {"it costs $5 and *not* $6", "it costs $5 and not $6"},
        {"**$5** or **$10**, US$ *7*", "$5 or $10, US$ 7"},
        {"$5–$10 for *two*; $1,000 a year (*in* US$)", "$5–$10 for two; $1,000 a year (in US$)"},
        {"$HOME/*bin*:$PATH", "$HOME/bin:$PATH"}, {"from $x to $y is *far*", "from $x to $y is far"},
        {"**$$**: cheap, **$$$**: *dear*", "$$: cheap, $$$: dear"}, {"$HOME and `$PATH`", "$HOME and $PATH"},
        {"array\\[0\\], \\[1\\], \\[ \\] and \\[text\\](address)", "array[0], [1], [ ] and [text](address)"},
        {"\\$5 and \\$6_a_", "$5 and $6_a_"}, {"$x\ny$ *z*", "$x y$ z"});
}

static void test_paths(void **state) {
    (void)state;
    CHECK({"C:\\temp\\*.txt and D:\\x\\*.txt", NULL}, {"C:\\*.txt or (C:\\_a\\b_)", NULL},
          {"\\\\server\\share\\_x_", NULL}, {"src\\.git, dir\\*.txt, grep a\\|b", NULL},
          {"C:\\\\Users\\\\_me_", NULL}, {"lib\\src\\_init\\_.py", NULL}, {"\\textbf\\{x\\}", NULL});
    CHECK({"\\*not emphasised\\*, \\_nor\\_ this", "*not emphasised*, _nor_ this"},
          {"snake\\_case, AT\\&T, 2\\*3", "snake_case, AT&T, 2*3"}, {"1\\. no list, C\\#", "1. no list, C#"},
          {"a \\\\ b", "a \\ b"}, {"Note:\\*x\\*", "Note:*x*"});
}

// As the rows stand: mathematics keeps its lines and their indentation.
static void test_lines_of_mathematics(void **state) {
    (void)state;
    static Vt vt;
    static const char *const rows[] = {
        "\\[", "\\begin{aligned}", "  x &= 1 \\\\", "  y &= 2", "\\end{aligned}", "\\]", ""};
    MarkdownOptions options = drawn_options(60, false);
    drawn_show(&vt, "\\[\n\\begin{aligned}\n  x &= 1 \\\\\n  y &= 2\n\\end{aligned}\n\\]\n", &options, 3,
               &numbers);
    for (int row = 0; row < 7; row++) {
        char line[1300];
        vt_row(&vt, row, line, sizeof line);
        assert_string_equal(line, rows[row]);
    }
}

// What streams is what a replay shows, whatever it is made of, in windows of any width, with and without a look for code.
static void test_pieces_show_what_the_whole_does(void **state) {
    (void)state;
    static const char *const parts[] = {
        "2*3",  "a*b*c", "x**2",   "**",   "*",     "$",         "$x_1 * y$",  "$$",
        "\\(",  "\\)",   "\\[",    "\\]",  "\\",    "\\*",       "C:\\a\\*.b", "snake\\_case",
        "\\\\", "`",     "`code`", "```c", "|",     "|---|---|", "| a | b |",  "- ",
        "12. ", "+ ",    "# ",     "= ",   "> ",    "word",      "  ",         " ",
        " ",    "\n",    "\n",     "\n\n", "&amp;", "[a](b)",    "**bold**",   "日本"};
    static Vt pieces, whole;
    for (int i = 0; i < 1500; i++) {
        char text[400] = "";
        for (uint32_t n = 2 + drawn_below(&numbers, 24); n > 0; n--)
            strcat(text, parts[drawn_below(&numbers, sizeof parts / sizeof *parts)]);
        MarkdownOptions options = drawn_options(12 + (int)drawn_below(&numbers, 60), false);
        if (i % 2) options.theme.inks[INK_CODE] = "";
        drawn_show(&whole, text, &options, 0, &numbers);
        drawn_show(&pieces, text, &options, 1 + drawn_below(&numbers, 9), &numbers);
        for (int row = 0; row < DRAWN_ROWS; row++)
            if (memcmp(whole.cells[row], pieces.cells[row], sizeof whole.cells[row]) != 0)
                fail_msg("row %d of:\n%s", row, text);
    }
}

int main(int argc, char **argv) {
    setlocale(LC_CTYPE, "C.UTF-8");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stars),
        cmocka_unit_test(test_mathematics),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_lines_of_mathematics),
        cmocka_unit_test(test_pieces_show_what_the_whole_does),
    };
    return test_main("faithful", argc, argv, tests);
}
