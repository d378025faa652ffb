// What is typed while a reply is made waits as what it was: lines that were ended are turns, the rest is the draft;
// after a Ctrl-C nothing is sent and nothing is lost. And what of typing and pasting cannot be taken is told.
#include "tests/support/terminal/prompt.h"
#include "tests/support/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG BABBLER "|--seed=1|--max-tokens=300|--ignore-eos|--threads=1|--stats"
#define ENDLESS BABBLER "|--seed=1|--ignore-eos|--threads=1|--stats|--context=1024"

static void test_each_line_is_a_turn(void **state) {
    (void)state;
    Pty *pty = prompt_open(LONG);
    pty_send(pty, "Hello there.\r");
    prompt_await_reply(pty);
    pty_send(pty, "/set max_tokens 4\rone\rtwo\\\rtwo b\r\"\"\"three\rthree b\"\"\"\r"
                  "\033[200~four\rfour b\033[201~\rfive\nfive b\rthe dra\177aft");
    prompt_expect_turn(pty, "[turn 1: ");
    for (int i = 2; i <= 6; i++) {
        char turn[20];
        snprintf(turn, sizeof turn, "[turn %d: ", i);
        prompt_expect_turn(pty, turn);
    }
    pty_expect_screen(pty, "> the draft");
    pty_send(pty, "\025/view\r");
    pty_expect(pty, "[user] one\r\n");
    pty_expect(pty, "[user] two\r\ntwo b\r\n");
    pty_expect(pty, "[user] three\r\nthree b\r\n");
    pty_expect(pty, "[user] four\r\nfour b\r\n");
    pty_expect(pty, "[user] five\r\nfive b\r\n");
    pty_expect(pty, "> ");
    prompt_leave(pty);
}

// Far more than a terminal keeps of a line that it edits itself.
static void test_much_is_typed(void **state) {
    (void)state;
    Pty *pty = prompt_open(LONG);
    pty_send(pty, "Hello there.\r");
    prompt_await_reply(pty);
    pty_send(pty, "/set max_tokens 4\r\033[200~begin");
    for (int i = 0; i < 900; i++) pty_send(pty, " zq zq");
    pty_send(pty, " end\033[201~\025last\r");
    prompt_expect_turn(pty, "[turn 1: ");
    prompt_expect_turn(pty, "[turn 2: ");
    prompt_say(pty, "/view", "[user] last");
    prompt_leave(pty);
}

static void test_ctrl_c_makes_a_draft_of_it(void **state) {
    (void)state;
    Pty *pty = prompt_open(ENDLESS);
    pty_send(pty, "Hello there.\r");
    prompt_await_reply(pty);
    pty_send(pty, "one\rtwo\rthe dra");
    pty_send(pty, "\003");
    pty_expect(pty, "| interrupted]");
    pty_expect_screen(pty, "> one");
    pty_expect_screen(pty, "… two");
    pty_expect_screen(pty, "… the dra");
    pty_expect(pty, "the dra");
    pty_send(pty, "ft\r");
    pty_expect(pty, "ft");
    prompt_await_reply(pty);
    pty_send(pty, "whole line\r\003");
    pty_expect(pty, "| interrupted]");
    pty_expect_screen(pty, "> whole line");
    pty_send(pty, "\025/view\r");
    pty_expect(pty, "[user] one\r\ntwo\r\nthe draft\r\n");
    pty_expect(pty, "> ");
    assert_null(strstr(pty_transcript(pty), "[turn 3: "));
    prompt_leave(pty);
}

// A Ctrl-D among it leaves only where nothing else is, and where nothing was stopped.
static void test_a_ctrl_d_takes_nothing_along(void **state) {
    (void)state;
    Pty *pty = prompt_open(ENDLESS);
    pty_send(pty, "Hello there.\r");
    prompt_await_reply(pty);
    pty_send(pty, "\004one\rthe dra\004ft\003");
    pty_expect(pty, "| interrupted]");
    pty_expect_screen(pty, "> one");
    pty_expect_screen(pty, "… the draft");
    pty_send(pty, "\025Again.\r");
    pty_expect(pty, "Again.");
    prompt_await_reply(pty);
    pty_send(pty, "\004\003");
    pty_expect(pty, "| interrupted]");
    pty_expect_exit(pty, 0);
    pty_end(pty);
}

// And where it leaves, what follows was typed for the shell.
static void test_the_shell_gets_what_follows_a_ctrl_d(void **state) {
    (void)state;
    const char *const argv[] = {"sh", "-c",
                                "$PALAVER " BABBLER " --seed=1 --max-tokens=300 --ignore-eos --threads=1; "
                                "stty -icanon; echo \"and `head -c 6`\"",
                                NULL};
    Pty *pty = pty_start(&(const PtyOptions){.argv = argv, .rows = 40, .cols = 100});
    pty_expect(pty, "> ");
    pty_send(pty, "Hello there.\r");
    prompt_await_reply(pty);
    pty_send(pty, "/time\r\004behind");
    pty_expect(pty, "and behind");
    pty_expect_exit(pty, 0);
    pty_end(pty);
}

// A refused turn comes back to be mended; what was typed behind it does not send it again.
static void test_a_refused_turn_and_what_follows(void **state) {
    (void)state;
    Pty *pty = prompt_open(
        BABBLER "|--seed=1|--max-tokens=300|--ignore-eos|--threads=1|--stats|--context=64|--overflow=stop");
    pty_send(pty, "Hello there.\r");
    prompt_await_reply(pty);
    pty_send(pty, "zq zq zq zq zq zq zq zq zq zq zq zq zq zq zq zq zq zq zq zq zq zq zq zq\rfollows\r");
    pty_expect(pty, "palaver: ");
    pty_expect_screen(pty, "> zq zq zq");
    pty_expect_screen(pty, "… follows");
    pty_send(pty, "\003");
    pty_expect(pty, "> ");
    prompt_leave(pty);
}

// What comes behind /edit is not the editor's.
static void test_an_editor_gets_none_of_it(void **state) {
    char *editor = prompt_make_editor(*state, "VISUAL",
                                      "echo in the editor >&2\n"
                                      "read -t 1 line && echo \"stolen: $line\" >&2\n"
                                      "echo edited > \"$1\"");
    const char *environment[] = {editor, "NO_COLOR=1", NULL};
    Pty *pty = prompt_start(LONG, &(const PtyOptions){.env = environment, .rows = 40, .cols = 100});
    pty_expect(pty, "> ");
    pty_send(pty, "Hello there.\r");
    prompt_await_reply(pty);
    pty_send(pty, "/set max_tokens 4\r/edit\rnext\r");
    pty_expect(pty, "in the editor");
    prompt_expect_turn(pty, "[turn 1: ");
    prompt_expect_turn(pty, "[turn 2: ");
    prompt_say(pty, "/view", "[user] next");
    assert_null(strstr(pty_transcript(pty), "stolen"));
    prompt_leave(pty);
    free(editor);
}

static void test_plain_terminals(void **state) {
    (void)state;
    Pty *pty = prompt_open(ENDLESS "|--plain");
    pty_send(pty, "Hello there.\r");
    prompt_await_reply(pty);
    pty_send(pty, "one\rtwo\r\003");
    pty_expect(pty, "| interrupted]");
    pty_expect(pty, "(typed before Ctrl-C, not sent:)\r\none\r\ntwo\r\n");
    pty_expect(pty, "> ");
    pty_send(pty, "/set max_tokens 300\r");
    pty_expect(pty, "> ");
    pty_send(pty, "Again.\r");
    prompt_await_reply(pty);
    pty_send(pty, "/set max_tokens 4\rthree\rfour\r");
    prompt_expect_turn(pty, "[turn 3: ");
    prompt_expect_turn(pty, "[turn 4: ");
    pty_send(pty, "\004");
    pty_expect_exit(pty, 0);
    assert_true(pty_is_cooked(pty));
    pty_end(pty);
}

// Nothing that ends palaver between two prompts leaves a silent terminal behind.
static void test_the_terminal_is_given_back(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        Pty *pty = prompt_open(ENDLESS);
        pty_send(pty, "Hello there.\r");
        prompt_await_reply(pty);
        assert_false(pty_is_cooked(pty));
        if (i)
            pty_signal(pty, SIGTERM);
        else
            pty_send(pty, "\034");
        pty_expect_exit(pty, 128 + (i ? SIGTERM : SIGQUIT));
        assert_true(pty_is_cooked(pty));
        assert_int_equal(pty_screen(pty)->col, 0); // for what a shell says of it
        pty_end(pty);
    }
}

static void test_what_is_left_out_is_told(void **state) {
    (void)state;
    Pty *pty = prompt_open(BABBLER "|--seed=1|--max-tokens=4|--threads=1|--stats");
    pty_send(pty, "\033[200~red \033[31mtext\a\033[201~");
    pty_expect(pty, "(2 control characters left out)");
    pty_expect(pty, "> red [31mtext");
    pty_send(pty, "\025\033[200~one\rcaf\xe9\033[201~");
    pty_expect(pty, "(the paste:2: this is no text in UTF-8: byte 4 of the line is 0xe9");
    pty_expect(pty, "> ");
    pty_send(pty, "caf\xe9 a\xff");
    pty_expect(pty, "(this terminal sends bytes that are not UTF-8: they are left out)");
    prompt_ask(pty, "!", "[turn 1: ");
    prompt_say(pty, "/view", "[user] caf a!");
    prompt_leave(pty);
    pty = prompt_open(BABBLER "|--seed=1|--max-tokens=4|--threads=1|--stats|--plain");
    prompt_say(pty, "caf\xe9", "(this is no text in UTF-8: byte 4 of the line is 0xe9");
    prompt_say(pty, "a\ab", "(1 control character left out)");
    prompt_say(pty, "/view", "[user] ab");
    pty_send(pty, "\004");
    pty_expect_exit(pty, 0);
    pty_end(pty);
}

int main(int argc, char **argv) {
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_HOME(test_each_line_is_a_turn),          WITH_HOME(test_much_is_typed),
        WITH_HOME(test_ctrl_c_makes_a_draft_of_it),   WITH_HOME(test_a_refused_turn_and_what_follows),
        WITH_HOME(test_a_ctrl_d_takes_nothing_along), WITH_HOME(test_the_shell_gets_what_follows_a_ctrl_d),
        WITH_HOME(test_an_editor_gets_none_of_it),    WITH_HOME(test_plain_terminals),
        WITH_HOME(test_the_terminal_is_given_back),   WITH_HOME(test_what_is_left_out_is_told),
    };
    return test_main("typed_ahead", argc, argv, tests);
}
