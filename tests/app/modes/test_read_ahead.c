// A script's turns are read while others are answered: what that changes for who writes them, and what it must not.
#include "tests/support/terminal/prompt.h"
#include "tests/support/test.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TALK BABBLER "|--device|cpu|--seed|1|--max-tokens|6|--threads|1"
#define SHELL "$PALAVER " BABBLER " --device cpu --seed 1 --max-tokens 6 --threads 1"

// More than a pipe holds is taken while a turn takes its time: the editor of /edit waits for the end of the script.
// Then all of it is obeyed.
static void who_writes_never_waits(void **state) {
    (void)state;
    Run run;
    program_shell(
        &run, "mkfifo $HOME/fed; export EDITOR=\"read fed <$HOME/fed; :\"; "
              "{ echo Hello there.; echo /edit; for i in 1 2 3 4 5; do "
              "head -c 60000 /dev/zero | tr '\\0' '#'; echo; echo Turn $i; done; echo yes >$HOME/fed; } | "
              "timeout 60 " SHELL " --stats --echo");
    expect_status(&run, 0);
    expect_err(&run, "[nothing was changed]");
    expect_err(&run, "[turn 6: ");
    expect_no_err(&run, "[turn 7: ");
    expect_out(&run, "> /edit\n> Turn 1\n");
    program_free(&run);
}

// The lines come one by one, slower than they are answered; the same is said as to a script that is there at once.
static void who_writes_slowly_gets_answers_meanwhile(void **state) {
    (void)state;
    Run slow, fast;
    program_shell(
        &slow, "mkfifo $HOME/in $HOME/out; " SHELL " --temperature 0 <$HOME/in >$HOME/out & "
               "exec 3>$HOME/in 4<$HOME/out; "
               "for turn in Hello. '/say user Well?' Why?; do printf %s \"$turn\" >&3; sleep 0.1; echo >&3; "
               "case $turn in /*) ;; *) read -r answer <&4; echo \"$answer\";; esac; done; "
               "exec 3>&-; wait $!");
    expect_status(&slow, 0);
    program_run(&fast, TALK "|--temperature|0", "Hello.\n/say user Well?\nWhy?\n");
    assert_string_equal(slow.out, fast.out);
    program_free(&slow);
    program_free(&fast);
}

// What went wrong, where the input itself is at fault: after the turns before it.
static void ends_of_the_input(void **state) {
    (void)state;
    Run run;
    program_shell(&run, SHELL " < /");
    expect_status(&run, 1);
    expect_err(&run, "palaver: stdin: Is a directory");
    program_free(&run);
    program_shell(&run, SHELL " <&-");
    expect_status(&run, 1);
    expect_err(&run, "palaver: stdin: Bad file descriptor");
    program_free(&run);
    program_shell(&run, "echo Hello | " SHELL " >&-");
    expect_status(&run, 1);
    expect_err(&run, "palaver: stdout: Bad file descriptor");
    program_free(&run);
    program_shell(
        &run, "{ echo Hello there.; head -c 70000000 /dev/zero | tr '\\0' 'a'; echo; echo More.; } | " SHELL
              " --stats --keep-going");
    expect_status(&run, 5);
    expect_err(&run, "palaver: stdin:2: the line is too long");
    expect_err(&run, "[turn 1: ");
    expect_no_err(&run, "[turn 2: ");
    program_free(&run);
    // a byte order mark, lines as Windows ends them
    run = program_script(TALK "|--echo", "\xef\xbb\xbfHello\r\n/quit\r\n");
    assert_int_equal(strncmp(run.out, "> Hello\n", 8), 0);
    program_free(&run);
    program_says(TALK, "Hello\n\"\"\"\none\n", 5,
                 "stdin:2: the input ends within this turn: \"\"\" is missing");
    program_says(TALK, "Hello\none\\", 5,
                 "stdin:2: the input ends within this turn: its last line ends in \\");
}

// After /quit and after an error nobody waits for the rest, whether it comes or not.
static void the_rest_is_left(void **state) {
    (void)state;
    Run run;
    static const char *const ENDS[] = {"/quit", "/nonsense"};
    for (int k = 0; k < 2; k++) {
        char command[400];
        snprintf(command, sizeof command,
                 "mkfifo $HOME/in%d; timeout 60 " SHELL
                 " --stats <$HOME/in%d & exec 3>$HOME/in%d; echo Hello >&3; "
                 "echo %s >&3; echo More >&3; wait $!",
                 k, k, k, ENDS[k]);
        program_shell(&run, command);
        expect_status(&run, k ? 5 : 0);
        expect_no_err(&run, "[turn 2: ");
        program_free(&run);
    }
}

// Of a terminal nothing is read ahead, for $EDITOR reads from it as well.
static void a_terminal_is_left_to_the_editor(void **state) {
    (void)state;
    const char *env[] = {"EDITOR=echo now: >&2; read line; echo \"$line\" >", "VISUAL", NULL};
    Pty *pty = prompt_start(TALK "|--stats", &(const PtyOptions){.env = env, .stdout_path = "/dev/null"});
    pty_send(pty, "Hello there.\n");
    pty_expect(pty, "[turn 1: ");
    pty_send(pty, "/edit\n");
    pty_expect(pty, "now:");
    pty_send(pty, "Hello again.\n");
    pty_expect(pty, "[turn 1: ");
    pty_send(pty, "/view\n");
    pty_expect(pty, "[user] Hello again.");
    pty_send(pty, "\004");
    pty_expect_exit(pty, 0);
    pty_end(pty);
}

// Scripts and `--jsonl` are two ways to say the same: the replies to the same turns are equal.
static void the_same_as_a_line_of_many(void **state) {
    (void)state;
    static const char *const HOW[] = {"|--temperature|0", "|--temperature|1"};
    for (int k = 0; k < 2; k++) {
        Run plain, many;
        char arguments[300], expected[2000] = "";
        snprintf(arguments, sizeof arguments, TALK "%s", HOW[k]);
        plain = program_script(arguments, "Hello there.\nAnd of Italy?\nWhy?\n");
        snprintf(arguments, sizeof arguments, TALK "|--jsonl%s", HOW[k]);
        many = program_script(arguments, "{\"turns\": [\"Hello there.\", \"And of Italy?\", \"Why?\"]}\n");
        json_t *answer = json_loads(many.out, 0, NULL);
        const json_t *messages = json_object_get(answer, "messages");
        assert_int_equal(json_array_size(messages), 6);
        for (size_t i = 1; i < 6; i += 2) {
            const json_t *message = json_array_get(messages, i);
            strcat(strcat(expected, json_string_value(json_object_get(message, "content"))), "\n");
        }
        assert_string_equal(plain.out, expected);
        json_decref(answer);
        program_free(&plain);
        program_free(&many);
    }
}

int main(int argc, char **argv) {
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_HOME(who_writes_never_waits),
        WITH_HOME(who_writes_slowly_gets_answers_meanwhile),
        WITH_HOME(ends_of_the_input),
        WITH_HOME(the_rest_is_left),
        WITH_HOME(a_terminal_is_left_to_the_editor),
        WITH_HOME(the_same_as_a_line_of_many),
    };
    return test_main("read_ahead", argc, argv, tests);
}
