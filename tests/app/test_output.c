// stdout that takes no more: whoever writes there says so and ends with another status than 0.
#include "tests/support/program.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#define ASK "$PALAVER " BABBLER " --template chatml --no-save --seed 1 --max-tokens 12 -p Hello"

// Long outputs fail in their middle, short ones at their end.
static void a_full_disk_is_no_success(void **state) {
    (void)state;
    static const char *const commands[] = {"--help",
                                           "--version",
                                           "config",
                                           "config --default",
                                           "list",
                                           "list --json",
                                           "inspect " BABBLER,
                                           "tokenize " BABBLER " Hello",
                                           "perplexity " BABBLER " LICENSE --context 512",
                                           BABBLER " --no-save -p Hello --max-tokens 3"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char command[200];
        Run run;
        snprintf(command, sizeof command, "$PALAVER %s >/dev/full", commands[i]);
        program_shell(&run, command);
        expect_status(&run, 1);
        expect_err(&run, "palaver: stdout: No space left on device\n");
        expect_no_err(&run, "memory");
        program_free(&run);
    }
}

// `| head` is what people do.
static void a_reader_that_leaves_is_no_news(void **state) {
    (void)state;
    Run run;
    program_shell(&run, "{ sleep 0.3; $PALAVER config --default; echo status $? >&2; } | sleep 0");
    expect_no_err(&run, "palaver:");
    expect_err(&run, "status 1");
    program_free(&run);
}

// Whoever made the pipes may have made them so that they do not block, for himself: they are waited for.
static void pipes_that_do_not_block(void **state) {
    (void)state;
    static const char *const commands[] = {
        "{ sleep 0.3; echo Hello; } | { loose 0; $PALAVER tokenize " BABBLER "; echo status $?; }",
        "{ sleep 0.3; echo Hello; } | { loose 0; " ASK " --stdin; echo status $?; }",
        "yes Hello | head -20000 | { loose 1; $PALAVER tokenize " BABBLER
        "; echo status $?; } | { sleep 0.5; cat; }"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char command[700];
        Run run;
        snprintf(command, sizeof command,
                 "loose() { python3 -c 'import fcntl, os, sys; fcntl.fcntl(int(sys.argv[1]), fcntl.F_SETFL, "
                 "os.O_NONBLOCK)' $1; }; %s",
                 commands[i]);
        program_shell(&run, command);
        expect_out(&run, "status 0");
        program_free(&run);
    }
}

// A signal ends what waits for a reader that does not read: the pipe is full by then.
static void who_does_not_read_is_left(void **state) {
    (void)state;
    static const char *const commands[][2] = {
        {"yes Hello | head -c 200000", "tokenize " BABBLER},
        {"yes Hello | head -c 200000", BABBLER " --no-save --echo -p x"},
        {"printf '{\"messages\": [{\"role\": \"assistant\", \"content\": \"%0200000d\"}]}\\n' 1",
         BABBLER " --jsonl"}};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char command[700];
        Run run;
        snprintf(
            command, sizeof command,
            "%s >$HOME/in; rm -f $HOME/full; mkfifo $HOME/full; exec 3<>$HOME/full; $PALAVER %s <$HOME/in "
            ">$HOME/full 3>&- & pid=$!; sleep 2; kill -TERM $pid; wait $pid; echo status $?",
            commands[i][0], commands[i][1]);
        program_shell(&run, command);
        expect_out(&run, "status 143");
        program_free(&run);
    }
}

// The reply fits, the newline that ends it does not: the file may have two blocks of 512 bytes.
static void the_end_of_a_reply_may_fail(void **state) {
    char command[400];
    Run run, again;
    program_shell(&run, ASK);
    expect_status(&run, 0);
    assert_true(run.out_size > 1 && run.out_size < 512 && run.out[run.out_size - 1] == '\n');
    snprintf(command, sizeof command,
             "head -c %zu /dev/zero >%s/out; ulimit -f 2; " ASK
             " >>%s/out; status=$?; wc -c <%s/out; exit $status",
             1024 - (run.out_size - 1), (char *)*state, (char *)*state, (char *)*state);
    program_shell(&again, command);
    expect_status(&again, 1);
    expect_out(&again, "1024");
    expect_err(&again, "palaver: stdout: File too large");
    program_free(&run);
    program_free(&again);
}

// Weights that are no numbers give none: an error, where "nan" would look like a result.
static void a_damaged_model_has_no_perplexity(void **state) {
    char command[400];
    Run run;
    snprintf(command, sizeof command,
             "cp -r " BABBLER " %s/m && chmod -R u+w %s/m && n=$(wc -c <%s/m/model.safetensors) && "
             "tr '\\0' '\\377' </dev/zero | head -c 64 | dd of=%s/m/model.safetensors bs=1 seek=$((n - 64)) "
             "conv=notrunc 2>/dev/null && $PALAVER perplexity %s/m LICENSE --context 512",
             (char *)*state, (char *)*state, (char *)*state, (char *)*state, (char *)*state);
    program_shell(&run, command);
    assert_int_not_equal(run.status, 0);
    expect_err(&run, "a logit is not a number: the model or its file is damaged");
    assert_null(strstr(run.out, "nan"));
    program_free(&run);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_full_disk_is_no_success, program_set_up, program_tear_down),
        cmocka_unit_test_setup_teardown(a_reader_that_leaves_is_no_news, program_set_up, program_tear_down),
        cmocka_unit_test_setup_teardown(pipes_that_do_not_block, program_set_up, program_tear_down),
        cmocka_unit_test_setup_teardown(who_does_not_read_is_left, program_set_up, program_tear_down),
        cmocka_unit_test_setup_teardown(the_end_of_a_reply_may_fail, program_set_up, program_tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_model_has_no_perplexity, program_set_up, program_tear_down),
    };
    return test_main("output", argc, argv, tests);
}
