// The prompt as a person uses it, in a pseudo-terminal: banner, replies, Ctrl-C in all its meanings, $EDITOR,
// signals, the gauge, and going on with --resume.
#include "tests/support/terminal/prompt.h"
#include "tests/support/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SHORT BABBLER "|--seed=1|--max-tokens=6|--threads=1|--stats"
#define ENDLESS BABBLER "|--seed=1|--ignore-eos|--threads=1|--stats|--context=1024"

static void test_banner_turns_and_leaving(void **state) {
    (void)state;
    Pty *pty = prompt_start(SHORT, NULL);
    pty_expect(pty, "llama, ");
    pty_expect(pty, "cpu: 1 thread");
    pty_expect(pty, "context 1024 tokens");
    pty_expect(pty, "template chatml");
    pty_expect(pty, "> ");
    prompt_ask(pty, "Hello there.", "[turn 1: ");
    prompt_ask(pty, "And of Italy?", "[turn 2: ");
    prompt_say(pty, "/hlep", "palaver: unknown command /hlep: did you mean /help?");
    pty_send(pty, "\025/he\t"); // what was refused stands there to be mended
    pty_expect(pty, "lp ");
    prompt_say(pty, "", "/continue");
    prompt_leave(pty);
    pty = prompt_open(SHORT);
    pty_send(pty, "/bye\r");
    pty_expect_exit(pty, 0);
    pty_end(pty);
}

static void test_no_banner_where_stdout_is_a_file(void **state) {
    char path[200], text[100] = "";
    snprintf(path, sizeof path, "%s/out", (char *)*state);
    Pty *pty = prompt_start(SHORT, &(const PtyOptions){.stdout_path = path});
    pty_expect(pty, "[stdout is no terminal: each line is a turn, as in a script; Ctrl-D ends it]");
    pty_send(pty, "Hello there.\n\004");
    pty_expect_exit(pty, 0);
    assert_null(strstr(pty_transcript(pty), "context 1024"));
    assert_null(strstr(pty_transcript(pty), "\n> "));
    FILE *file = fopen(path, "r");
    assert_true(fread(text, 1, sizeof text - 1, file) > 2);
    assert_null(strchr(text, '\033'));
    fclose(file);
    pty_end(pty);
}

static void test_ctrl_c_keeps_what_was_said(void **state) {
    (void)state;
    Pty *pty = prompt_open(ENDLESS);
    pty_send(pty, "Hello there.\r");
    prompt_await_reply(pty);
    pty_send(pty, "\003");
    pty_expect(pty, "| interrupted]");
    pty_expect(pty, "/continue");
    pty_expect(pty, "> ");
    pty_send(pty, "/continue\r");
    prompt_await_reply(pty);
    pty_send(pty, "\003");
    pty_expect(pty, "[turn 1: ");
    pty_expect(pty, "| interrupted]");
    pty_expect(pty, "> ");
    prompt_leave(pty);
}

// The Ctrl-C that ended a reply ends nothing of what comes after it.
static void test_commands_after_ctrl_c(void **state) {
    (void)state;
    Pty *pty = prompt_open(ENDLESS);
    pty_send(pty, "Hello there.\r");
    prompt_await_reply(pty);
    pty_send(pty, "\003");
    pty_expect(pty, "| interrupted]");
    pty_expect(pty, "> ");
    prompt_say(pty, "/replay verify", "[1 reply sampled again, ");
    pty_send(pty, "/model " BABBLER "\r");
    pty_expect(pty, "context 1024");
    pty_expect(pty, "> ");
    prompt_leave(pty);
}

// Keys typed during a reply are not in it; they wait for the prompt.
static void test_keys_typed_during_a_reply(void **state) {
    (void)state;
    Pty *pty = prompt_open(BABBLER "|--seed=1|--max-tokens=300|--ignore-eos|--stats");
    pty_send(pty, "Hello there.\r");
    prompt_await_reply(pty);
    pty_send(pty, "qqzzqqzz");
    pty_expect_screen(pty, "> qqzzqqzz");
    assert_true(strstr(pty_transcript(pty), "qqzzqqzz") > strstr(pty_transcript(pty), "[turn 1: "));
    pty_send(pty, "\025");
    prompt_leave(pty);
}

// A chat of a shell that does not mend what a job leaves behind, at its prompt.
static Pty *start_in_shell(const char *flags) {
    const char *const argv[] = {"bash", "--norc", "--noprofile", "--noediting", "-i", NULL};
    const char *const env[] = {"PS1=shell$ ", "HISTFILE=", "NO_COLOR=1", NULL};
    Pty *pty = pty_start(&(const PtyOptions){.argv = argv, .env = env, .rows = 40, .cols = 200});
    char command[400];
    pty_expect(pty, "shell$ ");
    snprintf(command, sizeof command, "%s " BABBLER "%s --threads=1 --context=1024\r", program_path(), flags);
    pty_send(pty, command);
    pty_expect(pty, "/help lists the commands");
    pty_expect(pty, "> ");
    return pty;
}

// A reply that is suspended leaves the terminal as the shell had it, and goes on without an echo.
static void test_a_suspended_reply(void **state) {
    (void)state;
    Pty *pty = start_in_shell(" --seed=1 --ignore-eos --stats");
    pty_send(pty, "Hello there.\r");
    prompt_await_reply(pty);
    pty_send(pty, "\032");
    pty_expect(pty, "Stopped");
    pty_expect(pty, "shell$ ");
    assert_true(pty_is_cooked(pty));
    pty_send(pty, "fg\r");
    pty_expect(pty, "--context=1024\r\n"); // the shell names the job
    prompt_await_reply(pty);
    assert_false(pty_is_cooked(pty));
    pty_send(pty, "\003");
    pty_expect(pty, "| interrupted]");
    pty_expect(pty, "> ");
    pty_send(pty, "\004");
    pty_expect(pty, "shell$ ");
    pty_send(pty, "exit\r");
    pty_expect_exit(pty, 0);
    pty_end(pty);
}

// Who is suspended at the prompt and told to end does so when it goes on, whatever was typed.
static void test_told_to_end_while_suspended(void **state) {
    (void)state;
    Pty *pty = start_in_shell("");
    pty_send(pty, "draft");
    pty_expect(pty, "draft");
    pty_send(pty, "\032");
    pty_expect(pty, "Stopped");
    pty_expect(pty, "shell$ ");
    pty_send(pty, "kill %1; sleep 0.2; fg; echo status $?\r");
    pty_expect(pty, "status 143");
    pty_expect(pty, "shell$ ");
    pty_send(pty, "exit\r");
    pty_expect_exit(pty, 0);
    pty_end(pty);
}

// The screen of a reply; `stopped`: while it streams it is stopped and sent on several times, by no shell.
static void screen_of_reply(bool stopped, Vt *screen) {
    Pty *pty = prompt_start(BABBLER "|--seed=1|--max-tokens=300|--ignore-eos|--threads=1|--no-save",
                            &(const PtyOptions){.rows = 60, .cols = 50});
    pty_expect(pty, "/help lists the commands");
    pty_expect(pty, "> ");
    pty_send(pty, "Hello there.\r");
    for (int i = 0; stopped && i < 6; i++) {
        prompt_await_reply(pty);
        if (i % 2) pty_signal(pty, SIGSTOP);
        pty_signal(pty, SIGCONT);
    }
    pty_expect(pty, "[max_tokens");
    pty_expect(pty, "> ");
    *screen = *pty_screen(pty);
    prompt_leave(pty);
}

// Nobody has written in the meantime: the reply goes on where it was.
static void test_a_reply_that_is_stopped_from_elsewhere(void **state) {
    (void)state;
    static Vt straight, stopped;
    screen_of_reply(false, &straight);
    screen_of_reply(true, &stopped);
    for (int row = 0; row < straight.rows; row++) {
        char wanted[1300], got[1300];
        vt_row(&straight, row, wanted, sizeof wanted);
        vt_row(&stopped, row, got, sizeof got);
        assert_string_equal(got, wanted);
    }
}

// Two thousand tokens take the sanitized program long enough to be stopped while it reads them.
static void test_ctrl_c_while_reading_takes_the_turn_back(void **state) {
    char path[200];
    snprintf(path, sizeof path, "%s/long.txt", (char *)*state);
    FILE *file = fopen(path, "w");
    for (int i = 0; i < 40000; i++) fputs("zq ", file);
    fclose(file);
    Pty *pty = prompt_open(BABBLER "|--seed=1|--max-tokens=6|--threads=1|--stats|--context=200000");
    pty_send(pty, "/file ");
    pty_send(pty, path);
    prompt_say(pty, "", "go before the next turn");
    pty_send(pty, "What is this?\r");
    pty_expect(pty, "reading ");
    pty_expect(pty, "tok");
    pty_send(pty, "\003");
    pty_expect(pty, "the turn is taken back");
    pty_expect(pty, "> ");
    prompt_say(pty, "/file", "taken away");
    prompt_ask(pty, "Hello there.", "[turn 1: ");
    prompt_leave(pty);
}

static void test_ctrl_c_at_the_prompt(void **state) {
    (void)state;
    Pty *pty = prompt_open(SHORT);
    pty_send(pty, "some text\003");
    pty_expect(pty, "> ");
    prompt_ask(pty, "Hello there.", "[turn 1: ");
    pty_send(pty, "text\003"); // so that the next one was not meant for the reply
    pty_expect(pty, "> ");
    pty_send(pty, "\003\003");
    pty_expect_exit(pty, 130);
    assert_true(pty_is_cooked(pty));
    pty_end(pty);
}

static void test_hang_up_saves_first(void **state) {
    (void)state;
    Pty *pty = prompt_open(ENDLESS);
    pty_send(pty, "Hello there.\r");
    prompt_await_reply(pty);
    pty_signal(pty, SIGHUP);
    pty_expect_exit(pty, 128 + SIGHUP);
    pty_end(pty);
    pty = prompt_start(SHORT "|--resume", NULL);
    pty_expect(pty, "[1 turn so far; the last:]");
    pty_expect(pty, "> Hello there.");
    pty_expect(pty, "[interrupted; /continue goes on]");
    pty_expect(pty, "> ");
    prompt_ask(pty, "And of Italy?", "[turn 2: ");
    pty_signal(pty, SIGTERM); // at the prompt
    pty_expect_exit(pty, 128 + SIGTERM);
    assert_true(pty_is_cooked(pty));
    pty_end(pty);
}

static void test_edit_goes_on_from_there(void **state) {
    char *editor = prompt_make_editor(*state, "EDITOR", "sed -i '1s/^/Edited: /' \"$1\"");
    const char *environment[] = {editor, "VISUAL", "NO_COLOR=1", NULL};
    Pty *pty = prompt_start(SHORT, &(const PtyOptions){.env = environment, .rows = 40, .cols = 100});
    pty_expect(pty, "> ");
    prompt_ask(pty, "Hello there.", "[turn 1: ");
    prompt_ask(pty, "And of Italy?", "[turn 2: ");
    prompt_say(pty, "/edit 1", "> Edited: Hello there.\r\n\r\n"); // the reply apart, as of every question
    prompt_say(pty, "/view", "[user] Edited: Hello there.");
    prompt_say(pty, "/edit reply", "the reply is replaced");
    prompt_say(pty, "/view", "[assistant] Edited: ");
    prompt_say(pty, "/edit 7", "at most 1");
    prompt_leave(pty);
    free(editor);
}

static void test_several_lines_are_one_turn(void **state) {
    (void)state;
    Pty *pty = prompt_open(SHORT);
    prompt_ask(pty, "one\\\rtwo", "[turn 1: ");
    prompt_ask(pty, "\033[200~three\nfour\033[201~", "[turn 2: ");
    pty_send(pty, "/view\r");
    pty_expect(pty, "[user] one\r\ntwo");
    pty_expect(pty, "[user] three\r\nfour");
    pty_expect(pty, "> ");
    prompt_leave(pty);
}

static void test_the_gauge_shows_from_a_half_on(void **state) {
    (void)state;
    Pty *pty =
        prompt_open(BABBLER "|--seed=1|--max-tokens=20|--ignore-eos|--threads=1|--stats|--context=128");
    assert_null(strstr(pty_transcript(pty), "%]"));
    prompt_ask(pty, "Hello there.", "[turn 1: ");
    prompt_ask(pty, "Hello there.", "[turn 2: ");
    pty_send(pty, "/context\r");
    pty_expect(pty, "window        128  tokens");
    pty_expect(pty, "%] > ");
    prompt_ask(pty, "Hello there.", "[turn 3: ");
    pty_send(pty, "Hello there.\r");
    pty_expect(pty, "[turn 4: ");
    assert_non_null(strstr(pty_transcript(pty), "[context full: turn"));
    assert_non_null(strstr(pty_transcript(pty), "the next turn may discard"));
    pty_expect(pty, "]");
    pty_expect(pty, "> ");
    prompt_leave(pty);
}

static void test_a_refused_turn_comes_back_to_the_prompt(void **state) {
    (void)state;
    Pty *pty = prompt_open(BABBLER "|--seed=1|--max-tokens=4|--threads=1|--stats|--context=64");
    pty_send(
        pty,
        "zq zq zq zq zq zq zq zq zq zq zq zq zq zq zq zq zq zq zq zq zq zq zq zq zq zq zq zq zq zq zq\r");
    pty_expect(pty, "palaver: ");
    pty_expect(pty, "> zq zq");
    pty_send(pty, "\003");
    pty_expect(pty, "> ");
    prompt_ask(pty, "Hi", "[turn 1: ");
    prompt_leave(pty);
}

static void test_plain_and_dumb_terminals_get_no_escapes(void **state) {
    (void)state;
    static const char *const dumb[] = {"TERM=dumb", "NO_COLOR", NULL};
    for (int i = 0; i < 2; i++) {
        const PtyOptions options = {.env = dumb, .rows = 40, .cols = 100};
        Pty *pty = prompt_start(i ? SHORT : SHORT "|--plain", i ? &options : NULL);
        pty_expect(pty, "> ");
        pty_send(pty, "Hello there.\n");
        pty_expect(pty, "[turn 1: ");
        pty_expect(pty, "> ");
        assert_null(strchr(pty_transcript(pty), '\033'));
        pty_send(pty, "\004");
        pty_expect_exit(pty, 0);
        pty_end(pty);
    }
}

static void test_history_is_private_and_optional(void **state) {
    char path[200];
    struct stat facts;
    snprintf(path, sizeof path, "%s/palaver/history", (char *)*state);
    Pty *pty = prompt_open(SHORT "|--no-history");
    prompt_ask(pty, "Hello there.", "[turn 1: ");
    prompt_leave(pty);
    assert_int_not_equal(stat(path, &facts), 0);
    pty = prompt_open(SHORT);
    prompt_ask(pty, "Hello there.", "[turn 1: ");
    prompt_leave(pty);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    pty = prompt_open(SHORT);
    pty_send(pty, "\033[A\r");
    pty_expect(pty, "Hello there.");
    pty_expect(pty, "[turn 1: ");
    pty_expect(pty, "]");
    pty_expect(pty, "> ");
    prompt_leave(pty);
}

static void test_tab_and_the_clipboard(void **state) {
    (void)state;
    Pty *pty = prompt_open(SHORT);
    prompt_ask(pty, "/new earlier", "[a new conversation: earlier");
    prompt_ask(pty, "Hello there.", "[turn 1: ");
    prompt_say(pty, "/goto 1\t", "[at 1.1: 1 turn");
    prompt_ask(pty, "/new late  in a day", "the one before"); // a name is a whole argument
    prompt_ask(pty, "Hello there.", "[turn 1: ");
    prompt_ask(pty, "/new", "the one before");
    pty_send(pty, "/switch late  i\t");
    pty_expect_screen(pty, "/switch late  in a day");
    prompt_say(pty, "", "[late  in a day: 1 turn so far]");
    prompt_say(pty, "/switch ear\t", "[earlier: 1 turn so far]");
    prompt_say(pty, "/overflow st\t", "overflow = \"stop\"");
    prompt_ask(pty, "/say assistant Hello!?", "[said");
    pty_send(pty, "/copy\r");
    pty_expect(pty, "\033]52;c;SGVsbG8hPw==\a");
    pty_expect(pty, "[7 bytes handed to the terminal's clipboard]");
    pty_expect(pty, "> ");
    prompt_leave(pty);
    pty = prompt_open(SHORT "|--plain|--no-save");
    prompt_ask(pty, "Hello there.", "[turn 1: ");
    prompt_say(pty, "/copy", "the clipboard needs a terminal");
    prompt_leave(pty);
}

int main(int argc, char **argv) {
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_HOME(test_banner_turns_and_leaving),
        WITH_HOME(test_no_banner_where_stdout_is_a_file),
        WITH_HOME(test_ctrl_c_keeps_what_was_said),
        WITH_HOME(test_commands_after_ctrl_c),
        WITH_HOME(test_keys_typed_during_a_reply),
        WITH_HOME(test_a_suspended_reply),
        WITH_HOME(test_told_to_end_while_suspended),
        WITH_HOME(test_a_reply_that_is_stopped_from_elsewhere),
        WITH_HOME(test_ctrl_c_while_reading_takes_the_turn_back),
        WITH_HOME(test_ctrl_c_at_the_prompt),
        WITH_HOME(test_hang_up_saves_first),
        WITH_HOME(test_edit_goes_on_from_there),
        WITH_HOME(test_several_lines_are_one_turn),
        WITH_HOME(test_the_gauge_shows_from_a_half_on),
        WITH_HOME(test_a_refused_turn_comes_back_to_the_prompt),
        WITH_HOME(test_plain_and_dumb_terminals_get_no_escapes),
        WITH_HOME(test_history_is_private_and_optional),
        WITH_HOME(test_tab_and_the_clipboard),
    };
    return test_main("repl", argc, argv, tests);
}
