// What is foreign and shown: settings of other hands are told harmlessly, and `palaver config` tells what a chat would
// use.
#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// What a terminal would obey: ESC, a C1 CSI, and an override of the direction.
#define CSI "\xc2\x9b"
#define OVERRIDE "\xe2\x80\xae"

static void expect_harmless(const Run *run) {
    const char *texts[] = {run->out, run->err};
    for (int i = 0; i < 2; i++)
        if (strstr(texts[i], CSI) || strstr(texts[i], OVERRIDE) || strchr(texts[i], '\033'))
            fail_msg("harmful: %s", texts[i]);
}

// Runs the program in a folder whose palaver.toml is somebody else's.
static Run run_in(const char *home, const char *toml, const char *arguments) {
    char *folder = folder_new(), here[500], command[1500];
    Run run;
    (void)home;
    folder_write_text(folder, "palaver.toml", toml);
    assert_non_null(getcwd(here, sizeof here));
    snprintf(command, sizeof command, "P=$(realpath $PALAVER); cd %s && LSAN_OPTIONS=detect_leaks=0 $P %s",
             folder, arguments);
    program_shell(&run, command);
    folder_remove(folder);
    return run;
}

static void test_settings_of_other_hands(void **state) {
    Run run = run_in(*state, "[sampling]\nstop = [\"a" CSI "31m\", \"" OVERRIDE "b\"]\n", "config");
    expect_status(&run, 0);
    expect_out(&run, "[\"a\\u009B31m\", \"\\u202Eb\"]"); // TOML for the same
    expect_harmless(&run);
    program_free(&run);
    run = run_in(*state, "[sampling]\n\"temp" OVERRIDE CSI "31m\" = 1\n", "config");
    expect_status(&run, 2);
    expect_err(&run, "palaver: ");
    expect_harmless(&run);
    program_free(&run);
    program_run(&run, "--" OVERRIDE CSI "31m=1", "");
    expect_status(&run, 2);
    expect_harmless(&run);
    program_free(&run);
    program_run(&run, "no" OVERRIDE "such" CSI "model", "");
    expect_status(&run, 3);
    expect_harmless(&run);
    program_free(&run);
    program_run(&run, "tokenize|" BABBLER "|a" CSI OVERRIDE "\033", "");
    expect_status(&run, 0);
    expect_harmless(&run);
    program_free(&run);
}

// A model with recommendations beside it, alone in the models folder: what a chat takes without being told.
static void test_config_tells_what_a_chat_uses(void **state) {
    char path[400], target[1000];
    Run run, chat;
    snprintf(path, sizeof path,
             "mkdir -p %s/palaver/models/babbler && cp " BABBLER "/* %s/palaver/models/babbler/",
             (char *)*state, (char *)*state);
    assert_int_equal(system(path), 0);
    snprintf(path, sizeof path, "%s/palaver/models/babbler/palaver.toml", (char *)*state);
    FILE *file = fopen(path, "w");
    fputs("[sampling]\ntemperature = 0.25\n", file);
    fclose(file);
    for (int i = 0; i < 3; i++) {
        static const char *const configs[] = {"config", "config|babbler", "config|--top-k=7"};
        program_run(&run, configs[i], "");
        expect_status(&run, 0);
        expect_out(&run, "temperature       = 0.25 ");
        expect_out(&run, "models/babbler/palaver.toml:2");
        program_free(&run);
    }
    program_run(&chat, "--threads=1", "/set temperature\n");
    expect_err(&chat, "temperature = 0.25  (");
    expect_err(&chat, "models/babbler/palaver.toml:2)");
    program_free(&chat);
    program_run(&run, "config|--temperature=0.75", "");
    expect_out(&run, "temperature       = 0.75 ");
    program_free(&run);
    program_run(&run, "config|no-such-model", "");
    expect_status(&run, 3);
    program_free(&run);
    assert_non_null(realpath(BABBLER, target)); // another one, asked for by the settings
    setenv("PALAVER_MODEL_PATH", target, 1);
    program_run(&run, "config", "");
    expect_status(&run, 0);
    expect_out(&run, target);
    assert_null(strstr(run.out, "0.25"));
    program_free(&run);
    setenv("PALAVER_MODEL_PATH", "/nowhere", 1);
    program_run(&run, "config", "");
    expect_status(&run, 0);
    expect_err(&run, "[what a model recommends is not in here: ");
    expect_err(&run, "/nowhere: ");
    program_free(&run);
    unsetenv("PALAVER_MODEL_PATH");
}

int main(int argc, char **argv) {
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_HOME(test_settings_of_other_hands),
        WITH_HOME(test_config_tells_what_a_chat_uses),
    };
    return test_main("shown", argc, argv, tests);
}
