// The program as scripts use it: turns from stdin, replies on stdout, exit statuses.
#include "tests/support/program.h"
#include "tests/support/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Short replies, always the same.
#define TALK BABBLER "|--seed=1|--max-tokens=6|--threads=1"

// The line of figures that begins so fits a row of 80 columns.
static void expect_row(const Run *run, const char *begin) {
    const char *line = strstr(run->err, begin);
    if (!line) fail_msg("no %s in %s", begin, run->err);
    assert_in_range(strcspn(line, "\n"), 30, 80);
}

static void test_one_line_is_one_turn(void **state) {
    (void)state;
    Run run, again;
    program_run(&run, TALK "|--stats", "Hello there.\n\n# a comment\nAnd of Italy?\n");
    expect_status(&run, 0);
    assert_true(run.out_size > 2);
    assert_int_equal(run.out[run.out_size - 1], '\n');
    expect_no_err(&run, "[turn 1: 0 cached");
    expect_row(&run, "[turn 1: ");
    expect_row(&run, "[turn 2: ");
    expect_err(&run, "[turn 2: ");
    expect_err(&run, " cached + ");
    expect_no_err(&run, "[turn 3: ");
    program_run(&again, TALK, "Hello there.\nAnd of Italy?\n");
    assert_string_equal(run.out, again.out);
    assert_string_equal(again.err, "");
    program_free(&again);
    program_run(&again, BABBLER "|--seed=2|--max-tokens=6", "Hello there.\nAnd of Italy?\n");
    assert_string_not_equal(run.out, again.out);
    program_free(&again);
    program_free(&run);
}

static void test_nothing_to_do_is_well(void **state) {
    (void)state;
    Run run;
    program_run(&run, TALK, "");
    expect_status(&run, 0);
    assert_string_equal(run.out, "");
    program_free(&run);
    program_run(&run, TALK, "\n   \n# only a comment");
    expect_status(&run, 0);
    assert_string_equal(run.out, "");
    program_free(&run);
}

static void test_lines_are_joined(void **state) {
    (void)state;
    Run run;
    program_run(&run, TALK "|--echo|--stats", "one\\\ntwo\n\"\"\"\n# three\n\nfour\n\"\"\"\nlast");
    expect_status(&run, 0);
    expect_out(&run, "> one\ntwo\n");
    expect_out(&run, "> # three\n\nfour\n");
    expect_out(&run, "> last\n");
    expect_err(&run, "[turn 3: ");
    expect_no_err(&run, "[turn 4: ");
    program_free(&run);
    program_run(&run, TALK, "\"\"\"\nnever closed\n");
    expect_status(&run, 5);
    expect_err(&run, "palaver: stdin:1: the input ends within this turn");
    program_free(&run);
}

static void test_slashes(void **state) {
    (void)state;
    Run run;
    program_run(&run, TALK, "//usr is a folder\n/view\n");
    expect_status(&run, 0);
    expect_err(&run, "[user] /usr is a folder");
    program_free(&run);
}

static void test_a_wrong_command_ends_the_script(void **state) {
    (void)state;
    Run run;
    program_run(&run, TALK "|--stats", "Hello\n\n/stast\nnever asked\n");
    expect_status(&run, 5);
    expect_err(&run, "palaver: stdin:3: unknown command /stast: did you mean /stats?");
    expect_no_err(&run, "[turn 2");
    program_free(&run);
    program_run(&run, TALK "|--stats|--keep-going", "/stast\nHello\n");
    expect_status(&run, 5);
    expect_err(&run, "[turn 1: ");
    program_free(&run);
    program_run(&run, TALK "|--stats", "Hello\n/quit\nnever asked\n");
    expect_status(&run, 0);
    expect_no_err(&run, "[turn 2");
    program_free(&run);
}

static void test_a_turn_that_cannot_fit_is_refused(void **state) {
    (void)state;
    Run run;
    char input[4096];
    int n = 0;
    while (n < 1500) n += sprintf(input + n, "quick brown fox ");
    sprintf(input + n, "\nHello\n");
    program_run(&run, TALK "|--context=64|--stats", input);
    expect_status(&run, 4);
    expect_err(&run, "palaver: stdin:1: ");
    assert_string_equal(run.out, "");
    program_free(&run);
    program_run(&run, TALK "|--context=64|--stats|-k", input);
    expect_status(&run, 4);
    expect_err(&run, "[turn 1: ");
    assert_true(run.out_size > 0);
    program_free(&run);
}

static void test_the_talk_goes_on_when_the_context_is_full(void **state) {
    (void)state;
    Run run;
    char input[2000] = "";
    for (int i = 0; i < 20; i++) strcat(input, "Please tell me a story about a cat and a king.\n");
    program_run(&run, TALK "|--context=128|--stats", input);
    expect_status(&run, 0);
    expect_err(&run, "[context full: turn");
    expect_err(&run, "[turn 20: ");
    program_free(&run);
    program_run(&run, TALK "|--context=128|--overflow=stop", input);
    expect_status(&run, 4);
    program_free(&run);
}

static void test_one_question(void **state) {
    (void)state;
    Run run, script;
    program_run(&run, TALK "|--echo|-p|What is this?", "a piped\ntext\n");
    expect_status(&run, 0);
    expect_out(&run, "> What is this?\n\na piped\ntext\n");
    program_free(&run);
    program_run(&run, TALK "|-p|Hello there.", "");
    program_run(&script, TALK, "Hello there.\n");
    assert_string_equal(run.out, script.out);
    program_free(&run);
    program_free(&script);
    program_run(&run, TALK "|-p|", "");
    expect_status(&run, 2);
    program_free(&run);
    program_shell(&run, "$PALAVER " BABBLER " --max-tokens 3 -p Hi <&-"); // nothing is piped in
    expect_status(&run, 0);
    expect_no_err(&run, "stdin");
    program_free(&run);
}

// The answer is what a question is about; a talk, or a script, is also about what is kept.
static void test_a_question_without_a_journal(void **state) {
    (void)state;
    static const struct {
        const char *words;
        int status;
    } ways[] = {{"-p Hi < /dev/null", 0}, {"< script", 1}};
    Run run;
    for (int i = 0; i < 2; i++) {
        char command[500];
        snprintf(command, sizeof command,
                 "P=$(realpath $PALAVER) M=$(realpath " BABBLER "); cd %s; echo Hi > script; "
                 "XDG_STATE_HOME=/dev/null $P $M --max-tokens 3 %s",
                 (char *)*state, ways[i].words);
        program_shell(&run, command);
        expect_status(&run, ways[i].status);
        expect_err(&run, "no journal of this conversation (--no-save wants none): ");
        assert_true(run.out_size > 0);
        program_free(&run);
    }
}

// What a person types is never a control token, nor a format, nor a command of the shell.
static void test_user_text_stays_text(void **state) {
    (void)state;
    Run run;
    program_run(&run, TALK, "<|im_end|> %s%n $(id) `id`\n/view\n");
    expect_status(&run, 0);
    expect_err(&run, "[user] <|im_end|> %s%n $(id) `id`");
    program_free(&run);
    program_run(&run, TALK, "zero\x1b[31m\n/view\n");
    expect_status(&run, 0);
    expect_err(&run, "[user] zero\u241b[31m");
    program_free(&run);
}

// One error, and nothing of it is taken for a turn.
static void test_binary_input_is_refused(void **state) {
    (void)state;
    Run run;
    static const char script[] = "Hello there.\n\177ELF\2\1\1\0\0\n/stats\n",
                      image[] = "\211PNG\r\n\032\n\0\0\rIHDR";
    program_run_bytes(&run, TALK "|--keep-going", script, sizeof script - 1);
    expect_status(&run, 5);
    expect_err(&run, "stdin:2: this is no text");
    expect_no_err(&run, "conversation ");
    program_free(&run);
    program_run_bytes(&run, TALK "|-p|What is in this picture?", image, sizeof image - 1);
    expect_status(&run, 1);
    expect_err(&run, "stdin:1: this is no text");
    assert_int_equal(run.out_size, 0);
    program_free(&run);
}

static void test_a_template_of_other_tokens_is_told(void **state) {
    (void)state;
    Run run;
    program_run(&run, TALK "|--template|gemma", "Hello there.\n");
    expect_status(&run, 0);
    expect_err(&run, "[template gemma: the model's vocabulary has no <start_of_turn>");
    program_free(&run);
    program_run(&run, TALK "|--template|alpaca", "Hello there.\n");
    expect_status(&run, 0);
    expect_no_err(&run, "vocabulary");
    program_free(&run);
}

static void test_retry_undo_and_continue(void **state) {
    (void)state;
    Run run, again;
    program_run(&run, TALK "|--stats",
                "Hello there.\n/retry 5\n/retry 6\n/retry 5\n/continue\n/undo\nWhat?\n");
    expect_status(&run, 0);
    assert_int_equal(program_count(run.err, "[turn 1: "), 6);
    expect_err(&run, "[1 turn taken back, 0 left]");
    program_free(&run);
    program_run(&run, TALK, "Hello there.\n/retry 5\n");
    program_run(&again, TALK, "Hello there.\n/retry 6\n/retry 5\n");
    const char *first = strrchr(run.out, '\n'), *second = strrchr(again.out, '\n');
    assert_true(first && second);
    program_free(&run);
    program_free(&again);
    program_run(&run, TALK, "/retry\n");
    expect_status(&run, 5);
    expect_err(&run, "there is no turn yet");
    program_free(&run);
    program_run(&run, TALK, "Hello\n/undo 2\n");
    expect_status(&run, 5);
    expect_err(&run, "at most 1");
    program_free(&run);
    program_run(&run, TALK, "Hello\n/edit\n");
    expect_status(&run, 5);
    program_free(&run);
}

static void test_a_closed_pipe_is_an_error(void **state) {
    (void)state;
    Run run;
    program_shell(&run, "echo Hello | $PALAVER " BABBLER " --no-save --ignore-eos >/dev/full");
    expect_status(&run, 1);
    expect_err(&run, "palaver: ");
    program_free(&run);
    program_shell(&run, "{ echo Hello | $PALAVER " BABBLER
                        " --no-save --ignore-eos; echo status $? >&2; } | head -c 1");
    expect_err(&run, "status 1");
    assert_null(strstr(run.err, "palaver: ")); // the reader has seen enough
    program_free(&run);
}

// nohup: a signal that is ignored at the start stays so.
static void test_an_ignored_hang_up(void **state) {
    (void)state;
    Run run;
    signal(SIGHUP, SIG_IGN);
    program_run_signal(&run, TALK "|--stats", "Hello there.\nAnd of Italy?\n", SIGHUP, 3);
    signal(SIGHUP, SIG_DFL);
    expect_status(&run, 0);
    expect_err(&run, "[turn 2: ");
    program_free(&run);
}

static void test_a_signal_while_waiting_for_input(void **state) {
    (void)state;
    Run run;
    program_run_signal(&run, TALK, "Hello there.\n", SIGTERM, 3);
    expect_status(&run, 128 + SIGTERM);
    program_free(&run);
    program_run_signal(&run, TALK, "Hello there.\n", SIGINT, 3);
    expect_status(&run, 130);
    program_free(&run);
    program_run_signal(&run, TALK, "", SIGINT, 0); // while it starts or loads
    expect_status(&run, 130);
    program_free(&run);
}

int main(int argc, char **argv) {
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_HOME(test_an_ignored_hang_up),
        WITH_HOME(test_one_line_is_one_turn),
        WITH_HOME(test_nothing_to_do_is_well),
        WITH_HOME(test_lines_are_joined),
        WITH_HOME(test_slashes),
        WITH_HOME(test_a_wrong_command_ends_the_script),
        WITH_HOME(test_a_turn_that_cannot_fit_is_refused),
        WITH_HOME(test_the_talk_goes_on_when_the_context_is_full),
        WITH_HOME(test_one_question),
        WITH_HOME(test_a_question_without_a_journal),
        WITH_HOME(test_user_text_stays_text),
        WITH_HOME(test_binary_input_is_refused),
        WITH_HOME(test_a_template_of_other_tokens_is_told),
        WITH_HOME(test_a_signal_while_waiting_for_input),
        WITH_HOME(test_retry_undo_and_continue),
        WITH_HOME(test_a_closed_pipe_is_an_error),
    };
    return test_main("script", argc, argv, tests);
}
