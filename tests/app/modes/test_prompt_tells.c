// What the prompt tells beside replies: the editor's own lines, a question that was edited, names that cannot be, and
// where a conversation's window stands.
#include "tests/support/terminal/prompt.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TALK BABBLER "|--seed=1|--max-tokens=4|--threads=1|--stats"

// While a line is being edited as well as between two: at words, and dim.
static void test_hints_are_notices(void **state) {
    (void)state;
    Pty *pty = prompt_start(TALK, &(const PtyOptions){.rows = 24, .cols = 50});
    pty_expect(pty, "> ");
    pty_send(pty, "a draft\033[200~one\rcaf\xe9\033[201~");
    pty_expect(pty, "\033[2m(the paste:2: this is no text in UTF-8: byte 4 of\r\n");
    pty_expect(pty, "a draft");
    pty_send(pty, "\003");
    pty_expect(pty, "> ");
    pty_send(pty, "\003");
    pty_expect(pty, "\033[2m(Ctrl-C again, or Ctrl-D, leaves)\033[0m");
    pty_expect(pty, "> ");
    prompt_leave(pty);
}

// Who knows other programs' prompts is told how this one is left.
static void test_words_that_are_commands_elsewhere(void **state) {
    (void)state;
    Pty *pty = prompt_open(TALK);
    prompt_ask(pty, "Exit", "[this goes to the model; /exit leaves]");
    prompt_ask(pty, "help", "[this goes to the model; /help lists the commands]");
    pty_send(pty, "help me\r");
    prompt_expect_turn(pty, "[turn 3: ");
    assert_int_equal(program_count(pty_transcript(pty), "goes to the model"), 2);
    prompt_leave(pty);
}

// As it stands behind the prompt.
static void test_an_edited_question_looks_like_any_other(void **state) {
    char *editor = prompt_make_editor(*state, "VISUAL", "echo edited words > \"$1\"");
    const char *environment[] = {editor, NULL};
    Pty *pty = prompt_start(TALK, &(const PtyOptions){.env = environment, .rows = 40, .cols = 100});
    pty_expect(pty, "> ");
    prompt_ask(pty, "Hello there.", "[turn 1: ");
    pty_send(pty, "/edit\r");
    pty_expect(pty, "> \033[0medited words\r\n");
    prompt_expect_turn(pty, "[turn 1: ");
    assert_null(strstr(pty_transcript(pty), "\033[2m> "));
    prompt_leave(pty);
    pty = prompt_start(TALK "|--resume", &(const PtyOptions){.env = environment, .rows = 40, .cols = 100});
    pty_expect(pty, "> \033[0medited words\r\n");
    pty_expect(pty, "> ");
    prompt_leave(pty);
    free(editor);
}

static void test_an_empty_name_is_none(void **state) {
    (void)state;
    static const char *const NAMES[] = {"\"\"", "''", "\""};
    for (int i = 0; i < 3; i++) {
        char line[40];
        snprintf(line, sizeof line, "/new %s\n", NAMES[i]);
        program_refuses(TALK, line, "a name is missing");
        snprintf(line, sizeof line, "Hello\n/fork %s\n", NAMES[i]);
        program_says(TALK, line, 5, "a name is missing");
    }
}

// Also one that nothing was said in yet, and one that begins with what nobody has asked.
static void test_every_conversation_has_a_line(void **state) {
    (void)state;
    Run run =
        program_script(TALK, "/new told\n/say assistant Welcome aboard.\n/new garden\n/list\n/new\n/list\n");
    expect_err(&run, "* garden  (new: kept from its first turn on)\n  told ");
    expect_err(&run, "* (new: kept from its first turn on)\n  told ");
    program_free(&run);
}

// Where nothing can be kept that is told, with an empty row before the prompt, by /list, and once more at the end.
static void test_a_talk_that_cannot_be_kept(void **state) {
    (void)state;
    const char *const nowhere[] = {"XDG_STATE_HOME=/proc", NULL};
    Pty *pty = prompt_start(TALK, &(const PtyOptions){.env = nowhere, .rows = 24, .cols = 100});
    pty_expect(pty, "[no history: /proc/palaver/history: its folder cannot be made");
    pty_expect_row(pty, 5, ">");
    pty_expect_row(pty, 4, "");
    pty_send(pty, "Hello\r");
    pty_expect(pty, "no journal of this conversation (--no-save wants none): /proc/palaver: ");
    pty_expect(pty, "> ");
    prompt_say(pty, "/list", "* (not kept: its journal cannot be written)");
    pty_send(pty, "/quit\r");
    pty_expect(pty, "this conversation could not be kept");
    pty_expect_exit(pty, 1);
    pty_end(pty);
}

// What asks for more stands in one row of any window, and nothing is left of it.
static void test_narrow_windows_are_paged(void **state) {
    (void)state;
    static const struct {
        int cols;
        const char *question;
    } windows[] = {{25, "[Space: more, q: enough]"}, {24, "[Space: more]"}, {13, ">"}};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        Pty *pty = prompt_start(TALK, &(const PtyOptions){.rows = 10, .cols = windows[i].cols});
        pty_expect(pty, "> ");
        pty_send(pty, "/help set\r");
        pty_expect_row(pty, 9, windows[i].question);
        pty_send(pty, "q");
        pty_expect_row(pty, 9, ">");
        for (int row = 0; row < 9; row++) {
            char text[400];
            vt_row(pty_screen(pty), row, text, sizeof text);
            assert_null(strstr(text, "Space"));
        }
        prompt_leave(pty);
    }
}

// A window's last row may be empty, and is then the empty one before the prompt.
static void test_one_empty_row_behind_a_page(void **state) {
    (void)state;
    Pty *pty = prompt_start(TALK, &(const PtyOptions){.rows = 25, .cols = 80});
    pty_expect(pty, "> ");
    pty_send(pty, "/set\r");
    pty_expect_screen(pty, "[Space: more, q: enough]");
    char row[400];
    vt_row(pty_screen(pty), 23, row, sizeof row);
    assert_string_equal(row, ""); // below [sampling]
    pty_send(pty, "q");
    pty_expect_row(pty, 24, ">");
    vt_row(pty_screen(pty), 22, row, sizeof row);
    assert_non_null(strstr(row, "ignore_eos"));
    prompt_leave(pty);
}

// Where the terminal edits its lines itself, help names no other keys.
static void test_help_names_the_keys_there_are(void **state) {
    (void)state;
    Pty *pty = prompt_open(TALK);
    prompt_say(pty, "/help", "Ctrl-C stops a reply, Ctrl-D leaves, Ctrl-G opens $EDITOR");
    prompt_leave(pty);
    pty = prompt_open(TALK "|--plain");
    pty_send(pty, "/help\r");
    pty_expect(pty, "Ctrl-C stops a reply, Ctrl-D leaves.\r\n");
    pty_expect(pty, "> ");
    pty_send(pty, "\004");
    pty_expect_exit(pty, 0);
    pty_end(pty);
}

int main(int argc, char **argv) {
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_HOME(test_hints_are_notices),
        WITH_HOME(test_words_that_are_commands_elsewhere),
        WITH_HOME(test_an_edited_question_looks_like_any_other),
        WITH_HOME(test_an_empty_name_is_none),
        WITH_HOME(test_every_conversation_has_a_line),
        WITH_HOME(test_a_talk_that_cannot_be_kept),
        WITH_HOME(test_narrow_windows_are_paged),
        WITH_HOME(test_one_empty_row_behind_a_page),
        WITH_HOME(test_help_names_the_keys_there_are),
    };
    return test_main("prompt_tells", argc, argv, tests);
}
