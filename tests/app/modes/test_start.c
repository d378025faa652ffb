// How the program begins, and ends where it cannot: flags, names of models, exit statuses.
#include "tests/support/program.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Short replies, always the same.
#define TALK BABBLER "|--seed=1|--max-tokens=6|--threads=1"

static void test_exit_statuses_of_the_start(void **state) {
    (void)state;
    Run run;
    program_run(&run, "--tempertaure=1", "");
    expect_status(&run, 2);
    expect_err(&run, "palaver: unknown flag --tempertaure: did you mean --temperature?");
    program_free(&run);
    program_run(&run, TALK "|--temperature=-1", "");
    expect_status(&run, 2);
    program_free(&run);
    program_says("What is 2+2?", "", 3, "a question goes behind -p: palaver -p 'What is 2+2?'");
    program_says("--resume=", "", 2, "palaver: a name is missing: which conversation?");
    program_says("--resume||" TALK, "", 2, "palaver: a name is missing: which conversation?");
    static const char *const ARGUMENTS[] = {"{", "[1]", "{\"messages\": []}", "{\"bos_token\": \"\"}"};
    for (int i = 0; i < 4; i++) {
        char line[200];
        snprintf(line, sizeof line, TALK "|--template-args=%s", ARGUMENTS[i]);
        program_says(line, "", 2, "allowed is a JSON object of variables (not messages, tools, bos_token ");
    }
    program_run(&run, "", ""); // the model that comes with palaver
    expect_status(&run, 0);
    expect_err(&run, "make model");
    program_free(&run);
    program_run(&run, "no-such-model", "");
    expect_status(&run, 3);
    expect_err(&run, "no-such-model: no such file, nor a model that is here");
    program_free(&run);
    program_run(&run, "no/such/model.gguf", "");
    expect_status(&run, 3);
    program_free(&run);
    program_run(&run, "tests/golden", "");
    expect_status(&run, 3);
    program_free(&run);
    program_run(&run, "lst", "");
    expect_status(&run, 3);
    expect_err(&run, "did you mean \"palaver list\"?");
    program_free(&run);
    program_run(&run, "--help", "");
    expect_status(&run, 0);
    expect_out(&run, "palaver [MODEL]");
    program_free(&run);
    program_run(&run, BABBLER "|--ordered", "");
    expect_status(&run, 2);
    program_free(&run);
    program_run(&run, BABBLER "|--resume", "");
    expect_status(&run, 1);
    program_free(&run);
}

// Beyond what a model is made for nothing fails: it only stops making sense.
static void test_a_context_too_long_for_the_model_is_told(void **state) {
    (void)state;
    Run run;
    program_says(TALK "|--context=1025", "Hello.\n", 0,
                 "[a context of 1025 tokens, and the model is made for 1024: ");
    program_run(&run, TALK "|--context=1024", "Hello.\n");
    expect_status(&run, 0);
    expect_no_err(&run, "made for");
    program_free(&run);
}

// A folder's name may be any bytes; the journal names it all the same.
static void test_a_folder_that_is_no_utf8(void **state) {
    char command[400];
    Run run;
    snprintf(command, sizeof command,
             "d=$(printf '%s/b\\377d') && cp -r " BABBLER
             " $d && echo Hi | $PALAVER $d --max-tokens 2 --threads 1",
             (char *)*state);
    program_shell(&run, command);
    expect_status(&run, 0);
    expect_no_err(&run, "palaver: ");
    program_free(&run);
}

static void test_a_model_by_its_name(void **state) {
    char path[200], target[1000];
    Run run;
    snprintf(path, sizeof path, "%s/palaver", (char *)*state);
    assert_int_equal(mkdir(path, 0700), 0);
    strcat(path, "/models");
    assert_int_equal(mkdir(path, 0700), 0);
    strcat(path, "/babbler");
    assert_non_null(realpath(BABBLER, target));
    assert_int_equal(symlink(target, path), 0);
    program_run(&run, "babbler|--max-tokens=2", "Hello\n");
    expect_status(&run, 0);
    program_free(&run);
    program_run(&run, "--max-tokens=2", "Hello\n"); // the only one there
    expect_status(&run, 0);
    program_free(&run);
    program_run(&run, "bablber", "");
    expect_status(&run, 3);
    expect_err(&run, "did you mean babbler?");
    program_free(&run);
}

int main(int argc, char **argv) {
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_HOME(test_exit_statuses_of_the_start),
        WITH_HOME(test_a_context_too_long_for_the_model_is_told),
        WITH_HOME(test_a_folder_that_is_no_utf8),
        WITH_HOME(test_a_model_by_its_name),
    };
    return test_main("start", argc, argv, tests);
}
