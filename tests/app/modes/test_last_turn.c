// What stands between a question and the prompt behind its reply: the last turn where one comes back to it, and notices.
#include "tests/support/terminal/prompt.h"
#include "tests/support/program.h"
#include "tests/support/test.h"

#include <stdio.h>

#define SHORT BABBLER "|--seed=1|--max-tokens=6|--threads=1"

// A move in the tree, or to another conversation, and what is said of it, then the turn that the next one follows.
static void move(Pty *pty, const char *line, const char *said, const char *turn) {
    char expected[300];
    snprintf(expected, sizeof expected, "%s\r\n\r\n> %s\r\n\r\n", said, turn);
    pty_send(pty, line);
    pty_send(pty, "\r");
    pty_expect(pty, expected);
    pty_expect(pty, "\r\n\r\n[max_tokens reached; /continue goes on]\r\n\r\n");
    pty_expect(pty, "> ");
}

static void test_where_one_is_is_shown(void **state) {
    (void)state;
    Pty *pty = prompt_open(SHORT);
    prompt_say(pty, "/new one", "a new conversation");
    prompt_ask(pty, "Hello there.", "[max_tokens reached");
    prompt_ask(pty, "And you?", "[max_tokens reached");
    move(pty, "/undo", "[1 turn taken back, 1 left]", "Hello there.");
    move(pty, "/goto 2.1", "[at 2.1: 2 turns before the next]", "And you?");
    move(pty, "/goto 1.1", "[at 1.1: 1 turn before the next]", "Hello there.");
    move(pty, "/redo", "[1 turn back again, 2 in all]", "And you?");
    prompt_say(pty, "/new two", "a new conversation");
    prompt_ask(pty, "Or so?", "[max_tokens reached");
    move(pty, "/switch one", "[one: 2 turns so far]", "And you?");
    // What stands there already is not shown again.
    prompt_say(pty, "/switch one", "[already in one: 2 turns so far]\r\n\r\n\033");
    prompt_say(pty, "/goto 2.1", "[at 2.1: 2 turns before the next]\r\n\r\n\033");
    prompt_say(pty, "/goto 0", "[at 0: 0 turns before the next]\r\n\r\n\033");
    prompt_leave(pty);
    pty = prompt_start(SHORT "|--resume=two", NULL);
    pty_expect(pty, "[1 turn so far; the last:]\r\n\r\n> Or so?\r\n\r\n");
    pty_expect(pty, "\r\n\r\n[max_tokens reached; /continue goes on]\r\n\r\n");
    pty_expect(pty, "> ");
    prompt_leave(pty);
}

// An empty line stands between a notice and the words that it comes between.
static void test_notices_stand_apart(void **state) {
    char command[700];
    Run run;
    Pty *pty = prompt_open(
        BABBLER "|--seed=1|--max-tokens=150|--ignore-eos|--threads=1|--context=64|--overflow=shift");
    pty_send(pty, "Hello there.\r");
    pty_expect(pty, "\r\n\r\n[context full: "); // amid the reply
    pty_expect(pty, " ms]\r\n\r\n");
    pty_expect(pty, "[max_tokens reached");
    pty_expect(pty, "> ");
    pty_send(pty, "And you?\r");
    pty_expect(pty, "\n[context full: "); // before it
    pty_expect(pty, " ms]\r\n\r\n");
    pty_expect(pty, "[max_tokens reached");
    pty_expect(pty, "> ");
    prompt_leave(pty);
    // Likewise what went wrong with the journal.
    snprintf(command, sizeof command, "cd %s/palaver && rm -r conversations && touch conversations",
             (char *)*state);
    program_shell(&run, command);
    expect_status(&run, 0);
    program_free(&run);
    pty = prompt_open(SHORT);
    pty_send(pty, "Hello there.\r");
    pty_expect(pty, "\npalaver: ");
    pty_expect(pty, "/palaver/conversations");
    pty_expect(pty, "\r\n\r\n");
    pty_expect(pty, "\r\n\r\n[max_tokens reached");
    pty_expect(pty, "> ");
    pty_send(pty, "\004");
    pty_expect_exit(pty, 1);
    pty_end(pty);
}

int main(int argc, char **argv) {
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_HOME(test_where_one_is_is_shown),
        WITH_HOME(test_notices_stand_apart),
    };
    return test_main("last_turn", argc, argv, tests);
}
