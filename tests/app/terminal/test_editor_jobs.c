// The prompt's editor in a pseudo-terminal: $EDITOR, job control, sizes, prompts, plain terminals and pipes.
#include "tests/support/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/terminal/terminal.h"

// ---- $EDITOR -----------------------------------------------------------------------------------------------

static Pty *start_with_editor(const char *editor) {
    static char visual[512], runtime[128];
    snprintf(visual, sizeof visual, "VISUAL=%s", editor);
    snprintf(runtime, sizeof runtime, "XDG_RUNTIME_DIR=%s", terminal_folder());
    const char *const env[] = {visual, runtime, NULL};
    Pty *pty = terminal_start_with(&(const PtyOptions){.env = env}, "edit", NULL);
    pty_expect(pty, "> ");
    return pty;
}

static void composing(void **state) {
    (void)state;
    // The file is the last argument; its mode is shown, its text changed.
    Pty *pty = start_with_editor("sh -c 'stat -c mode:%a \"$1\"; test -t 0 && stty -a | grep -o \" icanon\";"
                                 " printf \"more\\nlines\\n\" >> \"$1\"' sh");
    pty_send(pty, "begun\007");
    pty_expect(pty, "mode:600");
    pty_expect(pty, " icanon");
    pty_expect_screen(pty, "> begun");
    pty_expect(pty, "lines");
    expect_turn(pty, "!\r", "begun\\nmore\\nlines!");
    leave(pty);
    pty = start_with_editor("false");
    pty_send(pty, "kept\007");
    pty_expect(pty, "false: ended with status 1; nothing was taken over");
    pty_expect(pty, "> kept");
    expect_turn(pty, "!\r", "kept!");
    leave(pty);
    pty = start_with_editor("/nowhere/editor");
    pty_send(pty, "kept\007");
    pty_expect(pty, "cannot be started; set EDITOR");
    pty_expect(pty, "> kept");
    expect_turn(pty, "!\r", "kept!");
    leave(pty);
    pty = start_with_editor("sh -c ': > \"$1\"' sh"); // an empty file: an empty line
    pty_send(pty, "gone\007");
    pty_expect(pty, "\033[?2004l");
    pty_expect(pty, "> ");
    expect_turn(pty, "x\r", "x");
    leave(pty);
}

// No draft stays behind.
static void no_draft_is_left(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "ls %s | grep -q palaver-", terminal_folder());
    assert_int_not_equal(system(command), 0);
}

// ---- job control -------------------------------------------------------------------------------------------

static void suspending(void **state) {
    (void)state;
    const char *const argv[] = {"bash", "--norc", "--noprofile", "-i", NULL};
    const char *const env[] = {"PS1=shell$ ", "HISTFILE=", NULL};
    Pty *pty = pty_start(&(const PtyOptions){.argv = argv, .env = env});
    char command[4200];
    pty_expect(pty, "shell$ ");
    snprintf(command, sizeof command,
             "bind 'set enable-bracketed-paste off'; clear; %s --child edit --prompt 'ed> '\r",
             terminal_program());
    pty_send(pty, command);
    pty_expect_row(pty, 0, "ed>");
    pty_send(pty, "half a line");
    pty_expect(pty, "half a line");
    pty_send(pty, "\032");
    pty_expect(pty, "Stopped");
    pty_expect(pty, "shell$ ");
    pty_send(pty, "echo mode: $(stty -a </dev/tty | grep -o ' icanon') paste: off\r");
    pty_expect(pty, "mode: icanon");
    assert_false(pty_screen(pty)->paste);
    pty_expect(pty, "shell$ ");
    pty_send(pty, "fg\r");
    pty_expect(pty, "'ed> '\r\n"); // the shell names the job
    pty_expect(pty, "ed> half a line");
    assert_true(pty_screen(pty)->paste);
    expect_turn(pty, " more\r", "half a line more");
    // The same from outside, with a stop that cannot be caught.
    pty_send(pty, "again");
    pty_expect(pty, "again");
    pty_signal_foreground(pty, SIGSTOP);
    pty_expect(pty, "Stopped");
    pty_expect(pty, "shell$ ");
    pty_send(pty, "fg\r");
    pty_expect(pty, "'ed> '\r\n"); // the shell names the job
    pty_expect(pty, "ed> again");
    expect_turn(pty, "!\r", "again!");
    pty_signal_foreground(pty, SIGTSTP);
    pty_expect(pty, "Stopped");
    pty_expect(pty, "shell$ ");
    pty_send(pty, "fg\r");
    pty_expect(pty, "'ed> '\r\n"); // the shell names the job
    pty_expect(pty, "ed> ");
    pty_send(pty, "\004");
    pty_expect(pty, "end, cooked");
    pty_expect(pty, "shell$ ");
    pty_send(pty, "exit\r");
    pty_expect_exit(pty, 0);
    pty_end(pty);
}

static void resizing(void **state) {
    (void)state;
    Pty *pty = start_editor_in(10, 40);
    pty_send(pty, "0123456789012345678901234567890123456789");
    pty_expect_row(pty, 1, "89");
    pty_resize(pty, 10, 60);
    pty_expect_screen(pty, "> 0123456789012345678901234567890123456789");
    pty_resize(pty, 10, 20);
    pty_expect_screen(pty, "> 012345678901234567");
    pty_expect_screen(pty, "89012345678901234567");
    pty_send(pty, "\001X");
    pty_expect_screen(pty, "> X01234567890123456");
    pty_send(pty, "\005!");
    pty_send(pty, "\r");
    pty_expect(pty, "got[X0123456789012345678901234567890123456789!]");
    pty_expect(pty, "> ");
    leave(pty);
}

// A terminal that says where its cursor is, which tells whether it has wrapped the rows anew.
static void wrapped_anew(void **state) {
    (void)state;
    Pty *pty = start_editor_in(10, 60);
    pty_send(pty, "0123456789012345678901234567890123456789");
    pty_expect_row(pty, 0, "> 0123456789012345678901234567890123456789");
    pty_resize(pty, 10, 20);
    pty_expect(pty, "\033[6n");
    pty_send(pty, "\033[3;3R"); // it has: the cursor is two rows below the prompt
    pty_expect(pty, "\033[2A\r> 0123");
    pty_expect_row(pty, 2, "89");
    pty_resize(pty, 10, 60);
    pty_expect(pty, "\033[6n");
    pty_send(pty, "\033[5;3R"); // it has not: it still is
    pty_expect(pty, "\033[2A\r> 0123");
    pty_expect_row(pty, 0, "> 0123456789012345678901234567890123456789");
    pty_send(pty, "\033[5;3R!\r"); // nobody asked
    pty_expect(pty, "got[0123456789012345678901234567890123456789!]");
    pty_expect(pty, "> ");
    leave(pty);
}

// Stopped and sent on by no shell: nobody has written, and the line is drawn in its place.
static void stopped_from_elsewhere(void **state) {
    (void)state;
    Pty *pty = start_editor_in(10, 20);
    pty_send(pty, "0123456789012345678901234");
    pty_expect_row(pty, 1, "8901234");
    pty_signal(pty, SIGSTOP);
    pty_signal(pty, SIGCONT);
    pty_expect(pty, "01234567890123456789"); // drawn anew
    pty_send(pty, "!\r");
    pty_expect_row(pty, 2, "got[0123456789012345");
    pty_expect_row(pty, 1, "8901234!");
    pty_expect_row(pty, 0, "> 012345678901234567");
    pty_expect(pty, "> ");
    leave(pty);
}

// The cursor of a row that is full waits below it: what comes next begins there.
static void a_full_row_is_left(void **state) {
    (void)state;
    Pty *pty = start_editor_in(10, 20);
    for (int letters = 17; letters < 20; letters++) {
        static const char text[] = "qqqqqqqqqqqqqqqqqqq";
        char wanted[40];
        pty_send(pty, "\014");
        pty_send(pty, text + sizeof text - 1 - letters);
        pty_send(pty, letters == 18 ? "\001\r" : "\r"); // the cursor may be elsewhere, too
        snprintf(wanted, sizeof wanted, "got[%.16s", text);
        pty_expect_row(pty, letters == 19 ? 2 : 1, wanted);
        pty_expect(pty, "> ");
        pty_send(pty, "\014");
        pty_send(pty, text + sizeof text - 1 - letters);
        pty_send(pty, "\r");
        pty_expect_row(pty, letters == 19 ? 2 : 1, wanted);
        pty_expect(pty, "> ");
    }
    leave(pty);
}

static void clearing_the_screen(void **state) {
    (void)state;
    Pty *pty = start_editor();
    expect_turn(pty, "x\r", "x");
    pty_send(pty, "text\014");
    pty_expect_row(pty, 0, "> text");
    pty_expect_row(pty, 1, "");
    expect_turn(pty, "!\r", "text!");
    leave(pty);
}

// ---- prompts -----------------------------------------------------------------------------------------------

static void coloured_prompt(void **state) {
    (void)state;
    Pty *pty = terminal_start("edit", "--prompt", "\033[33m[62%]\033[0m\033[1m › \033[0m", NULL);
    pty_expect_row(pty, 0, "[62%] ›");
    pty_expect(pty, "\033[33m[62%]\033[0m\033[1m › \033[0m"); // what is typed is not bold
    pty_expect_cursor(pty, 0, 8);
    pty_send(pty, "ab\001x");
    pty_expect_row(pty, 0, "[62%] › xab");
    pty_expect_cursor(pty, 0, 9);
    pty_send(pty, "\r");
    pty_expect(pty, "got[xab]");
    pty_expect_cursor(pty, 2, 8);
    leave(pty);
}

static void prefilled(void **state) {
    (void)state;
    Pty *pty = terminal_start("edit", "--prefill", "two\nlines", NULL);
    pty_expect(pty, "lines");
    expect_turn(pty, "!\r", "two\\nlines!");
    expect_turn(pty, "x\r", "x");
    leave(pty);
}

// ---- plain terminals -----------------------------------------------------------------------------------------

static void drive_plain(Pty *pty) {
    pty_expect(pty, "> ");
    pty_send(pty, "hello\r");
    pty_expect(pty, "got[hello]");
    pty_expect(pty, "> ");
    pty_send(pty, "one\\\r");
    pty_expect(pty, "... ");
    pty_send(pty, "two\r");
    pty_expect(pty, "got[one\\ntwo]");
    pty_expect(pty, "> ");
    pty_send(pty, "\"\"\"a\r");
    pty_expect(pty, "... ");
    pty_send(pty, "b\\\r");
    pty_expect(pty, "... ");
    pty_send(pty, "c\"\"\"\r");
    pty_expect(pty, "got[a\\nb\\\\nc]");
    pty_expect(pty, "> ");
    pty_send(pty, "half\003");
    pty_expect(pty, "leaves)");
    pty_expect(pty, "> ");
    pty_send(pty, "日\033本\026\007\r");
    pty_expect(pty, "got[日本]");
    pty_expect(pty, "> ");
    pty_send(pty, "\003");
    pty_expect(pty, "leaves)");
    pty_expect(pty, "> ");
    pty_send(pty, "\004");
    pty_expect(pty, "end, cooked");
    pty_expect_exit(pty, 0);
    assert_null(strchr(pty_transcript(pty), '\033'));
    pty_end(pty);
}

static void plain_terminals(void **state) {
    (void)state;
    const char *const dumb[] = {"TERM=dumb", NULL}, *const none[] = {"TERM", NULL};
    drive_plain(terminal_start("edit", "--plain", NULL));
    drive_plain(terminal_start_with(&(const PtyOptions){.env = dumb}, "edit", NULL));
    drive_plain(terminal_start_with(&(const PtyOptions){.env = none}, "edit", NULL));
}

static void input_from_a_pipe(void **state) {
    (void)state;
    char command[4400], out[512] = "";
    snprintf(command, sizeof command, "printf 'one\\n\\ntwo\\\\\\nthree\\nlast' | %s --child edit 2>&1",
             terminal_program());
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    out[fread(out, 1, sizeof out - 1, pipe)] = 0;
    assert_int_equal(pclose(pipe), 0);
    assert_string_equal(out, "got[one]\ngot[two\\nthree]\ngot[last]\nend, no terminal\n");
}

static int run(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(composing),
        cmocka_unit_test(no_draft_is_left),
        cmocka_unit_test(suspending),
        cmocka_unit_test(resizing),
        cmocka_unit_test(wrapped_anew),
        cmocka_unit_test(a_full_row_is_left),
        cmocka_unit_test(stopped_from_elsewhere),
        cmocka_unit_test(clearing_the_screen),
        cmocka_unit_test(coloured_prompt),
        cmocka_unit_test(prefilled),
        cmocka_unit_test(plain_terminals),
        cmocka_unit_test(input_from_a_pipe),
    };
    return test_main("editor_jobs", argc, argv, tests);
}

int main(int argc, char **argv) {
    return terminal_main(argc, argv, run);
}
