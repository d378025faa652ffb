// What the prompt's editor draws, in windows of any size and terminals of either kind: the screen and the cursor are those of
// the text.
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/terminal/terminal.h"

static void long_lines_wrap(void **state) {
    (void)state;
    Pty *pty = start_editor_in(10, 20);
    pty_send(pty, "0123456789abcdefghij日本語");
    pty_expect_row(pty, 0, "> 0123456789abcdefgh");
    pty_expect_row(pty, 1, "ij日本語");
    pty_expect_cursor(pty, 1, 8);
    pty_send(pty, "\001X");
    pty_expect_row(pty, 0, "> X0123456789abcdefg");
    pty_expect_row(pty, 1, "hij日本語");
    pty_expect_cursor(pty, 0, 3);
    // A wide character does not fit in the last column: it goes to the next row as a whole.
    pty_send(pty, "\025123456789012345678");
    pty_expect_cursor(pty, 1, 0);
    pty_send(pty, "\177日本");
    pty_expect_row(pty, 0, "> 12345678901234567");
    pty_expect_row(pty, 1, "日本");
    expect_turn(pty, "\r", "12345678901234567日本");
    leave(pty);
}

static void assert_same_screen(Pty *pty, const Vt *a, const Vt *b, int round) {
    bool same = a->row == b->row && a->col == b->col;
    char left[1300], right[1300];
    for (int row = 0; row < a->rows; row++) {
        vt_row(a, row, left, sizeof left);
        vt_row(b, row, right, sizeof right);
        if (!strcmp(left, right)) continue;
        print_error("row %d:\n%s\n%s\n", row, left, right);
        same = false;
    }
    if (same) return;
    print_error("round %d: cursor %d,%d and %d,%d\n", round, a->row, a->col, b->row, b->col);
    pty_end(pty);
    fail();
}

// A terminal that draws a skin tone onto the hand and one that draws it beside the hand show the line alike, and have the
// cursor where the editor thinks that it is.
static void skin_tones_take_no_room(void **state) {
    (void)state;
    static Vt joins;
    Pty *pty = start_editor_in(5, 12);
    pty_send(pty, "a👋🏽");
    pty_expect_cursor(pty, 0, 5);
    pty_expect_row(pty, 0, "> a👋");
    pty_send(pty, "b" LEFT "c");
    pty_expect_cursor(pty, 0, 6);
    pty_expect_row(pty, 0, "> a👋cb");
    pty_send(pty, "\005def👋🏽g"); // at the end of a row there is no room for it
    pty_expect_cursor(pty, 1, 1);
    pty_expect_row(pty, 0, "> a👋cbdef👋");
    pty_expect_row(pty, 1, "g");
    vt_init(&joins, 5, 12);
    joins.joins = true;
    vt_feed(&joins, pty_transcript(pty), strlen(pty_transcript(pty)));
    assert_same_screen(pty, pty_screen(pty), &joins, 0);
    expect_turn(pty, "\r", "a👋🏽cbdef👋🏽g");
    leave(pty);
}

// Any keys in any order, in terminals of any size: the editor stays usable and ends well.
static void any_keys(void **state) {
    (void)state;
    static const char *const keys[] = {
        "a",     "b ",        "\n",
        "日",    "e\u0301",   "👩\u200d💻",
        "\t",    LEFT,        LEFT,
        RIGHT,   UP,          UP,
        DOWN,    "\001",      "\005",
        "\013",  "\025",      "\027",
        "\031",  "\024",      "\177",
        "\177",  "\033[3~",   "\022",
        "\022a", "z\003",     "/co\t\t",
        "\014",  "\033b",     "\033f",
        "\033d", "\033\177",  "\r",
        "\\\r",  "\"\"\"",    "\033[200~p\nq\tr\033[201~",
        "\xff",  "\033[1;5D", "a long word after another ",
    };
    const int sizes[][2] = {{24, 80}, {5, 20}, {3, 10}, {2, 4}, {2, 3}, {60, 250}};
    uint32_t random = 7;
    for (size_t size = 0; size < sizeof sizes / sizeof *sizes; size++) {
        Pty *pty = terminal_start_with(&(const PtyOptions){.rows = sizes[size][0], .cols = sizes[size][1]},
                                       "edit", "--raw", NULL);
        pty_expect(pty, ">");
        for (int i = 0; i < 3000; i++) {
            random = random * 1664525u + 1013904223u;
            pty_send(pty, keys[(random >> 16) % (sizeof keys / sizeof *keys)]);
            if (i % 500 == 499) pty_resize(pty, sizes[size][0] + i / 500 % 3, sizes[size][1] + i / 500 % 5);
        }
        pty_send(pty, "z\003"); // out of a search, should it be on
        pty_send(pty, "z\003");
        pty_send(pty, "\033[200~the end\033[201~\r");
        pty_expect(pty, "got[the end]");
        pty_send(pty, "\004");
        pty_expect_exit(pty, 0);
        pty_end(pty);
    }
}

// The screen as it stood at the next Ctrl-L after the one at byte `from` of the transcript. Returns where that is.
static size_t screen_until_clear(Pty *pty, size_t from, Vt *vt) {
    static const char clear[] = "\033[H\033[2J";
    const char *seen = pty_transcript(pty), *end = strstr(seen + from + 1, clear);
    assert_non_null(end);
    vt_init(vt, pty_screen(pty)->rows, pty_screen(pty)->cols);
    vt_feed(vt, seen + from, (size_t)(end - seen) - from);
    return (size_t)(end - seen);
}

// Drawing by changes shows the same as drawing anew, cursor and all.
static void drawing_is_exact(void **state) {
    (void)state;
    static const char *const keys[] = {
        "a",
        "bc ",
        "\n",
        "日本",
        "e\u0301",
        "👩\u200d💻",
        "👋🏽",
        "🇩🇪",
        "\t",
        "é",
        LEFT,
        LEFT,
        RIGHT,
        UP,
        DOWN,
        "\001",
        "\005",
        "\013",
        "\027",
        "\177",
        "\033[3~",
        "\033b",
        "\033f",
        "\033[200~p\nq\tr\033[201~",
        "some more words ",
        "\024",
    };
    const int sizes[][2] = {{24, 80}, {8, 20}};
    static Vt changed, anew;
    uint32_t random = 11;
    for (size_t size = 0; size < 2; size++) {
        Pty *pty = start_editor_in(sizes[size][0], sizes[size][1]);
        size_t at = 0;
        for (int round = 0; round < 150; round++) {
            pty_send(pty, round % 10 ? "\014" : "\025\014");
            for (int i = 0; i < 8; i++) {
                random = random * 1664525u + 1013904223u;
                pty_send(pty, keys[(random >> 16) % (sizeof keys / sizeof *keys)]);
            }
            pty_send(pty, "\014\014");
            for (int i = 0; i < 3; i++) pty_expect(pty, "\033[H\033[2J");
            at = screen_until_clear(pty, at, &anew); // the round's first
            at = screen_until_clear(pty, at, &changed);
            at = screen_until_clear(pty, at, &anew);
            assert_same_screen(pty, &changed, &anew, round);
        }
        pty_send(pty, "\025");
        leave(pty);
    }
}

static int run(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_lines_wrap),
        cmocka_unit_test(skin_tones_take_no_room),
        cmocka_unit_test(any_keys),
        cmocka_unit_test(drawing_is_exact),
    };
    return test_main("drawing", argc, argv, tests);
}

int main(int argc, char **argv) {
    return terminal_main(argc, argv, run);
}
