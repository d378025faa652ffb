// The prompt's editor in a pseudo-terminal: typing, moving, wide characters, lines, paste.
#include "tests/support/test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/terminal/terminal.h"

// ---- typing ----------------------------------------------------------------------------------------------

static void lines_and_editing(void **state) {
    (void)state;
    Pty *pty = start_editor();
    expect_turn(pty, "hello\r", "hello");
    expect_turn(pty, "helo" LEFT "l\r", "hello");
    expect_turn(pty, "\001a\005b\r", "ab");
    expect_turn(pty, "bc\001a\033[F!\033[H>\r", ">abc!");
    expect_turn(pty, "abc\177\177x\r", "ax");
    expect_turn(pty, "abc" LEFT LEFT "\033[3~\r", "ac");
    expect_turn(pty, "abc" LEFT LEFT "\004\r", "ac");
    expect_turn(pty, "one two three\027\r", "one two ");
    expect_turn(pty, "one two\0331\033b\013three\r", "one three");
    expect_turn(pty, "one two\025three\r", "three");
    expect_turn(pty, "one two\025\031\r", "one two");
    expect_turn(pty, "one two\033[1;5D>" RIGHT "\033[1;5C!\r", "one >two!");
    expect_turn(pty, "  \r\r\rx\r", "x");
    leave(pty);
}

static void unknown_keys_type_nothing(void **state) {
    (void)state;
    Pty *pty = start_editor();
    expect_turn(pty,
                "a\033[5~\033[24~\033[15;2~\033OP\033[[A\033[1;2Q\033[<0;1;1M\033z\026\030\023\021"
                "b\r",
                "ab");
    expect_turn(pty, "a\033\033[D\033OD>\r", ">a");
    pty_send(pty, "a\033\003"); // ESC, Ctrl-C: cleared
    pty_expect(pty, "> ");
    expect_turn(pty, "b\r", "b");
    leave(pty);
}

static void wide_characters(void **state) {
    (void)state;
    Pty *pty = start_editor();
    expect_turn(pty, "日本語" LEFT "\177の\r", "日の語");
    expect_turn(pty, "a😀b" LEFT LEFT "\033[3~\r", "ab");
    expect_turn(pty, "naïve café" LEFT "\177f\r", "naïve café");
    leave(pty);
}

// Characters without a width go with the one before them.
static void joined_characters(void **state) {
    (void)state;
    Pty *pty = start_editor();
    expect_turn(pty, "e\u0301x\r", "e\u0301x");
    expect_turn(pty, "ae\u0301b" LEFT "\177c\r", "acb");
    expect_turn(pty, "a👩\u200d💻b" LEFT "\177\177c\r", "cb");
    expect_turn(pty, "a👩\u200d💻b" LEFT LEFT "<" RIGHT ">\r", "a<👩\u200d💻>b");
    expect_turn(pty, "ab\u202ecd\r", "ab\u202ecd"); // the terminal is not told to turn round
    pty_send(pty, "e\u0301\u0302x");
    pty_expect_cursor(pty, pty_screen(pty)->row, 4);
    assert_null(strstr(pty_transcript(pty) + 0, "> ab\u202e"));
    expect_turn(pty, "\r", "e\u0301\u0302x");
    leave(pty);
}

// An emoji of several characters is one to who edits: with joiners, a skin tone, or of a flag's two letters.
static void emoji_are_whole(void **state) {
    (void)state;
    Pty *pty = start_editor();
    expect_turn(pty, "a👋🏽b" LEFT "\177c\r", "acb");
    expect_turn(pty, "a👋🏽b" LEFT LEFT "<" RIGHT ">\r", "a<👋🏽>b");
    expect_turn(pty, "🇩🇪🇫🇷" LEFT "<" LEFT LEFT ">\r", ">🇩🇪<🇫🇷");
    expect_turn(pty, "🇩🇪🇫🇷🇮" LEFT "\177c\r", "🇩🇪c🇮");
    expect_turn(pty, "\001\033[3~a👩🏽\u200d💻🇩🇪" LEFT LEFT "\033[3~\r", "a🇩🇪");
    expect_turn(pty, "ab\n👋🏽" UP LEFT DOWN ">\r", "ab\\n>👋🏽");
    leave(pty);
}

static void bad_bytes(void **state) {
    (void)state;
    Pty *pty = start_editor();
    expect_turn(pty,
                "a\xff"
                "b\xc3(\xe2\x82z\xc2\x9b"
                "c\r",
                "ab(zc");
    leave(pty);
}

// ---- several lines ---------------------------------------------------------------------------------------

static void several_lines(void **state) {
    (void)state;
    Pty *pty = start_editor();
    expect_turn(pty, "one\\\rtwo\r", "one\\ntwo");
    expect_turn(pty, "one\ntwo\r", "one\\ntwo");
    expect_turn(pty, "one\033\rtwo\r", "one\\ntwo");
    expect_turn(pty, "one\033[13;2utwo\033[27;2;13~three\r", "one\\ntwo\\nthree");
    expect_turn(pty, "\"\"\"one\r  two\\\r\rthree\"\"\"\r", "one\\n  two\\\\n\\nthree");
    expect_turn(pty, "\"\"\"\rone\r\"\"\"\r", "one");
    expect_turn(pty, "C:\\\\\r", "C:\\\\");
    expect_turn(pty, "a \"\"\" b\r", "a \"\"\" b");
    leave(pty);
}

static void moving_between_lines(void **state) {
    (void)state;
    Pty *pty = start_editor();
    pty_send(pty, "first\nsecond\nthird");
    pty_expect_row(pty, 0, "> first");
    pty_expect_row(pty, 1, "… second");
    pty_expect_row(pty, 2, "… third");
    pty_send(pty, UP);
    pty_expect_cursor(pty, 1, 7);
    pty_send(pty, UP "!");
    pty_expect_row(pty, 0, "> first!");
    pty_send(pty, "\001>" DOWN "\005.");
    pty_expect_row(pty, 1, "… second.");
    pty_send(pty, DOWN "\177\177\177\177\177\177");
    pty_expect_row(pty, 1, "… second.");
    pty_expect_row(pty, 2, "");
    expect_turn(pty, "\177\r", ">first!\\nsecond");
    leave(pty);
}

static void paste_is_text(void **state) {
    (void)state;
    Pty *pty = start_editor();
    expect_turn(pty, "\033[200~/cle\tx\r\nls -l\rrm\n\033[201~\r", "/cle\tx\\nls -l\\nrm");
    expect_turn(pty, "a\033[200~b\003\004\032c\007\033[31md\033]0;t\007\177\xc2\x9b\033[201~e\r",
                "abc[31md]0;te");
    expect_turn(pty, "a\033[200~b\xff\033[201~c\r", "ac");     // refused as a whole
    expect_turn(pty, "x\033[200~\\\r1\033[201~\r", "x\\\\n1"); // a `\\` inside a paste stays
    pty_send(pty, "\033[200~no end \033[20 \033[201");
    expect_turn(pty, " \033[201~\r", "no end [20 [201 ");
    leave(pty);
}

// It stands below the line as that was, however many rows the paste has.
static void what_a_paste_lost_is_told(void **state) {
    (void)state;
    Pty *pty = start_editor_in(12, 40);
    pty_expect_row(pty, 0, ">");
    pty_send(pty, "\033[200~1\n2\n3\033[31m\033[201~");
    pty_expect_row(pty, 1, "(1 control character left out)");
    pty_expect_row(pty, 2, "> 1");
    pty_expect_row(pty, 4, "… 3[31m");
    expect_turn(pty, "\r", "1\\n2\\n3[31m");
    leave(pty);
}

static void long_paste(void **state) {
    (void)state;
    Pty *pty = start_editor_in(8, 40);
    static char text[70000];
    size_t n = (size_t)sprintf(text, "\033[200~");
    for (int i = 0; i < 2000; i++) n += (size_t)sprintf(text + n, "line %d of a long paste 日本\n", i);
    n += (size_t)sprintf(text + n, "end\033[201~");
    pty_send_bytes(pty, text, n);
    pty_expect_screen(pty, "line 1999 of a long paste");
    pty_send(pty, "!\r");
    pty_expect(pty, "line 1998 of a long paste 日本\\nline 1999 of a long paste 日本\\nend!]");
    leave(pty);
}

// A paste into a terminal that does not mark it: what has come is drawn together, not anew for every character.
static void long_paste_without_marks(void **state) {
    (void)state;
    enum { LINES = 60, LINE = 81 };
    char keys[LINES * LINE + 8] = "", turn[2 * LINES * LINE] = "";
    for (int i = 0; i < LINES; i++)
        sprintf(keys + strlen(keys), "%d: %0*d%s", i % 10, LINE - 4, i, i + 1 < LINES ? "\n" : "");
    for (const char *c = keys; *c; c++) sprintf(turn + strlen(turn), *c == '\n' ? "\\n" : "%c", *c);
    Pty *pty = start_editor();
    const size_t before = strlen(pty_transcript(pty));
    pty_send(pty, keys);
    pty_expect_screen(pty, "9: 00000"); // the last line
    expect_turn(pty, "\r", turn);
    const size_t drawn = strlen(pty_transcript(pty)) - before;
    if (drawn > 20 * sizeof keys) fail_msg("%zu bytes drawn for %zu", drawn, strlen(keys));
    leave(pty);
}

// A text with more rows than the terminal: the rows around the cursor are shown, every key works everywhere.
static void taller_than_the_terminal(void **state) {
    (void)state;
    Pty *pty = start_editor_in(10, 40);
    char text[600] = "\033[200~", whole[700] = "";
    for (int i = 1; i <= 30; i++) sprintf(text + strlen(text), "line %d\n", i);
    strcat(text, "end\033[201~");
    pty_send(pty, text);
    pty_expect_screen(pty, "(rows 24-31 of 31) line 24");
    pty_expect_screen(pty, "end");
    for (int i = 0; i < 20; i++) pty_send(pty, UP);
    pty_expect_screen(pty, "line 11");
    pty_send(pty, "\005X\nnew\001Y" DOWN "\005Z"); // edits far from both ends
    pty_expect_screen(pty, "Ynew");
    pty_expect_screen(pty, "line 12Z");
    for (int i = 0; i < 40; i++) pty_send(pty, UP); // to the first line, but not into the history
    pty_send(pty, "\001A");
    pty_expect_screen(pty, ") Aline 1");
    for (int i = 0; i < 50; i++) pty_send(pty, DOWN);
    pty_send(pty, "\005.");
    pty_expect_screen(pty, "end.");
    for (int i = 1; i <= 30; i++)
        sprintf(whole + strlen(whole), "%sline %d%s\\n", i == 1 ? "A" : "", i,
                i == 11   ? "X\\nYnew"
                : i == 12 ? "Z"
                          : "");
    strcat(whole, "end.");
    pty_send(pty, "\r");
    pty_expect(pty, whole);
    pty_expect(pty, "> ");
    // Up and Down over the whole, in and out of the history; then a long line without newlines.
    pty_send(pty, UP);
    pty_expect_screen(pty, "end.");
    pty_send(pty, "\025");
    pty_expect_screen(pty, ">");
    char longest[1201] = "";
    for (int i = 0; i < 200; i++) sprintf(longest + strlen(longest), "%05d ", i);
    pty_send(pty, longest);
    pty_expect_screen(pty, "00199");
    pty_send(pty, "\001<"); // Home of one line that is taller than the terminal
    pty_expect_screen(pty, ") <00000 00001");
    pty_send(pty, "\005>");
    pty_expect_screen(pty, "00199 >");
    for (int i = 0; i < 300; i++) pty_send(pty, "\177");
    pty_expect_screen(pty, "00149");
    pty_send(pty, "\003");
    pty_expect(pty, "> ");
    expect_turn(pty, "x\r", "x");
    leave(pty);
}

// What is typed before the prompt is there is kept: each line that was ended is a turn, the rest is the draft.
static void typed_ahead(void **state) {
    (void)state;
    Pty *pty = terminal_start("edit", "--late", NULL);
    pty_expect(pty, "ready");
    pty_send(pty, "one\rtwo\\\rthree\rdraft");
    pty_expect(pty, "draft"); // echoed by the terminal
    pty_signal(pty, SIGUSR1);
    pty_expect(pty, "got[one]");
    pty_expect(pty, "got[two\\nthree]");
    pty_expect_screen(pty, "> draft");
    expect_turn(pty, "\r", "draft");
    leave(pty);
}

static int run(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_and_editing),
        cmocka_unit_test(unknown_keys_type_nothing),
        cmocka_unit_test(wide_characters),
        cmocka_unit_test(joined_characters),
        cmocka_unit_test(emoji_are_whole),
        cmocka_unit_test(bad_bytes),
        cmocka_unit_test(several_lines),
        cmocka_unit_test(moving_between_lines),
        cmocka_unit_test(paste_is_text),
        cmocka_unit_test(what_a_paste_lost_is_told),
        cmocka_unit_test(long_paste),
        cmocka_unit_test(long_paste_without_marks),
        cmocka_unit_test(taller_than_the_terminal),
        cmocka_unit_test(typed_ahead),
    };
    return test_main("terminal", argc, argv, tests);
}

int main(int argc, char **argv) {
    return terminal_main(argc, argv, run);
}
