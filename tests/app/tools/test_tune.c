// `palaver tune` and what it keeps, through the program: without a GPU, and with the plug-in for tests
// (tests/plugin/faulty.c), whose linear layers have made-up times.
#include "tests/support/program.h"
#include "tests/support/test.h"
#include "kernels/base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEPT "/.cache/palaver/dispatch/Paper-Tiger-70.h"

static char plain_program[300]; // the tested one, without a plug-in

static void run_with_gpu(Run *run, const char *arguments, const char *input) {
    char path[400];
    const char *slash = strrchr(plain_program, '/');
    snprintf(path, sizeof path, "%.*s/faulty/palaver", slash ? (int)(slash - plain_program) : 1,
             slash ? plain_program : ".");
    setenv("PALAVER", path, 1);
    program_run(run, arguments, input);
    setenv("PALAVER", plain_program, 1);
}

static void without_a_gpu_there_is_nothing_to_tune(void **state) {
    (void)state;
    Run run;
    program_run(&run, "tune|" BABBLER, "");
    expect_status(&run, 1);
    expect_err(&run, "there is nothing to tune here");
    expect_err(&run, "no CUDA plug-in");
    assert_int_equal(run.out_size, 0);
    program_free(&run);
    program_run(&run, "tune|/no/such/model", ""); // nothing of it is looked at
    expect_status(&run, 1);
    program_free(&run);
    program_run(&run, "tune|" BABBLER "|--device|cpu", "");
    expect_status(&run, 1);
    expect_err(&run, "there is nothing to tune on device \"cpu\"");
    program_free(&run);
    program_run(&run, "bench|--dispatch|" BABBLER "|--device|cpu", "");
    expect_status(&run, 3);
    expect_err(&run, "there is nothing to tune");
    program_free(&run);
}

static void what_does_not_belong_is_refused(void **state) {
    (void)state;
    static const char *const CASES[][2] = {
        {BABBLER "|--dispatch", "--dispatch belong to palaver bench"},
        {"tune|" BABBLER "|--dispatch", "--dispatch belong to palaver bench"},
        {"bench|" BABBLER "|--dispatch|--decode|4", "measures linear layers, and nothing else"},
        {"tune|" BABBLER "|--prefill|4", "belong to palaver bench"},
        {"tune|" BABBLER "|--temperature|0", "--temperature has no meaning for palaver tune"},
        {"bench|no-such-model|--parallel|2|--shared|513",
         "--shared 513: the prompts have 512 tokens (--prefill)"},
        {"bench|--shape|llama2-7b|--parallel|2|--prefill|8|--shared|9",
         "--shared 9: the prompts have 8 tokens"},
        {"tune|--shape|nosuch", "no shape \"nosuch\": there are "},
        {"tune|--shape|llama2-7b|--weights|nosuch", "--weights nosuch: no such type; "},
        {BABBLER "|--shape|llama2-7b", "--shape belongs to palaver bench and palaver tune"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Run run;
        program_run(&run, CASES[i][0], "");
        expect_status(&run, 2);
        expect_err(&run, CASES[i][1]);
        program_free(&run);
    }
}

// The one file below the home's cache, or "".
static void find_kept(const char *home, char path[600]) {
    Run run;
    char command[700];
    snprintf(command, sizeof command, "find '%s/.cache/palaver' -type f 2>/dev/null; true", home);
    program_shell(&run, command);
    snprintf(path, 600, "%.*s", (int)strcspn(run.out, "\n"), run.out);
    program_free(&run);
}

static void tuning_keeps_what_later_runs_go_by(void **state) {
    Run run;
    char path[600], *text;
    size_t size;
    Error error;
    unsetenv("XDG_CACHE_HOME");
    run_with_gpu(&run, "bench|--dispatch|" BABBLER, "");
    expect_status(&run, 0);
    expect_out(&run, "dispatch  built in for paper tigers");
    expect_out(&run, "library, 5.00 times GEMV");
    expect_out(&run, "within 1.02 times the best: 20 of 120; worst 5.00 (qkv, 1 rows)");
    program_free(&run);

    run_with_gpu(&run, "tune|" BABBLER, "");
    expect_status(&run, 0);
    expect_out(&run, "card      Paper Tiger, reads 123 GB/s");
    expect_out(&run, "qkv       [100, 64] f16            1 to 2       3 to 64      from 65");
    program_free(&run);
    find_kept(*state, path);
    assert_non_null(strstr(path, KEPT));
    assert_int_equal(file_read(path, 1 << 16, &text, &size, &error), STATUS_OK);
    assert_non_null(
        strstr(text, "n_out = 104\nn_in = 64\ntype = \"f16\"\nflat_from = 3\nlibrary_from = 65\n"));
    free(text);

    run_with_gpu(&run, "bench|--dispatch|" BABBLER, "");
    expect_status(&run, 0);
    expect_out(&run, "dispatch  measured 20");
    expect_out(&run, "within 1.02 times the best: 120 of 120; worst 1.00");
    program_free(&run);
    run_with_gpu(&run, BABBLER "|--max-tokens|8", "Hello\n/stats\n");
    expect_status(&run, 0);
    expect_err(&run, "dispatch      measured 20");
    expect_err(&run, "% of the card's)");
    expect_no_err(&run, "is not used");
    program_free(&run);
}

static void a_file_that_is_damaged_is_told_of_and_made_anew(void **state) {
    Run run;
    char path[600];
    Error error;
    unsetenv("XDG_CACHE_HOME");
    run_with_gpu(&run, "tune|" BABBLER, "");
    expect_status(&run, 0);
    program_free(&run);
    find_kept(*state, path);
    assert_int_equal(file_write(path, "version = 2\nhello = 2\n", 22, 0644, &error), STATUS_OK);
    run_with_gpu(&run, BABBLER "|--max-tokens|8", "Hello\n/stats\n");
    expect_status(&run, 0);
    expect_err(&run, "hello: no key of such a file: it is not used; palaver tune makes it anew]");
    expect_err(&run, "dispatch      built in for paper tigers");
    program_free(&run);
    run_with_gpu(&run, "tune|" BABBLER, "");
    expect_status(&run, 0);
    program_free(&run);
    run_with_gpu(&run, "bench|" BABBLER "|--prefill|8|--decode|4|--context|64", "");
    expect_status(&run, 0);
    expect_out(&run, "dispatch  measured 20");
    expect_out(&run, "% of the card's (median");
    program_free(&run);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_a_gpu_there_is_nothing_to_tune, program_set_up,
                                        program_tear_down),
        cmocka_unit_test_setup_teardown(what_does_not_belong_is_refused, program_set_up, program_tear_down),
        cmocka_unit_test_setup_teardown(tuning_keeps_what_later_runs_go_by, program_set_up,
                                        program_tear_down),
        cmocka_unit_test_setup_teardown(a_file_that_is_damaged_is_told_of_and_made_anew, program_set_up,
                                        program_tear_down),
    };
    snprintf(plain_program, sizeof plain_program, "%s", program_path());
    return test_main("tune", argc, argv, tests);
}
