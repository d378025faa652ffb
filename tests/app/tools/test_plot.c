// palaver bench --plot: a picture of the speed, by cached tokens and by conversations at once.
#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#define BENCH "bench|" BABBLER "|--device=cpu|--threads=1|--prefill=32|--decode=4|--depth=64"

static void test_the_picture(void **state) {
    char arguments[600], path[200];
    Run run;
    snprintf(path, sizeof path, "%s/speed.svg", (char *)*state);
    snprintf(arguments, sizeof arguments, BENCH "|--parallel=4|--plot=%s", path);
    program_run(&run, arguments, "");
    expect_status(&run, 0);
    program_free(&run);
    snprintf(arguments, sizeof arguments,
             "python3 -c 'import sys, xml.dom.minidom as m; d = m.parse(sys.argv[1]); "
             "print(*(t.firstChild.data for t in d.getElementsByTagName(\"text\")), sep=\"\\n\"); "
             "print(len(d.getElementsByTagName(\"polyline\")), \"lines\")' %s",
             path);
    program_shell(&run, arguments);
    expect_status(&run, 0);
    expect_out(&run, "babbler\ncpu: 1 thread");
    expect_out(&run, "\ntokens a second, one conversation\n");
    expect_out(&run, "\ntokens in the cache\n");
    expect_out(&run, "\nconversations at once\n2 lines\n");
    program_free(&run);
}

// A place where nothing can be written is told of before anything is measured.
static void test_nowhere(void **state) {
    (void)state;
    Run run;
    program_run(&run, BENCH "|--plot=/no/such/folder/speed.svg", "");
    expect_status(&run, 1);
    expect_err(&run, "/no/such/folder/speed.svg");
    assert_string_equal(run.out, "");
    program_free(&run);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_picture, program_set_up, program_tear_down),
        cmocka_unit_test_setup_teardown(test_nowhere, program_set_up, program_tear_down),
    };
    return test_main("plot", argc, argv, tests);
}
